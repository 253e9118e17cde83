//! The first exchanges of connections, which a look-up before them may have delayed.

use crate::capture::FrameId;
use crate::findings::tally::Tally;
use crate::model::Vantage;
use crate::tcp::{Connection, Exchange};
use crate::wire::{Endpoint, Side};

/// The first exchange of a connection, which a look-up before it may have delayed.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct First {
    /// Address of the client.
    pub client: [u8; 16],
    /// The server.
    pub server: Endpoint,
    /// Time of the SYN, ns.
    pub start_ns: u64,
    /// Digest of the kind of request, see [`crate::app::Label::digest`].
    pub kind: u64,
    /// Wall time of the exchange, ns.
    pub wall_ns: u64,
    /// Time between handshake and request, which is no part of the wall time, ns.
    pub rested_ns: u64,
    /// Base round trip to the server, ns.
    pub rtt_base_ns: u64,
    /// Least round trip from the vantage to the server, ns; 0 if unknown.
    pub rtt_server_ns: u64,
    /// Vantage of the connection.
    pub vantage: Vantage,
    /// Part of the wall time in which the set-up was repeated, ns.
    pub set_up_again_ns: u64,
    /// Part of the wall time in which a request was repeated to a server that had not sent anything
    /// yet, ns.
    pub ignored_ns: u64,
    /// The exchange was answered.
    pub answered: bool,
    /// Time at which the response began to pass the vantage, ns; 0 if there was none.
    pub answered_ns: u64,
    /// The server answered the SYN.
    pub established: bool,
    /// The SYN was answered only when it was repeated.
    pub is_syn_answered_late: bool,
    /// First frame of the exchange.
    pub frame: FrameId,
}

impl First {
    /// Order in which first exchanges are kept if there is no room for all.
    pub(in crate::findings) fn rank(&self) -> (u64, FrameId) {
        (self.start_ns, self.frame)
    }

    /// The answered first exchange of `client` at `server`.
    #[cfg(test)]
    pub(in crate::findings) fn answered(client: [u8; 16], server: Endpoint) -> Self {
        Self {
            client,
            server,
            start_ns: 0,
            kind: 0,
            wall_ns: 0,
            rested_ns: 0,
            rtt_base_ns: 0,
            rtt_server_ns: 0,
            vantage: Vantage::Client,
            set_up_again_ns: 0,
            ignored_ns: 0,
            answered: true,
            answered_ns: 0,
            established: true,
            is_syn_answered_late: false,
            frame: FrameId::default(),
        }
    }

    /// Time of the end of the exchange, ns.
    pub fn end_ns(&self) -> u64 {
        self.start_ns + self.rested_ns + self.wall_ns
    }

    /// Returns whether the exchange was captured at its client: other connections and look-ups
    /// captured there may be those of the same host, whatever their address.
    pub fn was_seen_at_client(&self) -> bool {
        matches!(self.vantage, Vantage::Client | Vantage::Local)
    }
}

/// Number of first exchanges kept for linking. These are the earliest; later ones remain without
/// their look-up.
pub(super) const FIRSTS_MAX: usize = 1 << 14;

/// Number of these kept per shard: half as many again as its part, since connections are spread evenly.
const SHARD_FIRSTS_MAX: usize = FIRSTS_MAX / 32 * 3;

/// Least number of first exchanges kept of an interval, however many intervals there are.
const INTERVAL_FIRSTS_MIN: usize = 1 << 9;

impl Tally {
    /// Keeps the first exchange of a connection.
    #[inline(never)]
    pub(super) fn first(&mut self, connection: &Connection, exchange: &Exchange) {
        let syn = connection.setup.frames().syn.filter(|syn| syn.time_ns == exchange.start_ns);
        self.keep_first(First {
            client: connection.client().address,
            server: connection.server(),
            start_ns: exchange.start_ns,
            kind: exchange.kind.digest(),
            wall_ns: exchange.wall_ns(),
            rested_ns: exchange.rested_ns,
            rtt_base_ns: connection.path.base_rtt_ns(),
            rtt_server_ns: connection.path.rtt_ns(Side::Server),
            vantage: connection.path.vantage(),
            set_up_again_ns: exchange.set_up_again_ns(),
            ignored_ns: match connection.setup.ignored_data() {
                0 => 0,
                _ => exchange.timed_out_ns(Side::Client),
            },
            established: connection.setup.established_ns().is_some(),
            answered: exchange.response_seen || exchange.is_complete(),
            answered_ns: exchange.answered_ns,
            is_syn_answered_late: connection.setup.is_syn_answered_late()
                && exchange.set_up_again_ns() > 0,
            frame: syn.map_or(exchange.first.frame, |syn| syn.frame),
        });
    }

    #[inline]
    fn keep_first(&mut self, first: First) {
        if self.last_first.is_none_or(|last| first.rank() <= last) {
            self.firsts.push(first);
            self.bound_firsts(SHARD_FIRSTS_MAX);
        }
    }

    /// Drops the first exchanges beyond the maximum once they exceed it by a quarter, so that this
    /// is rarely done.
    pub(super) fn bound_firsts(&mut self, room: usize) {
        if self.firsts.len() >= room + room / 4 {
            self.keep_early_firsts(room);
        }
    }

    /// Drops the latest first exchanges beyond the maximum. They are the same ones, whatever shard
    /// they were in.
    pub(in crate::findings) fn drop_late_firsts(&mut self) {
        self.keep_early_firsts(FIRSTS_MAX);
    }

    fn keep_early_firsts(&mut self, room: usize) {
        if self.firsts.len() > room {
            let (_, last, _) = self.firsts.select_nth_unstable_by_key(room - 1, First::rank);
            self.last_first = Some(last.rank());
            self.firsts.truncate(room);
        }
    }

    /// Removes and returns the first exchanges that are kept, earliest first.
    pub(in crate::findings) fn take_firsts(&mut self) -> Vec<First> {
        self.drop_late_firsts();
        let mut firsts = std::mem::take(&mut self.firsts);
        firsts.sort_by_cached_key(First::rank);
        firsts
    }

    /// Keeps the earliest first exchanges of one of `intervals` intervals that have to share the
    /// room for them.
    pub(crate) fn keep_firsts_of_interval(&mut self, intervals: usize) {
        let kept = (FIRSTS_MAX / intervals.max(1)).max(INTERVAL_FIRSTS_MIN);
        if self.firsts.len() > kept {
            self.firsts.select_nth_unstable_by_key(kept, First::rank);
            self.firsts.truncate(kept);
        }
        self.firsts.shrink_to_fit();
        self.last_first = None;
        self.syns.keep_of_interval(intervals);
    }
}
