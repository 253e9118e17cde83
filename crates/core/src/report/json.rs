//! The report as JSON, schema version 1 (`docs/report.schema.json`).
//!
//! Names are those of the model. Times are integers in nanoseconds; times since the epoch exceed
//! 2⁵³, so readers must not parse them as doubles.
//!
//! The schema is made of these types, its descriptions of their doc comments: those of the fields are
//! for readers of the JSON.

mod connection;
mod finding;
mod input;
mod join;
mod quic;
#[cfg(test)]
mod schema;
mod totals;

pub(super) use self::input::link_type;

use self::connection::{ConnectionView, EndpointReportView};
use self::finding::{ExperimentView, FindingView};
use self::input::InputView;
use self::join::JoinView;
use self::quic::QuicView;
use self::totals::{LedgerView, TotalsView};
use super::phrases;
use super::{Ladder, Step};
use crate::capture::FrameId;
use crate::model::units::endpoint;
use crate::model::{
    Checked, Fact, Language, Latency, Observation, Report, SCHEMA_VERSION, Verdict,
};
use crate::wire::Endpoint;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Renders the whole report, indented; ends with a line feed.
///
/// # Errors
/// No error is expected: every value of a report has a JSON form.
pub fn render(report: &Report, tool_version: &str) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(&View::of(report, tool_version))?;
    text.push('\n');
    Ok(text)
}

/// Renders the whole report on one line, for streams of reports; ends with a line feed.
///
/// # Errors
/// No error is expected: every value of a report has a JSON form.
pub fn render_line(report: &Report, tool_version: &str) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string(&View::of(report, tool_version))?;
    text.push('\n');
    Ok(text)
}

/// Renders the whole report, indented, with the members of `beside` at its end; ends with a line
/// feed.
///
/// # Errors
/// Fails if `beside` is not a structure.
pub fn render_with(
    report: &Report,
    tool_version: &str,
    beside: &impl Serialize,
) -> Result<String, serde_json::Error> {
    let both = Both { view: View::of(report, tool_version), beside };
    let mut text = serde_json::to_string_pretty(&both)?;
    text.push('\n');
    Ok(text)
}

/// Like [`render_line`], with the members of `beside` at the end, for values that reports of files
/// do not have.
///
/// # Errors
/// Fails if `beside` is not a structure.
pub fn render_line_with(
    report: &Report,
    tool_version: &str,
    beside: &impl Serialize,
) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string(&Both { view: View::of(report, tool_version), beside })?;
    text.push('\n');
    Ok(text)
}

#[derive(serde::Serialize)]
struct Both<'a, T> {
    #[serde(flatten)]
    view: View<'a>,
    #[serde(flatten)]
    beside: &'a T,
}

/// Returns a ladder as JSON: `client`, `server`, `steps[]`.
pub fn ladder(ladder: &Ladder) -> Value {
    let step = |step: &super::LadderStep| match &step.step {
        Step::Segment { from, frame, label } => json!({
            "time_ns": step.time_ns, "step": "segment", "from": from,
            "frame": frame.number(), "label": label.text(Language::English),
        }),
        Step::Gap { duration_ns, owner, cause, beyond } => json!({
            "time_ns": step.time_ns, "step": "gap", "duration_ns": duration_ns,
            "owner": owner.id(), "cause": cause.map(|cause| cause.id()),
            "since_ns": beyond.since_ns, "until_frame": beyond.until.map(|frame| frame.number()),
        }),
        Step::Mark(mark) => json!({
            "time_ns": step.time_ns, "step": "mark", "label": mark.text(Language::English),
        }),
    };
    json!({
        "client": endpoint(&ladder.client),
        "server": endpoint(&ladder.server),
        "steps": ladder.steps.iter().map(step).collect::<Vec<_>>(),
    })
}

/// The whole report.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct View<'a> {
    /// Version of this contract.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA_VERSION)))]
    schema_version: u32,
    /// Version of tcpwhy.
    tool_version: &'a str,
    /// The input was not read to its end: this is what was known until then.
    interrupted: bool,
    /// What the text report says first: a text for the finding that leads, or that there is none, and
    /// one for what takes the greatest part of the time besides.
    #[cfg_attr(test, schemars(length(min = 1)))]
    answer: Vec<String>,
    /// The stretch of time that a report of `watch` covers; absent from reports on files.
    /// `connections` tell of each connection since it was first captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WatchedView>,
    /// The files read, in time order by one clock.
    inputs: Vec<InputView<'a>>,
    /// Counts over the whole input.
    totals: TotalsView<'a>,
    /// Wall time of all exchanges by owner.
    ledger: LedgerView<'a>,
    /// Latency of all exchanges.
    latency: Latency,
    /// The latency of all exchanges as pairs of a duration and how many took so long, ascending;
    /// durations are kept to within 0.8 %.
    #[cfg_attr(test, schemars(with = "Vec<(u64, std::num::NonZeroU64)>"))]
    latency_histogram: Vec<(u64, u64)>,
    /// Per server endpoint, most wall time first.
    endpoints: Vec<EndpointReportView<'a>>,
    /// How many were left out of endpoints.
    endpoints_omitted: u64,
    /// Faults, then costs, each by lost time; faults without lost time by severity. A cost that takes
    /// half of the time or more comes first where every fault takes less than 1 % of the time and
    /// meets less than 1 % of the exchanges and connections.
    findings: Vec<FindingView<'a>>,
    /// Observations that are no finding, or limit the report.
    observations: Vec<ObservationView<'a>>,
    /// The worst first; bounded unless --all.
    connections: Vec<ConnectionView<'a>>,
    /// How many were left out of connections.
    connections_omitted: u64,
    /// Connections of QUIC; absent without any. What is behind a handshake is encrypted and in no
    /// finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    quic: Option<QuicView<'a>>,
    /// Experiments that were made, in their order; absent where none was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    experiments: Vec<ExperimentView>,
    /// Only where the input shows the same traffic at two places. Connections that both saw are
    /// counted once, and times are told by the clock of place 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    join: Option<JoinView>,
    /// Each claim of the report, compared with the packets; absent unless asked for (--check).
    #[serde(skip_serializing_if = "Option::is_none")]
    checked: Option<Vec<CheckedView<'a>>>,
}

impl<'a> View<'a> {
    fn of(report: &'a Report, tool_version: &'a str) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            tool_version,
            interrupted: report.interrupted,
            answer: super::text::answer(report, Language::English),
            window: report.watched.map(|it| WatchedView {
                first_ns: it.first_ns,
                last_ns: it.last_ns,
                sampled_share: it.sampled_share,
            }),
            inputs: report.inputs.iter().map(|it| InputView::of(it, report)).collect(),
            totals: TotalsView::of(&report.totals),
            ledger: LedgerView(&report.ledger),
            latency: report.latency,
            latency_histogram: report.latency_histogram.points().collect(),
            endpoints: report.endpoints.iter().map(EndpointReportView::of).collect(),
            endpoints_omitted: report.endpoints_omitted,
            findings: report.findings.iter().map(|it| FindingView::of(it, report)).collect(),
            observations: report
                .observations
                .iter()
                .map(|it| ObservationView::of(it, report))
                .collect(),
            connections: (1..)
                .zip(&report.connections)
                .map(|(number, it)| ConnectionView::of(number, it, report))
                .collect(),
            connections_omitted: report.connections_omitted,
            quic: QuicView::of(&report.quic),
            experiments: report.experiments.iter().map(ExperimentView::of).collect(),
            join: report.join.as_ref().map(JoinView::of),
            checked: report.checked.as_ref().map(|it| it.iter().map(CheckedView::of).collect()),
        }
    }
}

/// A claim that was compared with the packets.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CheckedView<'a> {
    /// The place in findings of the one that makes the claim; null: the report as a whole.
    finding: Option<usize>,
    /// What is claimed.
    claim: &'a str,
    /// Whether the packets agree.
    verdict: Agreement,
    /// What the packets show in its place, or why they cannot show it; absent where it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

/// Whether packets agree with a claim.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Agreement {
    Holds,
    False,
    Undecided,
}

impl<'a> CheckedView<'a> {
    fn of(checked: &'a Checked) -> Self {
        let (verdict, why) = match &checked.verdict {
            Verdict::Holds => (Agreement::Holds, None),
            Verdict::False(why) => (Agreement::False, Some(why.as_str())),
            Verdict::Undecided(why) => (Agreement::Undecided, Some(*why)),
        };
        Self { finding: checked.finding, claim: &checked.claim, verdict, why }
    }
}

/// The time that a report of a watched system covers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WatchedView {
    /// Capture time of the first frame, nanoseconds since the Unix epoch.
    first_ns: u64,
    /// Capture time of the last frame, nanoseconds since the Unix epoch.
    last_ns: u64,
    /// Share of the connections that were captured. A connection is captured whole or not at all.
    #[cfg_attr(test, schemars(extend("exclusiveMinimum" = 0, "maximum" = 1)))]
    sampled_share: f64,
}

/// What was noticed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ObservationView<'a> {
    /// An id of the message table.
    id: &'static str,
    /// In words.
    what: String,
    /// Whether it limits what the report can say.
    limits: bool,
    facts: FactsView<'a>,
    /// Some frames that show it.
    frames: Vec<FrameView<'a>>,
}

/// A frame of an input.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FrameView<'a> {
    /// 1-based number in its file, as Wireshark counts.
    #[cfg_attr(test, schemars(range(min = 1)))]
    frame: u64,
    /// The input's path.
    file: &'a str,
}

impl<'a> FrameView<'a> {
    fn of(frame: FrameId, report: &'a Report) -> Self {
        Self { frame: frame.number(), file: file(frame, report) }
    }
}

impl<'a> ObservationView<'a> {
    fn of(observation: &'a Observation, report: &'a Report) -> Self {
        let (limits, what) = phrases::observation(observation, Language::English);
        Self {
            id: observation.id,
            what,
            limits,
            facts: FactsView::of(&observation.facts),
            frames: observation.frames.iter().map(|it| FrameView::of(*it, report)).collect(),
        }
    }
}

/// ADDRESS:PORT or `[ADDRESS]:PORT`; without a port where any is meant.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EndpointView(String);

impl EndpointView {
    fn of(at: &Endpoint) -> Self {
        Self(endpoint(at))
    }
}

/// Values behind the words; the unit is the last word of the name.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FactsView<'a>(BTreeMap<&'static str, FactView<'a>>);

/// A plain number or text, since its name contains the unit.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum FactView<'a> {
    Whole(u64),
    Share(f64),
    Text(&'a str),
}

impl<'a> FactsView<'a> {
    fn of(facts: &'a [(&'static str, Fact)]) -> Self {
        let value = |fact: &'a Fact| match fact {
            Fact::Ns(number)
            | Fact::Bytes(number)
            | Fact::BitsPerSecond(number)
            | Fact::Count(number) => FactView::Whole(*number),
            Fact::Share(share) => FactView::Share(unit(*share)),
            Fact::Text(text) => FactView::Text(text),
        };
        Self(facts.iter().map(|(name, fact)| (*name, value(fact))).collect())
    }
}

/// Limits a share to 0..1; JSON cannot represent NaN.
fn unit(share: f64) -> f64 {
    if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
}

fn file(frame: FrameId, report: &Report) -> &str {
    report.inputs.get(frame.file() as usize).map_or("", |input| input.path.as_str())
}
