//! HTTP of a measuring client. HTTP/1.1 (RFC 9112): composes requests, and finds the begin and end of
//! responses in the received bytes. HTTP/2: [`http2`].

mod answers;
mod grpc;
pub mod http2;
mod request;
mod response;
mod versions;
mod websocket;

pub use answers::{Answers, Limited};
pub use grpc::Health;
pub use request::Request;
pub use response::{Progress, Response, ResponseError, ResponseReader, RetryAfter};
pub use versions::HttpVersions;
pub use websocket::Handshake;
