//! Clients that try an address and, when no answer comes, another address of the same name: often one
//! of the other family (RFC 8305 §5). What they do on the connection that is finally set up has
//! waited for that.

use crate::app::{Label, Protocol};
use crate::capture::FrameId;
use crate::dns::Lookup;
use crate::findings::proof::Proof;
use crate::findings::tally::{First, Instance, Key, Tally};
use crate::judge::thresholds::{ALIKE_PART, HABIT_MIN, RTO_INITIAL_NS};
use crate::model::{Cause, Culprit, Fact, Ledger, Owner, Role, Sighting, Vantage};
use crate::tcp::Connection;
use crate::wire::{Endpoint, Side};
use hashbrown::HashMap;

/// Number of SYNs kept. These are the earliest; delays by later ones are not reported.
const KEPT_MAX: usize = 1 << 10;

/// Name of the fact: number of clients that tried another address.
pub(super) const FALLBACKS: &str = "fallbacks";

/// An attempt that was never answered.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct Unanswered {
    client: Endpoint,
    server: Endpoint,
    syn: Sighting,
    /// Time of the last SYN, ns.
    last_ns: u64,
    /// Time by which the client has given up, or its kernel would have sent another SYN, ns.
    until_ns: u64,
}

impl Unanswered {
    /// Returns the attempt of `connection`, if it was never answered.
    pub(super) fn of(connection: &Connection) -> Option<Self> {
        let setup = &connection.setup;
        if setup.syn_acks != 0 || setup.refused || connection.view().sends_probes() {
            return None;
        }
        let silent = !connection.senders[Side::Server].space.started() && !setup.has_heard_answer();
        let (client, server) = (connection.client(), connection.server());
        let syn = setup.frames().syn.filter(|_| silent)?;
        let times_ns: Vec<_> = setup.syns_before_answer().map(|syn| syn.time_ns).collect();
        let last_ns = setup.syn_last_ns();
        // The timer doubles, or stays the same (RFC 6298 §5.5; `tcp_syn_linear_timeouts`).
        let mut waits = times_ns.windows(2).map(|pair| 2 * (pair[1] - pair[0]));
        let until_ns = last_ns + waits.next_back().unwrap_or(0).max(RTO_INITIAL_NS);
        Some(Self { client, server, syn, last_ns, until_ns })
    }

    fn is_repeated(&self) -> bool {
        self.last_ns > self.syn.time_ns
    }

    fn rank(&self) -> (u64, FrameId) {
        (self.syn.time_ns, self.syn.frame)
    }

    /// Returns whether the client of this attempt opened the connection of `first` instead. That
    /// both clients are one host is known if the capture was taken there. If the client has tried
    /// for long, or both addresses are of one family, a look-up must show that they have one name,
    /// or the client must go from one to the other again and again.
    fn leads_to(&self, first: &First, lookups: &[Lookup], habits: &Habits) -> bool {
        let is_other_family = first.server.ip().is_ipv4() != self.server.ip().is_ipv4();
        let is_soon = first.start_ns < self.syn.time_ns + RTO_INITIAL_NS;
        let is_same_client = first.client == self.client.address;
        self.is_beside(first)
            && (is_same_client || is_other_family && first.was_seen_at_client())
            && (is_other_family && is_soon && first.was_seen_at_client()
                || first.established && self.is_named_with(first, lookups)
                || is_same_client && first.established && habits.has(self, first))
    }

    /// Returns whether `first` is with the same service at another address.
    fn is_beside(&self, first: &First) -> bool {
        first.server.port == self.server.port && first.server.address != self.server.address
    }

    /// Returns whether the client, from one of its addresses, has looked up a name that has both
    /// addresses.
    fn is_named_with(&self, first: &First, lookups: &[Lookup]) -> bool {
        lookups.iter().any(|lookup| {
            [self.client.address, first.client].contains(&lookup.client)
                && lookup.start_ns <= first.start_ns
                && [self.server.address, first.server.address]
                    .iter()
                    .all(|address| lookup.addresses.contains(address))
        }) || self.is_named_by_two(first, lookups)
    }

    /// Returns whether two look-ups of one name, for A and for AAAA, have one address each.
    fn is_named_by_two(&self, first: &First, lookups: &[Lookup]) -> bool {
        let of = |address: [u8; 16]| {
            lookups
                .iter()
                .filter(move |it| it.addresses.contains(&address) && it.start_ns <= first.start_ns)
        };
        let clients = [self.client.address, first.client];
        let mut dead = of(self.server.address).filter(|it| clients.contains(&it.client));
        dead.any(|one| of(first.server.address).any(|it| it.digest == one.digest))
    }
}

/// Clients that go from an address without an answer to another one, by their own timer: they do so
/// again and again, each time after as long.
struct Habits(HashMap<Change, Vec<u64>>);

/// A client, the server that does not answer it, and that to which it goes then.
type Change = ([u8; 16], Endpoint, Endpoint);

impl Habits {
    /// Finds the habits among `attempts`; `firsts` are sorted by time.
    fn of(attempts: &[Unanswered], firsts: &[First]) -> Self {
        let mut delays_ns: HashMap<Change, Vec<u64>> = HashMap::new();
        for attempt in attempts {
            let (from_ns, to_ns) = (attempt.syn.time_ns, attempt.until_ns);
            let from = firsts.partition_point(|first| first.start_ns <= from_ns);
            let mut soon = firsts[from..].iter().take_while(|first| first.start_ns < to_ns);
            let is_next = |first: &&First| {
                first.client == attempt.client.address
                    && first.established
                    && attempt.is_beside(first)
            };
            if let Some(first) = soon.find(is_next) {
                let change = (first.client, attempt.server, first.server);
                delays_ns.entry(change).or_default().push(first.start_ns - from_ns);
            }
        }
        delays_ns.retain(|_, delays_ns| {
            let (least_ns, most_ns) = (delays_ns.iter().min(), delays_ns.iter().max());
            let alike = least_ns
                .zip(most_ns)
                .is_some_and(|(&least_ns, &most_ns)| most_ns - least_ns < most_ns / ALIKE_PART);
            delays_ns.len() >= HABIT_MIN as usize && alike
        });
        Self(delays_ns)
    }

    /// Returns whether the client of `attempt` usually goes on to the server of `first`.
    fn has(&self, attempt: &Unanswered, first: &First) -> bool {
        self.0.contains_key(&(attempt.client.address, attempt.server, first.server))
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
/// it, or to the attempt if that is counted by itself. `lookups` are those of the capture.
pub(super) fn settle(tally: &mut Tally, lookups: &[Lookup]) {
    let mut attempts = std::mem::take(&mut tally.unanswered);
    attempts.retain(|attempt| !tally.lacks_answers_to(&attempt.client.address));
    if attempts.is_empty() {
        return;
    }
    keep_earliest(&mut attempts);
    attempts.sort_unstable_by_key(Unanswered::rank);
    let mut firsts = tally.take_firsts();
    // An exchange that had to wait begins earlier, and is the next of no other SYN.
    let starts_ns: Vec<_> = firsts.iter().map(|first| first.start_ns).collect();
    let habits = Habits::of(&attempts, &firsts);
    for (at, attempt) in attempts.iter().enumerate() {
        let (from_ns, to_ns) = (attempt.syn.time_ns, attempt.until_ns);
        let from = starts_ns.partition_point(|&start_ns| start_ns <= from_ns);
        let to = starts_ns.partition_point(|&start_ns| start_ns < to_ns);
        let next = firsts[from..to]
            .iter_mut()
            .find(|first| first.start_ns > from_ns && attempt.leads_to(first, lookups, &habits));
        match next {
            Some(first) if attempt.is_repeated() => {
                // Another address that did not answer either may have been tried before.
                let begins = attempts[at + 1..].iter().filter(|it| {
                    it.server.port == attempt.server.port
                        && it.server.address != attempt.server.address
                        && it.client.address == attempt.client.address
                });
                let begins_ns = begins.map(|it| it.syn.time_ns).min().unwrap_or(u64::MAX);
                add_to_attempt(attempt, first, begins_ns.min(first.start_ns), tally);
            }
            Some(first) => add_wait(attempt, first, tally),
            None => {}
        }
    }
    tally.firsts = firsts;
}

/// Makes the time until the client went on at `went_on_ns`, at last with `first`, the cost of
/// `attempt`, which is counted by itself. Nothing waits for SYNs that are repeated after that.
fn add_to_attempt(attempt: &Unanswered, first: &First, went_on_ns: u64, tally: &mut Tally) {
    let server = tally.row_of(attempt.server);
    let is_of = |key: &&Key| key.cause == Cause::SynRetransmit && key.culprit.endpoint == server;
    let Some(key) = tally.causes.of(server).map(|(key, _)| key).find(is_of).cloned() else {
        return;
    };
    let counted_ns = attempt.last_ns - attempt.syn.time_ns;
    let waited_ns = went_on_ns.saturating_sub(attempt.syn.time_ns);
    if let Some(endpoint) = tally.endpoints.get_mut(&server) {
        let kind: Label = "connect".into();
        endpoint.set_wall(kind.digest(), (counted_ns, waited_ns), Owner::SynRetransmit);
    }
    let next = tally.row_of(first.server);
    tally.led_to.push((server, next));
    let endpoint = tally.endpoints.entry(next).or_default();
    endpoint.waits.begin_earlier(first, attempt.syn.time_ns);
    let cause = tally.causes.at(&key);
    cause.lost_ns = (cause.lost_ns + waited_ns).saturating_sub(counted_ns);
    cause.now.replace(counted_ns, waited_ns);
    cause.note_share(waited_ns, waited_ns);
    cause.shown.add(FALLBACKS, 1);
    if let Some(worst) = cause.worst.as_mut().filter(|worst| worst.client == attempt.client) {
        let (frame, time_ns) = (first.frame, first.start_ns);
        if went_on_ns == time_ns {
            worst.proof.add_frame("went_on", Sighting { frame, time_ns, ..attempt.syn });
        }
        worst.proof.add_fact("fell_back", Fact::Text(first.server.to_string()));
        worst.proof.add_fact("dead", Fact::Text(attempt.server.to_string()));
        worst.proof.add_fact("went_on_ns", Fact::Ns(waited_ns));
    }
}

/// Adds the time of `attempt` to `first`, which had to wait for it.
fn add_wait(attempt: &Unanswered, first: &mut First, tally: &mut Tally) {
    let waited_ns = first.start_ns - attempt.syn.time_ns;
    let mut ledger = Ledger::default();
    ledger.add(Owner::SynRetransmit, waited_ns);
    let server = tally.row_of(first.server);
    let endpoint = tally.endpoints.entry(server).or_default();
    endpoint.prepend(first.kind, first.wall_ns, &ledger);
    endpoint.waits.begin_earlier(first, attempt.syn.time_ns);
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
