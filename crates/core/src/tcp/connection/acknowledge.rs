//! Processes ACKs as they pass the vantage: what they show of the path, of the capture, and of the
//! responses in progress.

use crate::app::{Protocol, Side};
use crate::judge::Leg;
use crate::judge::thresholds::{ALIKE_PART, DELAYED_ACK_MIN_NS, FEW_SEGMENTS, RTO_INITIAL_NS};
use crate::tcp::connection::{Connection, is_pure_ack};
use crate::tcp::path::is_initial_ttl;
use crate::tcp::sender::Near;
use crate::tcp::shared::Shared;
use crate::tcp::thresholds::ACK_WITHIN_NS;
use crate::wire::{Segment, TcpFlags};

impl Connection {
    /// Processes the ACK in `segment` for data of the peer of `side`.
    pub(super) fn acknowledge(&mut self, side: Side, segment: &Segment, shared: &mut Shared) {
        let peer = side.peer() as usize;
        if !self.senders[peer].space.started() {
            if !self.mid_stream || !segment.closes_window() {
                return;
            }
            // A sender that faces a closed window sends nothing that would show its sequence
            // number.
            self.senders[peer].space.position(segment.ack);
        }
        if self.is_unsettled() && self.senders[peer].space.acked_again(segment) {
            self.settle_by_second_ack(side, segment.time_ns);
        }
        let dsacks = self.senders[peer].history().counts.dsacks;
        let (una, last_ns) = (self.senders[peer].space.una_seen(), self.senders[peer].last.time_ns);
        let una_ns = self.senders[peer].una_seen_ns;
        let near = if self.senders[peer].bulk.is_some() { self.near(side) } else { Near::Neither };
        let sample = self.take_ack(side, segment, near);
        let una_now = self.senders[peer].space.una_seen();
        if let Some(rtt_ns) = sample.filter(|rtt_ns| self.is_timed(segment, *rtt_ns)) {
            self.sample_path(side, segment, rtt_ns, una_now.saturating_sub(una));
        }
        if !self.pure_acks && !is_pure_ack(segment) {
            let waited_ns = segment.time_ns.saturating_sub(last_ns + self.path.rtt_ns(side));
            let covered = una_now - una;
            let is_overdue = waited_ns > ACK_WITHIN_NS
                || covered > FEW_SEGMENTS * self.senders[peer].sizes.smss();
            if last_ns > 0 && covered > 0 && is_overdue {
                self.faults_mut().missing_acks += 1;
            }
        }
        let dsack = self.senders[peer].history().counts.dsacks > dsacks;
        self.settle_suspended(side, segment, dsack, una_now > una);
        // A RST acknowledges whatever segment it answers, in the stream or not (RFC 9293 §3.10.7.1).
        let is_rst = segment.flags.has(TcpFlags::RST);
        let missing = if is_rst { None } else { self.senders[peer].skip_unseen() };
        if let Some(missing) = missing {
            self.arrived_unseen(side.peer());
            self.skip_missing(missing, side.peer(), segment, shared);
        }
        if side == Side::Client && una_now >= self.timeline.retire_at {
            self.retire((una, una_now), una_ns, segment, missing.is_some());
        }
    }

    /// Adds `rtt_ns` as a sample of the path: `segment`, which `side` sends, acknowledges `covered`
    /// bytes more, that long after the timed data passed. With a captured handshake, if its stamps
    /// are right, a sample can only lower the round trip. Otherwise it may be all that is known: an
    /// ACK that carries a response was sent only with it, and a pure ACK may have been delayed,
    /// unless it comes too soon for that or two full segments arrived at once (RFC 9293 §3.8.6.3).
    fn sample_path(&mut self, side: Side, segment: &Segment, rtt_ns: u64, covered: u64) {
        let is_forgotten = !self.path.is_known(side) && self.faults().reversed > 0;
        if !self.mid_stream && !is_forgotten {
            return self.path.sample(side, rtt_ns);
        }
        // Data acknowledged later than the initial RTO (RFC 6298 §2.1) was retransmitted.
        if !is_pure_ack(segment) || rtt_ns > RTO_INITIAL_NS {
            return;
        }
        let sent = &self.senders[side.peer() as usize];
        // All data in flight was sent together with the timed data.
        let together = sent.last.time_ns + rtt_ns <= segment.time_ns + rtt_ns / ALIKE_PART;
        let under_way =
            if together { sent.space.nxt.saturating_sub(sent.space.una_seen()) } else { 0 };
        let at_once =
            covered + under_way >= 2 * sent.sizes.smss() && !sent.history().losses.occurred;
        self.path.sample_without_handshake(side, rtt_ns, rtt_ns < DELAYED_ACK_MIN_NS || at_once);
    }

    /// Returns whether the client has not yet sent all of its request.
    pub fn owes_request(&self) -> bool {
        self.framer.protocol() == Protocol::Http1 && self.framer.owes(Side::Client)
    }

    /// Returns whether the client is still sending its request, as `segment` shows, and has more of
    /// it to send. If the response came early, that may cost the client the response (RFC 9112
    /// §9.6).
    fn still_uploads(&self, segment: &Segment) -> bool {
        let client = &self.senders[Side::Client as usize];
        let sends = segment.payload_len > 0 || client.space.una_seen() < client.space.nxt;
        sends && self.owes_request()
    }

    /// Returns which end of the data that `side` acknowledges is at the vantage. If the handshake
    /// was not captured and the receiver delays all ACKs, the path to it seems longer than it is;
    /// the TTL then shows that no router lies there.
    fn near(&self, side: Side) -> Near {
        match [side.peer(), side].map(|end| self.path.ends_here(end)) {
            [true, false] => Near::Sender { rtt_ns: self.path.base_rtt_ns() },
            [false, true] => Near::Receiver,
            [false, false] if self.mid_stream && self.is_directly_connected(side) => Near::Receiver,
            _ => Near::Neither,
        }
    }

    /// Returns whether, by their TTLs, packets of the other side have passed a router and those of
    /// `side` have not.
    fn is_directly_connected(&self, side: Side) -> bool {
        let [here, there] =
            [side, side.peer()].map(|end| self.senders[end as usize].packets.last.ttl);
        is_initial_ttl(here) && !is_initial_ttl(there) && there > 0
    }

    /// Ends the exchanges whose response is acknowledged by `segment`, which the client sends: it
    /// moves the ACK position of the server's stream from `before` to `una`. The position `before`
    /// was acknowledged at `una_ns`. If `covers_unseen`, the ACK also covers data that was not
    /// seen, so that it may not be the first ACK of the response.
    #[inline]
    fn retire(
        &mut self,
        (before, una): (u64, u64),
        una_ns: u64,
        segment: &Segment,
        covers_unseen: bool,
    ) {
        if self.still_uploads(segment) {
            return;
        }
        let rtt_client_ns = self.path.known_rtt_ns(Side::Client);
        let counted_ns = self.timeline.front().map_or(0, |exchange| exchange.end_ns);
        if before >= self.timeline.retire_at || counted_ns + rtt_client_ns >= segment.time_ns {
            // The response arrived during the upload, or the wait for this ACK is counted already.
            return self.timeline.acknowledged(una, rtt_client_ns, &Leg::default());
        }
        let server = &self.senders[Side::Server as usize];
        let overtaken_ns = server.history().holes.filled_late_ns;
        let arrived_ns = segment.time_ns.saturating_sub(overtaken_ns);
        let timed = !covers_unseen && server.habits.shows_arrival(is_pure_ack(segment));
        let (late_ns, ahead_ns) = self.queued_to_client(arrived_ns, una_ns, timed);
        let bulk = self.senders[Side::Server as usize].bulk.as_mut();
        let leg = Leg {
            late_ns,
            ahead_ns,
            overtaken_ns,
            rtt_base_ns: self.path.base_rtt_ns(),
            rate: bulk.and_then(|bulk| bulk.pipe.rate()),
        };
        self.timeline.acknowledged(una, rtt_client_ns, &leg);
    }

    /// Processes `bytes` of `sender` that were acknowledged and never seen.
    #[cold]
    #[inline(never)]
    fn skip_missing(&mut self, bytes: u64, sender: Side, segment: &Segment, shared: &mut Shared) {
        self.faults_mut().missing_bytes += bytes;
        self.senders.iter_mut().for_each(|sender| sender.since.stored_mut().excuse_missing());
        self.senders[sender as usize].since.stored_mut().has_sent_unseen = true;
        let position = self.senders[sender as usize].in_order();
        self.skip(sender, position, segment, shared);
    }
}
