//! Every number of this layer that decides how a connection is understood, with its unit and
//! its source. Bounds of memory stand beside what they bound.

use crate::judge::thresholds::RTO_MIN_NS;

/// Number of rounds at one height of the flight that make a ceiling. Source: judgement.
pub const CEILING_LEVEL_ROUNDS: u32 = 3;

/// Number of such rounds if the sender had nothing more buffered each time, though more data
/// followed: an opening window holds back data that is buffered. Source: judgement; a single
/// such round may be a write that fitted.
pub const CEILING_DRAINED_ROUNDS: u32 = 2;

/// Number of rounds without a new greatest peak after which that peak is a ceiling. Source:
/// judgement.
pub const CEILING_SPENT_ROUNDS: u32 = 7;

/// Most consecutive rounds below the ceiling that count as pauses. Source: judgement.
pub const CEILING_LOW_ROUNDS: u32 = 3;

/// Tick of the timestamp clock on current systems, ns. Older ones tick every 4, 10, 100 or 500
/// ms. Source: kernel, `TCP_TS_HZ`; RFC 7323 §5.4 allows 1 ms to 1 s.
pub const TIMESTAMP_TICK_NS: u64 = 1_000_000;

/// Time after which the ticks show the rate of the timestamp clock, ns. Source: judgement.
pub const TIMESTAMP_PROOF_NS: u64 = 100_000_000;

/// Number of ticks after which a clock faster than milliseconds is recognised. Source:
/// judgement.
pub const TIMESTAMP_PROOF_TICKS: u32 = 200;

/// Drift allowed between a timestamp clock and the clock of the capture, parts per million. Source:
/// judgement.
pub const TIMESTAMP_DRIFT_PPM: i64 = 200;

/// Departures closer than this need no explanation, ns. Source: judgement; the time that a
/// kernel takes to send the next packet.
pub const KERNEL_SEND_NS: u64 = 30_000;

/// A SYN that follows a RST sooner than this was sent before it, ns. Source: judgement.
pub const SYN_AFTER_RST_MIN_NS: u64 = 10_000_000;

/// Longest delay of a delayed ACK, ns. Source: kernel, `TCP_DELACK_MAX` in include/net/tcp.h
/// (200 ms), with a margin of 10 ms.
pub const DELAYED_ACK_MAX_NS: u64 = 210_000_000;

/// Usual delay of a delayed ACK, ns. Source: kernel, `TCP_DELACK_MIN` (40 ms), with a margin of
/// 5 ms.
pub const DELAYED_ACK_NS: u64 = 45_000_000;

/// Longest delay of an ACK that the standard allows, ns; every second full segment is
/// acknowledged at once. Round trips measured on data may exceed those of the handshake by this
/// much. Source: RFC 9293 §3.8.6.3.
pub const ACK_WITHIN_NS: u64 = 500_000_000;

/// Longest base round trip of a connection on the fast path, on which messages are acknowledged
/// within the limit of RFC 9293, ns. Source: judgement.
pub const STEADY_RTT_MAX_NS: u64 = ACK_WITHIN_NS / 5;

/// A segment follows at once if it comes after at most this fraction of the wait before it
/// (1/8). Source: judgement.
pub const AT_ONCE_PART: u64 = 8;

/// A gap shorter than this fraction of a round trip (1/4) lies within a train of ACKs. Source:
/// judgement.
pub const ACK_TRAIN_PART: u64 = 4;

/// Least queueing delay that may come from a step of the clock, ns. Source: judgement; a
/// shorter queue may exist in both directions, and a smaller step does little harm.
pub const CLOCK_STEP_MIN_NS: u64 = 100_000_000;

/// Greatest difference between two clocks about the same step, ns. Source: judgement; two
/// clocks that tick in milliseconds.
pub const CLOCK_STEP_SAME_NS: u64 = 4_000_000;

/// Longest time between a TCP or TLS handshake and a request that waited for it, ns. Source:
/// judgement; after a longer time the connection came from a pool or was opened in advance.
pub const HANDSHAKE_WAITED_FOR_NS: u64 = 100_000_000;

/// A SYN-ACK that passes this long after the client's ACK can have reached the server did not
/// cross that ACK, ns. Source: judgement.
pub const SYN_ACK_CROSSED_MAX_NS: u64 = 150_000_000;

/// Time after which an unacknowledged SYN-ACK is repeated, ns. Source: RFC 6298 §2.1 (1 s),
/// with a margin of 0.3 s.
pub const SYN_ACK_AGAIN_NS: u64 = 1_300_000_000;

/// A receiver that closes its window fewer times than this was late only occasionally. Source:
/// judgement.
pub const CLOSED_OFTEN: u32 = 3;

/// Rate of a pacing sender, in tenths of a window per round trip. Source: draft-ietf-ccwg-bbr
/// §5.3.1: 1/ln 2 lets a window double in each round trip; for other algorithms Linux uses 1.2
/// to 2 (`tcp_pacing_ca_ratio`, `tcp_pacing_ss_ratio`).
pub const PACE_TENTHS: u128 = 14;

/// Longest credible round trip, ns. Source: judgement; a longer sample comes from a clock that
/// was set or from a missing packet.
pub const RTT_MAX_NS: u64 = 60_000_000_000;

/// Below this round trip the vantage is on the host itself, ns. Source: judgement.
pub const VANTAGE_ON_HOST_NS: u64 = 60_000;

/// Shortest pause within a response that is examined, ns. Source: judgement; a shorter one is
/// work of the server in any case.
pub const STREAM_PAUSE_MIN_NS: u64 = 20_000_000;

/// Number of pauses in one response that make it a stream, if the client did not react after
/// them. Source: judgement.
pub const STREAM_PAUSES: u32 = 2;

/// Least number of sampled bytes that give a rate of the link. Source: judgement.
pub const RATE_BYTES_MIN: u64 = 8_000;

/// Least path time of an exchange that counts in a row of exchanges, ns: saving a shorter round
/// trip gains nothing worth reporting. Source: judgement; no fault has so small a cost.
pub const ROW_PATH_MIN_NS: u64 = 1_000_000;

/// Least wait after which a loss repaired without duplicate ACKs counts as found by a timer,
/// ns. Source: judgement; Linux's RTO is at least 200 ms, its tail loss probe waits two round
/// trips.
pub const TIMER_MIN_NS: u64 = 2_000_000;

/// ACKs closer than this arrived together, ns: the state before the first of them is what
/// limited the sender. Source: judgement.
pub const ACK_TRAIN_NS: u64 = 300_000;

/// Greatest window, bytes. A stream that announces a position further ahead is another stream.
/// Source: RFC 7323 §2.3.
pub const WINDOW_MAX_BYTES: u64 = 1 << 30;

/// Most that Linux puts into one buffer of a socket's queue, bytes; the limit of the queue may
/// be exceeded by one buffer. Source: kernel, `GSO_MAX_SIZE` in include/linux/netdevice.h.
pub const SKB_MAX_BYTES: u64 = 1 << 16;

/// Longest delay of a copy of a packet that is recognised by its header alone, ns. Source:
/// judgement; retransmissions take longer.
pub const COPY_DELAY_MAX_NS: u64 = 2_000_000;

/// Longest delay of a copy whose IP identification is equal as well, ns. Source: judgement;
/// more than the delay of a switch; some middleboxes give retransmissions the same number.
pub const NUMBERED_COPY_DELAY_MAX_NS: u64 = 20_000_000;

/// Longest delay of the copy of a SYN, or of a copy whose TTL differs because of a router in
/// between, ns. Source: kernel, `TCP_RTO_MIN`: no timer of TCP is shorter.
pub const ROUTED_COPY_DELAY_MAX_NS: u64 = RTO_MIN_NS;

/// A silence this many times longer than the round trip to the sender does not end just after
/// an ACK by chance. Source: judgement.
pub const SILENCE_BY_CHANCE_FACTOR: u64 = 16;

/// Longest time by which an ACK may have reached the sender sooner than estimated, besides a
/// part of the path, ns. Source: judgement.
pub const ACK_EARLY_MAX_NS: u64 = 300_000;

/// Margin of the estimated minimum round trip, besides a part of it, ns. Source: judgement.
pub const RTT_MARGIN_NS: u64 = 50_000;

/// A segment of this size arrives on every path, bytes: it is the default without the MSS
/// option, and the size to which senders fall back when longer segments vanish. Source: RFC
/// 9293 §3.7.1; RFC 2923 §2.1.
pub const MSS_DEFAULT_BYTES: u64 = 536;

/// Most retransmissions of a segment within a minute. Source: RFC 6298 §5.5: the timer doubles.
pub const REPETITIONS_MAX: u64 = 8;

/// Least length of a segment that may be a full one, bytes. Source: judgement; near the default
/// of 536 bytes (RFC 9293 §3.7.1).
pub const FULL_SEGMENT_MIN_BYTES: u64 = 500;

/// A silence of a paced sender is similar to another if it lasts at least this fraction of it
/// (1/4); shorter ones lie within data sent at once. Source: judgement.
pub const PACE_ALIKE_PART: u64 = 4;

/// Number of segments sent at once at a slow pace. Source: kernel, `tcp_min_tso_segs`.
pub const PACE_QUANTUM_SEGMENTS: u64 = 2;

/// Longest step of a pace, ns. Source: kernel, `tcp_tso_autosize` (1 ms), with the delay of
/// timers.
pub const PACE_QUANTUM_MAX_NS: u64 = 2_000_000;

/// Number of steps in pairs after which a sender is known to pace. Source: judgement.
pub const PACE_KNOWN_STEPS: u8 = 8;

/// Least number of segments that show a pace. Source: judgement.
pub const PACE_SEGMENTS_MIN: u64 = 4;

/// Initial TTL of Linux. Windows and others begin so high that it is still above this after any
/// path. Source: kernel, `IPDEFTTL`; RFC 1700.
pub const LINUX_TTL: u8 = 64;

/// Greatest jump of the IP identification that counts as missing packets. Source: judgement.
pub const IDENTIFICATION_JUMP_MAX: u16 = 64;

/// Upper limit of the trust in the IP identification as a count of packets. Source: judgement.
pub const IDENTIFICATION_TRUST_MAX: i8 = 20;

/// Trust that is lost with a missing number where no data was lost. Source: judgement; a pure
/// ACK is lost there only rarely.
pub const IDENTIFICATION_REFUTED: i8 = 4;

/// Least length of a write, in segments, at whose end a congestion window seldom stops by
/// chance. Source: judgement.
pub const LONG_WRITE_SEGMENTS: u64 = 8;

/// Number of consecutive ends of another size that replace the known size of an application's
/// writes. Source: judgement.
pub const WRITE_SIZE_CHANGED: u8 = 3;

/// Fraction of a window (1/16) by which the send buffer is smaller if a message is written in
/// pieces. Source: measurement; it was that much or more in four of five transfers in the lab.
pub const BUFFER_SHORT_PART: u64 = 16;

/// Number of consecutive silences at a window's edge that show its scale. Source: judgement; a
/// growing flight may be there once by chance, but not twice.
pub const SCALE_MET_MIN: u8 = 2;

/// Least window field of a fully offered buffer if a scale is in use. Source: RFC 7323 §2.3: a
/// scale is no larger than the receiver's buffer needs.
pub const SCALED_FIELD_MIN: u16 = 1 << 14;

/// Round numbers, as programs and kernels use them, are less than this many times a power of
/// two. Source: judgement.
pub const ROUND_NUMBER_MAX: u64 = 32;

/// Least half window that limits the segment size, bytes. Source: RFC 9293 §3.7.1: segments of
/// 536 bytes are always allowed.
pub const HALF_WINDOW_MIN_BYTES: u16 = MSS_DEFAULT_BYTES as u16 / 2;

/// SMSS assumed if neither an MSS option nor full segments were seen, bytes. Source: Ethernet's
/// MTU of 1,500 bytes less IP and TCP headers; RFC 9293 §3.7.1 asks for 536 bytes, but longer
/// segments are seen.
pub const SMSS_ETHERNET_BYTES: u16 = 1_460;

/// Distances above this fraction of the round trip (1/4) are waits for ACKs, not a pace.
/// Source: judgement.
pub const PACE_WITHIN_PART: u64 = 4;

/// Least time that the ticks of a timestamp clock can measure, ns. Source: judgement.
pub const SPACING_MIN_NS: u64 = 8_000_000;

/// Time over which the spacing of packets is averaged, ns; later packets count more. Source:
/// judgement.
pub const SPACING_REMEMBERED_NS: u64 = 64_000_000;

/// Packets sent at once are this many times closer than those before and after. Source:
/// judgement.
pub const BURST_FACTOR: u64 = 4;

/// Two IP identifications no further apart come from one counter, which shows the order of
/// sending. Source: judgement; random numbers are that close with a probability of 1/32.
pub const IDENTIFICATIONS_NEAR: u16 = 1_024;

/// A packet that fills a hole within this time was overtaken, however short the path is, ns.
/// Source: judgement.
pub const REORDERING_MAX_NS: u64 = 3_000_000;

/// Size of a TLS record with the longest control frame of HTTP/2, PING or GOAWAY, bytes. A
/// request is longer. Source: RFC 9113 §6.7 and §6.8, RFC 5288: header, explicit nonce and tag,
/// and 17 bytes of frame.
pub const HTTP2_CONTROL_BYTES: u64 = 5 + 8 + 16 + 17;

/// Longest time until unacknowledged data is repeated, ns. Source: RFC 6298 §2.5, the lowest
/// upper bound that it allows.
pub const RTO_MAX_NS: u64 = 60_000_000_000;

/// Time for which late segments are attributed to a closed connection, ns of capture time. Source:
/// judgement.
pub const CLOSED_LINGER_NS: u64 = 3_000_000_000;
