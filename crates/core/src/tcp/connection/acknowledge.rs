//! Processes ACKs as they pass the vantage: what they show of the path, of the capture, and of the
//! responses in progress.

use crate::app::Framer;
use crate::judge::Leg;
use crate::judge::thresholds::{
    ALIKE_PART, DELAYED_ACK_MIN_NS, FEW_SEGMENTS, RATE_MARGIN_PART, RTO_INITIAL_NS,
};
use crate::model::Sighting;
use crate::tcp::connection::at_end::owes_request;
use crate::tcp::connection::blocked::take_ack;
use crate::tcp::connection::place::near;
use crate::tcp::connection::questions::Event;
use crate::tcp::connection::{Connection, is_pure_ack};
use crate::tcp::path::Path;
use crate::tcp::sender::{Near, Sender, reports_hole};
use crate::tcp::shared::Shared;
use crate::tcp::thresholds::{ACK_WITHIN_NS, DELAYED_ACK_MAX_NS, DELAYED_ACK_NS, LINUX_TTL};
use crate::tcp::timeline::{At, Timeline};
use crate::wire::{Segment, Side, TcpFlags};

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
        let may_end =
            side == Side::Client && self.senders[peer].space.una_seen() >= self.timeline.retire_at;
        if !may_end && !self.cold.awaits_ack() && self.senders[peer].hears_again(segment) {
            return;
        }
        if self.cold.is_gap_open() && self.senders[peer].space.acked_again(segment) {
            self.settle(&Event::SecondAck { side, acked_ns: segment.time_ns });
        }
        let dsacks = self.senders[peer].history().counts.dsacks;
        let (una, last_ns) = (self.senders[peer].space.una_seen(), self.senders[peer].last.time_ns);
        let una_ns = self.senders[peer].una_seen_ns;
        let near = if self.senders[peer].bulk.is_some() {
            near(&self.senders, &self.path, side, self.mid_stream)
        } else {
            Near::Neither
        };
        let sample = take_ack(&mut self.senders, side, segment, near);
        let una_now = self.senders[peer].space.una_seen();
        if let Some(rtt_ns) = sample.filter(|rtt_ns| self.cold.is_timed(segment, *rtt_ns)) {
            let is_forgotten = !self.path.is_known(side) && self.cold.faults().reversed > 0;
            let covered = una_now.saturating_sub(una);
            let is_timed_by_handshake = !self.mid_stream && !is_forgotten;
            let (path, sent) = (&mut self.path, &self.senders[peer]);
            sample_path(path, sent, (side, segment), (rtt_ns, covered), is_timed_by_handshake);
            if side == Side::Server && !is_timed_by_handshake {
                self.cold.note_acked_within(rtt_ns);
            }
        }
        if !self.pure_acks && !is_pure_ack(segment) {
            let waited_ns = segment.time_ns.saturating_sub(last_ns + self.path.rtt_ns(side));
            let covered = una_now - una;
            let is_overdue = waited_ns > ACK_WITHIN_NS
                || covered > FEW_SEGMENTS * self.senders[peer].sizes.smss();
            if last_ns > 0 && covered > 0 && is_overdue {
                self.cold.faults_mut().missing_acks += 1;
            }
        }
        let dsack = self.senders[peer].history().counts.dsacks > dsacks;
        if self.cold.awaits_ack() || self.senders[peer].is_troubled() {
            self.settle_by_ack(side, segment, dsack, una_now > una);
        }
        // A RST acknowledges whatever segment it answers, in the stream or not (RFC 9293 §3.10.7.1).
        let is_rst = segment.flags.has(TcpFlags::RST);
        let nxt = self.senders[peer].space.nxt;
        let missing = if is_rst { None } else { self.senders[peer].skip_unseen() };
        if let Some(missing) = missing {
            if una_now > nxt {
                self.senders[peer].since.stored_mut().end_unseen_ns = segment.time_ns;
            }
            self.settle(&Event::Unseen { side: side.peer() });
            self.skip_missing(missing, side.peer(), segment, shared);
        }
        if side == Side::Client && una_now >= self.timeline.retire_at {
            let Self { timeline, senders, path, framer, .. } = self;
            let by = Retiring { senders, path, framer, timeline };
            by.retire((una, una_now), una_ns, segment, missing.is_some());
        }
    }

    /// Processes `bytes` of `sender` that were acknowledged and never seen.
    #[cold]
    #[inline(never)]
    fn skip_missing(&mut self, bytes: u64, sender: Side, segment: &Segment, shared: &mut Shared) {
        self.cold.faults_mut().missing_bytes += bytes;
        self.senders.iter_mut().for_each(|sender| sender.since.stored_mut().excuse_missing());
        let since = self.senders[sender].since.stored_mut();
        since.has_sent_unseen = true;
        since.repairs_unseen |= reports_hole(segment);
        let position = self.senders[sender].in_order();
        self.read(sender, shared, |stream, early, reader| {
            stream.skip_to(sender, position, early, &mut |side, bytes, missing, end| {
                reader.push(side, bytes, missing, end);
            });
        });
        // The frame that shows these bytes is their receiver's.
        let seen = Sighting::of(sender.peer(), segment);
        let at = self.at(sender, segment);
        // Where its receiver has moved on as well, messages of both sides are missing, and which was first is not
        // known.
        let moved_on = self.senders[sender.peer()].space.is_ahead(segment.seq);
        let at = At { seen, may_greet: at.may_greet && !moved_on, ..at };
        self.timeline.apply(&shared.marks, sender, at, &mut self.setup);
    }
}

/// The exchanges in progress, and what shows when their responses reached the client.
struct Retiring<'a> {
    senders: &'a mut [Sender; 2],
    path: &'a Path,
    framer: &'a Framer,
    timeline: &'a mut Timeline,
}

impl Retiring<'_> {
    /// Ends the exchanges whose response is acknowledged by `segment`, which the client sends: it
    /// moves the ACK position of the server's stream from `before` to `una`. The position `before`
    /// was acknowledged at `una_ns`. If `covers_unseen`, the ACK also covers data that was not
    /// seen, so that it may not be the first ACK of the response.
    #[inline]
    fn retire(
        self,
        (before, una): (u64, u64),
        una_ns: u64,
        segment: &Segment,
        covers_unseen: bool,
    ) {
        let client = &self.senders[Side::Client];
        if still_uploads(self.framer, client, segment) {
            return;
        }
        let is_linux = client.packets.last.ttl <= LINUX_TTL;
        let rtt_client_ns = self.path.known_rtt_ns(Side::Client);
        let counted_ns = self.timeline.exchanges.front().map_or(0, |exchange| exchange.end_ns);
        if before >= self.timeline.retire_at || counted_ns + rtt_client_ns >= segment.time_ns {
            // The response arrived during the upload, or the wait for this ACK is counted already.
            return self.timeline.acknowledged(una, rtt_client_ns, &Leg::default());
        }
        let server = &self.senders[Side::Server];
        let overtaken_ns = server.history().holes.filled_late_ns;
        let arrived_ns = segment.time_ns.saturating_sub(overtaken_ns);
        let timed = !covers_unseen && server.habits.shows_arrival(is_pure_ack(segment));
        let server = &mut self.senders[Side::Server];
        let holds = !is_linux && una - before < 2 * server.sizes.smss();
        let held_max_ns = if holds { ACK_WITHIN_NS } else { DELAYED_ACK_MAX_NS };
        let timed = timed.then_some(held_max_ns);
        let (late_ns, ahead_ns) = queued_to_client(server, self.path, (arrived_ns, una_ns), timed);
        let bulk = self.senders[Side::Server].bulk.as_mut();
        let leg = Leg {
            late_ns,
            ahead_ns,
            overtaken_ns,
            rtt_base_ns: self.path.base_rtt_ns(),
            has_filled: bulk.is_some(),
            rate: bulk.and_then(|bulk| bulk.pipe.rate()),
        };
        self.timeline.acknowledged(una, rtt_client_ns, &leg);
    }
}

/// Adds `rtt_ns` as a sample of the path: `segment`, which `side` sends, acknowledges `covered`
/// bytes more of `sent`, that long after the timed data passed. With a captured handshake, if its
/// stamps are right, a sample can only lower the round trip. Otherwise it may be all that is known:
/// an ACK that carries a response was sent only with it, and a pure ACK may have been delayed,
/// unless it comes too soon for that or two full segments arrived at once (RFC 9293 §3.8.6.3).
fn sample_path(
    path: &mut Path,
    sent: &Sender,
    (side, segment): (Side, &Segment),
    (rtt_ns, covered): (u64, u64),
    is_timed_by_handshake: bool,
) {
    if is_timed_by_handshake {
        return path.sample(side, rtt_ns);
    }
    // Data acknowledged later than the initial RTO (RFC 6298 §2.1) was retransmitted.
    if !is_pure_ack(segment) || rtt_ns > RTO_INITIAL_NS {
        return;
    }
    // All data in flight was sent together with the timed data.
    let together = sent.last.time_ns + rtt_ns <= segment.time_ns + rtt_ns / ALIKE_PART;
    let under_way = if together { sent.space.nxt.saturating_sub(sent.space.una_seen()) } else { 0 };
    let at_once = covered + under_way >= 2 * sent.sizes.smss() && !sent.history().losses.occurred;
    path.sample_without_handshake(side, rtt_ns, rtt_ns < DELAYED_ACK_MIN_NS || at_once);
}

/// Queueing delay of the last byte of the server, `sender`, behind the vantage, ns: the delay of
/// its ACK at `ack_ns` beyond the base round trip, as far as the flight explains it. If the arrival
/// of that byte determined the time of the ACK, the receiver may have held it for as long as `timed`
/// says, ns; otherwise only the explained time counts. The standard lets a receiver of fewer than two full
/// segments hold an ACK for up to 500 ms (RFC 1122 §4.2.3.2). Linux does not hold one for so long.
/// Earlier data was acknowledged at `una_ns`, and the last byte did not arrive before that.
/// The second value is the part of the delay that had passed when the first byte of the flight
/// arrived; the rest was transmission of the flight's own bytes.
fn queued_to_client(
    sender: &mut Sender,
    path: &Path,
    (ack_ns, una_ns): (u64, u64),
    timed: Option<u64>,
) -> (u64, u64) {
    let (rtt_server_ns, rtt_client_ns) = (path.rtt_ns(Side::Server), path.rtt_ns(Side::Client));
    let last_ns = sender.last.time_ns;
    let late_ns = ack_ns.saturating_sub(last_ns + rtt_client_ns);
    let is_beyond = timed.is_some_and(|held_max_ns| late_ns > held_max_ns);
    if sender.bulk.is_none() && !is_beyond {
        return (0, 0);
    }
    sender.apply_arrived_acks(ack_ns, rtt_server_ns, rtt_client_ns);
    let unknown_ns = if timed.is_some() { ack_ns } else { 0 };
    let first_ns = sender.since.first_ack_ns().map_or(unknown_ns, |at_ns| at_ns - rtt_server_ns);
    let ahead_ns = first_ns.saturating_sub(last_ns + rtt_client_ns);
    if is_beyond {
        return (late_ns - DELAYED_ACK_NS, ahead_ns);
    }
    let Some(bulk) = &mut sender.bulk else { return (0, 0) };
    // The rate is known only to within a quarter of an octave; an equally late ACK in the
    // middle of the flight is better evidence.
    let busy_ns = bulk.pipe.busy_ns(last_ns, last_ns + late_ns + late_ns / 2);
    let clocked_ns = bulk.rtt_clocked_ns.saturating_sub(rtt_client_ns);
    let shown_ns = busy_ns.max(clocked_ns).max(una_ns.saturating_sub(last_ns + rtt_client_ns));
    let explained = timed.is_some() && late_ns <= shown_ns + shown_ns / RATE_MARGIN_PART;
    (if explained { late_ns } else { shown_ns.min(late_ns) }, ahead_ns)
}

/// Returns whether the `client` is still sending its request, as `segment` shows, and has more of it
/// to send. If the response came early, that may cost the client the response (RFC 9112 §9.6).
fn still_uploads(framer: &Framer, client: &Sender, segment: &Segment) -> bool {
    let sends = segment.payload_len > 0 || client.space.una_seen() < client.space.nxt;
    sends && owes_request(framer)
}
