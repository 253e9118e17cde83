//! Corrects waits by the congestion window that a sender would have had without another limit.

use crate::model::{Cause, Owner, Slice};
use crate::tcp::exchange::{Chain, Concerned, Exchange};
use crate::tcp::pipe::transmission_ns;
use crate::tcp::thresholds::PACE_TENTHS;
use crate::wire::Side;

/// The data that a sender had to send, and what is known of its congestion window and path.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Bytes to send.
    pub bytes: u64,
    /// Congestion window before the data was sent, bytes.
    pub window: u64,
    /// Minimum round trip, ns.
    pub rtt_ns: u64,
    /// Bottleneck rate, bytes per second, if known.
    pub rate: Option<u64>,
    /// The sender paces.
    pub paced: bool,
}

impl Opening {
    /// Time that the sender waits for ACKs, ns, if its flight begins at the window and doubles with
    /// each round trip (RFC 5681 §3.1) until it fills the path; plus the pacing of its last flight.
    fn wait_ns(&self) -> u64 {
        let (waited_ns, last) = self.rounds();
        let Some((rest, flight)) = last.filter(|_| self.paced) else { return waited_ns };
        let pace_ns =
            u128::from(rest) * u128::from(self.rtt_ns) * 10 / (u128::from(flight) * PACE_TENTHS);
        waited_ns + (pace_ns as u64).saturating_sub(self.busy_ns_of(rest))
    }

    /// Time that the sender waits for ACKs until its flight fills the path, ns; `None` if it never
    /// does.
    fn full_after_ns(&self) -> Option<u64> {
        let (waited_ns, last) = self.rounds();
        last.is_none().then_some(waited_ns)
    }

    /// Returns the time waited for ACKs over all rounds, ns, and for the last round the remaining
    /// bytes and the flight; `None` if the flight fills the path before that.
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

    /// Time for which `bytes` keep the path busy, ns; 0 if the rate is unknown.
    fn busy_ns_of(&self, bytes: u64) -> u64 {
        self.rate.map_or(0, |rate| transmission_ns(bytes, rate.max(1)))
    }

    /// Time for which all bytes keep the path busy, ns, if the rate is known.
    fn busy_ns(&self) -> Option<u64> {
        self.rate.map(|_| self.busy_ns_of(self.bytes))
    }
}

impl Exchange {
    /// Corrects the cost of a ceiling over the flight. Without the ceiling the sender would still
    /// have had to open its congestion window, so the wait that this would have taken is not lost
    /// to the ceiling. If the sender waited longer for its window than it needed, and longest for
    /// the ceiling, the excess is attributed to the ceiling: a window that is not filled does not
    /// open (RFC 7661 §4.4).
    pub fn subtract_opening(&mut self, sender: Side, opening: &Opening) {
        let needed_ns = opening.wait_ns();
        let opened_ns = self.waited_ns(sender, Cause::SlowStart);
        let mut opening_ns = needed_ns.saturating_sub(opened_ns);
        for (cause, owner) in CEILINGS {
            let waited_ns = self.waited_ns(sender, cause);
            let more_ns = opened_ns.saturating_sub(needed_ns);
            if more_ns > 0 && waited_ns > more_ns {
                return self.move_time(sender, (Cause::SlowStart, cause), more_ns, owner);
            }
            let ns = opening_ns.min(waited_ns);
            if let Some(chain) = self.chain_mut(sender, cause) {
                chain.ns -= ns;
                opening_ns -= ns;
                // The owner stays, without the cause; the window opens first.
                let first = Concerned::of(owner, cause).by(sender);
                self.ledger.transfer(first, Slice::plain(owner, ns));
            }
        }
    }

    /// Attributes waits to the bottleneck: if the window fills the path before all data is sent,
    /// the path is busy for as long as the bytes take. Time that `sender` waited beyond what
    /// opening its window needs is moved to bandwidth, up to the time that the bytes take.
    pub fn attribute_to_rate(&mut self, sender: Side, opening: &Opening) {
        let Some((needed_ns, least_ns)) = opening.full_after_ns().zip(opening.busy_ns()) else {
            return;
        };
        let busy_ns = self.ledger.of(Owner::Bandwidth) + self.ledger.of(Owner::Queueing);
        let beyond_ns = self.waited_ns(sender, Cause::SlowStart).saturating_sub(needed_ns);
        let ns = least_ns.saturating_sub(busy_ns).min(beyond_ns);
        let opening = Concerned::of(Owner::CongestionWindow, Cause::SlowStart).by(sender);
        let ns = self.ledger.transfer(opening, Slice::plain(Owner::Bandwidth, ns));
        if let Some(chain) = self.chain_mut(sender, Cause::SlowStart) {
            chain.ns = chain.ns.saturating_sub(ns);
            self.chains.retain(|chain| chain.ns > 0);
        }
    }

    /// Time that `sender` waited for `cause`, ns.
    fn waited_ns(&self, sender: Side, cause: Cause) -> u64 {
        let same = |chain: &&Chain| chain.cause == cause && chain.sender == sender;
        self.chains.iter().find(same).map_or(0, |chain| chain.ns)
    }

    fn chain_mut(&mut self, sender: Side, cause: Cause) -> Option<&mut Chain> {
        self.chains.iter_mut().find(|chain| chain.cause == cause && chain.sender == sender)
    }

    /// Moves `ns` of the time that `sender` waited for one cause to another cause, if that is
    /// present.
    fn move_time(&mut self, sender: Side, (from, to): (Cause, Cause), ns: u64, owner: Owner) {
        let concerned = Concerned::of(Owner::CongestionWindow, from).by(sender);
        let ns = self.ledger.transfer(concerned, Slice::of(owner, to, ns));
        if let Some(chain) = self.chain_mut(sender, from) {
            chain.ns = chain.ns.saturating_sub(ns);
        }
        if let Some(chain) = self.chain_mut(sender, to) {
            chain.ns += ns;
        }
        self.chains.retain(|chain| chain.ns > 0);
    }
}

/// Causes that limit the height of a flight.
const CEILINGS: [(Cause, Owner); 3] = [
    (Cause::SendBuffer, Owner::SendBuffer),
    (Cause::ReceiveWindow, Owner::ReceiveWindow),
    (Cause::Http2FlowControl, Owner::Http2FlowControl),
];
