//! How a connection ended: its FINs, a RST, or an ICMP error.

use crate::model::Sighting;
use crate::tcp::connection::reset::HeldReset;
use crate::tcp::exchange::Exchange;
use crate::tcp::sender::Sender;
use crate::wire::{BySide, Segment, Side, may_be_of_one_host};

/// How a connection ended so far: its FINs, a RST or an ICMP error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending {
    /// The RST or ICMP error that ended the connection.
    pub reset: Option<Sighting>,
    /// TTL of the RST, and of its sender's other packets (0 if there were none).
    pub reset_ttls: [u8; 2],
    /// The client closed, and the server, which had not closed, answered with a RST without ACK: it
    /// no longer knows the connection (RFC 9293 §3.10.7.1).
    pub forgotten: bool,
    /// Time of each side's FIN, ns.
    pub fin_ns: BySide<Option<u64>>,
    /// The RST has no ACK: its sender does not know the connection (RFC 9293 §3.10.7.1).
    pub unknown: bool,
    /// Time after which nothing more was expected, ns.
    pub over_ns: Option<u64>,
    /// Time for which the client had sent nothing of its own accord, amid its request, when the server
    /// closed, ns.
    pub amid_request_ns: Option<u64>,
    /// The frames of the FINs.
    pub fin: [Option<Sighting>; 2],
    /// Position up to which the first FIN of each side acknowledges its peer's data.
    pub fin_acks: BySide<u64>,
    /// The last data of either side before the RST.
    pub last_data: Option<Sighting>,
    /// The RST, as long as later segments may show that it ended nothing.
    pub(super) held: Option<HeldReset>,
}

impl Ending {
    /// Records the FIN in `segment` of `side`, which acknowledges its peer's data up to `acks`.
    pub(super) fn take_fin(&mut self, side: Side, segment: &Segment, acks: u64) {
        let index = side as usize;
        if self.fin_ns[index].is_none() {
            self.fin_acks[index] = acks;
        }
        self.fin_ns[index].get_or_insert(segment.time_ns);
        self.fin[index].get_or_insert(Sighting::of(side, segment));
    }

    /// Exchanges client and server.
    pub(super) fn swap(&mut self) {
        self.fin_ns.swap(0, 1);
        self.fin.swap(0, 1);
        self.fin_acks.swap(0, 1);
        let seen = self.fin.iter_mut().chain([&mut self.reset, &mut self.last_data]).flatten();
        seen.for_each(|it| it.from = it.from.peer());
    }

    /// Time at which the client closed, ns.
    pub(super) fn client_closed_ns(&self) -> Option<u64> {
        self.fin_ns[Side::Client]
    }

    /// The first FIN or RST.
    pub(super) fn first(&self) -> Option<Sighting> {
        let ends = self.fin.into_iter().chain([self.reset]).flatten();
        ends.min_by_key(|it| (it.time_ns, it.frame))
    }

    /// Returns whether both sides sent a FIN, or a RST ended the connection.
    pub fn is_over(&self) -> bool {
        self.reset.is_some() || self.fin_ns.iter().all(Option::is_some)
    }

    /// Returns whether both sides closed and both FINs are acknowledged, so that later segments
    /// have no effect.
    pub fn is_clean(&self, senders: &BySide<Sender>) -> bool {
        let both =
            |sender: &Sender| sender.space.fin().is_some_and(|fin| sender.space.una_seen() > fin);
        self.reset.is_none() && senders.iter().all(both)
    }

    /// Returns whether both sides have closed and the data or FIN of one is not acknowledged.
    pub fn is_unacknowledged(&self, senders: &BySide<Sender>) -> bool {
        let is_closed = self.fin_ns.iter().all(Option::is_some);
        self.reset.is_none() && is_closed && !self.is_clean(senders)
    }

    /// Returns whether a device on the path sent the RST: the TTL of the RST differs from that of
    /// the other packets of its sender.
    pub fn was_reset_on_path(&self) -> bool {
        let [of_reset, of_others] = self.reset_ttls;
        of_others > 0 && !may_be_of_one_host(of_reset, of_others)
    }

    /// Returns the side that closed of its own accord. A FIN that acknowledges the other side's FIN
    /// only answers it.
    pub(super) fn closed_first(&self, senders: &BySide<Sender>) -> Option<Side> {
        let knew = |side: Side| {
            let fin = senders[side.peer()].space.fin();
            fin.is_some_and(|fin| self.fin_acks[side] > fin)
        };
        match self.fin_ns {
            [_, Some(_)] if !knew(Side::Server) => Some(Side::Server),
            [Some(_), _] => Some(Side::Client),
            [None, fin_ns] => fin_ns.map(|_| Side::Server),
        }
    }

    /// Returns whether the server closed first, `ns` or longer after the last of `senders` had sent data.
    pub(super) fn has_closed_idle(&self, ns: u64, senders: &[Sender; 2]) -> bool {
        let last_ns = senders.iter().map(|sender| sender.last.time_ns).max().unwrap_or(0);
        let closed_ns = self.fin_ns[Side::Server].unwrap_or(0);
        self.closed_first(senders) == Some(Side::Server) && closed_ns >= last_ns.saturating_add(ns)
    }

    /// Time at which the client closed, if data of `sender`, which `side` is, up to `end` had not
    /// reached it, ns. Nothing waits for a retransmission after that.
    pub(super) fn gave_up_ns(&self, side: Side, sender: &Sender, end: u64) -> Option<u64> {
        let arrived = sender.space.una_seen() >= end;
        self.client_closed_ns().filter(|_| side == Side::Server && !arrived)
    }

    /// Returns whether the server's host, to which the round trip is `rtt_server_ns`, had received the
    /// client's FIN when it sent a packet that passes at `now_ns`.
    pub(super) fn has_left(&self, now_ns: u64, rtt_server_ns: u64) -> bool {
        self.client_closed_ns().is_some_and(|left_ns| left_ns + rtt_server_ns < now_ns)
    }

    /// Time on the leg to the client that was not seen, ns, of the round trip `rtt_ns`. It is shorter
    /// if the server's FIN passed before the request of `exchange`, since the FIN was on its way by
    /// then.
    pub(super) fn last_leg_ns(&self, rtt_ns: u64, exchange: Option<&Exchange>) -> u64 {
        match (self.fin_ns[Side::Server], exchange) {
            (Some(fin_ns), Some(exchange)) if fin_ns < exchange.start_ns => {
                rtt_ns.saturating_sub(exchange.start_ns - fin_ns)
            }
            _ => rtt_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(times_ns: [u64; 2]) -> Ending {
        let mut ending = Ending::default();
        for (side, time_ns) in Side::ALL.into_iter().zip(times_ns) {
            ending.take_fin(side, &Segment { time_ns, ..Segment::default() }, 1);
        }
        ending
    }

    #[test]
    fn the_first_fin_of_a_side_counts() {
        let mut ending = closed([10, 20]);
        ending.take_fin(Side::Client, &Segment { time_ns: 30, ..Segment::default() }, 9);
        assert_eq!((ending.fin_ns, ending.fin_acks), ([Some(10), Some(20)], [1, 1]));
        assert_eq!(ending.first().map(|fin| fin.time_ns), Some(10));
        assert!(ending.is_over());
    }

    #[test]
    fn a_fin_belongs_to_its_sender_after_the_sides_are_swapped() {
        let mut ending = closed([10, 20]);
        ending.fin_acks = [1, 2];
        ending.swap();
        assert_eq!((ending.fin_ns, ending.fin_acks), ([Some(20), Some(10)], [2, 1]));
        let from = ending.fin.map(|fin| fin.map(|fin| fin.from));
        assert_eq!(from, Side::ALL.map(Some));
        assert_eq!(ending.first().map(|fin| fin.from), Some(Side::Server));
    }

    #[test]
    fn a_fin_before_the_request_was_on_its_way() {
        let asked_at = |start_ns| Exchange { start_ns, ..Exchange::default() };
        assert_eq!(closed([10, 20]).last_leg_ns(100, Some(&asked_at(50))), 70);
        assert_eq!(closed([10, 20]).last_leg_ns(100, Some(&asked_at(20))), 100);
        assert_eq!(Ending::default().last_leg_ns(100, Some(&asked_at(50))), 100);
    }

    #[test]
    fn a_server_learns_of_a_fin_after_its_round_trip() {
        let ending = closed([10, 90]);
        assert!(!ending.has_left(30, 20));
        assert!(ending.has_left(31, 20));
    }

    #[test]
    fn a_reset_with_another_ttl_comes_from_the_path() {
        let with = |reset_ttls| Ending { reset_ttls, ..Ending::default() };
        assert!(with([64, 52]).was_reset_on_path());
        assert!(!with([52, 52]).was_reset_on_path());
        assert!(!with([64, 0]).was_reset_on_path(), "nothing else of that host was seen");
    }
}
