//! Handshakes at one server over time (RFC 4987): begun, answered, completed, half-open.

use crate::tcp::Connection;
use crate::wire::Endpoint;

/// Number of intervals of the capture.
const INTERVALS: usize = 240;

/// Handshakes at one server, by interval.
#[derive(Clone, Debug)]
pub struct SetUps {
    /// The server.
    pub server: Endpoint,
    /// Capture time at which the first interval begins, ns.
    pub first_ns: u64,
    /// Length of an interval, ns.
    pub interval_ns: u64,
    /// Number of handshakes whose first SYN was captured in each interval.
    pub begun: Vec<u32>,
    /// Number of handshakes whose first SYN-ACK was captured in each interval.
    pub answered: Vec<u32>,
    /// Number of handshakes completed in each interval.
    pub completed: Vec<u32>,
    /// Number of handshakes refused or abandoned by RST in each interval.
    pub ended: Vec<u32>,
}

impl SetUps {
    pub(super) fn new(server: Endpoint, (first_ns, last_ns): (u64, u64)) -> Self {
        let none = vec![0; INTERVALS];
        let interval_ns = last_ns.saturating_sub(first_ns) / INTERVALS as u64 + 1;
        Self {
            server,
            first_ns,
            interval_ns,
            begun: none.clone(),
            answered: none.clone(),
            completed: none.clone(),
            ended: none,
        }
    }

    pub(super) fn add(&mut self, connection: &Connection) {
        let (setup, first_ns, interval_ns) = (&connection.setup, self.first_ns, self.interval_ns);
        let count = |counts: &mut [u32], at_ns: u64| {
            let index = at_ns.saturating_sub(first_ns) / interval_ns;
            if let Some(count) = counts.get_mut(usize::try_from(index).unwrap_or(usize::MAX)) {
                *count += 1;
            }
        };
        let (syn_ns, answer_ns) = (setup.syn_first_ns(), setup.syn_ack_first_ns());
        let Some(begun_ns) = syn_ns.or(answer_ns) else { return };
        count(&mut self.begun, begun_ns);
        answer_ns.into_iter().for_each(|ns| count(&mut self.answered, ns));
        match setup.established_ns() {
            Some(ns) => count(&mut self.completed, ns),
            None if connection.cold.ending().reset.is_some() => {
                count(&mut self.ended, connection.last.time_ns);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Segment, TcpFlags};

    #[test]
    fn a_handshake_counts_in_the_interval_in_which_it_began() {
        let server = Endpoint { port: 80, ..Endpoint::default() };
        let mut set_ups = SetUps::new(server, (1_000, 1_000 + 240 * 1_000_000));
        for at in [0, 1, 239] {
            let time_ns = 1_000 + at * set_ups.interval_ns;
            let flags = TcpFlags(TcpFlags::SYN);
            let frame = crate::capture::FrameId::new(0, 1 + at);
            let syn = Segment { time_ns, flags, frame, ..Segment::default() };
            let mut connection = Connection::new(&syn);
            connection.setup.client(&syn);
            set_ups.add(&connection);
        }
        let counted: Vec<usize> = (0..INTERVALS).filter(|&at| set_ups.begun[at] == 1).collect();
        assert_eq!(counted, [0, 1, 239]);
        let others = [&set_ups.answered, &set_ups.completed, &set_ups.ended];
        assert!(others.iter().all(|counts| counts.iter().all(|&count| count == 0)));
    }
}
