//! Protocols of calls and replies with ids.

use super::{C, Push, S, marks_with, story};
use crate::app::{Framer, Protocol};

/// Messages, one of each meaning.
pub(super) mod samples {
    /// Message 2 of LDAP: a search, an entry, its end; the end of message 3; an unbind request.
    pub const LDAP_SEARCH: [u8; 12] = *b"\x30\x0a\x02\x01\x02\x63\x05\x04\x00\x0a\x01\x02";
    pub const LDAP_ENTRY: [u8; 11] = *b"\x30\x09\x02\x01\x02\x64\x04\x04\x00\x30\x00";
    pub const LDAP_DONE: [u8; 14] = *b"\x30\x0c\x02\x01\x02\x65\x07\x0a\x01\x00\x04\x00\x04\x00";
    pub const LDAP_OTHER_DONE: [u8; 14] =
        *b"\x30\x0c\x02\x01\x03\x65\x07\x0a\x01\x00\x04\x00\x04\x00";
    pub const LDAP_UNBIND: [u8; 7] = *b"\x30\x05\x02\x01\x04\x42\x00";

    /// A header of SMB 2 over TCP: status, command, flags, message id.
    const fn smb(status: u32, command: u8, flags: u8, id: u8) -> [u8; 70] {
        let mut bytes = [0; 70];
        bytes[3] = 66;
        bytes[4] = 0xfe;
        bytes[5] = b'S';
        bytes[6] = b'M';
        bytes[7] = b'B';
        bytes[8] = 64;
        let status = status.to_le_bytes();
        (bytes[12], bytes[13], bytes[14], bytes[15]) = (status[0], status[1], status[2], status[3]);
        bytes[16] = command;
        bytes[20] = flags;
        bytes[28] = id;
        bytes
    }
    pub const SMB_READ: [u8; 70] = smb(0, 8, 0, 7);
    pub const SMB_NOTIFY: [u8; 70] = smb(0, 15, 0, 8);
    pub const SMB_PENDING: [u8; 70] = smb(0x103, 8, 3, 7);
    pub const SMB_NOTIFY_PENDING: [u8; 70] = smb(0x103, 15, 3, 8);
    pub const SMB_CHANGED: [u8; 70] = smb(0, 15, 3, 8);
    pub const SMB_OPLOCK_BREAK: [u8; 70] = smb(0, 18, 1, 0xff);
    pub const SMB_DATA: [u8; 70] = smb(0, 8, 1, 7);
    pub const SMB_DENIED: [u8; 70] = smb(0xc000_006d, 8, 1, 7);

    pub const DNP3_UNSOLICITED: [u8; 17] = *b"\x05\x64\x0a\x44\x01\0\x0a\0..\xc0\xf3\x82\x80\0..";
    pub const DNP3_CONFIRM: [u8; 15] = *b"\x05\x64\x08\xc4\x0a\0\x01\0..\xc0\xd3\0..";
    pub const DNP3_READ: [u8; 15] = *b"\x05\x64\x08\xc4\x0a\0\x01\0..\xc1\xc4\x01..";
    pub const DNP3_RESPONSE: [u8; 17] = *b"\x05\x64\x0a\x44\x01\0\x0a\0..\xc1\xc4\x81\0\0..";

    /// A call of NFS: id, procedure.
    const fn rpc(id: u8, procedure: u8) -> [u8; 44] {
        let mut bytes = [0; 44];
        (bytes[0], bytes[3], bytes[7], bytes[15]) = (0x80, 40, id, 2);
        (bytes[17], bytes[18], bytes[19]) = (0x01, 0x86, 0xa3);
        (bytes[23], bytes[27]) = (3, procedure);
        bytes
    }
    const fn rpc_reply(id: u8) -> [u8; 28] {
        let mut bytes = [0; 28];
        (bytes[0], bytes[3], bytes[7], bytes[11]) = (0x80, 24, id, 1);
        bytes
    }
    pub const RPC_CALL: [u8; 44] = rpc(1, 1);
    pub const RPC_OTHER_CALL: [u8; 44] = rpc(2, 6);
    pub const RPC_REPLY: [u8; 28] = rpc_reply(1);
    pub const RPC_OTHER_REPLY: [u8; 28] = rpc_reply(2);

    pub const DCE_BIND: [u8; 18] = *b"\x05\0\x0b\x03\x10\0\0\0\x12\0\0\0\x01\0\0\0..";
    pub const DCE_ACK: [u8; 18] = *b"\x05\0\x0c\x03\x10\0\0\0\x12\0\0\0\x01\0\0\0..";
    pub const DCE_REQUEST: [u8; 28] =
        *b"\x05\0\0\x03\x10\0\0\0\x1c\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0....";
    pub const DCE_FIRST: [u8; 24] = *b"\x05\0\x02\x01\x10\0\0\0\x18\0\0\0\x02\0\0\0........";
    pub const DCE_LAST: [u8; 24] = *b"\x05\0\x02\x02\x10\0\0\0\x18\0\0\0\x02\0\0\0........";
    pub const DCE_FAULT: [u8; 32] =
        *b"\x05\0\x03\x03\x10\0\0\0\x20\0\0\0\x02\0\0\0........\x05\0\0\0....";

    pub const KERBEROS_AS: [u8; 8] = *b"\0\0\0\x04\x6a\x81\x01\0";
    pub const KERBEROS_REPLY: [u8; 8] = *b"\0\0\0\x04\x6b\x81\x01\0";
    pub const KERBEROS_ERROR: [u8; 13] = *b"\0\0\0\x09\x7e\x07\x30\x05\xa6\x03\x02\x01\x18";

    pub const MODBUS_READ: [u8; 12] = *b"\0\x01\0\0\0\x06\x01\x03\0\0\0\x01";
    pub const MODBUS_DATA: [u8; 11] = *b"\0\x01\0\0\0\x05\x01\x03\x02\0\0";
    pub const MODBUS_EXCEPTION: [u8; 9] = *b"\0\x01\0\0\0\x03\x01\x83\x04";

    pub const MONGODB_PING: [u8; 36] =
        *b"\x24\0\0\0\x05\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x0f\0\0\0\x10ping\0\x01\0\0\0\0";
    pub const MONGODB_REPLY: [u8; 38] =
        *b"\x26\0\0\0\x09\0\0\0\x05\0\0\0\xdd\x07\0\0\0\0\0\0\0\x11\0\0\0\x01ok\0\0\0\0\0\0\0\xf0\x3f\0";

    pub const CASSANDRA_OPTIONS: [u8; 9] = *b"\x04\0\0\x01\x05\0\0\0\0";
    pub const CASSANDRA_SUPPORTED: [u8; 11] = *b"\x84\0\0\x01\x06\0\0\0\x02\0\0";
    pub const CASSANDRA_QUERY: [u8; 13] = *b"\x04\0\0\x02\x07\0\0\0\x04\0\0\0\0";
    pub const CASSANDRA_ERROR: [u8; 15] = *b"\x84\0\0\x02\0\0\0\0\x06\0\0\x10\x01\0\0";
    pub const CASSANDRA_EVENT: [u8; 11] = *b"\x84\0\xff\xff\x0c\0\0\0\x02\0\0";

    pub const KAFKA_METADATA: [u8; 22] = *b"\0\0\0\x12\0\x03\0\x01\0\0\0\x05\0\x04test\0\0\0\0";
    pub const KAFKA_FETCH: [u8; 22] = *b"\0\0\0\x12\0\x01\0\x01\0\0\0\x06\0\x04test\0\0\0\0";
    pub const KAFKA_REPLY: [u8; 12] = *b"\0\0\0\x08\0\0\0\x05\0\0\0\0";
    pub const KAFKA_FETCHED: [u8; 12] = *b"\0\0\0\x08\0\0\0\x06\0\0\0\0";

    pub const TDS_PRELOGIN: [u8; 20] = *b"\x12\x01\0\x14\0\0\0\0\0\0\x06\0\x06\xff\x0b\0\0\0\0\0";
    pub const TDS_OPTIONS: [u8; 20] = *b"\x04\x01\0\x14\0\0\x01\0\0\0\x06\0\x06\xff\x0f\0\0\0\0\0";
    /// A batch in two packets; a result of a row in two; an error; an attention.
    pub const TDS_BATCH: [u8; 12] = *b"\x01\0\0\x0c\0\0\x01\0S\0E\0";
    pub const TDS_BATCH_END: [u8; 10] = *b"\x01\x01\0\x0a\0\0\x02\0L\0";
    pub const TDS_ROWS: [u8; 10] = *b"\x04\0\0\x0a\0\x33\x01\0\x81\x01";
    pub const TDS_DONE: [u8; 10] = *b"\x04\x01\0\x0a\0\x33\x02\0\xfd\x10";
    pub const TDS_ERROR: [u8; 19] = *b"\x04\x01\0\x13\0\x33\x01\0\xaa\x20\0\xbd\x02\0\0\x01\x11..";
    /// A step of the handshake of SSPI, of either side.
    pub const TDS_SSPI: [u8; 10] = *b"\x11\x01\0\x0a\0\0\x01\0NT";
    pub const TDS_ATTENTION: [u8; 8] = *b"\x06\x01\0\x08\0\0\x01\0";

    /// Magic number, opcode, lengths of key and body, status, opaque value.
    const fn memcached(magic: u8, opcode: u8, key: u8, status: u8, opaque: u8) -> [u8; 28] {
        let mut bytes = [0; 28];
        (bytes[0], bytes[1], bytes[3], bytes[7]) = (magic, opcode, key, status);
        (bytes[11], bytes[15]) = (4, opaque);
        bytes
    }
    pub const MEMCACHED_GET: [u8; 28] = memcached(0x80, 0, 4, 0, 1);
    pub const MEMCACHED_MISS: [u8; 28] = memcached(0x81, 0, 0, 1, 1);
    pub const MEMCACHED_QUIET: [u8; 28] = memcached(0x80, 0x0d, 4, 0, 2);
    pub const MEMCACHED_BUSY: [u8; 28] = memcached(0x81, 0, 0, 0x85, 1);
    pub const MEMCACHED_STAT: [u8; 28] = memcached(0x80, 0x10, 0, 0, 3);
    pub const MEMCACHED_STATISTIC: [u8; 28] = memcached(0x81, 0x10, 4, 0, 3);
    pub const MEMCACHED_STATISTICS_END: [u8; 28] = memcached(0x81, 0x10, 0, 0, 3);

    pub const ZOOKEEPER_CONNECT: [u8; 48] = {
        let mut bytes = [0; 48];
        (bytes[3], bytes[18], bytes[31]) = (44, 0x75, 16);
        bytes
    };
    pub const ZOOKEEPER_CONNECTED: [u8; 40] = {
        let mut bytes = [0; 40];
        (bytes[3], bytes[10], bytes[23]) = (36, 0x75, 16);
        bytes
    };
    pub const ZOOKEEPER_GET: [u8; 16] = *b"\0\0\0\x0c\0\0\0\x01\0\0\0\x04\0\0\0\0";
    pub const ZOOKEEPER_DATA: [u8; 22] = *b"\0\0\0\x12\0\0\0\x01\0\0\0\0\0\0\0\x07\0\0\0\0..";
    pub const ZOOKEEPER_DENIED: [u8; 20] =
        *b"\0\0\0\x10\0\0\0\x01\0\0\0\0\0\0\0\x07\xff\xff\xff\x9a";
    pub const ZOOKEEPER_PING: [u8; 12] = *b"\0\0\0\x08\xff\xff\xff\xfe\0\0\0\x0b";
    pub const ZOOKEEPER_EVENT: [u8; 20] =
        *b"\0\0\0\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0";

    pub const THRIFT_CALL: [u8; 21] = *b"\0\0\0\x11\x80\x01\0\x01\0\0\0\x04ping\0\0\0\x07\0";
    pub const THRIFT_REPLY: [u8; 21] = *b"\0\0\0\x11\x80\x01\0\x02\0\0\0\x04ping\0\0\0\x07\0";
    pub const THRIFT_EXCEPTION: [u8; 21] = *b"\0\0\0\x11\x80\x01\0\x03\0\0\0\x04ping\0\0\0\x07\0";
    pub const THRIFT_ONE_WAY: [u8; 21] = *b"\0\0\0\x11\x80\x01\0\x04\0\0\0\x04ping\0\0\0\x08\0";

    pub const DUBBO_REQUEST: [u8; 18] = *b"\xda\xbb\xc2\0\0\0\0\0\0\0\0\x05\0\0\0\x02..";
    pub const DUBBO_RESPONSE: [u8; 18] = *b"\xda\xbb\x02\x14\0\0\0\0\0\0\0\x05\0\0\0\x02..";
    pub const DUBBO_BUSY: [u8; 18] = *b"\xda\xbb\x02\x64\0\0\0\0\0\0\0\x05\0\0\0\x02..";
    pub const DUBBO_HEARTBEAT: [u8; 17] = *b"\xda\xbb\xe2\0\0\0\0\0\0\0\0\x06\0\0\0\x01N";

    pub const STUN_ALLOCATE: [u8; 20] = *b"\0\x03\0\0\x21\x12\xa4\x42abcdefghijkl";
    pub const STUN_SUCCESS: [u8; 20] = *b"\x01\x03\0\0\x21\x12\xa4\x42abcdefghijkl";
    pub const STUN_FAILURE: [u8; 28] =
        *b"\x01\x13\0\x08\x21\x12\xa4\x42abcdefghijkl\0\x09\0\x04\0\0\x05\x08";
    pub const STUN_CHANNEL_DATA: [u8; 8] = *b"\x40\0\0\x03abc\0";

    /// Capabilities, and their answer with success and with a result of the session's id before.
    pub const DIAMETER_REQUEST: [u8; 20] =
        *b"\x01\0\0\x14\x80\0\x01\x01\0\0\0\0\0\0\0\x05\0\0\0\x06";
    pub const DIAMETER_ANSWER: [u8; 32] = *b"\x01\0\0\x20\0\0\x01\x01\0\0\0\0\0\0\0\x05\0\0\0\x06\
        \0\0\x01\x0c\x40\0\0\x0c\0\0\x07\xd1";
    pub const DIAMETER_BUSY: [u8; 44] = *b"\x01\0\0\x2c\x20\0\x01\x01\0\0\0\0\0\0\0\x05\0\0\0\x06\
        \0\0\x01\x07\x40\0\0\x0bsid\0\0\0\x01\x0c\x40\0\0\x0c\0\0\x0b\xbc";
    pub const DIAMETER_WATCHDOG: [u8; 20] =
        *b"\x01\0\0\x14\x80\0\x01\x18\0\0\0\0\0\0\0\x07\0\0\0\x08";

    pub const OPC_UA_HELLO: [u8; 12] = *b"HELF\x0c\0\0\0\0\0\0\0";
    pub const OPC_UA_ACKNOWLEDGE: [u8; 12] = *b"ACKF\x0c\0\0\0\0\0\0\0";
    /// A message: chunk, request id, type, result.
    const fn opc_ua(chunk: u8, id: u8, kind: u16, result: u32) -> [u8; 44] {
        let mut bytes = [0; 44];
        (bytes[0], bytes[1], bytes[2], bytes[3]) = (b'M', b'S', b'G', chunk);
        (bytes[4], bytes[20], bytes[24]) = (44, id, 1);
        let (kind, result) = (kind.to_le_bytes(), result.to_le_bytes());
        (bytes[26], bytes[27]) = (kind[0], kind[1]);
        (bytes[40], bytes[41], bytes[42], bytes[43]) = (result[0], result[1], result[2], result[3]);
        bytes
    }
    pub const OPC_UA_READ: [u8; 44] = opc_ua(b'F', 3, 631, 0);
    pub const OPC_UA_CHUNK: [u8; 44] = opc_ua(b'C', 3, 634, 0);
    pub const OPC_UA_DATA: [u8; 44] = opc_ua(b'F', 3, 634, 0);
    pub const OPC_UA_TIMEOUT: [u8; 44] = opc_ua(b'F', 3, 397, 0x800a_0000);
    pub const OPC_UA_PUBLISH: [u8; 44] = opc_ua(b'F', 4, 826, 0);
    pub const OPC_UA_PUBLISHED: [u8; 44] = opc_ua(b'F', 4, 829, 0);

    /// A message of EtherNet/IP: command, status, context, sequence number.
    const fn ethernet_ip(command: u8, status: u8, context: u8, sequence: u8) -> [u8; 46] {
        let mut bytes = [0; 46];
        (bytes[0], bytes[2], bytes[8], bytes[12]) = (command, 22, status, context);
        bytes[44] = sequence;
        bytes
    }
    pub const ETHERNET_IP_REGISTER: [u8; 46] = ethernet_ip(0x65, 0, 0, 0);
    pub const ETHERNET_IP_FAILURE: [u8; 46] = ethernet_ip(0x65, 2, 0, 0);
    pub const ETHERNET_IP_UNIT: [u8; 46] = ethernet_ip(0x70, 0, 0, 7);
    pub const ETHERNET_IP_OTHER_UNIT: [u8; 46] = ethernet_ip(0x70, 0, 0, 8);

    pub const ISO_CONNECT: [u8; 11] = *b"\x03\0\0\x0b\x06\xe0\0\0\0\x01\0";
    pub const ISO_CONFIRM: [u8; 11] = *b"\x03\0\0\x0b\x06\xd0\0\x01\0\x02\0";
    pub const S7_READ: [u8; 19] = *b"\x03\0\0\x13\x02\xf0\x80\x32\x01\0\0\0\x05\0\x02\0\0\x04\x01";
    pub const S7_DATA: [u8; 21] =
        *b"\x03\0\0\x15\x02\xf0\x80\x32\x03\0\0\0\x05\0\x02\0\0\0\0\x04\x01";
    pub const S7_ERROR: [u8; 19] = *b"\x03\0\0\x13\x02\xf0\x80\x32\x02\0\0\0\x05\0\0\0\0\x81\x04";
}

use samples::*;

/// Protocol, port, a call, its reply, and the kind of the call.
type Pair = (Protocol, u16, &'static [u8], &'static [u8], &'static str);

/// A call and its reply in each protocol.
pub(super) const PAIRS: [Pair; 20] = [
    (Protocol::Ldap, 389, &LDAP_SEARCH, &LDAP_DONE, "search"),
    (Protocol::Smb, 445, &SMB_READ, &SMB_DATA, "READ"),
    (Protocol::Dnp3, 20000, &DNP3_READ, &DNP3_RESPONSE, "READ"),
    (Protocol::OncRpc, 2049, &RPC_CALL, &RPC_REPLY, "GETATTR"),
    (Protocol::DceRpc, 135, &DCE_BIND, &DCE_ACK, "bind"),
    (Protocol::Kerberos, 88, &KERBEROS_AS, &KERBEROS_REPLY, "AS-REQ"),
    (Protocol::Modbus, 502, &MODBUS_READ, &MODBUS_DATA, "read holding registers"),
    (Protocol::Mongodb, 27017, &MONGODB_PING, &MONGODB_REPLY, "ping"),
    (Protocol::Cassandra, 9042, &CASSANDRA_OPTIONS, &CASSANDRA_SUPPORTED, "OPTIONS"),
    (Protocol::Memcached, 11211, &MEMCACHED_GET, &MEMCACHED_MISS, "Get"),
    (Protocol::Thrift, 9090, &THRIFT_CALL, &THRIFT_REPLY, "call"),
    (Protocol::Dubbo, 20880, &DUBBO_REQUEST, &DUBBO_RESPONSE, "invocation"),
    (Protocol::Stun, 3478, &STUN_ALLOCATE, &STUN_SUCCESS, "Allocate"),
    (Protocol::EthernetIp, 44818, &ETHERNET_IP_REGISTER, &ETHERNET_IP_REGISTER, "RegisterSession"),
    (Protocol::Kafka, 9092, &KAFKA_METADATA, &KAFKA_REPLY, "Metadata"),
    (Protocol::Tds, 1433, &TDS_PRELOGIN, &TDS_OPTIONS, "prelogin"),
    (Protocol::Zookeeper, 2181, &ZOOKEEPER_CONNECT, &ZOOKEEPER_CONNECTED, "connect"),
    (Protocol::Diameter, 3868, &DIAMETER_REQUEST, &DIAMETER_ANSWER, "Capabilities-Exchange"),
    (Protocol::OpcUa, 4840, &OPC_UA_HELLO, &OPC_UA_ACKNOWLEDGE, "hello"),
    (Protocol::Smb, 139, b"\x81\0\0\x44\x20", b"\x82\0\0\0", "session request"),
];

/// A whole exchange as its story tells it.
pub(super) fn exchange(kind: &str) -> String {
    format!("request, [{kind}], /request, response, /response")
}

#[test]
fn a_reply_answers_its_call() {
    for (protocol, port, call, reply, kind) in &PAIRS[..PAIRS.len() - 1] {
        let pushes: &[Push] = &[(C, call, 0), (S, reply, 0), (C, call, 0), (S, reply, 0)];
        assert_eq!(story(*port, pushes), [exchange(kind), exchange(kind)].join(", "));
        let mut framer = Framer::new(*port, false);
        marks_with(&mut framer, pushes);
        assert_eq!(framer.protocol(), *protocol);
    }
    let (_, port, request, accepts, kind) = PAIRS[PAIRS.len() - 1];
    let names = [b'x'; 0x43];
    let pushes: &[Push] =
        &[(C, request, 0), (C, &names, 0), (S, accepts, 0), (C, &SMB_READ, 0), (S, &SMB_DATA, 0)];
    assert_eq!(story(port, pushes), [exchange(kind), exchange("READ")].join(", "));
}

#[test]
fn no_protocol_is_taken_for_another() {
    for (protocol, _, call, reply, _) in PAIRS {
        for port in [0, 80, 443, 1883, 3306, 5432, 5672, 9999] {
            let mut framer = Framer::new(port, false);
            marks_with(&mut framer, &[(C, call, 0), (S, reply, 0), (C, call, 0)]);
            let found = framer.protocol();
            assert!(
                [protocol, Protocol::Turns].contains(&found),
                "{protocol:?}, {port}: {found:?}"
            );
        }
    }
    // Bytes that begin like a message of these protocols, and are none.
    for other in [
        &b"\x30\x0a\x04\x01\x02\x63\x05\x04\0\x0a\x01\x02"[..],
        b"\0\0\0\x42\xfeSMC",
        b"\x03\0\0\x13\x0e\xe1\0\0\0\0\0\x01\0\x08\0\x03\0\0\0",
        b"\x05\x01\0",
        b"\x04\x01\0\x50\x0a\x01\x02\x03\0",
        b"\0\0\0\x12\0\x03\0\x01\0\0\0\x05\0\0\0\0\0\0\0\0\0\0",
        b"\0\x01\0\0\0\x06\x01\x03\0\0\0\x01",
        b"\x85\0\0\0",
        b"\x80\x02\0\x01\0\0\0\x13\0\0\0\x21\0\0\0\0\x80\0\x1a\xd4",
    ] {
        for mid_stream in [false, true] {
            let mut framer = Framer::new(9999, mid_stream);
            marks_with(&mut framer, &[(C, other, 0), (S, other, 0), (C, other, 0)]);
            assert_eq!(framer.protocol(), Protocol::Turns, "{other:?}");
        }
    }
}

#[test]
fn messages_that_nothing_asks_for_end_no_exchange() {
    let event = |port: u16, call: &[u8], reply: &[u8], unasked: &[u8]| {
        let told = story(port, &[(C, call, 0), (S, reply, 0), (C, call, 0), (S, reply, 0)]);
        for at in 1..4 {
            let mut pushes: Vec<Push> =
                vec![(C, call, 0), (S, reply, 0), (C, call, 0), (S, reply, 0)];
            pushes.insert(at, (S, unasked, 0));
            assert_eq!(story(port, &pushes), told, "{unasked:?} before {at}");
        }
    };
    for unasked in [&SMB_NOTIFY_PENDING, &SMB_CHANGED, &SMB_OPLOCK_BREAK].map(|it| &it[..]) {
        event(445, &SMB_READ, &SMB_DATA, unasked);
    }
    event(445, &SMB_READ, &SMB_DATA, b"\x85\0\0\0");
    event(389, &LDAP_SEARCH, &LDAP_DONE, &LDAP_OTHER_DONE);
    event(20000, &DNP3_READ, &DNP3_RESPONSE, &DNP3_UNSOLICITED);
    event(9042, &CASSANDRA_OPTIONS, &CASSANDRA_SUPPORTED, &CASSANDRA_EVENT);
    event(9092, &KAFKA_METADATA, &KAFKA_REPLY, &KAFKA_FETCHED);
    event(2049, &RPC_CALL, &RPC_REPLY, &RPC_OTHER_REPLY);
}

#[test]
fn calls_that_wait_for_an_event_are_no_requests() {
    let fetch: &[Push] = &[
        (C, &KAFKA_METADATA, 0),
        (S, &KAFKA_REPLY, 0),
        (C, &KAFKA_FETCH, 0),
        (S, &KAFKA_FETCHED, 0),
    ];
    assert_eq!(story(9092, fetch), exchange("Metadata"));
    let notify: &[Push] = &[
        (C, &SMB_READ, 0),
        (S, &SMB_DATA, 0),
        (C, &SMB_NOTIFY, 0),
        (C, &SMB_READ, 0),
        (S, &SMB_NOTIFY_PENDING, 0),
        (S, &SMB_DATA, 0),
        (S, &SMB_CHANGED, 0),
    ];
    assert_eq!(story(445, notify), [exchange("READ"), exchange("READ")].join(", "));
    // The capture begins with one.
    let first: &[Push] = &[(C, &SMB_NOTIFY, 0), (C, &SMB_READ, 0), (S, &SMB_DATA, 0)];
    let told = "request, /request, request, overtaken, [READ], /request, response, /response";
    assert_eq!(story(445, first), told);
}

#[test]
fn an_interim_response_ends_the_wait_for_the_server() {
    let waits: &[Push] = &[
        (C, &SMB_READ, 0),
        (S, &SMB_PENDING, 0),
        (S, &SMB_DATA, 0),
        (C, &SMB_READ, 0),
        (S, &SMB_DENIED, 0),
    ];
    let denied = "request, [READ], /request, response, error NTSTATUS LOGON_FAILURE, /response";
    assert_eq!(story(445, waits), format!("{}, {denied}", exchange("READ")));
}

#[test]
fn calls_without_a_response_are_no_requests() {
    let metadata = [(C, &KAFKA_METADATA[..], 0), (S, &KAFKA_REPLY[..], 0)];
    for (version, body) in
        [(2, &b"\0\0"[..]), (8, b"\xff\xff\0\0"), (9, b"\0\0\0\0"), (9, b"\0\x03ab\0\0")]
    {
        for (acks, is_answered) in [(0, false), (1, true)] {
            let mut produce = b"\0\0\0\0\0\0\0\0\0\0\0\x05\0\x04test".to_vec();
            produce.extend_from_slice(body);
            let last = produce.len() - 1;
            (produce[7], produce[last]) = (version, acks);
            produce[3] = (last - 3) as u8;
            let told = story(9092, &[&metadata[..], &[(C, &produce, 0)], &metadata[1..]].concat());
            let begun = exchange("Metadata");
            let expected =
                if is_answered { format!("{begun}, {}", exchange("Produce")) } else { begun };
            assert_eq!(told, expected, "version {version}");
        }
    }
    // An oplock that is given back, and a lock that is asked for.
    let mut release = [0; 60];
    release[3] = 56;
    release[4..8].copy_from_slice(b"\xffSMB");
    (release[8], release[4 + 39]) = (0x24, 2);
    let mut lock = release;
    lock[4 + 47] = 1;
    let mut granted = release;
    granted[4 + 9] = 0x80;
    let read = [(C, &SMB_READ[..], 0), (S, &SMB_DATA[..], 0)];
    let of = |call: &[u8]| story(445, &[&read[..], &[(C, call, 0), (S, &granted, 0)]].concat());
    assert_eq!(of(&release), exchange("READ"));
    assert_eq!(of(&lock), [exchange("READ"), exchange("LOCKING_ANDX")].join(", "));
}

#[test]
fn what_cannot_be_read_is_not_followed() {
    let mut encrypted = SMB_READ;
    encrypted[4] = 0xfd;
    let mut framer = Framer::new(445, true);
    marks_with(&mut framer, &[(C, &encrypted, 0), (S, &encrypted, 0)]);
    assert_eq!(framer.protocol(), Protocol::Turns, "from the beginning of the capture");
    let mut framer = Framer::new(445, false);
    marks_with(&mut framer, &[(C, &SMB_READ, 0), (S, &SMB_DATA, 0)]);
    assert_eq!(framer.protocol(), Protocol::Smb);
    marks_with(&mut framer, &[(C, &encrypted, 0), (S, &encrypted, 0)]);
    assert_eq!(framer.protocol(), Protocol::Turns);
    // A client that tries a protocol at a server of another one.
    let mut framer = Framer::new(502, false);
    marks_with(
        &mut framer,
        &[(C, &DCE_BIND, 0), (S, &MODBUS_EXCEPTION, 0), (S, &MODBUS_EXCEPTION, 0)],
    );
    assert_eq!(framer.protocol(), Protocol::Turns);
}

#[test]
fn an_answer_of_several_messages_ends_with_the_last() {
    let search: &[Push] =
        &[(C, &LDAP_SEARCH, 0), (S, &LDAP_ENTRY, 0), (S, &LDAP_ENTRY, 0), (S, &LDAP_DONE, 0)];
    assert_eq!(story(389, search), exchange("search"));
    let fragments: &[Push] = &[
        (C, &DCE_BIND, 0),
        (S, &DCE_ACK, 0),
        (C, &DCE_REQUEST, 0),
        (S, &DCE_FIRST, 0),
        (S, &DCE_LAST, 0),
    ];
    assert_eq!(story(135, fragments), [exchange("bind"), exchange("request")].join(", "));
}

#[test]
fn replies_in_another_order_answer_their_own_calls() {
    let pushes: &[Push] = &[
        (C, &RPC_CALL, 0),
        (C, &RPC_OTHER_CALL, 0),
        (S, &RPC_OTHER_REPLY, 0),
        (S, &RPC_REPLY, 0),
        (C, &RPC_CALL, 0),
        (C, &RPC_OTHER_CALL, 0),
        (S, &RPC_OTHER_REPLY, 0),
        (S, &RPC_REPLY, 0),
    ];
    let told = "request, [GETATTR], /request, request, [READ], /request, overtaken, \
                response, /response, request, [GETATTR], /request, response, /response";
    assert_eq!(story(2049, pushes), told);
}

#[test]
fn failures_are_errors() {
    for (port, begin, call, reply, kind, error) in [
        (445, None, &SMB_READ[..], &SMB_DENIED[..], "READ", "NTSTATUS LOGON_FAILURE"),
        (88, None, &KERBEROS_AS, &KERBEROS_ERROR, "AS-REQ", "Kerberos 24"),
        (
            502,
            None,
            &MODBUS_READ,
            &MODBUS_EXCEPTION,
            "read holding registers",
            "Modbus exception 4",
        ),
        (
            135,
            Some((&DCE_BIND[..], &DCE_ACK[..], "bind")),
            &DCE_REQUEST,
            &DCE_FAULT,
            "request",
            "DCE/RPC fault 0x5",
        ),
        (
            9042,
            Some((&CASSANDRA_OPTIONS[..], &CASSANDRA_SUPPORTED[..], "OPTIONS")),
            &CASSANDRA_QUERY,
            &CASSANDRA_ERROR,
            "QUERY",
            "Cassandra 0x1001",
        ),
    ] {
        let mut pushes: Vec<Push> = Vec::new();
        let mut told = Vec::new();
        if let Some((call, reply, kind)) = begin {
            pushes.extend([(C, call, 0), (S, reply, 0)]);
            told.push(exchange(kind));
        }
        pushes.extend([(C, call, 0), (S, reply, 0)]);
        told.push(format!("request, [{kind}], /request, response, error {error}, /response"));
        assert_eq!(story(port, &pushes), told.join(", "));
    }
}

#[test]
fn tls_follows_start_tls() {
    let ask = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";
    let accept = b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\0\x04\0\x04\0";
    let hello = [&[22, 3, 1, 0, 49, 1, 0, 0, 45, 3, 3][..], &[7; 32], &[0; 11]].concat();
    let mut framer = Framer::new(389, false);
    let marks = marks_with(&mut framer, &[(C, ask, 0), (S, accept, 0), (C, &hello, 0)]);
    assert_eq!(framer.protocol(), Protocol::Tls);
    assert!(marks.last().is_some_and(|it| it.ends_with("handshake")), "{marks:?}");
}

/// Captures that begin in the middle, from either side.
#[test]
fn calls_are_recognised_in_the_middle() {
    for (protocol, port, call, reply, _) in &PAIRS[..14] {
        for pushes in [[(S, *reply, 0), (C, *call, 0)], [(C, *call, 0), (S, *reply, 0)]] {
            let mut framer = Framer::new(*port, true);
            marks_with(&mut framer, &pushes);
            assert_eq!(framer.protocol(), *protocol, "{pushes:?}");
        }
    }
}
