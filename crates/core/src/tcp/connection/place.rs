//! Where the vantage lies, and what follows from that: which data has arrived once it passes, and
//! whose ACKs are captured as they are sent.

use crate::judge::thresholds::RTO_MIN_NS;
use crate::tcp::path::{Path, is_initial_ttl};
use crate::tcp::sender::{Near, Sender};
use crate::tcp::setup::Setup;
use crate::wire::{BySide, Segment, Side};

/// Returns whether data of `side` has arrived once it passes the vantage.
#[inline]
pub(super) fn arrives(setup: &Setup, path: &Path, side: Side) -> bool {
    setup.confirmed && path.ends_here(side.peer())
}

/// Returns whether the vantage is at the receiver of what `side` sends, and not at its sender.
#[inline]
pub(super) fn is_beside_receiver(setup: &Setup, path: &Path, side: Side) -> bool {
    arrives(setup, path, side) && !path.ends_here(side)
}

/// Returns whether the vantage is at `side`, and not at its peer.
#[inline]
pub(super) fn is_beside_sender(setup: &Setup, path: &Path, side: Side) -> bool {
    setup.confirmed && path.ends_here(side) && !path.ends_here(side.peer())
}

/// Returns which end of the data that `side` acknowledges is at the vantage. If the handshake
/// was not captured and the receiver delays all ACKs, the path to it seems longer than it is;
/// the TTL then shows that no router lies there.
pub(super) fn near(senders: &BySide<Sender>, path: &Path, side: Side, mid_stream: bool) -> Near {
    match [side.peer(), side].map(|end| path.ends_here(end)) {
        [true, false] => Near::Sender { rtt_ns: path.base_rtt_ns() },
        [false, true] => Near::Receiver,
        [false, false] if mid_stream && is_directly_connected(senders, side) => Near::Receiver,
        _ => Near::Neither,
    }
}

/// Returns whether, by their TTLs, packets of the other side have passed a router and those of
/// `side` have not.
pub(super) fn is_directly_connected(senders: &BySide<Sender>, side: Side) -> bool {
    let [here, there] = [side, side.peer()].map(|end| senders[end as usize].packets.last.ttl);
    is_initial_ttl(here) && !is_initial_ttl(there) && there > 0
}

/// Returns for how long nothing can have come to `side` when `segment` of it left, ns; 0 if unknown. The last
/// packet of its peer passed the vantage so long before, and a round trip between them; it has not heard a
/// later one, which the capture misses, as its echo shows (RFC 7323 §4.3). If it was queued on its way, it
/// left that much sooner.
#[cold]
#[inline(never)]
pub(super) fn unheard_ns(
    senders: &BySide<Sender>,
    path: &Path,
    side: Side,
    segment: &Segment,
) -> u64 {
    let (sender, peer) = (&senders[side], &senders[side.peer()]);
    let last = &peer.packets.last;
    let has_heard_more = || {
        let later = |echoed: u32| echoed.wrapping_sub(last.tsval) as i32 > 0;
        segment.echoes().is_some_and(later)
    };
    if !peer.volume.has_packets() || !path.has_sample(side) || has_heard_more() {
        return 0;
    }
    let late_ns = path.rtt_ns(side).saturating_add(sender.clock.queued_ns());
    last.age_ns(segment).saturating_sub(late_ns)
}

/// Returns whether `side`, at the vantage, repeats data from `start` to `end` at `now_ns` by its
/// timer, though the peer's ACK of it passed long before: the host has dropped that segment behind
/// the vantage, with the answer in it. Its timer would have stopped otherwise (RFC 6298 §5.2).
pub(super) fn has_not_heard(sender: &Sender, (start, end): (u64, u64), now_ns: u64) -> bool {
    let is_last = end == sender.space.nxt && end == sender.space.una_seen() && start < end;
    let heard_ns = now_ns.saturating_sub(sender.una_seen_ns);
    let is_still =
        sender.history().losses.unheard_from == start && sender.space.una_seen() == start;
    is_last && heard_ns >= RTO_MIN_NS || is_still
}

/// Returns whether the receiver of what `side` sends, at the vantage, has not acknowledged the data
/// from `start` to `end`, though its ACKs are captured. The data passed the vantage, and only
/// the receiver's ACK, SACK or D-SACK shows that it has arrived: a filter behind the vantage, a wrong
/// checksum or a full buffer of the host drops it. That the ACK is missing at `now_ns`, when the
/// data is sent again, shows a drop only if it was due: the receiver may delay the ACK of less than
/// two full segments (RFC 9293 §3.8.6.3), unless later data had come before them.
pub(super) fn is_awaited_here(
    sender: &Sender,
    (start, end): (u64, u64),
    now_ns: u64,
    rtt_ns: u64,
) -> bool {
    let is_due = || {
        let first = sender.original(start.max(sender.space.una_seen()));
        sender.space.nxt >= sender.space.una_seen() + 2 * sender.sizes.smss()
            || first.is_none_or(|it| now_ns.saturating_sub(it.time_ns) >= RTO_MIN_NS)
            || sender.history().losses.is_repairing(sender.space.una())
            || sender.is_loss_known(now_ns, rtt_ns)
    };
    end > sender.space.una_seen()
        && !sender.history().losses.is_sacked(start, &sender.space)
        && is_due()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path whose client lies 80 ms away; the server's host is at the vantage.
    fn at_server() -> (Setup, Path) {
        let mut path = Path::default();
        path.sample(Side::Client, 80_000_000);
        path.sample(Side::Server, 30_000);
        let mut setup = Setup::default();
        setup.confirmed = true;
        (setup, path)
    }

    #[test]
    fn what_the_client_sends_has_arrived_at_the_server() {
        let (setup, path) = at_server();
        assert!(is_beside_receiver(&setup, &path, Side::Client));
        assert!(!is_beside_receiver(&setup, &path, Side::Server));
        assert!(is_beside_sender(&setup, &path, Side::Server));
        assert!(!is_beside_sender(&setup, &path, Side::Client));
    }

    #[test]
    fn an_incomplete_handshake_does_not_show_the_place() {
        let (setup, path) = (Setup::default(), at_server().1);
        assert!(!arrives(&setup, &path, Side::Client));
        assert!(!is_beside_sender(&setup, &path, Side::Server));
    }
}
