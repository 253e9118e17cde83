//! Pushes that no parser has to read: they can only be more of the message in progress, or say nothing.

use super::Framer;
use crate::app::frames::is_keepalive;
use crate::app::machine::Machine;
use crate::app::mysql::only_report_progress;
use crate::app::postgres::only_asynchronous;
use crate::app::protocol::Protocol;
use crate::app::sniff::asks_nothing;
use crate::wire::Side;

impl Framer {
    /// Returns whether `bytes`, the next of `from` and captured completely, only keep the
    /// connection open, report progress, or are the client's goodbye.
    #[inline]
    pub fn says_nothing(&self, from: Side, bytes: &[u8]) -> bool {
        self.skip[from] == 0
            && match &self.machine {
                Machine::Frames(frames) => frames.only_keeps_alive(from, bytes),
                Machine::Mysql(mysql) => mysql.is_between(from) && only_report_progress(bytes),
                Machine::Postgres(postgres) => {
                    postgres.is_between(from) && only_asynchronous(bytes)
                }
                Machine::Tls(tls) => from == Side::Client && tls.is_goodbye(bytes),
                _ => false,
            }
    }

    /// Processes a push that can only be more of the message of `from`: the bytes do not go beyond the
    /// end of a body that was announced, or continue a response of which nothing can be read.
    /// Returns whether it was processed; there are no marks in it.
    #[inline]
    pub fn take_more(&mut self, from: Side, bytes: &[u8], missing: u32) -> bool {
        let total = bytes.len() as u64 + u64::from(missing);
        let skip = self.skip[from];
        let is_more = match skip {
            0 => total > 0 && self.is_more_of_turn(from, bytes),
            _ => skip > total || skip == total && self.is_end_without_mark(from),
        };
        if !is_more {
            return false;
        }
        if skip == 0 {
            self.spoken.note(from, bytes, missing);
        }
        self.skip[from] = skip.saturating_sub(total);
        (self.exchanges.is_in_exchange, self.exchanges.set_aside) = (true, false);
        true
    }

    /// Returns whether nothing is marked where the body ends that `from` sends: a TLS record shows
    /// no end of a message.
    #[inline]
    fn is_end_without_mark(&self, from: Side) -> bool {
        matches!(&self.machine, Machine::Tls(tls) if !tls.ends_handshake(from))
    }

    /// Returns whether `bytes` of `from` are more of what the server answers in an unknown protocol.
    #[inline]
    fn is_more_of_turn(&self, from: Side, bytes: &[u8]) -> bool {
        let is_turn = from == Side::Server
            && self.last == Some(from)
            && matches!(self.machine, Machine::Turns)
            && self.exchanges.is_only_responding();
        is_turn
            && match self.protocol {
                Protocol::Turns => self.spoken.has_begun() && self.dialogue.is_none(),
                Protocol::Tls => false,
                _ => true,
            }
            && !(self.hunting && (is_keepalive(from, bytes) || asks_nothing(bytes, false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::KnownHeaders;

    /// Pushes `bytes` of `from`, and returns the number of marks.
    fn marks(framer: &mut Framer, from: Side, bytes: &[u8], missing: u32) -> usize {
        let (mut known, mut count) = (KnownHeaders::default(), 0);
        framer.push(from, bytes, missing, &mut known, &mut |_, _| count += 1);
        count
    }

    #[test]
    fn a_body_is_more_of_its_message_up_to_the_last_byte() {
        let mut framer = Framer::new(80, false);
        marks(&mut framer, Side::Client, b"GET / HTTP/1.1\r\n\r\n", 0);
        marks(&mut framer, Side::Server, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 0);
        assert!(framer.take_more(Side::Server, b"12", 3));
        assert!(!framer.take_more(Side::Server, b"6789", 0), "the response ends here");
        assert!(!framer.take_more(Side::Server, b"67890", 0), "more than the body");
        assert_eq!(framer.lacking_bytes(Side::Server), 4);
        assert_eq!(marks(&mut framer, Side::Server, b"6789", 0), 1);
        assert!(!framer.take_more(Side::Server, b"1", 0), "nothing is in progress");
    }

    #[test]
    fn the_end_of_a_tls_record_marks_nothing() {
        let mut framer = Framer::new(443, true);
        marks(&mut framer, Side::Client, &[23, 3, 3, 0, 40, 1, 2, 3], 37);
        marks(&mut framer, Side::Server, &[23, 3, 3, 0, 9, 1, 2, 3], 0);
        assert!(framer.take_more(Side::Server, &[4, 5, 6], 3));
        assert!(!framer.take_more(Side::Server, &[23, 3, 3, 0, 2], 2), "another record");
    }

    #[test]
    fn an_answer_in_an_unknown_protocol_goes_on_until_its_client_asks_again() {
        let mut framer = Framer::new(7, false);
        marks(&mut framer, Side::Client, b"\x01what?", 0);
        assert!(!framer.take_more(Side::Server, b"\x01this", 0), "the answer begins");
        marks(&mut framer, Side::Server, b"\x01this", 0);
        assert!(framer.take_more(Side::Server, b"and that", 0));
        assert!(!framer.take_more(Side::Client, b"\x01and?", 0), "a client asks");
    }
}
