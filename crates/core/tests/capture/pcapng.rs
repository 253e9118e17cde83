use crate::files::*;
use tcpwhy_core::capture::{LinkType, Problem};

#[test]
fn both_byte_orders_read_the_same_frames() {
    let expected = frames(5);
    for order in ORDERS {
        let read = read(&pcapng_file(order, &expected));
        assert_eq!(read.frames, expected);
        assert_eq!(read.ids, [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]);
        assert_eq!(read.inputs[0].problems, []);
    }
}

#[test]
fn sections_have_their_own_byte_order_and_interfaces() {
    let expected = frames(4);
    let mut file = pcapng_file(Order::Big, &expected[..2]);
    file.extend(pcapng_file(Order::Little, &expected[2..]));
    let read = read(&file);
    assert_eq!(read.frames, expected);
    assert_eq!(read.ids.last(), Some(&(0, 4)));
}

#[test]
fn interfaces_have_their_own_link_type_and_clock() {
    let order = Order::Little;
    let mut file = section(order);
    file.extend(interface(order, LinkType::ETHERNET, 0, &[]));
    let binary = [option(order, 9, &[0x80 | 10]), option(order, 0, &[])].concat();
    file.extend(interface(order, LinkType::RAW, 0, &binary));
    let shifted = [
        option(order, 2, b"eth0"),
        option(order, 9, &[9]),
        option(order, 14, &(-100_i64).to_le_bytes()),
    ];
    file.extend(interface(order, LinkType::LINUX_SLL, 0, &shifted.concat()));
    file.extend(enhanced(order, 0, 2_000_000, &frame(0, b"a")));
    file.extend(enhanced(order, 1, 3 * 1024 + 512, &frame(0, b"b")));
    file.extend(enhanced(order, 2, 104_000_000_005, &frame(0, b"c")));
    file.extend(enhanced(order, 2, 99_000_000_000, &frame(0, b"d")));
    let read = read(&file);
    let seen: Vec<_> = read.frames.iter().map(|frame| (frame.time_ns, frame.link)).collect();
    let expected = [
        (2_000_000_000, LinkType::ETHERNET),
        (3_500_000_000, LinkType::RAW),
        (4_000_000_005, LinkType::LINUX_SLL),
        // Before 1970 no frame was captured: it takes the time of the one before it.
        (4_000_000_005, LinkType::LINUX_SLL),
    ];
    assert_eq!(seen, expected);
    assert_eq!(read.inputs[0].link_types, [LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL]);
    let range = Problem::TimeRange { frames: 1, first_frame: 4 };
    assert!(read.inputs[0].problems.contains(&range));
}

#[test]
fn simple_packets_take_the_time_before_them_and_their_cut_from_the_snap_length() {
    for order in ORDERS {
        let mut file = section(order);
        file.extend(interface(order, LinkType::ETHERNET, 5, &option(order, 9, &[9])));
        file.extend(enhanced(order, 0, 1_000, &frame(0, b"first")));
        let cut = Owned { original_len: 60, ..frame(1_000, b"12345") };
        file.extend(simple(order, &cut));
        file.extend(simple(order, &frame(0, b"abc")));
        let read = read(&file);
        assert_eq!(read.frames[1..], [cut, frame(1_000, b"abc")]);
        let untimed = Problem::Untimed { frames: 2, first_frame: 2 };
        assert_eq!(read.inputs[0].problems, [untimed]);
    }
}

#[test]
fn old_packet_blocks_are_packets() {
    for order in ORDERS {
        let mut file = section(order);
        file.extend(interface(order, LinkType::ETHERNET, 0, &option(order, 9, &[9])));
        file.extend(old_packet(order, 0, 77, &frame(77, b"old")));
        assert_eq!(read(&file).frames, [frame(77, b"old")]);
    }
}

/// Wireshark numbers custom blocks, journal entries and system calls, too; names and unknown
/// kinds it does not (checked with tshark 4.0).
#[test]
fn other_blocks_are_passed_over_and_numbered_as_wireshark_does() {
    let order = Order::Little;
    let numbered = [0xbad, 0x4000_0bad, 9, 0x204];
    let unnumbered = [4, 0x77_7777, 10];
    for (kinds, second) in [(&numbered[..], 6), (&unnumbered[..], 2)] {
        let mut file = pcapng_file(order, &frames(1));
        for kind in kinds {
            file.extend(block(order, *kind, &[1; 3000]));
        }
        file.extend(enhanced(order, 0, 5, &frame(5, b"x")));
        assert_eq!(read(&file).ids, [(0, 1), (0, second)]);
    }
}

#[test]
fn blocks_larger_than_a_read_are_passed_over() {
    let order = Order::Little;
    let expected = frames(3);
    let mut file = section(order);
    file.extend(block(order, 10, &vec![0xff; 5 << 20]));
    file.extend(&pcapng_file(order, &expected[..2])[section(order).len()..]);
    file.extend(block(order, 10, &vec![0xff; 3 << 20]));
    file.extend(enhanced(order, 0, expected[2].time_ns, &expected[2]));
    let read = read(&file);
    assert_eq!(read.frames, expected);
    assert_eq!(read.inputs[0].problems, []);
}

#[test]
fn drops_that_the_capturing_host_counted_are_said() {
    let order = Order::Big;
    let problems = |kept: u64| {
        let mut file = pcapng_file(order, &frames(1));
        for drops in [3, 8] {
            let mut body = order.u32(0).to_vec();
            body.extend([0; 8]);
            body.extend(option(order, 4, &order.u64(kept + drops)));
            body.extend(option(order, 5, &order.u64(drops)));
            file.extend(block(order, 5, &body));
        }
        read(&file).inputs[0].problems.clone()
    };
    assert_eq!(problems(1), [Problem::CaptureDrops { frames: 8 }]);
    assert_eq!(problems(1_000), [], "the file is a part of that capture");
}

#[test]
fn packets_of_undescribed_interfaces_and_bad_blocks_cost_only_themselves() {
    let order = Order::Little;
    let expected = frames(2);
    let mut file = pcapng_file(order, &expected[..1]);
    file.extend(enhanced(order, 9, 5, &frame(5, b"nowhere")));
    let bad_at = file.len();
    let mut bad = enhanced(order, 0, 5, &frame(5, b"long"));
    bad[20..24].copy_from_slice(&400_u32.to_le_bytes());
    file.extend(&bad);
    file.extend(enhanced(order, 0, expected[1].time_ns, &expected[1]));
    let read = read(&file);
    assert_eq!(read.frames, expected);
    assert_eq!(read.ids, [(0, 1), (0, 4)]);
    let problems = [
        Problem::UnknownInterface { frames: 1, first_frame: 2 },
        Problem::BadBlocks { blocks: 1, offset: bad_at as u64 },
    ];
    assert_eq!(read.inputs[0].problems, problems);
}
