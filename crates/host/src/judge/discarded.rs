//! Packets that arrive and are discarded: by a rule of the packet filter, for a wrong checksum, or
//! by a listener for another reason than a full accept queue. Read first: nft(8), iptables(8),
//! Documentation/networking/snmp_counter.rst, RFC 9293 §3.1 (checksum); in the kernel
//! `tcp_conn_request` and `tcp_v4_syn_recv_sock`, which count `ListenDrops`.

use std::net::IpAddr;

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{count, counted, duration, share};

use super::cpu::per_second;
use super::{Check, listen};
use crate::entry::{Change, Entry, Layer, Rank};
use crate::facts::{Facts, reported, state};
use crate::rules::{DropRule, words};
use crate::sockets::program;

pub const CHECKS: &[Check] = &[
    Check { id: "packet_filter_drops", layer: Layer::Network, judge: filtered },
    Check { id: "checksum_errors", layer: Layer::Transport, judge: checksums },
    Check { id: "listen_drops", layer: Layer::Transport, judge: listen_drops },
];

/// Packets that a rule for anything drops each second: scans of one address are fewer.
const DROPPED_MIN: u64 = 10;
/// Rules that are named.
const NAMED_MAX: usize = 3;

/// Returns the values of an option of a rule: those of `dport { 22, 80 }`, `--dports 22,80`.
fn values<'r>(rule: &'r str, options: &[&str]) -> Vec<&'r str> {
    let mut words = words(rule).peekable();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if !options.contains(&word) {
            continue;
        }
        while let Some(value) = words.next_if(|it| it.starts_with(|it: char| it.is_ascii_digit())) {
            found.push(value);
        }
    }
    found
}

fn ports(rule: &str) -> Vec<(u16, u16)> {
    let parse = |value: &str| {
        let (first, last) = value.split_once(['-', ':']).unwrap_or((value, value));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    let all = values(rule, &["dport", "--dport", "--dports"]);
    all.into_iter().filter_map(parse).collect()
}

fn is_private(source: &str) -> bool {
    let address = source.split_once('/').map_or(source, |(address, _)| address);
    match address.parse() {
        Ok(IpAddr::V4(it)) => it.is_private() || it.is_loopback() || it.is_link_local(),
        Ok(IpAddr::V6(it)) => it.is_loopback() || it.is_unique_local(),
        Err(_) => false,
    }
}

/// Returns why packets that a rule drops are missed by someone; `None` where it does what it is
/// there for, as with scans.
fn harm(facts: &Facts, rule: &DropRule) -> Option<String> {
    let text = &rule.text;
    let has = |wanted: &[&str]| words(text).any(|word| wanted.contains(&word));
    if rule.grew_by == 0 {
        return None;
    }
    let is_own = text.contains("ifname \"lo\"") || text.contains("-i lo") || text.contains("-o lo");
    if rule.is_output || is_own {
        return Some("programs of this host send them".to_owned());
    }
    let mut listeners = facts.sockets.listeners.iter();
    let ports = ports(text);
    let is_for = |port: u16| ports.iter().any(|&(first, last)| (first..=last).contains(&port));
    if let Some(listener) = listeners.find(|it| is_for(it.local.port())) {
        let name = program(listener.process.as_ref());
        return Some(format!("{name} listens at port {}", listener.local.port()));
    }
    if has(&["invalid", "INVALID"]) {
        let words = "connection tracking takes them for invalid, as packets of a connection that \
                     it has forgotten or of which it sees one direction";
        return Some(words.to_owned());
    }
    if has(&["random", "numgen", "statistic", "limit", "hashlimit", "connlimit"]) {
        return Some("the rule drops only a part of the packets that it is for".to_owned());
    }
    if values(text, &["saddr", "-s"]).into_iter().any(is_private) {
        return Some("they come from the local network".to_owned());
    }
    let each_second = per_second(rule.grew_by, facts.growth.over_ns);
    if each_second >= DROPPED_MIN {
        return Some(format!("{} each second are more than scans", count(each_second)));
    }
    let causes = [Cause::SynRetransmit, Cause::RetransmissionTimeout, Cause::NoAnswer];
    let is_missed = facts.growth.of("TcpExt.TCPTimeouts") > 0
        || facts.sockets.attempts.iter().any(|it| it.is_unanswered())
        || facts.near_findings(&causes).next().is_some();
    is_missed.then(|| "segments of this host get no answer meanwhile".to_owned())
}

/// Returns whether a rule drops packets that are missed.
pub(super) fn is_filtering(facts: &Facts) -> bool {
    facts.rules.dropping().any(|rule| harm(facts, rule).is_some())
}

fn filtered(check: &Check, facts: &Facts) -> Vec<Entry> {
    let why = "a packet that a rule drops is lost without a word: its sender tries again after a \
               second or more; one that is rejected fails at once";
    let mut rules: Vec<_> = facts.rules.dropping().filter(|rule| rule.grew_by > 0).collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.grew_by));
    let over = duration(facts.growth.over_ns);
    let harmful = rules.iter().filter_map(|rule| Some((rule, harm(facts, rule)?)));
    let mut entries: Vec<_> = harmful
        .take(NAMED_MAX)
        .map(|(rule, harm)| {
            let verb = if rule.rejects { "rejected" } else { "dropped" };
            let dropped = counted(rule.grew_by, "packet", "packets");
            let evidence = vec![state(format!("the rule {verb} {dropped} in {over}; {harm}"))];
            let what = format!("a rule of the packet filter, in chain {}", rule.chain);
            let entry = check.entry(what, rule.text.clone(), why).ranked(Rank::Limit);
            entry.explains(causes(rule), evidence).change(pass(facts, rule))
        })
        .collect();
    if entries.is_empty() {
        let blind = facts.rules.dropping().filter(|rule| rule.packets.is_none()).count() as u64;
        let mut value = match rules.first() {
            Some(most) => format!(
                "{} in {over}, most by `{}` in {}",
                counted(rules.iter().map(|it| it.grew_by).sum(), "packet", "packets"),
                most.text,
                most.chain
            ),
            None => format!("no packet in {over}"),
        };
        if blind > 0 {
            let blind = counted(blind, "rule has", "rules have");
            value += &format!("; {blind} no counter: `tcpwhy drops` sees what they drop");
        }
        entries.push(check.entry("packets that rules drop", value, why));
    }
    entries
}

fn causes(rule: &DropRule) -> &'static [Cause] {
    let has = |wanted: &str| words(&rule.text).any(|word| word == wanted);
    let is_dns = ports(&rule.text).iter().any(|&(first, last)| (first..=last).contains(&53));
    match () {
        () if has("udp") && is_dns => &[Cause::DnsTimeout],
        () if has("udp") || has("icmp") => &[],
        () if rule.rejects => &[Cause::Refused],
        () => &[Cause::SynRetransmit, Cause::RetransmissionTimeout],
    }
}

fn pass(facts: &Facts, rule: &DropRule) -> Change {
    let what =
        "if these packets are wanted, accept them in a rule before this one, or take it away";
    let risk = "it may be there to keep others out";
    match &rule.commands {
        Some((remove, restore)) => {
            let place = |command: &String| facts.place.command(command);
            Change::command(what, place(remove), risk, place(restore))
        }
        None => Change::by_hand(what, risk, "remove the rule that accepts them again"),
    }
}

/// Segments with a wrong checksum that are named: at least so many, and a thousandth of those that
/// arrived, as with losses that slow a connection down.
const DAMAGED_MIN: u64 = 3;
const DAMAGED_PART: u64 = 1_000;

fn checksums(check: &Check, facts: &Facts) -> Vec<Entry> {
    let grew = |name: &str| facts.growth.of(name);
    let [tcp, udp] = [grew("Tcp.InCsumErrors"), grew("Udp.InCsumErrors")];
    let arrived = grew("Tcp.InSegs") + grew("Udp.InDatagrams");
    let part = (tcp + udp) as f64 / (arrived + udp).max(1) as f64;
    let value = format!(
        "{} and {} ({} of what arrived)",
        counted(tcp, "TCP segment", "TCP segments"),
        counted(udp, "UDP datagram", "UDP datagrams"),
        share(part.min(1.0)),
    );
    let why = "what arrives with a wrong checksum is discarded as if it had been lost: a device \
               on the path damages it, or its sender leaves the checksum to a network card that \
               does not compute it";
    let entry = check.entry("packets with a wrong checksum (InCsumErrors)", value, why);
    if tcp + udp < DAMAGED_MIN || (tcp + udp) * DAMAGED_PART < arrived {
        return vec![entry];
    }
    let mut causes = Vec::new();
    if tcp > 0 {
        causes.extend([Cause::RetransmissionTimeout, Cause::SynRetransmit]);
    }
    if udp > 0 {
        causes.push(Cause::DnsTimeout);
    }
    let evidence = facts.all_grown(&["Tcp.InCsumErrors", "Udp.InCsumErrors"]);
    let change = Change::look(
        "find whose they are: `tcpdump -vv` marks them \"cksum … (incorrect)\"; if all come from \
         one host, virtual machine or tunnel, turn its transmit checksum offload off there \
         (`ethtool -K INTERFACE tx off`); if from everywhere, the cable, card or driver here",
    );
    vec![entry.explains(&causes, evidence).ranked(Rank::Limit).change(change)]
}

fn listen_drops(check: &Check, facts: &Facts) -> Vec<Entry> {
    let grew = |name: &str| facts.growth.of(name);
    let others = grew("TcpExt.ListenOverflows") + grew("TcpExt.TCPReqQFullDrop");
    let drops = grew("TcpExt.ListenDrops").saturating_sub(others);
    let value = format!("{} that no full queue explains", counted(drops, "SYN", "SYNs"));
    let why = "a listener drops a SYN also without memory for it, without a route back, where a \
               security module refuses it, and without SYN cookies where the last quarter of \
               tcp_max_syn_backlog is left for known peers; the client tries again after 1 s";
    let entry = check.entry("SYNs that listeners drop (ListenDrops)", value, why);
    if drops == 0 {
        return vec![entry];
    }
    let mut evidence = facts.all_grown(&["TcpExt.ListenDrops", "TcpExt.ListenOverflows"]);
    let dropping = facts.sockets.listeners.iter().filter(|it| it.drops > 0);
    let dropping = dropping.filter(|it| !listen::overflows(facts, it));
    let mut half_open = 0;
    for it in dropping.take(NAMED_MAX) {
        half_open = half_open.max(it.half_open);
        let name = program(it.process.as_ref());
        let half_open = counted(it.half_open, "half-open connection", "half-open connections");
        evidence.push(state(format!(
            "{} of {name} dropped {}; {half_open}, its accept queue has room",
            it.local,
            count(it.drops),
        )));
    }
    evidence.extend(reported(facts.own_findings(&[Cause::SynRetransmit])));
    let cookies = "net.ipv4.tcp_syncookies";
    let limit = facts.sysctls.number("net.ipv4.tcp_max_syn_backlog").unwrap_or(u64::MAX);
    // `tcp_conn_request`: without cookies, less than a quarter of the limit is left.
    let is_reserve = facts.sysctls.number(cookies) == Some(0) && half_open >= limit - limit / 4;
    let change = if is_reserve {
        let risk = "connections made by a cookie lose window scaling and SACK where timestamps are \
                    off";
        let what = "turn SYN cookies on: half-open connections fill three quarters of \
                    tcp_max_syn_backlog";
        facts.sysctls.change(cookies, "1", what, risk)
    } else {
        Change::look(
            "see why the kernel drops them: `tcpwhy drops` names the function and the reason \
             (memory: the entry of tcp_mem; a route back to the client: `ip route get CLIENT`; a \
             security module: its log)",
        )
    };
    vec![entry.explains(&[Cause::SynRetransmit], evidence).ranked(Rank::Limit).change(change)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{grow, idle, loud, only};
    use crate::rules::{Rules, Source, nft};
    use crate::sockets::Listener;
    use tcpwhy_live::process::Process;

    /// Returns a host with a listener at port 8080 and one rule, which has dropped packets.
    fn host(hook: &str, rule: &str, dropped: u64) -> Facts {
        let mut facts = idle();
        facts.sockets.listeners.push(Listener {
            local: "0.0.0.0:8080".parse().unwrap(),
            process: Some(Process {
                pid: 7,
                command: "app".into(),
                container: None,
                runtime: None,
            }),
            backlog: 128,
            queue_max: 0,
            drops: 0,
            half_open: 0,
        });
        let listed = |packets: u64| {
            let rule = rule.replace("counter", &format!("counter packets {packets} bytes 0"));
            let source: Source = nft(&format!(
                "table ip filter {{ # handle 1\nchain C {{ # handle 2\ntype filter hook {hook} \
                 priority filter; policy accept;\n{rule} # handle 4\n}}\n}}\n"
            ));
            Rules { sources: vec![source], unread: Vec::new() }
        };
        facts.rules = listed(100 + dropped);
        facts.rules.compare(&listed(100));
        facts
    }

    fn harm_of(hook: &str, rule: &str) -> Option<String> {
        let facts = host(hook, rule, 4);
        let rule = facts.rules.dropping().next().unwrap().clone();
        harm(&facts, &rule)
    }

    #[test]
    fn a_rule_that_drops_packets_for_a_service_is_named() {
        let facts = host("input", "tcp dport 8080 counter drop", 4);
        let entry = only(&facts);
        assert_eq!(entry.value, "tcp dport 8080 counter drop");
        assert_eq!(entry.explains, [Cause::SynRetransmit, Cause::RetransmissionTimeout]);
        let evidence = "the rule dropped 4 packets in 2 s; app (pid 7) listens at port 8080";
        assert_eq!(entry.evidence, [state(evidence)]);
        let change = entry.change.unwrap();
        assert_eq!(change.command.unwrap(), "nft 'delete rule ip filter C handle 4'");
        assert_eq!(change.undo, "nft 'insert rule ip filter C tcp dport 8080 counter drop'");
        assert_eq!(loud(&host("input", "tcp dport 8080 counter drop", 0)), [], "it drops nothing");
    }

    #[test]
    fn what_keeps_strangers_out_is_silent() {
        for rule in
            ["counter drop", "tcp dport 23 counter drop", "ip saddr 203.0.113.7 counter drop"]
        {
            assert_eq!(loud(&host("input", rule, 4)), [], "{rule}");
            assert_eq!(loud(&host("input", rule, 20)).len(), 1, "{rule}: ten each second");
        }
    }

    #[test]
    fn drops_that_someone_misses_are_told_from_scans() {
        assert!(harm_of("output", "ip daddr 192.0.2.1 counter reject").is_some());
        assert!(harm_of("input", "ct state invalid counter drop").is_some());
        assert!(harm_of("input", "meta random & 2147483647 < 1073741824 counter drop").is_some());
        assert!(harm_of("input", "ip saddr 10.1.2.3 counter drop").is_some());
        assert!(harm_of("input", "tcp dport { 80, 8000-8100 } counter drop").is_some());
        assert!(harm_of("input", "iifname \"lo\" counter drop").is_some());
        assert!(harm_of("input", "tcp dport { 80, 443 } counter drop").is_none());
        let mut facts = host("input", "counter drop", 4);
        grow(&mut facts, "TcpExt.TCPTimeouts", 2);
        assert_eq!(loud(&facts)[0].check, "packet_filter_drops");
    }

    #[test]
    fn ports_of_both_programs_are_read() {
        assert_eq!(
            ports("tcp dport { 22, 8000-8010 } tcp sport 5 drop"),
            [(22, 22), (8_000, 8_010)]
        );
        assert_eq!(ports("-p tcp -m multiport --dports 80,90:99 -j DROP"), [(80, 80), (90, 99)]);
        assert_eq!(ports("-p tcp -m tcp --sport 80 -j DROP"), []);
    }

    #[test]
    fn wrong_checksums_count_from_one_in_a_thousand() {
        let mut facts = idle();
        grow(&mut facts, "Tcp.InCsumErrors", 9);
        grow(&mut facts, "Tcp.InSegs", 10_000);
        assert_eq!(loud(&facts), []);
        grow(&mut facts, "Tcp.InSegs", 5_000);
        assert_eq!(only(&facts).check, "checksum_errors");
        grow(&mut facts, "Tcp.InCsumErrors", 2);
        grow(&mut facts, "Tcp.InSegs", 10);
        assert_eq!(loud(&facts), [], "two may be anything");
    }

    #[test]
    fn drops_of_full_queues_are_not_counted_twice() {
        let mut facts = host("input", "counter drop", 0);
        grow(&mut facts, "TcpExt.ListenDrops", 12);
        grow(&mut facts, "TcpExt.ListenOverflows", 12);
        assert_eq!(loud(&facts), []);
        grow(&mut facts, "TcpExt.ListenDrops", 20);
        facts.sockets.listeners[0].drops = 8;
        let entry = only(&facts);
        assert_eq!(
            (&*entry.check, &*entry.value),
            ("listen_drops", "8 SYNs that no full queue explains")
        );
        assert_eq!(entry.change.unwrap().command, None);
        facts.sysctls.set("net.ipv4.tcp_syncookies", "0");
        facts.sysctls.set("net.ipv4.tcp_max_syn_backlog", "8");
        facts.sockets.listeners[0].half_open = 6;
        let change = only(&facts).change.unwrap();
        assert_eq!(change.command.unwrap(), "sysctl -w net.ipv4.tcp_syncookies=1");
    }
}
