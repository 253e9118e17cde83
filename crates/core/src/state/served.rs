//! The parts of a server's time: what kernel hooks saw its threads do from a request to its answer.

use crate::findings;
use crate::judge::thresholds::{ALIKE_PART, AT_ONCE_PART, HABIT_MIN};
use crate::model::units::duration;
use crate::model::{Cause, Fact, Finding, Report, Role, RuledOut, SlowExchange, StateEvidence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{Process, is_at};

/// Number of parts that a sentence names, the largest first.
const PARTS_MAX: usize = 5;

/// A part of a server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[cfg_attr(any(test, feature = "schemas"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// On a CPU for this request.
    Running,
    /// On a CPU for other requests, while this one lay unread or unanswered: a busy event loop.
    OtherRequests,
    /// Unread, while each thread that reads requests of this server had others.
    NoWorkerFree,
    /// In a run queue: other threads had the CPUs.
    CpuWait,
    /// Stopped by the CPU quota of its control group.
    Throttled,
    /// Blocked until a peer answered, or another event came.
    Others,
    /// Blocked in a lock.
    Lock,
    /// Blocked in a lock while its virtual machine stood still, as it does to collect garbage.
    Collector,
    /// Blocked in block I/O, fsync or a call on a file.
    Disk,
    /// Blocked in page faults, reclaim or swap.
    Memory,
    /// Asleep by a timer.
    Sleep,
    /// Blocked in another system call.
    OtherCall,
    /// Received and not read, for a reason that is not known.
    Unread,
    /// Between the read and the answer, in threads that could not be followed.
    Unknown,
    /// Received at the interface and not yet at the socket.
    Receive,
    /// Written, and held by TCP: the peer's window, the congestion window, Nagle's algorithm.
    Unsent,
    /// Sent by TCP, in the queueing discipline of the interface, until the interface's driver takes it.
    Queue,
}

impl Part {
    /// Returns the words for a time of this part.
    fn words(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::OtherRequests => "waiting while it ran other requests",
            Self::NoWorkerFree => "waiting until a worker was free",
            Self::CpuWait => "waiting for a CPU",
            Self::Throttled => "stopped by its CPU quota",
            Self::Others => "waiting for others",
            Self::Lock => "waiting for a lock",
            Self::Collector => "stopped by the garbage collector",
            Self::Disk => "waiting for the disk",
            Self::Memory => "waiting for memory",
            Self::Sleep => "sleeping",
            Self::OtherCall => "blocked in another system call",
            Self::Unread => "unread",
            Self::Unknown => "in threads that could not be followed",
            Self::Receive => "on its way from the interface to the socket",
            Self::Unsent => "written and held by TCP",
            Self::Queue => "waiting in the queue of the interface",
        }
    }

    /// Returns the cause of a server's time that is mostly of this part, and the fact of its finding
    /// that states the part; `None` where the part says nothing about what to change.
    fn cause(self) -> Option<(Cause, &'static str)> {
        match self {
            Self::Throttled => Some((Cause::CpuThrottled, "throttled_ns")),
            Self::CpuWait => Some((Cause::CpuSaturation, "cpu_wait_ns")),
            Self::OtherRequests => Some((Cause::EventLoopBlocked, "loop_busy_ns")),
            Self::NoWorkerFree => Some((Cause::WorkersExhausted, "workers_busy_ns")),
            Self::Lock => Some((Cause::LockWait, "lock_wait_ns")),
            Self::Collector => Some((Cause::GcPause, "gc_pause_ns")),
            Self::Disk => Some((Cause::DiskWait, "disk_wait_ns")),
            Self::Memory => Some((Cause::MemoryPressure, "memory_wait_ns")),
            Self::Queue => Some((Cause::Bufferbloat, "interface_wait_ns")),
            _ => None,
        }
    }

    /// Returns the cause that the server's time would have if most of it were of this part.
    fn look_alike(self) -> Option<Cause> {
        match self {
            Self::Running => Some(Cause::ServerThink),
            Self::Others => Some(Cause::UpstreamWait),
            _ => self.cause().map(|(cause, _)| cause),
        }
    }
}

/// The parts that a finding of another one rules out, in the order of its manual.
const LOOK_ALIKES: [Part; 10] = [
    Part::Running,
    Part::Others,
    Part::Throttled,
    Part::CpuWait,
    Part::OtherRequests,
    Part::NoWorkerFree,
    Part::Lock,
    Part::Collector,
    Part::Disk,
    Part::Memory,
];

/// Times by part, ns; their sum is the time of the server. Parts of no time are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Parts(BTreeMap<Part, u64>);

impl Parts {
    /// Adds `ns` to a part.
    pub fn add(&mut self, part: Part, ns: u64) {
        if ns > 0 {
            let sum = self.0.entry(part).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    /// Returns the time of a part, ns.
    pub fn of(&self, part: Part) -> u64 {
        self.0.get(&part).copied().unwrap_or(0)
    }

    /// Returns the sum of all parts, ns.
    pub fn total_ns(&self) -> u64 {
        self.0.values().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Returns the part that took most; `None` if none took time.
    pub fn largest(&self) -> Option<(Part, u64)> {
        self.ranked().into_iter().next()
    }

    /// Returns the parts, the largest first.
    fn ranked(&self) -> Vec<(Part, u64)> {
        let mut parts: Vec<_> = self.0.iter().map(|(part, ns)| (*part, *ns)).collect();
        parts.sort_by_key(|&(part, ns)| (std::cmp::Reverse(ns), part));
        parts
    }

    fn merge(&mut self, more: &Self) {
        more.0.iter().for_each(|(part, ns)| self.add(*part, *ns));
    }

    /// Divides each part by `count`. The rest of the division goes to the parts that lose most by
    /// it, so that the sum is that of the mean.
    fn mean(&self, count: u64) -> Self {
        let count = count.max(1);
        let mut parts = Self::default();
        let mut rests: Vec<(u64, Part)> = Vec::new();
        for (part, ns) in &self.0 {
            parts.add(*part, ns / count);
            rests.push((ns % count, *part));
        }
        rests.sort_unstable_by(|one, other| other.cmp(one));
        let missing = (self.total_ns() / count).saturating_sub(parts.total_ns());
        for (_, part) in rests.into_iter().take(usize::try_from(missing).unwrap_or(0)) {
            parts.add(part, 1);
        }
        parts
    }

    /// Returns the largest parts in words, with `waits_for` in place of "others".
    pub fn words(&self, waits_for: Option<SocketAddr>) -> String {
        let total_ns = self.total_ns();
        let parts = self.ranked().into_iter().enumerate();
        // The first, and what is more than a hundredth.
        let shown = parts.filter(|&(at, (_, ns))| at == 0 || ns > total_ns / 100);
        let words = shown.take(PARTS_MAX).map(|(_, (part, ns))| match (part, waits_for) {
            (Part::Others, Some(peer)) => format!("waiting for {peer} {}", duration(ns)),
            _ => format!("{} {}", part.words(), duration(ns)),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// A request that a server answered, with the parts of the time that it took for that.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Served {
    /// The server's end.
    pub local: SocketAddr,
    /// The client's end.
    pub peer: SocketAddr,
    /// The process that answered.
    pub process: Process,
    /// When the last byte of the request came to the socket, ns since the Unix epoch.
    pub ready_ns: u64,
    /// From then until the first byte of the answer has left the host.
    pub parts: Parts,
    /// The peer on whose answer its threads waited longest, and how long, ns.
    pub waits_for: Option<(SocketAddr, u64)>,
    /// Another thread answered than the one that read the request.
    pub is_handed_over: bool,
}

/// The requests of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "schemas"), derive(schemars::JsonSchema))]
pub struct ServerParts {
    /// Its address and port.
    pub server: SocketAddr,
    /// The process that answered most of them.
    pub process: Process,
    /// Number of requests.
    #[cfg_attr(any(test, feature = "schemas"), schemars(range(min = 1)))]
    pub requests: u64,
    /// Mean time of the server, ns.
    pub server_ns: u64,
    /// Mean time by part, which sums to `server_ns`.
    pub parts: Parts,
    /// The largest part.
    pub largest: Option<Part>,
    /// The peer that it waited for longest, if it waited for peers.
    pub waits_for: Option<SocketAddr>,
}

impl ServerParts {
    /// Returns the parts in words.
    pub fn words(&self) -> String {
        self.parts.words(self.waits_for)
    }
}

/// Adds up the requests of each server, the one that took most time first.
pub fn by_server(served: &[Served]) -> Vec<ServerParts> {
    let mut servers: BTreeMap<SocketAddr, Vec<&Served>> = BTreeMap::new();
    served.iter().for_each(|it| servers.entry(it.local).or_default().push(it));
    let mut all: Vec<_> = servers.into_values().filter_map(|all| sum(&all)).collect();
    let total = |it: &ServerParts| it.server_ns.saturating_mul(it.requests);
    all.sort_by_key(|it| (std::cmp::Reverse(total(it)), it.server));
    all
}

fn sum(all: &[&Served]) -> Option<ServerParts> {
    let first = all.first()?;
    let mut sums = Parts::default();
    let mut peers: BTreeMap<SocketAddr, u64> = BTreeMap::new();
    let mut processes: BTreeMap<u64, (u64, &Process)> = BTreeMap::new();
    for one in all {
        sums.merge(&one.parts);
        if let Some((peer, ns)) = one.waits_for {
            *peers.entry(peer).or_default() += ns;
        }
        processes.entry(one.process.pid).or_insert((0, &one.process)).0 += 1;
    }
    let (_, process) = processes.into_values().max_by_key(|(count, _)| *count)?;
    let requests = all.len() as u64;
    let parts = sums.mean(requests);
    // Of waits for others, most were for this one.
    let most = peers.into_iter().max_by_key(|&(_, ns)| ns);
    let waits_for = most.filter(|&(_, ns)| 2 * ns >= sums.of(Part::Others)).map(|(peer, _)| peer);
    Some(ServerParts {
        server: first.local,
        process: process.clone(),
        requests,
        server_ns: parts.total_ns(),
        largest: parts.largest().map(|(part, _)| part),
        parts,
        waits_for,
    })
}

/// Adds the parts of the server's own time to the findings about it. Where most of it is one part
/// that says what to change, that is the cause.
pub fn weigh_served(report: &mut Report, served: &[Served]) {
    for finding in report.findings.iter_mut().filter(|it| it.cause == Cause::ServerThink) {
        let server = super::rules::server(finding);
        let own: Vec<&Served> = served.iter().filter(|it| is_at(it.local, &server)).collect();
        if let Some(sums) = sum(&own).filter(|it| it.requests >= u64::from(HABIT_MIN)) {
            add(finding, &sums);
        }
    }
    findings::arrange(&mut report.findings, &report.totals);
}

fn add(finding: &mut Finding, sums: &ServerParts) {
    let Some((largest, ns)) = sums.parts.largest() else { return };
    if let Some((cause, fact)) = largest.cause().filter(|_| 2 * ns >= sums.server_ns) {
        finding.cause = cause;
        if largest == Part::Queue {
            finding.culprit.role = Role::Network;
        }
        finding.facts.push((fact, Fact::Ns(ns)));
        finding.ruled_out = ruled_out(cause, sums);
        finding.confidence = findings::confidence_of(cause, sums.requests);
    }
    finding.state.push(StateEvidence {
        id: "served",
        agrees: true,
        setting: "server time",
        value: format!("{ns}/{}", sums.server_ns),
        place: sums.server.to_string(),
        process: Some(sums.process.to_string()),
        read_ns: None,
        facts: vec![
            ("count", Fact::Count(sums.requests)),
            ("server_ns", Fact::Ns(sums.server_ns)),
            ("parts", Fact::Text(sums.words())),
        ],
    });
}

/// Returns the look-alikes of `cause` whose part is less than an eighth of the server's time.
fn ruled_out(cause: Cause, sums: &ServerParts) -> Vec<RuledOut> {
    let is_small = |part: &Part| sums.parts.of(*part).saturating_mul(AT_ONCE_PART) < sums.server_ns;
    let others = LOOK_ALIKES.into_iter().filter(is_small).filter_map(Part::look_alike);
    // Once the answer is written, it does not matter for what its threads waited.
    let is_written = cause == Cause::Bufferbloat;
    let others = others.filter(|it| *it != cause && (!is_written || *it == Cause::ServerThink));
    others.map(|cause| RuledOut { cause, why: "hardly" }).collect()
}

/// Returns the parts of the time that the server took for an exchange, if it is among `served`: its
/// request came to the socket meanwhile. What the capture shows beyond them passed before that.
/// Where it shows a little less, because it estimates what the path took, the largest part is shorter.
pub fn parts_of(exchange: &SlowExchange, served: &[Served]) -> Option<Parts> {
    let during = exchange.start_ns..=exchange.start_ns.saturating_add(exchange.wall_ns);
    let is_its = |it: &&Served| {
        let ends = is_at(it.local, &exchange.server) && is_at(it.peer, &exchange.client);
        ends && during.contains(&it.ready_ns)
    };
    let mut its = served.iter().filter(is_its);
    // A request in several pieces, or requests on the way together: these times are not of one.
    let (Some(one), None) = (its.next(), its.next()) else { return None };
    let mut parts = one.parts.clone();
    let (server_ns, seen_ns) = (exchange.server_ns, one.parts.total_ns());
    if let Some(rest_ns) = server_ns.checked_sub(seen_ns) {
        parts.add(Part::Receive, rest_ns);
        return Some(parts);
    }
    let excess_ns = seen_ns - server_ns;
    let (largest, ns) = parts.largest()?;
    let is_alike = excess_ns.saturating_mul(ALIKE_PART) < server_ns && excess_ns < ns;
    is_alike.then(|| {
        parts.0.insert(largest, ns - excess_ns);
        parts
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Culprit, Language};
    use proptest::prelude::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn served(parts: &[(Part, u64)]) -> Served {
        let mut sums = Parts::default();
        parts.iter().for_each(|&(part, ns)| sums.add(part, ns));
        Served {
            local: at("10.0.0.2:80"),
            peer: at("10.0.0.1:50000"),
            process: Process { pid: 42, command: "node".into(), container: None, runtime: None },
            ready_ns: 1_000,
            parts: sums,
            waits_for: None,
            is_handed_over: false,
        }
    }

    fn weighed(all: &[Served]) -> Finding {
        let culprit = Culprit { role: Role::Server, endpoint: at("10.0.0.2:80").into() };
        let finding = Finding { lost_ns: 1, ..Finding::of_cause(Cause::ServerThink, culprit) };
        let mut report = Report { findings: vec![finding], ..Report::default() };
        weigh_served(&mut report, all);
        report.findings.remove(0)
    }

    #[test]
    fn the_largest_part_is_named_first_and_is_a_fact_of_the_finding() {
        let one = served(&[(Part::Running, 12_000_000), (Part::CpuWait, 80_000_000)]);
        let finding = weighed(&vec![one.clone(); 3]);
        let words = crate::state::sentence(&finding.state[0], Language::English);
        assert_eq!(
            words,
            "while it was watched, 3 requests took 92 ms each (the mean): waiting for a CPU 80 ms, \
             running 12 ms"
        );
        assert_eq!(finding.state[0].process.as_deref(), Some("node (pid 42)"));
        assert_eq!(finding.cause, Cause::CpuSaturation);
        assert_eq!(finding.facts, [("cpu_wait_ns", Fact::Ns(80_000_000))]);
        let two = weighed(&vec![one; 2]);
        assert!(two.state.is_empty() && two.cause == Cause::ServerThink, "two are no habit");
    }

    #[test]
    fn a_part_below_one_half_and_a_running_program_are_no_mechanism() {
        let mixed = [(Part::Throttled, 40), (Part::Lock, 39), (Part::Disk, 21)];
        for parts in [&mixed[..], &[(Part::Running, 90), (Part::CpuWait, 10)]] {
            let finding = weighed(&vec![served(parts); 3]);
            assert_eq!(finding.cause, Cause::ServerThink, "{parts:?}");
            assert!(finding.facts.is_empty() && finding.state.len() == 1, "{parts:?}");
        }
        let mut other = served(&[(Part::Throttled, 100)]);
        other.local = at("10.0.0.2:81");
        assert!(weighed(&vec![other; 3]).state.is_empty(), "another server");
    }

    #[test]
    fn a_part_of_half_the_time_is_the_cause_and_small_ones_are_ruled_out() {
        let causes = [
            (Part::Throttled, Cause::CpuThrottled),
            (Part::CpuWait, Cause::CpuSaturation),
            (Part::OtherRequests, Cause::EventLoopBlocked),
            (Part::NoWorkerFree, Cause::WorkersExhausted),
            (Part::Lock, Cause::LockWait),
            (Part::Collector, Cause::GcPause),
            (Part::Disk, Cause::DiskWait),
            (Part::Memory, Cause::MemoryPressure),
        ];
        for (part, cause) in causes {
            let half =
                weighed(&vec![served(&[(part, 50), (Part::Others, 37), (Part::OtherCall, 13)]); 3]);
            assert_eq!(half.cause, cause);
            let ruled_out: Vec<Cause> = half.ruled_out.iter().map(|it| it.cause).collect();
            assert_eq!(ruled_out.len(), 8, "all but itself and the wait for others: {ruled_out:?}");
            assert!(!ruled_out.contains(&cause) && !ruled_out.contains(&Cause::UpstreamWait));
            let words = findings::words(cause, Language::English);
            let has_sentence = |it: &RuledOut| words.why_not(it.cause, it.why).is_some();
            assert!(half.ruled_out.iter().all(has_sentence), "{cause:?}");
            let less = weighed(&vec![served(&[(part, 49), (Part::Running, 51)]); 3]);
            assert_eq!(less.cause, Cause::ServerThink);
        }
    }

    #[test]
    fn an_answer_in_the_queue_of_the_interface_is_no_work_of_the_server() {
        let finding = weighed(&vec![served(&[(Part::Queue, 80), (Part::Running, 5)]); 3]);
        assert_eq!((finding.cause, finding.culprit.role), (Cause::Bufferbloat, Role::Network));
        assert_eq!(finding.facts, [("interface_wait_ns", Fact::Ns(80))]);
        let ruled_out: Vec<Cause> = finding.ruled_out.iter().map(|it| it.cause).collect();
        assert_eq!(ruled_out, [Cause::ServerThink]);
        for language in Language::ALL {
            let words = findings::words(Cause::Bufferbloat, language);
            assert!(words.why_not(Cause::ServerThink, "hardly").is_some());
        }
        let held = weighed(&vec![served(&[(Part::Unsent, 80), (Part::Running, 5)]); 3]);
        assert_eq!(held.cause, Cause::ServerThink, "the capture says what TCP waited for");
    }

    #[test]
    fn the_peer_that_it_waits_for_is_named_if_most_of_the_wait_is_for_it() {
        let mut one = served(&[(Part::Others, 60_000_000), (Part::Running, 1_000_000)]);
        one.waits_for = Some((at("10.0.0.5:5432"), 58_000_000));
        let all = by_server(&[one.clone(), one.clone()]);
        assert_eq!(all[0].words(), "waiting for 10.0.0.5:5432 60 ms, running 1 ms");
        one.waits_for = Some((at("10.0.0.5:5432"), 20_000_000));
        assert_eq!(by_server(&[one])[0].words(), "waiting for others 60 ms, running 1 ms");
    }

    #[test]
    fn what_the_capture_shows_beyond_the_parts_passed_before_them() {
        let exchange = |server_ns| SlowExchange {
            client: at("10.0.0.1:50000").into(),
            server: at("10.0.0.2:80").into(),
            exchange: 1,
            kind: "GET /".into(),
            start_ns: 900,
            wall_ns: 500,
            server_ns,
            cause: None,
        };
        let one = served(&[(Part::Running, 300)]);
        let parts = parts_of(&exchange(310), std::slice::from_ref(&one)).expect("its request");
        assert_eq!((parts.of(Part::Receive), parts.total_ns()), (10, 310));
        let parts = parts_of(&exchange(290), std::slice::from_ref(&one)).expect("its request");
        assert_eq!((parts.of(Part::Running), parts.total_ns()), (290, 290));
        assert_eq!(parts_of(&exchange(260), std::slice::from_ref(&one)), None, "not of this time");
        let later = Served { ready_ns: 1_401, ..one.clone() };
        assert_eq!(parts_of(&exchange(310), &[later]), None, "of the next exchange");
        assert_eq!(parts_of(&exchange(310), &[one.clone(), one]), None, "which of them?");
    }

    const PARTS: [Part; 4] = [Part::Running, Part::Throttled, Part::Others, Part::Unknown];

    proptest! {
        #[test]
        fn mean_parts_sum_to_the_mean_time(
            times in prop::collection::vec(prop::array::uniform4(0..1_000_000_000_u64), 1..40),
        ) {
            let with = |ns: &[u64; 4]| served(&[0, 1, 2, 3].map(|at| (PARTS[at], ns[at])));
            let all: Vec<Served> = times.iter().map(with).collect();
            let total: u64 = times.iter().flatten().sum();
            let sums = by_server(&all).remove(0);
            prop_assert_eq!(sums.server_ns, total / all.len() as u64);
            prop_assert_eq!(sums.parts.total_ns(), sums.server_ns);
            for (at, part) in PARTS.into_iter().enumerate() {
                let exact = times.iter().map(|it| it[at]).sum::<u64>() / all.len() as u64;
                prop_assert!((exact..=exact + 1).contains(&sums.parts.of(part)));
            }
        }
    }
}
