//! Pairs of trials in random order, until they show a result or a limit ends them.

use std::thread;
use std::time::Instant;

use tcpwhy_core::experiment::median_ns;

use super::connection::{Connection, ExchangeError, Settings, Subject};
use super::statistics::{Coin, Differences, Shown};

/// Bounds of one experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most pairs.
    pub pairs_max: u64,
    /// Time after which no pair begins.
    pub until: Instant,
    /// The least effect that counts, ns.
    pub floor_ns: u64,
    /// Pairs under way at the same time; more than one where requests take long, so that they wait
    /// together.
    pub at_once: usize,
}

/// Side of the comparison to which a trial belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// The trial without the change.
    Usual,
    /// With it.
    Changed,
}

impl Arm {
    /// Returns the value for this side of the comparison.
    pub fn of<T>(self, usual: T, changed: T) -> T {
        match self {
            Arm::Usual => usual,
            Arm::Changed => changed,
        }
    }
}

/// One trial's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The compared value, ns.
    pub ns: u64,
    /// Requests that it took, or queries.
    pub requests: u64,
}

/// All trials of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Results without the change, ns.
    pub usual_ns: Vec<u64>,
    /// Results with it, ns.
    pub changed_ns: Vec<u64>,
    /// Their differences, in order.
    pub differences: Differences,
    /// Requests sent.
    pub requests: u64,
}

impl Pairs {
    /// Makes pairs until they show an effect of at least the floor, or its absence, or `bounds` end
    /// it.
    ///
    /// # Errors
    /// A trial failed.
    pub fn make(
        bounds: &Bounds,
        coin: &mut Coin,
        trial: impl Fn(Arm) -> Result<Trial, ExchangeError> + Sync,
    ) -> Result<Pairs, ExchangeError> {
        let mut pairs = Pairs::default();
        let floor_ns = i64::try_from(bounds.floor_ns).unwrap_or(i64::MAX);
        while pairs.differences.shown(floor_ns) == Shown::NotYet
            && pairs.differences.count() < bounds.pairs_max
            && Instant::now() < bounds.until
        {
            let tosses: Vec<bool> = (0..bounds.at_once.max(1)).map(|_| coin.toss()).collect();
            let both = |usual_first| pair(usual_first, &trial);
            let made: Vec<_> = thread::scope(|scope| {
                let both = &both;
                let running: Vec<_> =
                    tosses.into_iter().map(|toss| scope.spawn(move || both(toss))).collect();
                let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
                joined
                    .map(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                    .collect()
            });
            for pair in made {
                let [usual, changed] = pair?;
                pairs.add(usual, changed);
            }
        }
        Ok(pairs)
    }

    /// Takes the next pair.
    pub fn add(&mut self, usual: Trial, changed: Trial) {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        self.requests += usual.requests + changed.requests;
        self.usual_ns.push(usual.ns);
        self.changed_ns.push(changed.ns);
        self.differences.push(signed(usual.ns) - signed(changed.ns));
    }
}

/// Both trials of a pair, one after the other; the one without the change first in the result.
fn pair(
    usual_first: bool,
    trial: &impl Fn(Arm) -> Result<Trial, ExchangeError>,
) -> Result<[Trial; 2], ExchangeError> {
    if usual_first {
        return Ok([trial(Arm::Usual)?, trial(Arm::Changed)?]);
    }
    let changed = trial(Arm::Changed)?;
    Ok([trial(Arm::Usual)?, changed])
}

/// Asks `requests` times on a new connection: the median latency of all but the first `skipped`,
/// ns.
///
/// # Errors
/// A request has no answer.
pub fn on_one_connection(
    subject: &Subject,
    settings: Settings,
    (skipped, requests): (usize, usize),
) -> Result<Trial, ExchangeError> {
    let mut connection = Connection::open(subject, settings)?;
    let mut times_ns = Vec::with_capacity(requests);
    for _ in 0..requests {
        let (timing, response) = connection.ask()?;
        times_ns.push(timing.latency_ns());
        if !response.keep_alive {
            break;
        }
    }
    let sent = times_ns.len() as u64;
    let counted = times_ns.get(skipped..).filter(|it| !it.is_empty()).unwrap_or(&times_ns);
    Ok(Trial { ns: median_ns(counted.iter().copied()), requests: sent })
}
