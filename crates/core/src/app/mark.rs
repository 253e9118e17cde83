//! What framers say about the bytes they were given.

use super::kind::Label;

/// Who sent the bytes. The client is the side that sent the SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The side that opened the connection.
    #[default]
    Client,
    /// The side that accepted it.
    Server,
}

impl Side {
    /// `client` or `server`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// Both sides.
    pub const ALL: [Self; 2] = [Self::Client, Self::Server];

    /// The other side.
    pub fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// The application protocol spoken on a connection, as far as it was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Protocol {
    /// Not recognised: exchanges are turns of direction.
    #[default]
    Turns,
    /// HTTP/1.0 or HTTP/1.1 (RFC 9112).
    Http1,
    /// TLS records (RFC 8446, RFC 5246); the exchanges inside are turns of direction.
    Tls,
    /// Redis serialization protocol.
    Redis,
    /// PostgreSQL frontend/backend protocol 3.
    Postgres,
    /// MySQL client/server protocol.
    Mysql,
    /// DNS over TCP (RFC 7766).
    Dns,
    /// HTTP/2 without TLS (RFC 9113); what is asked is not read.
    Http2,
    /// MQTT 3.1 to 5.0.
    Mqtt,
}

/// How far the parts of a message reach from its first byte, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The line that says what it is.
    pub start_line: u32,
    /// All of the header.
    pub header: u32,
    /// The whole message.
    pub message: u32,
}

/// What a message says its sender is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    /// The name.
    pub name: Box<str>,
    /// Where the line that says so ends, from the message's first byte, bytes.
    pub end: u32,
}

/// One thing a framer found. Each comes with the number of bytes of the current push that lie
/// before it, so that the caller knows which segment carried it. The order in which marks come
/// is guaranteed: see the [module's documentation](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// The first byte of a request follows. (In TLS it follows the header of the record that
    /// carries it, and so with `ResponseStart`.)
    RequestStart,
    /// The request is of this kind; comes between `RequestStart` and `RequestEnd`.
    Kind(&'a Label),
    /// The request's header is complete, a body follows.
    RequestHeaderEnd {
        /// `Expect: 100-continue` (RFC 9110 §10.1.1) was asked.
        expects_continue: bool,
    },
    /// The request is complete.
    RequestEnd,
    /// The first byte of the response to the oldest unanswered request follows. Without such a
    /// request the server speaks first (a greeting).
    ResponseStart,
    /// What the last `ResponseStart` began was an interim response (RFC 9110 §15.2), such as
    /// 100 Continue, and is complete. The request is unanswered again: the `ResponseStart` of its
    /// final response is still to come.
    Interim {
        /// The status code, 100 to 199.
        status: u16,
    },
    /// The response's header is complete, a body follows.
    ResponseHeaderEnd {
        /// The status code (HTTP), or 0.
        status: u16,
    },
    /// The response is complete. Where the protocol does not tell (turns), it never comes: the
    /// response ends with its last byte before the next request.
    ResponseEnd,
    /// A request that lies whole in this push, of which all was known at its first byte, which
    /// follows: stands for `RequestStart`, `Kind`, `Software` if it says so first, `RequestHeaderEnd`
    /// that expects nothing, and `RequestEnd`.
    Request {
        /// Its kind.
        kind: &'a Label,
        /// Where its parts end.
        extent: Extent,
        /// What its sender says it is, where that was not said before.
        software: Option<&'a Stated>,
    },
    /// A response that lies whole in this push, to a request that waits: stands for `ResponseStart`,
    /// `Software` if it says so first, `ResponseHeaderEnd` and `ResponseEnd`.
    Response {
        /// The status code.
        status: u16,
        /// Where its parts end.
        extent: Extent,
        /// What its sender says it is, where that was not said before.
        software: Option<&'a Stated>,
    },
    /// What the side that sent these bytes says it is (`Server:` header and the like).
    Software(&'a str),
    /// A TLS handshake begins with the ClientHello that follows.
    HandshakeStart,
    /// The handshake is complete: what follows is application data. Given at the client's first
    /// application record or at the end of the last Finished (TLS 1.3: the client's; TLS 1.2:
    /// the later of both), whichever comes first.
    HandshakeEnd {
        /// The session was resumed (abbreviated handshake, or TLS 1.3 without a certificate).
        resumed: bool,
        /// Bytes of the server's certificate flight, 0 if it was not seen.
        certificate_bytes: u32,
    },
    /// Bytes are missing or make no sense for the protocol: from here on exchanges are turns
    /// until the next message is recognised.
    Desync,
}
