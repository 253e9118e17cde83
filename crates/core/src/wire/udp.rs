//! The UDP header (RFC 768): DNS and QUIC are returned, tunnels are followed, the rest is counted, SIP by
//! itself.

use super::ip::Network;
use super::walk::{ParsedHeader, Walk};
use super::{Datagram, DecodeError, Endpoint, Other, Packet, SegmentFlags, checksum, quic};

pub(super) const HEADER_LEN: usize = 8;
/// Position of the checksum in the header.
const CHECKSUM_AT: usize = 6;
/// Longest datagram with a SYN in it, bytes: UDP, Geneve with all its options (RFC 8926 §3.5),
/// Ethernet with a VLAN tag, IPv6 and TCP with all its options.
const LONGEST_WITH_SYN: usize = 8 + 8 + 252 + 18 + 40 + 60;
const DNS: u16 = 53;
/// IANA's port, and the earlier one of Linux.
const VXLAN: [u16; 2] = [4789, 8472];
const GENEVE: u16 = 6081;

pub(super) fn datagram<'a>(
    walk: &mut Walk<'a>,
    network: &Network,
) -> Result<ParsedHeader<'a>, DecodeError> {
    let [s, o, d, e, l, n, _, _] = *walk.header(DecodeError::UdpTruncated)?;
    let source = u16::from_be_bytes([s, o]);
    let destination = u16::from_be_bytes([d, e]);
    let length = usize::from(u16::from_be_bytes([l, n]));
    if length != 0 {
        if length < HEADER_LEN {
            return Err(DecodeError::UdpLength);
        }
        // The header's length is used even if it exceeds the IP packet: if only the first fragment
        // of a datagram was captured, no other field has its length.
        walk.set_len(length);
    }
    let whole = walk.rest();
    walk.skip(HEADER_LEN, DecodeError::UdpTruncated)?;

    let datagram = Datagram {
        time_ns: walk.origin.time_ns,
        frame: walk.origin.frame,
        source: Endpoint::at(network.source, source),
        destination: Endpoint::at(network.destination, destination),
        payload: walk.rest(),
        payload_len: (walk.end - walk.at) as u32,
        ttl: network.ttl,
    };
    if source == DNS || destination == DNS {
        return Ok(ParsedHeader::Done(Packet::Udp(datagram)));
    }
    // Both ends of a tunnel send to its port. A load balancer or a translation may return what it
    // sends back from there: without the port, the header has to be beyond doubt.
    let is_to = |ports: &[u16]| ports.contains(&destination);
    let is_from = |ports: &[u16]| ports.contains(&source);
    let tunnel = if is_to(&VXLAN) || !is_to(&[GENEVE]) && is_from(&VXLAN) {
        walk.vxlan(!is_to(&VXLAN))?
    } else if is_to(&[GENEVE]) || is_from(&[GENEVE]) {
        walk.geneve(!is_to(&[GENEVE]))?
    } else {
        None
    };
    let may_carry_syn = tunnel.is_some() && length == whole.len() && length <= LONGEST_WITH_SYN;
    if may_carry_syn && checksum::error(network, whole, CHECKSUM_AT) != 0 {
        walk.facts |= SegmentFlags::WRONG_TUNNEL_CHECKSUM;
    }
    Ok(match tunnel {
        Some(tunnel) => ParsedHeader::Tunnel(tunnel),
        None => ParsedHeader::Done(other(datagram)),
    })
}

/// Returns a datagram that is neither DNS nor a tunnel.
fn other(datagram: Datagram<'_>) -> Packet<'_> {
    let (payload, length) = (datagram.payload, datagram.payload_len as usize);
    if quic::begins_long(payload, length) {
        Packet::Quic(datagram)
    } else if begins_sip(payload) {
        Packet::Other(Other::Sip)
    } else if quic::may_be_short(payload, length) {
        Packet::MayBeQuic(datagram)
    } else {
        Packet::Other(Other::Udp)
    }
}

/// Returns whether `payload` begins with the start line of a SIP message (RFC 3261 §7.1, §7.2): a method
/// and a URI of one of its schemes, or the version of a response.
fn begins_sip(payload: &[u8]) -> bool {
    const SCHEMES: [&[u8]; 3] = [b"sip:", b"sips:", b"tel:"];
    if payload.starts_with(b"SIP/2.0 ") {
        return true;
    }
    let method = payload.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let uri = payload.get(method..).and_then(|rest| rest.strip_prefix(b" "));
    method > 0 && uri.is_some_and(|uri| SCHEMES.iter().any(|scheme| uri.starts_with(scheme)))
}

#[cfg(test)]
mod tests {
    use super::begins_sip;

    #[test]
    fn a_start_line_of_sip_is_no_other_line() {
        let sip: [&[u8]; 4] = [
            b"INVITE sip:a@b SIP/2.0\r\n",
            b"REGISTER sips:b SIP/2.0\r\n",
            b"SIP/2.0 403 Forbidden\r\n",
            b"REFER tel:+1 SIP/2.0\r\n",
        ];
        assert!(sip.into_iter().all(begins_sip));
        let others: [&[u8]; 5] =
            [b"NOTIFY * HTTP/1.1\r\n", b" sip:a", b"invite sip:a", b"SIP/1.0 200", b"INVITE"];
        assert!(!others.into_iter().any(begins_sip));
    }
}
