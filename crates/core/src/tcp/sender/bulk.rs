//! What only a sender of bulk needs.

use crate::cause::{self, Slice};
use crate::tcp::acks::{Ack, Offer};
use crate::tcp::ceiling::Rounds;
use crate::tcp::gap::Gap;
use crate::tcp::pipe::Pipe;

use super::Sender;
use super::pacer::Pacer;
use super::pieces::Pieces;
use super::scale::Unscaled;
use super::spacing::Spacing;

/// What a kernel takes to send what an ACK has made room for, and what its estimated arrival may be
/// off, at best.
const PROMPT_NS: u64 = 1_000_000;

/// Which end of a direction the capture is beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// Neither, or both.
    Neither,
    /// The sender's: when it passes is when it leaves. The round trip to the receiver, ns.
    Sender {
        /// See there.
        rtt_ns: u64,
    },
    /// The receiver's: when it passes is when it arrives.
    Receiver,
}

/// State of a sender that has sent more than a few segments.
#[derive(Clone, Debug, Default)]
pub struct Bulk {
    /// The bottleneck.
    pub pipe: Pipe,
    /// The flight, round by round.
    pub rounds: Rounds,
    /// The same before the last repetition.
    pub(super) rounds_before: Rounds,
    /// Last acknowledged position, window and time for rate samples.
    pub(super) rate_mark: Option<(u64, u64, u64)>,
    /// When the last ACK passed, and when the last of what it covers was sent, ns.
    acked_ns: (u64, u64),
    /// The last round trip to the receiver that was taken while more was under way, so that no
    /// timer held the ACK back, ns.
    pub rtt_clocked_ns: u64,
    /// The least height at which its flight was taken for a full send buffer's, bytes; 0 if never.
    pub(super) ceiling: u64,
    /// How often it went on, after more than a busy host takes, as soon as the ACK was there, and how
    /// often some time after it.
    prompt_stands: u32,
    late_stands: u32,
    /// How often it went on, after a flight that was held up, as words of its peer had come, and how often
    /// with an ACK.
    pub went_on: [u32; 2],
    /// When it last acknowledged words of its peer, and when these had passed, ns.
    pub answered_ns: (u64, u64),
    /// The right edge of the offered window where it last moved by more than a little, and what was
    /// acknowledged then.
    pub(super) unread_since: (u64, u64),
    /// The widest window that was offered: bytes, or the header's field where its scale is not known.
    window_max: u64,
    /// The receiving application has not read most of what it has room for.
    pub(super) reader_is_behind: bool,
    /// The offered window where its scale is not known.
    pub(super) unscaled: Unscaled,
    /// How far apart its packets arrive.
    pub(super) spacing: Spacing,
    /// Its last silences.
    pub pacer: Pacer,
    /// What its application writes at a time.
    pub(super) pieces: Pieces,
    /// What silences were put down to since then.
    pub(super) unread: Vec<Slice>,
}

impl Sender {
    /// How long the pipe was busy between two times with what was sent; for how much of that a
    /// question stood in it whose ACK was so late; and how long one that began at a position and time
    /// has kept it busy itself, ns.
    #[inline(never)]
    pub fn busy_ns(
        &mut self,
        (start_ns, end_ns): (u64, u64),
        late_ns: u64,
        asked_since: Option<(u64, u64)>,
    ) -> (u64, u64, u64) {
        let (nxt, last_ns) = (self.nxt, self.last.time_ns);
        let Some(bulk) = &mut self.bulk else { return (0, 0, 0) };
        let busy_ns = bulk.pipe.busy_ns(start_ns, end_ns);
        let rate = bulk.pipe.rate();
        let own_ns = asked_since.map_or(0, |(from, at_ns)| {
            cause::own_ns(nxt.saturating_sub(from), last_ns.saturating_sub(at_ns), rate)
        });
        (busy_ns, late_ns.min(busy_ns), own_ns)
    }
}

impl Bulk {
    /// An ACK of what was sent last at `sent_ns` passes, where that was `rtt_ns` from the receiver and
    /// back. Whether its distance from the one before is no more than what lay between the departures
    /// of what they cover, though the path was not full: the sender made it, and not the path.
    pub(super) fn is_paced(&mut self, seen_ns: u64, sent_ns: u64, rtt_ns: u64) -> bool {
        let (seen_before_ns, sent_before_ns) =
            std::mem::replace(&mut self.acked_ns, (seen_ns, sent_ns));
        if sent_ns == 0 || sent_before_ns == 0 {
            return false;
        }
        let apart_ns = seen_ns.saturating_sub(seen_before_ns);
        let spread = 4 * sent_ns.saturating_sub(sent_before_ns) < 3 * apart_ns;
        let queued_ns = seen_ns.saturating_sub(sent_ns).saturating_sub(rtt_ns);
        !spread && 2 * queued_ns < apart_ns
    }

    /// Takes the window that an ACK offers. While most of a buffer is unread, ACKs come at the pace of who
    /// reads, not the path's.
    pub(super) fn note_reader(&mut self, ack: &Ack) {
        let window = match ack.offer {
            Offer::Edge(edge) => edge.saturating_sub(ack.una),
            Offer::Field(field) => field.into(),
        };
        self.window_max = self.window_max.max(window);
        self.reader_is_behind = self.is_unread(window);
    }

    /// Whether an offered `window` shows most of a buffer to be unread. An application that reads what comes
    /// leaves it as wide as it was, for no receiver takes back what it has offered (RFC 9293 §3.8.6).
    pub(super) fn is_unread(&self, window: u64) -> bool {
        2 * window < self.window_max
    }

    /// A flight of `bytes` was taken for a full send buffer in that silence.
    pub fn stand_at(&mut self, bytes: u64, gap: &Gap) {
        self.ceiling = if self.ceiling == 0 { bytes } else { self.ceiling.min(bytes) };
        let prompt = gap.after_ack_ns() <= PROMPT_NS + gap.rtt_sender_ns / 32;
        let long = gap.len_ns() >= PROMPT_NS;
        self.prompt_stands += u32::from(long && prompt);
        self.late_stands += u32::from(long && !prompt);
    }

    /// What followed that silence showed that its buffer had been full: it takes as much as has ever been
    /// under way.
    pub fn was_full(&mut self, gap: &Gap) {
        let height = self.rounds.emptied();
        self.ceiling = self.ceiling.max(height).max(gap.flight_before);
        self.stand_at(self.ceiling, gap);
    }

    /// Whether it mostly went on some time after an ACK, and not as soon as that was there: it has a
    /// clock of its own.
    pub fn is_clocked(&self) -> bool {
        self.late_stands > self.prompt_stands
    }
}
