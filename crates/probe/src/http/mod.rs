//! HTTP/1.1 of a measuring client (RFC 9112): composes requests, and finds the begin and end of
//! responses in the received bytes.

mod answers;
pub mod http2;
mod request;
mod response;

pub use answers::{Answers, Limited};
pub use request::Request;
pub use response::{Progress, Response, ResponseError, ResponseReader, RetryAfter};
