//! Invariants that hold for every capture, whatever happened on the wire.

use crate::diagnosis::{diagnose, diagnose_files, joined};
use crate::frames::{Packet, pcap_of};
use crate::language::{Place, Side, Trace, parse};
use crate::network::{EPOCH_NS, capture, packets};
use crate::traces::traces;
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::LazyLock;
use tcpwhy_core::model::{Fact, Ledger, Owner, Report};
use tcpwhy_core::pipeline::SHARDS;
use tcpwhy_core::wire::{Endpoint, FlowHasher, FlowKey};

/// A captured frame.
type Stamped = (u64, Packet);

static TRACES: LazyLock<Vec<Trace>> =
    LazyLock::new(|| traces().into_iter().map(|(_, trace)| trace).collect());

/// Damage to one packet by a hostile or broken network, or by an incomplete capture.
#[derive(Clone, Debug)]
enum Mishap {
    Drop,
    Repeat { later_ns: u64 },
    Delay { later_ns: u64 },
    Seq(i32),
    Ack(i32),
    Window(u16),
    Flags(&'static str),
    Cut(usize),
}

fn mishaps() -> impl Strategy<Value = Mishap> {
    let flags = proptest::sample::select(vec!["S", "S.", ".", "F.", "R", "R.", "FP.", "SFRP.", ""]);
    prop_oneof![
        Just(Mishap::Drop),
        (0..400_000_000_u64).prop_map(|later_ns| Mishap::Repeat { later_ns }),
        (0..50_000_000_u64).prop_map(|later_ns| Mishap::Delay { later_ns }),
        prop_oneof![-3000..3000_i32, any::<i32>()].prop_map(Mishap::Seq),
        prop_oneof![-3000..3000_i32, any::<i32>()].prop_map(Mishap::Ack),
        prop_oneof![Just(0_u16), any::<u16>()].prop_map(Mishap::Window),
        flags.prop_map(Mishap::Flags),
        (0..100_usize).prop_map(Mishap::Cut),
    ]
}

/// One connection: a trace as seen at one place, with mishaps to some of its packets.
fn connections() -> impl Strategy<Value = Vec<Stamped>> {
    let mishaps = prop::collection::vec((any::<prop::sample::Index>(), mishaps()), 0..6);
    (any::<prop::sample::Index>(), any::<bool>(), mishaps).prop_map(|(index, near, mishaps)| {
        let place = if near { Place::Client } else { Place::Server };
        let mut seen = packets(index.get(&TRACES), place);
        for (index, mishap) in mishaps {
            if !seen.is_empty() {
                let at = index.index(seen.len());
                befall(&mut seen, at, &mishap);
            }
        }
        seen
    })
}

fn befall(seen: &mut Vec<Stamped>, at: usize, mishap: &Mishap) {
    let (time_ns, packet) = &mut seen[at];
    match mishap {
        Mishap::Drop => {
            seen.remove(at);
        }
        Mishap::Repeat { later_ns } => {
            let copy = (*time_ns + later_ns, packet.clone());
            seen.push(copy);
        }
        Mishap::Delay { later_ns } => *time_ns += later_ns,
        Mishap::Seq(by) => packet.seq = packet.seq.wrapping_add_signed(*by),
        Mishap::Ack(by) => packet.ack = packet.ack.wrapping_add_signed(*by),
        Mishap::Window(window) => packet.window = *window,
        Mishap::Flags(flags) => packet.flags = (*flags).to_owned(),
        Mishap::Cut(len) => packet.payload.truncate(*len),
    }
    seen.sort_by_key(|(time_ns, _)| *time_ns);
}

/// Shifts the initial sequence numbers of client and server by `isn`.
fn renumber(packet: &mut Packet, isn: [u32; 2]) {
    let side = usize::from(packet.source < packet.destination);
    packet.seq = packet.seq.wrapping_add(isn[side]);
    packet.ack = packet.ack.wrapping_add(isn[1 - side]);
    for (left, right) in &mut packet.sack {
        *left = left.wrapping_add(isn[1 - side]);
        *right = right.wrapping_add(isn[1 - side]);
    }
}

/// Lowest port of a client.
const CLIENT_PORT_MIN: u16 = 40_000;

/// The port that takes the place of `port` in connection `index` of several.
fn port_beside(port: u16, index: usize) -> u16 {
    let by = if port < CLIENT_PORT_MIN { 100 } else { 10 };
    port + by * index as u16
}

/// Puts each connection at a different server, with its own sequence numbers (RFC 6528), and begins
/// it `after_ns`; in order of time.
fn together(connections: &[Vec<Stamped>], after_ns: &[u64]) -> Vec<(u64, Vec<u8>)> {
    let mut frames = Vec::new();
    for (index, connection) in connections.iter().enumerate() {
        for (time_ns, packet) in connection {
            let mut packet = packet.clone();
            packet.change(&|packet| {
                renumber(packet, [7_654_321 * index as u32, 12_345_678 * index as u32]);
                for end in [&mut packet.source, &mut packet.destination] {
                    end.set_port(port_beside(end.port(), index));
                }
            });
            frames.push((time_ns + after_ns[index], packet.frame()));
        }
    }
    frames.sort_by_key(|(time_ns, _)| *time_ns);
    frames
}

/// Puts each connection between two different hosts, and all into one shard: connections of
/// different shards share no state.
fn apart(mut connections: Vec<Vec<Stamped>>) -> Vec<Vec<Stamped>> {
    let shard = connections.first().and_then(|first| shard_of(first, 0, 0));
    for (index, connection) in connections.iter_mut().enumerate() {
        for (_, packet) in connection.iter_mut() {
            packet.change(&|packet| {
                for end in [&mut packet.source, &mut packet.destination] {
                    let ip = match end.ip() {
                        IpAddr::V4(ip) => IpAddr::V4((ip.to_bits() + 16 * index as u32).into()),
                        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() + 16 * index as u128).into()),
                    };
                    end.set_ip(ip);
                }
            });
        }
        let by = (0..1000).find(|&by| shard_of(connection, index, by) == shard);
        for (_, packet) in connection.iter_mut() {
            packet.change(&|packet| shift_client_port(packet, by.unwrap_or_default()));
        }
    }
    connections
}

fn shift_client_port(packet: &mut Packet, by: u16) {
    for end in [&mut packet.source, &mut packet.destination] {
        if end.port() >= CLIENT_PORT_MIN {
            end.set_port(end.port() + by);
        }
    }
}

/// Shard of the first segment of a connection, once it is put together with others and its client's
/// port is `by` higher.
fn shard_of(connection: &[Stamped], index: usize, by: u16) -> Option<usize> {
    let (_, first) = connection.iter().find(|(_, packet)| packet.icmp.is_none())?;
    let mut first = first.clone();
    shift_client_port(&mut first, by);
    let [source, destination] = [first.source, first.destination].map(|mut end| {
        end.set_port(port_beside(end.port(), index));
        Endpoint::from(end)
    });
    let (flow, _) = FlowKey::new(source, destination);
    Some(FlowHasher::shard(FlowHasher::new(0).hash(&flow), SHARDS))
}

/// Returns whether a look-up is among the frames. How long an unanswered one was waited for depends
/// on the end of the capture.
fn has_lookup(connection: &[Stamped]) -> bool {
    connection.iter().any(|(_, it)| it.source.port() == 53 || it.destination.port() == 53)
}

/// A connection with one request, which both sides close.
fn healthy_connection() -> Vec<Stamped> {
    let trace = parse(concat!(
        "expect no fault\n",
        "0 > S\n+0.1 < S.\n+0.1 > .\n+0.1 > P. \"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n\"\n",
        "+1 < P. \"HTTP/1.1 204 No Content\\r\\n\\r\\n\"\n+0.1 > F.\n+0.1 < F.\n+0.1 > .\n",
    ));
    packets(&trace, Place::Client)
}

/// The state of a closed connection is freed when others begin, and late segments may follow.
#[test]
fn connections_of_other_hosts_that_begin_between_two_segments_change_nothing() {
    const MS: u64 = 1_000_000;
    const BEFORE_NS: u64 = 10_000 * MS;
    /// Latest silences of a trace in which others begin.
    const SILENCES_MAX: usize = 8;
    let mut differing = Vec::new();
    for (name, trace) in traces() {
        let seen = packets(&trace, trace.vantages[0]);
        if has_lookup(&seen) {
            continue;
        }
        let silences = seen.windows(2).filter(|it| it[1].0.saturating_sub(it[0].0) > 11 * MS);
        let silences = silences.map(|it| [it[0].0 + 11 * MS, it[1].0 - MS / 1_000]);
        let silences = silences.filter(|[from_ns, _]| *from_ns >= EPOCH_NS);
        let begins: Vec<_> = silences.rev().take(SILENCES_MAX).flatten().collect();
        let mut connections = vec![seen];
        connections.resize(1 + begins.len(), healthy_connection());
        let connections = apart(connections);
        let report = |after_ns: &[u64]| {
            essence(&diagnose(&pcap_of(&together(&connections, after_ns), trace.snap_len)))
        };
        let between = begins.iter().map(|begin_ns| begin_ns + BEFORE_NS - EPOCH_NS);
        let between: Vec<_> = std::iter::once(BEFORE_NS).chain(between).collect();
        let mut before = vec![0; between.len()];
        before[0] = BEFORE_NS;
        if let Err(difference) = same(&report(&between), &report(&before)) {
            differing.push(format!("{name}: {difference}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n\n"));
}

/// Returns the report without names of files and numbers of frames.
fn essence(report: &Report) -> String {
    let mut findings: Vec<_> = report
        .findings
        .iter()
        .map(|finding| {
            let evidence: Vec<_> = finding
                .evidence
                .iter()
                .map(|link| (link.part, link.from, link.payload_bytes, link.after_ns))
                .collect();
            format!(
                "{:?} {:?} {:?} {} {:?} {:?} {} {evidence:?} {:?} {:?} {:?}",
                finding.cause,
                finding.culprit,
                finding.affected,
                finding.lost_ns,
                finding.latency,
                finding.counterfactual,
                finding.confidence,
                finding.evidence_flow,
                finding.facts,
                finding.software,
            )
        })
        .collect();
    findings.sort();
    let mut endpoints: Vec<_> =
        report.endpoints.iter().map(|endpoint| format!("{endpoint:?}")).collect();
    endpoints.sort();
    let observations: Vec<_> =
        report.observations.iter().map(|one| format!("{} {:?}", one.id, one.facts)).collect();
    format!(
        "{} connections {} exchanges {:?}\n{}\n{}\n{}",
        report.totals.connections,
        report.totals.exchanges,
        report.ledger,
        findings.join("\n"),
        endpoints.join("\n"),
        observations.join("\n"),
    )
}

/// Fails with the lines in which two reports differ.
fn same(one: &str, other: &str) -> Result<(), TestCaseError> {
    let (mut ones, mut others) = (one.lines(), other.lines());
    let mut differing = Vec::new();
    loop {
        let (one, other) = (ones.next(), others.next());
        if one.is_none() && other.is_none() {
            break;
        }
        if one != other {
            differing.push(format!("{}\n{}", one.unwrap_or("-"), other.unwrap_or("-")));
        }
    }
    prop_assert!(one == other, "{}", differing.join("\n\n"));
    Ok(())
}

/// Checks what holds for every report.
fn sound(report: &Report) -> Result<(), TestCaseError> {
    prop_assert_eq!(report.ledger.total_ns(), report.totals.wall_ns);
    let mut endpoints = Ledger::default();
    report.endpoints.iter().for_each(|endpoint| endpoints.merge(&endpoint.ledger));
    prop_assert_eq!(endpoints, report.ledger, "endpoints add up to the whole");
    let exchanges: u64 = report.endpoints.iter().map(|endpoint| endpoint.exchanges).sum();
    prop_assert_eq!(exchanges, report.totals.exchanges);
    Ok(())
}

/// Checks what also holds if the clock only runs forward.
fn plausible(report: &Report) -> Result<(), TestCaseError> {
    sound(report)?;
    // What is settled at the end of the capture is settled for each connection, too.
    if report.connections_omitted == 0 {
        let held = |ledger: &Ledger| ledger.of(Owner::NagleDelayedAck);
        let apart: u64 = report.connections.iter().map(|it| held(&it.ledger)).sum();
        prop_assert_eq!(apart, held(&report.ledger));
    }
    // Legs that were not seen are estimated from others that were.
    let span_ns = 2 * (report.totals.last_ns - report.totals.first_ns);
    prop_assert!(report.latency.max_ns <= span_ns, "{:?} in {span_ns}", report.latency);
    for finding in &report.findings {
        prop_assert!((0.0..=1.0).contains(&finding.confidence), "{finding:?}");
        prop_assert!(finding.lost_ns <= report.totals.wall_ns, "{finding:?}");
        let affected = finding.affected;
        prop_assert!(affected.exchanges <= affected.of_exchanges, "{finding:?}");
        prop_assert!((0.0..=1.0).contains(&finding.share), "{finding:?}");
        let (now, without) = (finding.latency, finding.counterfactual.likely);
        let quantiles = [
            (without.p50_ns, now.p50_ns),
            (without.p90_ns, now.p90_ns),
            (without.p99_ns, now.p99_ns),
            (without.max_ns, now.max_ns),
        ];
        for (without_ns, now_ns) in quantiles {
            prop_assert!(without_ns <= now_ns, "nothing is slower without it: {finding:?}");
        }
        prop_assert!(without.p50_ns <= without.p90_ns, "{finding:?}");
        prop_assert!(without.p90_ns <= without.p99_ns, "{finding:?}");
        prop_assert!(without.p99_ns <= without.max_ns, "{finding:?}");
        for (name, fact) in &finding.facts {
            // A part of the cost is a sum over exchanges as the cost is; the rest are single times.
            let most_ns = if *name == "counted_ns" { finding.lost_ns } else { span_ns };
            let fits = !matches!(fact, Fact::Ns(ns) if *ns > most_ns);
            prop_assert!(fits, "{name} in {finding:?}");
        }
    }
    Ok(())
}

/// Number of cases of each property: 1000, or `PROPTEST_CASES`.
fn cases() -> u32 {
    let given = std::env::var("PROPTEST_CASES").ok();
    given.map_or(1000, |cases| cases.parse().expect("a number in PROPTEST_CASES"))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        // However many cases are asked for.
        max_global_rejects: u32::MAX,
        // Seeds choose among the traces, and mean other cases once there are more of these: a
        // failing case becomes a trace as well.
        ..ProptestConfig::default()
    })]

    #[test]
    fn owners_sum_to_wall_time(
        connections in prop::collection::vec(connections(), 1..4),
        after_ns in prop::collection::vec(0..2_000_000_000_u64, 4),
    ) {
        plausible(&diagnose(&pcap_of(&together(&connections, &after_ns), 262_144)))?;
    }

    #[test]
    fn any_split_into_files_in_any_order_gives_the_same_answer(
        connections in prop::collection::vec(connections(), 1..4),
        after_ns in prop::collection::vec(0..2_000_000_000_u64, 4),
        files in 1..6_usize,
        shuffle in any::<prop::sample::Index>(),
    ) {
        let mut frames = together(&connections, &after_ns);
        // Files are ordered by time, so a tie between frames must not matter.
        for index in 1..frames.len() {
            frames[index].0 = frames[index].0.max(frames[index - 1].0 + 1);
        }
        prop_assume!(!frames.is_empty());
        let whole = essence(&diagnose(&pcap_of(&frames, 262_144)));
        let parts: Vec<_> = frames
            .chunks(frames.len().div_ceil(files))
            .enumerate()
            .map(|(index, part)| (format!("part{index}"), pcap_of(part, 262_144)))
            .collect();
        let mut given: Vec<_> =
            parts.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        let first = shuffle.index(given.len());
        given.rotate_left(first);
        given.reverse();
        same(&essence(&joined(&given)), &whole)?;
        // Dealt out like cards: every file spans the whole time.
        let mut dealt = vec![Vec::new(); files];
        frames.iter().enumerate().for_each(|(index, frame)| {
            dealt[index * 7 % files].push(frame.clone());
        });
        let dealt: Vec<_> = dealt.iter().map(|part| pcap_of(part, 262_144)).collect();
        let given: Vec<_> = dealt.iter().map(|bytes| ("dealt", bytes.as_slice())).collect();
        same(&essence(&diagnose_files(&given)), &whole)?;
    }

    #[test]
    fn when_connections_of_other_hosts_happen_changes_nothing(
        connections in prop::collection::vec(connections(), 2..5),
        one in prop::collection::vec(0..9_000_u64, 5),
        other in prop::collection::vec(0..9_000_u64, 5),
    ) {
        // Connections between the same two hosts share a path and its queue.
        let connections = apart(connections);
        prop_assume!(!connections.iter().any(|it| has_lookup(it)));
        let report = |after_ms: &[u64]| {
            let after_ns: Vec<_> = after_ms.iter().map(|ms| ms * 1_000_000).collect();
            essence(&diagnose(&pcap_of(&together(&connections, &after_ns), 262_144)))
        };
        let (one, other) = (report(&one), report(&other));
        // At the place of the capture, hosts with several addresses are known by coincidences only: work
        // that others had in progress then is a finding, or takes time from the one of the server ahead.
        let coincides = |report: &str| report.contains("UpstreamWait") || report.contains("\"ahead\"");
        prop_assume!(!coincides(&one) && !coincides(&other));
        same(&one, &other)?;
    }

    #[test]
    fn initial_sequence_numbers_change_nothing(
        connection in connections(),
        isn in prop::array::uniform2(prop_oneof![u32::MAX - 70_000..=u32::MAX, any::<u32>()]),
    ) {
        let mut moved = connection.clone();
        for (_, packet) in &mut moved {
            packet.change(&|packet| renumber(packet, isn));
        }
        let report = |connection: Vec<Stamped>| {
            essence(&diagnose(&pcap_of(&together(&[connection], &[0]), 262_144)))
        };
        same(&report(connection), &report(moved))?;
    }

    #[test]
    fn mutilated_captures_are_survived(
        connections in prop::collection::vec(connections(), 1..3),
        snap_len in 14..200_usize,
        bytes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
    ) {
        let mut file = pcap_of(&together(&connections, &[0, 1_000_000]), snap_len);
        for (index, byte) in bytes {
            // Behind the file header, so that it still is a capture.
            if file.len() > 24 {
                let at = 24 + index.index(file.len() - 24);
                file[at] = byte;
            }
        }
        sound(&diagnose(&file))?;
    }

    #[test]
    fn arbitrary_frames_are_survived(
        frames in prop::collection::vec(
            (any::<u32>(), prop::collection::vec(any::<u8>(), 0..120)), 0..30),
    ) {
        let frames: Vec<_> = frames
            .into_iter()
            .map(|(at_ns, bytes)| (EPOCH_NS + u64::from(at_ns), bytes))
            .collect();
        sound(&diagnose(&pcap_of(&frames, 262_144)))?;
    }

    #[test]
    fn clocks_that_jump_by_centuries_are_survived(
        connections in prop::collection::vec(connections(), 1..3),
        seconds in prop::collection::vec(any::<u32>(), 1..8),
    ) {
        let mut frames = together(&connections, &[0; 3]);
        for ((time_ns, _), second) in frames.iter_mut().zip(seconds.iter().cycle()) {
            *time_ns = u64::from(*second) * 1_000_000_000 + *time_ns % 1_000_000_000;
        }
        diagnose(&pcap_of(&frames, 262_144));
    }

    #[test]
    fn arbitrary_segments_between_two_hosts_are_survived(
        segments in prop::collection::vec(arbitrary_segment(), 0..60),
    ) {
        let mut now_ns = EPOCH_NS;
        let frames: Vec<_> = segments
            .into_iter()
            .map(|(after_ns, packet)| {
                now_ns += after_ns;
                (now_ns, packet.frame())
            })
            .collect();
        plausible(&diagnose(&pcap_of(&frames, 262_144)))?;
    }
}

fn arbitrary_segment() -> impl Strategy<Value = (u64, Packet)> {
    let number = || prop_oneof![0..5000_u32, u32::MAX - 5000..=u32::MAX, any::<u32>()];
    let flags = proptest::sample::select(vec!["S", "S.", ".", "P.", "F.", "R", "R.", "SFRP."]);
    let headers = (any::<bool>(), flags, number(), number(), any::<u16>(), any::<u16>());
    let options = (
        proptest::option::of(any::<u16>()),
        proptest::option::of(any::<u8>()),
        prop::collection::vec((number(), number()), 0..3),
        proptest::option::of(any::<(u32, u32)>()),
    );
    let payload = prop_oneof![
        Just(Vec::new()),
        Just(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        Just(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec()),
        prop::collection::vec(any::<u8>(), 0..3000),
    ];
    let after_ns = prop_oneof![0..1_000_000_u64, 0..5_000_000_000_u64];
    (after_ns, headers, options, payload).prop_map(|(after_ns, headers, options, payload)| {
        let (from_client, flags, seq, ack, window, ip_id) = headers;
        let (mss, window_scale, sack, timestamps) = options;
        let syn = flags.contains('S');
        let ends = ["10.0.0.1:40000", "10.0.0.2:80"].map(|end| end.parse().expect("an address"));
        let sender = if from_client { Side::Client } else { Side::Server } as usize;
        let packet = Packet {
            source: ends[sender],
            destination: ends[1 - sender],
            vlan: false,
            padded: false,
            ip_id,
            marked: false,
            checksum: 0,
            ttl: 64,
            flags: flags.to_owned(),
            seq,
            ack,
            window,
            mss: mss.filter(|_| syn),
            window_scale: window_scale.filter(|_| syn),
            sack_permitted: syn,
            sack: if syn { Vec::new() } else { sack },
            timestamps,
            payload,
            total_len: None,
            without_payload: false,
            icmp: None,
        };
        (after_ns, packet)
    })
}

/// A wait that nothing divides between path and server belongs to nobody on its connection, too.
#[test]
fn time_of_no_owner_is_that_of_the_connections() {
    let mut of_nobody = 0;
    for (name, trace) in traces() {
        for &place in &trace.vantages {
            let report = diagnose(&capture(&trace, place));
            let unknown = |ledger: &Ledger| ledger.of(Owner::Unknown);
            // Time of a connection that carries look-ups is not in the ledger of the report.
            let others = report.connections.iter().filter(|it| it.protocol.id() != "dns");
            let apart: u64 = others.map(|it| unknown(&it.ledger)).sum();
            assert_eq!(apart, unknown(&report.ledger), "{name}");
            of_nobody += u32::from(apart > 0);
        }
    }
    assert!(of_nobody > 5, "{of_nobody} captures have time of no owner");
}
