//! Reads the driver's settings of an interface: offloads, rings, interrupts, CPUs of its queues.
//! Read first: linux/ethtool.h, Documentation/networking/scaling.rst.

use std::collections::BTreeMap;
use std::fs;

use crate::facts::{Facts, Unread};
use tcpwhy_live::link::{Interrupt, Link, Rings};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sys::ethtool::Ethtool;
use tcpwhy_live::sys::mount;

/// Interrupts by number: how often each came, on all CPUs together.
pub type Interrupts = BTreeMap<u32, u64>;

const ETHTOOL_GRINGPARAM: u32 = 0x10;
/// Offloads, by the command that reads each.
const OFFLOADS: [(&str, u32); 6] = [
    ("rx-checksum", 0x14),
    ("tx-checksum", 0x16),
    ("sg", 0x18),
    ("tso", 0x1e),
    ("gso", 0x23),
    ("gro", 0x2b),
];

/// Reads `/proc/interrupts`.
pub fn interrupts() -> Interrupts {
    parse(&fs::read_to_string("/proc/interrupts").unwrap_or_default())
}

fn parse(text: &str) -> Interrupts {
    let cpus = text.lines().next().unwrap_or_default().split_whitespace().count();
    let counts = text.lines().skip(1).filter_map(|line| {
        let (number, rest) = line.trim_start().split_once(':')?;
        let counts = rest.split_whitespace().take(cpus).map_while(|word| word.parse::<u64>().ok());
        Some((number.parse().ok()?, counts.sum()))
    });
    counts.collect()
}

/// Adds to each interface what its driver and `/sys` say.
pub fn complete(facts: &mut Facts, netns: &Netns, before: &Interrupts, after: &Interrupts) {
    let ethtool = Ethtool::open();
    for link in &mut facts.links {
        if let Ok(ethtool) = &ethtool {
            link.offloads = offloads(ethtool, &link.name);
            link.rings = rings(ethtool, &link.name);
        }
        let path = format!("/proc/sys/net/ipv4/conf/{}/rp_filter", link.name);
        link.rp_filter = fs::read_to_string(path).ok().and_then(|it| it.trim().parse().ok());
    }
    // `/sys/class/net` shows the namespace in which it was mounted.
    if !netns.is_own() && mount::own_sysfs().is_err() {
        facts.unread.push(Unread {
            what: "queues and interrupts of interfaces".to_owned(),
            needs: "CAP_SYS_ADMIN; use sudo".to_owned(),
        });
        return;
    }
    for link in &mut facts.links {
        queues(link, before, after);
    }
}

fn offloads(ethtool: &Ethtool, name: &str) -> Option<Vec<(&'static str, bool)>> {
    let values = OFFLOADS.iter().filter_map(|&(offload, command)| {
        let mut value = [command, 0];
        ethtool.call(name, &mut value).ok()?;
        Some((offload, value[1] != 0))
    });
    let values: Vec<_> = values.collect();
    (!values.is_empty()).then_some(values)
}

fn rings(ethtool: &Ethtool, name: &str) -> Option<Rings> {
    // cmd, rx_max, rx_mini_max, rx_jumbo_max, tx_max, rx, rx_mini, rx_jumbo, tx.
    let mut value = [ETHTOOL_GRINGPARAM, 0, 0, 0, 0, 0, 0, 0, 0];
    ethtool.call(name, &mut value).ok()?;
    let [_, rx_max, _, _, tx_max, rx, _, _, tx] = value.map(u64::from);
    (rx_max > 0).then_some(Rings { rx, rx_max, tx, tx_max })
}

fn queues(link: &mut Link, before: &Interrupts, after: &Interrupts) {
    let folder = format!("/sys/class/net/{}", link.name);
    let names = |path: &str| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    for queue in names(&format!("{folder}/queues")) {
        let cpus = fs::read_to_string(format!("{folder}/queues/{queue}/rps_cpus"));
        let is_used =
            cpus.is_ok_and(|text| text.chars().any(|it| it.is_ascii_hexdigit() && it != '0'));
        link.rps_queues += u64::from(is_used);
    }
    // virtio's interrupts belong to its parent.
    let places = ["device/msi_irqs", "device/../msi_irqs"];
    let mut irqs: Vec<u32> = places
        .iter()
        .flat_map(|place| names(&format!("{folder}/{place}")))
        .filter_map(|name| name.parse().ok())
        .collect();
    irqs.sort_unstable();
    link.interrupts = irqs
        .into_iter()
        .map(|irq| {
            let cpus = fs::read_to_string(format!("/proc/irq/{irq}/smp_affinity_list"));
            let came = |all: &Interrupts| all.get(&irq).copied().unwrap_or(0);
            let grew_by = came(after).saturating_sub(came(before));
            Interrupt { irq, cpus: cpus.unwrap_or_default().trim().to_owned(), grew_by }
        })
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_summed_over_cpus() {
        let text = "           CPU0       CPU1\n  24:         10          5  PCI-MSI eth0-0\n\
                    NMI:          1          1   Non-maskable interrupts\n";
        assert_eq!(parse(text), Interrupts::from([(24, 15)]));
    }
}
