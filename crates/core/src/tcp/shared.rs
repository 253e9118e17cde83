//! State that the connections of one shard share: caches and settings.

use crate::app::KnownHeaders;
use crate::judge::Gap;
use crate::keys::Keyring;
use crate::model::Window;
use crate::tcp::early::EarlyBytes;
use crate::tcp::timeline::Marks;
use crate::wire::Side;
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
    /// Names that endpoints state for their software.
    pub(super) names: Names,
    /// Out-of-order payload.
    pub early: EarlyBytes,
    /// The gap that the current departure ended.
    pub(super) silence: Gap,
    /// The marks of the bytes that were read last.
    pub(super) marks: Marks,
}

impl Shared {
    /// Creates the state for connections of which only what happens in `window` is reported, and whose
    /// TLS `keys` open.
    pub fn limited_to(window: Window, keys: Option<Keyring>) -> Self {
        let mut shared = Self { window, ..Self::default() };
        shared.open_tls_with(keys);
        shared
    }

    /// Opens TLS connections with `keys`, if there are any.
    pub fn open_tls_with(&mut self, keys: Option<Keyring>) {
        self.known.keys = keys.filter(|keys| !keys.is_empty());
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
