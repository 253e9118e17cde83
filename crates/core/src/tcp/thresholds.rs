//! Every number of this layer that decides how a connection is understood, with its unit and
//! its source. Bounds of memory stand beside what they bound.

use crate::judge::thresholds::{ALIKE_PART, LINUX_RTO_MIN_NS};

/// Number of such rounds if the sender had nothing more buffered each time, though more data
/// followed: an opening window holds back data that is buffered. Source: judgement; a single such
/// round may be a write that fitted.
pub const CEILING_DRAINED_ROUNDS: u32 = 2;

/// Number of rounds without a new greatest peak after which that peak is a ceiling. Source:
/// judgement; a window that opens in bursts exceeds its peak sooner, and a transfer of a megabyte
/// has few more rounds.
pub const CEILING_SPENT_ROUNDS: u32 = 7;

/// Most consecutive rounds below the ceiling that count as pauses. Source: judgement; a writer
/// pauses for a round or two, and a lower height lasts.
pub const CEILING_LOW_ROUNDS: u32 = 3;

/// Tick of the timestamp clock on current systems, ns. Older ones tick every 4, 10, 100 or 500 ms.
/// Source: kernel, `TCP_TS_HZ`; RFC 7323 §5.4 allows 1 ms to 1 s.
pub const TIMESTAMP_TICK_NS: u64 = 1_000_000;

/// Time after which the ticks show the rate of the timestamp clock, ns. Source: derivation; a
/// hundred ticks give the rate to a hundredth.
pub const TIMESTAMP_PROOF_NS: u64 = 100 * TIMESTAMP_TICK_NS;

/// Drift allowed between a timestamp clock and the clock of the capture, parts per million. Source:
/// derivation; crystals of hosts are good to 100 ppm, and two of them differ by twice as much.
pub const TIMESTAMP_DRIFT_PPM: i64 = 200;

/// Departures closer than this need no explanation, ns. Source: judgement; a kernel sends the next
/// packet sooner, and a process does not wake up so fast.
pub const KERNEL_SEND_NS: u64 = 30_000;

/// Longest delay of a delayed ACK, ns. Source: kernel, `TCP_DELACK_MAX` in include/net/tcp.h (200
/// ms), with a margin of 10 ms.
pub const DELAYED_ACK_MAX_NS: u64 = 210_000_000;

/// Usual delay of a delayed ACK, ns. Source: kernel, `TCP_DELACK_MIN` (40 ms), with a margin of 5
/// ms.
pub const DELAYED_ACK_NS: u64 = 45_000_000;

/// Longest delay of an ACK that the standard allows, ns; every second full segment is acknowledged
/// at once. Round trips measured on data may exceed those of the handshake by this much. Source:
/// RFC 9293 §3.8.6.3.
pub const ACK_WITHIN_NS: u64 = 500_000_000;

/// Greatest difference between two clocks about the same step, ns. Source: derivation; each clock's
/// part is a difference of two timestamps, each of which is known to a tick.
pub const CLOCK_STEP_SAME_NS: u64 = 4 * TIMESTAMP_TICK_NS;

/// Longest time between a TCP or TLS handshake and a request that waited for it, ns. Source:
/// judgement; after a longer time the connection came from a pool or was opened in advance.
pub const HANDSHAKE_WAITED_FOR_NS: u64 = 100_000_000;

/// Rate of a pacing sender, in tenths of a window per round trip. Source: draft-ietf-ccwg-bbr
/// §5.3.1: 1/ln 2 lets a window double in each round trip; for other algorithms Linux uses 1.2 to 2
/// (`tcp_pacing_ca_ratio`, `tcp_pacing_ss_ratio`).
pub const PACE_TENTHS: u128 = 14;

/// Below this round trip the vantage is on the host itself, ns. Source: judgement; a kernel answers
/// its own capture within some ten microseconds, and a link with a switch takes longer.
pub const VANTAGE_ON_HOST_NS: u64 = 60_000;

/// Shortest pause within a response that is examined, ns. Source: judgement; a shorter one is work
/// of the server in any case.
pub const STREAM_PAUSE_MIN_NS: u64 = 20_000_000;

/// Number of pauses in one response that make it a stream, if the client did not react after them.
/// Source: judgement; one may be work in the midst of a response, and a stream pauses again.
pub const STREAM_PAUSES: u32 = 2;

/// Least number of sampled bytes that give a rate of the link. Source: judgement; five segments:
/// fewer are one train of ACKs, and short transfers have few more.
pub const RATE_BYTES_MIN: u64 = 8_000;

/// Least wait of a timer, ns: a loss that was repaired sooner without duplicate ACKs was found by
/// other ACKs, and a packet that comes sooner with the same header is a copy. Source: kernel,
/// `TCP_TIMEOUT_MIN_US` in include/net/tcp.h.
pub const TIMER_MIN_NS: u64 = 2_000_000;

/// Greatest window, bytes. A stream that announces a position further ahead is another stream.
/// Source: RFC 7323 §2.3.
pub const WINDOW_MAX_BYTES: u64 = 1 << 30;

/// Most that Linux puts into one buffer of a socket's queue, bytes; the limit of the queue may be
/// exceeded by one buffer. Source: kernel, `GSO_MAX_SIZE` in include/linux/netdevice.h.
pub const SKB_MAX_BYTES: u64 = 1 << 16;

/// Longest delay of a copy whose IP identification is equal as well, ns. Source: judgement; a
/// switch delays the copy for a mirror port by a few milliseconds, and some middleboxes give
/// retransmissions the same number.
pub const NUMBERED_COPY_DELAY_MAX_NS: u64 = 20_000_000;

/// A silence this many times longer than the round trip to the sender does not end just after an
/// ACK by chance. Source: derivation; an ACK falls into the round trip before its end once in 16
/// times.
pub const SILENCE_BY_CHANCE_FACTOR: u64 = 16;

/// Longest time by which an ACK may have reached the sender sooner than estimated, besides a part
/// of the path, ns. Source: judgement; the usual delay of a host, by which estimates of the path
/// are too long, is not much longer, and a pause of an application is.
pub const ACK_EARLY_MAX_NS: u64 = 300_000;

/// Longest such time in proportion to the round trip to the sender (1/16). Source: judgement; round
/// trips vary by a few per cent.
pub const ACK_EARLY_PART: u64 = 16;

/// Margin of the estimated minimum round trip, besides a part of it, ns. Source: judgement; clocks
/// of captures and delays of kernels are good to some ten microseconds, and a local network takes a
/// few times as long.
pub const RTT_MARGIN_NS: u64 = 50_000;

/// Such a margin in proportion to the round trip (1/512). Source: judgement; the least of many
/// round trips varies by some tenths of a per cent.
pub const RTT_MARGIN_PART: u64 = 512;

/// A segment of this size arrives on every path, bytes: it is the default without the MSS option,
/// and the size to which senders fall back when longer segments vanish. Source: RFC 9293 §3.7.1;
/// RFC 2923 §2.1.
pub const MSS_DEFAULT_BYTES: u64 = 536;

/// Most bytes of options in a segment; a full segment with them is so much shorter. Source: RFC
/// 9293 §3.1: the header has at most 60 bytes, and 20 without options.
pub const OPTIONS_MAX_BYTES: u64 = 40;

/// Least length of a segment that may be a full one, bytes. Source: derivation; the default MSS
/// less options.
pub const FULL_SEGMENT_MIN_BYTES: u64 = MSS_DEFAULT_BYTES - OPTIONS_MAX_BYTES;

/// Within data sent at once, packets are closer than this part (1/4) of the distances between such
/// bursts. Source: judgement; a pace varies by a half, and what is sent at once comes as close as
/// the path allows.
pub const BURST_PART: u64 = 4;

/// Number of segments sent at once at a slow pace. Source: kernel, `tcp_min_tso_segs`.
pub const PACE_QUANTUM_SEGMENTS: u64 = 2;

/// Longest step of a pace, ns. Source: kernel, `tcp_tso_autosize` (1 ms), with the delay of timers.
pub const PACE_QUANTUM_MAX_NS: u64 = 2_000_000;

/// Least number of segments that show a pace. Source: derivation; two steps.
pub const PACE_SEGMENTS_MIN: u64 = 2 * PACE_QUANTUM_SEGMENTS;

/// Greatest TTL of a packet that was sent to find out how far it comes. Source: `traceroute`, which
/// probes up to 30 hops; no system begins with less than 32.
pub const PROBE_TTL_MAX: u8 = 30;

/// Initial TTL of Linux. Windows and others begin so high that it is still above this after any
/// path. Source: kernel, `IPDEFTTL`; RFC 1700.
pub const LINUX_TTL: u8 = 64;

/// Greatest distance of two IP identifications that come from one counter: a jump counts missing
/// packets, and the lower number was sent first. Source: judgement; a GSO packet of 45 segments may
/// be missing as a whole, and random numbers are that close once in 512 times.
pub const IDENTIFICATION_JUMP_MAX: u16 = 64;

/// Trust that is lost with a missing number where no data was lost. Source: judgement; a pure ACK
/// is lost there only rarely.
pub const IDENTIFICATION_REFUTED: i8 = 4;

/// Upper limit of the trust in the IP identification as a count of packets. Source: judgement; a
/// counter is disproved by five contradictions, however long it has been right.
pub const IDENTIFICATION_TRUST_MAX: i8 = 5 * IDENTIFICATION_REFUTED;

/// Fraction of a window (1/16) by which the send buffer is smaller if a message is written in
/// pieces. Source: measurement; it was that much or more in four of five transfers in the lab.
pub const BUFFER_SHORT_PART: u64 = 16;

/// Heights of a window that differ by less than this part of them (1/5) are the same. Source:
/// judgement; what a reader has not read yet makes a window smaller now and then, and one that
/// opens grows by a half or more.
pub const WINDOW_ALIKE_PART: u64 = 5;

/// Number of consecutive silences at a window's edge that show its scale. Source: judgement; a
/// growing flight may be there once by chance, but not twice.
pub const SCALE_MET_MIN: u8 = 2;

/// Least window field of a fully offered buffer if a scale is in use. Source: RFC 7323 §2.3: a
/// scale is no larger than the receiver's buffer needs, so that the field has its highest bit, or
/// with half of the buffer offered the next one.
pub const SCALED_FIELD_MIN: u16 = 1 << 14;

/// Round numbers, as programs and kernels use them, are less than this many times a power of two.
/// Source: judgement; 24 and 28 KiB are round, and of the windows that are not, one in 32 is by
/// chance.
pub const ROUND_NUMBER_MAX: u64 = 32;

/// SMSS assumed if neither an MSS option nor full segments were seen, bytes. Source: Ethernet's MTU
/// of 1,500 bytes less IP and TCP headers; RFC 9293 §3.7.1 asks for 536 bytes, but longer segments
/// are seen.
pub const SMSS_ETHERNET_BYTES: u16 = 1_460;

/// MSS of a loopback whose handshake was not captured, bytes. Source: the longest IPv4 packet (65,535
/// bytes, RFC 791 §3.1) less IP and TCP headers; Linux announces it on a loopback.
pub const MSS_LOOPBACK_BYTES: u16 = 65_495;

/// A gap shorter than this part of a round trip (1/4) lies within a train of segments or ACKs, at
/// the pace of a sender or of the path; a longer one is a wait for ACKs. Source: judgement; a
/// sender with a small window sends its trains a whole round trip apart.
pub const TRAIN_PART: u64 = 4;

/// Least time that the ticks of a timestamp clock can measure, ns. Source: derivation; a tick is
/// then less than two measurements of one quantity may differ (`ALIKE_PART`).
pub const SPACING_MIN_NS: u64 = ALIKE_PART * TIMESTAMP_TICK_NS;

/// Time over which the spacing of packets is averaged, ns; later packets count more. Source:
/// derivation; eight times the least that is measured, so that no single one has a greater part.
pub const SPACING_REMEMBERED_NS: u64 = ALIKE_PART * SPACING_MIN_NS;

/// Size of a TLS record with the longest control frame of HTTP/2, PING or GOAWAY, bytes. A request
/// is longer. Source: RFC 9113 §6.7 and §6.8, RFC 5288: header, explicit nonce and tag, and 17
/// bytes of frame.
pub const HTTP2_CONTROL_BYTES: u64 = 5 + 8 + 16 + 17;

/// Longest time until unacknowledged data is repeated, ns. Source: RFC 6298 §2.5, the lowest upper
/// bound that it allows.
pub const RTO_MAX_NS: u64 = 60_000_000_000;

/// Time for which late segments are attributed to a closed connection, ns of capture time. Source:
/// derivation; four repetitions of a FIN on a short path, whose timer doubles (RFC 6298 §5.5).
pub const CLOSED_LINGER_NS: u64 = 15 * LINUX_RTO_MIN_NS;

/// Number of repetitions from which on data counts as unacknowledged, and not as delayed. Source:
/// RFC 5682 and RFC 6298 §5.5: the first may be spurious, and before the second the timer doubles.
pub const TAIL_REPEATS_MIN: u32 = 2;
