//! Name look-ups, which concern more than one connection.

use super::batch::{Aside, Batch};
use crate::capture::Block;
use crate::dns::{self, Lookup, MessageContext};
use crate::wire::FlowKey;

/// Maximum number of look-ups kept to be joined with exchanges; later ones are dropped.
const LOOKUPS_MAX: usize = 1 << 18;

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
            } => {
                let (time_ns, frame, carrier) = (*time_ns, *frame, *carrier);
                let payload_bytes = *payload_bytes;
                let carried =
                    MessageContext { time_ns, frame, payload_bytes, source, destination, carrier };
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
                let (client, server) = if error.from_high { (high, low) } else { (low, high) };
                self.dns.unreachable(error.time_ns, error.frame, &client, &server);
            }
            Aside::Fragment(_) => {}
        }
    }

    /// Moves finished look-ups out of the tracker.
    pub fn collect(&mut self) {
        let finished = self.dns.take_finished();
        let room = LOOKUPS_MAX.saturating_sub(self.lookups.len());
        self.lookups.extend(finished.into_iter().take(room));
    }

    /// Removes and returns the finished look-ups.
    pub fn take_finished(&mut self) -> Vec<Lookup> {
        self.collect();
        std::mem::take(&mut self.lookups)
    }

    /// Returns all look-ups; the capture ended at `last_ns`.
    pub fn finish(self, last_ns: u64) -> Vec<Lookup> {
        let mut lookups = self.lookups;
        lookups.extend(self.dns.finish(last_ns));
        lookups
    }
}
