//! A response ends its own request, whatever else the other side sends.

use super::super::{Framer, KnownHeaders, Mark};

use super::order::Random;
use super::{C, Push, S, marks, parts, story};
use crate::wire::Side;

const UPLOAD: &[u8] = b"POST /u HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
const REFUSAL: &[u8] = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n";
const READ: &[u8] = b"GET /r HTTP/1.1\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_body_that_the_server_did_not_ask_for_may_be_left_out() {
    let refused =
        "request, [POST /u], header+continue, response, header 401, /response, /request, ";
    let read = "request, [GET /r], header, /request, response, header 200, /response";
    let pushes: &[Push] = &[(C, UPLOAD, 0), (S, REFUSAL, 0), (C, READ, 0), (S, OK, 0)];
    assert_eq!(story(80, pushes), refused.to_owned() + read);
    let twice: Vec<Push> = [pushes, pushes].concat();
    assert_eq!(story(80, &twice), [refused, read, ", ", refused, read].concat(), "known headers");
}

#[test]
fn a_body_may_follow_a_refusal() {
    let pushes: &[Push] =
        &[(C, UPLOAD, 0), (S, REFUSAL, 0), (C, b"hello", 0), (C, READ, 0), (S, OK, 0)];
    let places = marks(80, pushes);
    let body_end = UPLOAD.len() + 5;
    assert!(places.contains(&format!("C{body_end} /request")), "{places:?}");
    assert!(places.contains(&format!("C{body_end} request")), "{places:?}");
}

#[test]
fn a_body_sent_before_the_refusal_is_a_body() {
    let pushes: &[Push] =
        &[(C, UPLOAD, 0), (C, b"GET", 0), (S, REFUSAL, 0), (C, b" /", 0), (C, READ, 0)];
    let begun = UPLOAD.len() + 5;
    assert_eq!(marks(80, pushes).last(), Some(&format!("C{} /request", begun + READ.len())));
    assert_eq!(story(80, pushes).matches("/request").count(), 2);
}

#[test]
fn a_chunked_body_may_be_left_out() {
    let upload = b"PUT /u HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
    let left_out: &[Push] = &[(C, upload, 0), (S, REFUSAL, 0), (C, READ, 0), (S, OK, 0)];
    let sent: &[Push] = &[
        (C, upload, 0),
        (S, REFUSAL, 0),
        (C, b"2\r\nhi\r\n0\r\n\r\n", 0),
        (C, READ, 0),
        (S, OK, 0),
    ];
    for pushes in [left_out, sent] {
        let told = story(80, pushes);
        assert!(told.ends_with("[GET /r], header, /request, response, header 200, /response"));
    }
}

#[test]
fn the_request_of_an_upgrade_to_http2_is_its_first_stream() {
    let pushes: &[Push] = &[
        (C, b"GET /a HTTP/1.1\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n", 0),
        (S, b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n\0\0\0\x04\0\0\0\0\0", 0),
        (C, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0", 0),
        (S, b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x02\0\x01\0\0\0\x01ok", 0),
        (C, b"\0\0\x01\x01\x05\0\0\0\x03\x82", 0),
        (S, b"\0\0\x08\x06\0\0\0\0\x0012345678\0\0\x01\x01\x05\0\0\0\x03\x88", 0),
    ];
    let told = "request, [GET /a], header, /request, response, interim 101, response, /response, \
                request, /request, response, /response";
    assert_eq!(story(80, pushes), told);
}

#[test]
fn no_stream_ends_for_another() {
    let begin: &[Push] = &[
        (C, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x01\x01\x05\0\0\0\x01\x82", 0),
        (C, b"\0\0\x01\x01\x05\0\0\0\x03\x82", 0),
    ];
    let mut random = Random(0x0dd0_5eed_0dd0_5eed);
    for _ in 0..2_000 {
        let mut framer = Framer::new(80, false);
        let mut known = KnownHeaders::default();
        let mut ended = 0;
        let mut push = |from: Side, bytes: &[u8]| {
            framer.push(from, bytes, 0, &mut known, &mut |_, mark| {
                ended += u32::from(mark == Mark::ResponseEnd);
            });
        };
        begin.iter().for_each(|(from, bytes, _)| push(*from, bytes));
        for _ in 0..random.below(12) {
            // DATA, HEADERS, RST_STREAM, PUSH_PROMISE or PING on each stream but the first.
            let kind = [0, 1, 3, 5, 6][random.below(5)];
            let stream = [0, 2, 3, 4, 5][random.below(5)];
            let from = if kind == 3 && random.below(2) == 0 { C } else { S };
            let flags = 4 | random.below(2) as u8;
            push(from, &[0, 0, 1, kind, flags, 0, 0, 0, stream, 0x88]);
        }
        push(S, b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\0\x08\0\0\0\0\x00");
        push(S, b"\0\0\x01\x01\x05\0\0\0\x03\x88\0\0\0\x08\0\0\0\0\x00");
        push(C, b"\0\0\0\x08\0\0\0\0\x00");
        assert_eq!(ended, 0, "the first stream has not ended");
        framer.push(S, b"\0\0\0\0\x01\0\0\0\x01", 0, &mut known, &mut |_, mark| {
            ended += u32::from(mark == Mark::ResponseEnd);
        });
        assert_eq!(ended, 1);
    }
}

/// Requests of HTTP/1.1 with the response to each, interim responses before some.
const EXCHANGES: [(&[u8], &[u8]); 6] = [
    (READ, OK),
    (b"HEAD /h HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"),
    (b"POST /p HTTP/1.1\r\nContent-Length: 3\r\n\r\nGET", b"HTTP/1.1 204 None\r\n\r\n"),
    (READ, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
    (READ, b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n"),
    (UPLOAD, REFUSAL),
];

#[test]
fn pipelined_responses_end_their_own_requests() {
    let mut random = Random(0x1357_9bdf_0246_8ace);
    for _ in 0..2_000 {
        let chosen: Vec<_> = (0..6).map(|_| EXCHANGES[random.below(EXCHANGES.len())]).collect();
        let mut framer = Framer::new(80, false);
        let mut known = KnownHeaders::default();
        let (mut answered, mut responses, mut ends) = (0, Vec::new(), Vec::new());
        let (mut server_bytes, mut sent) = (0u64, 0u64);
        let mut queue: Vec<(Side, &[u8])> = Vec::new();
        // The client runs ahead of the server by a random number of requests. It waits for the
        // response to one that expects 100 Continue.
        for (number, (request, _)) in chosen.iter().enumerate() {
            queue.push((C, request));
            while answered <= number && (*request == UPLOAD || random.below(2) == 0) {
                queue.push((S, chosen[answered].1));
                answered += 1;
            }
        }
        queue.extend(chosen[answered..].iter().map(|(_, response)| (S, *response)));
        for (from, mut bytes) in queue {
            if from == S {
                sent += bytes.len() as u64;
                responses.push(sent);
            }
            while !bytes.is_empty() {
                // A request that follows a refusal is recognised by its method.
                let least = if from == C { bytes.len().min(8) } else { 1 };
                let (head, tail) = bytes.split_at(least + random.below(bytes.len() + 1 - least));
                framer.push(from, head, 0, &mut known, &mut |at, mark| {
                    for (at, mark) in parts(at, mark) {
                        if mark == Mark::ResponseEnd {
                            ends.push(server_bytes + u64::from(at));
                        }
                    }
                });
                server_bytes += if from == S { head.len() as u64 } else { 0 };
                bytes = tail;
            }
        }
        assert_eq!(ends, responses);
    }
}
