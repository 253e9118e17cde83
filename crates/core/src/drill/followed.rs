//! One connection followed through a second pass.

use super::accounts::accounts;
use super::elide::{self, Room};
use super::named::NamedFrames;
use super::rungs::{Drawing, Rung, sender};
use crate::capture::FrameId;
use crate::graph::Graph;
use crate::join::Sites;
use crate::keys::Keyring;
use crate::model::{ConnectionReport, Ledger, LookupReport, Reassigned, Slice, Window};
use crate::pipeline::Options;
use crate::report::{Ladder, LadderStep};
use crate::tcp::{Account, Connection, Exchange, Shared, Sink};
use crate::wire::{Endpoint, FlowKey, IcmpError, Segment};
use std::ops::Range;

/// Greatest number of segments kept; a longer connection is drawn up to there.
const RUNGS_MAX: usize = 1 << 18;

/// Selects one connection of a flow, since addresses and ports are reused.
pub(crate) enum Start<'a> {
    /// A connection listed in the report.
    Known(&'a ConnectionReport),
    /// The connection of `frame`, opened by `client` to `server`.
    Around { client: Endpoint, server: Endpoint, frame: FrameId },
}

/// A connection that is followed.
pub(crate) struct Followed {
    pub(crate) flow: FlowKey,
    client: Endpoint,
    server: Endpoint,
    /// First frame of the connection, if known from the report.
    first_frame: Option<FrameId>,
    /// A frame of the connection, or before it: a connection that ends before this frame is another
    /// one.
    pub(crate) at: FrameId,
    /// What comparing all connections changed of its time.
    reassigned: Vec<Reassigned>,
    lookup: Option<LookupReport>,
    sites: Sites,
    connection: Option<Box<Connection>>,
    over: bool,
    /// Number of segments after which the connection is left, if there is a bound.
    segments_max: Option<usize>,
    rungs: Vec<Rung>,
    shared: Shared,
    window: Window,
    keys: Option<Keyring>,
    exchanges: Exchanges,
    graph: Option<Graph>,
    /// Decisions are logged.
    decides: bool,
}

/// Exchanges in the order in which they end.
#[derive(Default)]
struct Exchanges(Vec<Exchange>);

impl Sink for Exchanges {
    fn exchange(&mut self, _: &Connection, exchange: &Exchange) {
        self.0.push(exchange.clone());
    }

    fn connection(&mut self, _: &Connection) {}
}

impl Followed {
    /// Prepares to follow a connection of a capture that was analysed with `options`.
    pub(crate) fn new(options: &Options, start: Start<'_>) -> Self {
        let (client, server, at) = match start {
            Start::Known(it) => (it.client, it.server, it.first_frame),
            Start::Around { client, server, frame } => (client, server, frame),
        };
        let known = match start {
            Start::Known(it) => Some(it),
            Start::Around { .. } => None,
        };
        Self {
            flow: FlowKey::new(client, server).0,
            client,
            server,
            first_frame: known.map(|it| it.first_frame),
            at,
            reassigned: known.map_or_else(Vec::new, |it| it.reassigned.clone()),
            lookup: known.and_then(|it| it.lookup.clone()),
            sites: options.sites.clone(),
            connection: None,
            over: false,
            segments_max: None,
            rungs: Vec::new(),
            shared: Shared::limited_to(options.window(), options.keys.clone()),
            window: options.window(),
            keys: options.keys.clone(),
            exchanges: Exchanges::default(),
            graph: None,
            decides: false,
        }
    }

    /// Returns the same connection as the place of `frame` saw it.
    pub(crate) fn start_at(&self, frame: FrameId) -> Start<'static> {
        Start::Around { client: self.client, server: self.server, frame }
    }

    /// Makes the pass also log decisions.
    pub(crate) fn deciding(self) -> Self {
        Self { decides: true, ..self }
    }

    /// Makes the pass also keep the data of graphs.
    pub(crate) fn with_graph(self, graph: Graph) -> Self {
        Self { graph: Some(graph), ..self }
    }

    /// Makes the pass leave the connection after so many segments, as if it were over.
    pub(crate) fn up_to(self, segments_max: usize) -> Self {
        Self { segments_max: Some(segments_max), ..self }
    }

    /// Returns whether the connection is over.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Processes the next segment of the flow.
    pub(crate) fn segment(&mut self, segment: &Segment, payload: &[u8]) {
        let begins_at = self.first_frame.unwrap_or(segment.frame);
        if self.over || self.connection.is_none() && segment.frame != begins_at {
            return;
        }
        if self.sites.place(segment.frame) != self.sites.place(self.at) {
            return;
        }
        if self.connection.as_ref().is_some_and(|it| it.view().reused_by(segment)) {
            if self.first_frame.is_some() || segment.frame > self.at {
                self.over = true;
                return;
            }
            self.begin_again();
        }
        let connection = self.connection.get_or_insert_with(|| {
            let mut connection = Box::new(Connection::new(segment));
            match self.decides {
                true => connection.cold.note_decisions(),
                false => connection.cold.note_trace(),
            }
            connection
        });
        connection.segment(segment, payload, &mut self.shared, &mut self.exchanges);
        let from = sender(self.client, segment);
        let kind = connection.cold.trace_mut().and_then(|trace| trace.take_kind());
        if self.rungs.len() < RUNGS_MAX {
            self.rungs.push(Rung::of(connection, segment, from, kind));
        }
        if let Some(graph) = &mut self.graph {
            graph.segment(connection, segment, from, kind);
        }
        self.over = self.segments_max.is_some_and(|most| self.rungs.len() >= most);
    }

    /// Processes an ICMP error about a packet of the flow.
    pub(crate) fn icmp_error(&mut self, error: &IcmpError) {
        let is_elsewhere = self.sites.place(error.frame) != self.sites.place(self.at);
        if let Some(connection) = self.connection.as_mut().filter(|it| !it.cold.is_over())
            && !self.over
            && !is_elsewhere
        {
            connection.icmp_error(error, &mut self.shared);
        }
    }

    /// Discards what was kept: it belonged to an earlier connection.
    fn begin_again(&mut self) {
        self.connection = None;
        self.rungs.clear();
        self.exchanges.0.clear();
        self.shared = Shared::limited_to(self.window, self.keys.clone());
        if let Some(graph) = &mut self.graph {
            graph.begin_again();
        }
    }

    /// Returns the whole connection; `None` if no segment of it was found.
    pub(crate) fn finish(mut self) -> Option<Whole> {
        let mut connection = self.connection?;
        connection.finish(&mut self.shared, &mut self.exchanges);
        let mut exchanges = self.exchanges.0;
        exchanges.sort_by_key(|exchange| (exchange.first.time_ns, exchange.first.frame));
        let accounts = accounts(&exchanges, &self.reassigned);
        Some(Whole {
            connection,
            rungs: self.rungs,
            exchanges,
            accounts,
            lookup: self.lookup,
            window: self.shared.window,
            graph: self.graph,
        })
    }
}

/// A connection followed to its end.
pub(crate) struct Whole {
    pub(crate) connection: Box<Connection>,
    rungs: Vec<Rung>,
    /// Exchanges of the connection, in the order in which they began.
    pub(crate) exchanges: Vec<Exchange>,
    /// The time of each exchange as the report has it.
    accounts: Vec<Account>,
    lookup: Option<LookupReport>,
    window: Window,
    pub(crate) graph: Option<Graph>,
}

impl Whole {
    /// Returns the first and the last frame of each exchange.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (FrameId, FrameId)> + '_ {
        self.exchanges.iter().map(|it| (it.first.frame, it.last.frame))
    }

    /// Returns the index of the exchange that `frame` belongs to.
    pub(crate) fn exchange_at(&self, frame: FrameId) -> Option<usize> {
        self.exchanges.iter().position(|exchange| {
            (exchange.first.frame..=exchange.last.frame).contains(&frame)
                || exchange.connects && frame < exchange.first.frame
        })
    }

    /// Draws the exchange with that index, or the whole connection, within `room`, and in any case
    /// the frames that `named` has.
    pub(crate) fn ladder(
        &self,
        exchange: Option<usize>,
        named: &NamedFrames,
        room: Option<Room>,
    ) -> Ladder {
        let range = self.drawing().with(self.range(exchange), named);
        let steps = self.drawing().steps_with(range, exchange, named);
        let steps = match room {
            Some(room) => elide::elide(steps, room, |frame| named.has(frame)),
            None => steps,
        };
        Ladder { client: self.connection.client(), server: self.connection.server(), steps }
    }

    /// Returns the ledger of each exchange as the report has it, and the slices of its drawing.
    pub(super) fn slices(&self) -> Vec<(Ledger, Vec<Slice>)> {
        let slices = |it: &Account| it.parts().iter().map(|part| part.slice).collect();
        self.accounts.iter().map(|it| (it.ledger(), slices(it))).collect()
    }

    /// Returns the capture time at which the ladder of that exchange begins, ns.
    pub(crate) fn ladder_start_ns(&self, exchange: Option<usize>) -> u64 {
        self.drawing().first_ns(&self.range(exchange))
    }

    /// Returns all steps of the connection, with capture times.
    pub(crate) fn steps(&self) -> Vec<LadderStep> {
        let start_ns = self.ladder_start_ns(None);
        let mut steps = self.drawing().steps(self.range(None), None);
        steps.iter_mut().for_each(|step| step.time_ns += start_ns);
        steps
    }

    fn range(&self, exchange: Option<usize>) -> Range<usize> {
        match exchange.and_then(|index| self.exchanges.get(index)) {
            Some(exchange) => self.drawing().range_of(exchange),
            None => self.drawing().in_window(&self.window),
        }
    }

    fn drawing(&self) -> Drawing<'_> {
        Drawing {
            connection: &self.connection,
            rungs: &self.rungs,
            exchanges: &self.exchanges,
            accounts: &self.accounts,
            lookup: self.lookup.as_ref(),
        }
    }
}
