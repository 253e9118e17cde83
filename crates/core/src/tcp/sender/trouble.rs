//! What only a direction in trouble needs to remember. Most never are, and hold nothing of this.

use super::copies::Copies;
use super::losses::Stamp;
use super::waits::Waits;
use crate::cause::{Cause, Owner};
use crate::tcp::exchange::Chain;
use crate::tcp::gap::Recovery;
use crate::tcp::sent::Sighting;

/// A stretch of the stream that was not seen though later data was.
#[derive(Clone, Copy, Debug)]
pub struct Hole {
    pub start: u64,
    pub end: u64,
    pub noticed_ns: u64,
    /// IP identification of the packet that showed the hole.
    pub ip_id: u16,
    /// Timestamp of that packet, if it had one.
    pub tsval: Option<u32>,
}

/// The first segment of a repetition.
#[derive(Clone, Copy, Debug)]
pub struct Repeated {
    /// Where it ends.
    pub end: u64,
    /// When it was repeated, ns.
    pub time_ns: u64,
    /// Its timestamp.
    pub stamp: Stamp,
    /// [`Trouble::after_loss`] before it.
    pub after_loss: bool,
    /// [`Trouble::flight_after_loss`] before it.
    pub flight: u64,
}

/// Holes remembered.
const HOLES_MAX: usize = 64;

/// Time, of exchanges that are over, in which a sender kept back what it had, ns: what the whole may show
/// to have been its application's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// By Nagle's algorithm.
    nagle_ns: u64,
    /// By a full send buffer.
    buffer_ns: u64,
    /// Until a late ACK.
    late_ack_ns: u64,
}

impl Held {
    /// What `owner` has of it, where that is one of them.
    pub fn of(&mut self, owner: Owner) -> Option<&mut u64> {
        match owner {
            Owner::NagleDelayedAck => Some(&mut self.nagle_ns),
            Owner::SendBuffer => Some(&mut self.buffer_ns),
            Owner::DelayedAck => Some(&mut self.late_ack_ns),
            _ => None,
        }
    }

    /// Adds what `chain` took.
    pub fn add(&mut self, chain: &Chain) {
        match chain.cause {
            Cause::NagleDelayedAck => self.nagle_ns += chain.ns,
            Cause::SendBuffer => self.buffer_ns += chain.ns,
            Cause::DelayedAck => self.late_ack_ns += chain.ns,
            _ => {}
        }
    }
}

/// What a timer repeats again and again (RFC 6298 §5.5).
#[derive(Clone, Copy, Debug, Default)]
pub struct Repeating {
    /// Where what it repeats begins.
    start: u64,
    /// When that was first sent, as far as is known, ns.
    pub first_ns: u64,
    /// When it was sent last, ns.
    last_ns: u64,
    /// How long it had waited then, ns.
    waited_ns: u64,
    /// A wait was twice as long as the one before.
    pub doubles: bool,
}

impl Repeating {
    const NONE: Self = Self { start: 0, first_ns: 0, last_ns: 0, waited_ns: 0, doubles: false };

    /// What begins at `start`, and was sent at `before_ns` as well, is sent again at `now_ns`. The ticks of a
    /// timer are small beside its waits.
    pub fn again(&mut self, start: u64, before_ns: u64, now_ns: u64) {
        let doubles = self.doubles;
        if self.start != start || self.waited_ns == 0 {
            let (first_ns, last_ns) = (before_ns, before_ns);
            *self = Self { start, first_ns, last_ns, waited_ns: 0, doubles };
        }
        let waited_ns = now_ns.saturating_sub(self.last_ns);
        let doubled_ns = 2 * self.waited_ns;
        self.doubles |= doubled_ns > 0 && waited_ns.abs_diff(doubled_ns) <= doubled_ns / 8;
        (self.last_ns, self.waited_ns) = (now_ns, waited_ns);
    }
}

/// Losses, holes, closed windows and what else does not happen to a healthy direction.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// Holes in what was seen, in the order they were noticed.
    pub holes: Vec<Hole>,
    /// Position up to which everything was seen here, while there are holes.
    pub in_order: u64,
    /// Seen time of the ACK that closed the window.
    pub closed_since_ns: Option<u64>,
    /// The ACK that closed the window last.
    pub closed_by: Option<Sighting>,
    /// The first duplicate ACK since the ACK point last moved.
    pub duplicate_ack: Option<Sighting>,
    /// Duplicate ACKs or SACKs in effect since `una` last moved.
    pub duplicate_acks_now: u32,
    /// When the last of them took effect, ns.
    pub duplicate_effect_ns: u64,
    /// Packets that the path marked with congestion experienced (RFC 3168 §5).
    pub ecn_marked: u64,
    /// ACKs of its receiver's that echo such a mark (§6.1.3).
    pub ecn_echoed: u64,
    /// An ICMP error told its sender of a packet too big, and what was under way then is not all
    /// acknowledged.
    pub pmtu_reported: bool,
    /// Where that ends.
    pub pmtu_reported_end: u64,
    /// Highest position that needs repair; the sender is in recovery below it.
    pub recovery_end: u64,
    /// How the recovery began.
    pub recovery: Option<Recovery>,
    /// What was repeated last, until it is known to have been needed.
    pub repeated: Option<Repeated>,
    /// Timestamp and IP identification of the last segment that was sent again.
    pub repair: Option<(u32, u16)>,
    /// Something was lost on this direction.
    pub after_loss: bool,
    /// Greatest flight since the last loss, bytes.
    pub flight_after_loss: u64,
    /// When the receiver said that all has arrived but a hole, ns.
    pub all_but_hole_ns: Option<u64>,
    /// How long it waited from then until the hole was filled, ns, where that just happened
    /// though nothing was sent again.
    pub hole_filled_ns: u64,
    /// How often that happened.
    pub late_arrivals: u32,
    /// What its timer has repeated last.
    pub repeating: Repeating,
    /// How the last loss was repaired, as a cause.
    pub loss_cause: Option<Cause>,
    /// The fault that kept it silent so long that its congestion window was closed again, and how
    /// far that had been open, bytes.
    pub restarted: Option<(Cause, u64)>,
    /// See [`crate::tcp::Gap::nagle_refuted`].
    pub nagle_refuted: u32,
    /// See [`crate::tcp::Gap::nagle_holds`].
    pub nagle_holds: u32,
    /// Silences that looked like Nagle's algorithm but did not end with the ACK.
    pub nagle_missed: u32,
    /// Times it asked for something when nobody waited, at once with the late ACK of what it had said
    /// before, and times it did so some time after that.
    pub idle_holds: [u32; 2],
    /// Times it went on with a message by its application's clock, without an ACK.
    pub own_pauses: u32,
    /// See [`crate::tcp::Gap::late_acks_met`].
    pub late_acks_met: u32,
    /// See [`crate::tcp::Gap::late_acks_met`].
    pub late_acks_missed: u32,
    /// See [`Waits`].
    pub waits: Waits,
    /// See [`Held`].
    pub held: Held,
    /// Greatest payload of one segment that was lost to a timer.
    pub timed_out_len_max: u32,
    /// How long a full segment was before the first loss, bytes; 0 before it.
    pub full_bytes: u64,
    /// Several segments of that size never came, and were repeated by timer in shorter ones.
    pub cut_down: bool,
    /// Height at which the offered window stood in the way last, and how often in a row.
    pub window_level: (u64, u32),
    /// The height at which it did so most often, and how often.
    pub window_level_max: (u64, u32),
    /// Height beyond which it has not opened since, and how often it stood in the way meanwhile.
    pub window_stands: (u64, u32),
    /// How often it stood in the way, and of these how often it had been more than twice as wide before.
    pub window_waits: [u32; 2],
    /// Keep-alive probes sent.
    pub keep_alives: u64,
    /// Silences that ended with packets missing in between.
    pub unseen_timeouts: u32,
    /// Packets missing in them.
    pub unseen_packets: u32,
    /// D-SACKs received (RFC 2883): retransmissions that were not needed.
    pub dsacks: u32,
    /// Payload sent more than once, bytes.
    pub repeated_bytes: u64,
    /// Segments retransmitted.
    pub rexmt_data_packets: u64,
    /// Of them by timer.
    pub rto_count: u64,
    /// Of them by duplicate ACKs or SACK.
    pub fast_retransmissions: u64,
    /// How many of these belong to exchanges that are over.
    pub fast_counted: u64,
    /// Of them for nothing.
    pub spurious_retransmissions: u64,
    /// Segments out of order.
    pub out_of_order_packets: u64,
    /// Duplicate ACKs for what was sent.
    pub duplicate_acks: u64,
    /// Its receiver has reported that something is missing.
    pub reported: bool,
    /// Zero windows offered to it.
    pub zero_window_advertisements: u64,
    /// Window probes sent.
    pub zero_window_probes: u64,
    /// Where the data begins and ends that was sent beyond a closed window.
    pub probed: (u64, u64),
    /// The last packets, where some were captured twice.
    pub copies: Option<Box<Copies>>,
}

impl Trouble {
    /// None.
    pub fn none() -> &'static Self {
        static NONE: Trouble = Trouble::NONE;
        &NONE
    }

    const NONE: Self = Self {
        holes: Vec::new(),
        in_order: 0,
        closed_since_ns: None,
        closed_by: None,
        duplicate_ack: None,
        duplicate_acks_now: 0,
        duplicate_effect_ns: 0,
        ecn_marked: 0,
        ecn_echoed: 0,
        pmtu_reported: false,
        pmtu_reported_end: 0,
        recovery_end: 0,
        recovery: None,
        repeated: None,
        repair: None,
        after_loss: false,
        flight_after_loss: 0,
        all_but_hole_ns: None,
        hole_filled_ns: 0,
        late_arrivals: 0,
        repeating: Repeating::NONE,
        loss_cause: None,
        restarted: None,
        nagle_refuted: 0,
        nagle_holds: 0,
        nagle_missed: 0,
        held: Held { nagle_ns: 0, buffer_ns: 0, late_ack_ns: 0 },
        idle_holds: [0; 2],
        own_pauses: 0,
        late_acks_met: 0,
        late_acks_missed: 0,
        waits: Waits::NONE,
        timed_out_len_max: 0,
        full_bytes: 0,
        cut_down: false,
        window_level: (0, 0),
        window_level_max: (0, 0),
        window_stands: (0, 0),
        window_waits: [0; 2],
        keep_alives: 0,
        unseen_timeouts: 0,
        unseen_packets: 0,
        dsacks: 0,
        repeated_bytes: 0,
        rexmt_data_packets: 0,
        rto_count: 0,
        fast_retransmissions: 0,
        fast_counted: 0,
        spurious_retransmissions: 0,
        out_of_order_packets: 0,
        duplicate_acks: 0,
        reported: false,
        zero_window_advertisements: 0,
        zero_window_probes: 0,
        probed: (0, 0),
        copies: None,
    };

    /// How often something was sent again, and how often that was not needed (RFC 2883). What was
    /// lost before the vantage was seen once.
    pub fn repetitions(&self) -> [u64; 2] {
        [self.rexmt_data_packets + u64::from(self.unseen_timeouts), self.dsacks.into()]
    }

    /// Whether most of what was sent again was not needed.
    pub fn repeats_for_nothing(&self) -> bool {
        let [again, needless] = self.repetitions();
        2 * needless > again
    }

    /// A hole shows at the end of the stream.
    pub fn notice(&mut self, hole: Hole) {
        if self.holes.is_empty() {
            self.in_order = hole.start;
        }
        self.holes.push(hole);
        if self.holes.len() > HOLES_MAX {
            self.holes.remove(0);
            self.settle_in_order();
        }
    }

    /// The stream from `start` to `end` came after all. Where that leaves two pieces of a hole and there is
    /// room for one, the smaller piece is forgotten: what fills it later counts as a repetition.
    pub fn fill(&mut self, start: u64, end: u64) {
        let apart = |hole: &Hole| end <= hole.start || hole.end <= start;
        let Some(first) = self.holes.iter().position(|hole| !apart(hole)) else { return };
        let hole = self.holes[first];
        let before = Hole { end: start.max(hole.start), ..hole };
        let after = Hole { start: end.min(hole.end), ..hole };
        let [len_before, len_after] = [before, after].map(|piece| piece.end - piece.start);
        if len_before > 0 && len_after > 0 && self.holes.len() < HOLES_MAX {
            self.holes[first] = before;
            self.holes.insert(first + 1, after);
        } else if len_before > 0 && len_after > 0 {
            self.holes[first] = if len_after > len_before { after } else { before };
        } else {
            self.fill_from(first, start, end);
        }
        self.settle_in_order();
    }

    /// The same for all holes from that at `first` on where none is left in two pieces.
    fn fill_from(&mut self, first: usize, start: u64, end: u64) {
        for hole in &mut self.holes[first..] {
            if hole.start < end && start < hole.end {
                if hole.start < start {
                    hole.end = start;
                } else {
                    hole.start = end.min(hole.end);
                }
            }
        }
        self.holes.retain(|hole| hole.start < hole.end);
    }

    /// Holes were filled: everything up to the first that is left was seen.
    pub fn settle_in_order(&mut self) {
        if let Some(hole) = self.holes.first() {
            self.in_order = self.in_order.max(hole.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_hole(start: u64, end: u64) -> Trouble {
        let mut trouble = Trouble::default();
        trouble.notice(Hole { start, end, noticed_ns: 1, ip_id: 0, tsval: None });
        trouble
    }

    /// What is looked at with each segment is bounded by the number of holes.
    #[test]
    fn few_holes_are_kept_whatever_the_order_in_which_a_hole_is_filled() {
        const SEGMENTS: u64 = 10_000;
        let upward: Vec<u64> = (0..SEGMENTS).collect();
        let downward: Vec<u64> = (0..SEGMENTS).rev().collect();
        let scattered: Vec<u64> = (0..SEGMENTS).map(|index| index * 7_919 % SEGMENTS).collect();
        for order in [upward, downward, scattered] {
            let mut trouble = with_hole(1_000, 1_000 + 20 * SEGMENTS);
            for index in order {
                let start = 1_005 + 20 * index;
                trouble.fill(start, start + 10);
                assert!(trouble.holes.len() <= HOLES_MAX, "{}", trouble.holes.len());
                assert!(trouble.holes.windows(2).all(|pair| pair[0].end <= pair[1].start));
            }
        }
    }

    #[test]
    fn the_larger_piece_of_a_hole_is_kept_where_there_is_room_for_one() {
        let mut trouble = with_hole(0, 100_000);
        for index in 1..=100_u64 {
            trouble.fill(100_000 - 20 * index, 100_000 - 20 * index + 10);
        }
        assert_eq!((trouble.holes.len(), trouble.in_order), (HOLES_MAX, 0));
        assert_eq!(trouble.holes[0].end, 98_000, "what is left of the beginning");
        trouble.fill(0, 200_000);
        assert!(trouble.holes.is_empty());
    }
}
