//! One frame: addresses become pseudonyms, and correct checksums remain correct.

use super::Names;
use crate::capture::Frame;
use crate::wire::{Header, HeaderKind, Layout, protocol};
use std::ops::Range;

const IPV4_FIXED: usize = 20;
const IPV6_FIXED: usize = 40;
const TCP_FIXED: usize = 20;
const MAC_BYTES: usize = 6;
/// TCP options that do not identify the sender: MSS, window scale, SACK, timestamps.
const TCP_OPTIONS_KEPT: [u8; 5] = [2, 3, 4, 5, 8];

/// Changes the headers in `bytes`, a copy of the frame's bytes.
pub(super) fn change_headers(layout: &Layout, bytes: &mut [u8], names: &Names) {
    for header in &layout.headers {
        let range = header.begin..header.end;
        match header.kind {
            HeaderKind::Ethernet => {
                for at in [header.begin, header.begin + MAC_BYTES] {
                    mac(bytes, at..at + MAC_BYTES, names);
                }
            }
            // The address has the length stated before it, and takes eight bytes.
            HeaderKind::Sll => {
                cooked(bytes, header.begin + 4..header.begin + 6, header.begin + 6, names)
            }
            HeaderKind::Sll2 => {
                cooked(bytes, header.begin + 11..header.begin + 12, header.begin + 12, names)
            }
            HeaderKind::Ipv4 => ipv4(&mut bytes[range], names),
            HeaderKind::Ipv6 => ipv6(&mut bytes[range], names),
            HeaderKind::Tcp => tcp_options(&mut bytes[range]),
            HeaderKind::Plain | HeaderKind::Udp | HeaderKind::Icmp => {}
        }
    }
}

fn mac(bytes: &mut [u8], at: Range<usize>, names: &Names) {
    if let Some(address) = bytes.get_mut(at).and_then(<[u8]>::first_chunk_mut::<MAC_BYTES>) {
        *address = names.mac(*address);
    }
}

fn cooked(bytes: &mut [u8], length: Range<usize>, at: usize, names: &Names) {
    const ROOM: usize = 8;
    let length = bytes[length].iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let begin = if length == MAC_BYTES { at + MAC_BYTES } else { at };
    if length == MAC_BYTES {
        mac(bytes, at..at + MAC_BYTES, names);
    }
    bytes[begin..at + ROOM].fill(0);
}

fn ipv4(header: &mut [u8], names: &Names) {
    let (fixed, behind) = header.split_at_mut(IPV4_FIXED);
    for at in [12, 16] {
        if let Some(address) = fixed[at..].first_chunk_mut::<4>() {
            *address = names.ipv4(u32::from_be_bytes(*address)).to_be_bytes();
        }
    }
    // Options, some of which contain addresses; possibly followed by an authentication header.
    let options = (usize::from(fixed[0] & 0xf) * 4).saturating_sub(IPV4_FIXED).min(behind.len());
    behind[..options].fill(0);
    extensions(fixed[9], &mut behind[options..]);
}

fn ipv6(header: &mut [u8], names: &Names) {
    let (fixed, behind) = header.split_at_mut(IPV6_FIXED);
    for at in [8, 24] {
        if let Some(address) = fixed[at..].first_chunk_mut::<16>() {
            *address = names.address(*address);
        }
    }
    extensions(fixed[6], behind);
}

/// Keeps next header and length of extension headers, and all of a fragment header.
fn extensions(mut kind: u8, mut rest: &mut [u8]) {
    while let [next, length, ..] = *rest {
        let bytes = match kind {
            protocol::FRAGMENT => 8,
            protocol::AUTHENTICATION => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        let (header, behind) = rest.split_at_mut(bytes.min(rest.len()));
        if kind != protocol::FRAGMENT {
            header[2..].fill(0);
        }
        (kind, rest) = (next, behind);
    }
}

/// Clears options of other kinds, which may contain cookies, keys and addresses.
fn tcp_options(header: &mut [u8]) {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    let mut at = TCP_FIXED;
    while let Some(&kind) = header.get(at) {
        if kind == NO_OPERATION {
            at += 1;
            continue;
        }
        let length = header.get(at + 1).map_or(0, |it| usize::from(*it));
        let is_damaged = length < 2 || at + length > header.len();
        if kind == END || is_damaged {
            // The snap length may have truncated a damaged option.
            let keeps = is_damaged && TCP_OPTIONS_KEPT.contains(&kind);
            return if keeps {
            } else {
                header[at..].fill(0)
            };
        }
        if !TCP_OPTIONS_KEPT.contains(&kind) {
            header[at + 2..at + length].fill(0);
        }
        at += length;
    }
}

/// Updates each checksum for the changes of the bytes that it covers (RFC 1624), so that a correct
/// one remains correct and a wrong one wrong.
pub(super) fn set_checksums(frame: &Frame<'_>, layout: &Layout, bytes: &mut [u8]) {
    for (index, header) in layout.headers.iter().enumerate().rev() {
        let around = index.checked_sub(1).and_then(|it| layout.headers.get(it));
        let pseudo = around.and_then(addresses);
        let all = header.begin..header.packet_end;
        let (at, ranges) = match header.kind {
            HeaderKind::Ipv4 => {
                let end = header.begin + usize::from(bytes[header.begin] & 0xf) * 4;
                (10, [Some(header.begin..end), None])
            }
            HeaderKind::Tcp => (16, [Some(all), pseudo]),
            HeaderKind::Udp => (6, [Some(all), pseudo]),
            // ICMP of IPv4 has no pseudo-header.
            HeaderKind::Icmp => {
                let is_v6 = around.is_some_and(|it| it.kind == HeaderKind::Ipv6);
                (2, [Some(all), pseudo.filter(|_| is_v6)])
            }
            _ => continue,
        };
        let at = header.begin + at;
        let Some(&checksum) = bytes.get(at..header.packet_end).and_then(<[u8]>::first_chunk) else {
            continue;
        };
        // Zero means a datagram without a checksum (RFC 768).
        if header.kind == HeaderKind::Udp && checksum == [0, 0] {
            continue;
        }
        let ranges = ranges.into_iter().flatten();
        let changed = ranges.fold(u64::from(!u16::from_be_bytes(checksum)), |sum, range| {
            sum + u64::from(!fold(total(&frame.bytes[range.clone()]))) + total(&bytes[range])
        });
        let mut checksum = !fold(changed);
        if header.kind == HeaderKind::Udp && checksum == 0 {
            checksum = u16::MAX;
        }
        bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Returns the range of an IP header's addresses, which are part of the checksums of its payload.
fn addresses(header: &Header) -> Option<Range<usize>> {
    match header.kind {
        HeaderKind::Ipv4 => Some(header.begin + 12..header.begin + 20),
        HeaderKind::Ipv6 => Some(header.begin + 8..header.begin + 40),
        _ => None,
    }
}

fn total(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let sum: u64 = words.by_ref().map(|it| u64::from(u16::from_be_bytes([it[0], it[1]]))).sum();
    sum + words.remainder().first().map_or(0, |&last| u64::from(last) << 8)
}

/// Returns a sum in ones' complement.
fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
