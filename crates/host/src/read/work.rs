//! What the programs with sockets did and waited for. Read first: proc_pid_stat(5),
//! Documentation/scheduler/sched-stats.rst (`/proc/PID/schedstat`),
//! Documentation/accounting/delay-accounting.rst.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use super::cgroup::{self, Groups, Mounts};
use super::pressure::{self, TICK_NS};
use super::program::is_inside;
use crate::work::{Busy, ControlGroup, CpuTime, Pressure, Service, Throttled, Times, Work};
use tcpwhy_live::process::{Holders, Process};

/// Threads that are read at most, and those of them whose state is looked at during the sample.
const THREADS_MAX: usize = 8_192;
const THREADS_LOOKED_AT_MAX: usize = 256;
/// Processes that are named as the busiest of the machine.
const BUSIEST_MAX: usize = 3;

/// State at the begin of the sample, and what was seen during it.
#[derive(Debug)]
pub struct Watched {
    began: Instant,
    mounts: Mounts,
    threads: HashMap<(u32, u32), Times>,
    processes: HashSet<u32>,
    /// Start and CPU time of all processes, clock ticks.
    ran: HashMap<u32, (u64, u64)>,
    groups: HashMap<PathBuf, Throttled>,
    stalls: HashMap<PathBuf, Pressure>,
    cpus: CpuTime,
    pressure: Option<Pressure>,
    /// Threads whose state is looked at.
    looked_at: Vec<(u32, u32)>,
    looks: u64,
    /// Looks at which a thread of the process waited for the disk.
    disk_looks: HashMap<u32, u64>,
}

/// Fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    major_faults: u64,
    /// User and system time, clock ticks.
    ran_ticks: u64,
    nice: i64,
    start_ticks: u64,
    disk_ticks: u64,
}

impl Stat {
    fn read(path: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    /// The command's name may have blanks and brackets in it: the last bracket ends field 2.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        // The first of these is field 3.
        let number = |field: usize| fields.get(field - 3).and_then(|it| it.parse::<u64>().ok());
        Some(Self {
            state: fields.first()?.chars().next()?,
            major_faults: number(12)?,
            ran_ticks: number(14)? + number(15)?,
            nice: fields.get(19 - 3)?.parse().ok()?,
            start_ticks: number(22)?,
            disk_ticks: number(42).unwrap_or(0),
        })
    }
}

/// Parses `/proc/PID/schedstat`: time on a CPU and time waiting for one, ns, and the number of
/// times it got one.
fn schedstat(text: &str) -> Option<(u64, u64, u64)> {
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    Some((words.next()??, words.next()??, words.next()??))
}

fn text(pid: u32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
}

/// Reads the times of each thread of a process.
fn threads(pid: u32) -> Vec<(u32, Times)> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let threads = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let times = threads.filter_map(|thread| {
        let folder = format!("/proc/{pid}/task/{thread}");
        let stat = Stat::read(&format!("{folder}/stat"))?;
        let waits = fs::read_to_string(format!("{folder}/schedstat")).ok();
        let (ran_ns, waited_ns, _) = waits.and_then(|it| schedstat(&it)).unwrap_or_default();
        let disk_ns = stat.disk_ticks * TICK_NS;
        Some((thread, Times { ran_ns, waited_ns, disk_ns, major_faults: stat.major_faults }))
    });
    times.collect()
}

/// Returns the processes of the machine with what they ran.
fn all() -> impl Iterator<Item = (u32, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| Some((pid, Stat::read(&format!("/proc/{pid}/stat"))?)))
}

impl Watched {
    /// Reads what the programs of a network namespace have done so far.
    pub fn begin(holders: &Holders, netns: u64) -> Self {
        let mut watched = Self {
            mounts: Mounts::read(),
            cpus: pressure::cpu_time(),
            pressure: pressure::of_the_machine(),
            ran: all().map(|(pid, it)| (pid, (it.start_ticks, it.ran_ticks))).collect(),
            began: Instant::now(),
            threads: HashMap::new(),
            processes: HashSet::new(),
            groups: HashMap::new(),
            stalls: HashMap::new(),
            looked_at: Vec::new(),
            looks: 0,
            disk_looks: HashMap::new(),
        };
        for process in holders.processes.iter().filter(|it| is_inside(it.pid, netns)) {
            let pid = process.pid;
            if watched.threads.len() < THREADS_MAX {
                watched.processes.insert(pid);
                watched.threads.extend(threads(pid).into_iter().map(|(id, it)| ((pid, id), it)));
            }
            let groups = watched.mounts.groups(&text(pid, "cgroup"));
            for folder in groups.limiting {
                if let Some(group) = cgroup::read(&folder, groups.is_v2) {
                    watched.groups.insert(folder, group.ever);
                }
            }
            if let Some(folder) = groups.stalls
                && let Some(stalls) = cgroup::stalls(&folder)
            {
                watched.stalls.insert(folder, stalls);
            }
        }
        watched.looked_at = watched.threads.keys().copied().take(THREADS_LOOKED_AT_MAX).collect();
        watched
    }

    /// Looks which threads wait for the disk at this moment.
    pub fn look(&mut self) {
        self.looks += 1;
        let mut waiting = BTreeSet::new();
        for (pid, thread) in &self.looked_at {
            let stat = Stat::read(&format!("/proc/{pid}/task/{thread}/stat"));
            if stat.is_some_and(|it| it.state == 'D') {
                waiting.insert(*pid);
            }
        }
        for pid in waiting {
            *self.disk_looks.entry(pid).or_default() += 1;
        }
    }

    /// Reads them again, at the end of the sample. `served` has the listening addresses of each
    /// process.
    pub fn end(self, processes: &[Process], served: &BTreeMap<u32, BTreeSet<SocketAddr>>) -> Work {
        let cpus = pressure::cpu_time();
        let pressure = pressure::of_the_machine();
        let mut work = Work {
            over_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            busiest: self.busiest(),
            cpus: CpuTime {
                all_ns: cpus.all_ns.saturating_sub(self.cpus.all_ns),
                idle_ns: cpus.idle_ns.saturating_sub(self.cpus.idle_ns),
                stolen_ns: cpus.stolen_ns.saturating_sub(self.cpus.stolen_ns),
            },
            pressure: pressure.zip(self.pressure).map(|(now, before)| now.since(&before)),
            counts_disk_waits: fs::read_to_string("/proc/sys/kernel/task_delayacct")
                .is_ok_and(|it| it.trim() == "1"),
            counts_cpu_waits: fs::read_to_string("/proc/self/schedstat")
                .is_ok_and(|it| schedstat(&it).is_some_and(|(_, _, turns)| turns > 0)),
            ..Work::default()
        };
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        online.trim().clone_into(&mut work.cpus_online);
        let cpus_online = list(&work.cpus_online);
        let mut limited: BTreeMap<PathBuf, ControlGroup> = BTreeMap::new();
        for process in processes.iter().filter(|it| self.processes.contains(&it.pid)) {
            let groups = self.mounts.groups(&text(process.pid, "cgroup"));
            let service = self.service(process, served, cpus_online, &groups);
            for folder in &groups.limiting {
                let Some(before) = self.groups.get(folder) else { continue };
                if !limited.contains_key(folder)
                    && let Some(mut group) = cgroup::read(folder, groups.is_v2)
                {
                    group.periods = group.ever.since(before);
                    limited.insert(folder.clone(), group);
                }
                if let Some(group) = limited.get_mut(folder) {
                    join(&mut group.services, service.clone());
                }
            }
            join(&mut work.services, service);
        }
        work.services.sort_by_key(|it| Reverse(it.times.waited_ns));
        work.limited = limited.into_values().collect();
        work
    }

    fn service(
        &self,
        process: &Process,
        served: &BTreeMap<u32, BTreeSet<SocketAddr>>,
        cpus_online: u64,
        groups: &Groups,
    ) -> Service {
        let pid = process.pid;
        let mut times = Times::default();
        for (thread, now) in threads(pid) {
            // A thread that was not there before began with zeros.
            let before = self.threads.get(&(pid, thread)).copied().unwrap_or_default();
            times.add(&now.since(&before));
        }
        let stalls = groups
            .stalls
            .as_ref()
            .and_then(|folder| Some(cgroup::stalls(folder)?.since(self.stalls.get(folder)?)));
        Service {
            processes: vec![process.clone()],
            listens: served.get(&pid).into_iter().flatten().copied().collect(),
            times,
            disk_looks: (self.disk_looks.get(&pid).copied().unwrap_or(0), self.looks),
            bound_to: bound_to(&text(pid, "status"), cpus_online),
            pressure: stalls,
        }
    }

    /// Returns the processes that took most CPU time since the begin.
    fn busiest(&self) -> Vec<Busy> {
        let mut busy: Vec<_> = all()
            .filter_map(|(pid, stat)| {
                let before = self.ran.get(&pid).filter(|(start, _)| *start == stat.start_ticks);
                let ticks = stat.ran_ticks.saturating_sub(before.map_or(0, |it| it.1));
                (ticks > 0).then_some((ticks, pid, stat.nice))
            })
            .collect();
        busy.sort_unstable_by_key(|&(ticks, pid, _)| (Reverse(ticks), pid));
        let busy = busy.into_iter().take(BUSIEST_MAX).map(|(ticks, pid, nice)| Busy {
            process: Process {
                pid,
                command: text(pid, "comm").trim_end().into(),
                container: None,
                runtime: None,
            },
            ran_ns: ticks * TICK_NS,
            nice,
        });
        busy.collect()
    }
}

/// Adds a process to the service with the same command and the same addresses, or as one of its
/// own.
fn join(services: &mut Vec<Service>, service: Service) {
    let command = |it: &Service| it.processes.first().map(|it| it.command.clone());
    let same = services.iter_mut().find(|it| {
        !it.listens.is_empty() && it.listens == service.listens && command(it) == command(&service)
    });
    match same {
        Some(same) => {
            same.processes.extend(service.processes);
            same.times.add(&service.times);
            same.disk_looks.0 = same.disk_looks.0.max(service.disk_looks.0);
        }
        None => services.push(service),
    }
}

/// Counts the numbers of a list such as `0-3,8`.
fn list(text: &str) -> u64 {
    let parts = text.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(last.parse::<u64>().ok()?.saturating_sub(first.parse().ok()?) + 1)
    });
    parts.sum()
}

/// Returns `Cpus_allowed_list` of `/proc/PID/status`, if the process may not use all CPUs.
fn bound_to(status: &str, cpus_online: u64) -> Option<String> {
    let mut lines = status.lines().filter_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = lines.next()?.trim();
    (list(allowed) < cpus_online).then(|| allowed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_read_whatever_its_name() {
        let text = "4711 (a ) R (b) D 1 4711 4711 0 -1 4194304 95 0 12 0 7 5 0 0 20 5 1 0 250137 \
                    14344192 2219 18446744073709551615 1 1 0 0 0 0 0 16781312 2 0 0 0 17 1 0 0 3 \
                    0 0 0 0 0 0 0 0 0 0";
        let stat = Stat::parse(text).unwrap();
        let expected = Stat {
            state: 'D',
            major_faults: 12,
            ran_ticks: 12,
            nice: 5,
            start_ticks: 250_137,
            disk_ticks: 3,
        };
        assert_eq!(stat, expected);
        assert_eq!(Stat::parse("4711 (cat) R 1"), None);
        assert_eq!(schedstat("171278057 1441487238 39\n"), Some((171_278_057, 1_441_487_238, 39)));
        assert_eq!(schedstat("1 2"), None);
    }

    #[test]
    fn a_process_that_may_not_use_all_cpus_is_bound() {
        let status = "Name:\tapp\nCpus_allowed:\t5\nCpus_allowed_list:\t0,2-3\n";
        assert_eq!(bound_to(status, 4).as_deref(), Some("0,2-3"));
        assert_eq!(bound_to(status, 3), None);
    }

    #[test]
    fn processes_of_one_service_are_counted_together() {
        let process = |pid, command: &str, at: &str| Service {
            processes: vec![Process {
                pid,
                command: command.into(),
                container: None,
                runtime: None,
            }],
            listens: at.parse().into_iter().collect(),
            times: Times { waited_ns: 10, ..Times::default() },
            ..Service::default()
        };
        let mut services = Vec::new();
        join(&mut services, process(1, "nginx", "0.0.0.0:80"));
        join(&mut services, process(2, "nginx", "0.0.0.0:80"));
        join(&mut services, process(3, "nginx", "0.0.0.0:81"));
        join(&mut services, process(4, "curl", ""));
        join(&mut services, process(5, "curl", ""));
        let names: Vec<_> = services.iter().map(Service::name).collect();
        assert_eq!(names[0], "nginx (pid 1 and 1 more process) at 0.0.0.0:80");
        assert_eq!(names[1..], ["nginx (pid 3) at 0.0.0.0:81", "curl (pid 4)", "curl (pid 5)"]);
        assert_eq!(services[0].times.waited_ns, 20);
    }

    #[test]
    fn own_work_is_measured() {
        let own = Process {
            pid: std::process::id(),
            command: "test".into(),
            container: None,
            runtime: None,
        };
        let holders = Holders { processes: vec![own.clone()], ..Holders::default() };
        let netns = tcpwhy_live::netns::Netns::own().inode;
        let mut watched = Watched::begin(&holders, netns);
        let began = std::time::Instant::now();
        while began.elapsed().as_millis() < 100 {
            std::hint::spin_loop();
        }
        watched.look();
        let work = watched.end(&[own], &BTreeMap::new());
        let [service] = &work.services[..] else { panic!("{work:?}") };
        if work.counts_cpu_waits {
            let busy_ns = service.times.ran_ns + service.times.waited_ns;
            assert!(busy_ns > 50_000_000, "{service:?}");
        }
        assert_eq!(service.disk_looks.1, 1);
        assert!(work.cpus.all_ns > 0);
    }
}
