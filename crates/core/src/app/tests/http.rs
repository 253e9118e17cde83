//! HTTP/1.x conversations.

use super::super::{Framer, KnownHeaders, Protocol};
use super::{C, Push, S, marks, marks_knowing, marks_with, story};

const GET: &[u8] = b"GET /items/42?q=secret HTTP/1.1\r\nHost: h\r\nUser-Agent: curl/8\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn a_request_and_its_response() {
    let places = marks(8080, &[(C, GET, 0), (S, OK, 0)]);
    let expected = [
        "C0 request",
        "C33 [GET /items/{id}]",
        "C62 (curl/8)",
        "C64 header",
        "C64 /request",
        "S0 response",
        "S39 (nginx/1.22.1)",
        "S60 header 200",
        "S65 /response",
    ];
    assert_eq!(places, expected);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let two: Vec<u8> = [GET, GET].concat();
    let answers: Vec<u8> = [OK, OK].concat();
    let pushes: &[Push] = &[(C, &two, 0), (S, &answers, 0)];
    let places = marks(80, pushes);
    assert_eq!(places.iter().filter(|line| line.ends_with(" /request")).count(), 2);
    assert_eq!(places.iter().filter(|line| line.ends_with(" /response")).count(), 2);
    assert!(places.contains(&format!("S{} /response", answers.len())));
}

#[test]
fn several_spaces_divide_a_request_line_like_one() {
    let pushes: &[Push] = &[
        (C, b"GET     /items  HTTP/1.1\r\n\r\n", 0),
        (S, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0),
    ];
    let told = "request, [GET /items], header, /request, response, header 200, /response";
    assert_eq!(story(80, pushes), told);
    let redis: &[Push] = &[(C, b"GET     key\r\n", 0), (S, b"$-1\r\n", 0)];
    assert!(!story(6379, redis).contains("header"), "an inline command of Redis");
}

#[test]
fn a_request_of_any_method_shows_by_its_version() {
    let answer: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let line: &[u8] = b"SUBSCRIBE /WANIPConnection/events?of=4711 HTTP/1.1\r\n\r\n";
    let told =
        "request, [SUBSCRIBE /{id}/events], header, /request, response, header 200, /response";
    for cut in [0, 5, 12, 44, 50] {
        let (begin, rest) = line.split_at(cut);
        assert_eq!(story(49152, &[(C, begin, 0), (C, rest, 0), (S, answer, 0)]), told, "{cut}");
    }
    let uri: &[u8] = b"FROBNICATE http://host/items HTTP/1.0\r\n\r\n";
    assert!(story(8080, &[(C, uri, 0), (S, answer, 0)]).contains("[{other} {host}/items]"));
    for other in [
        &b"CWD /WANIPConnection/events\r\n"[..],
        b"SUBSCRIBE sip:user@host SIP/2.0\r\n\r\n",
        b"DESCRIBE rtsp://host/film RTSP/1.0\r\n\r\n",
        b"RETR /a b HTTP/1.1\r\n",
        b"SET /key HTTP/2\r\n",
        b"A /",
    ] {
        let told = story(7000, &[(C, other, 0), (S, b"ok\r\n", 0)]);
        assert_eq!(told, "request, /request, response", "{}", other.escape_ascii());
    }
}

#[test]
fn chunks_may_be_split_anywhere() {
    let pushes: &[Push] = &[
        (C, b"GET / HTTP/1.1\n\n", 0),
        (S, b"HTTP/1.1 200 OK\r\nTransfer-Enco", 0),
        (S, b"ding: gzip, chunked\r\n\r\n1", 0),
        (S, b"0;name=value\r\n0123456789", 0),
        // Missing bytes inside a chunk do no harm.
        (S, b"", 6),
        (S, b"\r\n0\r\nTrailer: x\r", 0),
        (S, b"\n\r\n", 0),
    ];
    let told = "request, [GET /], header, /request, response, header 200, /response";
    assert_eq!(story(80, pushes), told);
}

#[test]
fn missing_chunk_sizes_are_a_desync_until_the_next_request() {
    let head: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab";
    let pushes: &[Push] =
        &[(C, GET, 0), (S, head, 100), (S, b"garbage", 0), (C, GET, 0), (S, OK, 0)];
    assert_eq!(
        story(80, pushes),
        "request, [GET /items/{id}], (curl/8), header, /request, response, header 200, desync, \
         request, [GET /items/{id}], header, /request, \
         response, (nginx/1.22.1), header 200, /response"
    );
}

#[test]
fn a_body_of_known_length_may_be_missing() {
    let pushes: &[Push] =
        &[(C, GET, 0), (S, &OK[..60], 5), (C, GET, 0), (S, &OK[..60], 4), (S, b"o", 0)];
    let places = marks(80, pushes);
    assert_eq!(places.iter().filter(|line| line.ends_with("/response")).count(), 2);
    assert!(!places.iter().any(|line| line.ends_with("desync")));
}

#[test]
fn a_header_cut_by_the_snap_length_is_a_turn() {
    let pushes: &[Push] =
        &[(C, &GET[..40], 30), (S, OK, 0), (C, &GET[..40], 30), (S, &OK[..30], 99)];
    assert_eq!(
        story(80, pushes),
        "request, [GET /items/{id}], desync, /request, response, (nginx/1.22.1), header 200, \
         /response, request, [GET /items/{id}], desync, /request, response, header 200, desync"
    );
}

#[test]
fn head_204_304_have_no_body() {
    let pushes: &[Push] = &[
        (C, b"HEAD / HTTP/1.1\r\n\r\n", 0),
        (S, b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", 0),
        (C, b"GET / HTTP/1.1\r\n\r\n", 0),
        (S, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 999\r\n\r\n", 0),
    ];
    assert_eq!(story(80, pushes).matches("/response").count(), 2);
}

#[test]
fn continue_takes_the_response_start_back() {
    let head: &[u8] = b"POST /up HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    let pushes: &[Push] = &[
        (C, head, 0),
        (S, b"HTTP/1.1 100 Continue\r\n\r\n", 0),
        (C, b"abc", 0),
        (S, b"HTTP/1.1 204 No Content\r\n\r\n", 0),
    ];
    assert_eq!(
        story(80, pushes),
        "request, [POST /up], header+continue, response, interim 100, /request, \
         response, header 204, /response"
    );
}

#[test]
fn a_response_may_come_before_the_request_ends() {
    let pushes: &[Push] = &[
        (C, b"PUT /big HTTP/1.1\r\nContent-Length: 1000\r\n\r\n", 0),
        (S, b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", 0),
        (C, b"", 1000),
    ];
    assert_eq!(
        story(80, pushes),
        "request, [PUT /big], header, response, header 413, /response, /request"
    );
}

#[test]
fn an_upgrade_ends_in_turns() {
    let pushes: &[Push] = &[
        (C, b"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", 0),
        (S, b"HTTP/1.1 101 Switching Protocols\r\n\r\n", 0),
        (C, b"\x81\x05", 100),
        (S, b"\x81\x05", 0),
    ];
    assert!(story(80, pushes).ends_with("header 101, /response, request, /request, response"));
}

#[test]
fn a_response_until_close_never_ends() {
    let pushes: &[Push] = &[(C, GET, 0), (S, b"HTTP/1.0 200 OK\r\n\r\nbody", 0), (S, b"more", 9)];
    assert!(story(80, pushes).ends_with("response, header 200"));
}

#[test]
fn a_connection_from_the_middle_is_recognised_at_the_next_request() {
    let mut framer = Framer::new(80, true);
    let pushes: &[Push] = &[(S, b"rest of a body", 0), (C, GET, 0), (S, OK, 0)];
    let places = marks_with(&mut framer, pushes);
    assert_eq!(places[0], "S0 response");
    assert_eq!(places.last().map(String::as_str), Some("S79 /response"));
    assert_eq!(framer.protocol(), Protocol::Http1);
}

#[test]
fn values_are_not_part_of_the_kind() {
    let kind = |target: &str| {
        let request = format!("DELETE {target} HTTP/1.1\r\n\r\n");
        let told = story(80, &[(C, request.as_bytes(), 0)]);
        told.split(['[', ']']).nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(kind("/a/123e4567-e89b-12d3-a456-426614174000/b"), "DELETE /a/{id}/b");
    assert_eq!(kind("/photos/1234.jpg"), "DELETE /photos/{id}.jpg");
    assert_eq!(kind("/v1/deadbeef01"), "DELETE /v1/{id}");
    assert_eq!(kind("http://host:1/x/9#f"), "DELETE {host}/x/{id}");
    assert_eq!(kind("/t/eyJhbGciOiJIUzI1NiIsInR5cCI6"), "DELETE /t/{id}");
    assert_eq!(kind("/mail/alice@example.com"), "DELETE /mail/{id}");
    assert_eq!(kind(&"/word".repeat(99)).len(), 64);
}

#[test]
fn values_are_shown_only_where_they_may_be() {
    let mut framer = Framer::new(80, false);
    framer.show_values();
    let places = marks_with(&mut framer, &[(C, GET, 0)]);
    assert!(places.contains(&"C33 [GET /items/42?q=secret]".to_string()), "{places:?}");
    assert!(!story(80, &[(C, GET, 0), (S, OK, 0)]).contains("42"));
}

/// Headers that repeat the last one, exactly or nearly, give the same marks as those pushed byte by
/// byte.
#[test]
fn repeated_headers_give_the_same_marks_as_new_ones() {
    const HEAD: &[u8] = b"HEAD /items/42 HTTP/1.1\r\n\r\n";
    const HEAD_OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    const CREATED: &[u8] =
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    let mut whole: Vec<Push> = vec![(C, GET, 0), (S, OK, 0), (C, GET, 0), (S, OK, 0)];
    whole.extend([(C, HEAD, 0), (S, HEAD_OK, 0), (C, HEAD, 0), (S, HEAD_OK, 0)]);
    whole.extend([(C, GET, 0), (S, CREATED, 0), (C, GET, 0), (S, CREATED, 0), (C, GET, 0)]);
    let bytes =
        whole.iter().flat_map(|&(from, bytes, _)| bytes.chunks(1).map(move |it| (from, it, 0)));
    let in_bytes: Vec<Push> = bytes.collect();
    assert_eq!(marks(80, &whole), marks(80, &in_bytes));
}

/// Every kind of message that a repeated header may belong to, three times each: complete, with the
/// body in another push, and with the next message behind it.
#[test]
fn repeated_messages_give_the_same_marks_however_they_are_cut() {
    const POST: &[u8] = b"POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
    const EXPECTS: &[u8] =
        b"PUT /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody";
    const CHUNKED: &[u8] = b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    const NONE: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
    const UNCHANGED: &[u8] = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n";
    const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    const EVENTS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
        Content-Length: 3\r\n\r\nabc";
    for request in [GET, POST, EXPECTS, CHUNKED] {
        for response in [OK, EMPTY, NONE, UNCHANGED, EVENTS, CONTINUE] {
            let again = if response == CONTINUE { OK } else { b"" };
            let one: [Push; 3] = [(C, request, 0), (S, response, 0), (S, again, 0)];
            let whole: Vec<Push> = one.iter().cycle().take(9).copied().collect();
            let bytes = whole
                .iter()
                .flat_map(|&(from, bytes, _)| bytes.chunks(1).map(move |byte| (from, byte, 0)));
            let expected = marks(80, &bytes.collect::<Vec<_>>());
            assert_eq!(marks(80, &whole), expected);
            let apart = whole.iter().flat_map(|&(from, bytes, _)| {
                let (head, tail) = bytes.split_at(bytes.len().saturating_sub(2));
                [(from, head, 0), (from, tail, 0)]
            });
            assert_eq!(marks(80, &apart.collect::<Vec<_>>()), expected);
        }
    }
    let (requests, responses) = ([GET, GET, GET].concat(), [OK, OK, OK].concat());
    let one: [Push; 2] = [(C, GET, 0), (S, OK, 0)];
    let together: [Push; 4] = [one[0], one[1], (C, &requests, 0), (S, &responses, 0)];
    let in_turn: [Push; 8] = [one[0], one[1], one[0], one[0], one[0], one[1], one[1], one[1]];
    assert_eq!(marks(80, &together), marks(80, &in_turn));
}

#[test]
fn headers_known_from_another_connection_say_the_same() {
    let pushes = [(C, GET, 0), (S, OK, 0), (C, GET, 0), (S, OK, 0)];
    let mut known = KnownHeaders::default();
    let alone = marks(80, &pushes);
    for _ in 0..3 {
        assert_eq!(marks_knowing(&mut known, &mut Framer::new(80, false), &pushes), alone);
    }
    assert!(alone.iter().any(|mark| mark.ends_with("(nginx/1.22.1)")), "{alone:?}");
}

/// First messages are known from another connection, too: with and without software, with software
/// that is not text, with two statements, with a body, and special cases.
#[test]
fn first_messages_known_from_another_connection_say_the_same() {
    const NAMED: &[u8] = b"POST /a HTTP/1.1\r\nUser-Agent: x\r\nContent-Length: 2\r\n\r\nhi";
    const NAMELESS: &[u8] = b"GET /b HTTP/1.1\r\nUser-Agent: \r\n\r\n";
    const HEAD: &[u8] = b"HEAD /c HTTP/1.1\r\nHost: a\r\n\r\n";
    const TWICE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: a\r\nServer: b\r\nContent-Length: 0\r\n\r\n";
    const NO_TEXT: &[u8] = b"HTTP/1.1 200 OK\r\nServer: \xff\r\nContent-Length: 1\r\n\r\n.";
    for request in [GET, NAMED, NAMELESS, HEAD] {
        for response in [OK, TWICE, NO_TEXT] {
            let header = response.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
            let response =
                if request == HEAD { &response[..header.unwrap_or(0)] } else { response };
            let pushes = [(C, request, 0), (S, response, 0), (C, GET, 0), (S, OK, 0)];
            let alone = marks(80, &pushes);
            let mut known = KnownHeaders::default();
            for mid_stream in [false, false, true] {
                let mut framer = Framer::new(80, mid_stream);
                assert_eq!(marks_knowing(&mut known, &mut framer, &pushes), alone);
            }
        }
    }
}
