//! Additional state of a shard if the input was captured at two places: a second tracker, and pairs
//! of the packets that both saw.

use super::batch::Event;
use super::{Batch, Shard};
use crate::capture::Block;
use crate::findings::Tally;
use crate::join::{Accounts, Pairs, Sites};
use crate::model::Place;
use crate::tcp::{Connection, Exchange, Series, Sink, Tracker};

/// The second place of a shard.
pub(crate) struct Twin {
    sites: Sites,
    /// Tracker of the connections that the second place saw.
    pub tracker: Tracker,
    /// Accounts of both places of the connections that both saw.
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
    /// Processes the segments of both places.
    pub(super) fn take_both(&mut self, index: usize, batch: &Batch, block: &Block) {
        let Some(twin) = &mut self.twin else { return };
        for event in batch.events(index) {
            let frame = match event {
                Event::Segment(segment) => segment.frame,
                Event::Error(error) => error.frame,
                // Places are distinguished by addresses: packets with other addresses are from
                // another place.
                Event::Copy(..) => continue,
            };
            let place = twin.sites.place(frame);
            let (accounts, pairs) = (&mut twin.accounts, &mut twin.pairs);
            let mut route = Route { place, accounts, alone: &mut self.tally, pairs };
            let tracker = if place == 0 { &mut self.tracker } else { &mut twin.tracker };
            match event {
                Event::Segment(segment) => {
                    tracker.segment(segment, batch.payload(segment, block), &mut route);
                    twin.pairs.sighting(place, segment);
                }
                Event::Error(error) => tracker.icmp_error(error),
                Event::Copy(..) => {}
            }
        }
    }

    /// Ends all connections at the end of the capture.
    pub(super) fn finish(&mut self) {
        let Some(twin) = &mut self.twin else { return self.tracker.finish(&mut self.tally) };
        for (place, tracker) in [&mut self.tracker, &mut twin.tracker].into_iter().enumerate() {
            let (accounts, pairs) = (&mut twin.accounts, &mut twin.pairs);
            let mut route = Route { place, accounts, alone: &mut self.tally, pairs };
            tracker.finish(&mut route);
        }
    }
}

/// Sends each connection to the right tally: those that both places saw to the account of each
/// place, the others to the common tally.
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

    fn series(&mut self, connection: &Connection, series: &Series) {
        self.tally(connection).series(connection, series);
    }

    fn unanswered(&mut self, connection: &Connection, exchange: &Exchange) {
        self.tally(connection).unanswered(connection, exchange);
    }

    fn unseen(&mut self, connection: &Connection, exchange: &Exchange) {
        self.tally(connection).unseen(connection, exchange);
    }

    fn unclear(&mut self, connection: &Connection, exchange: &Exchange) {
        self.tally(connection).unclear(connection, exchange);
    }

    fn connection(&mut self, connection: &Connection) {
        self.tally(connection).connection(connection);
        if self.pairs.end(self.place, &connection.key) {
            self.accounts.settle(&connection.key);
        }
    }

    fn uncounted(&mut self, connection: &Connection) {
        self.pairs.end(self.place, &connection.key);
    }
}
