//! Name look-ups, which concern more than one connection.

use super::batch::{Aside, Batch};
use crate::capture::Block;
use crate::dns::{self, Lookup, MessageContext};
use crate::wire::{FlowKey, IcmpErrorKind};

/// Maximum number of look-ups of one place that are kept to be joined with exchanges.
pub(super) const LOOKUPS_MAX: usize = 1 << 14;

/// The look-ups seen at one place.
#[derive(Clone, Default)]
pub(super) struct Names {
    dns: dns::Tracker,
    streams: dns::Streams,
    lookups: Vec<Lookup>,
}

impl Names {
    /// Processes a packet of name resolution.
    pub fn aside(&mut self, aside: &Aside, batch: &Batch, block: &Block) {
        match aside {
            Aside::Datagram {
                time_ns,
                frame,
                source,
                destination,
                payload,
                payload_bytes,
                carrier,
                ttl,
            } => {
                let (time_ns, frame, carrier) = (*time_ns, *frame, *carrier);
                let (payload_bytes, ttl) = (*payload_bytes, *ttl);
                let carried = MessageContext {
                    time_ns,
                    frame,
                    payload_bytes,
                    source,
                    destination,
                    carrier,
                    ttl,
                };
                self.dns.message(&carried, payload);
            }
            Aside::Segment(place) => {
                if let Some(segment) = batch.at(*place) {
                    let payload = batch.payload(segment, block);
                    self.streams.segment(segment, payload, &mut self.dns);
                }
            }
            Aside::Error(error) => {
                let FlowKey { low, high } = error.flow;
                let (sender, receiver) = if error.from_high { (high, low) } else { (low, high) };
                let (time_ns, frame) = (error.time_ns, error.frame);
                // The host to which the packet was sent says that its port is closed.
                let is_closed = error.kind == IcmpErrorKind::PortUnreachable
                    && error.reporter.address == receiver.address;
                if sender.port == dns::DNS_PORT && receiver.port != dns::DNS_PORT {
                    if is_closed {
                        self.dns.rejected(time_ns, frame, &receiver, &sender);
                    }
                } else if let IcmpErrorKind::PortUnreachable
                | IcmpErrorKind::Unreachable
                | IcmpErrorKind::Prohibited = error.kind
                {
                    let router = (!is_closed).then_some(error.reporter);
                    self.dns.unreachable((time_ns, frame), &sender, &receiver, router);
                }
            }
            Aside::Quic(_) | Aside::Fragment(_) => {}
        }
    }

    /// Moves finished look-ups out of the tracker. Returns those for which there is no room.
    pub fn collect(&mut self) -> Vec<Lookup> {
        self.lookups.extend(self.dns.take_finished());
        excess(&mut self.lookups, LOOKUPS_MAX)
    }

    /// Removes and returns the finished look-ups that are kept.
    pub fn take_finished(&mut self) -> Vec<Lookup> {
        self.dns.mark_partial(&mut self.lookups);
        std::mem::take(&mut self.lookups)
    }

    /// Returns all look-ups; the capture ended at `last_ns`.
    pub fn finish(self, last_ns: u64) -> Vec<Lookup> {
        let mut lookups = self.lookups;
        self.dns.mark_partial(&mut lookups);
        lookups.extend(self.dns.finish(last_ns));
        lookups
    }
}

/// Removes and returns the look-ups beyond `room` once they exceed it by a quarter, so that this is
/// rarely done. The earliest are kept, as are the first exchanges of connections.
pub(super) fn excess(lookups: &mut Vec<Lookup>, room: usize) -> Vec<Lookup> {
    if lookups.len() < room + room / 4 { Vec::new() } else { lookups.split_off(room) }
}
