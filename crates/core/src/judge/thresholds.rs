//! Every number that decides what a silence is taken for, with its unit and its source.

/// Initial window in segments (RFC 6928 §2).
pub const INITIAL_WINDOW_SEGMENTS: u64 = 10;

/// Initial window in bytes with an SMSS of 1,460 (RFC 6928 §2). A message up to this size waits for no
/// ACK but by Nagle's algorithm.
pub const INITIAL_WINDOW_BYTES: u64 = INITIAL_WINDOW_SEGMENTS * 1_460;

/// Linux's least RTO, ns (`TCP_RTO_MIN` in include/net/tcp.h). Nothing is sent again by the timer sooner; a
/// sender that was idle for longer begins with the initial window again (RFC 5681 §4.1).
pub const LINUX_RTO_MIN_NS: u64 = 200_000_000;

/// RTO before the path has been measured, ns (RFC 6298 §2.1); a SYN is repeated after it.
pub const RTO_INITIAL_NS: u64 = 1_000_000_000;

/// An ACK that comes sooner than this was not delayed, and one that was kept for longer was, however long the
/// path is, ns: the shortest delayed-ACK timer is 40 ms (`TCP_DELACK_MIN` in include/net/tcp.h), less a tick
/// of 4 ms.
pub const DELAYED_ACK_MIN_NS: u64 = 36_000_000;

/// Linux's least RTO beyond the round trip (RFC 6298 §2.3), and the longest delay of the ACK of a
/// single segment, less a tenth for clocks and hosts, ns.
pub const RTO_MIN_NS: u64 = LINUX_RTO_MIN_NS - LINUX_RTO_MIN_NS / 10;

/// A hold shorter than this is not worth a name: a prompt ACK in a local network.
pub const HOLD_FLOOR_NS: u64 = 1_000_000;

/// Holds after which a sender is known to use Nagle's algorithm.
pub const KNOWN_HOLDS: u32 = 3;

/// Delayed-ACK timers start at 40 ms (Linux); half of it is not a prompt ACK any more.
pub const DELAY_FLOOR_NS: u64 = 20_000_000;

/// Late ACKs that ended a silence at once, after which a sender is known to wait for them.
pub const KNOWN_WAITS: u32 = 3;

/// Least silence before a sender that went on with the answer to a repetition had waited for it: two
/// delayed round trips of a tail-loss probe are longer, and so is every RTO.
pub const UNSEEN_FLOOR_NS: u64 = 10_000_000;

/// The same where the beginning of an answer is missing: nothing of it came, so that its sender
/// waited for its RTO, and that of Linux, whose packets are counted, is no shorter; nor is the
/// tail-loss probe of one packet alone (RFC 8985 §7.2). What is missing for less than that is a
/// packet that the capture missed, a pure ACK say.
pub const UNSEEN_ANSWER_NS: u64 = LINUX_RTO_MIN_NS;

/// A window closed for less than this is a reader that is a little behind.
pub const CLOSED_FLOOR_NS: u64 = 1_000_000;

/// An end that takes less than this is a busy host.
pub const OWN_MIN_NS: u64 = 1_000_000;

/// Earliest time at which Linux probes for the loss of a single segment, ns: two round trips plus
/// the longest delayed ACK (RFC 8985 §7.2).
pub fn tail_probe_ns(rtt_ns: u64) -> u64 {
    RTO_MIN_NS + 2 * rtt_ns
}
