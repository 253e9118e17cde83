//! The state of the watched system's sockets, read on a thread of its own: it keeps the privileges that
//! this needs, which the thread that parses packets gives up.

mod hooks;

use crate::error::Error;
use hooks::Hooks;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_core::model::{Cause, Report};
use tcpwhy_core::state::{State, weigh};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sockets::{Selection, Where};

/// The part of a budget that reading sockets may take; capturing and reporting, which go on in another thread,
/// may take the rest.
pub const STATE_PART: f64 = 0.25;

/// Without a budget, reading takes this share of the time at most, whatever the number of sockets.
const SHARE: f64 = 0.01;

/// How long the kernel may take to accept the hooks before the watch begins without them.
const HOOKS_WAIT: Duration = Duration::from_secs(3);

/// Readings of the sockets of one selection.
pub struct Reader {
    /// Whether hooks are to look as well.
    wanted: Sender<bool>,
    read: Receiver<Reading>,
    /// Share of the time that reading may take.
    share: f64,
    /// A reading was asked for and has not come.
    is_waiting: bool,
    /// When the next may be asked for.
    next: Instant,
    /// The last readings, latest first: what a socket was like before it was closed is in an older one.
    kept: VecDeque<State>,
    /// That readings fail was said.
    has_failed: bool,
    /// What to say beside the reports.
    notes: Vec<String>,
}

/// Readings kept.
const KEPT: usize = 3;

/// Causes that hooks which are attached for a moment can be witnesses of.
const WITNESSED: [Cause; 3] = [Cause::SendBuffer, Cause::ZeroWindow, Cause::ServerThink];

impl Reader {
    /// Reads the sockets of `netns`, with the privileges that the calling thread has now, within
    /// [`STATE_PART`] of `budget`, a share of one CPU. Returns when those hooks are attached that stay.
    ///
    /// Where the process `pid` is watched, its `setsockopt`, `bind` and `listen` calls become notes.
    pub fn new(netns: Netns, budget: Option<f64>, pid: Option<u32>) -> Self {
        let share = budget.map_or(SHARE, |budget| budget * STATE_PART);
        let (inode, part) = (netns.inode, budget.map(|_| share));
        let selection = Selection { place: Where::Of(netns), ..Selection::default() };
        let (wanted, asked) = channel();
        let (answer, read) = channel();
        let (attached, is_attached) = channel();
        thread::spawn(move || {
            let mut hooks = Hooks::new(inode, pid, part);
            // What it costs to load them is no cost of watching.
            let _ = attached.send(());
            while let Ok(witness) = asked.recv() {
                if witness {
                    hooks.look();
                }
                let began = Instant::now();
                let state = crate::sockets::state(&selection).map(|state| hooks.beside(state));
                let (took, notes) = (began.elapsed(), hooks.take_notes());
                if answer.send(Reading { state, took, notes }).is_err() {
                    break;
                }
            }
        });
        let _ = is_attached.recv_timeout(HOOKS_WAIT);
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
        }
    }

    /// Asks for a reading, unless the last one took so long that it has to rest.
    pub fn ask(&mut self, report: &Report) {
        let now = Instant::now();
        let witness = report.findings.iter().any(|it| WITNESSED.contains(&it.cause));
        if !self.is_waiting && now >= self.next && self.wanted.send(witness).is_ok() {
            self.is_waiting = true;
        }
    }

    /// Weighs the findings of `report` with the last readings; waits `wait` at most for one that was asked
    /// for.
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

    /// What could not be read and why, each once.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn take(&mut self, read: Reading) {
        self.is_waiting = false;
        self.next = Instant::now() + read.took.div_f64(self.share);
        self.notes.extend(read.notes);
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

/// What one reading gave.
struct Reading {
    state: Result<State, Error>,
    /// How long it took.
    took: Duration,
    /// What to say beside the reports.
    notes: Vec<String>,
}
