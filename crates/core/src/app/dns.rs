//! DNS over TCP (RFC 7766): messages preceded by a length of two bytes.
//!
//! Responses may arrive out of order (RFC 7766 §6.2.1.1). Marks cannot express that: responses are
//! matched in order.

use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::packets::{Rules, Shape};
use crate::wire::Side;
use crate::wire::dns_message::{Message, qtype};

/// Enough bytes for the header and the question.
const QUESTION_PEEK: usize = 12 + 255 + 4;

/// The protocol has no state between messages.
#[derive(Clone, Default)]
pub(super) struct Dns;

impl Rules for Dns {
    fn header_bytes(&self, _: Side, _: &[u8]) -> usize {
        2
    }

    fn begin(&mut self, from: Side, _: u8, feed: &mut Feed<'_>) {
        match from {
            Side::Client => feed.request_start(),
            Side::Server => feed.response_start(),
        }
    }

    fn header(&mut self, from: Side, header: &[u8], _: &mut Feed<'_>) -> Result<Shape, Lost> {
        let length = header.iter().fold(0, |length, &byte| length << 8 | u64::from(byte));
        // A message is never shorter than a header.
        if length < 12 {
            return Err(Lost);
        }
        Ok(Shape { length, peek: if from == Side::Client { QUESTION_PEEK } else { 0 } })
    }

    fn head(&mut self, _: Side, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        let message = Message::parse(head).ok();
        if let Some(question) = message.and_then(|message| message.question) {
            let kind = match question.qtype {
                qtype::A => "A",
                qtype::AAAA => "AAAA",
                qtype::PTR => "PTR",
                qtype::CNAME => "CNAME",
                qtype::HTTPS => "HTTPS",
                _ => "query",
            };
            feed.kind(&kind.into());
        }
        Ok(())
    }

    fn end(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        match from {
            Side::Client => feed.request_end(),
            Side::Server => feed.response_end(),
        }
        Ok(Next::More)
    }
}
