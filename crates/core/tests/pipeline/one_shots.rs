//! Short connections whose segments were all expected are counted without being followed. The
//! result has to be the same as if they were followed, whatever else happens on them or between
//! them.

use super::report_with;
use super::wire::{Packet, pcap_header};
use proptest::prelude::*;
use tcpwhy_core::pipeline::Options;

/// Number of connections in a capture: enough that each shard lists the worst and only counts the
/// others.
const CONNECTIONS: u32 = 4_500;

/// An irregularity of a connection, at the packet with a number.
#[derive(Clone, Copy, Debug)]
enum Odd {
    Missing(usize),
    /// The packet is captured twice, with this delay.
    Twice(usize, u32),
    /// The packet is sent again, with this delay.
    Again(usize, u32),
    /// Captured behind its successor.
    Overtaken(usize),
    /// A RST instead.
    Reset(usize),
    Window(usize, u16),
    /// The packet does not have the next sequence number.
    Misnumbered(usize),
    /// Only this many bytes of the packet were captured.
    Cut(usize, usize),
    /// The packet is the last one in the capture.
    Last(usize),
    /// The packet is sent this much later.
    Late(usize, u32),
    /// The packet is sent in time, and arrives this much later.
    Queued(usize, u32),
    Unpushed(usize),
}

/// The packets of a client that opens and closes a connection.
#[derive(Clone, Debug)]
struct Script {
    /// Round trips to the client and the server, and how long the client and the server take, ns.
    rtts_ns: [u32; 2],
    pauses_ns: [u32; 2],
    /// Requests, one after the other.
    turns: u8,
    /// The protocol, and the length of its messages.
    kind: u8,
    body: u16,
    /// Whether request and response are acknowledged by separate ACKs.
    acked: [bool; 2],
    /// The side that closes first, and whether its FIN is in the last segment with data.
    leaves: usize,
    with_answer: bool,
    /// Whether client and server announce their software.
    named: [bool; 2],
    /// The client's next connection has the same port, if it comes after this one.
    same_port: bool,
    odd: Option<Odd>,
}

fn odd() -> impl Strategy<Value = Odd> {
    let which = 0..12_usize;
    let later =
        prop_oneof![Just(3_000_u32), Just(5_000_000), Just(250_000_000), Just(1_500_000_000)];
    (which, later, 0..15).prop_map(|(which, later, odd)| match odd {
        0 => Odd::Missing(which),
        1 => Odd::Twice(which, later),
        2 => Odd::Again(which, later),
        3 => Odd::Overtaken(which),
        4 => Odd::Reset(which),
        5 => Odd::Window(which, (later % 3_000) as u16),
        6 => Odd::Misnumbered(which),
        7 => Odd::Cut(which, 60),
        8 => Odd::Last(which),
        9 => Odd::Unpushed(which),
        10 | 11 => Odd::Queued(which, later),
        _ => Odd::Late(which, later),
    })
}

fn script() -> impl Strategy<Value = Script> {
    let rtt_ns =
        || prop_oneof![Just(4_000_u32), 20_000..900_000_u32, Just(30_000_000), Just(120_000_000)];
    let pause_ns =
        || prop_oneof![3 => 0..900_000_u32, 1 => 0..300_000_000_u32, 1 => Just(230_000_000)];
    let turns = prop_oneof![5 => Just(1_u8), 1 => 0..4_u8];
    let odd = prop_oneof![2 => Just(None), 3 => odd().prop_map(Some)];
    let ways = ([rtt_ns(), rtt_ns()], [pause_ns(), pause_ns()]);
    (ways, turns, (0..3_u8, 1..1_300_u16), any::<([bool; 2], bool, bool, [bool; 2], bool)>(), odd)
        .prop_map(|((rtts_ns, pauses_ns), turns, (kind, body), flags, odd)| {
            let (acked, leaves, with_answer, named, same_port) = flags;
            let leaves = usize::from(leaves);
            Script {
                rtts_ns,
                pauses_ns,
                turns,
                kind,
                body,
                acked,
                leaves,
                with_answer,
                named,
                same_port,
                odd,
            }
        })
}

/// A connection in the making.
struct Line {
    packets: Vec<Packet>,
    time_ns: u64,
    ports: [u16; 2],
    next: [u32; 2],
    numbers: [u16; 2],
}

impl Line {
    fn put(&mut self, after_ns: u32, side: usize, flags: &'static str, payload: &[u8]) {
        self.time_ns += u64::from(after_ns);
        self.packets.push(Packet {
            time_ns: self.time_ns,
            sent_ns: self.time_ns,
            side,
            ports: self.ports,
            seq: self.next[side],
            ack: self.next[1 - side],
            payload: payload.to_vec(),
            flags,
            window: 60_000,
            number: self.numbers[side],
        });
        let controls = u32::from(flags.contains(['S', 'F']));
        self.next[side] = self.next[side].wrapping_add(payload.len() as u32 + controls);
        self.numbers[side] = self.numbers[side].wrapping_add(1);
    }
}

impl Script {
    fn request(&self) -> Vec<u8> {
        let name = if self.named[0] { "User-Agent: curl/8\r\n" } else { "" };
        format!("GET /items/{} HTTP/1.1\r\nHost: a\r\n{name}\r\n", self.kind).into_bytes()
    }

    fn response(&self) -> Vec<u8> {
        let name = if self.named[1] { "Server: nginx/1.22\r\n" } else { "" };
        let header = format!("HTTP/1.1 200 OK\r\n{name}Content-Length: {}\r\n\r\n", self.body);
        [header.into_bytes(), vec![b'x'; self.body.into()]].concat()
    }

    /// The packets of a connection number `number` that begins at `time_ns`.
    fn play(&self, number: u32, time_ns: u64) -> Vec<Packet> {
        let port = if self.same_port { 20_000 } else { 20_001 + number as u16 % 40_000 };
        let next = [number.wrapping_mul(0x9e37_79b9), number.wrapping_mul(0x85eb_ca6b)];
        let numbers = [number as u16, number as u16 ^ 0x5555];
        let mut line = Line { packets: Vec::new(), time_ns, ports: [port, 80], next, numbers };
        let ([client_ns, server_ns], [idle_ns, think_ns]) = (self.rtts_ns, self.pauses_ns);
        line.put(0, 0, "S", b"");
        line.put(server_ns, 1, "SA", b"");
        line.put(client_ns, 0, "A", b"");
        for turn in 1..=self.turns {
            line.put(idle_ns, 0, "PA", &self.request());
            if self.acked[0] {
                line.put(server_ns, 1, "A", b"");
            }
            let is_last = turn == self.turns && self.with_answer && self.leaves == 1;
            let wait_ns = if self.acked[0] { 0 } else { server_ns };
            line.put(wait_ns + think_ns, 1, if is_last { "FPA" } else { "PA" }, &self.response());
            if self.acked[1] {
                line.put(client_ns, 0, "A", b"");
            }
        }
        let (first, second) = (self.leaves, 1 - self.leaves);
        let to_first_ns = self.rtts_ns[first];
        if !(self.with_answer && first == 1 && self.turns > 0) {
            line.put(1_000, first, "FA", b"");
        }
        line.put(self.rtts_ns[second], second, if self.acked[0] { "A" } else { "FA" }, b"");
        if self.acked[0] {
            line.put(1_000, second, "FA", b"");
        }
        line.put(to_first_ns, first, "A", b"");
        self.spoil(line.packets)
    }

    fn spoil(&self, mut packets: Vec<Packet>) -> Vec<Packet> {
        let Some(odd) = self.odd else { return packets };
        let (Odd::Missing(which)
        | Odd::Twice(which, _)
        | Odd::Again(which, _)
        | Odd::Overtaken(which)
        | Odd::Reset(which)
        | Odd::Window(which, _)
        | Odd::Misnumbered(which)
        | Odd::Cut(which, _)
        | Odd::Last(which)
        | Odd::Late(which, _)
        | Odd::Queued(which, _)
        | Odd::Unpushed(which)) = odd;
        let which = which % packets.len();
        match odd {
            Odd::Missing(_) => drop(packets.remove(which)),
            Odd::Twice(_, later_ns) | Odd::Again(_, later_ns) => {
                let mut again = packets[which].clone();
                again.time_ns += u64::from(later_ns);
                again.number += u16::from(matches!(odd, Odd::Again(..)));
                packets.push(again);
            }
            Odd::Overtaken(_) => {
                if let Some(next) = packets.get(which + 1) {
                    packets[which].time_ns = next.time_ns + 500;
                }
            }
            Odd::Reset(_) => {
                packets.truncate(which + 1);
                (packets[which].flags, packets[which].payload) = ("RA", Vec::new());
            }
            Odd::Window(_, window) => packets[which].window = window,
            Odd::Misnumbered(_) => packets[which].number = packets[which].number.wrapping_add(3),
            Odd::Cut(..) => {}
            Odd::Last(_) => packets.truncate(which + 1),
            Odd::Late(_, later_ns) | Odd::Queued(_, later_ns) => {
                let sent_ns = packets[which].sent_ns;
                for packet in &mut packets[which..] {
                    packet.time_ns += u64::from(later_ns);
                    packet.sent_ns = packet.time_ns;
                }
                if matches!(odd, Odd::Queued(..)) {
                    packets[which].sent_ns = sent_ns;
                }
            }
            Odd::Unpushed(_) => {
                if packets[which].flags == "PA" {
                    packets[which].flags = "A";
                }
            }
        }
        packets
    }

    /// Number of captured bytes of packet `which`.
    fn snap(&self, which: usize) -> usize {
        match self.odd {
            Some(Odd::Cut(cut, bytes)) if which == cut => bytes,
            _ => usize::MAX,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn counting_short_connections_comes_to_what_following_them_does(
        scripts in prop::collection::vec(script(), 1..40),
        every_ns in prop_oneof![Just(20_000_u64), Just(400_000)],
    ) {
        let mut packets = Vec::new();
        for number in 0..CONNECTIONS {
            let script = &scripts[number as usize % scripts.len()];
            let played = script.play(number, u64::from(number) * every_ns);
            let snaps = (0..played.len()).map(|which| script.snap(which));
            packets.extend(played.clone().into_iter().zip(snaps));
        }
        packets.sort_by_key(|(packet, _)| packet.time_ns);
        let mut bytes = pcap_header();
        packets.iter().for_each(|(packet, snap)| packet.write(&mut bytes, *snap));
        let [short, long] = [false, true].map(|disable_fast_path| {
            report_with(&bytes, 0, 1 << 20, Options { disable_fast_path, ..Options::default() })
        });
        prop_assert_eq!(format!("{short:#?}"), format!("{long:#?}"));
    }
}
