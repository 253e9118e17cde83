//! A limit of SYNs per source address by an XDP program at network interfaces.

use std::io;

use super::error::TreatError;
use super::host::Restored;
use super::record::{By, XdpChange};
use super::route::ip;
use super::system;
use crate::hooks::{pinned, syn_limit};
use crate::netns::Netns;

/// Plans the programs for a port: at `devices`, or at the interfaces where packets of other hosts
/// arrive.
pub(super) fn plan(
    netns: &Netns,
    port: u16,
    syns_per_second: u32,
    devices: &[String],
) -> Result<Vec<XdpChange>, TreatError> {
    let devices = if devices.is_empty() { entrances(netns)? } else { devices.to_vec() };
    let By { pid, pid_start_ticks, .. } = system::by();
    let change = |device: String| XdpChange {
        netns: netns.inode,
        netns_name: netns.name.clone(),
        // A name that no other treatment has: an undo of this one must not end another. A dot has a
        // meaning of its own in the BPF file system.
        pin: pinned::path(&format!("syn-{pid}-{pid_start_ticks}-{}", device.replace('.', "_"))),
        device,
        port,
        syns_per_second,
    };
    Ok(devices.into_iter().map(change).collect())
}

/// Interfaces of the default routes; without one, the only interface that is up.
fn entrances(netns: &Netns) -> Result<Vec<String>, TreatError> {
    let refused = |error: io::Error| TreatError::Xdp { said: error.to_string() };
    let mut devices = Vec::new();
    for family in ["-4", "-6"] {
        let said = ip(netns, &[family, "-o", "route", "show", "default"]).map_err(refused)?;
        devices.extend(after_dev(&said));
    }
    devices.sort_unstable();
    devices.dedup();
    if !devices.is_empty() {
        return Ok(devices);
    }
    let up = up(&ip(netns, &["-o", "link", "show", "up"]).map_err(refused)?);
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

pub(super) fn make(change: &XdpChange) -> Result<(), TreatError> {
    let Some(netns) = Netns::with_inode(change.netns) else {
        return Err(TreatError::Xdp { said: "its network namespace is gone".into() });
    };
    let XdpChange { device, port, syns_per_second, pin, .. } = change;
    let attached = netns.inside(|| syn_limit::attach(device, *port, *syns_per_second, pin))?;
    attached.map_err(|lack| TreatError::Xdp { said: format!("{device}: {lack}") })
}

/// Returns the number of SYNs that the program has dropped.
pub(super) fn dropped(change: &XdpChange) -> u64 {
    syn_limit::dropped(&change.pin)
}

/// Removes the pin of the link: the link ends with it, and the kernel detaches the program.
pub(super) fn restore(change: &XdpChange) -> io::Result<Restored> {
    match syn_limit::detach(&change.pin) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Restored::Gone),
        other => other.map(|()| Restored::Done),
    }
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
