//! Pairs of trials in random order, until they show something or may not go on.

use std::time::Instant;

use super::connection::{Connection, ExchangeError, Settings, Subject};
use super::statistics::{Coin, Differences, Shown, median_ns};

/// Bounds of one experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most pairs.
    pub pairs_max: u64,
    /// No pair begins after this.
    pub until: Instant,
    /// The least effect that counts, ns.
    pub floor_ns: u64,
}

/// Which side of the comparison a trial is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Without the change.
    Usual,
    /// With it.
    Changed,
}

/// One trial's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// What is compared, ns.
    pub ns: u64,
    /// Requests that it took.
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
    /// Makes pairs until they show an effect of at least the floor, or that there is none, or `bounds` end it.
    ///
    /// # Errors
    /// A trial failed.
    pub fn make(
        bounds: &Bounds,
        coin: &mut Coin,
        mut trial: impl FnMut(Arm) -> Result<Trial, ExchangeError>,
    ) -> Result<Pairs, ExchangeError> {
        let mut pairs = Pairs::default();
        while pairs.differences.count() < bounds.pairs_max && Instant::now() < bounds.until {
            let order = match coin.toss() {
                true => [Arm::Usual, Arm::Changed],
                false => [Arm::Changed, Arm::Usual],
            };
            for arm in order {
                let done = trial(arm)?;
                pairs.requests += done.requests;
                match arm {
                    Arm::Usual => pairs.usual_ns.push(done.ns),
                    Arm::Changed => pairs.changed_ns.push(done.ns),
                }
            }
            let last = |of: &[u64]| of.last().map_or(0, |&it| it.min(i64::MAX as u64) as i64);
            pairs.differences.push(last(&pairs.usual_ns) - last(&pairs.changed_ns));
            let floor_ns = i64::try_from(bounds.floor_ns).unwrap_or(i64::MAX);
            if pairs.differences.shown(floor_ns) != Shown::NotYet {
                break;
            }
        }
        Ok(pairs)
    }
}

/// Asks `requests` times on a new connection: the median latency of all but the first `skipped`, ns.
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
    Ok(Trial { ns: median_ns(counted), requests: sent })
}
