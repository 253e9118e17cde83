//! Clients that try an address of one family and, when no answer comes, an address of the other
//! family (RFC 8305 §5). The request on the connection that was finally set up has waited for that.

use crate::app::{Protocol, Side};
use crate::capture::FrameId;
use crate::findings::proof::Proof;
use crate::findings::tally::{First, Instance, Key, Tally};
use crate::judge::thresholds::RTO_INITIAL_NS;
use crate::model::{Cause, Culprit, Fact, Ledger, Owner, Role, Sighting, Vantage};
use crate::tcp::Connection;
use crate::wire::Endpoint;

/// Number of SYNs kept. These are the earliest; delays by later ones are not reported.
const KEPT_MAX: usize = 1 << 10;

/// Name of the fact: number of clients that tried another address.
pub(super) const FALLBACKS: &str = "fallbacks";

/// A SYN that was sent once and never answered.
#[derive(Clone, Copy, Debug)]
pub struct Unanswered {
    client: Endpoint,
    server: Endpoint,
    syn: Sighting,
}

impl Unanswered {
    /// Returns the unanswered SYN of `connection`, if it was sent once and never answered.
    pub(super) fn of(connection: &Connection) -> Option<Self> {
        let setup = &connection.setup;
        if setup.syns != 1 || setup.syn_acks != 0 || setup.refused {
            return None;
        }
        let silent = !connection.senders[Side::Server as usize].started();
        let (client, server) = (connection.client(), connection.server());
        setup.frames().syn.filter(|_| silent).map(|syn| Self { client, server, syn })
    }

    fn rank(&self) -> (u64, FrameId) {
        (self.syn.time_ns, self.syn.frame)
    }

    /// Returns whether the client of this SYN opened the connection of `first` next. That both
    /// clients are one host is known if the capture was taken there.
    fn leads_to(&self, first: &First) -> bool {
        first.server.port == self.server.port
            && first.server.ip().is_ipv4() != self.server.ip().is_ipv4()
            && first.was_seen_at_client()
    }
}

/// Drops the SYNs beyond the maximum. They are the same ones, whatever shard they were in.
pub(super) fn bound(unanswered: &mut Vec<Unanswered>) {
    if unanswered.len() >= KEPT_MAX + KEPT_MAX / 4 {
        keep_earliest(unanswered);
    }
}

fn keep_earliest(unanswered: &mut Vec<Unanswered>) {
    if unanswered.len() > KEPT_MAX {
        unanswered.select_nth_unstable_by_key(KEPT_MAX, Unanswered::rank);
        unanswered.truncate(KEPT_MAX);
    }
}

/// Adds the time until a client tried another address to the first exchange that had to wait for
/// it.
pub(super) fn settle(tally: &mut Tally) {
    let mut attempts = std::mem::take(&mut tally.unanswered);
    if attempts.is_empty() {
        return;
    }
    keep_earliest(&mut attempts);
    attempts.sort_unstable_by_key(Unanswered::rank);
    let mut firsts = tally.take_firsts();
    // An exchange that had to wait begins earlier, and is the next of no other SYN.
    let starts_ns: Vec<_> = firsts.iter().map(|first| first.start_ns).collect();
    for attempt in &attempts {
        let (from_ns, to_ns) = (attempt.syn.time_ns, attempt.syn.time_ns + RTO_INITIAL_NS);
        let from = starts_ns.partition_point(|&start_ns| start_ns <= from_ns);
        let to = starts_ns.partition_point(|&start_ns| start_ns < to_ns);
        let next = firsts[from..to]
            .iter_mut()
            .find(|first| first.start_ns > from_ns && attempt.leads_to(first));
        if let Some(first) = next {
            add_wait(attempt, first, tally);
        }
    }
    tally.firsts = firsts;
}

/// Adds the time of `attempt` to `first`, which had to wait for it.
fn add_wait(attempt: &Unanswered, first: &mut First, tally: &mut Tally) {
    let waited_ns = first.start_ns - attempt.syn.time_ns;
    let mut ledger = Ledger::default();
    ledger.add(Owner::SynRetransmit, waited_ns);
    let server = tally.row_of(first.server);
    let endpoint = tally.endpoints.entry(server).or_default();
    endpoint.prepend(first.kind, first.wall_ns, &ledger);
    first.wall_ns += waited_ns;
    first.start_ns = attempt.syn.time_ns;
    let mut proof = Proof::default();
    proof.add_frame("syn", attempt.syn);
    proof.add_frame(
        "went_on",
        Sighting { frame: first.frame, time_ns: first.start_ns + waited_ns, ..attempt.syn },
    );
    proof.add_fact("fell_back", Fact::Text(first.server.to_string()));
    proof.add_fact("dead", Fact::Text(attempt.server.to_string()));
    proof.add_fact("went_on_ns", Fact::Ns(waited_ns));
    proof.rule_out(Cause::Refused, "no_rst", true);
    let culprit = Culprit { role: Role::Network, endpoint: attempt.server };
    let sender = Side::Client;
    let cost = tally.causes.at(&Key { cause: Cause::SynRetransmit, sender, server, culprit });
    cost.shown.add(FALLBACKS, 1);
    let instance = Instance {
        rank: ((false, false, waited_ns), std::cmp::Reverse(attempt.rank())),
        proof,
        client: attempt.client,
        server: attempt.server,
        exchange: 0,
        vantage: Vantage::Client,
        software: None,
        protocol: Protocol::default(),
    };
    cost.add_part(first.wall_ns, waited_ns, 1, instance);
}
