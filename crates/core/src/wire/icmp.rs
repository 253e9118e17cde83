//! ICMP (RFC 792) and ICMPv6 (RFC 4443) errors, and the packet they quote.

use super::ip::{Inner, Network, protocol};
use super::walk::Walk;
use super::{DecodeError, Endpoint, FlowHasher, FlowKey, IcmpError, IcmpErrorKind, Other, Packet};

const HEADER_LEN: usize = 8;

pub(super) fn error<'a>(
    walk: &mut Walk<'a>,
    network: &Network,
    hasher: &FlowHasher,
) -> Result<Packet<'a>, DecodeError> {
    let header: &[u8; HEADER_LEN] = walk.header(DecodeError::IcmpTruncated)?;
    let Some(kind) = kind(network.protocol, header) else { return Ok(Packet::Other(Other::Icmp)) };
    walk.skip(HEADER_LEN, DecodeError::IcmpTruncated)?;
    let quoted = match walk.ip().map_err(|_| DecodeError::IcmpTruncated)? {
        Inner::Whole(quoted) => quoted,
        Inner::Piece(first) if first.offset == 0 => first.network,
        Inner::Piece(_) => return Ok(Packet::Other(Other::Icmp)),
    };
    if !matches!(quoted.protocol, protocol::TCP | protocol::UDP) {
        return Ok(Packet::Other(Other::Icmp));
    }
    let [a, b, c, d, e, f, g, h] = *walk.header(DecodeError::IcmpTruncated)?;
    let source = Endpoint::at(quoted.source, u16::from_be_bytes([a, b]));
    let destination = Endpoint::at(quoted.destination, u16::from_be_bytes([c, d]));
    let (flow, from_high) = FlowKey::new(source, destination);
    Ok(Packet::IcmpError(IcmpError {
        time_ns: walk.origin.time_ns,
        frame: walk.origin.frame,
        kind,
        reporter: Endpoint::at(network.source, 0),
        protocol: quoted.protocol,
        flow,
        flow_hash: hasher.hash(&flow),
        from_high,
        seq: (quoted.protocol == protocol::TCP).then_some(u32::from_be_bytes([e, f, g, h])),
    }))
}

/// Returns whether a message of `protocol` that begins with `header` quotes a packet.
pub(super) fn is_error(of: u8, header: &[u8; HEADER_LEN]) -> bool {
    kind(of, header).is_some()
}

fn kind(of: u8, header: &[u8; HEADER_LEN]) -> Option<IcmpErrorKind> {
    if of == protocol::ICMP { kind_v4(header) } else { kind_v6(header) }
}

/// RFC 792; code 4 with the MTU by RFC 1191 §4; the prohibitions by RFC 1812 §5.2.7.1.
fn kind_v4(header: &[u8; HEADER_LEN]) -> Option<IcmpErrorKind> {
    let mtu = u32::from(u16::from_be_bytes([header[6], header[7]]));
    match (header[0], header[1]) {
        (3, 3) => Some(IcmpErrorKind::PortUnreachable),
        (3, 4) => Some(IcmpErrorKind::PacketTooBig { mtu }),
        (3, 9 | 10 | 13) => Some(IcmpErrorKind::Prohibited),
        (3, _) => Some(IcmpErrorKind::Unreachable),
        (11, _) => Some(IcmpErrorKind::TimeExceeded),
        (12, _) => Some(IcmpErrorKind::ParameterProblem),
        _ => None,
    }
}

/// RFC 4443 §3.
fn kind_v6(header: &[u8; HEADER_LEN]) -> Option<IcmpErrorKind> {
    let mtu = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    match (header[0], header[1]) {
        (1, 4) => Some(IcmpErrorKind::PortUnreachable),
        (1, 1 | 5 | 6) => Some(IcmpErrorKind::Prohibited),
        (1, _) => Some(IcmpErrorKind::Unreachable),
        (2, _) => Some(IcmpErrorKind::PacketTooBig { mtu }),
        (3, _) => Some(IcmpErrorKind::TimeExceeded),
        (4, _) => Some(IcmpErrorKind::ParameterProblem),
        _ => None,
    }
}
