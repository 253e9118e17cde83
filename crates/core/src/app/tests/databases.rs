//! Redis, PostgreSQL, MySQL and DNS over TCP.

use super::{C, Push, S, marks_with, story};
use crate::app::{Framer, Protocol};

pub(super) fn redis() -> Vec<Push<'static>> {
    vec![
        (C, b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$5\r\nhe", 0),
        (C, b"", 3),
        (C, b"\r\n*2\r\n$6\r\nCONFIG\r\n$3\r\nget\r\n", 0),
        (S, b"+OK\r\n*2\r\n$1\r\na\r\n*1\r\n:1\r\n", 0),
        (S, b">2\r\n+invalidate\r\n$-1\r\n", 0),
        (C, b"PING\r\n*1\r\n$4\r\nquit\r\n", 0),
        (S, b"+PONG\r\n%1\r\n+a\r\n|1\r\n+ttl\r\n:3\r\n_\r\n", 0),
    ]
}

pub(super) fn postgres() -> Vec<Push<'static>> {
    vec![
        (C, b"\0\0\0\x08\x04\xd2\x16\x2f", 0),
        (S, b"N", 0),
        (C, b"\0\0\0\x0d\0\x03\0\0user\0", 0),
        (S, b"R\0\0\0\x08\0\0\0\x05", 0),
        (C, b"p\0\0\0\x08abcd", 0),
        (S, b"R\0\0\0\x08\0\0\0\0S\0\0\0\x06a\0Z\0\0\0\x05I", 0),
        (C, b"Q\0\0\0\x18/* x */ select 1;  \0", 0),
        (S, b"N\0\0\0\x05\0", 0),
        (S, b"T\0\0\0\x08abcdD\0\0\0\x0ahe", 4),
        (S, b"C\0\0\0\x05\0Z\0\0\0\x05I", 0),
        (C, b"P\0\0\0\x1cs1\0-- c\n(insert into", 4),
        (C, b"B\0\0\0\x06abE\0\0\0\x04H\0\0\0\x04", 0),
        (S, b"1\0\0\0\x042\0\0\0\x04", 0),
        (C, b"S\0\0\0\x04", 0),
        (S, b"C\0\0\0\x05\0Z\0\0\0\x05I", 0),
        (C, b"B\0\0\0\x04E\0\0\0\x04S\0\0\0\x04B\0\0\0\x04S\0\0\0\x04", 0),
        (S, b"2\0\0\0\x04Z\0\0\0\x05I2\0\0\0\x04Z\0\0\0\x05I", 0),
        (C, b"X\0\0\0\x04", 0),
    ]
}

/// Returns a MySQL conversation; with `modern` without EOF after definitions
/// (CLIENT_DEPRECATE_EOF).
pub(super) fn mysql(modern: bool) -> Vec<Push<'static>> {
    let (login, eof, rows_end): (&[u8], &[u8], &[u8]) = if modern {
        (&[5, 0, 0, 1, 0, 0, 0, 1, b'u'], b"", b"\x07\0\0\x04\xfe\0\0\x02\0\0\0")
    } else {
        (
            &[5, 0, 0, 1, 0, 0, 0, 0, b'u'],
            b"\x05\0\0\x03\xfe\0\0\x02\0",
            b"\x05\0\0\x05\xfe\0\0\x02\0",
        )
    };
    vec![
        (S, b"\x09\0\0\0\x0a8.0.36\0", 1),
        (C, login, 0),
        (S, b"\x02\0\0\x02\x01\x03\x07\0\0\x03\0\0\0\x02\0\0\0", 0),
        (C, b"\x09\0\0\0\x03select 1", 0),
        (S, b"\x01\0\0\x01\x01\x04\0\0\x02\x03def", 0),
        (S, eof, 0),
        (S, b"\x02\0\0\x04\x011", 0),
        (S, rows_end, 0),
        (C, b"\x05\0\0\0\x19\0\0\0\0\x01\0\0\0\x0e", 0),
        (S, b"\x07\0\0\x01\0\0\0\x02\0\0\0", 0),
        (C, b"\x07\0\0\0\x16select", 0),
        (S, b"\x0c\0\0\x01\0\x01\0\0\0\0\0\x01\0\0\0\0", 0),
        (S, b"\x04\0\0\x02\x03def", 0),
        (S, eof, 0),
        (C, b"\x01\0\0\0\x01", 0),
    ]
}

/// Returns a connection of MySQL up to its first command; `login` is the client's packet.
pub(super) fn mysql_login(login: &[u8]) -> Vec<Push<'_>> {
    vec![(S, b"\x09\0\0\0\x0a8.0.36\0", 1), (C, login, 0), (S, b"\x07\0\0\x02\0\0\0\x02\0\0\0", 0)]
}

pub(super) fn dns() -> Vec<Push<'static>> {
    vec![
        (C, b"\0\x17\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\x03bcd\0\0\x1c\0\x01", 0),
        (S, b"\0\x27\0\x01\x81\x80", 35),
    ]
}

/// Returns the kinds of a conversation, all of whose exchanges must be complete.
fn kinds(port: u16, pushes: &[Push<'_>], exchanges: usize) -> Vec<String> {
    let told = story(port, pushes);
    let count = |word| told.split(", ").filter(|mark| *mark == word).count();
    for word in ["request", "/request", "response", "/response"] {
        assert_eq!(count(word), exchanges, "{word} in {told}");
    }
    assert!(!told.contains("desync"), "{told}");
    told.split(", ").filter(|mark| mark.starts_with('[')).map(str::to_owned).collect()
}

fn protocol(port: u16, pushes: &[Push<'_>]) -> Protocol {
    let mut framer = Framer::new(port, false);
    marks_with(&mut framer, pushes);
    framer.protocol()
}

#[test]
fn redis_commands_are_pipelined_and_pushes_answer_nothing() {
    assert_eq!(kinds(6379, &redis(), 4), ["[SET]", "[CONFIG GET]", "[PING]", "[QUIT]"]);
    assert_eq!(protocol(7000, &redis()), Protocol::Redis);
}

#[test]
fn redis_commands_that_wait_are_part_of_no_exchange() {
    let pushes: Vec<Push<'static>> = vec![
        (C, b"*1\r\n$4\r\nPING\r\n", 0),
        (S, b"+PONG\r\n", 0),
        (C, b"*3\r\n$5\r\nblpop\r\n$1\r\nq\r\n$1\r\n0\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n", 0),
        (S, b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n$1\r\n1\r\n", 0),
        (C, b"*6\r\n$5\r\nXREAD\r\n$5\r\nBLOCK\r\n$1\r\n0\r\n", 0),
        (C, b"$7\r\nSTREAMS\r\n$1\r\ns\r\n$1\r\n$\r\n", 0),
        (S, b"*-1\r\n", 0),
        (C, b"*4\r\n$5\r\nXREAD\r\n$7\r\nSTREAMS\r\n$5\r\nBLOCK\r\n$1\r\n0\r\n", 0),
        (S, b"*-1\r\n", 0),
    ];
    assert_eq!(kinds(6379, &pushes, 3), ["[PING]", "[GET]", "[XREAD]"]);
}

#[test]
fn redis_subscriptions_are_confirmed_by_a_push() {
    let pushes: Vec<Push<'static>> = vec![
        (C, b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", 0),
        (S, b"%1\r\n+a\r\n+b\r\n", 0),
        (C, b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n", 0),
        (S, b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", 0),
        (S, b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n", 0),
    ];
    assert_eq!(kinds(6379, &pushes, 2), ["[HELLO]", "[SUBSCRIBE]"]);
}

#[test]
fn errors_of_databases_are_marked_with_their_codes() {
    let pushes: &[Push] = &[
        (C, b"*1\r\n$4\r\nPING\r\n", 0),
        (S, b"-WRONGTYPE no\r\n", 0),
        (C, b"*1\r\n$4\r\nPING\r\n", 0),
        (S, b"-MOVED 1 10.0.0.1:6379\r\n", 0),
    ];
    let asked = "request, [PING], /request, response";
    let redis = format!("{asked}, error WRONGTYPE, /response, {asked}, /response");
    assert_eq!(story(6379, pushes), redis);
}

#[test]
fn redis_replies_nest() {
    let told = story(6379, &[(C, b"*1\r\n$4\r\nEXEC\r\n", 0), (S, b"*2\r\n*2\r\n+a\r\n", 0)]);
    assert!(told.ends_with("/request, response"), "{told}");
}

#[test]
fn postgres_batches_end_with_sync() {
    let expected = ["[startup]", "[startup]", "[SELECT]", "[INSERT]", "[EXECUTE]", "[EXECUTE]"];
    assert_eq!(kinds(5432, &postgres(), 6), expected);
    assert_eq!(protocol(15432, &postgres()), Protocol::Postgres);
}

#[test]
fn postgres_execution_without_binding_fetches_more_rows() {
    let mut pushes = postgres();
    pushes.truncate(6);
    pushes.extend([
        (C, &b"P\0\0\0\x10\0select 1\0\0\0B\0\0\0\x04E\0\0\0\x04S\0\0\0\x04"[..], 0),
        (S, b"1\0\0\0\x042\0\0\0\x04s\0\0\0\x04Z\0\0\0\x05T", 0),
        (C, b"E\0\0\0\x04S\0\0\0\x04", 0),
        (S, b"s\0\0\0\x04Z\0\0\0\x05T", 0),
    ]);
    assert_eq!(kinds(5432, &pushes, 4), ["[startup]", "[startup]", "[SELECT]", "[FETCH]"]);
}

#[test]
fn postgres_may_turn_into_tls() {
    let mut pushes: Vec<Push> = vec![(C, b"\0\0\0\x08\x04\xd2\x16\x2f", 0), (S, b"S", 0)];
    pushes.extend(super::tls::tls12());
    let told = story(5432, &pushes);
    assert!(told.contains("response, /response, handshake, /handshake full"), "{told}");
}

#[test]
fn postgres_is_recognised_in_the_middle() {
    let mut framer = Framer::new(5432, true);
    let pushes: &[Push] =
        &[(S, b"row", 0), (C, b"Q\0\0\0\x0bBEGIN;\0", 0), (S, b"Z\0\0\0\x05T", 0)];
    let marks = marks_with(&mut framer, pushes);
    assert_eq!(framer.protocol(), Protocol::Postgres);
    assert!(marks.iter().any(|mark| mark.ends_with("[BEGIN]")), "{marks:?}");
}

#[test]
fn mysql_asks_for_tls_without_an_answer() {
    let mut ssl_request = vec![32, 0, 0, 1, 0, 8, 0, 0];
    ssl_request.resize(36, 0);
    let pushes: &[Push] = &[
        (S, b"\x09\0\0\0\x0a8.0.36\0", 1),
        (C, &ssl_request, 0),
        (C, b"\x16\x03\x01\x02\0\x01", 511),
        (S, b"\x16\x03\x03\0\x80", 128),
        (S, b"\x14\x03\x03\0\x01\x01\x17\x03\x03\x08\0", 0x800),
        (C, b"\x17\x03\x03\0\x45", 69),
        (C, b"\x17\x03\x03\0\x64", 100),
        (S, b"\x17\x03\x03\x04\0", 1024),
    ];
    let told = "response, /response, handshake, /handshake full 2186, request, /request, response";
    assert_eq!(story(3306, pushes), told);
}

#[test]
fn mysql_result_sets_end_with_eof_or_ok() {
    for modern in [true, false] {
        let told = story(3306, &mysql(modern));
        assert!(told.starts_with("response, /response, request, [connect]"), "{told}");
        assert!(!told.contains("desync"), "{told}");
        assert_eq!(told.split(", ").filter(|mark| *mark == "/response").count(), 5, "{told}");
        assert!(told.contains("[SELECT]") && told.contains("[PING]") && told.contains("[PREPARE]"));
        assert!(told.ends_with("/response"), "{told}");
    }
    assert_eq!(protocol(13306, &mysql(true)), Protocol::Mysql);
}

/// Returns the marks after the login of a conversation of MySQL.
fn after_login(login: &[u8], pushes: &[Push<'_>]) -> String {
    let told = story(3306, &[&mysql_login(login)[..], pushes].concat());
    let begin = "response, /response, request, [connect], /request, response, /response, ";
    told.strip_prefix(begin).expect(&told).to_owned()
}

const EXECUTED: &str = "request, [EXECUTE], /request, response, /response";
const FETCHED: &str = "request, [FETCH], /request, response, /response";

/// SERVER_STATUS_CURSOR_EXISTS: the rows come with COM_STMT_FETCH.
#[test]
fn mysql_cursor_has_its_rows_fetched() {
    let execute: Push = (C, b"\x0a\0\0\0\x17\x01\0\0\0\x01\x01\0\0\0", 0);
    let fetch: Push = (C, b"\x09\0\0\0\x1c\x01\0\0\0\x64\0\0\0", 0);
    let old: &[Push] = &[
        execute,
        (S, b"\x01\0\0\x01\x01\x04\0\0\x02\x03def\x05\0\0\x03\xfe\0\0\x42\0", 0),
        fetch,
        (S, b"\x02\0\0\x01\0\0\x05\0\0\x02\xfe\0\0\x82\0", 0),
    ];
    assert_eq!(after_login(&[5, 0, 0, 1, 1, 0, 0, 0, b'u'], old), format!("{EXECUTED}, {FETCHED}"));
    let modern: &[Push] = &[
        execute,
        (S, b"\x01\0\0\x01\x01\x04\0\0\x02\x03def\x07\0\0\x03\xfe\0\0\x42\0\0\0", 0),
        fetch,
        (S, b"\x02\0\0\x01\0\0\x07\0\0\x02\xfe\0\0\x82\0\0\0", 0),
    ];
    let login = [5, 0, 0, 1, 1, 0, 0, 1, b'u'];
    assert_eq!(after_login(&login, modern), format!("{EXECUTED}, {FETCHED}"));
}

/// MARIADB_CLIENT_CACHE_METADATA: definitions come only if they have changed.
#[test]
fn mariadb_result_without_definitions() {
    let mut login = vec![33, 0, 0, 1, 0, 0, 0, 0];
    login.resize(4 + 33, 0);
    login[4 + 28] = 0x10;
    let execute: Push = (C, b"\x0a\0\0\0\x17\x01\0\0\0\0\x01\0\0\0", 0);
    let row_and_eof = b"\x02\0\0\x03\0\0\x05\0\0\x04\xfe\0\0\x22\0";
    let cached = [b"\x02\0\0\x01\x01\0\x05\0\0\x02\xfe\0\0\x22\0", &row_and_eof[..]].concat();
    let sent =
        [&b"\x02\0\0\x01\x01\x01\x04\0\0\x02\x03def\x05\0\0\x02\xfe\0\0\x22\0"[..], row_and_eof]
            .concat();
    let pushes: &[Push] =
        &[execute, (S, &sent, 0), execute, (S, &cached, 0), execute, (S, &cached, 0)];
    assert_eq!(after_login(&login, pushes), [EXECUTED; 3].join(", "));
}

/// CLIENT_QUERY_ATTRIBUTES: attributes come before the statement.
#[test]
fn mysql_statement_follows_its_attributes() {
    let login = [5, 0, 0, 1, 1, 0, 0, 8, b'u'];
    let ok: Push = (S, b"\x07\0\0\x01\0\0\0\x02\0\0\0", 0);
    // None; a string, an integer and one that is null.
    let none: Push = (C, b"\x0b\0\0\0\x03\0\x01select 1", 0);
    let some: Push = (
        C,
        b"\x26\0\0\0\x03\x03\x01\x04\x01\xfd\0\x05trace\x08\0\x01n\x0f\0\x01z\x02hi\x01\0\0\0\0\0\0\0insert",
        0,
    );
    let told = after_login(&login, &[none, ok, some, ok]);
    assert!(told.contains("[SELECT]") && told.contains("[INSERT]"), "{told}");
    assert!(!told.contains("desync"), "{told}");
}

#[test]
fn dns_over_tcp_is_framed_by_its_lengths() {
    assert_eq!(kinds(53, &dns(), 1), ["[AAAA]"]);
    assert_eq!(protocol(5353, &dns()), Protocol::Dns);
}

#[test]
fn postgres_flush_and_void_sync_ask_for_nothing() {
    // A pipeline: a batch, its Sync, and Flush after that.
    let pipeline: &[Push] = &[
        (C, b"\0\0\0\x0d\0\x03\0\0user\0", 0),
        (S, b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", 0),
        (C, b"P\0\0\0\x10\0select 1\0\0\0B\0\0\0\x04E\0\0\0\x04S\0\0\0\x04H\0\0\0\x04", 0),
        (S, b"1\0\0\0\x04Z\0\0\0\x05I", 0),
        (C, b"Q\0\0\0\x0dselect 2\0", 0),
        (S, b"C\0\0\0\x04Z\0\0\0\x05I", 0),
    ];
    assert_eq!(kinds(5432, pipeline, 3), ["[startup]", "[SELECT]", "[SELECT]"]);
    // COPY by the extended protocol: the first Sync is ignored, the one after the data is not.
    let copy: &[Push] = &[
        (C, b"\0\0\0\x0d\0\x03\0\0user\0", 0),
        (S, b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", 0),
        (C, b"P\0\0\0\x0f\0copy t\0\0\0\0B\0\0\0\x04E\0\0\0\x04S\0\0\0\x04", 0),
        (S, b"1\0\0\0\x04G\0\0\0\x04", 0),
        (C, b"d\0\0\0\x05xc\0\0\0\x04S\0\0\0\x04", 0),
        (S, b"C\0\0\0\x04Z\0\0\0\x05I", 0),
    ];
    assert_eq!(kinds(5432, copy, 2), ["[startup]", "[COPY]"]);
}
