//! Bounds for the sums of many servers, causes and kinds of requests, which would otherwise grow
//! with every server, client and path. The least important entries are joined with similar ones.

use crate::findings::tally::{ENDPOINTS_MAX, FIRSTS_MAX, Key, Tally};
use crate::findings::{left_waiting, unheard};
use crate::wire::Endpoint;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Numbers of entries that are kept apart.
#[derive(Clone, Copy)]
struct Room {
    servers: usize,
    /// Causes, by server and culprit.
    causes: usize,
    /// Kinds of requests of all servers together.
    kinds: usize,
}

/// Of a shard.
const SHARD: Room = Room { servers: ENDPOINTS_MAX, causes: 192, kinds: 768 };

/// Of an interval of a watch, of which there are many.
const INTERVAL: Room = Room { servers: 144, causes: 112, kinds: 448 };

/// Of an endless diagnosis before its window.
const HISTORY: Room = Room { servers: 1 << 10, causes: 1 << 10, kinds: 1 << 12 };

/// Number of culprits of one cause at one server that are kept apart if there are too many causes.
const CULPRITS_MAX: usize = 8;

/// Returns whether `count` exceeds `limit` by so much that entries have to be joined, so that this
/// is rarely done.
pub(super) fn are_too_many(count: usize, limit: usize) -> bool {
    count >= limit + limit / 4
}

impl Tally {
    /// Keeps room for later results of a shard.
    #[inline]
    pub(super) fn bound_shard(&mut self) {
        if are_too_many(self.causes.len(), SHARD.causes) || are_too_many(self.kinds, SHARD.kinds) {
            self.bound(SHARD);
        }
    }

    /// Keeps an interval of a watch small.
    pub(crate) fn bound_interval(&mut self) {
        self.settle();
        left_waiting::bound(&mut self.left_waiting, left_waiting::SHARD_KEPT_MAX);
        unheard::bound(&mut self.unheard, unheard::SHARD_KEPT_MAX);
        self.bound(INTERVAL);
    }

    /// Keeps room for later results in the history of an endless diagnosis. Known first exchanges
    /// are dropped once half of their room is taken.
    pub(crate) fn bound_history(&mut self) {
        if self.firsts.len() > FIRSTS_MAX / 2 {
            (self.firsts, self.last_first) = (Vec::new(), None);
        }
        self.bound(HISTORY);
        self.legs.bound();
    }

    fn bound(&mut self, room: Room) {
        if are_too_many(self.causes.len(), room.causes) {
            self.join_culprits();
        }
        let servers = are_too_many(self.endpoints.len(), room.servers + room.servers / 4);
        if servers || are_too_many(self.causes.len(), room.causes) {
            self.join_small_servers(room);
        }
        self.join_kinds(room.kinds);
    }

    /// Joins the kinds of requests that took the least time.
    fn join_kinds(&mut self, room: usize) {
        for kept in [256, 64, 16, 4, 1] {
            self.kinds = self.endpoints.values().map(|endpoint| endpoint.kinds.len()).sum();
            if !are_too_many(self.kinds, room) {
                return;
            }
            self.endpoints.values_mut().for_each(|endpoint| endpoint.bound_kinds(kept));
        }
    }

    /// Joins the culprits of one cause at one server that cost least.
    fn join_culprits(&mut self) {
        let mut alike: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (key, cause) in self.causes.iter() {
            let of = (key.server, key.cause, key.sender, key.culprit.role);
            alike.entry(of).or_default().push((Reverse((cause.lost_ns, cause.count)), key.clone()));
        }
        for mut keys in alike.into_values().filter(|keys| keys.len() > 2 * CULPRITS_MAX) {
            keys.sort_unstable();
            for (_, key) in keys.into_iter().skip(CULPRITS_MAX) {
                self.join_cause(&key, key.server);
            }
        }
    }

    /// Moves a cause to `server`, where hosts that are not kept apart are its culprit.
    fn join_cause(&mut self, key: &Key, server: Endpoint) {
        let mut joined = key.clone();
        (joined.server, joined.culprit.endpoint) = (server, Endpoint::default());
        if joined == *key {
            return;
        }
        let Some(cause) = self.causes.remove(key) else { return };
        self.notes.joined_causes += cause.exchanges;
        self.causes.at(&joined).merge(&cause);
    }

    /// Joins the servers that lost least time, as those for which a shard has no room are joined, and
    /// the causes of servers that were joined before: a connection may count one afterwards.
    fn join_small_servers(&mut self, room: Room) {
        let weight = |server: &Endpoint, connections| {
            let lost_ns = self.causes.of(*server).map(|(_, cause)| cause.lost_ns).sum::<u64>();
            Reverse((lost_ns, connections))
        };
        let mut ranked: Vec<_> = self
            .endpoints
            .iter()
            .filter(|(server, _)| **server != Endpoint::default())
            .map(|(server, tally)| (weight(server, tally.connections), *server))
            .collect();
        ranked.sort_unstable();
        let (mut servers, mut causes) = (0, 0);
        for (_, server) in ranked {
            let keys: Vec<_> = self.causes.of(server).map(|(key, _)| key.clone()).collect();
            if servers < room.servers && causes + keys.len() <= room.causes {
                (servers, causes) = (servers + 1, causes + keys.len());
                continue;
            }
            let Some(small) = self.endpoints.remove(&server) else { continue };
            self.notes.crowded += small.connections;
            self.endpoints.entry(Endpoint::default()).or_default().merge(*small);
            keys.iter().for_each(|key| self.join_cause(key, Endpoint::default()));
        }
        let is_left = |key: &&Key| !self.endpoints.contains_key(&key.server);
        let left: Vec<_> = self.causes.keys().filter(is_left).cloned().collect();
        left.iter().for_each(|key| self.join_cause(key, Endpoint::default()));
        self.endpoints.shrink_to_fit();
    }
}
