//! Pipelined requests (RFC 9112 §9.3.2), and requests that Nagle's algorithm (RFC 896) holds back
//! while the client waits for no response.

use crate::app::{Framer, Protocol};
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{self, Gap};
use crate::model::{Cause, Slices};
use crate::tcp::connection::Connection;
use crate::tcp::path::Path;
use crate::tcp::sender::{Sender, SinceDeparture};
use crate::tcp::setup::Setup;
use crate::tcp::timeline::{OverlappingMessage, StreamProgress, Timeline};
use crate::wire::{Segment, Side};

impl Connection {
    /// Returns the client's gap, and its slices, before a request that belongs to no exchange in
    /// progress, if Nagle's algorithm held the request: a small segment after another small one, sent with the
    /// ACK of that (`since`), though no response had come for which the application could have waited.
    #[inline(never)]
    pub(super) fn held_request(
        &mut self,
        segment: &Segment,
        since: &SinceDeparture,
    ) -> Option<(Gap, Slices)> {
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
        let idle = !self.timeline.exchanges.accrues();
        let mut gap = Gap::default();
        let span_ns = (from_ns, segment.time_ns);
        self.knowledge().fill(Side::Client, span_ns, true, since, &mut gap);
        gap.end_with(segment);
        let slices = judge::judge(&gap);
        let held = slices.causes().contains(Cause::NagleDelayedAck);
        let nagle = &mut self.senders[Side::Client].history_mut().nagle;
        if !idle {
            nagle.evidence.holds += u32::from(held);
            return held.then_some((gap, slices));
        }
        nagle.note_idle_request(held).then_some((gap, slices))
    }
}

/// Returns how far the stream of `sender` has come.
pub(super) fn passed(sender: &Sender) -> StreamProgress {
    StreamProgress { sent: sender.space.nxt, acked: sender.space.una_seen() }
}

/// Processes data of the client at `now_ns`, sent at a time when it may have the whole response.
/// Returns whether the data, if it is unreadable, overlaps the response.
pub(super) fn request_overlaps(
    timeline: &Timeline,
    framer: &Framer,
    server: &Sender,
    path: &Path,
    now_ns: u64,
) -> OverlappingMessage {
    let (last_ns, rtt_ns) = (server.last.time_ns, path.rtt_ns(Side::Server));
    if !is_unreadable(framer) || timeline.is_interrupted {
        return OverlappingMessage::None;
    }
    timeline.request_overlaps(now_ns, passed(server), last_ns, rtt_ns)
}

/// Returns whether the client, which is about to send, has sent nothing but its only SYN, which
/// had data: it could send no more before the handshake was complete (RFC 7413 §4.2.2).
pub(super) fn has_sent_only_early_data(setup: &Setup, client: &Sender) -> bool {
    let last = &client.last;
    setup.syns == 1
        && last.len > 0
        && setup.syn_first_ns() == Some(last.time_ns)
        && setup.frames().syn.is_some_and(|syn| syn.frame == last.frame)
}

/// Returns whether the content is unreadable: encrypted, or of an unknown protocol.
pub(super) fn is_unreadable(framer: &Framer) -> bool {
    framer.protocol().is_in_turns() || framer.protocol() == Protocol::Tls
}
