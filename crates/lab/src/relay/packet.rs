//! Parses as much of IP, TCP and UDP headers as is needed to choose packets and to log them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The header fields that the relay reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// TCP, UDP or something else, with their fields.
    pub transport: Transport,
}

/// The layer above IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram.
    Udp {
        /// Source port.
        source_port: u16,
        /// Destination port.
        destination_port: u16,
        /// Offset of the payload in the packet.
        payload_at: usize,
    },
    /// Any other protocol, by its IANA number.
    Other(u8),
}

/// A TCP segment's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Flag bits of RFC 9293 §3.1, FIN lowest.
    pub flags: u8,
    /// Payload bytes.
    pub payload_bytes: u32,
}

/// FIN flag.
pub const FIN: u8 = 0x01;
/// SYN flag.
pub const SYN: u8 = 0x02;
/// RST flag.
pub const RST: u8 = 0x04;
/// ACK flag.
pub const ACK: u8 = 0x10;

impl Header {
    /// Parses a packet that starts with its IP header; `None` if it is incomplete.
    pub fn parse(packet: &[u8]) -> Option<Header> {
        match packet.first()? >> 4 {
            4 => {
                let ihl = usize::from(packet[0] & 0xf) * 4;
                let address = |at: usize| {
                    let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
                    Some(IpAddr::V4(Ipv4Addr::from(octets)))
                };
                let transport = transport(packet, *packet.get(9)?, ihl)?;
                Some(Header { source: address(12)?, destination: address(16)?, transport })
            }
            6 => {
                let address = |at: usize| {
                    let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                    Some(IpAddr::V6(Ipv6Addr::from(octets)))
                };
                let transport = transport(packet, *packet.get(6)?, 40)?;
                Some(Header { source: address(8)?, destination: address(24)?, transport })
            }
            _ => None,
        }
    }
}

fn transport(packet: &[u8], protocol: u8, at: usize) -> Option<Transport> {
    let word = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
    Some(match protocol {
        6 => {
            let seq = u32::from_be_bytes(packet.get(at + 4..at + 8)?.try_into().ok()?);
            let data_at = at + usize::from(packet.get(at + 12)? >> 4) * 4;
            Transport::Tcp(Segment {
                source_port: word(at)?,
                destination_port: word(at + 2)?,
                seq,
                flags: *packet.get(at + 13)?,
                payload_bytes: packet.len().saturating_sub(data_at) as u32,
            })
        }
        17 => Transport::Udp {
            source_port: word(at)?,
            destination_port: word(at + 2)?,
            payload_at: at + 8,
        },
        other => Transport::Other(other),
    })
}

/// Returns the type of the first question of a DNS message (1 = A, 28 = AAAA, 12 = PTR) and whether
/// the message is an answer (RFC 1035 §4.1).
pub fn dns_question(message: &[u8]) -> Option<(u16, bool)> {
    let answer = message.get(2)? & 0x80 != 0;
    let mut at = 12;
    loop {
        match *message.get(at)? {
            0 => break,
            len => at += usize::from(len) + 1,
        }
    }
    Some((u16::from_be_bytes(message.get(at + 1..at + 3)?.try_into().ok()?), answer))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns an IPv4 TCP packet between two fixed hosts, from `port` to 80.
    pub(crate) fn tcp(port: u16, seq: u32, flags: u8, payload: usize) -> Vec<u8> {
        let mut p = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        p.extend(port.to_be_bytes());
        p.extend(80u16.to_be_bytes());
        p.extend(seq.to_be_bytes());
        p.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        p.resize(p.len() + payload, b'x');
        p
    }

    #[test]
    fn a_segment_is_read() {
        let header = Header::parse(&tcp(4000, 77, ACK, 9)).map(|h| h.transport);
        let want = Segment {
            source_port: 4000,
            destination_port: 80,
            seq: 77,
            flags: ACK,
            payload_bytes: 9,
        };
        assert_eq!(header, Some(Transport::Tcp(want)));
    }

    #[test]
    fn a_cut_packet_is_no_header() {
        let whole = tcp(4000, 77, ACK, 0);
        for len in 0..whole.len() - 7 {
            assert_eq!(Header::parse(&whole[..len]), None, "{len}");
        }
    }

    #[test]
    fn the_question_type_of_a_dns_query_is_read() {
        let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(b"\x01a\x02bc\x00\x00\x1c\x00\x01");
        assert_eq!(dns_question(&query), Some((28, false)));
        assert_eq!(dns_question(&query[..14]), None);
    }
}
