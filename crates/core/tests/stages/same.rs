//! The same report and rows, byte by byte.

use crate::staged::{File, assert_equal, cut, in_one, in_stages, pcap, scatter};
use proptest::prelude::*;
use std::path::Path;
use tcpwhy_core::capture::{Block, CaptureSet, Frame, FrameId, LinkType};
use tcpwhy_core::pipeline::SHARDS;
use tcpwhy_core::stages::Controlled;

/// Files into which each capture is cut.
const PARTS: usize = 5;

/// Time that a host takes to forward a packet, ns.
const PASSED_ON_NS: u64 = 20_000;

/// A captured frame with its own bytes.
#[derive(Clone)]
struct Stored {
    time_ns: u64,
    original_len: u32,
    link: LinkType,
    bytes: Vec<u8>,
}

impl Stored {
    fn frame(&self) -> Frame<'_> {
        let Self { time_ns, original_len, link, ref bytes } = *self;
        Frame { id: FrameId::default(), time_ns, original_len, link, bytes }
    }
}

fn views(frames: &[Stored]) -> Vec<Frame<'_>> {
    frames.iter().map(Stored::frame).collect()
}

fn captures() -> Vec<(String, Vec<Stored>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let entries = folder.read_dir().expect("testdata").map(|entry| entry.expect("a file").path());
    let mut paths: Vec<_> = entries.collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = File::new(name.clone(), std::fs::read(path).expect("readable"));
        (name, frames(&file))
    };
    paths.iter().map(read).collect()
}

fn frames(file: &File) -> Vec<Stored> {
    let mut set = CaptureSet::new(vec![file.source()]).expect("a capture");
    let (mut block, mut frames) = (Block::default(), Vec::new());
    while set.next_block(&mut block).expect("a readable capture") {
        frames.extend(block.frames().map(|frame| {
            let Frame { time_ns, original_len, link, bytes, .. } = frame;
            Stored { time_ns, original_len, link, bytes: bytes.to_vec() }
        }));
    }
    frames
}

#[test]
fn captures_cut_in_five_with_any_number_of_buckets() {
    for (seed, (name, frames)) in captures().into_iter().enumerate() {
        let files = cut(&views(&frames), PARTS);
        let one = in_one(&files);
        for buckets in [1, SHARDS, 4 * SHARDS] {
            let staged = in_stages(&files, buckets, seed as u64);
            assert_equal(&format!("{name} with {buckets} buckets"), &one, &staged);
        }
    }
}

/// Deals frames to files in turn, in groups.
fn dealt(frames: &[Stored], files: usize, group: usize) -> Vec<File> {
    let part = |part: usize| {
        let groups = frames.chunks(group).skip(part).step_by(files).flatten();
        let frames: Vec<_> = groups.map(Stored::frame).collect();
        File::new(format!("part{part}.pcap"), pcap(&frames))
    };
    (0..files).map(part).collect()
}

#[test]
fn captures_that_overlap_in_time() {
    for (name, frames) in captures() {
        for group in [1, 7] {
            let files = dealt(&frames, 3, group);
            assert_equal(&name, &in_one(&files), &in_stages(&files, SHARDS, 5));
        }
    }
}

impl Stored {
    /// Offset of the IPv4 header without options, if there is one.
    fn ip_at(&self) -> Option<usize> {
        let is_ip = |at: usize| self.bytes.get(at..at + 2) == Some(&[8, 0]);
        let at = match self.link {
            LinkType::ETHERNET if is_ip(12) => 14,
            LinkType::ETHERNET if self.bytes.get(12) == Some(&0x81) && is_ip(16) => 18,
            LinkType::LINUX_SLL if is_ip(14) => 16,
            LinkType::LINUX_SLL2 if is_ip(0) => 20,
            LinkType::RAW => 0,
            _ => return None,
        };
        (self.bytes.get(at) == Some(&0x45) && self.bytes.len() >= at + 20).then_some(at)
    }

    /// The address of the client, if this is its SYN.
    fn client(&self) -> Option<[u8; 4]> {
        let at = self.ip_at()?;
        let is_syn = self.bytes[at + 9] == 6 && self.bytes.get(at + 33)? & 0x12 == 0x02;
        self.bytes[at + 12..at + 16].try_into().ok().filter(|_| is_syn)
    }
}

/// Returns each frame of a client also behind a host that translates its address.
fn translated(frames: &[Stored]) -> Option<Vec<Stored>> {
    const BEHIND: [u8; 4] = [198, 51, 100, 77];
    let client = frames.iter().find_map(Stored::client)?;
    let mut all = Vec::new();
    for frame in frames {
        let is_client = |at: usize| frame.bytes[at..at + 4] == client;
        let ip_at = frame.ip_at();
        let at = ip_at.and_then(|ip| [ip + 12, ip + 16].into_iter().find(|&at| is_client(at)));
        let Some((at, ip_at)) = at.zip(ip_at) else {
            all.push(frame.clone());
            continue;
        };
        let mut behind = frame.clone();
        behind.bytes[at..at + 4].copy_from_slice(&BEHIND);
        let mut pair = [frame.clone(), behind];
        if at == ip_at + 16 {
            pair.reverse();
        }
        pair[1].time_ns += PASSED_ON_NS;
        all.extend(pair);
    }
    all.sort_by_key(|frame| frame.time_ns);
    Some(all)
}

/// Returns the frames with the packets of IPv4 in fragments.
fn fragmented(frames: &[Stored]) -> Vec<Stored> {
    const PIECE: usize = 64;
    let mut all = Vec::new();
    for (id, frame) in frames.iter().enumerate() {
        let bytes = &frame.bytes;
        let number = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let packet = frame.ip_at().map(|ip| (ip, number(ip + 2)));
        let long = packet.filter(|&(ip, len)| bytes.len() >= ip + len && len > 20 + PIECE);
        let Some((ip, len)) = long else {
            all.push(frame.clone());
            continue;
        };
        let content = &bytes[ip + 20..ip + len];
        for (piece, part) in content.chunks(PIECE).enumerate() {
            let start = piece * PIECE;
            let more = u16::from(start + PIECE < content.len());
            let mut bytes = bytes[..ip + 20].to_vec();
            bytes[ip + 2..ip + 4].copy_from_slice(&((20 + part.len()) as u16).to_be_bytes());
            bytes[ip + 4..ip + 6].copy_from_slice(&(id as u16 + 1).to_be_bytes());
            bytes[ip + 6..ip + 8].copy_from_slice(&((start / 8) as u16 | more << 13).to_be_bytes());
            bytes.extend_from_slice(part);
            all.push(Stored { original_len: bytes.len() as u32, bytes, ..*frame });
        }
    }
    all
}

/// Checks that stages give the same, and what they give without the answer of the control. Returns
/// whether that differs.
fn depends_on_control(name: &str, frames: &[Stored]) -> bool {
    let files = cut(&views(frames), PARTS);
    let one = in_one(&files);
    let scattered = scatter(&files, SHARDS, 3);
    let Controlled { told, lookups } = scattered.control();
    let nothing = scattered.run.control([]).expect("no chunks").told;
    let with = scattered.finish(&Controlled { told: told.clone(), lookups: lookups.clone() });
    assert_equal(name, &one, &with);
    let without = scattered.finish(&Controlled { told: nothing.clone(), lookups });
    assert!(told == nothing || without != one, "{name}: what is told has no effect");
    without != one
}

#[test]
fn copies_with_translated_addresses_are_excluded_by_the_control() {
    let captures = captures();
    let variants = captures.iter().filter_map(|(name, frames)| Some((name, translated(frames)?)));
    let count = variants.filter(|(name, frames)| depends_on_control(name, frames)).count();
    assert!(count >= 20, "{count} captures depend on the control");
}

#[test]
fn fragments_are_joined_by_the_control() {
    let fragmented = |(name, frames): (String, Vec<Stored>)| (name, fragmented(&frames));
    let variants = captures().into_iter().map(fragmented);
    let count = variants.filter(|(name, frames)| depends_on_control(name, frames)).count();
    assert!(count >= 20, "{count} captures depend on the control");
}

/// Frames that the host captured late, and a clock that is set back and forth. Where files overlap, no
/// segment is captured twice: whether it was answered in between is looked for in one file.
#[test]
fn times_that_go_back_within_a_file() {
    let set_back = |frames: &[Stored], back_ns: u64| {
        let mut frames = frames.to_vec();
        for (at, frame) in frames.iter_mut().enumerate().filter(|(at, _)| at % 7 > 4) {
            frame.time_ns -= back_ns / (1 + at as u64 % 3);
        }
        frames
    };
    for (name, frames) in captures() {
        let twice = translated(&frames).unwrap_or_else(|| frames.clone());
        for (frames, back_ns) in [(&twice, 3_000_000), (&frames, 5_000_000_000)] {
            let late = set_back(frames, back_ns);
            let what = format!("{name}, back by {back_ns} ns");
            let files = cut(&views(&late), 1);
            assert_equal(&what, &in_one(&files), &in_stages(&files, 3, 1));
        }
        for back_ns in [3_000_000, 5_000_000_000] {
            let late = set_back(&frames, back_ns);
            for files in [dealt(&late, 3, 5), cut(&views(&late), PARTS)] {
                assert_equal(&name, &in_one(&files), &in_stages(&files, 3, 1));
            }
        }
    }
}

/// Whether times are made up is seen in the whole input, of which the control has only the beginning of
/// each file.
#[test]
fn times_at_equal_distances_in_long_files() {
    const FRAMES: usize = 2_500;
    let (_, frames) = captures().swap_remove(0);
    let stamped = |distance_ns: fn(u64) -> u64| {
        let mut frames: Vec<_> = frames.iter().cycle().take(FRAMES).cloned().collect();
        let mut time_ns = 1_000_000_000_000;
        for (at, frame) in frames.iter_mut().enumerate() {
            time_ns += distance_ns(at as u64);
            frame.time_ns = time_ns;
        }
        frames
    };
    let mut made_up = Vec::new();
    for distance_ns in [
        (|_| 1_000_000) as fn(u64) -> u64,
        |at| if at == 1_700 { 9_000_000 } else { 1_000_000 },
        |at| if at % 600 == 500 { 9_000_000 } else { 1_000_000 },
        |at| 1_000_000 + at % 3 * 500_000,
    ] {
        let frames = stamped(distance_ns);
        for files in [dealt(&frames, 1, 1), dealt(&frames, 3, 1), cut(&views(&frames), PARTS)] {
            let one = in_one(&files);
            assert_equal("stamped", &one, &in_stages(&files, 2, 1));
            made_up.push(one.json.contains("made_up_times"));
        }
    }
    // The first pattern has no exception, the last one no usual distance.
    assert_eq!((&made_up[..3], &made_up[9..]), (&[true; 3][..], &[false; 3][..]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any frames in any file, in time order, with any number of buckets, merged in any groups.
    #[test]
    fn any_split_of_any_capture(
        capture in any::<prop::sample::Index>(),
        owners in prop::collection::vec(0_usize..4, 1..200),
        buckets in 1_usize..100,
        group in 1_usize..8,
        seed: u64,
    ) {
        let captures = captures();
        let (name, frames) = capture.get(&captures);
        let part = |part: usize| {
            let owned = frames.iter().zip(owners.iter().cycle()).filter(|(_, owner)| **owner == part);
            let frames: Vec<_> = owned.map(|(frame, _)| frame.frame()).collect();
            File::new(format!("part{part}.pcap"), pcap(&frames))
        };
        let files: Vec<File> = (0..4).map(part).collect();
        let one = in_one(&files);
        let scattered = scatter(&files, buckets, seed);
        let control = scattered.control();
        assert_equal(name, &one, &scattered.finish_merged(&control, group));
    }
}
