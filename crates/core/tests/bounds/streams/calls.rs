//! Messages of protocols whose calls and replies have ids, and of those with replies in lines.

use super::Dialogue;
use crate::wire::{Client, Server};
use tcpwhy_core::app::Protocol;

/// Returns a dialogue of one request, one response, and a message of the server that is repeated.
fn one(
    (protocol, name, port): (Protocol, &'static str, u16),
    request: &[u8],
    response: &[u8],
    more: &[u8],
) -> Dialogue {
    Dialogue {
        protocol,
        name,
        port,
        begin: Vec::new(),
        request: request.to_vec(),
        response: response.to_vec(),
        more: vec![("calls", Client, request.to_vec()), ("messages", Server, more.to_vec())],
    }
}

/// Like [`one`], for a server that greets.
fn greeted(
    it: (Protocol, &'static str, u16),
    greeting: &[u8],
    request: &[u8],
    response: &[u8],
) -> Dialogue {
    Dialogue { begin: vec![(Server, greeting.to_vec())], ..one(it, request, response, response) }
}

/// Returns an SMB 2 message: status, command, flags, id.
fn smb(status: u16, command: u8, flags: u8) -> Vec<u8> {
    let [low, high] = status.to_le_bytes();
    let header = [&b"\0\0\0\x40\xfeSMB\x40\0\0\0"[..], &[low, high, 0, 0, command, 0, 0, 0, flags]];
    [&header.concat()[..], &[0; 7], &[7], &[0; 39]].concat()
}

pub(super) fn dialogues(protocol: Protocol) -> Vec<Dialogue> {
    let search = b"\x30\x0a\x02\x01\x02\x63\x05\x04\0\x0a\x01\x02";
    let done = b"\x30\x0c\x02\x01\x02\x65\x07\x0a\x01\0\x04\0\x04\0";
    let entry = b"\x30\x09\x02\x01\x02\x64\x04\x04\0\x30\0";
    let rpc = |kind: u8, rest: &[u8]| {
        let length = 8 + rest.len() as u8;
        [&[0x80, 0, 0, length, 0, 0, 0, 1, 0, 0, 0, kind][..], rest].concat()
    };
    let nfs = [&[0, 0, 0, 2, 0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 1][..], &[0; 16]].concat();
    let dce =
        |kind: u8| [&[5, 0, kind, 3, 0x10, 0, 0, 0, 0x12, 0, 0, 0, 1, 0, 0, 0][..], b".."].concat();
    vec![match protocol {
        Protocol::Smtp => {
            greeted((protocol, "smtp", 25), b"220 a ESMTP\r\n", b"NOOP\r\n", b"250 a\r\n")
        }
        Protocol::Ftp => greeted((protocol, "ftp", 21), b"220 a\r\n", b"PWD\r\n", b"257 a\r\n"),
        Protocol::Pop3 => greeted((protocol, "pop3", 110), b"+OK a\r\n", b"STAT\r\n", b"+OK\r\n"),
        Protocol::Imap => {
            greeted((protocol, "imap", 143), b"* OK a\r\n", b"a NOOP\r\n", b"a OK a\r\n")
        }
        Protocol::Ssh => greeted((protocol, "ssh", 22), b"SSH-2.0-a\r\n", b"SSH-2.0-b\r\n", b"x"),
        Protocol::Smb => {
            one((protocol, "smb", 445), &smb(0, 8, 0), &smb(0, 8, 1), &smb(0x103, 8, 3))
        }
        Protocol::Ldap => one((protocol, "ldap", 389), search, done, entry),
        Protocol::OncRpc => one(
            (protocol, "onc rpc", 2049),
            &rpc(0, &nfs),
            &rpc(1, &[0; 16]),
            b"\0\0\0\x04\0\0\0\0",
        ),
        Protocol::DceRpc => one((protocol, "dce rpc", 135), &dce(11), &dce(12), &dce(18)),
        Protocol::Dnp3 => one(
            (protocol, "dnp3", 20000),
            b"\x05\x64\x08\xc4\x0a\0\x01\0..\xc1\xc4\x01..",
            b"\x05\x64\x0a\x44\x01\0\x0a\0..\xc1\xc4\x81\0\0..",
            b"\x05\x64\x0a\x44\x01\0\x0a\0..\xc0\xf3\x82\0\0..",
        ),
        Protocol::Kerberos => one(
            (protocol, "kerberos", 88),
            b"\0\0\0\x04\x6a\x81\x01\0",
            b"\0\0\0\x04\x6b\x81\x01\0",
            b"\0\0\0\0",
        ),
        Protocol::Modbus => one(
            (protocol, "modbus", 502),
            b"\0\x01\0\0\0\x06\x01\x03\0\0\0\x01",
            b"\0\x01\0\0\0\x05\x01\x03\x02\0\0",
            b"\0\x02\0\0\0\x05\x01\x03\x02\0\0",
        ),
        Protocol::Mongodb => one(
            (protocol, "mongodb", 27017),
            b"\x24\0\0\0\x05\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x0f\0\0\0\x10ping\0\x01\0\0\0\0",
            b"\x16\0\0\0\x09\0\0\0\x05\0\0\0\xdd\x07\0\0\0\0\0\0\0\0",
            b"\x10\0\0\0\x09\0\0\0\x06\0\0\0\xdd\x07\0\0",
        ),
        Protocol::Cassandra => one(
            (protocol, "cassandra", 9042),
            b"\x04\0\0\x01\x05\0\0\0\0",
            b"\x84\0\0\x01\x06\0\0\0\x02\0\0",
            b"\x84\0\xff\xff\x0c\0\0\0\x02\0\0",
        ),
        Protocol::Kafka => one(
            (protocol, "kafka", 9092),
            b"\0\0\0\x12\0\x03\0\x01\0\0\0\x05\0\x04test\0\0\0\0",
            b"\0\0\0\x08\0\0\0\x05\0\0\0\0",
            b"\0\0\0\0",
        ),
        Protocol::Tds => one(
            (protocol, "tds", 1433),
            b"\x12\x01\0\x14\0\0\0\0\0\0\x06\0\x06\xff\x0b\0\0\0\0\0",
            b"\x04\x01\0\x0a\0\x33\x02\0\xfd\x10",
            b"\x04\0\0\x0a\0\x33\x01\0\x81\x01",
        ),
        Protocol::Memcached => {
            let message = |magic: u8, opaque: u8| {
                let header = [magic, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, opaque];
                [&header[..], &[0; 8]].concat()
            };
            let more = message(0x81, 2);
            one((protocol, "memcached", 11211), &message(0x80, 1), &message(0x81, 1), &more)
        }
        Protocol::Zookeeper => {
            let connect = [&[0, 0, 0, 44][..], &[0; 27], &[16], &[0; 16]].concat();
            let connected = [&[0, 0, 0, 36][..], &[0; 19], &[16], &[0; 16]].concat();
            let event = [&[0, 0, 0, 16][..], &[0xff; 12], &[0; 4]].concat();
            one((protocol, "zookeeper", 2181), &connect, &connected, &event)
        }
        Protocol::Thrift => {
            let message = |kind: u8, id: u8| {
                [&[0, 0, 0, 17, 0x80, 1, 0, kind, 0, 0, 0, 4][..], b"ping", &[0, 0, 0, id, 0]]
                    .concat()
            };
            one((protocol, "thrift", 9090), &message(1, 7), &message(2, 7), &message(2, 8))
        }
        Protocol::Dubbo => {
            let message = |flags: u8, status: u8| {
                [&[0xda, 0xbb, flags, status][..], &[0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0]].concat()
            };
            let heartbeat = message(0xe2, 0);
            one((protocol, "dubbo", 20880), &message(0xc2, 0), &message(2, 20), &heartbeat)
        }
        Protocol::Stun => one(
            (protocol, "stun", 3478),
            b"\0\x03\0\0\x21\x12\xa4\x42abcdefghijkl",
            b"\x01\x03\0\0\x21\x12\xa4\x42abcdefghijkl",
            b"\x40\0\0\x03abc\0",
        ),
        Protocol::Diameter => one(
            (protocol, "diameter", 3868),
            b"\x01\0\0\x14\x80\0\x01\x01\0\0\0\0\0\0\0\x05\0\0\0\x06",
            b"\x01\0\0\x14\0\0\x01\x01\0\0\0\0\0\0\0\x05\0\0\0\x06",
            b"\x01\0\0\x14\x80\0\x01\x18\0\0\0\0\0\0\0\x07\0\0\0\x08",
        ),
        Protocol::OpcUa => one(
            (protocol, "opc ua", 4840),
            b"HELF\x0c\0\0\0\0\0\0\0",
            b"ACKF\x0c\0\0\0\0\0\0\0",
            b"MSGF\x0c\0\0\0\0\0\0\0",
        ),
        Protocol::EthernetIp => {
            let message = |context: u8| [&[0x65, 0][..], &[0; 10], &[context], &[0; 11]].concat();
            one((protocol, "ethernet ip", 44818), &message(0), &message(0), &message(1))
        }
        Protocol::IsoOnTcp => one(
            (protocol, "iso on tcp", 102),
            b"\x03\0\0\x0b\x06\xe0\0\0\0\x01\0",
            b"\x03\0\0\x0b\x06\xd0\0\x01\0\x02\0",
            b"\x03\0\0\x07\x02\xf0\x80",
        ),
        other => unreachable!("{other:?} has dialogues of its own"),
    }]
}
