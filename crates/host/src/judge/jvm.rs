//! Flags of running JVMs.

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{counted, duration, share};

use super::{Check, nagle};
use crate::entry::{Change, Entry, Layer};
use crate::facts::{Facts, reported, state};
use crate::hsperfdata::Counters;
use crate::jvm::Jvm;

pub const CHECKS: &[Check] = &[
    Check { id: "jvm_httpserver_nodelay", layer: Layer::Application, judge: nodelay },
    Check { id: "gc_pause", layer: Layer::Application, judge: collections },
    Check { id: "jvm_settings", layer: Layer::Application, judge: settings },
];

/// Property of the JDK's own HTTP server; unless it is set, Nagle's algorithm stays enabled.
const NODELAY: &str = "sun.net.httpserver.nodelay";

const SHOWN: [&str; 4] =
    [NODELAY, "java.net.preferIPv4Stack", "networkaddress.cache.ttl", "sun.net.inetaddr.ttl"];

fn nodelay(check: &Check, facts: &Facts) -> Vec<Entry> {
    let mut entries = Vec::new();
    for listener in &facts.sockets.listeners {
        let Some(process) = &listener.process else { continue };
        let Some(jvm) = facts.jvms.iter().find(|it| it.pid == process.pid) else { continue };
        let evidence = nagle::evidence(facts, listener.local);
        if evidence.is_empty() {
            continue;
        }
        let value = jvm.properties.get(NODELAY).map_or("not set: off", String::as_str);
        let change = Change::by_hand(
            format!(
                "start it with `-D{NODELAY}=true` if it serves with the JDK's own HttpServer; \
                 other servers have a switch of their own (Tomcat tcpNoDelay, Netty TCP_NODELAY)"
            ),
            "needs a restart",
            "start it without the flag again",
        );
        let what = format!("{NODELAY} of {} at {}", name(jvm), listener.local);
        let entry = check.entry(what, value, nagle::WHY);
        entries.push(entry.explains(&[Cause::NagleDelayedAck], evidence).change(change));
    }
    entries
}

fn name(jvm: &Jvm) -> String {
    let main = jvm.main.rsplit('/').next().unwrap_or_default();
    if main.is_empty() {
        format!("java (pid {})", jvm.pid)
    } else {
        format!("java {main} (pid {})", jvm.pid)
    }
}

/// Share of the sample that collections stop a JVM for, from which on it is named: what G1 itself aims
/// at most for (`-XX:GCTimeRatio=12`: one part in 13).
const PAUSED_SHARE_MIN: f64 = 1.0 / 13.0;
/// Collections of the sample from which on that share is no accident of one of them.
const COLLECTIONS_MIN: u64 = 2;

fn collections(check: &Check, facts: &Facts) -> Vec<Entry> {
    let listens = |it: &&Jvm| {
        let processes = facts.sockets.listeners.iter().filter_map(|it| it.process.as_ref());
        processes.into_iter().any(|process| process.pid == it.pid)
    };
    let servers = facts.jvms.iter().filter(listens);
    servers
        .map(|jvm| {
            let what = format!("garbage collection of {}", name(jvm));
            let why = "a JVM that collects garbage stops the threads that serve requests";
            match &jvm.collected {
                Some(collected) => judged(check, facts, collected, check.entry(what, "", why)),
                None => check.entry(what, "not shown (no hsperfdata)", why),
            }
        })
        .collect()
}

/// Completes the entry of one JVM.
fn judged(check: &Check, facts: &Facts, collected: &Counters, entry: Entry) -> Entry {
    let over_ns = facts.growth.over_ns.max(1);
    let part = (collected.paused_ns as f64 / over_ns as f64).min(1.0);
    let number = counted(collected.collections, "collection", "collections");
    let value = format!(
        "it stood still for {} of {} ({}), in {number} (by {})",
        duration(collected.paused_ns),
        duration(over_ns),
        share(part),
        collected.collectors.join(", ")
    );
    let entry = check.entry(entry.what, value.clone(), entry.why);
    if part < PAUSED_SHARE_MIN || collected.collections < COLLECTIONS_MIN {
        return entry;
    }
    let mut evidence = vec![state(value)];
    let own = [Cause::GcPause, Cause::ServerThink];
    evidence.extend(reported(facts.own_findings(&own)));
    let change = Change::look(
        "find what fills the heap: `jcmd PID GC.heap_info`, `jstat -gcutil PID 1000`, `-Xlog:gc*`; \
         a larger heap (-Xmx), G1 or ZGC in place of Serial and Parallel, or less allocation",
    );
    entry.explains(&own, evidence).change(change)
}

fn settings(check: &Check, facts: &Facts) -> Vec<Entry> {
    let entries = facts.jvms.iter().map(|jvm| {
        let set = SHOWN.iter().filter_map(|&name| Some((name, jvm.properties.get(name)?)));
        let set: Vec<_> = set.map(|(name, value)| format!("-D{name}={value}")).collect();
        let version = jvm.collected.as_ref().map(|it| it.version.as_str());
        let version = version.filter(|it| !it.is_empty());
        let version = version.map(|it| format!("Java {it}: ")).unwrap_or_default();
        let value =
            if set.is_empty() { "no network flag is set".to_owned() } else { set.join(" ") };
        let why = "a JVM keeps names that it resolved for networkaddress.cache.ttl (30 s by \
                   default, for ever under a security manager), and tries IPv6 first";
        let entry = check.entry(format!("flags of {}", name(jvm)), version + &value, why);
        let names_fail = facts.own_findings(&[Cause::DnsFailure]);
        let caches_nothing = SHOWN[2..]
            .iter()
            .any(|&name| jvm.properties.get(name).is_some_and(|value| value == "0"));
        if !caches_nothing {
            return entry;
        }
        let names = facts.near_findings(&[Cause::DnsSlow, Cause::DnsTimeout, Cause::DnsSearch]);
        let change = Change::by_hand(
            "let the JVM keep names for some seconds: `-Dsun.net.inetaddr.ttl=30`",
            "a change of an address is seen later; needs a restart",
            "start it with the old flags again",
        );
        entry.explains(&[Cause::DnsSlow], reported(names.chain(names_fail))).change(change)
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{find, idle, loud, only};
    use crate::jvm::parse;
    use crate::sockets::Listener;
    use tcpwhy_live::process::Process;

    fn facts(flags: &[&str]) -> Facts {
        let mut facts = idle();
        let words: Vec<_> = flags.iter().map(|&it| it.to_owned()).collect();
        facts.jvms.push(parse(9, &words, &[]));
        facts.sockets.listeners.push(Listener {
            local: "[::]:8000".parse().unwrap(),
            process: Some(Process {
                pid: 9,
                command: "java".into(),
                container: None,
                runtime: None,
            }),
            backlog: 50,
            queue_max: 0,
            drops: 0,
            half_open: 0,
        });
        facts
    }

    #[test]
    fn a_jvm_that_collects_for_more_than_it_aims_at_is_named() {
        let mut facts = facts(&["java", "-jar", "/srv/app.jar"]);
        let mut collect = |paused_ns, collections| {
            let version = "17.0.15".to_owned();
            let collectors = vec!["Copy".to_owned()];
            let collected = Counters { paused_ns, collections, collectors, version };
            facts.jvms[0].collected = Some(collected);
            loud(&facts)
        };
        assert_eq!(collect(150_000_000, 10), [], "7 % of 2 s");
        assert_eq!(collect(800_000_000, 1), [], "one collection");
        let [entry] = &collect(800_000_000, 2)[..] else { panic!("one entry") };
        assert_eq!(entry.check, "gc_pause");
        assert_eq!(
            entry.value,
            "it stood still for 800 ms of 2 s (40 %), in 2 collections (by Copy)"
        );
        assert_eq!(entry.explains, [Cause::GcPause, Cause::ServerThink]);
        facts.sockets.listeners.clear();
        assert_eq!(loud(&facts), [], "it serves nobody");
    }

    #[test]
    fn the_jdks_server_is_named_where_a_finding_speaks_of_its_port() {
        let mut facts = facts(&["java", "-jar", "/srv/app.jar"]);
        assert_eq!(loud(&facts), []);
        find(&mut facts, Cause::NagleDelayedAck, "server", "10.0.0.2:8000");
        let entry = only(&facts);
        assert!(entry.what.contains("java app.jar (pid 9)"), "{}", entry.what);
        assert!(entry.change.unwrap().what.contains("-Dsun.net.httpserver.nodelay=true"));
    }
}
