//! One connection, drawn: a second pass over a capture that follows a single flow and keeps
//! what the first pass only added up.

mod elide;
mod rungs;
mod settled;

use crate::app::Side;
use crate::capture::{Block, FrameId};
use crate::pipeline::{Batch, Decoder, Joiner, Options, Sites};
use crate::report::{ConnectionReport, Ladder, Ledger, LookupReport};
use crate::tcp::{Connection, Exchange, Shared, Sink};
use crate::wire::{Endpoint, FlowKey, Segment};
use elide::Room;
use rungs::{Drawing, Rung};

/// Segments kept; a longer connection is drawn up to there.
const RUNGS_MAX: usize = 1 << 18;

/// Nothing to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrillError {
    /// The connection has fewer exchanges.
    #[error("exchange {wanted} is not on that connection: {}", range(*.exchanges))]
    NoExchange {
        /// The number asked for, 1-based.
        wanted: u64,
        /// How many there are.
        exchanges: u64,
    },
}

/// The numbers that exchanges of a connection have.
fn range(exchanges: u64) -> String {
    match exchanges {
        0 => "no exchange on it is complete, leave out --exchange".into(),
        1 => "its only one is 1".into(),
        last => format!("write a number from 1 to {last}"),
    }
}

/// A second pass under way.
pub struct Drill {
    decoder: Decoder,
    joiner: Joiner,
    batch: Batch,
    flow: FlowKey,
    client: Endpoint,
    first_frame: FrameId,
    /// Its time by owner, as the report has it.
    ledger: Ledger,
    lookup: Option<LookupReport>,
    sites: Sites,
    connection: Option<Box<Connection>>,
    over: bool,
    rungs: Vec<Rung>,
    shared: Shared,
    exchanges: Exchanges,
}

/// Exchanges as they end, in the order they began.
#[derive(Default)]
struct Exchanges(Vec<Exchange>);

impl Sink for Exchanges {
    fn exchange(&mut self, _: &Connection, exchange: &Exchange) {
        self.0.push(exchange.clone());
    }

    fn connection(&mut self, _: &Connection) {}
}

impl Drill {
    /// Will draw `connection` of a report that was made with `options`.
    pub fn new(options: &Options, connection: &ConnectionReport) -> Self {
        let decoder = Decoder::new(options);
        Self {
            joiner: Joiner::new(decoder.clone()),
            decoder,
            batch: Batch::default(),
            flow: FlowKey::new(connection.client, connection.server).0,
            client: connection.client,
            first_frame: connection.first_frame,
            ledger: connection.ledger,
            lookup: connection.lookup.clone(),
            sites: options.sites.clone(),
            connection: None,
            over: false,
            rungs: Vec::new(),
            shared: Shared::telling_of(options.window()),
            exchanges: Exchanges::default(),
        }
    }

    /// Takes the next block; false when there is no need for more.
    pub fn take(&mut self, block: &Block) -> bool {
        self.decoder.decode(block, &mut self.batch);
        self.joiner.join(block, &mut self.batch);
        let batch = std::mem::take(&mut self.batch);
        let flow = self.flow;
        for segment in batch.segments().filter(|segment| segment.flow == flow) {
            self.segment(segment, batch.payload(segment, block));
        }
        self.batch = batch;
        !self.over
    }

    fn segment(&mut self, segment: &Segment, payload: &[u8]) {
        if self.over || self.connection.is_none() && segment.frame != self.first_frame {
            return;
        }
        if self.sites.place(segment.frame) != self.sites.place(self.first_frame) {
            return;
        }
        let connection = self.connection.get_or_insert_with(|| {
            let mut connection = Box::new(Connection::new(segment));
            connection.note_trace();
            connection
        });
        if connection.reused_by(segment) {
            self.over = true;
            return;
        }
        connection.segment(segment, payload, &mut self.shared, &mut self.exchanges);
        if self.rungs.len() < RUNGS_MAX {
            self.rungs.push(Rung::of(connection, segment, sender(self.client, segment)));
        }
    }

    /// Draws the connection, or its exchange number `exchange` (1-based); in full if `all`.
    ///
    /// # Errors
    /// [`DrillError`], if there is no such exchange.
    pub fn finish(self, exchange: Option<u64>, all: bool) -> Result<Ladder, DrillError> {
        self.draw((!all).then_some(Room::SCREENS), |exchanges| match exchange {
            None => Ok(None),
            Some(wanted) => {
                let index = usize::try_from(wanted).unwrap_or(usize::MAX).wrapping_sub(1);
                let error = DrillError::NoExchange { wanted, exchanges: exchanges.len() as u64 };
                exchanges.get(index).map(Some).ok_or(error)
            }
        })
    }

    /// Draws the exchange that `frame` belongs to, or the connection where it belongs to none, on
    /// part of a screen.
    pub fn finish_at(self, frame: FrameId) -> Ladder {
        let around = |exchange: &&Exchange| {
            (exchange.first.frame..=exchange.last.frame).contains(&frame)
                || exchange.connects && frame < exchange.first.frame
        };
        let drawn = self.draw(Some(Room::SHORT), |exchanges| Ok(exchanges.iter().find(around)));
        drawn.unwrap_or_default()
    }

    fn draw(
        mut self,
        room: Option<Room>,
        pick: impl Fn(&[Exchange]) -> Result<Option<&Exchange>, DrillError>,
    ) -> Result<Ladder, DrillError> {
        let Some(mut connection) = self.connection.take() else { return Ok(Ladder::default()) };
        connection.finish(&mut self.shared, &mut self.exchanges);
        let mut exchanges = self.exchanges.0;
        exchanges.sort_by_key(|exchange| (exchange.first.time_ns, exchange.first.frame));
        let (client, server) = (connection.client(), connection.server());
        let drawing = Drawing {
            connection: &connection,
            rungs: &self.rungs,
            exchanges: &exchanges,
            ledger: &self.ledger,
            lookup: self.lookup.as_ref(),
        };
        let range = match pick(&exchanges)? {
            Some(exchange) => drawing.range_of(exchange),
            None => drawing.told_of(&self.shared.window),
        };
        let steps = drawing.steps(range);
        let steps = match room {
            Some(room) => elide::elide(steps, room),
            None => steps,
        };
        Ok(Ladder { client, server, steps })
    }
}

/// Who sent `segment`.
fn sender(client: Endpoint, segment: &Segment) -> Side {
    let (source, _) = if segment.from_high() {
        (segment.flow.high, segment.flow.low)
    } else {
        (segment.flow.low, segment.flow.high)
    };
    if source == client { Side::Client } else { Side::Server }
}
