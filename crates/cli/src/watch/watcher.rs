//! The main loop of a watch: reads frames and shows a report for each interval.

use super::args::Watch;
use super::budget::{Meter, REPORTS_PART, capture_share, least_share};
use super::cuts::Cuts;
use super::files::Files;
use super::followed_log::FollowedLog;
use super::lines::{self, Cost};
use super::metrics::{self, Counters, Push, Server};
use super::screen::Screen;
use super::state::Reader;
use super::tap::Tap;
use super::target::Target;
use super::view::{Ended, Fixed};
use crate::error::Error;
use crate::keylog::await_secrets;
use crate::output;
use crate::terminal;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tcpwhy_core::capture::{Block, InputSummary};
use tcpwhy_core::keys::Keyring;
use tcpwhy_core::model::Report;
use tcpwhy_core::pipeline::{Options, Sliding};
use tcpwhy_core::report::{Look, text};
use tcpwhy_live::capture::{Capture, Link, Means};
use tcpwhy_live::sample::Share;
use tcpwhy_live::sys::process;

/// Interval at which the target and the CPU time are checked.
const LOOK: Duration = Duration::from_millis(250);
/// The longest time until a pressed key is applied.
const KEYS: Duration = Duration::from_millis(50);
/// After the share of captured connections was reduced, frames of the others still arrive for this
/// time: the ring holds them for up to 64 ms, and frames of other processors are waited for.
const UNDER_WAY: Duration = Duration::from_millis(500);
/// How long the last report waits for the last reading of the sockets' state.
const STATE_WAIT: Duration = Duration::from_secs(2);

/// The form and the destination of the output.
enum Output {
    Screen(Box<Screen>),
    Lines,
    Json,
}

/// Number of frames that were captured, and an estimate of how many passed.
#[derive(Clone, Copy, Default)]
struct Frames {
    captured: f64,
    passed: f64,
}

impl Frames {
    fn add(&mut self, captured: f64, share: Share) {
        self.captured += captured;
        self.passed += captured / share.value();
    }

    fn with(&self, more: &Self) -> Self {
        Self { captured: self.captured + more.captured, passed: self.passed + more.passed }
    }

    /// Captured share of the frames that passed; `None` if none passed.
    fn share(&self) -> Option<f64> {
        (self.captured > 0.0).then(|| self.captured / self.passed)
    }
}

/// A watch in progress.
pub struct Watcher<'a> {
    asked: &'a Watch,
    look: Look,
    target: Target,
    capture: Capture,
    sliding: Sliding,
    tap: Tap,
    /// Number of packets that were captured.
    kept: u64,
    meter: Meter,
    /// CPU time of reports that is not charged to capturing, because capturing fewer connections
    /// would not save it; bounded by the reports' part of the budget.
    reports_cpu: Duration,
    /// With less than this share of connections, no traffic was captured.
    seen: Share,
    /// Upper bound of the uncharged CPU time for one report.
    report_cpu_max: Duration,
    state: Reader,
    output: Output,
    /// The key log that is followed.
    keylog: Option<FollowedLog>,
    block: Block,
    files: Option<Files>,
    cuts: Cuts,
    /// Metrics counters, updated if metrics are served or pushed.
    counters: Counters,
    server: Option<Server>,
    push: Option<Push>,
    began: Instant,
    /// Time at which the current interval ends.
    due: Instant,
    looked: Instant,
    /// Time at which the interval began, and CPU time spent until then.
    cut: (Instant, Duration),
    /// CPU time of the last interval, as a share of one CPU.
    own_cpu_share: f64,
    /// Time at which the analysis ends connections that are no longer captured.
    leaves: Option<Instant>,
    /// Share of the connections that was in effect when the frames now handed over were captured.
    share: Share,
    /// Frames of the current interval, of each interval of the window, and of the whole watch.
    frames: Frames,
    window: VecDeque<Frames>,
    all: Frames,
    /// Notes that were printed beside the reports.
    notes: Vec<String>,
    /// The reason the watch has to end.
    ended: Option<String>,
}

impl<'a> Watcher<'a> {
    /// Starts a watch.
    pub fn new(
        asked: &'a Watch,
        target: Target,
        capture: Capture,
        state: Reader,
        tap: Tap,
        look: Look,
        keylog: Option<FollowedLog>,
    ) -> Self {
        let intervals = asked.window.div_ceil(asked.interval).max(1) as usize;
        let options = Options {
            show_values: asked.show_values,
            all: asked.all,
            keys: keylog.as_ref().map(|log| Keyring::Growing(log.secrets())),
            // A random seed that only this system knows: somebody who sends packets must not know
            // which flows have the same hash.
            seed: RandomState::new().hash_one(0),
            ..asked.reporting.options()
        };
        let (began, interval) = (Instant::now(), Duration::from_nanos(asked.interval));
        let cut_cpu = cpu_time(&state, &target);
        let output = match asked.json {
            true => Output::Json,
            false => match Screen::open(look, fixed(asked)) {
                Some(screen) => Output::Screen(Box::new(screen)),
                None => Output::Lines,
            },
        };
        Self {
            asked,
            look,
            target,
            capture,
            sliding: Sliding::new(options, intervals),
            tap,
            kept: 0,
            meter: Meter::new(asked.budget.0, interval, Duration::ZERO, process::thread_cpu_time()),
            reports_cpu: Duration::ZERO,
            seen: Share::LEAST,
            report_cpu_max: interval.mul_f64(asked.budget.0.map_or(0.0, |it| it * REPORTS_PART)),
            state,
            output,
            keylog,
            block: Block::default(),
            files: None,
            cuts: Cuts::default(),
            counters: Counters::default(),
            server: None,
            push: None,
            began,
            due: began + interval,
            looked: began,
            cut: (began, cut_cpu),
            own_cpu_share: 0.0,
            leaves: None,
            share: Share::ALL,
            frames: Frames::default(),
            window: VecDeque::with_capacity(intervals),
            all: Frames::default(),
            notes: Vec::new(),
            ended: None,
        }
    }

    /// Stores packets in `files`.
    pub fn keep(&mut self, files: Option<Files>) {
        self.files = files;
    }

    /// Serves metrics and pushes them to a collector from now on.
    pub fn tell_metrics(&mut self, server: Option<Server>, push: Option<Push>) {
        (self.server, self.push) = (server, push);
        if let Some(server) = &mut self.server {
            server.begin();
        }
    }

    /// Watches until `ending` is set, or until the target no longer exists.
    ///
    /// # Errors The kernel refuses, or the output cannot be written.
    pub fn watch(&mut self, ending: &AtomicBool) -> Result<(), Error> {
        let end = self.asked.duration.map(|ns| self.began + Duration::from_nanos(ns));
        if let Output::Screen(screen) = &mut self.output {
            screen.draw()?;
        }
        if let Some(why) = self.capture.fallback() {
            let name = &self.asked.interface;
            self.note(format!("a packet socket captures {name}, which costs more: {why}"));
        }
        while !ending.load(Ordering::Relaxed) && self.ended.is_none() {
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                break;
            }
            let look = if matches!(self.output, Output::Screen(_)) { KEYS } else { LOOK };
            let until = [Some(self.due), end, Some(now + look)].into_iter().flatten().min();
            let wait = until.unwrap_or(now).saturating_duration_since(now);
            // Waits at least one tick of the clock: with a wait of zero the loop would spin.
            self.capture.read(&mut self.block, wait.max(Duration::from_millis(1)))?;
            self.take();
            if self.press_keys()? {
                break;
            }
            if self.looked.elapsed() >= LOOK {
                self.looked = Instant::now();
                self.look_around()?;
            }
            if Instant::now() >= self.due {
                let before = process::thread_cpu_time();
                self.end_interval()?;
                self.spend_on_reports(before);
            }
        }
        Ok(())
    }

    /// Applies the keys that were pressed, if there is a screen; returns whether the watch is to end.
    fn press_keys(&mut self) -> Result<bool, Error> {
        let Output::Screen(screen) = &mut self.output else { return Ok(false) };
        let before = process::thread_cpu_time();
        let ends = screen.press_keys()?;
        self.spend_on_reports(before);
        Ok(ends)
    }

    /// Counts the CPU time since `before` as that of reports.
    fn spend_on_reports(&mut self, before: Duration) {
        self.reports_cpu += (process::thread_cpu_time() - before).min(self.report_cpu_max);
    }

    /// Processes the frames that were read.
    fn take(&mut self) {
        if self.block.entries.is_empty() {
            return;
        }
        self.read_keys();
        self.sliding.take(&self.block);
        self.kept += self.block.entries.len() as u64;
        self.frames.add(self.block.entries.len() as f64, self.share);
        let said = self.files.as_mut().and_then(|files| files.take(&self.block));
        said.into_iter().for_each(|text| self.note(text));
    }

    /// Reads the secrets of the handshakes whose frames were read.
    fn read_keys(&mut self) {
        let Some(keylog) = &mut self.keylog else { return };
        await_secrets(&self.block);
        if let Err(error) = keylog.read() {
            self.keylog = None;
            self.note(format!("the key log is not followed any more: {error}"));
        }
    }

    /// Checks the budget, the interface and the process.
    fn look_around(&mut self) -> Result<(), Error> {
        let (now, captured) = (self.began.elapsed(), self.capture.share());
        let tap_share = self.tap.share();
        self.meter.allow(self.asked.budget.0.map(|budget| capture_share(budget, tap_share)));
        let own = process::thread_cpu_time() - self.reports_cpu;
        let wanted = self.meter.look(now, own + self.tap.copying(self.kept), captured);
        if let Some(wanted) = wanted {
            let open = self.sliding.open_connections() as f64 / self.share.value();
            let least = least_share(open, self.seen);
            self.set_share(if wanted.value() < least.value() { least } else { wanted })?;
        }
        if self.leaves.is_some_and(|at| Instant::now() >= at) {
            self.leaves = None;
            self.share = self.capture.share();
            let selection = self.capture.selection();
            self.sliding.keep_only(|flow| selection.sample.has(flow));
        }
        if self.target.has_other_ports() {
            self.capture.set_ends(self.target.ends())?;
        }
        let name = &self.asked.interface;
        match self.capture.link_change() {
            Some(Link::Down) => {
                self.note(format!("interface {name} is down; waiting until it is up again"));
            }
            Some(Link::Up) => self.note(format!("interface {name} is up again")),
            Some(Link::Gone) => self.ended = Some(format!("interface {name} was removed")),
            None => {}
        }
        self.ended = self.ended.take().or_else(|| self.target.is_gone());
        Ok(())
    }

    fn set_share(&mut self, share: Share) -> Result<(), Error> {
        let captured = self.capture.share();
        self.capture.set_share(share)?;
        if share.value() < captured.value() {
            self.leaves = Some(Instant::now() + UNDER_WAY);
        } else {
            self.share = share;
        }
        Ok(())
    }

    /// Captures more connections if none of the captured ones carried traffic in the interval.
    fn see_something(&mut self) -> Result<(), Error> {
        let share = self.capture.share();
        if share.is_part() && self.frames.captured == 0.0 {
            self.seen = share.doubled();
            self.set_share(self.seen)?;
        }
        Ok(())
    }

    /// Prints a note beside the reports.
    fn note(&mut self, text: String) {
        // Older notes are in the log already.
        const NOTES_MAX: usize = 100;
        if !matches!(self.output, Output::Screen(_)) {
            output::note(&format!("tcpwhy: {text}"));
        }
        self.notes.truncate(NOTES_MAX - 1);
        self.notes.insert(0, text);
    }

    fn end_interval(&mut self) -> Result<(), Error> {
        let interval = Duration::from_nanos(self.asked.interval);
        while self.due <= Instant::now() {
            self.due += interval;
        }
        self.sliding.cut();
        self.see_something()?;
        self.note_share();
        let (now, cpu) = (Instant::now(), cpu_time(&self.state, &self.target));
        let spent = cpu.saturating_sub(self.cut.1);
        self.own_cpu_share = spent.as_secs_f64() / (now - self.cut.0).as_secs_f64();
        self.cut = (now, cpu);
        let inputs = [self.input()];
        let mut report = self.sliding.report(&inputs);
        let frames = self.window.iter().fold(Frames::default(), |sum, it| sum.with(it));
        self.complete(&mut report, frames.share().unwrap_or(self.share.value()));
        self.state.ask(&report, self.capture.selection().sample);
        self.weigh(&mut report, Duration::ZERO);
        self.cut_out(&report);
        let served = self.state.served(&report);
        let cost = self.cost(false);
        self.tell(&report, &cost, &inputs);
        let is_read = match &mut self.output {
            Output::Screen(screen) => {
                let interval = self.sliding.last(&report.findings, &inputs);
                let (notes, time) = (self.notes.clone(), lines::time_of_day());
                screen.show(Ended { report, cost, served, interval, notes, time })?;
                true
            }
            Output::Lines => output::is_read(&lines::text(&report, &cost))?,
            Output::Json => output::is_read(&lines::json(&report, &cost, &served)?)?,
        };
        if !is_read {
            self.ended = Some("the reader of the output has gone".into());
        }
        Ok(())
    }

    /// Updates the metrics.
    fn tell(&mut self, window: &Report, cost: &Cost, inputs: &[InputSummary]) {
        if self.server.is_none() && self.push.is_none() {
            return;
        }
        let share = self.share.value();
        self.counters.take(&self.sliding.whole(inputs), 1.0 / share);
        let metrics = self.counters.metrics(window, cost, share);
        if let Some(server) = &self.server {
            server.show(&metrics::page(&metrics));
        }
        let failed = self.push.as_ref().and_then(|push| push.push(&metrics));
        failed.into_iter().for_each(|why| self.note(why));
    }

    fn note_share(&mut self) {
        if self.window.len() == self.window.capacity() {
            self.window.pop_front();
        }
        self.all = self.all.with(&self.frames);
        self.window.push_back(std::mem::take(&mut self.frames));
    }

    fn input(&mut self) -> InputSummary {
        let summary = self.capture.summary();
        InputSummary { path: format!("live:{}", summary.path), ..summary.clone() }
    }

    /// Writes the packets around new findings to files.
    fn cut_out(&mut self, report: &Report) {
        let Some(files) = &self.files else { return };
        let said = self.cuts.take(report, files, &self.asked.interface);
        said.into_iter().for_each(|text| self.note(text));
    }

    /// Adds what only the capture knows, and removes the observation about truncated payload, which
    /// is intended.
    fn complete(&self, report: &mut Report, share: f64) {
        report.observations.retain(|it| it.id != "truncated_payload");
        if let Some(watched) = &mut report.watched {
            watched.sampled_share = share;
        }
    }

    /// Weighs the findings with the state of the sockets.
    fn weigh(&mut self, report: &mut Report, wait: Duration) {
        self.state.weigh(report, wait);
        for note in self.state.take_notes() {
            self.note(note);
        }
    }

    fn cost(&self, is_whole: bool) -> Cost {
        let cpu = cpu_time(&self.state, &self.target);
        let share = match is_whole {
            true => cpu.as_secs_f64() / self.began.elapsed().as_secs_f64(),
            false => self.own_cpu_share,
        };
        Cost {
            covers: if is_whole { "whole" } else { "window" },
            captured_by: match self.capture.means() {
                Means::PacketSocket => "packet_socket",
                Means::Programs => "programs",
            },
            dropped_packets: self.capture.drops(),
            late_packets: self.capture.late(),
            own_cpu_ns: cpu.as_nanos() as u64,
            own_cpu_share: share,
            open_connections: self.sliding.open_connections() as u64,
            saved: self.cuts.saved().to_vec(),
            hooks_missing: self.state.hooks_missing().map(str::to_owned),
        }
    }

    /// Prints the report on the whole watch.
    ///
    /// # Errors The report cannot be written.
    pub fn finish(mut self) -> Result<Report, Error> {
        self.capture.drain(&mut self.block);
        self.take();
        self.sliding.cut();
        self.note_share();
        let mean = self.all.share().unwrap_or(self.share.value());
        let inputs = [self.input()];
        let mut report = self.sliding.whole(&inputs);
        self.complete(&mut report, mean);
        self.state.ask(&report, self.capture.selection().sample);
        self.weigh(&mut report, STATE_WAIT);
        self.cut_out(&report);
        let cost = self.cost(true);
        // The terminal may have another width by now.
        self.look = terminal::look(&self.asked.display, self.asked.all);
        if let Output::Screen(screen) = self.output {
            drop(screen);
            self.notes.iter().rev().for_each(|note| output::note(&format!("tcpwhy: {note}")));
            self.output = Output::Lines;
        }
        if let Some(why) = &self.ended {
            output::note(&format!("tcpwhy: {why}; this is what was seen until then"));
        }
        let is_above = self.asked.budget.0.is_some_and(|budget| self.own_cpu_share > budget);
        if is_above && self.capture.share() == Share::LEAST {
            let least = Share::LEAST.scale();
            output::note(&format!(
                "tcpwhy: even one connection of {least} costs more than --budget"
            ));
        }
        if self.asked.json {
            let served = self.state.served(&report);
            output::print(&lines::json(&report, &cost, &served)?)?;
        } else {
            output::print(&text::render(&report, &self.look))?;
            output::print(&lines::closing(&report, &cost, &self.look))?;
        }
        Ok(report)
    }
}

/// Returns what the view shows of the arguments.
fn fixed(asked: &Watch) -> Fixed {
    Fixed {
        interface: asked.interface.clone(),
        interval_ns: asked.interval,
        window_ns: asked.window,
        kept: asked.write.clone(),
    }
}

/// Returns the CPU time of this process and of those that read for it.
fn cpu_time(state: &Reader, target: &Target) -> Duration {
    process::cpu_time() + state.cpu_time() + target.cpu_time()
}
