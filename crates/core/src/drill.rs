//! Draws one connection. A second pass over a capture follows a single flow and keeps the details
//! that the first pass only added up.

mod accounts;
mod elide;
mod followed;
mod named;
mod rungs;
mod why;

use crate::capture::{Block, FrameId};
use crate::model::{ConnectionReport, Ledger, Slice};
use crate::pipeline::{Batch, Decoder, Event, FragmentJoiner, Options};
use crate::report::{Ladder, Named};
use crate::wire::FlowKey;
pub(crate) use elide::Room;
pub(crate) use followed::{Followed, Start, Whole};
pub(crate) use named::NamedFrames;
pub use why::WhyAt;

/// The reason why there is nothing to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrillError {
    /// The connection has fewer exchanges.
    #[error("exchange {wanted} is not on that connection: {}", range(*.exchanges))]
    NoExchange {
        /// The requested number, 1-based.
        wanted: u64,
        /// The number of exchanges.
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

/// Describes the valid numbers of a connection's exchanges.
fn range(exchanges: u64) -> String {
    match exchanges {
        0 => "no exchange on it is complete, leave out --exchange".into(),
        1 => "its only one is 1".into(),
        last => format!("write a number from 1 to {last}"),
    }
}

/// A second pass in progress.
pub struct Drill {
    decoder: Decoder,
    joiner: FragmentJoiner,
    batch: Batch,
    flow: FlowKey,
    followed: Followed,
    named: NamedFrames,
}

impl Drill {
    /// Prepares to draw `connection` of a report made with `options`.
    pub fn new(options: &Options, connection: &ConnectionReport) -> Self {
        let decoder = Decoder::new(options);
        Self {
            joiner: FragmentJoiner::new(decoder.clone()),
            decoder,
            batch: Batch::default(),
            flow: FlowKey::new(connection.client, connection.server).0,
            followed: Followed::new(options, Start::Known(connection)),
            named: NamedFrames::default(),
        }
    }

    /// Makes the drawing show these frames, also those that are not of the connection. Of two
    /// places, it shows the connection as that of the frames saw it.
    pub fn naming(mut self, options: &Options, named: Vec<Named>) -> Self {
        let place = |frame| options.sites.place(frame);
        if let Some(first) = named.first()
            && place(first.frame) != place(self.followed.at)
        {
            let start = self.followed.start_at(first.frame);
            self.followed = Followed::new(options, start);
        }
        let of_place = |it: &Named| place(it.frame) == place(self.followed.at);
        self.named = NamedFrames::of(named.into_iter().filter(of_place).collect());
        self
    }

    /// Makes the pass also keep the data that [`explain`](Self::explain) needs.
    pub fn deciding(self) -> Self {
        Self { followed: self.followed.deciding(), ..self }
    }

    /// Processes the next block. Returns `false` when no more are needed.
    pub fn take(&mut self, block: &Block) -> bool {
        self.named.take(block);
        self.decoder.decode(block, &mut self.batch);
        self.joiner.join(block, &mut self.batch);
        let batch = std::mem::take(&mut self.batch);
        let flow = self.flow;
        for event in batch.events_of(&flow) {
            match event {
                Event::Segment(segment) => {
                    self.followed.segment(segment, batch.payload(segment, block));
                }
                Event::Error(error) => self.followed.icmp_error(error),
                Event::Copy(..) => {}
            }
        }
        self.batch = batch;
        !(self.followed.is_over() && self.named.is_complete())
    }

    /// Draws the connection, or its exchange number `exchange` (1-based); in full if `all` is set.
    ///
    /// # Errors
    /// [`DrillError`] if there is no such exchange.
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
        Ok(drawn.ladder(index, &self.named, (!all).then_some(Room::SCREENS)))
    }

    /// Returns the ledger of each exchange as the report has it, and the slices of its drawing.
    #[doc(hidden)]
    pub fn slices(self) -> Vec<(Ledger, Vec<Slice>)> {
        self.followed.finish().map_or_else(Vec::new, |whole| whole.slices())
    }

    /// Draws the exchange of `frame`, or the connection if the frame belongs to no exchange,
    /// shortened to a part of a screen.
    pub fn finish_at(self, frame: FrameId) -> Ladder {
        let drawn = self.followed.finish();
        drawn.map_or_else(Ladder::default, |it| {
            it.ladder(it.exchange_at(frame), &self.named, Some(Room::SHORT))
        })
    }
}
