//! Application framing: finds where requests and responses begin and end in a byte stream.
//!
//! A [`Framer`] belongs to one connection and is given its bytes in order, both directions
//! interleaved as they were captured. It reports [`Mark`]s. It never copies payload that it does
//! not need, and keeps no values, only kinds (`GET /items/{id}`, `SELECT`, `HGET`).
//!
//! ```text
//! push ─► Framer ─► Sniffer (which protocol?) ─► Http | Tls | Redis | … ─► Exchanges ─► Marks
//!            └ skips bodies without looking                    (keeps the order of marks)
//! ```
//!
//! # What a caller may rely on
//! Whatever the bytes, the marks of one connection obey these rules ([`Exchanges`] enforces them,
//! not the parsers):
//! 1. A request is `RequestStart`, then `NotDue` if no answer is due, then at most one `Kind` and at most one `RequestHeaderEnd`,
//!    then `RequestEnd`. Requests do not overlap: before the next `RequestStart` comes the
//!    `RequestEnd` of the one before. Only at the end of the capture may a request lack its end.
//! 2. A response is `ResponseStart`, at most one `ResponseHeaderEnd`, at most one `ResponseEnd`;
//!    `Error`, `RetryAfter` and `LastResponse` may come between them. (That of a TLS handshake comes without a response.)
//!    Responses do not overlap: `ResponseStart` answers the oldest unanswered request, and a
//!    response without `ResponseEnd` ends with the last server byte before the next one's start.
//!    A `ResponseStart` with no unanswered request begins an unsolicited message of the server.
//! 3. `Interim` revokes the `ResponseStart` before it: the request is unanswered again.
//! 4. A response may begin, and end, before its request has ended (RFC 9112 §9.5), but not
//!    before it has begun.
//! 5. `Desync` drops all unanswered requests except the newest; the others get no more marks.
//!    The response in progress continues, without a `ResponseEnd`, until the next begins. So does
//!    `Overtaken`, behind which the marks of the newest go on as usual.
//! 6. `HandshakeStart`, `HelloAgain` and `HandshakeEnd` come in this order, the first and the last at most
//!    once, and `Kind`, `Software` are at most [`LABEL_BYTES`] long.
//! 7. `Request` and `Response` replace all marks of a message, in order and at their positions.
//! 8. Marks do not depend on how the bytes are divided into pushes: the same bytes have the same
//!    marks at the same positions of the stream.
//! 9. `Proceeds` comes right behind a `ResponseEnd` while another request is unanswered.
//! 10. Where the protocol does not show the end of a request, bytes of the client continue it until
//!     the server answers. So a second `RequestStart` in one push, or without an answer in between,
//!     is that of a pipelined request: the ends of both are known.

mod amqp;
mod calls;
mod commands;
mod dialogue;
mod dns;
mod error_code;
mod error_subject;
mod exchanges;
mod flow_control;
mod framer;
mod frames;
mod hello;
mod hpack;
mod http;
mod http_header;
mod huffman;
mod kind;
mod known;
mod line_ends;
mod lines;
mod listed;
mod machine;
mod mark;
mod memcached;
mod mysql;
mod packets;
mod postgres;
mod protocol;
mod query_attributes;
mod redis;
mod reply;
mod request_headers;
mod sender_side;
mod sniff;
mod software;
mod sql;
mod streams;
#[cfg(test)]
mod tests;
mod thresholds;
mod tls;
mod words;

pub(crate) use amqp::skeleton as amqp_skeleton;
pub(crate) use commands::LOGINS;
pub use dialogue::Refused;
pub use error_code::ErrorCode;
pub(crate) use error_code::redis_code;
pub use error_subject::Subject;
pub use flow_control::{Credit, Passing};
pub use framer::Framer;
pub(crate) use framer::Part;
pub(crate) use hello::{ClientHello, ServerHello, skeleton as hello_skeleton};
pub(crate) use http_header::{chunk_size, is_method_byte, status_line};
pub use kind::{LABEL_BYTES, Label, redirect};
pub use known::KnownHeaders;
pub(crate) use listed::{LINE_TOKENS, METHODS, REDIS_COMMANDS, REDIS_SUBCOMMANDS};
pub use mark::{Extent, Mark, Stated};
pub(crate) use postgres::{CANCEL, STARTUP};
pub use protocol::Protocol;
pub use reply::{EnhancedStatus, Service};
pub use sender_side::sender_side;
pub(crate) use software::known_products;
pub use software::name_of as software_name;
pub(crate) use sql::verb_range;
pub use tls::Opening;
pub(crate) use words::{ends_at, is_listed, is_plain, words};
