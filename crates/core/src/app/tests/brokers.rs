//! AMQP, and streams of Redis, MySQL and PostgreSQL that ask for nothing.

use super::databases::mysql_login;
use super::{C, Push, S, marks_with, story};
use crate::app::{Framer, Protocol};

/// Returns a method frame of AMQP on channel 1.
pub(super) fn method(class: u8, method: u8, arguments: &[u8]) -> Vec<u8> {
    let size = arguments.len() as u8 + 4;
    [&[1, 0, 1, 0, 0, 0, size, 0, class, 0, method][..], arguments, &[0xce]].concat()
}

const HEARTBEAT: &[u8] = b"\x08\0\0\0\0\0\0\xce";

#[test]
fn amqp_methods_with_a_reply_are_requests() {
    let declare = method(50, 10, b"\0\0\x01q\0\0\0\0\0");
    let without_reply = method(50, 10, b"\0\0\x01q\x10\0\0\0\0");
    let get = method(60, 70, b"\0\0\x01q\0");
    let get_ok = method(60, 71, b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0");
    let (declared, closed) = (method(50, 11, b"\x01q\0\0\0\0\0\0\0\0"), method(20, 40, b""));
    let deliver = method(60, 60, b"\x01c\0\0\0\0\0\0\0\x01\0\0\0");
    let (publish, acknowledge) = (method(60, 40, b"\0\0\0\x01q\0"), method(60, 80, &[0; 9]));
    let content: &[u8] = b"\x02\0\x01\0\0\0\x0e\0\x3c\0\0\0\0\0\0\0\0\0\x02\0\0\xce";
    let pushes: &[Push] = &[
        (C, b"AMQP\0\0\x09\x01", 0),
        (S, b"\x01\0\0\0\0\0\x04\0\x0a\0\x0a\xce", 0),
        (C, HEARTBEAT, 0),
        (C, &declare, 0),
        (S, HEARTBEAT, 0),
        (S, &deliver, 0),
        (S, content, 0),
        (C, &acknowledge, 0),
        (S, &declared, 0),
        (C, &without_reply, 0),
        (C, &publish, 0),
        (C, content, 0),
        (C, b"\x03\0\x01\0\0\0\x02hi\xce", 0),
        (C, &get, 0),
        (S, &get_ok, 0),
        (S, content, 0),
        (S, b"\x03\0\x01\0\0\0\x02hi\xce", 0),
        (C, &declare, 0),
        (S, &closed, 0),
    ];
    let one = |kind: &str| format!("request, [{kind}], /request, response, /response");
    let kinds = ["protocol header", "queue.declare", "basic.get", "queue.declare"];
    assert_eq!(story(5672, pushes), kinds.map(one).join(", "));
}

#[test]
fn amqp_is_recognised_by_a_heartbeat_in_the_middle() {
    for side in [C, S] {
        let mut framer = Framer::new(5672, true);
        let marks = marks_with(&mut framer, &[(side, HEARTBEAT, 0)]);
        assert_eq!(framer.protocol(), Protocol::Amqp);
        assert!(framer.is_set_aside(), "{marks:?}");
    }
}

#[test]
fn amqp_request_behind_a_frame_that_asks_for_nothing_is_one() {
    // The capture begins with it.
    let tuned = method(10, 31, &[7, 0xff, 0, 2, 0, 0, 0, 60]);
    let open = [tuned, method(10, 40, b"\x01/\0\0")].concat();
    let opened = method(10, 41, &[0]);
    let pushes: &[Push] = &[(C, &open, 0), (S, &opened, 0), (C, HEARTBEAT, 0), (S, HEARTBEAT, 0)];
    let mut framer = Framer::new(5672, true);
    let marks = marks_with(&mut framer, pushes);
    let words: Vec<_> = marks.iter().filter_map(|line| line.split_once(' ')).collect();
    let told: Vec<_> = words.iter().map(|(_, mark)| *mark).collect();
    assert_eq!(told, ["request", "[connection.open]", "/request", "response", "/response"]);
}

#[test]
fn amqp_message_published_at_the_begin_of_a_capture_asks_for_nothing() {
    let published = method(60, 40, b"\0\0\x01x\x01k\0");
    let header = b"\x02\0\x01\0\0\0\x0e\0\x3c\0\0\0\0\0\0\0\0\0\x02\0\0\xce";
    let body = b"\x03\0\x01\0\0\0\x02hi\xce";
    let delivered = method(60, 60, b"\x01c\0\0\0\0\0\0\0\x01\0\x01x\x01k");
    for pushes in [
        &[(C, &published[..], 0), (C, header, 0), (C, body, 0)][..],
        &[(S, &delivered, 0), (S, header, 0), (S, body, 0)],
    ] {
        let mut framer = Framer::new(5672, true);
        assert_eq!(marks_with(&mut framer, pushes), Vec::<String>::new());
        assert_eq!(framer.protocol(), Protocol::Amqp);
    }
}

#[test]
fn redis_replica_asks_for_nothing_after_psync() {
    let pushes: &[Push] = &[
        (C, b"*3\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$3\r\neof\r\n", 0),
        (S, b"+OK\r\n", 0),
        (C, b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n", 0),
        (S, b"\n", 0),
        (S, b"+FULLRESYNC 0 1\r\n$3\r\nabc", 0),
        (C, b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$1\r\n0\r\n", 0),
        (S, b"*1\r\n$4\r\nPING\r\n", 100),
    ];
    assert_eq!(story(6379, pushes), "request, [REPLCONF], /request, response, /response");
    // The capture begins in the stream.
    assert_eq!(story(6379, &pushes[5..]), "");
}

#[test]
fn redis_commands_without_a_reply_are_no_requests() {
    let pushes: &[Push] = &[
        (C, b"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\n", 0),
        (C, b"*1\r\n$4\r\nINCR\r\n*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$2\r\nON\r\n", 0),
        (S, b"+OK\r\n", 0),
        (C, b"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nSKIP\r\n*1\r\n$4\r\nINCR\r\n", 0),
        (C, b"*1\r\n$4\r\nPING\r\n", 0),
        (S, b"+PONG\r\n", 0),
    ];
    let told = "request, [CLIENT REPLY], /request, response, /response, \
                request, [PING], /request, response, /response";
    assert_eq!(story(6379, pushes), told);
}

#[test]
fn redis_subscriber_gets_a_confirmation_for_each_channel_and_messages_in_between() {
    let pushes: &[Push] = &[
        (C, b"*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$4\r\nPING\r\n", 0),
        (S, b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", 0),
        (S, b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n", 0),
        (S, b"*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n", 0),
        (S, b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n", 0),
        (S, b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", 0),
    ];
    let told = "request, [SUBSCRIBE], /request, request, [PING], /request, \
                response, /response, response, /response";
    assert_eq!(story(6379, pushes), told);
}

#[test]
fn redis_monitor_answers_once() {
    let pushes: &[Push] = &[
        (C, b"*1\r\n$7\r\nMONITOR\r\n", 0),
        (S, b"+OK\r\n", 0),
        (S, b"+1700000000.1 [0 127.0.0.1:1] \"GET\" \"a\"\r\n", 0),
        (C, b"*1\r\n$4\r\nPING\r\n", 0),
        (S, b"+1700000000.2 [0 127.0.0.1:1] \"GET\" \"a\"\r\n", 0),
        (S, b"+PONG\r\n", 0),
    ];
    let told = "request, [MONITOR], /request, response, /response, \
                request, [PING], /request, response, /response";
    assert_eq!(story(6379, pushes), told);
}

#[test]
fn mysql_replica_and_postgres_replica_ask_for_nothing() {
    let mut mysql = mysql_login(&[5, 0, 0, 1, 1, 0, 0, 0, b'u']);
    mysql.push((C, b"\x0b\0\0\0\x12\0\0\0\0\0\0\0\0\0\0", 0));
    mysql.push((S, b"\x05\0\0\x01\0abcd", 0));
    mysql.push((C, b"\x05\0\0\0\xef\0\0\0\0", 0));
    let told = "response, /response, request, [connect], /request, response, /response";
    assert_eq!(story(3306, &mysql), told);
    let postgres: &[Push] = &[
        (C, b"\0\0\0\x0d\0\x03\0\0user\0", 0),
        (S, b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", 0),
        (C, b"Q\0\0\0\x1aSTART_REPLICATION 0\0\0\0", 0),
        (S, b"W\0\0\0\x07\0\0\0", 0),
        (S, b"d\0\0\0\x05k", 0),
        (C, b"d\0\0\0\x05r", 0),
        (S, b"d\0\0\0\x05k", 50),
    ];
    let told = "request, [startup], /request, response, /response, \
                request, [START], /request, response, /response";
    assert_eq!(story(5432, postgres), told);
}

/// The request for metadata of Kafka, version 1, has the code of PostgreSQL's version 3.1.
#[test]
fn kafka_is_not_postgres() {
    let ask = b"\0\0\0\x12\0\x03\0\x01\0\0\0\0\0\x04test\0\0\0\0";
    let mut framer = Framer::new(9092, false);
    marks_with(&mut framer, &[(C, ask, 0), (S, b"\0\0\0\x04\0\0\0\0", 0)]);
    assert_eq!(framer.protocol(), Protocol::Kafka);
}
