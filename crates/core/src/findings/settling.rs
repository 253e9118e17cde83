//! Passes over the sums of all connections, in a fixed order: they settle what no single one shows.

use crate::app::Side;
use crate::findings::causes::{delayed_ack, nagle_delayed_ack, send_buffer};
use crate::findings::tally::{Key, Tally};
use crate::findings::{
    app_flow_control, cross_traffic, legs, overflow, refusals, route_change, shared_link,
};
use crate::model::{Cause, Class, Owner, Role, Settled};
use crate::wire::Endpoint;
use std::collections::BTreeMap;

/// A pass.
struct Pass {
    /// Its decision, in the words of the log.
    decides: &'static str,
    run: fn(&mut Tally),
}

/// The passes, in the order in which they run.
///
/// Sums have to be complete before anything is compared (the first pass). Then the path is settled,
/// for all that follows compares waits with it: legs, then queues of other traffic, then routes,
/// which explain the queues that are left. A wait for which the path is no reason is next tried as
/// the sender's own doing: Nagle's algorithm, the peer's application, a shared link; buffers come
/// after these, since each of them looks like a small buffer. Set-up, refusals and repetitions
/// touch other causes, and come last.
const PASSES: &[Pass] = &[
    Pass { decides: "sums of exchanges alike are complete", run: complete },
    Pass { decides: "other connections of the same hosts show the path", run: legs::settle },
    Pass { decides: "the wait was in the queue of another transfer", run: cross_traffic::settle },
    Pass { decides: "a delay that is always as long is a route", run: route_change::settle },
    Pass { decides: "the sender does not use Nagle's algorithm", run: nagle_delayed_ack::settle },
    Pass { decides: "the peer's application grants so much", run: app_flow_control::settle },
    Pass { decides: "transfers share a full link", run: shared_link::settle },
    Pass { decides: "the sender writes in pieces by its own clock", run: send_buffer::settle },
    Pass { decides: "the sender met late ACKs by chance", run: delayed_ack::settle },
    Pass { decides: "the listener's queue overflows", run: set_up },
    Pass { decides: "the refusal does not come from the host", run: refusals::settle },
    Pass { decides: "most retransmissions were needless", run: repeats },
    Pass {
        decides: "with room in the queue, SYNs would be answered at once",
        run: overflow::compare,
    },
];

/// Runs all passes; adds to `log`, where there is one, what each changed.
pub(super) fn settle(tally: &mut Tally, log: &mut Option<Vec<Settled>>) {
    for pass in PASSES {
        let before = log.is_some().then(|| costs(tally));
        (pass.run)(tally);
        if let Some((before, log)) = before.zip(log.as_mut()) {
            log.extend(changes(pass.decides, before, costs(tally)));
        }
    }
}

/// A cause at a server and its culprit's role.
type Place = (Endpoint, Cause, Role);

fn costs(tally: &Tally) -> BTreeMap<Place, u64> {
    let mut costs = BTreeMap::new();
    for (key, cause) in tally.causes.iter() {
        *costs.entry((key.server, key.cause, key.culprit.role)).or_default() += cause.lost_ns;
    }
    costs
}

fn changes(
    decides: &'static str,
    before: BTreeMap<Place, u64>,
    after: BTreeMap<Place, u64>,
) -> impl Iterator<Item = Settled> {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let mut changed: BTreeMap<Place, i64> =
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

/// Cause and owner of an application's time.
pub(super) fn think(sender: Side) -> (Cause, Owner) {
    match sender {
        Side::Client => (Cause::ClientThink, Owner::Client),
        Side::Server => (Cause::ServerThink, Owner::Server),
    }
}

/// Gives dropped SYNs to the listener's queue where that overflows.
fn set_up(tally: &mut Tally) {
    let repeated = tally.causes.keys().filter(|key| key.cause == Cause::SynRetransmit);
    let repeated: Vec<_> = repeated.cloned().collect();
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
            cause.shown.add(overflow::EMPTY, counts.empty);
            cause.shown.add(overflow::OPEN, counts.open);
        }
    }
}

/// Gives earlier losses the cause of needless repetitions where most repetitions were needless:
/// that may be known only when their exchange is over.
fn repeats(tally: &mut Tally) {
    let suspects: Vec<_> = tally
        .causes
        .keys()
        .filter(|key| key.cause == Cause::FastRecovery)
        .filter_map(|key| {
            let repeats = tally.endpoints.get(&key.server)?.sender(key.sender).repeats;
            let of = |cause| {
                tally.causes.get(&Key { cause, ..key.clone() }).map(|known| (known.lost_ns, cause))
            };
            let (_, kind) = of(Cause::Reordering)
                .max(of(Cause::SpuriousRetransmission))
                .filter(|_| repeats.are_mostly_needless())?;
            Some((key.clone(), kind))
        })
        .collect();
    for (key, kind) in suspects {
        move_cause(tally, &key, kind, None);
    }
    needless_timeouts(tally);
}

/// Gives timeouts the cause of needless repetitions where the receiver reported every repetition as
/// needless (RFC 2883): nothing was lost.
fn needless_timeouts(tally: &mut Tally) {
    let needless = |key: &Key| {
        let repeats = tally.endpoints.get(&key.server)?.sender(key.sender).repeats;
        (key.cause == Cause::RetransmissionTimeout && repeats.are_all_needless())
            .then(|| (key.clone(), repeats.needless))
    };
    let all_needless: Vec<_> = tally.causes.keys().filter_map(needless).collect();
    for (key, needless) in all_needless {
        if let Some(cause) = tally.causes.get_mut(&key) {
            cause.shown.add("dsack", needless);
            if let Some(instance) = &mut cause.worst {
                instance.proof.was_needless();
            }
        }
        move_cause(tally, &key, Cause::SpuriousRetransmission, None);
    }
}

/// Moves the sums of `key` to the cause `to`.
pub(super) fn move_cause(tally: &mut Tally, key: &Key, to: Cause, owners: Option<(Owner, Owner)>) {
    let Some(mut moved) = tally.causes.remove(key) else { return };
    if let (Some((_, into)), Class::Fault) = (owners, to.class()) {
        moved.covers.add(into, moved.lost_ns);
    }
    if let Some(owners) = owners {
        tally.shift(key, owners, moved.lost_ns, to.class() == Class::Fault);
    }
    let client = match key.culprit.role {
        Role::Client => key.culprit.endpoint,
        _ => Endpoint::default(),
    };
    let culprit = to.culprit(key.sender, client, key.server);
    let target = Key { cause: to, culprit, ..key.clone() };
    let target = tally.causes.at(&target);
    target.merge(&moved);
    // An exchange that suffered from both is one.
    if let Some(endpoint) = tally.endpoints.get(&key.server) {
        target.exchanges = target.exchanges.min(endpoint.all.exchanges);
        target.connections = target.connections.min(endpoint.connections);
    }
}
