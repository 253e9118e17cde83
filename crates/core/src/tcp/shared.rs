//! State that the connections of one shard share: caches, reusable memory and settings.

use crate::app::{KnownHeaders, Side};
use crate::judge::Gap;
use crate::model::Window;
use crate::tcp::connection::SpareRares;
use crate::tcp::early::EarlyBytes;
use crate::tcp::exchange::{Chain, Exchange};
use std::sync::Arc;

/// State shared by the connections of one shard.
#[derive(Clone, Default)]
pub struct Shared {
    /// Header blocks that were parsed before.
    pub known: KnownHeaders,
    /// Time window of the report. What happens outside it is followed, but not counted.
    pub window: Window,
    /// Disables the fast paths; the results must be the same.
    pub disable_fast_path: bool,
    /// Number of exchanges that connections hold back until their path is known.
    pub(super) kept: usize,
    /// Memory of finished exchanges, for reuse.
    pub(super) spare: Spare,
    /// Memory of rarely needed state from closed connections, for reuse.
    pub(super) rares: SpareRares,
    /// Names that endpoints state for their software.
    pub(super) names: Names,
    /// Out-of-order payload.
    pub early: EarlyBytes,
    /// The gap that the current departure ended.
    pub(super) silence: Gap,
}

impl Shared {
    /// Creates the state for connections of which only what happens in `window` is reported.
    pub fn limited_to(window: Window) -> Self {
        Self { window, ..Self::default() }
    }

    /// Makes each exchange log the changes of its ledger.
    pub fn logging_revisions(mut self) -> Self {
        self.spare.logs_revisions = true;
        self
    }
}

/// Software that each side of a connection states.
pub type Software = [Option<Box<str>>; 2];

/// Pairs of software names, shared because most connections are between the same few programs.
#[derive(Clone, Default)]
pub struct Names {
    known: Vec<Arc<Software>>,
    /// Index of the pair that is replaced next, once there are [`NAMES_MAX`] pairs.
    oldest: usize,
}

/// Greatest number of pairs kept for reuse. A connection whose pair is not among them has its own
/// copy.
const NAMES_MAX: usize = 32;

impl Names {
    /// Records that `side` states `name` on a connection with `software`. A later statement of the
    /// same side is ignored.
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

/// Memory of finished exchanges, for reuse: there is an exchange for every few segments.
#[derive(Default)]
pub struct Spare {
    /// Exchanges keep a log of what changes their ledgers later.
    pub logs_revisions: bool,
    #[expect(clippy::vec_box, reason = "it is the boxes that are to be kept")]
    exchanges: Vec<Box<Exchange>>,
    /// Kept separately: an exchange needs chains only once there is a gap in it.
    chains: Vec<Vec<Chain>>,
}

impl Clone for Spare {
    /// A copy begins without spare memory.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Most exchanges, and most chain vectors, kept; and the most chains that a kept vector may have
/// room for.
const SPARE_MAX: usize = 32;
const CHAINS_MAX: usize = 4;

impl Spare {
    /// Returns memory for an exchange, possibly with old content: [`begin`](Exchange::begin) must
    /// be called.
    #[inline]
    pub fn room(&mut self) -> Box<Exchange> {
        self.exchanges.pop().unwrap_or_default()
    }

    /// Gives `exchange` memory for its chains, if it has none.
    #[inline]
    pub fn lend(&mut self, exchange: &mut Exchange) {
        if exchange.chains.capacity() == 0
            && let Some(chains) = self.chains.pop()
        {
            exchange.chains = chains;
        }
    }

    /// Takes back the memory of a finished exchange.
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
