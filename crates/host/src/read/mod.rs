//! Reads a host: `/proc`, `/sys`, netlink and configuration files. Other modules judge the facts.

mod cgroup;
mod counters;
mod database;
mod device;
mod filter;
mod jvm;
mod nginx;
mod pressure;
pub mod program;
mod resolver;
mod sockets;
mod udp;
mod work;

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::facts::{Facts, UdpDrops, Unread};
use super::jvm::parse;
use super::place::AuditedNamespace;
use super::sockets::program;
use super::sysctl::Sysctls;
use tcpwhy_live::counters::Growth;
use tcpwhy_live::error::LiveError;
use tcpwhy_live::netns::Netns;
use tcpwhy_live::process::Holders;
use tcpwhy_live::route::{NextHop, Route};

/// Reads the place over a sample of this length.
///
/// # Errors
/// The namespace or process does not exist or may not be entered, or the kernel lists no sockets.
pub fn gather(place: &AuditedNamespace, sample: Duration) -> Result<Facts, LiveError> {
    let netns = place.netns()?;
    let outer = Sysctls::read(&AuditedNamespace::Here);
    let mut facts = netns.inside(|| inside(place, &netns, sample))??;
    facts.sysctls.complete(&outer);
    Ok(facts)
}

/// Reads the facts in the calling thread's namespace.
fn inside(place: &AuditedNamespace, netns: &Netns, sample: Duration) -> Result<Facts, LiveError> {
    let mut facts = Facts { place: place.clone(), ..Facts::default() };
    let udp_before = udp::read();
    let interrupts_before = device::interrupts();
    let holders_before = Holders::read(None);
    let rules_before = filter::read();
    let mut working = work::Watched::begin(&holders_before, netns.inode);
    let collected_before = jvm::counters(&holders_before, netns.inode);
    let mut watched = sockets::Watched::begin()?;
    let (before, _) = counters::read();
    let began = Instant::now();
    watched.until(began + sample, || working.look())?;
    let (after, links) = counters::read();
    let over_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    facts.growth = Growth { before, after, over_ns };
    let udp_after = udp::read();
    let interrupts_after = device::interrupts();
    facts.sysctls = Sysctls::read(place);
    let holders = Holders::read(None);
    facts.sockets = watched.end(&holders_before, &holders)?;
    facts.udp_drops = udp_drops(&udp_before, &udp_after, &holders);
    facts.sockstat = counters::sockstat();
    facts.cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
    match links {
        Ok(links) => facts.links = links,
        Err(error) => facts.unread.push(Unread {
            what: "interfaces and their queues".to_owned(),
            needs: error.to_string(),
        }),
    }
    facts.programs = program::read(&holders, netns.inode);
    let processes: Vec<_> = facts.programs.iter().map(|it| it.process.clone()).collect();
    let mut collected_after = jvm::counters(&holders, netns.inode);
    // Before the devices: their /sys hides the control groups.
    facts.work = working.end(&processes, &facts.sockets.served);
    device::complete(&mut facts, netns, &interrupts_before, &interrupts_after);
    if let Ok(mut route) = Route::open() {
        facts.addresses = route.addresses().unwrap_or_default();
        facts.neighbours = route.neighbours().unwrap_or_default();
    }
    facts.nginx = nginx::read(&facts.programs);
    let nginx = facts.nginx.iter();
    facts.own_roots =
        nginx.filter(|it| is_same_file(it.pid, &it.config)).map(|it| it.pid).collect();
    let javas = facts.programs.iter().filter(|it| it.process.command == "java");
    facts.jvms = javas.map(|it| parse(it.process.pid, &it.arguments, &it.environment)).collect();
    for jvm in &mut facts.jvms {
        let after = collected_after.remove(&jvm.pid);
        let both = after.zip(collected_before.get(&jvm.pid));
        jvm.collected = both.map(|(after, before)| after.since(before));
    }
    facts.databases = database::read(&facts.programs);
    facts.resolver = resolver::read(place);
    facts.next_hops = next_hops(&facts);
    facts.rules = filter::read();
    facts.rules.compare(&rules_before);
    unread(&mut facts, &holders);
    Ok(facts)
}

/// Adds the facts that could not be read for lack of privileges.
fn unread(facts: &mut Facts, holders: &Holders) {
    if holders.unreadable > 0 {
        facts.unread.push(Unread {
            what: format!(
                "sockets, descriptors and settings of {} processes of other users",
                holders.unreadable
            ),
            needs: "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH; use sudo".to_owned(),
        });
    }
    if facts.resolver.file.is_none() {
        let needs = match &facts.place {
            AuditedNamespace::Process(_) => {
                "CAP_SYS_PTRACE, to see the files of the process; use sudo"
            }
            _ => "the file: there is none",
        };
        facts.unread.push(Unread { what: "resolv.conf".to_owned(), needs: needs.to_owned() });
    }
    for why in &facts.rules.unread {
        if why.contains("CAP_NET_ADMIN") || why.contains("not installed") {
            let needs = why.clone();
            facts.unread.push(Unread { what: "packet filter rules".to_owned(), needs });
        }
    }
}

fn udp_drops(before: &udp::Drops, after: &udp::Drops, holders: &Holders) -> Vec<UdpDrops> {
    let mut found: Vec<UdpDrops> = Vec::new();
    for (inode, (port, drops)) in after {
        let grew = drops - before.get(inode).map_or(0, |it| it.1).min(*drops);
        if grew > 0 {
            let holder = holders.by_inode.get(inode).filter(|_| *inode != 0);
            let process = holder.and_then(|holder| holders.processes.get(holder.process));
            found.push(UdpDrops {
                local: format!("UDP port {port}"),
                drops: grew,
                program: program(process),
            });
        }
    }
    found.sort_by_key(|it| std::cmp::Reverse(it.drops));
    found
}

/// Returns where packets for peers that were waited for, and for nameservers, are sent first.
fn next_hops(facts: &Facts) -> BTreeMap<IpAddr, NextHop> {
    let Ok(mut route) = Route::open() else { return BTreeMap::new() };
    let peers = facts.sockets.awaited_peers().into_iter();
    let peers = peers.chain(facts.resolver.nameservers.iter().copied());
    peers.filter_map(|peer| Some((peer, route.next_hop(peer).ok()?))).collect()
}

/// Returns whether `path` is the same file for a process and for the caller.
fn is_same_file(pid: u32, path: &Path) -> bool {
    let below = Path::new("/proc").join(pid.to_string()).join("root");
    let theirs = fs::metadata(below.join(path.strip_prefix("/").unwrap_or(path)));
    let number = |it: fs::Metadata| (it.dev(), it.ino());
    theirs.is_ok_and(|it| fs::metadata(path).is_ok_and(|own| number(own) == number(it)))
}

/// Addresses of a namespace and the nameservers of the place, by which findings of a report are
/// taken for this host's.
pub fn ends(facts: &Facts) -> (&[IpAddr], &[IpAddr]) {
    (&facts.addresses, &facts.resolver.nameservers)
}

/// Returns the text of a file below `/proc/net` in the calling thread's namespace; empty if it does
/// not exist.
fn net(name: &str) -> String {
    fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
}
