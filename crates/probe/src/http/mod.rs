//! HTTP/1.1 as a client that measures speaks it (RFC 9112): the bytes of a request, and where a response
//! begins and ends in the bytes that came.

mod request;
mod response;

pub use request::Request;
pub use response::{Progress, Response, ResponseError, ResponseReader};
