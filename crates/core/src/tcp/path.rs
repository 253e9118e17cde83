//! Round trips between the vantage and both ends, and the location of the vantage that follows from
//! them.

use crate::judge::RoundTrips;
use crate::judge::thresholds::{AT_ONCE_PART, DELAYED_ACK_MIN_NS, HOST_DELAY_MAX_NS};
use crate::model::Vantage;
use crate::tcp::thresholds::{RTO_MAX_NS, VANTAGE_ON_HOST_NS};
use crate::wire::{BySide, Segment, SegmentFlags, Side};

/// Minimum round-trip times between the vantage and the two ends of one connection.
///
/// The handshake gives the first samples: SYN to SYN-ACK for the server's leg, SYN-ACK to ACK for
/// the client's. Data and its ACKs refine them. The minimum is used because everything that adds
/// to a sample (queues, delayed ACKs) makes it longer. If the handshake was not captured, some
/// samples are only an upper bound, and no time is attributed to the path because of these.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// Round trips indexed by side.
    legs: BySide<LegRtt>,
}

/// The estimated round trip of one leg of the path, packed into one word to save memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LegRtt(u64);

const _: () = assert!(RTO_MAX_NS < LegRtt::LEAST);

impl LegRtt {
    /// The lowest bits hold the least sample plus one, ns; 0 if there is none.
    const LEAST: u64 = (1 << 37) - 1;
    /// This bit is set if the capturing host sent a packet of the side, and its TTL is an initial one: a
    /// router would have lowered it.
    const SENT: u64 = 1 << 37;
    /// This bit is set if the capturing host received a packet of the side.
    const RECEIVED: u64 = 1 << 38;
    /// This bit is set if the round trip is another than the least sample, see
    /// [`Path::is_not_least`].
    const NOT_LEAST: u64 = 1 << 39;
    /// The next bits hold the second-least sample in units of [`LegRtt::UNIT_NS`], saturating; 0 if
    /// there is none.
    const SECOND_LEAST_SHIFT: u32 = 40;
    const SECOND_LEAST_MAX: u64 = u16::MAX as u64;
    const UNIT_NS: u64 = 4_000;
    /// The next bits hold the number of samples after the first one that other samples may
    /// contradict, up to three.
    const OTHERS_SHIFT: u32 = 56;
    const OTHERS_MAX: u64 = 3;
    /// The next bits hold the number of all samples, up to three.
    const COUNT_SHIFT: u32 = 58;
    const COUNT: u64 = 3 << Self::COUNT_SHIFT;
    /// This bit is set if the vantage is at this end, see [`Path::lies_at`].
    const ENDS_HERE: u64 = 1 << 60;
    /// This bit is set if a short frame of the side was padded to the least length of Ethernet.
    const PADDED: u64 = 1 << 61;
    /// This bit is set if a short frame of the side was not padded.
    const UNPADDED: u64 = 1 << 62;
    /// This bit is set if a sample shows the round trip itself, and not only an upper bound of it.
    const KNOWN: u64 = 1 << 63;
    /// What no sample shows.
    const FRAMES: u64 = Self::PADDED | Self::UNPADDED | Self::DIRECTIONS;
    const PADDING: u64 = Self::PADDED | Self::UNPADDED;
    const DIRECTIONS: u64 = Self::SENT | Self::RECEIVED;

    #[inline]
    fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    fn set(&mut self, bit: u64, holds: bool) {
        self.0 = self.0 & !bit | if holds { bit } else { 0 };
    }

    /// Returns whether the least sample is wrong: a host that answers at once does so more than
    /// once, so that a single sample near zero is wrong if all others show a link, and the least of
    /// them was not delayed either.
    fn is_least_wrong(self) -> bool {
        self.others() >= Self::OTHERS_MAX
            && self.least().saturating_sub(1) < VANTAGE_ON_HOST_NS
            && (AT_ONCE_PART * VANTAGE_ON_HOST_NS..DELAYED_ACK_MIN_NS)
                .contains(&self.second_least_ns())
    }

    #[inline]
    fn least(self) -> u64 {
        self.0 & Self::LEAST
    }

    /// The second-least sample, ns.
    fn second_least_ns(self) -> u64 {
        (self.0 >> Self::SECOND_LEAST_SHIFT & Self::SECOND_LEAST_MAX) * Self::UNIT_NS
    }

    fn others(self) -> u64 {
        self.0 >> Self::OTHERS_SHIFT & Self::OTHERS_MAX
    }

    #[inline]
    fn is_known(self) -> bool {
        self.has(Self::KNOWN)
    }

    /// Counts one more sample.
    #[inline]
    fn count(&mut self) {
        if self.0 & Self::COUNT < Self::COUNT {
            self.0 += 1 << Self::COUNT_SHIFT;
        }
    }

    /// Returns whether no sample, of as many as make a habit, is as short as a host's own delay.
    fn is_always_long(self) -> bool {
        self.0 & Self::COUNT == Self::COUNT && self.least() > HOST_DELAY_MAX_NS
    }

    /// Returns whether `mark` is the only one of `marks` that is set.
    fn has_only(self, mark: u64, marks: u64) -> bool {
        self.0 & marks == mark
    }

    /// Adds a sample that is certain.
    #[inline]
    fn add_certain(&mut self, rtt_ns: u64) {
        self.0 |= Self::KNOWN;
        if self.least() == 0 || rtt_ns < self.least() {
            self.0 = self.0 & !Self::LEAST | (rtt_ns + 1);
        }
    }

    /// Adds a sample that other samples may contradict.
    fn add_uncertain(&mut self, rtt_ns: u64) {
        let least = self.least();
        if least == 0 {
            self.0 |= rtt_ns + 1;
            return;
        }
        let greater_ns = rtt_ns.max(least - 1);
        let greater = (greater_ns / Self::UNIT_NS).clamp(1, Self::SECOND_LEAST_MAX);
        let next = match self.second_least_ns() / Self::UNIT_NS {
            0 => greater,
            next => next.min(greater),
        };
        let others = (self.others() + 1).min(Self::OTHERS_MAX);
        self.0 = self.0 & (Self::KNOWN | Self::FRAMES | Self::COUNT)
            | least.min(rtt_ns + 1)
            | next << Self::SECOND_LEAST_SHIFT
            | others << Self::OTHERS_SHIFT;
    }
}

/// Initial TTLs (RFC 1700: 64; Windows: 128; many routers: 255).
const INITIAL_TTLS: [u8; 3] = [64, 128, 255];

/// Returns whether a packet with this TTL has passed no router.
pub(crate) fn is_initial_ttl(ttl: u8) -> bool {
    INITIAL_TTLS.contains(&ttl)
}

impl Path {
    /// Adds a round-trip sample between the vantage and `side`.
    pub fn sample(&mut self, side: Side, rtt_ns: u64) {
        let leg = &mut self.legs[side];
        let before = *leg;
        if rtt_ns <= RTO_MAX_NS {
            leg.add_certain(rtt_ns);
            leg.count();
        }
        if *leg != before {
            self.conclude();
        }
    }

    /// Adds a sample on a connection whose handshake was not captured. If `is_exact`, it shows the
    /// round trip itself, otherwise an upper bound.
    pub fn sample_without_handshake(&mut self, side: Side, rtt_ns: u64, is_exact: bool) {
        if rtt_ns <= RTO_MAX_NS {
            let leg = &mut self.legs[side];
            leg.add_uncertain(rtt_ns);
            leg.count();
            leg.0 |= if is_exact { LegRtt::KNOWN } else { 0 };
            self.conclude();
        }
    }

    /// Concludes from the samples, which have changed, what is asked about the path for each
    /// segment.
    #[inline(never)]
    fn conclude(&mut self) {
        for side in Side::ALL {
            let (lies_at, is_not_least) = (self.lies_at(side), self.is_not_least(side));
            self.legs[side].set(LegRtt::ENDS_HERE, lies_at);
            self.legs[side].set(LegRtt::NOT_LEAST, is_not_least);
        }
    }

    /// Removes all samples for `side`, whose times turned out to be wrong.
    #[cold]
    pub fn forget(&mut self, side: Side) {
        self.legs[side].0 &= LegRtt::FRAMES;
        self.conclude();
    }

    /// Notes how `segment` of `side` was framed, if that shows something of the place.
    #[inline]
    pub fn note_frame(&mut self, side: Side, segment: &Segment) {
        let leg = &mut self.legs[side];
        let before = *leg;
        if segment.facts.has(SegmentFlags::PADDED) {
            leg.0 |= LegRtt::PADDED;
        }
        if segment.facts.has(SegmentFlags::RECEIVED) {
            leg.0 |= LegRtt::RECEIVED;
        }
        // A router sends what it forwards, and without its padding.
        if is_initial_ttl(segment.ttl) {
            if segment.facts.has(SegmentFlags::UNPADDED) {
                leg.0 |= LegRtt::UNPADDED;
            }
            if segment.facts.has(SegmentFlags::SENT) {
                leg.0 |= LegRtt::SENT;
            }
        }
        if *leg != before {
            self.conclude();
        }
    }

    /// Returns whether the capture states that its host sends what `side` sends, and receives what the
    /// peer sends. What a bridge or a router forwards, it receives as well.
    #[inline]
    fn is_sent_at(&self, side: Side) -> bool {
        self.legs[side].has_only(LegRtt::SENT, LegRtt::DIRECTIONS)
            && self.legs[side.peer()].has_only(LegRtt::RECEIVED, LegRtt::DIRECTIONS)
    }

    /// Returns whether the framing shows that the vantage is at `side`: the capture states it, or padding
    /// does.
    #[inline]
    pub fn is_framed_at(&self, side: Side) -> bool {
        self.is_sent_at(side) || !self.is_sent_at(side.peer()) && self.is_padded_from(side)
    }

    /// Returns whether padding shows that the vantage is at `side`: an interface pads a short
    /// frame when it sends it, so only its sender's host has it shorter. Where none or all of the
    /// short frames are padded, nothing follows: not every link pads, and tools remove padding. Nor
    /// does anything follow where `side` never answers as soon as a host that is here: frames of a
    /// wireless station (IEEE 802.11 does not pad) look the same at its access point.
    #[inline]
    fn is_padded_from(&self, side: Side) -> bool {
        let leg = self.legs[side];
        leg.has_only(LegRtt::UNPADDED, LegRtt::PADDING)
            && self.legs[side.peer()].has_only(LegRtt::PADDED, LegRtt::PADDING)
            && !leg.is_always_long()
    }

    /// Swaps the legs of client and server.
    pub fn swap(&mut self) {
        self.legs.swap(0, 1);
    }

    /// Minimum round trip between the vantage and `side`, ns; 0 if there is no sample.
    #[inline]
    pub fn rtt_ns(&self, side: Side) -> u64 {
        let leg = self.legs[side];
        if leg.has(LegRtt::NOT_LEAST) {
            self.other_rtt_ns(side)
        } else {
            leg.least().saturating_sub(1)
        }
    }

    /// Returns whether the minimum round trip to `side` is another than the least sample.
    fn is_not_least(&self, side: Side) -> bool {
        self.other_rtt_ns(side) != self.legs[side].least().saturating_sub(1)
    }

    /// Minimum round trip between the vantage and `side`, ns, which may be another than the least
    /// sample.
    #[cold]
    fn other_rtt_ns(&self, side: Side) -> u64 {
        let sampled_ns = self.sampled_ns(side);
        if sampled_ns > HOST_DELAY_MAX_NS && self.is_framed_at(side) {
            // What its own host takes to answer is no part of the path.
            return VANTAGE_ON_HOST_NS;
        }
        sampled_ns
    }

    /// Minimum round trip to `side` by the samples alone, ns; 0 if there is none.
    fn sampled_ns(&self, side: Side) -> u64 {
        let leg = self.legs[side];
        if leg.is_least_wrong() { leg.second_least_ns() } else { leg.least().saturating_sub(1) }
    }

    /// Minimum round trip between the vantage and `side`, ns; 0 if only an upper bound is known.
    #[inline]
    pub fn known_rtt_ns(&self, side: Side) -> u64 {
        if self.is_known(side) { self.rtt_ns(side) } else { 0 }
    }

    /// Returns whether the round trip to `side` is known, and not only an upper bound.
    #[inline]
    pub fn is_known(&self, side: Side) -> bool {
        self.legs[side].is_known() || self.is_framed_at(side)
    }

    /// Returns whether there is a sample for `side`.
    #[inline]
    pub fn has_sample(&self, side: Side) -> bool {
        self.legs[side].least() > 0
    }

    /// Minimum round trip between client and server, ns.
    #[inline]
    pub fn base_rtt_ns(&self) -> u64 {
        self.rtt_ns(Side::Client) + self.rtt_ns(Side::Server)
    }

    /// Minimum round trip between client and server, ns; 0 if only an upper bound is known for
    /// either leg.
    #[inline]
    pub fn known_base_rtt_ns(&self) -> u64 {
        let is_known = Side::ALL.into_iter().all(|side| self.is_known(side));
        if is_known { self.base_rtt_ns() } else { 0 }
    }

    /// Returns the round trips for a gap of `side`, to which the handshake took `handshake_ns`; 0 if that
    /// is unknown.
    pub fn round_trips(&self, side: Side, handshake_ns: u64) -> RoundTrips {
        let varies_ns = handshake_ns.saturating_sub(self.rtt_ns(side));
        RoundTrips {
            sender_ns: self.rtt_ns(side),
            is_bound: !self.is_known(side),
            known_ns: self.known_rtt_ns(side),
            base_ns: self.base_rtt_ns(),
            varies_ns,
            is_direct: false,
        }
    }

    /// Returns whether the vantage is at `side`, so that a packet to `side` has arrived when it
    /// passes.
    #[inline]
    pub fn ends_here(&self, side: Side) -> bool {
        self.legs[side].has(LegRtt::ENDS_HERE)
    }

    /// Returns whether the vantage is on the host of `side` itself, and not only one link away from it,
    /// which may be a radio link: the capture states it, or its answers come within the time of a kernel.
    /// Padding shows no more than that no router lies between.
    pub fn is_on_host(&self, side: Side) -> bool {
        self.is_sent_at(side)
            || self.has_sample(side) && self.sampled_ns(side) <= VANTAGE_ON_HOST_NS
    }

    /// Returns whether the framing, or else the samples, show that the vantage is at `side`.
    fn lies_at(&self, side: Side) -> bool {
        if Side::ALL.into_iter().any(|side| self.is_framed_at(side)) {
            return self.is_framed_at(side);
        }
        self.is_near(side)
    }

    /// Returns whether, by the round trips, the vantage is at `side`.
    fn is_near(&self, side: Side) -> bool {
        let near_ns = self.sampled_ns(side);
        let peer = side.peer();
        let nearer = near_ns <= HOST_DELAY_MAX_NS
            && self.legs[peer].is_known()
            && AT_ONCE_PART * near_ns <= self.sampled_ns(peer);
        self.has_sample(side) && (near_ns <= VANTAGE_ON_HOST_NS || nearer)
    }

    /// Location of the vantage, as far as this connection shows it.
    pub fn vantage(&self) -> Vantage {
        match Side::ALL.map(|side| self.is_framed_at(side)) {
            [true, _] => Vantage::Client,
            [_, true] => Vantage::Server,
            _ => self.vantage_by_time(),
        }
    }

    /// Returns whether padding shows where the vantage is, and nothing else does.
    pub fn is_placed_by_padding(&self) -> bool {
        let is_stated = Side::ALL.into_iter().any(|side| self.is_sent_at(side));
        !is_stated && self.vantage() != self.vantage_by_time()
    }

    /// Location of the vantage as the round trips show it.
    fn vantage_by_time(&self) -> Vantage {
        if !Side::ALL.into_iter().all(|side| self.has_sample(side)) {
            return Vantage::Unknown;
        }
        match (self.is_near(Side::Client), self.is_near(Side::Server)) {
            (true, true) => Vantage::Local,
            (true, false) => Vantage::Client,
            (false, true) => Vantage::Server,
            (false, false) if self.legs.iter().all(|leg| leg.is_known()) => Vantage::Middle,
            (false, false) => Vantage::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vantage(client_ns: u64, server_ns: u64) -> Vantage {
        let mut path = Path::default();
        path.sample(Side::Client, client_ns);
        path.sample(Side::Server, server_ns);
        path.vantage()
    }

    #[test]
    fn a_vantage_one_link_from_a_host_is_in_the_middle_however_far_the_other_host_is() {
        assert_eq!(vantage(700_000, 80_000_000), Vantage::Client);
        assert_eq!(vantage(2_200_000, 80_000_000), Vantage::Middle);
        assert_eq!(vantage(80_000_000, 2_200_000), Vantage::Middle);
        assert_eq!(vantage(80_000_000, 30_000), Vantage::Server);
        assert_eq!(vantage(30_000, 30_000), Vantage::Local);
    }

    #[test]
    fn a_short_frame_without_padding_is_seen_at_its_sender_only() {
        let framed = |client: (u32, u8), server: (u32, u8)| {
            let mut path = Path::default();
            path.sample(Side::Client, 14_900_000);
            path.sample(Side::Server, 23_800_000);
            for (side, (facts, ttl)) in Side::ALL.into_iter().zip([client, server]) {
                let facts = SegmentFlags(facts);
                path.note_frame(side, &Segment { facts, ttl, ..Segment::default() });
            }
            (path.vantage(), path.base_rtt_ns())
        };
        let (unpadded, padded) = (SegmentFlags::UNPADDED, SegmentFlags::PADDED);
        let at_client = (Vantage::Client, 23_800_000 + VANTAGE_ON_HOST_NS);
        assert_eq!(framed((unpadded, 128), (padded, 51)), at_client);
        assert_eq!(framed((padded, 64), (unpadded, 64)).0, Vantage::Server);
        let between = (Vantage::Middle, 38_700_000);
        assert_eq!(framed((unpadded, 128), (unpadded, 51)), between);
        assert_eq!(framed((padded, 128), (padded, 51)), between);
        assert_eq!(framed((unpadded, 128), (0, 51)), between);
        // A router has removed the padding of what it forwards.
        assert_eq!(framed((padded, 128), (unpadded, 51)), between);
        assert_eq!(framed((unpadded | padded, 128), (padded, 51)), between);
    }

    #[test]
    fn a_cooked_capture_states_which_side_its_host_is_however_late_that_answers() {
        let marked = |client: &[(u32, u8)], server: &[(u32, u8)]| {
            let mut path = Path::default();
            for _ in 0..3 {
                path.sample(Side::Client, 300_000);
                path.sample(Side::Server, 50_000_000);
            }
            for (side, marks) in Side::ALL.into_iter().zip([client, server]) {
                for &(facts, ttl) in marks {
                    let facts = SegmentFlags(facts);
                    path.note_frame(side, &Segment { facts, ttl, ..Segment::default() });
                }
            }
            (path.vantage(), path.is_on_host(Side::Server), path.rtt_ns(Side::Server))
        };
        let (sent, received) = (SegmentFlags::SENT, SegmentFlags::RECEIVED);
        let at_server = (Vantage::Server, true, VANTAGE_ON_HOST_NS);
        assert_eq!(marked(&[(received, 64)], &[(sent, 64)]), at_server);
        let by_time = (Vantage::Client, false, 50_000_000);
        assert_eq!(marked(&[(received, 64)], &[(sent, 63)]), by_time, "a router");
        let forwarded = [(received, 64), (sent, 64)];
        assert_eq!(marked(&forwarded, &forwarded), by_time, "a bridge");
        assert_eq!(marked(&[(received, 64)], &[(received, 64)]), by_time, "one host's loopback");
        assert_eq!(marked(&[(0, 64)], &[(0, 64)]), by_time, "no cooked capture");
    }

    #[test]
    fn a_station_that_never_answers_at_once_is_not_at_the_vantage() {
        let framed = |samples_ns: &[u64]| {
            let mut path = Path::default();
            samples_ns.iter().for_each(|&ns| path.sample(Side::Client, ns));
            path.sample(Side::Server, 23_800_000);
            let marks = [(SegmentFlags::UNPADDED, 64), (SegmentFlags::PADDED, 51)];
            for (side, (facts, ttl)) in Side::ALL.into_iter().zip(marks) {
                let facts = SegmentFlags(facts);
                path.note_frame(side, &Segment { facts, ttl, ..Segment::default() });
            }
            path.vantage()
        };
        assert_eq!(framed(&[5_000_000, 3_400_000, 4_000_000]), Vantage::Middle);
        assert_eq!(framed(&[5_000_000, 3_400_000]), Vantage::Client);
        assert_eq!(framed(&[5_000_000, 140_000, 4_000_000]), Vantage::Client);
    }

    #[test]
    fn a_single_sample_near_zero_does_not_place_the_vantage_on_a_host() {
        let path = |samples_ns: &[u64]| {
            let mut path = Path::default();
            samples_ns.iter().for_each(|&ns| {
                path.sample_without_handshake(Side::Server, ns, ns < DELAYED_ACK_MIN_NS)
            });
            path.sample_without_handshake(Side::Client, 9_000_000, true);
            (path.rtt_ns(Side::Server), path.vantage())
        };
        let samples_ns = [1_200_000, 1_248_000, 4_000, 1_232_000, 1_216_000];
        assert_eq!(path(&samples_ns), (1_200_000, Vantage::Middle));
        // Two such samples are no accident, and ACKs that may have been delayed do not contradict
        // one that was not.
        assert_eq!(path(&[1_200_000, 4_000, 1_300_000, 5_000]).1, Vantage::Server);
        assert_eq!(path(&[40_100_000, 4_000, 40_200_000, 40_000_000]).1, Vantage::Server);
    }

    #[test]
    fn a_sample_that_may_include_a_delayed_ack_is_only_an_upper_bound() {
        let mut path = Path::default();
        path.sample_without_handshake(Side::Server, 41_000_000, false);
        assert_eq!([path.rtt_ns(Side::Server), path.known_rtt_ns(Side::Server)], [41_000_000, 0]);
        path.sample_without_handshake(Side::Server, 2_000_000, true);
        assert_eq!(path.known_rtt_ns(Side::Server), 2_000_000);
    }

    #[test]
    fn no_round_trip_is_longer_than_the_longest_timer() {
        const S: u64 = 1_000_000_000;
        let sampled = |ns| {
            let mut path = Path::default();
            path.sample(Side::Server, ns);
            path.has_sample(Side::Server)
        };
        assert!(sampled(40 * S) && !sampled(90 * S));
    }
}
