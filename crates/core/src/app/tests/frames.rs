//! HTTP/2, WebSocket and MQTT.

use super::*;

#[test]
fn http2_exchanges_end_with_their_streams() {
    let mut framer = Framer::new(80, false);
    let pushes: &[Push] = &[
        (C, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 0),
        (C, b"\0\0\x01\x01\x05\0\0\0\x01\x82", 0),
        (S, b"\0\0\0\x04\0\0\0\0\0", 0),
        (S, b"\0\0\x01\x01\x04\0\0\0\x01\x88", 0),
        (S, b"\0\0\x02\0\x01\0\0\0\x01ok", 0),
        (S, b"\0\0\x08\x06\0\0\0\0\x0012345678", 0),
    ];
    let places = marks_with(&mut framer, pushes);
    assert_eq!(places, ["C0 request", "C43 /request", "S18 response", "S30 /response"]);
    assert_eq!(framer.protocol(), Protocol::Http2);
    assert!(framer.is_set_aside(), "a ping is part of no exchange");
    let next = marks_with(&mut framer, &[(C, b"\0\0\x01\x01\x05\0\0\0\x03\x82", 0)]);
    assert_eq!(next, ["C9 request", "C10 /request"]);
    assert!(!framer.is_set_aside());
}

#[test]
fn http2_responses_at_once_end_with_the_last() {
    let pushes: &[Push] = &[
        (C, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0),
        (C, b"\0\0\x01\x01\x05\0\0\0\x01\x82\0\0\x01\x01\x05\0\0\0\x03\x82", 0),
        (S, b"\0\0\x01\x01\x05\0\0\0\x03\x88", 0),
        (S, b"\0\0\x01\x01\x05\0\0\0\x01\x88", 0),
    ];
    assert_eq!(marks(80, pushes), ["C0 request", "C34 /request", "S9 response", "S20 /response"]);
}

const UPGRADE: &[u8] = b"GET /feed HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n";
const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";

#[test]
fn web_socket_messages_are_turns_and_control_frames_are_not() {
    let mut framer = Framer::new(80, false);
    marks_with(&mut framer, &[(C, UPGRADE, 0), (S, SWITCHED, 0)]);
    assert!(marks_with(&mut framer, &[(S, b"\x89\0", 0), (C, b"\x8a\x80\0\0\0\0", 0)]).is_empty());
    assert!(framer.is_set_aside());
    let pushes: &[Push] = &[
        // A message in two frames, answered by one of 200 bytes.
        (C, b"\x01\x81\0\0\0\0h", 0),
        (C, b"\x80\x81\0\0\0\0i", 0),
        (S, b"\x82\x7e\0\xc8", 200),
        (S, b"\x81\x04tick", 0),
        (C, b"\x81\x82\0\0\0\0yo", 0),
    ];
    let places = marks_with(&mut framer, pushes);
    // Marks come after the header of the frame that they concern.
    let answered = ["C6 request", "S4 /request", "S4 response", "S204 /response"];
    let unsolicited = ["S206 response", "S210 /response", "C20 request"];
    assert_eq!(places, [&answered[..], &unsolicited].concat());
}

#[test]
fn mqtt_deliveries_answer_nothing() {
    let pushes: &[Push] = &[
        (C, b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a", 0),
        (S, b"\x20\x02\0\0", 0),
        (C, b"\x32\x06\0\x01t\0\x09w", 0),
        (S, b"\x32\x06\0\x01t\0\x07v", 0),
        (C, b"\x40\x02\0\x07", 0),
        (S, b"\x40\x02\0\x09", 0),
    ];
    let told = "request, [CONNECT], /request, response, /response, \
                request, [PUBLISH], /request, response, /response";
    assert_eq!(story(1883, pushes), told);
}

/// RFC 9113 §3.4: a server need not wait for the client's preface.
#[test]
fn http2_server_may_speak_first() {
    let pushes: &[Push] = &[
        (S, b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64", 0),
        (C, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 0),
        (C, b"\0\0\x02\x01\x05\0\0\0\x01\x82\x86", 0),
        (S, b"\0\0\0\x04\x01\0\0\0\0\0\0\x01\x01\x05\0\0\0\x01\x88", 0),
        (C, b"\0\0\x04\x08\0\0\0\0\0\0\x01\0\0", 0),
        (C, b"\0\0\0\x04\x01\0\0\0\0", 0),
    ];
    assert_eq!(story(80, pushes), "request, /request, response, /response");
}

#[test]
fn greeting_of_another_protocol_that_begins_with_a_zero() {
    let pushes: &[Push] = &[(S, b"\0\0\x07\x04hello..", 0), (C, b"word", 0), (S, b"answer", 0)];
    assert_eq!(story(5000, pushes), "response, request, /request, response");
}

const PREFACE: Push = (C, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0);
/// HEADERS on stream 1 that announce events, Huffman-coded (RFC 7541 Appendix B).
const EVENTS: &[u8] =
    b"\0\0\x0f\x01\x04\0\0\0\x01\x88\x5f\x8c\x49\x7c\xa5\x82\xf7\x2d\x49\x59\x09\xb0\xa3\xa7";
/// HEADERS on stream 1 that announce gRPC messages.
const MESSAGES: &[u8] = b"\0\0\x13\x01\x04\0\0\0\x01\x88\x5f\x10application/grpc";

#[test]
fn http2_answer_with_events_is_over_when_they_are_announced() {
    let mut framer = Framer::new(80, false);
    let ask: Push = (C, b"\0\0\x01\x01\x05\0\0\0\x01\x82", 0);
    let places = marks_with(&mut framer, &[PREFACE, ask, (S, EVENTS, 0)]);
    assert_eq!(places, ["C0 request", "C34 /request", "S9 response", "S24 /response"]);
    assert!(marks_with(&mut framer, &[(S, b"\0\0\x05\0\0\0\0\0\x01data:", 0)]).is_empty());
    assert!(framer.is_set_aside(), "nobody waits for an event");
    let next: &[Push] = &[
        (C, b"\0\0\x01\x01\x05\0\0\0\x03\x82", 0),
        (S, b"\0\0\x05\0\0\0\0\0\x01data:", 0),
        (S, b"\0\0\0\0\x01\0\0\0\x01\0\0\x01\x01\x05\0\0\0\x03\x88", 0),
    ];
    let told = ["C9 request", "C10 /request", "S32 response", "S33 /response"];
    assert_eq!(marks_with(&mut framer, next), told, "what answers it is on its stream");
}

#[test]
fn grpc_messages_behind_the_first_answer_nothing() {
    let mut framer = Framer::new(80, false);
    let ask: Push = (C, b"\0\0\x01\x01\x04\0\0\0\x01\x82\0\0\x06\0\x01\0\0\0\x01\0\0\0\0\x01a", 0);
    // The first message is in two frames.
    let pushes: &[Push] = &[
        PREFACE,
        ask,
        (S, MESSAGES, 0),
        (S, b"\0\0\x08\0\0\0\0\0\x01\0\0\0\0\x05abc", 0),
        (S, b"\0\0\x02\0\0\0\0\0\x01de", 0),
    ];
    let told = ["C0 request", "C49 /request", "S9 response"];
    assert_eq!(marks_with(&mut framer, pushes), told);
    assert!(!framer.is_set_aside());
    assert!(marks_with(&mut framer, &[(S, b"\0\0\x06\0\0\0\0\0\x01\0\0\0\0\x01z", 0)]).is_empty());
    assert!(framer.is_set_aside());
    assert!(marks_with(&mut framer, &[(S, b"\0\0\x01\x01\x05\0\0\0\x01\xbf", 0)]).is_empty());
    assert!(framer.is_set_aside(), "nor for the end of the stream");
    // A client's message on an open stream asks for another message.
    let more: &[Push] = &[
        (C, b"\0\0\x01\x01\x04\0\0\0\x03\x82", 0),
        (S, b"\0\0\x02\x01\x04\0\0\0\x03\x88\xbe", 0),
        (S, b"\0\0\x06\0\0\0\0\0\x03\0\0\0\0\x01a", 0),
        (C, b"\0\0\x06\0\0\0\0\0\x03\0\0\0\0\x01b", 0),
        (S, b"\0\0\x06\0\0\0\0\0\x03\0\0\0\0\x01c", 0),
    ];
    let told =
        ["C9 request", "S9 /request", "S9 response", "C19 request", "S35 /request", "S35 response"];
    assert_eq!(marks_with(&mut framer, more), told);
}

#[test]
fn grpc_call_with_one_message_ends_with_its_status() {
    let pushes: &[Push] = &[
        PREFACE,
        (C, b"\0\0\x01\x01\x05\0\0\0\x01\x82", 0),
        (S, MESSAGES, 0),
        (S, b"\0\0\x06\0\0\0\0\0\x01\0\0\0\0\x01a", 0),
        (S, b"\0\0\x01\x01\x05\0\0\0\x01\xbf", 0),
    ];
    assert_eq!(story(50051, pushes), "request, /request, response, /response");
}

#[test]
fn http2_headers_that_were_not_captured_are_done_without() {
    let pushes: &[Push] = &[
        PREFACE,
        (C, b"\0\0\x01\x01\x05\0\0\0\x01\x82", 0),
        (S, &EVENTS[..12], 12),
        (S, b"\0\0\x05\0\x01\0\0\0\x01data:", 0),
        (C, b"\0\0\x01\x01\x05\0\0\0\x03\x82", 0),
    ];
    let told = "request, /request, response, /response, request, /request";
    assert_eq!(story(80, pushes), told);
}
