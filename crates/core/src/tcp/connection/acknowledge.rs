//! What an ACK says as it passes: how far its sender has come, and what that shows of the path, of the
//! capture, and of responses under way.

use super::*;

impl Connection {
    /// `segment` acknowledges what the peer of `side` has sent.
    pub(super) fn acknowledge(&mut self, side: Side, segment: &Segment, shared: &mut Shared) {
        let peer = &mut self.halves[side.peer() as usize];
        if !peer.started() {
            if !self.mid_stream || !segment.closes_window() {
                return;
            }
            // Who faces a closed window sends nothing that would show where its stream stands.
            peer.position(segment.ack);
        }
        let una_ns = peer.una_seen_ns();
        let una = if self.is_plain_ack(segment) && !shared.goes_long_way {
            self.take_plain_ack(side, segment)
        } else {
            None
        };
        let una = match una {
            Some(una) => una,
            None => self.take_any_ack(side, segment, shared),
        };
        if side == Side::Client && una >= self.timeline.retire_at {
            self.retire(una, una_ns, segment);
        }
    }

    /// Whether an ACK like `segment` may say nothing but how far its sender has come.
    #[inline]
    fn is_plain_ack(&self, segment: &Segment) -> bool {
        segment.flags.0 & (TcpFlags::SYN | TcpFlags::RST) == 0
            && segment.sack_count == 0
            && segment.window > 0
            && (self.pure_acks || is_ack_alone(segment))
            && self.halves.iter().all(Half::is_calm)
            && !self.is_unsettled()
    }

    /// Takes such an ACK, if it says no more. Answers the position that has been acknowledged.
    #[inline]
    fn take_plain_ack(&mut self, side: Side, segment: &Segment) -> Option<u64> {
        let tsval = self.halves[side as usize].stamp_echoed(segment);
        let (una, sample) = self.halves[side.peer() as usize].acked_plainly(segment, tsval)?;
        let prompt = !self.mid_stream || segment.payload_len == 0;
        if let Some(rtt_ns) = sample.filter(|_| prompt) {
            self.path.sample(side, rtt_ns);
        }
        Some(una)
    }

    /// Takes any ACK. Answers the position that has been acknowledged.
    #[inline(never)]
    fn take_any_ack(&mut self, side: Side, segment: &Segment, shared: &mut Shared) -> u64 {
        let peer = side.peer() as usize;
        let dsacks = self.halves[peer].trouble().dsacks;
        let (una, last_ns) = (self.halves[peer].una_seen(), self.halves[peer].last.time_ns);
        // Beside the sender it shows how far apart departures were.
        let near = self.halves[peer].bulk.is_some()
            && self.path.ends_here(side.peer())
            && !self.path.ends_here(side);
        let near_rtt_ns = near.then(|| self.path.base_rtt_ns());
        // An answer's ACK has waited for the answer: it only bounds the round trip.
        let prompt = !self.mid_stream || segment.payload_len == 0;
        if let Some(rtt_ns) = self.take_ack(side, segment, near_rtt_ns).filter(|_| prompt) {
            self.path.sample(side, rtt_ns);
        }
        let una_now = self.halves[peer].una_seen();
        if !self.pure_acks && !is_ack_alone(segment) {
            let waited_ns = segment.time_ns.saturating_sub(last_ns + self.path.rtt_ns(side));
            let covered = una_now - una;
            let overdue = waited_ns > ACK_WITHIN_NS || covered > 3 * self.halves[peer].smss();
            if last_ns > 0 && covered > 0 && overdue {
                self.faults_mut().missing_acks += 1;
            }
        }
        let dsack = self.halves[peer].trouble().dsacks > dsacks;
        self.settle_suspended(side, segment, [dsack, una_now > una]);
        if let Some(missing) = self.halves[peer].skip_unseen() {
            self.miss(missing, side.peer(), segment, shared);
        }
        una_now
    }

    /// `segment` of the client acknowledges the server's stream up to `una`, where a response ends. What it
    /// had acknowledged before, it had at `una_ns`.
    #[inline(never)]
    fn retire(&mut self, una: u64, una_ns: u64, segment: &Segment) {
        let server = &self.halves[Side::Server as usize];
        let rtt_client_ns = self.path.rtt_ns(Side::Client);
        let overtaken_ns = server.trouble().hole_filled_ns;
        let arrived_ns = segment.time_ns.saturating_sub(overtaken_ns);
        let timed = server.times(is_ack_alone(segment));
        let (late_ns, ahead_ns) = self.queued_to_client(arrived_ns, una_ns, timed);
        let bulk = self.halves[Side::Server as usize].bulk.as_mut();
        let leg = Leg {
            late_ns,
            ahead_ns,
            overtaken_ns,
            rtt_base_ns: self.path.base_rtt_ns(),
            rate: bulk.and_then(|bulk| bulk.pipe.rate()),
        };
        self.timeline.acknowledged(una, rtt_client_ns, &leg);
    }

    /// So many bytes of `sender` were acknowledged that were never seen.
    #[cold]
    #[inline(never)]
    fn miss(&mut self, bytes: u64, sender: Side, segment: &Segment, shared: &mut Shared) {
        self.faults_mut().missing_bytes += bytes;
        self.halves.iter_mut().for_each(|half| half.since_mut().excuse_missing());
        let position = self.halves[sender as usize].in_order();
        self.skip(sender, position, segment, shared);
    }
}
