//! Kernel hooks of a watch: they show what a list of sockets cannot.

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_core::state::{Process, State};
use tcpwhy_live::hooks::{self, HookKind, Record, Scope, Session, Summary};

/// Hooks that run at every call of readers and senders are attached when they can support a
/// finding. This is how long they stay attached at a time.
const HOOKS_LOOK: Duration = Duration::from_secs(1);
/// They observe one of 2 to the power of this many connections.
const HOOKS_SHIFT: u32 = 3;
/// Share of a busy server's CPU time that they cost while they are attached (measured: 0.07 to
/// 0.11). They pause long enough to stay within their part of the budget.
const HOOKS_COST: f64 = 0.11;

/// Age at which entries are removed from the kernel's tables.
pub const KEPT: Duration = Duration::from_secs(600);

/// The kernel hooks of a watch.
pub struct Hooks {
    scope: Scope,
    /// Hooks that stay attached: retransmissions, and the socket calls of a watched process.
    lasting: Session,
    /// Pause after the hooks were attached.
    rest: Duration,
    /// Earliest time at which they may be attached again.
    next: Instant,
    /// Counts of the last time they were attached, until a reading takes them.
    seen: Summary,
    /// Time of these counts by the monotonic clock, ns.
    seen_ns: u64,
    /// The reason, if hooks could not be attached.
    lacking: Option<String>,
    /// `true` after that reason was reported.
    has_said: bool,
}

impl Hooks {
    /// Attaches the hooks that stay attached, which cost nothing for each request: in the namespace
    /// with this inode, and for the calls of process `pid`. The others may take the share `part` of
    /// a CPU, if that is bounded.
    pub fn new(netns_inode: u64, pid: Option<u32>, part: Option<f64>) -> Self {
        let mut hooks = Self {
            scope: Scope {
                netns: u32::try_from(netns_inode).ok(),
                sample_shift: if part.is_some() { HOOKS_SHIFT } else { 0 },
                pids: pid.into_iter().collect(),
            },
            lasting: Session::default(),
            rest: HOOKS_LOOK.mul_f64(part.map_or(0.0, |part| HOOKS_COST / part)),
            next: Instant::now(),
            seen: Summary::default(),
            seen_ns: 0,
            lacking: None,
            has_said: false,
        };
        hooks.lasting = match pid {
            Some(_) => hooks.attach(&[HookKind::Retransmit, HookKind::Options]),
            None => hooks.attach(&[HookKind::Retransmit]),
        };
        hooks
    }

    fn attach(&mut self, kinds: &[HookKind]) -> Session {
        let (session, missing) = Session::open(kinds, &self.scope);
        // Usually all hooks fail for the same reason.
        if self.lacking.is_none() {
            self.lacking = missing.first().map(|lacks| lacks.lack.to_string());
        }
        session
    }

    /// Returns the reason, if hooks could not be attached.
    pub fn missing(&self) -> Option<&str> {
        self.lacking.as_deref()
    }

    /// Attaches the other hooks for a moment, if their pause is over.
    pub fn look(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        let session = self.attach(&[HookKind::Unread, HookKind::SndbufWait]);
        thread::sleep(HOOKS_LOOK);
        (self.seen, self.seen_ns) = (session.summary(), hooks::monotonic_ns());
        self.next = Instant::now() + self.rest;
    }

    /// Returns notes for the user. The first reading says why hooks are missing. Each reading lists
    /// the calls by which a watched process set up its sockets since the last one; equal calls are
    /// listed once with their number.
    pub fn take_notes(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(lacking) = self.lacking.as_ref().filter(|_| !self.has_said) {
            notes.push(format!(
                "waits of readers and senders, and why segments are sent again, are not seen: \
                 {lacking}"
            ));
            self.has_said = true;
        }
        let mut calls: BTreeMap<String, u64> = BTreeMap::new();
        for record in self.lasting.poll(Duration::ZERO).unwrap_or_default() {
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

    /// Adds the hooks' counts to `state`: always those of the hooks that stay attached, the others
    /// if they were attached for this reading.
    pub fn beside(&mut self, mut state: State) -> State {
        let seen = std::mem::take(&mut self.seen);
        let mut sockets = state.by_ends();
        for unread in &seen.unread {
            let flow = unread.flow;
            let hooked = &mut sockets.socket(flow.source, flow.destination).hooked;
            (hooked.unread_ns, hooked.unread_max_ns) = (unread.total_ns, unread.max_ns);
            if let Some(since_ns) = unread.since_ns {
                let waits_ns = self.seen_ns.saturating_sub(since_ns);
                hooked.unread_ns += waits_ns;
                hooked.unread_max_ns = hooked.unread_max_ns.max(waits_ns);
            }
        }
        for wait in &seen.sndbuf_waits {
            let socket = sockets.socket(wait.flow.source, wait.flow.destination);
            socket.hooked.sndbuf_wait_ns = wait.wait_ns + wait.refused_ns;
            let (pid, command) = (wait.pid.into(), wait.command.clone());
            socket.process.get_or_insert(Process { pid, command, container: None });
        }
        for again in self.lasting.summary().retransmits {
            let hooked = &mut sockets.socket(again.flow.source, again.flow.destination).hooked;
            (hooked.rto_segments, hooked.fast_segments) = (again.timeout, again.fast);
        }
        self.lasting.forget(KEPT);
        state
    }
}
