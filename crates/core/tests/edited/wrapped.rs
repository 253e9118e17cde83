//! The same packets with other link layers and in tunnels.

use crate::edit::{Frame, captures, pcap, report, report_of, story};
use tcpwhy_core::capture::LinkType;

/// Ethernet addresses.
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

type Wrap = fn(&[u8], usize) -> Vec<u8>;

fn ether_type(ip: &[u8]) -> [u8; 2] {
    if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] }
}

/// The header in front of a packet of `len` bytes on the wire, by link type.
const WRAPS: &[(&str, LinkType, Wrap)] = &[
    ("raw", LinkType::RAW, |_, _| Vec::new()),
    ("null", LinkType::NULL, |ip, _| vec![if ip[0] >> 4 == 4 { 2 } else { 30 }, 0, 0, 0]),
    ("Ethernet", LinkType::ETHERNET, |ip, _| [&MACS[..], &ether_type(ip)].concat()),
    ("VLAN", LinkType::ETHERNET, |ip, _| [&MACS[..], &[0x81, 0, 0, 7], &ether_type(ip)].concat()),
    ("QinQ", LinkType::ETHERNET, |ip, _| {
        [&MACS[..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8], &ether_type(ip)].concat()
    }),
    ("SLL", LinkType::LINUX_SLL, |ip, _| {
        [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &ether_type(ip)].concat()
    }),
    ("SLL2", LinkType::LINUX_SLL2, |ip, _| [&ether_type(ip)[..], &[0; 18]].concat()),
    ("PPPoE", LinkType::ETHERNET, |ip, len| {
        let [high, low] = (len as u16 + 2).to_be_bytes();
        let protocol = if ip[0] >> 4 == 4 { 0x21 } else { 0x57 };
        [&MACS[..], &[0x88, 0x64, 0x11, 0, 0, 1, high, low, 0, protocol]].concat()
    }),
    ("GRE", LinkType::RAW, |ip, len| in_ipv4(47, len, &[&[0, 0][..], &ether_type(ip)].concat())),
    ("VXLAN", LinkType::RAW, |ip, len| {
        let inner = [&[8, 0, 0, 0, 0, 0, 9, 0][..], &MACS, &ether_type(ip)].concat();
        in_udp(4789, len, &inner)
    }),
    ("Geneve", LinkType::RAW, |ip, len| {
        let inner = [&[0, 0, 0x65, 0x58, 0, 0, 9, 0][..], &MACS, &ether_type(ip)].concat();
        in_udp(6081, len, &inner)
    }),
];

fn in_ipv4(protocol: u8, len: usize, inner: &[u8]) -> Vec<u8> {
    let [high, low] = ((20 + inner.len() + len) as u16).to_be_bytes();
    let header = [0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    [&header[..], inner].concat()
}

fn in_udp(port: u16, len: usize, inner: &[u8]) -> Vec<u8> {
    let [high, low] = ((8 + inner.len() + len) as u16).to_be_bytes();
    let [port_high, port_low] = port.to_be_bytes();
    let header = [0xc0, 0, port_high, port_low, high, low, 0, 0];
    in_ipv4(17, len, &[&header[..], inner].concat())
}

fn wrapped(frames: &[Frame], link: LinkType, wrap: Wrap) -> Vec<Frame> {
    let wrap = |frame: &Frame| {
        let ip = &frame.bytes[frame.ip_at()?..];
        let len = frame.original_len - frame.ip_at()?;
        let before = wrap(ip, len);
        let original_len = before.len() + len;
        Some(Frame { link, original_len, bytes: [&before[..], ip].concat(), ..frame.clone() })
    };
    frames.iter().filter_map(wrap).collect()
}

#[test]
fn link_layers_and_tunnels_do_not_show_in_the_findings() {
    for (name, frames) in captures() {
        let whole = report(&frames);
        for &(wrap, link, before) in WRAPS {
            let found = report(&wrapped(&frames, link, before));
            assert_eq!(story(&found), story(&whole), "{name} in {wrap}");
        }
    }
}

#[test]
fn compression_does_not_show_in_the_report() {
    use std::io::Write;
    for (name, frames) in captures() {
        let file = pcap(&frames);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&file).expect("memory");
        let whole = story(&report_of(file.clone()));
        assert_eq!(story(&report_of(gzip.finish().expect("memory"))), whole, "{name}");
        let zstd = zstd::encode_all(&file[..], 1).expect("memory");
        assert_eq!(story(&report_of(zstd)), whole, "{name}");
    }
}

/// A pcapng file of sections of `section` frames, each with two interfaces in nanoseconds, one of them
/// an hour behind, which its offset makes up for.
fn pcapng(frames: &[Frame], section: usize) -> Vec<u8> {
    const HOUR_S: u64 = 3_600;
    fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let len = (12 + padded) as u32;
        file.extend([kind.to_le_bytes(), len.to_le_bytes()].concat());
        file.extend(body);
        file.resize(file.len() + padded - body.len(), 0);
        file.extend(len.to_le_bytes());
    }
    let mut file = Vec::new();
    for frames in frames.chunks(section) {
        let header = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
        block(&mut file, 0x0a0d_0d0a, &header);
        let link = frames[0].link.0.to_le_bytes();
        let plain = [&link[..], &[0, 0], &[0; 4], &[9, 0, 1, 0, 9, 0, 0, 0], &[0; 4]].concat();
        let offset = [&[14, 0, 8, 0][..], &HOUR_S.to_le_bytes()].concat();
        let late = [&plain[..16], &offset, &[0; 4]].concat();
        block(&mut file, 1, &plain);
        block(&mut file, 1, &late);
        for (index, frame) in frames.iter().enumerate() {
            let interface = index as u32 % 2;
            let time = frame.time_ns - u64::from(interface) * HOUR_S * 1_000_000_000;
            let lens = [frame.bytes.len() as u32, frame.original_len as u32];
            let words = [interface, (time >> 32) as u32, time as u32, lens[0], lens[1]];
            let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            body.extend(&frame.bytes);
            block(&mut file, 6, &body);
        }
    }
    file
}

#[test]
fn sections_and_interfaces_do_not_show_in_the_findings() {
    for (name, frames) in captures() {
        let found = report_of(pcapng(&frames, 50));
        assert_eq!(story(&found), story(&report(&frames)), "{name}");
    }
}
