//! Conversations in protocols whose replies have the ids of their calls.

use super::{Conversation, Tokens, talk};
use tcpwhy_core::app::Protocol;
use tcpwhy_core::wire::Side::{Client, Server};

/// Returns a conversation of a call and a reply, each a header, numbers, and a text that a user fills.
pub fn of(protocol: Protocol, tokens: &Tokens) -> Vec<Conversation> {
    let t = |field: &str| tokens.of(&format!("{} {field}", protocol.id())).into_bytes();
    let (call, reply) = (t("call").repeat(4), t("reply").repeat(4));
    let length = call.len() as u8;
    let sized = |before: &[u8], more: u8, numbers: &[u8], text: &[u8]| {
        [before, &[length + more], numbers, text].concat()
    };
    let smb = |flags: u8| {
        let numbers = [&b"\xfeSMB\x40\0\0\0\0\0\0\0\x08\0\0\0"[..], &[flags], &[0; 7], &[7]];
        [&numbers.concat()[..], &[0; 39]].concat()
    };
    let rpc = |kind: u8| [0, 0, 0, 1, 0, 0, 0, kind];
    let nfs = [0, 0, 0, 2, 0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 3];
    let dce = |kind: u8, text: &[u8]| {
        [&[5, 0, kind, 3, 0x10, 0, 0, 0, 16 + length, 0, 0, 0, 1, 0, 0, 0][..], text].concat()
    };
    let mongodb = |asked: u8, name: &[u8], text: &[u8]| {
        let size = 26 + name.len() as u8 + length;
        let header = [size, 0, 0, 0, 9, 0, 0, 0, asked, 0, 0, 0, 0xdd, 7, 0, 0];
        [&header[..], &[0; 5], &[9, 0, 0, 0, 2], name, text].concat()
    };
    let dnp3 = |function: u8, text: &[u8]| {
        let header = [5, 0x64, 8 + 11, 0xc4, 1, 0, 2, 0, 0, 0, 0xc0, 0xc0, function];
        [&header[..], &text[..13]].concat()
    };
    let said = |port: u16, call: Vec<u8>, reply: Vec<u8>| {
        let said =
            [(Client, call.clone()), (Server, reply.clone()), (Client, call), (Server, reply)];
        vec![talk(port, said.to_vec())]
    };
    match protocol {
        Protocol::Smb => {
            said(445, sized(&[0, 0, 0], 64, &smb(0), &call), sized(&[0, 0, 0], 64, &smb(1), &reply))
        }
        Protocol::Ldap => said(
            389,
            sized(&[0x30], 5, &[2, 1, 2, 0x63, length], &call),
            sized(&[0x30], 8, &[2, 1, 2, 0x65, length + 3, 10, 1, 0], &reply),
        ),
        Protocol::OncRpc => said(
            2049,
            sized(&[0x80, 0, 0], 24, &[&rpc(0)[..], &nfs].concat(), &call),
            sized(&[0x80, 0, 0], 24, &[&rpc(1)[..], &[0; 16]].concat(), &reply),
        ),
        Protocol::DceRpc => said(135, dce(11, &call), dce(12, &reply)),
        Protocol::Dnp3 => said(20000, dnp3(1, &call), dnp3(129, &reply)),
        Protocol::Kerberos => said(
            88,
            sized(&[0, 0, 0], 2, &[0x6a, 0x81], &call),
            sized(&[0, 0, 0], 2, &[0x6b, 0x81], &reply),
        ),
        Protocol::Modbus => said(
            502,
            sized(&[0, 1, 0, 0, 0], 2, &[1, 16], &call),
            sized(&[0, 1, 0, 0, 0], 2, &[1, 3], &reply),
        ),
        Protocol::Mongodb => {
            said(27017, mongodb(0, b"find\0", &call), mongodb(9, b"name\0", &reply))
        }
        Protocol::Cassandra => said(
            9042,
            [&[4, 0, 0, 1, 1, 0, 0, 0, length][..], &call].concat(),
            [&[0x84, 0, 0, 1, 6, 0, 0, 0, length][..], &reply].concat(),
        ),
        Protocol::Tds => {
            let packet = |kind: u8, numbers: &[u8], text: &[u8]| {
                let size = 8 + numbers.len() as u8 + length;
                [&[kind, 1, 0, size, 0, 0, 0, 0], numbers, text].concat()
            };
            let options = [0, 0, 6, 0, 6];
            let said = [
                (Client, packet(18, &options, &call)),
                (Server, packet(4, &options, &reply)),
                (Client, packet(1, &[], &call)),
                (Server, packet(4, &[], &reply)),
                (Client, packet(16, &[], &call)),
                (Server, packet(4, &[0xaa, 32, 0, 24, 72, 0, 0, 1, 14], &reply)),
            ];
            vec![talk(1433, said.to_vec())]
        }
        Protocol::Memcached => {
            let message = |magic: u8, text: &[u8]| {
                let numbers = [magic, 0, 0, length, 0, 0, 0, 0, 0, 0, 0, length, 0, 0, 0, 1];
                [&numbers[..], &[0; 8], text].concat()
            };
            said(11211, message(0x80, &call), message(0x81, &reply))
        }
        Protocol::Zookeeper => {
            let connect = [&[0, 0, 0, 44][..], &[0; 27], &[16], &call[..16]].concat();
            let connected = [&[0, 0, 0, 36][..], &[0; 19], &[16], &reply[..16]].concat();
            let get = sized(&[0, 0, 0], 8, &[0, 0, 0, 1, 0, 0, 0, 4], &call);
            let numbers = [&[0, 0, 0, 1][..], &[0; 12]].concat();
            let data = sized(&[0, 0, 0], 16, &numbers, &reply);
            let said = [(Client, connect), (Server, connected), (Client, get), (Server, data)];
            vec![talk(2181, said.to_vec())]
        }
        Protocol::Thrift => {
            let message = |kind: u8, text: &[u8]| {
                let begin = [0x80, 1, 0, kind, 0, 0, 0, length];
                [&sized(&[0, 0, 0], 12, &begin, text)[..], &[0, 0, 0, 1]].concat()
            };
            said(9090, message(1, &call), message(2, &reply))
        }
        Protocol::Dubbo => {
            let message = |flags: u8, status: u8, text: &[u8]| {
                let header = [0xda, 0xbb, flags, status, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, length];
                [&header[..], text].concat()
            };
            said(20880, message(0xc2, 0, &call), message(2, 20, &reply))
        }
        Protocol::Stun => {
            let message = |kind: [u8; 2], attribute: [u8; 4], text: &[u8]| {
                let size = 8 + length;
                let header = [kind[0], kind[1], 0, size, 0x21, 0x12, 0xa4, 0x42];
                let attribute = [&[0, attribute[1], 0, length + 4][..], &[0, 0, 5, 0]].concat();
                [&header[..], b"............", &attribute, text].concat()
            };
            said(
                3478,
                message([0, 3], [0, 6, 0, 0], &call),
                message([1, 0x13], [0, 9, 0, 0], &reply),
            )
        }
        Protocol::Diameter => {
            let message = |flags: u8, text: &[u8]| {
                let size = 20 + 8 + length + 12;
                let header = [1, 0, 0, size, flags, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6];
                let session = [0, 0, 1, 7, 0x40, 0, 0, 8 + length];
                let result = [0, 0, 1, 12, 0x40, 0, 0, 12, 0, 0, 0x0b, 0xbc];
                [&header[..], &session, text, &result].concat()
            };
            said(3868, message(0x80, &call), message(0, &reply))
        }
        Protocol::OpcUa => {
            let hello = |kind: &[u8], text: &[u8]| {
                [kind, &[12 + length, 0, 0, 0, 0, 0, 0, 0], text].concat()
            };
            let message = |kind: u8, numbers: usize, text: &[u8]| {
                let size = 8 + 20 + numbers as u8 + length;
                let header = [&b"MSGF"[..], &[size, 0, 0, 0], &[0; 12], &[3, 0, 0, 0]].concat();
                [&header[..], &[1, 0, kind, 2], &vec![0; numbers], text].concat()
            };
            let said = [
                (Client, hello(b"HELF", &call)),
                (Server, hello(b"ACKF", &reply)),
                (Client, message(0x77, 0, &call)),
                (Server, message(0x7a, 16, &reply)),
            ];
            vec![talk(4840, said.to_vec())]
        }
        Protocol::EthernetIp => {
            let message = |command: u8, numbers: &[u8], text: &[u8]| {
                let size = numbers.len() as u8 + length;
                [&[command, 0, size, 0][..], &[0; 20], numbers, text].concat()
            };
            let register = message(0x65, &[], &[]);
            let register = [&[0x65, 0, 4, 0][..], &register[4..24], &[1, 0, 0, 0]].concat();
            let unit = [&[0; 20][..], &[7, 0]].concat();
            let said = [
                (Client, register.clone()),
                (Server, register),
                (Client, message(0x6f, &[], &call)),
                (Server, message(0x6f, &[], &reply)),
                (Client, message(0x70, &unit, &call)),
                (Server, message(0x70, &unit, &reply)),
            ];
            vec![talk(44818, said.to_vec())]
        }
        Protocol::IsoOnTcp => {
            let unit = |numbers: &[u8], text: &[u8]| {
                sized(&[3, 0, 0], 4 + numbers.len() as u8, numbers, text)
            };
            let s7 = |kind: u8| [2, 0xf0, 0x80, 0x32, kind, 0, 0, 0, 5, 0, 2, 0, 0, 0, 0];
            let said = [
                (Client, unit(&[6, 0xe0, 0, 0, 0, 1, 0], &call)),
                (Server, unit(&[6, 0xd0, 0, 1, 0, 2, 0], &reply)),
                (Client, unit(&s7(1), &call)),
                (Server, unit(&s7(3), &reply)),
            ];
            vec![talk(102, said.to_vec())]
        }
        _ => said(
            9092,
            sized(&[0, 0, 0], 10, &[0, 3, 0, 1, 0, 0, 0, 5, 0, length], &call),
            sized(&[0, 0, 0], 4, &[0, 0, 0, 5], &reply),
        ),
    }
}
