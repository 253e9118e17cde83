//! The causes: a row for each in the table, and a file for its evidence, with its manual beside it.
//!
//! A row states the functions of its cause; for all others it has those of [`Rules::plain`]. The
//! classes, owners and culprits of the causes, which lower layers need too, are in the table in
//! `model/cause.rs`. A cause of silences is recognised in the file of the same name in
//! [`crate::judge`]; for any other, the comment at the head of its file here names the place. Five
//! files contain no cause, but what several share: `application`, `flight` (windows), `lookup`,
//! `repair` (losses) and `set_up`.

mod accept_queue_overflow;
mod application;
mod bandwidth;
mod bufferbloat;
mod client_think;
mod congestion_window;
pub(super) mod delayed_ack;
mod dns_failure;
mod dns_search;
mod dns_slow;
mod dns_timeout;
pub(crate) mod error_responses;
mod fast_recovery;
mod flight;
mod http2_flow_control;
mod http_100_continue;
mod idle_flow_dropped;
mod idle_reset;
pub(crate) mod lookup;
mod mtu_black_hole;
pub(super) mod nagle_delayed_ack;
pub mod no_answer;
mod path_rtt;
pub(super) mod receive_window;
mod refused;
mod reordering;
pub mod repair;
pub mod reset;
pub mod retransmission_timeout;
mod reverse_dns_timeout;
mod rules;
pub(super) mod send_buffer;
pub mod server_think;
pub(super) mod set_up;
pub mod slow_start;
mod spurious_retransmission;
mod statements;
pub(super) mod syn_flood;
pub(super) mod syn_retransmit;
mod tls_handshake;
pub(super) mod upstream_wait;
mod zero_window;

use crate::model::{Cause, Owner};
use rules::Rules;
pub(super) use rules::{Cost, OwnedCost};

/// The manuals in each language, in Markdown. Their tables contain the texts of the report.
pub(super) struct Manuals {
    pub english: [&'static str; Cause::ALL.len()],
    pub chinese: [&'static str; Cause::ALL.len()],
}

macro_rules! rows {
    ($($cause:ident $manual:literal { $($column:ident: $value:expr,)* })*) => {
        /// The rows, in the order of [`Cause::ALL`].
        const ROWS: &[Rules; Cause::ALL.len()] = &[$(Rules {
            $($column: $value,)*
            ..Rules::plain(Cause::$cause)
        },)*];

        /// The manuals, in the order of [`Cause::ALL`].
        pub(super) const MANUALS: Manuals = Manuals {
            english: [$(include_str!($manual),)*],
            chinese: [$(include_str!(concat!("../zh/causes/", $manual)),)*],
        };
    };
}

rows! {
    NagleDelayedAck "nagle_delayed_ack.md" {
        prove: nagle_delayed_ack::prove,
        add_up: delayed_ack::add_up,
        is_finding: nagle_delayed_ack::is_finding,
        waits_for: "held_by",
        facts: nagle_delayed_ack::facts,
        chance: nagle_delayed_ack::chance,
        effect_fact: Some("ack_delay_p50_ns"),
    }
    DelayedAck "delayed_ack.md" {
        prove: delayed_ack::prove,
        add_up: delayed_ack::add_up,
        effect_fact: Some("ack_delay_p50_ns"),
    }
    SendBuffer "send_buffer.md" {
        prove: send_buffer::prove,
        is_finding: send_buffer::is_finding,
        waits_for: "writer",
    }
    ReceiveWindow "receive_window.md" {
        prove: receive_window::prove,
        add_up: receive_window::add_up,
        is_finding: receive_window::is_finding,
        facts: receive_window::facts,
        waits_for: "reader",
    }
    ZeroWindow "zero_window.md" {
        prove: zero_window::prove,
        add_up: zero_window::add_up,
        is_finding: zero_window::is_finding,
        facts: zero_window::facts,
        waits_for: "reader",
    }
    Http2FlowControl "http2_flow_control.md" {
        prove: http2_flow_control::prove,
        add_up: http2_flow_control::add_up,
        is_finding: http2_flow_control::is_finding,
        facts: http2_flow_control::facts,
        waits_for: "reader",
    }
    SlowStart "slow_start.md" {
        prove: slow_start::prove,
        add_up: slow_start::add_up,
        facts: slow_start::facts,
    }
    CongestionWindow "congestion_window.md" {
        prove: congestion_window::prove,
    }
    RetransmissionTimeout "retransmission_timeout.md" {
        prove: retransmission_timeout::prove,
        add_up: retransmission_timeout::add_up,
        facts: retransmission_timeout::facts,
        culprit_seen: retransmission_timeout::reporter,
        counts_clients: true,
    }
    FastRecovery "fast_recovery.md" {
        prove: fast_recovery::prove,
        add_up: repair::add_up,
        is_finding: fast_recovery::is_finding,
        count: fast_recovery::count,
        facts: fast_recovery::facts,
        counts_clients: true,
    }
    SpuriousRetransmission "spurious_retransmission.md" {
        prove: spurious_retransmission::prove,
        add_up: spurious_retransmission::add_up,
        is_finding: fast_recovery::is_often_or_long,
        count: spurious_retransmission::count,
    }
    Reordering "reordering.md" {
        prove: reordering::prove,
        add_up: reordering::add_up,
        is_finding: reordering::is_finding,
    }
    SynRetransmit "syn_retransmit.md" {
        prove: syn_retransmit::prove,
        add_up: set_up::add_up,
        culprit_seen: set_up::rejecting_host,
        count: set_up::count,
        facts: syn_retransmit::facts,
        ruled_out: syn_retransmit::ruled_out,
        counts_clients: true,
    }
    PathRtt "path_rtt.md" {
        cost: Some(&path_rtt::COST),
    }
    Bandwidth "bandwidth.md" {
        add_up: bandwidth::add_up,
        cost: Some(&bandwidth::COST),
    }
    Bufferbloat "bufferbloat.md" {
        prove: bufferbloat::prove,
        is_finding: bufferbloat::is_finding,
        covers: Some(Owner::Queueing),
    }
    MtuBlackHole "mtu_black_hole.md" {
        prove: mtu_black_hole::prove,
    }
    AcceptQueueOverflow "accept_queue_overflow.md" {
        prove: accept_queue_overflow::prove,
        add_up: set_up::add_up,
        count: set_up::count,
        facts: accept_queue_overflow::facts,
        ruled_out: accept_queue_overflow::ruled_out,
        covers: Some(Owner::Connect),
    }
    // The half-open connections of an endpoint are counted together and are no silences:
    // `syn_flood.rs` derives the finding from their number.
    SynFlood "syn_flood.md" {
        severity: 0,
    }
    Refused "refused.md" {
        prove: refused::prove,
        add_up: refused::add_up,
        culprit_seen: set_up::rejecting_host,
        is_finding: |_| true,
        is_minor: refused::is_minor,
        severity: 1,
        facts: refused::facts,
        ruled_out: refused::ruled_out,
        counts_clients: true,
    }
    Reset "reset.md" {
        prove: reset::prove,
        add_up: reset::add_up,
        culprit_seen: reset::culprit,
        count: reset::count,
        is_finding: |_| true,
        severity: 2,
    }
    IdleReset "idle_reset.md" {
        prove: idle_reset::prove,
        culprit_seen: reset::host_of_reset_on_path,
        is_finding: |_| true,
        severity: 2,
    }
    NoAnswer "no_answer.md" {
        prove: no_answer::prove,
        add_up: no_answer::add_up,
        is_finding: |_| true,
        severity: 2,
    }
    ErrorResponses "error_responses.md" {
        prove: error_responses::prove,
        add_up: error_responses::add_up,
        is_finding: error_responses::is_finding,
        severity: 2,
        facts: error_responses::facts,
    }
    IdleFlowDropped "idle_flow_dropped.md" {
        prove: idle_flow_dropped::prove,
        add_up: idle_flow_dropped::add_up,
        is_finding: |_| true,
        severity: 2,
    }
    // Packets do not show these three causes: `state/weigh.rs` and the checks in `crates/host` find
    // them in the state of a host. They only have a manual.
    ConntrackFull "conntrack_full.md" {}
    ConntrackRace "conntrack_race.md" {}
    PortExhaustion "port_exhaustion.md" {}
    TlsHandshake "tls_handshake.md" {
        prove: tls_handshake::prove,
        add_up: tls_handshake::add_up,
        cost: Some(&tls_handshake::COST),
    }
    Http100Continue "http_100_continue.md" {
        prove: http_100_continue::prove,
        count: http_100_continue::count,
        facts: http_100_continue::facts,
        effect_fact: Some("wait_p50_ns"),
    }
    DnsSlow "dns_slow.md" {
        lookup: Some(&dns_slow::LOOKUP),
        is_finding: lookup::is_finding,
    }
    DnsTimeout "dns_timeout.md" {
        lookup: Some(&dns_timeout::LOOKUP),
    }
    DnsFailure "dns_failure.md" {
        lookup: Some(&dns_failure::LOOKUP),
        is_finding: dns_failure::is_finding,
        facts: dns_failure::facts,
    }
    DnsSearch "dns_search.md" {
        lookup: Some(&dns_search::LOOKUP),
        is_finding: lookup::is_finding,
    }
    ReverseDnsTimeout "reverse_dns_timeout.md" {
        lookup: Some(&reverse_dns_timeout::LOOKUP),
    }
    ServerThink "server_think.md" {
        prove: server_think::prove,
        add_up: server_think::add_up,
        cost: Some(&Cost::PLAIN),
        facts: server_think::facts,
    }
    ClientThink "client_think.md" {
        add_up: client_think::add_up,
        prove: client_think::prove,
        cost: Some(&client_think::COST),
    }
    // `findings/upstream_wait.rs` makes it of what servers seem to need themselves.
    UpstreamWait "upstream_wait.md" {}
    // Packets show these as `ServerThink`: `state/served.rs` tells them apart by what kernel hooks saw
    // the server's threads do.
    CpuThrottled "cpu_throttled.md" {}
    CpuSaturation "cpu_saturation.md" {}
    EventLoopBlocked "event_loop_blocked.md" {}
    WorkersExhausted "workers_exhausted.md" {}
    LockWait "lock_wait.md" {}
    GcPause "gc_pause.md" {}
    DiskWait "disk_wait.md" {}
    MemoryPressure "memory_pressure.md" {}
}

const _: () = {
    let mut at = 0;
    while at < ROWS.len() {
        assert!(ROWS[at].cause as usize == at, "the rows are not in the order of the causes");
        at += 1;
    }
};

/// Returns the rules of `cause`.
pub(super) fn rules(cause: Cause) -> &'static Rules {
    &ROWS[cause as usize]
}

/// The costs that the owners of time show.
pub(super) const COSTS: [OwnedCost; count_costs()] = {
    let mut costs = [OwnedCost::NONE; count_costs()];
    let (mut at, mut count) = (0, 0);
    while at < ROWS.len() {
        if let Some(cost) = OwnedCost::of(&ROWS[at]) {
            costs[count] = cost;
            count += 1;
        }
        at += 1;
    }
    costs
};

const fn count_costs() -> usize {
    let (mut at, mut count) = (0, 0);
    while at < ROWS.len() {
        count += ROWS[at].cost.is_some() as usize;
        at += 1;
    }
    count
}
