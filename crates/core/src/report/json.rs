//! The report as JSON, schema version 1 (`docs/report.schema.json`).
//!
//! Names are those of the model. Times are integers in nanoseconds; times since the epoch exceed
//! 2⁵³, so readers must not parse them as doubles.

mod finding;
mod join;
mod quic;

use self::finding::{FindingView, MadeView};
use super::phrases;
use super::{Ladder, Step};
use crate::capture::{FrameId, InputSummary, LinkType};
use crate::model::units::endpoint;
use crate::model::{
    Checked, ConnectionReport, DirectionReport, EndpointReport, Fact, Language, Latency, Ledger,
    Observation, OutcomeKind, Outcomes, Owner, Report, SCHEMA_VERSION, Verdict, vantage_id,
};
use crate::wire::Side;
use serde::ser::{Serialize, SerializeMap, Serializer};
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
            "time_ns": step.time_ns, "step": "segment", "from": side(*from),
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

#[derive(serde::Serialize)]
struct View<'a> {
    schema_version: u32,
    tool_version: &'a str,
    interrupted: bool,
    answer: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WatchedView>,
    inputs: Vec<InputView<'a>>,
    totals: TotalsView<'a>,
    ledger: LedgerView<'a>,
    latency: Latency,
    latency_histogram: Vec<(u64, u64)>,
    endpoints: Vec<EndpointView<'a>>,
    endpoints_omitted: u64,
    findings: Vec<FindingView<'a>>,
    observations: Vec<ObservationView<'a>>,
    connections: Vec<ConnectionView<'a>>,
    connections_omitted: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    quic: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    experiments: Vec<MadeView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    join: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checked: Option<Vec<CheckedView<'a>>>,
}

impl<'a> View<'a> {
    fn of(report: &'a Report, tool_version: &'a str) -> Self {
        let totals = &report.totals;
        let errors = totals.decode_errors.errors().map(|(kind, count)| (kind.name(), count));
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
            totals: TotalsView {
                connections: totals.connections,
                exchanges: totals.exchanges,
                outcomes: OutcomesView(&totals.outcomes),
                lookups: totals.lookups,
                segments: totals.segments,
                wall_ns: totals.wall_ns,
                first_ns: totals.first_ns,
                last_ns: totals.last_ns,
                window: totals
                    .window
                    .map(|it| WindowView { from_ns: it.from_ns, until_ns: it.until_ns }),
                vantage: vantage_id(totals.vantage),
                vantage_from_padding: totals.vantage_from_padding,
                decode_errors: errors.collect(),
            },
            ledger: LedgerView(&report.ledger),
            latency: report.latency,
            latency_histogram: report.latency_histogram.points().collect(),
            endpoints: report.endpoints.iter().map(EndpointView::of).collect(),
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
            quic: quic::sums(&report.quic),
            experiments: report.experiments.iter().map(MadeView::of).collect(),
            join: report.join.as_ref().map(join::join),
            checked: report.checked.as_ref().map(|it| it.iter().map(CheckedView::of).collect()),
        }
    }
}

/// A claim that was compared with the packets.
#[derive(serde::Serialize)]
struct CheckedView<'a> {
    finding: Option<usize>,
    claim: &'a str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

impl<'a> CheckedView<'a> {
    fn of(checked: &'a Checked) -> Self {
        let (verdict, why) = match &checked.verdict {
            Verdict::Holds => ("holds", None),
            Verdict::False(why) => ("false", Some(why.as_str())),
            Verdict::Undecided(why) => ("undecided", Some(*why)),
        };
        Self { finding: checked.finding, claim: &checked.claim, verdict, why }
    }
}

/// The time that a report of a watched system covers.
#[derive(serde::Serialize)]
struct WatchedView {
    first_ns: u64,
    last_ns: u64,
    sampled_share: f64,
}

#[derive(serde::Serialize)]
struct InputView<'a> {
    path: &'a str,
    packets: u64,
    bytes: u64,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    link_type: String,
    problems: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<u8>,
}

impl<'a> InputView<'a> {
    fn of(input: &'a InputSummary, report: &Report) -> Self {
        let names: Vec<String> = input.link_types.iter().copied().map(link_type).collect();
        let problem = |problem: &crate::capture::Problem| {
            json!({
                "kind": problem.kind(),
                "what": problem.to_string(),
                "loses_frames": problem.loses_frames(),
            })
        };
        Self {
            path: &input.path,
            packets: input.packets,
            bytes: input.bytes,
            first_ns: input.first_ns,
            last_ns: input.last_ns,
            link_type: names.join(","),
            problems: input.problems.iter().map(problem).collect(),
            place: report.join.as_ref().map(|_| 1 + u8::from(input.site.is_second)),
        }
    }
}

/// Returns the registered name in lower case; `linktype_<number>` for link types that are not
/// supported.
pub(super) fn link_type(link: LinkType) -> String {
    let name = match link {
        LinkType::NULL => "null",
        LinkType::ETHERNET => "ethernet",
        LinkType::PPP => "ppp",
        LinkType::FDDI => "fddi",
        LinkType::RAW_BSD | LinkType::RAW => "raw",
        LinkType::PPP_HDLC => "ppp_hdlc",
        LinkType::CISCO_HDLC => "c_hdlc",
        LinkType::PPI => "ppi",
        LinkType::NFLOG => "nflog",
        LinkType::PPP_ETHER => "ppp_ether",
        LinkType::LOOP => "loop",
        LinkType::LINUX_SLL => "linux_sll",
        LinkType::IPV4 => "ipv4",
        LinkType::IPV6 => "ipv6",
        LinkType::LINUX_SLL2 => "linux_sll2",
        LinkType(number) => return format!("linktype_{number}"),
    };
    name.into()
}

#[derive(serde::Serialize)]
struct TotalsView<'a> {
    connections: u64,
    exchanges: u64,
    outcomes: OutcomesView<'a>,
    lookups: u64,
    segments: u64,
    wall_ns: u64,
    first_ns: u64,
    last_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WindowView>,
    vantage: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    vantage_from_padding: bool,
    decode_errors: BTreeMap<&'static str, u64>,
}

#[derive(serde::Serialize)]
struct WindowView {
    from_ns: u64,
    until_ns: u64,
}

/// All owners in declaration order, including those without time.
struct LedgerView<'a>(&'a Ledger);

impl Serialize for LedgerView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Owner::ALL.len()))?;
        for &owner in Owner::ALL {
            map.serialize_entry(owner.id(), &self.0.of(owner))?;
        }
        map.end()
    }
}

/// The number of exchanges by outcome, all in declaration order, and of errors by code.
struct OutcomesView<'a>(&'a Outcomes);

impl Serialize for OutcomesView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(OutcomeKind::ALL.len() + 1))?;
        for &kind in OutcomeKind::ALL {
            map.serialize_entry(kind.id(), &self.0.of(kind))?;
        }
        let codes = self.0.codes().into_iter().map(|(code, count)| (code.to_string(), count));
        map.serialize_entry("codes", &codes.collect::<BTreeMap<_, _>>())?;
        map.end()
    }
}

#[derive(serde::Serialize)]
struct EndpointView<'a> {
    endpoint: String,
    software: Option<&'a str>,
    protocol: &'static str,
    connections: u64,
    exchanges: u64,
    ledger: LedgerView<'a>,
    latency: Latency,
    outcomes: OutcomesView<'a>,
    kinds: Vec<Value>,
}

impl<'a> EndpointView<'a> {
    fn of(at: &'a EndpointReport) -> Self {
        let kinds = at.kinds.iter().map(|kind| {
            json!({
                "kind": kind.kind, "exchanges": kind.exchanges, "latency": kind.latency,
                "outcomes": OutcomesView(&kind.outcomes),
            })
        });
        Self {
            endpoint: endpoint(&at.endpoint),
            software: at.software.as_deref(),
            protocol: at.protocol.id(),
            connections: at.connections,
            exchanges: at.exchanges,
            ledger: LedgerView(&at.ledger),
            latency: at.latency,
            outcomes: OutcomesView(&at.outcomes),
            kinds: kinds.collect(),
        }
    }
}

#[derive(serde::Serialize)]
struct ObservationView<'a> {
    id: &'static str,
    what: String,
    limits: bool,
    facts: BTreeMap<&'static str, Value>,
    frames: Vec<FrameView<'a>>,
}

#[derive(serde::Serialize)]
struct FrameView<'a> {
    frame: u64,
    file: &'a str,
}

impl<'a> ObservationView<'a> {
    fn of(observation: &'a Observation, report: &'a Report) -> Self {
        let (limits, what) = phrases::observation(observation, Language::English);
        let frame =
            |frame: &FrameId| FrameView { frame: frame.number(), file: file(*frame, report) };
        Self {
            id: observation.id,
            what,
            limits,
            facts: facts(&observation.facts),
            frames: observation.frames.iter().map(frame).collect(),
        }
    }
}

#[derive(serde::Serialize)]
struct ConnectionView<'a> {
    number: u64,
    client: String,
    server: String,
    protocol: &'static str,
    first_frame: FrameView<'a>,
    first_ns: u64,
    last_ns: u64,
    vantage: &'static str,
    rtt_min_ns: u64,
    exchanges: u64,
    ledger: LedgerView<'a>,
    lost_ns: u64,
    client_to_server: DirectionReport,
    server_to_client: DirectionReport,
}

impl<'a> ConnectionView<'a> {
    fn of(number: u64, connection: &'a ConnectionReport, report: &'a Report) -> Self {
        Self {
            number,
            client: endpoint(&connection.client),
            server: endpoint(&connection.server),
            protocol: connection.protocol.id(),
            first_frame: FrameView {
                frame: connection.first_frame.number(),
                file: file(connection.first_frame, report),
            },
            first_ns: connection.first_ns,
            last_ns: connection.last_ns,
            vantage: vantage_id(connection.vantage),
            rtt_min_ns: connection.rtt_min_ns,
            exchanges: connection.exchanges,
            ledger: LedgerView(&connection.ledger),
            lost_ns: connection.lost_ns,
            client_to_server: connection.client_to_server,
            server_to_client: connection.server_to_client,
        }
    }
}

/// Returns facts as plain numbers, since their names contain the unit.
fn facts(facts: &[(&'static str, Fact)]) -> BTreeMap<&'static str, Value> {
    let value = |fact: &Fact| match fact {
        Fact::Ns(number) | Fact::Bytes(number) | Fact::BitsPerSecond(number) => json!(number),
        Fact::Count(number) => json!(number),
        Fact::Share(share) => json!(unit(*share)),
        Fact::Text(text) => json!(text),
    };
    facts.iter().map(|(name, fact)| (*name, value(fact))).collect()
}

/// Limits a share to 0..1; JSON cannot represent NaN.
fn unit(share: f64) -> f64 {
    if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

fn file(frame: FrameId, report: &Report) -> &str {
    report.inputs.get(frame.file() as usize).map_or("", |input| input.path.as_str())
}
