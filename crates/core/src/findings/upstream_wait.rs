//! Servers that wait for other servers: a proxy and its backend, or an application and its database, both
//! seen in one capture.
//!
//! The own time of such a server is the wait for the others, as far as its work elsewhere explains it
//! (`elsewhere.rs`). A capture at its host shows it as the server of some connections and the client of
//! others, perhaps with another address.

mod chance;
mod cover;
mod elsewhere;
mod work;

use crate::findings::causes::upstream_wait;
use crate::findings::nested::Nested;
use crate::findings::tally::{Key, Tally};
use crate::findings::{Floors, costs, prediction, refusals};
use crate::judge::thresholds::AT_ONCE_PART;
use crate::model::{Cause, Class, Fact, Finding, Owner};
use crate::wire::Endpoint;
use elsewhere::Elsewhere;
use std::cmp::Reverse;

/// The servers for which another waits, and the part of its time.
struct Behind {
    /// The one that has most of the time.
    inner: Endpoint,
    /// Others for which it waits, in the same exchanges or at the same time.
    others: Vec<Endpoint>,
    share: f64,
    found: Elsewhere,
}

impl Behind {
    fn find(outer: Endpoint, tally: &Tally) -> Option<Self> {
        let found = elsewhere::find(outer, tally)?;
        let covered = &found.covered;
        let all_ns = covered.inner_ns();
        let mut servers: Vec<_> = covered.parts.iter().map(|(server, ns)| (*server, *ns)).collect();
        servers.retain(|(_, ns)| *ns >= all_ns / AT_ONCE_PART);
        servers.sort_by_key(|&(server, ns)| (Reverse(ns), server));
        let mut servers = servers.into_iter().map(|(server, _)| server);
        let inner = servers.next()?;
        let share = all_ns as f64 / covered.outer_ns.max(1) as f64;
        Some(Self { inner, others: servers.collect(), share, found })
    }

    /// Returns all servers for which it waits.
    fn servers(&self) -> impl Iterator<Item = Endpoint> + '_ {
        std::iter::once(self.inner).chain(self.others.iter().copied())
    }
}

/// A server's wait for another one.
struct Link {
    outer: Endpoint,
    behind: Behind,
    /// Place of the finding about the outer server.
    place: usize,
    waited_ns: u64,
    /// The findings about the inner server explain the wait.
    is_told: bool,
}

/// Returns the time of `finding` in exchanges with `server`, ns.
fn part_ns(finding: &Finding, server: Endpoint, tally: &Tally) -> u64 {
    if finding.cause.class() == Class::Cost {
        let is_of_server = finding.evidence_flow.is_some_and(|(_, it)| it == server);
        return if is_of_server { finding.lost_ns } else { 0 };
    }
    let is_part = |key: &Key| {
        (key.cause, key.sender) == (finding.cause, finding.sender)
            && (key.culprit == finding.culprit || refusals::culprit(key) == finding.culprit)
    };
    let parts = tally.causes.of(server).filter(|(key, _)| is_part(key));
    parts.map(|(_, cause)| cause.lost_ns).sum()
}

/// Returns the times of each of `findings` for which exchanges with `server` had to wait, ns: in
/// these exchanges themselves, and in attempts to connect elsewhere before them.
fn times_ns(findings: &[Finding], server: Endpoint, tally: &Tally) -> Vec<u64> {
    let mut dead: Vec<_> = tally.led_to.iter().filter(|it| it.1 == server).map(|it| it.0).collect();
    dead.sort_unstable();
    dead.dedup();
    let times_ns = findings.iter().map(|finding| {
        let before_ns = dead.iter().map(|&dead| match finding.cause {
            Cause::SynRetransmit => part_ns(finding, dead, tally),
            _ => 0,
        });
        part_ns(finding, server, tally) + before_ns.sum::<u64>()
    });
    times_ns.collect()
}

/// Finds the servers that wait for others.
fn links(findings: &[Finding], tally: &Tally) -> Vec<Link> {
    let thinks = findings.iter().enumerate().filter(|(_, it)| it.cause == Cause::ServerThink);
    let links = thinks.filter_map(|(place, finding)| {
        let outer = finding.culprit.endpoint;
        let behind = Behind::find(outer, tally)?;
        let waited_ns = (finding.lost_ns as f64 * behind.share.min(1.0)) as u64;
        let told_ns: u64 = behind.servers().flat_map(|it| times_ns(findings, it, tally)).sum();
        let is_told = told_ns >= waited_ns / 2;
        Some(Link { outer, behind, place, waited_ns, is_told })
    });
    let mut links: Vec<_> = links.collect();
    links.sort_unstable_by_key(|link| link.outer);
    links
}

/// Subtracts from each server's time the time for which it waited for another, and names the
/// waiting server in the finding that explains most of the wait: of servers that wait for each
/// other, in that of the innermost. If there is none, the time becomes a finding about the wait. The rest is
/// reported if it is still a cost. Returns the time that was subtracted.
pub(super) fn settle(findings: &mut Vec<Finding>, tally: &Tally, floors: &Floors) -> Vec<Nested> {
    let links = links(findings, tally);
    for link in links.iter().filter(|link| link.is_told) {
        for server in [innermost(link, &links)].iter().chain(&link.behind.others) {
            let times_ns = times_ns(findings, *server, tally);
            let most = (0..findings.len()).rev().max_by_key(|&at| times_ns[at]);
            if let Some(at) = most.filter(|&at| times_ns[at] > 0) {
                name_waiting_server(&mut findings[at], link.outer);
            }
        }
    }
    // A stream of events is in no exchange, so that its time is counted once.
    let counted_twice = links.iter().filter(|link| link.behind.found.gathered == 0);
    let nested = counted_twice.map(|link| Nested {
        server: link.outer,
        owner: Owner::Server,
        ns: link.waited_ns,
        shown: None,
    });
    let nested = nested.collect();
    let mut is_small = vec![false; findings.len()];
    let mut waits = Vec::new();
    for link in &links {
        let finding = &mut findings[link.place];
        let whole = finding.clone();
        let own_ns = finding.lost_ns - link.waited_ns;
        take(finding, own_ns);
        let all_ns = tally.endpoints.get(&link.outer).map_or(0, |it| it.all.ledger.total_ns());
        let is_cost = |ns: u64| (ns as f64) >= floors.cost_share * all_ns as f64;
        is_small[link.place] = !is_cost(own_ns);
        let (queued_ns, is_queue) = (own_ns, link.behind.found.covered.pool.is_some());
        let wait_ns = match (link.is_told, is_queue) {
            (true, true) => queued_ns,
            (true, false) => continue,
            (false, true) => whole.lost_ns,
            (false, false) => link.waited_ns,
        };
        if is_queue {
            is_small[link.place] = true;
        }
        if is_cost(wait_ns) {
            waits.push(wait_for(link, whole, wait_ns, tally));
        } else if !is_queue && !link.is_told {
            // A small part does not change what most of the time is.
            *finding = whole;
            is_small[link.place] = false;
            finding.facts.push(("behind", Fact::Text(link.behind.inner.to_string())));
            finding.facts.push(("behind_ns", Fact::Ns(link.waited_ns)));
        }
    }
    let mut is_small = is_small.into_iter();
    findings.retain(|_| !is_small.next().unwrap_or(false));
    findings.extend(waits);
    nested
}

/// Reduces the cost of `finding` to `ns`.
fn take(finding: &mut Finding, ns: u64) {
    finding.share *= ns as f64 / finding.lost_ns.max(1) as f64;
    finding.lost_ns = ns;
}

/// Makes of `finding`, about what a server needs itself, one about its wait of `ns` for others.
fn wait_for(link: &Link, mut finding: Finding, ns: u64, tally: &Tally) -> Finding {
    let Behind { inner, ref others, ref found, .. } = link.behind;
    finding.cause = Cause::UpstreamWait;
    take(&mut finding, ns);
    let endpoint = tally.endpoints.get(&link.outer);
    let all_ns = endpoint.map_or(0, |it| it.all.ledger.total_ns()).max(1);
    let needed_ns = endpoint.map_or(0, |it| it.round_trips.needed_ns());
    let likely = costs::scaled(&finding.latency, 1.0 - ns as f64 / all_ns as f64);
    finding.counterfactual = prediction::of_each(&finding.latency, likely, needed_ns);
    let (covered, waits) = (&found.covered, found.waits.max(1));
    let wait = upstream_wait::Wait {
        waiting: link.outer,
        behind: inner,
        others: others.clone(),
        part_ns: covered.inner_ns().min(covered.outer_ns) / waits,
        of_ns: covered.outer_ns / waits,
        asked: found.asked / waits,
        pool: covered.pool,
        gathered: found.gathered,
    };
    wait.explain(&mut finding);
    finding
}

/// Returns the last server in the chain of those that wait for each other.
fn innermost(link: &Link, links: &[Link]) -> Endpoint {
    let mut inner = link.behind.inner;
    for _ in links {
        match links.iter().find(|it| it.outer == inner && it.is_told) {
            Some(next) if next.behind.inner != link.outer => inner = next.behind.inner,
            _ => break,
        }
    }
    inner
}

/// Adds to `finding` that requests to `outer` wait for its server.
fn name_waiting_server(finding: &mut Finding, outer: Endpoint) {
    match finding.facts.iter_mut().find(|(name, _)| *name == "ahead") {
        Some((_, Fact::Text(ahead))) => *ahead = format!("{ahead} and {outer}"),
        _ => finding.facts.push(("ahead", Fact::Text(outer.to_string()))),
    }
}
