//! A message that no request asked for ends no exchange, wherever it comes.

use super::brokers::method;
use super::databases::{mysql, postgres};
use super::{C, Push, S, story};

/// Places at which a message may come that nothing requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Before any message of its side.
    Anywhere,
    /// While a request waits for the first message of its response.
    WhileWaiting,
}

/// Asserts that `unasked`, sent by the server before each message of `pushes` in turn, changes no
/// mark. `first` messages belong to the set-up of the connection.
fn changes_nothing(port: u16, pushes: &[Push<'_>], first: usize, unasked: &[u8], place: Where) {
    let told = story(port, pushes);
    for at in first..=pushes.len() {
        let waits = at > 0 && at < pushes.len() && pushes[at - 1].0 == C && pushes[at].0 == S;
        if place == Where::WhileWaiting && !waits {
            continue;
        }
        let mut with = pushes.to_vec();
        with.insert(at, (S, unasked, 0));
        assert_eq!(story(port, &with), told, "{unasked:?} before message {at}");
    }
}

#[test]
fn redis_push_ends_no_exchange() {
    let whole: &[Push] = &[
        (C, b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", 0),
        (S, b"%1\r\n+a\r\n+b\r\n", 0),
        (C, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", 0),
        (S, b"$-1\r\n", 0),
        (C, b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n", 0),
        (S, b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", 0),
        (C, b"*2\r\n$5\r\nBLPOP\r\n$1\r\nq\r\n", 0),
        (C, b"*1\r\n$4\r\nPING\r\n", 0),
        (S, b"*-1\r\n", 0),
        (S, b"+PONG\r\n", 0),
    ];
    for push in [
        &b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n"[..],
        b">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n",
        b">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$2\r\nhi\r\n",
    ] {
        changes_nothing(6379, whole, 1, push, Where::Anywhere);
    }
}

#[test]
fn redis_published_message_ends_no_exchange_of_a_subscriber() {
    let subscribed: &[Push] = &[
        (C, b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n", 0),
        (S, b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", 0),
        (C, b"*1\r\n$4\r\nPING\r\n", 0),
        (S, b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", 0),
        (C, b"*2\r\n$11\r\nUNSUBSCRIBE\r\n$1\r\nc\r\n", 0),
        (S, b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n", 0),
    ];
    let message = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";
    changes_nothing(6379, subscribed, 2, message, Where::Anywhere);
}

/// PostgreSQL documentation, "Asynchronous Operations".
#[test]
fn postgres_asynchronous_message_ends_no_exchange() {
    for message in [&b"N\0\0\0\x05\0"[..], b"A\0\0\0\x0c\0\0\0\x01c\0x\0", b"S\0\0\0\x06a\0"] {
        // Messages that the capture cut off cannot be followed by another.
        let whole: Vec<_> = postgres().into_iter().filter(|push| push.2 == 0).collect();
        changes_nothing(5432, &whole[..6], 6, message, Where::Anywhere);
        changes_nothing(5432, &whole[..7], 6, message, Where::Anywhere);
    }
}

/// MariaDB, "Progress Reporting".
#[test]
fn mariadb_progress_report_ends_no_exchange() {
    let progress = b"\x15\0\0\x01\xff\xff\xff\x01\x01\x02\xe8\x03\0\x0bcopy to tmp";
    for modern in [true, false] {
        changes_nothing(3306, &mysql(modern), 4, progress, Where::WhileWaiting);
    }
}

/// AMQP 0-9-1 §4.2.7: heartbeats come at any time; deliveries and confirmations do as well.
#[test]
fn amqp_event_ends_no_exchange() {
    let (open, opened) = (method(20, 10, b"\0"), method(20, 11, &[0; 4]));
    let (get, none) = (method(60, 70, b"\0\0\x01q\0"), method(60, 72, b"\0"));
    let pushes: &[Push] = &[
        (C, b"AMQP\0\0\x09\x01", 0),
        (S, b"\x01\0\0\0\0\0\x04\0\x0a\0\x0a\xce", 0),
        (C, &open, 0),
        (S, &opened, 0),
        (C, &get, 0),
        (S, &none, 0),
    ];
    let deliver = [
        &method(60, 60, b"\x01c\0\0\0\0\0\0\0\x01\0\0\0")[..],
        b"\x02\0\x01\0\0\0\x0e\0\x3c\0\0\0\0\0\0\0\0\0\x02\0\0\xce\x03\0\x01\0\0\0\x02hi\xce",
    ]
    .concat();
    for event in [&b"\x08\0\0\0\0\0\0\xce"[..], &deliver, &method(60, 80, &[0; 9])] {
        changes_nothing(5672, pushes, 1, event, Where::Anywhere);
    }
}

/// MQTT 5.0 §3.3: a broker delivers when something is published.
#[test]
fn mqtt_delivery_ends_no_exchange() {
    let pushes: &[Push] = &[
        (C, b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a", 0),
        (S, b"\x20\x02\0\0", 0),
        (C, b"\x82\x06\0\x01\0\x01t\x01", 0),
        (S, b"\x90\x03\0\x01\x01", 0),
        (C, b"\xc0\0", 0),
        (S, b"\xd0\0", 0),
    ];
    for delivery in [&b"\x30\x04\0\x01tv"[..], b"\x32\x06\0\x01t\0\x07v"] {
        changes_nothing(1883, pushes, 1, delivery, Where::Anywhere);
    }
}

#[test]
fn an_unbind_request_of_ldap_asks_for_nothing() {
    let pushes: &[Push] = &[
        (C, b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00", 0),
        (S, b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00", 0),
        (C, b"\x30\x05\x02\x01\x02\x42\x00", 0),
    ];
    assert_eq!(story(389, pushes), "request, [bind], /request, response, /response");
}
