//! Kernel settings under `/proc/sys`, and the commands that change and restore one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::entry::Change;
use super::place::AuditedNamespace;

/// The settings that the audit reads.
pub const NAMES: &[&str] = &[
    "fs.file-max",
    "fs.file-nr",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.default.rp_filter",
    "net.ipv4.icmp_msgs_per_sec",
    "net.ipv4.icmp_ratelimit",
    "net.ipv4.ip_default_ttl",
    "net.ipv4.ip_forward",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_no_pmtu_disc",
    "net.ipv4.ipfrag_high_thresh",
    "net.ipv4.neigh.default.gc_thresh3",
    "net.ipv6.neigh.default.gc_thresh3",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_tw_reuse_delay",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_buckets",
    "net.netfilter.nf_conntrack_tcp_timeout_established",
    "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
    "net.netfilter.nf_conntrack_udp_timeout",
    "net.netfilter.nf_conntrack_udp_timeout_stream",
];

/// Settings with one value for the whole machine, which only its first namespace shows.
const MACHINE: [&str; 7] = [
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rps_sock_flow_entries",
    "net.ipv4.neigh.default.gc_thresh3",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_mem",
];

/// Values by name; several numbers are separated by one space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sysctls {
    values: BTreeMap<String, String>,
    /// Settings that the namespace may read but not set: one value for the whole machine.
    machine: BTreeSet<&'static str>,
    /// Network namespace in which commands are run.
    pub place: AuditedNamespace,
}

impl Sysctls {
    /// Reads them in the calling thread's namespace.
    pub fn read(place: &AuditedNamespace) -> Self {
        let mut sysctls = Self { place: place.clone(), ..Self::default() };
        for &name in NAMES {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            let Ok(text) = fs::read_to_string(&path) else { continue };
            sysctls.set(name, &text.split_whitespace().collect::<Vec<_>>().join(" "));
            if fs::metadata(&path).is_ok_and(|it| it.mode() & 0o200 == 0) {
                sysctls.machine.insert(name);
            }
        }
        sysctls
    }

    /// Takes from the namespace that tcpwhy was started in what has one value for the whole machine
    /// and is not shown elsewhere.
    pub fn complete(&mut self, outer: &Self) {
        for name in MACHINE {
            if let (None, Some(value)) = (self.text(name), outer.text(name)) {
                self.set(name, value);
                self.machine.insert(name);
            }
        }
    }

    /// Sets a value, as a test's kernel has it.
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_owned(), value.to_owned());
    }

    /// Returns the value as text; `None` if this kernel or namespace does not have the setting.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Returns the value as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// Returns the numbers of a value that contains several.
    pub fn numbers(&self, name: &str) -> Vec<u64> {
        let words = self.text(name).unwrap_or_default().split_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    }

    /// Returns the command that changes the setting.
    pub fn command(&self, name: &str, value: &str) -> String {
        let is_machines = self.machine.contains(name);
        let place = if is_machines { AuditedNamespace::Here } else { self.place.clone() };
        let quoted = if value.contains(' ') { format!("'{value}'") } else { value.to_owned() };
        place.command(&format!("sysctl -w {name}={quoted}"))
    }

    /// Returns whether the setting has one value for the whole machine, which the namespace may not
    /// set.
    pub fn is_machines(&self, name: &str) -> bool {
        self.machine.contains(name)
    }

    /// Returns a change of one setting, with the command that restores the present value.
    pub fn change(&self, name: &str, value: &str, what: &str, risk: &str) -> Change {
        let undo = match self.text(name) {
            Some(now) => self.command(name, now),
            None => "not set now".to_owned(),
        };
        let machine = " (one value for the whole machine, set outside of the namespace)";
        let machine = if self.is_machines(name) { machine } else { "" };
        Change::command(format!("{what}{machine}"), self.command(name, value), risk, undo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_and_its_undo_run_in_the_audited_namespace() {
        let mut sysctls =
            Sysctls { place: AuditedNamespace::Named("blue".into()), ..Sysctls::default() };
        sysctls.set("net.ipv4.tcp_rmem", "4096 131072 6291456");
        let change = sysctls.change("net.ipv4.tcp_rmem", "4096 131072 16777216", "raise", "memory");
        let command = "ip netns exec blue sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'";
        assert_eq!(change.command.as_deref(), Some(command));
        let undo = "ip netns exec blue sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'";
        assert_eq!(change.undo, undo);
    }

    #[test]
    fn present_settings_are_read() {
        let sysctls = Sysctls::read(&AuditedNamespace::Here);
        assert!(sysctls.number("net.core.somaxconn").is_some_and(|value| value > 0));
        assert_eq!(sysctls.numbers("net.ipv4.ip_local_port_range").len(), 2);
    }
}
