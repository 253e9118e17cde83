//! Expected segments take a fast path, which has to leave the same state as the general path,
//! whatever comes in between.

use super::report_with;
use super::wire::{Packet, pcap_header};
use proptest::prelude::*;
use tcpwhy_core::pipeline::Options;

/// The header of a capture file.
const PCAP_HEADER_BYTES: usize = 24;

/// The protocol of the connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Speech {
    Http,
    Redis,
    /// An unknown protocol.
    Other,
}

impl Speech {
    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Redis => 6_379,
            Self::Other => 9_000,
        }
    }

    fn request(self, number: u8) -> Vec<u8> {
        match self {
            Self::Http => format!("GET /items/{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
            Self::Redis => format!("*2\r\n$3\r\nGET\r\n$5\r\nkey{number:02}\r\n"),
            Self::Other => format!("\u{1}?{number}"),
        }
        .into_bytes()
    }

    fn response(self, number: u8) -> Vec<u8> {
        let body = vec![b'x'; 500 + usize::from(number)];
        let header = match self {
            Self::Http => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()),
            Self::Redis => format!("${}\r\n", body.len()),
            Self::Other => String::new(),
        };
        let end: &[u8] = if self == Self::Redis { b"\r\n" } else { b"" };
        [header.as_bytes(), &body, end].concat()
    }
}

/// An irregularity of a request and its response.
#[derive(Clone, Copy, Debug)]
enum Turn {
    SimpleExchange,
    /// The request is acknowledged before the response comes.
    AckedFirst,
    /// So is the response, before the next request.
    AckedAlone,
    /// The request differs or comes in two segments; or the response differs or has no end.
    OtherRequest(u8),
    RequestInTwo,
    OtherResponse(u8),
    Cut,
    /// In two segments.
    InTwo,
    /// The request was not captured.
    RequestMissing,
    ResponseMissing,
    /// So is one of several segments, or all but the end of it.
    LongMissing,
    BeginMissing,
    /// Sent again.
    RequestAgain,
    ResponseAgain,
    /// Captured twice.
    Copied,
    /// With this window in the request.
    Window(u16),
    /// Without PSH.
    Unpushed,
    /// The number of the response's packet is out of turn.
    Misnumbered,
}

#[derive(Clone, Debug)]
struct Step {
    turn: Turn,
    /// Time that the server takes, and that the client took before, ns.
    think_ns: u32,
    idle_ns: u32,
}

fn step() -> impl Strategy<Value = Step> {
    use Turn::*;
    let turn = prop_oneof![
        24 => Just(SimpleExchange),
        1 => prop::sample::select(vec![
            AckedFirst, AckedAlone, InTwo, RequestInTwo, Cut, OtherRequest(1), OtherRequest(2), OtherResponse(1), OtherResponse(2), RequestMissing, ResponseMissing, LongMissing, BeginMissing, RequestAgain,
            ResponseAgain, Copied, Window(0), Window(1), Window(60_000), Unpushed, Misnumbered,
        ]),
    ];
    let think_ns =
        prop_oneof![5 => 20_000..400_000_u32, 2 => 0..60_000_000_u32, 1 => 0..400_000_000_u32];
    let idle_ns = prop_oneof![8 => 20_000..400_000_u32, 1 => 0..600_000_000_u32];
    (turn, think_ns, idle_ns).prop_map(|(turn, think_ns, idle_ns)| Step { turn, think_ns, idle_ns })
}

/// A capture of one connection in the making.
struct Line {
    bytes: Vec<u8>,
    time_ns: u64,
    /// By side, client first: the next sequence number and packet number.
    next: [u32; 2],
    numbers: [u16; 2],
    /// Round trips to both, ns.
    legs_ns: [u64; 2],
    speech: Speech,
}

/// A packet, client's or server's.
#[derive(Clone, Copy)]
struct Sent<'a> {
    side: usize,
    seq: u32,
    payload: &'a [u8],
    flags: &'static str,
    window: u16,
}

impl Line {
    fn begin(legs_ns: [u64; 2], speech: Speech) -> Self {
        let bytes = pcap_header();
        let mut line =
            Self { bytes, time_ns: 0, next: [0; 2], numbers: [1, 7_000], legs_ns, speech };
        for (side, flags) in [(0, "S"), (1, "SA"), (0, "A")] {
            let seq = line.next[side];
            line.time_ns += legs_ns[side];
            line.put(Sent { side, seq, payload: b"", flags, window: 60_000 });
            line.next[side] = 1;
        }
        line
    }

    /// Writes a packet unchanged.
    fn put(&mut self, sent: Sent<'_>) {
        let Sent { side, seq, payload, flags, window } = sent;
        let packet = Packet {
            time_ns: self.time_ns,
            side,
            ports: [20_000, self.speech.port()],
            seq,
            ack: self.next[1 - side],
            payload: payload.to_vec(),
            flags,
            window,
            number: self.numbers[side],
        };
        packet.write(&mut self.bytes);
        self.numbers[side] = self.numbers[side].wrapping_add(1);
    }

    /// `side` sends `payload`, of which nothing is captured if it is `missing`.
    fn send(
        &mut self,
        side: usize,
        payload: &[u8],
        flags: &'static str,
        window: u16,
        missing: bool,
    ) {
        let seq = self.next[side];
        if missing {
            self.numbers[side] = self.numbers[side].wrapping_add(1);
        } else {
            self.put(Sent { side, seq, payload, flags, window });
        }
        self.next[side] = seq.wrapping_add(payload.len() as u32);
    }

    /// The last `len` bytes of `payload` once more.
    fn again(&mut self, side: usize, payload: &[u8], after_ns: u64) {
        self.time_ns += after_ns;
        let seq = self.next[side].wrapping_sub(payload.len() as u32);
        self.put(Sent { side, seq, payload, flags: "AP", window: 60_000 });
    }

    fn turn(&mut self, Step { turn, think_ns, idle_ns }: &Step) {
        let of_request = if let Turn::OtherRequest(number) = turn { *number } else { 0 };
        let of_response = if let Turn::OtherResponse(number) = turn { *number } else { 0 };
        let (request, mut response) =
            (self.speech.request(of_request), self.speech.response(of_response));
        if matches!(turn, Turn::Cut) {
            response.truncate(300);
        }
        if matches!(turn, Turn::LongMissing | Turn::BeginMissing) {
            response.resize(4_000, b'x');
        }
        let flags = if matches!(turn, Turn::Unpushed) { "A" } else { "AP" };
        let window = if let Turn::Window(window) = turn { *window } else { 60_000 };
        self.time_ns += self.legs_ns[0] + u64::from(*idle_ns);
        if matches!(turn, Turn::AckedAlone) {
            self.send(0, b"", "A", 60_000, false);
            self.time_ns += 50_000;
        }
        let start = self.bytes.len();
        if matches!(turn, Turn::RequestInTwo) {
            let (first, second) = request.split_at(2);
            self.send(0, first, flags, window, false);
            self.time_ns += 30_000;
            self.send(0, second, flags, window, false);
        } else {
            self.send(0, &request, flags, window, matches!(turn, Turn::RequestMissing));
        }
        if matches!(turn, Turn::Copied) {
            self.bytes.extend_from_within(start..);
        }
        if matches!(turn, Turn::RequestAgain) {
            self.again(0, &request, 230_000_000);
        }
        self.time_ns += self.legs_ns[1];
        if matches!(turn, Turn::AckedFirst) {
            self.send(1, b"", "A", 60_000, false);
        }
        self.time_ns += u64::from(*think_ns);
        if matches!(turn, Turn::Misnumbered) {
            self.numbers[1] = self.numbers[1].wrapping_add(3);
        }
        if matches!(turn, Turn::BeginMissing) {
            self.send(1, &response[..3_000], "A", 60_000, true);
            self.send(1, &response[3_000..], "AP", 60_000, false);
        } else if matches!(turn, Turn::InTwo) {
            self.send(1, &response[..200], "AP", 60_000, false);
            self.time_ns += 40_000;
            self.send(1, &response[200..], "AP", 60_000, false);
        } else {
            self.send(
                1,
                &response,
                "AP",
                60_000,
                matches!(turn, Turn::ResponseMissing | Turn::LongMissing),
            );
        }
        if matches!(turn, Turn::ResponseAgain) {
            self.again(1, &response, 230_000_000);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_fast_path_leaves_the_same_state(
        steps in prop::collection::vec(step(), 1..40),
        speech in prop::sample::select(vec![Speech::Http, Speech::Redis, Speech::Other]),
        path_ns in prop_oneof![Just(5_000_u64), Just(2_000_000), Just(30_000_000)],
        at_server: bool,
        closes: bool,
        begins_before: bool,
    ) {
        let legs_ns = if at_server { [path_ns, 3_000] } else { [3_000, path_ns] };
        let mut line = Line::begin(legs_ns, speech);
        if begins_before {
            // The handshake was not captured.
            line.bytes.truncate(PCAP_HEADER_BYTES);
        }
        steps.iter().for_each(|step| line.turn(step));
        if closes {
            line.time_ns += 1_000_000;
            line.send(0, b"", "AF", 60_000, false);
        }
        let [short, long] = [false, true].map(|disable_fast_path| {
            report_with(&line.bytes, 0, 1 << 20, Options { disable_fast_path, ..Options::default() })
        });
        let is_answered = steps.iter().any(|step| matches!(step.turn, Turn::SimpleExchange));
        prop_assert!(begins_before || !is_answered || long.totals.exchanges > 0);
        prop_assert_eq!(format!("{short:?}"), format!("{long:?}"));
    }
}
