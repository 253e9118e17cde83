//! State of a sender since its last data segment.

use crate::judge::thresholds::ACK_TRAIN_NS;
use crate::judge::{AckTrigger, Acks, MissingPackets, WindowProbes};
use crate::model::Sighting;
use crate::tcp::acks::Ack;
use crate::tcp::sender::space::SendSpace;
use crate::wire::{Segment, Side};

/// The state since the last departure, if it is needed beyond the current segment. ACKs are applied
/// when the sender does something, which is mostly a departure.
#[derive(Clone, Debug, Default)]
pub struct StoredSince(Option<Box<SinceDeparture>>);

impl StoredSince {
    /// Returns the stored state, which is created on demand.
    #[cold]
    #[inline(never)]
    pub fn stored_mut(&mut self) -> &mut SinceDeparture {
        self.0.get_or_insert_default()
    }

    /// Moves the stored state, if there is any, into `since`.
    #[inline]
    pub fn take(&mut self, since: &mut SinceDeparture) {
        if let Some(stored) = self.0.take() {
            *since = *stored;
        }
    }

    /// Stores the state.
    pub fn store(&mut self, since: SinceDeparture) {
        self.0 = Some(Box::new(since));
    }

    /// Returns whether no state is stored.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Time at which the first ACK since the last departure took effect, ns.
    pub fn first_ack_ns(&self) -> Option<u64> {
        self.0.as_ref().and_then(|since| since.acks.first_effect_ns)
    }

    /// Returns whether the offered window was (almost) closed at some time since the last
    /// departure, and has opened.
    pub fn was_window_closed(&self) -> bool {
        self.0.as_ref().is_some_and(|since| since.closed_ns > 0)
    }

    /// Records that the packet with the IP identification `number` has arrived, which may have been
    /// missing.
    pub(super) fn arrived(&mut self, number: u16) {
        if let Some(since) = &mut self.0 {
            since.missing.arrived(number);
        }
    }

    /// See [`SinceDeparture::end_unseen_ns`].
    pub fn end_unseen_ns(&self) -> u64 {
        self.0.as_ref().map_or(0, |since| since.end_unseen_ns)
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |_| size_of::<SinceDeparture>())
    }
}

/// The part of [`SinceDeparture`] that ACKs change, as it was after the last ACK that the sender had received
/// when its next segment left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    acks: Acks,
    flight_before: u64,
    room_before: Option<i64>,
    window_before: Option<u64>,
}

/// Effects of ACKs, and other events, since the sender's last departure.
#[derive(Clone, Debug, Default)]
pub struct SinceDeparture {
    /// The ACKs that advanced SND.UNA or the right edge of the window.
    pub acks: Acks,
    /// What the sender had heard when the segment left that ends the silence, if its echo shows that this
    /// was less than by the least round trip.
    pub(super) heard: Option<Box<Heard>>,
    /// Flight just before the first ACK, bytes.
    pub flight_first: u64,
    /// Flight just before the last ACK, bytes.
    pub flight_before: u64,
    /// Room in the offered window just before the last ACK, bytes; `None` if unknown.
    pub room_before: Option<i64>,
    /// Window offered just before the last ACK, bytes; `None` if unknown.
    pub window_before: Option<u64>,
    /// Time for which the receiver kept the window (almost) closed, ns.
    pub closed_ns: u64,
    /// Window probes that the sender sent.
    pub probes: WindowProbes,
    /// Packets of the sender that did not pass the vantage.
    pub missing: MissingPackets,
    /// Data in between is missing in the capture.
    pub misses_data: bool,
    /// ACKs cover data of the sender that is missing in the capture.
    pub has_sent_unseen: bool,
    /// Such an ACK reports that the receiver has data behind a hole (RFC 2018).
    pub repairs_unseen: bool,
    /// Time of the last ACK that covers data which the sender sent last and the capture misses, ns; 0 if
    /// there is none.
    pub end_unseen_ns: u64,
    /// Time at which the timer last repeated acknowledged data, ns; 0 if it did not.
    pub repeated_ns: u64,
    /// Timestamp value of the peer's last packet at the vantage.
    pub peer_tsval: u32,
    /// The sender's segment is the first to acknowledge data of its peer.
    pub carries_due_ack: bool,
    /// The sender sent a tail loss probe with old data, because it had no new data.
    pub probed_tail: bool,
}

impl SinceDeparture {
    /// Flight just before the last ACK, bytes; `flight`, that of now, if there was none.
    pub(super) fn flight_before(&self, flight: u64) -> u64 {
        if self.acks.last.is_none() { flight } else { self.flight_before }
    }

    /// Returns whether an ACK that passed at `seen_ns` belongs to the same train as the last one.
    #[inline]
    pub(super) fn is_in_train(&self, seen_ns: u64) -> bool {
        let last = self.acks.last;
        last.is_some_and(|last| seen_ns.saturating_sub(last.seen_ns) < ACK_TRAIN_NS)
    }

    /// Adds the ACK `trigger`, before which the positions of the sender were `space`.
    #[inline]
    pub(super) fn add_ack(&mut self, trigger: AckTrigger, begins_train: bool, space: &SendSpace) {
        if begins_train {
            self.flight_before = space.flight();
            self.room_before = space.room();
            self.window_before = space.window();
        }
        if self.acks.count == 0 {
            self.flight_first = space.flight();
        }
        self.acks.count += 1;
        self.acks.first_effect_ns.get_or_insert(trigger.effect_ns);
        self.acks.last = Some(trigger);
    }

    /// Records that the segment which leaves now and echoes `tsecr` had left before `ack` arrived, though by
    /// the least round trip that could have been sooner (RFC 7323 §4.3). If it echoes the ACK before that,
    /// it left between the two.
    #[cold]
    #[inline(never)]
    pub(super) fn note_unheard(&mut self, ack: &Ack, tsecr: Option<u32>) {
        let Some(last) = self.acks.last.filter(|_| ack.tsval != 0 && self.heard.is_none()) else {
            return;
        };
        if tsecr.is_some_and(|tsecr| last.is_echoed_by(tsecr)) {
            let left_within_ns = Some(ack.seen_ns.saturating_sub(last.seen_ns));
            let &mut Self { flight_before, room_before, window_before, .. } = self;
            let acks = Acks { left_within_ns, ..self.acks };
            let heard = Heard { acks, flight_before, room_before, window_before };
            self.heard = Some(Box::new(heard));
        }
    }

    /// Returns the state without the ACKs that arrived behind the departure, if its echo shows that there
    /// were any.
    pub fn as_heard(&self) -> Option<Self> {
        let &Heard { acks, flight_before, room_before, window_before } = self.heard.as_deref()?;
        let all = Self { heard: None, ..self.clone() };
        Some(Self { acks, flight_before, room_before, window_before, ..all })
    }

    /// Discards missing packets: data is missing in the capture itself, so that they show nothing
    /// about the path.
    pub fn excuse_missing(&mut self) {
        self.missing.count = 0;
        self.misses_data = true;
    }

    /// Records a probe of a closed window.
    pub fn probed(&mut self, from: Side, segment: &Segment) {
        self.probes.sent += 1;
        self.probes.first.get_or_insert(Sighting::of(from, segment));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::sequence::ORIGIN;

    #[test]
    fn what_is_stored_is_taken_once() {
        let mut stored = StoredSince::default();
        assert!(stored.is_empty() && stored.first_ack_ns().is_none());
        let acks = Acks { first_effect_ns: Some(7), ..Acks::default() };
        stored.store(SinceDeparture { acks, closed_ns: 5, ..SinceDeparture::default() });
        assert!(stored.was_window_closed() && stored.first_ack_ns() == Some(7));
        let mut since = SinceDeparture::default();
        stored.take(&mut since);
        assert_eq!((since.closed_ns, stored.heap_bytes()), (5, 0));
        stored.take(&mut since);
        assert_eq!(since.closed_ns, 5, "nothing was stored");
    }

    #[test]
    fn acks_of_one_train_count_from_its_first() {
        let mut space = SendSpace::default();
        space.position(0);
        space.extend_to(ORIGIN + 3_000);
        let mut since = SinceDeparture::default();
        let ack = |seen_ns| AckTrigger { seen_ns, effect_ns: seen_ns, ..AckTrigger::default() };
        for (seen_ns, una) in [(1, 1_000), (ACK_TRAIN_NS, 2_000), (3 * ACK_TRAIN_NS, 3_000)] {
            let begins = !since.is_in_train(seen_ns);
            since.add_ack(ack(seen_ns), begins, &space);
            space.acknowledge(ORIGIN + una);
        }
        assert_eq!((since.flight_first, since.flight_before), (3_000, 1_000));
        assert_eq!((since.acks.count, since.acks.first_effect_ns), (3, Some(1)));
    }

    #[test]
    fn the_flight_before_an_ack_is_what_the_ack_found() {
        let mut since = SinceDeparture { flight_before: 900, ..SinceDeparture::default() };
        assert_eq!(since.flight_before(400), 400);
        since.acks.last = Some(AckTrigger::default());
        assert_eq!(since.flight_before(400), 900);
    }

    #[test]
    fn missing_packets_show_no_loss_where_the_capture_misses_data() {
        let mut stored = StoredSince::default();
        stored.stored_mut().missing.add(3, 10);
        stored.arrived(9);
        assert_eq!(stored.stored_mut().missing.count, 2);
        stored.stored_mut().excuse_missing();
        assert!(!stored.stored_mut().missing.any() && stored.stored_mut().misses_data);
    }
}
