//! Chooses the place whose account of a connection is used. The account is used as a whole, so that
//! findings, ledger and latency agree.
//!
//! The latency of a request is measured at the client. The reason for a silence is known best at
//! the place next to the silent side; elsewhere it has to be inferred. If both accounts agree, that
//! of the place nearer the client is used. Otherwise the account is used whose rejection would lose
//! more time.

use crate::findings::{Floors, Tally};
use crate::model::{Cause, Culprit, Family, Place};
use crate::wire::{FlowKey, Side};
use hashbrown::HashMap;

/// Maximum number of connections of a shard that are judged separately; more are judged as one.
const OPEN_MAX: usize = 512;

/// The accounts of two places of the connections that both see.
#[derive(Default)]
pub struct Accounts {
    open: HashMap<FlowKey, Box<[Tally; 2]>>,
    /// Sum of the accounts of further connections.
    combined: Box<[Tally; 2]>,
    settled: Settled,
}

/// The result of judging accounts.
#[derive(Default)]
pub struct Settled {
    /// Each connection as seen by the place that sees it better.
    pub reported: Tally,
    /// The same connections as seen by the other place.
    pub other: Tally,
    /// Time lost to each cause at each place, ns, however little.
    pub lost_ns: HashMap<(Cause, Culprit), [u64; 2]>,
    /// Number of connections by the place whose account is used.
    pub used_by_place: [u64; 2],
    /// Number of bytes that each place missed of connections for which the account of the other
    /// place is used.
    pub missing_bytes: [u64; 2],
}

impl Accounts {
    /// Returns the account of a connection at `place`.
    pub fn of(&mut self, key: &FlowKey, place: Place) -> &mut Tally {
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(key) {
            return &mut self.combined[place];
        }
        &mut self.open.entry(*key).or_default()[place]
    }

    /// Returns all tallies that keep a list of connections.
    pub fn tallies_mut(&mut self) -> impl Iterator<Item = &mut Tally> {
        self.combined.iter_mut().chain([&mut self.settled.reported, &mut self.settled.other])
    }

    /// Judges a connection whose end both places have seen.
    pub fn settle(&mut self, key: &FlowKey) {
        if let Some(both) = self.open.remove(key) {
            self.settled.take(*both);
        }
    }

    /// Judges the remaining connections at the end of the capture.
    pub fn finish(mut self) -> Settled {
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_unstable_by_key(|(key, _)| *key);
        open.into_iter().for_each(|(_, both)| self.settled.take(*both));
        self.settled.take(*self.combined);
        self.settled
    }
}

impl Settled {
    /// Judges the accounts of both places of the same connections.
    fn take(&mut self, mut both: [Tally; 2]) {
        both.iter_mut().for_each(Tally::settle);
        let reporter = reporter(&both);
        for (place, tally) in both.iter().enumerate() {
            for (key, cause) in tally.causes.iter() {
                self.lost_ns.entry((key.cause, key.culprit)).or_default()[place] += cause.lost_ns;
            }
        }
        let [mut first, mut second] = both;
        self.used_by_place[reporter] += first.connections;
        if reporter == 1 {
            self.missing_bytes[0] += first.notes.missing_bytes();
            // The vantage of the first place remains that of the report.
            std::mem::swap(&mut first.vantages, &mut second.vantages);
            if defect(&first) <= defect(&second) {
                keep_endings(&mut first, &mut second);
            }
            std::mem::swap(&mut first, &mut second);
        } else {
            self.missing_bytes[1] += second.notes.missing_bytes();
        }
        self.reported.merge(first);
        self.other.merge(second);
    }

    /// Adds the results of another shard.
    pub fn merge(&mut self, theirs: Self) {
        self.reported.merge(theirs.reported);
        self.other.merge(theirs.other);
        for (key, lost_ns) in theirs.lost_ns {
            let mine = self.lost_ns.entry(key).or_default();
            mine.iter_mut().zip(lost_ns).for_each(|(mine, theirs)| *mine += theirs);
        }
        for place in 0..2 {
            self.used_by_place[place] += theirs.used_by_place[place];
            self.missing_bytes[place] += theirs.missing_bytes[place];
        }
    }
}

/// Replaces the ends of connections in the second account by those in the first, which is
/// authoritative for them.
fn keep_endings(first: &mut Tally, second: &mut Tally) {
    for tally in [&mut *first, &mut *second] {
        tally.causes.take_all(|key, it| it.exchanges == 0 && key.cause.family() == Family::Ending);
    }
    let of =
        |tally: &mut Tally| tally.causes.take_all(|key, _| key.cause.family() == Family::Ending);
    let (mine, theirs) = (of(first), of(second));
    second.causes.merge(mine);
    first.causes.merge(theirs);
}

/// Returns the defects of a capture, which make its account less reliable.
fn defect(tally: &Tally) -> impl Ord + use<> {
    (tally.one_way(), tally.notes.missing_bytes())
}

/// Returns the place whose account is used for connections that both saw.
fn reporter(both: &[Tally; 2]) -> Place {
    let [first, second] = both.each_ref();
    match defect(second).cmp(&defect(first)) {
        std::cmp::Ordering::Less => return 1,
        std::cmp::Ordering::Greater => return 0,
        std::cmp::Ordering::Equal => {}
    }
    better(&Account::of(first), &Account::of(second))
}

/// Returns the better place if neither capture has more defects.
fn better(first: &Account, second: &Account) -> Place {
    let [of_client, of_server] = first.disputed(second);
    // This is time before the second place saw the exchange, or after the client had left.
    let unseen_ns = first.wall_ns.abs_diff(second.wall_ns);
    let beyond_ns = second.wall_ns.saturating_sub(first.wall_ns);
    // Time too short for a finding does not justify the use of an estimate instead of a
    // measurement.
    let matters_ns = (Floors::default().fault_share * first.wall_ns as f64) as u64;
    let lost_ns = of_client.max(unseen_ns) + matters_ns;
    usize::from(of_server.saturating_sub(beyond_ns) > lost_ns)
}

/// Time by cause and silent side.
#[derive(Default)]
struct Account {
    lost_ns: HashMap<(Cause, Side), u64>,
    wall_ns: u64,
}

/// Pairs of causes: one that looks like another from a distance, and the true one.
const LOOK_ALIKES: [(Cause, Cause); 2] = [
    (Cause::SynRetransmit, Cause::AcceptQueueOverflow),
    (Cause::SpuriousRetransmission, Cause::Reordering),
];

impl Account {
    fn of(tally: &Tally) -> Self {
        let mut account = Self::default();
        let kinds = tally.endpoints.values().flat_map(|endpoint| endpoint.kinds.groups());
        account.wall_ns = kinds.map(|group| group.ledger.total_ns()).sum();
        // A queue is not a silence of either side: its cost is measured where it was waited for.
        let is_silence =
            |cause: Cause| cause != Cause::Bufferbloat && cause.family() != Family::Ending;
        for (key, cause) in tally.causes.iter().filter(|(key, _)| is_silence(key.cause)) {
            // Either side may have repeated its part of the handshake.
            let sender = match key.cause.family() {
                Family::SetUp => Side::Client,
                _ => key.sender,
            };
            *account.lost_ns.entry((key.cause, sender)).or_default() += cause.lost_ns;
        }
        account
    }

    fn lost(&self, cause: Cause, sender: Side) -> u64 {
        self.lost_ns.get(&(cause, sender)).copied().unwrap_or(0)
    }

    /// Returns the time that two accounts attribute to different causes, ns, by the side near which
    /// the true cause is seen.
    fn disputed(&self, other: &Self) -> [u64; 2] {
        let mut moved = [0; 2];
        for side in Side::ALL {
            for &cause in Cause::ALL {
                moved[cause.witness(side)] +=
                    self.lost(cause, side).abs_diff(other.lost(cause, side));
            }
            for (seeming, cause) in LOOK_ALIKES {
                let excess = |one: &Self, other: &Self, cause| {
                    one.lost(cause, side).saturating_sub(other.lost(cause, side))
                };
                let same = |one: &Self, other: &Self| {
                    excess(one, other, seeming).min(excess(other, one, cause))
                };
                moved[seeming.witness(side)] -= same(self, other) + same(other, self);
            }
        }
        // Time that one account takes from a cause it adds to another, so it was counted twice.
        moved.map(|ns| ns / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(wall_ns: u64, lost_ns: &[(Cause, Side, u64)]) -> Account {
        let lost_ns = lost_ns.iter().map(|&(cause, sender, ns)| ((cause, sender), ns)).collect();
        Account { wall_ns, lost_ns }
    }

    #[test]
    fn a_silence_is_judged_at_the_place_next_to_the_silent_side() {
        let (timer, think) = (Cause::RetransmissionTimeout, Cause::ServerThink);
        let of = |sender, timer_ns, think_ns| {
            account(2_540, &[(timer, sender, timer_ns), (think, Side::Server, think_ns)])
        };
        // The server's work before a response that was lost looks like the wait for the timer.
        assert_eq!(better(&of(Side::Server, 604, 1_660), &of(Side::Server, 452, 1_806)), 1);
        assert_eq!(better(&of(Side::Client, 604, 1_806), &of(Side::Client, 300, 1_806)), 0);
        assert_eq!(
            better(&of(Side::Server, 452, 1_806), &of(Side::Server, 452, 1_806)),
            0,
            "alike"
        );
    }

    #[test]
    fn time_that_one_place_did_not_see_is_judged_by_the_other() {
        let syn = account(1_020, &[(Cause::SynRetransmit, Side::Client, 1_000)]);
        assert_eq!(better(&syn, &account(20, &[])), 0, "a SYN that was lost before the server");
        // Data was repeated to a client that has gone: nothing waited for it.
        let gone = account(1_101, &[(Cause::RetransmissionTimeout, Side::Server, 739)]);
        assert_eq!(better(&account(368, &[]), &gone), 0);
    }

    #[test]
    fn a_finding_that_one_place_can_prove_comes_from_it() {
        let syn = account(11_222, &[(Cause::SynRetransmit, Side::Client, 11_222)]);
        let full = account(11_220, &[(Cause::AcceptQueueOverflow, Side::Client, 11_220)]);
        assert_eq!(better(&syn, &full), 1, "the listener that was full");
        let late = account(6_814, &[(Cause::Reordering, Side::Server, 5_629)]);
        let again = account(6_834, &[(Cause::SpuriousRetransmission, Side::Server, 5_436)]);
        assert_eq!(better(&late, &again), 0, "segments that overtook each other on the way");
    }
}
