//! Runs a case into captures with labels: with its fault, then as its healthy twin.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tcpwhy_live::folder::Folder;

use crate::capture::CaptureParams;
use crate::case::{Case, Ran, drawn};
use crate::cleanup;
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, FORMAT, Labels, Latency, Variant};
use crate::on_wire;
use crate::params::Params;
use crate::stage::{Link, LoadReplacement, Stage, StageParams, versions};

/// Where and how a case is run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The captures go to `out/CASE-SEED/faulty/` and `…/healthy/`.
    pub out: PathBuf,
    /// Seed of the run.
    pub seed: u64,
    /// Parameters given by the user: names, and values with units.
    pub set: Vec<(String, String)>,
}

/// The labels of both runs; a look-alike without a fault has only `healthy`.
#[derive(Debug)]
pub struct CaseResult {
    /// Directory of the captures.
    pub dir: PathBuf,
    /// The run with the fault.
    pub faulty: Option<Labels>,
    /// The healthy twin, or the look-alike.
    pub healthy: Labels,
}

impl CaseResult {
    /// Returns the file of the capture taken at `vantage` in a run.
    pub fn capture(&self, labels: &Labels, vantage: &str) -> Option<PathBuf> {
        let capture = labels.stage.captures.iter().find(|it| it.vantage == vantage)?;
        Some(self.dir.join(labels.variant.dir()).join(&capture.file))
    }
}

/// A run that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The variant that is run.
    pub variant: Variant,
    /// Number of the attempt, from 1; there are several if the host did not keep time.
    pub number: u32,
}

/// Returns the parameters as drawn from the seed, changed by those that the user set.
///
/// # Errors The case has no such parameter, or a value cannot be read.
pub fn params(case: &Case, options: &RunOptions) -> Result<Params, LabError> {
    let mut params = drawn(case, options.seed);
    for (name, value) in &options.set {
        params.set(name, value)?;
    }
    Ok(params)
}

/// Runs a case and its healthy twin, if it has one; writes captures and labels.
///
/// # Errors A step fails, or the fault did not occur as the labels say.
pub fn run(case: &Case, options: &RunOptions) -> Result<CaseResult, LabError> {
    run_told(case, options, &mut |_| ())
}

/// Runs as [`run`] does and calls `tell` at the beginning of each attempt.
///
/// # Errors As for [`run`].
pub fn run_told(
    case: &Case,
    options: &RunOptions,
    tell: &mut dyn FnMut(Attempt),
) -> Result<CaseResult, LabError> {
    let params = params(case, options)?;
    let name = format!("{}-{}", case.name, options.seed);
    let dir = options.out.join(&name);
    // A directory that existed before is not removed if a run fails.
    let is_new = !dir.exists();
    if is_new {
        cleanup::remember_dir(dir.clone());
    }
    let run = |out| Runner { case, params, seed: options.seed, out, tell }.run();
    let result = open(&options.out, &name).and_then(run);
    match &result {
        Err(_) if is_new => cleanup::remove_dir(&dir),
        _ => cleanup::forget_dir(&dir),
    }
    result
}

/// Builds the stage of the faulty run, starts its software, calls `up` when the load would begin,
/// and keeps the stage until the process is told to stop.
///
/// # Errors A step fails, or the case has nothing that could be kept up.
pub fn hold(
    case: &Case,
    options: &RunOptions,
    up: fn(&Stage, &'static str),
) -> Result<Infallible, LabError> {
    let params = params(case, options)?;
    let mut stage = build(case, &params, options.seed, Variant::Faulty, None)?;
    stage.hold = Some((up, case.name));
    (case.act)(&mut stage, &params, Variant::Faulty)?;
    Err(LabError::NotReproduced("its load ended before it could be held".to_owned()))
}

/// Runs a case without captures, since these cost time; repeats it if the link was late.
///
/// # Errors A step fails.
pub fn uncaptured(
    case: &Case,
    params: &Params,
    seed: u64,
    variant: Variant,
) -> Result<Ran, LabError> {
    let mut number = 1;
    loop {
        let mut stage = build(case, params, seed, variant, None)?;
        let observed = (case.act)(&mut stage, params, variant)?;
        let ran = Ran { observed, stage: stage.finish()? };
        if ran.stage.is_punctual() || number == ATTEMPTS {
            return Ok(ran);
        }
        number += 1;
    }
}

/// Time for which a load runs before it is observed.
const UNDER_WAY: Duration = Duration::from_millis(300);
/// Pause before an observed load is run again.
const BETWEEN_LOADS: Duration = Duration::from_millis(50);

/// Runs the load of a case and meanwhile `observe`, which gets the names of the client's and the
/// server's namespace after the load has begun. If the load ends before `observe` does, it is run
/// again on the same stage, unless the stage of the case can be used only once. All of it is
/// repeated if link or host were late; the second value is `true` if they were in the last attempt
/// too.
///
/// # Errors A step of the first load fails.
pub fn observed<T: Send>(
    case: &Case,
    params: &Params,
    seed: u64,
    variant: Variant,
    observe: impl Fn([&str; 2]) -> T + Sync,
) -> Result<(T, bool), LabError> {
    let mut number = 1;
    loop {
        let (seen, is_punctual) = observed_once(case, params, seed, variant, &observe)?;
        if is_punctual || number == ATTEMPTS {
            return Ok((seen, !is_punctual));
        }
        number += 1;
    }
}

fn observed_once<T: Send>(
    case: &Case,
    params: &Params,
    seed: u64,
    variant: Variant,
    observe: &(impl Fn([&str; 2]) -> T + Sync),
) -> Result<(T, bool), LabError> {
    let mut stage = build(case, params, seed, variant, None)?;
    let (load_begins, begun) = mpsc::channel();
    stage.load_begins = Some(load_begins);
    let names = [stage.client.name().to_owned(), stage.server.name().to_owned()];
    let seen = thread::scope(|scope| {
        let observer = scope.spawn(move || {
            begun.recv().ok()?;
            thread::sleep(UNDER_WAY);
            Some(observe([&names[0], &names[1]]))
        });
        let mut load = (case.act)(&mut stage, params, variant).map(|_| ());
        if load.is_err() {
            // Otherwise the observer would wait for a load that never begins.
            stage.load_begins = None;
        }
        while load.is_ok() && !observer.is_finished() {
            // Loads without a pause would keep every core busy, and the kernel's own work waiting.
            thread::sleep(BETWEEN_LOADS);
            load = match (case.act)(&mut stage, params, variant) {
                Ok(_) => Ok(()),
                Err(_) => break,
            };
        }
        load?;
        let seen = observer.join().ok().flatten();
        seen.ok_or_else(|| LabError::NotReproduced("its load never began".to_owned()))
    });
    let is_punctual = stage.finish()?.is_punctual();
    Ok((seen?, is_punctual))
}

/// Builds the stage of a case, starts its software, and calls `action` instead of the load.
///
/// # Errors A step before the load fails.
pub fn replacing_load<T: Send + 'static>(
    case: &Case,
    params: &Params,
    seed: u64,
    variant: Variant,
    action: impl FnOnce(&Stage) -> T + Send + Sync + 'static,
) -> Result<T, LabError> {
    let mut stage = build(case, params, seed, variant, None)?;
    let (tell, told) = mpsc::channel();
    stage.load_replacement = Some(LoadReplacement(Box::new(move |stage| {
        // The receiver is further down in this function.
        let _ = tell.send(action(stage));
    })));
    match (case.act)(&mut stage, params, variant) {
        Ok(_) | Err(LabError::LoadReplaced) => {}
        Err(error) => return Err(error),
    }
    told.recv().map_err(|_| LabError::NotReproduced("its load never began".to_owned()))
}

const ATTEMPTS: u32 = 3;
/// Name of the file with the labels of a run.
const LABELS: &str = "labels.json";

struct Runner<'a> {
    case: &'a Case,
    params: Params,
    seed: u64,
    out: Folder,
    tell: &'a mut dyn FnMut(Attempt),
}

impl Runner<'_> {
    fn run(mut self) -> Result<CaseResult, LabError> {
        if self.case.class == Class::None {
            let (ran, link) = self.punctually(Variant::Healthy)?;
            let healthy = self.labels(Variant::Healthy, &ran, link);
            write(&self.out, &healthy)?;
            return Ok(CaseResult { dir: self.out.path().to_owned(), faulty: None, healthy });
        }
        let (bad, bad_link) = self.punctually(Variant::Faulty)?;
        let causes = (self.case.truth)(&self.params, &bad)?;
        let (good, good_link) = self.punctually(Variant::Healthy)?;
        let mut faulty = self.labels(Variant::Faulty, &bad, bad_link);
        faulty.causes = causes;
        // The measurements of a late twin are not used, and the values that need them stay unknown.
        if good.stage.is_punctual() {
            lost_by_twin(&mut faulty.causes, &bad, &good)?;
            faulty.latency_after_fix_ns = Some(Latency::of(&good.observed.loaded.requests));
            faulty.on_wire_after_fix_ns = Latency::on_wire(&good.observed.loaded.requests);
            faulty.wall_after_fix_ns = Some(good.wall_ns());
        }
        let healthy = self.labels(Variant::Healthy, &good, good_link);
        write(&self.out, &faulty)?;
        write(&self.out, &healthy)?;
        Ok(CaseResult { dir: self.out.path().to_owned(), faulty: Some(faulty), healthy })
    }

    /// Runs the case again if the host was too busy to keep time; after the last attempt,
    /// `timekeeping` in the labels shows it.
    fn punctually(&mut self, variant: Variant) -> Result<(Ran, Link), LabError> {
        let mut number = 1;
        loop {
            (self.tell)(Attempt { variant, number });
            let run = self.once(variant)?;
            if run.0.stage.is_punctual() || number == ATTEMPTS {
                return Ok(run);
            }
            number += 1;
        }
    }

    fn once(&self, variant: Variant) -> Result<(Ran, Link), LabError> {
        let out = part(&self.out, variant)?;
        let path = out.path().to_owned();
        let mut stage = build(self.case, &self.params, self.seed, variant, Some(out))?;
        let observed = (self.case.act)(&mut stage, &self.params, variant)?;
        let mut ran = Ran { observed, stage: stage.finish()? };
        if ran.stage.captures.iter().any(|c| c.dropped > 0) {
            return Err(LabError::NotReproduced("the capture has holes".to_owned()));
        }
        if let Some(client) = ran.stage.captures.iter().find(|it| it.vantage == "client") {
            on_wire::note(&path.join(&client.file), &mut ran.observed.loaded.requests)?;
        }
        Ok((ran, (self.case.link)(&self.params, variant, self.seed)?))
    }

    fn labels(&self, variant: Variant, ran: &Ran, link: Link) -> Labels {
        labels(self.case, &self.params, self.seed, variant, ran, link)
    }
}

/// Returns the labels of a run without its causes.
pub(crate) fn labels(
    case: &Case,
    params: &Params,
    seed: u64,
    variant: Variant,
    ran: &Ran,
    link: Link,
) -> Labels {
    let class = if variant == Variant::Faulty { case.class } else { Class::None };
    let requests = ran.observed.loaded.requests.clone();
    let versions: BTreeMap<String, String> =
        versions().into_iter().chain(ran.observed.versions.clone()).collect();
    Labels {
        format: FORMAT,
        case: case.name,
        variant,
        seed,
        params: params.clone(),
        link,
        healthy: class != Class::Fault,
        class,
        causes: Vec::new(),
        exchanges: requests.len() as u64,
        wall_ns: ran.wall_ns(),
        latency_ns: Latency::of(&requests),
        latency_after_fix_ns: None,
        on_wire_after_fix_ns: None,
        wall_after_fix_ns: None,
        server_endpoint: ran.observed.server.to_string(),
        congestion_control: congestion_control(params),
        client_tcp_info: Some(ran.observed.loaded.kernel).filter(|k| k.connections > 0),
        server_tcp_info: ran.observed.server_tcp_info,
        stage: ran.stage.clone(),
        measured: ran.observed.measured.clone(),
        versions,
        requests,
    }
}

/// Opens the directory of a case's captures, `name` in `out`. They contain what was sent, so it is
/// private.
pub(crate) fn open(out: &Path, name: &str) -> Result<Folder, LabError> {
    let opened = Folder::open(out).and_then(|out| out.folder(name));
    opened.doing(format!("keep captures in {}", out.join(name).display()))
}

/// Opens the directory of one run of a case.
pub(crate) fn part(out: &Folder, variant: Variant) -> Result<Folder, LabError> {
    let name = variant.dir();
    out.folder(name).doing(format!("keep captures in {}", out.path().join(name).display()))
}

/// Writes the labels beside the captures of their run.
pub(crate) fn write(out: &Folder, labels: &Labels) -> Result<(), LabError> {
    let out = part(out, labels.variant)?;
    let what = format!("write {}", out.path().join(LABELS).display());
    let mut text =
        serde_json::to_string_pretty(labels).map_err(std::io::Error::from).doing(what.clone())?;
    text.push('\n');
    out.write(LABELS, text.as_bytes()).doing(what)
}

pub(crate) fn build(
    case: &Case,
    params: &Params,
    seed: u64,
    variant: Variant,
    out: Option<Folder>,
) -> Result<Stage, LabError> {
    let stage = StageParams {
        link: (case.link)(params, variant, seed)?,
        ipv6: params.get("ipv6")? > 0,
        seed,
        capture: CaptureParams {
            snaplen_bytes: params.get("snaplen_bytes")?,
            any: params.get("any_interface")? > 0,
        },
        congestion_control: congestion_control(params),
    };
    Stage::build(stage, out)
}

/// Returns the congestion control of both ends.
fn congestion_control(params: &Params) -> &'static str {
    if params.get("bbr").is_ok_and(|bbr| bbr > 0) { "bbr" } else { "cubic" }
}

/// A fault that costs less than this share of the requests' time counts as not reproduced.
const FELT_MIN_PERCENT: u64 = 5;

fn lost_by_twin(causes: &mut [Cause], bad: &Ran, good: &Ran) -> Result<(), LabError> {
    let is_alone = causes.len() == 1;
    for cause in causes.iter_mut().filter(|c| c.lost_ns.is_none()) {
        let wall_ns = |ran: &Ran| match &cause.culprit_endpoint {
            Some(server) if !is_alone => ran.wall_to_ns(server),
            _ => ran.wall_ns(),
        };
        let (with_ns, without_ns) = (wall_ns(bad), wall_ns(good));
        let lost_ns = with_ns.saturating_sub(without_ns);
        if lost_ns * 100 < with_ns * FELT_MIN_PERCENT {
            let what = format!("{} took {without_ns} ns of {with_ns} ns without it", cause.cause);
            return Err(LabError::NotReproduced(what));
        }
        cause.lost_ns = Some(lost_ns);
    }
    Ok(())
}
