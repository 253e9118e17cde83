//! Requests that wait for another client of the same server.
//!
//! A client that holds a lock, a transaction, a connection of a pool or the only worker, and does nothing
//! with it, makes the requests of others wait. The packets show it so: on the other connection nothing
//! passes for as long as the requests wait, then its client goes on (a `COMMIT`, the end of the
//! connection), the server answers that, and within the time that its host takes (and the round trip, if
//! the capture is not at the server) the first request is answered, and soon those that waited behind it.
//!
//! A worker that serves a connection to its end answers the requests on it, and nobody else's; there only the
//! end of the connection tells.
//!
//! That may be chance. Each of the clients that were idle for as long goes on once in the time in which
//! the requests waited, so the chance that one did so just before the answer is the sum of these short
//! times, as a part of the whole time. It has to be less than that of three coincidences of one in eight
//! (`AT_ONCE_PART`, `HABIT_MIN`).

use crate::findings::nested::Nested;
use crate::findings::tally::{Act, Acts, EndpointTally, Tally, Wait};
use crate::findings::thresholds::COST_MIN_NS;
use crate::judge::thresholds::{AT_ONCE_PART, HABIT_MIN, HOST_DELAY_MAX_NS};
use crate::model::{Cause, Fact, Finding};
use crate::wire::Endpoint;

/// The client that others wait for.
struct Holder {
    act: Act,
    /// Number of waits that ended when it went on.
    released: u64,
}

impl Wait {
    /// Returns whether `act` of another client may have ended this wait: its connection was idle from
    /// before the request on, and the answer came `reach_ns` or less after the server had done with it.
    fn is_ended_by(&self, act: &Act, reach_ns: u64) -> bool {
        let is_other = act.client.address != self.client || act.client.port != self.client_port;
        // A worker that serves a connection to its end answers that in the meantime.
        let held_all_the_time = act.time_ns.saturating_sub(act.idle_ns) <= self.asked_ns;
        is_other
            && (held_all_the_time || act.kind.is_none())
            && act.time_ns > self.asked_ns
            && (act.time_ns..=act.done_ns.saturating_add(reach_ns)).contains(&self.answered_ns)
    }
}

impl Holder {
    /// Finds the client that most of the time in the waits for `server` was for.
    fn of(server: Endpoint, endpoint: &EndpointTally, acts: &Acts) -> Option<Self> {
        let waits = || endpoint.waits.all().iter().filter(|it| it.wait_ns() >= COST_MIN_NS);
        let all_ns = waits().map(Wait::wait_ns).fold(0, u64::saturating_add);
        let begun_ns = waits().map(|it| it.asked_ns).min()?;
        let span_ns = waits().map(|it| it.answered_ns).max()?.saturating_sub(begun_ns);
        let reach_ns = |wait: &Wait| {
            let way_ns = if wait.at_server { 0 } else { endpoint.round_trips.needed_ns() };
            way_ns.saturating_add(HOST_DELAY_MAX_NS)
        };
        let ended = |wait: &Wait| {
            let acts = acts.after(server, wait.wait_ns())?;
            let act = acts.iter().find(|act| wait.is_ended_by(act, reach_ns(wait)))?;
            let lucky =
                acts.iter().map(|act| (act.done_ns - act.time_ns).saturating_add(reach_ns(wait)));
            let lucky_ns = lucky.fold(0, u64::saturating_add);
            Some((*act, wait.wait_ns(), lucky_ns))
        };
        let ended: Vec<_> = waits().filter_map(ended).collect();
        // Requests that queued behind the first one are answered a little later than that.
        let follows = |wait: &Wait, act: &Act| {
            let reach_ns = reach_ns(wait).max(wait.wait_ns() / (AT_ONCE_PART * AT_ONCE_PART));
            wait.is_ended_by(act, reach_ns)
        };
        let is_ended = |wait: &&Wait| ended.iter().any(|(act, ..)| follows(wait, act));
        let ended_ns = waits().filter(is_ended).map(Wait::wait_ns).fold(0, u64::saturating_add);
        let lucky_ns = ended.iter().map(|(.., lucky_ns)| *lucky_ns).max()?;
        let one_in = u128::from(AT_ONCE_PART.pow(HABIT_MIN));
        let is_chance = u128::from(lucky_ns) * one_in > u128::from(span_ns);
        if is_chance || ended_ns <= all_ns / 2 {
            return None;
        }
        let (act, ..) = *ended.iter().max_by_key(|(act, ns, _)| (*ns, act.idle_ns))?;
        let released = waits().filter(|wait| follows(wait, &act)).count() as u64;
        Some(Self { act, released })
    }
}

/// Adds to the findings about a server's own work for which client its requests waited. A proxy that
/// waits for another server is explained by that.
pub(super) fn settle(findings: &mut [Finding], tally: &Tally, nested: &[Nested]) {
    for finding in findings.iter_mut().filter(|it| it.cause == Cause::ServerThink) {
        let server = finding.culprit.endpoint;
        let waits_for_other = nested.iter().any(|it| it.server == server)
            || finding.facts.iter().any(|(name, _)| *name == "behind");
        let endpoint = tally.endpoints.get(&server).filter(|_| !waits_for_other);
        let Some(Holder { act, released }) =
            endpoint.and_then(|it| Holder::of(server, it, &tally.acts))
        else {
            continue;
        };
        let what = match act.kind {
            Some(kind) if !kind.is_empty() => format!("sent {kind}"),
            Some(_) => "sent data".into(),
            None => "closed its connection".into(),
        };
        finding.facts.push(("holder", Fact::Text(act.client.to_string())));
        finding.facts.push(("went_on", Fact::Text(what)));
        finding.facts.push(("held_ns", Fact::Ns(act.idle_ns)));
        finding.facts.push(("released", Fact::Count(released)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Label;

    const MS: u64 = 1_000_000;

    fn client(port: u16) -> Endpoint {
        Endpoint { address: [1; 16], port }
    }

    /// Returns a server with waits of these clients from and to these times, ms.
    fn server(times_ms: impl IntoIterator<Item = (u16, u64, u64)>) -> EndpointTally {
        let mut endpoint = EndpointTally::default();
        for (port, from_ms, to_ms) in times_ms {
            endpoint.waits.insert(Wait {
                began_ns: from_ms * MS,
                asked_ns: from_ms * MS,
                answered_ns: to_ms * MS,
                ended_ns: to_ms * MS,
                busy_ns: (to_ms - from_ms) * MS,
                count: 1,
                client: client(port).address,
                kind: 0,
                client_port: port,
                streams: false,
                at_server: true,
                at_client: false,
            });
        }
        endpoint
    }

    /// Returns how many waits an act of client 9 of this `kind` released at this time, after so much
    /// idleness, ms.
    fn released_by(
        kind: Option<Label>,
        endpoint: EndpointTally,
        (time_ms, idle_ms): (u64, u64),
    ) -> u64 {
        let mut acts = Acts::default();
        let (time_ns, idle_ns) = (time_ms * MS, idle_ms * MS);
        let done_ns = time_ns + 2 * MS;
        let server = Endpoint::default();
        acts.insert(server, Act { time_ns, done_ns, idle_ns, client: client(9), kind });
        Holder::of(server, &endpoint, &acts).map_or(0, |it| it.released)
    }

    /// Returns how many waits a request of client 9 released.
    fn released(endpoint: EndpointTally, time_ms: u64, idle_ms: u64) -> u64 {
        released_by(Some(Label::default()), endpoint, (time_ms, idle_ms))
    }

    const WAITS: [(u16, u64, u64); 3] = [(1, 1_000, 6_001), (2, 1_300, 6_001), (3, 4_000, 6_000)];

    #[test]
    fn requests_wait_for_a_client_that_held_something_all_the_time() {
        assert_eq!(released(server(WAITS), 6_000, 5_500), 3);
        assert_eq!(released(server(WAITS), 5_998, 5_500), 3, "the server takes 2 ms for its end");
        let queued = WAITS.into_iter().chain([(4, 2_000, 6_040)]);
        assert_eq!(released(server(queued), 6_000, 5_500), 4, "and 39 ms for what waits behind");
    }

    #[test]
    fn requests_wait_for_a_worker_that_serves_a_connection_to_its_end() {
        assert_eq!(released_by(None, server(WAITS), (6_000, 900)), 3);
        assert_eq!(released_by(None, server(WAITS), (5_990, 900)), 0);
    }

    /// Negative twins.
    #[test]
    fn requests_that_a_client_s_act_does_not_explain() {
        assert_eq!(released(server(WAITS), 5_990, 5_500), 0, "the answers came later");
        assert_eq!(released(server(WAITS), 6_000, 3_000), 0, "it was busy when most waits began");
        assert_eq!(released(server([(9, 1_000, 6_001)]), 6_000, 5_500), 0, "its own request");
        let short = [(1, 1_000, 1_300), (2, 1_100, 1_300)];
        assert_eq!(released(server(short), 1_299, 1_000), 0, "one in 300 is chance");
        let others = (0..10).map(|at| (1, 10_000 * at + 10_000, 10_000 * at + 15_000));
        assert_eq!(released(server(WAITS.into_iter().chain(others)), 6_000, 5_500), 0);
    }
}
