//! Every number that decides what is a finding and how sure it is, with its unit and its
//! source. Bounds of memory stand beside what they bound.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::tcp::thresholds::TIMESTAMP_TICK_NS;

/// Least share of an endpoint's wall time from which a cost is a finding. Source: judgement; at a
/// tenth a report lists what every request has, and at a half nothing where two costs are equal.
pub const COST_SHARE_MIN: f64 = 0.3;

/// Least part of a typical exchange from which a cost is a finding, ns. Source: judgement; five of
/// them are what a person notices (0.1 s; Miller, "Response time in man-computer conversational
/// transactions", 1968).
pub const COST_MIN_NS: u64 = 20_000_000;

/// Least share of an endpoint's wall time from which a fault is a finding. Source: judgement; one
/// repair among hundreds of requests takes less, and nobody notices a saving below it.
pub const FAULT_SHARE_MIN: f64 = 0.02;

/// Least part of each exchange that a fault hits from which it is a finding, ns. Source:
/// derivation; the ordinary delay of a host takes as long.
pub const FAULT_MIN_NS: u64 = HOST_DELAY_MAX_NS;

/// A fault dominates from so many times the share on that makes a fault a finding. Source:
/// judgement; a tenth of the time is what makes it worth to change another host.
pub const DOMINANT_FACTOR: f64 = 5.0;

/// Repairs that happen often are a finding from so many times the share on that makes a fault a
/// finding. Source: judgement; a twentieth of the time: paths lose a packet now and then.
pub const OFTEN_FACTOR: f64 = 2.5;

/// Quick repairs are a finding from so many times the share on that makes a fault a finding,
/// however few they are. Source: judgement; a quarter of the time.
pub const REPAIR_FACTOR: f64 = 12.5;

/// Least share of one exchange that makes a fault a finding, however few exchanges it hits. Source:
/// derivation; most of its time.
pub const DEEP_SHARE: f64 = 0.5;

/// Least time of such a fault, in multiples of the least fault. Source: judgement; 50 ms: a delayed
/// ACK is shorter, and an RTO longer.
pub const DEEP_FACTOR: u64 = 50;

/// So many times the least cost is what a person notices. Source: Miller, "Response time in
/// man-computer conversational transactions", 1968: 0.1 s.
pub const NOTICED_FACTOR: u64 = 5;

/// Time, ns, from which on a wait interrupts a person's thought. Source: Miller, "Response time in
/// man-computer conversational transactions", 1968: 1 s.
pub const INTERRUPTS_NS: u64 = 1_000_000_000;

/// Least share of exchanges that a tail has, and least share of the time, of exchanges and of
/// connections of a fault that is not slight. Source: derivation; the 99th percentile, the slowest
/// point that a report shows, is then theirs.
pub const TAIL_SHARE: f64 = 0.01;

/// A part of the cases of up to this share is an exception: connections at another vantage, waits
/// that are longer, delays that differ. Source: judgement; at a hundredth one odd case decides, and
/// at a third what is called usual is not.
pub const FEW_SHARE: f64 = 0.1;

/// Share of the time from which on a report says that most of it is of one kind. Source: judgement;
/// at a half the rest matters as much, and single odd cases prevent that a share is much greater.
pub const MOST_SHARE: f64 = 0.8;

/// Greatest confidence of a finding. Source: judgement; what was measured a few hundred times
/// cannot be surer.
pub const CONFIDENCE_MAX: f64 = 0.99;

/// Part of its confidence that a finding keeps in a capture that has frames twice or one direction
/// only. Source: measurement; of findings from one exchange 9 of 14 were right there, and 69 of 80
/// elsewhere.
pub const FLAWED_PART: f64 = 0.75;

/// Greatest confidence of a finding that may as well be another. Source: derivation; one of two.
pub const AMBIGUOUS_CONFIDENCE_MAX: f64 = 0.5;

/// Up to so many exchanges show what happened and not what is usual. Source: judgement; a third one
/// shows which of two is usual.
pub const VERY_FEW_EXCHANGES: u64 = 2;

/// Longest line that a person types before others answer, bytes. Source: width of a terminal.
pub const TYPED_LINE_BYTES: u32 = 80;

/// Least time that a person takes to read a line and type another, ns. Source: judgement; programs
/// answer sooner, and a person types some three letters a second.
pub const TYPED_MIN_NS: u64 = 1_000_000_000;

/// Number of times that a window limited its sender, below which it is one that still opens.
/// Source: judgement; a window that doubles with each round trip stands at 64 KiB after so many,
/// and short transfers have few more.
pub const WINDOW_STANDS_MIN: u32 = 6;

/// Bytes that receiving hosts put together and readers ask for at a time. Source: kernel,
/// `GSO_MAX_SIZE` (GRO).
pub const READ_BYTES: u64 = 1 << 16;

/// Number of unreached hosts from which on the client is cut off. Source: judgement; so many are
/// not down at the same time, and a client knows few more.
pub const UNREACHED_HOSTS_MIN: usize = 4;

/// Number of networks from which on losses on the ways to them are those of the client's own network.
/// Source: the same judgement as that of `UNREACHED_HOSTS_MIN`.
pub const LOSSY_WAYS_MIN: usize = UNREACHED_HOSTS_MIN;

/// Bits of an IPv4 address by which routers of the internet tell networks apart. Source: RFC 7454
/// §6.1.3; longer prefixes are not accepted.
pub const ROUTED_BITS_V4: u32 = 24;

/// The same for IPv6. Source: RFC 7454 §6.1.3.
pub const ROUTED_BITS_V6: u32 = 48;

/// Connections that a listener accepts within this time were accepted at once, ns. Source:
/// judgement; a program accepts in a loop, with some work on each connection, and a queue that is
/// not empty waits for longer work.
pub const ACCEPTED_TOGETHER_NS: u64 = 5_000_000;

/// Number of refused ports of one host that make a scan. Source: judgement; no client has so many
/// services to reach at one host, and scanners try hundreds.
pub const SCANNED_PORTS_MIN: u64 = 16;

/// Number of hosts that one client tries in vain that make a scan. Source: judgement; no client has so
/// many hosts to reach of which none accepts, and scanners try thousands.
pub const SCANNED_HOSTS_MIN: usize = 64;

/// Least silence of an idle connection, ns: a server that closes sooner after its last data has not
/// waited for another request. Source: judgement; a client that goes on does so within some round
/// trips, and no server closes so soon for idleness.
pub const IDLE_MIN_NS: u64 = 250_000_000;

/// Variation of a delay that is always the same, ns. Source: RFC 7323 §5.4: a tick of 1 ms, and as
/// much for hosts.
pub const ROUTE_VARIATION_NS: u64 = TIMESTAMP_TICK_NS + HOST_DELAY_MAX_NS;

/// Share of its rate that a full link carries. Source: judgement; headers and the beginnings of
/// other transfers take the rest, and at a half the link has room.
pub const FULL_LINK_SHARE: f64 = 0.8;

/// Fewer unfinished handshakes than this are not a flood. Source: judgement; most listeners have
/// room for 128 (kernel, the least `tcp_max_syn_backlog`), and a busy one rarely has as many.
pub const FLOOD_HALF_OPEN_MIN: u64 = 100;

/// Least rate of a flood, SYNs per second. Source: judgement; clients that repeat their SYNs to a
/// server that is down send a few per second, and floods thousands.
pub const FLOOD_RATE_MIN: u64 = 20;

/// Handshakes completed in a flood are fewer than this part of its SYNs (1/4). Source: judgement;
/// beside a flood a server may still accept some, and a server that is slow to accept completes
/// most.
pub const FLOOD_COMPLETED_PART: u64 = 4;

/// Number of exchanges from which on a row is a sequence. Source: judgement; made as one, they
/// would cost a tenth of their round trips; a page makes a few requests in any case.
pub const SEQUENCE_MIN: u32 = 10;

/// Number of connections and attempts that a silent host leaves unanswered. Source: judgement; a
/// single one may be forgotten on the path, and a client seldom has many to one host.
pub const SILENT_FLOWS_MIN: u64 = 2;

/// Greatest probability that chance alone gives a property to all attempts that fail and to none that
/// succeeds, for all compared properties together. Source: judgement; one wrong in a hundred, as in
/// experiments: with one property to compare, four failures that alternate with four successes are
/// enough (1/256), and three are not (1/64).
pub const CHANCE_MAX: f64 = 0.01;

/// Time for which a host may keep a connection after its end, ns. Source: RFC 9293 §3.4.2 and
/// §3.6.1: twice the maximum segment lifetime of two minutes.
pub const TIME_WAIT_NS: u64 = 240_000_000_000;

/// Least number of frames at equal distances of 1 ms or more (`HOST_DELAY_MAX_NS`), or of none,
/// whose times were made up. Source: derivation; the delay of a host varies by dozens of
/// microseconds, so a distance repeats to a microsecond at most once in ten times, and seven times
/// in a row once in 10⁷.
pub const EVEN_FRAMES_MIN: u64 = 9;

/// The same for shorter distances. Source: derivation; in a burst at the rate of a link the distance
/// repeats every other time, and 23 times in a row once in 10⁷.
pub const EVEN_SHORT_FRAMES_MIN: u64 = 25;
