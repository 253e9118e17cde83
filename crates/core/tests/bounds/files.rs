//! Files: block types of pcapng, records of pcap and snoop, compression, and many files.

use crate::Hostile;
use crate::wire::{Pcap, SYN, Talk, Tcp};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{Cursor, Read, Write};
use tcpwhy_core::capture::Source;

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = (12 + padded) as u32;
    let mut bytes = [kind.to_le_bytes(), length.to_le_bytes()].concat();
    bytes.extend_from_slice(body);
    bytes.resize(8 + padded, 0);
    bytes.extend(length.to_le_bytes());
    bytes
}

fn section() -> Vec<u8> {
    block(
        0x0a0d_0d0a,
        &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255],
    )
}

fn interface() -> Vec<u8> {
    block(1, &[101, 0, 0, 0, 0, 0, 4, 0])
}

fn packet() -> Vec<u8> {
    let mut pcap = Pcap::new();
    pcap.tcp(&Tcp {
        from: (1, 2),
        to: (3, 4),
        seq: 0,
        ack: 0,
        flags: SYN,
        options: b"",
        payload: b"",
    });
    let frame = &pcap.bytes[40..];
    let head: Vec<u8> = [0_u32, 0x0005_0000, 0, frame.len() as u32, frame.len() as u32]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    block(6, &[&head[..], frame].concat())
}

/// Bytes that are repeated without being stored.
struct Repeated {
    unit: Vec<u8>,
    left: usize,
    at: usize,
}

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() && self.left > 0 {
            let part = (&self.unit[self.at..]).read(&mut buffer[filled..])?;
            filled += part;
            self.at += part;
            if self.at == self.unit.len() {
                (self.at, self.left) = (0, self.left - 1);
            }
        }
        Ok(filled)
    }
}

/// A file with `head`, and `unit` again and again.
fn repeated(head: Vec<u8>, unit: Vec<u8>, bytes: usize) -> Vec<Source> {
    let left = bytes / unit.len();
    vec![Source::file("repeated", None, move || {
        let rest = Repeated { unit: unit.clone(), left, at: 0 };
        Ok(Cursor::new(head.clone()).chain(rest))
    })]
}

/// Kinds of blocks: all that are assigned, and one that is not.
const BLOCKS: [u32; 17] =
    [0x0a0d_0d0a, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0xbad, 0x4000_0bad, 0x204, 0x216, 0x221, 0x7777];

pub fn all() -> Vec<Hostile> {
    let mut all = Vec::new();
    for kind in BLOCKS {
        for (what, body) in [("empty", 0), ("small", 16), ("large", 60_000), ("huge", 3_000_000)] {
            let name = format!("{what} blocks of type {kind:#x}");
            all.push(
                Hostile::new(name, move |size| {
                    let head = [section(), interface(), packet()].concat();
                    repeated(head, block(kind, &vec![0; body]), size << 19)
                })
                .within(7 << 20),
            );
        }
    }
    all.push(Hostile::new("sections", |size| {
        repeated(section(), [interface(), packet(), section()].concat(), size << 19)
    }));
    all.push(Hostile::new("interfaces", |size| {
        repeated(section(), [interface(), packet()].concat(), size << 19)
    }));
    let compressed = Hostile::new("compressed blocks", |size| {
        let head = [section(), interface(), packet()].concat();
        let blocks = block(4, &[0; 1_000]).repeat(size << 7);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
        gzip.write_all(&[head, blocks].concat()).expect("in memory");
        vec![Source::memory("gzip", gzip.finish().expect("in memory"))]
    })
    .within(1 << 20);
    // The decompressor of a test is not optimised.
    all.push(Hostile { cost: crate::STREAM_COST_MAX, ..compressed });
    all.push(
        Hostile::new("headers in pcap", |size| {
            let pcap = Pcap::new().bytes;
            repeated(pcap.clone(), pcap, size << 18)
        })
        .within(3 << 20),
    );
    all.push(Hostile::new("empty records in snoop", |size| {
        let head = [&b"snoop\0\0\0"[..], &[0, 0, 0, 2, 0, 0, 0, 4]].concat();
        let record = [0, 0, 24, 0, 1_700_000_000, 0].map(u32::to_be_bytes).concat();
        repeated(head, record, size << 18)
    }));
    all.push(Hostile::new("empty records in pcap", |size| {
        let head = Pcap::new().bytes;
        repeated(
            head,
            [1_700_000_000_u32.to_le_bytes(), [0; 4], [0; 4], [1, 0, 0, 0]].concat(),
            size << 19,
        )
    }));
    all.push(Hostile::new("clock set back and forth", |size| {
        let mut pcap = Pcap::new();
        for n in 0..4_096 * size as u64 {
            pcap.time_ns = 1_700_000_000_000_000_000 + (n * 7_777 % 1_000) * 10_000_000_000;
            pcap.frame(&[0; 40]);
        }
        vec![pcap.source("clock")]
    }));
    all.push(
        Hostile::new("large frames, clock set", |size| {
            let mut pcap = Pcap::new();
            for n in 0..2 * size as u64 {
                pcap.time_ns = 1_700_000_000_000_000_000 + (n * 7_777 % 1_000) * 10_000_000_000;
                pcap.frame(&vec![0; 1 << 20]);
            }
            vec![pcap.source("clock")]
        })
        .within(16 << 20),
    );
    all.push(
        Hostile::new("copies of one file", |size| {
            let mut pcap = Pcap::new();
            for n in 0..50 {
                let mut talk = Talk::open(&mut pcap, (1, 1_000 + n), (2, 80));
                talk.say(&mut pcap, crate::wire::Client, b"GET / HTTP/1.1\r\n\r\n");
            }
            (0..50 * size).map(|n| Source::memory(format!("copy{n}"), pcap.bytes.clone())).collect()
        })
        .within(32 << 20),
    );
    all.push(
        Hostile::new("two places", |size| {
            let of_place = |late_ns: u64| {
                let mut pcap = Pcap::new();
                pcap.time_ns += late_ns;
                for n in 0..1_024 * size as u32 {
                    let client = (0x0b00_0000 + n, 1_000);
                    let next = [n * 1_000, n * 2_000];
                    let mut talk = Talk::open_at(&mut pcap, client, (2, 80), next);
                    talk.say(&mut pcap, crate::wire::Client, b"GET / HTTP/1.1\r\n\r\n");
                }
                pcap.source(if late_ns == 0 { "near" } else { "far" })
            };
            vec![of_place(0), of_place(1_000_000)]
        })
        .open(|size| size * 2_048),
    );
    all.push(
        Hostile::new("files at the same time", |size| {
            let of_file = |file: u32| {
                let mut pcap = Pcap::new();
                for n in 0..50 {
                    let next = [file * 1_000 + u32::from(n), n.into()];
                    let ends = ((1, 1_000 + n), (100 + file, 80));
                    let mut talk = Talk::open_at(&mut pcap, ends.0, ends.1, next);
                    talk.say(&mut pcap, crate::wire::Client, b"GET / HTTP/1.1\r\n\r\n");
                }
                Source::memory(format!("file{file}"), pcap.bytes)
            };
            (0..50 * size as u32).map(of_file).collect()
        })
        .open(|size| size * 2_500),
    );
    all.push(
        Hostile::new("files one after the other", |size| {
            let of_file = |file: u32| {
                let mut pcap = Pcap::new();
                pcap.time_ns += u64::from(file) * 1_000_000_000;
                for n in 0..20 {
                    let next = [file * 1_000 + u32::from(n), n.into()];
                    let ends = ((1, 1_000 + n), (100 + file, 80));
                    let mut talk = Talk::open_at(&mut pcap, ends.0, ends.1, next);
                    talk.say(&mut pcap, crate::wire::Client, b"GET / HTTP/1.1\r\n\r\n");
                }
                Source::memory(format!("file{file}"), pcap.bytes)
            };
            (0..50 * size as u32).map(of_file).collect()
        })
        .open(|size| size * 1_000),
    );
    all
}
