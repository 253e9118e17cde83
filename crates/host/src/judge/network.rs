//! IP: filters by source address, path MTU, fragments, neighbours, ICMP, forwarding.

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::count;

use super::Check;
use crate::entry::{Entry, Layer, Rank};
use crate::facts::{Facts, reported};

pub const CHECKS: &[Check] = &[
    Check { id: "rp_filter", layer: Layer::Network, judge: rp_filter },
    Check { id: "path_mtu", layer: Layer::Network, judge: path_mtu },
    Check { id: "fragments", layer: Layer::Network, judge: fragments },
    Check { id: "neighbours", layer: Layer::Network, judge: neighbours },
    Check { id: "icmp_ratelimit", layer: Layer::Network, judge: icmp },
    Check { id: "forwarding", layer: Layer::Network, judge: forwarding },
];

fn rp_filter(check: &Check, facts: &Facts) -> Vec<Entry> {
    let all = facts.sysctls.number("net.ipv4.conf.all.rp_filter").unwrap_or(0);
    // The larger of `all` and the interface's counts.
    let strict: Vec<_> = facts
        .links
        .iter()
        .filter(|it| it.rp_filter.unwrap_or(0).max(all) == 1)
        .map(|it| it.name.as_str())
        .collect();
    let value = match &strict[..] {
        [] => format!("not strict (all: {all})"),
        names => format!("strict at {}", names.join(", ")),
    };
    let why = "strict: a packet is dropped without a word where its answer would leave by another \
               interface, as with two uplinks";
    let entry = check.entry("filter by source address (rp_filter)", value, why);
    let evidence: Vec<_> = facts.grew("TcpExt.IPReversePathFilter").into_iter().collect();
    let name = match strict.first() {
        Some(link) if all != 1 => format!("net.ipv4.conf.{link}.rp_filter"),
        _ => "net.ipv4.conf.all.rp_filter".to_owned(),
    };
    let what = "make it loose (the source must be reachable by any interface), or repair routing";
    let risk = "forged source addresses pass that strict mode would drop";
    let mut change = facts.sysctls.change(&name, "2", what, risk);
    let now = facts.links.iter().find(|it| name.contains(&format!(".{}.", it.name)));
    if let Some(now) = now.and_then(|it| it.rp_filter) {
        change.undo = facts.sysctls.command(&name, &now.to_string());
    }
    let causes = [Cause::SynRetransmit, Cause::RetransmissionTimeout];
    vec![entry.explains(&causes, evidence).ranked(Rank::Limit).change(change)]
}

fn path_mtu(check: &Check, facts: &Facts) -> Vec<Entry> {
    let name = "net.ipv4.tcp_mtu_probing";
    let Some(probing) = facts.sysctls.number(name) else { return Vec::new() };
    let off = facts.sysctls.number("net.ipv4.ip_no_pmtu_disc").unwrap_or(0);
    let sizes: Vec<_> = facts.links.iter().filter(|it| it.is_up && !it.is_loopback).collect();
    let sizes: Vec<_> = sizes.iter().map(|it| format!("{} {}", it.name, it.mtu)).collect();
    let value = format!(
        "tcp_mtu_probing {probing}; ip_no_pmtu_disc {off}; MTU {}",
        if sizes.is_empty() { "of no interface".to_owned() } else { sizes.join(", ") }
    );
    let why = "where a device drops large packets and its ICMP message is lost, only probing finds \
               the size that passes";
    let entry = check.entry("path MTU discovery", value, why);
    let evidence = reported(facts.near_findings(&[Cause::MtuBlackHole]));
    if probing > 0 {
        return vec![entry];
    }
    let what = "let TCP find the size after a timeout; the repair is on the path (let ICMP \
                fragmentation-needed pass, or clamp the MSS there)";
    let risk = "after a plain outage connections may go on with smaller segments for a while";
    let change = facts.sysctls.change(name, "1", what, risk);
    vec![entry.explains(&[Cause::MtuBlackHole], evidence).change(change)]
}

fn fragments(check: &Check, facts: &Facts) -> Vec<Entry> {
    let name = "net.ipv4.ipfrag_high_thresh";
    let Some(limit) = facts.sysctls.number(name) else { return Vec::new() };
    let failed = facts.growth.of("Ip.ReasmFails");
    let value =
        format!("{} not put together in the sample; memory for them {limit}", count(failed));
    let why = "a datagram whose fragments do not all arrive is lost as a whole (large DNS answers, \
               tunnels)";
    let entry = check.entry("IP fragments", value, why);
    let evidence = facts.all_grown(&["Ip.ReasmFails", "Ip6.ReasmFails"]);
    let what = "find what loses fragments (a firewall that drops all but the first); give more \
                memory where many arrive";
    let risk = "kernel memory for fragments that never become whole";
    let change = facts.sysctls.change(name, &(limit * 4).to_string(), what, risk);
    vec![entry.explains(&[Cause::DnsTimeout], evidence).ranked(Rank::Consequence).change(change)]
}

fn neighbours(check: &Check, facts: &Facts) -> Vec<Entry> {
    let name = "net.ipv4.neigh.default.gc_thresh3";
    let limit = facts.sysctls.number(name);
    let value = match limit {
        Some(limit) => format!(
            "{} of {} (IPv4), {} (IPv6)",
            count(facts.neighbours.counts[0]),
            count(limit),
            count(facts.neighbours.counts[1])
        ),
        None => format!(
            "{} (IPv4), {} (IPv6); the limit is the whole machine's",
            count(facts.neighbours.counts[0]),
            count(facts.neighbours.counts[1])
        ),
    };
    let why = "hosts on the same link; when the table is full, packets to new ones are dropped";
    let entry = check.entry("neighbour table", value, why);
    let evidence = facts.all_grown(&["arp_cache.table_fulls", "ndisc_cache.table_fulls"]);
    let (Some(limit), false) = (limit, evidence.is_empty()) else { return vec![entry] };
    let risk = "memory for each neighbour; raise gc_thresh1 and gc_thresh2 with it";
    let what = "allow more neighbours";
    let change = facts.sysctls.change(name, &(limit * 4).to_string(), what, risk);
    let causes = [Cause::SynRetransmit];
    vec![entry.explains(&causes, evidence).ranked(Rank::Limit).change(change)]
}

fn icmp(check: &Check, facts: &Facts) -> Vec<Entry> {
    let name = "net.ipv4.icmp_ratelimit";
    let Some(limit) = facts.sysctls.number(name) else { return Vec::new() };
    let second = facts.sysctls.text("net.ipv4.icmp_msgs_per_sec").unwrap_or("unknown");
    let value = format!("one message in {limit} ms to each host, {second} a second to all");
    let why = "errors above the limit are not sent: senders behind this router then do not learn \
               the size that passes, and traceroute shows gaps";
    let entry = check.entry(name, value, why);
    let findings = reported(facts.near_findings(&[Cause::MtuBlackHole]));
    let mut evidence = facts.all_grown(&["Icmp.OutRateLimitGlobal", "Icmp.OutRateLimitHost"]);
    if findings.is_empty() || evidence.is_empty() {
        return vec![entry];
    }
    evidence.extend(findings);
    let risk = "more ICMP under a scan";
    let change = facts.sysctls.change(name, "100", "send errors more often", risk);
    vec![entry.explains(&[Cause::MtuBlackHole], evidence).change(change)]
}

fn forwarding(check: &Check, facts: &Facts) -> Vec<Entry> {
    let number = |name: &str| facts.sysctls.text(name).unwrap_or("unknown").to_owned();
    let value = format!(
        "ip_forward {}; TTL {}",
        number("net.ipv4.ip_forward"),
        number("net.ipv4.ip_default_ttl")
    );
    let why = "1: this host routes for others; a TTL below 64 may not reach far hosts";
    vec![check.entry("forwarding", value, why)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{find, grow, idle, loud, only};
    use tcpwhy_live::link::Link;

    #[test]
    fn the_interface_that_drops_by_source_is_changed() {
        let mut facts = idle();
        let name = "eth1".to_owned();
        facts.links.push(Link { name, rp_filter: Some(1), ..Link::default() });
        facts.sysctls.set("net.ipv4.conf.all.rp_filter", "0");
        assert_eq!(loud(&facts), []);
        grow(&mut facts, "TcpExt.IPReversePathFilter", 12);
        let change = only(&facts).change.unwrap();
        assert_eq!(change.command.unwrap(), "sysctl -w net.ipv4.conf.eth1.rp_filter=2");
        assert_eq!(change.undo, "sysctl -w net.ipv4.conf.eth1.rp_filter=1");
    }

    #[test]
    fn a_black_hole_beside_this_host_leads_to_probing() {
        let mut facts = idle();
        find(&mut facts, Cause::MtuBlackHole, "network", "10.0.0.2");
        assert_eq!(only(&facts).check, "path_mtu");
        facts.sysctls.set("net.ipv4.tcp_mtu_probing", "1");
        assert_eq!(loud(&facts), [], "it is on");
    }
}
