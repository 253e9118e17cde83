//! The start of a connection: its first round trips and the negotiated options.

use crate::tcp::connection::Connection;
use crate::tcp::sender::Sender;
use crate::tcp::setup::{Setup, SynMarks};
use crate::tcp::timeline::Timeline;
use crate::wire::{BySide, Segment, SegmentFlags, Side, TcpFlags};

impl Connection {
    /// Takes another host's SYN-ACK for the one that counts if `segment` of the client acknowledges
    /// that one and nothing else was acknowledged before: the connection is with that host.
    #[cold]
    #[inline(never)]
    pub(super) fn adopt_other_answer(&mut self, segment: &Segment) {
        let server = &self.senders[Side::Server];
        let is_first = server.una_seen_ns == 0 && server.last.time_ns == 0;
        let Some(cold) = self.cold.get_mut() else { return };
        let is_acked = |answer: &mut Box<Segment>| answer.seq.wrapping_add(1) == segment.ack;
        let has_ack = segment.flags.has(TcpFlags::ACK) && !segment.flags.has(TcpFlags::RST);
        let Some(answer) = cold.other_answer.take_if(|it| has_ack && is_first && is_acked(it))
        else {
            return;
        };
        self.senders[Side::Server].space.restart_at(answer.seq);
        self.streams[Side::Server] = Default::default();
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
        let refused_by = self.cold.ending().reset.filter(|_| self.setup.refused);
        self.setup.reject_answer();
        let cold = self.cold.get_or_create();
        if let Some(reset) = refused_by {
            let earlier = cold.refusals.as_ref().map_or(0, |refusals| refusals.0);
            cold.refusals = Some(Box::new((earlier + 1, reset)));
        }
        (cold.ending, cold.faults) = (None, None);
    }

    pub(super) fn set_up(&mut self, side: Side, segment: &Segment) {
        let sampled = self.setup.is_established() && !segment.flags.has(TcpFlags::SYN);
        let known = Side::ALL.map(|side| sampled || self.setup.times(side));
        match side {
            Side::Client => {
                let is_first = !self.setup.is_established();
                self.setup.client(segment);
                if !sampled && segment.flags.has(TcpFlags::ACK) {
                    let syn = self.senders[Side::Client].space.first_number();
                    let is_past = |syn: u32| segment.seq.wrapping_sub(syn) as i32 > 0;
                    self.setup.note_ack(syn.is_some_and(is_past));
                }
                if is_first && self.setup.is_established() {
                    let [client, server] = &self.senders;
                    if client.space.started() && client.space.is_ahead(segment.seq) {
                        let answered = server.space.is_ahead(segment.ack);
                        self.setup.note_hole(answered);
                    }
                }
            }
            Side::Server => self.setup.server(segment),
        }
        if side == Side::Server && segment.flags.has(TcpFlags::SYN | TcpFlags::ACK) {
            // Data of the only SYN that its first SYN-ACK does not acknowledge was refused (RFC 7413
            // §4.2.2): the client sends it again as if for the first time.
            let client = &mut self.senders[Side::Client];
            let is_first = self.setup.syns == 1 && self.setup.syn_acks == 1;
            if is_first && client.space.is_under_way(segment.ack) {
                client.retract(segment.ack);
            }
        }
        for side in Side::ALL {
            if !known[side] && self.setup.times(side) {
                let rtt_ns = self.setup.rtt_ns(side);
                if self.cold.is_timed(segment, rtt_ns) {
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
        let first = self.senders[side].space.position(segment.seq) + 1;
        self.senders[side].begin_data(first);
        self.streams[side].start(first);
        if segment.facts.has(SegmentFlags::TRUNCATED_HEADER) {
            // The options were truncated: the window scale stays unknown, unless the other SYN shows that
            // none is used.
            self.options_cut = true;
            if !self.setup.is_unscaled() {
                self.senders.iter_mut().for_each(|sender| sender.space.set_window_scale(None));
            }
            return;
        }
        if self.options_cut {
            // A scale is used only if both sides offer one (RFC 7323 §2.2).
            if !segment.facts.has(SegmentFlags::WINDOW_SCALE) {
                self.setup.note_scaling(false);
                self.senders.iter_mut().for_each(|sender| sender.space.set_window_scale(Some(0)));
            }
            return;
        }
        let peer = &mut self.senders[side.peer()];
        let timestamps = segment.facts.has(SegmentFlags::TIMESTAMPS);
        match segment.facts.has(SegmentFlags::MSS) {
            true => peer.sizes.announce(segment.mss, timestamps),
            false => peer.sizes.assume(timestamps),
        }
        if segment.flags.has(TcpFlags::ACK) && segment.facts.has(SegmentFlags::MSS) {
            let syn_has_timestamps = self.setup.marks().traits & SynMarks::TIMESTAMPS != 0;
            let limits = (segment.mss, timestamps);
            limit_segments(&mut self.senders, side, limits, syn_has_timestamps);
        }
        let peer = &mut self.senders[side.peer()];
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
}

/// Returns whether `segment` belongs to an older connection with the same addresses and ports
/// that still exists at the server. The server answers the SYN with an ACK for that connection,
/// or with a SYN-ACK to an earlier SYN, which the client resets (RFC 9293 §3.10.7.3 and
/// §3.10.7.4, RFC 5961 §4.2).
pub(super) fn is_of_another(
    setup: &Setup,
    client: &Sender,
    (side, segment): (Side, &Segment),
) -> bool {
    if setup.syns == 0 || setup.syn_acks > 0 {
        return false;
    }
    let reset = segment.flags.has(TcpFlags::RST);
    match side {
        Side::Server => {
            !reset && segment.flags.has(TcpFlags::ACK) && !client.space.may_have_sent(segment.ack)
        }
        Side::Client => reset && setup.other_connection_segments() > 0,
    }
}

/// Returns whether `segment` is a SYN-ACK with another sequence number than the first. A host
/// repeats its SYN-ACK with the same one, so this is another host's.
pub(super) fn is_of_another_host(
    setup: &Setup,
    server: &Sender,
    (side, segment): (Side, &Segment),
) -> bool {
    let isn = server.space.first_number();
    side == Side::Server
        && segment.flags.has(TcpFlags::SYN | TcpFlags::ACK)
        // A SYN with one of these is damaged, or a probe.
        && segment.flags.0 & (TcpFlags::FIN | TcpFlags::RST) == 0
        && setup.syn_acks > 0
        && isn.is_some_and(|isn| isn != segment.seq)
}

/// Limits the segments of both sides to what their own links carry, once the SYN-ACK of `side`
/// announces `mss` and shows whether both use timestamps.
fn limit_segments(
    senders: &mut BySide<Sender>,
    side: Side,
    (mss, timestamps): (u16, bool),
    syn_has_timestamps: bool,
) {
    senders[side].sizes.limit(mss, timestamps);
    let of_peer = senders[side].sizes.announced();
    // A size announced with timestamps that are refused now is known only less their room.
    if timestamps || !syn_has_timestamps {
        let of_peer = u16::try_from(of_peer).unwrap_or(u16::MAX);
        senders[side.peer()].sizes.limit(of_peer, false);
    }
}
