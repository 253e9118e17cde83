//! The TCP header and its options (RFC 9293 §3.1–3.2, RFC 7323, RFC 2018). Checksums are not
//! verified: with offload, what is captured at the sender has none yet.

use super::ip::Network;
use super::walk::{Origin, Output};
use super::{DecodeError, Endpoint, FlowKey, SackBlock, Segment, SegmentFlags, TcpFlags};

/// Length of the header without options, bytes.
const FIXED_LEN: usize = 20;
/// RFC 7323 §2.3: a larger shift count is to be taken as 14.
const WINDOW_SCALE_MAX: u8 = 14;
/// `NOP NOP TS 10`: the layout that nearly every segment after the SYN has (RFC 7323 appendix A).
const NOP_NOP_TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];

/// Decodes the segment that begins at `at` of `bytes` and ends, on the wire, at `end`.
#[inline(always)]
pub(super) fn segment(
    origin: Origin,
    network: &Network,
    bytes: &[u8],
    at: usize,
    end: usize,
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
    let header_len = usize::from(header[12] >> 4) * 4;
    let payload_at = at + header_len;
    if header_len < FIXED_LEN || payload_at > end {
        return Err(DecodeError::TcpHeaderLength);
    }

    let source = (network.source, u16::from_be_bytes([header[0], header[1]]));
    let destination = (network.destination, u16::from_be_bytes([header[2], header[3]]));
    let from_high = source > destination;
    let (low, high) = if from_high { (destination, source) } else { (source, destination) };
    let segment = &mut *output.segment;
    *segment = Segment {
        time_ns: origin.time_ns,
        frame: origin.frame,
        flow_hash: output.hasher.hash_ordered(low, high),
        flow: FlowKey { low: Endpoint::at(low.0, low.1), high: Endpoint::at(high.0, high.1) },
        facts: SegmentFlags(network.facts | (u16::from(from_high) * SegmentFlags::FROM_HIGH)),
        seq: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        ack: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        payload_len: (end - payload_at) as u32,
        payload_offset: payload_at.min(captured_end) as u32,
        captured_len: captured_end.saturating_sub(payload_at) as u32,
        window: u16::from_be_bytes([header[14], header[15]]),
        ip_id: network.ip_id,
        flags: TcpFlags(header[13]),
        ttl: network.ttl,
        ..Segment::default()
    };
    if header_len > FIXED_LEN {
        if payload_at > captured_end {
            segment.facts.0 |= SegmentFlags::TRUNCATED_HEADER;
        }
        let options = bytes.get(at + FIXED_LEN..payload_at.min(captured_end)).unwrap_or_default();
        decode_options(options, segment);
    }
    Ok(())
}

#[inline(always)]
fn decode_options(options: &[u8], segment: &mut Segment) {
    match options.first_chunk::<12>() {
        Some(layout) if options.len() == 12 && layout[..4] == NOP_NOP_TIMESTAMPS => {
            set_timestamps(&layout[4..], segment);
        }
        _ => walk_options(options, segment),
    }
}

fn set_timestamps(value: &[u8], segment: &mut Segment) {
    if let Some(&[a, b, c, d, e, f, g, h]) = value.first_chunk() {
        segment.tsval = u32::from_be_bytes([a, b, c, d]);
        segment.tsecr = u32::from_be_bytes([e, f, g, h]);
        segment.facts.0 |= SegmentFlags::TIMESTAMPS;
    }
}

/// Options in any order, up to the first that is impossible: what follows it has no beginning.
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
    // RFC 9293 §3.2, RFC 7323 §2.2, RFC 2018 §2: these three mean something in a SYN only.
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
