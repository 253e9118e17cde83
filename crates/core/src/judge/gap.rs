//! A silence of a sender, with everything that the sender knew during it.

use crate::app::Side;
use crate::capture::FrameId;
use crate::judge::Shape;
use crate::judge::thresholds::{ACKS_MERGED_NS, HOST_DELAY_NS, TRIGGER_VARIATION_MAX_NS};
use crate::model::Sighting;
use crate::wire::{Segment, TcpFlags};

/// The side that ended the silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// The same side continued its message.
    #[default]
    Continues,
    /// The other side began to answer.
    Answers,
}

/// The trigger of a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// By timer: RTO (RFC 6298) or tail loss probe (RFC 8985 §7).
    Timer,
    /// By duplicate ACKs, SACK or RACK (RFC 5681 §3.2, RFC 8985).
    Fast,
}

/// The last ACK in a silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckTrigger {
    /// The frame.
    pub frame: FrameId,
    /// Time at which it passed the vantage, ns.
    pub seen_ns: u64,
    /// Earliest time at which a segment sent on its arrival can pass the vantage, ns.
    pub effect_ns: u64,
    /// It carried neither data nor a FIN.
    pub pure: bool,
    /// Its payload, bytes.
    pub payload_bytes: u32,
    /// It acknowledged all data in flight.
    pub acked_all: bool,
    /// Delay of the ACK at the receiver after the last segment that it covers, ns; `None` if
    /// unknown.
    pub delay_ns: Option<u64>,
    /// It moved the right edge of the window, or opened a closed window.
    pub opened_window: bool,
}

/// One silence of a sender during an exchange, on the vantage's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gap {
    /// The silent side.
    pub sender: Side,
    /// The side that ended it.
    pub turn: Turn,
    /// Begin: time of the departure before it, ns.
    pub start_ns: u64,
    /// End: time of the departure that ended it, ns.
    pub end_ns: u64,
    /// The last departure before it, which may have passed before its begin.
    pub last: Sighting,
    /// The departure that ended it.
    pub next: Sighting,
    /// Minimum round trip between vantage and sender, ns.
    pub rtt_sender_ns: u64,
    /// `rtt_sender_ns` is only an upper bound: it may include pauses of the sender.
    pub is_bound: bool,
    /// If the other side answers: round trip of question and answer between vantage and sender, as
    /// far as it lies in the silence, ns.
    pub way_ns: u64,
    /// Minimum round trip between client and server, ns.
    pub rtt_base_ns: u64,
    /// Time of it in which the pipe was still busy with data already sent, ns; if the other side
    /// answers, with the question.
    pub busy_ns: u64,
    /// Queueing delay of the departure that ended it, by its timestamp, plus, if the other side
    /// answers, that of the question, as its ACK shows, ns.
    pub queue_ns: u64,
    /// The sender's SMSS, bytes.
    pub smss: u64,
    /// The departure before it ended in a segment below the SMSS.
    pub last_small: bool,
    /// A small segment was in flight before the last train of ACKs, which covers it.
    pub small_acked: bool,
    /// Least congestion window if nothing had been lost, bytes.
    pub window_opened: u64,
    /// Payload of the departure that ended it, bytes.
    pub next_len: u64,
    /// The departure that ended it emptied the sender's buffer, by its PSH flag or FIN.
    pub next_pushed: bool,
    /// Time at which the first ACK that made room took effect, ns.
    pub first_ack_ns: Option<u64>,
    /// The last ACK to take effect in it, if any.
    pub ack: Option<AckTrigger>,
    /// Number of ACKs that took effect in it.
    pub acks: u32,
    /// Flight when the sender fell silent, bytes.
    pub flight_first: u64,
    /// Time between the last two departures of that flight, ns.
    pub apart_ns: u64,
    /// Flight just before that ACK (or at the end, if there was none), bytes.
    pub flight_before: u64,
    /// The capture begins within that flight, so that more may have been in flight.
    pub flight_cut: bool,
    /// Room in the offered window just before that ACK, bytes; `None`: scale unknown.
    pub room_before: Option<i64>,
    /// Offered window just before that ACK, bytes.
    pub window_before: Option<u64>,
    /// A window of about that height has limited the sender before.
    pub window_met: bool,
    /// Time of it for which the receiver offered (almost) no window, by the receiver's own ACKs,
    /// ns.
    pub closed_ns: u64,
    /// Number of window probes in it.
    pub probes: u32,
    /// Number of these answered without opening the window.
    pub probes_answered: u32,
    /// The first window probe.
    pub probe: Option<Sighting>,
    /// The ACK that closed the window, if it was closed.
    pub closed_by: Option<Sighting>,
    /// The first duplicate ACK for the data in flight, as known to the sender.
    pub duplicate_ack: Option<Sighting>,
    /// If it ended with a retransmission: the frame that was repeated, if seen.
    pub original: Option<Sighting>,
    /// It ended with a retransmission of data that had never passed the vantage.
    pub unseen: bool,
    /// If it ended with a retransmission: no later data had been sent.
    pub tail: bool,
    /// The sender had more in its buffer when it fell silent, and a loss before the vantage would
    /// not show in the packets' identification.
    pub more_queued: bool,
    /// The sender had more in its buffer when it fell silent, and no ACK for two or more full
    /// segments came for as long as the timer of the tail loss probe (RFC 8985 §7.2).
    pub probe_due: bool,
    /// An ACK that passed the vantage in it was lost on its way to the sender.
    pub ack_lost: bool,
    /// Greatest flight since the sender's last loss, or ever, bytes.
    pub flight_reached: u64,
    /// How the retransmission that ended it was triggered, if it is one; its original was seen or
    /// was lost before the vantage.
    pub retransmission: Option<Recovery>,
    /// A router has reported a packet too big to the sender, and data in flight then has not all
    /// arrived: a retransmission repeats what did not fit.
    pub pmtu_reported: bool,
    /// The departure that ended it was overtaken by others.
    pub overtaken: bool,
    /// Time since the first of these, ns.
    pub late_ns: u64,
    /// Packets that the sender sent in it and that never passed the vantage, by the IP
    /// identification counter.
    pub missing_packets: u32,
    /// Identification of the first of these.
    pub missing_from: u16,
    /// The sender had nothing more buffered after its last departure, as far as PSH shows.
    pub drained: bool,
    /// The capture has a hole in it: the last data sent may not have been seen.
    pub holed: bool,
    /// Time at which the sender's timer last repeated acknowledged data in it, ns; 0 if it did
    /// not.
    pub repeated_ns: u64,
    /// The sender had nothing more to send for a part of it: its tail loss probe repeated the last
    /// segment, for want of new data.
    pub nothing_unsent: bool,
    /// The sender is repairing a loss.
    pub in_recovery: bool,
    /// The sender has had a loss on this connection.
    pub after_loss: bool,
    /// It may have had one: the capture began in the middle.
    pub may_be_after_loss: bool,
    /// Number of times this sender sent a small segment while another was unacknowledged, which
    /// Nagle's algorithm forbids.
    pub nagle_refuted: u32,
    /// Number of times a small segment of this sender left with the ACK that it seems to have
    /// waited for.
    pub nagle_holds: u32,
    /// Number of times such a segment left only some time after that ACK.
    pub nagle_missed: u32,
    /// Number of times this sender went on at once with a late ACK of all data in flight;
    /// `late_acks_missed`: number of times it went on some time after it.
    pub late_acks_met: u32,
    /// See `late_acks_met`.
    pub late_acks_missed: u32,
    /// The sender has waited for the ACKs of full segments one or two at a time.
    pub steps: bool,
    /// Shape of the flight, round by round.
    pub shape: Shape,
    /// Time at which the last duplicate ACK took effect, ns; 0 if none ever did.
    pub duplicate_effect_ns: u64,
    /// It may be a step of a pacing sender.
    pub paced: bool,
    /// Two full segments were sent at once before it, as at a slow pace.
    pub in_pairs: bool,
    /// If it is a step of the sender's pace after a loss: its length at the pace before the loss,
    /// ns.
    pub own_pace_ns: u64,
    /// The measured rate is not the path's, but what a window or buffer allows per round trip.
    pub limit_paced: bool,
    /// Time for which the writer would have paused in any case, as after similar writes with room
    /// for more, ns; 0 if unknown.
    pub own_pause_ns: u64,
    /// The sender had announced more of the message that it was sending.
    pub owes: bool,
    /// The request asked for `100-continue` and its body had not come; if the server was silent,
    /// the client had closed too.
    pub expects_continue: bool,
    /// A TLS handshake is under way.
    pub in_handshake: bool,
    /// A TLS handshake is complete and its first request has not come.
    pub after_handshake: bool,
}

impl Gap {
    /// Returns whether the receiver's window had room for what ended the silence.
    pub fn window_was_open(&self) -> bool {
        self.room_before.is_some_and(|room| room >= self.next_len.min(self.smss).max(1) as i64)
    }

    /// A gap with only its ends known.
    pub fn between(
        sender: Side,
        start_ns: u64,
        end_ns: u64,
        last: Sighting,
        next: Sighting,
    ) -> Self {
        Self { sender, start_ns, end_ns, last, next, ..Self::default() }
    }

    /// Sets `segment`, sent by the silent side, as its end.
    pub fn end_with(&mut self, segment: &Segment) {
        self.next = Sighting::of(self.sender, segment);
        self.next_len = u64::from(segment.payload_len);
        self.next_pushed = segment.flags.0 & (TcpFlags::PSH | TcpFlags::FIN) != 0;
    }

    /// Length, ns.
    pub fn len_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Time from the last ACK's effect to the end, ns; the whole length without an ACK.
    pub fn after_ack_ns(&self) -> u64 {
        self.ack.map_or(self.len_ns(), |ack| {
            self.end_ns.saturating_sub(ack.effect_ns.max(self.start_ns))
        })
    }

    /// Returns whether an ACK (or window update) ended it: the departure followed within host
    /// delay and the variation of the path.
    pub fn ack_triggered(&self) -> bool {
        self.ack.is_some() && self.after_ack_ns() <= self.trigger_tolerance_ns()
    }

    /// The same up to the time at which the last departure was sent, as far as its timestamp
    /// shows, ns: a path with variable delay shows the departure later.
    pub fn sent_after_ack_ns(&self) -> u64 {
        let late_ns = if self.turn == Turn::Continues { self.queue_ns } else { 0 };
        self.after_ack_ns().saturating_sub(late_ns)
    }

    /// Returns whether an ACK released the departure that ended it, even if a path with variable
    /// delay shows it later: the same as [`Self::ack_triggered`] for a sender with too little in
    /// flight to fill a queue itself.
    pub fn released(&self) -> bool {
        self.ack.is_some() && self.sent_after_ack_ns() <= self.trigger_tolerance_ns()
    }

    /// Returns whether a duplicate ACK ended it. The data that this reports as received is no
    /// longer in flight, so that as much may be sent (RFC 3042, RFC 6675 §4), though SND.UNA does
    /// not advance.
    pub fn duplicate_triggered(&self) -> bool {
        let after_ns = self.end_ns.saturating_sub(self.duplicate_effect_ns);
        self.duplicate_effect_ns > self.start_ns && after_ns <= self.trigger_tolerance_ns()
    }

    /// Returns whether the sender's pace ended it, and no ACK.
    pub fn spaced(&self) -> bool {
        self.paced && !self.ack_triggered()
    }

    /// Returns whether the answer to a retransmission by timer ended it: the sender went on a
    /// round trip after that, although the data had been acknowledged. So the earlier ACKs had not
    /// reached it, and it had waited.
    pub fn repetition_triggered(&self) -> bool {
        let after_ns = self.end_ns.saturating_sub(self.repeated_ns);
        let early_ns = self.rtt_base_ns - self.rtt_base_ns / 8;
        self.repeated_ns > self.start_ns
            && (early_ns..=self.rtt_base_ns + self.trigger_tolerance_ns()).contains(&after_ns)
    }

    /// Time from the first ACK's effect to the end, ns; the whole length without an ACK.
    fn after_first_ack_ns(&self) -> u64 {
        let first_ns = self.first_ack_ns.map_or(0, |ns| ns.max(self.start_ns));
        self.end_ns.saturating_sub(first_ns)
    }

    /// Returns whether the sender went on only with the last of several ACKs that made room, so
    /// that it did not wait for room. ACKs no further apart than the segments that they
    /// acknowledge are no evidence: data released by the first of them took as long to pass.
    pub fn passed_over_acks(&self) -> bool {
        let floor_ns = ACKS_MERGED_NS.max(2 * self.apart_ns).max(4 * self.after_ack_ns());
        self.acks > 1 && self.after_first_ack_ns() >= floor_ns
    }

    /// Flight with which the sender waited, bytes: that when it fell silent, unless the first ACK
    /// that made room came too early to have ended the silence.
    pub fn flight_held(&self) -> u64 {
        let first_ends = self.after_first_ack_ns() <= self.trigger_tolerance_ns();
        if first_ends { self.flight_first } else { self.flight_before }
    }

    /// Host delay and variation of the path between an ACK and the segment that it triggers, at
    /// most, ns.
    pub fn trigger_tolerance_ns(&self) -> u64 {
        HOST_DELAY_NS + self.rtt_sender_ns / 8 + (self.len_ns() / 32).min(TRIGGER_VARIATION_MAX_NS)
    }

    /// Returns whether it looks like Nagle's algorithm, but the next segment did not leave with
    /// the ACK.
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

    /// Returns whether it looks like a sender that, in the middle of a message, waited for the ACK
    /// of small segments and went on with it.
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

    /// Returns whether it ended with new data of the client.
    pub fn asks_more(&self) -> bool {
        self.sender == Side::Client && self.next_len > 0 && self.retransmission.is_none()
    }

    /// Returns whether the departure that ended it is a segment below the SMSS.
    pub fn next_small(&self) -> bool {
        self.next_len < self.smss
    }

    /// Returns whether neither the congestion window nor the send buffer can have been the limit:
    /// the flight with the next segment was reached before, without a loss since. If the capture
    /// joins segments, only the first of them counts.
    pub fn flight_free(&self) -> bool {
        self.is_free(self.flight_before)
    }

    /// The same for a sender that fell silent with `flight` bytes in flight.
    pub fn is_free(&self, flight: u64) -> bool {
        flight + self.next_segment() <= self.flight_reached
    }

    /// Length of the first of the next segments, bytes.
    fn next_segment(&self) -> u64 {
        self.next_len.min(self.smss)
    }

    /// Flight with the next segment, had it not waited for the ACK, bytes.
    pub fn height(&self) -> u64 {
        self.flight_before + self.next_segment()
    }

    /// Returns whether the offered window had no room for the next segment (RFC 9293 §3.8.6.2.1).
    pub fn window_limited(&self) -> bool {
        self.room_before.is_some_and(|room| room < self.next_segment() as i64)
    }
}
