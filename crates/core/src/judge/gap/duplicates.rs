//! Duplicate ACKs (RFC 5681 §2) and SACKs for the data in flight.

use crate::model::Sighting;

/// Duplicate ACKs and SACKs, as known to the sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct DuplicateAcks {
    /// The first one since SND.UNA last moved.
    pub first: Option<Sighting>,
    /// The last one since then.
    pub last: Option<Sighting>,
    /// Number of those in effect since SND.UNA last moved.
    pub count: u32,
    /// Time at which the last one took effect, ns; 0 if none ever did.
    pub effect_ns: u64,
}

impl DuplicateAcks {
    /// No duplicate ACK.
    pub const NONE: Self = Self { first: None, last: None, count: 0, effect_ns: 0 };

    /// Adds a duplicate ACK that was `seen` at the vantage and took effect at `effect_ns`.
    pub fn note(&mut self, seen: Sighting, effect_ns: u64) {
        self.count += 1;
        self.effect_ns = effect_ns;
        self.first.get_or_insert(seen);
        self.last = Some(seen);
    }

    /// Restarts the count after SND.UNA moved, by an ACK that reports `count` losses beyond it.
    pub fn restart(&mut self, count: u32) {
        (self.first, self.last, self.count) = (None, None, count);
    }

    /// Returns the first that can report the loss of what passed at `sent_ns`, of those known, or of any
    /// data if that is unknown: its receiver, a round trip of `rtt_receiver_ns` away, can have sent it after
    /// data behind that.
    pub fn report_of(&self, sent_ns: Option<u64>, rtt_receiver_ns: u64) -> Option<Sighting> {
        let due_ns = sent_ns.map_or(0, |ns| ns.saturating_add(rtt_receiver_ns));
        [self.first, self.last].into_iter().flatten().find(|it| it.time_ns >= due_ns)
    }

    /// Returns whether a duplicate ACK took effect after `start_ns`.
    pub fn any_since(&self, start_ns: u64) -> bool {
        self.effect_ns > start_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_duplicate_is_kept_until_the_data_is_acknowledged() {
        let seen = |time_ns| Sighting { time_ns, ..Sighting::default() };
        let mut duplicates = DuplicateAcks::NONE;
        duplicates.note(seen(10), 12);
        duplicates.note(seen(20), 22);
        assert_eq!((duplicates.first, duplicates.count), (Some(seen(10)), 2));
        assert!(duplicates.any_since(21) && !duplicates.any_since(22));
        duplicates.restart(1);
        assert_eq!((duplicates.first, duplicates.count, duplicates.effect_ns), (None, 1, 22));
    }
}
