//! Which segment of their connections the losses of a client hit: a link or a queue drops any, a filter that
//! reads what passes may drop always the same.

use crate::tcp::Connection;
use crate::wire::Side;
use std::collections::BTreeMap;

/// Number of clients whose losses are counted by segment: those with the lowest addresses, so that the result
/// does not depend on the order in which they are added.
pub const CLIENTS_BY_SEGMENT_MAX: usize = 64;

/// Name of the number of exchanges with a loss on connections whose client lost its second segment.
pub const LOST_SECOND: &str = "lost_second";

/// The losses of one client.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct Losses {
    /// Number of connections on which it sent a second segment with data.
    pub all: u64,
    /// Number of these on which that was lost.
    pub lost: u64,
    /// Start of the first and of the last of these, ns.
    pub span_ns: (u64, u64),
    /// Number of connections on which something else was lost.
    pub others_lost: u64,
}

impl Default for Losses {
    fn default() -> Self {
        Self { all: 0, lost: 0, span_ns: (u64::MAX, 0), others_lost: 0 }
    }
}

/// The losses of each client.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Messages(BTreeMap<[u8; 16], Losses>);

/// Returns whether the client of a connection that was captured from its SYN on lost its second segment with
/// data. A full segment may be lost because it is long (RFC 4821 §3).
pub fn has_lost_second(connection: &Connection) -> bool {
    let counts = &connection.senders[Side::Client].history().counts;
    counts.lost_second && counts.reported_spurious() == 0 && connection.setup.syns > 0
}

impl Messages {
    /// Counts the losses of a connection that is over.
    pub(super) fn connection(&mut self, connection: &Connection) {
        let half = &connection.senders[Side::Client];
        let Some(syn) = connection.setup.frames().syn else { return };
        let has_second = half.sizes.first() > 0 && half.volume.unique_bytes > half.sizes.first();
        let has_lost = has_lost_second(connection);
        let repeats = |side: Side| connection.senders[side].history().counts.rexmt_data_packets;
        let has_lost_other = connection.setup.syns > 1 || repeats(Side::Client) > 0;
        if !has_second && !has_lost_other {
            return;
        }
        let of_client = self.0.entry(connection.client().address).or_default();
        of_client.all += u64::from(has_second);
        if has_lost {
            of_client.lost += 1;
            let (first_ns, last_ns) = of_client.span_ns;
            of_client.span_ns = (syn.time_ns.min(first_ns), syn.time_ns.max(last_ns));
        } else {
            of_client.others_lost += u64::from(has_lost_other);
        }
        self.bound();
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        for (client, theirs) in &other.0 {
            let mine = self.0.entry(*client).or_default();
            mine.all += theirs.all;
            mine.lost += theirs.lost;
            mine.others_lost += theirs.others_lost;
            let [one, other] = [mine.span_ns, theirs.span_ns];
            mine.span_ns = (one.0.min(other.0), one.1.max(other.1));
        }
        self.bound();
    }

    fn bound(&mut self) {
        while self.0.len() > CLIENTS_BY_SEGMENT_MAX {
            self.0.pop_last();
        }
    }

    /// Returns the losses of each client.
    pub fn iter(&self) -> impl Iterator<Item = ([u8; 16], &Losses)> {
        self.0.iter().map(|(client, losses)| (*client, losses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_are_bounded_in_any_order() {
        let of = |client: u8| {
            let losses = Losses { all: 1, lost: 1, span_ns: (7, 7), others_lost: 0 };
            Messages([([client; 16], losses)].into_iter().collect())
        };
        let (mut up, mut down) = (Messages::default(), Messages::default());
        (0..=200).for_each(|client| up.merge(&of(client)));
        (0..=200).rev().for_each(|client| down.merge(&of(client)));
        let clients = |all: &Messages| all.iter().map(|(client, _)| client[0]).collect::<Vec<_>>();
        assert_eq!(clients(&up).len(), CLIENTS_BY_SEGMENT_MAX);
        assert_eq!(clients(&up), clients(&down));
    }
}
