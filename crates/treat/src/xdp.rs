//! A limit of SYNs per source address by an XDP program at network interfaces.

use std::io;
use std::thread;
use std::time::Duration;

use super::error::TreatError;
use super::host::Restored;
use super::namespace::Namespace;
use super::record::{Process, XdpChange};
use super::{helper, system};
use crate::hooks::{pinned, syn_limit};
use tcpwhy_live::netlink::{Netlink, attributes, word};
use tcpwhy_live::netns::Netns;

const RTM_GETLINK: u16 = 18;
/// `struct ifinfomsg`.
const LINK_BYTES: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
/// Number of times that the end of a program is waited for.
const PATIENCE: u32 = 100;

/// Plans the programs for a port: at `devices`, or at the interfaces where packets of other hosts
/// arrive.
pub(super) fn plan(
    netns: &Netns,
    port: u16,
    syns_per_second: u32,
    devices: &[String],
) -> Result<Vec<XdpChange>, TreatError> {
    let devices = if devices.is_empty() { entrances(netns)? } else { devices.to_vec() };
    let Process { pid, pid_start_ticks } = system::by().process;
    let namespace = Namespace::of(netns)?;
    let change = |device: String| XdpChange {
        namespace: namespace.clone(),
        // A name that no other treatment has: an undo of this one must not end another. A dot has a
        // meaning of its own in the BPF file system.
        pin: pinned::path(&format!("syn-{pid}-{pid_start_ticks}-{}", device.replace('.', "_"))),
        device,
        port,
        syns_per_second,
        program: None,
    };
    Ok(devices.into_iter().map(change).collect())
}

/// Interfaces of the default routes; without one, the only interface that is up.
fn entrances(netns: &Netns) -> Result<Vec<String>, TreatError> {
    let refused = |error: io::Error| TreatError::Xdp { said: error.to_string() };
    let mut devices = Vec::new();
    for family in ["-4", "-6"] {
        let said = helper::run(netns, "ip", &[family, "-o", "route", "show", "default"])
            .map_err(refused)?;
        devices.extend(after_dev(&said));
    }
    devices.sort_unstable();
    devices.dedup();
    if !devices.is_empty() {
        return Ok(devices);
    }
    let up = up(&helper::run(netns, "ip", &["-o", "link", "show", "up"]).map_err(refused)?);
    match <[String; 1]>::try_from(up) {
        Ok(only) => Ok(only.into()),
        Err(several) => Err(TreatError::NoDevice { devices: several.join(", ") }),
    }
}

/// Returns the devices of routes as `ip -o route` prints them, including those of multipath routes.
fn after_dev(said: &str) -> Vec<String> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let devices = words.windows(2).filter(|pair| pair[0] == "dev");
    devices.map(|pair| pair[1].to_owned()).collect()
}

/// Interfaces as `ip -o link` prints them, without loopback.
fn up(said: &str) -> Vec<String> {
    let others = said.lines().filter(|line| !line.contains("LOOPBACK"));
    let names = others.filter_map(|line| line.split_whitespace().nth(1));
    let bare = names.map(|name| name.trim_end_matches(':').split('@').next().unwrap_or_default());
    bare.map(str::to_owned).collect()
}

/// Attaches the program, and returns the change with its number.
pub(super) fn make(change: &XdpChange) -> Result<XdpChange, TreatError> {
    let refused = |error: io::Error| TreatError::Xdp { said: error.to_string() };
    let netns = change.namespace.open().map_err(refused)?;
    let XdpChange { device, port, syns_per_second, pin, .. } = change;
    let attached = netns.inside(|| syn_limit::attach(device, *port, *syns_per_second, pin))?;
    attached.map_err(|lack| TreatError::Xdp { said: format!("{device}: {lack}") })?;
    let program = netns.inside(|| program_at(device))?.map_err(refused)?;
    Ok(XdpChange { program, ..change.clone() })
}

/// Returns the number of the program at an interface of the calling thread's namespace; `None` if
/// it has none, or if there is no such interface.
fn program_at(device: &str) -> io::Result<Option<u32>> {
    let mut found = None;
    Netlink::open()?.dump(RTM_GETLINK, &[0; LINK_BYTES], |body| {
        let all = || attributes(body.get(LINK_BYTES..).unwrap_or_default());
        let is_it = |(kind, value): (u16, &[u8])| {
            kind == IFLA_IFNAME && value.strip_suffix(b"\0") == Some(device.as_bytes())
        };
        if all().any(is_it) {
            let xdp = all().filter(|(kind, _)| *kind == IFLA_XDP);
            let mut numbers = xdp.flat_map(|(_, nested)| attributes(nested));
            let number = numbers.find(|(kind, _)| *kind == IFLA_XDP_PROG_ID);
            found = number.map(|(_, value)| word(value, 0));
        }
    })?;
    Ok(found)
}

/// Returns the number of SYNs that the program has dropped.
pub(super) fn dropped(change: &XdpChange) -> u64 {
    syn_limit::dropped(&change.pin)
}

/// Removes the pin of the link: the link ends with it, and the kernel detaches the program.
pub(super) fn restore(change: &XdpChange) -> io::Result<Restored> {
    let pinned = match syn_limit::detach(&change.pin) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        other => other.map(|()| true)?,
    };
    let Some(netns) = change.namespace.find()? else { return Ok(Restored::Gone) };
    let now = || netns.inside(|| program_at(&change.device)).map_err(io::Error::other)?;
    let is_attached = |now: Option<u32>| now.is_some() && now == change.program;
    if !pinned && is_attached(now()?) {
        return Err(io::Error::other(format!(
            "{} is not seen from here, and the program is still attached: undo it where /sys/fs/bpf \
             is that of the treatment",
            change.pin.display()
        )));
    }
    // The kernel detaches it soon after the last reference has ended.
    for _ in 0..PATIENCE {
        if !is_attached(now()?) {
            return Ok(if pinned { Restored::Done } else { Restored::Gone });
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(io::Error::other("the program is still attached: another process keeps its link"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_from_what_ip_prints() {
        let routes = "default via 10.0.0.1 dev eth0 proto dhcp metric 100 \n\
                      default \\\tnexthop via 10.1.0.1 dev eth1 weight 1 \\\tnexthop via 10.2.0.1 \
                      dev eth2 weight 1 \n";
        assert_eq!(after_dev(routes), ["eth0", "eth1", "eth2"]);
        let links = "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536\n\
                     2: veth0@if3: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500\n";
        assert_eq!(up(links), ["veth0"]);
    }
}
