//! DNS messages, as far as claims about look-ups need them.

use super::packets::DNS_PORT;
use crate::wire::{Endpoint, Segment};

/// Type PTR (RFC 1035 §3.2.2), the last two bytes of a question.
const PTR: [u8; 2] = [0, 12];

/// Ends of the names that stand for addresses (RFC 1035 §3.5, RFC 3596 §2.5), as in a message.
const REVERSE_ZONES: [&[u8]; 2] = [b"\x07in-addr\x04arpa\0", b"\x03ip6\x04arpa\0"];

/// A DNS message over UDP or TCP. One that cannot be read has no question.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    /// Capture time, ns since the Unix epoch.
    pub time_ns: u64,
    pub source: Endpoint,
    pub destination: Endpoint,
    /// Payload, bytes.
    pub len: u32,
    pub id: u16,
    pub is_answer: bool,
    /// Response code (RFC 1035 §4.1.1).
    pub rcode: u8,
    /// Name and type as in the message, in lower case.
    pub question: Vec<u8>,
}

impl Message {
    /// Returns whether it answers the query `asked`.
    pub fn answers(&self, asked: &Self) -> bool {
        self.is_answer
            && self.id == asked.id
            && self.question == asked.question
            && self.source == asked.destination
            && self.destination == asked.source
            && self.time_ns >= asked.time_ns
    }

    /// Returns whether it is the query `asked`, sent once more.
    pub fn repeats(&self, asked: &Self) -> bool {
        !self.is_answer
            && (self.id, self.source, self.destination)
                == (asked.id, asked.source, asked.destination)
    }

    /// Returns the name that it asks for.
    pub fn name(&self) -> &[u8] {
        self.question.split_last_chunk::<2>().map_or(&[], |(name, _)| name)
    }

    /// Returns whether it asks for the name of an address. Services are found by PTR too (RFC 6763 §4).
    pub fn is_reverse(&self) -> bool {
        self.question.ends_with(&PTR)
            && REVERSE_ZONES.iter().any(|zone| self.name().ends_with(zone))
    }
}

/// Reads identification, kind, response code and question of a message (RFC 1035 §4.1). The caller
/// knows the addresses.
pub(super) fn parse(payload: &[u8]) -> Option<Message> {
    let (header, rest) = payload.split_first_chunk::<12>()?;
    let name_len = rest.iter().position(|&byte| byte == 0)? + 1;
    let question = rest.get(..name_len + 2)?.to_ascii_lowercase();
    Some(Message {
        id: u16::from_be_bytes([header[0], header[1]]),
        is_answer: header[2] & 0x80 != 0,
        rcode: header[3] & 0x0f,
        question,
        ..Message::default()
    })
}

/// Returns the messages that lie whole in a segment from or to a name server (RFC 1035 §4.2.2).
pub(super) fn spoken(segment: &Segment, payload: &[u8]) -> Vec<Message> {
    let (source, destination) = (*segment.source(), *segment.destination());
    let mut messages = Vec::new();
    if source.port != DNS_PORT && destination.port != DNS_PORT {
        return messages;
    }
    let captured = payload.len().min(segment.captured_len as usize);
    let mut rest = payload.get(..captured).unwrap_or_default();
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(after.len());
        let (whole, behind) = after.split_at(length);
        let Some(mut message) = parse(whole) else { break };
        (message.source, message.destination) = (source, destination);
        (message.time_ns, message.len) = (segment.time_ns, segment.payload_len);
        messages.push(message);
        rest = behind;
    }
    messages
}
