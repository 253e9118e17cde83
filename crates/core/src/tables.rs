//! Connections, exchanges and stalls of a capture as rows: a second pass that keeps none of them.
//! `tcpwhy FILE --parquet DIR` writes them as tables, and the Python package gives them as data
//! frames, both by the [columns](Table::columns) here.

mod cells;
mod columns;

pub use cells::{connection_row, exchange_row, finding_row, lookup_row, stall_row};
pub use columns::{BATCH_ROWS, Cell, Kind, Table};

use crate::capture::{Block, FrameId};
use crate::dns::Lookup;
use crate::findings::connection_report;
use crate::join::Sites;
use crate::model::{Cause, ConnectionReport, Culprit, Window};
use crate::picture::{self, ExchangeRow};
use crate::pipeline::{Batch, Event, Options};
use crate::second_pass::{self, SecondPass};
use crate::tcp::{Chain, Connection, Exchange, Sink};
use crate::wire::Side;

/// An exchange with the connection that it is on.
#[derive(Clone, Debug)]
pub struct TableExchange {
    /// The exchange.
    pub row: ExchangeRow,
    /// First frame of its connection, which identifies the connection.
    pub connection_frame: FrameId,
    /// The exchange includes the set-up of its connection.
    pub connects: bool,
}

/// The silences of one exchange that one cause explains, for one sender.
#[derive(Clone, Debug)]
pub struct Stall {
    /// The cause.
    pub cause: Cause,
    /// The side that was silent.
    pub sender: Side,
    /// The party that has to change something.
    pub culprit: Culprit,
    /// Total time of these silences that the cause owns, ns.
    pub ns: u64,
    /// Number of silences.
    pub count: u32,
    /// Length of the longest silence, ns.
    pub longest_ns: u64,
    /// The frame before the longest silence.
    pub before: FrameId,
    /// The frame that ended the longest silence.
    pub after: FrameId,
}

/// Receives the rows, in the order in which exchanges and connections end.
pub trait Rows {
    /// Receives a connection that is over.
    fn connection(&mut self, connection: &ConnectionReport);
    /// Receives an exchange that is over; `stalls` are the silences in it that causes explain.
    fn exchange(&mut self, exchange: &TableExchange, stalls: &[Stall]);
    /// Receives a look-up that is over.
    fn lookup(&mut self, lookup: &Lookup);
}

/// The second pass, which passes the rows to `R`.
pub struct Pass<R> {
    pass: SecondPass<Given<R>>,
    /// The time of which the report is.
    window: Window,
    sites: Sites,
}

/// The connections of the second pass, whose frames are decoded elsewhere.
pub(crate) struct Connections<R>(second_pass::Connections<Given<R>>);

struct Given<R> {
    rows: R,
    /// Kept between exchanges, so that no exchange allocates one.
    stalls: Vec<Stall>,
}

impl<R: Rows> Pass<R> {
    /// Begins a pass with the options of the first pass.
    pub fn new(options: &Options, rows: R) -> Self {
        Self {
            pass: SecondPass::new(options, Given { rows, stalls: Vec::new() }),
            window: options.window(),
            sites: options.sites.clone(),
        }
    }

    /// Processes the next block.
    pub fn take(&mut self, block: &Block) {
        self.pass.take(block, |_, _| {});
        let lookups = self.pass.take_finished_lookups();
        give(&mut self.pass.sink().rows, lookups, &self.window, &self.sites);
    }

    /// Returns the receiver, with the rows so far.
    pub fn rows_mut(&mut self) -> &mut R {
        &mut self.pass.sink().rows
    }

    /// Passes on the connections and look-ups that are still open, and returns the receiver.
    pub fn finish(self) -> R {
        let (Given { mut rows, .. }, mut control) = self.pass.finish();
        give(&mut rows, control.take_lookups(), &self.window, &self.sites);
        rows
    }
}

/// Passes on those of `lookups` that the report counts: that lie in its time, and, of two places, that
/// the first has seen.
pub(crate) fn give(rows: &mut impl Rows, lookups: Vec<Lookup>, window: &Window, sites: &Sites) {
    for lookup in lookups {
        let place = lookup.queries.first().map_or(0, |query| sites.place(query.query_frame));
        if place == 0 && window.overlaps(lookup.start_ns, lookup.end_ns) {
            rows.lookup(&lookup);
        }
    }
}

impl<R: Rows> Connections<R> {
    /// Begins with the options of the first pass.
    pub fn new(options: &Options, rows: R) -> Self {
        Self(second_pass::Connections::new(options, Given { rows, stalls: Vec::new() }))
    }

    /// Processes the segments of a block.
    pub fn take(&mut self, batch: &Batch, block: &Block) {
        self.0.take(batch, block);
    }

    /// Processes one event of a connection with this flow hash, and the payload of a segment.
    pub fn take_event(&mut self, flow_hash: u64, event: &Event<'_>, payload: &[u8]) {
        self.0.take_event(flow_hash, event, payload);
    }

    /// Passes on the connections that are still open, and returns the receiver.
    pub fn finish(self) -> R {
        self.0.finish().rows
    }
}

impl<R: Rows> Sink for Given<R> {
    fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        self.stalls.clear();
        let owning = exchange.chains.iter().filter(|chain| chain.ns > 0);
        self.stalls.extend(owning.map(|chain| stall(connection, chain)));
        let exchange = TableExchange {
            row: picture::exchange_row(connection, exchange),
            connection_frame: connection.first_frame,
            connects: exchange.connects,
        };
        self.rows.exchange(&exchange, &self.stalls);
    }

    fn connection(&mut self, connection: &Connection) {
        self.rows.connection(&connection_report(connection));
    }
}

fn stall(connection: &Connection, chain: &Chain) -> Stall {
    let [client, server] = [connection.client(), connection.server()];
    Stall {
        cause: chain.cause,
        sender: chain.sender,
        culprit: chain.cause.culprit(chain.sender, client, server),
        ns: chain.ns,
        count: chain.count,
        longest_ns: chain.longest_ns,
        before: chain.gap.last.frame,
        after: chain.gap.next.frame,
    }
}
