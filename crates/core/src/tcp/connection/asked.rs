//! Pipelined requests (RFC 9112 §9.3.2), and requests that Nagle's algorithm (RFC 896) holds back
//! while the client waits for no response.

use crate::app::{Protocol, Side};
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{self, Gap};
use crate::model::Cause;
use crate::tcp::connection::Connection;
use crate::tcp::sender::{Kind, SinceDeparture};
use crate::tcp::shared::Shared;
use crate::tcp::timeline::StreamProgress;
use crate::wire::Segment;

impl Connection {
    /// Returns whether `side` sends data that no exchange in progress waits for: all requests are
    /// complete and not yet answered, as far as everything was captured. In HTTP/2 the end of a
    /// request is known, though not always that of its response: a ping during a call needs no
    /// answer of the server's application.
    pub(super) fn is_outside_exchanges(&self, side: Side, kind: Kind) -> bool {
        let ends_are_known =
            !self.framer.is_open_ended() || self.framer.protocol() == Protocol::Http2;
        side == Side::Client
            && kind == Kind::New
            && self.timeline.all_asked()
            && ends_are_known
            && self.senders[Side::Server as usize].volume.has_packets()
            && self.faults().missing_bytes == 0
            && !self.has_sent_only_early_data()
    }

    /// Returns whether the server only sends frames that keep the connection alive, or reports of
    /// progress, while its client waits for a response, so that the wait continues; or whether the
    /// client gives up that wait with a TLS alert (RFC 8446 §6).
    pub(super) fn says_nothing(
        &self,
        side: Side,
        (start, segment): (u64, &Segment),
        payload: &[u8],
    ) -> bool {
        let may_be = match side {
            Side::Server => [Protocol::Http2, Protocol::Mysql, Protocol::Postgres].as_slice(),
            Side::Client => [Protocol::Tls].as_slice(),
        };
        may_be.contains(&self.framer.protocol())
            && self.timeline.all_asked()
            && payload.len() == segment.payload_len as usize
            && self.senders[side as usize].in_order() == start
            && self.framer.says_nothing(side, payload)
    }

    /// Processes an ACK of the client which shows that the server sent the first data, and that
    /// this was not captured.
    #[inline(never)]
    pub(super) fn note_unseen_greeting(&mut self, segment: &Segment, shared: &mut Shared) {
        let server = &self.senders[Side::Server as usize];
        if self.timeline.has_begun() || self.mid_stream || server.history().holes.bytes() == 0 {
            return;
        }
        let begins = server.in_order();
        let (_, _, feed) = self.feed(Side::Server, segment, shared);
        let mut at = feed.at;
        at.positions[Side::Server as usize] = begins;
        feed.timeline.await_greeting(&at, feed.setup);
    }

    /// Returns whether the content is unreadable: encrypted, or of an unknown protocol.
    pub(super) fn is_unreadable(&self) -> bool {
        matches!(self.framer.protocol(), Protocol::Turns | Protocol::Tls)
    }

    fn passed(&self, side: Side) -> StreamProgress {
        let sender = &self.senders[side as usize];
        StreamProgress { sent: sender.space.nxt, acked: sender.space.una_seen() }
    }

    /// Processes unreadable data of the client, sent at a time when it may have the whole response.
    /// Returns whether the data overlaps the response.
    pub(super) fn request_overlaps(&mut self, segment: &Segment) -> bool {
        if self.timeline.is_interrupted() || !self.is_unreadable() {
            return false;
        }
        let (passed, rtt_ns) = (self.passed(Side::Server), self.path.rtt_ns(Side::Server));
        let last_ns = self.senders[Side::Server as usize].last.time_ns;
        self.timeline.request_overlaps(segment.time_ns, passed, last_ns, rtt_ns)
    }

    /// Returns whether the server sends unreadable data during a request.
    pub(super) fn response_overlaps(&self) -> bool {
        self.timeline.response_overlaps(self.passed(Side::Client)) && self.is_unreadable()
    }

    /// Returns whether the server sent unreadable data in `segment` before it can have received the
    /// newest request: it has acknowledged nothing of that, and the data came sooner than a round
    /// trip after it. The data belongs to an earlier message.
    pub(super) fn precedes_request(&self, segment: &Segment) -> bool {
        let acked = self.senders[Side::Client as usize].space.una_seen();
        let rtt_ns = self.path.known_rtt_ns(Side::Server);
        self.is_unreadable()
            && self.timeline.asked_at().is_some_and(|(position, at_ns)| {
                acked <= position && segment.time_ns < at_ns + rtt_ns
            })
    }

    /// Processes unreadable data of the client, which may continue its request.
    pub(super) fn continues_request(&mut self, segment: &Segment) {
        if self.is_unreadable() {
            let (passed, rtt_ns) = (self.passed(Side::Client), self.path.rtt_ns(Side::Client));
            self.timeline.continues_request(segment.time_ns, passed, rtt_ns);
        }
    }

    /// Time for which a request was still on its way to the server after `from_ns`, the time at
    /// which the server had last sent something, ns. Data sent before the request arrived answers
    /// an earlier one.
    pub(super) fn request_under_way_ns(&self, from_ns: u64) -> Option<u64> {
        let arrives_ns = self.timeline.unanswered_since()? + self.path.known_rtt_ns(Side::Server);
        arrives_ns.checked_sub(from_ns).filter(|&ns| ns > 0)
    }

    /// Returns the client's gap before a request that belongs to no exchange in progress, if
    /// Nagle's algorithm held the request: a small segment after another small one, sent with the
    /// ACK of that, though no response had come for which the application could have waited.
    #[inline]
    pub(super) fn held_request(
        &mut self,
        segment: &Segment,
        since: &SinceDeparture,
    ) -> Option<Gap> {
        let follows = since.acks.last.is_some_and(|ack| ack.pure && ack.acked_all);
        if follows { self.held_for_ack(segment, since) } else { None }
    }

    #[inline(never)]
    fn held_for_ack(&mut self, segment: &Segment, since: &SinceDeparture) -> Option<Gap> {
        let [client, server] = [&self.senders[0], &self.senders[1]];
        let ack = since.acks.last.filter(|_| client.last.small)?;
        let from_ns = client.last.time_ns;
        let late = ack.effect_ns.saturating_sub(from_ns) >= HOST_DELAY_MAX_NS;
        // Data that the server sent meanwhile had not yet reached the client.
        let reached_ns = server.last.time_ns + self.path.rtt_ns(Side::Client);
        let unanswered = server.last.time_ns <= from_ns || reached_ns > segment.time_ns;
        let small = u64::from(segment.payload_len) < client.sizes.smss();
        if !late || !unanswered || !small {
            return None;
        }
        let idle = !self.timeline.accrues();
        let mut gap = Gap::default();
        self.gap(Side::Client, (from_ns, segment.time_ns), true, since, &mut gap);
        gap.end_with(segment);
        let held = judge::judge(&gap).causes() & 1 << Cause::NagleDelayedAck as u64 != 0;
        let nagle = &mut self.senders[Side::Client as usize].history_mut().nagle;
        if !idle {
            nagle.evidence.holds += u32::from(held);
            return held.then_some(gap);
        }
        nagle.note_idle_request(held).then_some(gap)
    }

    /// Attributes `gap` to the request that began in the last push, which was held for that long.
    pub(super) fn hold(&mut self, gap: &Gap) {
        let slices = judge::judge(gap);
        if let Some(trace) = self.trace_mut() {
            trace.gap(gap, slices.iter());
        }
        self.timeline.hold(gap, &slices);
    }
}
