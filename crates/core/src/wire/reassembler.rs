//! Whole packets from fragments, within bounds of number, bytes and age.

mod partial;

use super::DecodeError;
use super::fragment::{Fragment, FragmentKey, Reassembled};
use super::walk::Origin;
use partial::Partial;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Completed packets whose fragments are known again when they are captured a second time. A copy
/// follows its original within moments, so that few packets lie between.
const COMPLETED_MAX: usize = 64;

/// How much an unfinished reassembly may hold.
#[derive(Clone, Copy, Debug)]
pub struct ReassemblyLimits {
    /// Packets in the making.
    pub packets: usize,
    /// Captured bytes of all of them.
    pub bytes: usize,
    /// Age of the oldest fragment in capture time, nanoseconds.
    pub age_ns: u64,
}

impl Default for ReassemblyLimits {
    /// 1,024 packets, 4 MiB and 30 s (Linux's `ipfrag_time`).
    fn default() -> Self {
        Self { packets: 1024, bytes: 4 << 20, age_ns: 30_000_000_000 }
    }
}

/// What became of a fragment.
#[derive(Clone, Debug)]
pub enum Reassembly {
    /// Others are missing.
    Pending,
    /// It was the last that was missing.
    Complete(Reassembled),
    /// It contradicts the others; the packet is given up.
    Refused(DecodeError),
}

/// Puts packets together from their fragments, within limits; the oldest is given up first.
#[derive(Clone, Default)]
pub struct Reassembler {
    limits: ReassemblyLimits,
    /// Serial numbers of the packets in the making.
    index: HashMap<FragmentKey, u64>,
    /// By serial number, which is the order in which they began.
    partials: BTreeMap<u64, Partial>,
    next_serial: u64,
    /// Bytes held, with overhead.
    bytes: usize,
    /// Packets completed last, latest at the end.
    completed: VecDeque<Completed>,
    packet_count: u64,
    incomplete_count: u64,
}

/// A packet whose fragments were all there.
#[derive(Clone)]
struct Completed {
    key: FragmentKey,
    /// Of each of its fragments.
    fingerprints: Vec<u64>,
}

impl Reassembler {
    /// A reassembler that holds no more than `limits`.
    pub fn new(limits: ReassemblyLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes a fragment, in order of capture.
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

    /// Whether the packet of `fragment` is in the making, and its first fragment is not there.
    pub fn lacks_beginning(&self, fragment: &Fragment<'_>) -> bool {
        let serial = self.index.get(&fragment.key);
        let partial = serial.and_then(|serial| self.partials.get(serial));
        partial.is_some_and(|partial| !partial.refused && !partial.has_beginning())
    }

    /// Ends all that is unfinished, at the end of the capture.
    pub fn finish(&mut self) {
        while self.give_up_oldest() {}
    }

    /// How many packets there were fragments of.
    pub fn packet_count(&self) -> u64 {
        self.packet_count
    }

    /// How many packets were given up ([`DecodeError::FragmentIncomplete`]).
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

    /// Whether this fragment of a completed packet was captured twice. Identifications are used
    /// again (RFC 6864 §4), so the bytes have to be the same, too.
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
