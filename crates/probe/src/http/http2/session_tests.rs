//! Sessions against servers that are written here frame by frame, also hostile ones.

use super::*;
use crate::Target;
use crate::http::Request;
use tcpwhy_testing::http2::{
    CONTINUATION, DATA, GOAWAY, HEADERS, OK, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
};

/// Flags.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn prepared(request: &Request) -> Prepared {
    Prepared::new(request, &Target::parse("http://127.0.0.1:80/").unwrap()).unwrap()
}

/// A session and what became of its streams.
struct Client {
    session: Session,
    events: Vec<(usize, Event)>,
    sent: Vec<u8>,
}

impl Client {
    fn new() -> Client {
        let session = Session::new(OwnWindows::default(), false).unwrap();
        Client { session, events: Vec::new(), sent: Vec::new() }
    }

    /// A client whose server has stated these settings.
    fn of(settings: &[(u16, u32)]) -> Client {
        let mut it = Client::new();
        let parameter =
            |&(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let payload: Vec<u8> = settings.iter().flat_map(parameter).collect();
        it.come(&frame(SETTINGS, 0, 0, &payload));
        it
    }

    fn ask(&mut self, request: &Request, key: usize) {
        self.session.send(&prepared(request), key).unwrap();
        self.come(&[]);
    }

    fn come(&mut self, bytes: &[u8]) {
        self.session.receive(bytes);
        let events = &mut self.events;
        loop {
            self.session.advance(|key, event| events.push((key, event)));
            if !self.session.has_unsent() {
                return;
            }
            let sent = &mut self.sent;
            let took = self.session.with_unsent(|bytes| {
                sent.extend_from_slice(bytes);
                Ok::<_, ()>(bytes.len())
            });
            took.unwrap();
        }
    }

    /// The end of the stream with this key.
    fn end(&self, key: usize) -> Option<&Event> {
        let ends = |it: &&(usize, Event)| matches!(it.1, Event::Answered(_) | Event::Failed(_));
        self.events.iter().filter(|it| it.0 == key).find(ends).map(|it| &it.1)
    }

    fn status(&self, key: usize) -> Option<u16> {
        match self.end(key)? {
            Event::Answered(response) => Some(response.status),
            _ => None,
        }
    }

    fn error(&self, key: usize) -> String {
        match self.end(key) {
            Some(Event::Failed(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// Bytes of DATA that were sent.
    fn body_bytes(&self) -> usize {
        let (mut at, mut sum) = (24, 0);
        while let Some(head) = self.sent[at..].first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            sum += if head[3] == DATA { length } else { 0 };
            at += 9 + length;
        }
        sum
    }
}

#[test]
fn answers_on_streams_may_come_in_any_order() {
    let mut it = Client::of(&[(3, 100)]);
    (0..3).for_each(|key| it.ask(&Request::get(), key));
    it.come(&frame(HEADERS, END_HEADERS, 5, OK));
    it.come(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x8d]));
    it.come(&frame(DATA, END_STREAM, 5, b"hello"));
    assert_eq!((it.status(0), it.status(1), it.status(2)), (Some(404), None, Some(200)));
    let Some(Event::Answered(response)) = it.end(2) else { panic!("{:?}", it.events) };
    // Two frame headers, a byte of fields and the body.
    assert_eq!((response.wire_bytes, response.keep_alive), (9 + 1 + 9 + 5, true));
    assert_eq!((it.session.streams(), it.session.is_over()), (1, false));
    assert!(it.events.contains(&(2, Event::Body(5))));
}

#[test]
fn interim_responses_and_trailers_are_no_answers() {
    let mut it = Client::of(&[]);
    it.ask(&Request::get(), 0);
    // `:status: 103` as a literal with an indexed name.
    it.come(&frame(HEADERS, END_HEADERS, 1, b"\x08\x03103"));
    assert_eq!(it.events, []);
    it.come(&frame(HEADERS, END_HEADERS, 1, OK));
    it.come(&frame(DATA, 0, 1, b"x"));
    it.come(&frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x00\x01t\x011"));
    assert_eq!(it.status(0), Some(200));
}

#[test]
fn a_body_is_sent_as_far_as_the_window_goes() {
    let mut it = Client::of(&[(4, 1_000)]);
    it.ask(&Request { method: "POST".into(), body: vec![7; 2_500], ..Request::get() }, 0);
    assert_eq!(it.body_bytes(), 1_000);
    it.come(&frame(WINDOW_UPDATE, 0, 1, &1_000_u32.to_be_bytes()));
    assert_eq!(it.body_bytes(), 2_000);
    it.come(&frame(WINDOW_UPDATE, 0, 1, &1_000_u32.to_be_bytes()));
    assert_eq!(it.body_bytes(), 2_500);
    it.come(&frame(HEADERS, END_HEADERS | END_STREAM, 1, OK));
    let seen = it.session.seen();
    assert_eq!((it.status(0), seen.waits.len()), (Some(200), 2));
    assert_eq!((seen.waits[0].window_bytes, seen.waits[0].of_connection), (1_000, false));
    assert_eq!(seen.connection_window_bytes, WINDOW_BYTES);
}

#[test]
fn resets_name_their_code() {
    let mut it = Client::of(&[]);
    it.ask(&Request::get(), 0);
    it.come(&frame(RST_STREAM, 0, 1, &7_u32.to_be_bytes()));
    assert_eq!(it.error(0), "the server reset the stream (RST_STREAM, REFUSED_STREAM)");
    assert!(!it.session.is_over(), "the connection goes on");
}

#[test]
fn a_goaway_costs_the_streams_above_its_last_one() {
    let mut it = Client::of(&[]);
    (0..3).for_each(|key| it.ask(&Request::get(), key));
    it.come(&frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 11]));
    for key in [1, 2] {
        let error = it.error(key);
        assert!(error.contains("GOAWAY, ENHANCE_YOUR_CALM) and did not process"), "{error}");
    }
    assert!(it.session.is_over());
    it.come(&frame(HEADERS, END_HEADERS | END_STREAM, 1, OK));
    assert_eq!(it.status(0), Some(200), "the stream that the server processes is answered");
    assert!(it.session.send(&prepared(&Request::get()), 3).is_err());
}

#[test]
fn a_server_of_http1_is_no_broken_one() {
    let mut it = Client::new();
    it.ask(&Request::get(), 0);
    it.come(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(it.end(0), Some(&Event::Failed(Http2Error::Http1)));
}

#[test]
fn an_end_in_the_middle_is_an_end() {
    let mut it = Client::of(&[]);
    it.ask(&Request::get(), 0);
    it.come(&frame(HEADERS, END_HEADERS, 1, OK));
    it.session.close();
    it.come(&[]);
    assert_eq!(it.end(0), Some(&Event::Failed(Http2Error::Closed)));
}

/// Header sections that never end: by CONTINUATION frames, by many fields, and by a table that expands
/// (RFC 7541 §7.3).
#[test]
fn header_sections_without_end_are_refused_in_bounded_memory() {
    let flood = |sections: &dyn Fn(usize) -> Vec<u8>| {
        let mut it = Client::of(&[]);
        it.ask(&Request::get(), 0);
        for number in 0..10_000 {
            it.come(&sections(number));
            if it.session.connection_has_ended() || it.end(0).is_some() {
                return number;
            }
        }
        panic!("nothing ended it");
    };
    let field = [&b"\x00\x01a\x7f\x81\x01"[..], &[b'x'; 256]].concat();
    let fields = field.repeat(16_384 / field.len());
    let continued = |number| match number {
        0 => frame(HEADERS, 0, 1, &[OK, &fields].concat()),
        _ => frame(CONTINUATION, 0, 1, &fields),
    };
    let frames = flood(&continued);
    assert!(frames <= 16, "{frames} frames of 16 KiB were read");
    let empty = flood(&|number| match number {
        0 => frame(HEADERS, 0, 1, OK),
        _ => frame(CONTINUATION, 0, 1, &[]),
    });
    assert!(empty <= 1_000, "{empty} empty frames were read");
    let interim = flood(&|_| frame(HEADERS, END_HEADERS, 1, b"\x08\x03103"));
    assert!(interim <= 100, "{interim} interim responses were read");
}

#[test]
fn bytes_of_no_protocol_end_the_session() {
    for wire in [
        frame(SETTINGS, 0, 0, &[0; 5]),
        frame(DATA, 0, 9, b"of a stream that is not open"),
        frame(HEADERS, END_HEADERS, 1, &[0xff; 40]),
        frame(5, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]),
        vec![0xff; 64],
    ] {
        let mut it = Client::of(&[]);
        it.ask(&Request::get(), 0);
        it.come(&wire);
        assert!(it.error(0).contains("no HTTP/2 that can be read"), "{}", it.error(0));
    }
}

#[test]
fn streams_above_the_limit_wait_for_others() {
    let mut it = Client::of(&[(3, 1)]);
    it.ask(&Request::get(), 0);
    it.ask(&Request::get(), 1);
    // A third one has no place even in the queue.
    assert!(it.session.send(&prepared(&Request::get()), 2).is_err());
    it.come(&frame(HEADERS, END_HEADERS | END_STREAM, 1, OK));
    it.come(&frame(HEADERS, END_HEADERS | END_STREAM, 3, OK));
    assert_eq!((it.status(0), it.status(1)), (Some(200), Some(200)));
}
