//! State that only a bulk sender needs.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::judge::{self, Gap};
use crate::tcp::acks::{Ack, Offer};
use crate::tcp::ceiling::Rounds;
use crate::tcp::pipe::Pipe;

use super::pacer::Pacer;
use super::pieces::Pieces;
use super::scale::Unscaled;
use super::space::SendSpace;
use super::spacing::Spacing;
use super::unread::Unread;
use super::volume::Volume;

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
    rate_mark: Option<(u64, u64, u64)>,
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
    /// Greatest window offered, bytes, or the header's field if the scale is unknown.
    window_max: u64,
    /// The receiving application has not read most of its buffer.
    pub reader_is_behind: bool,
    /// State of the offered window while its scale is unknown.
    pub(super) unscaled: Unscaled,
    /// Distances between arriving packets.
    pub(super) spacing: Spacing,
    /// The last silences of the sender and its pace.
    pub pacer: Pacer,
    /// Sizes of the application's writes.
    pub pieces: Pieces,
    /// Waits that may be those for a reader.
    pub unread: Unread,
}

impl Near {
    /// Returns whether the time of an ACK, captured at this end of the path at `now_ns`, does not
    /// show the pace of the path. The ACK covers data sent last at `sent_ns`; `bulk` is the state of
    /// the sender of that data.
    #[inline]
    pub(super) fn is_paced(self, bulk: Option<&mut Bulk>, now_ns: u64, sent_ns: u64) -> bool {
        match self {
            Self::Sender { rtt_ns } => {
                bulk.is_some_and(|bulk| bulk.is_paced(now_ns, sent_ns, rtt_ns))
            }
            // The delay of an ACK in its own host, by a timer or a slow reader, is not the pace of
            // the path.
            Self::Receiver if sent_ns > 0 => now_ns.saturating_sub(sent_ns) >= HOST_DELAY_MAX_NS,
            _ => false,
        }
    }
}

impl Bulk {
    /// Returns two times, ns: that for which sent data kept the bottleneck busy between two times,
    /// and that for which a `message`, of which so many bytes were sent in so many ns, has kept it
    /// busy itself.
    #[inline(never)]
    pub fn busy_ns(&mut self, within: (u64, u64), message: Option<(u64, u64)>) -> (u64, u64) {
        let busy_ns = self.pipe.busy_ns(within.0, within.1);
        let rate = self.pipe.rate();
        let own_ns = message.map_or(0, |(bytes, sent_ns)| judge::own_ns(bytes, sent_ns, rate));
        (busy_ns, own_ns)
    }

    /// Processes an ACK that took effect, after data was sent up to `nxt`: it is a sample of the
    /// path's rate if it `shows_path` and is no exception.
    pub(super) fn sample_rate(&mut self, ack: &Ack, nxt: u64, shows_path: bool) {
        self.note_reader(ack);
        if let Some((una, nxt, seen_ns)) = self.rate_mark
            // The last data in flight does not count, since its ACK may be delayed.
            && ack.una < nxt
            && shows_path
            && !ack.paced
            && !self.reader_is_behind
            && !self.is_spaced_by_sender()
        {
            self.pipe.sample(ack.una - una, ack.seen_ns.saturating_sub(seen_ns));
        }
        self.rate_mark = Some((ack.una, nxt, ack.seen_ns));
    }

    /// Updates the rounds after the silence before the last departure has been judged.
    pub fn follow_rounds(&mut self, space: &SendSpace, smss: u64) {
        self.rounds.depart(space.una(), space.nxt, space.flight(), smss);
    }

    /// Returns whether the sender, and not the path, set the distance of an ACK from the previous
    /// one: it is no more than the distance between the departures that the two ACKs cover, and the
    /// path was not full. The ACK covers data sent last at `sent_ns`, with a round trip of `rtt_ns`
    /// to the receiver.
    fn is_paced(&mut self, seen_ns: u64, sent_ns: u64, rtt_ns: u64) -> bool {
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
    fn note_reader(&mut self, ack: &Ack) {
        let window = match ack.offer {
            Offer::Edge(edge) => edge.saturating_sub(ack.una),
            Offer::Field(field) => field.into(),
        };
        self.window_max = self.window_max.max(window);
        self.reader_is_behind = self.is_unread(window);
    }

    /// Returns the greatest window offered so far: bytes, or the header's field if the scale is unknown.
    pub fn widest_window(&self) -> u64 {
        self.window_max
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

    /// Returns whether the flight stood at its ceiling; `volume` is what was sent.
    pub fn stood_at_ceiling(&self, volume: &Volume) -> bool {
        volume.stood_at(self.ceiling)
    }

    /// Returns whether the sender mostly continued some time after an ACK rather than at once: a
    /// clock of its own drives it.
    pub fn has_own_clock(&self) -> bool {
        self.late_continuations > self.prompt_continuations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::FrameId;

    const MS: u64 = 1_000_000;

    fn ack(una: u64, at_ms: u64, window: u16) -> Ack {
        Ack {
            seen_ns: at_ms * MS,
            frame: FrameId::new(0, 0),
            una,
            offer: Offer::Field(window),
            payload_bytes: 0,
            duplicate: false,
            paced: false,
            tsval: 0,
        }
    }

    #[test]
    fn acks_as_far_apart_as_their_data_show_no_pace_of_the_path() {
        let mut bulk = Bulk::default();
        let near = Near::Sender { rtt_ns: 20 * MS };
        let mut is_paced = |now, sent| near.is_paced(Some(&mut bulk), now * MS, sent * MS);
        assert!(!is_paced(30, 10), "there is no ACK before it");
        assert!(is_paced(35, 15) && !is_paced(45, 16));
    }

    #[test]
    fn a_receiver_that_delays_its_ack_shows_no_pace_of_the_path() {
        let is_paced = |ns| Near::Receiver.is_paced(None, MS + ns, MS);
        assert!(is_paced(HOST_DELAY_MAX_NS) && !is_paced(HOST_DELAY_MAX_NS - 1));
        assert!(!Near::Neither.is_paced(None, u64::MAX, MS));
    }

    #[test]
    fn a_window_below_half_of_the_widest_shows_unread_data() {
        let mut bulk = Bulk::default();
        let mut is_behind = |window| {
            bulk.sample_rate(&ack(0, 1, window), 1_000, true);
            bulk.reader_is_behind
        };
        assert_eq!([10_000, 5_000, 4_999, 9_000].map(&mut is_behind), [false, false, true, false]);
    }

    #[test]
    fn acks_of_a_full_pipe_show_its_rate() {
        let rate = |shows_path| {
            let mut bulk = Bulk::default();
            for number in 0..50 {
                let una = 10_000 * number;
                bulk.sample_rate(&ack(una, 10 * number, 60_000), una + 50_000, shows_path);
            }
            bulk.pipe.rate()
        };
        let rate_of_path = rate(true).expect("a rate");
        assert!((800_000..=1_250_000).contains(&rate_of_path), "{rate_of_path}");
        assert_eq!(rate(false), None);
    }

    #[test]
    fn a_sender_that_continues_long_after_its_acks_has_a_clock_of_its_own() {
        let mut bulk = Bulk::default();
        let late = Gap { end_ns: 2 * HOST_DELAY_MAX_NS, ..Gap::default() };
        bulk.note_ceiling(9_000, &late);
        bulk.note_ceiling(8_000, &late);
        assert_eq!(bulk.ceiling, 8_000);
        assert_eq!(bulk.has_own_clock(), late.after_ack_ns() > HOST_DELAY_MAX_NS);
    }
}
