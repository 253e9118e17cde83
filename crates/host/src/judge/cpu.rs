//! CPU time that services do not get: a quota of their control group, other programs, the
//! hypervisor. Read first: Documentation/scheduler/sched-bwc.rst,
//! Documentation/scheduler/sched-stats.rst, proc_stat(5).

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{count, duration, share};

use super::{Check, listen};
use crate::entry::{Change, Entry, Evidence, Layer, Rank, quoted};
use crate::facts::{Facts, reported, state};
use crate::report::Finding;
use crate::work::{Busy, ControlGroup, Service};

pub const CHECKS: &[Check] = &[
    Check { id: "cpu_throttled", layer: Layer::Application, judge: throttled },
    Check { id: "cpu_wait", layer: Layer::Application, judge: waits },
    Check { id: "stolen_time", layer: Layer::Application, judge: stolen },
];

/// Share of its periods from which on a control group that was throttled is named: a request in
/// twenty then waits for a period to end.
const THROTTLED_SHARE_MIN: f64 = 0.05;
/// Waits for a CPU that are named, ns of each second; and their least part of the time that the
/// service ran: below a third, requests that compute take less than a third longer.
const WAITED_MIN_NS: u64 = 50_000_000;
const WAITED_PART: u64 = 3;
/// A process that took less of the sample is not to blame for waits.
const BUSY_SHARE_MIN: f64 = 0.1;
/// Services that are named, of a control group and of the host.
const NAMED_MAX: usize = 3;

const SECOND_NS: u64 = 1_000_000_000;

/// Returns the part of each second, ns.
pub(super) fn per_second(ns: u64, over_ns: u64) -> u64 {
    let each = u128::from(ns) * u128::from(SECOND_NS) / u128::from(over_ns.max(1));
    u64::try_from(each).unwrap_or(u64::MAX)
}

fn is_throttled(group: &ControlGroup) -> bool {
    group.periods.throttled > 0 && group.periods.share() >= THROTTLED_SHARE_MIN
}

/// Returns `0.1 CPUs` for a quota of a tenth of the period.
fn cpus(quota_us: u64, period_us: u64) -> String {
    let tenths = (quota_us * 100).div_ceil(period_us.max(1));
    let text = format!("{}.{:02}", tenths / 100, tenths % 100);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {}", if text == "1" { "CPU" } else { "CPUs" })
}

/// Findings of server time at a service of this host.
pub(super) fn findings<'a>(
    facts: &'a Facts,
    services: &'a [Service],
) -> impl Iterator<Item = &'a Finding> {
    facts.own_findings(&[Cause::ServerThink]).filter(|finding| {
        finding.end().is_some_and(|end| services.iter().any(|service| service.serves(end)))
    })
}

/// Names the first services, those that listen before others.
fn names(services: &[Service]) -> String {
    let mut sorted: Vec<&Service> = services.iter().collect();
    sorted.sort_by_key(|it| it.listens.is_empty());
    let more = sorted.len().saturating_sub(NAMED_MAX) as u64;
    let mut names: Vec<_> = sorted.into_iter().take(NAMED_MAX).map(Service::name).collect();
    if more > 0 {
        names.push(format!("{} more", count(more)));
    }
    names.join(", ")
}

/// A service waits at its clients' expense, a client at its own.
fn cause(services: &[Service]) -> Cause {
    let serves = services.iter().any(|it| !it.listens.is_empty());
    if serves { Cause::ServerThink } else { Cause::ClientThink }
}

/// Returns whether an accept queue of the services is full: a service that may not run accepts
/// nothing.
fn overflows(facts: &Facts, services: &[Service]) -> bool {
    let mut listeners = facts.sockets.listeners.iter();
    listeners.any(|it| {
        let pid = it.process.as_ref().map(|it| it.pid);
        let is_theirs = pid.is_some_and(|pid| services.iter().any(|it| it.has(pid)));
        is_theirs && listen::overflows(facts, it)
    })
}

fn throttled(check: &Check, facts: &Facts) -> Vec<Entry> {
    let why = "once the processes of a control group have used the quota of a period, none of \
               them runs until the next period begins: requests wait, though CPUs are idle";
    let mut groups: Vec<&ControlGroup> = facts.work.limited.iter().collect();
    groups.sort_by_key(|it| std::cmp::Reverse((it.periods.throttled, it.periods.throttled_ns)));
    let entries = groups.into_iter().map(|group| {
        let what = format!("CPU quota of {}", names(&group.services));
        let value = format!(
            "{} of CPU time in each {} ({}); control group {}",
            duration(group.quota_us * 1_000),
            duration(group.period_us * 1_000),
            cpus(group.quota_us, group.period_us),
            group.folder,
        );
        let entry = check.entry(what, value, why);
        let mut evidence = Vec::new();
        if is_throttled(group) {
            evidence.extend(throttling(group, facts.work.over_ns));
        }
        let was_throttled = group.ever.share() >= THROTTLED_SHARE_MIN;
        let findings = reported(findings(facts, &group.services));
        if !findings.is_empty() && (was_throttled || !evidence.is_empty()) {
            if evidence.is_empty() {
                evidence.push(state(format!(
                    "throttled in {} of {} periods since the group was made, not in this sample",
                    count(group.ever.throttled),
                    count(group.ever.periods),
                )));
            }
            evidence.extend(findings);
        }
        if evidence.is_empty() {
            return entry;
        }
        let mut causes = vec![cause(&group.services)];
        if overflows(facts, &group.services) {
            causes.push(Cause::AcceptQueueOverflow);
            evidence.extend(facts.grew("TcpExt.ListenOverflows"));
        }
        let change = more_time(group, facts);
        entry.explains(&causes, evidence).ranked(Rank::Limit).change(change)
    });
    entries.collect()
}

fn throttling(group: &ControlGroup, over_ns: u64) -> [Evidence; 2] {
    let now = &group.periods;
    let counter = Evidence::Counter {
        counter: "cpu.stat.nr_throttled".to_owned(),
        grew_by: now.throttled,
        over_ns,
    };
    let sentence = format!(
        "throttled in {} of {} periods ({}): its threads were kept from running for {} of each \
         second, all CPUs together",
        count(now.throttled),
        count(now.periods),
        share(now.share()),
        duration(per_second(now.throttled_ns, over_ns)),
    );
    [counter, state(sentence)]
}

/// Returns a change to a quota that the group would not have used up, in tenths of a CPU.
fn more_time(group: &ControlGroup, facts: &Facts) -> Change {
    let ran_ns: u64 = group.services.iter().map(|it| it.times.ran_ns).sum();
    let wanted = per_second(ran_ns + group.periods.throttled_ns, facts.work.over_ns);
    let now = group.quota_us as f64 / group.period_us.max(1) as f64;
    let wanted = (wanted as f64 / SECOND_NS as f64 * 1.25).max(now * 2.0);
    let tenths = (wanted * 10.0).ceil() as u64;
    let quota_us = tenths * group.period_us / 10;
    let what = format!(
        "raise the quota from {} to {}, or let the service use less CPU time",
        cpus(group.quota_us, group.period_us),
        cpus(quota_us, group.period_us),
    );
    let risk = "the group may take this time from other programs of the host";
    let set = |quota_us: u64| quota_command(group, quota_us);
    let note = if group.folder.contains("kubepods") {
        " (for good: resources.limits.cpu of the pod; the kubelet writes this file again)"
    } else {
        ""
    };
    Change::command(format!("{what}{note}"), set(quota_us), risk, set(group.quota_us))
}

/// Returns the command that sets the quota, by the program that manages the group.
fn quota_command(group: &ControlGroup, quota_us: u64) -> String {
    let name = group.folder.rsplit('/').next().unwrap_or_default();
    let is_unit = [".service", ".scope", ".slice"].iter().any(|end| name.ends_with(end));
    let mut services = group.services.iter().flat_map(|it| &it.processes);
    let container = services.find_map(|it| it.container.as_deref());
    let container = container.filter(|id| name.contains(id));
    let cpus = quota_us as f64 / group.period_us.max(1) as f64;
    match container {
        Some(id) if group.folder.contains("docker") => {
            return format!("docker update --cpus {cpus} {id}");
        }
        Some(id) if group.folder.contains("libpod") => {
            return format!("podman update --cpus {cpus} {id}");
        }
        _ => {}
    }
    // A manager of a user, or the kubelet, is asked in another way.
    if is_unit && !group.folder.contains("user@") && !group.folder.contains("kubepods") {
        let percent = quota_us * 100 / group.period_us.max(1);
        return format!("systemctl set-property --runtime {} CPUQuota={percent}%", quoted(name));
    }
    let (value, file) = match group.is_v2 {
        true => (format!("'{quota_us} {}'", group.period_us), "cpu.max"),
        false => (quota_us.to_string(), "cpu.cfs_quota_us"),
    };
    format!("echo {value} > {}", quoted(&format!("{}/{file}", group.folder)))
}

fn is_in_throttled_group(facts: &Facts, service: &Service) -> bool {
    let throttled = facts.work.limited.iter().filter(|group| is_throttled(group));
    let mut inside = throttled.flat_map(|group| &group.services);
    inside.any(|it| it.processes.iter().any(|process| service.has(process.pid)))
}

fn waits(check: &Check, facts: &Facts) -> Vec<Entry> {
    let over_ns = facts.work.over_ns;
    let why = "a thread that is ready to work waits until a CPU is free; each request waits with \
               it, once for every time that its thread has to begin again";
    let services = facts.work.services.iter().filter(|it| !it.listens.is_empty());
    let mut entries = Vec::new();
    let mut most: Option<&Service> = None;
    for service in services {
        let times = service.times;
        let is_named = per_second(times.waited_ns, over_ns) >= WAITED_MIN_NS
            && times.waited_ns * WAITED_PART >= times.ran_ns
            && !is_in_throttled_group(facts, service);
        if is_named && entries.len() < NAMED_MAX {
            let what = format!("waits of {} for a CPU", service.name());
            let entry = check.entry(what, words(service, over_ns), why);
            let mut evidence = waiting(facts, service);
            evidence.extend(reported(findings(facts, std::slice::from_ref(service))));
            let change = less_waiting(facts, service);
            let entry = entry.explains(&[Cause::ServerThink], evidence);
            entries.push(entry.ranked(Rank::Limit).change(change));
        } else if most.is_none_or(|most| times.waited_ns > most.times.waited_ns) {
            most = Some(service);
        }
    }
    if let (true, Some(most)) = (entries.is_empty(), most) {
        let value = if facts.work.counts_cpu_waits {
            format!("the longest are those of {}: {}", most.name(), words(most, over_ns))
        } else {
            "not counted by this kernel (CONFIG_SCHED_INFO)".to_owned()
        };
        entries.push(check.entry("waits of services for a CPU", value, why));
    }
    entries
}

fn words(service: &Service, over_ns: u64) -> String {
    format!(
        "ready to run for {} of each second without a CPU, on a CPU for {}",
        duration(per_second(service.times.waited_ns, over_ns)),
        duration(per_second(service.times.ran_ns, over_ns)),
    )
}

fn waiting(facts: &Facts, service: &Service) -> Vec<Evidence> {
    let over_ns = facts.work.over_ns;
    let part = |ns: u64, of_ns: u64| share((ns as f64 / of_ns.max(1) as f64).min(1.0));
    let cpus = facts.work.cpus;
    let mut evidence = vec![state(format!(
        "its threads waited {} for a CPU in {}; the CPUs of the host were idle for {} of the time",
        duration(service.times.waited_ns),
        duration(over_ns),
        part(cpus.idle_ns, cpus.all_ns),
    ))];
    if let Some(pressure) = facts.work.pressure {
        let some = part(pressure.cpu_some_ns, over_ns);
        evidence.push(state(format!("some task waited for a CPU for {some} of the time (PSI)")));
    }
    let busiest = facts.work.busiest.iter().map(|it| {
        let each = duration(per_second(it.ran_ns, over_ns));
        format!("{} (pid {}) {each}", it.process.command, it.process.pid)
    });
    let busiest: Vec<_> = busiest.collect();
    if !busiest.is_empty() {
        evidence.push(state(format!("most CPU time in each second: {}", busiest.join(", "))));
    }
    evidence
}

/// Returns the busiest process that is not of the service and can be made to give way.
fn rival<'a>(facts: &'a Facts, service: &Service) -> Option<&'a Busy> {
    facts.work.busiest.iter().find(|it| {
        let part = it.ran_ns as f64 / facts.work.over_ns.max(1) as f64;
        !service.has(it.process.pid) && part >= BUSY_SHARE_MIN && it.nice < 10
    })
}

fn less_waiting(facts: &Facts, service: &Service) -> Change {
    let pid = service.processes.first().map_or(0, |it| it.pid);
    if let Some(cpus) = &service.bound_to {
        return Change::command(
            format!("let the service use all CPUs: it is bound to CPU {cpus}"),
            format!("taskset -a -c -p {} {pid}", facts.work.cpus_online),
            "it takes time of the CPUs that were kept free of it",
            format!("taskset -a -c -p {cpus} {pid}"),
        );
    }
    if let Some(rival) = rival(facts, service) {
        let (pid, command) = (rival.process.pid, &rival.process.command);
        return Change::command(
            format!("let {command} give way, or run it elsewhere; more CPUs otherwise"),
            format!("renice 10 -p {pid}"),
            "it takes longer while the service is busy",
            format!("renice {} -p {pid}", rival.nice),
        );
    }
    Change::look(
        "the service's own threads, or many small programs, wait for one another: fewer threads \
         that compute at the same time, or more CPUs (`top -H`, `pidstat -t 1`)",
    )
}

fn stolen(check: &Check, facts: &Facts) -> Vec<Entry> {
    let cpus = facts.work.cpus;
    if cpus.all_ns == 0 {
        return Vec::new();
    }
    let busy_ns = cpus.all_ns - cpus.idle_ns.min(cpus.all_ns);
    let part = share(cpus.stolen_ns as f64 / busy_ns.max(1) as f64);
    let value = format!(
        "{} of each second of all CPUs together: {part} of the time in which there was work",
        duration(per_second(cpus.stolen_ns, facts.work.over_ns)),
    );
    let why = "the hypervisor ran another machine while this one had work to do: every program \
               here stops for that time";
    let entry = check.entry("time stolen by the hypervisor", value.clone(), why);
    // A tenth of the work, and a fiftieth of the time: a tick of an idle machine is neither.
    if cpus.stolen_ns * 10 < busy_ns || cpus.stolen_ns * 50 < cpus.all_ns {
        return vec![entry];
    }
    let mut evidence = vec![state(value)];
    evidence.extend(reported(facts.own_findings(&[Cause::ServerThink])));
    let change = Change::look(
        "move the machine to a host with free CPUs, or give it CPUs of its own (an instance with \
         CPU credits may have used them up)",
    );
    vec![entry.explains(&[Cause::ServerThink], evidence).ranked(Rank::Limit).change(change)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{find, grow, idle, loud, only};
    use crate::sockets::Listener;
    use crate::work::{CpuTime, Throttled, Times};
    use tcpwhy_live::process::Process;

    fn service(waited_ms: u64, ran_ms: u64) -> Service {
        Service {
            processes: vec![Process {
                pid: 7,
                command: "app".into(),
                container: None,
                runtime: None,
            }],
            listens: vec!["0.0.0.0:8080".parse().unwrap()],
            times: Times {
                ran_ns: ran_ms * 1_000_000,
                waited_ns: waited_ms * 1_000_000,
                ..Times::default()
            },
            ..Service::default()
        }
    }

    fn group(folder: &str, throttled: u64) -> ControlGroup {
        ControlGroup {
            folder: folder.into(),
            is_v2: true,
            quota_us: 10_000,
            period_us: 100_000,
            periods: Throttled { periods: 20, throttled, throttled_ns: throttled * 90_000_000 },
            ever: Throttled { periods: 900, throttled: 800, throttled_ns: 1 },
            services: vec![service(1_400, 170)],
        }
    }

    fn limited(group: ControlGroup) -> Facts {
        let mut facts = idle();
        facts.work.services = group.services.clone();
        facts.work.limited.push(group);
        facts
    }

    #[test]
    fn a_throttled_service_is_named_with_its_quota() {
        let entry = only(&limited(group("/sys/fs/cgroup/web", 19)));
        assert_eq!(
            (&*entry.check, &entry.explains[..]),
            ("cpu_throttled", &[Cause::ServerThink][..])
        );
        assert_eq!(entry.what, "CPU quota of app (pid 7) at 0.0.0.0:8080");
        assert!(entry.value.starts_with("10 ms of CPU time in each 100 ms (0.1 CPUs)"));
        let Evidence::State { sentence } = &entry.evidence[1] else { panic!("{entry:?}") };
        assert!(sentence.starts_with("throttled in 19 of 20 periods (95 %)"), "{sentence}");
        assert!(sentence.contains("855 ms of each second"), "{sentence}");
        let change = entry.change.unwrap();
        // (170 ms + 1,710 ms) in 2 s, and a quarter more: 1.2 CPUs.
        assert_eq!(change.command.unwrap(), "echo '120000 100000' > /sys/fs/cgroup/web/cpu.max");
        assert_eq!(change.undo, "echo '10000 100000' > /sys/fs/cgroup/web/cpu.max");
    }

    #[test]
    fn the_program_that_manages_the_group_changes_it() {
        let undo = |folder: &str, container: Option<&str>| {
            let mut group = group(folder, 19);
            group.services[0].processes[0].container = container.map(str::to_owned);
            only(&limited(group)).change.unwrap().undo
        };
        let unit = undo("/sys/fs/cgroup/system.slice/app.service", None);
        assert_eq!(unit, "systemctl set-property --runtime app.service CPUQuota=10%");
        let id = "0123456789ab";
        let docker = undo(&format!("/sys/fs/cgroup/system.slice/docker-{id}cd.scope"), Some(id));
        assert_eq!(docker, format!("docker update --cpus 0.1 {id}"));
        let pod = undo(&format!("/sys/fs/cgroup/kubepods/pod1/{id}"), Some(id));
        assert_eq!(pod, format!("echo '10000 100000' > /sys/fs/cgroup/kubepods/pod1/{id}/cpu.max"));
        let mut v1 = group("/sys/fs/cgroup/cpu/w b", 19);
        v1.is_v2 = false;
        let undo = only(&limited(v1)).change.unwrap().undo;
        assert_eq!(undo, "echo 10000 > '/sys/fs/cgroup/cpu/w b/cpu.cfs_quota_us'");
    }

    #[test]
    fn a_throttled_service_comes_before_the_queue_that_it_lets_fill() {
        let mut facts = limited(group("/g", 19));
        facts.sockets.listeners.push(Listener {
            local: "0.0.0.0:8080".parse().unwrap(),
            process: Some(facts.work.services[0].processes[0].clone()),
            backlog: 4,
            queue_max: 5,
            drops: 300,
            half_open: 0,
        });
        grow(&mut facts, "TcpExt.ListenOverflows", 300);
        let checks: Vec<_> = loud(&facts).into_iter().map(|it| it.check).collect();
        assert_eq!(checks, ["cpu_throttled", "accept_queue"]);
    }

    #[test]
    fn a_quota_that_is_hardly_reached_explains_nothing() {
        let mut past = group("/g", 0);
        past.services.clear();
        assert_eq!(loud(&limited(past)), [], "the past is no present symptom");
        let mut rare = group("/g", 1);
        rare.periods.periods = 40;
        rare.services.clear();
        assert_eq!(loud(&limited(rare)), []);
    }

    #[test]
    fn a_reported_wait_is_explained_by_a_quota_that_throttled_before() {
        let mut facts = limited(group("/g", 0));
        facts.work.services.clear();
        find(&mut facts, Cause::ServerThink, "server", "10.0.0.2:9090");
        assert_eq!(loud(&facts), [], "another port");
        find(&mut facts, Cause::ServerThink, "server", "10.0.0.2:8080");
        assert_eq!(only(&facts).check, "cpu_throttled");
        facts.work.limited[0].ever.throttled = 9;
        assert_eq!(loud(&facts), [], "in one period of a hundred");
    }

    #[test]
    fn a_service_that_waits_for_a_cpu_is_named_with_who_has_it() {
        let mut facts = idle();
        facts.work.services.push(service(1_200, 700));
        let process = Process { pid: 9, command: "cc1plus".into(), container: None, runtime: None };
        facts.work.busiest.push(Busy { process, ran_ns: 1_900_000_000, nice: 5 });
        let entry = only(&facts);
        assert_eq!(entry.check, "cpu_wait");
        assert!(entry.value.starts_with("ready to run for 600 ms of each second"));
        let change = entry.change.unwrap();
        assert_eq!(change.command.unwrap(), "renice 10 -p 9");
        assert_eq!(change.undo, "renice 5 -p 9");
        facts.work.cpus_online = "0-3".into();
        facts.work.services[0].bound_to = Some("2".into());
        let change = only(&facts).change.unwrap();
        assert_eq!(change.command.unwrap(), "taskset -a -c -p 0-3 7");
        assert_eq!(change.undo, "taskset -a -c -p 2 7");
    }

    #[test]
    fn short_waits_beside_much_work_are_none() {
        let mut facts = idle();
        facts.work.services = vec![service(90, 10), service(600, 2_000)];
        assert_eq!(loud(&facts), []);
        facts.work.services = vec![service(900, 200)];
        facts.work.services[0].listens.clear();
        assert_eq!(loud(&facts), [], "it serves nobody");
        let mut facts = limited(group("/g", 19));
        facts.work.services = vec![service(1_400, 170)];
        assert_eq!(only(&facts).check, "cpu_throttled", "its waits are the quota's");
    }

    #[test]
    fn stolen_time_counts_where_there_was_work() {
        let mut facts = idle();
        let ms = 1_000_000;
        let time = |stolen, idle| CpuTime {
            all_ns: 4_000 * ms,
            idle_ns: idle * ms,
            stolen_ns: stolen * ms,
        };
        facts.work.cpus = time(60, 3_900);
        assert_eq!(loud(&facts), [], "hardly anything");
        facts.work.cpus = time(100, 100);
        assert_eq!(loud(&facts), [], "of much work");
        facts.work.cpus = time(800, 100);
        assert_eq!(only(&facts).check, "stolen_time");
    }
}
