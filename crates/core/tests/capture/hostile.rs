use crate::files::*;
use proptest::prelude::*;
use tcpwhy_core::capture::{Block, CaptureSet, Problem, Source};

#[test]
fn a_foreign_file_is_described_by_its_format() {
    for (bytes, words) in [
        (&b"\x7fELF\x02\x01\x01"[..], "a program (ELF)"),
        (
            b"12:00:01.5 eth0 In  IP 10.0.0.1.80 > 10.0.0.2.99: Flags [S]",
            "tcpdump's printed output",
        ),
        (b"{\"a\": 1}", "JSON text"),
        (b"<!DOCTYPE html>", "an error page"),
        (b"hello", "text; if it is tcpdump's"),
        (b"\xfd7zXZ\0\0\0", "xz -dc"),
        (b"PK\x03\x04\x14\0", "zip archive"),
        (b"\0\0\0\0\0\0\0\0", "zeros"),
        (b"\xff\xfeP\0K\0", "UTF-16"),
        (b"\x01\x02\x03\x04", "unknown binary data"),
    ] {
        let refusal = refusal(bytes);
        assert!(
            refusal.starts_with("t is not a packet capture (pcap, pcapng or snoop)"),
            "{refusal}"
        );
        assert!(refusal.contains(words), "{refusal}");
    }
}

#[test]
fn empty_and_unknown_versions_are_refused_in_a_sentence() {
    assert!(refusal(b"").starts_with("t is empty: "));
    let mut file = nano_pcap(&frames(1));
    file[4] = 7;
    assert!(refusal(&file).starts_with("t says it is pcap version 7.4"));
    assert!(refusal(&nano_pcap(&[])[..20]).starts_with("t ends within the record at byte 0"));
}

#[test]
fn nothing_readable_among_many_is_one_sentence() {
    let error = read_files(&[("b", b"hello"), ("a", b"")]).err().map(|error| error.to_string());
    let error = error.unwrap_or_default();
    assert!(error.starts_with("none of 2 files can be read; the first: a is empty"), "{error}");
    assert!(CaptureSet::new(Vec::new()).is_err());
}

#[test]
fn a_cut_file_gives_the_frames_before_the_cut_and_says_where() {
    let expected = frames(4);
    for (file, record, first) in
        [(nano_pcap(&expected), 24, 24), (pcapng_file(Order::Big, &expected), 40, 28 + 28)]
    {
        for end in first..file.len() {
            let read = read(&file[..end]);
            let whole = (end - first) / record;
            assert_eq!(read.frames, expected[..whole]);
            let offset = (first + whole * record) as u64;
            let expected = match (offset == end as u64, whole) {
                (true, 0) => vec![Problem::NoFrames],
                (true, _) => vec![],
                (false, _) => vec![Problem::Cut { offset }],
            };
            assert_eq!(read.inputs[0].problems, expected, "{end}");
        }
    }
}

#[test]
fn an_absurd_length_ends_the_file_and_keeps_what_was_read() {
    let expected = frames(3);
    for length in [(1_u32 << 20) + 1, 1 << 31, u32::MAX] {
        let mut file = nano_pcap(&expected);
        file[24 + 24 * 2 + 8..][..4].copy_from_slice(&length.to_le_bytes());
        let read = read(&file);
        assert_eq!(read.frames, expected[..2]);
        let damaged = Problem::Damaged {
            offset: 24 + 24 * 2,
            what: "a packet is longer than packets can be",
            length: length.into(),
        };
        assert_eq!(read.inputs[0].problems, [damaged]);
    }
}

#[test]
fn block_lengths_of_gigabytes_allocate_nothing() {
    let order = Order::Little;
    for kind in [0x0a0d_0d0a, 1, 2, 3, 4, 5, 6, 0xbad, 0x1234] {
        for length in [0, 4, 11, 13, 0xffff_fffc, u32::MAX] {
            let expected = frames(2);
            let mut file = pcapng_file(order, &expected);
            file.extend(order.u32(kind));
            file.extend(order.u32(length));
            file.extend(order.u32(0x1a2b_3c4d));
            file.extend([0; 64]);
            let mut set = CaptureSet::new(vec![Source::memory("t", file)]).expect("readable");
            let mut block = Block::default();
            assert!(set.next_block(&mut block).expect("readable"));
            assert_eq!(block.entries.len(), 2);
            assert!(!set.next_block(&mut block).expect("readable"));
            assert!(block.bytes.capacity() < 4 << 20);
            assert_eq!(set.inputs()[0].problems.len(), 1, "{kind:x} {length:x}");
        }
    }
}

#[test]
fn lengths_around_a_block_that_differ_end_the_file() {
    let order = Order::Little;
    let mut file = pcapng_file(order, &frames(3));
    let end = file.len();
    file[end - 44..end - 40].copy_from_slice(&order.u32(44));
    let read = read(&file);
    assert_eq!((read.frames.len(), read.problem_kinds(0)), (1, vec!["damaged"]));
}

#[test]
fn interfaces_without_end_take_bounded_memory() {
    let order = Order::Little;
    let mut file = section(order);
    let one = interface(order, tcpwhy_core::capture::LinkType::RAW, 0, &[]);
    for _ in 0..(1 << 16) + 10 {
        file.extend(&one);
    }
    file.extend(enhanced(order, 65_535, 5, &frame(5, b"x")));
    let read = read(&file);
    assert_eq!(read.frames.len(), 1);
    assert!(matches!(read.inputs[0].problems[..], [Problem::BadBlocks { blocks: 10, .. }]));
}

/// Reads to the end; the assertions are in `read_files`.
fn survive(bytes: &[u8]) {
    let _ = read_files(&[("t", bytes)]);
    let _ = read_files(&[("t", bytes), ("u", bytes), ("v", &nano_pcap(&frames(3)))]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        survive(&bytes);
        for head in [
            pcap_header(Order::Little, PCAP_MICROSECONDS, 1),
            section(Order::Big),
            pcapng_file(Order::Little, &frames(1)),
            vec![0x1f, 0x8b, 8, 0],
            vec![0x28, 0xb5, 0x2f, 0xfd],
        ] {
            survive(&[head, bytes.clone()].concat());
        }
    }

    #[test]
    fn damaged_captures_never_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        pcapng in any::<bool>(),
    ) {
        let mut file = if pcapng {
            let order = Order::Little;
            let mut file = pcapng_file(order, &frames(4));
            file.extend(simple(order, &frame(0, b"simple")));
            file.extend(old_packet(order, 0, 9, &frame(0, b"old")));
            file.extend(block(order, 5, &[0; 12]));
            file.extend(block(order, 4, &[0; 12]));
            file
        } else {
            nano_pcap(&frames(8))
        };
        for (place, value) in flips {
            let place = place.index(file.len());
            file[place] = value;
        }
        survive(&file);
    }
}
