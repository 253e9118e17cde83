//! The failures of requests and connections.

use std::io;

use crate::budget::Exceeded;
use crate::http::{Health, ResponseError};

/// A kind of failure; its name is that in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A RST answered the SYN.
    ConnectRefused,
    /// The SYN was not answered within the timeout.
    ConnectTimeout,
    /// Another error prevented the connection: no route, an unreachable host.
    Connect,
    /// No local port is free.
    PortExhaustion,
    /// The TLS handshake failed, or the bytes received are not TLS.
    Tls,
    /// The request could not be written.
    Write,
    /// The connection was reset or closed before the answer was complete.
    Read,
    /// The answer was not complete within the timeout.
    Timeout,
    /// The received bytes are not an HTTP response.
    BadResponse,
    /// The received bytes are another version of HTTP than the one that was spoken.
    HttpVersion,
    /// The server reset the stream of the request, or ended the connection without processing it.
    Stream,
    /// The answer has a status of 400 to 499.
    #[serde(rename = "http_4xx")]
    Http4xx,
    /// The answer has a status of 500 or more.
    #[serde(rename = "http_5xx")]
    Http5xx,
    /// The answer to a health check of gRPC is not `SERVING`.
    NotServing,
}

impl FailureKind {
    /// Returns the description of the failure.
    pub fn words(self) -> &'static str {
        match self {
            FailureKind::ConnectRefused => "connect refused",
            FailureKind::ConnectTimeout => "connect timed out",
            FailureKind::Connect => "connect failed",
            FailureKind::PortExhaustion => "no local port free",
            FailureKind::Tls => "TLS failed",
            FailureKind::Write => "request not written",
            FailureKind::Read => "connection lost",
            FailureKind::Timeout => "timed out",
            FailureKind::BadResponse => "no HTTP response",
            FailureKind::HttpVersion => "another version of HTTP",
            FailureKind::Stream => "stream ended by the server",
            FailureKind::Http4xx => "status 4xx",
            FailureKind::Http5xx => "status 5xx",
            FailureKind::NotServing => "not serving",
        }
    }

    /// Returns whether the failure is a status, which means that the server did answer.
    pub fn is_status(self) -> bool {
        matches!(self, FailureKind::Http4xx | FailureKind::Http5xx | FailureKind::NotServing)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub kind: FailureKind,
    pub words: String,
    /// The limit of the budget that is reached; then it is no failure of the server.
    pub exceeded: Option<Exceeded>,
}

impl Failure {
    pub fn new(kind: FailureKind, words: impl ToString) -> Failure {
        Failure { kind, words: words.to_string(), exceeded: None }
    }

    /// Returns the failure of a system call.
    pub fn io(kind: FailureKind, error: &io::Error) -> Failure {
        Failure { exceeded: Exceeded::of(error), ..Failure::new(kind, error) }
    }

    /// Returns the failure of a connect.
    pub fn connect(error: &io::Error) -> Failure {
        let kind = match error.kind() {
            io::ErrorKind::ConnectionRefused => FailureKind::ConnectRefused,
            io::ErrorKind::TimedOut => FailureKind::ConnectTimeout,
            io::ErrorKind::AddrNotAvailable => FailureKind::PortExhaustion,
            _ => FailureKind::Connect,
        };
        Failure::io(kind, error)
    }

    /// Returns the failure that a status code means, or `None` if it means success.
    pub fn status(status: u16) -> Option<Failure> {
        let kind = match status {
            400..500 => FailureKind::Http4xx,
            500.. => FailureKind::Http5xx,
            _ => return None,
        };
        Some(Failure::new(kind, format!("status {status}")))
    }

    /// Returns the failure that the answer to a health check means, or `None` if it means success.
    pub fn health(health: Health) -> Option<Failure> {
        (health != Health::Serving).then(|| Failure::new(FailureKind::NotServing, health))
    }
}

impl From<ResponseError> for Failure {
    fn from(error: ResponseError) -> Failure {
        let kind = match error {
            ResponseError::Truncated => FailureKind::Read,
            ResponseError::Http2 => FailureKind::HttpVersion,
            _ => FailureKind::BadResponse,
        };
        Failure::new(kind, error)
    }
}
