//! Servers that wait for servers: a proxy and what stands behind it, both seen in one capture.
//!
//! What a proxy seems to think is what its backend takes, as long as one silence lies within the other. Where
//! their longest ones begin and end together, and the inner one has most of the time, the outer server
//! is left with what is its own. Beside the proxy it is one connection's server and the other one's
//! client; connections that one client has to several servers are no such pair.

use super::tally::Tally;
use super::{Cause, Floors};
use crate::app::Side;
use crate::report::{Fact, Finding, Vantage};
use crate::wire::Endpoint;

/// The ends of both silences lie no further apart than this part of them: what is between is the
/// proxy's work and the way.
const APART_PART: u64 = 10;

/// What a server takes, and its longest silence.
#[derive(Clone, Copy, Debug)]
struct Thinks {
    server: Endpoint,
    client: [u8; 16],
    vantage: Vantage,
    lost_ns: u64,
    from_ns: u64,
    to_ns: u64,
}

impl Thinks {
    fn of(finding: &Finding, tally: &Tally) -> Option<Self> {
        let server = finding.culprit.endpoint;
        let thinks = |cause: Cause, sender| cause == Cause::ServerThink && sender == Side::Server;
        let mut causes = tally.causes.of(server);
        let (_, cause) = causes.find(|(key, _)| thinks(key.cause, key.sender))?;
        let worst = cause.worst.as_ref()?;
        let (from_ns, to_ns) = worst.proof.span_ns()?;
        let (client, vantage, lost_ns) = (worst.client.address, worst.vantage, finding.lost_ns);
        Some(Self { server, client, vantage, lost_ns, from_ns, to_ns })
    }

    /// Whether it waits for `inner` all the while: that ends first, and takes most of the time.
    fn waits_for(&self, inner: &Self) -> bool {
        let apart_ns = (self.to_ns - self.from_ns) / APART_PART;
        // Beside all of them only the address tells who is one connection's server and another's client; a
        // proxy that it was captured at may have two.
        let beside_proxy = match (self.vantage, inner.vantage) {
            (Vantage::Server, Vantage::Client) => true,
            (Vantage::Server | Vantage::Local, Vantage::Client | Vantage::Local) => {
                self.server.address == inner.client
            }
            _ => false,
        };
        beside_proxy
            && self.client != inner.client
            && self.server != inner.server
            && self.to_ns > inner.to_ns
            && self.to_ns - inner.to_ns <= apart_ns
            && self.from_ns.abs_diff(inner.from_ns) <= apart_ns
            && 2 * inner.lost_ns >= self.lost_ns
            && inner.lost_ns <= self.lost_ns + self.lost_ns / APART_PART
    }
}

/// Takes from each server's time what it waited for another, and tells of that one who waits for it. What
/// is left is told where it is still a cost.
pub(super) fn settle(findings: &mut Vec<Finding>, tally: &Tally, floors: &Floors) {
    let thinks: Vec<_> = findings.iter().filter_map(|it| Thinks::of(it, tally)).collect();
    for outer in &thinks {
        // Of several in a row the innermost: it ends first.
        let inner = thinks.iter().filter(|it| outer.waits_for(it)).min_by_key(|it| it.to_ns);
        let Some(inner) = inner else { continue };
        let own_ns = outer.lost_ns.saturating_sub(inner.lost_ns);
        let all_ns = tally.endpoints.get(&outer.server).map_or(0, |it| it.all.ledger.total_ns());
        let is_cost = own_ns as f64 >= floors.cost_share * all_ns as f64;
        findings.retain_mut(|finding| {
            let of = |server: Endpoint| {
                finding.cause == Cause::ServerThink && finding.culprit.endpoint == server
            };
            if of(inner.server) {
                tell(finding, outer.server);
            } else if of(outer.server) {
                finding.share *= own_ns as f64 / finding.lost_ns.max(1) as f64;
                finding.lost_ns = own_ns;
                return is_cost;
            }
            true
        });
    }
}

/// Requests to `outer` wait for the server of `finding`.
fn tell(finding: &mut Finding, outer: Endpoint) {
    match finding.facts.iter_mut().find(|(name, _)| *name == "ahead") {
        Some((_, Fact::Text(ahead))) => *ahead = format!("{ahead} and {outer}"),
        _ => finding.facts.push(("ahead", Fact::Text(outer.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn proxy(lost_ms: u64, (from_ms, to_ms): (u64, u64)) -> Thinks {
        let server = Endpoint { port: 3128, ..Endpoint::default() };
        let [lost_ns, from_ns, to_ns] = [lost_ms, from_ms, to_ms].map(|ms| ms * MS);
        Thinks { server, client: [1; 16], vantage: Vantage::Server, lost_ns, from_ns, to_ns }
    }

    fn backend(lost_ms: u64, span_ms: (u64, u64)) -> Thinks {
        let server = Endpoint { port: 80, ..Endpoint::default() };
        let vantage = Vantage::Client;
        Thinks { server, client: [2; 16], vantage, ..proxy(lost_ms, span_ms) }
    }

    #[test]
    fn a_proxy_waits_for_the_backend_that_answers_just_before_it_does() {
        let (outer, inner) = (proxy(3_820, (1_000, 1_289)), backend(3_780, (1_001, 1_287)));
        assert!(outer.waits_for(&inner) && !inner.waits_for(&outer));
    }

    #[test]
    fn beside_all_of_them_the_proxy_s_address_tells() {
        let vantage = Vantage::Local;
        let outer = Thinks { vantage, ..proxy(3_820, (1_000, 1_289)) };
        let inner = Thinks { vantage, ..backend(3_780, (1_001, 1_287)) };
        assert!(!outer.waits_for(&inner));
        assert!(outer.waits_for(&Thinks { client: outer.server.address, ..inner }));
    }

    #[test]
    fn servers_that_are_slow_at_other_times_or_for_a_part_only_do_not_wait_for_each_other() {
        let outer = proxy(3_820, (1_000, 1_289));
        assert!(!outer.waits_for(&backend(3_780, (2_001, 2_287))));
        assert!(!outer.waits_for(&backend(3_780, (1_150, 1_287))));
        assert!(!outer.waits_for(&backend(380, (1_001, 1_287))));
        assert!(!outer.waits_for(&backend(9_000, (1_001, 1_287))));
        assert!(!outer.waits_for(&outer));
    }

    #[test]
    fn servers_of_one_client_that_end_together_do_not_wait_for_each_other() {
        let (outer, inner) = (proxy(3_820, (1_000, 1_289)), backend(3_780, (1_001, 1_287)));
        assert!(!outer.waits_for(&Thinks { client: outer.client, ..inner }));
        assert!(!Thinks { vantage: Vantage::Client, ..outer }.waits_for(&inner));
    }
}
