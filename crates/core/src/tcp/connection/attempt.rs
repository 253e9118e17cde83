//! Connection attempts that failed or had to be repeated, as exchanges of their own.

use crate::model::{Outcome, Owner, Sighting, Slice};
use crate::tcp::exchange::{Exchange, GapPlace, Recording};
use crate::tcp::setup::Setup;
use crate::wire::Side;

/// Returns the exchange of a connection attempt that failed or had to be repeated, and was no probe.
/// `reset_ns` is the time of the RST or ICMP error that refused it, if there was one, `closed` the end of
/// a connection that the server accepted only to close it, and `last_ns` the time of the last frame.
pub(super) fn attempt(
    setup: &Setup,
    rtt_client_ns: u64,
    reset_ns: Option<u64>,
    closed: Option<Sighting>,
    last_ns: u64,
    recording: Recording,
) -> Option<Box<Exchange>> {
    // A client that waits for a response repeats its SYN. If there is a single SYN, from the
    // client's own or a forged address, nothing waits.
    let repeated = setup.syns > 1
        || setup.syn_acks > 1 && setup.is_established() && !setup.has_late_client(rtt_client_ns);
    let troubled = setup.refused || repeated || closed.is_some();
    let syn = setup.frames().syn.filter(|_| !setup.claimed && troubled);
    let syn = syn?;
    let end_ns = match (setup.refused, setup.established_ns()) {
        (_, Some(established_ns)) => established_ns,
        (true, None) => reset_ns.unwrap_or(last_ns),
        // A client that neither answers the SYN-ACK nor repeats its SYN waits for nothing.
        (false, None) => {
            let answered_ns = setup.syn_last_ns().max(setup.syn_ack_first_ns().unwrap_or(0));
            setup.unheard_until_ns().map_or(answered_ns, |until_ns| answered_ns.max(until_ns))
        }
    };
    let mut exchange = Exchange {
        kind: "connect".into(),
        start_ns: syn.time_ns,
        end_ns,
        first: syn,
        last: syn,
        connects: true,
        request_seen: true,
        ..Exchange::default()
    };
    exchange.outcome = match (setup.refused, setup.established_ns()) {
        (true, _) => Outcome::Reset { by: Side::Server },
        (_, Some(_)) if closed.is_some() => Outcome::Closed { by: Side::Server },
        (_, Some(_)) => Outcome::Answered,
        _ => Outcome::Unacknowledged,
    };
    exchange.record(recording);
    exchange.set_up(&setup.split(end_ns, 0), syn.frame);
    if let Some(end) = closed {
        let own = Slice::plain(Owner::Server, end.time_ns.saturating_sub(end_ns));
        exchange.ledger.add(own, GapPlace::of_both(end_ns, end.frame));
        (exchange.end_ns, exchange.last) = (end.time_ns.max(end_ns), end);
    }
    exchange.add_last_leg(rtt_client_ns);
    Some(Box::new(exchange))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::FrameId;
    use crate::wire::{Segment, TcpFlags};

    const SECOND_NS: u64 = 1_000_000_000;

    fn with_syns(times_ns: &[u64]) -> Setup {
        let mut setup = Setup::default();
        for &time_ns in times_ns {
            let flags = TcpFlags(TcpFlags::SYN);
            let frame = FrameId::new(0, time_ns);
            setup.client(&Segment { time_ns, frame, flags, ..Segment::default() });
        }
        setup
    }

    #[test]
    fn nothing_waits_behind_a_single_syn() {
        assert!(
            attempt(&with_syns(&[SECOND_NS]), 0, None, None, 9 * SECOND_NS, Recording::Nothing)
                .is_none()
        );
    }

    #[test]
    fn a_repeated_syn_waits_for_its_answer() {
        let setup = with_syns(&[SECOND_NS, 2 * SECOND_NS]);
        let outcome =
            attempt(&setup, 0, None, None, 9 * SECOND_NS, Recording::Nothing).map(|it| it.outcome);
        assert_eq!(outcome, Some(Outcome::Unacknowledged));
    }

    #[test]
    fn a_refused_syn_waits_until_the_rst() {
        let mut setup = with_syns(&[SECOND_NS]);
        setup.refused = true;
        let exchange =
            attempt(&setup, 0, Some(3 * SECOND_NS), None, 9 * SECOND_NS, Recording::Parts);
        let ended = exchange.map(|it| (it.outcome, it.end_ns));
        assert_eq!(ended, Some((Outcome::Reset { by: Side::Server }, 3 * SECOND_NS)));
    }
}
