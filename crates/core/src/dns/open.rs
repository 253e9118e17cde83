//! The look-ups in progress of all clients, found by client and name in a few steps.

use super::grouping::Open;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::net::Ipv4Addr;

/// Address of a client, IPv4-mapped for IPv4.
type Client = [u8; 16];

/// Greatest number of look-ups of loopback addresses that are compared with one query.
const LOOPBACK_COMPARED_MAX: usize = 32;

/// Look-ups in progress. Those of one client are numbered in the order in which they began.
#[derive(Clone, Default)]
pub(super) struct OpenLookups {
    all: BTreeMap<(Client, u64), Box<Open>>,
    /// By the first label of the name, which all names of a look-up share.
    by_label: BTreeSet<(u64, Client, u64)>,
    /// Look-ups after which their client has begun no other.
    unfollowed: BTreeSet<(Client, u64)>,
    /// Number of look-ups of each client.
    counts: HashMap<Client, usize>,
    begun: u64,
}

/// Returns a hash of the first label of `name`.
fn label(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.split('.').next().unwrap_or_default().as_bytes());
    hasher.finish()
}

impl OpenLookups {
    /// Number of look-ups of all clients.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Number of look-ups of `client`.
    pub fn count(&self, client: Client) -> usize {
        self.counts.get(&client).copied().unwrap_or(0)
    }

    /// Returns all look-ups.
    pub fn iter(&self) -> impl Iterator<Item = &Open> {
        self.all.values().map(|open| &**open)
    }

    /// Returns the look-ups of `client`, in the order in which they began.
    pub fn of(&mut self, client: Client) -> impl DoubleEndedIterator<Item = &mut Open> {
        self.all.range_mut((client, 0)..=(client, u64::MAX)).map(|(_, open)| &mut **open)
    }

    /// Returns the numbers of the look-ups of `client`.
    pub fn numbers(&self, client: Client) -> impl DoubleEndedIterator<Item = u64> {
        self.all.range((client, 0)..=(client, u64::MAX)).map(|((_, number), _)| *number)
    }

    /// Returns the look-ups of `client` whose name may be continued by `name`, with their numbers,
    /// in the order in which they began.
    pub fn named(
        &self,
        client: Client,
        name: &str,
    ) -> impl DoubleEndedIterator<Item = (u64, &Open)> {
        let label = label(name);
        let numbers = self.by_label.range((label, client, 0)..=(label, client, u64::MAX));
        numbers
            .filter_map(move |&(_, _, number)| Some((number, &**self.all.get(&(client, number))?)))
    }

    /// Returns look-ups of loopback addresses whose name may be continued by `name`, with their
    /// client.
    pub fn at_loopback(&self, name: &str) -> impl Iterator<Item = (Client, &Open)> {
        let label = label(name);
        let mapped = |address: [u8; 4]| Ipv4Addr::from(address).to_ipv6_mapped().octets();
        let (low, high) = (mapped([127, 0, 0, 0]), mapped([127, 255, 255, 255]));
        let v6 = std::net::Ipv6Addr::LOCALHOST.octets();
        let range = |from, to| self.by_label.range((label, from, 0)..=(label, to, u64::MAX));
        let all = range(low, high).chain(range(v6, v6)).take(LOOPBACK_COMPARED_MAX);
        all.filter_map(|&(_, client, number)| Some((client, &**self.all.get(&(client, number))?)))
    }

    /// Returns a look-up of `client`.
    pub fn get(&self, client: Client, number: u64) -> Option<&Open> {
        self.all.get(&(client, number)).map(|open| &**open)
    }

    /// Returns a look-up of `client`, to be changed.
    pub fn get_mut(&mut self, client: Client, number: u64) -> Option<&mut Open> {
        self.all.get_mut(&(client, number)).map(|open| &mut **open)
    }

    /// Adds a look-up of `client`, which begins it at `start_ns`.
    pub fn begin(&mut self, client: Client, open: Open, start_ns: u64) {
        self.begun += 1;
        let before: Vec<_> =
            self.unfollowed.range((client, 0)..=(client, u64::MAX)).copied().collect();
        for place in before {
            self.unfollowed.remove(&place);
            if let Some(open) = self.all.get_mut(&place) {
                open.next_lookup_ns.get_or_insert(start_ns);
            }
        }
        let place = (client, self.begun);
        self.by_label.insert((label(open.name()), client, self.begun));
        self.unfollowed.insert(place);
        *self.counts.entry(client).or_default() += 1;
        self.all.insert(place, Box::new(open));
    }

    /// Adds the queries of the look-up `later` of `client` to its look-up `first`.
    pub fn join(&mut self, client: Client, first: u64, later: u64) {
        let Some(later) = self.remove(client, later) else { return };
        let Some(open) = self.all.get_mut(&(client, first)) else { return };
        open.absorb(later);
        if open.next_lookup_ns.is_none() {
            self.unfollowed.insert((client, first));
        }
    }

    /// Removes and returns a look-up of `client`.
    pub fn remove(&mut self, client: Client, number: u64) -> Option<Open> {
        let open = self.all.remove(&(client, number))?;
        self.by_label.remove(&(label(open.name()), client, number));
        self.unfollowed.remove(&(client, number));
        if let Some(count) = self.counts.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&client);
            }
        }
        Some(*open)
    }

    /// Removes and returns the look-ups for which `is_over` is true, those of one client together.
    pub fn extract(&mut self, is_over: impl Fn(&Open) -> bool) -> Vec<Open> {
        let over = self.all.iter().filter(|(_, open)| is_over(open));
        let over: Vec<_> = over.map(|(place, _)| *place).collect();
        over.into_iter().filter_map(|(client, number)| self.remove(client, number)).collect()
    }

    /// Removes the look-ups of `client` for which `stays` returns `false`.
    pub fn retain(&mut self, client: Client, mut stays: impl FnMut(&mut Open) -> bool) {
        let all = self.all.range_mut((client, 0)..=(client, u64::MAX));
        let left = all.filter_map(|((_, number), open)| (!stays(open)).then_some(*number));
        for number in left.collect::<Vec<_>>() {
            self.remove(client, number);
        }
    }
}
