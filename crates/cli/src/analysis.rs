//! Runs the core's analysis on capture sources and returns its answer.

use crate::args::Analysing;
use crate::error::Error;
use crate::workers;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tcpwhy_core::capture::{Block, CaptureSet, FrameId, Open, Progress, Source};
use tcpwhy_core::check::{Packets, check};
use tcpwhy_core::drill::{Drill, WhyAt};
use tcpwhy_core::filter::Pick;
#[cfg(target_os = "linux")]
use tcpwhy_core::model::Finding;
use tcpwhy_core::model::{Checked, ConnectionReport, Report, units};
use tcpwhy_core::picture::{self, Picture};
use tcpwhy_core::pipeline::{Analysis, Options};
use tcpwhy_core::report::{self, Ladder, Why};
use tcpwhy_core::survey::{self, Begun, Survey};
use tcpwhy_core::tables::{self, Rows};
use tcpwhy_core::wire::{FlowHasher, FlowKey, Packet, Segment, decode};

/// Options of an analysis, as the user gave them.
pub struct Wanted {
    /// Options for the core; the time of the first frame is filled in here.
    pub options: Options,
    /// The connection to draw, if one was asked for.
    pub connection: Option<Pick>,
    /// Number of the exchange to draw, from 1.
    pub exchange: Option<u64>,
    /// `true` to draw all frames of the exchange or connection.
    pub all: bool,
    /// Number of threads.
    pub threads: usize,
    /// Number of places at which the captures were taken, if the user states it.
    pub vantages: Option<u8>,
    /// Explain the silence at this frame, or those of the exchange, instead of drawing.
    pub why: Option<Option<u64>>,
    /// Compare the claims of the report with the packets.
    pub check: bool,
}

impl Wanted {
    /// A report as the user asked for it.
    pub fn of(asked: &Analysing) -> Self {
        Self {
            options: Options {
                keys: asked.keylog.as_ref().map(|it| Arc::clone(&it.keys).into()),
                ..asked.reporting.options()
            },
            connection: None,
            exchange: None,
            all: false,
            threads: asked.threads.map_or_else(workers::available, usize::from),
            vantages: asked.vantages,
            why: None,
            check: false,
        }
    }

    /// A report of all connections of captures that were taken at one place, unless the user says
    /// otherwise.
    pub fn every_connection(asked: &Analysing) -> Self {
        let mut wanted = Self::of(asked);
        wanted.options.all = true;
        wanted.vantages = wanted.vantages.or(Some(1));
        wanted
    }
}

/// The result of an analysis.
pub struct Answer {
    /// The report.
    pub report: Report,
    /// The drawing of the connection or exchange that was asked for.
    pub ladder: Option<Ladder>,
    /// The decisions that the user asked to have explained.
    pub why: Option<Why>,
    /// A note about the drawing: which of several connections was drawn.
    pub note: Option<String>,
    /// `true` if the input was read to its end.
    pub complete: bool,
    /// The options of the first pass, completed by the survey; a second pass takes the same.
    pub options: Options,
    /// The places at which the captures were taken; a second pass takes the same.
    pub survey: Survey,
}

/// Reads `sources` to their end, or until `interrupted`, and analyses what was read. `again` opens
/// the sources for a second pass.
///
/// # Errors [`Error::Capture`] if nothing can be read, [`Error::NotFound`] if the connection or
/// exchange is not in the capture.
pub fn analyse(
    sources: Vec<Source>,
    again: &dyn Fn() -> Result<Vec<Source>, Error>,
    wanted: Wanted,
    progress: impl FnMut(Progress) + Send,
    interrupted: &AtomicBool,
) -> Result<Answer, Error> {
    let draws = wanted.connection.is_some() || wanted.exchange.is_some() || wanted.why.is_some();
    let reads_twice = draws || wanted.check;
    if let Some(once) = sources.iter().find(|it| reads_twice && matches!(it.open, Open::Once(_))) {
        return Err(Error::Once { path: once.name.clone() });
    }
    let mut options = wanted.options;
    options.all |= draws;
    options.log_settling = wanted.why.is_some();
    let asked = (options, wanted.threads, wanted.vantages);
    let First { report, options, survey, complete } =
        first_look(sources, again, asked, progress, interrupted)?;
    let mut answer =
        Answer { report, ladder: None, why: None, note: None, complete, options, survey };
    let survey = answer.survey.clone();
    let set =
        || -> Result<CaptureSet, Error> { Ok(CaptureSet::new(survey.assign_sites(again()?))?) };
    if wanted.check {
        answer.report.checked = Some(checked(&answer.report, set()?, interrupted)?);
    }
    if draws {
        let (connection, at) = match wanted.why {
            Some(Some(number)) => {
                let frame = FrameId::new(0, number);
                let connection = find_frame(&answer.report, set()?, frame, &answer.options)?;
                (connection, Some(WhyAt::Frame(frame)))
            }
            why => {
                let pick = wanted.connection.unwrap_or(Pick::Number(1));
                let (connection, note) = find(&answer.report, &pick)?;
                answer.note = note;
                (connection, why.map(|_| WhyAt::Exchange(wanted.exchange.unwrap_or(1))))
            }
        };
        let named = report::named(&answer.report, connection, wanted.exchange);
        let mut drill = Drill::new(&answer.options, connection).naming(&answer.options, named);
        if at.is_some() {
            drill = drill.deciding();
        }
        second_look(set()?, &mut drill)?;
        match at {
            Some(at) => answer.why = Some(drill.explain(at)?),
            None => answer.ladder = Some(drill.finish(wanted.exchange, wanted.all)?),
        }
    }
    Ok(answer)
}

/// Compares the claims of `report` with the packets of `set`.
fn checked(
    report: &Report,
    mut set: CaptureSet,
    interrupted: &AtomicBool,
) -> Result<Vec<Checked>, Error> {
    let (mut packets, mut block) = (Packets::of(report), Block::default());
    while set.next_block(&mut block)? {
        if interrupted.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        packets.take(&block);
    }
    Ok(check(report, &mut packets))
}

/// A report with the data that its HTML page draws.
pub struct Drawn {
    /// The report.
    pub report: Report,
    /// The drawings of connections and exchanges.
    pub picture: Picture,
}

/// Reads `sources` to their end and analyses them. `again` opens the sources for a second pass,
/// which collects what is drawn.
///
/// # Errors [`Error::Capture`] if nothing can be read, [`Error::Once`] if the input can be read
/// only once, [`Error::Interrupted`] if it was not read to its end.
pub fn picture(
    sources: Vec<Source>,
    again: &dyn Fn() -> Result<Vec<Source>, Error>,
    wanted: Wanted,
    progress: impl FnMut(Progress) + Send,
    interrupted: &AtomicBool,
) -> Result<Drawn, Error> {
    if let Some(once) = sources.iter().find(|it| matches!(it.open, Open::Once(_))) {
        return Err(Error::Once { path: once.name.clone() });
    }
    let asked = (wanted.options, wanted.threads, wanted.vantages);
    let First { report, options, survey, complete } =
        first_look(sources, again, asked, progress, interrupted)?;
    let mut pass = picture::Pass::new(&options, &report);
    if !complete || !read_again(&survey, again, interrupted, |block| pass.take(block))? {
        return Err(Error::PageInterrupted);
    }
    Ok(Drawn { report, picture: pass.finish() })
}

/// Reads `sources` to their end and analyses them. `again` opens the sources for a second pass,
/// which gives every connection and exchange to `rows`.
///
/// # Errors [`Error::Capture`] if nothing can be read, [`Error::Once`] if the input can be read
/// only once. If the first pass was interrupted, the answer is incomplete and there are no rows.
pub fn tables<R: Rows>(
    sources: Vec<Source>,
    again: &dyn Fn() -> Result<Vec<Source>, Error>,
    wanted: Wanted,
    progress: impl FnMut(Progress) + Send,
    interrupted: &AtomicBool,
    rows: R,
) -> Result<(Answer, Option<R>), Error> {
    if let Some(once) = sources.iter().find(|it| matches!(it.open, Open::Once(_))) {
        return Err(Error::Once { path: once.name.clone() });
    }
    let asked = (wanted.options, wanted.threads, wanted.vantages);
    let First { report, options, survey, complete } =
        first_look(sources, again, asked, progress, interrupted)?;
    let mut pass = tables::Pass::new(&options, rows);
    let complete = complete && read_again(&survey, again, interrupted, |block| pass.take(block))?;
    let rows = complete.then(|| pass.finish());
    Ok((Answer { report, ladder: None, why: None, note: None, complete, options, survey }, rows))
}

/// Gives all blocks to `take`. Returns `false` if it was interrupted before the end.
fn read_again(
    survey: &Survey,
    again: &dyn Fn() -> Result<Vec<Source>, Error>,
    interrupted: &AtomicBool,
    mut take: impl FnMut(&Block),
) -> Result<bool, Error> {
    let mut capture = CaptureSet::new(survey.assign_sites(again()?))?;
    let mut block = Block::default();
    let go_on = || !interrupted.load(Ordering::Relaxed);
    while go_on() && capture.next_block(&mut block)? {
        take(&block);
    }
    Ok(go_on())
}

/// The result of the first pass over captures.
struct First {
    report: Report,
    /// The options of the pass, completed by the survey.
    options: Options,
    survey: Survey,
    /// `true` if the input was read to its end.
    complete: bool,
}

/// Reads `sources` to their end, or until `interrupted`, with the options, threads and vantages
/// that were asked for.
fn first_look(
    sources: Vec<Source>,
    again: &dyn Fn() -> Result<Vec<Source>, Error>,
    (options, threads, vantages): (Options, usize, Option<u8>),
    mut progress: impl FnMut(Progress) + Send,
    interrupted: &AtomicBool,
) -> Result<First, Error> {
    let go_on = || !interrupted.load(Ordering::Relaxed);
    // A random seed that only this system knows: somebody who makes a capture must not know which
    // flows have the same hash.
    let options = Options { seed: RandomState::new().hash_one(0), ..options };
    let is_again = sources.iter().all(Source::can_be_read_again);
    let Begun { mut options, survey, mut capture } =
        survey::begin(sources, again, options, vantages, &go_on)?;
    loop {
        let in_front = capture.keys().count();
        let mut analysis = Analysis::new(options.clone());
        let complete = workers::run(&mut analysis, &mut capture, threads, &mut |capture| {
            progress(capture.progress());
            go_on()
        })? && go_on();
        // Secrets may stand behind the packets that they open.
        if complete && is_again && capture.keys().count() > in_front {
            options.add_keys(capture.keys());
            let again = CaptureSet::new(survey.assign_sites(again()?))?;
            capture = again.with_keys(capture.keys());
            continue;
        }
        let report = analysis.finish(capture.inputs());
        return Ok(First { report, options, survey, complete });
    }
}

/// Finds the connection that `frame` belongs to.
fn find_frame<'a>(
    report: &'a Report,
    mut capture: CaptureSet,
    frame: FrameId,
    options: &Options,
) -> Result<&'a ConnectionReport, Error> {
    let what = format!("frame {}", frame.number());
    let missing = |hint: &str| Error::NotFound { what: what.clone(), hint: hint.into() };
    let hasher = FlowHasher::new(options.seed);
    let (mut block, mut segment, mut frames) = (Block::default(), Segment::default(), 0);
    let flow = loop {
        if !capture.next_block(&mut block)? {
            let hint = format!("it has {}", units::counted(frames, "frame", "frames"));
            return Err(missing(&hint));
        }
        frames += block.entries.len() as u64;
        if let Some(found) = block.frames().find(|it| it.id == frame) {
            break match decode(&found, &hasher, &mut segment) {
                Packet::Tcp => segment.flow,
                _ => return Err(missing("it is no TCP segment, or one in fragments")),
            };
        }
    };
    let of_flow = |it: &&ConnectionReport| {
        FlowKey::new(it.client, it.server).0 == flow && it.first_frame <= frame
    };
    // Ports are reused: of several connections with these ends, take the last that began before the
    // frame.
    let connection = report.connections.iter().filter(of_flow).max_by_key(|it| it.first_frame);
    connection.ok_or_else(|| missing("no connection of the report has that frame"))
}

/// Number of other matching connections that a note lists.
const OTHERS_MAX: usize = 8;

/// Finds the connection that is meant in the list of all connections, with a note if several match.
fn find<'a>(
    report: &'a Report,
    pick: &Pick,
) -> Result<(&'a ConnectionReport, Option<String>), Error> {
    let matches = |(number, connection): &(u64, &ConnectionReport)| {
        pick.matches(*number, &FlowKey::new(connection.client, connection.server).0)
    };
    let mut found = (1..).zip(&report.connections).filter(matches);
    let Some((number, connection)) = found.next() else {
        let hint = match report.connections.len() {
            0 => "it has no connection".to_owned(),
            1 => "it has one connection, number 1".to_owned(),
            many => format!("it has connections 1 to {many}, and --all lists them"),
        };
        return Err(Error::NotFound { what: pick.to_string(), hint });
    };
    let others: Vec<u64> = found.map(|(number, _)| number).collect();
    if others.is_empty() {
        return Ok((connection, None));
    }
    let listed: Vec<String> = others.iter().take(OTHERS_MAX).map(u64::to_string).collect();
    let more = if others.len() > OTHERS_MAX { ", …" } else { "" };
    let note = format!(
        "{} connections have that end. This is number {number}, {} → {}, the one that cost most; \
         --connection draws the others by number: {}{more}",
        others.len() + 1,
        connection.client,
        connection.server,
        listed.join(", ")
    );
    Ok((connection, Some(note)))
}

/// Draws the connections that cost most, at most `connections_max` of them, each in full.
///
/// # Errors
/// [`Error::Capture`] where the capture cannot be read again.
pub fn draw_costly(
    open: &dyn Fn() -> Result<Vec<Source>, Error>,
    options: &Options,
    report: &Report,
    connections_max: usize,
    interrupted: &AtomicBool,
) -> Result<Vec<Ladder>, Error> {
    // The report lists connections by lost time, most first.
    let costly = report.connections.iter().filter(|it| it.lost_ns > 0).take(connections_max);
    let mut drills: Vec<Drill> = costly.map(|it| Drill::new(options, it)).collect();
    let (mut capture, mut block) = (CaptureSet::new(open()?)?, Block::default());
    while !interrupted.load(Ordering::Relaxed) && capture.next_block(&mut block)? {
        let mut wants_more = false;
        drills.iter_mut().for_each(|drill| wants_more |= drill.take(&block));
        if !wants_more {
            break;
        }
    }
    Ok(drills.into_iter().map(|drill| drill.finish(None, true)).collect::<Result<_, _>>()?)
}

/// Draws the exchange from which a finding has its evidence, if its connection is in the report.
///
/// # Errors [`Error::Capture`] if the capture cannot be read again.
#[cfg(target_os = "linux")]
pub fn draw_evidence(
    open: &dyn Fn() -> Result<Vec<Source>, Error>,
    options: Options,
    report: &Report,
    finding: &Finding,
) -> Result<Option<Ladder>, Error> {
    let Some(evidence) = finding.evidence.first() else { return Ok(None) };
    let holds = |it: &&ConnectionReport| {
        Some((it.client, it.server)) == finding.evidence_flow && it.first_frame <= evidence.frame
    };
    // Ports are reused: of several connections with these ends, take the last that began before the
    // frame.
    let connection = report.connections.iter().filter(holds).max_by_key(|it| it.first_frame);
    let Some(connection) = connection else { return Ok(None) };
    let mut drill = Drill::new(&options, connection);
    second_look(CaptureSet::new(open()?)?, &mut drill)?;
    Ok(Some(drill.finish_at(evidence.frame)))
}

fn second_look(mut capture: CaptureSet, drill: &mut Drill) -> Result<(), Error> {
    let mut block = Block::default();
    while capture.next_block(&mut block)? && drill.take(&block) {}
    Ok(())
}
