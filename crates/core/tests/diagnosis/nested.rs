//! Exchanges that wait for a look-up of their server: its time counts once.

use crate::diagnosis::diagnose;
use crate::frames::{Packet, pcap_of};
use crate::names::{
    ANSWER, CLIENT, MS, QUERY, REQUEST, RESOLVER, RESPONSE, SERVER, Traffic, message,
};
use std::net::SocketAddr;
use tcpwhy_core::model::{Cause, Finding, Owner, Report};
use tcpwhy_core::report::{Look, text};

/// The address of the proxy, at which the capture is taken.
const PROXY: [u8; 4] = [10, 0, 0, 9];

/// One connection: addresses, and the next sequence numbers of both sides.
struct Talk {
    ends: [SocketAddr; 2],
    next: [u32; 2],
}

impl Talk {
    fn new(client: ([u8; 4], u16), server: ([u8; 4], u16)) -> Self {
        Self {
            ends: [client.into(), server.into()],
            next: [500 + u32::from(server.1), 9_000 + u32::from(server.1)],
        }
    }

    fn say(&mut self, traffic: &mut Traffic, after_ns: u64, by: usize, flags: &str, bytes: &[u8]) {
        let ack = if flags == "S" { 0 } else { self.next[1 - by] };
        let said = Packet {
            source: self.ends[by],
            destination: self.ends[1 - by],
            vlan: false,
            padded: false,
            ip_id: self.next[by] as u16,
            ttl: 64,
            marked: false,
            checksum: 0,
            flags: flags.to_owned(),
            seq: self.next[by],
            ack,
            window: 64_000,
            mss: None,
            window_scale: None,
            sack_permitted: false,
            sack: Vec::new(),
            timestamps: None,
            payload: bytes.to_vec(),
            total_len: None,
            without_payload: false,
            icmp: None,
        };
        self.next[by] += bytes.len() as u32 + u32::from(flags.contains('S'));
        traffic.put(after_ns, said.frame());
    }
}

/// Three requests to the proxy. It looks the name of its upstream up, which takes 300 ms, `after_ns`
/// after the request, connects to it, and answers 0.1 ms after that has answered.
fn looked_up(after_ns: u64) -> Report {
    let mut traffic = Traffic::default();
    for port in 40_001..40_004 {
        let mut outer = Talk::new((CLIENT, port), (PROXY, 3128));
        outer.say(&mut traffic, 5_000 * MS, 0, "S", &[]);
        outer.say(&mut traffic, MS / 50, 1, "S.", &[]);
        outer.say(&mut traffic, 10 * MS, 0, ".", &[]);
        outer.say(&mut traffic, MS / 50, 0, "P.", REQUEST);
        outer.say(&mut traffic, MS / 50, 1, ".", &[]);
        traffic.datagram(after_ns, (PROXY, RESOLVER), &message(QUERY, None));
        traffic.datagram(300 * MS, (RESOLVER, PROXY), &message(ANSWER, Some(SERVER)));
        let mut inner = Talk::new((PROXY, port), (SERVER, 80));
        inner.say(&mut traffic, MS / 10, 0, "S", &[]);
        inner.say(&mut traffic, MS, 1, "S.", &[]);
        inner.say(&mut traffic, MS / 50, 0, ".", &[]);
        inner.say(&mut traffic, MS / 50, 0, "P.", REQUEST);
        inner.say(&mut traffic, 3 * MS, 1, "P.", RESPONSE);
        inner.say(&mut traffic, MS / 50, 0, ".", &[]);
        outer.say(&mut traffic, MS / 10, 1, "P.", RESPONSE);
        outer.say(&mut traffic, 10 * MS, 0, ".", &[]);
    }
    diagnose(&pcap_of(&traffic.frames, 65_535))
}

fn costs(report: &Report) -> Vec<(Cause, u64)> {
    let cost = |finding: &Finding| (finding.cause, finding.lost_ns / MS);
    report.findings.iter().map(cost).collect()
}

#[test]
fn requests_wait_for_the_look_up_of_their_proxy_once() {
    let report = looked_up(MS / 5);
    let [(Cause::DnsSlow, lost_ms)] = costs(&report)[..] else { panic!("{:#?}", report.findings) };
    assert!((890..=900).contains(&lost_ms), "{lost_ms} ms");
    let text = text::render(&report, &Look::default());
    let words: Vec<_> = text.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("Requests to 10.0.0.9:3128 wait for it"), "{text}");
    // The set-up, the request and the answer take 20 ms beside the look-up.
    let whole_ms = report.totals.wall_ns / MS;
    assert!((900..990).contains(&whole_ms), "{whole_ms} ms");
    assert_eq!(report.ledger.total_ns(), report.totals.wall_ns);
    assert!(report.findings[0].share > 0.9, "{:?}", report.findings[0]);
}

#[test]
fn a_proxy_that_works_before_it_looks_a_name_up_has_time_of_its_own() {
    let report = looked_up(300 * MS);
    let mut causes = costs(&report);
    causes.sort_unstable();
    let [(own, own_ms), (slow, _)] = causes[..] else { panic!("{:#?}", report.findings) };
    assert_eq!([own, slow], [Cause::DnsSlow, Cause::ServerThink], "{own_ms}");
    let server_ms = report.ledger.of(Owner::Server) / MS;
    assert!((900..950).contains(&server_ms), "the look-ups count once: {:?}", report.ledger);
}
