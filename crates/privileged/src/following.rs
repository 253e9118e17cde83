//! The hook that follows requests through the threads of servers, attached as long as its cost stays
//! within its part of the budget.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tcpwhy_core::state::{Part, Parts, Process, Served};
use tcpwhy_live::hooks::{self, HookKind, Record, Scope, Session};
use tcpwhy_live::process::{Servers, container_of};
use tcpwhy_live::sample::Sample;
use tcpwhy_live::sys::process::thread_cpu_time;

/// Number of answered requests that a reading has at most.
const SERVED_MAX: usize = 1_000;

/// Time after which the cost of the hook is looked at first.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// It stays attached for as long at least: a slow request is seen only if the hook is attached for longer
/// than it takes.
const LOOK_MIN: Duration = Duration::from_secs(1);
/// Unless it costs more than this many times its part until then, as with all connections of a saturated
/// server.
const DEAR: u32 = 8;

/// Cost of the hook as a multiple of the time that its programs run, which the kernel measures. An estimate:
/// the way to them and back, and what they evict from the caches, are not in that time.
const OVERHEAD: f64 = 1.5;
/// Share of a saturated server's CPU time that it costs where the kernel does not measure it (measured:
/// 0.07 to 0.11 with one connection in eight).
const SATURATED: f64 = 0.11;

/// The hook, with the state that decides when it is attached.
pub(crate) struct Following {
    /// Share of one CPU that it may take; `None`: any.
    part: Option<f64>,
    /// The hook, once it is loaded.
    session: Option<Session>,
    attached: Option<Attached>,
    /// Earliest time at which it may be attached again.
    next: Instant,
    /// Requests that were answered, until a reading takes them.
    served: Vec<Served>,
}

struct Attached {
    sample: Sample,
    since: Instant,
    /// CPU time of attaching it.
    attaching: Duration,
    /// How long the hook had run before, if the kernel measures that.
    ran_before: Option<Duration>,
}

impl Attached {
    /// Returns what the hook has cost since it is attached: CPU time.
    fn cost(&self, session: &Session) -> Duration {
        match self.ran_before {
            Some(before) => session.run_time().saturating_sub(before).mul_f64(OVERHEAD),
            None => self.since.elapsed().mul_f64(SATURATED),
        }
    }
}

impl Following {
    /// Follows nothing yet; may take the share `part` of a CPU, if that is bounded.
    pub(crate) fn new(part: Option<f64>) -> Self {
        let next = Instant::now();
        Self { part, session: None, attached: None, next, served: Vec::new() }
    }

    /// Returns whether the hook is to be attached to `sample`: it is not, and its pause is over.
    pub(crate) fn is_due(&self, sample: Sample) -> bool {
        let is_attached = self.attached.as_ref().is_some_and(|it| it.sample == sample);
        !is_attached && Instant::now() >= self.next
    }

    /// Detaches the hook.
    pub(crate) fn stop(&mut self) {
        self.read();
        self.detach();
    }

    fn detach(&mut self) {
        if self.attached.take().is_some() {
            self.session.iter_mut().for_each(Session::pause);
        }
    }

    /// Returns the requests that were answered since the last call.
    pub(crate) fn take(&mut self) -> Vec<Served> {
        std::mem::take(&mut self.served)
    }

    /// Attaches the hook to `scope`. `wait` waits. Returns the reason if it cannot be attached.
    pub(crate) fn attach(
        &mut self,
        scope: &Scope,
        wait: impl FnOnce(Duration) -> bool,
    ) -> Option<String> {
        self.stop();
        let before = thread_cpu_time();
        let (session, attaching) = match &mut self.session {
            Some(session) => {
                if let Err(why) = session.resume(scope) {
                    return Some(why);
                }
                (session, thread_cpu_time().saturating_sub(before))
            }
            none => {
                let (session, missing) = Session::open(&[HookKind::Served], scope);
                if let Some(lacks) = missing.first() {
                    return Some(lacks.lack.to_string());
                }
                // Loading it is no cost that recurs.
                (none.insert(session), Duration::ZERO)
            }
        };
        let is_measured = self.part.is_some() && session.measure();
        let ran_before = is_measured.then(|| session.run_time());
        let since = Instant::now();
        self.attached = Some(Attached { sample: scope.sample, since, attaching, ran_before });
        if self.part.is_some() {
            wait(FIRST_LOOK);
            self.read();
        }
        None
    }

    /// Reads what the hook saw. It stays attached while it costs no more than its part; else it pauses
    /// until it has cost that on average. What attaching cost counts for the pause alone: it is the less,
    /// the longer the hook stays attached.
    pub(crate) fn read(&mut self) {
        let (Some(attached), Some(session)) = (&self.attached, &mut self.session) else { return };
        let records = session.poll(Duration::ZERO).unwrap_or_default();
        self.served.extend(requests(&records).take(SERVED_MAX - self.served.len().min(SERVED_MAX)));
        let Some(part) = self.part else { return };
        let (lasted, cost) = (attached.since.elapsed(), attached.cost(session));
        let times = if lasted < LOOK_MIN { DEAR } else { 1 };
        if cost > lasted.mul_f64(part) * times {
            let all = cost + attached.attaching;
            self.next = Instant::now() + all.div_f64(part).saturating_sub(lasted);
            self.detach();
        }
    }
}

fn requests(records: &[Record]) -> impl Iterator<Item = Served> {
    let offset_ns = hooks::realtime_offset_ns();
    let workers = workers(records);
    let (servers, mut known) = (Servers::default(), BTreeMap::new());
    records.iter().filter_map(move |record| {
        let mut process = |it: &hooks::Served| {
            let (container, runtime) = known
                .entry(it.pid)
                .or_insert_with(|| (container_of(it.pid), servers.runtime(it.pid)));
            let (container, runtime) = (container.clone(), runtime.clone());
            Process { pid: it.pid.into(), command: it.command.clone(), container, runtime }
        };
        served(record, offset_ns, &workers, &mut process)
    })
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
    process: &mut impl FnMut(&hooks::Served) -> Process,
) -> Option<Served> {
    let Record::Served(it) = record else { return None };
    Some(Served {
        local: it.flow.source,
        peer: it.flow.destination,
        process: process(it),
        ready_ns: it.ready_ns.saturating_add_signed(offset_ns),
        parts: parts(it, workers.get(&it.flow.source).copied().unwrap_or(0)),
        waits_for: it.peer.map(|(flow, ns)| (flow.destination, ns)),
        is_handed_over: it.is_handed_over,
    })
}

/// Divides the time from the request's last byte to when the answer's first one left the host. As many `workers` answer
/// requests at its server.
fn parts(it: &hooks::Served, workers: usize) -> Parts {
    let mut parts = Parts::default();
    let mut blocked = |did: &hooks::States| {
        parts.add(Part::CpuWait, did.runnable_ns);
        parts.add(Part::Throttled, did.throttled_ns);
        parts.add(Part::Lock, did.locked_ns);
        parts.add(Part::Collector, did.stopped_ns);
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
        // Whoever was to read it, none of the machine's threads could while it stood still.
        (None, no_worker_free) => {
            let rest = if no_worker_free { Part::NoWorkerFree } else { Part::Unread };
            let unread_ns = it.read_ns - it.ready_ns;
            let stopped_ns = it.unread_stopped_ns.min(unread_ns);
            parts.add(Part::Collector, stopped_ns);
            parts.add(rest, unread_ns - stopped_ns);
        }
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
    if let Some((queued_ns, sent_ns)) = it.left_ns {
        parts.add(Part::Unsent, queued_ns - it.written_ns);
        parts.add(Part::Queue, sent_ns - queued_ns);
    }
    parts
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
            stopped_ns: 0,
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
            left_ns: None,
            unread: unread.then(|| did(50)),
            unread_stopped_ns: 0,
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
        let left = hooks::Served { left_ns: Some((3_260, 3_560)), ..hooked(true, true) };
        let parts = self::parts(&left, 1);
        assert_eq!(
            (parts.of(Part::Unsent), parts.of(Part::Queue), parts.total_ns()),
            (10, 300, 2_560)
        );
    }

    #[test]
    fn time_in_which_the_machine_stood_still_is_the_collectors() {
        let mut one = hooks::Served { unread_stopped_ns: 300, ..hooked(false, true) };
        let parts_of = |it: &hooks::Served| parts(it, 2);
        let parts = parts_of(&one);
        assert_eq!((parts.of(Part::Collector), parts.of(Part::Unread)), (300, 150));
        one.unread = hooked(true, true).unread;
        let parts = parts_of(&one);
        assert_eq!(parts.of(Part::Collector), 0, "what the reader did is known");
        if let Some(did) = &mut one.serving {
            (did.locked_ns, did.stopped_ns) = (0, 200);
        }
        let parts = parts_of(&one);
        assert_eq!((parts.of(Part::Collector), parts.of(Part::Lock)), (200, 50));
        assert_eq!(parts.total_ns(), 2_250);
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
