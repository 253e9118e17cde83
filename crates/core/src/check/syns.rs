//! The SYNs to the servers that a report names: what they ask for, and whether an answer came.

use crate::wire::{Endpoint, Segment, SegmentFlags, TcpFlags};
use std::collections::HashMap;

/// Number of SYNs that are kept of all servers together.
const SYNS_MAX: usize = 1 << 16;

/// Options that a sender may leave out of later SYNs.
const OPTIONS: u32 =
    SegmentFlags::WINDOW_SCALE | SegmentFlags::TIMESTAMPS | SegmentFlags::SACK_PERMITTED;

/// A SYN with its result.
struct Syn {
    segment: Segment,
    /// A SYN-ACK came before the next SYN from its port.
    is_answered: bool,
    /// Its timestamp is lower than that of the last answered SYN from its address to this host.
    is_older: bool,
    /// Its port had been used before.
    is_reused: bool,
}

/// SYNs by server.
#[derive(Default)]
pub(super) struct Syns {
    servers: HashMap<Endpoint, Vec<Syn>>,
    /// Place of the last SYN of each pair of client and server.
    last: HashMap<(Endpoint, Endpoint), usize>,
    /// Timestamp of the last answered SYN, by the addresses of client and server.
    stamps: HashMap<([u8; 16], [u8; 16]), u32>,
    kept: usize,
}

impl Syns {
    pub fn of(servers: impl Iterator<Item = Endpoint>) -> Self {
        Self { servers: servers.map(|it| (it, Vec::new())).collect(), ..Self::default() }
    }

    pub fn take(&mut self, segment: &Segment) {
        let (source, destination) = (*segment.source(), *segment.destination());
        if !segment.flags.has(TcpFlags::SYN) || self.kept >= SYNS_MAX {
            return;
        }
        if !segment.flags.has(TcpFlags::ACK) {
            let Some(syns) = self.servers.get_mut(&destination) else { return };
            let hosts = (source.address, destination.address);
            let has_stamp = segment.facts.has(SegmentFlags::TIMESTAMPS);
            let before = self.stamps.get(&hosts).filter(|_| has_stamp);
            let is_older = before.is_some_and(|it| (segment.tsval.wrapping_sub(*it) as i32) < 0);
            let last = self.last.insert((source, destination), syns.len());
            let last = last.and_then(|at| syns.get(at));
            let is_reused = last.is_some_and(|it| it.is_reused || it.segment.seq != segment.seq);
            syns.push(Syn { segment: *segment, is_answered: false, is_older, is_reused });
            self.kept += 1;
        } else if let Some(syns) = self.servers.get_mut(&source)
            && let Some(syn) =
                self.last.get(&(destination, source)).and_then(|at| syns.get_mut(*at))
        {
            syn.is_answered = true;
            let hosts = (destination.address, source.address);
            self.stamps.insert(hosts, syn.segment.tsval);
        }
    }

    /// Returns the number of SYNs to `server` with the property that the fact `name` counts: those
    /// without an answer, and those with one. `None` if not all SYNs are kept.
    pub fn count(&self, server: Endpoint, name: &str) -> Option<[usize; 2]> {
        let syns = self.servers.get(&server).filter(|_| self.kept < SYNS_MAX)?;
        let has = |syn: &&Syn| match name {
            "ecn" => syn.segment.flags.has(TcpFlags::ECE | TcpFlags::CWR),
            "fast_open" => syn.segment.facts.has(SegmentFlags::FAST_OPEN),
            "multipath" => syn.segment.facts.has(SegmentFlags::MULTIPATH),
            "with_data" => syn.segment.payload_len > 0,
            "with_options" => syn.segment.facts.0 & OPTIONS != 0,
            "older_stamps" => syn.is_older,
            "wrong_checksums" => syn.segment.checksum_error != 0,
            "wrong_tunnel_checksums" => syn.segment.facts.has(SegmentFlags::WRONG_TUNNEL_CHECKSUM),
            "reused_ports" => syn.is_reused,
            _ => true,
        };
        let count = |is_answered: bool| {
            syns.iter().filter(has).filter(|it| it.is_answered == is_answered).count()
        };
        Some([count(false), count(true)])
    }
}

impl std::fmt::Debug for Syns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Syns").field("kept", &self.kept).finish_non_exhaustive()
    }
}
