//! Reads the state of the watched system's sockets on its own thread. That thread keeps the
//! privileges that this needs; the thread that parses packets gives them up.

mod hooks;

use crate::error::Error;
use hooks::Hooks;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_core::findings::NOT_RECEIVED;
use tcpwhy_core::model::{Cause, Report};
use tcpwhy_core::state::{State, weigh};
use tcpwhy_live::drops;
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sockets::{Selection, Where};

/// Share of a budget for reading sockets; the rest is for capturing and reporting, which go on in
/// another thread.
pub const STATE_PART: f64 = 0.25;

/// Share of one CPU that reading may take without a budget, whatever the number of sockets.
const SHARE: f64 = 0.01;

/// How long the kernel may take to accept the hooks before the watch begins without them.
const HOOKS_WAIT: Duration = Duration::from_secs(3);

/// Readings of the sockets of one selection.
pub struct Reader {
    wanted: Sender<Wanted>,
    read: Receiver<Reading>,
    /// Share of one CPU that reading may take.
    share: f64,
    /// `true` while a requested reading has not arrived.
    is_waiting: bool,
    /// Earliest time of the next request.
    next: Instant,
    /// The last readings, latest first: the state of a socket before it closed is in an older one.
    kept: VecDeque<State>,
    /// `true` after the failure of readings was reported.
    has_failed: bool,
    /// Notes for the user.
    notes: Vec<String>,
    /// The reason, if hooks could not be attached.
    hooks_missing: Option<String>,
}

/// Packets that the kernel drops in a namespace.
struct Dropped {
    netns: Netns,
    /// `None` where the namespace may not be entered; the sockets cannot be read either then.
    watch: Option<drops::Watch>,
    since: Instant,
}

impl Dropped {
    fn new(netns: Netns) -> Self {
        let watch = drops::Watch::start_in(Some(netns.clone()), None).ok();
        Self { netns, watch, since: Instant::now() }
    }

    /// Adds the drops of the last minutes to `state`, if they are wanted.
    fn beside(&mut self, mut state: State, wanted: bool) -> Result<State, Error> {
        if let Some(watch) = self.watch.as_mut().filter(|_| wanted) {
            state.drops = crate::drops::of(watch)?;
        }
        // The kernel's table of flows would be full at some time.
        if self.since.elapsed() >= hooks::KEPT {
            *self = Self::new(self.netns.clone());
        }
        Ok(state)
    }
}

/// Requests a reading.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// The hooks that are attached for a moment have to look as well.
    witness: bool,
    /// The packets that the kernel dropped are needed.
    drops: bool,
}

/// Number of readings that are kept.
const KEPT: usize = 3;

/// Causes that hooks can confirm when they are attached for a moment.
const WITNESSED: [Cause; 3] = [Cause::SendBuffer, Cause::ZeroWindow, Cause::ServerThink];

impl Reader {
    /// Reads the sockets of `netns` with the privileges of the calling thread, within
    /// [`STATE_PART`] of `budget`, a share of one CPU. Returns when the hooks that stay attached
    /// are attached.
    ///
    /// If the process `pid` is watched, its `setsockopt`, `bind` and `listen` calls become notes.
    pub fn new(netns: Netns, budget: Option<f64>, pid: Option<u32>) -> Self {
        let share = budget.map_or(SHARE, |budget| budget * STATE_PART);
        let (inode, part) = (netns.inode, budget.map(|_| share));
        let selection = Selection { place: Where::Of(netns.clone()), ..Selection::default() };
        let (wanted, asked) = channel::<Wanted>();
        let (answer, read) = channel();
        let (attached, is_attached) = channel();
        thread::spawn(move || {
            let mut dropped = Dropped::new(netns);
            let mut hooks = Hooks::new(inode, pid, part);
            // The time to load the hooks does not count as cost of the watch.
            let _ = attached.send(hooks.missing().map(str::to_owned));
            while let Ok(wanted) = asked.recv() {
                if wanted.witness {
                    hooks.look();
                }
                let began = Instant::now();
                let state = crate::sockets::state(&selection)
                    .and_then(|state| dropped.beside(hooks.beside(state), wanted.drops));
                let (took, notes) = (began.elapsed(), hooks.take_notes());
                let hooks_missing = hooks.missing().map(str::to_owned);
                if answer.send(Reading { state, took, notes, hooks_missing }).is_err() {
                    break;
                }
            }
        });
        let hooks_missing = is_attached.recv_timeout(HOOKS_WAIT).ok().flatten();
        let now = Instant::now();
        Self {
            share,
            wanted,
            read,
            is_waiting: false,
            next: now,
            kept: VecDeque::new(),
            has_failed: false,
            notes: Vec::new(),
            hooks_missing,
        }
    }

    /// Returns the reason, if hooks could not be attached so far.
    pub fn hooks_missing(&self) -> Option<&str> {
        self.hooks_missing.as_deref()
    }

    /// Requests a reading, unless the pause after the last one is not over.
    pub fn ask(&mut self, report: &Report) {
        let now = Instant::now();
        let arrives = |(name, _): &(&str, _)| NOT_RECEIVED.contains(name);
        let wanted = Wanted {
            witness: report.findings.iter().any(|it| WITNESSED.contains(&it.cause)),
            drops: report.findings.iter().any(|it| it.facts.iter().any(arrives)),
        };
        if !self.is_waiting && now >= self.next && self.wanted.send(wanted).is_ok() {
            self.is_waiting = true;
        }
    }

    /// Weighs the findings of `report` with the last readings; waits at most `wait` for a requested
    /// one.
    pub fn weigh(&mut self, report: &mut Report, wait: Duration) {
        if self.is_waiting {
            match self.read.recv_timeout(wait) {
                Ok(read) => self.take(read),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.is_waiting = false,
            }
        }
        self.kept.iter().for_each(|state| weigh(report, state));
    }

    /// Returns notes on what could not be read and why, each once.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn take(&mut self, read: Reading) {
        self.is_waiting = false;
        self.next = Instant::now() + read.took.div_f64(self.share);
        self.notes.extend(read.notes);
        self.hooks_missing = read.hooks_missing;
        match read.state {
            Ok(state) => {
                self.kept.truncate(KEPT - 1);
                self.kept.push_front(state);
            }
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                self.notes.push(format!("no state of sockets stands beside the findings: {error}"));
            }
            Err(_) => {}
        }
    }
}

/// The result of one reading.
struct Reading {
    state: Result<State, Error>,
    /// CPU time of the reading.
    took: Duration,
    /// Notes for the user.
    notes: Vec<String>,
    /// The reason, if hooks could not be attached.
    hooks_missing: Option<String>,
}
