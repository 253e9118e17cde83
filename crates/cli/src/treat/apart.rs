//! The measurement of a treatment, in a process of its own without rights: it parses the packets and
//! the answers to `--load`. The process that changes the system asks it for reports, and compares them.

use super::args::{Course, Guard};
use super::load::{OwnLoad, Sent};
use super::measure::{MeasuredConnections, Meters};
use crate::error::{Error, sentences};
use crate::sandbox;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, Instant};
use tcpwhy_core::compare::{
    Comparison, ComparisonOutcome, Found, Measured, Options as Judgement, compare,
};
use tcpwhy_core::model::{Report, units};
use tcpwhy_core::report::json;
use tcpwhy_live::sys::clock;
use tcpwhy_privileged::{Channel, Received, document, part, read};

/// With fewer exchanges than this the guard does not act. Few are enough: the comparison excludes
/// chance, and a very harmful change leaves few exchanges.
const EXCHANGES_MIN: u64 = 5;
/// Faults that a client sees as errors.
const ERRORS: [&str; 6] =
    ["reset", "idle_reset", "refused", "no_answer", "error_responses", "accept_queue_overflow"];

/// How long an answer may take. After that the process that measures is taken for dead, so that it
/// cannot hold up the undo.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// How long packets are waited for before the next question is looked for.
const STEP: Duration = Duration::from_millis(20);
/// How long a question is waited for where no packets are captured.
const NO_PACKETS: Duration = Duration::from_secs(60);
/// Longest duration of the own load if nothing ends it before.
const LOAD_MAX: Duration = Duration::from_secs(24 * 3600);

/// A question to the process that measures.
#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    /// For the report on the time before the change.
    Before,
    /// To begin anew: the change had been made at this time by the clock of the packets, ns.
    Changed(u64),
    /// To end an interval of one second, and for the report on the last ones if that is `true`.
    Second(bool),
    /// For the report on the time since the change.
    After,
    /// To end the own load.
    EndLoad,
}

/// The answer.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    /// It is done.
    Done,
    /// The report is the message's document; with limits of the measurement.
    Report(Vec<String>),
    /// Counts of the own load.
    Sent(Sent),
    /// It cannot be done.
    Failed(String),
}

/// The process that measures, which ends when this is dropped.
pub struct Measuring {
    channel: Channel,
    /// `true` if packets are captured.
    pub captures: bool,
    sends: bool,
    before: Option<Measured>,
}

impl Measuring {
    /// Starts to capture and to send what `course` asks for. `None` if that is neither.
    ///
    /// # Errors `CAP_NET_RAW` is missing, the process to measure no longer exists, or the name of
    /// the load's target does not resolve.
    pub fn begin(course: &Course, place: &MeasuredConnections) -> Result<Option<Self>, Error> {
        let (captures, sends) = (!course.no_measure, course.load.is_some());
        if !captures && !sends {
            return Ok(None);
        }
        let (channel, _) =
            part(|channel| measure(channel, course, place)).map_err(Error::Measuring)?;
        let measuring = Self { channel, captures, sends, before: None };
        // Names are resolved meanwhile; nothing is changed yet.
        measuring.received()?;
        Ok(Some(measuring))
    }

    /// Ends the measurement before the change.
    ///
    /// # Errors The kernel ended the capture, or the process that measures is gone.
    pub fn end_before(&mut self) -> Result<(), Error> {
        self.before = Some(self.report("before", &Ask::Before)?.0);
        Ok(())
    }

    /// Returns the measurement before the change.
    pub fn before(&self) -> Option<&Measured> {
        self.before.as_ref()
    }

    /// Says that the change has been made now.
    ///
    /// # Errors As [`end_before`](Self::end_before).
    pub fn changed(&self) -> Result<(), Error> {
        self.ask(&Ask::Changed(clock::realtime_ns()))?;
        self.told().map(drop)
    }

    /// Compares the measurement before the change with all since, and returns the limits of the
    /// measurement that the reader has to know. No comparison if one of them has no exchange.
    ///
    /// # Errors As [`end_before`](Self::end_before).
    pub fn verdict(&self) -> Result<(Option<Comparison>, Vec<String>), Error> {
        let (after, limits) = self.report("after", &Ask::After)?;
        let before = self.before.clone();
        let compared = before.and_then(|before| compare(before, after, Judgement::default()).ok());
        Ok((compared, limits))
    }

    /// Ends an interval of one second. Returns the reason for the guard to undo the change: the
    /// last seconds are worse than before, and chance is excluded.
    ///
    /// # Errors As [`end_before`](Self::end_before).
    pub fn second(&self, guard: Guard) -> Result<Option<String>, Error> {
        let (Some(bound), Some(before)) = (guard.0, self.before.clone()) else {
            self.ask(&Ask::Second(false))?;
            return self.told().map(|_| None);
        };
        let (after, _) = self.report("after", &Ask::Second(true))?;
        Ok(alarm(before, after, bound))
    }

    /// Ends the own load, if there is one.
    ///
    /// # Errors The load could not be sent, or the process that sends it is gone.
    pub fn end_load(&self) -> Result<Option<Sent>, Error> {
        if !self.sends {
            return Ok(None);
        }
        self.ask(&Ask::EndLoad)?;
        match self.told()?.message {
            Told::Sent(sent) => Ok(Some(sent)),
            _ => Err(other_than_asked()),
        }
    }

    fn report(&self, name: &str, ask: &Ask) -> Result<(Measured, Vec<String>), Error> {
        self.ask(ask)?;
        match self.told()? {
            Received { message: Told::Report(limits), descriptor: Some(report) } => {
                let bytes = read(report).map_err(Error::Measuring)?;
                let measured = Measured::from_json(name, &bytes);
                Ok((measured.map_err(|why| Error::Measuring(io::Error::other(why)))?, limits))
            }
            _ => Err(other_than_asked()),
        }
    }

    fn ask(&self, ask: &Ask) -> Result<(), Error> {
        self.channel.send(ask, None).map_err(Error::Measuring)
    }

    fn told(&self) -> Result<Received<Told>, Error> {
        let asked = Instant::now();
        while !self.channel.wait(ANSWER_WAIT.saturating_sub(asked.elapsed())).unwrap_or(true) {
            if asked.elapsed() >= ANSWER_WAIT {
                return Err(Error::Measuring(io::ErrorKind::TimedOut.into()));
            }
        }
        self.received()
    }

    fn received(&self) -> Result<Received<Told>, Error> {
        let told = self.channel.receive::<Told>().map_err(Error::Measuring)?;
        match told.ok_or_else(|| Error::Measuring(io::ErrorKind::BrokenPipe.into()))? {
            Received { message: Told::Failed(why), .. } => Err(Error::NotMeasured(why)),
            told => Ok(told),
        }
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        self.channel.end::<Told>();
    }
}

fn other_than_asked() -> Error {
    Error::Measuring(io::ErrorKind::InvalidData.into())
}

/// Returns the reason to undo the change, if there is one.
fn alarm(before: Measured, after: Measured, bound: f64) -> Option<String> {
    if before.exchanges < EXCHANGES_MIN || after.exchanges < EXCHANGES_MIN {
        return None;
    }
    let compared = compare(before, after, Judgement { min_change: bound }).ok()?;
    let (one, other) = (&compared.before.latency, &compared.after.latency);
    let is_slower = other.p99_ns as f64 > one.p99_ns as f64 * (1.0 + bound);
    let words = units::duration;
    let is_error = |found: &&Found| ERRORS.contains(&found.cause.as_str());
    if let Some(found) = compared.new_faults.iter().find(is_error) {
        return Some(format!("requests fail: {} is new", found.cause));
    }
    if is_slower && compared.outcome() == ComparisonOutcome::Worse {
        let (one, other) = (words(one.p99_ns), words(other.p99_ns));
        return Some(format!("the 99th percentile went from {one} to {other}"));
    }
    None
}

/// What the process that measures does.
fn measure(channel: &Channel, course: &Course, place: &MeasuredConnections) {
    let begun = Begun::with_rights_given_up(course, place);
    let told = begun.as_ref().map_or_else(failed, |_| Told::Done);
    if let (Ok(()), Ok(mut begun)) = (channel.send(&told, None), begun) {
        begun.answer(channel);
    }
}

/// The capture and the load.
struct Begun {
    meters: Option<Meters>,
    load: Option<OwnLoad>,
}

impl Begun {
    fn with_rights_given_up(course: &Course, place: &MeasuredConnections) -> Result<Self, Error> {
        let length = Duration::from_nanos(course.measure);
        let meters = (!course.no_measure).then(|| Meters::open(place, length)).transpose()?;
        let sending = course.load.as_ref().map(|to| (OwnLoad::prepare(place.netns.clone()), to));
        sandbox::confine_measuring(None);
        let load = match sending {
            None => None,
            Some((load, target)) => {
                load.begin(target, course.load_connections, LOAD_MAX)?;
                Some(load)
            }
        };
        Ok(Self { meters, load })
    }

    /// Takes packets, and answers questions, until nobody asks any more.
    fn answer(&mut self, channel: &Channel) {
        let mut refused = None;
        loop {
            let wait = match &mut self.meters {
                Some(meters) if refused.is_none() => {
                    refused = meters.take(STEP).err();
                    Duration::ZERO
                }
                _ => NO_PACKETS,
            };
            if !channel.wait(wait).unwrap_or(true) {
                continue;
            }
            let Ok(Some(Received { message, .. })) = channel.receive::<Ask>() else { return };
            let (told, report) = match (&refused, message) {
                (_, Ask::EndLoad) => (self.end_load(), None),
                (Some(error), _) => (failed(error), None),
                (None, ask) => self.told(ask),
            };
            let report = match report.map(|report| to_document(&report)).transpose() {
                Ok(report) => report,
                Err(_) => return,
            };
            if channel.send(&told, report.as_ref()).is_err() {
                return;
            }
        }
    }

    fn told(&mut self, ask: Ask) -> (Told, Option<Report>) {
        let Some(meters) = &mut self.meters else { return (Told::Done, None) };
        match ask {
            Ask::Before => {
                meters.drain();
                (Told::Report(Vec::new()), Some(meters.whole()))
            }
            Ask::Changed(at_ns) => {
                meters.changed(at_ns);
                (Told::Done, None)
            }
            Ask::Second(reports) => {
                meters.cut();
                match reports {
                    true => (Told::Report(Vec::new()), Some(meters.last())),
                    false => (Told::Done, None),
                }
            }
            Ask::After => (Told::Report(meters.limits()), Some(meters.whole())),
            Ask::EndLoad => (Told::Done, None),
        }
    }

    fn end_load(&mut self) -> Told {
        match self.load.take().map(OwnLoad::end) {
            Some(Ok(sent)) => Told::Sent(sent),
            Some(Err(error)) => failed(&error),
            None => Told::Done,
        }
    }
}

fn failed(error: &Error) -> Told {
    Told::Failed(sentences(error).trim_start_matches("tcpwhy: ").to_owned())
}

/// Returns a report as document, without what is not compared.
fn to_document(report: &Report) -> Result<std::os::fd::OwnedFd, Error> {
    let report = Report { connections: Vec::new(), ..report.clone() };
    let text = json::render(&report, env!("CARGO_PKG_VERSION"))?;
    document(text.as_bytes()).map_err(Error::Measuring)
}
