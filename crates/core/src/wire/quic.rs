//! Headers of QUIC packets, as far as they are not protected (RFC 8999, RFC 9000 §17, RFC 9369 §3.2).

use crate::keys::QuicVersion;

/// Maximum length of a connection ID in the versions that are read, bytes (RFC 9000 §17.2).
const ID_MAX_BYTES: usize = 20;
/// Least length of a packet with a short header, bytes: one that is shorter is no valid packet (RFC
/// 9000 §10.3).
pub const SHORT_MIN_BYTES: usize = 21;
/// Least length of a datagram with an Initial packet of a client, bytes (RFC 9000 §14.1).
pub const INITIAL_DATAGRAM_MIN_BYTES: u32 = 1200;
/// Bytes of the integrity tag at the end of a Retry packet (RFC 9001 §5.8).
pub const RETRY_TAG_BYTES: usize = 16;

const LONG: u8 = 0x80;
/// Set in all packets but Version Negotiation (RFC 9000 §17.2), unless both sides agreed to vary it
/// (RFC 9287), which Initial packets never do before they know.
const FIXED: u8 = 0x40;
const SPIN: u8 = 0x20;

/// The type of a packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongKind {
    /// RFC 9000 §17.2.2.
    Initial,
    /// RFC 9000 §17.2.3.
    ZeroRtt,
    /// RFC 9000 §17.2.4.
    Handshake,
    /// RFC 9000 §17.2.5.
    Retry,
}

/// The header of a packet with a long header, of a version that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongHeader<'a> {
    /// The version.
    pub version: QuicVersion,
    /// The type of packet.
    pub kind: LongKind,
    /// The destination connection ID.
    pub destination_id: &'a [u8],
    /// The source connection ID.
    pub source_id: &'a [u8],
    /// The token of an Initial or a Retry packet.
    pub token: &'a [u8],
    /// The tag of a Retry packet.
    pub tag: &'a [u8],
    /// Position of the packet number, or of a Retry packet's tag, in the packet.
    pub number_at: usize,
    /// Length of the packet, bytes; more than was captured if the frame was cut.
    pub length: usize,
}

/// A packet in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicPacket<'a> {
    /// One with a long header.
    Long(LongHeader<'a>),
    /// Version Negotiation (RFC 9000 §17.2.1).
    VersionNegotiation {
        /// The destination connection ID.
        destination_id: &'a [u8],
        /// The source connection ID.
        source_id: &'a [u8],
        /// The versions that the server supports, four bytes each.
        versions: &'a [u8],
    },
    /// One with a long header of a version that is not read: only what RFC 8999 says of all versions is
    /// known.
    OtherVersion {
        /// The version.
        version: u32,
        /// The destination connection ID.
        destination_id: &'a [u8],
        /// The source connection ID.
        source_id: &'a [u8],
    },
    /// One with a short header, the last of a datagram (RFC 9000 §12.2, §17.3).
    Short {
        /// The spin bit (RFC 9000 §17.4).
        spin: bool,
    },
}

/// Returns whether a datagram may begin with a packet with a short header (RFC 9000 §17.3).
pub(super) fn may_be_short(payload: &[u8], payload_len: usize) -> bool {
    let has_form = payload.first().is_some_and(|first| first & (LONG | FIXED) == FIXED);
    has_form && payload_len >= SHORT_MIN_BYTES
}

/// Returns whether a datagram begins with a packet with a long header that is well-formed.
pub(super) fn begins_long(payload: &[u8], payload_len: usize) -> bool {
    let is_long = payload.first().is_some_and(|first| first & LONG != 0);
    is_long && packet(payload, payload_len).is_some()
}

/// Returns the packets of a datagram of `payload_len` bytes, of which `payload` was captured, each with
/// its position (RFC 9000 §12.2). It ends at what is no packet.
pub fn packets(
    payload: &[u8],
    payload_len: usize,
) -> impl Iterator<Item = (usize, QuicPacket<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let packet = packet(payload.get(at..)?, payload_len.checked_sub(at)?)?;
        let begin = at;
        at += match packet {
            QuicPacket::Long(header) => header.length,
            // Nothing follows the others.
            _ => payload_len,
        };
        Some((begin, packet))
    })
}

/// Reads the header of the packet at the beginning of `bytes`, of which there were `length` on the
/// wire.
fn packet(bytes: &[u8], length: usize) -> Option<QuicPacket<'_>> {
    let (&first, rest) = bytes.split_first()?;
    if first & LONG == 0 {
        let is_short = may_be_short(bytes, length);
        return is_short.then_some(QuicPacket::Short { spin: first & SPIN != 0 });
    }
    let (version, rest) = rest.split_first_chunk()?;
    let version = u32::from_be_bytes(*version);
    let (destination_id, rest) = connection_id(rest)?;
    let (source_id, rest) = connection_id(rest)?;
    if version == 0 {
        let is_list = !rest.is_empty() && rest.len() % 4 == 0 && bytes.len() == length;
        let negotiation =
            QuicPacket::VersionNegotiation { destination_id, source_id, versions: rest };
        return is_list.then_some(negotiation);
    }
    if first & FIXED == 0 {
        return None;
    }
    let Some(read) = QuicVersion::of(version) else {
        let other = QuicPacket::OtherVersion { version, destination_id, source_id };
        return is_other(version).then_some(other);
    };
    let mut header = LongHeader {
        version: read,
        kind: kind(read, first),
        destination_id,
        source_id,
        token: &[],
        tag: &[],
        number_at: bytes.len() - rest.len(),
        length,
    };
    if header.kind == LongKind::Retry {
        let token_bytes = rest.len().checked_sub(RETRY_TAG_BYTES)?;
        (header.token, header.tag) = rest.split_at(token_bytes);
        header.number_at += token_bytes;
        return (bytes.len() == length && token_bytes > 0).then_some(QuicPacket::Long(header));
    }
    let mut rest = rest;
    if header.kind == LongKind::Initial {
        let (token_bytes, behind) = varint(rest)?;
        (header.token, rest) = behind.split_at_checked(usize::try_from(token_bytes).ok()?)?;
    }
    let (remaining, rest) = varint(rest)?;
    header.number_at = bytes.len() - rest.len();
    header.length = header.number_at.checked_add(usize::try_from(remaining).ok()?)?;
    // The packet number has a byte or more, and a sample of 16 bytes stands 4 bytes behind its
    // beginning (RFC 9001 §5.4.2).
    (remaining >= 4 + 16 && header.length <= length).then_some(QuicPacket::Long(header))
}

/// Returns the type of a packet (RFC 9000 §17.2, RFC 9369 §3.2).
fn kind(version: QuicVersion, first: u8) -> LongKind {
    const KINDS: [LongKind; 4] =
        [LongKind::Initial, LongKind::ZeroRtt, LongKind::Handshake, LongKind::Retry];
    let bits = first >> 4 & 3;
    let place = match version {
        QuicVersion::V1 => bits,
        QuicVersion::V2 => bits.wrapping_sub(1) & 3,
    };
    KINDS[usize::from(place)]
}

/// Returns whether a version that is not read is one of QUIC: a draft of version 1 (RFC 9000 §22.1.2), or one that a
/// client names to make the server negotiate (§15).
fn is_other(version: u32) -> bool {
    version >> 8 == 0x00ff_0000 || version & 0x0f0f_0f0f == 0x0a0a_0a0a
}

fn connection_id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length)).filter(|(id, _)| id.len() <= ID_MAX_BYTES)
}

/// Reads an integer of variable length (RFC 9000 §16).
pub fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = 1 << (bytes.first()? >> 6);
    let (number, rest) = bytes.split_at_checked(length)?;
    let number = number.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
    Some((number & (u64::MAX >> (64 - 8 * length + 2)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_the_standard() {
        // RFC 9000 §A.1.
        let integers: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x40, 0x25], 37),
            (&[0x25], 37),
        ];
        for (bytes, number) in integers {
            assert_eq!(varint(bytes), Some((number, &[][..])));
            assert_eq!(varint(&bytes[..bytes.len() - 1]), None);
        }
    }

    /// A datagram with an Initial, a Handshake and a short packet.
    fn coalesced(version: u32, kinds: [u8; 2]) -> Vec<u8> {
        let mut datagram = Vec::new();
        for (place, kind) in kinds.into_iter().enumerate() {
            datagram.push(0xc0 | kind << 4);
            datagram.extend(version.to_be_bytes());
            datagram.extend([2, 7, 7, 1, 9]);
            if place == 0 {
                datagram.extend([3, 1, 2, 3]);
            }
            datagram.extend([0x40, 30]);
            datagram.extend([0; 30]);
        }
        datagram.extend([0x60; 25]);
        datagram
    }

    #[test]
    fn packets_of_one_datagram_are_read_one_after_the_other() {
        for (version, kinds) in [(1, [0, 2]), (0x6b33_43cf, [1, 3])] {
            let datagram = coalesced(version, kinds);
            let all: Vec<_> = packets(&datagram, datagram.len()).collect();
            let [(0, QuicPacket::Long(initial)), (46, QuicPacket::Long(handshake)), last] = all[..]
            else {
                panic!("{all:?}");
            };
            assert_eq!((initial.kind, handshake.kind), (LongKind::Initial, LongKind::Handshake));
            assert_eq!((initial.destination_id, initial.source_id), (&[7, 7][..], &[9][..]));
            assert_eq!((initial.token, initial.number_at), (&[1, 2, 3][..], 16));
            assert_eq!(last, (88, QuicPacket::Short { spin: true }));
        }
    }

    #[test]
    fn what_is_cut_by_the_capture_is_read_and_what_is_cut_on_the_wire_is_not() {
        let datagram = coalesced(1, [0, 2]);
        assert_eq!(packets(&datagram[..40], datagram.len()).count(), 1);
        assert_eq!(packets(&datagram[..40], 40).count(), 0);
        assert!(!begins_long(&[0x80, 0, 0, 0, 0, 21], 6), "an ID of more than 20 bytes");
        assert!(!begins_long(&[0x80, 0, 0, 0, 1, 0, 0, 0, 40], 60), "no fixed bit");
    }

    #[test]
    fn rtp_and_other_versions_are_no_quic() {
        let mut rtp = vec![0x80, 0x60, 0, 1, 0, 0, 0, 7];
        rtp.resize(172, 0xd5);
        assert!(!begins_long(&rtp, rtp.len()));
        let greased = [0xca, 0x1a, 0x2a, 0x3a, 0x4a, 1, 5, 0, 0];
        assert!(begins_long(&greased, greased.len()));
    }
}
