//! The checks, by area. Each is a pure function of the facts: it makes an entry for each thing
//! that it looks at, and gives evidence where one explains a present symptom.

mod buffers;
mod conntrack;
mod cpu;
mod databases;
mod descriptors;
mod discarded;
mod jvm;
mod link;
mod listen;
mod loss;
mod memory;
mod nagle;
mod network;
mod nginx;
mod ports;
mod resolver;
mod softirq;
mod stalls;
mod timers;
mod udp;
mod unanswered;

use super::entry::{Entry, Layer};
use super::facts::Facts;

/// A check.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Id of the check, as in JSON.
    pub id: &'static str,
    /// Layer of the object that it checks.
    pub layer: Layer,
    /// Returns the entries of the check.
    pub judge: fn(&Check, &Facts) -> Vec<Entry>,
}

impl Check {
    /// Returns an entry of this check.
    pub fn entry(
        &self,
        what: impl Into<String>,
        value: impl Into<String>,
        why: impl Into<String>,
    ) -> Entry {
        Entry::new(self.id, self.layer, what, value, why)
    }
}

/// All checks.
pub const CHECKS: &[&[Check]] = &[
    cpu::CHECKS,
    stalls::CHECKS,
    descriptors::CHECKS,
    nginx::CHECKS,
    jvm::CHECKS,
    nagle::CHECKS,
    databases::CHECKS,
    resolver::CHECKS,
    listen::CHECKS,
    ports::CHECKS,
    buffers::CHECKS,
    memory::CHECKS,
    loss::CHECKS,
    timers::CHECKS,
    udp::CHECKS,
    discarded::CHECKS,
    unanswered::CHECKS,
    conntrack::CHECKS,
    network::CHECKS,
    softirq::CHECKS,
    link::CHECKS,
];

/// Runs all checks. Entries that explain a symptom come first, the most direct first.
pub fn judge(facts: &Facts) -> Vec<Entry> {
    let checks = CHECKS.iter().flat_map(|checks| checks.iter());
    let mut entries: Vec<Entry> = checks.flat_map(|check| (check.judge)(check, facts)).collect();
    entries.sort_by_key(|entry| (!entry.is_loud(), entry.is_loud().then(|| entry.key())));
    entries
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::entry::Evidence;
    use crate::report::parse;
    use tcpwhy_core::model::Cause;
    use tcpwhy_live::counters::Counters;

    /// Returns a host on which no counter grows.
    pub fn idle() -> Facts {
        let mut facts = Facts::default();
        facts.growth.over_ns = 2_000_000_000;
        facts.work.over_ns = 2_000_000_000;
        for (name, value) in [
            ("net.core.somaxconn", "4096"),
            ("net.core.rmem_max", "212992"),
            ("net.core.wmem_max", "212992"),
            ("net.core.netdev_max_backlog", "1000"),
            ("net.ipv4.ip_local_port_range", "32768 60999"),
            ("net.ipv4.ip_local_reserved_ports", ""),
            ("net.ipv4.tcp_tw_reuse", "2"),
            ("net.ipv4.tcp_tw_reuse_delay", "1000"),
            ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
            ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
            ("net.ipv4.tcp_mem", "90000 120000 180000"),
            ("net.ipv4.tcp_sack", "1"),
            ("net.ipv4.tcp_timestamps", "1"),
            ("net.ipv4.tcp_window_scaling", "1"),
            ("net.ipv4.tcp_slow_start_after_idle", "1"),
            ("net.ipv4.tcp_abort_on_overflow", "0"),
            ("net.ipv4.tcp_syncookies", "1"),
            ("net.ipv4.tcp_max_syn_backlog", "512"),
            ("net.ipv4.tcp_mtu_probing", "0"),
            ("net.netfilter.nf_conntrack_count", "10"),
            ("net.netfilter.nf_conntrack_max", "1000"),
        ] {
            facts.sysctls.set(name, value);
        }
        facts
    }

    /// Increases a counter over the sample.
    pub fn grow(facts: &mut Facts, counter: &str, by: u64) {
        let set = |counters: &mut Counters, value| counters.set(counter, value);
        set(&mut facts.growth.before, 100);
        set(&mut facts.growth.after, 100 + by);
    }

    /// Adds a finding whose culprit is this host.
    pub fn find(facts: &mut Facts, cause: Cause, role: &str, endpoint: &str) {
        let text = format!(
            r#"{{"schema_version":1,"findings":[{{"cause":"{}","headline":"Something was slow",
            "culprit":{{"role":"{role}","endpoint":"{endpoint}"}},"connection":null}}]}}"#,
            cause.id()
        );
        let own = ["10.0.0.2".parse().unwrap()];
        let mut found = parse(text.as_bytes(), &own, &own).unwrap();
        found[0].finding = facts.findings.len() + 1;
        facts.findings.append(&mut found);
    }

    /// Returns the entries that explain a symptom.
    pub fn loud(facts: &Facts) -> Vec<Entry> {
        judge(facts).into_iter().filter(Entry::is_loud).collect()
    }

    /// Returns the only entry that explains a symptom.
    pub fn only(facts: &Facts) -> Entry {
        let entries = loud(facts);
        assert_eq!(entries.len(), 1, "{entries:#?}");
        entries.into_iter().next().unwrap()
    }

    #[test]
    fn an_idle_host_explains_nothing() {
        assert_eq!(loud(&idle()), []);
        assert_eq!(loud(&Facts::default()), []);
    }

    #[test]
    fn counters_of_the_past_explain_nothing() {
        let mut facts = idle();
        for counter in [
            "TcpExt.ListenOverflows",
            "nf_conntrack.drop",
            "Udp.RcvbufErrors",
            "softnet.dropped",
            "TcpExt.PruneCalled",
            "Tcp.RetransSegs",
        ] {
            facts.growth.before.set(counter, 5_000);
            facts.growth.after.set(counter, 5_000);
        }
        assert_eq!(loud(&facts), []);
    }

    #[test]
    fn what_explains_the_report_comes_first() {
        let mut facts = idle();
        grow(&mut facts, "nf_conntrack.insert_failed", 900);
        find(&mut facts, Cause::SlowStart, "server", "10.0.0.2:80");
        facts.findings[0].idle_ns = Some(5_000_000_000);
        let entries = loud(&facts);
        assert_eq!(entries[0].check, "tcp_slow_start_after_idle");
        assert!(matches!(entries[0].evidence[0], Evidence::Report { finding: 1, .. }));
        assert_eq!(entries[1].explains, [Cause::ConntrackRace]);
    }

    #[test]
    fn each_check_has_an_id_of_its_own() {
        let mut ids: Vec<_> = CHECKS.iter().flat_map(|it| it.iter().map(|it| it.id)).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }

    #[test]
    fn all_that_explains_says_what_to_do_and_how_to_undo_it() {
        let mut facts = idle();
        for counter in [
            "nf_conntrack.insert_failed",
            "softnet.dropped",
            "TcpExt.TCPMemoryPressures",
            "TcpExt.IPReversePathFilter",
            "TcpExt.TCPReqQFullDrop",
        ] {
            grow(&mut facts, counter, 50);
        }
        let entries = loud(&facts);
        assert_eq!(entries.len(), 5, "{entries:#?}");
        for entry in entries {
            let change = entry.change.expect("a change");
            assert!(!change.risk.is_empty() && !change.undo.is_empty(), "{}", entry.check);
            assert!(!entry.value.is_empty() && !entry.why.is_empty(), "{}", entry.check);
        }
    }
}
