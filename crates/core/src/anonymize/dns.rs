//! DNS messages (RFC 1035 §4): masks names label by label, and addresses; removes other data.

use super::Names;
use super::mask::blank_text;
use crate::wire::dns_message::qtype;

const HEADER_BYTES: usize = 12;
/// Bytes after a record's name: type, class, time to live, and the length of its data.
const RECORD_BYTES: usize = 10;
const NS: u16 = 2;
const SOA: u16 = 6;
const MX: u16 = 15;
const SRV: u16 = 33;
/// Labels that identify the kind of name (RFC 1035 §3.5, RFC 3596 §2.5, RFC 6761, RFC 6762).
const KEPT_LABELS: [&[u8]; 5] = [b"arpa", b"in-addr", b"ip6", b"local", b"localhost"];

/// Masks the message in `bytes`, as far as it was captured. Parts that cannot be parsed become
/// zero.
pub(super) fn mask(bytes: &mut [u8], names: &Names) {
    let mut message = Message { bytes, at: HEADER_BYTES, names };
    message.sections();
    let at = message.at.min(message.bytes.len());
    bytes[at..].fill(0);
    // A datagram of another protocol may begin with text.
    let header = HEADER_BYTES.min(bytes.len());
    blank_text(&mut bytes[..header]);
}

struct Message<'a> {
    bytes: &'a mut [u8],
    /// Position up to which the message is masked.
    at: usize,
    names: &'a Names,
}

impl Message<'_> {
    fn word(&self, at: usize) -> Option<u16> {
        self.bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
    }

    fn sections(&mut self) -> Option<()> {
        let questions = self.word(4)?;
        let records =
            [6, 8, 10].iter().try_fold(0, |sum, at| Some(sum + u32::from(self.word(*at)?)))?;
        for _ in 0..questions {
            self.name()?;
            self.word(self.at + 2)?;
            blank_text(&mut self.bytes[self.at..self.at + 4]);
            self.at += 4;
        }
        (0..records).try_for_each(|_| self.record())
    }

    fn record(&mut self) -> Option<()> {
        self.name()?;
        let kind = self.word(self.at)?;
        let length = usize::from(self.word(self.at + RECORD_BYTES - 2)?);
        blank_text(&mut self.bytes[self.at..self.at + RECORD_BYTES]);
        self.at += RECORD_BYTES;
        let end = self.at + length;
        self.bytes.get(self.at..end)?;
        let names = self.names;
        match (kind, length) {
            (qtype::A, 4) => {
                let address = self.bytes[self.at..].first_chunk_mut::<4>()?;
                *address = names.ipv4(u32::from_be_bytes(*address)).to_be_bytes();
            }
            (qtype::AAAA, 16) => {
                let address = self.bytes[self.at..].first_chunk_mut::<16>()?;
                *address = names.address(*address);
            }
            (qtype::CNAME | qtype::PTR | NS, _) => self.data_names(end, 0, 1),
            (MX, _) => self.data_names(end, 2, 1),
            (SRV, _) => self.data_names(end, 6, 1),
            (SOA, _) => self.data_names(end, 0, 2),
            _ => self.bytes[self.at..end].fill(0),
        }
        self.at = end;
        Some(())
    }

    /// Masks `count` names in a record's data after `skipped` bytes. The rest becomes zero.
    fn data_names(&mut self, end: usize, skipped: usize, count: usize) {
        let is_whole = self.at + skipped <= end && {
            blank_text(&mut self.bytes[self.at..self.at + skipped]);
            self.at += skipped;
            (0..count).all(|_| self.name().is_some() && self.at <= end)
        };
        let from = if is_whole { self.at } else { self.at.min(end) };
        self.bytes[from..end].fill(0);
    }

    /// Masks a name in place. The target of a pointer is masked at its own position.
    fn name(&mut self) -> Option<()> {
        loop {
            let length = usize::from(*self.bytes.get(self.at)?);
            match length {
                0 => {
                    self.at += 1;
                    return Some(());
                }
                1..=63 => {
                    let label = self.bytes.get_mut(self.at + 1..self.at + 1 + length)?;
                    if !KEPT_LABELS.iter().any(|kept| kept.eq_ignore_ascii_case(label)) {
                        self.names.words(label);
                    }
                    self.at += 1 + length;
                }
                0xc0.. => {
                    self.bytes.get(self.at + 1)?;
                    self.at += 2;
                    return Some(());
                }
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::dns_message::{Answer, Message};

    fn answer() -> Vec<u8> {
        let mut bytes = vec![0, 7, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 1];
        bytes.extend_from_slice(b"\x03www\x07example\x03com\0\0\x01\0\x01");
        bytes.extend_from_slice(b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x07\x04edge\xc0\x10");
        bytes.extend_from_slice(b"\xc0\x2d\0\x01\0\x01\0\0\0\x3c\0\x04\xcb\0\x71\x05");
        bytes.extend_from_slice(
            b"\0\0\x29\x10\0\0\0\0\0\0\x0c\0\x08\0\x08\0\x01\x18\0\xc6\x33\x64\0",
        );
        bytes
    }

    #[test]
    fn names_and_addresses_are_replaced_in_all_sections() {
        let (names, mut bytes) = (Names::new([3; 16]), answer());
        mask(&mut bytes, &names);
        let message = Message::parse(&bytes).unwrap();
        let pseudonym = |text: &str| {
            let mut text = text.as_bytes().to_vec();
            names.words(&mut text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(message.question.as_ref().unwrap().name, pseudonym("www.example.com"));
        let Answer::Cname(target) = &message.answers[0] else { panic!("{:?}", message.answers) };
        assert_eq!(*target, pseudonym("edge.example.com"));
        let address: [u8; 4] = names.ipv4(0xcb00_7105).to_be_bytes();
        assert!(message.addresses().all(|it| it[12..] == address));
        // The client's subnet (RFC 7871) is removed.
        assert!(bytes.ends_with(&[0; 12]));
    }

    #[test]
    fn a_truncated_message_shows_nothing() {
        for end in 0..answer().len() {
            let mut bytes = answer()[..end].to_vec();
            mask(&mut bytes, &Names::new([3; 16]));
            let shown = |word: &[u8]| bytes.windows(word.len()).any(|it| it == word);
            assert!(
                !shown(b"exam") && !shown(b"ww") && !shown(b"edge") && !shown(&[0xcb, 0, 0x71])
            );
        }
    }
}
