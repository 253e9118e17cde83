//! Files in which frames stand a little behind later ones.

use crate::files::*;
use proptest::prelude::*;
use tcpwhy_core::capture::{CaptureSet, Source};

const MS: u64 = 1_000_000;

/// So many frames, 20 us apart, that it takes several blocks to read them.
fn several_blocks() -> Vec<Owned> {
    let of = |index: u64| frame(MS + 20_000 * index, &[index as u8; 200]);
    (0..3_000).map(of).collect()
}

/// As a host writes them down whose rings wait for up to `wait_ns` each.
fn written_late(frames: &[Owned], wait_ns: u64, seed: u64) -> Vec<Owned> {
    let mut state = seed;
    let mut wait = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % wait_ns
    };
    let mut written: Vec<_> = frames.iter().map(|it| (it.time_ns + wait(), it.clone())).collect();
    written.sort_by_key(|(written_ns, _)| *written_ns);
    written.into_iter().map(|(_, frame)| frame).collect()
}

fn names(read: &Read) -> Vec<u8> {
    read.frames.iter().map(|frame| frame.bytes[0]).collect()
}

fn file(times_ns: &[u64]) -> Vec<u8> {
    let of = |(index, time_ns): (usize, &u64)| frame(*time_ns, &[index as u8]);
    nano_pcap(&times_ns.iter().enumerate().map(of).collect::<Vec<_>>())
}

#[test]
fn a_frame_that_is_late_by_less_than_a_step_of_the_clock_comes_where_it_belongs() {
    let read = read_files(&[("late", &file(&[MS, 3 * MS, 3 * MS - 900_000, 4 * MS]))]);
    let read = read.expect("readable");
    assert_eq!(names(&read), [0, 2, 1, 3]);
    // Its number is that in its file.
    assert_eq!(read.ids, [(0, 1), (0, 3), (0, 2), (0, 4)]);
    assert!(read.problem_kinds(0).is_empty());
}

#[test]
fn what_was_stamped_before_and_after_the_clock_was_set_stays_apart() {
    let times_ns = [MS, 9 * MS, 8 * MS + 1, 4 * MS, 9 * MS, 10 * MS, 9 * MS + 1];
    let read = read_files(&[("set", &file(&times_ns))]).expect("readable");
    assert_eq!(names(&read), [0, 2, 1, 3, 4, 6, 5]);
    assert_eq!(read.problem_kinds(0), ["clock_step"]);
}

#[test]
fn a_file_that_ends_with_late_frames_gives_all_of_them() {
    let read = read_files(&[("end", &file(&[5, 4, 3, 2, 1]))]).expect("readable");
    assert_eq!(names(&read), [4, 3, 2, 1, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn what_rings_write_late_is_read_in_the_order_of_time(
        seed in any::<u64>(),
        wait_ns in 1..MS,
        block_bytes in (64_usize << 10)..(1 << 20),
    ) {
        let frames = several_blocks();
        // The first that is late shows that more may be.
        let mut begins = frames[..2].to_vec();
        begins.reverse();
        let written = [&begins[..], &written_late(&frames[2..], wait_ns, seed)].concat();
        let sources = vec![Source::memory("rings", nano_pcap(&written))];
        let mut set = CaptureSet::new(sources).expect("readable");
        set.set_block_bytes(block_bytes);
        let read = read_set(set).expect("readable");
        prop_assert!(read.frames == frames);
    }
}
