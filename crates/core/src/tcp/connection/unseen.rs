//! Answers in a direction of which the capture has no packet. The client's ACK numbers are the bytes of
//! them that it has (RFC 9293 §3.4): an answer came at the latest when they rise.

use crate::model::{Outcome, Sighting};
use crate::tcp::connection::Connection;
use crate::tcp::exchange::Exchange;
use crate::wire::{Segment, Side};

/// What a client has acknowledged of a direction that was not captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnseenAnswer {
    /// Its highest ACK number.
    ack: u32,
    /// The segment by which it last rose, since the last answer that ended an exchange.
    risen: Option<Sighting>,
}

impl UnseenAnswer {
    /// Adds the ACK number `ack` of the segment `seen`. A FIN takes one number too, so that a rise by one
    /// shows no answer.
    fn hear(&mut self, ack: u32, seen: Sighting) {
        let more = ack.wrapping_sub(self.ack) as i32;
        if more > 0 {
            self.ack = ack;
        }
        if more > 1 {
            self.risen = Some(seen);
        }
    }
}

impl Connection {
    /// Returns whether the capture has no packet of the server.
    pub(super) fn lacks_server(&self) -> bool {
        !self.senders[Side::Server].volume.has_packets()
    }

    /// Processes the ACK in `segment` of a client whose server was not captured.
    #[cold]
    #[inline(never)]
    pub(super) fn hear_unseen(&mut self, segment: &Segment) {
        let first = UnseenAnswer { ack: segment.ack, risen: None };
        let unseen = self.cold.get_or_create().unseen.get_or_insert(first);
        unseen.hear(segment.ack, Sighting::of(Side::Client, segment));
    }

    /// Ends the exchange in progress where the client acknowledged its answer, which was not captured,
    /// before it sent anything more.
    pub(super) fn end_unseen_answer(&mut self) {
        let unseen = self.cold.get_mut().and_then(|cold| cold.unseen.as_mut());
        let Some(answer) = unseen.and_then(|unseen| unseen.risen.take()) else { return };
        let is_of = |it: &Exchange| it.is_awaiting() && it.first.time_ns < answer.time_ns;
        if self.lacks_server() && self.timeline.exchanges.front().is_some_and(is_of) {
            self.accrue_to(Side::Server, answer.time_ns, answer);
            self.timeline.close(self.path.known_rtt_ns(Side::Client), Outcome::Answered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_more_bytes_than_a_fin_and_repeated_acks_are_none() {
        let mut unseen = UnseenAnswer { ack: u32::MAX - 1, risen: None };
        let mut hear = |ack: u32, time_ns| {
            unseen.hear(ack, Sighting { time_ns, ..Sighting::default() });
            unseen.risen.map(|it| it.time_ns)
        };
        assert_eq!(hear(u32::MAX - 1, 1), None, "nothing new");
        assert_eq!(hear(u32::MAX, 2), None, "perhaps a FIN");
        assert_eq!(hear(99, 3), Some(3), "numbers wrap");
        assert_eq!([hear(99, 4), hear(50, 5), hear(100, 6)], [Some(3); 3]);
    }
}
