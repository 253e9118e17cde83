//! Paths with a small MTU, or tunnels, cut packets into fragments.

use crate::edit::{Frame, captures, report, story};
use tcpwhy_core::capture::LinkType;
use tcpwhy_core::model::{Cause, Fact, Report, Role};
use tcpwhy_core::report::{Look, text};
use tcpwhy_core::wire::DecodeError;

/// The frame's packet in IP fragments of up to `size` bytes each.
fn fragments(frame: &Frame, id: u32, size: usize) -> Vec<Frame> {
    let Some((ip_at, at)) = frame.ip_at().zip(frame.transport_at()) else {
        return vec![frame.clone()];
    };
    let is_v4 = frame.bytes[ip_at] >> 4 == 4;
    let len = if is_v4 {
        usize::from(u16::from_be_bytes([frame.bytes[ip_at + 2], frame.bytes[ip_at + 3]])) - 20
    } else {
        usize::from(u16::from_be_bytes([frame.bytes[ip_at + 4], frame.bytes[ip_at + 5]]))
    };
    if len <= size {
        return vec![frame.clone()];
    }
    let piece = |start: usize| {
        let (end, more) = ((start + size).min(len), start + size < len);
        let mut bytes = frame.bytes[..at].to_vec();
        if is_v4 {
            let total = (20 + end - start) as u16;
            bytes[ip_at + 2..ip_at + 4].copy_from_slice(&total.to_be_bytes());
            if bytes[ip_at + 4..ip_at + 6] == [0, 0] {
                bytes[ip_at + 4..ip_at + 6].copy_from_slice(&(id as u16).to_be_bytes());
            }
            let field = (start / 8) as u16 | u16::from(more) << 13;
            bytes[ip_at + 6..ip_at + 8].copy_from_slice(&field.to_be_bytes());
        } else {
            let total = (8 + end - start) as u16;
            bytes[ip_at + 4..ip_at + 6].copy_from_slice(&total.to_be_bytes());
            let field = (start as u16 | u16::from(more)).to_be_bytes();
            bytes.extend([bytes[ip_at + 6], 0, field[0], field[1]]);
            bytes.extend(id.to_be_bytes());
            bytes[ip_at + 6] = 44;
        }
        let original_len = bytes.len() + end - start;
        let captured = |offset: usize| (at + offset).min(frame.bytes.len());
        bytes.extend_from_slice(&frame.bytes[captured(start)..captured(end)]);
        Frame { original_len, bytes, ..frame.clone() }
    };
    (0..len).step_by(size).map(piece).collect()
}

fn fragmented(frames: &[Frame], size: usize, reversed: bool) -> Vec<Frame> {
    let cut = |(id, frame): (usize, &Frame)| {
        let mut pieces = fragments(frame, id as u32 + 1, size);
        if reversed {
            pieces.reverse();
        }
        pieces
    };
    frames.iter().enumerate().flat_map(cut).collect()
}

fn fact(report: &Report, name: &str) -> Option<u64> {
    let observation = report.observations.iter().find(|one| one.id == "ip_fragments")?;
    observation.facts.iter().find_map(|(fact, value)| match value {
        Fact::Count(count) if *fact == name => Some(*count),
        _ => None,
    })
}

#[test]
fn fragments_in_any_order_give_the_same_report_as_the_packet() {
    for (name, frames) in captures() {
        let whole = report(&frames);
        for (size, reversed) in [(576, false), (576, true), (24, false), (1_400, true)] {
            let cut = fragmented(&frames, size, reversed);
            let joined = report(&cut);
            assert_eq!(story(&joined), story(&whole), "{name} in fragments of {size}");
            assert_eq!(joined.totals.segments, whole.totals.segments, "{name}");
            assert_eq!(joined.totals.decode_errors.errors().count(), 0, "{name}");
            assert_eq!(fact(&joined, "incomplete").unwrap_or(0), 0, "{name}");
            assert_eq!(cut.len() > frames.len(), fact(&joined, "count").is_some(), "{name}");
        }
    }
}

#[test]
fn a_copy_of_each_fragment_changes_nothing() {
    for (name, frames) in captures() {
        let whole = report(&frames);
        let cut = fragmented(&frames, 576, false);
        let twice: Vec<_> = cut.iter().flat_map(|frame| [frame.clone(), frame.clone()]).collect();
        if cut.len() > frames.len() {
            let joined = report(&twice);
            assert_eq!(fact(&joined, "incomplete").unwrap_or(0), 0, "{name}");
            assert_eq!(fact(&joined, "count"), fact(&report(&cut), "count"), "{name}");
            assert_eq!(joined.totals.exchanges, whole.totals.exchanges, "{name}");
        }
    }
}

#[test]
fn a_lost_fragment_is_a_lost_packet() {
    let (_, frames) = captures().into_iter().find(|(name, _)| name == "send_buffer").expect("it");
    let cut = fragmented(&frames, 576, false);
    let at = cut.iter().rposition(|frame| frame.original_len > 500).expect("large ones");
    let (mut short, mut without) = (cut, frames.clone());
    let time_ns = short[at].time_ns;
    short.remove(at);
    without.remove(frames.iter().rposition(|frame| frame.time_ns == time_ns).expect("its packet"));
    let joined = report(&short);
    assert_eq!(story(&joined), story(&report(&without)));
    assert_eq!(fact(&joined, "incomplete"), Some(1));
    let errors: Vec<_> = joined.totals.decode_errors.errors().collect();
    assert_eq!(errors, [(DecodeError::FragmentIncomplete, 1)]);
}

#[test]
fn overlapping_fragments_give_the_packet_up_and_are_counted() {
    let (_, frames) = captures().into_iter().find(|(name, _)| name == "any_c").expect("it");
    let mut cut = fragmented(&frames, 256, false);
    let at = cut.iter().position(|frame| frame.original_len > 256).expect("a large one");
    // The first fragment again, eight bytes shorter.
    let mut other = cut[at].clone();
    let ip_at = other.ip_at().expect("IP");
    let total = u16::from_be_bytes([other.bytes[ip_at + 2], other.bytes[ip_at + 3]]) - 8;
    other.bytes[ip_at + 2..ip_at + 4].copy_from_slice(&total.to_be_bytes());
    cut.insert(at + 1, other);
    let errors: Vec<_> = report(&cut).totals.decode_errors.errors().collect();
    assert_eq!(errors, [(DecodeError::FragmentOverlap, 1)]);
}

#[test]
fn fragments_of_a_tunnel_and_in_a_tunnel_are_joined() {
    for (name, frames) in captures().into_iter().take(12) {
        let whole = report(&frames);
        // Inside fragmented, then carried in IPv4 (RFC 2003), which is fragmented again.
        let inner = fragmented(&frames, 576, false);
        let tunnelled: Vec<_> = inner.iter().map(in_ipv4).collect();
        let outer = fragmented(&tunnelled, 320, false);
        assert_eq!(story(&report(&outer)), story(&whole), "{name}");
    }
}

/// IP in IPv4, below the same link layer.
fn in_ipv4(frame: &Frame) -> Frame {
    let Some(ip_at) = frame.ip_at() else { return frame.clone() };
    let (link, inner) = frame.bytes.split_at(ip_at);
    let len = (20 + frame.original_len - ip_at) as u16;
    let protocol = if inner[0] >> 4 == 4 { 4 } else { 41 };
    let [high, low] = len.to_be_bytes();
    let header = [0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let mut bytes = [link, &header[..], inner].concat();
    let ether_type = match frame.link {
        LinkType::ETHERNET => ip_at - 2..ip_at,
        LinkType::LINUX_SLL2 => 0..2,
        _ => 0..0,
    };
    bytes[ether_type].iter_mut().zip([8, 0]).for_each(|(byte, ipv4)| *byte = ipv4);
    frame.with(bytes, 20)
}

#[test]
fn a_large_answer_in_fragments_is_matched_to_its_query() {
    for (name, frames) in captures().into_iter().filter(|(name, _)| name.starts_with("dns")) {
        let large: Vec<_> = frames.iter().map(with_edns_padding).collect();
        assert!(large.iter().any(|frame| frame.original_len > 4_000), "{name}");
        let whole = report(&frames);
        assert!(whole.totals.lookups > 0, "{name}");
        assert_eq!(story(&report(&fragmented(&large, 1_480, false))), story(&whole), "{name}");
    }
}

/// DNS answers filled up to 4 KB (RFC 7830); other frames as they are.
fn with_edns_padding(frame: &Frame) -> Frame {
    const PADDING: u16 = 4_000;
    let Some((ip_at, at)) = frame.ip_at().zip(frame.transport_at()) else { return frame.clone() };
    if frame.bytes[ip_at + 9] != 17 || frame.bytes[at..at + 2] != [0, 53] {
        return frame.clone();
    }
    let mut bytes = frame.bytes.clone();
    // One more record in the additional section: OPT, 4096 bytes, with the option "padding".
    bytes[at + 8 + 11] += 1;
    bytes.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0]);
    bytes.extend((PADDING + 4).to_be_bytes());
    bytes.extend([0, 12]);
    bytes.extend(PADDING.to_be_bytes());
    bytes.resize(bytes.len() + usize::from(PADDING), 0);
    let more = bytes.len() - frame.bytes.len();
    for len_at in [ip_at + 2, at + 4] {
        let len = u16::from_be_bytes([bytes[len_at], bytes[len_at + 1]]) + more as u16;
        bytes[len_at..len_at + 2].copy_from_slice(&len.to_be_bytes());
    }
    frame.with(bytes, more as isize)
}

/// Returns whether a frame is an answer of the name server whose address ends in `server`.
fn is_answer_of(frame: &Frame, server: u8) -> bool {
    let Some((ip_at, at)) = frame.ip_at().zip(frame.transport_at()) else { return false };
    frame.bytes[ip_at + 9] == 17
        && frame.bytes[at..at + 2] == [0, 53]
        && frame.bytes[ip_at + 15] == server
}

/// The silent server of `dns_timeout` answers each query for an A record after 2 ms, in three
/// fragments; `keep` selects the fragments that are captured.
fn partly_answered(keep: &dyn Fn(usize) -> bool, order: &[usize]) -> Report {
    let (_, frames) = captures().into_iter().find(|(name, _)| name == "dns_timeout").expect("it");
    let answer = frames.iter().find(|frame| is_answer_of(frame, 252)).expect("an answer");
    let silent = |frame: &Frame| {
        let (ip_at, at) = frame.ip_at().zip(frame.transport_at())?;
        let asked = frame.bytes[ip_at + 9] == 17 && frame.bytes[ip_at + 19] == 251;
        let ends_in_a = frame.bytes.ends_with(&[0, 1, 0, 1]);
        (asked && ends_in_a).then(|| frame.bytes[at + 8..at + 10].to_vec())
    };
    let mut edited = Vec::new();
    for (number, frame) in frames.iter().enumerate() {
        edited.push(frame.clone());
        let Some(id) = silent(frame) else { continue };
        let (ip_at, at) = answer.ip_at().zip(answer.transport_at()).expect("UDP");
        let mut bytes = answer.bytes.clone();
        bytes[ip_at + 15] = 251;
        bytes[at + 2..at + 4].copy_from_slice(&frame.bytes[at..at + 2]);
        bytes[at + 8..at + 10].copy_from_slice(&id);
        let answer = Frame { time_ns: frame.time_ns + 2_000_000, bytes, ..answer.clone() };
        let pieces = fragments(&with_edns_padding(&answer), number as u32 + 1, 1_480);
        assert_eq!(pieces.len(), 3);
        edited.extend(order.iter().filter(|&&at| keep(at)).map(|&at| pieces[at].clone()));
    }
    edited.sort_by_key(|frame| frame.time_ns);
    report(&edited)
}

#[test]
fn later_fragments_without_the_first_are_a_loss_on_the_path() {
    let finding = |report: &Report| {
        let finding = report.findings.iter().find(|it| it.cause == Cause::DnsTimeout);
        finding.map(|it| (it.culprit.role, it.evidence.iter().any(|it| it.part == "fragment")))
    };
    let forward = [0, 1, 2];
    assert_eq!(
        finding(&partly_answered(&|at| at > 0, &forward)),
        Some((Role::Network, true)),
        "the first is lost"
    );
    let lost = partly_answered(&|at| at == 2, &forward);
    assert_eq!(finding(&lost), Some((Role::Network, true)), "only the last comes");
    let said = text::render(&lost, &Look { width: 200, ..Look::default() });
    assert!(said.contains("IP fragments of DNS answers from 10.55.172.251 are lost"), "{said}");
    assert!(said.contains("edns-buffer-size: 1232") && !said.contains("it is down"), "{said}");
    let nothing = partly_answered(&|_| false, &forward);
    assert_eq!(finding(&nothing), Some((Role::Resolver, false)), "nothing comes");
    let late = partly_answered(&|_| true, &[2, 1, 0]);
    let silent = late.findings.iter().any(|it| it.evidence.iter().any(|it| it.part == "fragment"));
    assert!(!silent, "all of them come, in another order");
}
