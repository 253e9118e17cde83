//! Every number that decides what a silence is attributed to, with its unit and its source.

/// Initial congestion window, segments. A message that fits into it waits for no ACK but by
/// Nagle's algorithm. Source: RFC 6928 §2.
pub const INITIAL_WINDOW_SEGMENTS: u64 = 10;

/// Initial congestion window, bytes. Data beyond it is a transfer, which can fill a queue; less
/// is a small message, which may wait in one. Source: RFC 6928 §2, with an SMSS of 1,460 bytes.
pub const INITIAL_WINDOW_BYTES: u64 = INITIAL_WINDOW_SEGMENTS * 1_460;

/// Least RTO of Linux, ns. A sender that was idle for longer restarts with the initial window
/// (RFC 5681 §4.1). Source: kernel, `TCP_RTO_MIN` in include/net/tcp.h.
pub const LINUX_RTO_MIN_NS: u64 = 200_000_000;

/// RTO before the first round-trip sample, ns; a SYN is repeated after it. Source: RFC 6298
/// §2.1.
pub const RTO_INITIAL_NS: u64 = 1_000_000_000;

/// Least delay of a delayed ACK, ns. An ACK that comes sooner was not delayed. Source: kernel,
/// `TCP_DELACK_MIN` in include/net/tcp.h (40 ms), less a tick of 4 ms.
pub const DELAYED_ACK_MIN_NS: u64 = 36_000_000;

/// Least silence beyond the round trip that ends in an RTO (RFC 6298 §2.3), and longest delay
/// of the ACK of a single segment, ns. Source: kernel, `TCP_RTO_MIN`, less a tenth for clocks
/// and hosts (judgement).
pub const RTO_MIN_NS: u64 = LINUX_RTO_MIN_NS - LINUX_RTO_MIN_NS / 10;

/// Least hold that is attributed to Nagle's algorithm, ns. Source: judgement; an ACK in a local
/// network takes as long.
pub const HOLD_FLOOR_NS: u64 = 1_000_000;

/// Number of holds after which a sender is known to use Nagle's algorithm. Source: judgement;
/// one or two may be chance.
pub const KNOWN_HOLDS: u32 = 3;

/// Least delay of an ACK that is no longer prompt, ns. Source: judgement; half of
/// `TCP_DELACK_MIN`.
pub const DELAY_FLOOR_NS: u64 = 20_000_000;

/// Number of late ACKs that ended a silence at once, after which a sender is known to wait for
/// ACKs. Source: judgement; one or two may be chance.
pub const KNOWN_WAITS: u32 = 3;

/// Least time from a segment to its retransmission, ns; a sender that waited for less did not
/// wait for a retransmission. Source: judgement; a tail loss probe waits two round trips (RFC
/// 8985 §7.2), an RTO longer.
pub const RETRANSMISSION_MIN_NS: u64 = 10_000_000;

/// Least silence before an answer whose beginning is missing, ns: its sender waited for its
/// RTO. A shorter silence means that the capture missed a packet. Source: kernel,
/// `TCP_RTO_MIN`.
pub const UNSEEN_ANSWER_NS: u64 = LINUX_RTO_MIN_NS;

/// Least time for which a closed window counts, ns. Source: judgement; a reader that is a
/// little behind.
pub const CLOSED_FLOOR_NS: u64 = 1_000_000;

/// Longest ordinary delay of a host, ns. A shorter silence needs no explanation; beyond it an
/// application paused, or a link lies between host and vantage. Source: judgement; a busy host
/// is scheduled within a millisecond.
pub const HOST_DELAY_MAX_NS: u64 = 1_000_000;

/// Usual delay of a host between an ACK and the segment that it triggers, ns. Source:
/// judgement.
pub const HOST_DELAY_NS: u64 = 500_000;

/// Upper limit of the variation allowed in proportion to a silence between an ACK and the
/// segment that it triggers, ns. Source: judgement.
pub const TRIGGER_VARIATION_MAX_NS: u64 = 1_500_000;

/// ACKs closer than this may have been processed together, ns. Source: judgement; GRO and
/// interrupt moderation of network cards.
pub const ACKS_MERGED_NS: u64 = 200_000;

/// Least queueing delay that is recorded, and least time of an exchange that may have waited in
/// a queue, ns. Source: judgement; a shorter queue is what keeps a link busy.
pub const QUEUE_DELAY_MIN_NS: u64 = 50_000_000;

/// Longest interval between two samples across which the queueing delay is interpolated, ns.
/// Source: judgement.
pub const QUEUE_SAMPLES_APART_MAX_NS: u64 = 1_000_000_000;

/// Earliest time at which Linux probes for the loss of a single segment, ns: two round trips plus
/// the longest delayed ACK (RFC 8985 §7.2).
pub fn tail_probe_ns(rtt_ns: u64) -> u64 {
    RTO_MIN_NS + 2 * rtt_ns
}
