//! The snoop file format (RFC 1761).

use crate::files::*;
use flate2::write::GzEncoder;
use std::io::Write;
use tcpwhy_core::capture::{LinkType, Problem};

fn header(version: u32, datalink: u32) -> Vec<u8> {
    [b"snoop\0\0\0".as_slice(), &version.to_be_bytes(), &datalink.to_be_bytes()].concat()
}

/// A record, padded to four bytes, of a host that had lost `drops` frames.
fn record(frame: &Owned, drops: u32) -> Vec<u8> {
    let pad = frame.bytes.len().next_multiple_of(4) - frame.bytes.len();
    let fields = [
        frame.original_len,
        frame.bytes.len() as u32,
        (24 + frame.bytes.len() + pad) as u32,
        drops,
        (frame.time_ns / 1_000_000_000) as u32,
        (frame.time_ns % 1_000_000_000 / 1_000) as u32,
    ];
    let fields: Vec<u8> = fields.into_iter().flat_map(u32::to_be_bytes).collect();
    [&fields[..], &frame.bytes, &vec![0xee; pad]].concat()
}

fn snoop(frames: &[Owned]) -> Vec<u8> {
    let records: Vec<u8> = frames.iter().flat_map(|frame| record(frame, 0)).collect();
    [header(2, 4), records].concat()
}

/// Frames of many lengths, some of them cut.
fn various() -> Vec<Owned> {
    let odd = |(index, frame): (usize, Owned)| {
        let bytes = vec![index as u8; 1 + index % 70];
        let original_len = (bytes.len() + 40 * (index % 3)) as u32;
        Owned { original_len, bytes, ..frame }
    };
    frames(500).into_iter().enumerate().map(odd).collect()
}

#[test]
fn a_snoop_file_reads_as_the_same_frames_in_pcap_do() {
    let expected = various();
    let of_snoop = read(&snoop(&expected));
    assert!(of_snoop.frames == expected);
    assert_eq!(of_snoop.problem_kinds(0), ["coarse_clock"], "times of whole milliseconds");
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let gzip = encoder.write_all(&snoop(&expected)).and_then(|()| encoder.finish()).expect("gzip");
    let zstd = zstd::encode_all(&snoop(&expected)[..], 1).expect("zstd");
    assert!(read(&gzip).frames == expected && read(&zstd).frames == expected);
}

#[test]
fn a_cut_snoop_file_gives_what_came_before() {
    let (expected, file) = (frames(5), snoop(&frames(5)));
    for cut in 1..record(&expected[4], 0).len() {
        let read = read(&file[..file.len() - cut]);
        assert!(read.frames == expected[..4]);
        assert_eq!(read.problem_kinds(0), ["cut"]);
    }
}

#[test]
fn a_record_that_contradicts_itself_ends_the_file() {
    let good = frames(3);
    for (field, value) in [(4, u32::MAX), (4, 1 << 21), (8, 24), (8, 0), (8, u32::MAX)] {
        let mut bad = record(&good[0], 0);
        bad[field..field + 4].copy_from_slice(&value.to_be_bytes());
        let read = read(&[snoop(&good), bad, record(&good[1], 0)].concat());
        assert!(read.frames == good);
        assert_eq!(read.problem_kinds(0), ["damaged"], "{value} at {field}");
    }
}

#[test]
fn what_the_host_dropped_is_counted_once() {
    let all = frames(4);
    let records = all.iter().zip([0, 3, 3, 7]).flat_map(|(frame, drops)| record(frame, drops));
    let read = read(&[header(2, 4), records.collect()].concat());
    assert_eq!(read.inputs[0].problems, [Problem::CaptureDrops { frames: 7 }]);
}

#[test]
fn link_types_are_those_of_pcap_where_these_have_one() {
    for (datalink, expected) in [
        (0, LinkType::ETHERNET),
        (4, LinkType::ETHERNET),
        (8, LinkType::FDDI),
        (2, LinkType::UNKNOWN),
        (u32::MAX, LinkType::UNKNOWN),
    ] {
        let read = read(&[header(2, datalink), record(&frames(1)[0], 0)].concat());
        assert_eq!(read.frames[0].link, expected, "{datalink}");
    }
}

#[test]
fn another_version_is_said_so() {
    let refusal = refusal(&header(4, 4));
    assert!(refusal.contains("snoop version 4"), "{refusal}");
    let half = header(2, 4);
    assert!(self::refusal(&half[..12]).contains("ends within the record at byte 0"));
}

#[test]
fn captures_put_one_after_the_other_are_all_read() {
    let read = read(&[snoop(&frames(5)[2..]), snoop(&frames(2))].concat());
    assert_eq!(read.frames.len(), 5);
    assert_eq!(read.problem_kinds(0), ["clock_step", "concatenated"]);
}
