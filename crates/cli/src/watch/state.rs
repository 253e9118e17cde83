//! The state of the watched system's sockets, read on a thread of its own: it keeps the privileges that
//! this needs, which the thread that parses packets gives up.

use crate::error::Error;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_core::cause::Cause;
use tcpwhy_core::report::Report;
use tcpwhy_core::state::{Process, State, weigh};
use tcpwhy_live::hooks::{self, HookKind, Record, Scope, Session, Summary};
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

impl Reader {
    /// Reads the sockets of `netns`, with the privileges that the calling thread has now, within
    /// [`STATE_PART`] of `budget`, a share of one CPU. Returns when those hooks are attached that stay.
    ///
    /// Where the process `pid` is watched, its `setsockopt`, `bind` and `listen` calls become notes.
    pub fn new(netns: Netns, budget: Option<f64>, pid: Option<u32>) -> Self {
        let sample_shift = if budget.is_some() { HOOKS_SHIFT } else { 0 };
        let share = budget.map_or(SHARE, |budget| budget * STATE_PART);
        let rest = HOOKS_LOOK.mul_f64(budget.map_or(0.0, |_| HOOKS_COST / share));
        let scope = Scope {
            netns: u32::try_from(netns.inode).ok(),
            sample_shift,
            pids: pid.into_iter().collect(),
        };
        let selection = Selection { place: Where::Of(netns), ..Selection::default() };
        let (wanted, asked) = channel();
        let (answer, read) = channel();
        let (attached, is_attached) = channel();
        thread::spawn(move || {
            let mut hooks = Hooks::new(scope, rest);
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

/// Causes that the hooks can be witnesses of.
const WITNESSED: [Cause; 3] = [Cause::SendBuffer, Cause::ZeroWindow, Cause::ServerThink];

/// Hooks that run at each call of readers and senders are attached when a finding can use them, for so long, …
const HOOKS_LOOK: Duration = Duration::from_secs(1);
/// … look with a budget at one of 2 to the power of this many connections, …
const HOOKS_SHIFT: u32 = 3;
/// … and rest then for as long as keeps them in their part of the budget, where they cost this share of a busy server's
/// time while they are attached: 0.07 to 0.11 were measured.
const HOOKS_COST: f64 = 0.11;

/// Kernel hooks that see what no list of sockets shows.
struct Hooks {
    scope: Scope,
    /// Sees the calls of a process that is watched.
    calls: Option<Session>,
    /// How long they rest after they were attached.
    rest: Duration,
    /// When they may be attached again.
    next: Instant,
    /// What they counted when they were attached last, until a reading has it.
    seen: Summary,
    /// When that was, by the monotonic clock.
    seen_ns: u64,
    /// Why they do not see what they should, until it was said.
    lacking: Option<String>,
    /// It was said.
    has_said: bool,
}

impl Hooks {
    fn new(scope: Scope, rest: Duration) -> Self {
        let mut hooks = Self {
            scope,
            calls: None,
            rest,
            next: Instant::now(),
            seen: Summary::default(),
            seen_ns: 0,
            lacking: None,
            has_said: false,
        };
        let has_process = !hooks.scope.pids.is_empty();
        hooks.calls = has_process.then(|| hooks.attach(&[HookKind::Options]));
        hooks
    }

    fn attach(&mut self, kinds: &[HookKind]) -> Session {
        let (session, missing) = Session::open(kinds, &self.scope);
        // All lack the same, as a rule.
        if let Some(lacks) = missing.first().filter(|_| !self.has_said) {
            self.lacking =
                Some(format!("waits of readers and senders are not seen: {}", lacks.lack));
            self.has_said = true;
        }
        session
    }

    /// Attaches hooks for a moment, if they have rested.
    fn look(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        let session = self.attach(&[HookKind::Unread, HookKind::SndbufWait]);
        thread::sleep(HOOKS_LOOK);
        (self.seen, self.seen_ns) = (session.summary(), hooks::monotonic_ns());
        self.next = Instant::now() + self.rest;
    }

    /// What to say beside the reports: in the first reading why hooks are not there, and the calls by which
    /// a watched process set up its sockets since the last reading, equal ones once with their number.
    fn take_notes(&mut self) -> Vec<String> {
        let mut notes = Vec::from_iter(self.lacking.take());
        let mut calls: BTreeMap<String, u64> = BTreeMap::new();
        let records = self.calls.as_mut().map(|session| session.poll(Duration::ZERO));
        for record in records.and_then(Result::ok).unwrap_or_default() {
            if let Record::Call(call) = record {
                let failed = |error| format!(" failed: {}", io::Error::from_raw_os_error(error));
                let result = call.error.map(failed).unwrap_or_default();
                let words = format!("{} (pid {}): {}{result}", call.command, call.pid, call.what);
                *calls.entry(words).or_default() += 1;
            }
        }
        notes.extend(calls.into_iter().map(|(words, count)| match count {
            1 => words,
            _ => format!("{words}, {count} times"),
        }));
        notes
    }

    /// Adds to `state` what the hooks counted, if they were attached for this reading.
    fn beside(&mut self, mut state: State) -> State {
        let seen = std::mem::take(&mut self.seen);
        for unread in &seen.unread {
            let flow = unread.flow;
            let hooked = &mut state.socket_between(flow.source, flow.destination).hooked;
            (hooked.unread_ns, hooked.unread_max_ns) = (unread.total_ns, unread.max_ns);
            if let Some(since_ns) = unread.since_ns {
                let waits_ns = self.seen_ns.saturating_sub(since_ns);
                hooked.unread_ns += waits_ns;
                hooked.unread_max_ns = hooked.unread_max_ns.max(waits_ns);
            }
        }
        for wait in &seen.sndbuf_waits {
            let socket = state.socket_between(wait.flow.source, wait.flow.destination);
            socket.hooked.sndbuf_wait_ns = wait.wait_ns + wait.refused_ns;
            let process = || Process { pid: wait.pid.into(), command: wait.command.clone() };
            socket.process.get_or_insert_with(process);
        }
        state
    }
}
