//! Tables: connections, attempts, endpoints, kinds, legs, fragments, early data …

mod others;

use crate::Hostile;
use crate::wire::{ACK, Client, End, FIN, PSH, Pcap, RST, SYN, Server, Talk, Tcp, ip_fragment};

const CLIENT: u32 = 0x0a00_0001;
pub const SERVER: u32 = 0x0a00_0002;

/// Connections of size 1.
pub const MANY: usize = 2_048;

/// Whole connections of size 1.
const WHOLE: usize = 512;

/// Memory that attempts may take, and that connections may take which are over, bytes.
const ATTEMPTS_BYTES: u64 = 36 << 20;
const OVER_BYTES: u64 = 40 << 20;

pub fn host(number: u32) -> u32 {
    0x0b00_0000 + number
}

pub fn port(number: u32) -> u16 {
    1_024 + (number % 60_000) as u16
}

/// Single segments of ever new hosts.
fn flood(name: &str, of: fn(u32) -> Tcp<'static>) -> Hostile {
    Hostile::one(name, move |size| {
        let mut pcap = Pcap::new();
        for number in 0..(MANY * size) as u32 {
            pcap.tcp(&of(number));
        }
        pcap
    })
    .within(ATTEMPTS_BYTES)
}

const SEGMENT: Tcp<'static> = Tcp {
    from: (CLIENT, 40_000),
    to: (SERVER, 80),
    seq: 7,
    ack: 9,
    flags: ACK,
    options: b"",
    payload: b"",
};

/// Whole connections, one after the other, with what they carry.
pub fn courses(
    name: &str,
    many: usize,
    ends: fn(u32) -> (End, End),
    course: fn(u32, &mut Talk, &mut Pcap),
) -> Hostile {
    Hostile::one(name, move |size| {
        let mut pcap = Pcap::new();
        for number in 0..(many * size) as u32 {
            let (client, server) = ends(number);
            let mut talk = Talk::open(&mut pcap, client, server);
            course(number, &mut talk, &mut pcap);
        }
        pcap
    })
    .within(OVER_BYTES)
}

pub fn close(talk: &mut Talk, pcap: &mut Pcap) {
    talk.send(pcap, Client, FIN | ACK, b"", b"");
    talk.send(pcap, Server, FIN | ACK, b"", b"");
    talk.ack(pcap, Client);
}

pub fn ask(number: u32, talk: &mut Talk, pcap: &mut Pcap) {
    let word: String =
        (0..5).map(|place| char::from(b'a' + (number / 26_u32.pow(place) % 26) as u8)).collect();
    let request = format!("GET /{word} HTTP/1.1\r\nUser-Agent: {word}/1\r\n\r\n");
    talk.say(pcap, Client, request.as_bytes());
    let response = format!("HTTP/1.1 200 OK\r\nServer: {word}/2\r\nContent-Length: 1\r\n\r\na");
    talk.say(pcap, Server, response.as_bytes());
}

/// One connection of which this is captured.
fn one(name: &str, course: fn(usize, &mut Talk, &mut Pcap)) -> Hostile {
    Hostile::one(name, move |size| {
        let mut pcap = Pcap::new();
        let mut talk = Talk::open(&mut pcap, (CLIENT, 40_000), (SERVER, 80));
        talk.say(&mut pcap, Client, b"GET / HTTP/1.1\r\n\r\n");
        course(size, &mut talk, &mut pcap);
        pcap
    })
}

/// Option SACK with these edges, after two bytes of padding.
fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut option = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    for (from, to) in blocks {
        option.extend(from.to_be_bytes());
        option.extend(to.to_be_bytes());
    }
    option
}

/// Attempts and connections.
pub fn connections() -> Vec<Hostile> {
    let mut all = attempts();
    all.extend(whole());
    all
}

/// Segments of one connection, and packets that are no segments.
pub fn packets() -> Vec<Hostile> {
    let mut all = single();
    all.extend(others::others());
    all
}

/// All of what fills tables, one after the other in a few milliseconds of capture time.
pub fn everything() -> Hostile {
    Hostile::one("everything", |size| {
        let mut pcap = Pcap::new();
        pcap.step_ns = 100;
        for n in 0..(1_024 * size) as u32 {
            pcap.tcp(&Tcp { from: (host(n), port(n)), flags: SYN, ..SEGMENT });
            let to = (host(n + 0x10_0000), port(n));
            pcap.tcp(&Tcp { from: (SERVER, 80), to, flags: SYN | ACK, ..SEGMENT });
            let from = (host(n + 0x20_0000), port(n));
            let syn = Tcp { from, to: (host(n), 80), flags: SYN, ..SEGMENT };
            pcap.tcp(&syn);
            let (from, to) = (syn.to, syn.from);
            pcap.tcp(&Tcp { from, to, ack: 8, flags: RST | ACK, ..SEGMENT });
            let client = (host(n + 0x30_0000), port(n));
            let mut talk = Talk::open(&mut pcap, client, (host(n + 0x40_0000), 80));
            ask(n, &mut talk, &mut pcap);
            talk.send_at(&mut pcap, Server, 500, PSH | ACK, b"", &[b'x'; 1_400]);
            match n % 2 {
                0 => talk.send(&mut pcap, Server, RST | ACK, b"", b""),
                _ => close(&mut talk, &mut pcap),
            }
            let client = (host(n + 0x50_0000), port(n));
            let mut talk = Talk::open(&mut pcap, client, (host(n + 0x60_0000), 80));
            crate::failures::left(n, &mut talk, &mut pcap);
            pcap.frame(&ip_fragment(6, host(n), SERVER, (n as u16, 0x2000), &[7; 1_400]));
            crate::names::look_up(&mut pcap, n);
        }
        pcap
    })
}

/// Ordinary requests, of which each frame is parsed.
pub fn ordinary() -> Hostile {
    courses(
        "ordinary",
        64,
        |n| ((host(n), port(n)), (SERVER, 80)),
        |_, talk, pcap| {
            for n in 0..16 {
                ask(n, talk, pcap);
            }
            close(talk, pcap);
        },
    )
}

/// Attempts, answered or not.
fn attempts() -> Vec<Hostile> {
    let backscatter = |number| Tcp {
        from: (SERVER, 80),
        to: (host(number), port(number)),
        flags: SYN | ACK,
        ..SEGMENT
    };
    vec![
        flood("SYNs", |n| Tcp { from: (host(n), port(n)), flags: SYN, ..SEGMENT }),
        flood("SYNs", |n| Tcp { from: (host(n), port(n)), flags: SYN, ..SEGMENT }).watched(),
        flood("SYNs to many servers", |n| Tcp { to: (host(n), port(n)), flags: SYN, ..SEGMENT }),
        flood("SYN-ACKs", backscatter),
        flood("SYN-ACKs", backscatter).watched(),
        flood("SYN-ACKs of many servers", |n| Tcp {
            from: (host(n), 80),
            flags: SYN | ACK,
            ..SEGMENT
        }),
        flood("RSTs", |n| Tcp { from: (host(n), port(n)), flags: RST, ..SEGMENT }),
        flood("FINs", |n| Tcp { from: (host(n), port(n)), flags: FIN | ACK, ..SEGMENT }),
        flood("ACKs", |n| Tcp { from: (host(n), port(n)), ..SEGMENT }),
        flood("ACKs", |n| Tcp { from: (host(n), port(n)), ..SEGMENT }).watched(),
        flood("single requests", |n| Tcp {
            from: (host(n), port(n)),
            flags: PSH | ACK,
            payload: b"GET / HTTP/1.1\r\n\r\n",
            ..SEGMENT
        }),
        flood("single bytes", |n| Tcp {
            from: (host(n), port(n)),
            flags: PSH | ACK,
            payload: b"x",
            ..SEGMENT
        }),
        flood("one SYN again and again", |_| Tcp { flags: SYN, ..SEGMENT }),
        flood("SYNs with the same ports", |n| Tcp {
            seq: n.wrapping_mul(99_991),
            flags: SYN,
            ..SEGMENT
        }),
        Hostile::one("refused", |size| {
            let mut pcap = Pcap::new();
            for n in 0..(MANY * size) as u32 {
                let syn = Tcp { from: (host(n), port(n)), flags: SYN, ..SEGMENT };
                pcap.tcp(&syn);
                let (from, to) = (syn.to, syn.from);
                pcap.tcp(&Tcp { from, to, ack: 8, flags: RST | ACK, ..SEGMENT });
            }
            pcap
        })
        .within(OVER_BYTES),
        Hostile::one("refused by many servers", |size| {
            let mut pcap = Pcap::new();
            for n in 0..(MANY * size) as u32 {
                let syn = Tcp { to: (host(n), port(n)), flags: SYN, ..SEGMENT };
                pcap.tcp(&syn);
                let (from, to) = (syn.to, syn.from);
                pcap.tcp(&Tcp { from, to, ack: 8, flags: RST | ACK, ..SEGMENT });
            }
            pcap
        })
        .within(OVER_BYTES),
    ]
}

/// Connections that were set up.
fn whole() -> Vec<Hostile> {
    let clients = |n| ((host(n), port(n)), (SERVER, 80));
    let servers = |n| ((CLIENT, port(n)), (host(n), 80));
    let ports = |n| ((CLIENT, port(n / 7)), (SERVER, port(n)));
    let both = |n| ((host(n), port(n)), (host(n + 0x100_0000), 80));
    let all_open = |size: usize| size * 512;
    vec![
        courses("open", 512, clients, |_, _, _| {}).open(all_open),
        courses("open with a request", 512, clients, |n, talk, pcap| {
            ask(n, talk, pcap);
        })
        .open(all_open),
        courses("open behind a hole", 512, clients, |_, talk, pcap| {
            talk.send_at(pcap, Client, 500, PSH | ACK, b"", &[b'x'; 500]);
        })
        .open(all_open),
        courses("open with a pipeline", 64, clients, |_, talk, pcap| {
            talk.say(pcap, Client, &b"GET / HTTP/1.1\r\n\r\n".repeat(1_000));
        })
        .open(|size| size * 64),
        courses(
            "open with records of TLS",
            512,
            |n| ((host(n), port(n)), (SERVER, 443)),
            |_, talk, pcap| {
                talk.say(pcap, Client, &[22, 3, 1, 0, 40, 1, 0, 0, 36]);
            },
        )
        .open(|size| size * 512),
        courses("open with half a header", 256, clients, |_, talk, pcap| {
            talk.say(pcap, Client, b"GET / HTTP/1.1\r\n");
            talk.say(pcap, Client, &[b'x'; 15_000]);
        })
        .open(|size| size * 256)
        // An incomplete header is kept up to 16 KiB.
        .within(crate::MEMORY_MAX + (16 * 256 * (16 << 10))),
        courses("open after losses", 256, clients, |_, talk, pcap| {
            talk.say(pcap, Client, b"GET / HTTP/1.1\r\n\r\n");
            for n in 0..16 {
                talk.send_at(pcap, Server, 30 * n + 10, PSH | ACK, b"", b"x");
                talk.ack(pcap, Client);
                talk.send_at(pcap, Server, 30 * n + 10, PSH | ACK, b"", b"x");
            }
        })
        .open(|size| size * 256),
        courses("closed", WHOLE, clients, |n, talk, pcap| {
            ask(n, talk, pcap);
            close(talk, pcap);
        }),
        courses("closed", WHOLE, clients, |n, talk, pcap| {
            ask(n, talk, pcap);
            close(talk, pcap);
        })
        .watched(),
        courses("closed at many servers", WHOLE, servers, |n, talk, pcap| {
            ask(n, talk, pcap);
            close(talk, pcap);
        }),
        courses("closed at many servers", WHOLE, servers, |n, talk, pcap| {
            ask(n, talk, pcap);
            close(talk, pcap);
        })
        .watched(),
        courses("closed at many ports", WHOLE, ports, |n, talk, pcap| {
            ask(n, talk, pcap);
            close(talk, pcap);
        }),
        courses("closed between many hosts", WHOLE, both, |n, talk, pcap| {
            ask(n, talk, pcap);
            close(talk, pcap);
        }),
        courses("reset between many hosts", WHOLE, both, |n, talk, pcap| {
            ask(n, talk, pcap);
            talk.say(pcap, Client, b"GET /a HTTP/1.1\r\n\r\n");
            talk.send(pcap, Server, RST | ACK, b"", b"");
        }),
        courses("reset between many hosts", WHOLE, both, |n, talk, pcap| {
            ask(n, talk, pcap);
            talk.say(pcap, Client, b"GET /a HTTP/1.1\r\n\r\n");
            talk.send(pcap, Server, RST | ACK, b"", b"");
        })
        .watched(),
        courses("closed with data missing", WHOLE, clients, |n, talk, pcap| {
            ask(n, talk, pcap);
            talk.send_at(pcap, Server, 900, FIN | ACK, b"", b"hello");
            talk.send(pcap, Client, FIN | ACK, b"", b"");
        }),
        courses(
            "of one address and port",
            WHOLE,
            |_| ((CLIENT, 40_000), (SERVER, 80)),
            |n, talk, pcap| {
                talk.next = [n.wrapping_mul(99_991), n.wrapping_mul(77_777)];
                ask(n, talk, pcap);
            },
        ),
        courses(
            "names over TCP",
            WHOLE,
            |n| ((host(n), port(n)), (SERVER, 53)),
            |_, talk, pcap| {
                talk.say(pcap, Client, b"\0\x11\0\x07\x01\0\0\x01\0\0\0\0\0\0\0\0\x01\0\x01");
                talk.say(pcap, Server, b"\0\x11\0\x07\x81\x80\0\x01\0\0\0\0\0\0\0\0\x01\0\x01");
            },
        )
        .open(|size| size * WHOLE),
    ]
}

/// One connection, and what is strange about it.
fn single() -> Vec<Hostile> {
    vec![
        one("bytes behind holes", |size, talk, pcap| {
            for n in 0..2_048 * size as u32 {
                talk.send_at(pcap, Server, 10 + 2 * n, PSH | ACK, b"", b"x");
            }
        }),
        one("bytes behind holes, backward", |size, talk, pcap| {
            for n in (0..2_048 * size as u32).rev() {
                talk.send_at(pcap, Server, 10 + 2 * n, PSH | ACK, b"", b"x");
            }
        }),
        one("bytes behind holes, filled", |size, talk, pcap| {
            for n in 0..1_024 * size as u32 {
                talk.send_at(pcap, Server, 2 * n + 1, PSH | ACK, b"", b"x");
            }
            for n in 0..1_024 * size as u32 {
                talk.send_at(pcap, Server, 2 * n, PSH | ACK, b"", b"x");
            }
        }),
        one("much behind a hole", |size, talk, pcap| {
            for n in 0..16 * size as u32 {
                talk.send_at(pcap, Server, 10 + 60_000 * n, PSH | ACK, b"", &[b'x'; 60_000]);
            }
        }),
        one("much in flight", |size, talk, pcap| {
            for _ in 0..2_048 * size {
                talk.say(pcap, Server, b"HTTP/1.1");
            }
        }),
        one("in flight, acknowledged singly", |size, talk, pcap| {
            let begin = talk.next[1];
            for _ in 0..1_024 * size {
                talk.say(pcap, Server, b"HTTP/1.1");
            }
            let end = talk.next[1];
            for n in 0..1_024 * size as u32 {
                talk.next[1] = begin + 8 * n;
                talk.ack(pcap, Client);
            }
            talk.next[1] = end;
        }),
        one("ACKs again and again", |size, talk, pcap| {
            talk.say(pcap, Server, &[b'x'; 9_000]);
            talk.next[1] -= 9_000;
            for _ in 0..2_048 * size {
                talk.ack(pcap, Client);
            }
        }),
        one("data again and again", |size, talk, pcap| {
            for _ in 0..2_048 * size {
                talk.send_at(pcap, Server, 0, PSH | ACK, b"", &[b'x'; 100]);
            }
        }),
        one("SACKs of everything", |size, talk, pcap| {
            talk.say(pcap, Server, &[b'x'; 60_000]);
            let begin = talk.next[1] - 60_000;
            talk.next[1] = begin;
            for n in 0..1_024 * size as u32 {
                let at = |k: u32| begin + (n * 4_001 + k * 9_000) % 59_000;
                let blocks = [0, 1, 2].map(|k| (at(k), at(k) + 1));
                talk.send(pcap, Client, ACK, &sack(&blocks), b"");
            }
        }),
        one("lost and repeated", |size, talk, pcap| {
            for n in 0..1_024 * size as u32 {
                talk.send_at(pcap, Server, 10 + 20 * n, PSH | ACK, b"", &[b'x'; 10]);
                let begin = talk.next[1];
                let blocks = [(begin + 10 + 20 * n, begin + 20 + 20 * n)];
                talk.send(pcap, Client, ACK, &sack(&blocks), b"");
                talk.send_at(pcap, Server, 20 * n, PSH | ACK, b"", &[b'x'; 10]);
            }
        }),
        one("window closed again and again", |size, talk, pcap| {
            talk.say(pcap, Server, b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n");
            for n in 0..1_024 * size {
                talk.say(pcap, Server, b"x");
                let mut ack = Tcp {
                    from: talk.client,
                    to: talk.server,
                    seq: talk.next[0],
                    ack: talk.next[1],
                    ..SEGMENT
                };
                ack.flags = ACK;
                let mut bytes = ack.bytes();
                bytes[14..16].copy_from_slice(&u16::to_be_bytes((n % 2) as u16));
                pcap.ip(6, talk.client.0, talk.server.0, &bytes);
            }
        }),
        one("keep-alives", |size, talk, pcap| {
            talk.ack(pcap, Server);
            for _ in 0..1_024 * size {
                pcap.time_ns += 1_000_000_000;
                let seq = talk.next[0] - 1;
                let (from, to, ack) = (talk.client, talk.server, talk.next[1]);
                pcap.tcp(&Tcp { from, to, seq, ack, ..SEGMENT });
                talk.ack(pcap, Server);
            }
        }),
        one("pauses", |size, talk, pcap| {
            for _ in 0..1_024 * size {
                pcap.time_ns += 50_000_000;
                talk.say(pcap, Server, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
                pcap.time_ns += 50_000_000;
                talk.say(pcap, Server, b"b");
                talk.say(pcap, Client, b"GET / HTTP/1.1\r\n\r\n");
            }
        }),
        one("urgent flags and options", |size, talk, pcap| {
            for _ in 0..1_024 * size {
                talk.send(pcap, Client, !(SYN | FIN | RST), &[1; 40], b"a");
                talk.send(pcap, Server, !(SYN | FIN | RST), &[1; 40], b"a");
            }
        }),
    ]
}
