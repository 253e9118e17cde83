//! State of a direction after a loss or another fault. Most directions never need it.

use super::copies::Copies;
use super::losses::Stamp;
use super::waits::Waits;
use crate::judge::{DuplicateAcks, LateAcks, NagleEvidence, Recovery};
use crate::model::{Cause, Owner, Sighting};
use crate::tcp::exchange::Chain;

/// A range of the stream that was not seen although later data was.
#[derive(Clone, Copy, Debug)]
pub struct Hole {
    pub start: u64,
    pub end: u64,
    pub noticed_ns: u64,
    /// IP identification of the packet that revealed the hole.
    pub ip_id: u16,
    /// Timestamp of that packet, if it had one.
    pub tsval: Option<u32>,
}

/// The first segment of a retransmission.
#[derive(Clone, Copy, Debug)]
pub struct Repeated {
    /// Position of its end.
    pub end: u64,
    /// Time of the retransmission, ns.
    pub time_ns: u64,
    /// Its timestamp.
    pub stamp: Stamp,
    /// [`Trouble::after_loss`] before it.
    pub after_loss: bool,
    /// [`Trouble::flight_after_loss`] before it.
    pub flight: u64,
}

/// Most holes remembered.
const HOLES_MAX: usize = 64;

/// Time in finished exchanges for which a sender held data back, ns; it may yet turn out to be the
/// application's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Held by Nagle's algorithm.
    nagle_ns: u64,
    /// Held by a full send buffer.
    buffer_ns: u64,
    /// Held until a late ACK.
    late_ack_ns: u64,
}

impl Held {
    /// Time held for `owner`, if that is one of these causes.
    pub fn of(&mut self, owner: Owner) -> Option<&mut u64> {
        match owner {
            Owner::NagleDelayedAck => Some(&mut self.nagle_ns),
            Owner::SendBuffer => Some(&mut self.buffer_ns),
            Owner::DelayedAck => Some(&mut self.late_ack_ns),
            _ => None,
        }
    }

    /// Adds the time of `chain`.
    pub fn add(&mut self, chain: &Chain) {
        match chain.cause {
            Cause::NagleDelayedAck => self.nagle_ns += chain.ns,
            Cause::SendBuffer => self.buffer_ns += chain.ns,
            Cause::DelayedAck => self.late_ack_ns += chain.ns,
            _ => {}
        }
    }
}

/// The segment that a timer repeats over and over (RFC 6298 §5.5).
#[derive(Clone, Copy, Debug, Default)]
pub struct Repeating {
    /// Position of its begin.
    start: u64,
    /// Time of its first transmission, as far as known, ns.
    pub first_ns: u64,
    /// Time of its last transmission, ns.
    last_ns: u64,
    /// Wait before that, ns.
    waited_ns: u64,
    /// A wait was twice as long as the previous one.
    pub doubles: bool,
}

impl Repeating {
    const NONE: Self = Self { start: 0, first_ns: 0, last_ns: 0, waited_ns: 0, doubles: false };

    /// Records the segment at `start`, last sent at `before_ns`, as repeated at `now_ns`. Timer
    /// granularity is small compared with its waits.
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

/// Losses, holes, closed windows and other faults of a direction.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// Holes in the order in which they were found.
    pub holes: Vec<Hole>,
    /// Position up to which everything was seen at the vantage; valid while there are holes.
    pub in_order: u64,
    /// Time at which the ACK that closed the window passed, ns; `None` if the window is open.
    pub closed_since_ns: Option<u64>,
    /// The ACK that closed the window last.
    pub closed_by: Option<Sighting>,
    /// Duplicate ACKs known to the sender.
    pub duplicates: DuplicateAcks,
    /// Packets that the path marked as Congestion Experienced (RFC 3168 §5).
    pub ecn_marked: u64,
    /// ACKs of the receiver that echo such a mark (§6.1.3).
    pub ecn_echoed: u64,
    /// An ICMP error reported a packet too big to the sender, and the data in flight then is not
    /// all acknowledged.
    pub pmtu_reported: bool,
    /// Position of the end of that data.
    pub pmtu_reported_end: u64,
    /// Position below which the sender is in recovery.
    pub recovery_end: u64,
    /// Trigger of the recovery.
    pub recovery: Option<Recovery>,
    /// The last retransmission, until it is known whether it was needed.
    pub repeated: Option<Repeated>,
    /// Timestamp and IP identification of the last retransmitted segment.
    pub repair: Option<(u32, u16)>,
    /// A loss has occurred in this direction.
    pub after_loss: bool,
    /// Greatest flight since the last loss, bytes.
    pub flight_after_loss: u64,
    /// Time at which the receiver reported that only a hole is missing, ns.
    pub all_but_hole_ns: Option<u64>,
    /// Time from then until the hole was filled without a retransmission, ns; 0 unless that just
    /// happened.
    pub hole_filled_ns: u64,
    /// Number of times that happened.
    pub late_arrivals: u32,
    /// The segment that the timer repeated last.
    pub repeating: Repeating,
    /// Cause that stands for the last repair.
    pub loss_cause: Option<Cause>,
    /// The fault that kept the sender silent so long that its congestion window was closed again,
    /// and the window before, bytes.
    pub restarted: Option<(Cause, u64)>,
    /// Evidence for and against Nagle's algorithm.
    pub nagle: NagleEvidence,
    /// Number of requests sent, while no response was awaited, at once with the late ACK of the
    /// previous data, and number of those sent some time after it.
    pub idle_holds: [u32; 2],
    /// Number of times it continued a message after a pause of its application, without an ACK.
    pub own_pauses: u32,
    /// How it went on after late ACKs.
    pub late_acks: LateAcks,
    /// See [`Waits`].
    pub waits: Waits,
    /// See [`Held`].
    pub held: Held,
    /// Greatest payload of a segment lost and repeated by timer, bytes.
    pub timed_out_len_max: u32,
    /// Length of a full segment before the first loss, bytes; 0 without a loss.
    pub full_bytes: u64,
    /// Several full segments never arrived, and were repeated by timer in shorter ones.
    pub cut_down: bool,
    /// Height of the last limiting window, bytes, and the number of consecutive times it was
    /// limiting.
    pub window_level: (u64, u32),
    /// The height that was limiting most often, bytes, and the number of times.
    pub window_level_max: (u64, u32),
    /// Height that the limiting window has not exceeded since, bytes, and the number of times it
    /// was limiting since.
    pub window_stands: (u64, u32),
    /// Number of times the window was limiting, and of those after it had been more than twice as
    /// great.
    pub window_waits: [u32; 2],
    /// Keep-alive probes sent.
    pub keep_alives: u64,
    /// Timeouts of losses before the vantage.
    pub unseen_timeouts: u32,
    /// Packets lost in these.
    pub unseen_packets: u32,
    /// D-SACKs received (RFC 2883), which report needless retransmissions.
    pub dsacks: u32,
    /// Payload sent more than once, bytes.
    pub repeated_bytes: u64,
    /// Number of retransmitted segments.
    pub rexmt_data_packets: u64,
    /// Number of these by timer.
    pub rto_count: u64,
    /// Number of these by duplicate ACKs or SACK.
    pub fast_retransmissions: u64,
    /// Number of fast retransmissions in finished exchanges.
    pub fast_counted: u64,
    /// Number of retransmissions of data that had arrived.
    pub spurious_retransmissions: u64,
    /// Segments out of order.
    pub out_of_order_packets: u64,
    /// Duplicate ACKs for its data.
    pub duplicate_acks: u64,
    /// The receiver has reported missing data.
    pub reported: bool,
    /// Zero windows offered to the sender.
    pub zero_window_advertisements: u64,
    /// Window probes sent.
    pub zero_window_probes: u64,
    /// Positions between which data was sent beyond a closed window.
    pub probed: (u64, u64),
    /// The last packets, if some were captured twice.
    pub copies: Option<Box<Copies>>,
}

impl Trouble {
    /// The state without any fault.
    pub fn none() -> &'static Self {
        static NONE: Trouble = Trouble::NONE;
        &NONE
    }

    const NONE: Self = Self {
        holes: Vec::new(),
        in_order: 0,
        closed_since_ns: None,
        closed_by: None,
        duplicates: DuplicateAcks::NONE,
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
        nagle: NagleEvidence::NONE,
        held: Held { nagle_ns: 0, buffer_ns: 0, late_ack_ns: 0 },
        idle_holds: [0; 2],
        own_pauses: 0,
        late_acks: LateAcks::NONE,
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

    /// Number of retransmissions, and number of those that were needless (RFC 2883). A loss before
    /// the vantage is counted by its timeout, since only the retransmission passed.
    pub fn repetitions(&self) -> [u64; 2] {
        [self.rexmt_data_packets + u64::from(self.unseen_timeouts), self.dsacks.into()]
    }

    /// Returns whether most retransmissions were needless.
    pub fn repeats_for_nothing(&self) -> bool {
        let [again, needless] = self.repetitions();
        2 * needless > again
    }

    /// Adds a hole at the end of the stream.
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

    /// Fills holes between `start` and `end`. If that leaves two pieces of a hole and there is
    /// room for one, the smaller is forgotten: data that fills it later counts as a
    /// retransmission.
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

    /// Fills all holes from index `first` on, if none is split into two pieces.
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

    /// Updates the position up to which everything was seen, after holes were filled.
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

    /// The work per segment is bounded by the number of holes.
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
