//! Interfaces: errors, drops, queues, rings.

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{count, counted};

use super::Check;
use crate::entry::{Change, Entry, Evidence, Layer, Rank};
use crate::facts::Facts;
use tcpwhy_live::link::Link;

pub const CHECKS: &[Check] = &[
    Check { id: "interface_drops", layer: Layer::Link, judge: drops },
    Check { id: "qdisc", layer: Layer::Link, judge: qdisc },
    Check { id: "interface_settings", layer: Layer::Link, judge: settings },
];

/// Fewer drops of an interface than this are normal: they include packets of protocols that this
/// host does not use.
const DROPS_MIN: u64 = 10;
/// A share of drops below one in this many packets is normal as well.
const ONE_IN: u64 = 1_000;

/// Counters of `link` that grew enough.
fn grown(facts: &Facts, link: &Link, names: &[&str], packets: &str) -> Vec<Evidence> {
    let passed = facts.growth.of(&format!("{}.{packets}", link.name));
    let least = DROPS_MIN.max(passed / ONE_IN);
    let names = names.iter().map(|name| format!("{}.{name}", link.name));
    names.filter_map(|name| facts.grew_from(&name, least)).collect()
}

const CAUSES: [Cause; 2] = [Cause::FastRecovery, Cause::RetransmissionTimeout];

fn drops(check: &Check, facts: &Facts) -> Vec<Entry> {
    let mut entries = Vec::new();
    for link in &facts.links {
        // If the ring is full the card drops packets, so any drop counts.
        let ring = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];
        let ring = ring.map(|name| format!("{}.{name}", link.name));
        let ring: Vec<_> = ring.iter().filter_map(|name| facts.grew(name)).collect();
        let rx = grown(facts, link, &["rx_dropped", "rx_errors"], "rx_packets");
        let tx = grown(facts, link, &["tx_dropped", "tx_errors"], "tx_packets");
        let evidence: Vec<_> = [ring.clone(), rx, tx].concat();
        if evidence.is_empty() {
            continue;
        }
        let value = match link.rings {
            Some(it) => format!(
                "rings: receive {} of {}, transmit {} of {}",
                it.rx, it.rx_max, it.tx, it.tx_max
            ),
            None => "no rings that can be set".to_owned(),
        };
        let why = "packets that the interface drops or damages are lost to both directions' TCP";
        let change = match link.rings.filter(|it| !ring.is_empty() && it.rx < it.rx_max) {
            Some(it) => Change::command(
                "give the card more room for bursts",
                facts.place.command(&format!("ethtool -G {} rx {}", link.name, it.rx_max)),
                "the interface pauses for a moment; a little more delay under load",
                facts.place.command(&format!("ethtool -G {} rx {}", link.name, it.rx)),
            ),
            None => Change::look(format!(
                "find out which: `ip -s -s link show {0}`, `ethtool -S {0}`; errors are cable, \
                     module or duplex, drops are a receiver that is too slow",
                link.name
            )),
        };
        let what = format!("drops and errors of {}", link.name);
        let entry = check.entry(what, value, why).explains(&CAUSES, evidence);
        entries.push(entry.ranked(Rank::Limit).change(change));
    }
    if entries.is_empty() && !facts.links.is_empty() {
        let value = counted(facts.links.len() as u64, "interface", "interfaces");
        let why = "packets that an interface drops or damages have to be sent again";
        entries.push(check.entry(
            "drops and errors of interfaces",
            format!("none that matter at {value}"),
            why,
        ));
    }
    entries
}

fn qdisc(check: &Check, facts: &Facts) -> Vec<Entry> {
    let mut entries = Vec::new();
    for link in facts.links.iter().filter(|it| it.is_up && it.qdisc != "noqueue") {
        let requeues = facts.growth.of(&format!("{}.qdisc_requeues", link.name));
        let value = format!(
            "{}, txqueuelen {}; {} packets wait; {} requeues in the sample",
            link.qdisc,
            count(link.txqueuelen),
            count(link.backlog.1),
            count(requeues)
        );
        let why = "what is sent faster than the interface takes it waits here, and is dropped when \
                   the queue is full; a long queue is delay for all";
        let entry = check.entry(format!("send queue of {}", link.name), value, why);
        let evidence = grown(facts, link, &["qdisc_drops"], "tx_packets");
        let change = Change::look(format!(
            "send less than the link or shaper passes; `tc -s qdisc show dev {}` shows which \
                 class drops; a longer queue only adds delay",
            link.name
        ));
        let causes = [Cause::FastRecovery, Cause::Bufferbloat];
        entries.push(entry.explains(&causes, evidence).ranked(Rank::Limit).change(change));
    }
    entries
}

fn settings(check: &Check, facts: &Facts) -> Vec<Entry> {
    let entries = facts.links.iter().filter(|it| it.is_up && !it.is_loopback).map(|link| {
        let mut parts = vec![format!("MTU {}", link.mtu)];
        parts.push(format!("queues {} rx, {} tx", link.queues.0, link.queues.1));
        if let Some(it) = link.rings {
            parts.push(format!(
                "rings {} of {} rx, {} of {} tx",
                it.rx, it.rx_max, it.tx, it.tx_max
            ));
        }
        if let Some(offloads) = &link.offloads {
            let off = offloads.iter().filter(|(_, is_on)| !is_on).map(|(name, _)| *name);
            let off: Vec<_> = off.collect();
            let off = if off.is_empty() { "none".to_owned() } else { off.join(" ") };
            parts.push(format!("offloads off: {off}"));
        }
        parts.push(format!("RPS on {} queues", link.rps_queues));
        let interrupts: Vec<_> =
            link.interrupts.iter().map(|it| format!("{} on CPU {}", it.irq, it.cpus)).collect();
        if !interrupts.is_empty() {
            parts.push(format!("interrupts {}", interrupts.join(", ")));
        }
        let why = "they decide how many CPUs receive, and how much work each packet is";
        check.entry(format!("interface {}", link.name), parts.join("; "), why)
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{grow, idle, loud, only};
    use tcpwhy_live::link::Rings;

    fn facts() -> Facts {
        let mut facts = idle();
        facts.links.push(Link {
            name: "eth0".into(),
            is_up: true,
            qdisc: "fq_codel".into(),
            rings: Some(Rings { rx: 256, rx_max: 4_096, tx: 256, tx_max: 4_096 }),
            ..Link::default()
        });
        grow(&mut facts, "eth0.rx_packets", 100_000);
        facts
    }

    #[test]
    fn a_ring_that_overflows_is_made_larger() {
        let mut facts = facts();
        grow(&mut facts, "eth0.rx_missed_errors", 1);
        let change = only(&facts).change.unwrap();
        assert_eq!(change.command.unwrap(), "ethtool -G eth0 rx 4096");
        assert_eq!(change.undo, "ethtool -G eth0 rx 256");
    }

    #[test]
    fn a_few_unwanted_packets_are_no_symptom() {
        let mut facts = facts();
        grow(&mut facts, "eth0.rx_dropped", 99);
        assert_eq!(loud(&facts), [], "less than one in a thousand");
        grow(&mut facts, "eth0.rx_dropped", 200);
        assert_eq!(only(&facts).check, "interface_drops");
    }

    #[test]
    fn a_full_send_queue_is_named() {
        let mut facts = facts();
        grow(&mut facts, "eth0.qdisc_drops", 50);
        assert_eq!(only(&facts).explains, [Cause::FastRecovery, Cause::Bufferbloat]);
    }
}
