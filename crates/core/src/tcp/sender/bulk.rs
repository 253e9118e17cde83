//! State that only a bulk sender needs.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{self, Gap};
use crate::model::Slice;
use crate::tcp::acks::{Ack, Offer};
use crate::tcp::ceiling::Rounds;
use crate::tcp::pipe::Pipe;

use super::Sender;
use super::pacer::Pacer;
use super::pieces::Pieces;
use super::scale::Unscaled;
use super::spacing::Spacing;

/// The end of a direction at which the vantage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// The vantage is at neither end, or at both.
    Neither,
    /// The vantage is at the sender: segments pass when they are sent.
    Sender {
        /// Round trip to the receiver, ns.
        rtt_ns: u64,
    },
    /// The vantage is at the receiver: segments pass when they arrive.
    Receiver,
}

/// State of a sender that has sent more than a few segments.
#[derive(Clone, Debug, Default)]
pub struct Bulk {
    /// Model of the bottleneck.
    pub pipe: Pipe,
    /// Height of the flight, round by round.
    pub rounds: Rounds,
    /// The rounds before the last retransmission.
    pub(super) rounds_before: Rounds,
    /// Position acknowledged last, with SND.NXT and the time at that moment, for rate samples.
    pub(super) rate_mark: Option<(u64, u64, u64)>,
    /// Time at which the last ACK passed, and time at which the last data that it covers was sent,
    /// ns.
    acked_ns: (u64, u64),
    /// The last round trip to the receiver measured while more data was in flight, so that no
    /// timer delayed the ACK, ns.
    pub rtt_clocked_ns: u64,
    /// Least flight that was taken for a full send buffer, bytes; 0 if none was.
    pub(super) ceiling: u64,
    /// Number of times that the sender, after a silence longer than ordinary host delay, continued
    /// as soon as the ACK arrived.
    prompt_continuations: u32,
    /// Number of times that the sender continued some time after the ACK instead.
    late_continuations: u32,
    /// Number of times that the sender, after waiting with data in flight, continued when data of
    /// its peer arrived, and number of times it did so at another time.
    pub continuations: [u32; 2],
    /// Time at which the sender last acknowledged data of its peer, and time at which that data had
    /// passed, ns.
    pub peer_acked_ns: (u64, u64),
    /// Right edge of the offered window when it last moved by more than a little, and the position
    /// acknowledged at that time.
    pub(super) unread_since: (u64, u64),
    /// Greatest window offered, bytes, or the header's field if the scale is unknown.
    window_max: u64,
    /// The receiving application has not read most of its buffer.
    pub(super) reader_is_behind: bool,
    /// State of the offered window while its scale is unknown.
    pub(super) unscaled: Unscaled,
    /// Distances between arriving packets.
    pub(super) spacing: Spacing,
    /// The last silences of the sender and its pace.
    pub pacer: Pacer,
    /// Sizes of the application's writes.
    pub(super) pieces: Pieces,
    /// Slices of silences since `unread_since`.
    pub(super) unread: Vec<Slice>,
}

impl Sender {
    /// Returns three times, ns: the time for which sent data kept the bottleneck busy between two
    /// times; the part of it for which a request waited there, whose ACK was `late_ns` late; and
    /// the time for which a message that began at the position and time of `began` has kept the
    /// bottleneck busy itself.
    #[inline(never)]
    pub fn busy_ns(
        &mut self,
        (start_ns, end_ns): (u64, u64),
        late_ns: u64,
        began: Option<(u64, u64)>,
    ) -> (u64, u64, u64) {
        let (nxt, last_ns) = (self.space.nxt, self.last.time_ns);
        let Some(bulk) = &mut self.bulk else { return (0, 0, 0) };
        let busy_ns = bulk.pipe.busy_ns(start_ns, end_ns);
        let rate = bulk.pipe.rate();
        let own_ns = began.map_or(0, |(from, at_ns)| {
            judge::own_ns(nxt.saturating_sub(from), last_ns.saturating_sub(at_ns), rate)
        });
        (busy_ns, late_ns.min(busy_ns), own_ns)
    }
}

impl Bulk {
    /// Returns whether the sender, and not the path, set the distance of an ACK from the previous
    /// one: it is no more than the distance between the departures that the two ACKs cover, and the
    /// path was not full. The ACK covers data sent last at `sent_ns`, with a round trip of `rtt_ns`
    /// to the receiver.
    pub(super) fn is_paced(&mut self, seen_ns: u64, sent_ns: u64, rtt_ns: u64) -> bool {
        let (seen_before_ns, sent_before_ns) =
            std::mem::replace(&mut self.acked_ns, (seen_ns, sent_ns));
        if sent_ns == 0 || sent_before_ns == 0 {
            return false;
        }
        let apart_ns = seen_ns.saturating_sub(seen_before_ns);
        let is_spread = 4 * sent_ns.saturating_sub(sent_before_ns) < 3 * apart_ns;
        let queued_ns = seen_ns.saturating_sub(sent_ns).saturating_sub(rtt_ns);
        !is_spread && 2 * queued_ns < apart_ns
    }

    /// Records the window that an ACK offers. While most of a buffer is unread, ACKs come at the
    /// pace of the reader, not the path's.
    pub(super) fn note_reader(&mut self, ack: &Ack) {
        let window = match ack.offer {
            Offer::Edge(edge) => edge.saturating_sub(ack.una),
            Offer::Field(field) => field.into(),
        };
        self.window_max = self.window_max.max(window);
        self.reader_is_behind = self.is_unread(window);
    }

    /// Returns whether an offered `window` shows most of a buffer to be unread. An application that
    /// reads what arrives keeps the window as wide as before, since a receiver does not take back
    /// what it has offered (RFC 9293 §3.8.6).
    pub(super) fn is_unread(&self, window: u64) -> bool {
        2 * window < self.window_max
    }

    /// Records that a flight of `bytes` was taken for a full send buffer in `gap`.
    pub fn note_ceiling(&mut self, bytes: u64, gap: &Gap) {
        self.ceiling = if self.ceiling == 0 { bytes } else { self.ceiling.min(bytes) };
        let prompt = gap.after_ack_ns() <= HOST_DELAY_MAX_NS;
        let long = gap.len_ns() >= HOST_DELAY_MAX_NS;
        self.prompt_continuations += u32::from(long && prompt);
        self.late_continuations += u32::from(long && !prompt);
    }

    /// Records that the buffer had been full in `gap`, as later data showed: the buffer holds as
    /// much as the greatest flight.
    pub fn note_full_buffer(&mut self, gap: &Gap) {
        let height = self.rounds.emptied();
        self.ceiling = self.ceiling.max(height).max(gap.flight.before);
        self.note_ceiling(self.ceiling, gap);
    }

    /// Returns whether the sender mostly continued some time after an ACK rather than at once: a
    /// clock of its own drives it.
    pub fn has_own_clock(&self) -> bool {
        self.late_continuations > self.prompt_continuations
    }
}
