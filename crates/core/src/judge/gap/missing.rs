//! Packets that never passed the vantage.

/// Packets of a sender that did not pass the vantage, according to its IP identification counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissingPackets {
    /// Number of missing packets.
    pub count: u32,
    /// Identification of the first missing packet.
    pub from: u16,
}

impl MissingPackets {
    /// Returns whether any packet is missing.
    pub fn any(&self) -> bool {
        self.count > 0
    }

    /// Adds `count` packets, which are missing just before the packet with identification `before`.
    pub fn add(&mut self, count: u16, before: u16) {
        if self.count == 0 {
            self.from = before.wrapping_sub(count);
        }
        self.count += u32::from(count);
    }

    /// Returns whether identification `number` belongs to a missing packet.
    pub fn include(&self, number: u16) -> bool {
        u32::from(number.wrapping_sub(self.from)) < self.count
    }

    /// Removes a packet that came late from the missing ones. Returns whether it was one of them.
    pub fn arrived(&mut self, number: u16) -> bool {
        let included = self.include(number);
        self.count -= u32::from(included);
        included
    }

    /// Returns the same packets without `count` of them.
    pub fn less(self, count: u32) -> Self {
        Self { count: self.count.saturating_sub(count), ..self }
    }

    /// Number of the missing packets that are retransmissions which were lost as well, up to 16: a
    /// flight has at most `flight_packets`.
    pub fn lost_again(&self, flight_packets: u64) -> u64 {
        u64::from(self.count).saturating_sub(flight_packets).min(16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_missing_packets_wrap() {
        let mut missing = MissingPackets::default();
        missing.add(3, 1);
        assert_eq!(missing, MissingPackets { count: 3, from: 0xfffe });
        assert!([0xfffe, 0xffff, 0].into_iter().all(|number| missing.include(number)));
        assert!(!missing.include(1) && !missing.include(0xfffd));
    }

    #[test]
    fn a_packet_that_comes_late_is_missing_no_more() {
        let mut missing = MissingPackets { count: 1, from: 7 };
        assert!(!missing.arrived(8) && missing.any());
        assert!(missing.arrived(7) && !missing.any());
    }

    #[test]
    fn more_packets_than_a_flight_are_retransmissions_that_were_lost() {
        let lost_again = |count| MissingPackets { count, from: 0 }.lost_again(10);
        assert_eq!([3, 10, 12, 1_000].map(lost_again), [0, 0, 2, 16]);
    }
}
