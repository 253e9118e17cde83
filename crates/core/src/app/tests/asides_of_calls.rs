//! Messages of protocols of calls and replies that belong to no exchange, that come in parts, or that
//! report an error.

use super::calls::exchange;
use super::calls::samples::*;
use super::{C, Push, S, marks_with, story};
use crate::app::{Framer, Protocol};

/// An exchange that ends with an error.
fn failed(kind: &str, error: &str) -> String {
    format!("request, [{kind}], /request, response, error {error}, /response")
}

/// Returns the story of the messages that belong to exchanges: all but the marks of others.
fn exchanges(port: u16, pushes: &[Push]) -> String {
    story(port, pushes).replace("aside, ", "").replace(", aside", "")
}

#[test]
fn a_statement_in_two_packets_is_one_request() {
    let pushes: &[Push] = &[
        (C, &TDS_PRELOGIN, 0),
        (S, &TDS_OPTIONS, 0),
        (C, &TDS_BATCH, 0),
        (C, &TDS_BATCH_END, 0),
        (S, &TDS_ROWS, 0),
        (S, &TDS_DONE, 0),
        (C, &TDS_BATCH_END, 0),
        (C, &TDS_ATTENTION, 0),
        (S, &TDS_ERROR, 0),
        (C, &TDS_SSPI, 0),
        (S, &TDS_SSPI, 0),
    ];
    let told = [
        exchange("prelogin"),
        exchange("SQL batch"),
        failed("SQL batch", "SQL Server 701"),
        exchange("SSPI"),
    ];
    assert_eq!(exchanges(1433, pushes), told.join(", "));
}

/// MS-TDS §2.2.6.5: the handshake is carried in packets, and what follows is TLS by itself.
#[test]
fn tls_follows_its_handshake_in_packets() {
    let packet = |kind: u8, record: &[u8]| {
        [&[kind, 1, 0, 8 + record.len() as u8, 0, 0, 0, 0][..], record].concat()
    };
    let (hello, finished) =
        (packet(18, b"\x16\x03\x03\0\x01\x01"), packet(18, b"\x14\x03\x03\0\x01\x01"));
    let data = b"\x17\x03\x03\0\x02..";
    let mut framer = Framer::new(1433, false);
    let pushes: &[Push] = &[
        (C, &TDS_PRELOGIN, 0),
        (S, &TDS_OPTIONS, 0),
        (C, &hello, 0),
        (S, &hello, 0),
        (C, &finished, 0),
        (S, &finished, 0),
        (C, data, 0),
        (S, data, 0),
    ];
    marks_with(&mut framer, pushes);
    assert_eq!(framer.protocol(), Protocol::Tls);
}

#[test]
fn quiet_commands_are_part_of_no_exchange() {
    let pushes: &[Push] = &[
        (C, &MEMCACHED_GET, 0),
        (S, &MEMCACHED_MISS, 0),
        (C, &MEMCACHED_QUIET, 0),
        (C, &MEMCACHED_GET, 0),
        (S, &MEMCACHED_BUSY, 0),
        (C, &MEMCACHED_STAT, 0),
        (S, &MEMCACHED_STATISTIC, 0),
        (S, &MEMCACHED_STATISTIC, 0),
        (S, &MEMCACHED_STATISTICS_END, 0),
    ];
    let told = [exchange("Get"), failed("Get", "memcached 0x85"), exchange("Stat")];
    assert_eq!(exchanges(11211, pushes), told.join(", "));
}

#[test]
fn pings_and_events_of_watches_are_part_of_no_exchange() {
    let pushes: &[Push] = &[
        (C, &ZOOKEEPER_CONNECT, 0),
        (S, &ZOOKEEPER_CONNECTED, 0),
        (C, &ZOOKEEPER_PING, 0),
        (S, &ZOOKEEPER_EVENT, 0),
        (C, &ZOOKEEPER_GET, 0),
        (S, &ZOOKEEPER_EVENT, 0),
        (S, &ZOOKEEPER_DATA, 0),
        (C, &ZOOKEEPER_GET, 0),
        (S, &ZOOKEEPER_DENIED, 0),
    ];
    let told = [exchange("connect"), exchange("getData"), failed("getData", "ZooKeeper -102")];
    assert_eq!(exchanges(2181, pushes), told.join(", "));
}

#[test]
fn one_way_calls_and_heartbeats_are_part_of_no_exchange() {
    let thrift: &[Push] = &[
        (C, &THRIFT_CALL, 0),
        (S, &THRIFT_REPLY, 0),
        (C, &THRIFT_ONE_WAY, 0),
        (C, &THRIFT_CALL, 0),
        (S, &THRIFT_EXCEPTION, 0),
    ];
    let told = [exchange("call"), failed("call", "Thrift exception")];
    assert_eq!(exchanges(9090, thrift), told.join(", "));
    let dubbo: &[Push] = &[
        (C, &DUBBO_REQUEST, 0),
        (S, &DUBBO_RESPONSE, 0),
        (C, &DUBBO_HEARTBEAT, 0),
        (C, &DUBBO_REQUEST, 0),
        (S, &DUBBO_HEARTBEAT, 0),
        (S, &DUBBO_BUSY, 0),
    ];
    let told = [exchange("invocation"), failed("invocation", "Dubbo 100")];
    assert_eq!(exchanges(20880, dubbo), told.join(", "));
}

#[test]
fn data_of_a_channel_is_part_of_no_exchange() {
    let pushes: &[Push] = &[
        (C, &STUN_ALLOCATE, 0),
        (S, &STUN_SUCCESS, 0),
        (C, &STUN_CHANNEL_DATA, 0),
        (S, &STUN_CHANNEL_DATA, 0),
        (C, &STUN_ALLOCATE, 0),
        (S, &STUN_FAILURE, 0),
    ];
    let told = [exchange("Allocate"), failed("Allocate", "STUN 508")];
    assert_eq!(exchanges(3478, pushes), told.join(", "));
}

#[test]
fn a_watchdog_is_part_of_no_exchange() {
    let pushes: &[Push] = &[
        (C, &DIAMETER_REQUEST, 0),
        (S, &DIAMETER_BUSY, 0),
        (C, &DIAMETER_WATCHDOG, 0),
        (S, &DIAMETER_WATCHDOG, 0),
        (C, &DIAMETER_REQUEST, 0),
        (S, &DIAMETER_ANSWER, 0),
    ];
    let kind = "Capabilities-Exchange";
    let told = [failed(kind, "Diameter 3004"), exchange(kind)];
    assert_eq!(exchanges(3868, pushes), told.join(", "));
}

#[test]
fn a_publish_request_waits_for_an_event() {
    let pushes: &[Push] = &[
        (C, &OPC_UA_HELLO, 0),
        (S, &OPC_UA_ACKNOWLEDGE, 0),
        (C, &OPC_UA_PUBLISH, 0),
        (C, &OPC_UA_READ, 0),
        (S, &OPC_UA_CHUNK, 0),
        (S, &OPC_UA_DATA, 0),
        (S, &OPC_UA_PUBLISHED, 0),
        (C, &OPC_UA_READ, 0),
        (S, &OPC_UA_TIMEOUT, 0),
    ];
    let told = [exchange("hello"), exchange("Read"), failed("Read", "OPC UA 0x800a0000")];
    assert_eq!(exchanges(4840, pushes), told.join(", "));
}

#[test]
fn replies_of_a_connection_have_its_sequence_numbers() {
    let pushes: &[Push] = &[
        (C, &ETHERNET_IP_REGISTER, 0),
        (S, &ETHERNET_IP_FAILURE, 0),
        (C, &ETHERNET_IP_UNIT, 0),
        (S, &ETHERNET_IP_OTHER_UNIT, 0),
        (S, &ETHERNET_IP_UNIT, 0),
    ];
    let told = [failed("RegisterSession", "EtherNet/IP 0x2"), exchange("SendUnitData")];
    assert_eq!(exchanges(44818, pushes), told.join(", "));
}

#[test]
fn s7_or_tls_follows_the_connection_of_the_transport() {
    let pushes: &[Push] = &[
        (C, &ISO_CONNECT, 0),
        (S, &ISO_CONFIRM, 0),
        (C, &S7_READ, 0),
        (S, &S7_DATA, 0),
        (C, &S7_READ, 0),
        (S, &S7_ERROR, 0),
    ];
    let told = [
        exchange("transport connection"),
        exchange("read variables"),
        failed("read variables", "S7 0x8104"),
    ];
    assert_eq!(exchanges(102, pushes), told.join(", "));
    let hello = [&[22, 3, 1, 0, 49, 1, 0, 0, 45, 3, 3][..], &[7; 32], &[0; 11]].concat();
    let mut framer = Framer::new(3389, false);
    marks_with(&mut framer, &[(C, &ISO_CONNECT, 0), (S, &ISO_CONFIRM, 0), (C, &hello, 0)]);
    assert_eq!(framer.protocol(), Protocol::Tls);
}
