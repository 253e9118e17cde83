//! The versions of HTTP that a client speaks.

use super::http2;
use crate::target::{Ask, Target};

/// The versions that a client offers a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpVersions {
    /// Over TLS HTTP/2 or HTTP/1.1, as the server chooses by ALPN; HTTP/1.1 without TLS.
    #[default]
    Any,
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2 alone; without TLS with prior knowledge (RFC 9113 §3.3).
    Http2,
}

impl HttpVersions {
    /// Returns those in which a target is asked: a WebSocket in HTTP/1.1, whose handshake this is (RFC
    /// 6455 §4.1), and gRPC in HTTP/2.
    #[must_use]
    pub fn of_target(self, target: &Target) -> HttpVersions {
        match target.ask {
            Ask::Resource => self,
            Ask::WebSocket => HttpVersions::Http1,
            Ask::HealthCheck => HttpVersions::Http2,
        }
    }

    /// Returns the names for ALPN, the preferred one first (RFC 7301 §3.1).
    pub fn alpn(self) -> Vec<Vec<u8>> {
        let (http1, http2) = (b"http/1.1".to_vec(), http2::ALPN.to_vec());
        match self {
            HttpVersions::Any => vec![http2, http1],
            HttpVersions::Http1 => vec![http1],
            HttpVersions::Http2 => vec![http2],
        }
    }

    /// Returns whether a connection speaks HTTP/2: over TLS by the protocol that ALPN has chosen,
    /// without TLS with prior knowledge. `None` if it would have to, and the server does not.
    pub fn is_http2(self, is_tls: bool, chosen: Option<&[u8]>) -> Option<bool> {
        match (self, is_tls) {
            (HttpVersions::Http1, _) | (HttpVersions::Any, false) => Some(false),
            (HttpVersions::Http2, false) => Some(true),
            (HttpVersions::Any, true) => Some(chosen == Some(http2::ALPN)),
            (HttpVersions::Http2, true) => (chosen == Some(http2::ALPN)).then_some(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpn_chooses_over_tls_and_prior_knowledge_without() {
        use HttpVersions::{Any, Http1, Http2};
        let (h2, http1) = (Some(http2::ALPN), Some(&b"http/1.1"[..]));
        for (offered, is_tls, chosen, speaks) in [
            (Any, true, h2, Some(true)),
            (Any, true, http1, Some(false)),
            (Any, true, None, Some(false)),
            (Any, false, None, Some(false)),
            (Http1, true, None, Some(false)),
            (Http2, false, None, Some(true)),
            (Http2, true, h2, Some(true)),
            (Http2, true, None, None),
        ] {
            assert_eq!(offered.is_http2(is_tls, chosen), speaks, "{offered:?} {is_tls} {chosen:?}");
        }
        assert_eq!(Any.alpn(), [b"h2".to_vec(), b"http/1.1".to_vec()]);
    }
}
