//! Path MTU of a direction: segment sizes that are reported or found not to pass (RFC 1191, RFC
//! 2923).

use super::Sender;
use crate::tcp::sequence::{ORIGIN, widen};
use crate::tcp::thresholds::{FULL_SEGMENT_MIN_BYTES, MSS_DEFAULT_BYTES, OPTIONS_MAX_BYTES};

/// Evidence from losses and ICMP errors about the segment sizes that pass.
#[derive(Clone, Copy, Debug)]
pub struct PathMtu {
    /// An ICMP error reported to the sender that a packet was too big, and not all data that was in
    /// flight at that time is acknowledged.
    pub reported: bool,
    /// Position of the end of that data.
    reported_end: u64,
    /// Greatest payload of a segment that was lost and repeated by timer, bytes.
    timed_out_len_max: u32,
    /// Time at which that segment was sent first, ns; 0 if unknown.
    sent_ns: u64,
    /// Time of the last segment of the peer, ns.
    heard_ns: u64,
    /// Length of a full segment before the first loss, bytes; 0 without a loss.
    full_bytes: u64,
    /// Several full segments never arrived, and the timer repeated their data in shorter ones.
    shortened: bool,
}

impl PathMtu {
    pub const NONE: Self = Self {
        reported: false,
        reported_end: 0,
        timed_out_len_max: 0,
        sent_ns: 0,
        heard_ns: 0,
        full_bytes: 0,
        shortened: false,
    };

    /// Records an ICMP error which reports that a packet was too big, with data in flight up to
    /// `nxt`.
    pub fn report(&mut self, nxt: u64) {
        (self.reported, self.reported_end) = (true, nxt);
    }

    /// Records that SND.UNA advanced to `una`.
    pub fn advance(&mut self, una: u64) {
        self.reported &= una < self.reported_end;
    }

    /// Records that the timer repeats a segment of `len` bytes, which was sent at `sent_ns`.
    pub fn time_out(&mut self, len: u32, sent_ns: u64) {
        if len > self.timed_out_len_max {
            (self.timed_out_len_max, self.sent_ns) = (len, sent_ns);
        }
    }

    /// Records a segment of the peer.
    pub fn hear(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
    }

    /// Records the length of a full segment at the first loss.
    pub fn note_full(&mut self, bytes: u64) {
        if self.full_bytes == 0 {
            self.full_bytes = bytes;
        }
    }

    /// Returns whether `len` bytes are less than a full segment before the first loss, whatever
    /// options both have.
    fn is_shorter(&self, len: u64) -> bool {
        len + OPTIONS_MAX_BYTES < self.full_bytes
    }
}

impl Sender {
    /// Records the length of a full segment at the first loss.
    pub(super) fn note_full_segment(&mut self) {
        let full = self.smss();
        self.history_mut().mtu.note_full(full);
    }

    /// Recognises a sender that shortens its segments: a timer fills a hole of several full
    /// segments from `start` on, beginning with `len` bytes.
    pub(super) fn note_shortened(&mut self, start: u64, len: u64) {
        let history = self.history_mut();
        let full = history.mtu.full_bytes.max(1);
        history.mtu.shortened |=
            history.mtu.is_shorter(len) && history.holes.is_of_full_segments(start, full);
    }

    /// Returns whether segments above a certain size time out repeatedly and only smaller ones
    /// arrive: the path MTU is smaller, and no router reports it (RFC 2923 §2.1). Segments of the
    /// default size are excluded. So is a peer from which nothing came any more: nothing shows that
    /// small segments still arrived.
    pub fn has_mtu_black_hole(&self) -> bool {
        let Some(history) = &self.history else { return false };
        let (mtu, losses) = (&history.mtu, &history.losses);
        let lost = mtu.timed_out_len_max;
        let heard_ns = mtu.heard_ns.max(self.una_seen_ns);
        let seen_lost = heard_ns > mtu.sent_ns
            && lost > self.sizes.acked_max()
            && u64::from(lost) > MSS_DEFAULT_BYTES
            && history.counts.rto_count >= 2
            && self.size_is_known(lost.into())
            && !self.lacks_report_for_shorter(lost.into());
        // Behind the loss only the retransmissions are seen: all are shorter than the earlier
        // segments, and follow packets that never arrived.
        let longest = u64::from(self.sizes.acked_max());
        let never_full = mtu.is_shorter(longest);
        let much = longest >= FULL_SEGMENT_MIN_BYTES || self.unseen_bytes() >= self.smss();
        let vanished = losses.unseen_timeouts >= 1 && losses.unseen_packets >= 3;
        let shortened =
            (vanished || mtu.shortened) && never_full && much && mtu.full_bytes > MSS_DEFAULT_BYTES;
        seen_lost || shortened
    }

    /// Returns whether `lost` bytes were one packet and the size of acknowledged packets is known.
    /// If the capture joins segments (receive offload), the bytes are several segments of a size
    /// that arrives.
    fn size_is_known(&self, lost: u64) -> bool {
        let passed = u64::from(self.sizes.acked_max());
        let joined = passed >= FULL_SEGMENT_MIN_BYTES && lost.is_multiple_of(passed);
        let acked_unsized = passed == 0 && self.space.una_seen() > ORIGIN + 1;
        !joined && !acked_unsized
    }

    /// Returns whether a shorter segment was sent after the `lost` bytes and the receiver reported
    /// nothing: then their size is not the reason for the loss.
    fn lacks_report_for_shorter(&self, lost: u64) -> bool {
        let behind = self.space.una_seen() + lost;
        let small = self.small_end.is_some_and(|end| widen(end.get(), self.space.nxt) > behind);
        let closes = self.space.fin().is_some_and(|fin| fin >= behind);
        (small || closes) && !self.history().losses.reported
    }

    /// Bounds of the size limit of the path: the greatest payload that arrived and the least that
    /// is known to be lost, bytes.
    pub fn size_bracket(&self) -> (u64, u64) {
        let passed = u64::from(self.sizes.acked_max());
        let lost = u64::from(self.history().mtu.timed_out_len_max);
        (passed, if lost > passed { lost } else { self.sizes.announced() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_holds_until_the_data_in_flight_has_arrived() {
        let mut mtu = PathMtu::NONE;
        mtu.report(5_000);
        mtu.advance(4_999);
        assert!(mtu.reported);
        mtu.advance(5_000);
        assert!(!mtu.reported);
    }

    #[test]
    fn segments_shortened_by_an_option_are_no_sign_of_a_smaller_mtu() {
        let mut mtu = PathMtu::NONE;
        mtu.note_full(1_460);
        mtu.note_full(1_000);
        assert!(!mtu.is_shorter(1_448) && mtu.is_shorter(1_300), "the first length counts");
    }

    #[test]
    fn a_tunnel_shortens_segments_by_more_than_options() {
        let mut mtu = PathMtu::NONE;
        mtu.note_full(1_460);
        let (with_sack, in_vxlan) = (1_460 - 36, 1_460 - 50);
        assert!(!mtu.is_shorter(with_sack) && mtu.is_shorter(in_vxlan));
    }
}
