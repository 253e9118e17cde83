//! Runs many cases: several at once, since they mostly sleep, but alone where that would show.
//!
//! A case with an emulated link says how late its link was. One whose link did not keep time
//! beside others is run again when all others are done; so are, from the start, the cases of
//! [`ALONE`], which take all of a core. One that did not reproduce by what the lab itself knows is
//! run again from another seed. What is found in a capture never decides what is run again.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::case::Case;
use crate::cases::CASES;
use crate::error::LabError;
use crate::find;
use crate::labels::Labels;
use crate::params::Params;
use crate::rng::Rng;
use crate::run::{CaseResult, RunOptions, params, run};

/// Cases that keep a core busy and would disturb others.
const ALONE: [&str; 1] = ["syn_flood"];

/// The cases of the short form: a minute or two, and at least one of each mechanism.
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

/// Those of the short form with treatments: less than a minute.
const SHORT_TREATED: [&str; 5] =
    ["nginx_nodelay_off", "client_nagle", "send_buffer", "port_exhaustion", "dns_search"];

/// A case with where chance starts.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// What is run.
    pub case: &'static Case,
    /// Its seed.
    pub seed: u64,
}

/// What to run: all cases or those named, each with `repeat` seeds from `seed` on.
///
/// # Errors
/// No case has one of the names.
pub fn plan(only: &[String], short: bool, seed: u64, repeat: u64) -> Result<Vec<Task>, LabError> {
    let named: Vec<&'static Case> = match only {
        [] if short => SHORT.iter().map(|name| find(name)).collect::<Result<_, _>>()?,
        [] => CASES.iter().collect(),
        names => names.iter().map(|name| find(name)).collect::<Result<_, _>>()?,
    };
    let seeds = seed..seed.saturating_add(repeat);
    Ok(seeds.flat_map(|seed| named.iter().map(move |case| Task { case, seed })).collect())
}

/// The same of those that `tcpwhy treat` can cure.
///
/// # Errors
/// No case has one of the names, or it cannot be treated.
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

/// What became of a task.
pub type Outcome = Result<CaseResult, LabError>;

/// Runs the tasks, `jobs` at once; `done` is called for each as it ends, on the thread that ran
/// it. Answers what `done` made of them, in the order of the tasks.
pub fn run_all<T: Send>(
    tasks: &[Task],
    options: &RunOptions,
    jobs: usize,
    done: &(dyn Fn(&Task, Outcome) -> T + Sync),
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

/// How many seeds a case is tried with until it reproduces.
const SEEDS: u64 = 3;

/// Apart by more than seeds of one verification ever are.
const NEXT_SEED: u64 = 1_000_000;

/// One run in so many is by BBR, where the kernel has it: it paces what cubic sends in bursts.
const BY_BBR: u64 = 4;

fn sends_by_bbr(case: &Case, seed: u64) -> bool {
    let known = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let known = fs::read_to_string(known).unwrap_or_default();
    let name = case.name.bytes().fold(seed, |sum, byte| sum.rotate_left(5) ^ u64::from(byte));
    known.split_whitespace().any(|it| it == "bbr") && Rng::new(name).between(1, BY_BBR) == 1
}

/// The result tells by its labels which seed it is from.
fn once(task: &Task, options: &RunOptions) -> Outcome {
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

/// The parameters with which the task's case is run, from the seed that reproduced.
///
/// # Errors
/// The case has no such parameter.
pub fn params_of(task: &Task, seed: u64) -> Result<Params, LabError> {
    let set = sends_by_bbr(task.case, seed).then(|| ("bbr".to_owned(), "1".to_owned()));
    let set = set.into_iter().collect();
    params(task.case, &RunOptions { out: PathBuf::new(), seed, set })
}

/// Returns whether the links of both runs kept time.
fn is_punctual(result: &CaseResult) -> bool {
    let punctual = |labels: &Labels| {
        labels.stage.relay.as_ref().is_none_or(|relay| relay.timekeeping.is_punctual())
    };
    result.faulty.iter().chain([&result.healthy]).all(punctual)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{ALONE, SHORT, plan};
    use crate::cases::CASES;

    #[test]
    fn the_short_form_is_made_of_cases() {
        let short = plan(&[], true, 1, 1).expect("all are cases");
        assert_eq!(short.len(), SHORT.len());
        assert!(ALONE.iter().all(|name| CASES.iter().any(|case| case.name == *name)));
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
