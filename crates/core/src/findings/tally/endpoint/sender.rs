//! Events at the senders of one side of an endpoint's connections, in groups by mechanism.

use super::ceilings::Ceilings;
use super::continuations::Continuations;
use super::nagle::NagleSums;
use super::retransmissions::Retransmissions;
use super::window_limits::WindowLimits;
use crate::findings::notes::Noticed;
use crate::model::Histogram;
use crate::tcp::Connection;
use crate::wire::Side;

/// Sums of the events at the senders of one side of an endpoint's connections.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct SenderTally {
    /// Payload that the connections carried, each byte once.
    pub bytes: u64,
    /// Bottleneck rates of the connections, bytes per second.
    pub rates: Histogram,
    /// Bytes of the transfers with such a rate.
    pub rated_bytes: u64,
    /// Evidence against Nagle's algorithm.
    pub nagle: NagleSums,
    /// Number of connections on which waits for late ACKs turned out to be chance.
    pub late_acks_refuted: u64,
    /// Flights of constant height.
    pub ceilings: Ceilings,
    /// Sizes of the offered window that limited the senders.
    pub window: WindowLimits,
    /// Counts of retransmissions.
    pub retransmissions: Retransmissions,
    /// Counts of the events with which senders continued.
    pub continuations: Continuations,
    /// Events that a finding may report.
    pub noticed: Noticed,
}

impl SenderTally {
    /// Counts the events at the sender of `side`.
    pub(super) fn connection(&mut self, connection: &Connection, side: Side) {
        let sender = &connection.senders[side];
        self.bytes = self.bytes.saturating_add(sender.volume.unique_bytes);
        if !sender.is_troubled() && sender.bulk.is_none() {
            // No such event occurred.
            return;
        }
        let (bulk, history) = (sender.bulk.as_ref(), sender.history());
        if let Some(rate) = bulk.and_then(|bulk| bulk.pipe.last_rate()) {
            self.rates.record(rate);
            self.rated_bytes = self.rated_bytes.saturating_add(sender.counts().actual_data_bytes);
        }
        self.nagle.add(&connection.view().nagle(side), history.nagle.held.nagle_ns());
        self.late_acks_refuted += u64::from(history.nagle.waits.are_chance());
        if let Some(bulk) = bulk.filter(|bulk| bulk.stood_at_ceiling(&sender.volume)) {
            self.ceilings.add(bulk.has_own_clock(), history.nagle.own_pauses);
        }
        let end = sender.space.window().unwrap_or(0);
        self.window.add(history.window.limits(
            end,
            sender.volume.flight_max.into(),
            sender.sizes.smss(),
        ));
        self.retransmissions.add(history.retransmissions());
        self.continuations.add(bulk.map_or([0; 2], |bulk| bulk.continuations));
        self.noticed.merge(&Noticed::of(connection, side));
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.rates.merge(&other.rates);
        self.rated_bytes = self.rated_bytes.saturating_add(other.rated_bytes);
        self.nagle.merge(&other.nagle);
        self.late_acks_refuted += other.late_acks_refuted;
        self.ceilings.merge(&other.ceilings);
        self.window.merge(&other.window);
        self.retransmissions.merge(&other.retransmissions);
        self.continuations.merge(&other.continuations);
        self.noticed.merge(&other.noticed);
    }
}
