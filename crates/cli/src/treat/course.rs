//! The course of a treatment: measure, change, measure, then undo or keep.

use super::apart::Measuring;
use super::args::Course;
use super::load::Sent;
pub use super::measure::MeasuredConnections;
use super::{EXIT_WORSE, begin, json, text};
use crate::error::Error;
use crate::{output, terminal};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tcpwhy_core::compare::Comparison;
use tcpwhy_core::report::Look;
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sockets::Peer;
use tcpwhy_live::sys::process;
use tcpwhy_treat::{
    HostPlan, HostTreatment, Newcomers, Record, TreatError, Treatment, TreatmentRequest, Undone,
};

/// Interval at which signals and new sockets are checked.
const STEP: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_secs(1);

/// The subject of a treatment.
pub enum Subject {
    Sockets(TreatmentRequest),
    Host(HostPlan),
}

/// A treatment in effect.
pub enum Active {
    Sockets(Box<Treatment>),
    /// A treatment of the host, with warnings about what may go wrong.
    Host(Box<HostTreatment>, Vec<&'static str>),
}

/// How a treatment ended.
#[derive(Debug, Clone, Default)]
pub struct End {
    /// The result of the undo; `None` if the change is kept. Where another process undid it, the
    /// result of looking whether all is as before.
    pub undone: Option<Undone>,
    /// The reason, if the guard caused the undo.
    pub alarm: Option<String>,
    /// The failure, if it led to the undo.
    pub trouble: Option<String>,
    /// `true` if another process undid the treatment.
    pub by_other: bool,
    /// Counts of the requests of `--load`.
    pub sent: Option<Sent>,
    /// How connections were treated that opened later; `None`: no sockets are treated.
    pub newcomers: Option<Newcomers>,
}

impl MeasuredConnections {
    /// Determines which connections to measure.
    ///
    /// # Errors There is no such namespace or process.
    pub fn of(
        netns: Option<&str>,
        port: Option<u16>,
        peer: Option<Peer>,
        pid: Option<u32>,
    ) -> Result<Self, Error> {
        let netns = match (netns, pid) {
            (Some(name), _) => Netns::find(name)?,
            (None, Some(pid)) => Netns::of_process(pid)?,
            (None, None) => Netns::own(),
        };
        Ok(Self { netns, port, peer, pid })
    }
}

impl Active {
    /// Treats what is new; `false` if another process has undone the treatment.
    fn tend(&mut self) -> Result<bool, TreatError> {
        match self {
            Self::Sockets(treatment) => treatment.tend(),
            Self::Host(treatment, _) => Ok(treatment.tend()),
        }
    }

    fn step(&self) -> Duration {
        match self {
            Self::Sockets(treatment) => treatment.tend_within().min(STEP),
            Self::Host(..) => STEP,
        }
    }

    /// Returns the treatment's record in the journal.
    pub fn record(&self) -> &Record {
        match self {
            Self::Sockets(treatment) => treatment.record(),
            Self::Host(treatment, _) => treatment.record(),
        }
    }

    fn keep(self) -> Result<(), TreatError> {
        match self {
            Self::Sockets(treatment) => treatment.keep(),
            Self::Host(treatment, _) => treatment.keep(),
        }
    }

    fn undo(self) -> Undone {
        match self {
            Self::Sockets(treatment) => treatment.undo(),
            Self::Host(treatment, _) => treatment.undo(),
        }
    }
}

/// Runs a treatment to its end.
///
/// # Errors Nothing could be changed. Or the change could not be followed; then it is undone.
pub fn run(
    course: &Course,
    place: &MeasuredConnections,
    subject: &Subject,
) -> Result<ExitCode, Error> {
    let look = terminal::look(&course.display, false);
    let ending = process::watch_signals_and_hangup().map_err(tcpwhy_live::LiveError::Signals)?;
    let measure = Duration::from_nanos(course.measure);
    let say = |text: String| if course.json { Ok(()) } else { output::print(&text) };
    let mut measuring = Measuring::begin(course, place)?;
    if let Some(measuring) = measuring.as_mut().filter(|it| it.captures) {
        say(text::measuring(measure, &look))?;
        let began = Instant::now();
        while began.elapsed() < measure && !ending.load(Ordering::Relaxed) {
            std::thread::sleep(STEP.min(measure - began.elapsed().min(measure)));
        }
        if ending.load(Ordering::Relaxed) {
            return Err(Error::NotTreated);
        }
        measuring.end_before()?;
        say(text::before(measuring.before(), &look))?;
    }
    let meters = measuring.as_ref().filter(|it| it.captures);
    // From here on a change exists that has to be undone in any case.
    process::outlast_signals();
    if ending.load(Ordering::Relaxed) {
        return Err(Error::NotTreated);
    }
    let began = Instant::now();
    let mut active = begin(subject)?;
    let followed = meters
        .map_or(Ok(()), Measuring::changed)
        .and_then(|()| say(text::changed(&active, began.elapsed(), course, &look)))
        .and_then(|()| follow(course, &mut active, meters, ending, &look));
    let record = active.record().clone();
    let (counts, newcomers) = match &active {
        Active::Sockets(treatment) => {
            (Some(treatment.counts().clone()), Some(treatment.newcomers().clone()))
        }
        Active::Host(..) => (None, None),
    };
    let is_kept = course.keep
        && !ending.load(Ordering::Relaxed)
        && followed.as_ref().is_ok_and(|(_, alarm, by_other)| alarm.is_none() && !by_other);
    let mut end = End { newcomers, ..End::default() };
    if is_kept {
        active.keep()?;
    } else {
        end.undone = Some(active.undo());
    }
    let compared = match followed {
        Ok((compared, alarm, by_other)) => {
            (end.alarm, end.by_other) = (alarm, by_other);
            compared
        }
        Err(error) => {
            end.trouble = Some(crate::error::sentences(&error));
            None
        }
    };
    if let Some(measuring) = &measuring {
        match measuring.end_load() {
            Ok(sent) => end.sent = sent,
            Err(error) if end.trouble.is_some() => drop(error),
            Err(error) => return Err(error),
        }
    }
    if course.json {
        let value = json::treated(&record, counts.as_ref(), compared.as_ref(), &end);
        output::print(&(serde_json::to_string_pretty(&value)? + "\n"))?;
    } else {
        output::print(&text::end(&record, counts.as_ref(), &end, &look))?;
    }
    Ok(status(compared.as_ref(), &end))
}

fn status(compared: Option<&Comparison>, end: &End) -> ExitCode {
    let is_worse = compared.is_some_and(Comparison::does_harm);
    let is_left = end.undone.as_ref().is_some_and(|undone| !undone.is_whole());
    let is_bad = is_worse || is_left || end.alarm.is_some() || end.trouble.is_some();
    if is_bad { ExitCode::from(EXIT_WORSE) } else { ExitCode::SUCCESS }
}

type Followed = (Option<Comparison>, Option<String>, bool);

/// Follows the treatment until its end: treats connections that open, measures, and checks the
/// guard.
fn follow(
    course: &Course,
    active: &mut Active,
    meters: Option<&Measuring>,
    ending: &AtomicBool,
    look: &Look,
) -> Result<Followed, Error> {
    let began = Instant::now();
    let measure = Duration::from_nanos(course.measure);
    let end = course.duration.map(Duration::from_nanos);
    let mut cut = Instant::now();
    let (mut compared, mut is_judged) = (None, false);
    // A closed terminal or pipe ends it too: nobody can stop it there any more.
    while !ending.load(Ordering::Relaxed) && output::has_reader() {
        let passed = began.elapsed();
        if !active.tend()? {
            return Ok((compared, None, true));
        }
        std::thread::sleep(active.step());
        if let Some(meters) = meters {
            if cut.elapsed() >= SECOND {
                cut = Instant::now();
                if let Some(why) = meters.second(course.guard)? {
                    return Ok((meters.verdict()?.0, Some(why), false));
                }
            }
            if !is_judged && passed >= measure {
                is_judged = true;
                let (verdict, limits) = meters.verdict()?;
                compared = verdict;
                if !course.json {
                    output::print(&text::verdict(compared.as_ref(), &limits, look))?;
                }
                if course.keep {
                    break;
                }
            }
        } else {
            // Connections that were accepted in the meantime are treated in the second look.
            if course.keep && passed >= SECOND / 2 {
                break;
            }
        }
        if end.is_some_and(|end| passed >= end) {
            break;
        }
    }
    if let (Some(meters), false) = (meters, is_judged) {
        let (verdict, limits) = meters.verdict()?;
        compared = verdict;
        if !course.json {
            output::print(&text::verdict(compared.as_ref(), &limits, look))?;
        }
    }
    Ok((compared, None, false))
}
