//! Content that another protocol carries: its marks are placed in the stream of the carrier.

use super::{Framer, Machine};
use crate::app::exchanges::Feed;
use crate::app::mark::Mark;
use crate::app::tls::Opening;
use crate::wire::Side;
use std::mem;

impl Framer {
    /// Returns whether what TLS carries can be read.
    pub fn opening(&self) -> Opening {
        match &self.machine {
            Machine::Tls(tls) if self.opening == Opening::NotTried => tls.opening(),
            _ => self.opening,
        }
    }

    /// Returns whether records of TLS pass, whether they can be opened or not.
    pub fn is_in_tls(&self) -> bool {
        matches!(self.machine, Machine::Tls(_))
    }

    /// Returns a hash of the name of the server that the client of TLS asks for; 0 if it is unknown.
    pub fn server_name(&self) -> u64 {
        match &self.machine {
            Machine::Tls(tls) => tls.server_name,
            _ => 0,
        }
    }

    /// Returns the framer of the protocol that is spoken: the one inside TLS, where that can be read.
    pub(super) fn spoken_by(&self) -> &Self {
        match &self.machine {
            Machine::Tls(tls) => tls.inside().map_or(self, |inside| &inside.framer),
            _ => self,
        }
    }

    /// Records why TLS can no longer be read, before its parser is given up.
    pub(super) fn note_opening(&mut self) {
        self.opening = match self.opening() {
            Opening::Open => Opening::OpenToHole,
            opening => opening,
        };
    }

    /// Processes the next bytes of `from` that a record carries: `bytes`, then `missing` ones. The record
    /// begins at `start` of the push of `feed`, and ends at its position. The exchanges are those of the
    /// connection. Messages begin with the first byte of their record, and end with its last.
    pub(in crate::app) fn parse_carried(
        &mut self,
        from: Side,
        bytes: &[u8],
        missing: u32,
        start: usize,
        feed: &mut Feed<'_>,
    ) {
        let Feed { pos, pinned, exchanges, known, on, .. } = feed;
        let (end, mut at) = (*pos, start);
        let before = (exchanges.is_in_exchange, exchanges.set_aside);
        mem::swap(*exchanges, &mut self.exchanges);
        self.parse(from, bytes, missing, known, &mut |_, mark| {
            if !matches!(mark, Mark::RequestStart | Mark::ResponseStart) {
                at = end;
            }
            on(pinned.unwrap_or_else(|| u32::try_from(at).unwrap_or(u32::MAX)), mark);
        });
        mem::swap(*exchanges, &mut self.exchanges);
        exchanges.is_in_exchange |= before.0;
        exchanges.set_aside |= before.1;
    }
}
