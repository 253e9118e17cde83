//! The report, schema version 1. Text, JSON, HTML and Python show the same facts.
//!
//! Units are the last word of a name; all times are nanoseconds. Frame numbers are 1-based in
//! the file they name, as Wireshark counts.

use crate::app::{Label, Protocol};
use crate::capture::{FrameId, InputSummary};
use crate::literal::Literal;
use crate::model::experiment::{Experiment, ExperimentEvidence};
use crate::model::quic;
use crate::model::{
    Cause, Checked, Clocks, Crossing, Histogram, Ledger, LookupReport, Outcomes, Place, Prediction,
    Reassigned, Role, Window,
};
use crate::wire::{DecodeCounts, Endpoint, Side};

/// Version of the JSON contract.
pub const SCHEMA_VERSION: u32 = 1;

/// The result of a diagnosis.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The files read, in time order.
    pub inputs: Vec<InputSummary>,
    /// Totals of the input.
    pub totals: Totals,
    /// Wall time of all exchanges by owner; sums to `totals.wall_ns`.
    pub ledger: Ledger,
    /// Latency of all exchanges.
    pub latency: Latency,
    /// Histogram of the latency of all exchanges.
    pub latency_histogram: Histogram,
    /// Latency and ledger per server endpoint, most wall time first (bounded).
    pub endpoints: Vec<EndpointReport>,
    /// Number of endpoints left out of `endpoints`.
    pub endpoints_omitted: u64,
    /// Faults, then costs, each by lost time; a fault that lost very little time comes after a cost
    /// that has a large share of all time.
    pub findings: Vec<Finding>,
    /// Facts that cost no time, or that limit what the report can say.
    pub observations: Vec<Observation>,
    /// The connections of QUIC.
    pub quic: quic::Sums,
    /// The worst connections first (bounded).
    pub connections: Vec<ConnectionReport>,
    /// Number of connections left out of `connections`.
    pub connections_omitted: u64,
    /// The exchanges that took longest, in descending order (bounded).
    pub slowest: Vec<SlowExchange>,
    /// The causes that findings were narrowed to; none means all.
    pub only: Vec<Cause>,
    /// `true` if the input was not read to its end.
    pub interrupted: bool,
    /// The time that a report of a watched system covers.
    pub watched: Option<Watched>,
    /// The joining of captures of two places; `None` if there was one place.
    pub join: Option<Join>,
    /// The experiments that were made, in order.
    pub experiments: Vec<Experiment>,
    /// The user's command line, from which follow-up commands are made.
    pub asked: Invocation,
    /// Changes made by passes over all connections; `None` unless logged (`--why`).
    pub settled: Option<Vec<Settled>>,
    /// The report's claims, compared with the packets; `None` unless asked for (`--check`).
    pub checked: Option<Vec<Checked>>,
}

/// A change that a pass over all connections made to what a cause costs at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The decision of the pass.
    pub decides: &'static str,
    /// The server.
    pub server: Endpoint,
    /// The cause.
    pub cause: Cause,
    /// Role of the culprit.
    pub role: Role,
    /// Change of the cost, ns.
    pub ns: i64,
}

/// The time that a report of a watched system covers, and the share of its traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watched {
    /// Capture time of its first frame, nanoseconds since the Unix epoch.
    pub first_ns: u64,
    /// Capture time of the last.
    pub last_ns: u64,
    /// Share of the connections that were captured, above 0 and at most 1.
    pub sampled_share: f64,
}

/// One of the exchanges that took longest.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct SlowExchange {
    /// The connection's client.
    pub client: Endpoint,
    /// The connection's server.
    pub server: Endpoint,
    /// The number among the exchanges of the connection since the capture began, from 1.
    pub exchange: u64,
    /// The kind of request.
    pub kind: Label,
    /// When it began, ns since the Unix epoch.
    pub start_ns: u64,
    /// Wall time of the exchange, ns.
    pub wall_ns: u64,
    /// The server's own time in it, ns.
    pub server_ns: u64,
    /// The cause that took half of its time or more; `None` if there is none, or if the report has
    /// no finding of it at this server.
    pub cause: Option<Cause>,
}

/// The command line that a report answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The URL or `HOST:PORT` that was measured; `None` for a capture.
    pub target: Option<String>,
    /// The capture files, as the user named them; empty if they are not known.
    pub files: Vec<String>,
    /// The options that select a part of the captures, such as `--filter` followed by its value.
    pub options: Vec<String>,
}

impl Invocation {
    /// Returns the command line that reads `files` with the text of a filter, and the number of
    /// places that the user states.
    pub fn of_captures(files: Vec<String>, filter: Option<&str>, vantages: Option<u8>) -> Self {
        let filter = filter.map(|text| ["--filter".to_owned(), text.to_owned()]);
        let vantages = vantages.map(|number| ["--vantages".to_owned(), number.to_string()]);
        let options = filter.into_iter().chain(vantages).flatten().collect();
        Self { target: None, files, options }
    }
}

/// The same traffic captured at two places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Join {
    /// The vantages of the two places, the one nearer the clients first.
    pub vantages: [Vantage; 2],
    /// The place whose account is used for most connections seen at both.
    pub told_by: Place,
    /// The difference between the clocks; `None` if only packets of one direction were seen at
    /// both.
    pub clocks: Option<Clocks>,
    /// Connections seen at both places.
    pub connections: u64,
    /// Packets of these connections, by the side that sent them.
    pub crossings: [Crossing; 2],
}

/// A finding as it shows in the capture of one of two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The place.
    pub place: Place,
    /// Lost time as seen in the capture of this place, ns.
    pub lost_ns: u64,
}

/// Counts over the whole input.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// TCP connections seen.
    pub connections: u64,
    /// Exchanges completed or abandoned.
    pub exchanges: u64,
    /// How they ended.
    pub outcomes: Outcomes,
    /// Number of name look-ups.
    pub lookups: u64,
    /// Sum of the exchanges' wall times.
    pub wall_ns: u64,
    /// Frames that could not be decoded, by kind.
    pub decode_errors: DecodeCounts,
    /// TCP segments analysed.
    pub segments: u64,
    /// First capture time, nanoseconds since the Unix epoch.
    pub first_ns: u64,
    /// Last capture time, nanoseconds since the Unix epoch.
    pub last_ns: u64,
    /// The part of that time that the report covers; `None` if it is all of it.
    pub window: Option<Window>,
    /// The vantage over all connections.
    pub vantage: Vantage,
    /// That it is at a host shows only in its short Ethernet frames, which are not padded yet as those
    /// of its peers are.
    pub vantage_from_padding: bool,
}

/// The place at which a capture was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Vantage {
    /// Too few handshakes or round trips to decide.
    #[default]
    Unknown,
    /// At (or near) the client.
    Client,
    /// At (or near) the server.
    Server,
    /// Between them, with a measurable distance to both.
    Middle,
    /// Client and server are equally near: one host, or one fast network.
    Local,
    /// Different connections were captured at different places.
    Mixed,
}

impl Vantage {
    /// All values.
    pub const ALL: [Self; 6] =
        [Self::Unknown, Self::Client, Self::Server, Self::Middle, Self::Local, Self::Mixed];
}

/// Percentiles of exchange latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// The median, ns.
    pub p50_ns: u64,
    /// The 90th percentile, ns.
    pub p90_ns: u64,
    /// The 99th percentile, ns.
    pub p99_ns: u64,
    /// The maximum, ns.
    pub max_ns: u64,
}

impl Latency {
    /// Returns the latency with `change` applied to each percentile and that of `other`.
    pub fn with(self, other: &Self, change: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            p50_ns: change(self.p50_ns, other.p50_ns),
            p90_ns: change(self.p90_ns, other.p90_ns),
            p99_ns: change(self.p99_ns, other.p99_ns),
            max_ns: change(self.max_ns, other.max_ns),
        }
    }

    /// Returns each percentile limited to that of `other`.
    pub fn at_most(self, other: &Self) -> Self {
        self.with(other, u64::min)
    }

    /// Returns whether a percentile of `count` values can be another value than the longest (by
    /// nearest rank).
    pub fn has_percentile(percentile: u64, count: u64) -> bool {
        count.saturating_mul(percentile).div_ceil(100) < count
    }
}

/// One server endpoint's exchanges.
#[derive(Clone, Debug)]
pub struct EndpointReport {
    /// The server.
    pub endpoint: Endpoint,
    /// The name and version that the server states (`nginx/1.22.1`), if any.
    pub software: Option<String>,
    /// The application protocol.
    pub protocol: Protocol,
    /// Number of connections to the server.
    pub connections: u64,
    /// Number of exchanges with the server.
    pub exchanges: u64,
    /// Wall time of these exchanges by owner.
    pub ledger: Ledger,
    /// Their latency.
    pub latency: Latency,
    /// How they ended.
    pub outcomes: Outcomes,
    /// Per request kind, most wall time first (bounded).
    pub kinds: Vec<KindReport>,
}

/// One kind of request at one endpoint.
#[derive(Clone, Debug)]
pub struct KindReport {
    /// `GET /items/{id}`, `SELECT`, …; empty if it could not be read.
    pub kind: String,
    /// Number of exchanges.
    pub exchanges: u64,
    /// Their latency.
    pub latency: Latency,
    /// How they ended.
    pub outcomes: Outcomes,
}

/// The party that has to change something.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize,
)]
pub struct Culprit {
    /// Role of the party.
    pub role: Role,
    /// Endpoint of the party; for the network, the server endpoint on whose path the time was lost.
    pub endpoint: Endpoint,
}

/// Numbers of affected exchanges and connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Affected {
    /// Number of exchanges with this cause.
    pub exchanges: u64,
    /// Exchanges at the same endpoint.
    pub of_exchanges: u64,
    /// Number of connections with this cause.
    pub connections: u64,
}

/// A value inserted into a cause's texts; `findings/causes/<cause>.md` names it as `{name}`.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub enum Fact {
    /// A duration, shown in ms or s.
    Ns(u64),
    /// A number of bytes.
    Bytes(u64),
    /// A rate, bits per second.
    BitsPerSecond(u64),
    /// A plain number.
    Count(u64),
    /// A share of one, shown as a percentage.
    Share(f64),
    /// A public id or other text that is not translated.
    Text(String),
}

impl Fact {
    /// Returns a plain number; `None` for other kinds.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(*count),
            _ => None,
        }
    }
}

/// One link of the causal chain: one frame and its role in the chain.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Evidence {
    /// The frame.
    pub frame: FrameId,
    /// The role in the chain, an id from the message table (`flight_end`, `ack`, `next`).
    #[serde(with = "crate::literal")]
    pub part: Literal,
    /// The side that sent it.
    pub from: Side,
    /// TCP payload, bytes.
    pub payload_bytes: u32,
    /// Time since the previous frame of the chain, ns.
    pub after_ns: u64,
}

/// A similar cause that was considered and excluded.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct RuledOut {
    /// The similar cause.
    pub cause: Cause,
    /// The reason for the exclusion: the id of a sentence in the cause's texts.
    #[serde(with = "crate::literal")]
    pub why: Literal,
}

/// Counts of findings in captures whose cause is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Judged {
    /// Number of findings that were right.
    pub right: u64,
    /// Number of all findings.
    pub all: u64,
}

/// A cause, with its cost and its evidence.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// The party that has to change something.
    pub culprit: Culprit,
    /// Numbers of affected exchanges and connections.
    pub affected: Affected,
    /// Time that would be saved without the cause, ns.
    pub lost_ns: u64,
    /// `lost_ns` as a share of the wall time of all exchanges, 0 to 1.
    pub share: f64,
    /// Measured latency at the culprit's server endpoint.
    pub latency: Latency,
    /// Predicted latency there without the cause.
    pub counterfactual: Prediction,
    /// Confidence in the finding, 0 to 1.
    pub confidence: f64,
    /// One clear instance of the causal chain.
    pub evidence: Vec<Evidence>,
    /// The connection of `evidence`: the client's and the server's endpoint.
    pub evidence_flow: Option<(Endpoint, Endpoint)>,
    /// Number of the evidence's exchange on that connection, from 1; 0 if it belongs to none.
    pub evidence_exchange: u64,
    /// State of the system that supports or contradicts the finding; empty if no state was read.
    pub state: Vec<StateEvidence>,
    /// Experiments that support or refute the finding; empty if none was made.
    pub experiments: Vec<ExperimentEvidence>,
    /// Packets were captured and do not show the finding.
    pub is_unseen: bool,
    /// Similar causes that were excluded.
    pub ruled_out: Vec<RuledOut>,
    /// Values for the texts of the cause.
    pub facts: Vec<(&'static str, Fact)>,
    /// The name and version of the software at the culprit, for concrete fixes.
    pub software: Option<String>,
    /// The application protocol there.
    pub protocol: Protocol,
    /// The side that was waited for.
    pub sender: Side,
    /// The finding as seen by each of two places; empty if there is one place.
    pub sights: Vec<Sight>,
    /// The load under which the finding appears, if single requests do not show it.
    pub load: Option<Load>,
}

/// Concurrent requests. A finding under load counts the exchanges of the load and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Load {
    /// Number of concurrent connections.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub connections: u64,
    /// Wall time of all captured exchanges of the load, ns.
    pub wall_ns: u64,
}

impl Finding {
    /// Creates a finding of `cause` that no packet shows, with all other values unknown.
    pub fn of_cause(cause: Cause, culprit: Culprit) -> Self {
        Self {
            cause,
            culprit,
            affected: Affected::default(),
            lost_ns: 0,
            share: 0.0,
            latency: Latency::default(),
            counterfactual: Prediction::default(),
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

/// A socket option, queue or kernel counter that supports or contradicts a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct StateEvidence {
    /// The id of its sentence in `state.md`.
    pub id: &'static str,
    /// The state supports the finding; otherwise it contradicts it.
    pub agrees: bool,
    /// The option, queue or counter, by its name in the kernel's documentation.
    pub setting: &'static str,
    /// The value, as the kernel states it.
    pub value: String,
    /// The socket, destination or table that it belongs to.
    pub place: String,
    /// The process that holds the socket: `nginx (pid 4242)`.
    pub process: Option<String>,
    /// When it was read, nanoseconds since the Unix epoch.
    pub read_ns: Option<u64>,
    /// Values for its sentence.
    pub facts: Vec<(&'static str, Fact)>,
}

/// A fact worth reporting that is not a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Id of the observation in the message table (`delayed_acks`, `capture_drops`, …).
    pub id: &'static str,
    /// Values for its texts.
    pub facts: Vec<(&'static str, Fact)>,
    /// Some frames that show it.
    pub frames: Vec<FrameId>,
}

/// The entry of one connection in the report.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct ConnectionReport {
    /// The endpoint that opened the connection.
    pub client: Endpoint,
    /// The endpoint that accepted the connection.
    pub server: Endpoint,
    /// The application protocol.
    pub protocol: Protocol,
    /// First frame of the connection.
    pub first_frame: FrameId,
    /// Capture time of the first frame.
    pub first_ns: u64,
    /// Capture time of the last frame.
    pub last_ns: u64,
    /// Vantage of the capture of this connection.
    pub vantage: Vantage,
    /// Base RTT client to server, ns; 0 if never measured.
    pub rtt_min_ns: u64,
    /// Number of exchanges on the connection.
    pub exchanges: u64,
    /// Wall time of its exchanges by owner, without that of `lookup`.
    pub ledger: Ledger,
    /// What the ledger has otherwise than the ledgers of its exchanges.
    pub reassigned: Vec<Reassigned>,
    /// The look-up that its first exchange had to wait for.
    pub lookup: Option<LookupReport>,
    /// Time lost to faults, ns.
    pub lost_ns: u64,
    /// Data sent by the client.
    pub client_to_server: DirectionReport,
    /// Data sent by the server.
    pub server_to_client: DirectionReport,
}

impl ConnectionReport {
    /// Moves time in the ledger, as far as its owner has it. Returns the amount moved, ns.
    pub fn reassign(&mut self, mut reassigned: Reassigned) -> u64 {
        let Reassigned { from, to, .. } = &mut reassigned;
        to.ns = self.ledger.transfer(*from, to.owner, to.ns);
        if to.ns > 0 {
            self.reassigned.push(reassigned);
        }
        reassigned.to.ns
    }
}

/// One direction of a connection, with tcptrace's labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DirectionReport {
    /// Number of packets.
    pub packets: u64,
    /// Payload bytes, retransmissions included.
    pub actual_data_bytes: u64,
    /// Payload bytes, each counted once.
    pub unique_bytes: u64,
    /// Number of retransmitted segments with data.
    pub rexmt_data_packets: u64,
    /// Segments retransmitted by the retransmission timer.
    pub rto_count: u64,
    /// Segments retransmitted because of duplicate ACKs or SACK.
    pub fast_retransmissions: u64,
    /// Segments retransmitted although the data had arrived.
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
    /// Maximum flight, bytes.
    pub flight_size_max_bytes: u64,
    /// Minimum RTT sample, ns; 0 if there is none.
    pub rtt_min_ns: u64,
}
