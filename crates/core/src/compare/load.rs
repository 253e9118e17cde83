//! The requests of a run, and those that only one of two runs has. A comparison of latencies of
//! different requests would show the difference between the requests.

use crate::findings::thresholds::TAIL_SHARE;
use crate::model::Report;
use std::collections::BTreeMap;

/// Labels that do not name a request: how an exchange began, or several kinds together.
const NO_REQUESTS: [&str; 5] = ["", "under way", "greeting", "connect", "TLS handshake"];

/// The label for kinds of requests beyond those listed.
const OTHERS: &str = "(other)";

/// The exchanges of a run by server port and kind of request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    ports: BTreeMap<u16, Port>,
}

/// The exchanges with the servers of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Port {
    exchanges: u64,
    kinds: BTreeMap<String, u64>,
    /// Some kinds were counted together.
    has_others: bool,
}

/// Requests that only one of two runs has.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OnlyIn {
    /// The run that has these requests, `before` or `after`.
    #[cfg_attr(test, schemars(extend("enum" = ["before", "after"])))]
    pub run: &'static str,
    /// Port of their servers.
    pub port: u16,
    /// Kind of the requests; `None` if the other run has nothing on this port.
    pub kind: Option<String>,
    /// Number of exchanges of this kind in this run.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub exchanges: u64,
    /// Number of all exchanges in this run.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub of_exchanges: u64,
}

impl Load {
    /// Returns the load of a report.
    pub fn of(report: &Report) -> Self {
        let mut load = Self::default();
        for at in &report.endpoints {
            let kinds = at.kinds.iter().map(|kind| (kind.kind.as_str(), kind.exchanges));
            load.add(at.endpoint.port, at.exchanges, kinds);
        }
        load
    }

    /// Adds the exchanges of one server.
    pub fn add<'a>(
        &mut self,
        port: u16,
        exchanges: u64,
        kinds: impl Iterator<Item = (&'a str, u64)>,
    ) {
        let at = self.ports.entry(port).or_default();
        at.exchanges = at.exchanges.saturating_add(exchanges);
        for (kind, exchanges) in kinds {
            at.has_others |= kind == OTHERS;
            if kind != OTHERS && !NO_REQUESTS.contains(&kind) {
                let count = at.kinds.entry(kind.to_owned()).or_default();
                *count = count.saturating_add(exchanges);
            }
        }
    }

    fn exchanges(&self) -> u64 {
        self.ports.values().fold(0, |sum: u64, port| sum.saturating_add(port.exchanges))
    }

    /// Returns the requests of this run, named `run`, that `other` does not have, the most frequent
    /// first.
    fn only_in(&self, run: &'static str, other: &Self) -> Vec<OnlyIn> {
        let of_exchanges = self.exchanges();
        let only = |port: u16, kind: Option<&String>, exchanges: u64| OnlyIn {
            run,
            port,
            kind: kind.cloned(),
            exchanges,
            of_exchanges,
        };
        let mut all = Vec::new();
        for (&port, here) in &self.ports {
            let Some(there) = other.ports.get(&port) else {
                all.push(only(port, None, here.exchanges));
                continue;
            };
            // If the other run's kinds cannot be read, or not all are listed, none is known to be
            // missing.
            if there.has_others || there.kinds.is_empty() {
                continue;
            }
            let missing = here.kinds.iter().filter(|(kind, _)| !there.kinds.contains_key(*kind));
            all.extend(missing.map(|(kind, &exchanges)| only(port, Some(kind), exchanges)));
        }
        all.sort_by_key(|it| (std::cmp::Reverse(it.exchanges), it.port));
        all
    }
}

/// Returns the requests that only one of the runs has, those of `after` first.
pub fn differences(before: &Load, after: &Load) -> Vec<OnlyIn> {
    if before.ports.is_empty() || after.ports.is_empty() {
        return Vec::new();
    }
    let mut all = after.only_in("after", before);
    all.extend(before.only_in("before", after));
    all
}

/// Returns whether these differences are large enough in either run to move its 99th percentile.
pub fn is_another(differences: &[OnlyIn]) -> bool {
    ["before", "after"].into_iter().any(|run| {
        let here = differences.iter().filter(|it| it.run == run);
        let (sum, of) =
            here.fold((0.0, 0), |(sum, _), it| (sum + it.exchanges as f64, it.of_exchanges));
        sum > 0.0 && sum >= TAIL_SHARE * of as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(parts: &[(u16, &[(&str, u64)])]) -> Load {
        let mut load = Load::default();
        for (port, kinds) in parts {
            let exchanges = kinds.iter().map(|(_, count)| count).sum();
            load.add(*port, exchanges, kinds.iter().copied());
        }
        load
    }

    fn only_in(before: &Load, after: &Load) -> Vec<(&'static str, u16, Option<String>)> {
        let all = differences(before, after).into_iter();
        all.map(|it| (it.run, it.port, it.kind)).collect()
    }

    #[test]
    fn another_port_is_another_load() {
        let (one, other) = (load(&[(80, &[("GET /", 40)])]), load(&[(81, &[("GET /", 40)])]));
        assert_eq!(only_in(&one, &other), [("after", 81, None), ("before", 80, None)]);
        assert!(is_another(&differences(&one, &other)));
        assert!(differences(&one, &one).is_empty() && !is_another(&[]));
    }

    #[test]
    fn another_kind_is_another_load_from_one_per_cent_on() {
        let one = load(&[(80, &[("GET /", 1000)])]);
        let few = load(&[(80, &[("GET /", 991), ("GET /a", 9)])]);
        let many = load(&[(80, &[("GET /", 990), ("GET /a", 10)])]);
        assert_eq!(only_in(&one, &few), [("after", 80, Some("GET /a".into()))]);
        assert!(!is_another(&differences(&one, &few)));
        assert!(is_another(&differences(&one, &many)) && is_another(&differences(&many, &one)));
    }

    #[test]
    fn kinds_that_cannot_be_read_or_listed_are_not_missing() {
        let one = load(&[(80, &[("GET /", 40)])]);
        for kinds in [[("", 40)], [("(other)", 40)], [("under way", 40)], [("connect", 40)]] {
            let other = load(&[(80, &kinds)]);
            assert!(
                only_in(&one, &other).is_empty() && only_in(&other, &one).is_empty(),
                "{kinds:?}"
            );
        }
        let more = load(&[(80, &[("GET /", 40), ("(other)", 9), ("greeting", 9)])]);
        assert!(only_in(&one, &more).is_empty());
    }

    #[test]
    fn a_clients_own_durations_have_no_load() {
        let one = load(&[(80, &[("GET /", 40)])]);
        assert!(
            only_in(&Load::default(), &one).is_empty()
                && only_in(&one, &Load::default()).is_empty()
        );
    }
}
