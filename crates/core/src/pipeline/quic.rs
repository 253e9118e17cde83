//! Connections of QUIC, at one place or at two.

use super::batch::Aside;
use crate::model::quic::Handshake;
use crate::quic::Tracker;
use crate::wire::{FlowKey, IcmpErrorKind};
use std::collections::HashSet;

/// The connections of QUIC that are seen at each place.
#[derive(Clone, Default)]
pub(super) struct Connections([Tracker; 2]);

impl Connections {
    /// Begins without connections; with `keeps_names` names of servers are kept for display.
    pub fn new(keeps_names: bool) -> Self {
        Self([Tracker::new(keeps_names), Tracker::new(keeps_names)])
    }

    /// Processes a datagram, or an ICMP error about one, that was seen at `place`.
    pub fn aside(&mut self, place: usize, aside: &Aside) {
        let tracker = &mut self.0[place];
        match aside {
            Aside::Quic(carried) => tracker.datagram(carried),
            Aside::Error(error) => {
                use IcmpErrorKind::{PortUnreachable, Prohibited, Unreachable};
                let FlowKey { low, high } = &error.flow;
                let (sender, receiver) = if error.from_high { (high, low) } else { (low, high) };
                if matches!(error.kind, PortUnreachable | Prohibited | Unreachable) {
                    tracker.rejected(sender, receiver);
                }
            }
            Aside::Datagram { .. } | Aside::Segment(_) | Aside::Fragment(_) => {}
        }
    }

    /// Removes and returns the handshakes of connections that have ended, each once.
    pub fn take_finished(&mut self) -> Vec<Handshake> {
        joined(self.0.each_mut().map(Tracker::take_finished))
    }

    /// Removes and returns the number of connections for whose handshake there was no room.
    pub fn take_omitted(&mut self) -> u64 {
        self.0.iter_mut().map(|it| std::mem::take(&mut it.omitted)).sum()
    }

    /// Removes and returns all handshakes; the capture has ended.
    pub fn take_all(&mut self) -> Vec<Handshake> {
        joined(self.0.each_mut().map(Tracker::take_all))
    }

    /// Returns the handshakes that began since `since_ns`, as if the capture ended now.
    pub fn open(&self, since_ns: u64) -> Vec<Handshake> {
        let mut all = self.clone().take_all();
        all.retain(|it| it.start_ns >= since_ns);
        all
    }
}

/// Joins those of two places; a connection that both saw is that of the first.
fn joined([mut all, more]: [Vec<Handshake>; 2]) -> Vec<Handshake> {
    let ends = |it: &Handshake| (it.client, it.server);
    let known: HashSet<_> = all.iter().map(ends).collect();
    all.extend(more.into_iter().filter(|it| !known.contains(&ends(it))));
    all
}
