//! The exchanges of an endpoint in which its costs mattered most, as their evidence.

use crate::findings::causes::COSTS;
use crate::model::{Cause, Sighting};
use crate::tcp::{Connection, Exchange};
use crate::wire::Endpoint;
use std::cmp::Reverse;

/// An exchange as evidence of a cost.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct Sample {
    /// Time that the cost owns in the exchange, ns.
    ns: u64,
    /// The connection's client.
    pub client: Endpoint,
    /// The connection's server.
    pub server: Endpoint,
    /// Number of the exchange on its connection, from 1.
    pub exchange: u64,
    /// The SYN, if the exchange waited for the set-up.
    pub syn: Option<Sighting>,
    /// The SYN-ACK, if the exchange waited for the set-up.
    pub syn_ack: Option<Sighting>,
    /// The client's ACK of the SYN-ACK, if the exchange waited for the set-up.
    pub ack: Option<Sighting>,
    /// First frame of the exchange with data.
    pub first: Sighting,
    /// The frame that ended the TLS handshake of the exchange.
    pub handshake_end: Option<Sighting>,
    /// Last frame of the exchange.
    pub last: Sighting,
}

impl Sample {
    fn of(connection: &Connection, exchange: &Exchange, ns: u64) -> Self {
        let frames = connection.setup.frames();
        let set_up = |frame: Option<Sighting>| frame.filter(|_| exchange.connects);
        Self {
            ns,
            client: connection.client(),
            server: connection.server(),
            exchange: connection.totals.exchanges,
            syn: set_up(frames.syn),
            syn_ack: set_up(frames.syn_ack),
            ack: set_up(frames.ack),
            first: exchange.first,
            handshake_end: exchange.handshake.map(|it| it.end),
            last: exchange.last,
        }
    }

    /// Rank of a sample: the one with more time of the cost is kept, and the first of equals.
    fn rank(&self) -> impl Ord + use<> {
        (self.ns, Reverse((self.first.time_ns, self.first.frame)))
    }
}

/// A sample for each of [`COSTS`].
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Samples([Option<Box<Sample>>; COSTS.len()]);

impl Samples {
    /// Returns the exchange in which `cause` mattered most.
    pub(super) fn of(&self, cause: Cause) -> Option<&Sample> {
        let place = COSTS.iter().position(|cost| cost.cause == cause)?;
        self.0[place].as_deref()
    }

    /// Keeps the exchange as the sample of the costs that mattered more in it than in others.
    pub(super) fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        for (place, cost) in COSTS.iter().enumerate().filter(|(_, cost)| cost.is_sampled) {
            let ns = cost.owners.iter().map(|&owner| exchange.ledger.of(owner)).sum();
            if ns > 0 && self.0[place].as_ref().is_none_or(|sample| ns >= sample.ns) {
                self.keep_of(place, connection, exchange, ns);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_of(&mut self, place: usize, connection: &Connection, exchange: &Exchange, ns: u64) {
        self.keep(place, Sample::of(connection, exchange, ns));
    }

    fn keep(&mut self, place: usize, theirs: Sample) {
        match &mut self.0[place] {
            Some(mine) if theirs.rank() > mine.rank() => **mine = theirs,
            Some(_) => {}
            none => *none = Some(Box::new(theirs)),
        }
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: Self) {
        for (place, theirs) in other.0.into_iter().enumerate() {
            if let Some(theirs) = theirs {
                self.keep(place, *theirs);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exchange_to_which_a_cost_mattered_most_is_kept_and_of_equals_the_first() {
        let sample = |ns, time_ns| Sample {
            ns,
            client: Endpoint::default(),
            server: Endpoint::default(),
            exchange: 1,
            syn: None,
            syn_ack: None,
            ack: None,
            first: Sighting { time_ns, ..Sighting::default() },
            handshake_end: None,
            last: Sighting::default(),
        };
        let mut samples = Samples::default();
        for (ns, time_ns) in [(5, 3), (5, 2), (4, 1)] {
            let mut other = Samples::default();
            other.keep(0, sample(ns, time_ns));
            samples.merge(other);
        }
        let kept = samples.of(COSTS[0].cause).expect("a sample");
        assert_eq!((kept.ns, kept.first.time_ns), (5, 2));
    }
}
