//! Properties of all conversations: order of marks, independence of segmentation, no panic.

use super::super::{Framer, KnownHeaders, LABEL_BYTES, Mark};

use super::calls::samples;
use super::{C, Push, S, marks, parts};
use crate::wire::Side;

/// A small generator of random numbers (Marsaglia's xorshift64), so that failures are reproducible.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Conversations of every protocol, well-formed and not.
fn conversations() -> Vec<(u16, Vec<Push<'static>>)> {
    vec![
        (
            80,
            vec![
                (C, b"GET /a/1 HTTP/1.1\r\nUser-Agent: x\r\n\r\nHEAD / HTTP/1.1\r\n\r\n", 0),
                (
                    S,
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                    0,
                ),
                (S, b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 0),
                (C, b"POST /b HTTP/1.1\r\nContent-Length: 4\r\n\r\nab", 2),
                (
                    S,
                    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\nContent-Length: 2\n\nok",
                    0,
                ),
                (C, b"GET /cut HTTP/1.1\r\nCoo", 50),
                (S, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0),
                (C, b"nonsense", 0),
                (S, b"nonsense", 0),
                (C, b"GET / HTTP/1.0\r\n\r\n", 0),
                (S, b"HTTP/1.0 200 OK\r\n\r\nuntil close", 0),
            ],
        ),
        (
            50051,
            vec![
                (C, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 0),
                (C, b"\0\0\x01\x01\x04\0\0\0\x01\x82\0\0\x06\0\x01\0\0\0\x01\0\0\0\0\x01a", 0),
                (S, b"\0\0\x13\x01\x04\0\0\0\x01\x88\x5f\x10application/grpc", 0),
                (S, b"\0\0\x08\0\0\0\0\0\x01\0\0\0\0\x05abc\0\0\x02\0\0\0\0\0\x01de", 0),
                (S, b"\0\0\x08\x06\0\0\0\0\x0012345678\0\0\x06\0\0\0\0\0\x01\0\0\0\0\x01z", 0),
                (C, b"\0\0\x01\x01\x05\0\0\0\x03\x82\0\0\x01\x01\x05\0\0\0\x05\x82", 0),
                (S, b"\0\0\x02\x01\x04\0\0\0\x03\x88\xbe\0\0\x06\0\0\0\0\0\x03\0\0", 4),
                (S, b"\0\0\x0e\x01\x04\0\0\0\x05\x88\x5f\x8c\x49", 10),
                (S, b"\0\0\x01\x01\x05\0\0\0\x03\xbf\0\0\0\0\x01\0\0\0\x05", 0),
                (C, b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08", 0),
            ],
        ),
        (
            21,
            vec![
                (S, b"220-a\r\n220 b\r\n", 0),
                (C, b"USER u\r\n", 0),
                (S, b"331 p\r\n", 0),
                (C, b"PASS p\r\n", 0),
                (S, b"530-no\r\n530 no\r\n", 0),
                (C, b"RETR a\r\nRETR b\r\n", 0),
                (S, b"150 a\r\n", 0),
                (S, b"226 a\r\n150 b\r\n426 b\r\n", 0),
            ],
        ),
        (
            143,
            vec![
                (S, b"* OK a\r\n", 0),
                (C, b"a1 LOGIN {1}\r\n", 0),
                (S, b"+ a\r\n", 0),
                (C, b"u {1}\r\n", 0),
                (S, b"+ a\r\n", 0),
                (C, b"p\r\n", 0),
                (S, b"* 1 a\r\na1 NO\r\n", 0),
            ],
        ),
        (
            389,
            vec![
                (C, &samples::LDAP_SEARCH, 0),
                (S, &samples::LDAP_ENTRY, 0),
                (S, &samples::LDAP_DONE, 0),
                (C, &samples::LDAP_UNBIND, 0),
            ],
        ),
        (
            445,
            vec![
                (C, &samples::SMB_READ, 0),
                (C, &samples::SMB_NOTIFY, 0),
                (S, &samples::SMB_PENDING, 0),
                (S, &samples::SMB_DATA, 9),
                (C, &samples::SMB_READ, 3),
            ],
        ),
        (
            20000,
            vec![
                (S, &samples::DNP3_UNSOLICITED, 0),
                (C, &samples::DNP3_CONFIRM, 0),
                (C, &samples::DNP3_READ, 0),
                (S, &samples::DNP3_RESPONSE, 0),
            ],
        ),
        (
            2049,
            vec![
                (C, &samples::RPC_CALL, 0),
                (C, &samples::RPC_OTHER_CALL, 0),
                (S, &samples::RPC_OTHER_REPLY, 0),
                (S, &samples::RPC_REPLY, 0),
                (C, &samples::RPC_CALL, 0),
            ],
        ),
        (9999, vec![(S, b"hello", 0), (C, b"GETTING", 0), (S, b"\x16\x03", 3), (C, b"GET", 0)]),
    ]
}

/// Cuts each push at random places; missing bytes may become pushes of their own.
fn cut<'a>(pushes: &[Push<'a>], random: &mut Random) -> Vec<Push<'a>> {
    let mut cut = Vec::new();
    for &(from, mut bytes, mut missing) in pushes {
        while !bytes.is_empty() && random.below(12) > 0 {
            let (head, tail) = bytes.split_at(1 + random.below(bytes.len().min(9)));
            let last = if tail.is_empty() { std::mem::take(&mut missing) } else { 0 };
            cut.push((from, head, last));
            bytes = tail;
        }
        let some = random.below(missing as usize + 1) as u32;
        cut.push((from, bytes, missing - some));
        cut.push((from, b"", some));
    }
    cut
}

#[test]
fn marks_do_not_depend_on_how_bytes_are_cut() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (port, pushes) in conversations() {
        let whole = marks(port, &pushes);
        for _ in 0..400 {
            let pieces = cut(&pushes, &mut random);
            assert_eq!(marks(port, &pieces), whole, "{pieces:?}");
        }
    }
}

/// Checks rules 1–6 of the module's documentation.
#[derive(Default)]
struct Rules {
    sending: bool,
    kind: bool,
    request_header: bool,
    waiting: usize,
    responding: bool,
    answering: bool,
    response_header: bool,
    handshake: u8,
}

impl Rules {
    fn check(&mut self, mark: Mark<'_>) {
        match mark {
            Mark::RequestStart => {
                assert!(!self.sending, "a request within a request");
                (self.sending, self.kind, self.request_header) = (true, false, false);
                self.waiting += 1;
            }
            Mark::Kind(kind) => {
                assert!(self.sending && !self.kind && kind.len() <= LABEL_BYTES);
                self.kind = true;
            }
            Mark::RequestHeaderEnd { .. } => {
                assert!(self.sending && !self.request_header);
                self.request_header = true;
            }
            Mark::NotDue => assert!(self.sending && !self.kind && !self.request_header),
            Mark::RequestEnd => assert!(std::mem::take(&mut self.sending), "an end, no start"),
            Mark::ResponseStart => {
                self.answering = self.waiting > 0;
                self.waiting = self.waiting.saturating_sub(1);
                (self.responding, self.response_header) = (true, false);
            }
            Mark::Interim { .. } => {
                assert!(std::mem::take(&mut self.responding));
                self.waiting += usize::from(self.answering);
            }
            Mark::ResponseHeaderEnd { .. } => {
                assert!(self.responding && !self.response_header);
                self.response_header = true;
            }
            Mark::RetryAfter { .. } | Mark::LastResponse => assert!(self.responding),
            Mark::Error(_) => assert!(self.responding || self.handshake == 1),
            Mark::ResponseEnd => assert!(std::mem::take(&mut self.responding)),
            Mark::Proceeds => {
                assert!(!self.responding && self.waiting > 0, "nothing to go on with")
            }
            Mark::Desync | Mark::Overtaken => self.waiting = self.waiting.min(1),
            Mark::HandshakeStart => {
                assert_eq!(self.handshake, 0);
                self.handshake = 1;
            }
            Mark::HelloAgain => assert_eq!(self.handshake, 1),
            Mark::HandshakeEnd { .. } => {
                assert_eq!(self.handshake, 1);
                self.handshake = 2;
            }
            Mark::Software(software) => assert!(software.len() <= LABEL_BYTES),
            Mark::Request { .. } | Mark::Response { .. } => unreachable!("it was taken apart"),
        }
    }
}

#[test]
fn any_bytes_give_marks_in_order() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let stock = conversations();
    let mut known = KnownHeaders::default();
    for round in 0..20_000 {
        let (port, pushes) = &stock[random.below(stock.len())];
        let mut framer = Framer::new(*port, round % 3 == 0);
        let mut rules = Rules::default();
        for _ in 0..random.below(24) {
            let (from, bytes, missing) = disturbed(pushes, &mut random);
            framer.push(from, &bytes, missing, &mut known, &mut |at, mark| {
                for (at, mark) in parts(at, mark) {
                    assert!(u64::from(at) <= bytes.len() as u64 + u64::from(missing));
                    rules.check(mark);
                }
            });
        }
    }
}

/// Returns a push of the conversation with a byte changed, a part lost, or from the other side.
fn disturbed(pushes: &[Push<'_>], random: &mut Random) -> (Side, Vec<u8>, u32) {
    let (from, bytes, missing) = pushes[random.below(pushes.len())];
    let mut bytes = bytes.to_vec();
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte = random.next() as u8;
        }
    }
    bytes.truncate(if random.below(2) == 0 { usize::MAX } else { random.below(bytes.len() + 1) });
    let lost = if random.below(3) == 0 { random.below(200) as u32 } else { missing };
    (if random.below(10) == 0 { from.peer() } else { from }, bytes, lost)
}

/// Requests of a client that does not wait for their responses, by port.
const PIPELINES: [(u16, &[u8]); 4] = [
    (80, b"GET /a HTTP/1.1\r\n\r\nHEAD /b HTTP/1.1\r\n\r\nGET /c HTTP/1.1\r\n\r\n"),
    (6379, b"*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nTIME\r\n"),
    (53, b"\0\x11\0\x01\x01\0\0\x01\0\0\0\0\0\0\0\0\x01\0\x01\0\x11\0\x02\x01\0\0\x01\0\0\0\0\0\0\0\0\x01\0\x01"),
    (1883, b"\x10\x0a\0\x04MQTT\x04\x02\0\0\xc0\0\xc0\0"),
];

#[test]
fn no_pipelined_request_ends_one_before_it() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for (port, bytes) in PIPELINES {
        for round in 0..400 {
            let mut framer = Framer::new(port, round % 2 == 0);
            let mut begun = 0;
            for (from, bytes, _) in cut(&[(C, bytes, 0)], &mut random) {
                let mut ends = framer.ends_exchanges();
                framer.push(from, bytes, 0, &mut KnownHeaders::default(), &mut |_, mark| {
                    if matches!(mark, Mark::RequestStart | Mark::Request { .. }) {
                        assert!(!ends || begun == 0, "port {port}: request {begun} ends others");
                        (begun, ends) = (begun + 1, false);
                    }
                });
            }
            assert!(begun > 1, "port {port}: {begun} requests");
        }
    }
}

#[test]
fn a_framer_is_small() {
    assert!(size_of::<Framer>() <= 160, "{}", size_of::<Framer>());
}
