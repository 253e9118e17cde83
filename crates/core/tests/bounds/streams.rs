//! Streams of each protocol: many tiny messages in one segment, single bytes, pipelines without an
//! answer, nested structures, huge lengths, and messages without an end.

mod calls;

use crate::Hostile;
use crate::wire::{By, Client, Pcap, Server, Talk, fill};
use tcpwhy_core::app::Protocol;

/// Messages of one protocol.
struct Dialogue {
    protocol: Protocol,
    name: &'static str,
    port: u16,
    /// Messages before the first request, with their senders.
    begin: Vec<(By, Vec<u8>)>,
    request: Vec<u8>,
    response: Vec<u8>,
    /// Messages that are repeated in one direction without an answer: name, sender, bytes.
    more: Vec<(&'static str, By, Vec<u8>)>,
}

fn dialogues(protocol: Protocol) -> Vec<Dialogue> {
    let plain = |name, port, request: &[u8], response: &[u8]| Dialogue {
        protocol,
        name,
        port,
        begin: Vec::new(),
        request: request.to_vec(),
        response: response.to_vec(),
        more: Vec::new(),
    };
    let client = |name, bytes: &[u8]| (name, Client, bytes.to_vec());
    let server = |name, bytes: &[u8]| (name, Server, bytes.to_vec());
    match protocol {
        Protocol::Turns => vec![
            plain("turns", 7777, b"x", b"y"),
            Dialogue {
                more: vec![
                    client("without reply", b"set a 0 0 0 noreply\r\n\r\n"),
                    client("gets", b"get a\r\n"),
                ],
                ..plain("memcached", 11211, b"get a\r\n", b"END\r\n")
            },
            Dialogue {
                begin: vec![(Server, b"220 mail.example.org ESMTP\r\n".to_vec())],
                more: vec![client("commands", b"NOOP\r\n"), server("replies", b"250 ok\r\n")],
                ..plain("smtp", 25, b"NOOP\r\n", b"250 ok\r\n")
            },
        ],
        Protocol::Http1 => vec![
            Dialogue {
                more: vec![
                    client("header lines", b"a:b\r\n"),
                    client("empty lines", b"\r\n"),
                    client("no line end", b"GET"),
                    client("head requests", b"HEAD / HTTP/1.1\r\n\r\n"),
                    client("connects", b"CONNECT a:1 HTTP/1.1\r\n\r\n"),
                    client("old", b"GET /\r\n"),
                    client(
                        "chunks",
                        b"POST / HTTP/1.1\r\nTransfer-Encoding:chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
                    ),
                    server("continues", b"HTTP/1.1 100 Continue\r\n\r\n"),
                    server("header lines", b"a:b\r\n"),
                    server("chunks", b"1\r\na\r\n"),
                    server(
                        "named responses",
                        b"HTTP/1.1 200 OK\r\nServer: a/1\r\nContent-Length: 0\r\n\r\n",
                    ),
                ],
                ..plain(
                    "http",
                    80,
                    b"GET / HTTP/1.1\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                )
            },
            Dialogue {
                begin: vec![
                    (
                        Client,
                        b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                            .to_vec(),
                    ),
                    (
                        Server,
                        b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                            .to_vec(),
                    ),
                ],
                more: vec![
                    client("pings", b"\x89\x80abcd"),
                    client("empty parts", b"\x00\x80abcd"),
                    server("long lengths", b"\x82\x7f\0\0\0\0\0\0\0\x01a"),
                ],
                ..plain("websocket", 80, b"\x81\x81abcde", b"\x81\x01a")
            },
        ],
        Protocol::Tls => vec![Dialogue {
            begin: vec![(Client, hello())],
            more: vec![
                client("handshake in single bytes", &[22, 3, 1, 0, 1, 1]),
                client("empty records", &[23, 3, 3, 0, 0]),
                client("alerts", &[21, 3, 3, 0, 2, 1, 0]),
                server("handshake in single bytes", &[22, 3, 3, 0, 1, 11]),
                server("handshake messages", &[22, 3, 3, 0, 4, 4, 0, 0, 0]),
                server("change of cipher", &[20, 3, 3, 0, 1, 1]),
                client("hellos", &hello()),
            ],
            ..plain("tls", 443, &[23, 3, 3, 0, 1, 7], &[23, 3, 3, 0, 1, 7])
        }],
        Protocol::Redis => vec![Dialogue {
            more: vec![
                client("commands that may wait", b"XREAD\r\n$-1\r\n"),
                client("commands that wait", b"*3\r\n$5\r\nBLPOP\r\n$1\r\na\r\n$1\r\n0\r\n"),
                client("one command without end", b"*99999999\r\n$5\r\nXREAD\r\n"),
                client("nested arrays", b"*1\r\n"),
                client("values of no command", b"$-1\r\n"),
                client("words of any length", b"*2\r\n$5\r\nXREAD\r\n$1\r\n\n\r\n"),
                client("empty arrays", b"*0\r\n"),
                client("inline", b"A\n"),
                server("pushes", b">1\r\n+a\r\n"),
                server("attributes", b"|1\r\n+a\r\n+b\r\n"),
                server("nested arrays", b"*1\r\n"),
                server("values", b"$0\r\n\r\n"),
            ],
            ..plain("redis", 6379, b"*1\r\n$4\r\nPING\r\n", b"+OK\r\n")
        }],
        Protocol::Postgres => vec![Dialogue {
            begin: vec![
                (Client, b"\0\0\0\x0f\0\x03\0\0user\0a\0".to_vec()),
                (Server, b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I".to_vec()),
            ],
            more: vec![
                client("syncs", b"S\0\0\0\x04"),
                client("parse and bind", b"P\0\0\0\x08\0;\0\0\0B\0\0\0\x0c\0\0\0\0\0\0\0\0"),
                client("copied rows", b"d\0\0\0\x04"),
                server("rows", b"D\0\0\0\x06\0\0"),
                server("notices", b"N\0\0\0\x05\0"),
                server("ready", b"Z\0\0\0\x05I"),
            ],
            ..plain("postgres", 5432, b"Q\0\0\0\x06;\0", b"C\0\0\0\x06;\0Z\0\0\0\x05I")
        }],
        Protocol::Mysql => vec![Dialogue {
            begin: vec![
                (Server, b"\x0a\0\0\0\x0a8.0.1\0abc".to_vec()),
                (Client, b"\x04\0\0\x01\0\0\0\0".to_vec()),
                (Server, b"\x07\0\0\x02\0\0\0\x02\0\0\0".to_vec()),
            ],
            more: vec![
                client("queries", b"\x02\0\0\0\x03;"),
                client("empty packets", b"\0\0\0\0"),
                client("prepares", b"\x02\0\0\0\x16;"),
                server("columns", b"\x01\0\0\x01\x09"),
                server("rows", b"\x01\0\0\x02a"),
                server("ends", b"\x05\0\0\x03\xfe\0\0\x02\0"),
            ],
            ..plain("mysql", 3306, b"\x01\0\0\0\x0e", b"\x07\0\0\x01\0\0\0\x02\0\0\0")
        }],
        Protocol::Dns => vec![Dialogue {
            more: vec![client("lengths of zero", b"\0\0"), server("lengths of zero", b"\0\0")],
            ..plain(
                "dns over tcp",
                53,
                b"\0\x11\0\x07\x01\0\0\x01\0\0\0\0\0\0\0\0\x01\0\x01",
                b"\0\x11\0\x07\x81\x80\0\x01\0\0\0\0\0\0\0\0\x01\0\x01",
            )
        }],
        Protocol::Http2 => vec![Dialogue {
            begin: vec![
                (Client, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec()),
                (Server, b"\0\0\0\x04\0\0\0\0\0".to_vec()),
            ],
            more: vec![
                client("empty data", b"\0\0\0\0\0\0\0\0\x01"),
                client("resets", b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\0"),
                client("continuations", b"\0\0\x01\x09\0\0\0\0\x01\x82"),
                client("settings", b"\0\0\0\x04\0\0\0\0\0"),
                client("grants", b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01"),
                client("paths", b"\0\0\x05\x01\x05\0\0\0\x01\x44\x03/ab"),
                server("pings", b"\0\0\x08\x06\0\0\0\0\0abcdefgh"),
                server("fields", &[&b"\0\x0f\xa0\x01\x04\0\0\0\x01"[..], &[0x88; 4000]].concat()),
                server("empty data", b"\0\0\0\0\0\0\0\0\x01"),
                server("promises", b"\0\0\x05\x05\x04\0\0\0\x01\0\0\0\x02\x82"),
            ],
            ..plain(
                "http2",
                80,
                b"\0\0\x01\x01\x05\0\0\0\x01\x82",
                b"\0\0\x01\x01\x05\0\0\0\x01\x88",
            )
        }],
        Protocol::Mqtt => vec![Dialogue {
            begin: vec![
                (Client, b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a".to_vec()),
                (Server, b"\x20\x02\0\0".to_vec()),
            ],
            more: vec![
                client("publications", b"\x30\x04\0\x01a1"),
                client("lengths", b"\x30\x80\x80\x80\0"),
                server("publications", b"\x30\x04\0\x01a1"),
                server("to be acknowledged", b"\x32\x06\0\x01a\0\x011"),
            ],
            ..plain("mqtt", 1883, b"\x32\x06\0\x01a\0\x011", b"\x40\x02\0\x01")
        }],
        Protocol::Amqp => vec![Dialogue {
            begin: vec![
                (Client, b"AMQP\0\0\x09\x01".to_vec()),
                (Server, b"\x01\0\0\0\0\0\x04\0\x0a\0\x0a\xce".to_vec()),
            ],
            more: vec![
                client("heartbeats", b"\x08\0\0\0\0\0\0\xce"),
                client("publications", b"\x01\0\x01\0\0\0\x04\0\x3c\0\x28\xce"),
                client("bodies", b"\x03\0\x01\0\0\0\x01x\xce"),
                server("heartbeats", b"\x08\0\0\0\0\0\0\xce"),
                server("messages", b"\x01\0\x01\0\0\0\x04\0\x3c\0\x47\xce"),
            ],
            ..plain(
                "amqp",
                5672,
                b"\x01\0\x01\0\0\0\x04\0\x14\0\x0a\xce",
                b"\x01\0\x01\0\0\0\x04\0\x14\0\x0b\xce",
            )
        }],
        other => calls::dialogues(other),
    }
}

/// A ClientHello of TLS 1.2 without extensions.
fn hello() -> Vec<u8> {
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    let head = [22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
    [&head[..], &body].concat()
}

/// Bytes of a stream of size 1.
const STREAM_BYTES: usize = 24 << 10;

/// Bytes of a segment: as large as can be where the input is large, so that work on each message
/// that grows with the rest of its segment shows.
fn segment_bytes(size: usize) -> usize {
    size * 3_750
}

fn begin(dialogue: &Dialogue) -> (Pcap, Talk) {
    let mut pcap = Pcap::new();
    let mut talk = Talk::open(&mut pcap, (0x0a00_0001, 40_000), (0x0a00_0002, dialogue.port));
    for (by, bytes) in &dialogue.begin {
        talk.say(&mut pcap, *by, bytes);
    }
    (pcap, talk)
}

/// Says `unit` again and again.
fn say_much(pcap: &mut Pcap, talk: &mut Talk, by: By, unit: &[u8], size: usize) {
    talk.say_in(pcap, by, &fill(unit, STREAM_BYTES * size), segment_bytes(size));
}

type Shape = fn(&Dialogue, &mut Pcap, &mut Talk, usize);

const SHAPES: [(&str, Shape); 7] = [
    ("requests, none answered", |it, pcap, talk, size| {
        say_much(pcap, talk, Client, &it.request, size);
    }),
    ("requests, then responses", |it, pcap, talk, size| {
        let count = STREAM_BYTES * size / (it.request.len() + it.response.len());
        let (requests, responses) = (it.request.repeat(count), it.response.repeat(count));
        talk.say_in(pcap, Client, &requests, segment_bytes(size));
        talk.say_in(pcap, Server, &responses, segment_bytes(size));
    }),
    ("responses without request", |it, pcap, talk, size| {
        say_much(pcap, talk, Server, &it.response, size);
    }),
    ("one request, many responses", |it, pcap, talk, size| {
        talk.say(pcap, Client, &it.request);
        say_much(pcap, talk, Server, &it.response, size);
    }),
    ("single bytes", |it, pcap, talk, size| {
        let count = 256 * size / (it.request.len() + it.response.len()) + 1;
        for _ in 0..count {
            talk.say_in(pcap, Client, &it.request, 1);
            talk.say_in(pcap, Server, &it.response, 1);
        }
    }),
    ("one after the other", |it, pcap, talk, size| {
        for _ in 0..256 * size {
            talk.say(pcap, Client, &it.request);
            talk.say(pcap, Server, &it.response);
        }
    }),
    ("zeros", |_, pcap, talk, size| {
        say_much(pcap, talk, Client, &[0], size);
        say_much(pcap, talk, Server, &[0], size);
    }),
];

/// Headers of ordinary length, in segments as large as can be.
pub fn ordinary() -> Hostile {
    Hostile::one("ordinary", |size| {
        let dialogue = &dialogues(Protocol::Http1)[0];
        let (mut pcap, mut talk) = begin(dialogue);
        let header = b"Accept-Language: en-GB,en;q=0.5\r\n".repeat(12);
        let request = [&b"GET /index.html HTTP/1.1\r\n"[..], &header, b"\r\n"].concat();
        say_much(&mut pcap, &mut talk, Client, &request, size);
        pcap
    })
}

pub fn all() -> Vec<Hostile> {
    let mut all = Vec::new();
    for &protocol in Protocol::ALL {
        for number in 0..dialogues(protocol).len() {
            let dialogue = &dialogues(protocol)[number];
            assert_eq!(dialogue.protocol, protocol);
            for (shape, make) in SHAPES {
                all.push(Hostile::one(format!("{}: {shape}", dialogue.name), move |size| {
                    let dialogue = &dialogues(protocol)[number];
                    let (mut pcap, mut talk) = begin(dialogue);
                    make(dialogue, &mut pcap, &mut talk, size);
                    pcap
                }));
            }
            for (at, (what, by, _)) in dialogue.more.iter().enumerate() {
                let who = if *by == Client { "client" } else { "server" };
                all.push(Hostile::one(format!("{}: {what} ({who})", dialogue.name), move |size| {
                    let dialogue = &dialogues(protocol)[number];
                    let (mut pcap, mut talk) = begin(dialogue);
                    let (_, by, unit) = &dialogue.more[at];
                    if *by == Server {
                        talk.say(&mut pcap, Client, &dialogue.request);
                    }
                    say_much(&mut pcap, &mut talk, *by, unit, size);
                    pcap
                }));
            }
        }
    }
    all.into_iter().map(|it| Hostile { cost: crate::STREAM_COST_MAX, ..it }).collect()
}
