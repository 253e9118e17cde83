//! The start of a connection: its first round trips and the negotiated options.

use crate::app::Side;
use crate::judge::thresholds::{DELAYED_ACK_MIN_NS, RTO_INITIAL_NS};
use crate::tcp::connection::Connection;
use crate::tcp::sender::Sender;
use crate::tcp::setup::SynMarks;
use crate::tcp::timeline::Timeline;
use crate::wire::{Segment, SegmentFlags, TcpFlags};

/// Segment that carries timestamps, by how soon it follows the segment whose timestamp it echoes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TimestampCarrier {
    /// An ACK without data, which is sent at once unless it is delayed.
    PureAck,
    /// Data of a message that its sender had begun before.
    Continuation,
    /// Any other segment: it may have waited for the application.
    Other,
}

impl Connection {
    /// Processes the timestamps of `segment`, which `side` sends, on a connection whose handshake
    /// was not captured: an echoed timestamp (RFC 7323 §4.1) bounds the round trip to the side that
    /// echoes it. A pure ACK is sent at once unless it was delayed. Data that continues a message
    /// answers an ACK at once only if much is in flight.
    pub(super) fn take_timestamps(
        &mut self,
        side: Side,
        segment: &Segment,
        carrier: TimestampCarrier,
    ) {
        let echoes = self.cold.get_or_insert_default().echoes.get_or_insert_default();
        let sent = &mut echoes[side.peer() as usize];
        let reached = sent.awaited && segment.tsecr.wrapping_sub(sent.tsval) as i32 >= 0;
        let rtt_ns = segment.time_ns.saturating_sub(sent.time_ns);
        let is_same = reached && sent.tsval == segment.tsecr;
        if reached {
            sent.awaited = false;
        }
        // A newer timestamp was echoed, which gives a better sample.
        let (newest, newest_ns) = sent.newest;
        let is_newest = !is_same && newest_ns > 0 && newest == segment.tsecr;
        let rtt_ns = if is_newest { segment.time_ns.saturating_sub(newest_ns) } else { rtt_ns };
        if is_newest {
            sent.newest.1 = 0;
        }
        let timed = rtt_ns <= RTO_INITIAL_NS && self.is_timed(segment, rtt_ns);
        if (is_same || is_newest) && carrier != TimestampCarrier::Other && timed {
            let clocked = self.senders[side as usize].bulk.is_some();
            let is_pure = carrier == TimestampCarrier::PureAck;
            let is_exact = if is_pure { rtt_ns < DELAYED_ACK_MIN_NS } else { clocked };
            self.path.sample_without_handshake(side, rtt_ns, is_exact);
        }
        // Only one timestamp is timed at a time, since the clock of a stream advances before its
        // echo is back. A timestamp that is not newer than the last one echoed may have been echoed
        // before this segment was sent: some clocks tick twice a second.
        let echoes = self.cold.get_or_insert_default().echoes.get_or_insert_default();
        let own = &mut echoes[side as usize];
        let newer = own.time_ns == 0 || segment.tsval.wrapping_sub(own.tsval) as i32 > 0;
        let is_first = own.time_ns == 0;
        if !own.awaited && newer {
            (own.tsval, own.time_ns, own.awaited) = (segment.tsval, segment.time_ns, true);
        }
        if is_first || segment.tsval.wrapping_sub(own.newest.0) as i32 > 0 {
            own.newest = (segment.tsval, if is_first { 0 } else { segment.time_ns });
        }
    }

    /// Returns whether `segment` belongs to an older connection with the same addresses and ports
    /// that still exists at the server. The server answers the SYN with an ACK for that connection,
    /// or with a SYN-ACK to an earlier SYN, which the client resets (RFC 9293 §3.10.7.3 and
    /// §3.10.7.4, RFC 5961 §4.2).
    pub(super) fn is_of_another(&self, side: Side, segment: &Segment) -> bool {
        if self.mid_stream || self.setup.syns == 0 || self.setup.syn_acks > 0 {
            return false;
        }
        let reset = segment.flags.has(TcpFlags::RST);
        match side {
            Side::Server => {
                !reset
                    && segment.flags.has(TcpFlags::ACK)
                    && !self.senders[Side::Client as usize].space.may_have_sent(segment.ack)
            }
            Side::Client => reset && self.setup.other_connection_segments() > 0,
        }
    }

    /// Returns whether `segment` is a SYN-ACK with another sequence number than the first. A host
    /// repeats its SYN-ACK with the same one, so this is another host's.
    pub(super) fn is_of_another_host(&self, side: Side, segment: &Segment) -> bool {
        let isn = self.senders[Side::Server as usize].space.first_number();
        side == Side::Server
            && segment.flags.has(TcpFlags::SYN | TcpFlags::ACK)
            // A SYN with one of these is damaged, or a probe.
            && segment.flags.0 & (TcpFlags::FIN | TcpFlags::RST) == 0
            && self.setup.syn_acks > 0
            && isn.is_some_and(|isn| isn != segment.seq)
    }

    /// Keeps a SYN-ACK of another host, which the client may accept instead of the first.
    #[cold]
    #[inline(never)]
    pub(super) fn note_other_answer(&mut self, syn_ack: &Segment) {
        self.setup.note_other_syn_ack();
        self.cold_mut().other_answer = Some(Box::new(*syn_ack));
    }

    /// Takes another host's SYN-ACK for the one that counts if `segment` of the client acknowledges
    /// that one and nothing else was acknowledged before: the connection is with that host.
    #[cold]
    #[inline(never)]
    pub(super) fn adopt_other_answer(&mut self, segment: &Segment) {
        let server = &self.senders[Side::Server as usize];
        let is_first = server.una_seen_ns == 0 && server.last.time_ns == 0;
        let Some(cold) = &mut self.cold else { return };
        let is_acked = |answer: &mut Box<Segment>| answer.seq.wrapping_add(1) == segment.ack;
        let has_ack = segment.flags.has(TcpFlags::ACK) && !segment.flags.has(TcpFlags::RST);
        let Some(answer) = cold.other_answer.take_if(|it| has_ack && is_first && is_acked(it))
        else {
            return;
        };
        self.senders[Side::Server as usize].space.restart_at(answer.seq);
        self.streams[Side::Server as usize] = Default::default();
        self.negotiate(Side::Server, &answer);
    }

    /// Starts the connection again: the client repeats its SYN after a RST by which it rejected the
    /// answer to the first SYN.
    #[cold]
    #[inline(never)]
    pub(super) fn start_over(&mut self) {
        self.senders.iter_mut().for_each(Sender::reset);
        self.streams = Default::default();
        self.framer.restart();
        self.timeline = Timeline::new();
        self.setup.reject_answer();
        let cold = self.cold_mut();
        (cold.ending, cold.faults) = (None, None);
    }

    /// Processes the first SYN-ACK. Data of the only SYN that it does not acknowledge was refused
    /// (RFC 7413 §4.2.2): the client sends it again as if for the first time.
    fn refuse_early_data(&mut self, segment: &Segment) {
        let client = &mut self.senders[Side::Client as usize];
        if self.setup.syns == 1
            && self.setup.syn_acks == 1
            && client.space.is_under_way(segment.ack)
        {
            client.retract(segment.ack);
        }
    }

    /// Returns whether the client, which is about to send, has sent nothing but its only SYN, which
    /// had data: it could send no more before the handshake was complete (RFC 7413 §4.2.2).
    pub(super) fn has_sent_only_early_data(&self) -> bool {
        let last = &self.senders[Side::Client as usize].last;
        self.setup.syns == 1
            && last.len > 0
            && self.setup.syn_first_ns() == Some(last.time_ns)
            && self.setup.frames().syn.is_some_and(|syn| syn.frame == last.frame)
    }

    pub(super) fn set_up(&mut self, side: Side, segment: &Segment) {
        let sampled = self.setup.is_established() && !segment.flags.has(TcpFlags::SYN);
        let known = Side::ALL.map(|side| sampled || self.setup.times(side));
        match side {
            Side::Client => self.setup.client(segment),
            Side::Server => self.setup.server(segment),
        }
        if side == Side::Server && segment.flags.has(TcpFlags::SYN | TcpFlags::ACK) {
            self.refuse_early_data(segment);
        }
        for side in Side::ALL {
            if !known[side as usize] && self.setup.times(side) {
                let rtt_ns = self.setup.rtt_ns(side);
                if self.is_timed(segment, rtt_ns) {
                    self.path.sample(side, rtt_ns);
                }
            }
        }
        // A SYN behind its answer negotiates nothing: the server keeps the options of the one that it
        // answered.
        let is_answered = side == Side::Client && self.setup.syn_acks > 0;
        if segment.flags.has(TcpFlags::SYN) && !is_answered {
            self.negotiate(side, segment);
        }
    }

    /// Processes the options of a SYN or SYN-ACK (RFC 9293 §3.7.1, RFC 7323 §2.2).
    pub(super) fn negotiate(&mut self, side: Side, segment: &Segment) {
        let first = self.senders[side as usize].space.position(segment.seq) + 1;
        self.senders[side as usize].begin_data(first);
        self.streams[side as usize].start(first);
        if segment.facts.has(SegmentFlags::TRUNCATED_HEADER) {
            // The options were truncated, so that the window scale stays unknown.
            self.senders.iter_mut().for_each(|sender| sender.space.set_window_scale(None));
            self.options_cut = true;
            return;
        }
        if self.options_cut {
            return;
        }
        let peer = &mut self.senders[side.peer() as usize];
        let timestamps = segment.facts.has(SegmentFlags::TIMESTAMPS);
        match segment.facts.has(SegmentFlags::MSS) {
            true => peer.sizes.announce(segment.mss, timestamps),
            false => peer.sizes.assume(timestamps),
        }
        if segment.flags.has(TcpFlags::ACK) && segment.facts.has(SegmentFlags::MSS) {
            self.limit_segments(side, segment.mss, timestamps);
        }
        let peer = &mut self.senders[side.peer() as usize];
        // The scale applies only if both sides offer it. A SYN-ACK offers it only in answer to a
        // SYN that does, whether that SYN was captured before the SYN-ACK, after it or not at all.
        let offers = segment.facts.has(SegmentFlags::WINDOW_SCALE);
        peer.space.set_window_scale(Some(if offers { segment.window_scale } else { 0 }));
        self.setup.note_scaling(offers);
        self.setup.note_sack(side, segment.facts.has(SegmentFlags::SACK_PERMITTED));
        if self.setup.is_unscaled() {
            self.senders.iter_mut().for_each(|sender| sender.space.set_window_scale(Some(0)));
        }
    }

    /// Limits the segments of both sides to what their own links carry, once the SYN-ACK of `side`
    /// announces `mss` and shows whether both use timestamps.
    fn limit_segments(&mut self, side: Side, mss: u16, timestamps: bool) {
        self.senders[side as usize].sizes.limit(mss, timestamps);
        let of_peer = self.senders[side as usize].sizes.announced();
        // A size announced with timestamps that are refused now is known only less their room.
        if timestamps || self.setup.marks().traits & SynMarks::TIMESTAMPS == 0 {
            let of_peer = u16::try_from(of_peer).unwrap_or(u16::MAX);
            self.senders[side.peer() as usize].sizes.limit(of_peer, false);
        }
    }
}
