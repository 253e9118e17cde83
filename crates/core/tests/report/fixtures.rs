//! Hand-made reports: what the analysis might say, without the analysis.

use std::net::{IpAddr, Ipv6Addr};
use tcpwhy_core::app::Protocol;
use tcpwhy_core::capture::{FrameId, InputSummary, LinkType, Problem, Site};
use tcpwhy_core::model::{
    Affected, Cause, ConnectionReport, Culprit, DirectionReport, EndpointReport, Evidence, Fact,
    Finding, KindReport, Latency, Ledger, Observation, Outcomes, Owner, Prediction, Report, Role,
    RuledOut, Totals, Vantage,
};
use tcpwhy_core::report::*;
use tcpwhy_core::wire::{DecodeError, Endpoint, Side};

const MS: u64 = 1_000_000;
const START_NS: u64 = 1_769_853_600_000_000_000;

pub fn endpoint(address: &str, port: u16) -> Endpoint {
    let address = match address.parse().expect("an address") {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    Endpoint { address: Ipv6Addr::octets(&address), port }
}

fn latency(p50_ns: u64, p90_ns: u64, p99_ns: u64, max_ns: u64) -> Latency {
    Latency { p50_ns, p90_ns, p99_ns, max_ns }
}

fn ledger(owners: &[(Owner, u64)]) -> Ledger {
    let mut ledger = Ledger::default();
    owners.iter().for_each(|&(owner, ns)| ledger.add(owner, ns));
    ledger
}

fn evidence(number: u64, part: &'static str, from: Side, bytes: u32, after_ns: u64) -> Evidence {
    Evidence { frame: FrameId::new(0, number), part, from, payload_bytes: bytes, after_ns }
}

fn report(path: &str, packets: u64, ledger: Ledger) -> Report {
    let input = InputSummary {
        path: path.into(),
        packets,
        bytes: packets * 290,
        first_ns: Some(START_NS),
        last_ns: Some(START_NS + 2_000 * MS),
        link_types: vec![LinkType::ETHERNET],
        problems: Vec::new(),
        site: Site::default(),
    };
    Report {
        inputs: vec![input],
        totals: Totals {
            wall_ns: ledger.total_ns(),
            segments: packets,
            first_ns: START_NS,
            last_ns: START_NS + 2_000 * MS,
            ..Totals::default()
        },
        ledger,
        ..Report::default()
    }
}

/// nginx with `tcp_nodelay off`: the case of the manual.
pub fn nagle() -> Report {
    let server = endpoint("10.200.0.2", 8080);
    let ledger = ledger(&[
        (Owner::NagleDelayedAck, 38_906 * MS),
        (Owner::Server, 754 * MS),
        (Owner::Path, 40 * MS),
    ]);
    let mut report = report("nginx-slow.pcap", 4_812, ledger);
    report.totals.connections = 21;
    report.totals.exchanges = 940;
    report.totals.vantage = Vantage::Server;
    report.latency = latency(43_900_000, 44_200_000, 48_200_000, 51_040_000);
    report.endpoints = vec![EndpointReport {
        endpoint: server,
        software: Some("nginx/1.22.1".into()),
        protocol: Protocol::Http1,
        connections: 21,
        exchanges: 940,
        ledger,
        latency: report.latency,
        outcomes: Outcomes::of_answered(940),
        kinds: vec![KindReport {
            kind: "GET /items/{id}".into(),
            exchanges: 940,
            latency: report.latency,
            outcomes: Outcomes::of_answered(940),
        }],
    }];
    report.findings = vec![nagle_finding(server)];
    report.observations = vec![Observation {
        id: "keep_alives",
        facts: vec![("count", Fact::Count(12)), ("max_ns", Fact::Ns(40 * MS))],
        frames: vec![FrameId::new(0, 77)],
    }];
    report.connections = vec![ConnectionReport {
        client: endpoint("10.200.0.1", 50_112),
        server,
        protocol: Protocol::Http1,
        first_frame: FrameId::new(0, 1),
        first_ns: START_NS,
        last_ns: START_NS + 1_999 * MS,
        vantage: Vantage::Server,
        rtt_min_ns: 42_000,
        exchanges: 45,
        ledger: report.ledger,
        reassigned: Vec::new(),
        lookup: None,
        lost_ns: 1_900 * MS,
        client_to_server: DirectionReport { packets: 135, ..DirectionReport::default() },
        server_to_client: DirectionReport { packets: 92, ..DirectionReport::default() },
    }];
    report.connections_omitted = 20;
    report
}

/// An interval around `likely`: from three quarters of it to five quarters.
fn prediction(likely: Latency) -> Prediction {
    let least = likely.with(&likely, |ns, _| ns - ns / 4);
    Prediction { likely, least, most: likely.with(&likely, |ns, _| ns + ns / 4) }
}

fn nagle_finding(server: Endpoint) -> Finding {
    Finding {
        cause: Cause::NagleDelayedAck,
        culprit: Culprit { role: Role::Server, endpoint: server },
        affected: Affected { exchanges: 924, of_exchanges: 940, connections: 21 },
        lost_ns: 38_906 * MS,
        share: 0.98,
        latency: latency(43_900_000, 44_200_000, 48_200_000, 51_040_000),
        counterfactual: prediction(latency(400_000, 612_000, 1_900_000, 2_050_000)),
        confidence: 0.99,
        evidence: vec![
            evidence(219, "flight_end", Side::Server, 238, 0),
            evidence(241, "ack", Side::Client, 0, 41_400_000),
            evidence(242, "next", Side::Server, 615, 3_000),
        ],
        evidence_flow: Some((endpoint("10.200.0.1", 50_112), server)),
        evidence_exchange: 0,
        state: Vec::new(),
        ruled_out: vec![
            RuledOut { cause: Cause::ServerThink, why: "follows_ack" },
            RuledOut { cause: Cause::ReceiveWindow, why: "window_open" },
        ],
        facts: vec![
            ("flight_bytes", Fact::Bytes(238)),
            ("held_bytes", Fact::Bytes(615)),
            ("ack_delay_ns", Fact::Ns(41_400_000)),
            ("ack_delay_p50_ns", Fact::Ns(41_400_000)),
            ("cases", Fact::Count(924)),
            ("of_cases", Fact::Count(924)),
            ("count", Fact::Count(924)),
            ("waits", Fact::Count(924)),
        ],
        software: Some("nginx/1.22.1".into()),
        protocol: Protocol::Http1,
        sender: Side::Server,
        sights: Vec::new(),
        experiments: Vec::new(),
        is_unseen: false,
        load: None,
    }
}

/// Returns a report without a fault: the server's own work, and a delayed ACK that delays no data.
pub fn healthy() -> Report {
    let ledger = ledger(&[(Owner::Server, 610 * MS), (Owner::Path, 12 * MS), (Owner::Unknown, MS)]);
    let mut report = report("ok.pcapng", 1_204, ledger);
    report.totals.connections = 4;
    report.totals.exchanges = 300;
    report.totals.vantage = Vantage::Client;
    report.latency = latency(2_040_000, 2_400_000, 3_100_000, 4 * MS);
    report.endpoints = vec![EndpointReport {
        endpoint: endpoint("2001:db8::2", 443),
        software: None,
        protocol: Protocol::Tls,
        connections: 4,
        exchanges: 300,
        ledger,
        latency: report.latency,
        outcomes: Outcomes::of_answered(300),
        kinds: Vec::new(),
    }];
    report.observations = vec![
        Observation { id: "keep_alives", facts: Vec::new(), frames: Vec::new() },
        Observation {
            id: "one_off_retransmissions",
            facts: vec![("count", Fact::Count(1))],
            frames: vec![FrameId::new(0, 9)],
        },
    ];
    report
}

/// Three endpoints, four findings, one without lost time, from a rotated set.
pub fn mixture() -> Report {
    let (web, files) = (endpoint("192.0.2.10", 80), endpoint("2001:db8:0:1::7", 9000));
    let dead = endpoint("192.0.2.44", 5432);
    let whole = ledger(&[
        (Owner::RetransmissionTimeout, 8_214 * MS),
        (Owner::SendBuffer, 23_000 * MS),
        (Owner::Server, 3_300 * MS),
        (Owner::Path, 2_100 * MS),
        (Owner::Bandwidth, 900 * MS),
        (Owner::Dns, 20 * MS),
        (Owner::Unknown, 210 * MS),
    ]);
    let mut report = report("edge-1.pcap.gz", 88_190, whole);
    let mut second = report.inputs[0].clone();
    second.path = "edge-2.pcap.gz".into();
    report.inputs.push(second);
    report.totals.connections = 412;
    report.totals.exchanges = 5_120;
    report.totals.lookups = 12;
    report.totals.vantage = Vantage::Mixed;
    report.latency = latency(2 * MS, 240 * MS, 1_240 * MS, 25_400 * MS);
    let endpoint_report = |endpoint, software: Option<&str>, exchanges, latency| EndpointReport {
        endpoint,
        software: software.map(str::to_owned),
        protocol: Protocol::Http1,
        connections: exchanges / 12,
        exchanges,
        ledger: ledger(&[(Owner::Server, exchanges * MS)]),
        latency,
        outcomes: Outcomes::of_answered(exchanges),
        kinds: Vec::new(),
    };
    report.endpoints = vec![
        endpoint_report(
            files,
            None,
            4,
            latency(25_000 * MS, 25_100 * MS, 25_400 * MS, 25_400 * MS),
        ),
        endpoint_report(
            web,
            Some("Apache/2.4.57 (Debian)"),
            5_116,
            latency(2 * MS, 9 * MS, 414 * MS, 900 * MS),
        ),
    ];
    report.findings = vec![send_buffer(files), timeout(web), refused(dead), server_cost(web)];
    report
}

fn send_buffer(server: Endpoint) -> Finding {
    Finding {
        cause: Cause::SendBuffer,
        culprit: Culprit { role: Role::Server, endpoint: server },
        affected: Affected { exchanges: 4, of_exchanges: 4, connections: 4 },
        lost_ns: 23_000 * MS,
        share: 0.609,
        latency: latency(25_000 * MS, 25_100 * MS, 25_400 * MS, 25_400 * MS),
        counterfactual: prediction(latency(1_900 * MS, 1_950 * MS, 2_000 * MS, 2_000 * MS)),
        confidence: 0.93,
        evidence: vec![
            Evidence {
                frame: FrameId::new(1, 1_000_234),
                ..evidence(0, "flight_end", Side::Server, 1_440, 0)
            },
            Evidence {
                frame: FrameId::new(1, 1_000_240),
                ..evidence(0, "ack", Side::Client, 0, 20_100_000)
            },
            Evidence {
                frame: FrameId::new(1, 1_000_241),
                ..evidence(0, "next", Side::Server, 1_440, 12_000)
            },
        ],
        evidence_flow: Some((endpoint("2001:db8:0:1::9", 40_001), server)),
        evidence_exchange: 0,
        state: Vec::new(),
        ruled_out: vec![
            RuledOut { cause: Cause::SlowStart, why: "ceiling_constant" },
            RuledOut { cause: Cause::CongestionWindow, why: "nothing_lost" },
        ],
        facts: vec![
            ("ceiling_bytes", Fact::Bytes(16_384)),
            ("rtt_ns", Fact::Ns(20_100_000)),
            ("rate_bps", Fact::BitsPerSecond(6_520_000)),
            ("bdp_bytes", Fact::Bytes(250_000)),
            ("rounds", Fact::Count(1_230)),
        ],
        software: None,
        protocol: Protocol::Turns,
        sender: Side::Server,
        sights: Vec::new(),
        experiments: Vec::new(),
        is_unseen: false,
        load: None,
    }
}

fn timeout(server: Endpoint) -> Finding {
    Finding {
        cause: Cause::RetransmissionTimeout,
        culprit: Culprit { role: Role::Network, endpoint: server },
        affected: Affected { exchanges: 40, of_exchanges: 5_116, connections: 33 },
        lost_ns: 8_214 * MS,
        share: 0.217,
        latency: latency(2 * MS, 9 * MS, 414 * MS, 900 * MS),
        counterfactual: prediction(latency(2 * MS, 6 * MS, 12 * MS, 30 * MS)),
        confidence: 0.9,
        evidence: vec![
            evidence(5, "lost", Side::Server, 512, 0),
            evidence(9, "retransmission", Side::Server, 512, 204_000_000),
        ],
        evidence_flow: Some((endpoint("192.0.2.1", 1_025), server)),
        evidence_exchange: 0,
        state: Vec::new(),
        ruled_out: vec![RuledOut { cause: Cause::ServerThink, why: "sent_again" }],
        facts: vec![
            ("count", Fact::Count(40)),
            ("rto_ns", Fact::Ns(204 * MS)),
            ("place", Fact::Text("between the capture and the client".into())),
        ],
        software: None,
        protocol: Protocol::Http1,
        sender: Side::Server,
        sights: Vec::new(),
        experiments: Vec::new(),
        is_unseen: false,
        load: None,
    }
}

fn server_cost(server: Endpoint) -> Finding {
    Finding {
        cause: Cause::ServerThink,
        culprit: Culprit { role: Role::Server, endpoint: server },
        affected: Affected { exchanges: 5_116, of_exchanges: 5_116, connections: 408 },
        lost_ns: 3_300 * MS,
        share: 0.087,
        evidence: vec![evidence(20, "request", Side::Client, 90, 0)],
        facts: vec![("p50_ns", Fact::Ns(600_000)), ("p99_ns", Fact::Ns(8 * MS))],
        software: Some("Apache/2.4.57 (Debian)".into()),
        state: Vec::new(),
        ruled_out: Vec::new(),
        confidence: 0.95,
        ..timeout(server)
    }
}

fn refused(server: Endpoint) -> Finding {
    Finding {
        cause: Cause::Refused,
        culprit: Culprit { role: Role::Server, endpoint: server },
        affected: Affected { exchanges: 0, of_exchanges: 0, connections: 7 },
        lost_ns: 0,
        share: 0.0,
        latency: Latency::default(),
        counterfactual: Prediction::default(),
        confidence: 1.0,
        evidence: vec![
            evidence(31, "syn", Side::Client, 0, 0),
            evidence(32, "reset", Side::Server, 0, 90_000),
        ],
        evidence_flow: Some((endpoint("192.0.2.1", 1_099), server)),
        evidence_exchange: 0,
        state: Vec::new(),
        ruled_out: Vec::new(),
        facts: vec![("count", Fact::Count(7))],
        software: None,
        protocol: Protocol::Turns,
        sender: Side::Server,
        sights: Vec::new(),
        experiments: Vec::new(),
        is_unseen: false,
        load: None,
    }
}

/// The Nagle case, from a capture that is cut, has holes, and contains hostile names.
pub fn troubled() -> Report {
    let mut report = nagle();
    let input = &mut report.inputs[0];
    input.path = "night\u{1b}[31m.pcap".into();
    input.problems = vec![Problem::Cut { offset: 1_048_560 }];
    report.totals.decode_errors.add_errors(DecodeError::ALL[0], 1);
    report.observations.push(Observation {
        id: "capture_drops",
        facts: vec![("bytes", Fact::Bytes(18_824)), ("connections", Fact::Count(3))],
        frames: Vec::new(),
    });
    report.endpoints[0].kinds[0].kind = "GET /\u{1b}]0;pwned\u{7}".into();
    report.findings[0].confidence = 0.7;
    report.findings[0].facts.clear();
    report
}

/// An empty capture that was read nevertheless.
pub fn empty() -> Report {
    report("-", 3, Ledger::default())
}

pub fn ladder() -> Ladder {
    let at = |time_ns, step| LadderStep { time_ns, step };
    let segment = |from, number, bytes, ack| Step::Segment {
        from,
        frame: FrameId::new(0, number),
        label: Label::Segment(SegmentLabel { bytes, ack, ..SegmentLabel::default() }),
    };
    Ladder {
        client: endpoint("10.200.0.1", 50_112),
        server: endpoint("10.200.0.2", 8080),
        steps: vec![
            at(
                0,
                Step::Mark(Mark::Exchange {
                    number: 1,
                    kind: "GET /items/{id}".into(),
                    wall_ns: 62 * MS,
                }),
            ),
            at(0, segment(Side::Client, 218, 90, 0)),
            at(300_000, segment(Side::Server, 219, 238, 0)),
            at(
                300_000,
                Step::Gap {
                    duration_ns: 41_400_000,
                    owner: Owner::NagleDelayedAck,
                    cause: Some(Cause::NagleDelayedAck),
                    beyond: Beyond::default(),
                },
            ),
            at(41_700_000, segment(Side::Client, 241, 0, 239)),
            at(41_703_000, segment(Side::Server, 242, 615, 0)),
            at(
                41_703_000,
                Step::Gap {
                    duration_ns: 20 * MS,
                    owner: Owner::CongestionWindow,
                    cause: Some(Cause::SlowStart),
                    beyond: Beyond::default(),
                },
            ),
            at(
                61_703_000,
                Step::Gap {
                    duration_ns: 30_000,
                    owner: Owner::Path,
                    cause: None,
                    beyond: Beyond::default(),
                },
            ),
        ],
    }
}
