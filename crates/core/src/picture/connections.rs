//! The connections of the report's list, drawn: each as a whole, and its listed exchanges one by
//! one. Together they are bounded, in segments read as in what is drawn.

use super::list::ExchangeRow;
use super::{Graphs, graphs};
use crate::capture::FrameId;
use crate::drill::{Followed, NamedFrames, Room, Start, Whole};
use crate::graph::Graph;
use crate::model::ConnectionReport;
use crate::pipeline::Options;
use crate::report::Ladder;
use std::collections::{HashMap, VecDeque};

/// Maximum number of segments read of all connections: memory is needed for each.
const SEGMENTS_MAX: usize = 1 << 18;

/// Maximum number of points in the graphs of one connection, and of all.
const POINTS_MAX: usize = 20_000;
const POINTS_MAX_OF_ALL: usize = 30_000;

/// Maximum number of steps in the ladders of all exchanges.
const STEPS_MAX: usize = 16_000;

/// A connection of the report's list, drawn.
pub struct DrawnConnection {
    /// Its first frame, which distinguishes it from others of the same addresses.
    pub first: FrameId,
    /// Capture time at which the ladder begins, ns.
    pub start_ns: u64,
    /// The whole connection, shortened.
    pub ladder: Ladder,
    /// Its graphs, unless the drawing of a finding has them.
    pub graphs: Option<Graphs>,
    /// Those of its exchanges that are listed, the longest first.
    pub exchanges: Vec<DrawnExchange>,
}

/// An exchange, drawn.
pub struct DrawnExchange {
    /// First frame and number of its row.
    pub row: (FrameId, u64),
    /// Its number on the connection, as `--exchange` takes it: in the order of requests.
    pub number: u64,
    /// Capture time at which the ladder begins, ns.
    pub start_ns: u64,
    /// The exchange, shortened.
    pub ladder: Ladder,
}

/// Prepares to follow `connections`, up to the bounds. Those of which `has_graph` holds, by their
/// first frame, have graphs elsewhere.
pub(super) fn followed(
    options: &Options,
    connections: &[ConnectionReport],
    has_graph: impl Fn(FrameId) -> bool,
) -> Vec<Followed> {
    let many = connections.len().max(1);
    let points_max = POINTS_MAX.min(POINTS_MAX_OF_ALL / many);
    let follow = |it: &ConnectionReport| {
        let followed = Followed::new(options, Start::Known(it)).up_to(SEGMENTS_MAX / many);
        match has_graph(it.first_frame) {
            true => followed,
            false => followed.with_graph(Graph::new(it.first_frame, points_max)),
        }
    };
    connections.iter().map(follow).collect()
}

/// Draws the connections that were followed, and those exchanges of `rows` that lie on them.
pub(super) fn drawn(followed: Vec<Followed>, rows: &[ExchangeRow]) -> Vec<DrawnConnection> {
    let firsts: Vec<FrameId> = followed.iter().map(|it| it.at).collect();
    let finished = firsts.into_iter().zip(followed.into_iter().map(Followed::finish));
    let mut wholes: Vec<(FrameId, Whole)> =
        finished.filter_map(|(first, whole)| Some((first, whole?))).collect();
    let mut exchanges = ladders(&wholes, rows).into_iter();
    let draw = |(first, whole): &mut (FrameId, Whole)| {
        let exchanges = exchanges.next().unwrap_or_default();
        let ladder = whole.ladder(None, &NamedFrames::default(), Some(Room::SCREENS));
        let start_ns = whole.ladder_start_ns(None);
        let end_ns = start_ns + ladder.steps.last().map_or(0, |step| step.time_ns);
        let graphs = whole.graph.take().and_then(|it| graphs(it, whole, (start_ns, end_ns)));
        DrawnConnection { first: *first, start_ns, ladder, graphs, exchanges }
    };
    wholes.iter_mut().map(draw).collect()
}

/// Returns the ladders of `rows` on each connection, as many as are drawn of all.
fn ladders(wholes: &[(FrameId, Whole)], rows: &[ExchangeRow]) -> Vec<Vec<DrawnExchange>> {
    let mut drawn: Vec<Vec<DrawnExchange>> = wholes.iter().map(|_| Vec::new()).collect();
    let numbers = numbers(wholes, rows);
    let room =
        if rows.len() * Room::SCREENS.steps() <= STEPS_MAX { Room::SCREENS } else { Room::SHORT };
    let mut steps = 0;
    for (row, place) in rows.iter().zip(numbers) {
        let Some((at, index)) = place else { continue };
        let (_, whole) = &wholes[at];
        let ladder = whole.ladder(Some(index), &NamedFrames::default(), Some(room));
        steps += ladder.steps.len();
        if steps > STEPS_MAX {
            break;
        }
        let start_ns = whole.ladder_start_ns(Some(index));
        let (row, number) = ((row.first, row.number), index as u64 + 1);
        drawn[at].push(DrawnExchange { row, number, start_ns, ladder });
    }
    drawn
}

/// Returns the index of the connection of each row, and that of its exchange on it. Several requests
/// may be in one segment, and so may their responses; their order distinguishes them.
fn numbers(wholes: &[(FrameId, Whole)], rows: &[ExchangeRow]) -> Vec<Option<(usize, usize)>> {
    let mut places: HashMap<(FrameId, FrameId), VecDeque<(usize, usize)>> = HashMap::new();
    for (at, (_, whole)) in wholes.iter().enumerate() {
        for (frames, index) in whole.frames().zip(0..) {
            places.entry(frames).or_default().push_back((at, index));
        }
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&at| rows[at].number);
    let mut numbers = vec![None; rows.len()];
    for at in order {
        let frames = (rows[at].first, rows[at].last);
        numbers[at] = places.get_mut(&frames).and_then(VecDeque::pop_front);
    }
    numbers
}
