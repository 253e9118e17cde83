//! The part of a report that is compared, from an analysis or from JSON.

use super::{Load, Sample};
use crate::model::{Latency, Prediction, Report, SCHEMA_VERSION, vantage_id};
use std::collections::BTreeMap;

/// The compared values of one run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Name of the run, usually the file.
    pub name: String,
    /// Number of exchanges.
    pub exchanges: u64,
    /// Sum of the wall times of the exchanges, ns.
    pub wall_ns: u64,
    /// Percentiles of the latency of the exchanges.
    pub latency: Latency,
    /// All latencies; `None` for reports with percentiles only.
    pub sample: Option<Sample>,
    /// Wall time by the id of its owner; sums to `wall_ns`.
    pub ledger: BTreeMap<String, u64>,
    /// Faults and costs of the run.
    pub findings: Vec<Found>,
    /// Vantage of the run, by the id used in reports.
    pub vantage: String,
    /// Requests of the run.
    pub load: Load,
}

/// The compared parts of a finding; findings of the same cause and role count as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Id of the cause.
    pub cause: String,
    /// `fault` or `cost`.
    pub class: String,
    /// The role that has to change something.
    pub role: String,
    /// Cost of the finding, ns.
    pub lost_ns: u64,
    /// Latency predicted without it, if that is one of all exchanges of the run.
    pub without: Option<Prediction>,
}

/// A JSON report that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The text is not JSON, or lacks required members.
    #[error("it is no report of `tcpwhy --json`")]
    NotAReport(#[from] serde_json::Error),
    /// The report has another schema version.
    #[error("it has schema_version {0}; this tcpwhy reads version {SCHEMA_VERSION}")]
    Version(u32),
}

/// The part of a JSON report that is read.
#[derive(serde::Deserialize)]
struct View {
    schema_version: u32,
    totals: Totals,
    ledger: BTreeMap<String, u64>,
    latency: Latency,
    latency_histogram: Option<Vec<(u64, u64)>>,
    findings: Vec<Finding>,
    #[serde(default)]
    endpoints: Vec<EndpointRow>,
}

#[derive(serde::Deserialize)]
struct EndpointRow {
    endpoint: String,
    exchanges: u64,
    kinds: Vec<KindRow>,
}

#[derive(serde::Deserialize)]
struct KindRow {
    kind: String,
    exchanges: u64,
}

#[derive(serde::Deserialize)]
struct Totals {
    exchanges: u64,
    wall_ns: u64,
    vantage: String,
}

#[derive(serde::Deserialize)]
struct Finding {
    cause: String,
    class: String,
    culprit: Culprit,
    lost_ns: u64,
    #[serde(default)]
    affected: Affected,
    /// Reports of earlier versions state no interval.
    #[serde(default)]
    counterfactual: serde_json::Value,
}

#[derive(Default, serde::Deserialize)]
struct Affected {
    of_exchanges: u64,
}

#[derive(serde::Deserialize)]
struct Culprit {
    role: String,
}

impl Found {
    /// Returns whether both have the same cause and role.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.cause, &self.role) == (&other.cause, &other.role)
    }
}

impl Measured {
    /// Returns the compared parts of a report.
    pub fn of(name: impl Into<String>, report: &Report) -> Self {
        let findings = report.findings.iter().map(|finding| Found {
            cause: finding.cause.id().into(),
            class: finding.cause.class().id().into(),
            role: finding.culprit.role.id().into(),
            lost_ns: finding.lost_ns,
            without: (finding.affected.of_exchanges == report.totals.exchanges)
                .then_some(finding.counterfactual),
        });
        Self {
            name: name.into(),
            exchanges: report.totals.exchanges,
            wall_ns: report.totals.wall_ns,
            latency: report.latency,
            sample: Some(Sample::from(&report.latency_histogram)),
            ledger: report.ledger.iter().map(|(owner, ns)| (owner.id().into(), ns)).collect(),
            findings: joined(findings),
            vantage: vantage_id(report.totals.vantage).into(),
            load: Load::of(report),
        }
    }

    /// Parses the output of `tcpwhy --json`.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn from_json(name: impl Into<String>, text: &[u8]) -> Result<Self, ReportError> {
        let view: View = serde_json::from_slice(text)?;
        if view.schema_version != SCHEMA_VERSION {
            return Err(ReportError::Version(view.schema_version));
        }
        let sample: Option<Sample> =
            view.latency_histogram.map(|points| points.into_iter().collect());
        let exchanges = view.totals.exchanges;
        let findings = view.findings.into_iter().map(|finding| Found {
            cause: finding.cause,
            class: finding.class,
            role: finding.culprit.role,
            lost_ns: finding.lost_ns,
            without: (finding.affected.of_exchanges == exchanges)
                .then(|| serde_json::from_value(finding.counterfactual).ok())
                .flatten(),
        });
        Ok(Self {
            name: name.into(),
            exchanges: view.totals.exchanges,
            wall_ns: view.totals.wall_ns,
            latency: view.latency,
            sample: sample.filter(|sample| sample.count() > 0),
            ledger: view.ledger.into_iter().filter(|(_, ns)| *ns > 0).collect(),
            findings: joined(findings),
            vantage: view.totals.vantage,
            load: load(&view.endpoints),
        })
    }

    /// Creates a run from durations measured by a client, ns, without owners and findings.
    pub fn of_durations(
        name: impl Into<String>,
        durations_ns: impl IntoIterator<Item = u64>,
    ) -> Self {
        let sample = Sample::of(durations_ns);
        let quantile = |q| sample.quantile_ns(q);
        let wall_ns = sample
            .points()
            .iter()
            .fold(0, |sum: u64, &(ns, count)| sum.saturating_add(ns.saturating_mul(count)));
        let latency = Latency {
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            max_ns: quantile(1.0),
        };
        Self {
            name: name.into(),
            exchanges: sample.count(),
            wall_ns,
            latency,
            sample: Some(sample),
            ..Self::default()
        }
    }

    /// Returns the mean wall time of an exchange, ns.
    pub fn mean_ns(&self) -> u64 {
        self.wall_ns / self.exchanges.max(1)
    }

    /// Returns the time of `owner` in the mean exchange, ns.
    pub fn ledger_per_exchange_ns(&self, owner: &str) -> u64 {
        self.ledger.get(owner).copied().unwrap_or(0) / self.exchanges.max(1)
    }

    /// Returns the finding with this cause and role.
    pub fn found(&self, like: &Found) -> Option<&Found> {
        self.findings.iter().find(|found| found.is_same(like))
    }
}

/// Returns the requests at `places`.
fn load(places: &[EndpointRow]) -> Load {
    let mut load = Load::default();
    for place in places {
        let port = place.endpoint.rsplit(':').next().and_then(|port| port.parse().ok());
        let kinds = place.kinds.iter().map(|kind| (kind.kind.as_str(), kind.exchanges));
        load.add(port.unwrap_or(0), place.exchanges, kinds);
    }
    load
}

/// Joins findings of the same cause and role, in their order.
fn joined(findings: impl Iterator<Item = Found>) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for finding in findings {
        match all.iter_mut().find(|found| found.is_same(&finding)) {
            // Each of several is predicted as if it alone were gone.
            Some(found) => {
                found.lost_ns = found.lost_ns.saturating_add(finding.lost_ns);
                found.without = None;
            }
            None => all.push(finding),
        }
    }
    all
}
