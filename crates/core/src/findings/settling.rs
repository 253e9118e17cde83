//! Passes over the sums of all connections, in a fixed order. They decide what no single connection
//! shows.

use crate::findings::causes::set_up::TAKEN_AT_ONCE;
use crate::findings::causes::{
    delayed_ack, error_responses, nagle_delayed_ack, repair, reset, retransmission_timeout,
    send_buffer,
};
use crate::findings::tally::moves::move_cause;
use crate::findings::tally::{CauseTally, Key, Tally};
use crate::findings::{
    announced, app_flow_control, attempts, cross_traffic, left_waiting, legs, listeners, overflow,
    refusals, route_change, shared_link, unheard,
};
use crate::model::{Cause, Owner, Role, Settled};
use crate::wire::Endpoint;
use std::collections::BTreeMap;

struct Pass {
    /// Decision of the pass, in the words of the log.
    decides: &'static str,
    run: fn(&mut Tally),
}

/// The passes, in the order in which they run.
///
/// The first pass completes the sums, before anything is compared. The second leaves out what has the
/// wrong direction. Then the path is settled,
/// because everything that follows compares waits with it: legs, then queues of other traffic, then
/// routes, which explain the remaining queues. If the path does not explain a wait, the sender is
/// examined next: Nagle's algorithm, the peer's application, a shared link. Buffers come after
/// these, since each of them looks like a small buffer. Failures, set-up,
/// refusals and retransmissions concern other causes, and come last.
const PASSES: &[Pass] = &[
    Pass { decides: "sums of exchanges alike are complete", run: complete },
    Pass { decides: "the supposed client listens", run: listeners::settle },
    Pass { decides: "other connections of the same hosts show the path", run: legs::settle },
    Pass { decides: "the wait was in the queue of another transfer", run: cross_traffic::settle },
    Pass { decides: "a delay that is always as long is a route", run: route_change::settle },
    Pass { decides: "the sender does not use Nagle's algorithm", run: nagle_delayed_ack::settle },
    Pass { decides: "the peer's application grants so much", run: app_flow_control::settle },
    Pass { decides: "transfers share a full link", run: shared_link::settle },
    Pass { decides: "the sender writes in pieces by its own clock", run: send_buffer::settle },
    Pass { decides: "the sender met late ACKs by chance", run: delayed_ack::settle },
    Pass { decides: "requests of that kind are answered sooner", run: left_waiting::settle },
    Pass { decides: "the server closes without an answer, by a FIN or a RST", run: reset::settle },
    Pass { decides: "other connections of the hosts work, or none does", run: unheard::settle },
    Pass { decides: "what fails differs from what succeeds", run: attempts::settle },
    Pass { decides: "the listener's queue overflows", run: set_up },
    Pass { decides: "one of the hosts has the packets, and ignores them", run: attempts::place },
    Pass { decides: "the address had been announced for FTP", run: announced::settle },
    Pass { decides: "the refusal does not come from the host", run: refusals::settle },
    Pass { decides: "most retransmissions were needless", run: spurious_losses },
    Pass { decides: "a host drops what has reached the capture there", run: repair::settle },
    Pass {
        decides: "with room in the queue, SYNs would be answered at once",
        run: overflow::compare,
    },
    Pass { decides: "refused logins are delayed", run: error_responses::settle },
];

/// Runs all passes. If there is a `log`, adds to it what each pass changed.
pub(super) fn settle(tally: &mut Tally, log: &mut Option<Vec<Settled>>) {
    for pass in PASSES {
        let before = log.is_some().then(|| costs(tally));
        (pass.run)(tally);
        if let Some((before, log)) = before.zip(log.as_mut()) {
            log.extend(changes(pass.decides, before, costs(tally)));
        }
    }
}

/// A server, a cause, and the role of its culprit.
type CulpritKey = (Endpoint, Cause, Role);

fn costs(tally: &Tally) -> BTreeMap<CulpritKey, u64> {
    let mut costs = BTreeMap::new();
    for (key, cause) in tally.causes.iter() {
        *costs.entry((key.server, key.cause, key.culprit.role)).or_default() += cause.lost_ns;
    }
    costs
}

fn changes(
    decides: &'static str,
    before: BTreeMap<CulpritKey, u64>,
    after: BTreeMap<CulpritKey, u64>,
) -> impl Iterator<Item = Settled> {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let mut changed: BTreeMap<CulpritKey, i64> =
        after.into_iter().map(|(place, ns)| (place, signed(ns))).collect();
    for (place, ns) in before {
        *changed.entry(place).or_default() -= signed(ns);
    }
    changed.retain(|_, ns| *ns != 0);
    changed.into_iter().map(move |((server, cause, role), ns)| Settled {
        decides,
        server,
        cause,
        role,
        ns,
    })
}

/// Adds exchanges that were counted together to the sums of their servers.
fn complete(tally: &mut Tally) {
    tally.settle();
    tally.worst.settle();
}

/// Attributes dropped SYNs to the listener's queue if that overflows.
fn set_up(tally: &mut Tally) {
    // A listener that answers the first SYN has room; then its SYN-ACKs were lost.
    let had_room = |cause: &CauseTally| {
        cause.exchanges > 0 && cause.shown.count(TAKEN_AT_ONCE) == cause.exchanges
    };
    let repeated = tally.causes.iter().filter(|(key, cause)| {
        key.cause == Cause::SynRetransmit && !attempts::is_told(cause) && !had_room(cause)
    });
    let repeated: Vec<_> = repeated.map(|(key, _)| key.clone()).collect();
    if !repeated.is_empty() {
        overflow::by_server(&mut tally.firsts);
    }
    for key in repeated {
        let overflows = |key: &Key| key.cause == Cause::AcceptQueueOverflow;
        let ignores = tally.causes.of(key.server).any(|(other, _)| overflows(other));
        let counts = overflow::fullness(&tally.firsts, key.server);
        if ignores || counts.is_overflow() {
            let owners = Some((Owner::SynRetransmit, Owner::Connect));
            move_cause(tally, &key, Cause::AcceptQueueOverflow, owners);
            let to = tally.causes.of(key.server).map(|(other, _)| other).filter(|it| overflows(it));
            for to in to.cloned().collect::<Vec<_>>() {
                tally.causes.at(&to).shown.add(overflow::FULL, counts.full);
            }
        } else if let Some(cause) = tally.causes.get_mut(&key) {
            cause.shown.add(overflow::EMPTY, counts.empty_at_server);
            cause.shown.add(overflow::OPEN, counts.open);
        }
    }
}

/// Attributes earlier losses to spurious retransmissions if most retransmissions were spurious:
/// that may be known only after their exchange is over.
fn spurious_losses(tally: &mut Tally) {
    let suspects: Vec<_> = tally
        .causes
        .keys()
        .filter(|key| key.cause == Cause::FastRecovery)
        .filter_map(|key| {
            let sent_again = tally.endpoints.get(&key.server)?.sender(key.sender).retransmissions;
            let of = |cause| {
                tally.causes.get(&Key { cause, ..key.clone() }).map(|known| (known.lost_ns, cause))
            };
            let (_, kind) = of(Cause::Reordering)
                .max(of(Cause::SpuriousRetransmission))
                .filter(|_| sent_again.are_mostly_spurious())?;
            Some((key.clone(), kind))
        })
        .collect();
    for (key, kind) in suspects {
        if let Some(cause) = tally.causes.get_mut(&key) {
            cause.count_repairs_only();
        }
        move_cause(tally, &key, kind, None);
    }
    spurious_timeouts(tally);
}

/// Attributes timeouts to spurious retransmissions if the receiver reported every retransmission as
/// spurious (RFC 2883): nothing was lost. Bytes that were seen for the first time were.
fn spurious_timeouts(tally: &mut Tally) {
    let spurious = |(key, cause): (&Key, &CauseTally)| {
        let sent_again = tally.endpoints.get(&key.server)?.sender(key.sender).retransmissions;
        let is_needless = sent_again.are_all_spurious()
            && cause.shown.count(retransmission_timeout::FIRST_SEEN) == 0;
        (key.cause == Cause::RetransmissionTimeout && is_needless)
            .then(|| (key.clone(), sent_again.spurious))
    };
    let all_spurious: Vec<_> = tally.causes.iter().filter_map(spurious).collect();
    for (key, spurious) in all_spurious {
        if let Some(cause) = tally.causes.get_mut(&key) {
            cause.shown.add("dsack", spurious);
            if let Some(instance) = &mut cause.worst {
                instance.proof.mark_spurious();
            }
        }
        move_cause(tally, &key, Cause::SpuriousRetransmission, None);
    }
}
