//! Timers of TCP: how long a dead peer stays undetected, and how often a SYN is retransmitted.

use tcpwhy_core::model::Cause;

use super::Check;
use crate::entry::{Entry, Layer};
use crate::facts::{Facts, reported};

pub const CHECKS: &[Check] = &[
    Check { id: "tcp_keepalive", layer: Layer::Transport, judge: keepalive },
    Check { id: "tcp_retries", layer: Layer::Transport, judge: retries },
];

fn keepalive(check: &Check, facts: &Facts) -> Vec<Entry> {
    let name = "net.ipv4.tcp_keepalive_time";
    let number = |name: &str| facts.sysctls.number(&format!("net.ipv4.tcp_keepalive_{name}"));
    let (Some(time), Some(every), Some(probes)) =
        (number("time"), number("intvl"), number("probes"))
    else {
        return Vec::new();
    };
    let value = format!(
        "first probe after {time} s of idleness, then {probes} every {every} s: a dead peer is \
         noticed after {} s",
        time + every * probes
    );
    let why = "only sockets with SO_KEEPALIVE are probed; a NAT or firewall that forgets idle \
               connections sooner breaks them";
    let entry = check.entry("keep-alive", value, why);
    let idle = facts.near_findings(&[Cause::IdleReset]).filter(|it| it.role == "network");
    let what = "probe sooner than the device on the path forgets (programs with SO_KEEPALIVE)";
    let risk = "a little traffic on idle connections";
    let change = facts.sysctls.change(name, "60", what, risk);
    vec![entry.explains(&[Cause::IdleReset], reported(idle)).change(change)]
}

fn retries(check: &Check, facts: &Facts) -> Vec<Entry> {
    let text = |name: &str| {
        facts.sysctls.text(&format!("net.ipv4.tcp_{name}")).unwrap_or("unknown").to_owned()
    };
    let value = format!(
        "syn_retries {}, synack_retries {}, retries2 {}",
        text("syn_retries"),
        text("synack_retries"),
        text("retries2")
    );
    let why = "how often a SYN, a SYN-ACK and data are sent again before the connection fails \
               (retries2 15: after 15 to 30 minutes)";
    vec![check.entry("retries", value, why)]
}
