//! The shared vocabulary: causes, owners of time, slices, vantages, latencies, and the report as
//! data.
//!
//! All modules above use these types; [`crate::report`] renders them.

mod cause;
mod cause_set;
mod checked;
pub mod clean;
pub mod experiment;
mod histogram;
mod language;
mod ledger;
mod lookup;
mod nothing;
mod outcome;
mod places;
mod prediction;
pub mod quic;
mod report;
#[cfg(any(test, feature = "schemas"))]
mod schema;
mod shares;
mod sighting;
mod slices;
pub mod template;
pub mod units;
mod vocabulary;
mod window;

pub use cause::{Cause, Clearest, Family};
pub use cause_set::CauseSet;
pub use checked::{Checked, Verdict};
pub use histogram::Histogram;
pub use language::{Glue, Language};
pub use ledger::Ledger;
pub use lookup::{LookupMessage, LookupReport, LookupStep};
pub use nothing::NothingToJudge;
pub use outcome::{Outcome, OutcomeKind, Outcomes};
pub use places::{Clocks, Crossing, Place};
pub use prediction::Prediction;
pub use report::*;
#[cfg(any(test, feature = "schemas"))]
pub(crate) use schema::numbers_by_id;
pub use shares::Shares;
pub use sighting::Sighting;
pub use slices::{Reassigned, Slice, Slices};
pub use vocabulary::{Class, Owner, Role};
pub use window::Window;

/// Returns the public id of a vantage, as used in JSON.
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
