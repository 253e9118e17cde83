//! Application framing: where in a byte stream a request and its response begin and end.
//!
//! A [`Framer`] belongs to one connection and is given its bytes in order, both directions
//! interleaved as they were captured. It answers with [`Mark`]s. It never copies payload that
//! it does not need and keeps no values, only kinds (`GET /items/{id}`, `SELECT`, `HGET`).

mod mark;

pub use mark::{Mark, Protocol, Side};
