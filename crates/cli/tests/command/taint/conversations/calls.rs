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
        _ => said(
            9092,
            sized(&[0, 0, 0], 10, &[0, 3, 0, 1, 0, 0, 0, 5, 0, length], &call),
            sized(&[0, 0, 0], 4, &[0, 0, 0, 5], &reply),
        ),
    }
}
