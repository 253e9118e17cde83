//! A device that keeps a table of connections, as load balancers, NATs and firewalls do. It drops
//! what belongs to no connection in its table, and removes those that were idle for too long.

use std::collections::HashMap;
use std::net::IpAddr;

use super::packet::{ACK, Header, SYN, Transport};

/// One end of a connection.
type End = (IpAddr, u16);

/// The connections that the device knows.
#[derive(Debug)]
pub struct FlowTable {
    /// Idle time after which a connection is removed, ns; 0 keeps all and knows all.
    timeout_ns: u64,
    /// Time of the last packet of each connection, ns, by its ends in order.
    last_ns: HashMap<(End, End), u64>,
}

impl FlowTable {
    /// Creates an empty table.
    pub fn new(timeout_ns: u64) -> FlowTable {
        FlowTable { timeout_ns, last_ns: HashMap::new() }
    }

    /// Returns whether `packet`, which comes at `now_ns`, belongs to no known connection.
    pub fn has_forgotten(&mut self, now_ns: u64, packet: &[u8]) -> bool {
        if self.timeout_ns == 0 {
            return false;
        }
        let Some(header) = Header::parse(packet) else { return false };
        let Transport::Tcp(segment) = header.transport else { return false };
        let source = (header.source, segment.source_port);
        let destination = (header.destination, segment.destination_port);
        let ends = (source.min(destination), source.max(destination));
        let begins = segment.flags & (SYN | ACK) == SYN;
        let known = self
            .last_ns
            .get(&ends)
            .is_some_and(|&last_ns| now_ns.saturating_sub(last_ns) < self.timeout_ns);
        if begins || known {
            self.last_ns.insert(ends, now_ns);
            return false;
        }
        self.last_ns.remove(&ends);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with a TCP header, from port `ports[0]` to `ports[1]`.
    fn packet(ports: [u16; 2], flags: u8) -> Vec<u8> {
        let mut packet = vec![0; 40];
        (packet[0], packet[9]) = (0x45, 6);
        packet[20..22].copy_from_slice(&ports[0].to_be_bytes());
        packet[22..24].copy_from_slice(&ports[1].to_be_bytes());
        (packet[32], packet[33]) = (0x50, flags);
        packet
    }

    #[test]
    fn a_connection_is_forgotten_after_its_idle_time_until_the_next_syn() {
        let mut table = FlowTable::new(1_000);
        let [to, from] = [[1, 2], [2, 1]].map(|ports| packet(ports, ACK));
        assert!(table.has_forgotten(0, &to), "it never began");
        assert!(!table.has_forgotten(0, &packet([1, 2], SYN)));
        assert!(!table.has_forgotten(900, &from));
        assert!(!table.has_forgotten(1_800, &to));
        assert!(table.has_forgotten(2_800, &to));
        assert!(table.has_forgotten(2_900, &from));
        assert!(!table.has_forgotten(3_000, &packet([1, 2], SYN)));
        assert!(!table.has_forgotten(3_100, &to));
    }
}
