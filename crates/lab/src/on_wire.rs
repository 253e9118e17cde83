//! Measures when the packets of a request passed the client's end: the part of its duration that a
//! capture shows.
//!
//! A client's own clock also runs while its process starts and reads its configuration, and until a
//! busy host wakes it for the answer. Only times of packets are read here; they are not
//! interpreted.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;

use crate::client::Request;
use crate::error::{Doing, LabError};
use crate::relay::packet::{Header, SYN, Transport};

/// Largest error of a request's recorded start: a program that reports a duration is read later,
/// and the start is counted back from then.
const NOTED_LATE_NS: u64 = 20_000_000;

const DNS_PORT: u16 = 53;

/// Sets `on_wire_ns` of each request that had a connection, from the client's capture: the time
/// from its first packet, including a look-up's query, to the last data that arrived for it.
///
/// # Errors The capture cannot be read.
pub fn note(pcap: &Path, requests: &mut [Request]) -> Result<(), LabError> {
    let seen = read(pcap).doing(format!("read {}", pcap.display()))?;
    requests.sort_by_key(|request| request.start_ns);
    let mut free_from_ns: HashMap<Option<SocketAddr>, u64> = HashMap::new();
    for request in requests {
        let Ok(client) = request.client_endpoint.parse::<SocketAddr>() else { continue };
        let Some(packets) = seen.connections.get(&client) else { continue };
        let from = |key| {
            let free = free_from_ns.get(&key).copied().unwrap_or(0);
            free.max(request.start_ns.saturating_sub(NOTED_LATE_NS))
        };
        let mut first = packets.sent_ns.iter().find(|ns| **ns >= from(Some(client))).copied();
        if request.lookup_ns > 0 {
            let query = seen.queries_ns.iter().find(|ns| **ns >= from(None)).copied();
            first = first.map(|ns| ns.min(query.unwrap_or(ns)));
        }
        let last = packets.received_ns.iter().rfind(|ns| **ns <= request.end_ns).copied();
        let (Some(first_ns), Some(last_ns)) = (first, last) else { continue };
        request.on_wire_ns = last_ns.checked_sub(first_ns).filter(|ns| *ns > 0);
        free_from_ns.insert(Some(client), last_ns);
        free_from_ns.insert(None, last_ns);
    }
    Ok(())
}

/// The times that are needed, in order of the packets.
#[derive(Default)]
struct PacketTimes {
    /// Packets by the client's end of a connection.
    connections: HashMap<SocketAddr, Packets>,
    /// Times of queries to name servers.
    queries_ns: Vec<u64>,
}

/// Packets of one end of a connection that open it or carry data.
#[derive(Default)]
struct Packets {
    sent_ns: Vec<u64>,
    received_ns: Vec<u64>,
}

impl PacketTimes {
    fn add(&mut self, time_ns: u64, packet: &[u8]) {
        let Some(header) = Header::parse(packet) else { return };
        match header.transport {
            Transport::Tcp(segment) if segment.payload_bytes > 0 || segment.flags & SYN != 0 => {
                let source = SocketAddr::new(header.source, segment.source_port);
                let destination = SocketAddr::new(header.destination, segment.destination_port);
                self.connections.entry(source).or_default().sent_ns.push(time_ns);
                self.connections.entry(destination).or_default().received_ns.push(time_ns);
            }
            Transport::Udp { destination_port: DNS_PORT, .. } => self.queries_ns.push(time_ns),
            _ => {}
        }
    }
}

/// Reads a capture as tcpdump writes it here: pcap in this machine's byte order, with nanoseconds.
fn read(path: &Path) -> std::io::Result<PacketTimes> {
    let mut file = BufReader::new(File::open(path)?);
    let mut header = [0; 24];
    file.read_exact(&mut header)?;
    let link_bytes = match word(&header, 20) & 0xffff {
        1 => 14,
        276 => 20,
        113 => 16,
        _ => 0,
    };
    let mut seen = PacketTimes::default();
    let (mut record, mut frame) = ([0; 16], Vec::new());
    while file.read_exact(&mut record).is_ok() {
        let time_ns = u64::from(word(&record, 0)) * 1_000_000_000 + u64::from(word(&record, 4));
        frame.resize(word(&record, 8) as usize, 0);
        if file.read_exact(&mut frame).is_err() {
            break;
        }
        seen.add(time_ns, frame.get(link_bytes..).unwrap_or_default());
    }
    Ok(seen)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::packet::ACK;
    use crate::relay::packet::tests::tcp;

    /// Returns a request from port 4000 that curl reports 3 ms later.
    fn request(start_ns: u64, end_ns: u64) -> Request {
        let client_endpoint = "10.0.0.1:4000".to_owned();
        Request { start_ns, end_ns, client_endpoint, ..Default::default() }
    }

    fn back(mut packet: Vec<u8>) -> Vec<u8> {
        packet.swap(15, 19);
        let ports: Vec<u8> = packet[20..24].to_vec();
        packet[20..22].copy_from_slice(&ports[2..]);
        packet[22..24].copy_from_slice(&ports[..2]);
        packet
    }

    fn pcap(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let words = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let mut bytes = words(&[0xa1b2_3c4d, 0, 0, 0, 65_535, 101]);
        for (time_ns, packet) in packets {
            let length = packet.len() as u32;
            bytes.extend(words(&[0, *time_ns as u32, length, length]));
            bytes.extend(packet);
        }
        bytes
    }

    #[test]
    fn a_request_is_on_the_wire_from_its_first_packet_to_the_last_data() {
        const MS: u64 = 1_000_000;
        let packets = [
            (100 * MS, tcp(4000, 0, SYN, 0)),
            (110 * MS, tcp(4000, 1, ACK, 0)),
            (110 * MS, tcp(4000, 1, ACK, 80)),
            (125 * MS, back(tcp(4000, 1, ACK, 900))),
            // A delayed ACK is not part of the next request.
            (165 * MS, tcp(4000, 81, ACK, 0)),
            (170 * MS, tcp(4000, 81, ACK, 80)),
            (182 * MS, back(tcp(4000, 901, ACK, 900))),
        ];
        let folder = tcpwhy_testing::Folder::new();
        let path = folder.join("capture");
        std::fs::write(&path, pcap(&packets)).expect("a file");
        let mut requests = [request(102 * MS, 128 * MS), request(172 * MS, 185 * MS)];
        note(&path, &mut requests).expect("it was just written");
        assert_eq!(requests.map(|it| it.on_wire_ns), [Some(25 * MS), Some(12 * MS)]);
    }
}
