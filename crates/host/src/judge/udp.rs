//! UDP: datagrams that were lost after reception because the socket's buffer was full.

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::counted;

use super::Check;
use crate::entry::{Entry, Layer, Rank};
use crate::facts::{Facts, state};

pub const CHECKS: &[Check] =
    &[Check { id: "udp_receive_buffer", layer: Layer::Transport, judge: receive }];

fn receive(check: &Check, facts: &Facts) -> Vec<Entry> {
    let text = |name: &str| facts.sysctls.text(name).unwrap_or("unknown").to_owned();
    let value = format!("net.core.rmem_max {}", text("net.core.rmem_max"));
    let why = "a datagram that finds the receive buffer full is lost; its sender may never know, \
               and a resolver's client waits seconds";
    let entry = check.entry("UDP receive buffers", value, why);
    let mut evidence = facts.all_grown(&["Udp.RcvbufErrors", "Udp.MemErrors", "Udp6.RcvbufErrors"]);
    if evidence.is_empty() {
        return vec![entry];
    }
    let worst = facts.udp_drops.first();
    evidence.extend(worst.map(|it| {
        let lost = counted(it.drops, "datagram", "datagrams");
        state(format!("{} of {} lost {lost}", it.local, it.program))
    }));
    let is_dns = worst.is_some_and(|it| it.local.ends_with(" 53"));
    let causes: &[Cause] = if is_dns { &[Cause::DnsTimeout] } else { &[] };
    let program = worst.map_or("the program", |it| it.program.as_str());
    let what = format!(
        "let {program} read faster or from several sockets; for bursts let it ask for more \
         (SO_RCVBUF), which this limit allows"
    );
    let more = facts.sysctls.number("net.core.rmem_max").unwrap_or(212_992) * 8;
    let risk = "memory for each socket that asks for it";
    let change = facts.sysctls.change("net.core.rmem_max", &more.to_string(), &what, risk);
    vec![entry.explains(causes, evidence).ranked(Rank::Limit).change(change)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::UdpDrops;
    use crate::judge::tests::{grow, idle, only};

    #[test]
    fn lost_datagrams_name_their_socket() {
        let mut facts = idle();
        grow(&mut facts, "Udp.RcvbufErrors", 70);
        let drops = |local: &str| {
            vec![UdpDrops { local: local.into(), drops: 70, program: "app (pid 7)".into() }]
        };
        facts.udp_drops = drops("UDP port 8125");
        let entry = only(&facts);
        assert!(entry.explains.is_empty(), "a symptom of its own");
        assert_eq!(entry.change.unwrap().undo, "sysctl -w net.core.rmem_max=212992");
        facts.udp_drops = drops("UDP port 53");
        assert_eq!(only(&facts).explains, [Cause::DnsTimeout]);
    }
}
