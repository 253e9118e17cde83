use crate::files::*;
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use tcpwhy_core::capture::{Commented, LinkType, Problem, copy_with_comments};

/// Copies `file` with a comment at each of `numbers`.
fn commented(file: &[u8], numbers: &[u64]) -> (Vec<u8>, Commented) {
    let (bytes, mut copy) = (file.to_vec(), Vec::new());
    let open = || Ok(Box::new(Cursor::new(bytes.clone())) as Box<dyn Read + Send>);
    let comments: BTreeMap<u64, Vec<String>> =
        numbers.iter().map(|&number| (number, vec![format!("here is {number}")])).collect();
    let done = copy_with_comments(&open, &comments, "the whole", &mut copy).expect("memory");
    (copy, done)
}

/// Offset of `text` in `bytes`.
fn position(bytes: &[u8], text: &str) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text.as_bytes())
}

#[test]
fn copies_have_the_same_frames_whatever_the_format() {
    let expected = frames(5);
    for order in ORDERS {
        let files = [
            pcapng_file(order, &expected),
            nano_pcap(&expected),
            [pcapng_file(order, &expected[..2]), pcapng_file(order, &expected[2..])].concat(),
        ];
        for file in files {
            let (copy, done) = commented(&file, &[2, 5]);
            assert_eq!(done, Commented { frames: 2, without_room: 0, problem: None });
            let read = read(&copy);
            assert_eq!(read.frames, expected);
            assert_eq!(read.inputs[0].problems, []);
            for text in ["here is 2", "here is 5", "the whole"] {
                assert!(position(&copy, text).is_some(), "{text}");
            }
        }
    }
}

/// The time in each Enhanced Packet Block of a file in this machine's byte order.
fn written_times(file: &[u8]) -> Vec<u64> {
    let word = |at: usize| u32::from_ne_bytes(*file[at..].first_chunk().expect("a word"));
    let (mut at, mut times) = (0, Vec::new());
    while at < file.len() {
        if word(at) == 6 {
            times.push(u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)));
        }
        at += word(at + 4) as usize;
    }
    times
}

#[test]
fn times_are_those_of_the_capture_though_its_clock_was_set() {
    let times = [50, 51, 20, 21, 90].map(|s: u64| s * 1_000_000_000);
    let frames = times.map(|time_ns| frame(time_ns, b"tick"));
    assert_ne!(read(&nano_pcap(&frames)).frames, frames, "reading sets them right");
    let (copy, _) = commented(&nano_pcap(&frames), &[3]);
    assert_eq!(written_times(&copy), times);
}

#[test]
fn what_a_block_says_already_stays_and_comes_first() {
    for order in ORDERS {
        let file = |end: &[u8]| {
            let mut file = section(order);
            file.extend(interface(order, LinkType::ETHERNET, 0, &option(order, 2, b"eth7")));
            let mut body = enhanced(order, 0, 9, &frame(9, b"odd"));
            // Options stand before the length at the end.
            body.truncate(body.len() - 4);
            body.extend(option(order, 1, b"said before"));
            body.extend(end);
            let length = order.u32(body.len() as u32 + 4);
            body[4..8].copy_from_slice(&length);
            body.extend(length);
            file.extend(body);
            file.extend(block(order, 0x99, b"whatever"));
            file
        };
        for end in [option(order, 0, &[]), Vec::new()] {
            let (copy, done) = commented(&file(&end), &[1]);
            assert_eq!(done.frames, 1);
            let places =
                ["eth7", "said before", "here is 1", "whatever"].map(|it| position(&copy, it));
            assert!(places.is_sorted() && places[0].is_some(), "{places:?}");
            assert_eq!(read(&copy).frames.len(), 1);
        }
    }
}

#[test]
fn without_comments_only_the_section_says_more() {
    let file = pcapng_file(Order::Big, &frames(3));
    let (copy, _) = commented(&file, &[]);
    let (header, copied) =
        (section(Order::Big).len(), section(Order::Big).len() + copy.len() - file.len());
    assert_eq!(copy[copied..], file[header..]);
}

#[test]
fn blocks_without_options_are_left_as_they_are() {
    let order = Order::Little;
    let mut file = section(order);
    file.extend(interface(order, LinkType::ETHERNET, 0, &[]));
    file.extend(simple(order, &frame(0, b"abc")));
    let (copy, done) = commented(&file, &[1]);
    assert_eq!((done.frames, done.without_room), (0, 1));
    assert_eq!(read(&copy).frames, [frame(0, b"abc")]);
}

#[test]
fn what_cannot_be_read_is_kept_and_said() {
    let whole = pcapng_file(Order::Little, &frames(3));
    for cut in [1, 5, 20] {
        let (copy, done) = commented(&whole[..whole.len() - cut], &[1]);
        assert_eq!(done.frames, 1);
        assert!(matches!(done.problem, Some(Problem::Cut { .. })), "{:?}", done.problem);
        assert_eq!(read(&copy).frames.len(), 2);
    }
    let mut damaged = whole.clone();
    damaged.extend([7; 40]);
    let (copy, done) = commented(&damaged, &[3]);
    assert!(matches!(done.problem, Some(Problem::Damaged { .. })), "{:?}", done.problem);
    assert!(copy.ends_with(&[7; 40]));
    let (copy, done) = commented(b"no capture at all, but words", &[1]);
    assert!(copy.is_empty() && matches!(done.problem, Some(Problem::Foreign { .. })));
}
