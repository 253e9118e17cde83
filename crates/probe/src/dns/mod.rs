//! Measures name resolution, query by query over sockets of its own: a resolver library hides what
//! each server did.
//!
//! ```text
//! Config (resolv.conf) ─► look_up      what glibc sends, in its order, until an answer
//!                     └─► survey       every server on its own, asked twice ─► judge ─► Finding
//!                           └─► expect what getaddrinfo would have waited, from those answers
//! trace: from given root servers down, referral by referral
//! ```
//!
//! Read first: RFC 1034 §5 and RFC 1035 §4 (messages), RFC 6891 (EDNS), resolv.conf(5),
//! `res_send.c` and `res_query.c` of glibc.

mod ask;
mod config;
mod hosts;
mod judge;
mod message;
mod survey;
mod trace;
mod walk;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;

pub use ask::{Query, QueryOutcome, Transport, ask, ask_tcp};
pub use config::{Config, ConfigError};
pub use hosts::Hosts;
pub use judge::{Evidence, Judged, judge};
pub use message::{NameError, Record, RecordType, Referral, check_name, record_type};
pub use survey::{Cache, Round, ServerSurvey, Survey, survey, survey_limits};
pub use trace::{Hop, Trace, trace};
pub use walk::{Ended, Lookup, Mode, expect, expect_each, look_up, look_up_limits};
