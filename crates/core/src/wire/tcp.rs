//! The TCP header and its options (RFC 9293 §3.1–3.2, RFC 7323, RFC 2018, RFC 7413, RFC 8684).
//! Checksums are verified only in SYNs, which they may keep from being answered, and where a frame
//! ends before its packet.

use super::checksum;
use super::flow::Way;
use super::ip::Network;
use super::walk::{Origin, Output};
use super::{DecodeError, SackBlock, Segment, SegmentFlags, TcpFlags};

/// Length of the header without options, bytes.
const FIXED_LEN: usize = 20;
/// Position of the checksum in the header.
const CHECKSUM_AT: usize = 16;
/// Identifier of Fast Open in the experimental option (RFC 7413 §4.1.1, RFC 6994).
const FAST_OPEN_ID: [u8; 2] = [0xf9, 0x89];
/// Maximum shift count; a larger one is treated as 14 (RFC 7323 §2.3).
const WINDOW_SCALE_MAX: u8 = 14;

/// Length of TCP header and payload in an IPv4 packet of the minimum length of an Ethernet payload
/// (IEEE 802.3 §3.2.7, RFC 894): 46 bytes, and 42 after a VLAN tag.
const ETHERNET_LEAST_LENS: [usize; 2] = [46 - 20, 42 - 20];

/// The position of a segment's payload in the frame's bytes, with its captured end and its end on
/// the wire.
#[derive(Clone, Copy)]
struct Payload {
    at: usize,
    captured_end: usize,
    end: usize,
}

impl Payload {
    /// Returns an empty payload at the same position.
    fn none(self) -> Self {
        Self { end: self.at, captured_end: self.captured_end.min(self.at), ..self }
    }
}

/// Returns whether apparent payload is Ethernet padding: some devices include the padding zeros
/// after an ACK in the IP length. A sender whose data ends with these bytes sets PSH.
#[inline(always)]
fn is_padding(
    network: &Network,
    header: &[u8; FIXED_LEN],
    bytes: &[u8],
    payload: &Payload,
) -> bool {
    let len = payload.end - payload.at + header_len(header);
    ETHERNET_LEAST_LENS.contains(&len)
        && network.facts & SegmentFlags::IPV4 != 0
        && header[13] == TcpFlags::ACK
        && payload.at < payload.end
        && payload.captured_end == payload.end
        && bytes[payload.at..payload.end].iter().all(|&byte| byte == 0)
}

/// Like [`segment`] for a completely captured header, without the [way](set_way); returns the
/// ports, from which the caller determines it. Returns `None` if `segment` has to be used.
#[inline(always)]
pub(super) fn common(
    network: &Network,
    bytes: &[u8],
    at: usize,
    end: usize,
    segment: &mut Segment,
) -> Option<[u16; 2]> {
    let header = bytes.get(at..)?.first_chunk()?;
    let payload = Payload { at: at + header_len(header), captured_end: bytes.len().min(end), end };
    if payload.at < at + FIXED_LEN || payload.at > payload.captured_end {
        return None;
    }
    let payload =
        if is_padding(network, header, bytes, &payload) { payload.none() } else { payload };
    let options = bytes.get(at + FIXED_LEN..payload.at)?;
    write(network, header, options, payload, segment);
    if segment.flags.has(TcpFlags::SYN) {
        set_checksum_error(network, bytes, at, payload, segment);
    }
    Some(ports(header))
}

/// Returns whether an IP header may state a later end than that of its frame, `end`: tools that
/// remove payload from a capture may leave frames that end with the TCP header, and then only the IP
/// header has the original length. If the TCP checksum is right for the shorter segment, nothing was
/// removed. A device that copies packets into a tunnel may cut them.
#[inline(never)]
fn may_end_later(network: &Network, bytes: &[u8], at: usize, payload: Payload) -> bool {
    let is_shorter =
        || bytes.get(at..payload.end).is_some_and(|it| checksum::is_right(network, it));
    network.facts & SegmentFlags::TUNNELLED != 0 || payload.at == payload.end && !is_shorter()
}

/// Decodes the segment that begins at `at` of `bytes` and ends, on the wire, at the first of
/// `ends`. The second is the end stated by the IP header, if that is after the end of the frame: it
/// counts if it [may](may_end_later), and otherwise the packet is damaged.
pub(super) fn segment(
    origin: Origin,
    network: &Network,
    bytes: &[u8],
    at: usize,
    [end, claimed_end]: [usize; 2],
    output: &mut Output<'_>,
) -> Result<(), DecodeError> {
    let captured_end = bytes.len().min(end);
    let Some(header) = bytes.get(at..captured_end).and_then(|rest| rest.first_chunk::<FIXED_LEN>())
    else {
        let short_on_the_wire = end < at + FIXED_LEN;
        return Err(if short_on_the_wire {
            DecodeError::TcpHeaderLength
        } else {
            DecodeError::TcpTruncated
        });
    };
    let header_len = header_len(header);
    let mut payload = Payload { at: at + header_len, captured_end, end };
    if header_len < FIXED_LEN || payload.at > end {
        return Err(DecodeError::TcpHeaderLength);
    }
    if claimed_end > end {
        if !may_end_later(network, bytes, at, payload) {
            return Err(DecodeError::IpLength);
        }
        if payload.at == end {
            payload.end = claimed_end;
        }
    }
    let mut network = *network;
    if payload.at > captured_end {
        network.facts |= SegmentFlags::TRUNCATED_HEADER;
    }
    if is_padding(&network, header, bytes, &payload) {
        payload = payload.none();
    }
    let options = bytes.get(at + FIXED_LEN..payload.at.min(captured_end)).unwrap_or_default();
    write(&network, header, options, payload, output.segment);
    if output.segment.flags.has(TcpFlags::SYN) {
        set_checksum_error(&network, bytes, at, payload, output.segment);
    }
    set_way(&output.hasher.way(&network, ports(header)), output.segment);
    (output.segment.time_ns, output.segment.frame) = (origin.time_ns, origin.frame);
    Ok(())
}

/// Verifies the checksum of a SYN that was captured completely.
#[inline(never)]
fn set_checksum_error(
    network: &Network,
    bytes: &[u8],
    at: usize,
    payload: Payload,
    segment: &mut Segment,
) {
    let is_whole = payload.captured_end == payload.end
        && !segment.facts.has(SegmentFlags::LENGTH_FROM_FRAME)
        && !segment.facts.has(SegmentFlags::TRUNCATED_HEADER);
    if let Some(transport) = bytes.get(at..payload.end).filter(|_| is_whole) {
        segment.checksum_error = checksum::error(network, transport, CHECKSUM_AT);
    }
}

#[inline(always)]
fn header_len(header: &[u8; FIXED_LEN]) -> usize {
    usize::from(header[12] >> 4) * 4
}

/// Returns the source and the destination port.
#[inline(always)]
fn ports(header: &[u8; FIXED_LEN]) -> [u16; 2] {
    let both = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    [(both >> 16) as u16, both as u16]
}

/// Writes all fields of a segment's record except its [way](set_way) and origin, whatever they
/// contained before. Each field is written as soon as it is known: keeping all of them would need
/// more registers than there are.
#[inline(always)]
fn write(
    network: &Network,
    header: &[u8; FIXED_LEN],
    options: &[u8],
    payload: Payload,
    segment: &mut Segment,
) {
    let Segment {
        time_ns: _,
        frame: _,
        flow_hash: _,
        flow: _,
        facts,
        checksum_error,
        seq,
        ack,
        payload_len,
        payload_offset,
        captured_len,
        tsval,
        tsecr,
        sack,
        mss,
        window_scale,
        sack_count,
        window,
        ip_id,
        flags,
        ttl,
    } = &mut *segment;
    *payload_len = (payload.end - payload.at) as u32;
    *payload_offset = payload.at.min(payload.captured_end) as u32;
    *captured_len = payload.captured_end.saturating_sub(payload.at) as u32;
    facts.0 = network.facts;
    *checksum_error = 0;
    *ip_id = network.ip_id;
    *ttl = network.ttl;
    *seq = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    *ack = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    *flags = TcpFlags(header[13]);
    *window = u16::from_be_bytes([header[14], header[15]]);
    (*tsval, *tsecr, *sack) = (0, 0, [SackBlock::default(); 3]);
    (*mss, *window_scale, *sack_count) = (0, 0, 0);
    match options.first_chunk() {
        Some(usual) if options.len() == usual.len() && begins_timestamps(usual) => {
            set_timestamps(&usual[4..], segment);
        }
        _ if options.is_empty() => {}
        _ => walk_options(options, segment),
    }
}

/// Writes flow, hash and direction of a segment.
#[inline(always)]
pub(super) fn set_way(way: &Way, segment: &mut Segment) {
    segment.flow = way.flow;
    segment.flow_hash = way.hash;
    segment.facts.0 |= u32::from(way.from_high) * SegmentFlags::FROM_HIGH;
}

/// Recognises `NOP NOP TS 10`, the layout of nearly every segment after the SYN (RFC 7323 appendix
/// A).
#[inline(always)]
fn begins_timestamps(options: &[u8; 12]) -> bool {
    u32::from_be_bytes([options[0], options[1], options[2], options[3]]) == 0x0101_080a
}

#[inline(always)]
fn set_timestamps(value: &[u8], segment: &mut Segment) {
    if let Some(&[a, b, c, d, e, f, g, h]) = value.first_chunk() {
        segment.tsval = u32::from_be_bytes([a, b, c, d]);
        segment.tsecr = u32::from_be_bytes([e, f, g, h]);
        segment.facts.0 |= SegmentFlags::TIMESTAMPS;
    }
}

/// Parses options in any order, up to the first that is invalid, after which no boundaries are
/// known.
#[inline(never)]
fn walk_options(mut options: &[u8], segment: &mut Segment) {
    while let Some((&kind, rest)) = options.split_first() {
        match kind {
            0 => return,
            1 => options = rest,
            _ => {
                let Some(&len) = rest.first() else { return };
                let Some(value) = options.get(2..usize::from(len)) else { return };
                set_option(kind, value, segment);
                options = options.get(usize::from(len)..).unwrap_or_default();
            }
        }
    }
}

fn set_option(kind: u8, value: &[u8], segment: &mut Segment) {
    // RFC 9293 §3.2, RFC 7323 §2.2, RFC 2018 §2: these three are valid in a SYN only. Fast Open
    // and Multipath TCP matter there.
    let syn = segment.flags.has(TcpFlags::SYN);
    match (kind, value) {
        (2, &[high, low]) if syn => {
            segment.mss = u16::from_be_bytes([high, low]);
            segment.facts.0 |= SegmentFlags::MSS;
        }
        (3, &[shift]) if syn => {
            segment.window_scale = shift.min(WINDOW_SCALE_MAX);
            segment.facts.0 |= SegmentFlags::WINDOW_SCALE;
        }
        (4, &[]) if syn => segment.facts.0 |= SegmentFlags::SACK_PERMITTED,
        (34, _) if syn => segment.facts.0 |= SegmentFlags::FAST_OPEN,
        (254, value) if syn && value.starts_with(&FAST_OPEN_ID) => {
            segment.facts.0 |= SegmentFlags::FAST_OPEN;
        }
        (30, _) if syn => segment.facts.0 |= SegmentFlags::MULTIPATH,
        (5, blocks) => set_sack(blocks, segment),
        (8, value) if value.len() == 8 => set_timestamps(value, segment),
        _ => {}
    }
}

fn set_sack(blocks: &[u8], segment: &mut Segment) {
    segment.sack_count = 0;
    for (slot, block) in segment.sack.iter_mut().zip(blocks.chunks_exact(8)) {
        if let Some(&[a, b, c, d, e, f, g, h]) = block.first_chunk() {
            *slot = SackBlock {
                left: u32::from_be_bytes([a, b, c, d]),
                right: u32::from_be_bytes([e, f, g, h]),
            };
            segment.sack_count += 1;
        }
    }
}
