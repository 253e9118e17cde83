//! Whether clients of an endpoint have exchanges under way on several connections at a time.

use crate::tcp::{Connection, Exchange, SimpleExchange};

/// Number of exchanges kept per endpoint. These are the earliest.
const SPANS_MAX: usize = 16;

/// The time of one exchange.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
struct Span {
    began_ns: u64,
    ended_ns: u64,
    client: [u8; 16],
    port: u16,
}

/// The earliest of the exchanges with an endpoint that are counted here, in the order in which they began.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct UnderWay(Vec<Span>);

impl UnderWay {
    /// Counts `exchange`.
    pub fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        self.add((exchange.first.time_ns, exchange.end_ns), connection);
    }

    /// Counts an exchange in which only the path and the server took time.
    pub fn simple_exchange(&mut self, connection: &Connection, plain: &SimpleExchange<'_>) {
        self.add((plain.asked.0, plain.answered.0), connection);
    }

    fn add(&mut self, (began_ns, ended_ns): (u64, u64), connection: &Connection) {
        let client = connection.client();
        self.keep(Span { began_ns, ended_ns, client: client.address, port: client.port });
    }

    fn keep(&mut self, span: Span) {
        if self.0.len() >= SPANS_MAX && self.0.last().is_some_and(|last| *last <= span) {
            return;
        }
        let place = self.0.partition_point(|it| *it <= span);
        self.0.insert(place, span);
        self.0.truncate(SPANS_MAX);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|span| self.keep(*span));
    }

    /// Returns on how many connections one client had an exchange under way at a time, at most, if most
    /// exchanges met one on another connection.
    pub fn at_once(&self) -> Option<u64> {
        let meets = |a: &Span, b: &Span| {
            a.client == b.client && a.began_ns < b.ended_ns && b.began_ns < a.ended_ns
        };
        let apart = |a: &Span| self.0.iter().any(|b| a.port != b.port && meets(a, b));
        let met = self.0.iter().filter(|span| apart(span)).count();
        let at_start = |a: &Span| {
            let is_open = |b: &&Span| meets(a, b) && b.began_ns <= a.began_ns;
            let mut ports: Vec<_> = self.0.iter().filter(is_open).map(|b| b.port).collect();
            ports.sort_unstable();
            ports.dedup();
            ports.len() as u64
        };
        let most = self.0.iter().map(at_start).max()?;
        (most > 1 && 2 * met > self.0.len()).then_some(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns on how many connections exchanges overlap, which have these ports and begin and end then.
    fn at_once(spans: &[(u16, u64, u64)]) -> Option<u64> {
        let mut all = UnderWay::default();
        for &(port, began_ns, ended_ns) in spans {
            all.keep(Span { began_ns, ended_ns, client: [1; 16], port });
        }
        all.at_once()
    }

    #[test]
    fn exchanges_on_several_connections_at_a_time_are_counted_and_turns_are_not() {
        assert_eq!(
            at_once(&[(1, 0, 10), (2, 1, 11), (3, 2, 12), (1, 20, 30), (2, 21, 31)]),
            Some(3)
        );
        assert_eq!(at_once(&[(1, 0, 10), (2, 10, 20), (3, 20, 30)]), None);
        assert_eq!(at_once(&[(1, 0, 10), (1, 2, 12)]), None, "a pipeline");
        let once = [(1, 0, 10), (2, 5, 15), (1, 20, 30), (1, 30, 40), (1, 40, 50)];
        assert_eq!(at_once(&once), None, "most wait alone");
    }

    #[test]
    fn the_earliest_exchanges_are_kept_in_any_order() {
        let spans: Vec<_> = (0..40).map(|at| (at as u16, 10 * at, 10 * at + 15)).collect();
        let mut reverse = spans.clone();
        reverse.reverse();
        assert_eq!(at_once(&spans), at_once(&reverse));
    }
}
