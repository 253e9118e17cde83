//! What the connections of one shard have in common, so that none has to make or keep it alone.

use crate::app::KnownHeaders;
use crate::tcp::exchange::Exchange;

/// What connections that are followed together share.
#[derive(Default)]
pub struct Shared {
    /// Headers that came before.
    pub known: KnownHeaders,
    /// Room of exchanges that are over.
    pub(super) spare: Spare,
}

/// Exchanges that are over, for the memory in them: there is one for every few segments.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "it is the boxes that are to be kept")]
pub struct Spare(Vec<Box<Exchange>>);

/// Exchanges kept.
const SPARE_MAX: usize = 32;

impl Spare {
    /// `exchange`, in the room of another where there is some.
    #[inline]
    pub fn place(&mut self, exchange: Exchange) -> Box<Exchange> {
        match self.0.pop() {
            Some(mut spare) => {
                *spare = exchange;
                spare
            }
            None => Box::new(exchange),
        }
    }

    /// This one is over. What it holds beside itself is given back: connections with a request
    /// under way are to take little.
    #[inline]
    pub fn keep(&mut self, mut exchange: Box<Exchange>) {
        if self.0.len() < SPARE_MAX {
            exchange.chains = Vec::new();
            self.0.push(exchange);
        }
    }
}
