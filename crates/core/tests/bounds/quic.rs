//! Connections of QUIC.

use crate::Hostile;
use crate::wire::Pcap;
use tcpwhy_core::keys::{InitialKeys, QuicVersion};

/// Memory that connections and handshakes may take, bytes.
const QUIC_BYTES: u64 = 48 << 20;

/// A client's first datagram: an Initial packet with a piece of a ClientHello at `offset`.
fn initial(number: u32, offset: u16) -> Vec<u8> {
    const NUMBER_AT: usize = 1 + 4 + 1 + 8 + 1 + 1 + 2;
    const PACKET_BYTES: usize = 1200;
    let id = [&number.to_be_bytes()[..], &[7; 4]].concat();
    let mut packet = vec![0xc0, 0, 0, 0, 1, 8];
    packet.extend(&id);
    packet.extend([0, 0]);
    packet.extend((0x4000 | (PACKET_BYTES - NUMBER_AT) as u16).to_be_bytes());
    packet.push(0);
    packet.push(6);
    packet.extend((0x4000 | offset).to_be_bytes());
    packet.extend([1, b'x']);
    packet.resize(PACKET_BYTES, 0);
    let keys = InitialKeys::new(QuicVersion::V1, &id).expect("keys");
    keys.client.seal(&mut packet, NUMBER_AT, 0).expect("room");
    packet
}

pub fn all() -> Vec<Hostile> {
    let clients = |size: usize| {
        let mut pcap = Pcap::new();
        for number in 0..(200 * size) as u32 {
            pcap.udp((0x0b00_0000 + number, 999), (0x0a00_0035, 443), &initial(number, 4_000));
        }
        pcap
    };
    let one_socket = |size: usize| {
        let mut pcap = Pcap::new();
        for number in 0..(200 * size) as u32 {
            let offset = (number as u16 % 2_000) * 2;
            pcap.udp((0x0b00_0000, 999), (0x0a00_0035, 443), &initial(number, offset));
        }
        pcap
    };
    let spinning = |size: usize| {
        let (client, server) = ((0x0b00_0000, 999), (0x0a00_0035, 443));
        let mut pcap = Pcap::new();
        pcap.udp(client, server, &initial(0, 0));
        for number in 0..(4_000 * size) as u32 {
            let mut packet = [0x5a; 40];
            packet[0] = if number % 2 == 0 { 0x40 } else { 0x60 };
            pcap.udp(server, client, &packet);
        }
        pcap
    };
    let all = vec![
        Hostile::one("clients of QUIC", clients).within(QUIC_BYTES),
        Hostile::one("clients of QUIC", clients).within(QUIC_BYTES).watched(),
        Hostile::one("connections of QUIC between two ports", one_socket).within(QUIC_BYTES),
        Hostile::one("a spin bit that turns in each packet", spinning).within(QUIC_BYTES),
    ];
    all.into_iter().map(|it| Hostile { cost: crate::OPENED_COST_MAX, ..it }).collect()
}
