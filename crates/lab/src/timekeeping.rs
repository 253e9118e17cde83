//! How late the link and the host were: what no label names. A run that was late is run again, and
//! is not scored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sys;

/// How late something happened, compared with its schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Timekeeping {
    /// Number of packets, or of times that a timer expired.
    #[serde(alias = "packets")]
    pub events: u64,
    /// Median lateness, an upper bound.
    pub late_p50_ns: u64,
    /// 99th percentile, an upper bound.
    pub late_p99_ns: u64,
    /// Maximum.
    pub late_max_ns: u64,
    /// `true` if the thread that measured ran with real-time scheduling.
    pub realtime: bool,
}

/// If one packet in a hundred is later than this, ns, the relay did not keep the link's delay.
pub const LATE_P99_MAX_NS: u64 = 300_000;
/// A single packet that is later than this, ns, is a stall that no label names.
const LATE_MAX_NS: u64 = 10_000_000;

impl Timekeeping {
    /// Returns whether the schedule was kept.
    pub fn is_punctual(&self) -> bool {
        self.late_p99_ns <= LATE_P99_MAX_NS && self.late_max_ns <= LATE_MAX_NS
    }
}

/// A histogram of lateness in steps of 10 µs up to 50 ms.
#[derive(Debug)]
pub struct Lateness {
    steps: Vec<u64>,
    max_ns: u64,
}

const STEP_NS: u64 = 10_000;

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { steps: vec![0; 5_000], max_ns: 0 }
    }
}

impl Lateness {
    /// Counts an event that was `late_ns` late.
    pub fn record(&mut self, late_ns: u64) {
        let last = self.steps.len() - 1;
        self.steps[((late_ns / STEP_NS) as usize).min(last)] += 1;
        self.max_ns = self.max_ns.max(late_ns);
    }

    /// Returns the quantiles; `realtime` says how the thread that measured was scheduled.
    pub fn report(&self, realtime: bool) -> Timekeeping {
        let events: u64 = self.steps.iter().sum();
        let quantile = |percent: u64| {
            let mut seen = 0;
            let at = self.steps.iter().position(|&n| {
                seen += n;
                seen * 100 >= events * percent
            });
            (at.unwrap_or(0) as u64 + 1) * STEP_NS
        };
        Timekeeping {
            events,
            late_p50_ns: quantile(50).min(self.max_ns),
            late_p99_ns: quantile(99).min(self.max_ns),
            late_max_ns: self.max_ns,
            realtime,
        }
    }
}

/// Interval at which the host is asked: far below the waits of TCP's shortest timers.
const TICK: Duration = Duration::from_millis(1);

/// Measures how late each CPU resumes a thread that goes before all of the run's. The time in
/// between was taken by the hypervisor, by interrupts or by another program.
#[derive(Debug)]
pub struct HostClock {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<(Lateness, bool)>>,
}

impl HostClock {
    /// Starts to measure every CPU that this process may use.
    pub fn start() -> HostClock {
        let stop = Arc::new(AtomicBool::new(false));
        let measure = |cpu| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || lateness_of(cpu, &stop))
        };
        HostClock { threads: sys::cpus().into_iter().map(measure).collect(), stop }
    }

    /// Stops and returns the measurement of the CPU that was the latest; `None` at a second call,
    /// or if no CPU could be measured.
    pub fn stop(&mut self) -> Option<Timekeeping> {
        self.stop.store(true, Ordering::Relaxed);
        let measured = self.threads.drain(..).filter_map(|it| it.join().ok());
        let reports = measured.map(|(lateness, realtime)| lateness.report(realtime));
        reports.filter(|it| it.events > 0).max_by_key(|it| (!it.is_punctual(), it.late_p99_ns))
    }
}

impl Drop for HostClock {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lateness_of(cpu: usize, stop: &AtomicBool) -> (Lateness, bool) {
    let mut lateness = Lateness::default();
    if sys::stay_on_cpu(cpu).is_err() {
        return (lateness, false);
    }
    let realtime = sys::become_punctual(sys::CLOCK_PRIORITY);
    while !stop.load(Ordering::Relaxed) {
        let due_ns = sys::monotonic_ns() + TICK.as_nanos() as u64;
        thread::sleep(TICK);
        lateness.record(sys::monotonic_ns().saturating_sub(due_ns));
    }
    (lateness, realtime)
}
