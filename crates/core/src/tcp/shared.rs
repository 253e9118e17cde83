//! What the connections of one shard have in common, so that none has to make or keep it alone.

use crate::app::KnownHeaders;
use crate::tcp::exchange::{Chain, Exchange};

/// What connections that are followed together share.
#[derive(Default)]
pub struct Shared {
    /// Headers that came before.
    pub known: KnownHeaders,
    /// Room of exchanges that are over.
    pub(super) spare: Spare,
}

/// The memory of exchanges that are over: there is one for every few segments.
#[derive(Default)]
pub struct Spare {
    #[expect(clippy::vec_box, reason = "it is the boxes that are to be kept")]
    exchanges: Vec<Box<Exchange>>,
    /// Apart, because exchanges need none before there is a silence in them.
    chains: Vec<Vec<Chain>>,
}

/// Exchanges kept, and as many rooms for chains; and what one of these holds at most.
const SPARE_MAX: usize = 32;
const CHAINS_MAX: usize = 4;

impl Spare {
    /// `exchange`, in the room of another where there is some.
    #[inline]
    pub fn place(&mut self, exchange: Exchange) -> Box<Exchange> {
        match self.exchanges.pop() {
            Some(mut spare) => {
                *spare = exchange;
                spare
            }
            None => Box::new(exchange),
        }
    }

    /// Room for the chains of an exchange that has none.
    #[inline]
    pub fn lend(&mut self, exchange: &mut Exchange) {
        if exchange.chains.capacity() == 0
            && let Some(chains) = self.chains.pop()
        {
            exchange.chains = chains;
        }
    }

    /// This one is over.
    #[inline]
    pub fn keep(&mut self, mut exchange: Box<Exchange>) {
        let mut chains = std::mem::take(&mut exchange.chains);
        if self.exchanges.len() < SPARE_MAX {
            self.exchanges.push(exchange);
        }
        if (1..=CHAINS_MAX).contains(&chains.capacity()) && self.chains.len() < SPARE_MAX {
            chains.clear();
            self.chains.push(chains);
        }
    }
}
