//! `labels.json`: what is true of the captures beside it. Nothing here comes from an analysis
//! of the packets; every figure says how it is known.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::client::Request;
use crate::params::Params;
use crate::stage::{Link, StageReport};
use crate::sys::TcpInfo;

/// Version of the labels' format.
pub const FORMAT: &str = "tcpwhy-lab/1";

/// What kind of finding a diagnosis should come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Something is wrong and someone can change it.
    Fault,
    /// Nothing is wrong; it is where the time goes.
    Cost,
    /// Nothing to find.
    None,
}

/// Who has to change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The side that connects.
    Client,
    /// The side that listens.
    Server,
    /// What lies between.
    Network,
    /// A DNS server.
    Resolver,
    /// The host itself, e.g. its NAT table.
    Host,
}

impl Role {
    /// Its name in JSON.
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
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// With the fault.
    Faulty,
    /// The same load without it.
    Healthy,
}

impl Variant {
    /// The directory of its captures.
    pub fn dir(self) -> &'static str {
        match self {
            Variant::Faulty => "faulty",
            Variant::Healthy => "healthy",
        }
    }
}

/// A cause that is present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Its id in the taxonomy.
    pub cause: &'static str,
    /// Who.
    pub culprit_role: Role,
    /// Address and port of the culprit's socket, where it has one.
    pub culprit_endpoint: Option<String>,
    /// Time it cost over all requests, where known.
    pub lost_ns: Option<u64>,
    /// How that is known.
    pub lost_ns_how: &'static str,
    /// Ids that a diagnosis may rightly name beside or instead of it; `lost_ns` is then the sum
    /// of all of them.
    pub also_right: Vec<&'static str>,
    /// What packets alone can rightly be taken for.
    pub from_capture: FromCapture,
}

/// What a diagnosis may rightly come to that has only a capture: CAUSES marks with `C` what a
/// capture can show, and some causes show the same packets. Live state (`S`) tells them apart,
/// so this is lenient towards captures only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FromCapture {
    /// Vantages at which no packet tells of it: finding nothing there is right too.
    pub unseen_at: Vec<&'static str>,
    /// Right beside the label's own cause and role. They do not add up with it, as those of
    /// `also_right` do: any one of them takes its place, and is as good.
    pub verdicts: Vec<Verdict>,
}

/// A cause with who is to blame for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Its id in the taxonomy.
    pub cause: &'static str,
    /// Who.
    pub culprit_role: Role,
}

impl Cause {
    /// A cause whose cost is what the healthy twin saves.
    pub fn by_twin(cause: &'static str, culprit_role: Role, endpoint: Option<String>) -> Cause {
        Cause {
            cause,
            culprit_role,
            culprit_endpoint: endpoint,
            lost_ns: None,
            lost_ns_how: "client's total time less the healthy twin's",
            also_right: Vec::new(),
            from_capture: FromCapture::default(),
        }
    }

    /// A cause whose cost was measured directly.
    pub fn measured(mut self, lost_ns: u64, how: &'static str) -> Cause {
        self.lost_ns = Some(lost_ns);
        self.lost_ns_how = how;
        self
    }

    /// A diagnosis may name these too.
    pub fn or(mut self, ids: &[&'static str]) -> Cause {
        self.also_right.extend(ids);
        self
    }

    /// A capture alone cannot tell it from these.
    pub fn looks_like(mut self, verdicts: &[(&'static str, Role)]) -> Cause {
        let verdicts =
            verdicts.iter().map(|&(cause, culprit_role)| Verdict { cause, culprit_role });
        self.from_capture.verdicts.extend(verdicts);
        self
    }

    /// A capture at these vantages (`client`, `server`) does not show it.
    pub fn unseen_at(mut self, vantages: &[&'static str]) -> Cause {
        self.from_capture.unseen_at.extend(vantages);
        self
    }
}

/// Quantiles of the requests' times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Latency {
    /// Half are shorter.
    pub p50_ns: u64,
    /// Nine of ten are shorter.
    pub p90_ns: u64,
    /// 99 of 100 are shorter.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The mean.
    pub mean_ns: u64,
}

impl Latency {
    /// Nearest-rank quantiles of what requests took by the client's clock.
    pub fn of(requests: &[Request]) -> Latency {
        Latency::of_ns(requests.iter().map(Request::took_ns).collect())
    }

    /// The same of what they took on the wire; none where that is not known of each.
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

/// The file.
#[derive(Debug, Clone, Serialize)]
pub struct Labels {
    /// [`FORMAT`].
    pub format: &'static str,
    /// Name of the case.
    pub case: &'static str,
    /// With the fault or without.
    pub variant: Variant,
    /// Where chance started.
    pub seed: u64,
    /// The case's parameters.
    pub params: Params,
    /// The link between the ends.
    pub link: Link,
    /// No fault is to be found here (a cost may be).
    pub healthy: bool,
    /// What kind of finding is right.
    pub class: Class,
    /// The causes, most important first.
    pub causes: Vec<Cause>,
    /// Requests.
    pub exchanges: u64,
    /// Their times added up.
    pub wall_ns: u64,
    /// Quantiles now.
    pub latency_ns: Latency,
    /// Quantiles of the healthy twin, run right after.
    pub latency_after_fix_ns: Option<Latency>,
    /// The same from first to last packet, where that is known of each of them.
    pub on_wire_after_fix_ns: Option<Latency>,
    /// `wall_ns` of the healthy twin.
    pub wall_after_fix_ns: Option<u64>,
    /// Address and port of the server.
    pub server_endpoint: String,
    /// Congestion control pinned on both routes.
    pub congestion_control: &'static str,
    /// `TCP_INFO` of the client's sockets, summed, where they are ours.
    pub client_tcp_info: Option<TcpInfo>,
    /// `TCP_INFO` of the server's sockets, summed, where they are ours.
    pub server_tcp_info: Option<TcpInfo>,
    /// Captures, relay and kernel counters.
    #[serde(flatten)]
    pub stage: StageReport,
    /// What else the case measured, by name with its unit.
    pub measured: BTreeMap<&'static str, u64>,
    /// Versions of what took part.
    pub versions: BTreeMap<String, String>,
    /// Every request as the client lived it.
    pub requests: Vec<Request>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_rank() {
        let requests: Vec<Request> =
            (1..=100).map(|n| Request { end_ns: n, ..Default::default() }).collect();
        let latency = Latency::of(&requests);
        assert_eq!((latency.p50_ns, latency.p99_ns, latency.max_ns), (50, 99, 100));
        assert_eq!(Latency::of(&[]), Latency::default());
    }
}
