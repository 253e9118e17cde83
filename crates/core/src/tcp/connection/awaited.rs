//! Which data the exchanges in progress wait for.

use crate::app::{Framer, Protocol};
use crate::model::{Owner, Slices};
use crate::tcp::connection::asked::{has_sent_only_early_data, is_unreadable, passed};
use crate::tcp::connection::cold::Cold;
use crate::tcp::path::Path;
use crate::tcp::sender::{Kind, Sender};
use crate::tcp::setup::Setup;
use crate::tcp::thresholds::HANDSHAKE_WAITED_FOR_NS;
use crate::tcp::timeline::Timeline;
use crate::wire::{Segment, Side, TcpFlags};

/// The exchanges in progress, and what shows which data they wait for.
#[derive(Clone, Copy)]
pub(super) struct Awaited<'a> {
    pub senders: &'a [Sender; 2],
    pub path: &'a Path,
    pub setup: &'a Setup,
    pub framer: &'a Framer,
    pub timeline: &'a Timeline,
    pub cold: &'a Cold,
    /// The capture does not contain the beginning of the connection.
    pub mid_stream: bool,
}

impl Awaited<'_> {
    /// Returns whether a segment ends a silence of the exchange. A retransmission by the side that
    /// does not send the current message does not end one.
    #[inline]
    pub fn moves_cursor(self, side: Side, kind: Kind, arrived: bool, start: u64) -> bool {
        // A response that an ACK overtook is still a response.
        let sender = &self.senders[side];
        if kind == Kind::Reordered && sender.history().holes.continues_at(start, sender.space.nxt) {
            return true;
        }
        let waited_for = !arrived && !self.cold.is_aside(side, start);
        if matches!(kind, Kind::Retransmission(_)) && !waited_for {
            return false;
        }
        if self.is_outside_exchanges(side, kind) || self.repairs_after_close(side, kind, start) {
            return false;
        }
        matches!(kind, Kind::New | Kind::Fill(_))
            || self.timeline.active.is_none_or(|active| active == side)
    }

    /// Returns whether the server retransmits data that it had sent after the client closed during
    /// the response, or behind a TLS handshake without any request: nothing waits for that.
    fn repairs_after_close(self, side: Side, kind: Kind, start: u64) -> bool {
        let closed_ns = self.cold.ending().fin_ns[Side::Client];
        let noticed_ns = self.senders[side].history().holes.noticed_ns(start);
        side == Side::Server
            && matches!(kind, Kind::Fill(_))
            && (self.timeline.active == Some(Side::Server) || self.timeline.exchanges.is_ready())
            && closed_ns.zip(noticed_ns).is_some_and(|(closed, noticed)| closed <= noticed)
    }

    /// Returns whether `side` sends data that no exchange in progress waits for: all requests are
    /// complete and not yet answered, as far as everything was captured. In HTTP/2 the end of a
    /// request is known, though not always that of its response: a ping during a call needs no
    /// answer of the server's application.
    pub fn is_outside_exchanges(self, side: Side, kind: Kind) -> bool {
        let ends_are_known =
            !self.framer.is_open_ended() || self.framer.protocol() == Protocol::Http2;
        side == Side::Client
            && kind == Kind::New
            && self.timeline.exchanges.all_asked()
            && ends_are_known
            && self.senders[Side::Server].volume.has_packets()
            && self.cold.faults().missing_bytes == 0
            && !has_sent_only_early_data(self.setup, &self.senders[Side::Client])
    }

    /// Returns whether the server only sends frames that keep the connection alive, or reports of
    /// progress, while its client waits for a response, so that the wait continues; in HTTP/2 also while
    /// the client sends its request, of which they grant more; or whether the client gives up that wait
    /// with a TLS alert (RFC 8446 §6).
    pub fn says_nothing(
        self,
        side: Side,
        (start, segment): (u64, &Segment),
        payload: &[u8],
    ) -> bool {
        let may_be = match side {
            Side::Server => {
                let protocols = [Protocol::Http2, Protocol::Mysql, Protocol::Postgres];
                protocols.contains(&self.framer.protocol())
            }
            Side::Client => self.framer.is_in_tls(),
        };
        may_be
            && (self.timeline.exchanges.all_asked() || self.grants_request())
            && payload.len() == segment.payload_len as usize
            && self.senders[side].in_order() == start
            && self.framer.says_nothing(side, payload)
    }

    /// Returns whether what the server sends may grant more of the request in progress.
    fn grants_request(self) -> bool {
        self.framer.protocol() == Protocol::Http2 && self.timeline.exchanges.is_asking()
    }

    /// Returns whether the server sends unreadable data during a request.
    pub fn response_overlaps(self) -> bool {
        self.timeline.exchanges.response_overlaps(passed(&self.senders[Side::Client]))
            && is_unreadable(self.framer)
    }

    /// Returns whether the server sent unreadable data before it had received the newest request: it
    /// has acknowledged nothing of that, and each segment acknowledges all that has been received (RFC
    /// 9293 §3.10.7.4). The data belongs to an earlier message.
    pub fn precedes_request(self) -> bool {
        let acked = self.senders[Side::Client].space.una_seen();
        let asked_at = self.timeline.exchanges.asked_at();
        is_unreadable(self.framer) && asked_at.is_some_and(|position| acked <= position)
    }

    /// Time for which a request was still on its way to the server after `from_ns`, the time at
    /// which the server had last sent something, ns. Data sent before the request arrived answers
    /// an earlier one.
    pub fn request_under_way_ns(self, from_ns: u64) -> Option<u64> {
        let arrives_ns =
            self.timeline.exchanges.unanswered_since()? + self.path.known_rtt_ns(Side::Server);
        arrives_ns.checked_sub(from_ns).filter(|&ns| ns > 0)
    }

    /// Returns whether no exchange waited in a silence with these `slices`: it follows a TLS handshake,
    /// and is longer than a client that needed the handshake takes to send its request.
    pub fn has_rested(self, slices: &Slices) -> bool {
        if !self.timeline.exchanges.is_ready() {
            return false;
        }
        // A delay by a late or lost packet is no pause of the client.
        let own = slices.iter().filter(|it| matches!(it.owner, Owner::Client | Owner::Server));
        own.map(|slice| slice.ns).sum::<u64>() > HANDSHAKE_WAITED_FOR_NS
    }

    /// Returns whether an ACK shows that the server has received some of the current request;
    /// before that it did not work on it.
    pub fn has_received_request(self) -> bool {
        let client = &self.senders[Side::Client];
        let began = self.timeline.exchanges.front().map_or(0, |it| it.began_at[Side::Client]);
        client.space.una_seen() > began || client.space.nxt <= began
    }

    /// Returns whether data of the server after a pause since `since_ns` is no response: the protocol
    /// shows that, or the client closed meanwhile.
    pub fn is_unsolicited(self, since_ns: u64) -> bool {
        let closed_ns = self.cold.ending().fin_ns[Side::Client];
        self.framer.is_set_aside() || closed_ns.is_some_and(|at_ns| since_ns < at_ns)
    }

    /// Returns whether the data that was read last belongs neither to the request in progress nor to its
    /// response, so that the wait for the response goes on: settings, pings and window updates of HTTP/2 (RFC
    /// 9113 §6), tickets and alerts of TLS. In other protocols the parser may set a real response aside, for
    /// example one that answers no call that it knows.
    pub fn is_between_request_and_response(self) -> bool {
        (self.framer.protocol() == Protocol::Http2 || self.framer.is_in_tls())
            && self.framer.is_set_aside()
            && self.timeline.exchanges.is_unanswered()
    }

    /// Returns whether data of `side` may continue a message whose beginning was not captured.
    #[inline]
    pub fn may_be_under_way(self, side: Side) -> bool {
        self.mid_stream && !self.timeline.has_begun() && self.senders[side].space.started()
    }

    /// Returns whether `segment` is part of a response whose request was not captured: a full
    /// segment is; a single small one may be unsolicited.
    pub fn may_continue_response(self, side: Side, segment: &Segment) -> bool {
        side == Side::Server
            && u64::from(segment.payload_len) >= self.senders[side].sizes.smss()
            && self.may_be_under_way(side)
    }

    /// Returns whether the timer of `side` repeats `segment` of a message that began before the
    /// capture or whose request was not captured: `side` waits for the ACK. The end of a connection
    /// is excluded, since nothing waits for it.
    pub fn repeats_unacknowledged_message(self, side: Side, segment: &Segment) -> bool {
        let ends = segment.flags.has(TcpFlags::FIN) || self.cold.ending().fin[side].is_some();
        !self.timeline.exchanges.accrues()
            && !ends
            && self.may_be_under_way(side)
            && self.senders[side].history().losses.repeating.doubles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `ask` with a connection on which nothing has begun, in the middle of which the capture
    /// began if `mid_stream`; its server has sent data.
    fn with<T>(mid_stream: bool, ask: impl Fn(Awaited<'_>) -> T) -> T {
        let mut senders = [Sender::of(Side::Client), Sender::of(Side::Server)];
        senders[Side::Server].space.position(100);
        let (path, setup, timeline) = (Path::default(), Setup::default(), Timeline::new());
        let (framer, cold) = (Framer::new(80, mid_stream), Cold::default());
        let (senders, path, setup, timeline) = (&senders, &path, &setup, &timeline);
        let (framer, cold) = (&framer, &cold);
        ask(Awaited { senders, path, setup, framer, timeline, cold, mid_stream })
    }

    #[test]
    fn only_a_capture_from_the_middle_shows_messages_under_way() {
        assert!(with(true, |it| it.may_be_under_way(Side::Server)));
        assert!(!with(true, |it| it.may_be_under_way(Side::Client)));
        assert!(!with(false, |it| it.may_be_under_way(Side::Server)));
    }

    #[test]
    fn data_that_had_arrived_ends_no_silence() {
        let repeated = Kind::Retransmission(crate::judge::Recovery::Timer);
        let moves =
            |kind, arrived| with(false, |it| it.moves_cursor(Side::Server, kind, arrived, 1));
        assert!(moves(Kind::New, false) && moves(repeated, false));
        assert!(!moves(repeated, true));
    }
}
