//! Renders reports: one model, shown as text, JSON and flow ladders.
//!
//! ```text
//! Report ─► phrases ─► text   (terminal)
//!           words      json   (schema version 1)
//! Ladder ────────────► text, comments at frames
//! Comparison ────────► text, JSON (its own schema)
//! ```

mod commands;
pub mod comments;
pub mod comparison;
pub mod json;
mod ladder;
mod layout;
mod manual;
pub(crate) mod phrases;
mod style;
pub mod text;
mod why;

pub use commands::{draw, named, treat, verify};
pub use ladder::{Beyond, Label, Ladder, LadderStep, Mark, Named, Remark, SegmentLabel, Step};
pub use layout::{Page, columns_of, cut, left, right};
pub use manual::{manual_json, render_case, render_manual};
pub use phrases::{Fix, Phrases};
pub use style::{Glyphs, Look, Paint, inert, pieces};
pub use why::{Decided, Why};
