//! The worked examples of RFC 9001 §A and RFC 9369 §A, whose client chose the connection ID
//! 8394c8f03e515708.

use super::*;

const CLIENT_ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
/// Position of the packet number in the examples of the server's Initial packet.
const NUMBER_AT: usize = 18;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|it| it.to_digit(16)).map(|it| it as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The server's Initial packets of RFC 9001 §A.3 and RFC 9369 §A.3.
fn server_initial(version: QuicVersion) -> Vec<u8> {
    bytes(match version {
        QuicVersion::V1 => {
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554
             780bb38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b
             562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee"
        }
        QuicVersion::V2 => {
            "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d9b89237bb
             f87263017915358230035f7fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42
             757507698075b2c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca84bed8521e2e
             140"
        }
    })
}

fn retry(version: QuicVersion) -> Vec<u8> {
    bytes(match version {
        QuicVersion::V1 => {
            "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba"
        }
        QuicVersion::V2 => {
            "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6"
        }
    })
}

#[test]
fn initial_packets_of_the_standards_open_and_seal() {
    for version in [QuicVersion::V1, QuicVersion::V2] {
        let keys = InitialKeys::new(version, &CLIENT_ID).expect("keys");
        let sealed = server_initial(version);
        let mut packet = sealed.clone();
        let opened = keys.server.open(&mut packet, NUMBER_AT, 0).expect("the server's packet");
        assert_eq!(opened.number, 1, "{version:?}");
        // An ACK of packet 0, then the ServerHello in a CRYPTO frame of 90 bytes.
        let frames = &packet[opened.payload];
        assert!(frames.starts_with(&bytes("02000000000600405a020000560303eefce7f7b37ba1d163")));
        assert_eq!(frames.len(), 5 + 4 + 90);
        keys.server.seal(&mut packet, NUMBER_AT, 1).expect("room for the tag");
        assert_eq!(packet, sealed);
    }
}

#[test]
fn a_packet_of_the_other_side_or_with_a_changed_bit_does_not_open() {
    let keys = InitialKeys::new(QuicVersion::V1, &CLIENT_ID).expect("keys");
    let sealed = server_initial(QuicVersion::V1);
    assert_eq!(keys.client.open(&mut sealed.clone(), NUMBER_AT, 0), None);
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 0x10;
        assert_eq!(keys.server.open(&mut changed, NUMBER_AT, 0), None, "byte {at}");
        assert_eq!(keys.server.open(&mut sealed[..at].to_vec(), NUMBER_AT, 0), None);
    }
}

#[test]
fn retry_packets_of_the_standards_have_their_tag() {
    for version in [QuicVersion::V1, QuicVersion::V2] {
        let packet = retry(version);
        let (retry, tag) = packet.split_at(packet.len() - TAG_BYTES);
        assert_eq!(version.retry_tag(&CLIENT_ID, retry).expect("a tag"), tag);
        assert_ne!(version.retry_tag(&CLIENT_ID[1..], retry).expect("a tag"), tag);
        assert_ne!(version.retry_tag(&CLIENT_ID, &retry[1..]).expect("a tag"), tag);
    }
}

#[test]
fn packet_numbers_are_those_closest_to_the_expected_one() {
    // RFC 9000 §A.3.
    assert_eq!(whole_number(0x9b32, 16, 0xa82f_30eb), 0xa82f_9b32);
    assert_eq!(whole_number(0, 8, 0), 0);
    assert_eq!(whole_number(0xff, 8, 0x100), 0xff);
    assert_eq!(whole_number(0x01, 8, 0xff), 0x101);
}
