//! TLS handshakes with an endpoint (RFC 8446 §2).

use crate::model::{Histogram, Owner};
use crate::tcp::{Connection, Exchange};
use crate::wire::Side;

/// Sums of TLS handshakes with an endpoint.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Handshakes {
    /// Number of exchanges that included the handshake of a new session.
    pub full: u64,
    /// Number of exchanges that included the handshake of a resumed session.
    pub resumed: u64,
    /// Number of exchanges that included the handshake of a new session in a version before TLS 1.3. A
    /// resumed session takes one round trip in each version (RFC 5246 §7.3, RFC 8446 §2.2).
    pub older: u64,
    /// Number of handshakes whose client closed the connection without a request.
    pub unused: u64,
    /// Times from the first ClientHello to the second of those in which the server asked for a second one.
    pub again: Histogram,
    /// Time that each handshake took.
    pub times: Histogram,
    /// Greatest certificate flight, bytes.
    pub certificate_max_bytes: u32,
}

impl Handshakes {
    pub(super) fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        if let Some(handshake) = exchange.handshake {
            let is_left = || connection.cold.ending().fin_ns[Side::Client].is_some();
            let has_data = exchange.request_seen || exchange.response_seen;
            self.unused += u64::from(!has_data && is_left());
            let time_ns = exchange.ledger.of(Owner::Tls);
            self.add(handshake.resumed, time_ns, handshake.certificate_bytes);
            self.older += u64::from(!handshake.is_tls13 && !handshake.resumed);
            if handshake.again_ns > 0 {
                self.again.record(handshake.again_ns);
            }
        }
    }

    fn add(&mut self, is_resumed: bool, time_ns: u64, certificate_bytes: u32) {
        self.full += u64::from(!is_resumed);
        self.resumed += u64::from(is_resumed);
        self.times.record(time_ns);
        self.certificate_max_bytes = self.certificate_max_bytes.max(certificate_bytes);
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        self.full += other.full;
        self.resumed += other.resumed;
        self.older += other.older;
        self.unused += other.unused;
        self.times.merge(&other.times);
        self.again.merge(&other.again);
        self.certificate_max_bytes = self.certificate_max_bytes.max(other.certificate_max_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_certificate_of_all_shards_is_kept() {
        let [mut one, mut other] = [Handshakes::default(), Handshakes::default()];
        one.add(false, 5, 3000);
        other.add(true, 1, 0);
        one.merge(&other);
        assert_eq!((one.full, one.resumed, one.certificate_max_bytes), (1, 1, 3000));
        assert_eq!(one.times.count(), 2);
    }
}
