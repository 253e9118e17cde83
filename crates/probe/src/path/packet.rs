//! Composes and parses the packets of probes: SYN (RFC 9293 §3.1), echo request (RFC 792, RFC 4443
//! §4.1), datagram.

use std::net::{IpAddr, SocketAddr};

/// The flags of a TCP header.
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// The first bytes of the payload of datagrams and echo requests; the number of the probe follows.
const MAGIC: [u8; 4] = *b"tcpw";
/// Number of payload bytes of a probe that does not test sizes.
pub const PAYLOAD_BYTES: usize = 32;

const ECHO_REQUEST_V4: u8 = 8;
const ECHO_REPLY_V4: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;

/// The answer of the target to a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynAnswer {
    /// SYN-ACK.
    Accepted,
    /// RST.
    Refused,
}

/// Returns the one's complement sum (RFC 1071).
fn sum(bytes: &[u8], from: u32) -> u32 {
    let mut pairs = bytes.chunks_exact(2);
    let mut sum: u32 = pairs.by_ref().map(|it| u32::from(u16::from_be_bytes([it[0], it[1]]))).sum();
    if let [last] = pairs.remainder() {
        sum += u32::from(*last) << 8;
    }
    from + sum
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the sum of the pseudo-header of TCP (RFC 9293 §3.1, RFC 8200 §8.1).
fn pseudo(source: IpAddr, target: IpAddr, length: usize) -> u32 {
    const TCP: u32 = 6;
    let addresses = match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => sum(&target.octets(), sum(&source.octets(), 0)),
        (IpAddr::V6(source), IpAddr::V6(target)) => sum(&target.octets(), sum(&source.octets(), 0)),
        _ => 0,
    };
    addresses + TCP + length as u32
}

/// Returns a SYN with sequence number `seq` and an MSS option, as a host would send it.
pub fn syn(source: SocketAddr, target: SocketAddr, seq: u32) -> Vec<u8> {
    const WORDS: u8 = 6;
    let mss: u16 = if target.is_ipv4() { 1_460 } else { 1_440 };
    let mut segment = Vec::with_capacity(usize::from(WORDS) * 4);
    segment.extend(source.port().to_be_bytes());
    segment.extend(target.port().to_be_bytes());
    segment.extend(seq.to_be_bytes());
    segment.extend(0_u32.to_be_bytes());
    segment.extend([WORDS << 4, SYN]);
    segment.extend(64_240_u16.to_be_bytes());
    // Checksum and urgent pointer, then the option: kind 2, 4 bytes.
    segment.extend([0, 0, 0, 0, 2, 4]);
    segment.extend(mss.to_be_bytes());
    let checksum = !folded(sum(&segment, pseudo(source.ip(), target.ip(), segment.len())));
    segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    segment
}

/// Parses the answer to a SYN from `source`; returns it with the sequence number of that SYN. For
/// IPv4, raw sockets pass the whole packet.
pub fn syn_answer(
    packet: &[u8],
    (source, target): (SocketAddr, SocketAddr),
) -> Option<(u32, SynAnswer)> {
    let segment = if target.is_ipv4() { behind_ipv4(packet)? } else { packet };
    let header: &[u8; 20] = segment.first_chunk()?;
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    if port(0) != target.port() || port(2) != source.port() {
        return None;
    }
    let ack = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    let flags = header[13];
    let answer = match (flags & RST != 0, flags & (SYN | ACK) == SYN | ACK) {
        (true, _) => SynAnswer::Refused,
        (_, true) => SynAnswer::Accepted,
        _ => return None,
    };
    // A SYN consumes one sequence number (RFC 9293 §3.4).
    Some((ack.wrapping_sub(1), answer))
}

/// Returns the sequence number of a SYN that an ICMP error quotes.
pub fn quoted_seq(quoted: &[u8]) -> Option<u32> {
    let bytes: &[u8; 8] = quoted.first_chunk()?;
    Some(u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]))
}

/// Returns an echo request. Its payload compensates for the number in the checksum, because routers
/// may choose paths by the first bytes of ICMP, which are therefore the same in all requests.
pub fn echo_request(target: IpAddr, id: u16, number: u16, bytes: usize) -> Vec<u8> {
    let kind = if target.is_ipv4() { ECHO_REQUEST_V4 } else { ECHO_REQUEST_V6 };
    let mut message = vec![kind, 0, 0, 0];
    message.extend(id.to_be_bytes());
    message.extend(number.to_be_bytes());
    message.extend((!number).to_be_bytes());
    message.extend(MAGIC);
    message.resize((8 + bytes).max(message.len()), 0);
    if target.is_ipv4() {
        let checksum = !folded(sum(&message, 0));
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    message
}

/// Returns the id and number of an echo reply. Raw IPv4 sockets pass the message after the IP
/// header.
pub fn echo_reply(message: &[u8], target: IpAddr) -> Option<(u16, u16)> {
    let kind = if target.is_ipv4() { ECHO_REPLY_V4 } else { ECHO_REPLY_V6 };
    (message.first() == Some(&kind)).then(|| quoted_echo(message))?
}

/// Returns the id and number of an echo message, or of one that an ICMP error quotes.
pub fn quoted_echo(message: &[u8]) -> Option<(u16, u16)> {
    let header: &[u8; 8] = message.first_chunk()?;
    let pair = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    Some((pair(4), pair(6)))
}

/// Returns the payload of a datagram.
pub fn datagram(number: u16, bytes: usize) -> Vec<u8> {
    let mut payload = MAGIC.to_vec();
    payload.extend(number.to_be_bytes());
    payload.resize(bytes.max(payload.len()), 0);
    payload
}

/// Returns the number of a datagram that an ICMP error quotes; routers may quote no payload at all.
pub fn quoted_datagram(payload: &[u8]) -> Option<u16> {
    let bytes: &[u8; 6] = payload.first_chunk()?;
    (bytes[..4] == MAGIC).then(|| u16::from_be_bytes([bytes[4], bytes[5]]))
}

/// Returns the payload of an IPv4 packet.
pub fn behind_ipv4(packet: &[u8]) -> Option<&[u8]> {
    let words = usize::from(packet.first()? & 0x0f);
    packet.get(words * 4..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_syns_are_right() {
        for (source, target) in
            [("192.0.2.1:4000", "192.0.2.2:80"), ("[2001:db8::1]:4000", "[2001:db8::2]:80")]
        {
            let (source, target): (SocketAddr, SocketAddr) =
                (source.parse().unwrap(), target.parse().unwrap());
            let segment = syn(source, target, 0x0102_0304);
            let whole = sum(&segment, pseudo(source.ip(), target.ip(), segment.len()));
            assert_eq!(folded(whole), 0xffff, "{target}");
            assert_eq!(quoted_seq(&segment), Some(0x0102_0304));
        }
    }

    #[test]
    fn all_echo_requests_have_one_checksum() {
        let target = "192.0.2.1".parse().unwrap();
        let checksum = |number| echo_request(target, 7, number, PAYLOAD_BYTES)[2..4].to_vec();
        assert_eq!(checksum(1), checksum(2));
        assert_eq!(checksum(1), checksum(0xfffe));
    }

    #[test]
    fn answers_to_other_ports_are_ignored() {
        let (source, target) = ("192.0.2.1:4000".parse().unwrap(), "192.0.2.2:80".parse().unwrap());
        let mut packet = vec![0x45; 20];
        let mut segment = syn(target, source, 9);
        segment[8..12].copy_from_slice(&78_u32.to_be_bytes());
        segment[13] = SYN | ACK;
        packet.extend(&segment);
        assert_eq!(syn_answer(&packet, (source, target)), Some((77, SynAnswer::Accepted)));
        let other = "192.0.2.1:4001".parse().unwrap();
        assert_eq!(syn_answer(&packet, (other, target)), None);
        packet[33] = RST | ACK;
        assert_eq!(syn_answer(&packet, (source, target)), Some((77, SynAnswer::Refused)));
        assert_eq!(syn_answer(&packet[..30], (source, target)), None);
    }
}
