//! Round trips during a gap.

/// Round trips of the connection during a gap.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrips {
    /// Minimum round trip between vantage and sender, ns.
    pub sender_ns: u64,
    /// `sender_ns` is only an upper bound: it may include pauses of the sender.
    pub is_bound: bool,
    /// If the other side answers: round trip of request and response between vantage and sender, as
    /// far as it lies in the gap, ns. 0 if only an upper bound is known.
    pub known_ns: u64,
    /// Minimum round trip between client and server, ns.
    pub base_ns: u64,
    /// Time by which the handshake's round trip between vantage and sender was longer than the minimum,
    /// ns; 0 if it is unknown.
    pub varies_ns: u64,
    /// The sender's packets have passed no router, as their TTL shows, and those of its peer have: the
    /// path lies behind the vantage.
    pub is_direct: bool,
}

impl RoundTrips {
    /// Minimum round trip between vantage and receiver, ns.
    pub fn receiver_ns(&self) -> u64 {
        self.base_ns.saturating_sub(self.sender_ns)
    }

    /// Returns whether the round trip to the sender may really be a pause of the sender of about
    /// `len_ns`: it is only an upper bound, and explains more than half of that time.
    pub fn may_include_pause(&self, len_ns: u64) -> bool {
        self.is_bound && 2 * self.sender_ns > len_ns
    }

    /// Returns whether the arrival of an ACK at the sender is known, because a round trip to the
    /// sender is.
    pub fn is_known(&self) -> bool {
        !self.is_bound || self.sender_ns > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn an_upper_bound_may_be_a_pause_and_a_sample_may_not() {
        let bound = RoundTrips { sender_ns: 30 * MS, is_bound: true, ..RoundTrips::default() };
        assert!(bound.may_include_pause(40 * MS) && !bound.may_include_pause(60 * MS));
        let sample = RoundTrips { is_bound: false, ..bound };
        assert!(!sample.may_include_pause(40 * MS));
    }

    #[test]
    fn without_any_sample_the_arrival_of_acks_is_unknown() {
        let none = RoundTrips { is_bound: true, ..RoundTrips::default() };
        assert!(!none.is_known());
        assert!(RoundTrips::default().is_known(), "the vantage is at the sender");
    }

    #[test]
    fn the_leg_of_the_receiver_is_the_rest_of_the_path() {
        let both = RoundTrips { sender_ns: 5 * MS, base_ns: 20 * MS, ..RoundTrips::default() };
        assert_eq!(both.receiver_ns(), 15 * MS);
    }
}
