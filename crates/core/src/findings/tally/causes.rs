//! Sums of the causes, by key and by server.

use crate::findings::tally::culprits::{CauseTally, Key};
use crate::wire::Endpoint;
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use std::collections::BTreeSet;

/// Cost of each cause at each culprit. A capture may have as many servers as packets, so the
/// entries of one server have to be found without a search among the others.
#[derive(Clone, Default, serde::Deserialize, serde::Serialize)]
pub struct Causes {
    all: HashMap<Key, Box<CauseTally>>,
    keys: BTreeSet<Key>,
}

impl Causes {
    /// Returns the sums of `key`, which are empty if it is new.
    pub fn at(&mut self, key: &Key) -> &mut CauseTally {
        match self.all.entry_ref(key) {
            EntryRef::Occupied(known) => known.into_mut(),
            EntryRef::Vacant(room) => {
                self.keys.insert(key.clone());
                room.insert(Box::default())
            }
        }
    }

    /// Returns the sums of `key`, if there are any.
    pub fn get(&self, key: &Key) -> Option<&CauseTally> {
        self.all.get(key).map(|cause| &**cause)
    }

    /// Returns the sums of `key` for changes, if there are any.
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut CauseTally> {
        self.all.get_mut(key).map(|cause| &mut **cause)
    }

    /// Removes and returns the sums of `key`.
    pub fn remove(&mut self, key: &Key) -> Option<CauseTally> {
        self.keys.remove(key);
        self.all.remove(key).map(|cause| *cause)
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns all keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    /// Returns all keys with their sums, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &CauseTally)> {
        self.keys.iter().filter_map(|key| Some((key, self.get(key)?)))
    }

    /// Returns the causes in exchanges with `server`.
    pub fn of(&self, server: Endpoint) -> impl Iterator<Item = (&Key, &CauseTally)> {
        let keys = self.keys.range(Key::lowest(server)..).take_while(move |it| it.server == server);
        keys.filter_map(|key| Some((key, self.get(key)?)))
    }

    /// Removes and returns the causes for which `are` is true.
    pub fn take_all(&mut self, are: impl Fn(&Key, &CauseTally) -> bool) -> Self {
        let all: HashMap<_, _> = self.all.extract_if(|key, cause| are(key, cause)).collect();
        let keys = all.keys().cloned().collect();
        self.keys.retain(|key| !all.contains_key(key));
        Self { all, keys }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        for (key, theirs) in other.all {
            self.at(&key).merge(&theirs);
        }
    }
}
