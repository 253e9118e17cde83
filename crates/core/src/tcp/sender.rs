//! One direction of a connection: the data that its sender sent, what the sender knows, and what it
//! waits for.

mod ack_clock;
mod bulk;
mod copies;
mod departure;
mod habits;
mod history;
mod holes;
mod in_gap;
mod loss_state;
mod losses;
mod nagle_history;
mod pacer;
mod packet_count;
mod packets;
mod path_mtu;
mod pieces;
mod repeats;
mod restart;
mod rtt;
mod scale;
mod since;
mod sizes;
mod space;
mod spacing;
mod stamp;
mod steady;
mod stream;
mod unread;
mod volume;
mod waits;
mod window;
mod window_history;

pub(super) use ack_clock::reports_hole;
pub use since::{SinceDeparture, StoredSince};
pub(super) use stamp::{Stamp, too_early};
pub(super) use steady::LoneSegment;
pub(super) use stream::Rtts;

use crate::judge::Recovery;
use crate::model::DirectionReport;
use crate::tcp::acks::PendingAcks;
use crate::tcp::clock::SenderClock;
use crate::tcp::sent::SentLog;
use crate::wire::Side;
pub use bulk::{Bulk, Near};
pub(crate) use copies::Copies;
pub use departure::Departure;
use habits::Habits;
pub(super) use history::History;
pub use loss_state::Tail;
pub use nagle_history::Held;
use packets::Packets;
pub use restart::{burst_opened_by, window_opened_by};
use rtt::RttSamples;
use sizes::SegmentSizes;
pub use space::SendSpace;
use volume::Volume;

/// Classification of a segment with payload by its position in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data not seen before, at the end of the stream.
    New,
    /// Data that was seen before.
    Retransmission(Recovery),
    /// Data that fills a hole: the original was lost before the vantage.
    Fill(Recovery),
    /// Data that fills a hole: later data overtook it.
    Reordered,
    /// Data that its own retransmission overtook.
    Late,
    /// A probe of a closed window (RFC 9293 §3.8.6.1) or keep-alive (§3.8.4).
    Probe,
}

impl Kind {
    /// Returns whether a timer sent it again.
    fn is_by_timer(self) -> bool {
        matches!(self, Self::Retransmission(Recovery::Timer) | Self::Fill(Recovery::Timer))
    }
}

/// One direction of a connection: the sender's state, on the sender's clock. Every open connection
/// has two, so rarely needed parts are boxed, and only the lower half is stored of positions near
/// `nxt`.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// The side that sends.
    side: Side,
    /// What its earlier segments have shown.
    pub habits: Habits,
    /// Positions in its stream.
    pub space: SendSpace,
    /// Lengths of the sender's segments.
    pub sizes: SegmentSizes,
    /// Time at which the highest ACK passed the vantage, ns.
    pub una_seen_ns: u64,
    /// ACKs that passed the vantage and have not yet taken effect at the sender.
    pub pending: PendingAcks,
    /// The last data departure.
    pub last: Departure,
    /// State since the last departure.
    pub since: StoredSince,
    /// Round-trip samples between the vantage and the receiver.
    pub rtts: RttSamples,
    /// The last packet, with data or without.
    pub packets: Packets,
    /// Comparison of the sender's timestamp clock with the capture's clock.
    pub clock: SenderClock,
    /// The last segments sent; a timeout clears the log.
    sent: SentLog,
    /// What was sent.
    pub volume: Volume,
    /// State of a bulk sender; `None` until enough data was in flight.
    pub bulk: Option<Box<Bulk>>,
    /// Losses and other faults, if there were any.
    history: Option<Box<History>>,
}

/// Size of the state that every direction has.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Sender>() <= 312);

impl Sender {
    /// Returns whether the peer acknowledged the FIN.
    pub fn has_told_its_end(&self) -> bool {
        self.space.fin().is_some_and(|fin| self.space.una_seen() > fin)
    }

    /// Creates the state of a direction whose data `side` sends.
    pub fn of(side: Side) -> Self {
        Self { side, ..Self::default() }
    }

    /// Records that `side` is the sender: client and server turned out to be the other way round.
    pub fn set_side(&mut self, side: Side) {
        self.side = side;
        if let Some(history) = &mut self.history {
            history.set_side(side);
        }
        if !self.since.is_empty() {
            let first = &mut self.since.stored_mut().probes.first;
            first.iter_mut().for_each(|probe| probe.from = side);
        }
    }

    /// Resets all but the packet counts, for a connection that starts again.
    pub fn reset(&mut self) {
        let Self { side, packets, volume: Volume { packets: count, .. }, .. } =
            std::mem::take(self);
        let volume = Volume { packets: count, ..Volume::default() };
        *self = Self { side, packets, volume, ..Self::default() };
    }

    /// Processes a step of the capture's clock.
    pub fn clock_stepped(&mut self) {
        self.clock.stop_using();
        self.rtts.stop();
    }

    /// Returns whether the sender has only the state that every sender has.
    #[inline]
    fn is_calm(&self) -> bool {
        self.history.is_none() && self.bulk.is_none() && self.since.is_empty()
    }

    /// Returns whether a loss or another fault ever occurred.
    #[inline]
    pub fn is_troubled(&self) -> bool {
        self.history.is_some()
    }

    /// Losses and other faults so far.
    pub fn history(&self) -> &History {
        self.history.as_deref().unwrap_or(History::none())
    }

    /// Returns the history for changes; creates it if there is none.
    #[cold]
    #[inline(never)]
    pub fn history_mut(&mut self) -> &mut History {
        self.history.get_or_insert_default()
    }

    /// Counts for the report, without sizes and round trips.
    pub fn counts(&self) -> DirectionReport {
        let (counts, window) = (&self.history().counts, &self.history().window);
        DirectionReport {
            packets: self.volume.packets,
            actual_data_bytes: self.volume.unique_bytes + counts.repeated_bytes,
            unique_bytes: self.volume.unique_bytes,
            rexmt_data_packets: counts.rexmt_data_packets,
            rto_count: counts.rto_count,
            fast_retransmissions: counts.fast_retransmissions,
            spurious_retransmissions: counts.spurious_retransmissions,
            out_of_order_packets: counts.out_of_order_packets,
            duplicate_acks: counts.duplicate_acks,
            zero_window_advertisements: window.zero_advertisements,
            zero_window_probes: window.probes,
            flight_size_max_bytes: u64::from(self.volume.flight_max),
            ..DirectionReport::default()
        }
    }

    /// Releases memory that is not in use.
    pub fn shrink(&mut self) {
        self.pending.shrink();
        self.sent.shrink();
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.pending.heap_bytes()
            + self.since.heap_bytes()
            + self.history.as_ref().map_or(0, |it| size_of::<History>() + it.heap_bytes())
            + self.sent.heap_bytes()
            + self.bulk.as_ref().map_or(0, |_| size_of::<Bulk>())
    }
}
