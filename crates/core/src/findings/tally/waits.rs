//! Exchanges with a server that waited for more than the path, which show whether one server waits
//! for another.

use crate::app::Label;
use crate::findings::tally::First;
use crate::findings::thresholds::COST_MIN_NS;
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::model::{Cause, Owner, Vantage};
use crate::tcp::{Chain, Connection, Exchange, Path, Series, SimpleExchange};
use crate::wire::{Endpoint, Side};

/// Number of waits kept per server. These are the earliest.
const WAITS_MAX: usize = 64;

/// Number of series kept per server. These are the earliest.
const SERIES_MAX: usize = 24;

/// An exchange that waited for its server, with the times at which it passed the vantage.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
pub struct Wait {
    /// Start of the exchange, or of its connection, ns.
    pub began_ns: u64,
    /// Time at which the request passed, ns.
    pub asked_ns: u64,
    /// Time at which the response began to pass, ns.
    pub answered_ns: u64,
    /// Time at which the exchange ended, ns.
    pub ended_ns: u64,
    /// Time between its start and its end in which a request was in progress, ns.
    pub busy_ns: u64,
    /// Number of exchanges, one after the other.
    pub count: u32,
    /// The client's address.
    pub client: [u8; 16],
    /// Digest of the kind of request; of a series or a look-up 0.
    pub kind: u64,
    /// The client's port; 0 if unknown.
    pub client_port: u16,
    /// Most of the server's time lies within the response.
    pub streams: bool,
    /// The capture is known to be at the server.
    pub at_server: bool,
    /// The capture is known to be at the client.
    pub at_client: bool,
}

impl Wait {
    /// Creates a wait of one exchange: its start, request, answer and end, ns.
    fn new(client: Endpoint, path: &Path, times: [u64; 4]) -> Self {
        let [began_ns, asked_ns, answered_ns, ended_ns] = times;
        Self {
            began_ns,
            asked_ns,
            answered_ns,
            ended_ns,
            busy_ns: ended_ns.saturating_sub(began_ns),
            count: 1,
            client: client.address,
            kind: 0,
            client_port: client.port,
            streams: false,
            at_server: matches!(path.vantage(), Vantage::Server | Vantage::Local),
            at_client: is_at_client(path),
        }
    }

    /// Returns the time until which the server worked: until its answer, or until the end of that, ns.
    pub fn worked_until_ns(&self) -> u64 {
        if self.streams { self.ended_ns.max(self.answered_ns) } else { self.answered_ns }
    }

    /// Returns the time from the request until then, ns.
    pub fn owed_ns(&self) -> u64 {
        self.worked_until_ns().saturating_sub(self.asked_ns)
    }

    /// Creates the wait of a client for the answer to a look-up, ns.
    pub fn of_lookup(client: [u8; 16], began_ns: u64, ended_ns: u64) -> Self {
        Self {
            began_ns,
            asked_ns: began_ns,
            answered_ns: ended_ns,
            ended_ns,
            busy_ns: ended_ns.saturating_sub(began_ns),
            count: 1,
            client,
            kind: 0,
            client_port: 0,
            streams: false,
            at_server: false,
            at_client: false,
        }
    }
}

/// Waits of exchanges with one server, in the order in which they began.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Waits {
    /// Exchanges that took long.
    single: Vec<Wait>,
    /// Exchanges that took long together. Each of them was short. Streams of events, too: nobody waits for
    /// their end but a host that gathers them.
    series: Vec<Wait>,
}

impl Waits {
    /// Returns all exchanges that are kept.
    pub fn all(&self) -> &[Wait] {
        &self.single
    }

    /// Returns the series of short exchanges and the streams of events that are kept.
    pub fn series(&self) -> &[Wait] {
        &self.series
    }

    /// Returns whether there may have been more exchanges than are kept.
    pub fn is_full(&self) -> bool {
        self.single.len() >= WAITS_MAX
    }

    /// Returns the time until which all exchanges and series that began are kept, ns.
    pub fn known_until_ns(&self) -> u64 {
        let last_ns = |waits: &[Wait], room: usize| {
            let last = waits.last().filter(|_| waits.len() >= room);
            last.map_or(u64::MAX, |last| last.began_ns)
        };
        last_ns(&self.single, WAITS_MAX).min(last_ns(&self.series, SERIES_MAX))
    }

    /// Records `exchange`, if it waited for its server.
    #[inline]
    pub fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        let Exchange { start_ns, answered_ns, end_ns, ref first, .. } = *exchange;
        if answered_ns > 0 {
            // A handshake came before the time in which the server worked.
            let thinks = |chain: &&Chain| chain.cause == Cause::ServerThink;
            let works =
                exchange.chains.iter().find(thinks).filter(|_| exchange.handshake.is_some());
            let asked_ns = works.map_or(first.time_ns, |chain| chain.gap.start_ns.min(answered_ns));
            let waited_ns = answered_ns.saturating_sub(asked_ns);
            let streams = exchange.ledger.of(Owner::Server) / 2 > waited_ns;
            // A connection that was opened in advance is not yet a request.
            let is_in_advance = exchange.rested_ns > HOST_DELAY_MAX_NS;
            let start_ns = if is_in_advance { first.time_ns } else { start_ns };
            let times = [start_ns, asked_ns, answered_ns, end_ns];
            self.add(times, connection, (&exchange.kind, streams));
        }
    }

    /// Adds an exchange in which only the server took time.
    #[inline]
    pub fn simple_exchange(&mut self, connection: &Connection, plain: &SimpleExchange<'_>) {
        let (asked_ns, answered_ns) = (plain.asked.0, plain.answered.0);
        let times = [asked_ns, asked_ns, answered_ns, answered_ns];
        self.add(times, connection, (plain.kind, false));
    }

    #[inline]
    fn add(&mut self, times: [u64; 4], connection: &Connection, of: (&Label, bool)) {
        let [began_ns, asked_ns, _, ended_ns] = times;
        if ended_ns.saturating_sub(began_ns) < COST_MIN_NS || !self.wants(began_ns) {
            return;
        }
        // Most exchanges do not wait for their server, however far it is. A host that asks others
        // waits for the way too.
        let path = &connection.path;
        let works = ended_ns.saturating_sub(asked_ns) >= COST_MIN_NS + path.rtt_ns(Side::Server);
        if works || is_at_client(path) {
            self.keep(connection, times, of);
        }
    }

    /// Adds exchanges that followed each other, of which each may have been short.
    pub fn add_series(&mut self, connection: &Connection, series: &Series) {
        let Series { count, busy_ns, began_ns, ended_ns } = *series;
        // Exchanges that took long are kept one by one.
        if busy_ns / u64::from(count.max(1)) < COST_MIN_NS {
            let times = [began_ns, began_ns, ended_ns, ended_ns];
            let wait = Wait::new(connection.client(), &connection.path, times);
            insert(&mut self.series, Wait { busy_ns, count, ..wait }, SERIES_MAX);
        }
    }

    /// Adds the stream of events with which `connection` ends, if there is one.
    pub fn add_stream(&mut self, connection: &Connection) {
        let Some((asked_ns, ended_ns)) = connection.view().stream_of_events_ns() else { return };
        if ended_ns >= asked_ns + COST_MIN_NS {
            let times = [asked_ns, asked_ns, ended_ns, ended_ns];
            let wait = Wait::new(connection.client(), &connection.path, times);
            insert(&mut self.series, Wait { streams: true, ..wait }, SERIES_MAX);
        }
    }

    fn wants(&self, began_ns: u64) -> bool {
        !self.is_full() || self.single.last().is_some_and(|last| began_ns <= last.began_ns)
    }

    #[cold]
    #[inline(never)]
    fn keep(&mut self, connection: &Connection, times: [u64; 4], (kind, streams): (&Label, bool)) {
        let wait = Wait::new(connection.client(), &connection.path, times);
        self.insert(Wait { kind: kind.digest(), streams, ..wait });
    }

    /// Lets the wait of `first` begin at `from_ns`: its client had to look up a name, or to try
    /// another address, before it.
    pub fn begin_earlier(&mut self, first: &First, from_ns: u64) {
        let is_of = |it: &&mut Wait| {
            (it.client, it.answered_ns) == (first.client, first.answered_ns)
                && first.start_ns <= it.asked_ns
        };
        if let Some(wait) = self.single.iter_mut().find(is_of) {
            wait.busy_ns += wait.began_ns.saturating_sub(from_ns);
            wait.began_ns = wait.began_ns.min(from_ns);
            self.single.sort_unstable();
        } else if first.answered_ns > 0 && self.wants(from_ns) {
            self.insert(Wait {
                began_ns: from_ns,
                asked_ns: first.start_ns,
                answered_ns: first.answered_ns,
                ended_ns: first.end_ns(),
                busy_ns: first.end_ns().saturating_sub(from_ns),
                count: 1,
                client: first.client,
                kind: first.kind,
                client_port: 0,
                streams: false,
                at_server: matches!(first.vantage, Vantage::Server | Vantage::Local),
                at_client: first.was_seen_at_client(),
            });
        }
    }

    /// Records `wait`, if it is one of the earliest.
    pub fn insert(&mut self, wait: Wait) {
        insert(&mut self.single, wait, WAITS_MAX);
    }

    /// Adds all waits of `other`.
    pub fn merge(&mut self, other: &Self) {
        let lists = [(&mut self.single, &other.single), (&mut self.series, &other.series)];
        for ((mine, theirs), room) in lists.into_iter().zip([WAITS_MAX, SERIES_MAX]) {
            mine.extend_from_slice(theirs);
            mine.sort_unstable();
            mine.truncate(room);
        }
    }
}

/// Inserts `wait` into a sorted list, if it is one of the earliest `room`.
fn insert(waits: &mut Vec<Wait>, wait: Wait, room: usize) {
    let place = waits.partition_point(|other| *other <= wait);
    if place < room {
        waits.insert(place, wait);
        waits.truncate(room);
    }
}

/// Returns whether the capture is known to be at the client.
fn is_at_client(path: &Path) -> bool {
    matches!(path.vantage(), Vantage::Client | Vantage::Local)
}
