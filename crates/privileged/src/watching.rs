//! A namespace that is watched: its sockets, what the kernel drops in it, and hooks, which show what a
//! list of sockets cannot.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;
use tcpwhy_live::LiveError;
use tcpwhy_live::drops;
use tcpwhy_live::hooks::{self, HookKind, Record, Scope, Session, Summary};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::process::ports::family;
use tcpwhy_live::sample::{Sample, Share};
use tcpwhy_live::sockets::{Selection, Survey, Where, survey};

use crate::following::Following;
use crate::protocol::{Looked, SocketHooks};

/// Hooks that run at every call of readers and senders are attached when they can support a
/// finding. This is how long they stay attached at a time.
const HOOKS_LOOK: Duration = Duration::from_secs(1);
/// They observe no more connections than these, if their cost is bounded.
const HOOKS_MOST: Share = Share::EIGHTH;
/// Share of a busy server's CPU time that they cost while they are attached (measured: 0.07 to
/// 0.11). They pause long enough to stay within their part of the budget.
const HOOKS_COST: f64 = 0.11;

/// Number of listening ports whose requests are followed: the size of the hook's map.
const PORTS_MAX: usize = 1024;

/// Age at which entries are removed from the kernel's tables, which would be full at some time.
const KEPT: Duration = Duration::from_secs(600);

/// A watch of one namespace.
pub struct Watching {
    selection: Selection,
    dropped: Dropped,
    scope: Scope,
    /// The watched process, which is looked at with its children.
    pid: Option<u32>,
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
    /// The hook that follows requests.
    following: Following,
    /// The reason, if hooks could not be attached.
    lacking: Option<String>,
    /// `true` after that reason was reported.
    has_said: bool,
}

/// Result of a reading.
#[derive(Serialize)]
pub struct Reading {
    survey: Survey,
    /// Packets that the kernel dropped, if they were asked for.
    drops: Vec<drops::Line>,
    looked: Looked,
}

impl Watching {
    /// Attaches the hooks that stay attached, which cost nothing for each request. The others may
    /// take the share `part` of a CPU, if that is bounded.
    pub fn begin(netns: Netns, pid: Option<u32>, part: Option<f64>) -> Self {
        let scope = Scope {
            netns: u32::try_from(netns.inode).ok(),
            sample: Sample::all(),
            pids: pid.into_iter().collect(),
            ports: Vec::new(),
        };
        let mut watching = Self {
            selection: Selection { place: Where::Of(netns.clone()), ..Selection::default() },
            dropped: Dropped::since_now(netns),
            scope,
            pid,
            lasting: Session::default(),
            rest: HOOKS_LOOK.mul_f64(part.map_or(0.0, |part| HOOKS_COST / part)),
            next: Instant::now(),
            seen: Summary::default(),
            seen_ns: 0,
            following: Following::new(part),
            lacking: None,
            has_said: false,
        };
        watching.lasting = match pid {
            Some(_) => watching.attach(&[HookKind::Retransmit, HookKind::Options]),
            None => watching.attach(&[HookKind::Retransmit]),
        };
        watching
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
    pub fn missing(&self) -> Option<String> {
        self.lacking.clone()
    }

    /// Attaches the other hooks for a moment, to connections of `sample`, if their pause is over. `wait`
    /// waits, and returns whether nobody waits for the result any more.
    pub fn witness(&mut self, sample: Sample, wait: impl FnOnce(Duration) -> bool) {
        if Instant::now() < self.next {
            return;
        }
        let most = if self.rest.is_zero() { Share::ALL } else { HOOKS_MOST };
        self.scope.sample = Sample { share: sample.share.at_most(most), ..sample };
        // Its children may have changed since the last time.
        self.scope.pids = self.pid.map(family).unwrap_or_default();
        let session = self.attach(&[HookKind::Unread, HookKind::SndbufWait]);
        if wait(HOOKS_LOOK) {
            return;
        }
        (self.seen, self.seen_ns) = (session.summary(), hooks::monotonic_ns());
        self.next = Instant::now() + self.rest;
    }

    /// Follows the requests of `sample` through the threads of servers from now on; `None` ends that.
    /// `wait` waits.
    pub fn follow(&mut self, sample: Option<Sample>, wait: impl FnOnce(Duration) -> bool) {
        let Some(sample) = sample else { return self.following.stop() };
        if !self.following.is_due(sample) {
            return;
        }
        let pids = self.pid.map(family).unwrap_or_default();
        let ports = self.listening_ports();
        let scope = Scope { ports, pids, sample, ..self.scope.clone() };
        let missing = self.following.attach(&scope, wait);
        self.lacking = self.lacking.take().or(missing);
    }

    /// Returns the ports at which the namespace listens; none where its sockets are not listed.
    fn listening_ports(&self) -> Vec<u16> {
        let all = survey(&self.selection).map(|it| it.sockets).unwrap_or_default();
        let listeners = all.iter().filter(|it| it.listener.is_some());
        let ports: BTreeSet<u16> = listeners.map(|it| it.local.port()).collect();
        ports.into_iter().take(PORTS_MAX).collect()
    }

    /// Reads the sockets, the counts of the hooks and, if `drops`, what the kernel dropped.
    ///
    /// # Errors
    /// The kernel does not list the sockets.
    pub fn read(&mut self, drops: bool) -> Result<Reading, LiveError> {
        let began = Instant::now();
        let survey = survey(&self.selection)?;
        let drops = self.dropped.lines(drops);
        let hooked = self.hooked();
        let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let notes = self.notes();
        self.following.read();
        let served = self.following.take();
        let looked = Looked { hooked, served, took_ns, notes, hooks_missing: self.missing() };
        Ok(Reading { survey, drops, looked })
    }

    /// Returns the hooks' counts: always those of the hooks that stay attached, the others if they
    /// were attached for this reading.
    fn hooked(&mut self) -> Vec<SocketHooks> {
        let seen = std::mem::take(&mut self.seen);
        let mut hooked = Vec::new();
        let none = |flow: hooks::Flow| SocketHooks {
            local: flow.source,
            peer: flow.destination,
            unread_ns: None,
            sndbuf_wait: None,
            retransmits: None,
        };
        for unread in &seen.unread {
            let now_ns =
                unread.since_ns.map_or(0, |since_ns| self.seen_ns.saturating_sub(since_ns));
            let unread_ns = (unread.total_ns + now_ns, unread.max_ns.max(now_ns));
            hooked.push(SocketHooks { unread_ns: Some(unread_ns), ..none(unread.flow) });
        }
        for wait in seen.sndbuf_waits {
            let waits = (wait.wait_ns + wait.refused_ns, wait.pid, wait.command);
            hooked.push(SocketHooks { sndbuf_wait: Some(waits), ..none(wait.flow) });
        }
        for again in self.lasting.summary().retransmits {
            let retransmits = Some((again.timeout, again.fast));
            hooked.push(SocketHooks { retransmits, ..none(again.flow) });
        }
        self.lasting.forget(KEPT);
        hooked
    }

    /// Returns notes for the user. The first reading says why hooks are missing. Each reading lists
    /// the calls by which a watched process set up its sockets since the last one; equal calls are
    /// listed once with their number.
    fn notes(&mut self) -> Vec<String> {
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
}

/// Packets that the kernel drops in a namespace.
struct Dropped {
    netns: Netns,
    /// `None` where the namespace may not be entered; the sockets cannot be read either then.
    watch: Option<drops::Watch>,
    since: Instant,
}

impl Dropped {
    fn since_now(netns: Netns) -> Self {
        let watch = drops::Watch::start_in(Some(netns.clone()), None).ok();
        Self { netns, watch, since: Instant::now() }
    }

    /// Returns the drops of the last minutes, if they are wanted.
    fn lines(&mut self, wanted: bool) -> Vec<drops::Line> {
        let watch = self.watch.as_mut().filter(|_| wanted);
        let lines = watch.map_or_else(Vec::new, |watch| watch.report().drops);
        if self.since.elapsed() >= KEPT {
            *self = Self::since_now(self.netns.clone());
        }
        lines
    }
}
