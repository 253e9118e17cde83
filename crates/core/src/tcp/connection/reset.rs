//! RSTs whose effect is not yet known.
//!
//! Read RFC 5961 §3.2 first: a host accepts a RST only if its sequence number is exactly the one
//! that it expects next; otherwise it answers with an ACK, and the connection goes on. A RST that
//! may not be accepted, or that something on the path may have sent, is held until its receiver
//! shows which. What that sends within a round trip may have left before the RST arrived, and
//! decides nothing.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::model::Sighting;
use crate::tcp::connection::ending::Ending;
use crate::tcp::connection::is_pure_ack;
use crate::tcp::path::Path;
use crate::tcp::sender::Sender;
use crate::wire::{BySide, Segment, Side, TcpFlags};

/// A RST whose effect is not yet known.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldReset {
    /// Position up to which its sender had sent before it.
    next: u64,
    /// Its sequence number is one that its receiver may expect next.
    is_exact: bool,
    /// It carries data.
    has_data: bool,
    /// It came while a request waited, which it ends if it is accepted.
    pub is_awaited: bool,
}

/// What a segment shows of a RST that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Nothing yet.
    Nothing,
    /// Its receiver ignored it.
    Ignored,
    /// Nothing shows that its receiver ignored it.
    Accepted,
}

impl HeldReset {
    /// Returns what later segments are compared with, if the RST `segment` of `sender` on an
    /// established connection carries data, has a sequence number that its receiver does not
    /// expect, or another TTL than its sender's packets. A host that does not know the connection
    /// takes the number from an ACK of its receiver (RFC 9293 §3.10.7.1).
    pub fn of(segment: &Segment, sender: &Sender, is_awaited: bool) -> Option<Self> {
        let start = sender.space.position_of(segment.seq);
        let next = sender.space.nxt.saturating_sub(segment.payload_len.into());
        let after_fin = sender.space.fin().map(|fin| fin + 1);
        let is_exact = [sender.space.una_seen(), next, sender.space.nxt].contains(&start)
            || after_fin == Some(start);
        let is_strange = sender.packets.last.ttl > 0 && sender.packets.last.ttl != segment.ttl;
        let has_data = segment.payload_len > 0;
        let is_doubtful = !is_exact || is_strange || has_data;
        is_doubtful.then_some(Self { next, is_exact, has_data, is_awaited })
    }

    /// Returns what the next `segment`, which `side` sends, shows of `reset`, which this describes.
    fn shown_by(
        &self,
        reset: &Sighting,
        (side, segment): (Side, &Segment),
        senders: &BySide<Sender>,
        path: &Path,
    ) -> Shown {
        let is_reset = segment.flags.has(TcpFlags::RST);
        if side == reset.from && !is_reset && (self.has_data || !self.is_exact) {
            // Its receiver has not yet shown whether it still takes part.
            return Shown::Nothing;
        }
        let sender = &senders[reset.from];
        match side != reset.from && !is_reset {
            true if self.is_ignored(reset, segment, sender, path) => Shown::Ignored,
            true => Shown::Nothing,
            false => Shown::Accepted,
        }
    }

    /// Returns whether `segment`, which the receiver of a RST of `sender` sends, shows that it did not
    /// accept the RST: it acknowledges what came after it, or answers it with an ACK (RFC 5961 §3.2),
    /// or comes so late that the RST must have arrived: a host that accepts one sends nothing more (RFC
    /// 9293 §3.10.7.4).
    fn is_ignored(
        &self,
        reset: &Sighting,
        segment: &Segment,
        sender: &Sender,
        path: &Path,
    ) -> bool {
        let acked = sender.space.position_of(segment.ack);
        let covers = acked > self.next && acked > sender.space.una_seen();
        let challenges = !self.is_exact && is_pure_ack(segment) && acked == sender.space.una_seen();
        let receiver = reset.from.peer();
        let rtt_ns = path.rtt_ns(receiver).max(sender.rtts.recent_ns());
        let is_late = path.has_sample(receiver)
            && segment.time_ns > reset.time_ns + rtt_ns + HOST_DELAY_MAX_NS;
        segment.flags.has(TcpFlags::ACK) && (covers || challenges || is_late)
    }
}

impl Ending {
    /// Records the first RST, `segment` of `side`, whose other packets have the TTL `others`.
    pub(super) fn take_reset(
        &mut self,
        side: Side,
        segment: &Segment,
        others: u8,
        last_data: Option<Sighting>,
        held: Option<HeldReset>,
    ) {
        self.reset = Some(Sighting::of(side, segment));
        self.last_data = last_data;
        self.reset_ttls = [segment.ttl, others];
        self.unknown = !segment.flags.has(TcpFlags::ACK);
        self.forgotten = side == Side::Server
            && self.fin_ns[Side::Server].is_none()
            && self.fin_ns[Side::Client].is_some()
            && self.unknown;
        self.held = held;
    }

    /// Returns whether a RST is held.
    #[inline]
    pub(super) fn holds_reset(&self) -> bool {
        self.held.is_some()
    }

    /// Returns what the next `segment`, which `side` sends, shows of the RST that is held. Forgets the
    /// RST if its receiver ignored it.
    pub(super) fn judge_reset(
        &mut self,
        (side, segment): (Side, &Segment),
        senders: &BySide<Sender>,
        path: &Path,
    ) -> Shown {
        let (Some(reset), Some(held)) = (self.reset, self.held) else { return Shown::Nothing };
        let shown = held.shown_by(&reset, (side, segment), senders, path);
        if shown == Shown::Ignored {
            (self.reset, self.last_data, self.over_ns) = (None, None, None);
            (self.reset_ttls, self.forgotten, self.unknown) = ([0; 2], false, false);
            self.held = None;
        }
        shown
    }

    /// Removes the RST that is held. Returns whether it ends the exchange in progress.
    pub(super) fn release_reset(&mut self) -> bool {
        self.held.take().is_some_and(|held| held.is_awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that has sent 100 bytes, all acknowledged.
    fn senders() -> [Sender; 2] {
        let mut senders = [Sender::of(Side::Client), Sender::of(Side::Server)];
        let first = senders[Side::Server].space.position(1_000);
        senders[Side::Server].begin_data(first);
        senders
    }

    fn reset(seq: u32, payload_len: u32) -> Segment {
        Segment { seq, payload_len, flags: TcpFlags(TcpFlags::RST), ..Segment::default() }
    }

    #[test]
    fn a_reset_with_the_expected_number_is_accepted_at_once() {
        let [_, server] = &senders();
        assert!(HeldReset::of(&reset(1_000, 0), server, true).is_none());
        assert!(HeldReset::of(&reset(1_001, 0), server, true).is_some());
        assert!(HeldReset::of(&reset(1_000, 5), server, true).is_some(), "it carries data");
    }

    #[test]
    fn a_challenge_ack_shows_that_a_reset_was_ignored() {
        let senders = senders();
        let mut ending = Ending::default();
        let strange = reset(1_001, 0);
        let held = HeldReset::of(&strange, &senders[Side::Server], true);
        ending.take_reset(Side::Server, &strange, 0, None, held);
        let challenge = Segment { ack: 1_000, flags: TcpFlags(TcpFlags::ACK), ..strange };
        let path = Path::default();
        let from_sender = (Side::Server, &challenge);
        assert_eq!(ending.judge_reset(from_sender, &senders, &path), Shown::Nothing);
        let from_receiver = (Side::Client, &challenge);
        assert_eq!(ending.judge_reset(from_receiver, &senders, &path), Shown::Ignored);
        assert!(ending.reset.is_none() && !ending.holds_reset());
    }

    #[test]
    fn another_reset_confirms_the_first() {
        let senders = senders();
        let mut ending = Ending::default();
        let strange = reset(1_001, 0);
        let held = HeldReset::of(&strange, &senders[Side::Server], true);
        ending.take_reset(Side::Server, &strange, 0, None, held);
        let shown = ending.judge_reset((Side::Server, &strange), &senders, &Path::default());
        assert_eq!(shown, Shown::Accepted);
        assert!(ending.release_reset() && ending.reset.is_some());
    }
}
