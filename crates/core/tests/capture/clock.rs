//! Clocks that were set while a capture was running, and frames of a wrong time.

use crate::files::*;
use tcpwhy_core::capture::Problem;

/// The times that frames with these get, ms.
fn set_right(times_ms: &[u64]) -> Vec<u64> {
    let frames: Vec<_> = times_ms.iter().map(|ms| frame(ms * 1_000_000, b"x")).collect();
    let frames = read(&nano_pcap(&frames)).frames;
    frames.iter().map(|frame| frame.time_ns / 1_000_000).collect()
}

#[test]
fn a_frame_ahead_of_all_around_it_takes_the_time_of_the_one_before() {
    assert_eq!(set_right(&[50_000, 57_000, 50_001, 50_003]), [50_000, 50_001, 50_001, 50_003]);
    let frames = [50_000, 90_000, 90_001, 50_004].map(|ms: u64| frame(ms * 1_000_000, b"x"));
    let input = &read(&nano_pcap(&frames)).inputs[0];
    let [first_ns, last_ns] = [50_000, 50_004].map(|ms| Some(ms * 1_000_000));
    assert_eq!((input.first_ns, input.last_ns), (first_ns, last_ns));
    let step = Problem::ClockStep { steps: 1, largest_ns: 39_997_000_000, frame: 4 };
    assert_eq!(input.problems, [step]);
}

#[test]
fn a_frame_of_1970_takes_the_time_of_the_one_before() {
    assert_eq!(set_right(&[50_000, 0, 50_002, 50_003]), [50_000, 50_000, 50_002, 50_003]);
}

#[test]
fn behind_a_step_back_durations_are_as_captured() {
    let expected = [50_000, 50_000, 50_005, 50_905];
    assert_eq!(set_right(&[50_000, 40_000, 40_005, 40_905]), expected);
}

#[test]
fn a_clock_of_coarse_steps_is_named_and_a_fine_one_is_not() {
    let kinds = |times_us: &mut dyn Iterator<Item = u64>| {
        let frames: Vec<_> = times_us.map(|us| frame(1_000_000_000 + us * 1_000, b"x")).collect();
        read(&nano_pcap(&frames)).inputs[0].problems.clone()
    };
    // Each time comes twice; ten times apart are enough.
    let coarse = |last: u64| kinds(&mut (0..=last).flat_map(|n| [n * n * 10_000; 2]));
    assert_eq!(coarse(9), []);
    assert_eq!(coarse(10), [Problem::CoarseClock { step_ns: 10_000_000 }]);
    assert_eq!(coarse(300), [Problem::CoarseClock { step_ns: 10_000_000 }]);
    // One packet a microsecond beside the steps is enough to show a finer clock.
    assert_eq!(kinds(&mut (0..300).map(|n| n * 10_000 + u64::from(n == 200))), []);
    assert_eq!(kinds(&mut (0..300).map(|_| 0)), []);
}

#[test]
fn a_silence_is_no_step() {
    let times = [50_000, 57_000, 57_001, 99_000, 98_001, 99_001];
    assert_eq!(set_right(&times), times);
}

#[test]
fn what_a_clock_is_set_back_after_a_silence_is_taken_off_the_silence() {
    // The clock was set forward somewhere in the minute, or back at its end.
    assert_eq!(set_right(&[50_000, 110_000, 108_000]), [50_000, 108_000, 108_000]);
    // A silence that is shorter cannot have been the step.
    assert_eq!(set_right(&[50_000, 51_500, 48_000]), [50_000, 51_500, 51_500]);
}

#[test]
fn a_clock_that_stays_ahead_for_long_is_taken_at_its_word() {
    let ahead = |frames: usize| [vec![50_000], vec![57_000; frames], vec![50_001]].concat();
    assert_eq!(set_right(&ahead(64))[1], 50_001);
    assert_eq!(set_right(&ahead(65))[1], 57_000);
}

#[test]
fn a_first_frame_of_an_impossible_time_takes_that_of_the_second() {
    let mut file = nano_pcap(&[frame(7_000_000, b"a"), frame(8_000_000, b"b")]);
    file[24 + 4..24 + 8].copy_from_slice(&1_000_000_000_u32.to_le_bytes());
    let times: Vec<_> = read(&file).frames.iter().map(|frame| frame.time_ns).collect();
    assert_eq!(times, [8_000_000, 8_000_000]);
}

#[test]
fn each_of_the_captures_that_cat_joined_has_a_clock_of_its_own() {
    let times = |ms: [u64; 2]| ms.map(|ms| frame(ms * 1_000_000, b"x"));
    let (late, early) = (times([90_000, 90_001]), times([50_000, 50_001]));
    let mut file = pcap_file(Order::Little, PCAP_NANOSECONDS, &late);
    file.extend(pcap_file(Order::Little, PCAP_NANOSECONDS, &early));
    assert_eq!(read(&file).frames, [late, early].concat());
}
