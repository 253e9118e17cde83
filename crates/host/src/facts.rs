//! The facts that the checks judge: they are read once and judged by pure functions.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use tcpwhy_core::model::Cause;

use super::database::Database;
use super::entry::Evidence;
use super::jvm::Jvm;
use super::nginx::Nginx;
use super::place::AuditedNamespace;
use super::read::program::Program;
use super::report::{Finding, Whose};
use super::rules::Rules;
use super::sockets::Sockets;
use super::sysctl::Sysctls;
use super::work::Work;
use tcpwhy_live::counters::Growth;
use tcpwhy_live::link::Link;
use tcpwhy_live::resolver::Resolver;
use tcpwhy_live::route::{Neighbours, NextHop};

/// Facts read from a host.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Network namespace in which commands are run.
    pub place: AuditedNamespace,
    /// Counters over the sample.
    pub growth: Growth,
    /// Settings.
    pub sysctls: Sysctls,
    /// TCP sockets.
    pub sockets: Sockets,
    /// UDP sockets that dropped datagrams during the sample.
    pub udp_drops: Vec<UdpDrops>,
    /// `/proc/net/sockstat`, as `TCP.orphan`.
    pub sockstat: tcpwhy_live::counters::Counters,
    /// Addresses of the namespace.
    pub addresses: Vec<IpAddr>,
    /// Interfaces.
    pub links: Vec<Link>,
    /// Neighbour tables of IPv4 and IPv6.
    pub neighbours: Neighbours,
    /// Where packets for peers that were waited for, and for nameservers, are sent first.
    pub next_hops: BTreeMap<IpAddr, NextHop>,
    /// What programs with sockets did and waited for.
    pub work: Work,
    /// Number of CPUs.
    pub cpus: u64,
    /// Programs that hold sockets.
    pub programs: Vec<Program>,
    /// Running masters of nginx.
    pub nginx: Vec<Nginx>,
    /// Nginx masters whose configuration path names the same file for them and for the caller.
    pub own_roots: Vec<u32>,
    /// Running JVMs.
    pub jvms: Vec<Jvm>,
    /// Running databases.
    pub databases: Vec<Database>,
    /// Name resolution.
    pub resolver: Resolver,
    /// Packet filter and translation of addresses.
    pub rules: Rules,
    /// Findings of the report.
    pub findings: Vec<Finding>,
    /// Facts that could not be read.
    pub unread: Vec<Unread>,
}

/// Something that could not be read, and what it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Unread {
    /// The fact that could not be read.
    pub what: String,
    /// The capability, program or kernel feature that is missing.
    pub needs: String,
}

/// A UDP socket that dropped datagrams during the sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpDrops {
    /// Local address.
    pub local: String,
    /// Number of dropped datagrams.
    pub drops: u64,
    /// `PROGRAM (pid N)`.
    pub program: String,
}

impl Facts {
    /// Returns whether an nginx master sees the same configuration file as the caller.
    pub fn is_own_root(&self, pid: u32) -> bool {
        self.own_roots.contains(&pid)
    }

    /// Returns a counter as evidence, if it grew.
    pub fn grew(&self, counter: &str) -> Option<Evidence> {
        self.grew_from(counter, 1)
    }

    /// Returns a counter as evidence, if it grew by `least` or more.
    pub fn grew_from(&self, counter: &str, least: u64) -> Option<Evidence> {
        let grew_by = self.growth.of(counter);
        let over_ns = self.growth.over_ns;
        (grew_by >= least.max(1)).then(|| Evidence::Counter {
            counter: counter.to_owned(),
            grew_by,
            over_ns,
        })
    }

    /// Returns the counters of `counters` that grew, as evidence.
    pub fn all_grown(&self, counters: &[&str]) -> Vec<Evidence> {
        counters.iter().filter_map(|counter| self.grew(counter)).collect()
    }

    /// Findings of the report with one of these causes, whose culprit is this host.
    pub fn own_findings(&self, causes: &[Cause]) -> impl Iterator<Item = &Finding> {
        let causes = causes.to_vec();
        let findings = self.findings.iter();
        findings.filter(move |it| it.whose == Whose::Here && causes.contains(&it.cause))
    }

    /// Findings with one of these causes whose culprit is this host, or the path or the resolver
    /// next to it.
    pub fn near_findings(&self, causes: &[Cause]) -> impl Iterator<Item = &Finding> {
        let causes = causes.to_vec();
        let findings = self.findings.iter();
        findings.filter(move |it| it.whose != Whose::Elsewhere && causes.contains(&it.cause))
    }
}

/// Findings as evidence.
pub fn reported<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<Evidence> {
    let evidence = findings.map(|it| Evidence::Report {
        finding: it.finding,
        cause: it.cause,
        headline: it.headline.clone(),
    });
    evidence.collect()
}

/// Returns a state as evidence.
pub fn state(sentence: impl Into<String>) -> Evidence {
    Evidence::State { sentence: sentence.into() }
}
