//! Names: look-ups, clients, resolvers.

use crate::Hostile;
use crate::wire::{End, Pcap, ip, ip_fragment};

const CLIENT: u32 = 0x0a00_0001;
const RESOLVER: u32 = 0x0a00_0035;
const LOOPBACK: u32 = 0x7f00_0001;

/// A query for `name` of one label, or its answer with an address.
fn message(id: u16, name: &str, is_answer: bool) -> Vec<u8> {
    let flags: [u8; 2] = if is_answer { [0x81, 0x80] } else { [1, 0] };
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend(flags);
    bytes.extend([0, 1, 0, u8::from(is_answer), 0, 0, 0, 0, name.len() as u8]);
    bytes.extend(name.as_bytes());
    bytes.extend([0, 0, 1, 0, 1]);
    if is_answer {
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 9]);
    }
    bytes
}

/// A name that is looked up, and found.
pub fn look_up(pcap: &mut Pcap, number: u32) {
    let (client, name) = ((CLIENT, port(number)), format!("n{number}"));
    pcap.udp(client, (RESOLVER, 53), &message(number as u16, &name, false));
    pcap.udp((RESOLVER, 53), client, &message(number as u16, &name, true));
}

/// Memory that look-ups may take, bytes.
const NAMES_BYTES: u64 = 36 << 20;
/// Memory for 16,000 servers, each with a row of its own, and their look-ups.
const RESOLVERS_BYTES: u64 = 68 << 20;

/// Look-ups of size 1.
const LOOKUPS: usize = 1_000;

/// Client, resolver, and name.
type Asked = (End, u32, String);

/// Look-ups whose client, resolver, port and name depend on their number.
fn lookups(name: &str, answered: bool, of: fn(u32) -> Asked) -> Hostile {
    Hostile::one(name, move |size| {
        let mut pcap = Pcap::new();
        for number in 0..(LOOKUPS * size) as u32 {
            let (client, resolver, name) = of(number);
            pcap.udp(client, (resolver, 53), &message(number as u16, &name, false));
            if answered {
                pcap.udp((resolver, 53), client, &message(number as u16, &name, true));
            }
        }
        pcap
    })
}

fn port(number: u32) -> u16 {
    1_024 + (number % 60_000) as u16
}

pub fn all() -> Vec<Hostile> {
    let many = |size: usize| {
        let mut pcap = Pcap::new();
        (0..(4_000 * size) as u32).for_each(|number| look_up(&mut pcap, number));
        pcap
    };
    vec![
        lookups("forged queries of many clients", false, |n| {
            ((0x0b00_0000 + n, 999), RESOLVER, "a".into())
        }),
        lookups("forged queries for many names", false, |n| {
            ((0x0b00_0000 + n, 999), RESOLVER, format!("n{n}"))
        }),
        lookups("queries of one client for one name", false, |n| {
            ((CLIENT, port(n)), RESOLVER, "a".into())
        }),
        lookups("queries of one client for many names", false, |n| {
            ((CLIENT, port(n)), RESOLVER, format!("n{n}"))
        }),
        lookups("queries of one socket for one name", false, |_| {
            ((CLIENT, 999), RESOLVER, "a".into())
        }),
        lookups("queries at the loopback and elsewhere", false, |n| match n % 2 {
            0 => ((LOOPBACK + n % 4096, port(n)), LOOPBACK, format!("n{n}")),
            _ => ((0x0b00_0000 + n, 999), RESOLVER, format!("n{n}")),
        }),
        lookups("answered look-ups of one client", true, |n| {
            ((CLIENT, port(n)), RESOLVER, format!("n{n}"))
        }),
        lookups("answered look-ups of many clients", true, |n| {
            ((0x0b00_0000 + n, 999), RESOLVER, "a".into())
        }),
        lookups("answers of many resolvers", true, |n| {
            ((CLIENT, port(n)), 0x0c00_0000 + n, "a".into())
        })
        .within(RESOLVERS_BYTES),
        Hostile::one("answered look-ups without end", many).within(NAMES_BYTES),
        Hostile::one("answered look-ups without end", many).within(NAMES_BYTES).watched(),
        Hostile::one("answers without query", |size| {
            let mut pcap = Pcap::new();
            for number in 0..(LOOKUPS * size) as u32 {
                pcap.udp((RESOLVER, 53), (CLIENT, port(number)), &message(7, "a", true));
            }
            pcap
        }),
        Hostile::one("answers of many servers without query", |size| {
            let mut pcap = Pcap::new();
            for number in 0..(LOOKUPS * size) as u32 {
                // An answer that comes soon may belong to a query from before the capture.
                pcap.time_ns += if number == 1 { 6_000_000_000 } else { 0 };
                let server = (0x0c00_0000 + number, 53);
                pcap.udp(server, (CLIENT, port(number)), &message(7, "a", true));
            }
            pcap
        }),
        Hostile::one("fragments of answers", |size| {
            let mut pcap = Pcap::new();
            for number in 0..(LOOKUPS * size / 2) as u32 {
                let name = format!("n{}", number % 16);
                let client = (CLIENT, port(number % 16));
                pcap.udp(client, (RESOLVER, 53), &message(7, &name, false));
                let part = ip_fragment(17, RESOLVER, CLIENT, (number as u16, 0x2010), &[0; 64]);
                pcap.frame(&part);
            }
            pcap
        }),
        Hostile::one("unreachable resolvers", |size| {
            let mut pcap = Pcap::new();
            for number in 0..(LOOKUPS * size) as u32 {
                let query = message(number as u16, "a", false);
                let datagram = crate::wire::udp(port(number), 53, &query);
                pcap.ip(17, CLIENT, RESOLVER, &datagram);
                let packet = ip(17, CLIENT, RESOLVER, &datagram);
                pcap.ip(1, RESOLVER, CLIENT, &[&[3, 3, 0, 0, 0, 0, 0, 0][..], &packet].concat());
            }
            pcap
        }),
        Hostile::one("many answers in a message", |size| {
            let mut pcap = Pcap::new();
            for number in 0..(32 * size) as u32 {
                let client = (CLIENT, port(number));
                let id = number as u16;
                pcap.udp(client, (RESOLVER, 53), &message(id, "a", false));
                let mut answer = message(id, "a", true);
                answer[6..8].copy_from_slice(&4000_u16.to_be_bytes());
                for _ in 0..4000 {
                    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 0]);
                }
                pcap.udp((RESOLVER, 53), client, &answer);
            }
            pcap
        }),
    ]
}
