//! Selects the experiments that a target permits, and runs each within its time and its share of the budget.

use super::asked::RequestResults;
use super::error::DoctorError;
use super::steps::Steps;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tcpwhy_core::experiment::sentence;
use tcpwhy_core::model::Language;
use tcpwhy_core::model::experiment::Experiment;
use tcpwhy_core::model::units::{bytes, duration};
use tcpwhy_probe::Scheme;
use tcpwhy_probe::budget::Budget;
use tcpwhy_probe::dns;
use tcpwhy_probe::experiment::{
    Bounds, Coin, ExchangeError, Kind, Occasion, Others, PAIRS_MIN, Skipped, Subject, make,
};
use tcpwhy_probe::tls::{TlsOptions, client_config};

/// Time limit of one experiment.
const EXPERIMENT_LASTS: Duration = Duration::from_secs(4);
/// The same if trials have to follow each other, since their answers would share the path.
const TRANSFERS_LAST: Duration = Duration::from_secs(12);
/// Largest number of pairs in one experiment: twenty with three exceptions are enough, too.
pub const PAIRS_MAX: u64 = 24;
/// From this request time on, ns, several pairs run at the same time: four clients do not disturb a
/// server that answers so slowly.
pub const LONG_NS: u64 = 20_000_000;
const CLIENTS: usize = 4;
/// From this request time on, ns, all pairs that suffice run at the same time: two batches of trials with
/// two requests each would exceed the time limit.
const VERY_LONG_NS: u64 = EXPERIMENT_LASTS.as_nanos() as u64 / 4;
/// The smallest effect that is reported, ns, and as a share of the request time; users do not
/// notice less.
pub const FLOOR_NS: u64 = 1_000_000;
pub const FLOOR_PART: u64 = 10;

/// Finds what experiments can use for comparison: another address of the server, the host's name
/// servers, and TLS with resumed sessions.
pub fn others(
    tls: &TlsOptions,
    subject: &Subject,
    addresses: &[SocketAddr],
    queries: Budget,
) -> Result<Others, DoctorError> {
    let family = addresses.iter().find(|it| it.is_ipv4() != subject.server.is_ipv4()).copied();
    let resolvers = dns::Config::system().map(|it| it.servers).unwrap_or_default();
    let is_tls = subject.tls.is_some();
    let resuming = is_tls.then(|| client_config(tls)).transpose()?;
    Ok(Others { family, resolvers, resuming, queries })
}

/// Selects from the `wanted` experiments those that this target permits, and adds those whose
/// occasion is given.
pub fn worth_making(
    wanted: Vec<Kind>,
    asked: &RequestResults,
    subject: &Subject,
    occasions: &[(Occasion, bool)],
    steps: &mut Steps,
) -> Vec<Kind> {
    if wanted.is_empty() || subject.target.scheme == Scheme::Tcp {
        return Vec::new();
    }
    if let (true, Some(status)) = (asked.is_unwelcome(), asked.status) {
        let why = format!("with status {status} the server asks for fewer requests");
        steps.skipped("experiments", why);
        return Vec::new();
    }
    if asked.is_stuck {
        // If no response ever ends, only the effect of large packets can be tested.
        return vec![Kind::Mss];
    }
    if !asked.is_answered() {
        return Vec::new();
    }
    let mut kinds = wanted;
    if asked.http2.is_some() {
        // Their writes and `Expect` are of HTTP/1.1.
        for kind in kinds.extract_if(.., |kind| kind.needs_body()) {
            steps.skipped(kind.name(), "it concerns HTTP/1.1 alone: --http1.1");
        }
    }
    for (occasion, _) in occasions.iter().filter(|(_, is_given)| *is_given) {
        let more: Vec<_> = Kind::on(*occasion).filter(|it| !kinds.contains(it)).collect();
        // The cause that makes all requests slow is asked about first.
        let at = if *occasion == Occasion::SmallWindow { 0 } else { kinds.len() };
        kinds.splice(at..at, more);
    }
    kinds
}

/// Returns the largest number of pairs of an experiment that has this share of the budget, so that one
/// that cannot tell leaves the others theirs.
fn pairs_max(kind: Kind, share_bytes: u64, exchange_bytes: u64) -> u64 {
    let pairs_bytes = share_bytes.saturating_sub(kind.requests_beside() * exchange_bytes);
    let pair_bytes = kind.requests_of_pair() * exchange_bytes;
    (pairs_bytes / pair_bytes.max(1)).clamp(PAIRS_MIN, PAIRS_MAX)
}

/// Returns the least effect of an experiment that counts, ns.
fn floor_ns(kind: Kind, asked: &RequestResults) -> u64 {
    let layers = asked.layers();
    FLOOR_NS.max(match kind.measures_queue() {
        // A link that limits an answer has no pauses within it. Of a server that pauses, a part of the answer
        // may wait in a queue, for less time than its pause, in which the link has nothing to carry.
        true => layers.path_ns.max(asked.pause_ns()),
        false => layers.request_ns / FLOOR_PART,
    })
}

/// Returns whether the trials of an experiment have to follow each other: answers of several flights that
/// come at the same time share the path, and each of them may fill its queue.
fn takes_turns(kind: Kind, asked: &RequestResults, subject: &Subject) -> bool {
    let is_transfer = asked.exceeds_first_flight(subject) && asked.answer_ns() >= LONG_NS;
    !kind.asks_resolvers() && (is_transfer || kind.measures_queue())
}

/// Runs the experiments. If the server begins to answer otherwise than before, nothing more is sent
/// to it, and the reason is returned, too.
pub fn run(
    asked: &RequestResults,
    subject: &Subject,
    kinds: Vec<Kind>,
    others: &Others,
    steps: &mut Steps,
) -> (Vec<Experiment>, Option<String>) {
    let mut coin = Coin::new(RandomState::new().hash_one(subject.server));
    let mut made = Vec::new();
    let exchange_bytes = asked.exchange_bytes_max(subject);
    for (index, kind) in kinds.iter().copied().enumerate() {
        let began = Instant::now();
        let pair_bytes = kind.requests_of_pair() * exchange_bytes;
        let least_bytes = PAIRS_MIN * pair_bytes;
        if !kind.asks_resolvers() && subject.budget.left_bytes() < least_bytes {
            let size = bytes(exchange_bytes);
            let why = format!("with {size} for each answer it would exceed the budget");
            steps.skipped(kind.name(), why);
            continue;
        }
        let request_ns = asked.layers().request_ns;
        let takes_turns = takes_turns(kind, asked, subject);
        let pairs_ns = PAIRS_MIN * kind.requests_of_pair() * request_ns;
        if takes_turns && Duration::from_nanos(pairs_ns) > TRANSFERS_LAST {
            let lasts = duration(pairs_ns);
            let why = format!("its answers, one after the other, would take {lasts}");
            steps.skipped(kind.name(), why);
            continue;
        }
        let (at_once, lasts) = match request_ns {
            _ if takes_turns => (1, TRANSFERS_LAST),
            VERY_LONG_NS.. => (PAIRS_MIN as usize, EXPERIMENT_LASTS),
            LONG_NS.. => (CLIENTS, EXPERIMENT_LASTS),
            _ => (1, EXPERIMENT_LASTS),
        };
        let until = began + lasts;
        // Requests on several streams follow.
        let shares = kinds.len() - index + usize::from(asked.http2.is_some());
        let share_bytes = subject.budget.left_bytes() / shares as u64;
        let pairs_max = pairs_max(kind, share_bytes, exchange_bytes);
        let floor_ns = floor_ns(kind, asked);
        let bounds = Bounds { pairs_max, until, floor_ns, at_once, request_ns };
        match make(kind, subject, others, &bounds, &mut coin) {
            Ok(experiment) => {
                steps.done(kind.name(), began, sentence(&experiment, Language::English));
                made.push(experiment);
            }
            Err(Skipped::DoesNotApply(why)) => steps.skipped(kind.name(), why),
            Err(Skipped::Failed(ExchangeError::Budget(exceeded))) => {
                steps.skipped(kind.name(), exceeded.to_string());
            }
            Err(failed) => {
                let why = failed.to_string();
                steps.failed(kind.name(), began, why.clone());
                if matches!(failed, Skipped::Failed(ExchangeError::Status(_))) {
                    return (made, Some(why));
                }
            }
        }
    }
    (made, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_that_cannot_tell_leave_the_others_enough() {
        let kinds = [Kind::Quickack, Kind::Connection, Kind::Resumption];
        for (exchange_bytes, first_pairs) in [(700, PAIRS_MAX), (40_000, PAIRS_MIN)] {
            let mut left = 8 << 20;
            for (index, kind) in kinds.into_iter().enumerate() {
                let share = left / (kinds.len() - index) as u64;
                let pairs = pairs_max(kind, share, exchange_bytes);
                assert!(index > 0 || pairs == first_pairs, "{pairs}");
                let requests = kind.requests_beside() + pairs * kind.requests_of_pair();
                left -= requests * exchange_bytes;
                assert!(pairs >= PAIRS_MIN);
            }
        }
    }
}
