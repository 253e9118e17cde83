//! A silence of a sender, with everything that the sender knew during it.

mod acks;
mod bottleneck;
mod duplicates;
mod flight;
mod losses;
mod missing;
mod nagle;
mod offered_window;
mod pace;
mod protocol;
mod repair;
mod round_trips;
mod unsent;

pub use acks::{AckTrigger, Acks, SmallAck};
pub use bottleneck::Bottleneck;
pub use duplicates::DuplicateAcks;
pub use flight::Flight;
pub use losses::Losses;
pub use missing::MissingPackets;
pub use nagle::{LateAcks, NagleEvidence};
pub use offered_window::{OfferedWindow, WindowProbes};
pub use pace::Pace;
pub use protocol::ProtocolState;
pub use repair::{Recovery, Repair};
pub use round_trips::RoundTrips;
pub use unsent::Unsent;

use crate::app::Credit;
use crate::judge::thresholds::{
    ACK_TRAIN_NS, ALIKE_PART, AT_ONCE_PART, DELAYED_ACK_MIN_NS, HABIT_MIN, HOST_DELAY_MAX_NS,
    HOST_DELAY_NS,
};
use crate::model::Sighting;
use crate::wire::{Segment, Side, TcpFlags};

/// The side that ended the silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// The same side continued its message.
    #[default]
    Continues,
    /// The other side began to answer.
    Answers,
}

/// One silence of a sender during an exchange, on the vantage's clock, with what the sender knew in
/// it, in groups by mechanism.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gap {
    /// The silent side.
    pub sender: Side,
    /// The side that ended the silence.
    pub turn: Turn,
    /// Start of the silence, ns: time of the last departure before it.
    pub start_ns: u64,
    /// End of the silence, ns: time of the departure that ended it.
    pub end_ns: u64,
    /// The last departure before the silence, which may have passed before `start_ns`.
    pub last: Sighting,
    /// The departure that ended the silence.
    pub next: Sighting,
    /// The sender's SMSS, bytes.
    pub smss: u64,
    /// The silent sender's own last departure.
    pub own_last: Sighting,
    /// The last departure before the silence ended in a segment below the SMSS.
    pub last_small: bool,
    /// Payload of the departure that ended the silence, bytes.
    pub next_len: u64,
    /// The departure that ended the silence emptied the sender's buffer, as its PSH flag or FIN
    /// shows.
    pub next_pushed: bool,
    /// Data is missing in the capture: the last data sent may not have been seen.
    pub misses_data: bool,
    /// Data before the departure that ended the silence was not seen until then.
    pub behind_hole: bool,
    /// ACKs in the gap show that the sender sent data that is missing in the capture.
    pub has_sent_unseen: bool,
    /// The receiver reported with such an ACK that data before other data was still missing there: the
    /// sender repaired a loss by packets that are missing in the capture.
    pub repairs_unseen: bool,
    /// Time of the ACK by which the sender shows in the gap that its peer sent last what is missing in the
    /// capture, ns; 0 if there is none. What ended the gap answers that data.
    pub unseen_until_ns: u64,
    /// The client waited in vain: nothing that its server may have worked on ended the silence.
    pub in_vain: bool,
    /// Round trips of the path and its legs.
    pub rtt: RoundTrips,
    /// ACKs that took effect in the gap.
    pub acks: Acks,
    /// Duplicate ACKs up to the end of the gap.
    pub duplicates: DuplicateAcks,
    /// Unacknowledged data.
    pub flight: Flight,
    /// The window that the receiver offers.
    pub window: OfferedWindow,
    /// Data not yet sent.
    pub unsent: Unsent,
    /// The departure that ended it, if it is a retransmission or late.
    pub repair: Repair,
    /// Losses before and in the gap.
    pub losses: Losses,
    /// Evidence for Nagle's algorithm.
    pub nagle: NagleEvidence,
    /// Late ACKs before the gap.
    pub late_acks: LateAcks,
    /// The sender's pace.
    pub pace: Pace,
    /// The bottleneck link.
    pub bottleneck: Bottleneck,
    /// The application protocol.
    pub protocol: ProtocolState,
    /// The window of HTTP/2 that the sender had used up, if it was granted more.
    pub credit: Option<Credit>,
}

impl Gap {
    /// Creates a gap of which only the ends are known.
    pub fn between(
        sender: Side,
        start_ns: u64,
        end_ns: u64,
        last: Sighting,
        next: Sighting,
    ) -> Self {
        Self { sender, start_ns, end_ns, last, next, ..Self::default() }
    }

    /// Sets `segment`, which the silent side sent, as the end of the silence.
    pub fn end_with(&mut self, segment: &Segment) {
        self.next = Sighting::of(self.sender, segment);
        self.next_len = u64::from(segment.payload_len);
        self.next_pushed = segment.flags.0 & (TcpFlags::PSH | TcpFlags::FIN) != 0;
    }

    /// Time of the silence that is not the sender's because it may not have had the data yet that the
    /// capture misses, ns. A client that has had it is between two exchanges.
    pub fn unseen_ns(&self) -> u64 {
        match self.sender {
            _ if self.unseen_until_ns == 0 => 0,
            Side::Client => self.len_ns(),
            Side::Server => self.unseen_until_ns.min(self.end_ns).saturating_sub(self.start_ns),
        }
    }

    /// Length of the silence, ns.
    pub fn len_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Time from the effect of the last ACK to the end, ns; the whole length without an ACK.
    pub fn after_ack_ns(&self) -> u64 {
        self.acks.since_last_ns((self.start_ns, self.end_ns))
    }

    /// Returns whether an ACK (or window update) ended the silence: the departure followed it
    /// within host delay and the variation of the path.
    pub fn ack_triggered(&self) -> bool {
        self.acks.last.is_some() && self.after_ack_ns() <= self.trigger_tolerance_ns()
    }

    /// Like [`Self::after_ack_ns`], but up to the time at which the last departure was sent, if its
    /// timestamp shows that, ns. On a path with variable delay the departure passes the vantage
    /// later. It did not leave with an ACK that it does not echo.
    pub fn sent_after_ack_ns(&self) -> u64 {
        let is_shown = self.turn == Turn::Continues && !self.acks.unheard;
        let Bottleneck { queue_ns, late_ns, .. } = self.bottleneck;
        let late_ns = if is_shown { queue_ns + late_ns } else { 0 };
        self.after_ack_ns().saturating_sub(late_ns)
    }

    /// Returns whether the sender, which lost nothing, was silent within its message with its whole
    /// congestion window in flight: until an ACK came it could send nothing.
    fn fills_window(&self) -> bool {
        self.turn == Turn::Continues
            && !self.repair.is_retransmission()
            && !self.losses.occurred
            && !self.misses_data
            && self.flight.fills_opened(self.smss)
    }

    /// Returns whether the silence of a sender with its whole congestion window in flight ended within
    /// the round trips that the path is known to take after the ACK of that flight.
    pub fn ends_with_ack_of_window(&self) -> bool {
        let late_ns = self.rtt.varies_ns + self.trigger_tolerance_ns();
        self.fills_window() && self.acks.cover_all() && self.after_ack_ns() <= late_ns
    }

    /// Returns whether a sender was silent with its whole congestion window in flight, and had heard no
    /// ACK of it: it was silent for a round trip or more, so that the ACK is missing or it probed (RFC
    /// 8985 §7.2); or the ACK had passed long enough before, and the path is shorter than any round trip shows.
    pub(super) fn fills_window_without_ack(&self) -> bool {
        let is_due = !self.rtt.is_bound && self.len_ns() >= self.rtt.base_ns;
        self.fills_window() && self.acks.count == 0 && (self.acks.under_way.is_some() || is_due)
    }

    /// Returns whether an ACK released the departure that ended the silence, even if it passed the
    /// vantage later because of the path's variable delay. For a sender with too little in flight
    /// to fill a queue itself this is the same as [`Self::ack_triggered`].
    pub fn released(&self) -> bool {
        self.acks.last.is_some() && self.sent_after_ack_ns() <= self.trigger_tolerance_ns()
    }

    /// Returns whether a small segment was followed by the next within a small part of the silence after
    /// the ACK of it had passed, though sooner than the least round trip to the sender so far. It had not
    /// left before, all the time in which no ACK came: so the sender is nearer than the samples, of which
    /// none need be of the least round trip, and the ACK released it.
    pub fn released_sooner(&self) -> bool {
        let Some(ack) = self.acks.under_way else { return false };
        self.turn == Turn::Continues
            && self.last_small
            && ack.payload_bytes == 0
            && !self.acks.unheard
            && self.end_ns.saturating_sub(ack.time_ns) <= self.len_ns() / AT_ONCE_PART
    }

    /// Returns whether the departure that ended the silence left so shortly after the last ACK that it is
    /// no coincidence.
    pub fn ends_with_ack_by_no_coincidence(&self) -> bool {
        self.acks.last.is_some()
            && nagle::is_no_coincidence(self.len_ns(), self.sent_after_ack_ns())
    }

    /// Returns whether a duplicate ACK ended the silence. The data that it reports as received is
    /// no longer in flight, so that as much may be sent (RFC 3042, RFC 6675 §4), though SND.UNA
    /// does not advance.
    pub fn duplicate_triggered(&self) -> bool {
        let after_ns = self.end_ns.saturating_sub(self.duplicates.effect_ns);
        self.duplicates.any_since(self.start_ns) && after_ns <= self.trigger_tolerance_ns()
    }

    /// Returns whether the sender's pace, and no ACK, ended the silence.
    pub fn spaced(&self) -> bool {
        self.pace.is_step && !self.ack_triggered()
    }

    /// Returns whether the answer to a retransmission by timer ended the silence: the sender
    /// continued a round trip after the retransmission, although its data had been acknowledged. So
    /// the earlier ACKs had not reached the sender, and it had waited.
    pub fn retransmission_triggered(&self) -> bool {
        let after_ns = self.end_ns.saturating_sub(self.losses.repeated_ns);
        let early_ns = self.rtt.base_ns - self.rtt.base_ns / ALIKE_PART;
        self.losses.repeated_ns > self.start_ns
            && (early_ns..=self.rtt.base_ns + self.trigger_tolerance_ns()).contains(&after_ns)
    }

    /// Earliest time at which a segment that the grant released can pass the vantage, ns, if the sender
    /// had used up a window of HTTP/2.
    pub fn credit_effect_ns(&self) -> Option<u64> {
        self.credit.map(|credit| credit.granted.time_ns + self.rtt.sender_ns)
    }

    /// Time from the effect of the grant, before which the sender had used up a window of HTTP/2, to the
    /// end, ns; `None` if the grant took effect at another time.
    pub fn after_credit_ns(&self) -> Option<u64> {
        let effect_ns = self.credit_effect_ns()?;
        (self.start_ns < effect_ns).then(|| self.end_ns.checked_sub(effect_ns)).flatten()
    }

    /// Time of the silence beyond a round trip in which the receiver granted nothing to a sender that
    /// had used up a window of HTTP/2, ns.
    pub fn credit_late_ns(&self) -> u64 {
        let waited_ns = self.credit_effect_ns().map_or(0, |ns| ns.saturating_sub(self.start_ns));
        waited_ns.saturating_sub(self.rtt.base_ns)
    }

    /// Time from the effect of the first ACK to the end, ns; without an ACK, more than the length
    /// of the silence.
    fn after_first_ack_ns(&self) -> u64 {
        self.acks.since_first_ns((self.start_ns, self.end_ns))
    }

    /// Returns whether the sender continued only with the last of several ACKs that made room, so
    /// that it did not wait for room. ACKs no further apart than the segments that they acknowledge
    /// are no evidence: data released by the first of them took as long to pass.
    pub fn ignored_acks(&self) -> bool {
        let floor_ns = ACK_TRAIN_NS
            .max(2 * self.flight.apart_ns)
            .max(self.after_ack_ns().saturating_mul(AT_ONCE_PART));
        self.acks.count > 1 && self.after_first_ack_ns() >= floor_ns
    }

    /// Flight with which the sender waited, bytes: that at the start of the silence, unless the
    /// first ACK that made room came too early to have ended the silence.
    pub fn flight_held(&self) -> u64 {
        let first_ends = self.after_first_ack_ns() <= self.trigger_tolerance_ns();
        if first_ends { self.flight.first } else { self.flight.before }
    }

    /// Greatest host delay and variation of the path between an ACK and the segment that it
    /// triggers, ns.
    pub fn trigger_tolerance_ns(&self) -> u64 {
        HOST_DELAY_NS
            + self.rtt.sender_ns / ALIKE_PART
            + (self.len_ns() / AT_ONCE_PART).min(HOST_DELAY_MAX_NS)
    }

    /// Returns the chance that a pause of the sender's application, which may end at any time of the
    /// silence, ends so that an ACK seems to have ended it.
    pub fn chance_of_trigger(&self) -> f64 {
        (self.trigger_tolerance_ns() as f64 / self.len_ns().max(1) as f64).min(1.0)
    }

    /// Returns whether the sender waited for an ACK without data that its receiver had delayed, whatever
    /// it sent then: it continued so soon after that ACK that a pause of its application ends as near
    /// to it less often than habits arise by chance.
    pub fn waits_for_late_ack(&self) -> bool {
        let Some(ack) = self.acks.last else { return false };
        let apart_ns = self.end_ns.abs_diff(ack.effect_ns);
        self.turn == Turn::Continues
            && !self.repair.is_retransmission()
            && !self.misses_data
            && self.flight.before > 0
            && self.rtt.is_known()
            && ack.pure
            && ack.acked_all
            && ack.delay_ns.is_some_and(|ns| ns >= DELAYED_ACK_MIN_NS)
            && apart_ns.saturating_mul(AT_ONCE_PART.pow(HABIT_MIN)) <= self.len_ns()
    }

    /// Returns whether the silence looks like Nagle's algorithm, except that the next segment did
    /// not leave with the ACK.
    pub fn continues_after_ack(&self) -> bool {
        self.turn == Turn::Continues
            && !self.repair.is_retransmission()
            && self.last_small
            && self.next_small()
            && self.acks.cover_all()
            && self.flight.before > 0
            && !self.released()
    }

    /// Returns whether the sender continued so shortly after the ACK, though not with it, that a
    /// sender with a pace of its own would continue with the ACK about as often.
    pub fn continues_shortly_after_ack(&self) -> bool {
        let near_ns = (2 * self.trigger_tolerance_ns()).max(self.len_ns() / AT_ONCE_PART);
        self.sent_after_ack_ns() <= near_ns
    }

    /// Returns whether the sender seems to have waited, in the middle of a message, for the ACK of
    /// small segments, and continued with it.
    pub fn continues_with_ack(&self) -> bool {
        self.protocol.owes
            && self.turn == Turn::Continues
            && !self.repair.is_retransmission()
            && self.last_small
            && self.next_small()
            && self.flight.before > 0
            && !self.flight.is_free_for(self.next_segment())
            && self.released()
    }

    /// Returns whether a full segment waited for the ACK of a single small one, though nothing but the
    /// sender's application could hold it: Nagle's algorithm holds no full segment (RFC 9293 §3.7.4),
    /// and no congestion window holds less than two (RFC 5681 §3.1).
    pub fn full_waits_for_ack(&self) -> bool {
        self.turn == Turn::Continues
            && !self.repair.is_retransmission()
            && self.last_small
            && !self.next_small()
            && (1..self.smss).contains(&self.flight.before)
            && self.acks.last.is_some_and(|ack| ack.acked_all && ack.pure)
            && self.len_ns() >= HOST_DELAY_MAX_NS
            && self.released()
            && self.window.was_open(self.smss)
            && !self.misses_data
            && !self.losses.occurred
    }

    /// Returns whether the silence ended with new data of the client.
    pub fn asks_more(&self) -> bool {
        self.sender == Side::Client && self.next_len > 0 && !self.repair.is_retransmission()
    }

    /// Returns whether the departure that ended the silence is a segment below the SMSS.
    pub fn next_small(&self) -> bool {
        self.next_len < self.smss
    }

    /// Length of the first segment after the silence, bytes.
    pub fn next_segment(&self) -> u64 {
        self.next_len.min(self.smss)
    }

    /// Flight that the sender would have had with the next segment if it had not waited for the
    /// ACK, bytes.
    pub fn height(&self) -> u64 {
        self.flight.before + self.next_segment()
    }
}
