//! Services that wait for memory or for the disk. Read first: Documentation/accounting/psi.rst,
//! Documentation/accounting/delay-accounting.rst, proc_pid_stat(5) (major faults, state `D`).

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{count, duration, share};

use super::Check;
use super::cpu::{findings, per_second};
use crate::entry::{Change, Entry, Evidence, Layer, Rank};
use crate::facts::{Facts, reported, state};
use crate::work::{Pressure, Service};

pub const CHECKS: &[Check] = &[
    Check { id: "memory_pressure", layer: Layer::Application, judge: memory },
    Check { id: "disk_wait", layer: Layer::Application, judge: disk },
];

/// Share of the sample for which tasks of the host or of a control group stalled, from which on a
/// service can suffer from it.
const STALLED_SHARE_MIN: f64 = 0.05;
/// Pages that a service had to read from the disk, each second.
const MAJOR_FAULTS_MIN: u64 = 10;
/// Waits for the disk that are named, ns of each second, where the kernel counts them; else the
/// least number of looks at which a thread waited, and one in this many of all looks.
const DISK_MIN_NS: u64 = 50_000_000;
const DISK_LOOKS_MIN: u64 = 3;
const DISK_LOOKS_PART: u64 = 5;
/// Services that are named.
const NAMED_MAX: usize = 3;

fn part(ns: u64, over_ns: u64) -> f64 {
    (ns as f64 / over_ns.max(1) as f64).min(1.0)
}

fn stalls(facts: &Facts, service: &Service, of: fn(&Pressure) -> u64) -> [Option<f64>; 2] {
    let part = |it: Option<Pressure>| it.map(|it| part(of(&it), facts.work.over_ns));
    [part(service.pressure), part(facts.work.pressure)]
}

/// Returns how long the service's control group and the host stalled, in words.
fn stalled(own: Option<f64>, host: Option<f64>, on: &str) -> Option<Evidence> {
    let words = [(own, "its control group"), (host, "the host")].map(|(part, place)| {
        let part = part.filter(|part| *part >= STALLED_SHARE_MIN)?;
        Some(format!("tasks of {place} stalled on {on} for {} of the time", share(part)))
    });
    let words: Vec<_> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| state(format!("{} (PSI)", words.join("; "))))
}

fn lacks_memory(facts: &Facts, service: &Service) -> bool {
    let [own, host] = stalls(facts, service, |it| it.memory_some_ns);
    let is_above = |part: Option<f64>| part.is_some_and(|part| part >= STALLED_SHARE_MIN);
    let faults = per_second(service.times.major_faults, facts.work.over_ns);
    is_above(own) || is_above(host) && faults >= MAJOR_FAULTS_MIN
}

fn memory(check: &Check, facts: &Facts) -> Vec<Entry> {
    let why = "a program whose pages are not in memory waits until the kernel has freed memory \
               and read them from the disk again";
    let services = facts.work.services.iter().filter(|it| !it.listens.is_empty());
    let lacking = services.filter(|it| lacks_memory(facts, it)).take(NAMED_MAX);
    let mut entries: Vec<_> = lacking
        .map(|service| {
            let faults = count(service.times.major_faults);
            let over = duration(facts.work.over_ns);
            let value = format!("{faults} pages read from the disk in {over} (major faults)");
            let [own, host] = stalls(facts, service, |it| it.memory_some_ns);
            let mut evidence: Vec<_> = stalled(own, host, "memory").into_iter().collect();
            evidence.push(state(value.clone()));
            evidence.extend(reported(findings(facts, std::slice::from_ref(service))));
            let where_ = match own.is_some_and(|part| part >= STALLED_SHARE_MIN) {
                true => "raise memory.high and memory.max of its control group, or let it use less",
                false => "find what takes the memory of the host (`ps aux --sort=-rss | head`)",
            };
            let change = Change::look(format!("{where_}; `cat /proc/meminfo` shows what is left"));
            let what = format!("memory of {}", service.name());
            let entry = check.entry(what, value, why);
            entry.explains(&[Cause::ServerThink], evidence).ranked(Rank::Limit).change(change)
        })
        .collect();
    if entries.is_empty() {
        let value = match facts.work.pressure {
            Some(it) => share(part(it.memory_some_ns, facts.work.over_ns)),
            None => "not counted by this kernel (PSI)".to_owned(),
        };
        entries.push(check.entry("time that some task waited for memory", value, why));
    }
    entries
}

/// Returns whether threads of the service waited for the disk.
fn waits_for_disk(facts: &Facts, service: &Service) -> bool {
    let [own, host] = stalls(facts, service, |it| it.io_some_ns);
    let is_above = |part: f64| part >= STALLED_SHARE_MIN;
    let (waited, looks) = service.disk_looks;
    let was_seen = waited >= DISK_LOOKS_MIN && waited * DISK_LOOKS_PART >= looks;
    per_second(service.times.disk_ns, facts.work.over_ns) >= DISK_MIN_NS
        || was_seen && own.or(host).is_none_or(is_above)
}

fn disk(check: &Check, facts: &Facts) -> Vec<Entry> {
    let why = "a thread that waits for the disk serves no request meanwhile";
    let services = facts.work.services.iter().filter(|it| !it.listens.is_empty());
    // Pages are read from the disk too: that is the lack of memory.
    let waiting = services.filter(|it| waits_for_disk(facts, it) && !lacks_memory(facts, it));
    let mut entries: Vec<_> = waiting
        .take(NAMED_MAX)
        .map(|service| {
            let (waited, looks) = service.disk_looks;
            let counted = per_second(service.times.disk_ns, facts.work.over_ns);
            let value = match counted {
                0 => format!("a thread waited at {} of {} looks", count(waited), count(looks)),
                _ => format!("its threads waited {} of each second", duration(counted)),
            };
            let [own, host] = stalls(facts, service, |it| it.io_some_ns);
            let mut evidence = vec![state(value.clone())];
            evidence.extend(stalled(own, host, "the disk"));
            evidence.extend(reported(findings(facts, std::slice::from_ref(service))));
            let pid = service.processes.first().map_or(0, |it| it.pid);
            let change = Change::look(format!(
                "find who keeps the disk busy (`iotop -o`, `iostat -x 1`) and what the service \
                 reads or writes (`cat /proc/{pid}/io`, `cat /proc/{pid}/stack`); move one of \
                 them to another disk, or write less often (fsync)"
            ));
            let what = format!("waits of {} for the disk", service.name());
            let entry = check.entry(what, value, why);
            entry.explains(&[Cause::ServerThink], evidence).ranked(Rank::Limit).change(change)
        })
        .collect();
    if entries.is_empty() {
        let value = match facts.work.pressure {
            Some(it) => share(part(it.io_some_ns, facts.work.over_ns)),
            None => "not counted by this kernel (PSI)".to_owned(),
        };
        let note = match facts.work.counts_disk_waits {
            true => "",
            false => "; kernel.task_delayacct is 0: waits of each thread are only looked for",
        };
        let what = "time that some task waited for the disk";
        entries.push(check.entry(what, format!("{value}{note}"), why));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{idle, loud, only};
    use tcpwhy_live::process::Process;

    const OVER_NS: u64 = 2_000_000_000;

    /// Returns a host with one service, on which tasks stall for this part of the time.
    fn host(stalled: f64, change: impl FnOnce(&mut Service)) -> Facts {
        let mut facts = idle();
        let stalled_ns = (stalled * OVER_NS as f64) as u64;
        facts.work.pressure = Some(Pressure {
            io_some_ns: stalled_ns,
            memory_some_ns: stalled_ns,
            ..Pressure::default()
        });
        let mut service = Service {
            processes: vec![Process {
                pid: 7,
                command: "app".into(),
                container: None,
                runtime: None,
            }],
            listens: vec!["0.0.0.0:8080".parse().unwrap()],
            disk_looks: (0, 40),
            ..Service::default()
        };
        change(&mut service);
        facts.work.services.push(service);
        facts
    }

    #[test]
    fn a_service_that_reads_its_pages_again_lacks_memory() {
        let entry = only(&host(0.2, |it| it.times.major_faults = 400));
        assert_eq!(entry.check, "memory_pressure");
        assert_eq!(entry.what, "memory of app (pid 7) at 0.0.0.0:8080");
        assert_eq!(loud(&host(0.2, |it| it.times.major_faults = 4)), [], "another program's");
        assert_eq!(loud(&host(0.01, |it| it.times.major_faults = 400)), [], "it only starts");
        let own = Pressure { memory_some_ns: OVER_NS / 10, ..Pressure::default() };
        let entry = only(&host(0.0, |it| it.pressure = Some(own)));
        assert!(entry.change.unwrap().what.starts_with("raise memory.high"));
    }

    #[test]
    fn a_service_that_waits_for_the_disk_is_named() {
        let counted = only(&host(0.0, |it| it.times.disk_ns = 400_000_000));
        assert_eq!(counted.value, "its threads waited 200 ms of each second");
        let looked = only(&host(0.5, |it| it.disk_looks = (9, 40)));
        assert_eq!(
            (&*looked.check, &*looked.value),
            ("disk_wait", "a thread waited at 9 of 40 looks")
        );
        assert_eq!(loud(&host(0.5, |it| it.disk_looks = (2, 40))), [], "by chance");
        assert_eq!(loud(&host(0.0, |it| it.disk_looks = (9, 40))), [], "it waited for no disk");
        assert_eq!(loud(&host(0.9, |_| {})), [], "a disk that others keep busy");
    }

    #[test]
    fn waits_for_pages_are_a_lack_of_memory() {
        let facts = host(0.5, |it| {
            it.times.major_faults = 400;
            it.disk_looks = (20, 40);
        });
        assert_eq!(only(&facts).check, "memory_pressure");
    }
}
