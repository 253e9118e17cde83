//! Runs many cases: several at once, since they mostly sleep, but one at a time if others would
//! disturb it.
//!
//! A case records how late its host and its emulated link were. If they did not keep time while
//! other cases ran, the case is run again after all others. The cases of [`ALONE`], which keep a
//! core busy, always run then. A case that did not reproduce, by the lab's own measurements, is run
//! again with another seed. The content of a capture never decides whether a case is run again.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::case::Case;
use crate::cases::CASES;
use crate::error::LabError;
use crate::find;
use crate::params::Params;
use crate::rng::Rng;
use crate::run::{CaseResult, RunOptions, params, run};

/// Cases that keep a core busy and would disturb others.
const ALONE: [&str; 5] =
    ["syn_flood", "cpu_quota", "noisy_neighbours", "node_loop_blocked", "redis_keys"];

/// The cases of the short form: one or two minutes, and at least one case of each mechanism.
const SHORT: [&str; 18] = [
    "nginx_nodelay_off",
    "client_nagle_redis",
    "think_between_header_and_body",
    "send_buffer",
    "receive_window",
    "slow_reader",
    "loss_tail",
    "loss_syn_ack",
    "mtu_black_hole",
    "refused",
    "idle_reset",
    "http_100_continue",
    "dns_slow",
    "tls_full_handshakes",
    "server_think",
    "healthy_downloads",
    "healthy_nginx",
    "healthy_psql",
];

/// The cases of the short form with treatments: less than a minute.
const SHORT_TREATED: [&str; 5] =
    ["nginx_nodelay_off", "client_nagle", "send_buffer", "port_exhaustion", "dns_search"];

/// A case with its seed.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// The case to run.
    pub case: &'static Case,
    /// The seed.
    pub seed: u64,
}

/// Returns the tasks: all cases or those named, each with `repeat` seeds from `seed` on.
///
/// # Errors No case has one of the names.
pub fn plan(only: &[String], short: bool, seed: u64, repeat: u64) -> Result<Vec<Task>, LabError> {
    let named: Vec<&'static Case> = match only {
        [] if short => SHORT.iter().map(|name| find(name)).collect::<Result<_, _>>()?,
        [] => CASES.iter().collect(),
        names => names.iter().map(|name| find(name)).collect::<Result<_, _>>()?,
    };
    let seeds = seed..seed.saturating_add(repeat);
    Ok(seeds.flat_map(|seed| named.iter().map(move |case| Task { case, seed })).collect())
}

/// Returns the tasks for cases that `tcpwhy treat` can cure.
///
/// # Errors No case has one of the names, or it cannot be treated.
pub fn plan_treated(
    only: &[String],
    short: bool,
    seed: u64,
    repeat: u64,
) -> Result<Vec<Task>, LabError> {
    let short: Vec<String> = match short {
        true => SHORT_TREATED.map(str::to_owned).into(),
        false => only.to_vec(),
    };
    let mut tasks = plan(&short, false, seed, repeat)?;
    let is_treatable = |task: &Task| task.case.knob.is_some_and(|knob| !knob.treat.is_empty());
    if let Some(task) = tasks.iter().find(|task| !short.is_empty() && !is_treatable(task)) {
        return Err(LabError::NotTreatable(task.case.name.to_owned()));
    }
    tasks.retain(is_treatable);
    Ok(tasks)
}

/// The result of a task.
pub type TaskOutcome = Result<CaseResult, LabError>;

/// Runs the tasks, `jobs` at once. `done` is called for each as it ends, on the thread that ran it.
/// Returns what `done` returned, in the order of the tasks.
pub fn run_all<T: Send>(
    tasks: &[Task],
    options: &RunOptions,
    jobs: usize,
    done: &(dyn Fn(&Task, TaskOutcome) -> T + Sync),
) -> Vec<T> {
    let is_alone = |task: &Task| jobs <= 1 || ALONE.contains(&task.case.name);
    let numbered = || tasks.iter().enumerate();
    let together: VecDeque<_> = numbered().filter(|(_, task)| !is_alone(task)).collect();
    let alone: Vec<_> = numbered().filter(|(_, task)| is_alone(task)).collect();
    let (together, alone) = (Mutex::new(together), Mutex::new(alone));
    let finished = Mutex::new(Vec::new());
    let finish = |number: usize, task: &Task, outcome| {
        let made = done(task, outcome);
        lock(&finished).push((number, made));
    };
    let work = || {
        loop {
            let Some((number, task)) = lock(&together).pop_front() else { return };
            let outcome = once(task, options);
            if outcome.as_ref().is_ok_and(|result| !is_punctual(result)) {
                lock(&alone).push((number, task));
            } else {
                finish(number, task, outcome);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    for (number, task) in std::mem::take(&mut *lock(&alone)) {
        finish(number, task, once(task, options));
    }
    let mut finished = std::mem::take(&mut *lock(&finished));
    finished.sort_by_key(|(number, _)| *number);
    finished.into_iter().map(|(_, made)| made).collect()
}

/// Number of seeds with which a case is tried until it reproduces.
const SEEDS: u64 = 3;

/// Distance to the seed of the next attempt; it is larger than the range of seeds in one
/// verification.
const NEXT_SEED: u64 = 1_000_000;

/// One run in this many uses BBR, if the kernel has it: BBR paces what CUBIC sends in bursts.
const BY_BBR: u64 = 4;

/// Cases without a fault if BBR sends: it does not reduce its window after an idle time
/// (`tcp_slow_start_after_idle_check` of the kernel returns for it).
const NOT_BY_BBR: [&str; 1] = ["idle_restart"];

fn sends_by_bbr(case: &Case, seed: u64) -> bool {
    if NOT_BY_BBR.contains(&case.name) {
        return false;
    }
    let known = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let known = fs::read_to_string(known).unwrap_or_default();
    let name = case.name.bytes().fold(seed, |sum, byte| sum.rotate_left(5) ^ u64::from(byte));
    known.split_whitespace().any(|it| it == "bbr") && Rng::new(name).between(1, BY_BBR) == 1
}

/// Runs the task once; the labels of the result contain its seed.
fn once(task: &Task, options: &RunOptions) -> TaskOutcome {
    let try_seed = |seed| {
        let mut options = RunOptions { seed, ..options.clone() };
        if sends_by_bbr(task.case, seed) {
            options.set.insert(0, ("bbr".to_owned(), "1".to_owned()));
        }
        run(task.case, &options)
    };
    let mut outcome = try_seed(task.seed);
    for further in 1..SEEDS {
        let Err(LabError::NotReproduced(_)) = outcome else { break };
        outcome = try_seed(task.seed.wrapping_add(further * NEXT_SEED));
    }
    outcome
}

/// Returns the parameters with which the task's case is run, from the seed that reproduced.
///
/// # Errors The case has no such parameter.
pub fn params_of(task: &Task, seed: u64) -> Result<Params, LabError> {
    let set = sends_by_bbr(task.case, seed).then(|| ("bbr".to_owned(), "1".to_owned()));
    let set = set.into_iter().collect();
    params(task.case, &RunOptions { out: PathBuf::new(), seed, set })
}

/// Returns whether link and host kept time in both runs.
fn is_punctual(result: &CaseResult) -> bool {
    let mut labels = result.faulty.iter().chain([&result.healthy]);
    labels.all(|it| it.stage.is_punctual())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{ALONE, NOT_BY_BBR, SHORT, plan};
    use crate::cases::CASES;

    #[test]
    fn the_short_form_is_made_of_cases() {
        let short = plan(&[], true, 1, 1).expect("all are cases");
        assert_eq!(short.len(), SHORT.len());
        let named = ALONE.iter().chain(&NOT_BY_BBR);
        assert!(named.copied().all(|name| CASES.iter().any(|case| case.name == name)));
    }

    #[test]
    fn each_repetition_has_a_seed_of_its_own() {
        let tasks = plan(&["refused".to_owned(), "dns_slow".to_owned()], false, 7, 3);
        let tasks = tasks.expect("both are cases");
        let seeds: Vec<_> = tasks.iter().map(|task| (task.case.name, task.seed)).collect();
        assert_eq!(seeds[..3], [("refused", 7), ("dns_slow", 7), ("refused", 8)]);
        assert_eq!(seeds.len(), 6);
        assert!(plan(&["no_such".to_owned()], false, 1, 1).is_err());
    }
}
