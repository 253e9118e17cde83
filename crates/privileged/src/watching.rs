//! A namespace that is watched: its sockets, what the kernel drops in it, and hooks, which show what a
//! list of sockets cannot.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Serialize;
use tcpwhy_core::state::{Part, Parts, Process, Served};
use tcpwhy_live::LiveError;
use tcpwhy_live::drops;
use tcpwhy_live::hooks::{self, HookKind, Record, Scope, Session, Summary};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::process::container_of;
use tcpwhy_live::process::ports::family;
use tcpwhy_live::sockets::{Selection, Survey, Where, survey};

use crate::protocol::{Looked, SocketHooks};

/// Hooks that run at every call of readers and senders are attached when they can support a
/// finding. This is how long they stay attached at a time.
const HOOKS_LOOK: Duration = Duration::from_secs(1);
/// They observe one of 2 to the power of this many connections.
const HOOKS_SHIFT: u32 = 3;
/// Share of a busy server's CPU time that they cost while they are attached (measured: 0.07 to
/// 0.11). They pause long enough to stay within their part of the budget.
const HOOKS_COST: f64 = 0.11;

/// Number of answered requests that a reading has at most.
const SERVED_MAX: usize = 1_000;

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
    /// Requests that were answered that time, until a reading takes them.
    served: Vec<Served>,
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
            sample_shift: if part.is_some() { HOOKS_SHIFT } else { 0 },
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
            served: Vec::new(),
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

    /// Attaches the other hooks for a moment, if their pause is over. `wait` waits, and returns
    /// whether nobody waits for the result any more.
    pub fn witness(&mut self, wait: impl FnOnce(Duration) -> bool) {
        if Instant::now() < self.next {
            return;
        }
        self.scope.ports = self.listening_ports();
        // Its children may have changed since the last time.
        self.scope.pids = self.pid.map(family).unwrap_or_default();
        let hooks = [HookKind::Unread, HookKind::SndbufWait, HookKind::Served];
        let mut session = self.attach(&hooks);
        if wait(HOOKS_LOOK) {
            return;
        }
        (self.seen, self.seen_ns) = (session.summary(), hooks::monotonic_ns());
        let offset_ns = hooks::realtime_offset_ns();
        let records = session.poll(Duration::ZERO).unwrap_or_default();
        let mut containers = BTreeMap::new();
        let mut container =
            |pid| containers.entry(pid).or_insert_with(|| container_of(pid)).clone();
        let workers = workers(&records);
        let served =
            records.iter().filter_map(|it| served(it, offset_ns, &workers, &mut container));
        self.served = served.take(SERVED_MAX).collect();
        self.next = Instant::now() + self.rest;
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
        let served = std::mem::take(&mut self.served);
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

/// Returns how many threads answered requests at each server.
fn workers(records: &[Record]) -> BTreeMap<SocketAddr, usize> {
    let mut tids: BTreeMap<SocketAddr, BTreeSet<u32>> = BTreeMap::new();
    for record in records {
        if let Record::Served(it) = record {
            tids.entry(it.flow.source).or_default().insert(it.tid);
        }
    }
    tids.into_iter().map(|(server, tids)| (server, tids.len())).collect()
}

/// Returns a request that was answered, with the parts of its time. `workers` answered at each server.
fn served(
    record: &Record,
    offset_ns: i64,
    workers: &BTreeMap<SocketAddr, usize>,
    container: &mut impl FnMut(u32) -> Option<String>,
) -> Option<Served> {
    let Record::Served(it) = record else { return None };
    let container = container(it.pid);
    Some(Served {
        local: it.flow.source,
        peer: it.flow.destination,
        process: Process { pid: it.pid.into(), command: it.command.clone(), container },
        ready_ns: it.ready_ns.saturating_add_signed(offset_ns),
        parts: parts(it, workers.get(&it.flow.source).copied().unwrap_or(0)),
        waits_for: it.peer.map(|(flow, ns)| (flow.destination, ns)),
        is_handed_over: it.is_handed_over,
    })
}

/// Divides the time from the request's last byte to the answer's first one. As many `workers` answer
/// requests at its server.
fn parts(it: &hooks::Served, workers: usize) -> Parts {
    let mut parts = Parts::default();
    let mut blocked = |did: &hooks::States| {
        parts.add(Part::CpuWait, did.runnable_ns);
        parts.add(Part::Throttled, did.throttled_ns);
        parts.add(Part::Lock, did.locked_ns);
        parts.add(Part::Disk, did.disk_ns);
        parts.add(Part::Memory, did.memory_ns);
    };
    it.unread.iter().chain(&it.serving).for_each(&mut blocked);
    // The time of the reader before it read belongs to other requests.
    match (it.unread, it.no_worker_free) {
        (Some(before), true) => {
            // A single thread that runs is an event loop.
            let ran = if workers > 1 { Part::NoWorkerFree } else { Part::OtherRequests };
            parts.add(ran, before.running_ns);
            let rested_ns = before.awaiting_ns + before.sleeping_ns + before.other_ns;
            parts.add(Part::NoWorkerFree, rested_ns);
        }
        (Some(before), false) => {
            parts.add(Part::OtherRequests, before.running_ns);
            parts.add(Part::Unread, before.awaiting_ns);
            parts.add(Part::Sleep, before.sleeping_ns);
            parts.add(Part::OtherCall, before.other_ns);
        }
        (None, true) => parts.add(Part::NoWorkerFree, it.read_ns - it.ready_ns),
        (None, false) => parts.add(Part::Unread, it.read_ns - it.ready_ns),
    }
    match it.serving {
        Some(did) => {
            parts.add(Part::Running, did.running_ns - it.others_ns);
            parts.add(Part::OtherRequests, it.others_ns);
            parts.add(Part::Others, did.awaiting_ns);
            parts.add(Part::Sleep, did.sleeping_ns);
            parts.add(Part::OtherCall, did.other_ns);
        }
        None => parts.add(Part::Unknown, it.written_ns - it.read_ns),
    }
    parts
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that lay unread for 450 ns and was answered 1,800 ns later.
    fn hooked(unread: bool, serving: bool) -> hooks::Served {
        let end = |text: &str| text.parse::<SocketAddr>().expect("an end");
        let flow =
            hooks::Flow { source: end("10.0.0.2:80"), destination: end("10.0.0.1:9"), protocol: 6 };
        let did = |each_ns: u64| hooks::States {
            running_ns: 2 * each_ns,
            runnable_ns: each_ns,
            throttled_ns: each_ns,
            awaiting_ns: each_ns,
            locked_ns: each_ns,
            disk_ns: each_ns,
            memory_ns: each_ns,
            sleeping_ns: each_ns,
            other_ns: 0,
        };
        hooks::Served {
            flow,
            netns: 1,
            pid: 7,
            tid: 8,
            command: "node".into(),
            ready_ns: 1_000,
            read_ns: 1_450,
            written_ns: 3_250,
            unread: unread.then(|| did(50)),
            serving: serving.then(|| did(200)),
            others_ns: if serving { 150 } else { 0 },
            is_handed_over: false,
            no_worker_free: false,
            peer: None,
        }
    }

    #[test]
    fn the_parts_sum_to_the_time_of_the_server() {
        for (unread, serving) in [(true, true), (true, false), (false, true), (false, false)] {
            let parts = parts(&hooked(unread, serving), 1);
            assert_eq!(parts.total_ns(), 2_250, "{parts:?}");
            let expected = (if unread { 50 } else { 450 }, if serving { 0 } else { 1_800 });
            assert_eq!((parts.of(Part::Unread), parts.of(Part::Unknown)), expected);
        }
        let parts = parts(&hooked(true, true), 1);
        assert_eq!((parts.of(Part::Running), parts.of(Part::OtherRequests)), (250, 250));
        assert_eq!((parts.of(Part::Throttled), parts.of(Part::Others)), (250, 200));
    }

    #[test]
    fn a_request_that_no_worker_accepts_waits_for_one() {
        for (unread, workers, waits) in [(true, 2, 200), (true, 1, 100), (false, 2, 450)] {
            let one = hooks::Served { no_worker_free: true, ..hooked(unread, true) };
            let parts = parts(&one, workers);
            assert_eq!((parts.of(Part::NoWorkerFree), parts.total_ns()), (waits, 2_250));
        }
    }
}
