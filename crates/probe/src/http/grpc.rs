//! The health check of gRPC, `grpc.health.v1.Health/Check`: one message in a request of HTTP/2, one in its
//! answer, and a status in the trailers (gRPC over HTTP/2, "Requests" and "Responses"; GRPC Health Checking
//! Protocol).

use std::fmt;

use http::header::HeaderMap;

/// The path of the call.
pub(super) const PATH: &str = "/grpc.health.v1.Health/Check";
/// The content type of calls and of their answers.
pub(super) const CONTENT_TYPE: &str = "application/grpc";
/// Length of what stands before each message: a flag for compression, and its length in four bytes.
const PREFIX_BYTES: usize = 5;
/// Greatest number of bytes of an answer's body that are kept: an answer has two behind its prefix.
const BODY_BYTES_MAX: usize = 64;
/// The names of the status codes of gRPC, from 0 on.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The answer to a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// The service takes requests.
    Serving,
    /// The service takes none.
    NotServing,
    /// The server does not know whether it does.
    Unknown,
    /// A further `ServingStatus` of the answer's message.
    Other(u64),
    /// The call ended with this status code of gRPC, which is not 0.
    Status(u16),
    /// The answer has no status of gRPC, or its message cannot be read.
    NotGrpc,
}

impl fmt::Display for Health {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Health::Serving => to.write_str("SERVING"),
            Health::NotServing => to.write_str("NOT_SERVING"),
            Health::Unknown => to.write_str("UNKNOWN"),
            Health::Other(number) => write!(to, "ServingStatus {number}"),
            Health::Status(code) => match CODES.get(usize::from(*code)) {
                Some(name) => write!(to, "gRPC status {name}"),
                None => write!(to, "gRPC status {code}"),
            },
            Health::NotGrpc => to.write_str("no answer of gRPC"),
        }
    }
}

impl Health {
    /// The status code of a server that has no health check.
    pub const UNIMPLEMENTED: Health = Health::Status(12);
    /// The status code of a server that does not know the service that was named.
    pub const NOT_FOUND: Health = Health::Status(5);
}

/// Reads the answer to a health check.
#[derive(Debug, Default)]
pub(super) struct HealthReader {
    body: Vec<u8>,
    status: Option<u16>,
}

impl HealthReader {
    /// Adds the header section of the answer, or its trailers: a call that fails may have one alone.
    pub fn fields(&mut self, fields: &HeaderMap) {
        let status = fields.get("grpc-status").and_then(|it| it.to_str().ok()?.parse().ok());
        self.status = status.or(self.status);
    }

    /// Adds bytes of the body.
    pub fn body(&mut self, bytes: &[u8]) {
        let room = (BODY_BYTES_MAX + 1).saturating_sub(self.body.len());
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns what the whole answer says.
    pub fn health(&self) -> Health {
        match self.status {
            None => Health::NotGrpc,
            Some(0) => match serving_status(&self.body) {
                None => Health::NotGrpc,
                Some(0) => Health::Unknown,
                Some(1) => Health::Serving,
                Some(2) => Health::NotServing,
                Some(other) => Health::Other(other),
            },
            Some(code) => Health::Status(code),
        }
    }
}

/// Returns the body of a health check of a service; the empty name is the whole server.
pub(super) fn health_check(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        // Field 1, of the wire type for lengths; a field of its default value is left out.
        message.push(0x0a);
        write_varint(&mut message, service.len() as u64);
        message.extend(service.bytes());
    }
    let mut body = vec![0];
    body.extend((message.len() as u32).to_be_bytes());
    body.extend(message);
    body
}

fn write_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Returns field 1 of the one message in a body, a number; 0 if the message leaves it out. `None` if it
/// is no such message.
fn serving_status(body: &[u8]) -> Option<u64> {
    let (prefix, mut message) = body.split_at_checked(PREFIX_BYTES)?;
    let length = u32::from_be_bytes(*prefix[1..].first_chunk()?);
    if prefix[0] != 0 || message.len() != length as usize {
        return None;
    }
    let mut status = 0;
    while !message.is_empty() {
        let key = read_varint(&mut message)?;
        let skipped = match key & 7 {
            0 => {
                let value = read_varint(&mut message)?;
                status = if key >> 3 == 1 { value } else { status };
                0
            }
            1 => 8,
            2 => read_varint(&mut message)?,
            5 => 4,
            _ => return None,
        };
        message = message.get(usize::try_from(skipped).ok()?..)?;
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(status: Option<&str>, body: &[u8]) -> Health {
        let mut reader = HealthReader::default();
        let mut fields = HeaderMap::new();
        if let Some(status) = status {
            fields.insert("grpc-status", status.parse().unwrap());
        }
        body.chunks(3).for_each(|piece| reader.body(piece));
        reader.fields(&fields);
        reader.health()
    }

    #[test]
    fn an_answer_has_a_status_in_its_message_and_one_in_its_trailers() {
        for (status, body, found) in [
            (Some("0"), &[0, 0, 0, 0, 2, 8, 1][..], Health::Serving),
            (Some("0"), &[0, 0, 0, 0, 2, 8, 2], Health::NotServing),
            (Some("0"), &[0, 0, 0, 0, 0], Health::Unknown),
            (Some("0"), &[0, 0, 0, 0, 2, 8, 3], Health::Other(3)),
            // Unknown fields are skipped.
            (Some("0"), &[0, 0, 0, 0, 6, 0x12, 2, 9, 9, 8, 1], Health::Serving),
            (Some("12"), &[], Health::UNIMPLEMENTED),
            (Some("14"), &[], Health::Status(14)),
            (None, b"<html>", Health::NotGrpc),
            (Some("0"), b"<html>", Health::NotGrpc),
            (Some("0"), &[1, 0, 0, 0, 2, 8, 1], Health::NotGrpc),
            (Some("0"), &[0, 0, 0, 0, 3, 0x12, 200, 1], Health::NotGrpc),
            (Some("0"), &[0, 0, 0, 0, 2, 0xff, 0xff], Health::NotGrpc),
        ] {
            assert_eq!(health(status, body), found, "{status:?} {body:?}");
        }
        assert_eq!(Health::UNIMPLEMENTED.to_string(), "gRPC status UNIMPLEMENTED");
        assert_eq!(Health::Status(99).to_string(), "gRPC status 99");
    }

    #[test]
    fn a_long_body_is_not_kept() {
        assert_eq!(health(Some("0"), &[0; 10_000]), Health::NotGrpc);
        let mut reader = HealthReader::default();
        (0..10).for_each(|_| reader.body(&[0; 1_000]));
        assert_eq!(reader.body.len(), BODY_BYTES_MAX + 1);
    }

    #[test]
    fn a_check_names_its_service() {
        assert_eq!(health_check(""), [0, 0, 0, 0, 0]);
        assert_eq!(health_check("a.B"), [0, 0, 0, 0, 5, 0x0a, 3, b'a', b'.', b'B']);
        assert_eq!(health_check(&"x".repeat(200))[..8], [0, 0, 0, 0, 203, 0x0a, 200, 1]);
    }
}
