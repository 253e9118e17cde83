//! Reassembles packets from fragments, within limits of number, bytes and age.

mod partial;

use super::DecodeError;
use super::fragment::{Fragment, FragmentKey, Reassembled};
use super::walk::Origin;
use partial::Partial;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Number of completed packets whose fragments are recognised when they are captured a second time.
/// A copy follows its original immediately, so few packets come between.
const COMPLETED_MAX: usize = 64;

/// Limits of unfinished reassemblies.
#[derive(Clone, Copy, Debug)]
pub struct ReassemblyLimits {
    /// Number of incomplete packets.
    pub packets: usize,
    /// Captured bytes of all of them.
    pub bytes: usize,
    /// Age of the oldest fragment in capture time, ns.
    pub age_ns: u64,
}

impl Default for ReassemblyLimits {
    /// Returns 1,024 packets, 4 MiB and 30 s (`ipfrag_time` of Linux).
    fn default() -> Self {
        Self { packets: 1024, bytes: 4 << 20, age_ns: 30_000_000_000 }
    }
}

/// The result of adding a fragment.
#[derive(Clone, Debug)]
pub enum Reassembly {
    /// Other fragments are missing.
    Pending,
    /// The packet is complete.
    Complete(Reassembled),
    /// The fragment contradicts the others; the packet is dropped.
    Refused(DecodeError),
}

/// Reassembles packets from their fragments, within limits; the oldest are dropped first.
#[derive(Clone, Default)]
pub struct Reassembler {
    limits: ReassemblyLimits,
    /// Serial numbers of the incomplete packets.
    index: HashMap<FragmentKey, u64>,
    /// Incomplete packets by serial number, which is the order in which they began.
    partials: BTreeMap<u64, Partial>,
    next_serial: u64,
    /// Bytes held, with overhead.
    bytes: usize,
    /// The packets completed last, the latest at the end.
    completed: VecDeque<Completed>,
    packet_count: u64,
    incomplete_count: u64,
}

/// A packet whose fragments have all arrived.
#[derive(Clone)]
struct Completed {
    key: FragmentKey,
    /// Fingerprints of its fragments.
    fingerprints: Vec<u64>,
}

impl Reassembler {
    /// Creates a reassembler with these limits.
    pub fn new(limits: ReassemblyLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes a fragment, in capture order.
    pub fn insert(&mut self, fragment: &Fragment<'_>) -> Reassembly {
        self.give_up_old(fragment.origin.time_ns);
        if self.is_copy(fragment) {
            return Reassembly::Pending;
        }
        let next_serial = self.next_serial;
        let serial = *self.index.entry(fragment.key).or_insert(next_serial);
        self.next_serial += u64::from(serial == next_serial);
        self.packet_count += u64::from(serial == next_serial);
        let partial = self.partials.entry(serial).or_insert_with(|| Partial::new(fragment));
        if partial.refused {
            return Reassembly::Pending;
        }
        let held_before = partial.held();
        let outcome = partial.add(fragment);
        let held = partial.held();
        self.bytes = self.bytes + held - held_before;
        match outcome {
            Err(error) => Reassembly::Refused(error),
            Ok(false) => {
                self.give_up_excess();
                Reassembly::Pending
            }
            Ok(true) => self.complete(serial, fragment.origin),
        }
    }

    /// Returns whether the packet of `fragment` is incomplete and lacks its first fragment.
    pub fn lacks_beginning(&self, fragment: &Fragment<'_>) -> bool {
        let serial = self.index.get(&fragment.key);
        let partial = serial.and_then(|serial| self.partials.get(serial));
        partial.is_some_and(|partial| !partial.refused && !partial.has_beginning())
    }

    /// Drops all incomplete packets at the end of the capture.
    pub fn finish(&mut self) {
        while self.give_up_oldest() {}
    }

    /// Returns the number of packets of which there were fragments.
    pub fn packet_count(&self) -> u64 {
        self.packet_count
    }

    /// Returns the number of packets that were dropped ([`DecodeError::FragmentIncomplete`]).
    pub fn incomplete_count(&self) -> u64 {
        self.incomplete_count
    }

    fn complete(&mut self, serial: u64, origin: Origin) -> Reassembly {
        let Some(partial) = self.remove(serial) else { return Reassembly::Pending };
        if self.completed.len() == COMPLETED_MAX {
            self.completed.pop_front();
        }
        let fingerprints = partial.fingerprints().collect();
        self.completed.push_back(Completed { key: partial.key, fingerprints });
        partial.into_reassembled(origin).map_or(Reassembly::Pending, Reassembly::Complete)
    }

    /// Returns whether this fragment of a completed packet was captured twice. Identifications are
    /// reused (RFC 6864 §4), so the bytes have to be identical, too.
    fn is_copy(&self, fragment: &Fragment<'_>) -> bool {
        let latest = self.completed.iter().rev().find(|whole| whole.key == fragment.key);
        latest.is_some_and(|whole| whole.fingerprints.contains(&fragment.fingerprint()))
    }

    fn remove(&mut self, serial: u64) -> Option<Partial> {
        let partial = self.partials.remove(&serial)?;
        self.index.remove(&partial.key);
        self.bytes -= partial.held();
        Some(partial)
    }

    fn give_up_old(&mut self, now_ns: u64) {
        while let Some((_, oldest)) = self.partials.first_key_value() {
            if now_ns.saturating_sub(oldest.origin.time_ns) <= self.limits.age_ns {
                return;
            }
            self.give_up_oldest();
        }
    }

    fn give_up_excess(&mut self) {
        while self.partials.len() > self.limits.packets || self.bytes > self.limits.bytes {
            if !self.give_up_oldest() {
                return;
            }
        }
    }

    fn give_up_oldest(&mut self) -> bool {
        let Some((&serial, _)) = self.partials.first_key_value() else { return false };
        let Some(partial) = self.remove(serial) else { return false };
        if !partial.refused {
            self.incomplete_count += 1;
        }
        true
    }
}
