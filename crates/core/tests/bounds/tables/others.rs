//! Packets that are no segments, and headers before them.

use super::{CLIENT, MANY, SEGMENT, SERVER, host, one, port};
use crate::Hostile;
use crate::wire::{ACK, PSH, Pcap, SYN, Tcp, ip, ip_fragment};

/// Returns all inputs of such packets.
pub fn others() -> Vec<Hostile> {
    let mut all = vec![
        Hostile::one("first fragments", |size| fragments(size, |n| (n, 0x2000))),
        Hostile::one("later fragments", |size| fragments(size, |n| (n, 0x2001))),
        Hostile::one("fragments of one packet", |size| {
            fragments(size, |n| (0, 0x2000 | n & 0x1fff))
        }),
        Hostile::one("fragments of one packet, backward", |size| {
            fragments(size, |n| (0, 0x2000 | !n & 0x1fff))
        }),
        Hostile::one("fragments far apart", |size| {
            fragments(size, |n| (n / 64, 0x2000 | (n % 64 * 100)))
        }),
        Hostile::one("large fragments", |size| {
            let mut pcap = Pcap::new();
            for n in 0..(64 * size) as u32 {
                let part = vec![7; 32_000];
                pcap.frame(&ip_fragment(6, host(n), SERVER, (n as u16, 0x2000), &part));
            }
            pcap
        }),
        Hostile::one("ICMP errors about no connection", |size| {
            let mut pcap = Pcap::new();
            for n in 0..(MANY * size) as u32 {
                let segment = Tcp { from: (host(n), port(n)), ..SEGMENT }.bytes();
                let packet = ip(6, host(n), SERVER, &segment);
                pcap.ip(1, SERVER, host(n), &[&[3, 4, 0, 0, 0, 0, 2, 0][..], &packet].concat());
            }
            pcap
        }),
        one("ICMP errors about one connection", |size, talk, pcap| {
            for n in 0..2_048 * size as u32 {
                let (from, to) = (talk.client, talk.server);
                let segment = Tcp { from, to, seq: talk.next[0] - n % 16, ..SEGMENT }.bytes();
                let packet = ip(6, from.0, to.0, &segment);
                pcap.ip(1, SERVER, CLIENT, &[&[3, 4, 0, 0, 0, 0, 2, 0][..], &packet].concat());
            }
        }),
        Hostile::one("the same packets with other addresses", |size| {
            let mut pcap = Pcap::new();
            for n in 0..(MANY / 2 * size) as u32 {
                for from in [host(n), host(n + 0x80_0000)] {
                    let ends = ((from, port(n)), (SERVER, 80));
                    for (flags, seq) in [(SYN, n * 991), (ACK | PSH, n * 991 + 1)] {
                        let (from, to) = ends;
                        let payload: &[u8] = if flags == SYN { b"" } else { b"x" };
                        pcap.tcp(&Tcp { from, to, seq, ack: 0, flags, payload, ..SEGMENT });
                    }
                }
            }
            pcap
        })
        .open(|size| size * MANY),
        Hostile::one("ARP requests and replies", |size| {
            let mut pcap = Pcap::of_link(1);
            for n in 0..(MANY * size) as u32 {
                let (asking, about) = (SERVER.to_be_bytes(), host(n).to_be_bytes());
                let ethernet = [&[2; 12][..], &[8, 6]].concat();
                for (operation, mac) in
                    [(1, [2; 6]), (2, [4; 6]), (2, [6, 6, about[0], 6, about[2], about[3]])]
                {
                    let (from, to) = if operation == 1 { (asking, about) } else { (about, asking) };
                    let head = [0, 1, 8, 0, 6, 4, 0, operation];
                    pcap.frame(&[&ethernet[..], &head, &mac, &from, &[2; 6], &to].concat());
                }
            }
            pcap
        }),
    ];
    // Each protocol of IP, and each link type, with bytes that may begin anything.
    all.push(Hostile::one("every protocol of IP", |size| {
        let mut pcap = Pcap::new();
        for n in 0..(MANY * size) as u32 {
            pcap.ip(n as u8, host(n), SERVER, &[0x45; 64]);
        }
        pcap
    }));
    for (name, head) in stacks() {
        all.push(Hostile::one(format!("stacked {name}"), move |size| {
            let mut pcap =
                Pcap::of_link(if head[0] >> 4 == 4 || head[0] >> 4 == 6 { 101 } else { 1 });
            let mut bytes = Vec::new();
            while bytes.len() < 1_000 * size {
                bytes.extend_from_slice(&head);
            }
            for _ in 0..64 {
                pcap.frame(&bytes);
            }
            pcap
        }));
    }
    all.push(Hostile::new("every link type", |size| {
        let of_link = |link| {
            let mut pcap = Pcap::of_link(link);
            for n in 0..16 * size as u32 {
                let mut bytes = vec![n as u8; 40];
                bytes.extend(ip(
                    6,
                    host(n),
                    SERVER,
                    &Tcp { from: (host(n), port(n)), flags: SYN, ..SEGMENT }.bytes(),
                ));
                pcap.frame(&bytes);
            }
            pcap.source(&link.to_string())
        };
        (0..300).map(of_link).collect()
    }));
    all
}

/// Headers that carry themselves.
fn stacks() -> Vec<(&'static str, Vec<u8>)> {
    let ethernet = |ether_type: [u8; 2]| [&[2; 12][..], &ether_type].concat();
    let inner = [2; 12];
    vec![
        ("VLANs", vec![0x81, 0, 0, 1]),
        ("Ethernet with VLANs", [&ethernet([0x81, 0])[..], &[0, 1, 0x81, 0].repeat(8)].concat()),
        ("MPLS", [&ethernet([0x88, 0x47])[..], &[0, 1, 0, 64].repeat(8)].concat()),
        ("IP in IP", ip(4, 1, 2, b"")),
        ("GRE", ip(47, 1, 2, &[0, 0, 8, 0])),
        ("ERSPAN", ip(47, 1, 2, &[&[0, 0, 0x88, 0xbe][..], &inner, &[8, 0]].concat())),
        (
            "VXLAN",
            ip(
                17,
                1,
                2,
                &[
                    &[0x12, 0xb5, 0x12, 0xb5, 0xff, 0xff, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0][..],
                    &inner,
                    &[8, 0],
                ]
                .concat(),
            ),
        ),
        (
            "Geneve",
            ip(17, 1, 2, &[0x17, 0xc1, 0x17, 0xc1, 0xff, 0xff, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0]),
        ),
        (
            "IPv6 extensions",
            [
                &[0x60, 0, 0, 0, 0xff, 0xff, 0, 64][..],
                &[0; 32],
                &[0, 0, 0, 0, 0, 0, 0, 0].repeat(64),
            ]
            .concat(),
        ),
    ]
}

/// Fragments of TCP, with the identification and the field of flags and offset of each.
fn fragments(size: usize, of: fn(u16) -> (u16, u16)) -> Pcap {
    let mut pcap = Pcap::new();
    let segment = Tcp { flags: PSH | ACK, payload: b"GET / HT", ..SEGMENT }.bytes();
    for n in 0..(2_048 * size) as u16 {
        pcap.frame(&ip_fragment(6, CLIENT, SERVER, of(n), &segment[..24]));
    }
    pcap
}
