//! Costs: where time goes though nothing is wrong, told per server endpoint.

use crate::app::{Protocol, Side};
use crate::findings::assemble::{Floors, finding};
use crate::findings::culprit::culprit;
use crate::findings::facts::Facts;
use crate::findings::scene::Proof;
use crate::findings::slow::{Firsts, Tail};
use crate::findings::tally::{CauseTally, EndpointTally, Key, Sample, Tally};
use crate::findings::thresholds::{
    AMBIGUOUS_CONFIDENCE_MAX, TYPED_LINE_BYTES, TYPED_MIN_NS, VERY_FEW_EXCHANGES,
};
use crate::findings::{confidence, slow, tls_handshake};
use crate::judge::thresholds::INITIAL_WINDOW_BYTES;
use crate::model::{Cause, Class, Evidence, Fact, Finding, Latency, Ledger, Owner, RuledOut};
use crate::wire::Endpoint;
use hashbrown::HashMap;

/// The owners whose time a cost explains, per cause.
pub(super) const COSTS: &[(Cause, &[Owner])] = &[
    (Cause::ServerThink, &[Owner::Server]),
    (Cause::ClientThink, &[Owner::Client]),
    (Cause::PathRtt, &[Owner::Path, Owner::Connect]),
    (Cause::TlsHandshake, &[Owner::Tls]),
    (Cause::Bandwidth, &[Owner::Bandwidth, Owner::Queueing]),
];

/// The costs that are worth a reader's time. What a fault that is told in `faults` owns of an
/// owner's time is not told again as a cost.
pub(super) fn costs(
    tally: &Tally,
    floors: &Floors,
    wall_ns: u64,
    faults: &[(&Key, &CauseTally)],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let context = Context { tally, floors, wall_ns, firsts: Firsts::of(tally) };
    let mut covered: HashMap<Endpoint, Ledger> = HashMap::new();
    for (key, cause) in faults {
        covered.entry(key.server).or_default().merge(&cause.covers);
    }
    for (&server, endpoint) in &tally.endpoints {
        let told = |owners: &[Owner]| -> u64 {
            let covered = covered.get(&server);
            covered.map_or(0, |covers| owners.iter().map(|&owner| covers.of(owner)).sum())
        };
        for &(cause, owners) in COSTS {
            let owned_ns: u64 = owners.iter().map(|&owner| endpoint.all.ledger.of(owner)).sum();
            let late_ns = if cause == Cause::PathRtt { endpoint.set_up_late_ns } else { 0 };
            let cost_ns = owned_ns.saturating_sub(told(owners).max(late_ns));
            let sender = if cause == Cause::ClientThink { Side::Client } else { Side::Server };
            let about = (cause, sender, server);
            findings.extend(cost(&context, about, cost_ns, endpoint));
        }
        // Whose window it is depends on who sends: uploads open the client's.
        for (cause, sender) in [Cause::SlowStart, Cause::CongestionWindow]
            .into_iter()
            .flat_map(|cause| Side::ALL.map(|side| (cause, side)))
        {
            let of_sender =
                |(key, _): &(&Key, &CauseTally)| key.cause == cause && key.sender == sender;
            let met = tally.causes.of(server).filter(of_sender);
            let cost_ns = met.map(|(_, it)| it.lost_ns).sum();
            let about = (cause, sender, server);
            findings.extend(cost(&context, about, cost_ns, endpoint));
        }
    }
    debug_assert!(findings.iter().all(|finding| finding.cause.class() == Class::Cost));
    findings
}

/// The sums from which all costs are derived.
struct Context<'a> {
    tally: &'a Tally,
    floors: &'a Floors,
    /// Wall time of all exchanges, ns.
    wall_ns: u64,
    firsts: Firsts<'a>,
}

fn cost(
    context: &Context<'_>,
    (cause, sender, server): (Cause, Side, Endpoint),
    cost_ns: u64,
    endpoint: &EndpointTally,
) -> Option<Finding> {
    let &Context { tally, floors, wall_ns, ref firsts } = context;
    let total_ns = endpoint.all.ledger.total_ns().max(1);
    if (cost_ns as f64) < floors.cost_share * total_ns as f64 {
        return None;
    }
    // Of a handshake, what its ends took is only a part.
    let is_known =
        |key: &Key| key.cause == cause && key.sender == sender && cause != Cause::TlsHandshake;
    let known = tally.causes.of(server).find(|(key, _)| is_known(key));
    let (key, tallied) = match known {
        Some((key, tallied)) => (key.clone(), tallied.clone()),
        None => {
            let sample = Sample::index_of(cause).and_then(|place| endpoint.samples[place].as_ref());
            let client = sample.map(|it| Endpoint { port: 0, ..it.client }).unwrap_or_default();
            let culprit = culprit(cause, sender, client, server);
            (Key { cause, sender, server, culprit }, CauseTally::default())
        }
    };
    let tail = Tail::of(cause, &tallied, endpoint);
    let mean_ns = cost_ns / endpoint.all.exchanges.max(1);
    // A round trip is what every exchange costs: it is worth a word where it is a long one.
    let floor_ns = if cause == Cause::PathRtt { 5 * floors.cost_ns } else { floors.cost_ns };
    let rows = (cause == Cause::PathRtt).then(|| firsts.rows(server, endpoint));
    let rows = rows.filter(|rows| slow::adds_up(rows, endpoint, cost_ns, floors));
    if mean_ns < floor_ns && !tail.is_felt(endpoint, cost_ns, floors) && rows.is_none() {
        return None;
    }
    let mut finding = finding(key.culprit, &[(&key, &tallied)], tally, wall_ns);
    finding.lost_ns = cost_ns;
    finding.share = cost_ns as f64 / wall_ns.max(1) as f64;
    if tallied.exchanges == 0 {
        finding.affected.exchanges = endpoint.all.exchanges;
        finding.affected.connections = endpoint.connections;
        finding.protocol = endpoint.protocol;
        finding.software = endpoint.software.clone().map(String::from);
        finding.counterfactual = scaled(&finding.latency, 1.0 - cost_ns as f64 / total_ns as f64);
        finding.confidence = confidence::of_many(cause, endpoint.all.exchanges);
        show(cause, endpoint, &mut finding);
    }
    let mut facts: Facts = std::mem::take(&mut finding.facts).into_iter().collect();
    facts.extend(endpoint_facts(cause, endpoint));
    facts.extend(rows.as_ref().map(slow::sequence_facts).unwrap_or_default());
    let of_few = tail.facts(endpoint, cost_ns);
    if rows.is_none() && !of_few.is_empty() {
        finding.affected.exchanges = tail.count;
        if tallied.exchanges == 0
            && let Some(tail) = endpoint.tails.of(cause)
        {
            let without = endpoint.all.latency.exchanged(&tail.now, &tail.without).latency();
            finding.counterfactual = without.at_most(&finding.latency);
        }
        facts.extend(of_few);
    }
    if cause == Cause::TlsHandshake {
        facts.extend(tls_handshake::tell(&mut finding, server, endpoint, tally));
    }
    facts.extend(of_very_few(&finding, &facts));
    finding.facts = facts.into_iter().collect();
    if finding.facts.iter().any(|(name, _)| *name == "distance_max_ns") {
        finding.confidence = finding.confidence.min(AMBIGUOUS_CONFIDENCE_MAX);
    }
    finding.ruled_out.extend(ruled_out(cause, server, endpoint, tally));
    Some(finding)
}

/// That what an application took was seen in one or two exchanges only, and whether it may be a
/// person's pause: that of a protocol which nobody knows, between a line and another.
fn of_very_few(finding: &Finding, facts: &Facts) -> Facts {
    let is_think = matches!(finding.cause, Cause::ServerThink | Cause::ClientThink);
    let exchanges = finding.affected.exchanges;
    if !is_think || exchanges > VERY_FEW_EXCHANGES || facts.contains_key("slow") {
        return Facts::new();
    }
    let mut few = Facts::from([("alone", Fact::Count(exchanges))]);
    let is_line = |it: &Evidence| (1..=TYPED_LINE_BYTES).contains(&it.payload_bytes);
    let lines = finding.evidence.iter().filter(|it| it.payload_bytes > 0);
    let is_typed = finding.protocol == Protocol::Turns
        && lines.clone().count() > 1
        && lines.clone().all(is_line)
        && finding.lost_ns >= exchanges * TYPED_MIN_NS;
    if is_typed {
        few.insert("typed_ns", Fact::Ns(finding.lost_ns / exchanges.max(1)));
    }
    few
}

/// The exchange to which it mattered most, as evidence.
fn show(cause: Cause, endpoint: &EndpointTally, finding: &mut Finding) {
    let Some(Some(sample)) = Sample::index_of(cause).map(|place| &endpoint.samples[place]) else {
        return;
    };
    let mut proof = Proof::default();
    let (first, last) = match cause {
        Cause::TlsHandshake => ("client_hello", "response"),
        Cause::Bandwidth => ("request", "last"),
        _ => ("request", "response"),
    };
    if cause == Cause::PathRtt {
        let set_up = [("syn", sample.syn), ("syn_ack", sample.syn_ack), ("ack", sample.ack)];
        for (part, frame) in set_up {
            if let Some(seen) = frame {
                proof.see(part, seen);
            }
        }
    }
    proof.see(first, sample.first);
    proof.see(last, sample.last);
    finding.evidence = proof.evidence();
    finding.evidence_flow = Some((sample.client, sample.server));
    finding.evidence_exchange = sample.exchange;
}

/// Values known of the endpoint as a whole.
fn endpoint_facts(cause: Cause, endpoint: &EndpointTally) -> Facts {
    let mut facts = Facts::new();
    let exchanges = endpoint.all.exchanges.max(1);
    let ledger = &endpoint.all.ledger;
    let rtt_ns = endpoint.rtts.quantile_ns(0.5);
    if rtt_ns > 0 {
        facts.insert("rtt_ns", Fact::Ns(rtt_ns));
    }
    match cause {
        Cause::PathRtt => {
            let [longer_ns, by_ns] = endpoint.longer_ns;
            if longer_ns > 0 {
                facts.insert("longer_ns", Fact::Ns(by_ns));
            }
            // Those that were seen: time divided by the least of them counts queues and late
            // answers, too.
            let answered = endpoint.all.exchanges.saturating_sub(endpoint.unanswered);
            let round_trips = answered + endpoint.connects + endpoint.path_waits + endpoint.granted;
            if round_trips > 0 {
                facts.insert("round_trips", Fact::Count(round_trips));
            }
            if endpoint.granted > 0 {
                facts.insert("granted", Fact::Count(endpoint.granted));
            }
            if endpoint.connects > 0 {
                facts.insert("connects", Fact::Count(endpoint.connects));
            }
            if endpoint.connects * 2 >= exchanges {
                let set_up_ns = ledger.of(Owner::Connect) + ledger.of(Owner::Tls);
                let reuse_ns = (ledger.total_ns() - set_up_ns) / exchanges;
                facts.insert("reuse_ns", Fact::Ns(reuse_ns));
            }
        }
        Cause::TlsHandshake => {
            let [full, resumed] = endpoint.handshakes;
            facts.insert("handshakes", Fact::Count(full + resumed));
            if resumed > 0 {
                facts.insert("full", Fact::Count(full));
            }
            facts.insert("resumed", if resumed > 0 { Fact::Count(resumed) } else { none() });
            if endpoint.tls.count() > 0 {
                facts.insert("p50_ns", Fact::Ns(endpoint.tls.quantile_ns(0.5)));
            }
            if endpoint.certificate_bytes > 0 {
                let bytes = u64::from(endpoint.certificate_bytes);
                facts.insert("certificate_bytes", Fact::Bytes(bytes));
            }
        }
        Cause::Bandwidth => {
            let busier = endpoint.rates.iter().max_by_key(|rates| rates.count());
            let rate = busier.map_or(0, |rates| rates.quantile_ns(0.5));
            if rate > 0 {
                facts.insert("bottleneck_bps", Fact::BitsPerSecond(rate.saturating_mul(8)));
            }
        }
        _ => {}
    }
    facts
}

fn none() -> Fact {
    Fact::Text("none".into())
}

fn ruled_out(
    cause: Cause,
    server: Endpoint,
    endpoint: &EndpointTally,
    tally: &Tally,
) -> Vec<RuledOut> {
    let nothing_repeated = tally.cost_of(Cause::SynRetransmit, server) == 0;
    let small = (1..=INITIAL_WINDOW_BYTES).contains(&u64::from(endpoint.certificate_bytes));
    // That no application answers a handshake says something where one was captured, and took about
    // a round trip: from the SYN to the ACK of its answer it is one, wherever the capture was
    // taken.
    let rtt_ns = endpoint.rtts.quantile_ns(0.5);
    let shown = endpoint.samples[0].as_ref();
    let shown_ns = shown.and_then(|it| Some(it.ack?.time_ns.saturating_sub(it.syn?.time_ns)));
    let agrees = |ns: u64| rtt_ns / 2 <= ns && ns <= 2 * rtt_ns;
    let measured = rtt_ns > 0 && shown_ns.is_some_and(agrees);
    let candidates: &[(Cause, &'static str, bool)] = match cause {
        Cause::PathRtt => &[
            (Cause::ServerThink, "handshake_agrees", measured),
            (Cause::SynRetransmit, "nothing_lost", nothing_repeated),
        ],
        Cause::TlsHandshake => {
            &[(Cause::ServerThink, "before_request", true), (Cause::SlowStart, "chain_fits", small)]
        }
        _ => &[],
    };
    let holding = candidates.iter().filter(|(_, _, holds)| *holds);
    holding.map(|&(cause, why, _)| RuledOut { cause, why }).collect()
}

/// Latency without a cost that is spread evenly over the exchanges.
fn scaled(latency: &Latency, share: f64) -> Latency {
    let scale = |ns: u64| (ns as f64 * share) as u64;
    Latency {
        p50_ns: scale(latency.p50_ns),
        p90_ns: scale(latency.p90_ns),
        p99_ns: scale(latency.p99_ns),
        max_ns: scale(latency.max_ns),
    }
}
