//! Every number that decides what is a finding and how sure it is, with its unit and its
//! source. Bounds of memory stand beside what they bound.

/// Least share of an endpoint's wall time from which a cost is a finding. Source: judgement.
pub const COST_SHARE_MIN: f64 = 0.3;

/// Least part of a typical exchange from which a cost is a finding, ns. Source: judgement; five
/// of them are what a person notices (0.1 s; Miller, "Response time in man-computer
/// conversational transactions", 1968).
pub const COST_MIN_NS: u64 = 20_000_000;

/// Least share of an endpoint's wall time from which a fault is a finding. Source: judgement.
pub const FAULT_SHARE_MIN: f64 = 0.02;

/// Least part of each exchange that a fault hits from which it is a finding, ns. Source:
/// judgement.
pub const FAULT_MIN_NS: u64 = 1_000_000;

/// A fault dominates from so many times the share on that makes a fault a finding. Source:
/// judgement.
pub const DOMINANT_FACTOR: f64 = 5.0;

/// Repairs that happen often are a finding from so many times the share on that makes a fault a
/// finding. Source: judgement.
pub const OFTEN_FACTOR: f64 = 2.5;

/// Quick repairs are a finding from so many times the share on that makes a fault a finding,
/// however few they are. Source: judgement; a quarter of the time.
pub const REPAIR_FACTOR: f64 = 12.5;

/// Least share of one exchange that makes a fault a finding, however few exchanges it hits.
/// Source: judgement.
pub const DEEP_SHARE: f64 = 0.5;

/// Least time of such a fault, in multiples of the least fault. Source: judgement.
pub const DEEP_FACTOR: u64 = 50;

/// A fault that takes a smaller share of the time, and less than a cost must take, is slight;
/// the same of a load. Source: judgement.
pub const SLIGHT_SHARE: f64 = 0.01;

/// A cost that takes this share is most of the time. Source: judgement.
pub const DOMINANT_COST_SHARE: f64 = 0.5;

/// Share of the time from which on a report says that most of it is of one kind. Source:
/// judgement.
pub const MOST_SHARE: f64 = 0.8;

/// Greatest confidence of a finding. Source: judgement; what was measured a few hundred times
/// cannot be surer.
pub const CONFIDENCE_MAX: f64 = 0.99;

/// Number of findings of all causes that count beside a cause's own in its confidence. Source:
/// measurement; variance 0.14 of one finding over the variance 0.2² between causes.
pub const CONFIDENCE_PRIOR: f64 = 4.0;

/// Greatest confidence of a finding that may as well be another. Source: derivation; one of
/// two.
pub const AMBIGUOUS_CONFIDENCE_MAX: f64 = 0.5;

/// Up to so many exchanges show what happened and not what is usual. Source: judgement.
pub const VERY_FEW_EXCHANGES: u64 = 2;

/// Longest line that a person types before others answer, bytes. Source: width of a terminal.
pub const TYPED_LINE_BYTES: u32 = 80;

/// Least time that a person takes to read a line and type another, ns. Source: judgement.
pub const TYPED_MIN_NS: u64 = 1_000_000_000;

/// Of so many times that a sender went on with its peer's words, one may have been with an ACK.
/// Source: judgement.
pub const PROMPTED_PART: u64 = 2;

/// Number of times that a window limited its sender, below which it is one that still opens.
/// Source: judgement.
pub const WINDOW_STANDS_MIN: u32 = 6;

/// Number of times that a window closed, below which its host may have been busy. Source:
/// judgement.
pub const WINDOW_CLOSED_MIN: u64 = 3;

/// Bytes that receiving hosts put together and readers ask for at a time. Source: kernel,
/// `GSO_MAX_SIZE` (GRO).
pub const READ_BYTES: u64 = 1 << 16;

/// A slow reader is a finding from so many times the wait that makes a cost one, and so many
/// times the delay that makes a fault one. Source: judgement.
pub const SLOW_READER_FACTOR: u64 = 5;

/// Number of unreached hosts from which on the client is cut off. Source: judgement; so many
/// are not down at the same time.
pub const UNREACHED_HOSTS_MIN: usize = 4;

/// Least number of exchanges that waited in the queue of a transfer. Source: judgement.
pub const CROSS_TRAFFIC_MIN: u64 = 3;

/// Connections that a listener accepts within this time were accepted at once, ns. Source:
/// judgement.
pub const ACCEPTED_TOGETHER_NS: u64 = 5_000_000;

/// Number of refused ports of one host that make a scan. Source: judgement; no client has so
/// many services to reach at one host.
pub const SCANNED_PORTS_MIN: u64 = 16;

/// Number of hosts that refuse one client that make a scan. Source: judgement; no client has so
/// many hosts to reach of which none accepts.
pub const SCANNED_HOSTS_MIN: usize = 64;

/// Least silence after which a connection that is reset was idle, ns. Source: judgement.
pub const IDLE_RESET_MIN_NS: u64 = 1_000_000_000;

/// A client that repeats a request does so within this time, ns. Source: judgement.
pub const ASKED_AGAIN_MAX_NS: u64 = 1_000_000_000;

/// Variation of a delay that is always the same, ns. Source: RFC 7323 §5.4: a tick of 1 ms, and
/// as much for hosts.
pub const ROUTE_VARIATION_NS: u64 = 2_000_000;

/// Delays that differ by less than this part of them (1/16) are the same. Source: judgement.
pub const ROUTE_VARIATION_PART: u64 = 16;

/// Least round trip between vantage and sender that a proof mentions, ns. Source: judgement.
pub const FAR_SENDER_NS: u64 = 1_000_000;

/// An ACK that was kept back for less than this part of a wait (1/8) is not late. Source:
/// judgement.
pub const LATE_ACK_PART: u64 = 8;

/// Share of its rate that a full link carries. Source: judgement; headers and the beginnings of
/// other transfers take the rest.
pub const FULL_LINK_SHARE: f64 = 0.8;

/// Least share of a wait in which the link carried other transfers. Source: judgement.
pub const SHARED_LINK_EXPLAINED: f64 = 0.5;

/// A tail that percentiles show has one exchange in so many. Source: judgement; the 99th
/// percentile.
pub const TAIL_ONE_IN: u64 = 100;

/// Fewer slow exchanges are chance, unless each took as long as a person notices (0.1 s).
/// Source: judgement; Miller, "Response time in man-computer conversational transactions",
/// 1968.
pub const SLOW_EXCHANGES_MIN: u64 = 3;

/// Fewer unfinished handshakes than this are not a flood. Source: judgement.
pub const FLOOD_HALF_OPEN_MIN: u64 = 100;

/// Least rate of a flood, SYNs per second. Source: judgement.
pub const FLOOD_RATE_MIN: u64 = 20;

/// A client that gives up earlier than this did not give up for want of an answer, ns. Source:
/// judgement.
pub const GIVE_UP_MIN_NS: u64 = 1_000_000_000;

/// A server that closes sooner after its last data has not waited for another request, ns.
/// Source: judgement.
pub const IDLE_CLOSE_MIN_NS: u64 = 250_000_000;

/// A sender that pauses for longer than this beyond a round trip has stopped by itself, ns.
/// Source: judgement.
pub const SENDER_STOPPED_NS: u64 = 20_000_000;

/// Number of exchanges from which on a row is a sequence. Source: judgement; made as one, they
/// would cost a tenth of their round trips.
pub const SEQUENCE_MIN: u32 = 10;

/// Least wait that is compared with the waits of others, ns. Source: judgement.
pub const WAIT_MIN_NS: u64 = 20_000_000;

/// Greatest distance of the ends of a proxy's and its server's wait, as a part of the outer one
/// (1/10). Source: judgement; the proxy's work and the path.
pub const UPSTREAM_APART_PART: u64 = 10;

/// Number of pairs of waits that are no chance. Source: judgement.
pub const UPSTREAM_PAIRS_MIN: u64 = 3;

/// Outer waits without an inner one among so many more with one are of requests that ask no
/// other server. Source: judgement.
pub const UPSTREAM_MISSED_PART: u64 = 4;

/// Where more inner waits fit an outer one, a fit is chance. Source: judgement.
pub const UPSTREAM_FITS_MAX: usize = 4;
