//! The error of a request, and the step at which it failed.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use crate::budget::Exceeded;
use crate::http::ResponseError;
use crate::http::http2::Http2Error;

/// The step of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStep {
    /// `connect`.
    Connect,
    /// The TLS handshake.
    Tls,
    /// Sending the request.
    Send,
    /// Waiting for the answer, or for the rest of it.
    Answer,
}

/// The error of a request without an answer.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// An error of the system.
    #[error("{}", io_words(*.step, .source))]
    Io {
        /// The step that failed.
        step: RequestStep,
        /// Time from the begin of the step to the error.
        after: Duration,
        /// The error.
        source: io::Error,
    },
    /// TLS failed.
    #[error("the TLS handshake failed: {0}")]
    Tls(String),
    /// The bytes received are not an HTTP response.
    #[error("{0}")]
    Response(#[from] ResponseError),
    /// The port speaks TLS, and was asked in plain HTTP.
    #[error("the port speaks TLS and was asked in plain HTTP; write https://")]
    TlsPort,
    /// The server speaks HTTP/2 and not HTTP/1.1.
    #[error("the server speaks HTTP/2 and does not answer HTTP/1.1; use --http2")]
    OnlyHttp2,
    /// The server speaks HTTP/1.1 and not HTTP/2.
    #[error("the server speaks HTTP/1.1 and not HTTP/2; use --http1.1")]
    OnlyHttp1,
    /// A stream of HTTP/2, or its connection, ended without an answer.
    #[error("{0}")]
    Stream(Http2Error),
    /// The budget is spent.
    #[error("{0}")]
    Budget(Exceeded),
    /// The status of the answer has another class than the usual one.
    #[error("an answer has status {0}, and those before had not")]
    Status(u16),
}

impl ExchangeError {
    /// Returns whether it is a timeout.
    pub fn is_timeout(&self) -> bool {
        let ExchangeError::Io { source, .. } = self else { return false };
        matches!(source.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
    }
}

/// Describes an error of a step; a wait that ended has a number of the system that says nothing to a user.
fn io_words(step: RequestStep, source: &io::Error) -> String {
    match (source.kind(), step) {
        (ErrorKind::TimedOut | ErrorKind::WouldBlock, RequestStep::Connect) => {
            "no answer to the SYN within the timeout".to_owned()
        }
        (ErrorKind::TimedOut | ErrorKind::WouldBlock, _) => {
            "no complete answer within the timeout".to_owned()
        }
        _ => source.to_string(),
    }
}

pub(super) fn io_error(step: RequestStep, began: Instant, source: io::Error) -> ExchangeError {
    if let Some(exceeded) = Exceeded::of(&source) {
        return ExchangeError::Budget(exceeded);
    }
    ExchangeError::Io { step, after: began.elapsed(), source }
}
