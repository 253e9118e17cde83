use crate::files::*;
use tcpwhy_core::capture::{LinkType, Problem};

#[test]
fn every_magic_in_both_byte_orders_reads_the_same_frames() {
    let expected = frames(5);
    for order in ORDERS {
        for magic in [PCAP_MICROSECONDS, PCAP_NANOSECONDS, PCAP_MODIFIED] {
            let read = read(&pcap_file(order, magic, &expected));
            assert_eq!(read.frames, expected, "{order:?} {magic:x}");
            assert_eq!(read.ids, [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]);
            assert_eq!(read.inputs[0].problems, []);
        }
    }
}

#[test]
fn a_summary_contains_counts_times_and_link_types() {
    let file = nano_pcap(&frames(3));
    let read = read(&file);
    let input = &read.inputs[0];
    assert_eq!((input.packets, input.bytes), (3, file.len() as u64));
    assert_eq!(input.first_ns, Some(1_700_000_000_000_000_000));
    assert_eq!(input.last_ns, Some(1_700_000_000_002_000_000));
    assert_eq!(input.link_types, [LinkType::ETHERNET]);
}

#[test]
fn frame_check_sequence_bits_are_no_part_of_the_link_type() {
    for order in ORDERS {
        let mut file = pcap_header(order, PCAP_NANOSECONDS, 0x4400_0000 | 276);
        file.extend(pcap_record(order, PCAP_NANOSECONDS, &frame(1, b"x")));
        assert_eq!(read(&file).frames[0].link, LinkType::LINUX_SLL2);
    }
}

#[test]
fn a_snap_length_cut_keeps_the_length_on_the_wire() {
    let cut = Owned { original_len: 1514, ..frame(7, &[1; 96]) };
    assert_eq!(read(&nano_pcap(std::slice::from_ref(&cut))).frames, [cut]);
}

#[test]
fn a_frame_longer_than_its_length_on_the_wire_was_not_cut() {
    let odd = Owned { original_len: 0, ..frame(7, &[1; 96]) };
    assert_eq!(read(&nano_pcap(&[odd])).frames[0].original_len, 96);
}

#[test]
fn old_versions_gave_the_lengths_of_a_record_the_other_way_round() {
    let cut = Owned { original_len: 1514, ..frame(7, &[1; 96]) };
    let mut file = nano_pcap(std::slice::from_ref(&cut));
    for minor in [1, 2, 3] {
        // Bytes 6 and 7 are the minor version; the record's lengths begin at 24 + 8.
        let at = if file[4] == 2 { 6 } else { 7 };
        file[at] = minor;
        assert_eq!(read(&file).frames[0], cut, "2.{minor}");
        let (captured, original) = file[32..40].split_at_mut(4);
        captured.swap_with_slice(original);
        assert_eq!(read(&file).frames[0], cut, "2.{minor}, swapped");
    }
}

#[test]
fn zero_length_frames_are_frames() {
    let expected = [frame(1, b""), frame(2, b"x"), frame(3, b"")];
    assert_eq!(read(&nano_pcap(&expected)).frames, expected);
}

#[test]
fn frames_larger_than_a_read_are_whole() {
    let expected = [frame(1, &[7; 900_000]), frame(2, &[8; 10]), frame(3, &[9; 1 << 20])];
    let read = read(&nano_pcap(&expected));
    assert!(read.frames == expected && read.inputs[0].problems.is_empty());
}

#[test]
fn a_clock_that_steps_back_is_said_and_not_sorted() {
    let at = |ms: u64, bytes: &[u8]| frame(ms * 1_000_000, bytes);
    let expected = [at(50, b"a"), at(90, b"b"), at(20, b"c"), at(15, b"d")];
    let read = read(&nano_pcap(&expected));
    assert_eq!(read.frames, expected);
    let step = Problem::ClockStep { steps: 2, largest_ns: 70_000_000, frame: 3 };
    assert_eq!(read.inputs[0].problems, [step]);
    let [first_ns, last_ns] = [15, 90].map(|ms| Some(ms * 1_000_000));
    assert_eq!((read.inputs[0].first_ns, read.inputs[0].last_ns), (first_ns, last_ns));
}

#[test]
fn packets_that_processors_swapped_are_no_step_of_the_clock() {
    let expected = [frame(900_000, b"a"), frame(10, b"b"), frame(900_000, b"c")];
    let read = read(&nano_pcap(&expected));
    assert_eq!(read.frames, expected);
    assert!(read.inputs[0].problems.is_empty());
}

#[test]
fn a_fraction_of_a_second_beyond_a_second_is_said() {
    let mut file = nano_pcap(&frames(2));
    file[24 + 4..24 + 8].copy_from_slice(&1_000_000_000_u32.to_le_bytes());
    let read = read(&file);
    assert_eq!(read.frames.len(), 2);
    assert!(read.problem_kinds(0).contains(&"time_range"));
}

#[test]
fn a_capture_that_is_appended_to_itself_is_read_once() {
    let once = frames(6);
    let (file, header) = (nano_pcap(&once), nano_pcap(&[]).len());
    let twice = [&file[..], &file[header..]].concat();
    let read = read(&twice);
    assert_eq!(read.frames, once);
    assert_eq!(read.inputs[0].problems[0], Problem::Repeated { frames: 6, first_frame: 7 });
    assert!(!read.problem_kinds(0).contains(&"clock_step"));
    assert_eq!(read.inputs[0].packets, 12);
}

#[test]
fn only_steps_of_the_clock_between_frames_that_are_read_are_said() {
    let once = frames(6);
    let later = frame(once[0].time_ns, b"later");
    let (file, header) = (nano_pcap(&once), nano_pcap(&[]).len());
    let repeated = &file[header..];
    let three_times = read(&[&file[..], repeated, repeated].concat());
    assert_eq!(three_times.frames, once);
    assert!(!three_times.problem_kinds(0).contains(&"clock_step"));
    // After the repetition the clock is an hour back.
    let mut long = once.clone();
    long.push(frame(once[0].time_ns + 3_600_000_000_000, b"an hour on"));
    let file = nano_pcap(&long);
    let back = nano_pcap(&[once[0].clone(), later]);
    let set_back = read(&[&file[..], &back[header..]].concat());
    assert_eq!(set_back.problem_kinds(0)[0], "repeated");
    assert!(set_back.problem_kinds(0).contains(&"clock_step"));
}

#[test]
fn captures_joined_with_cat_are_all_read() {
    let expected = frames(6);
    let mut file = pcap_file(Order::Little, PCAP_NANOSECONDS, &expected[..3]);
    let second = file.len() as u64;
    file.extend(pcap_file(Order::Big, PCAP_MICROSECONDS, &expected[3..5]));
    file.extend(pcap_file(Order::Little, PCAP_MODIFIED, &expected[5..]));
    let read = read(&file);
    assert_eq!(read.frames, expected);
    let concatenated = Problem::Concatenated { captures: 2, offset: second };
    assert_eq!(read.inputs[0].problems, [concatenated]);
}
