use crate::files::*;
use proptest::prelude::*;
use std::io::{self, Cursor};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tcpwhy_core::capture::{Block, CaptureSet, Source};

fn numbers(read: &Read) -> Vec<u8> {
    read.frames.iter().map(|frame| frame.bytes[0]).collect()
}

fn small(times: &[(u64, u8)]) -> Vec<u8> {
    let frames: Vec<_> = times.iter().map(|(time_ns, name)| frame(*time_ns, &[*name])).collect();
    nano_pcap(&frames)
}

#[test]
fn rotated_files_come_in_time_order_whatever_the_order_given() {
    let files = [small(&[(10, 1), (20, 2)]), small(&[(30, 3)]), small(&[(40, 4), (50, 5)])];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let given: Vec<_> =
            order.iter().map(|index| (["c", "b", "a"][*index], &files[*index][..])).collect();
        let read = read_files(&given).expect("readable");
        assert_eq!(numbers(&read), [1, 2, 3, 4, 5]);
        assert_eq!(read.ids, [(0, 1), (0, 2), (1, 1), (2, 1), (2, 2)]);
        let paths: Vec<_> = read.inputs.iter().map(|input| &input.path[..]).collect();
        assert_eq!(paths, ["c", "b", "a"]);
    }
}

#[test]
fn files_that_overlap_are_merged_by_time_then_file_then_number() {
    let near = small(&[(10, 1), (30, 4), (30, 5), (60, 9)]);
    let far = small(&[(20, 2), (25, 3), (30, 6), (50, 8)]);
    let late = small(&[(40, 7), (70, 10)]);
    let read = read_files(&[("late", &late), ("far", &far), ("near", &near)]).expect("readable");
    assert_eq!(numbers(&read), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn files_that_begin_at_once_are_ordered_by_name_with_numbers_as_numbers() {
    let (nine, ten) = (small(&[(5, 1)]), small(&[(5, 2)]));
    let read = read_files(&[("t.pcap10", &ten), ("t.pcap9", &nine)]).expect("readable");
    assert_eq!(numbers(&read), [1, 2]);
}

#[test]
fn a_bad_file_never_costs_another_anything() {
    let good = small(&[(10, 1), (20, 2)]);
    let cut = &small(&[(5, 0), (15, 7)])[..24 + 17 + 3];
    let header = small(&[]);
    let files: [(&str, &[u8]); 5] = [
        ("text", b"hello world"),
        ("empty", b""),
        ("cut", cut),
        ("good", &good),
        ("header", &header),
    ];
    let read = read_files(&files).expect("readable");
    assert_eq!(numbers(&read), [0, 1, 2]);
    let told: Vec<_> =
        (0..5).map(|file| (&read.inputs[file].path[..], read.problem_kinds(file))).collect();
    let expected = [
        ("cut", vec!["cut"]),
        ("good", vec![]),
        ("header", vec!["no_frames"]),
        ("empty", vec!["empty"]),
        ("text", vec!["foreign"]),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_file_that_goes_away_is_said() {
    let bytes = small(&[(10, 1)]);
    let opened = AtomicUsize::new(0);
    let vanishing =
        Source::file("gone", None, move || match opened.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(Cursor::new(bytes.clone())),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        });
    let stays = Source::memory("stays", small(&[(20, 2)]));
    let read =
        read_set(CaptureSet::new(vec![vanishing, stays]).expect("readable")).expect("one stays");
    assert_eq!(numbers(&read), [2]);
    assert_eq!(read.problem_kinds(0), ["open"]);
}

/// Gives its bytes a few at a time, as a pipe from a live capture may.
struct Trickle(Cursor<Vec<u8>>);

impl io::Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let few = buffer.len().min(7);
        self.0.read(&mut buffer[..few])
    }
}

#[test]
fn a_stream_is_read_once_and_merged_with_files() {
    let file = Source::memory("file", small(&[(15, 2), (25, 4)]));
    let stream = Trickle(Cursor::new(small(&[(10, 1), (20, 3), (30, 5)])));
    let set = CaptureSet::new(vec![file, Source::stream("-", stream)]).expect("readable");
    let read = read_set(set).expect("readable");
    assert_eq!(numbers(&read), [1, 2, 3, 4, 5]);
    assert_eq!(read.ids, [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3)]);
}

#[test]
fn a_stream_hands_on_frames_as_they_come() {
    let packets = [frame(1, &[1; 100]), frame(2, &[2; 100]), frame(3, &[3; 100])];
    let stream = Trickle(Cursor::new(nano_pcap(&packets)));
    let mut set = CaptureSet::new(vec![Source::stream("-", stream)]).expect("readable");
    let mut block = Block::default();
    for _ in 0..3 {
        assert!(set.next_block(&mut block).expect("readable"));
        assert_eq!(block.entries.len(), 1);
    }
}

#[test]
fn a_thousand_files_are_open_one_at_a_time() {
    struct Held(Cursor<Vec<u8>>, Arc<AtomicUsize>);
    impl io::Read for Held {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }
    impl Drop for Held {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let (open, open_max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let source = |index: u64| {
        let (open, open_max) = (Arc::clone(&open), Arc::clone(&open_max));
        Source::file(format!("t{index}"), None, move || {
            open_max.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            Ok(Held(Cursor::new(small(&[(index * 10, 1), (index * 10 + 5, 2)])), Arc::clone(&open)))
        })
    };
    let set = CaptureSet::new((0..1_000).rev().map(source).collect()).expect("readable");
    assert_eq!(read_set(set).expect("readable").frames.len(), 2_000);
    assert_eq!(open_max.load(Ordering::Relaxed), 1);
}

/// Frames with non-decreasing times, some of them equal, each with different bytes.
fn capture() -> impl Strategy<Value = Vec<Owned>> {
    prop::collection::vec((0_u64..3, 0_usize..2_000), 1..80).prop_map(|steps| {
        let mut time_ns = 1_000;
        let frame_of = |(index, (step, len)): (usize, (u64, usize))| {
            time_ns += step;
            let mut bytes = index.to_be_bytes().to_vec();
            bytes.resize(8 + len, index as u8);
            frame(time_ns, &bytes)
        };
        steps.into_iter().enumerate().map(frame_of).collect()
    })
}

proptest! {
    #[test]
    fn any_cut_into_files_in_any_order_reads_the_same(
        expected in capture(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        turn in any::<prop::sample::Index>(),
        pcapng in any::<bool>(),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(expected.len())).collect();
        cuts.extend([0, expected.len()]);
        cuts.sort_unstable();
        let mut files: Vec<_> = cuts.windows(2).enumerate().map(|(index, range)| {
            let part = &expected[range[0]..range[1]];
            let order = if index % 2 == 0 { Order::Little } else { Order::Big };
            let bytes = if pcapng && index % 3 == 0 {
                pcapng_file(order, part)
            } else {
                pcap_file(order, PCAP_NANOSECONDS, part)
            };
            (format!("t.pcap{index}"), bytes)
        }).collect();
        let turn = turn.index(files.len());
        files.rotate_left(turn);
        let sources = files.into_iter().map(|(name, bytes)| Source::memory(name, bytes));
        let set = CaptureSet::new(sources.collect()).expect("readable");
        prop_assert!(read_set(set).expect("readable").frames == expected);
    }

    #[test]
    fn interleaved_files_merge_back_whatever_the_block_size(
        expected in capture(),
        owners in prop::collection::vec(0_usize..4, 80),
        copies in 1_u64..60,
        block_bytes in (64_usize << 10)..(1 << 20),
    ) {
        let mut longer = Vec::new();
        for copy in 0..copies {
            longer.extend(expected.iter().cloned().map(|mut frame| {
                // All times differ: ties would be decided by file.
                frame.time_ns = longer_time(copy, &frame);
                frame
            }));
        }
        let mut files: [Vec<Owned>; 4] = Default::default();
        for (index, frame) in longer.iter().enumerate() {
            files[owners[index % expected.len()]].push(frame.clone());
        }
        let name = |index: usize| format!("{index}");
        let sources = files.iter().enumerate()
            .map(|(index, frames)| Source::memory(name(index), nano_pcap(frames)));
        let mut set = CaptureSet::new(sources.collect()).expect("readable");
        set.set_block_bytes(block_bytes);
        prop_assert!(read_set(set).expect("readable").frames == longer);
    }
}

fn longer_time(copy: u64, frame: &Owned) -> u64 {
    let index = frame.bytes[..8].iter().fold(0, |index, byte| index << 8 | u64::from(*byte));
    copy * 1_000 + index
}
