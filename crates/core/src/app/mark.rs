//! The marks that framers report.

use super::error_code::ErrorCode;
use super::kind::Label;

/// The ends of the parts of a message, in bytes from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// End of the start line.
    pub start_line: u32,
    /// End of the header.
    pub header: u32,
    /// End of the message.
    pub message: u32,
}

/// The software that a message states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    /// The name of the software.
    pub name: Box<str>,
    /// End of the line that states it, in bytes from the message's first byte.
    pub end: u32,
}

/// One report of a framer. Each comes with the number of bytes of the current push before it, so
/// that the caller knows which segment carried it. The order of marks is guaranteed: see the
/// [module's documentation](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// The first byte of a request follows. (In TLS, `RequestStart` and `ResponseStart` follow the
    /// header of the record that carries the byte.)
    RequestStart,
    /// The request came behind one that ends the connection (RFC 9112 §9.6): no answer is due. Comes right
    /// behind `RequestStart`.
    NotDue,
    /// The request is of this kind; comes between `RequestStart` and `RequestEnd`.
    Kind(&'a Label),
    /// The request's header is complete; a body follows.
    RequestHeaderEnd {
        /// `true` for `Expect: 100-continue` (RFC 9110 §10.1.1).
        expects_continue: bool,
    },
    /// The request is complete.
    RequestEnd,
    /// The first byte of the response to the oldest unanswered request follows. If there is no such
    /// request, the server sends the first message (a greeting).
    ResponseStart,
    /// The response that the last `ResponseStart` began was an interim response (RFC 9110 §15.2),
    /// such as 100 Continue, and is complete. The request is unanswered again: the `ResponseStart`
    /// of its final response follows later.
    Interim {
        /// The status code, 100 to 199.
        status: u16,
    },
    /// The response in progress states that its server closes the connection (RFC 9112 §9.6): no answer is
    /// due to the requests that wait behind it.
    LastResponse,
    /// The response's header is complete; a body follows.
    ResponseHeaderEnd {
        /// The status code (HTTP), or 0.
        status: u16,
    },
    /// The response in progress, or a message of the TLS handshake in progress, reports an error.
    /// The codes of HTTP/1 are those of `ResponseHeaderEnd` and `Response`.
    Error(ErrorCode),
    /// The response in progress, which refuses the request for now, states when the client may try
    /// again (RFC 9110 §10.2.3).
    RetryAfter {
        /// The delay, seconds.
        seconds: u32,
    },
    /// The response is complete. It is never marked if the protocol does not show it (turns): the
    /// response then ends with its last byte before the next request.
    ResponseEnd,
    /// A request that is complete in this push and begins with the next byte: replaces
    /// `RequestStart`, `Kind`, `Software` if it is stated for the first time, `RequestHeaderEnd`
    /// without expectation, and `RequestEnd`.
    Request {
        /// Kind of the request.
        kind: &'a Label,
        /// Ends of the parts of the request.
        extent: Extent,
        /// The software of its sender, if it is stated for the first time.
        software: Option<&'a Stated>,
    },
    /// A response that is complete in this push and answers a waiting request: replaces
    /// `ResponseStart`, `Software` if it is stated for the first time, `ResponseHeaderEnd` and
    /// `ResponseEnd`.
    Response {
        /// The status code.
        status: u16,
        /// Ends of the parts of the response.
        extent: Extent,
        /// The software of its sender, if it is stated for the first time.
        software: Option<&'a Stated>,
    },
    /// The sender of these bytes states this software (`Server:` header and the like).
    Software(&'a str),
    /// A TLS handshake begins with the ClientHello that follows.
    HandshakeStart,
    /// A second ClientHello follows, which the server asked for by a HelloRetryRequest (RFC 8446 §4.1.4).
    HelloAgain,
    /// The handshake is complete: application data follows. Reported at the client's first
    /// application record or at the end of the last Finished (TLS 1.3: the client's; TLS 1.2: the
    /// later of both), whichever comes first.
    HandshakeEnd {
        /// `true` if the session was resumed (abbreviated handshake, or TLS 1.3 without a
        /// certificate).
        resumed: bool,
        /// Bytes of the server's certificate flight, 0 if it was not seen.
        certificate_bytes: u32,
        /// `true` if the version is TLS 1.3.
        is_tls13: bool,
    },
    /// Bytes are missing or invalid for the protocol: from here on exchanges are turns of direction
    /// until the next message is recognised.
    Desync,
    /// The server works on the next of several requests from here on: it takes one after the other.
    Proceeds,
    /// A response came before those of earlier requests, or these were no requests.
    Overtaken,
}
