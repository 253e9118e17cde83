//! The data that a page draws beside its report. A second pass keeps single exchanges, the
//! connections of the findings, handshakes of floods, and look-ups.
//!
//! ```text
//! Report + Blocks ─► Picture ─► json   (beside the report's own JSON in the page)
//! ```
//!
//! All data is bounded, and what is left out is counted.

mod columns;
mod connections;
mod json;
mod list;
mod set_ups;
mod texts;

pub use connections::{DrawnConnection, DrawnExchange};
pub(crate) use list::row as exchange_row;
pub use list::{ExchangeRow, Exchanges};
pub use set_ups::SetUps;

use crate::capture::{Block, FrameId};
use crate::dns::Lookup;
use crate::drill::{Followed, NamedFrames, Room, Start, Whole};
use crate::graph::{Graph, Point, RttSample};
use crate::model::{Cause, ConnectionReport, Finding, Report};
use crate::pipeline::Options;
use crate::report::{Ladder, Step};
use crate::second_pass::SecondPass;
use crate::tcp::{Connection, Exchange, Sink};
use crate::wire::FlowKey;
use std::collections::HashMap;

/// Maximum number of points in the graphs of one connection, and of all.
const POINTS_MAX: usize = 20_000;
const POINTS_MAX_OF_ALL: usize = 30_000;

/// Maximum number of silences marked in a graph: the longest.
const STALLS_MAX: usize = 300;

/// Maximum number of look-ups drawn: the longest.
const LOOKUPS_MAX: usize = 200;

/// A second pass that collects the data of a page.
pub struct Pass {
    pass: SecondPass<Kept>,
    shown: Vec<Shown>,
    /// The connections of the report's list.
    listed: Vec<Followed>,
    /// Indices in `shown`, and behind its last those in `listed`, by flow.
    flows: HashMap<FlowKey, Vec<usize>>,
    ladders: Vec<(usize, Ladder)>,
}

/// A connection with the evidence of a finding.
struct Shown {
    /// The finding's index in the report.
    finding: usize,
    /// Frame of the evidence.
    frame: FrameId,
    /// First frame of the connection, if the report lists it.
    connection: Option<FrameId>,
    followed: Followed,
}

/// Data kept of all connections.
struct Kept {
    exchanges: Exchanges,
    set_ups: Vec<SetUps>,
}

impl Sink for Kept {
    fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        self.exchanges.add(connection, exchange);
    }

    fn connection(&mut self, connection: &Connection) {
        let server = connection.server();
        if let Some(set_ups) = self.set_ups.iter_mut().find(|it| it.server == server) {
            set_ups.add(connection);
        }
    }
}

/// The data of a page; empty if no packets were kept.
#[derive(Default)]
pub struct Picture {
    /// The exchanges that took longest.
    pub exchanges: Exchanges,
    /// A drawing for each finding that has one.
    pub drawings: Vec<Drawing>,
    /// The connections of the report's list (bounded).
    pub connections: Vec<DrawnConnection>,
    /// Handshakes at servers that were flooded.
    pub set_ups: Vec<SetUps>,
    /// Look-ups, in time order (bounded).
    pub lookups: Vec<Lookup>,
    /// Number of look-ups left out of `lookups`.
    pub lookups_omitted: u64,
}

/// A representative exchange of a finding, drawn.
pub struct Drawing {
    /// The finding's index in the report.
    pub finding: usize,
    /// First frame of its connection, if the report lists it.
    pub connection: Option<FrameId>,
    /// The exchange.
    pub ladder: Ladder,
    /// Graphs of the connection; `None` for look-ups.
    pub graphs: Option<Graphs>,
}

/// The data of one connection's graphs.
pub struct Graphs {
    /// Capture times of the start and end of what is drawn as a ladder, ns.
    pub exchange_ns: (u64, u64),
    /// A point for each segment.
    pub points: Vec<Point>,
    /// Round trips.
    pub rtts: Vec<RttSample>,
    /// Number of segments left out before and after the points.
    pub left_out: [u64; 2],
    /// Silences with their owners.
    pub stalls: Vec<Stall>,
}

/// A silence in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Capture time of its beginning, ns.
    pub start_ns: u64,
    /// Capture time of its end, ns.
    pub end_ns: u64,
    /// The owner of the time.
    pub owner: &'static str,
    /// The cause, if one was found.
    pub cause: Option<Cause>,
}

impl Pass {
    /// Prepares to draw the findings of `report`, which was made with `options`.
    pub fn new(options: &Options, report: &Report) -> Self {
        let totals = &report.totals;
        let floods = report.findings.iter().filter(|it| it.cause == Cause::SynFlood);
        let span_ns = (totals.first_ns, totals.last_ns);
        let set_ups = floods.map(|it| SetUps::new(it.culprit.endpoint, span_ns)).collect();
        let drawn: Vec<_> = (0..)
            .zip(&report.findings)
            .filter_map(|(index, finding)| {
                Some((index, finding.evidence.first()?.frame, start(options, report, finding)?))
            })
            .collect();
        let points_max = POINTS_MAX.min(POINTS_MAX_OF_ALL / drawn.len().max(1));
        let show = |(finding, frame, start)| {
            let connection = match start {
                Start::Known(it) => Some(it.first_frame),
                Start::Around { .. } => None,
            };
            let graph = Graph::new(frame, points_max);
            let followed = Followed::new(options, start).with_graph(graph);
            Shown { finding, frame, connection, followed }
        };
        let shown: Vec<_> = drawn.into_iter().map(show).collect();
        let has_graph = |first| shown.iter().any(|it| it.connection == Some(first));
        let listed = connections::followed(options, &report.connections, has_graph);
        let mut flows: HashMap<FlowKey, Vec<usize>> = HashMap::new();
        for (index, it) in shown.iter().map(|it| &it.followed).chain(&listed).enumerate() {
            flows.entry(it.flow).or_default().push(index);
        }
        Self {
            pass: SecondPass::new(options, Kept { exchanges: Exchanges::default(), set_ups }),
            shown,
            listed,
            flows,
            ladders: lookup_ladders(report),
        }
    }

    /// Processes the next block.
    pub fn take(&mut self, block: &Block) {
        let Self { shown, listed, flows, .. } = self;
        self.pass.take(block, |segment, payload| {
            for &index in flows.get(&segment.flow).map_or(&[][..], Vec::as_slice) {
                match index.checked_sub(shown.len()) {
                    None => shown[index].followed.segment(segment, payload),
                    Some(index) => listed[index].segment(segment, payload),
                }
            }
        });
    }

    /// Returns the collected data.
    pub fn finish(self) -> Picture {
        let (Kept { mut exchanges, set_ups }, mut control) = self.pass.finish();
        let mut lookups = control.take_lookups();
        let lookups_omitted = lookups.len().saturating_sub(LOOKUPS_MAX) as u64;
        lookups.sort_by_key(|it| std::cmp::Reverse(it.end_ns.saturating_sub(it.start_ns)));
        lookups.truncate(LOOKUPS_MAX);
        lookups.sort_by_key(|it| (it.start_ns, it.client));
        let of_names = self.ladders.into_iter();
        let of_names = of_names.map(|(finding, ladder)| Drawing {
            finding,
            connection: None,
            ladder,
            graphs: None,
        });
        let of_connections = self.shown.into_iter().filter_map(drawing);
        let mut drawings: Vec<_> = of_names.chain(of_connections).collect();
        drawings.sort_by_key(|drawing| drawing.finding);
        exchanges.settle();
        let connections = connections::drawn(self.listed, &exchanges.rows);
        Picture { exchanges, drawings, connections, set_ups, lookups, lookups_omitted }
    }
}

/// Selects the connection that shows `finding`, which is the connection of its evidence, as the
/// place of the evidence saw it. Ports are reused: of several connections, it is the last that began
/// before the evidence.
fn start<'a>(options: &Options, report: &'a Report, finding: &Finding) -> Option<Start<'a>> {
    let frame = finding.evidence.first()?.frame;
    let (client, server) = finding.evidence_flow?;
    if is_of_names(finding) || client.port == 0 {
        return None;
    }
    let place = |frame| options.sites.place(frame);
    let holds = |it: &&ConnectionReport| {
        (it.client, it.server) == (client, server)
            && it.first_frame <= frame
            && place(it.first_frame) == place(frame)
    };
    let known = report.connections.iter().filter(holds).max_by_key(|it| it.first_frame);
    Some(known.map_or(Start::Around { client, server, frame }, Start::Known))
}

/// Returns whether `finding` is about look-ups, which belong to no connection.
fn is_of_names(finding: &Finding) -> bool {
    crate::report::phrases::is_dns(finding.cause)
}

fn lookup_ladders(report: &Report) -> Vec<(usize, Ladder)> {
    let findings = (0..).zip(&report.findings).filter(|(_, finding)| is_of_names(finding));
    findings.filter_map(|(index, it)| Some((index, Ladder::of_lookup(it)?))).collect()
}

fn drawing(shown: Shown) -> Option<Drawing> {
    let Shown { finding, frame, connection, followed } = shown;
    let mut whole = followed.finish()?;
    let graph = whole.graph.take()?;
    let exchange = whole.exchange_at(frame);
    let ladder = whole.ladder(exchange, &NamedFrames::default(), Some(Room::SCREENS));
    let start_ns = whole.ladder_start_ns(exchange);
    let end_ns = start_ns + ladder.steps.last().map_or(0, |step| step.time_ns);
    let graphs = graphs(graph, &whole, (start_ns, end_ns))?;
    Some(Drawing { finding, connection, ladder, graphs: Some(graphs) })
}

/// Returns the graphs of `whole`, which was drawn between the capture times `exchange_ns`; `None`
/// without a point.
fn graphs(graph: Graph, whole: &Whole, exchange_ns: (u64, u64)) -> Option<Graphs> {
    let points: Vec<Point> = graph.points.into();
    let span_ns = (points.first()?.time_ns, points.last()?.time_ns);
    Some(Graphs {
        exchange_ns,
        rtts: graph.rtts.into(),
        left_out: graph.left_out,
        stalls: stalls(&whole.steps(), span_ns),
        points,
    })
}

/// Returns the silences among `steps` that overlap `span_ns`, in time order.
fn stalls(steps: &[crate::report::LadderStep], span_ns: (u64, u64)) -> Vec<Stall> {
    let mut stalls: Vec<Stall> = Vec::new();
    let mut until_ns = 0;
    for step in steps {
        let Step::Gap { duration_ns, owner, cause, beyond } = step.step else {
            until_ns = step.time_ns;
            continue;
        };
        // Slices of one silence are drawn one after the other.
        let first_ns = steps.first().map_or(0, |step| step.time_ns);
        let start_ns = beyond.since_ns.map_or(until_ns, |since_ns| first_ns + since_ns);
        let end_ns = start_ns + duration_ns;
        until_ns = end_ns.min(step.time_ns);
        if start_ns <= span_ns.1 && end_ns >= span_ns.0 {
            stalls.push(Stall { start_ns, end_ns, owner: owner.id(), cause });
        }
    }
    stalls.sort_by_key(|it| std::cmp::Reverse(it.end_ns - it.start_ns));
    stalls.truncate(STALLS_MAX);
    stalls.sort_by_key(|it| (it.start_ns, it.end_ns));
    stalls
}
