//! One connection, drawn: a second pass over a capture that follows a single flow and keeps
//! what the first pass only added up.

mod elide;
mod followed;
mod rungs;
mod settled;
mod why;

use crate::capture::{Block, FrameId};
use crate::model::ConnectionReport;
use crate::pipeline::{Batch, Decoder, Joiner, Options};
use crate::report::Ladder;
use crate::wire::FlowKey;
pub(crate) use elide::Room;
pub(crate) use followed::{Followed, Start};
pub use why::WhyAt;

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
    /// No silence of the connection was judged at that frame.
    #[error(
        "frame {frame} neither ended a silence of an exchange nor lies in one: it follows at once, or \
         belongs to none"
    )]
    NoSilence {
        /// The frame's number.
        frame: u64,
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
    followed: Followed,
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
            followed: Followed::new(options, Start::Known(connection)),
        }
    }

    /// Keeps what [`explain`](Self::explain) needs as well.
    pub fn deciding(self) -> Self {
        Self { followed: self.followed.deciding(), ..self }
    }

    /// Takes the next block; false when there is no need for more.
    pub fn take(&mut self, block: &Block) -> bool {
        self.decoder.decode(block, &mut self.batch);
        self.joiner.join(block, &mut self.batch);
        let batch = std::mem::take(&mut self.batch);
        let flow = self.flow;
        for segment in batch.segments().filter(|segment| segment.flow == flow) {
            self.followed.segment(segment, batch.payload(segment, block));
        }
        self.batch = batch;
        !self.followed.is_over()
    }

    /// Draws the connection, or its exchange number `exchange` (1-based); in full if `all`.
    ///
    /// # Errors
    /// [`DrillError`], if there is no such exchange.
    pub fn finish(self, exchange: Option<u64>, all: bool) -> Result<Ladder, DrillError> {
        let Some(drawn) = self.followed.finish() else { return Ok(Ladder::default()) };
        let index = match exchange {
            None => None,
            Some(wanted) => {
                let index = usize::try_from(wanted).unwrap_or(usize::MAX).wrapping_sub(1);
                let exchanges = drawn.exchanges.len() as u64;
                drawn.exchanges.get(index).ok_or(DrillError::NoExchange { wanted, exchanges })?;
                Some(index)
            }
        };
        Ok(drawn.ladder(index, (!all).then_some(Room::SCREENS)))
    }

    /// Draws the exchange that `frame` belongs to, or the connection where it belongs to none, on
    /// part of a screen.
    pub fn finish_at(self, frame: FrameId) -> Ladder {
        let drawn = self.followed.finish();
        drawn.map_or_else(Ladder::default, |it| it.ladder(it.exchange_at(frame), Some(Room::SHORT)))
    }
}
