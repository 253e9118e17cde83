//! Receiving in the kernel: the backlog of each CPU and the budget of each round. Read first:
//! Documentation/networking/scaling.rst, `net_rx_action` and `enqueue_to_backlog` in the kernel.

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::count;

use super::Check;
use crate::entry::{Entry, Layer, Rank};
use crate::facts::{Facts, state};

pub const CHECKS: &[Check] = &[Check { id: "softnet", layer: Layer::Link, judge: softnet }];

fn softnet(check: &Check, facts: &Facts) -> Vec<Entry> {
    let name = "net.core.netdev_max_backlog";
    let text = |name: &str| facts.sysctls.text(name).unwrap_or("unknown").to_owned();
    let value = format!(
        "netdev_max_backlog {}; netdev_budget {} packets, {} µs; rps_sock_flow_entries {}; \
         {} rounds over budget in the sample",
        text(name),
        text("net.core.netdev_budget"),
        text("net.core.netdev_budget_usecs"),
        text("net.core.rps_sock_flow_entries"),
        count(facts.growth.of("softnet.time_squeeze")),
    );
    let why = "packets that come faster than a CPU takes them from its backlog are dropped";
    let entry = check.entry("receive backlog of the CPUs (whole machine)", value, why);
    let mut evidence: Vec<_> = facts.grew("softnet.dropped").into_iter().collect();
    if evidence.is_empty() {
        return vec![entry];
    }
    evidence.extend(facts.grew("softnet.time_squeeze"));
    let busy: Vec<_> =
        facts.links.iter().flat_map(|link| &link.interrupts).filter(|it| it.grew_by > 0).collect();
    if let [only] = &busy[..]
        && facts.cpus > 1
    {
        evidence.push(state(format!("all interrupts of interfaces go to CPU {}", only.cpus)));
    }
    let more = facts.sysctls.number(name).unwrap_or(1_000) * 8;
    let what = "spread receiving over CPUs (more receive queues, RPS: rps_cpus of the interface), \
                and allow a longer backlog for bursts";
    let risk = "packets wait longer where the CPU is too slow all the time";
    let change = facts.sysctls.change(name, &more.to_string(), what, risk);
    let causes = [Cause::FastRecovery, Cause::RetransmissionTimeout];
    vec![entry.explains(&causes, evidence).ranked(Rank::Limit).change(change)]
}
