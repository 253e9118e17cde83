//! Every number that decides what a silence is attributed to, with its unit and its source.

/// Initial congestion window, segments. A message that fits into it waits for no ACK but by Nagle's
/// algorithm. Source: RFC 6928 §2.
pub const INITIAL_WINDOW_SEGMENTS: u64 = 10;

/// Initial congestion window, bytes. Data beyond it is a transfer, which can fill a queue; less is
/// a small message, which may wait in one. Source: RFC 6928 §2, with an SMSS of 1,460 bytes.
pub const INITIAL_WINDOW_BYTES: u64 = INITIAL_WINDOW_SEGMENTS * 1_460;

/// Least RTO of Linux, ns. A sender that was idle for longer restarts with the initial window (RFC
/// 5681 §4.1). Source: kernel, `TCP_RTO_MIN` in include/net/tcp.h.
pub const LINUX_RTO_MIN_NS: u64 = 200_000_000;

/// Shortest timeout of an application, ns: a client that leaves sooner has not given up, and a
/// client that repeats a request does so within this time. Source: judgement; programs set such
/// timeouts in seconds (`keepalive_timeout`, `KeepAliveTimeout`), and wait less before they try
/// again.
pub const APPLICATION_TIMEOUT_MIN_NS: u64 = 1_000_000_000;

/// Longest RTO, ns; RFC 6298 §2.5 allows a limit of 60 s or more. Source: kernel, `TCP_RTO_MAX` in
/// include/net/tcp.h.
pub const LINUX_RTO_MAX_NS: u64 = 120_000_000_000;

/// RTO before the first round-trip sample, ns; a SYN is repeated after it. Source: RFC 6298 §2.1.
pub const RTO_INITIAL_NS: u64 = 1_000_000_000;

/// RTO before the first round-trip sample of older TCPs, ns. Source: RFC 1122 §4.2.3.1, RFC 2988 §2.1.
pub const RTO_INITIAL_OLDER_NS: u64 = 3_000_000_000;

/// Least delay of a delayed ACK, ns. An ACK that comes sooner was not delayed. Source: kernel,
/// `TCP_DELACK_MIN` in include/net/tcp.h (40 ms), less a tick of 4 ms.
pub const DELAYED_ACK_MIN_NS: u64 = 36_000_000;

/// Earliest time at which a timer sends a delayed ACK, ns: an ACK that comes sooner beyond a round trip
/// shows how long that took. Source: kernel, `TCP_DELACK_MIN` in include/net/tcp.h (40 ms), less the longest
/// tick (10 ms, `HZ=100`).
pub const ACK_TIMER_MIN_NS: u64 = 30_000_000;

/// Least silence beyond the round trip that ends in an RTO (RFC 6298 §2.3), and longest delay of
/// the ACK of a single segment, ns. Source: kernel, `TCP_RTO_MIN`, less a tenth for clocks and
/// hosts (judgement).
pub const RTO_MIN_NS: u64 = LINUX_RTO_MIN_NS - LINUX_RTO_MIN_NS / 10;

/// Number of similar cases that are a habit: of holds by Nagle's algorithm, of waits for late ACKs,
/// of closed windows, of rounds at one height, of exchanges in a queue. Source: derivation; a
/// coincidence to within an eighth (`AT_ONCE_PART`) happens three times in a row once in 512.
pub const HABIT_MIN: u32 = 3;

/// A sender that goes on by itself this many times as often as with an ACK meets ACKs by chance.
/// Source: judgement; a sender with its own pace meets one in some dozens, and a busy host is late
/// now and then.
pub const CHANCE_FACTOR: u32 = 4;

/// An event that comes after at most this part of a wait (1/8) came at once after it. Source:
/// judgement; much less excludes the delay of a host after a short wait, much more includes another
/// wait.
pub const AT_ONCE_PART: u64 = 8;

/// Two measurements of one quantity (a round trip, a timer, the height of a window) differ by less
/// than this part of it (1/8). Source: judgement; the delay of hosts and paths varies by a few per
/// cent, and what has changed (a doubled timer, an opened window) by a half or more.
pub const ALIKE_PART: u64 = 8;

/// A transmission takes up to this part (1/4) longer than its rate shows. Source: derivation; rates
/// are known to a quarter of an octave, a factor of 1.19.
pub const RATE_MARGIN_PART: u64 = 4;

/// Number of segments in flight up to which the time of an ACK says little about the path: its
/// receiver may delay the ACK of the last, and the window may be no wider. Source: RFC 5681 §3.1
/// (an initial window of 3 segments) and §3.2 (3 duplicate ACKs).
pub const FEW_SEGMENTS: u64 = 3;

/// Number of segments in flight beyond which ACKs come at the pace of the path. Source: derivation;
/// more than two ACKs of two segments each (RFC 9293 §3.8.6.3) are under way, and no timer delays
/// the first of them.
pub const CLOCKED_SEGMENTS: u64 = 4;

/// Least time from a segment to its retransmission, ns; a sender that waited for less did not wait
/// for a retransmission. Source: kernel, the least wait of a tail loss probe before Linux 4.13;
/// later ones wait two round trips and 2 ms, but after so short a silence the capture rather missed
/// a packet.
pub const RETRANSMISSION_MIN_NS: u64 = 10_000_000;

/// Longest ordinary delay of a host, ns. A shorter silence needs no explanation; beyond it an
/// application paused, or a link lies between host and vantage. Source: judgement; a busy host is
/// scheduled within a millisecond, and fast applications pause for a few.
pub const HOST_DELAY_MAX_NS: u64 = 1_000_000;

/// Usual delay of a host between an ACK and the segment that it triggers, ns. Source: derivation;
/// half of the longest.
pub const HOST_DELAY_NS: u64 = HOST_DELAY_MAX_NS / 2;

/// ACKs closer than this arrived together, ns: the state before the first of them is what limited
/// the sender. Source: judgement; network cards moderate interrupts for up to some 250 µs, and
/// round trips to another building take longer.
pub const ACK_TRAIN_NS: u64 = 300_000;

/// Least queueing delay that is recorded, and least time of an exchange that may have waited in a
/// queue, ns. Source: judgement; a shorter queue is what keeps a link busy (CoDel lets one stand
/// for 100 ms, RFC 8289 §4.3), and twice as long is what a person notices.
pub const QUEUE_DELAY_MIN_NS: u64 = 50_000_000;

/// Earliest time at which Linux probes for the loss of a single segment, ns: two round trips plus
/// the longest delayed ACK (RFC 8985 §7.2).
pub fn tail_probe_ns(rtt_ns: u64) -> u64 {
    RTO_MIN_NS + 2 * rtt_ns
}
