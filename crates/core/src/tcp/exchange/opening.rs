//! What a sender would wait for its congestion window, had nothing else stood in its way.

use super::*;
use crate::tcp::pipe::serialise_ns;

/// What a sender with nothing over its flight but a congestion window had to send.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Bytes to send.
    pub bytes: u64,
    /// The window before, bytes.
    pub window: u64,
    /// Minimum round trip, ns.
    pub rtt_ns: u64,
    /// The bottleneck's rate, bytes per second, if it is known.
    pub rate: Option<u64>,
    /// The sender spaces what it sends.
    pub paced: bool,
}

/// How fast a sender goes that spaces what it sends, in windows a round trip, tenths: 1/ln 2 is what lets a
/// window double in each (BBR, draft-ietf-ccwg-bbr §5.3.1); Linux lets others go between 1.2 and 2
/// (`tcp_pacing_ca_ratio`, `tcp_pacing_ss_ratio`).
const PACE_TENTHS: u128 = 14;

impl Opening {
    /// How long it waits for ACKs when its flight begins at the window before and doubles with
    /// each round trip (RFC 5681 §3.1), until it fills the path, and for its own pace in the last flight, ns.
    fn wait_ns(&self) -> u64 {
        let (waited_ns, last) = self.rounds();
        let Some((rest, flight)) = last.filter(|_| self.paced) else { return waited_ns };
        let pace_ns =
            u128::from(rest) * u128::from(self.rtt_ns) * 10 / (u128::from(flight) * PACE_TENTHS);
        waited_ns + (pace_ns as u64).saturating_sub(self.busy_ns_of(rest))
    }

    /// How long it waits for ACKs until its flight fills the path, ns; `None` if it never does.
    fn full_after_ns(&self) -> Option<u64> {
        let (waited_ns, last) = self.rounds();
        last.is_none().then_some(waited_ns)
    }

    /// How long it waits for ACKs from round trip to round trip, ns, and what is left for the last one, bytes, of a
    /// flight of so many; `None` if its flight fills the path before.
    fn rounds(&self) -> (u64, Option<(u64, u64)>) {
        let mut flight = self.window.max(1);
        let (mut sent, mut waited_ns) = (0, 0);
        while sent + flight < self.bytes {
            match self.rtt_ns.checked_sub(self.busy_ns_of(flight)) {
                Some(wait_ns) => waited_ns += wait_ns,
                None => return (waited_ns, None),
            }
            sent += flight;
            flight *= 2;
        }
        (waited_ns, Some((self.bytes.saturating_sub(sent), flight)))
    }

    /// How long `bytes` keep the path busy, ns, as far as is known.
    fn busy_ns_of(&self, bytes: u64) -> u64 {
        self.rate.map_or(0, |rate| serialise_ns(bytes, rate.max(1)))
    }

    /// How long all of it keeps the path busy, ns, where that is known.
    fn busy_ns(&self) -> Option<u64> {
        self.rate.map(|_| self.busy_ns_of(self.bytes))
    }
}

impl Exchange {
    /// Without a ceiling over its flight the sender would still have had to open its congestion
    /// window: what it would have waited for that, beyond what it did, is not lost to the ceiling. What it
    /// did beyond that is, where it waited for the ceiling most: a window that is not filled does not
    /// open (RFC 7661 §4.4).
    pub fn uncover_opening(&mut self, sender: Side, opening: &Opening) {
        let needed_ns = opening.wait_ns();
        let opened_ns = self.waited_ns(sender, Cause::SlowStart);
        let mut uncovered_ns = needed_ns.saturating_sub(opened_ns);
        for (cause, owner) in CEILINGS {
            let waited_ns = self.waited_ns(sender, cause);
            let more_ns = opened_ns.saturating_sub(needed_ns);
            if more_ns > 0 && waited_ns > more_ns {
                return self.shift(sender, (Cause::SlowStart, cause), more_ns, owner);
            }
            let ns = uncovered_ns.min(waited_ns);
            if let Some(chain) = self.chain_mut(sender, cause) {
                chain.ns -= ns;
                uncovered_ns -= ns;
            }
        }
    }

    /// Where the window of `sender` fills the path before all is sent, what it sends keeps the path busy as long as
    /// its bytes take: what it waited beyond what it needed for its window to open belongs to that, as far as too
    /// little does.
    pub fn owe_to_rate(&mut self, sender: Side, opening: &Opening) {
        let Some((needed_ns, least_ns)) = opening.full_after_ns().zip(opening.busy_ns()) else {
            return;
        };
        let busy_ns = self.ledger.of(Owner::Bandwidth) + self.ledger.of(Owner::Queueing);
        let beyond_ns = self.waited_ns(sender, Cause::SlowStart).saturating_sub(needed_ns);
        let ns = least_ns.saturating_sub(busy_ns).min(beyond_ns);
        let ns = self.ledger.transfer(Owner::CongestionWindow, Owner::Bandwidth, ns);
        if let Some(chain) = self.chain_mut(sender, Cause::SlowStart) {
            chain.ns = chain.ns.saturating_sub(ns);
            self.chains.retain(|chain| chain.ns > 0);
        }
    }

    /// What `sender` waited for `cause`, ns.
    fn waited_ns(&self, sender: Side, cause: Cause) -> u64 {
        let same = |chain: &&Chain| chain.cause == cause && chain.sender == sender;
        self.chains.iter().find(same).map_or(0, |chain| chain.ns)
    }

    fn chain_mut(&mut self, sender: Side, cause: Cause) -> Option<&mut Chain> {
        self.chains.iter_mut().find(|chain| chain.cause == cause && chain.sender == sender)
    }

    /// Gives `ns` of what `sender` waited for one cause to another, which is there.
    fn shift(&mut self, sender: Side, (from, to): (Cause, Cause), ns: u64, owner: Owner) {
        let ns = self.ledger.transfer(Owner::CongestionWindow, owner, ns);
        if let Some(chain) = self.chain_mut(sender, from) {
            chain.ns = chain.ns.saturating_sub(ns);
        }
        if let Some(chain) = self.chain_mut(sender, to) {
            chain.ns += ns;
        }
        self.chains.retain(|chain| chain.ns > 0);
    }
}

/// What keeps a flight from rising.
const CEILINGS: [(Cause, Owner); 2] =
    [(Cause::SendBuffer, Owner::SendBuffer), (Cause::ReceiveWindow, Owner::ReceiveWindow)];
