//! Which message of their connections the losses of a client hit: a link or a queue drops any, a filter that
//! reads what passes may drop always the same.

use crate::model::Cause;
use crate::tcp::{Connection, Exchange};
use crate::wire::Side;
use std::collections::BTreeMap;

/// Number of clients whose losses are counted by message: those with the lowest addresses, so that the result
/// does not depend on the order in which they are added.
pub const CLIENTS_BY_MESSAGE_MAX: usize = 64;

/// The messages that are told apart: the second exchange of a connection up to this one. Before the first
/// there is only the handshake.
pub const NTH_MAX: usize = 4;
const NTH_MIN: u64 = 2;

/// Names of the numbers of exchanges of each of these in which a loss hit the only segment of a message.
pub const LOST_IN_NTH: [&str; NTH_MAX - 1] = ["lost_in_2", "lost_in_3", "lost_in_4"];

/// Losses in one of these exchanges.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct Nth {
    /// Number of connections that had it.
    pub all: u64,
    /// Number of these on which the only segment of its request or response was lost.
    pub lost: u64,
    /// Start of the first and of the last with such a loss, ns.
    pub span_ns: (u64, u64),
}

impl Default for Nth {
    fn default() -> Self {
        Self { all: 0, lost: 0, span_ns: (u64::MAX, 0) }
    }
}

/// The losses of one client.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct OfClient {
    /// By exchange, from the second on.
    pub nth: [Nth; NTH_MAX - 1],
    /// Number of exchanges with a loss, any of them.
    pub lost: u64,
}

/// The losses of each client.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Messages(BTreeMap<[u8; 16], OfClient>);

/// Returns the place in [`LOST_IN_NTH`] of an exchange in which the message of `sender` that a loss hit had one
/// segment, which was not of the greatest length: those are lost by their length (RFC 4821 §3).
pub fn nth(connection: &Connection, exchange: &Exchange, sender: Side) -> Option<usize> {
    let half = &connection.senders[sender];
    let place = connection.totals.exchanges.checked_sub(NTH_MIN)? as usize;
    let is_short = exchange.sent_bytes(sender, half.space.nxt) < half.sizes.smss();
    (is_short && place < LOST_IN_NTH.len()).then_some(place)
}

impl Messages {
    /// Counts the losses of an exchange.
    pub(super) fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        let is_loss = |cause: Cause| {
            use Cause::{FastRecovery, RetransmissionTimeout, SynRetransmit};
            matches!(cause, RetransmissionTimeout | FastRecovery | SynRetransmit)
        };
        let mut losses = exchange.chains.iter().filter(|it| is_loss(it.cause)).peekable();
        if losses.peek().is_none() {
            return;
        }
        let timeouts = losses.filter(|it| it.cause == Cause::RetransmissionTimeout);
        let place = timeouts.filter_map(|it| nth(connection, exchange, it.sender)).next();
        let of_client = self.0.entry(connection.client().address).or_default();
        of_client.lost += 1;
        if let Some(nth) = place.map(|place| &mut of_client.nth[place]) {
            nth.lost += 1;
            let (first_ns, last_ns) = nth.span_ns;
            nth.span_ns = (exchange.start_ns.min(first_ns), exchange.start_ns.max(last_ns));
        }
        self.bound();
    }

    /// Counts the exchanges of a connection that is over.
    pub(super) fn connection(&mut self, connection: &Connection) {
        let exchanges = connection.totals.exchanges;
        if exchanges < NTH_MIN {
            return;
        }
        let of_client = self.0.entry(connection.client().address).or_default();
        for (number, nth) in (NTH_MIN..=exchanges).zip(&mut of_client.nth) {
            nth.all += u64::from(number <= exchanges);
        }
        self.bound();
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        for (client, theirs) in &other.0 {
            let mine = self.0.entry(*client).or_default();
            mine.lost += theirs.lost;
            for (mine, theirs) in mine.nth.iter_mut().zip(&theirs.nth) {
                mine.all += theirs.all;
                mine.lost += theirs.lost;
                let [one, other] = [mine.span_ns, theirs.span_ns];
                mine.span_ns = (one.0.min(other.0), one.1.max(other.1));
            }
        }
        self.bound();
    }

    fn bound(&mut self) {
        while self.0.len() > CLIENTS_BY_MESSAGE_MAX {
            self.0.pop_last();
        }
    }

    /// Returns the losses of each client.
    pub fn iter(&self) -> impl Iterator<Item = ([u8; 16], &OfClient)> {
        self.0.iter().map(|(client, losses)| (*client, losses))
    }

    #[cfg(test)]
    pub fn of(client: [u8; 16], losses: OfClient) -> Self {
        Self([(client, losses)].into_iter().collect())
    }
}
