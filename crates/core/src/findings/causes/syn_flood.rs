//! Many half-open connections (RFC 4987).

use crate::findings::confidence;
use crate::findings::proof::Proof;
use crate::findings::tally::EndpointTally;
use crate::findings::thresholds::{FLOOD_COMPLETED_PART, FLOOD_HALF_OPEN_MIN, FLOOD_RATE_MIN};
use crate::model::{
    Affected, Cause, Culprit, Evidence, Fact, Finding, Prediction, Role, RuledOut, Sighting,
};
use crate::tcp::Connection;
use crate::wire::{Endpoint, Side};
use std::collections::BTreeSet;

/// Greatest number of distinct sources that are counted; a greater number would not change the
/// finding.
const SOURCES_MAX: usize = 4096;

/// The handshakes at an endpoint that were begun and never completed.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Flood {
    /// Number of these handshakes.
    pub count: u64,
    /// Number of those among them that the server answered with a SYN-ACK.
    pub answered: u64,
    /// Number of those among them of which only the SYN-ACK was captured.
    has_only_syn_acks: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    sources: BTreeSet<[u8; 16]>,
    frames: Option<(Sighting, Sighting)>,
}

/// Returns the earlier of two frames.
fn earlier(one: Sighting, other: Sighting) -> Sighting {
    std::cmp::min_by_key(one, other, |seen| (seen.time_ns, seen.frame))
}

/// Returns the later of two frames.
fn later(one: Sighting, other: Sighting) -> Sighting {
    std::cmp::max_by_key(one, other, |seen| (seen.time_ns, seen.frame))
}

impl Flood {
    /// Adds an unfinished handshake.
    pub fn add(&mut self, connection: &Connection) {
        self.count += 1;
        self.answered += u64::from(connection.setup.syn_acks > 0);
        self.has_only_syn_acks += u64::from(connection.setup.has_only_syn_acks());
        let at_ns = connection.first_ns;
        self.first_ns = Some(self.first_ns.map_or(at_ns, |first_ns| first_ns.min(at_ns)));
        self.last_ns = self.last_ns.max(at_ns);
        if self.sources.len() < SOURCES_MAX {
            self.sources.insert(connection.client().address);
        }
        let frames = connection.setup.frames();
        if let Some(seen) = frames.syn.or(frames.syn_ack) {
            let (first, last) = self.frames.unwrap_or((seen, seen));
            self.frames = Some((earlier(first, seen), later(last, seen)));
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.answered += other.answered;
        self.has_only_syn_acks += other.has_only_syn_acks;
        self.first_ns = match (self.first_ns, other.first_ns) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.last_ns = self.last_ns.max(other.last_ns);
        let room = SOURCES_MAX.saturating_sub(self.sources.len());
        self.sources.extend(other.sources.iter().take(room).copied());
        self.frames = match (self.frames, other.frames) {
            (Some((a, b)), Some((c, d))) => Some((earlier(a, c), later(b, d))),
            (mine, theirs) => mine.or(theirs),
        };
    }

    /// Returns the first and the last frame of the flood as evidence.
    fn evidence(&self) -> Vec<Evidence> {
        let Some((first, last)) = self.frames else { return Vec::new() };
        let mut proof = Proof::default();
        for seen in [first, last] {
            proof.add_frame(if seen.from == Side::Client { "syn" } else { "syn_ack" }, seen);
        }
        proof.evidence()
    }

    /// Returns whether the capture contains only the server's direction.
    fn is_of_answers(&self) -> bool {
        2 * self.has_only_syn_acks > self.count
    }

    /// Returns the client, if all handshakes come from one.
    pub(in crate::findings) fn only_source(&self) -> Option<[u8; 16]> {
        let mut sources = self.sources.iter();
        sources.next().copied().filter(|_| sources.next().is_none())
    }

    /// Returns the first and the last frame of the flood.
    pub(in crate::findings) fn ends(&self) -> Option<(Sighting, Sighting)> {
        self.frames
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let answered = (self.answered > 0).then_some((Cause::Refused, "listener"));
        let always =
            [(Cause::AcceptQueueOverflow, "never_completes"), (Cause::SynRetransmit, "many_flows")];
        let all = always.into_iter().chain(answered);
        all.map(|(cause, why)| RuledOut { cause, why }).collect()
    }

    fn duration_ns(&self) -> u64 {
        self.first_ns.map_or(0, |first_ns| self.last_ns - first_ns)
    }

    /// Returns the number of SYNs per second during the flood.
    fn rate(&self) -> u64 {
        let ns = u128::from(self.duration_ns().max(1));
        let rate = u128::from(self.count.saturating_sub(1)) * 1_000_000_000 / ns;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Returns the number of SYNs per second, with a flood shorter than a second taken for one of a
    /// second.
    fn per_second(&self) -> u64 {
        (u128::from(self.count) * 1_000_000_000 / u128::from(self.duration_ns().max(1_000_000_000)))
            as u64
    }
}

/// Returns whether many handshakes were begun in a short time and hardly any was completed.
pub(in crate::findings) fn is_flooded(endpoint: &EndpointTally) -> bool {
    let flood = &endpoint.set_ups.flood;
    let many = flood.count >= FLOOD_HALF_OPEN_MIN && flood.per_second() >= FLOOD_RATE_MIN;
    many && completed(endpoint) < flood.count / FLOOD_COMPLETED_PART
}

/// Returns the number of completed handshakes. If the clients' direction was not captured, these
/// are the connections on which the server sent anything after the SYN-ACK.
fn completed(endpoint: &EndpointTally) -> u64 {
    if endpoint.set_ups.flood.is_of_answers() {
        endpoint.connections.saturating_sub(endpoint.set_ups.flood.count)
    } else {
        endpoint.set_ups.established
    }
}

/// Returns a finding if the endpoint was flooded. During the flood, `repeated` exchanges of other
/// clients had to retransmit their SYN, which cost them `lost_ns`.
pub(in crate::findings) fn recognise(
    server: Endpoint,
    endpoint: &EndpointTally,
    repeated: u64,
    lost_ns: u64,
) -> Option<Finding> {
    let flood = &endpoint.set_ups.flood;
    if !is_flooded(endpoint) {
        return None;
    }
    let latency = endpoint.all.latency.latency();
    let facts = vec![
        (if flood.is_of_answers() { "answers" } else { "syns" }, Fact::Count(flood.count)),
        ("duration_ns", Fact::Ns(flood.duration_ns())),
        ("sources", Fact::Count(flood.sources.len() as u64)),
        ("completed", Fact::Count(completed(endpoint))),
        ("rate", Fact::Count(flood.rate())),
        ("rate_bps", Fact::BitsPerSecond(flood.rate().saturating_mul(60 * 8))),
    ];
    let victims = (repeated > 0).then_some(("victims", Fact::Count(repeated)));
    Some(Finding {
        cause: Cause::SynFlood,
        culprit: Culprit { role: Role::Network, endpoint: server },
        affected: Affected {
            exchanges: repeated,
            of_exchanges: endpoint.all.exchanges,
            connections: flood.count,
        },
        lost_ns,
        share: 0.0,
        latency,
        counterfactual: Prediction::exactly(latency),
        confidence: confidence::of_many(Cause::SynFlood, flood.count),
        evidence: flood.evidence(),
        evidence_flow: None,
        evidence_exchange: 0,
        state: Vec::new(),
        ruled_out: flood.ruled_out(),
        facts: facts.into_iter().chain(victims).collect(),
        software: endpoint.identity.software.clone().map(String::from),
        protocol: endpoint.identity.protocol,
        sender: Side::Client,
        sights: Vec::new(),
        experiments: Vec::new(),
        is_unseen: false,
        load: None,
    })
}
