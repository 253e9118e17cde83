//! HTTP/1.1 of a measuring client (RFC 9112): the bytes of a request, and the begin and end of a
//! response in the received bytes.

mod request;
mod response;

pub use request::Request;
pub use response::{Progress, Response, ResponseError, ResponseReader};
