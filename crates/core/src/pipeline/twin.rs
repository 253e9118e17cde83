//! What a shard has more where the input was captured at two places: a second tracker, and the
//! pairs of what both saw.

use super::batch::Event;
use super::{Batch, Shard};
use crate::capture::{Block, CaptureSet, FrameId, Site};
use crate::cause::Tally;
use crate::join::{Accounts, Pairs, Place};
use crate::tcp::{Connection, Exchange, Sink, Tracker};
use std::sync::Arc;

/// Where the captures of an input were taken.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    /// By input; empty where all were taken at one place.
    sites: Arc<[Site]>,
    /// When the captures of each place begin, ns.
    pub(super) began_ns: [u64; 2],
}

impl Sites {
    /// Those of `capture`.
    pub fn of(capture: &CaptureSet) -> Self {
        let are_two = capture.inputs().iter().any(|input| input.site.is_second);
        let sites = capture.inputs().iter().filter(|_| are_two).map(|input| input.site);
        Self { sites: sites.collect(), began_ns: capture.began_ns() }
    }

    /// Whether there are two places.
    pub fn are_two(&self) -> bool {
        !self.sites.is_empty()
    }

    /// Where a frame was captured.
    pub fn place(&self, frame: FrameId) -> Place {
        let site = self.sites.get(usize::from(frame.file()));
        usize::from(site.is_some_and(|site| site.is_second))
    }

    /// By how much the clock of the second place was set back to tell times, ns.
    pub fn ahead_ns(&self) -> i64 {
        self.sites.iter().find(|site| site.is_second).map_or(0, |site| site.ahead_ns)
    }
}

/// The second place of a shard.
pub(super) struct Twin {
    sites: Sites,
    /// Connections as the second place sees them.
    pub tracker: Tracker,
    /// Connections that both saw, as each sees them.
    pub accounts: Accounts,
    pub pairs: Pairs,
}

impl Twin {
    pub fn new(sites: Sites) -> Self {
        let pairs = Pairs::new(sites.began_ns);
        Self { sites, tracker: Tracker::default(), accounts: Accounts::default(), pairs }
    }
}

impl Shard {
    /// Takes segments of both places.
    pub(super) fn take_both(&mut self, index: usize, batch: &Batch, block: &Block) {
        let Some(twin) = &mut self.twin else { return };
        for event in batch.events(index) {
            let frame = match event {
                Event::Segment(segment) => segment.frame,
                Event::Error(error) => error.frame,
                // Places are told apart by addresses: what has others is of another place.
                Event::Copy(..) => continue,
            };
            let place = twin.sites.place(frame);
            let (accounts, pairs) = (&mut twin.accounts, &mut twin.pairs);
            let mut route = Route { place, accounts, alone: &mut self.tally, pairs };
            let tracker = if place == 0 { &mut self.tracker } else { &mut twin.tracker };
            match event {
                Event::Segment(segment) => {
                    tracker.segment(segment, batch.payload(segment, block), &mut route);
                    twin.pairs.see(place, segment);
                }
                Event::Error(error) => tracker.icmp_error(error, &mut route),
                Event::Copy(..) => {}
            }
        }
    }

    /// The capture is over.
    pub(super) fn finish(&mut self) {
        let Some(twin) = &mut self.twin else { return self.tracker.finish(&mut self.tally) };
        for (place, tracker) in [&mut self.tracker, &mut twin.tracker].into_iter().enumerate() {
            let (accounts, pairs) = (&mut twin.accounts, &mut twin.pairs);
            let mut route = Route { place, accounts, alone: &mut self.tally, pairs };
            tracker.finish(&mut route);
        }
    }
}

/// What both places saw is told by each; the rest by whichever saw it.
struct Route<'a> {
    place: Place,
    accounts: &'a mut Accounts,
    alone: &'a mut Tally,
    pairs: &'a mut Pairs,
}

impl Route<'_> {
    fn tally(&mut self, connection: &Connection) -> &mut Tally {
        match self.pairs.is_shared(&connection.key) {
            true => self.accounts.of(&connection.key, self.place),
            false => self.alone,
        }
    }
}

impl Sink for Route<'_> {
    fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        self.tally(connection).exchange(connection, exchange);
    }

    fn connection(&mut self, connection: &Connection) {
        self.tally(connection).connection(connection);
        if self.pairs.end(self.place, &connection.key) {
            self.accounts.settle(&connection.key);
        }
    }

    fn untold(&mut self, connection: &Connection) {
        self.pairs.end(self.place, &connection.key);
    }
}
