//! The shared vocabulary: causes, owners of time, slices, vantages, latencies, and the report as data.
//!
//! Everything above this room speaks in these types; what renders them is [`crate::report`].

mod cause;
pub mod experiment;
mod histogram;
mod places;
mod report;
mod shares;
mod sighting;
mod slices;
pub mod template;
pub mod units;
mod window;

pub use cause::{Cause, Class, Owner, Role};
pub use histogram::Histogram;
pub use places::{Clocks, Crossing, Place};
pub use report::*;
pub use shares::Shares;
pub use sighting::Sighting;
pub use slices::{Slice, Slices};
pub use window::Window;

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
