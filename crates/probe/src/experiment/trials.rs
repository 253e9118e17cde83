//! Pairs of trials in random order, until they show a result or a limit ends them.

use std::thread;
use std::time::Instant;

use tcpwhy_core::experiment::median_ns;

use super::connection::{Connection, Settings, Subject};
use super::error::ExchangeError;
use super::statistics::{Coin, Differences, Shown};

/// The limits of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Greatest number of pairs.
    pub pairs_max: u64,
    /// Time after which no pair begins.
    pub until: Instant,
    /// The least effect that counts, ns.
    pub floor_ns: u64,
    /// Number of pairs that run at the same time. It is greater than 1 if requests take long, so
    /// that their waits overlap.
    pub at_once: usize,
    /// The usual latency of a request, ns.
    pub request_ns: u64,
}

/// Side of the comparison to which a trial belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// The trial without the change.
    Usual,
    /// The trial with the change.
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

/// The result of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The compared value, ns.
    pub ns: u64,
    /// Number of requests, or queries, of the trial.
    pub requests: u64,
}

/// The results of all trials of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Results without the change, ns.
    pub usual_ns: Vec<u64>,
    /// Results with the change, ns.
    pub changed_ns: Vec<u64>,
    /// The differences of the pairs, in order.
    pub differences: Differences,
    /// Number of requests sent.
    pub requests: u64,
}

impl Pairs {
    /// Runs pairs until they show an effect of at least the floor, or its absence, or until
    /// `bounds` are reached or the budget is spent.
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
                match pair {
                    Ok([usual, changed]) => pairs.add(usual, changed),
                    // What the budget permitted is a result, too.
                    Err(ExchangeError::Budget(_)) if pairs.differences.count() > 0 => {
                        return Ok(pairs);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(pairs)
    }

    /// Adds the next pair.
    pub fn add(&mut self, usual: Trial, changed: Trial) {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        self.requests += usual.requests + changed.requests;
        self.usual_ns.push(usual.ns);
        self.changed_ns.push(changed.ns);
        self.differences.push(signed(usual.ns) - signed(changed.ns));
    }
}

/// Runs both trials of a pair, one after the other. The result of the one without the change is
/// returned first.
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

/// Sends `requests` requests on a new connection. Returns the median latency of all but the first
/// `skipped`, ns.
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
