//! Composes a request.

use super::Handshake;
use crate::target::Target;

/// A request; [`Request::bytes`] returns what is sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method, in upper case.
    pub method: String,
    /// Header fields besides `Host`, `User-Agent` and `Content-Length`, in order; a field of the
    /// same name replaces one of these three.
    pub headers: Vec<(String, String)>,
    /// The body; `Content-Length` is sent unless it is empty.
    pub body: Vec<u8>,
}

impl Request {
    /// Returns a `GET` without a body.
    pub fn get() -> Request {
        Request { method: "GET".into(), headers: Vec::new(), body: Vec::new() }
    }

    /// Returns the method of a request: the named one in upper case, or `POST` with a body and `GET`
    /// without.
    pub fn method(named: Option<&str>, has_body: bool) -> String {
        match named {
            Some(method) => method.to_ascii_uppercase(),
            None if has_body => "POST".to_owned(),
            None => "GET".to_owned(),
        }
    }

    /// Returns whether the method is idempotent (RFC 9110 §9.2.2).
    pub fn is_idempotent(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
    }

    /// Returns the number of bytes that are sent to `target`.
    pub fn sent_bytes(&self, target: &Target) -> u64 {
        self.bytes(target, Handshake::of(target).as_ref()).len() as u64
    }

    /// Returns the header section, blank line and body, as sent to `target` on a connection with this
    /// handshake of a WebSocket.
    pub fn bytes(&self, target: &Target, handshake: Option<&Handshake>) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, target.path);
        let mut field = |name: &str, value: &str| {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        };
        let has = |name: &str| self.headers.iter().any(|(it, _)| it.eq_ignore_ascii_case(name));
        if !has("host") {
            field("Host", &target.authority());
        }
        if !has("user-agent") {
            field("User-Agent", concat!("tcpwhy/", env!("CARGO_PKG_VERSION")));
        }
        for (name, value) in handshake.iter().flat_map(|it| it.fields()) {
            if !has(name) {
                field(name, value);
            }
        }
        for (name, value) in &self.headers {
            field(name, value);
        }
        if !self.body.is_empty() && !has("content-length") {
            field("Content-Length", &self.body.len().to_string());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}
