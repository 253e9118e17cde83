//! What tcpwhy says: one model, shown as text, JSON and flow ladders.
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
mod model;
pub(crate) mod phrases;
mod shares;
mod style;
pub mod template;
pub mod text;
pub mod units;

pub use commands::{draw, treat, verify};
pub use ladder::{Beyond, Ladder, LadderStep, Step};
pub use layout::{Page, columns_of, cut, left, right};
pub use manual::{manual_json, render_manual};
pub use model::*;
pub use phrases::{Fix, Phrases};
pub use shares::Shares;
pub use style::{Glyphs, Look, Paint};

use crate::app::Protocol;

/// The public id of a protocol, as it stands in JSON and reports.
pub fn protocol_id(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Turns => "turns",
        Protocol::Http1 => "http1",
        Protocol::Tls => "tls",
        Protocol::Redis => "redis",
        Protocol::Postgres => "postgres",
        Protocol::Mysql => "mysql",
        Protocol::Dns => "dns",
        Protocol::Http2 => "http2",
        Protocol::Mqtt => "mqtt",
    }
}

/// The public id of a vantage, as it stands in JSON.
pub fn vantage_id(vantage: Vantage) -> &'static str {
    match vantage {
        Vantage::Unknown => "unknown",
        Vantage::Client => "client",
        Vantage::Server => "server",
        Vantage::Middle => "middle",
        Vantage::Local => "local",
        Vantage::Mixed => "mixed",
    }
}
