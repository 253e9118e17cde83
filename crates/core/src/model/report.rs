//! The report, schema version 1. Text, JSON, HTML and Python show these same facts.
//!
//! Units are the last word of a name; all times are nanoseconds. Frame numbers are 1-based in
//! the file they name, as Wireshark counts.

use crate::app::{Label, Protocol, Side};
use crate::capture::{FrameId, InputSummary};
use crate::model::experiment::{Experiment, ExperimentEvidence};
use crate::model::{Cause, Clocks, Crossing, Histogram, Owner, Place, Role, Window};
use crate::wire::{DecodeCounts, Endpoint};

/// Version of the JSON contract.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything a diagnosis found out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The files read, in time order.
    pub inputs: Vec<InputSummary>,
    /// How much there was.
    pub totals: Totals,
    /// Wall time of all exchanges by owner; sums to `totals.wall_ns`.
    pub ledger: Ledger,
    /// Latency of all exchanges.
    pub latency: Latency,
    /// The same, whole.
    pub latency_histogram: Histogram,
    /// Latency and ledger per server endpoint, most wall time first (bounded).
    pub endpoints: Vec<EndpointReport>,
    /// How many were left out of `endpoints`.
    pub endpoints_omitted: u64,
    /// Faults, then costs, each by lost time; a fault that lost hardly any time stands behind a cost
    /// that is one by its share of all the time.
    pub findings: Vec<Finding>,
    /// What was noticed and cost nobody anything, or limits what could be said.
    pub observations: Vec<Observation>,
    /// The worst connections first (bounded).
    pub connections: Vec<ConnectionReport>,
    /// How many connections were left out of `connections`.
    pub connections_omitted: u64,
    /// The exchanges that took longest, the longest first (bounded).
    pub slowest: Vec<SlowExchange>,
    /// The causes that findings were narrowed to; none means all.
    pub only: Vec<Cause>,
    /// The input was not read to its end.
    pub interrupted: bool,
    /// The stretch of time that a report of a watched system covers.
    pub watched: Option<Watched>,
    /// How the captures of two places were joined, if they were.
    pub join: Option<Join>,
    /// Experiments that were made, in their order.
    pub experiments: Vec<Experiment>,
    /// What was asked for, for the commands that go on from here.
    pub asked: Asked,
    /// What passes over all connections changed, where it is logged (`--why`).
    pub settled: Option<Vec<Settled>>,
}

/// A change that a pass over all connections made to what a cause costs at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// What the pass decides.
    pub decides: &'static str,
    /// The server.
    pub server: Endpoint,
    /// The cause.
    pub cause: Cause,
    /// Role of its culprit.
    pub role: Role,
    /// Change of its cost, ns.
    pub ns: i64,
}

/// The stretch of time that a report of a watched system covers, and how much of its traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watched {
    /// Capture time of its first frame, nanoseconds since the Unix epoch.
    pub first_ns: u64,
    /// Capture time of the last.
    pub last_ns: u64,
    /// Share of the connections that were captured, above 0 and at most 1.
    pub sampled_share: f64,
}

/// An exchange that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowExchange {
    /// The connection's client.
    pub client: Endpoint,
    /// The connection's server.
    pub server: Endpoint,
    /// Its number among the connection's exchanges since the capture began, from 1.
    pub exchange: u64,
    /// What was asked.
    pub kind: Label,
    /// When it began, ns since the Unix epoch.
    pub start_ns: u64,
    /// Its wall time, ns.
    pub wall_ns: u64,
    /// What took half of its time or more; `None` where nothing did, or the report has no finding of it at
    /// this server.
    pub cause: Option<Cause>,
}

/// The command line that a report answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The URL or `HOST:PORT` that was asked, where it is no capture.
    pub target: Option<String>,
    /// The captures, as they were named; none where they are not known.
    pub files: Vec<String>,
    /// The options that say what part of them is looked at, `--filter` first and then its value.
    pub options: Vec<String>,
}

/// The same traffic captured at two places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Join {
    /// What the places are, the one nearer the clients first.
    pub vantages: [Vantage; 2],
    /// Which place tells of most connections that both saw.
    pub told_by: Place,
    /// How the clocks differ; none where packets of one direction only were seen at both.
    pub clocks: Option<Clocks>,
    /// Connections seen at both places.
    pub connections: u64,
    /// Their packets, by who sent them.
    pub crossings: [Crossing; 2],
}

/// A finding as one of two places sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Which place.
    pub place: Place,
    /// What was lost by its capture, ns.
    pub lost_ns: u64,
}

/// Counts over the whole input.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// TCP connections seen.
    pub connections: u64,
    /// Exchanges completed (or given up).
    pub exchanges: u64,
    /// Name look-ups.
    pub lookups: u64,
    /// Sum of the exchanges' wall times.
    pub wall_ns: u64,
    /// Frames that could not be decoded, by kind.
    pub decode_errors: DecodeCounts,
    /// TCP segments analysed.
    pub segments: u64,
    /// First and last capture time, nanoseconds since the Unix epoch.
    pub first_ns: u64,
    /// Last capture time.
    pub last_ns: u64,
    /// The part of that time that the report tells of, if it is not all of it.
    pub window: Option<Window>,
    /// Where the capture was taken, over all connections.
    pub vantage: Vantage,
}

/// Where a capture was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vantage {
    /// Not enough handshakes or round trips to tell.
    #[default]
    Unknown,
    /// At (or near) the client.
    Client,
    /// At (or near) the server.
    Server,
    /// Between them, some way from both.
    Middle,
    /// Client and server are equally near: one host or one fast network.
    Local,
    /// Different connections were captured at different places.
    Mixed,
}

impl Vantage {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Unknown, Self::Client, Self::Server, Self::Middle, Self::Local, Self::Mixed];
}

/// Time by owner, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger(pub(super) [u64; Owner::ALL.len()]);

impl Default for Ledger {
    fn default() -> Self {
        Self([0; Owner::ALL.len()])
    }
}

impl Ledger {
    /// Adds `ns` to what `owner` has.
    pub fn add(&mut self, owner: Owner, ns: u64) {
        let sum = &mut self.0[owner as usize];
        *sum = sum.saturating_add(ns);
    }

    /// What `owner` has, ns.
    pub fn of(&self, owner: Owner) -> u64 {
        self.0[owner as usize]
    }

    /// The sum over all owners, ns.
    pub fn total_ns(&self) -> u64 {
        self.0.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Moves up to `ns` from one owner to another; answers how much was moved.
    pub fn transfer(&mut self, from: Owner, to: Owner, ns: u64) -> u64 {
        let moved = ns.min(self.of(from));
        self.0[from as usize] -= moved;
        self.0[to as usize] += moved;
        moved
    }

    /// Owners with time, in declaration order.
    pub fn iter(&self) -> impl Iterator<Item = (Owner, u64)> + '_ {
        Owner::ALL.iter().map(|&owner| (owner, self.of(owner))).filter(|&(_, ns)| ns > 0)
    }
}

/// Percentiles of exchange latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Latency {
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// The greatest.
    pub max_ns: u64,
}

impl Latency {
    /// The same, none of it longer than in `other`.
    pub fn at_most(self, other: &Self) -> Self {
        Self {
            p50_ns: self.p50_ns.min(other.p50_ns),
            p90_ns: self.p90_ns.min(other.p90_ns),
            p99_ns: self.p99_ns.min(other.p99_ns),
            max_ns: self.max_ns.min(other.max_ns),
        }
    }
}

/// One server endpoint's exchanges.
#[derive(Clone, Debug)]
pub struct EndpointReport {
    /// The server.
    pub endpoint: Endpoint,
    /// What it says it is (`nginx/1.22.1`), if it does.
    pub software: Option<String>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Connections to it.
    pub connections: u64,
    /// Exchanges with it.
    pub exchanges: u64,
    /// Their wall time by owner.
    pub ledger: Ledger,
    /// Their latency.
    pub latency: Latency,
    /// Per request kind, most wall time first (bounded).
    pub kinds: Vec<KindReport>,
}

/// One kind of request at one endpoint.
#[derive(Clone, Debug)]
pub struct KindReport {
    /// `GET /items/{id}`, `SELECT`, …; empty where it could not be read.
    pub kind: String,
    /// How many.
    pub exchanges: u64,
    /// Their latency.
    pub latency: Latency,
}

/// Who has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Culprit {
    /// In which role.
    pub role: Role,
    /// Where; for the network the server endpoint on whose path it happened.
    pub endpoint: Endpoint,
}

/// How much was hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Affected {
    /// Exchanges with this cause.
    pub exchanges: u64,
    /// Exchanges at the same endpoint.
    pub of_exchanges: u64,
    /// Connections with this cause.
    pub connections: u64,
}

/// A value that goes into a cause's words; `findings/<cause>.md` names it as `{name}`.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A duration, shown in ms or s.
    Ns(u64),
    /// A number of bytes.
    Bytes(u64),
    /// A rate, bits per second.
    BitsPerSecond(u64),
    /// A plain number.
    Count(u64),
    /// A share of one, shown in per cent.
    Share(f64),
    /// A public id or other text that is not translated.
    Text(String),
}

/// One link of the causal chain: what a frame shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The frame.
    pub frame: FrameId,
    /// Its part in the chain, an id from the message table (`flight_end`, `ack`, `next`).
    pub part: &'static str,
    /// Who sent it.
    pub from: Side,
    /// TCP payload, bytes.
    pub payload_bytes: u32,
    /// Time since the previous frame of the chain, ns.
    pub after_ns: u64,
}

/// A look-alike that was considered and is not it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuledOut {
    /// The look-alike.
    pub cause: Cause,
    /// Why not: an id of a sentence in the cause's words.
    pub why: &'static str,
}

/// A cause, with what it cost and why we say so.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// Who has to change something.
    pub culprit: Culprit,
    /// How much was hit.
    pub affected: Affected,
    /// Ledger time that would disappear without the cause, ns.
    pub lost_ns: u64,
    /// `lost_ns` over the wall time of all exchanges, 0 to 1.
    pub share: f64,
    /// Latency at the culprit's server endpoint now.
    pub latency: Latency,
    /// The same without the cause.
    pub counterfactual: Latency,
    /// 0 to 1.
    pub confidence: f64,
    /// One clear instance of the causal chain.
    pub evidence: Vec<Evidence>,
    /// The connection of `evidence`: the client's and the server's endpoint.
    pub evidence_flow: Option<(Endpoint, Endpoint)>,
    /// The number of its exchange on that connection, from 1; 0 where it is of none.
    pub evidence_exchange: u64,
    /// What the state of the system says for or against it; empty where no state was read.
    pub state: Vec<StateEvidence>,
    /// What experiments say for or against it; empty where none was made.
    pub experiments: Vec<ExperimentEvidence>,
    /// Packets were captured, and do not show it.
    pub is_unseen: bool,
    /// Look-alikes considered.
    pub ruled_out: Vec<RuledOut>,
    /// Values for the words of the cause.
    pub facts: Vec<(&'static str, Fact)>,
    /// What the software at the culprit says it is, for concrete fixes.
    pub software: Option<String>,
    /// What is spoken there.
    pub protocol: Protocol,
    /// Who was waited for.
    pub sender: Side,
    /// Which of two places see it; empty where there is one.
    pub sights: Vec<Sight>,
    /// The load that shows it, where requests that are asked alone do not.
    pub load: Option<Load>,
}

/// Many requests at a time: a finding of a load counts its exchanges and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Load {
    /// Connections at the same time.
    pub connections: u64,
    /// Wall time of all exchanges of the load that were captured, ns.
    pub wall_ns: u64,
}

impl Finding {
    /// A finding of `cause` that no packet shows: nothing else of it is known yet.
    pub fn of_cause(cause: Cause, culprit: Culprit) -> Self {
        Self {
            cause,
            culprit,
            affected: Affected::default(),
            lost_ns: 0,
            share: 0.0,
            latency: Latency::default(),
            counterfactual: Latency::default(),
            confidence: 0.0,
            evidence: Vec::new(),
            evidence_flow: None,
            evidence_exchange: 0,
            state: Vec::new(),
            experiments: Vec::new(),
            is_unseen: false,
            load: None,
            ruled_out: Vec::new(),
            facts: Vec::new(),
            software: None,
            protocol: Protocol::default(),
            sender: Side::Client,
            sights: Vec::new(),
        }
    }
}

/// What a socket option, a queue or a counter of a kernel says for or against a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct StateEvidence {
    /// The sentence that says it, an id of `state.md`.
    pub id: &'static str,
    /// It speaks for the finding; else against it.
    pub agrees: bool,
    /// The option, queue or counter, by its name in the kernel's documentation.
    pub setting: &'static str,
    /// Its value, as the kernel states it.
    pub value: String,
    /// The socket, destination or table that has it.
    pub place: String,
    /// The process that holds the socket: `nginx (pid 4242)`.
    pub process: Option<String>,
    /// When it was read, nanoseconds since the Unix epoch.
    pub read_ns: Option<u64>,
    /// Values for its sentence.
    pub facts: Vec<(&'static str, Fact)>,
}

/// Something noticed that is not a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Its id in the message table (`delayed_acks`, `capture_drops`, …).
    pub id: &'static str,
    /// Values for its words.
    pub facts: Vec<(&'static str, Fact)>,
    /// Some frames that show it.
    pub frames: Vec<FrameId>,
}

/// A look-up that the first request of a connection had to wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupReport {
    /// When its first query was sent, ns.
    pub start_ns: u64,
    /// When its client had what it asked for, ns.
    pub end_ns: u64,
    /// Its queries and answers, in the order of time (bounded).
    pub messages: Vec<LookupMessage>,
}

/// A query or an answer of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupMessage {
    /// When it passed, ns.
    pub time_ns: u64,
    /// The frame.
    pub frame: FrameId,
    /// The client's, or the name server's.
    pub from: Side,
    /// What it is, and whose: `A query to 192.0.2.53`.
    pub label: String,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// Who opened it.
    pub client: Endpoint,
    /// Who accepted it.
    pub server: Endpoint,
    /// What is spoken.
    pub protocol: Protocol,
    /// Its first frame.
    pub first_frame: FrameId,
    /// Capture time of the first frame.
    pub first_ns: u64,
    /// Capture time of the last frame.
    pub last_ns: u64,
    /// Where it was captured.
    pub vantage: Vantage,
    /// Base RTT client to server, ns; 0 if never measured.
    pub rtt_min_ns: u64,
    /// Exchanges on it.
    pub exchanges: u64,
    /// Wall time of its exchanges by owner, without that of `lookup`.
    pub ledger: Ledger,
    /// The look-up that its first exchange had to wait for.
    pub lookup: Option<LookupReport>,
    /// Time lost to faults, ns.
    pub lost_ns: u64,
    /// What the client sent.
    pub client_to_server: DirectionReport,
    /// What the server sent.
    pub server_to_client: DirectionReport,
}

/// One direction of a connection, with tcptrace's labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DirectionReport {
    /// Packets.
    pub packets: u64,
    /// Payload bytes, retransmissions included.
    pub actual_data_bytes: u64,
    /// Payload bytes, each counted once.
    pub unique_bytes: u64,
    /// Segments retransmitted.
    pub rexmt_data_packets: u64,
    /// Of them by timer.
    pub rto_count: u64,
    /// Of them by duplicate ACKs or SACK.
    pub fast_retransmissions: u64,
    /// Of them for nothing.
    pub spurious_retransmissions: u64,
    /// Segments out of order.
    pub out_of_order_packets: u64,
    /// Duplicate ACKs sent.
    pub duplicate_acks: u64,
    /// Zero windows advertised.
    pub zero_window_advertisements: u64,
    /// Window probes sent.
    pub zero_window_probes: u64,
    /// Maximum segment size seen or announced, bytes.
    pub mss_bytes: u32,
    /// Greatest flight, bytes.
    pub flight_size_max_bytes: u64,
    /// RTT samples' minimum, ns; 0 if none.
    pub rtt_min_ns: u64,
}
