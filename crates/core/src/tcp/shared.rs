//! What the connections of one shard have in common, so that none has to make or keep it alone.

use crate::app::{KnownHeaders, Side};
use crate::filter::Window;
use crate::tcp::connection::SpareRares;
use crate::tcp::early::EarlyBytes;
use crate::tcp::exchange::{Chain, Exchange};
use crate::tcp::gap::Gap;
use std::sync::Arc;

/// What connections that are followed together share.
#[derive(Clone, Default)]
pub struct Shared {
    /// Headers that came before.
    pub known: KnownHeaders,
    /// The time told of: what lies outside is followed, and not counted.
    pub window: Window,
    /// Everything goes the long way, which the short one has to agree with.
    pub disable_fast_path: bool,
    /// Exchanges that connections keep until their path is known.
    pub(super) kept: usize,
    /// Room of exchanges that are over.
    pub(super) spare: Spare,
    /// Room for what few open connections have, of connections that are over.
    pub(super) rares: SpareRares,
    /// What the sides of connections say they are.
    pub(super) names: Names,
    /// Payload that waits for its turn.
    pub early: EarlyBytes,
    /// The silence that a departure just ended.
    pub(super) silence: Gap,
    /// The same of an answer that was expected.
    pub(super) answered: Gap,
}

impl Shared {
    /// For connections of which only what happens in `window` is told.
    pub fn telling_of(window: Window) -> Self {
        Self { window, ..Self::default() }
    }
}

/// By side of a connection: what it says it is.
pub type Software = [Option<Box<str>>; 2];

/// Most connections are between the same few programs.
#[derive(Clone, Default)]
pub struct Names {
    known: Vec<Arc<Software>>,
    /// Which of them gives way to the next, once there are [`NAMES_MAX`].
    oldest: usize,
}

/// Pairs of names kept for others. A connection whose pair is not among them has its own.
const NAMES_MAX: usize = 32;

impl Names {
    /// On a connection with `software`, `side` says it is `name`; what it says first counts.
    pub fn add(&mut self, software: &mut Option<Arc<Software>>, side: Side, name: &str) {
        let [own, other] = [side, side.peer()].map(|side| side as usize);
        let now = software.as_deref();
        if now.is_some_and(|now| now[own].is_some()) {
            return;
        }
        let peer = now.and_then(|now| now[other].as_deref());
        let same = |pair: &&Arc<Software>| {
            pair[own].as_deref() == Some(name) && pair[other].as_deref() == peer
        };
        if let Some(pair) = self.known.iter().find(same) {
            *software = Some(Arc::clone(pair));
            return;
        }
        let mut pair = Software::default();
        (pair[own], pair[other]) = (Some(name.into()), peer.map(Box::from));
        let pair = Arc::new(pair);
        *software = Some(Arc::clone(&pair));
        if self.known.len() < NAMES_MAX {
            self.known.push(pair);
        } else if let Some(place) = self.known.get_mut(self.oldest) {
            *place = pair;
            self.oldest = (self.oldest + 1) % NAMES_MAX;
        }
    }
}

/// The memory of exchanges that are over: there is one for every few segments.
#[derive(Default)]
pub struct Spare {
    #[expect(clippy::vec_box, reason = "it is the boxes that are to be kept")]
    exchanges: Vec<Box<Exchange>>,
    /// Apart, because exchanges need none before there is a silence in them.
    chains: Vec<Vec<Chain>>,
}

impl Clone for Spare {
    /// Room is no content: a copy begins without any.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Exchanges kept, and as many rooms for chains; and what one of these holds at most.
const SPARE_MAX: usize = 32;
const CHAINS_MAX: usize = 4;

impl Spare {
    /// Room for an exchange, perhaps that of another, which has to [`begin`](Exchange::begin).
    #[inline]
    pub fn room(&mut self) -> Box<Exchange> {
        self.exchanges.pop().unwrap_or_default()
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
