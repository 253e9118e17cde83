//! One silence of a sender, with everything the sender knew while it lasted.

use crate::app::Side;
use crate::capture::FrameId;
use crate::tcp::ceiling::Shape;
use crate::tcp::sent::Sighting;
use crate::wire::{Segment, TcpFlags};

/// What kind of step the silence ended with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// The same side went on with its message.
    #[default]
    Continues,
    /// The other side began to speak.
    Answers,
}

/// How a retransmission came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// By timer: RTO (RFC 6298) or tail-loss probe (RFC 8985 §7).
    Timer,
    /// By duplicate ACKs, SACK or RACK (RFC 5681 §3.2, RFC 8985).
    Fast,
}

/// The ACK that came last before the silence ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckTrigger {
    /// The frame.
    pub frame: FrameId,
    /// When it passed the vantage, ns.
    pub seen_ns: u64,
    /// When it can have taken effect at the vantage's place in the sender's stream, ns.
    pub effect_ns: u64,
    /// It carried no data, nor its sender's FIN.
    pub pure: bool,
    /// The data that it carried, bytes.
    pub payload_bytes: u32,
    /// It left nothing unacknowledged.
    pub acked_all: bool,
    /// How long the receiver kept it after the last segment it covers, ns; `None` if unknown.
    pub delay_ns: Option<u64>,
    /// It moved the right edge of the window.
    pub opened_window: bool,
}

/// ACKs within less than this may have been taken in together.
const PASSED_OVER_NS: u64 = 200_000;

/// One silence of a sender in the middle of an exchange, on the vantage's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gap {
    /// Who was silent.
    pub sender: Side,
    /// How it ended.
    pub turn: Turn,
    /// Begin: the last departure before it, ns.
    pub start_ns: u64,
    /// End: the departure that ended it, ns.
    pub end_ns: u64,
    /// The last departure before it, which may have passed earlier than it began.
    pub last: Sighting,
    /// The frame that ended it.
    pub next: Sighting,
    /// Minimum round trip between vantage and sender, ns.
    pub rtt_sender_ns: u64,
    /// That is no more than a bound: what is known of it may be pauses of the sender.
    pub is_bound: bool,
    /// Where the other side answers: the way of the question to it and of the answer back, as far as
    /// it lies in the silence, ns.
    pub way_ns: u64,
    /// Minimum round trip between client and server, ns.
    pub rtt_base_ns: u64,
    /// For how long of it the pipe was still busy with what had been sent, ns; where the other side
    /// answers, with the question.
    pub busy_ns: u64,
    /// Where the other side answers: how long its ACK shows the question to have stood in a
    /// queue, ns.
    pub queue_ns: u64,
    /// The sender's maximum segment size, bytes.
    pub smss: u64,
    /// The last departure before ended in a segment below the SMSS.
    pub last_small: bool,
    /// A small segment was under way before the last train of ACKs, which covers it.
    pub small_acked: bool,
    /// The congestion window has opened this far at least, had nothing been lost, bytes.
    pub window_opened: u64,
    /// Payload of the departure that ended it, bytes.
    pub next_len: u64,
    /// The departure that ended it emptied the sender's buffer, by its PSH flag.
    pub next_pushed: bool,
    /// When the first ACK that made room took effect, ns.
    pub first_ack_ns: Option<u64>,
    /// The last ACK to take effect in it, if any.
    pub ack: Option<AckTrigger>,
    /// How many ACKs took effect in it.
    pub acks: u32,
    /// Unacknowledged bytes when the sender fell silent.
    pub flight_first: u64,
    /// How far the last two departures of that flight were apart, ns.
    pub apart_ns: u64,
    /// Unacknowledged bytes just before that ACK (or at the end, if none).
    pub flight_before: u64,
    /// The capture begins within that flight: more may have been under way.
    pub flight_cut: bool,
    /// Bytes the offered window still allowed just before that ACK; `None`: scale unknown.
    pub room_before: Option<i64>,
    /// Offered window just before that ACK, bytes.
    pub window_before: Option<u64>,
    /// A window of that height has stood in the way before.
    pub window_met: bool,
    /// For how long of it the receiver offered (almost) no window, by the receiver's own ACKs.
    pub closed_ns: u64,
    /// Window probes in it.
    pub probes: u32,
    /// Of them answered without the window having opened.
    pub probes_answered: u32,
    /// The first of them.
    pub probe: Option<Sighting>,
    /// The ACK that closed the window, if it was closed.
    pub closed_by: Option<Sighting>,
    /// The first duplicate ACK for what is outstanding, as far as the sender knew.
    pub duplicate_ack: Option<Sighting>,
    /// Where it ended with a repetition: what was repeated, if it was seen here.
    pub original: Option<Sighting>,
    /// It ended with a repetition of what had never come here.
    pub unseen: bool,
    /// Where it ended with a repetition: nothing had been sent behind it.
    pub tail: bool,
    /// More was in the sender's buffer when it fell silent, and a loss before the vantage would
    /// not show in the packets' identification.
    pub more_queued: bool,
    /// More was in the sender's buffer when it fell silent, and no ACK came of two full segments or more for as
    /// long as the probe for a lost tail waits (RFC 8985 §7.2).
    pub probe_due: bool,
    /// An ACK that passed here in it was lost on its way to the sender.
    pub ack_lost: bool,
    /// Greatest flight since the sender's last loss, or ever, bytes.
    pub flight_reached: u64,
    /// The departure that ended it repeats data, seen here before or lost before the vantage.
    pub retransmission: Option<Recovery>,
    /// A router has told the sender of a packet too big, and what was under way then has not all
    /// arrived: what it repeats is what did not fit.
    pub pmtu_reported: bool,
    /// The departure that ended it had been overtaken by others.
    pub overtaken: bool,
    /// How long after the first of those it came, ns.
    pub late_ns: u64,
    /// Packets of the sender that were sent in it and never came here, by the IP identification
    /// counter.
    pub missing_packets: u32,
    /// The identification of the first of them.
    pub missing_from: u16,
    /// The sender had nothing more buffered after its last departure, as far as PSH tells.
    pub drained: bool,
    /// The capture has a hole in it: what was sent last may not have been seen.
    pub holed: bool,
    /// When the sender's timer last repeated in it what had been acknowledged, ns; 0 if it did not.
    pub repeated_ns: u64,
    /// The sender had nothing more to send for a part of it: it repeated its last segment to find out whether
    /// that was lost, for want of new data.
    pub nothing_unsent: bool,
    /// The sender is repairing a loss.
    pub in_recovery: bool,
    /// It has lost something earlier on this connection.
    pub after_loss: bool,
    /// It may have: the capture began in the middle.
    pub may_be_after_loss: bool,
    /// Times this sender sent a small segment while a small one was unacknowledged: Nagle's
    /// algorithm does not do that.
    pub nagle_refuted: u32,
    /// Times this sender's small segments left with the ACK that they seem to have waited for.
    pub nagle_holds: u32,
    /// Times this sender went on with a small segment only after that ACK.
    pub nagle_missed: u32,
    /// Times this sender went on with a late ACK of all that was under way at once, and times it
    /// did so some time after it.
    pub late_acks_met: u32,
    /// See `late_acks_met`.
    pub late_acks_missed: u32,
    /// The sender has waited for the ACKs of full segments one or two at a time.
    pub steps: bool,
    /// What the flight looked like round by round.
    pub shape: Shape,
    /// When the last duplicate ACK took effect, ns; 0 if none ever did.
    pub duplicate_effect_ns: u64,
    /// It may be the pace of a sender that spaces what it sends.
    pub paced: bool,
    /// Two full segments were sent at once before it, as a slow pace does.
    pub in_pairs: bool,
    /// How long it would have lasted at its sender's pace before that lost anything, where it is a step
    /// of his pace after a loss, ns.
    pub own_pace_ns: u64,
    /// What was measured as the path's rate is what a window or a buffer lets go each round trip.
    pub limit_paced: bool,
    /// How long its writer would have paused anyhow, as he does after such writes where there is room
    /// for more, ns; 0 if that is not known.
    pub own_pause_ns: u64,
    /// The sender had announced more of the message that it was sending.
    pub owes: bool,
    /// The request asked `Expect: 100-continue` and its body had not come, nor, if it was the server
    /// that was silent, was it going to.
    pub expects_continue: bool,
    /// A TLS handshake is under way.
    pub in_handshake: bool,
    /// A TLS handshake is complete and its first request has not come.
    pub after_handshake: bool,
}

impl Gap {
    /// A silence of which nothing is known but its ends.
    pub fn between(
        sender: Side,
        start_ns: u64,
        end_ns: u64,
        last: Sighting,
        next: Sighting,
    ) -> Self {
        Self { sender, start_ns, end_ns, last, next, ..Self::default() }
    }

    /// `segment` of its sender ended it.
    pub fn end_with(&mut self, segment: &Segment) {
        self.next = Sighting::of(self.sender, segment);
        self.next_len = u64::from(segment.payload_len);
        self.next_pushed = segment.flags.0 & (TcpFlags::PSH | TcpFlags::FIN) != 0;
    }

    /// Its length, ns.
    pub fn len_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// From the last ACK's effect to the end, ns; the whole length if there was none.
    pub fn after_ack_ns(&self) -> u64 {
        self.ack.map_or(self.len_ns(), |ack| {
            self.end_ns.saturating_sub(ack.effect_ns.max(self.start_ns))
        })
    }

    /// Whether an ACK (or window update) ended it: the departure followed within what a kernel
    /// and the variation of the path take.
    pub fn ack_triggered(&self) -> bool {
        self.ack.is_some() && self.after_ack_ns() <= self.trigger_tolerance_ns()
    }

    /// From the last ACK's effect to when what ended it was sent, as far as its timestamp tells, ns: a
    /// path whose delay varies shows it that much later.
    pub fn sent_after_ack_ns(&self) -> u64 {
        let late_ns = if self.turn == Turn::Continues { self.queue_ns } else { 0 };
        self.after_ack_ns().saturating_sub(late_ns)
    }

    /// Whether an ACK let go what ended it, though a path whose delay varies may show it later: the same as
    /// [`Self::ack_triggered`] where a sender has so little under way that it fills no queue itself.
    pub fn released(&self) -> bool {
        self.ack.is_some() && self.sent_after_ack_ns() <= self.trigger_tolerance_ns()
    }

    /// Whether a duplicate ACK ended it: what that tells to have arrived is under way no more, so that as
    /// much may follow (RFC 3042, RFC 6675 §4), though it acknowledges nothing.
    pub fn duplicate_triggered(&self) -> bool {
        let after_ns = self.end_ns.saturating_sub(self.duplicate_effect_ns);
        self.duplicate_effect_ns > self.start_ns && after_ns <= self.trigger_tolerance_ns()
    }

    /// Whether it was its sender's pace, and no ACK, that ended it.
    pub fn spaced(&self) -> bool {
        self.paced && !self.ack_triggered()
    }

    /// Whether the answer to a repetition by timer ended it: its sender went on a round trip after
    /// that, though what it repeated had been acknowledged. So the ACKs that said so had not come
    /// to it, and it had waited.
    pub fn repetition_triggered(&self) -> bool {
        let after_ns = self.end_ns.saturating_sub(self.repeated_ns);
        let early_ns = self.rtt_base_ns - self.rtt_base_ns / 8;
        self.repeated_ns > self.start_ns
            && (early_ns..=self.rtt_base_ns + self.trigger_tolerance_ns()).contains(&after_ns)
    }

    /// From the first ACK's effect to the end, ns; the whole length if there was none.
    fn after_first_ack_ns(&self) -> u64 {
        let first_ns = self.first_ack_ns.map_or(0, |ns| ns.max(self.start_ns));
        self.end_ns.saturating_sub(first_ns)
    }

    /// Whether the sender let ACKs that made room go by and went on with the last one only: what
    /// held it back was not room. ACKs no further apart than the segments that they acknowledge
    /// tell nothing: what the first of them let go took as long to come here.
    pub fn passed_over_acks(&self) -> bool {
        let floor_ns = PASSED_OVER_NS.max(2 * self.apart_ns).max(4 * self.after_ack_ns());
        self.acks > 1 && self.after_first_ack_ns() >= floor_ns
    }

    /// The unacknowledged bytes that the sender waited with: all that were under way when it fell
    /// silent, unless the first ACK that made room came too early to be what ended the silence.
    pub fn flight_held(&self) -> u64 {
        let first_ends = self.after_first_ack_ns() <= self.trigger_tolerance_ns();
        if first_ends { self.flight_first } else { self.flight_before }
    }

    /// What a busy host and the variation of the path may take from an ACK to what it triggers.
    pub fn trigger_tolerance_ns(&self) -> u64 {
        500_000 + self.rtt_sender_ns / 8 + (self.len_ns() / 32).min(1_500_000)
    }

    /// Whether it looks like Nagle's algorithm, but what followed did not follow the ACK.
    pub fn misses_ack(&self) -> bool {
        let ack_of_all = self.ack.is_some_and(|ack| ack.acked_all);
        self.turn == Turn::Continues
            && self.retransmission.is_none()
            && self.last_small
            && self.next_small()
            && ack_of_all
            && self.flight_before > 0
            && !self.released()
    }

    /// Whether it looks like a sender that waits, in the middle of a message, for the ACK of small
    /// segments, and went on with it.
    pub fn meets_ack(&self) -> bool {
        self.owes
            && self.turn == Turn::Continues
            && self.retransmission.is_none()
            && self.last_small
            && self.next_small()
            && self.flight_before > 0
            && !self.flight_free()
            && self.released()
    }

    /// Whether it ended with something that the client had not said before.
    pub fn asks_more(&self) -> bool {
        self.sender == Side::Client && self.next_len > 0 && self.retransmission.is_none()
    }

    /// Whether the departure that ended it is a segment below the SMSS.
    pub fn next_small(&self) -> bool {
        self.next_len < self.smss
    }

    /// Whether neither the congestion window nor a buffer of the sender can have stood in the way:
    /// it had the next segment out as well, earlier, and has lost nothing since. Where segments were
    /// captured joined, the first of them could have gone alone.
    pub fn flight_free(&self) -> bool {
        self.is_free(self.flight_before)
    }

    /// The same for a sender that fell silent with `flight` bytes under way.
    pub fn is_free(&self, flight: u64) -> bool {
        flight + self.next_segment() <= self.flight_reached
    }

    /// Bytes of the first segment of what came next.
    fn next_segment(&self) -> u64 {
        self.next_len.min(self.smss)
    }

    /// The bytes that were under way with the next segment before the ACK of the others.
    pub fn height(&self) -> u64 {
        self.flight_before + self.next_segment()
    }

    /// Whether the offered window had no room for the next segment (RFC 9293 §3.8.6.2.1).
    pub fn window_limited(&self) -> bool {
        self.room_before.is_some_and(|room| room < self.next_segment() as i64)
    }
}
