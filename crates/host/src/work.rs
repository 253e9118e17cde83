//! What the programs with sockets did during the sample, and what they waited for: CPU time, disk,
//! memory.

use std::net::SocketAddr;

use tcpwhy_core::model::units::counted;
use tcpwhy_live::process::Process;

/// CPUs, disk and memory over the sample.
#[derive(Debug, Clone, Default)]
pub struct Work {
    /// Time between the two reads, ns.
    pub over_ns: u64,
    /// Programs with sockets, those with most waits for a CPU first.
    pub services: Vec<Service>,
    /// Control groups with a limit of CPU time that programs with sockets are in.
    pub limited: Vec<ControlGroup>,
    /// The processes of the machine that took most CPU time, the busiest first.
    pub busiest: Vec<Busy>,
    /// Time of all CPUs together.
    pub cpus: CpuTime,
    /// CPUs that are there, as `/sys/devices/system/cpu/online` lists them.
    pub cpus_online: String,
    /// Stalls of the machine; `None` where the kernel does not count them.
    pub pressure: Option<Pressure>,
    /// Whether the kernel counts the time for which a thread waits for the disk
    /// (`kernel.task_delayacct`).
    pub counts_disk_waits: bool,
    /// Whether the kernel counts the time for which a thread waits for a CPU.
    pub counts_cpu_waits: bool,
}

/// Processes of one command that serve the same addresses, or one process that serves none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Service {
    /// Its processes, the one that started first in front.
    pub processes: Vec<Process>,
    /// Local addresses of its listeners.
    pub listens: Vec<SocketAddr>,
    /// What its threads did and waited for, in sum.
    pub times: Times,
    /// Looks at which a thread of it waited for the disk (state `D`), and the number of looks.
    pub disk_looks: (u64, u64),
    /// CPUs that its first process may use, as `/proc/PID/status` lists them, if these are not all.
    pub bound_to: Option<String>,
    /// Stalls in its control group; `None` before version 2.
    pub pressure: Option<Pressure>,
}

/// Times and counts of threads over the sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Time on a CPU, ns.
    pub ran_ns: u64,
    /// Time in which it could have run and had no CPU, ns.
    pub waited_ns: u64,
    /// Time for which it waited for the disk, ns; 0 where the kernel does not count it.
    pub disk_ns: u64,
    /// Pages that had to be read from the disk first (major faults).
    pub major_faults: u64,
}

/// A control group whose CPU time is limited, over the sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ControlGroup {
    /// Its folder.
    pub folder: String,
    /// `true`: version 2 (`cpu.max`); `false`: version 1 (`cpu.cfs_quota_us`).
    pub is_v2: bool,
    /// CPU time that all its processes together may take in a period, µs.
    pub quota_us: u64,
    /// The period, µs.
    pub period_us: u64,
    /// Periods of the sample in which it had work, and those in which it was throttled.
    pub periods: Throttled,
    /// The same since it was made.
    pub ever: Throttled,
    /// Programs with sockets that are in it.
    pub services: Vec<Service>,
}

/// Counters of `cpu.stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Periods in which processes wanted to run.
    pub periods: u64,
    /// Periods in which they used the quota up and had to wait for the next.
    pub throttled: u64,
    /// Time that they waited so, of all CPUs together, ns.
    pub throttled_ns: u64,
}

impl Throttled {
    /// Returns the share of its periods in which it was throttled.
    pub fn share(&self) -> f64 {
        self.throttled as f64 / self.periods.max(1) as f64
    }

    /// Returns the increase since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(before.periods),
            throttled: self.throttled.saturating_sub(before.throttled),
            throttled_ns: self.throttled_ns.saturating_sub(before.throttled_ns),
        }
    }
}

/// A process that took CPU time during the sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Busy {
    /// The process.
    pub process: Process,
    /// CPU time, ns.
    pub ran_ns: u64,
    /// Its nice value.
    pub nice: i64,
}

/// Time of all CPUs together, ns (`/proc/stat`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// All time.
    pub all_ns: u64,
    /// Time in which nothing ran.
    pub idle_ns: u64,
    /// Time in which the hypervisor ran something else though there was work.
    pub stolen_ns: u64,
}

/// Parts of the sample in which tasks stalled, ns (Documentation/accounting/psi.rst): `some` task
/// did, or all that were not idle (`full`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Some task waited for a CPU.
    pub cpu_some_ns: u64,
    /// Some task waited for the disk.
    pub io_some_ns: u64,
    /// All tasks waited for the disk.
    pub io_full_ns: u64,
    /// Some task waited for memory.
    pub memory_some_ns: u64,
    /// All tasks waited for memory.
    pub memory_full_ns: u64,
}

impl Pressure {
    /// Returns the increase since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_some_ns: self.cpu_some_ns.saturating_sub(before.cpu_some_ns),
            io_some_ns: self.io_some_ns.saturating_sub(before.io_some_ns),
            io_full_ns: self.io_full_ns.saturating_sub(before.io_full_ns),
            memory_some_ns: self.memory_some_ns.saturating_sub(before.memory_some_ns),
            memory_full_ns: self.memory_full_ns.saturating_sub(before.memory_full_ns),
        }
    }
}

impl Times {
    /// Returns the increase since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            ran_ns: self.ran_ns.saturating_sub(before.ran_ns),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            disk_ns: self.disk_ns.saturating_sub(before.disk_ns),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
        }
    }

    /// Adds the times of another thread.
    pub fn add(&mut self, other: &Self) {
        self.ran_ns += other.ran_ns;
        self.waited_ns += other.waited_ns;
        self.disk_ns += other.disk_ns;
        self.major_faults += other.major_faults;
    }
}

impl Service {
    /// Returns `nginx (pid 12 and 3 more processes) at 0.0.0.0:80`.
    pub fn name(&self) -> String {
        let first = self.processes.first();
        let command = first.map_or("a program", |it| it.command.as_str());
        let pid = first.map_or(0, |it| it.pid);
        let more = match (self.processes.len() as u64).saturating_sub(1) {
            0 => String::new(),
            more => format!(" and {}", counted(more, "more process", "more processes")),
        };
        let at = match &self.listens[..] {
            [] => String::new(),
            [one] => format!(" at {one}"),
            [one, rest @ ..] => {
                format!(" at {one} and {}", counted(rest.len() as u64, "more port", "more ports"))
            }
        };
        format!("{command} (pid {pid}{more}){at}")
    }

    /// Returns whether a process of it has this number.
    pub fn has(&self, pid: u32) -> bool {
        self.processes.iter().any(|it| it.pid == pid)
    }

    /// Returns whether it accepts connections to `end`.
    pub fn serves(&self, end: SocketAddr) -> bool {
        let is_it = |local: &SocketAddr| {
            local.port() == end.port() && (local.ip() == end.ip() || local.ip().is_unspecified())
        };
        self.listens.iter().any(is_it)
    }
}
