//! Path MTU of a direction: segment sizes that are reported or found not to pass (RFC 1191, RFC
//! 2923).

use super::Sender;
use super::history::History;
use super::sizes::SegmentSizes;
use crate::tcp::sequence::ORIGIN;
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
    pub(super) full_bytes: u64,
    /// Several full segments never arrived, and the timer repeated their data in shorter ones.
    pub(super) shortened: bool,
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
    pub(super) fn is_shorter(&self, len: u64) -> bool {
        len + OPTIONS_MAX_BYTES < self.full_bytes
    }

    /// Returns whether a segment longer than `passed`, the longest that arrived, was lost and
    /// repeated by timer, and the peer was heard after it was sent; the last ACK came at `acked_ns`.
    /// `has_acked`: the peer has acknowledged data.
    fn has_lost_longer(&self, passed: u32, acked_ns: u64, has_acked: bool) -> bool {
        let lost = self.timed_out_len_max;
        self.heard_ns.max(acked_ns) > self.sent_ns
            && lost > passed
            && u64::from(lost) > MSS_DEFAULT_BYTES
            && is_size_known(lost, passed, has_acked)
    }

    /// Returns whether no segment as long as `passed`, the longest that arrived, was a full one
    /// before the first loss: longer ones have `vanished`, or the sender shortened them.
    fn passes_only_shorter(&self, passed: u32, vanished: bool) -> bool {
        (vanished || self.shortened)
            && self.is_shorter(passed.into())
            && self.full_bytes > MSS_DEFAULT_BYTES
    }

    /// Bounds of the size limit of the path: the greatest payload that arrived and the least that
    /// is known to be lost, bytes.
    pub fn size_bracket(&self, sizes: &SegmentSizes) -> (u64, u64) {
        let passed = u64::from(sizes.acked_max());
        let lost = u64::from(self.timed_out_len_max);
        (passed, if lost > passed { lost } else { sizes.announced() })
    }
}

/// Returns whether `lost` bytes were one packet and the size of acknowledged packets, `passed`, is
/// known if the peer `has_acked` data. If the capture joins segments (receive offload), the bytes
/// are several segments of a size that arrives.
fn is_size_known(lost: u32, passed: u32, has_acked: bool) -> bool {
    let joined = u64::from(passed) >= FULL_SEGMENT_MIN_BYTES && lost.is_multiple_of(passed);
    let acked_unsized = passed == 0 && has_acked;
    !joined && !acked_unsized
}

impl Sender {
    /// Returns whether segments above a certain size time out repeatedly and only smaller ones
    /// arrive: the path MTU is smaller, and no router reports it (RFC 2923 §2.1). Segments of the
    /// default size are excluded. So is a peer from which nothing came any more: nothing shows that
    /// small segments still arrived.
    pub fn has_mtu_black_hole(&self) -> bool {
        let Some(history) = &self.history else { return false };
        let History { mtu, losses, counts, holes, .. } = &**history;
        let passed = self.sizes.acked_max();
        // If a shorter segment was sent after the lost bytes and the receiver reported nothing,
        // their size is not the reason for the loss.
        let behind = self.space.una_seen() + u64::from(mtu.timed_out_len_max);
        let is_followed = self.volume.small.ends_behind(behind, self.space.nxt)
            || self.space.fin().is_some_and(|fin| fin >= behind);
        let has_acked = self.space.una_seen() > ORIGIN + 1;
        let seen_lost = counts.rto_count >= 2
            && mtu.has_lost_longer(passed, self.una_seen_ns, has_acked)
            && (!is_followed || losses.reported);
        // Behind the loss only the retransmissions are seen: all are shorter than the earlier
        // segments, and follow packets that never arrived.
        let much =
            u64::from(passed) >= FULL_SEGMENT_MIN_BYTES || holes.bytes() >= self.sizes.smss();
        let vanished = losses.unseen_timeouts >= 1 && losses.unseen_packets >= 3;
        seen_lost || much && mtu.passes_only_shorter(passed, vanished)
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

    #[test]
    fn a_size_that_is_lost_is_known_unless_the_capture_joins_segments() {
        assert!(is_size_known(1_460, 536, true));
        assert!(!is_size_known(2 * 1_460, 1_460, true), "it is two segments that pass");
        assert!(!is_size_known(1_460, 0, true) && is_size_known(1_460, 0, false));
    }

    #[test]
    fn a_loss_shows_a_smaller_mtu_only_while_the_peer_is_heard() {
        let mut mtu = PathMtu::NONE;
        mtu.time_out(1_460, 50);
        assert!(!mtu.has_lost_longer(500, 50, true) && mtu.has_lost_longer(500, 51, true));
        mtu.hear(60);
        assert!(mtu.has_lost_longer(500, 0, true) && !mtu.has_lost_longer(1_460, 0, true));
        let mut sizes = SegmentSizes::default();
        sizes.announce(1_460, false);
        sizes.acknowledge(500);
        assert_eq!(mtu.size_bracket(&sizes), (500, 1_460));
    }
}
