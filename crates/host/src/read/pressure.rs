//! Time that tasks stalled, and time that CPUs ran. Read first: Documentation/accounting/psi.rst,
//! proc_stat(5).

use std::fs;

use crate::work::{CpuTime, Pressure};

/// A clock tick of user space is a hundredth of a second on all architectures that this runs on.
pub const TICK_NS: u64 = 10_000_000;

/// Reads the stalls of the machine; `None` where the kernel does not count them.
pub fn of_the_machine() -> Option<Pressure> {
    read(|name| fs::read_to_string(format!("/proc/pressure/{name}")).ok())
}

/// Reads the files `cpu`, `io` and `memory` of one place.
pub fn read(text: impl Fn(&str) -> Option<String>) -> Option<Pressure> {
    let (cpu, io, memory) = (text("cpu")?, text("io")?, text("memory")?);
    Some(Pressure {
        cpu_some_ns: total(&cpu, "some"),
        io_some_ns: total(&io, "some"),
        io_full_ns: total(&io, "full"),
        memory_some_ns: total(&memory, "some"),
        memory_full_ns: total(&memory, "full"),
    })
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=334061931`, µs.
fn total(text: &str, line: &str) -> u64 {
    let mut lines = text.lines().filter_map(|it| it.strip_prefix(line));
    let total = lines.next().and_then(|it| it.rsplit_once("total=")?.1.trim().parse::<u64>().ok());
    total.unwrap_or(0) * 1_000
}

/// Reads the time of all CPUs.
pub fn cpu_time() -> CpuTime {
    cpus(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Parses `cpu  user nice system idle iowait irq softirq steal guest guest_nice`. Time of guests is
/// part of user and nice.
fn cpus(text: &str) -> CpuTime {
    let words = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    let of = |place: usize| ticks.get(place).copied().unwrap_or(0) * TICK_NS;
    CpuTime { all_ns: (0..8).map(of).sum(), idle_ns: of(3) + of(4), stolen_ns: of(7) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_read_as_totals() {
        let file = |name: &str| {
            let text = match name {
                "cpu" => {
                    "some avg10=92.30 avg60=52.07 avg300=26.61 total=334061931\n\
                     full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
                }
                "io" => {
                    "some avg10=1.00 avg60=0.30 avg300=0.10 total=9000\n\
                     full avg10=0.50 avg60=0.20 avg300=0.10 total=7000\n"
                }
                _ => {
                    "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n\
                     full avg10=0.00 avg60=0.00 avg300=0.00 total=4\n"
                }
            };
            Some(text.to_owned())
        };
        let found = read(file).unwrap();
        assert_eq!(found.cpu_some_ns, 334_061_931_000);
        assert_eq!((found.io_some_ns, found.io_full_ns), (9_000_000, 7_000_000));
        assert_eq!((found.memory_some_ns, found.memory_full_ns), (5_000, 4_000));
        assert_eq!(read(|_| None), None, "a kernel without them");
    }

    #[test]
    fn stolen_time_is_the_eighth_column() {
        let text = "cpu  175769 25005 43515 265555 2198 0 429 313 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        let time = cpus(text);
        assert_eq!(time.stolen_ns, 313 * TICK_NS);
        assert_eq!(time.idle_ns, (265_555 + 2_198) * TICK_NS);
        let all = 175_769 + 25_005 + 43_515 + 265_555 + 2_198 + 429 + 313;
        assert_eq!(time.all_ns, all * TICK_NS);
    }
}
