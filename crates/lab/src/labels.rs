//! `labels.json`: the truth about the captures in its directory. No value comes from an analysis of
//! the packets; every figure says how it is known.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::client::Request;
use crate::params::Params;
use crate::stage::{Link, StageReport};
use crate::sys::TcpInfo;

/// Version of the labels' format.
pub const FORMAT: &str = "tcpwhy-lab/1";

/// The class of finding that a diagnosis should report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Something is wrong and can be changed.
    Fault,
    /// Nothing is wrong, but the time goes there.
    Cost,
    /// There is nothing to report.
    None,
}

/// The role of the culprit, which has to change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The side that connects.
    Client,
    /// The side that listens.
    Server,
    /// The network between both.
    Network,
    /// A DNS server.
    Resolver,
    /// The host itself, for example its NAT table.
    Host,
}

impl Role {
    /// Name in JSON.
    pub fn id(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Server => "server",
            Role::Network => "network",
            Role::Resolver => "resolver",
            Role::Host => "host",
        }
    }
}

/// Whether the case runs with its fault or as its healthy twin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// The run with the fault.
    Faulty,
    /// The same load without the fault.
    Healthy,
}

impl Variant {
    /// Name of the directory with its captures.
    pub fn dir(self) -> &'static str {
        match self {
            Variant::Faulty => "faulty",
            Variant::Healthy => "healthy",
        }
    }
}

/// A cause that is present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PresentCause"))]
pub struct Cause {
    /// The id in the taxonomy.
    #[cfg_attr(test, schemars(with = "tcpwhy_core::model::Cause"))]
    pub cause: &'static str,
    /// Role of the culprit.
    pub culprit_role: Role,
    /// Address and port of the culprit's socket, if it has one.
    pub culprit_endpoint: Option<String>,
    /// Time it cost over all requests, if known.
    pub lost_ns: Option<u64>,
    /// How `lost_ns` is known.
    pub lost_ns_how: &'static str,
    /// Time of `lost_ns` that the knob costs beside the cause, such as the work of the requests
    /// that block others. Packets do not tell it apart; hooks at the server do.
    pub beside_ns: u64,
    /// Ids that a diagnosis may also name, in addition to the cause or instead of it; `lost_ns` is
    /// then the sum of all of them.
    #[cfg_attr(test, schemars(with = "Vec<tcpwhy_core::model::Cause>"))]
    pub also_right: Vec<&'static str>,
    /// Verdicts that are right for a diagnosis from packets alone.
    pub from_capture: FromCapture,
}

/// Verdicts that count as right if the diagnosis has only a capture: `C` in CAUSES marks what a
/// capture can show, and some causes show the same packets. The live state (`S`) distinguishes
/// them, so only diagnoses of captures are judged by this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FromCapture {
    /// Vantages at which no packet shows the cause: a diagnosis that names nothing is right there.
    #[cfg_attr(test, schemars(extend("items" = { "type": "string", "enum": ["client", "server"] })))]
    pub unseen_at: Vec<&'static str>,
    /// Other verdicts that are right in place of the label's own cause and role. In contrast to
    /// `also_right` they are not added up: any single one is enough.
    pub verdicts: Vec<Verdict>,
}

/// A cause with its culprit's role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The id in the taxonomy.
    #[cfg_attr(test, schemars(with = "tcpwhy_core::model::Cause"))]
    pub cause: &'static str,
    /// Role of the culprit.
    pub culprit_role: Role,
}

impl Cause {
    /// Creates a cause whose cost is the time that the healthy twin saves.
    pub fn by_twin(cause: &'static str, culprit_role: Role, endpoint: Option<String>) -> Cause {
        Cause {
            cause,
            culprit_role,
            culprit_endpoint: endpoint,
            lost_ns: None,
            lost_ns_how: "client's total time less the healthy twin's",
            beside_ns: 0,
            also_right: Vec::new(),
            from_capture: FromCapture::default(),
        }
    }

    /// Sets a cost that was measured directly, and how.
    pub fn measured(mut self, lost_ns: u64, how: &'static str) -> Cause {
        self.lost_ns = Some(lost_ns);
        self.lost_ns_how = how;
        self
    }

    /// Sets the time that the knob costs beside the cause, ns.
    pub fn beside(mut self, ns: u64) -> Cause {
        self.beside_ns = ns;
        self
    }

    /// Adds ids that a diagnosis may also name.
    pub fn or(mut self, ids: &[&'static str]) -> Cause {
        self.also_right.extend(ids);
        self
    }

    /// Adds verdicts that a capture alone cannot distinguish from this cause.
    pub fn looks_like(mut self, verdicts: &[(&'static str, Role)]) -> Cause {
        let verdicts =
            verdicts.iter().map(|&(cause, culprit_role)| Verdict { cause, culprit_role });
        self.from_capture.verdicts.extend(verdicts);
        self
    }

    /// Adds vantages (`client`, `server`) at which a capture does not show the cause.
    pub fn unseen_at(mut self, vantages: &[&'static str]) -> Cause {
        self.from_capture.unseen_at.extend(vantages);
        self
    }
}

/// Quantiles of the requests' times, by nearest rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Mean.
    pub mean_ns: u64,
}

impl Latency {
    /// Nearest-rank quantiles of the requests' durations by the client's clock.
    pub fn of(requests: &[Request]) -> Latency {
        Latency::of_ns(requests.iter().map(Request::took_ns).collect())
    }

    /// Quantiles of the durations on the wire; `None` if that is not known of each request.
    pub fn on_wire(requests: &[Request]) -> Option<Latency> {
        requests.iter().map(|request| request.on_wire_ns).collect::<Option<_>>().map(Latency::of_ns)
    }

    fn of_ns(mut took: Vec<u64>) -> Latency {
        took.sort_unstable();
        let rank = |percent: usize| {
            let at = (took.len() * percent).div_ceil(100).saturating_sub(1);
            took.get(at).copied().unwrap_or(0)
        };
        let total: u64 = took.iter().sum();
        Latency {
            p50_ns: rank(50),
            p90_ns: rank(90),
            p99_ns: rank(99),
            max_ns: rank(100),
            mean_ns: total / took.len().max(1) as u64,
        }
    }
}

/// The content of the file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Labels {
    /// Version of the format.
    #[cfg_attr(test, schemars(extend("const" = FORMAT)))]
    pub format: &'static str,
    /// Name of the case.
    pub case: &'static str,
    /// The variant that was run.
    pub variant: Variant,
    /// Seed of the run.
    pub seed: u64,
    /// The case's parameters.
    pub params: Params,
    /// The link between the ends.
    pub link: Link,
    /// `true` if no fault is present (a cost may be).
    pub healthy: bool,
    /// The class of the right finding.
    pub class: Class,
    /// The causes, most important first.
    pub causes: Vec<Cause>,
    /// Number of requests.
    pub exchanges: u64,
    /// Sum of the requests' durations, by the client's clock.
    pub wall_ns: u64,
    /// Quantiles in this run.
    pub latency_ns: Latency,
    /// Quantiles of the healthy twin, run right after.
    pub latency_after_fix_ns: Option<Latency>,
    /// Quantiles of the twin's times from first to last packet, if they are known for all requests.
    pub on_wire_after_fix_ns: Option<Latency>,
    /// `wall_ns` of the healthy twin.
    pub wall_after_fix_ns: Option<u64>,
    /// Address and port of the server.
    pub server_endpoint: String,
    /// Congestion control pinned on both routes.
    pub congestion_control: &'static str,
    /// `TCP_INFO` of the client's sockets, summed, if they are the lab's own.
    pub client_tcp_info: Option<TcpInfo>,
    /// `TCP_INFO` of the server's sockets, summed, if they are the lab's own.
    pub server_tcp_info: Option<TcpInfo>,
    /// Captures, relay and kernel counters.
    #[serde(flatten)]
    pub stage: StageReport,
    /// Other measurements of the case; each name ends in its unit.
    pub measured: BTreeMap<&'static str, u64>,
    /// Versions of the software that took part.
    pub versions: BTreeMap<String, String>,
    /// Every request as the client measured it.
    pub requests: Vec<Request>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpwhy_testing::schema::Document;

    #[test]
    fn the_schema_of_labels_is_that_of_the_types() {
        let document = Document {
            name: "labels",
            id: "urn:tcpwhy:lab:1",
            title: "tcpwhy lab labels",
            description: "labels.json, format tcpwhy-lab/1: what is true of the captures beside it (docs/lab-format.md). Times are integers of nanoseconds, those since the epoch on the captures' clock.",
            members_of_others: &[],
        };
        document.publish::<Labels>();
    }

    #[test]
    fn quantiles_are_nearest_rank() {
        let requests: Vec<Request> =
            (1..=100).map(|n| Request { end_ns: n, ..Default::default() }).collect();
        let latency = Latency::of(&requests);
        assert_eq!((latency.p50_ns, latency.p99_ns, latency.max_ns), (50, 99, 100));
        assert_eq!(Latency::of(&[]), Latency::default());
    }
}
