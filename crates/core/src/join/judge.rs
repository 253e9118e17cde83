//! Which of two places tells of a connection, all of it: what was found, the ledger and what a
//! request took stand and fall together.
//!
//! What a request took is measured where it was made. Who was silent, and why, is known at the place
//! next to whoever was: beyond it, it has to be inferred from what comes. Where both tell the same,
//! the place nearer the client tells. Where they do not, the one whose word would be lost, if the
//! other told, on more time.

use crate::app::Side;
use crate::findings::{Floors, Tally};
use crate::model::{Cause, Culprit, Place};
use crate::wire::FlowKey;
use hashbrown::HashMap;

/// Connections of a shard that are judged one by one at a time; more of them are judged as one.
const OPEN_MAX: usize = 512;

/// How a connection ended for its client is known nearer the client, and costs no silence.
pub(super) const ENDINGS: [Cause; 3] = [Cause::Refused, Cause::Reset, Cause::IdleReset];

/// Two places' accounts of the connections that both see.
#[derive(Default)]
pub struct Accounts {
    open: HashMap<FlowKey, Box<[Tally; 2]>>,
    /// Of what was too much to keep apart.
    crowd: Box<[Tally; 2]>,
    settled: Settled,
}

/// What was made of two accounts.
#[derive(Default)]
pub struct Settled {
    /// Each connection as the place tells it that sees it better.
    pub told: Tally,
    /// The same connections as the other place tells them.
    pub other: Tally,
    /// Time lost to each cause by the place, ns, however little.
    pub lost_ns: HashMap<(Cause, Culprit), [u64; 2]>,
    /// Connections by who tells of them.
    pub told_by: [u64; 2],
    /// Bytes of them that a place missed and the other told of.
    pub missing_bytes: [u64; 2],
}

impl Accounts {
    /// What `place` tells of a connection.
    pub fn of(&mut self, key: &FlowKey, place: Place) -> &mut Tally {
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(key) {
            return &mut self.crowd[place];
        }
        &mut self.open.entry(*key).or_default()[place]
    }

    /// All that keep a list of connections.
    pub fn tallies_mut(&mut self) -> impl Iterator<Item = &mut Tally> {
        self.crowd.iter_mut().chain([&mut self.settled.told, &mut self.settled.other])
    }

    /// Both places have seen the end of it.
    pub fn settle(&mut self, key: &FlowKey) {
        if let Some(both) = self.open.remove(key) {
            self.settled.take(*both);
        }
    }

    /// The capture is over.
    pub fn finish(mut self) -> Settled {
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_unstable_by_key(|(key, _)| *key);
        open.into_iter().for_each(|(_, both)| self.settled.take(*both));
        self.settled.take(*self.crowd);
        self.settled
    }
}

impl Settled {
    /// Judges what both places tell of the same connections.
    fn take(&mut self, mut both: [Tally; 2]) {
        both.iter_mut().for_each(Tally::settle);
        let teller = teller(&both);
        for (place, tally) in both.iter().enumerate() {
            for (key, cause) in tally.causes.iter() {
                self.lost_ns.entry((key.cause, key.culprit)).or_default()[place] += cause.lost_ns;
            }
        }
        let [mut first, mut second] = both;
        self.told_by[teller] += first.connections;
        if teller == 1 {
            self.missing_bytes[0] += first.notes.missing_bytes();
            // It remains the first whose vantage that of all is.
            std::mem::swap(&mut first.vantages, &mut second.vantages);
            if defect(&first) <= defect(&second) {
                keep_endings(&mut first, &mut second);
            }
            std::mem::swap(&mut first, &mut second);
        } else {
            self.missing_bytes[1] += second.notes.missing_bytes();
        }
        self.told.merge(first);
        self.other.merge(second);
    }

    /// Adds what another shard found.
    pub fn merge(&mut self, theirs: Self) {
        self.told.merge(theirs.told);
        self.other.merge(theirs.other);
        for (key, lost_ns) in theirs.lost_ns {
            let mine = self.lost_ns.entry(key).or_default();
            mine.iter_mut().zip(lost_ns).for_each(|(mine, theirs)| *mine += theirs);
        }
        for place in 0..2 {
            self.told_by[place] += theirs.told_by[place];
            self.missing_bytes[place] += theirs.missing_bytes[place];
        }
    }
}

/// How the second, which tells of all else, has it that connections ended is what the first says.
fn keep_endings(first: &mut Tally, second: &mut Tally) {
    for tally in [&mut *first, &mut *second] {
        tally.causes.take_all(|key, it| it.exchanges == 0 && ENDINGS.contains(&key.cause));
    }
    let of = |tally: &mut Tally| tally.causes.take_all(|key, _| ENDINGS.contains(&key.cause));
    let (mine, theirs) = (of(first), of(second));
    second.causes.merge(mine);
    first.causes.merge(theirs);
}

/// What makes a capture a bad witness.
fn defect(tally: &Tally) -> impl Ord + use<> {
    (tally.one_way(), tally.notes.missing_bytes())
}

/// Who is to tell of what both saw.
fn teller(both: &[Tally; 2]) -> Place {
    let [first, second] = both.each_ref();
    match defect(second).cmp(&defect(first)) {
        std::cmp::Ordering::Less => return 1,
        std::cmp::Ordering::Greater => return 0,
        std::cmp::Ordering::Equal => {}
    }
    better(&Account::of(first), &Account::of(second))
}

/// Who of two good witnesses is to tell.
fn better(first: &Account, second: &Account) -> Place {
    let [of_client, of_server] = first.disputed(second);
    // What passed before the second place saw anything of it, or after the client had gone.
    let unseen_ns = first.wall_ns.abs_diff(second.wall_ns);
    let beyond_ns = second.wall_ns.saturating_sub(first.wall_ns);
    // Less than could be a finding is not worth an estimate of what can be measured.
    let matters_ns = (Floors::default().fault_share * first.wall_ns as f64) as u64;
    let lost_ns = of_client.max(unseen_ns) + matters_ns;
    usize::from(of_server.saturating_sub(beyond_ns) > lost_ns)
}

/// Time by who was silent and why.
#[derive(Default)]
struct Account {
    lost_ns: HashMap<(Cause, Side), u64>,
    wall_ns: u64,
}

/// A cause that looks like another from afar: the other, and itself.
const LOOK_ALIKES: [(Cause, Cause); 2] = [
    (Cause::SynRetransmit, Cause::AcceptQueueOverflow),
    (Cause::SpuriousRetransmission, Cause::Reordering),
];

/// Next to whom a cause is seen best where `sender` was silent.
pub(super) fn witness(cause: Cause, sender: Side) -> Side {
    match cause {
        Cause::SynRetransmit => Side::Client,
        Cause::AcceptQueueOverflow => Side::Server,
        // Segments overtake each other behind their sender's place.
        Cause::Reordering => sender.peer(),
        _ => sender,
    }
}

impl Account {
    fn of(tally: &Tally) -> Self {
        let mut account = Self::default();
        let kinds = tally.endpoints.values().flat_map(|endpoint| endpoint.kinds.values());
        account.wall_ns = kinds.map(|group| group.ledger.total_ns()).sum();
        // A queue is nobody's silence: what it cost is measured where it was waited for.
        let is_silence = |cause| cause != Cause::Bufferbloat && !ENDINGS.contains(&cause);
        for (key, cause) in tally.causes.iter().filter(|(key, _)| is_silence(key.cause)) {
            // Either side may have been the one to repeat its part of a set-up.
            let sender = match key.cause {
                Cause::SynRetransmit | Cause::AcceptQueueOverflow => Side::Client,
                _ => key.sender,
            };
            *account.lost_ns.entry((key.cause, sender)).or_default() += cause.lost_ns;
        }
        account
    }

    fn lost(&self, cause: Cause, sender: Side) -> u64 {
        self.lost_ns.get(&(cause, sender)).copied().unwrap_or(0)
    }

    /// Time that two accounts give to different causes, by next to whom the truth is seen, ns.
    fn disputed(&self, other: &Self) -> [u64; 2] {
        let mut moved = [0; 2];
        for side in Side::ALL {
            for &cause in Cause::ALL {
                moved[witness(cause, side) as usize] +=
                    self.lost(cause, side).abs_diff(other.lost(cause, side));
            }
            for (seeming, cause) in LOOK_ALIKES {
                let excess = |one: &Self, other: &Self, cause| {
                    one.lost(cause, side).saturating_sub(other.lost(cause, side))
                };
                let same = |one: &Self, other: &Self| {
                    excess(one, other, seeming).min(excess(other, one, cause))
                };
                moved[witness(seeming, side) as usize] -= same(self, other) + same(other, self);
            }
        }
        // What is taken from one cause is given to another.
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
    fn a_silence_is_told_by_the_place_next_to_who_was_silent() {
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
    fn what_one_place_never_saw_the_other_tells() {
        let syn = account(1_020, &[(Cause::SynRetransmit, Side::Client, 1_000)]);
        assert_eq!(better(&syn, &account(20, &[])), 0, "a SYN that was lost before the server");
        // Repeated to a client that has gone: nobody waited for it.
        let gone = account(1_101, &[(Cause::RetransmissionTimeout, Side::Server, 739)]);
        assert_eq!(better(&account(368, &[]), &gone), 0);
    }

    #[test]
    fn what_only_one_place_can_prove_is_told_by_it() {
        let syn = account(11_222, &[(Cause::SynRetransmit, Side::Client, 11_222)]);
        let full = account(11_220, &[(Cause::AcceptQueueOverflow, Side::Client, 11_220)]);
        assert_eq!(better(&syn, &full), 1, "the listener that was full");
        let late = account(6_814, &[(Cause::Reordering, Side::Server, 5_629)]);
        let again = account(6_834, &[(Cause::SpuriousRetransmission, Side::Server, 5_436)]);
        assert_eq!(better(&late, &again), 0, "segments that overtook each other on the way");
    }
}
