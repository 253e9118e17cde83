use crate::files::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use tcpwhy_core::capture::{Block, CaptureSet, Problem, Source};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("in memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("in memory")
}

/// Frames that do not compress to nothing.
fn noisy_frames(count: u64) -> Vec<Owned> {
    let noise = |seed: u64| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    (0..count)
        .map(|index| {
            frame(index * 1_000, &(0..40).flat_map(|n| noise(index ^ n << 20)).collect::<Vec<_>>())
        })
        .collect()
}

#[test]
fn gzip_and_zstd_read_as_plain_whatever_the_name() {
    let expected = noisy_frames(5_000);
    for plain in [nano_pcap(&expected), pcapng_file(Order::Little, &expected)] {
        for stored in [gzip(&plain), zstd(&plain)] {
            let read = read(&stored);
            assert!(read.frames == expected);
            assert_eq!(read.inputs[0].bytes, stored.len() as u64);
            assert_eq!(read.inputs[0].problems, []);
        }
    }
}

#[test]
fn several_members_or_frames_are_one_file() {
    let expected = noisy_frames(100);
    let plain = nano_pcap(&expected);
    let (start, end) = plain.split_at(plain.len() / 2);
    for stored in [[gzip(start), gzip(end)].concat(), [zstd(start), zstd(end)].concat()] {
        assert!(read(&stored).frames == expected);
    }
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4][..], &zstd(&plain)].concat();
    assert!(read(&skippable).frames == expected);
}

#[test]
fn a_cut_compressed_file_gives_what_came_before() {
    let expected = noisy_frames(5_000);
    for stored in [gzip(&nano_pcap(&expected)), zstd(&nano_pcap(&expected))] {
        let read = read(&stored[..stored.len() / 2]);
        assert!(read.frames.len() > 500 && read.frames.len() < 4_500);
        assert!(read.frames == expected[..read.frames.len()]);
        assert_eq!(read.problem_kinds(0), ["cut"]);
    }
}

#[test]
fn damaged_compression_gives_what_came_before() {
    let expected = noisy_frames(5_000);
    let stored = gzip(&nano_pcap(&expected));
    let mut middle = stored.clone();
    middle[stored.len() / 2..][..64].fill(0xff);
    let read_middle = read(&middle);
    assert!(read_middle.frames.len() > 500 && read_middle.frames.len() < 4_500);
    // Either the decompressor reports the damage, or the decompressed bytes are no capture.
    assert!(matches!(read_middle.problem_kinds(0)[..], ["read" | "damaged", ..]));

    let mut checksum = stored;
    let end = checksum.len();
    checksum[end - 8] ^= 1;
    let read_all = read(&checksum);
    assert!(read_all.frames == expected);
    assert!(matches!(read_all.inputs[0].problems[..], [Problem::Read { .. }]));
}

#[test]
fn progress_counts_stored_bytes() {
    let stored = gzip(&nano_pcap(&noisy_frames(5_000)));
    let sources = vec![Source::memory("t", stored.clone())];
    let mut set = CaptureSet::new(sources).expect("readable");
    let total_bytes = Some(stored.len() as u64);
    assert_eq!(set.progress().total_bytes, total_bytes);
    let mut block = Block::default();
    let mut consumed_bytes = 0;
    while set.next_block(&mut block).expect("readable") {
        assert!(set.progress().consumed_bytes >= consumed_bytes);
        consumed_bytes = set.progress().consumed_bytes;
    }
    assert_eq!(Some(set.progress().consumed_bytes), total_bytes);
}

/// An empty zstd frame that asks for a window of `1 << log` bytes (RFC 8878 §3.1.1.1.2), then a pcap file.
fn zstd_with_window(log: u8) -> Vec<u8> {
    let header = [0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3];
    let last_raw_block_of_nothing = [1, 0, 0];
    [&header[..], &last_raw_block_of_nothing, &zstd(&nano_pcap(&noisy_frames(10)))].concat()
}

#[test]
fn a_zstd_window_too_large_to_keep_is_refused_and_one_of_8_mib_is_read() {
    assert_eq!(read(&zstd_with_window(23)).frames.len(), 10);
    for log in [24, 27, 31] {
        let refusal = refusal(&zstd_with_window(log));
        assert!(refusal.contains("zstd window of more than 8 MiB"), "{log}: {refusal}");
    }
}
