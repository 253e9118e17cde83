//! TLS conversations: record headers, with payload left out as by a snap length.

use super::{C, Push, S, marks_with, story};
use crate::app::{Framer, Protocol};
use crate::wire::Side;

const CCS: &[u8] = b"\x14\x03\x03\x00\x01\x01";

/// A full TLS 1.3 handshake with compatibility records, two tickets, one exchange, and alerts.
pub(super) fn tls13() -> Vec<Push<'static>> {
    vec![
        (C, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 508),
        (S, b"\x16\x03\x03\x00\x7a\x02", 121),
        (S, CCS, 0),
        (S, b"\x17\x03\x03\x0b\x00", 0xb00),
        (C, CCS, 0),
        (C, b"\x17\x03\x03\x00\x35", 53),
        (C, b"\x17\x03\x03\x00\x64", 100),
        (S, b"\x17\x03\x03\x00\xea", 234),
        (S, b"\x17\x03\x03\x00\xea", 234),
        (S, b"\x17\x03\x03\x04\x00", 1024),
        (C, b"\x17\x03\x03\x00\x64", 100),
        (S, b"\x17\x03\x03\x00\xea", 234),
        (C, b"\x17\x03\x03\x00\x13", 19),
        (S, b"\x17\x03\x03\x00\x13", 19),
    ]
}

/// A full TLS 1.2 handshake, one exchange with two records each, and an unencrypted alert.
pub(super) fn tls12() -> Vec<Push<'static>> {
    vec![
        (C, b"\x16\x03\x01\x01\x00\x01", 255),
        (S, b"\x16\x03\x03\x00\x40\x02", 63),
        (S, b"\x16\x03\x03\x04\x00\x0b", 1023),
        (C, b"\x16\x03\x03\x00\x25\x10", 36),
        (C, CCS, 0),
        (C, b"\x16\x03\x03\x00\x28\x00", 39),
        (S, CCS, 0),
        (S, b"\x16\x03\x03\x00\x28\x00", 39),
        (C, b"\x17\x03\x03\x00\x13", 19),
        (C, b"\x17\x03\x03\x00\x30", 48),
        (S, b"\x17\x03\x03\x00\x30", 48),
        (S, b"\x17\x03\x03\x40\x00", 0x4000),
        (S, b"\x15\x03\x03\x00\x1a", 26),
    ]
}

#[test]
fn tls13_tickets_are_no_response() {
    let mut framer = Framer::new(443, false);
    let places = marks_with(&mut framer, &tls13());
    let expected = [
        "C0 handshake",
        "C581 /handshake full 2948",
        "C586 request",
        "S3437 /request",
        "S3437 response",
        "C691 request",
        "S4466 /request",
        "S4466 response",
    ];
    assert_eq!(places, expected);
    assert_eq!(framer.protocol(), Protocol::Tls);
}

#[test]
fn tls12_ends_its_handshake_with_the_second_finished() {
    let told = story(443, &tls12());
    assert_eq!(told, "handshake, /handshake full 1098, request, /request, response");
}

/// GnuTLS pads the Finished of a cipher in CBC mode to any length.
#[test]
fn tls12_ends_its_handshake_with_a_padded_finished() {
    let mut padded = tls12();
    padded[5] = (C, b"\x16\x03\x03\x00\x80\x00", 127);
    padded[7] = (S, b"\x16\x03\x03\x00\xb0\x00", 175);
    let told = story(443, &padded);
    assert_eq!(told, "handshake, /handshake full 1098, request, /request, response");
}

#[test]
fn a_resumed_tls13_handshake_has_no_certificate() {
    let pushes: &[Push] = &[
        (C, b"\x16\x03\x01\x02\x00\x01", 511),
        (S, b"\x16\x03\x03\x00\x80", 128),
        (S, CCS, 0),
        (S, b"\x17\x03\x03\x00\x17", 23),
        (S, b"\x17\x03\x03\x00\x45", 69),
        (C, CCS, 0),
        (C, b"\x17\x03\x03\x00\x45", 69),
        (C, b"\x17\x03\x03\x00\x64", 100),
        (S, b"\x17\x03\x03\x04\x00", 1024),
    ];
    let told = "handshake, /handshake resumed 0, request, /request, response";
    assert_eq!(story(443, pushes), told);
}

#[test]
fn a_resumed_tls12_handshake_ends_with_the_client() {
    let pushes: &[Push] = &[
        (C, b"\x16\x03\x01\x01\x00\x01", 255),
        (S, b"\x16\x03\x03\x00\x58\x02", 87),
        (S, CCS, 0),
        (S, b"\x16\x03\x03\x00\x28\x00", 39),
        (C, CCS, 0),
        (C, b"\x16\x03\x03\x00\x28\x00", 39),
        (S, b"\x17\x03\x03\x00\x28\x00", 39),
    ];
    // Here the server speaks first, like a mail server.
    assert_eq!(story(993, pushes), "handshake, /handshake resumed 0, response");
}

#[test]
fn a_hello_retry_request_is_part_of_the_handshake() {
    let pushes: &[Push] = &[
        (C, b"\x16\x03\x01\x01\x00\x01", 255),
        (S, b"\x16\x03\x03\x00\x58\x02", 87),
        (S, CCS, 0),
        (C, CCS, 0),
        (C, b"\x16\x03\x03\x01\x20\x01", 0x11f),
        (S, b"\x16\x03\x03\x00\x9b\x02", 0x9a),
        (S, b"\x17\x03\x03\x08\x00", 0x800),
        (C, b"\x17\x03\x03\x00\x35", 53),
        (C, b"\x17\x03\x03\x00\x64", 100),
    ];
    let told = story(443, pushes);
    assert!(told.starts_with("handshake, /handshake full"), "{told}");
    assert!(told.ends_with(", request"), "{told}");
    assert_eq!(told.matches("handshake").count(), 2);
}

#[test]
fn records_in_the_middle_of_a_connection_are_turns() {
    let mut framer = Framer::new(443, true);
    let pushes: &[Push] = &[
        (S, b"unreadable", 0),
        (C, b"\x17\x03\x03\x00\x64", 100),
        (S, b"\x17\x03\x03\x04\x00", 1024),
        (S, b"\x15\x03\x03\x00\x1a", 26),
    ];
    let places = marks_with(&mut framer, pushes);
    assert_eq!(places, ["S0 response", "C0 request", "S15 /request", "S15 response"]);
    assert_eq!(framer.protocol(), Protocol::Tls);
}

#[test]
fn a_tunnel_is_recognised_afresh() {
    let mut pushes: Vec<Push> =
        vec![(C, b"CONNECT h:443 HTTP/1.1\r\n\r\n", 0), (S, b"HTTP/1.1 200 OK\r\n\r\n", 0)];
    pushes.extend(tls13());
    let told = story(3128, &pushes);
    assert!(told.contains("header 200, /response, handshake, /handshake full 2948, request"));
}

/// The first flights of a TLS 1.3 handshake in which the server asks for a certificate.
const ASKED: [Push; 4] = [
    (C, b"\x16\x03\x01\x02\x00\x01", 511),
    (S, b"\x16\x03\x03\x00\x7a\x02", 121),
    (S, b"\x17\x03\x03\x0b\x00", 0xb00),
    (C, CCS, 0),
];

#[test]
fn a_tls13_client_sends_its_certificate_in_one_record_or_three() {
    let packed: &[Push] = &[(C, b"\x17\x03\x03\x06\x11", 0x611)];
    // CertificateVerify with RSA of 2,048 bits, or with P-256.
    let separate: &[Push] = &[
        (C, b"\x17\x03\x03\x04\xb0", 0x4b0),
        (C, b"\x17\x03\x03\x01\x19", 0x119),
        (C, b"\x17\x03\x03\x00\x35", 53),
    ];
    let short: &[Push] = &[
        (C, b"\x17\x03\x03\x04\xb0", 0x4b0),
        (C, b"\x17\x03\x03\x00\x60", 0x60),
        (C, b"\x17\x03\x03\x00\x45", 69),
    ];
    let none: &[Push] = &[(C, b"\x17\x03\x03\x00\x3d", 61)];
    let request: &[Push] = &[(C, b"\x17\x03\x03\x01\x2c", 300), (S, b"\x17\x03\x03\x04\x00", 1024)];
    for flight in [packed, separate, short, none] {
        let told = story(443, &[&ASKED, flight, request].concat());
        let expected = "handshake, /handshake full 2948, request, /request, response";
        assert_eq!(told, expected, "{flight:?}");
        let places = marks_with(&mut Framer::new(443, false), &[&ASKED, flight, request].concat());
        let bytes = |pushes: &[Push]| {
            let of_client = pushes.iter().filter(|(from, ..)| *from == C);
            of_client.map(|(_, bytes, missing)| bytes.len() + *missing as usize).sum::<usize>()
        };
        let begins = bytes(&ASKED) + bytes(flight) + 5;
        assert!(places.contains(&format!("C{begins} request")), "{places:?}");
    }
}

#[test]
fn a_late_record_is_no_ticket() {
    let begin = &tls13()[..7];
    let record: &[Push] = &[(S, b"\x17\x03\x03\x00\xea", 234)];
    for late in [false, true] {
        let mut framer = Framer::new(443, false);
        marks_with(&mut framer, begin);
        framer.set_late(late);
        assert_eq!(marks_with(&mut framer, record).is_empty(), !late);
    }
}

#[test]
fn a_goodbye_right_behind_a_single_ticket_ends_a_response() {
    let ticket: Push = (S, b"\x17\x03\x03\x02\x01", 513);
    let goodbye: Push = (S, b"\x17\x03\x03\x00\x13", 19);
    for (tickets, late, answered) in [(1, false, true), (1, true, false), (2, false, false)] {
        let mut framer = Framer::new(443, false);
        marks_with(&mut framer, &tls13()[..7]);
        assert!(marks_with(&mut framer, &vec![ticket; tickets]).is_empty());
        framer.set_late(late);
        assert_eq!(!marks_with(&mut framer, &[goodbye]).is_empty(), answered);
    }
}

/// A client that also offers SSL 2.0 sends its ClientHello in that format (RFC 5246 §E.2): 15 bytes of
/// ciphers and a challenge of 16.
#[test]
fn a_client_hello_in_the_format_of_ssl_2_begins_a_handshake() {
    let mut pushes = tls12();
    pushes[0] = (C, b"\x80\x28\x01\x03\x01\x00\x0f\x00\x00\x00\x10\x00\x00\x04\x00\x00\x05", 25);
    let told = "handshake, /handshake full 1098, request, /request, response";
    assert_eq!(story(443, &pushes), told);
}

/// Negative twins: lengths that do not add up, another version, and the middle of a connection.
#[test]
fn other_messages_with_the_first_bit_set_are_no_client_hello() {
    let hello = b"\x80\x28\x01\x03\x01\x00\x0f\x00\x00\x00\x10\x00\x00\x04\x00\x00\x05";
    for (at, byte) in [(1, 0x29), (3, 0), (2, 4), (6, 14)] {
        let mut other = *hello;
        other[at] = byte;
        let mut framer = Framer::new(443, false);
        marks_with(&mut framer, &[(C, &other, 25)]);
        assert_eq!(framer.protocol(), Protocol::Turns, "byte {at} is {byte}");
    }
    let mut framer = Framer::new(443, true);
    marks_with(&mut framer, &[(C, hello, 25)]);
    assert_eq!(framer.protocol(), Protocol::Turns);
}

/// A service without TLS answers a ClientHello in its own protocol.
#[test]
fn an_answer_that_is_no_record_fails_the_handshake() {
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"SSH-2.0-x\r\n", b"-ERR unknown\r\n"] {
        let told = story(8443, &[tls12()[0], (S, answer, 0)]);
        assert!(told.starts_with("handshake, error no TLS"), "{told}");
    }
}

/// Negative twins: an alert, a record of an unknown version, and bytes behind a hole.
#[test]
fn other_answers_to_a_client_hello_are_tls_or_unknown() {
    for answer in [&b"\x15\x03\x01\x00\x02\x02\x28"[..], b"\x16\x7f\x01\x00\x02\x02\x28"] {
        let told = story(443, &[tls12()[0], (S, answer, 0)]);
        assert!(!told.contains("no TLS"), "{told}");
    }
    let told = story(443, &[tls12()[0], (S, b"", 100), (S, b"HTTP/1.1 400 Bad\r\n", 0)]);
    assert!(!told.contains("no TLS"), "{told}");
    // The beginning of the answer may have passed before the capture began.
    let mut framer = Framer::new(443, true);
    let told = marks_with(&mut framer, &[tls12()[0], (S, b"HTTP/1.1 400 Bad\r\n", 0)]);
    assert!(told.iter().all(|it| !it.contains("no TLS")), "{told:?}");
}

#[test]
fn an_unknown_protocol_goes_on_with_tls() {
    let plain: &[Push] = &[
        (S, b"* OK ready\r\n", 0),
        (C, b"a STARTTLS\r\n", 0),
        (S, b"a OK begin\r\n", 0),
        (C, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 508),
    ];
    let pushes = [plain, &tls12()[1..]].concat();
    let told = "response, request, [STARTTLS], /request, response, handshake, \
                /handshake full 1098, request, /request, response";
    assert_eq!(story(143, &pushes), told);
    let mut framer = Framer::new(143, false);
    marks_with(&mut framer, &pushes);
    assert_eq!(framer.protocol(), Protocol::Tls);
}

#[test]
fn a_message_of_an_unknown_protocol_may_begin_as_a_tls_record_does() {
    let hello = (C, &b"\x16\x03\x01\x02\x00\x01\x00\x00\x10"[..], 508);
    let pushes: &[Push] = &[(S, b"hello", 0), (C, b"a", 0), (S, b"b", 0), hello, (S, b"c", 0)];
    let told = "response, request, /request, response, request, /request, response";
    assert_eq!(story(9999, pushes), told);
}

/// Returns a handshake record with a hello: of a client that offers these protocols, or of a server with this
/// cipher suite and these extensions.
fn hello(kind: u8, suite: &[u8], extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let mut all = Vec::new();
    for (kind, content) in extensions {
        all.extend(kind.to_be_bytes());
        all.extend((content.len() as u16).to_be_bytes());
        all.extend(*content);
    }
    let length = (all.len() as u16).to_be_bytes();
    let body = [&[3, 3], &[7; 32][..], &[0], suite, &length, &all].concat();
    let message = [&[kind, 0, 0, body.len() as u8][..], &body].concat();
    [&[22, 3, 3, 0, message.len() as u8][..], &message].concat()
}

fn client_hello(names: &[&str]) -> Vec<u8> {
    let list: Vec<u8> =
        names.iter().flat_map(|name| [&[name.len() as u8], name.as_bytes()].concat()).collect();
    let content = [&[0, list.len() as u8][..], &list].concat();
    hello(1, &[0, 2, 0x13, 1, 1, 0], &[(43, &[2, 3, 4]), (16, &content)])
}

/// A record of application data with this content in TLS 1.3, and with AES-GCM in TLS 1.2.
fn record(content: u16, overhead: u16) -> (Vec<u8>, u32) {
    let length = content + overhead;
    ([&[23, 3, 3][..], &length.to_be_bytes()].concat(), length.into())
}

/// The marks of a connection whose side `from` sends records with these contents behind its handshake.
fn inside(
    hellos: &[Vec<u8>; 2],
    flight: &[Push<'_>],
    overhead: u16,
    sent: &[(Side, u16)],
) -> Vec<String> {
    let mut framer = Framer::new(443, false);
    let [client, server] = hellos;
    marks_with(&mut framer, &[&[(C, &**client, 0), (S, &**server, 0)], flight].concat());
    let records: Vec<_> =
        sent.iter().map(|&(from, content)| (from, record(content, overhead))).collect();
    let pushes: Vec<Push> =
        records.iter().map(|(from, (header, rest))| (*from, &**header, *rest)).collect();
    let marks = marks_with(&mut framer, &pushes);
    let words = marks.iter().filter_map(|line| line.split_once(' '));
    words.map(|(place, mark)| format!("{}{mark}", &place[..1])).collect()
}

const FLIGHT13: &[Push] = &[(S, b"\x17\x03\x03\x0b\x00", 0xb00), (C, b"\x17\x03\x03\x00\x35", 53)];

/// The prefaces, the settings and their acknowledgements of HTTP/2 are no exchanges (RFC 9113 §3.4, §6.5), in
/// whatever order and records they come.
#[test]
fn settings_of_http2_are_no_exchange() {
    let offers = |names: &[&str]| [client_hello(names), hello(2, &[0x13, 1, 0], &[(43, &[3, 4])])];
    let one = ["Crequest", "S/request", "Sresponse"];
    let both = [one, one].concat();
    // The client's preface in one record, or in three; the server's with its acknowledgement, or apart.
    for sent in [
        &[(C, 64), (C, 90), (S, 40), (S, 9), (C, 9), (S, 150), (C, 30), (S, 30)][..],
        &[(C, 24), (C, 27), (C, 13), (S, 9), (C, 37), (S, 9), (S, 150), (C, 9), (C, 30), (S, 30)],
        &[(C, 46), (S, 27), (C, 9), (C, 90), (S, 22), (S, 150), (C, 30), (S, 30)],
        &[(C, 150), (S, 49), (C, 9), (S, 150), (C, 30), (S, 30)],
    ] {
        let marks = inside(&offers(&["h2", "http/1.1"]), FLIGHT13, 17, sent);
        assert_eq!(marks, both, "{sent:?}");
    }
    // Another protocol may have requests and answers of these sizes.
    let sent = [(C, 64), (S, 40), (C, 9), (S, 9)];
    assert_eq!(inside(&offers(&["h2"]), FLIGHT13, 17, &sent), [""; 0]);
    assert_eq!(inside(&offers(&["http/1.1"]), FLIGHT13, 17, &sent), one);
    // Tickets come before the settings.
    let sent =
        [(C, 64), (C, 90), (S, 217), (S, 217), (S, 27), (S, 9), (C, 9), (S, 150), (C, 30), (S, 30)];
    assert_eq!(inside(&offers(&["h2"]), FLIGHT13, 17, &sent), both);
    // A later empty frame of the client ends its upload, and one of the server its answer.
    let sent = [(C, 150), (S, 49), (C, 9), (S, 150), (S, 9), (C, 80), (C, 9), (S, 60)];
    assert_eq!(inside(&offers(&["h2"]), FLIGHT13, 17, &sent), both);
}

/// A server may take its time over the client's Finished, but its settings come before its answers.
#[test]
fn late_tickets_and_settings_of_http2_are_no_answer() {
    let late = |names: &[&str]| {
        let hellos = [client_hello(names), hello(2, &[0x13, 1, 0], &[(43, &[3, 4])])];
        let [client, server] = &hellos;
        let mut framer = Framer::new(443, false);
        marks_with(&mut framer, &[&[(C, &**client, 0), (S, &**server, 0)], FLIGHT13].concat());
        let records = |sent: &[(Side, u16)]| -> Vec<_> {
            sent.iter().map(|&(from, content)| (from, record(content, 17))).collect()
        };
        let mut marks = Vec::new();
        for (is_late, sent) in
            [(false, &[(C, 64), (C, 90)][..]), (true, &[(S, 460), (S, 49)]), (true, &[(S, 494)])]
        {
            framer.set_late(is_late);
            let records = records(sent);
            let pushes: Vec<Push> =
                records.iter().map(|(from, (header, rest))| (*from, &**header, *rest)).collect();
            marks.push(marks_with(&mut framer, &pushes).len());
        }
        marks
    };
    // Each answer is the end of the request and its own begin.
    assert_eq!(late(&["h2"]), [1, 0, 2]);
    assert_eq!(late(&["http/1.1"]), [1, 2, 0]);
}

/// In TLS 1.2 the server's choice is not encrypted, and counts.
#[test]
fn the_server_chooses_http2_in_tls_1_2() {
    let flight: Vec<Push> = tls12()[3..8].to_vec();
    let sent = [(C, 64), (C, 90), (S, 40), (C, 9), (S, 9), (S, 150)];
    let marks = |suite: &[u8], choice: &[u8]| {
        let hellos = [client_hello(&["h2", "http/1.1"]), hello(2, suite, &[(16, choice)])];
        inside(&hellos, &flight, 24, &sent)
    };
    let one = ["Crequest", "S/request", "Sresponse"];
    assert_eq!(marks(&[0xc0, 0x2f, 0], b"\0\x03\x02h2"), one);
    assert_ne!(marks(&[0xc0, 0x2f, 0], b"\0\x09\x08http/1.1"), one);
    assert_ne!(marks(&[0xc0, 0x13, 0], b"\0\x03\x02h2"), one, "a block cipher hides lengths");
}

#[test]
fn the_name_of_the_server_is_compared_whatever_its_case() {
    let asked = |name: &str| {
        let host = [&[0, 0, name.len() as u8][..], name.as_bytes()].concat();
        let content = [&[0, host.len() as u8][..], &host].concat();
        let mut framer = Framer::new(443, false);
        let hellos = [
            hello(1, &[0, 2, 0x13, 1, 1, 0], &[(0, &content), (43, &[2, 3, 4])]),
            hello(2, &[0x13, 1, 0], &[(43, &[3, 4])]),
        ];
        marks_with(&mut framer, &[(C, &*hellos[0], 0), (S, &*hellos[1], 0)]);
        framer.server_name()
    };
    assert_eq!(asked("a.example"), asked("A.Example"));
    assert_ne!(asked("a.example"), asked("b.example"));
    assert_ne!(asked("a.example"), 0);
}
