//! Retransmissions, and settings that make their repair slow.

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{count, counted, share};

use super::{Check, listen};
use crate::entry::{Change, Entry, Evidence, Layer, Rank};
use crate::facts::{Facts, reported, state};

pub const CHECKS: &[Check] = &[
    Check { id: "retransmissions", layer: Layer::Transport, judge: retransmissions },
    Check { id: "tcp_sack", layer: Layer::Transport, judge: sack },
    Check { id: "tcp_timestamps", layer: Layer::Transport, judge: timestamps },
    Check { id: "congestion_control", layer: Layer::Transport, judge: congestion_control },
    Check { id: "tcp_slow_start_after_idle", layer: Layer::Transport, judge: after_idle },
];

/// Least number of retransmitted segments to report; they must also be a relevant share of those
/// sent.
const RETRANSMITTED_MIN: u64 = 3;
const SHARE_MIN: f64 = 0.01;

fn is_losing(facts: &Facts) -> bool {
    let again = facts.growth.of("Tcp.RetransSegs");
    let sent = facts.growth.of("Tcp.OutSegs") + again;
    again >= RETRANSMITTED_MIN && again as f64 >= SHARE_MIN * sent as f64
}

fn retransmissions(check: &Check, facts: &Facts) -> Vec<Entry> {
    let growth = &facts.growth;
    let again = growth.of("Tcp.RetransSegs");
    let sent = growth.of("Tcp.OutSegs");
    let part = again as f64 / (sent + again).max(1) as f64;
    let value = format!("{} of {} segments ({})", count(again), count(sent + again), share(part));
    let why = "segments that were lost, on the path or at a full queue of either host, and had to \
               be sent again";
    let entry = check.entry("segments sent again", value, why);
    if !is_losing(facts) {
        return vec![entry];
    }
    let change = Change::look(
        "look for the drop, not for a setting: entries of this list before this one, then \
         `tcpwhy drops` on both hosts, then captures at both (`tcpwhy CLIENT.pcap SERVER.pcap`)",
    );
    let causes = repair_causes(facts);
    vec![
        entry
            .explains(&causes, retransmission_evidence(facts))
            .ranked(Rank::Consequence)
            .change(change),
    ]
}

/// Returns the causes that stand for how the segments were repaired, by the kernel's counters; never
/// none.
fn repair_causes(facts: &Facts) -> Vec<Cause> {
    let growth = &facts.growth;
    let again = growth.of("Tcp.RetransSegs");
    let by_syn = growth.of("TcpExt.TCPSynRetrans");
    let by_timer = growth.of("TcpExt.TCPTimeouts");
    let spurious = growth.of("TcpExt.TCPSpuriousRTOs") + growth.of("TcpExt.TCPDSACKRecv");
    let mut causes = Vec::new();
    if by_syn > 0 {
        causes.push(Cause::SynRetransmit);
    }
    if by_timer > by_syn {
        causes.push(Cause::RetransmissionTimeout);
    }
    if again > by_syn + by_timer {
        causes.push(Cause::FastRecovery);
    }
    if spurious * 2 > again {
        causes.push(Cause::SpuriousRetransmission);
    }
    if causes.is_empty() {
        causes.push(Cause::RetransmissionTimeout);
    }
    causes
}

/// Returns the counters that grew, the open connection that repeated most, and a full accept queue
/// that dropped most of the repeated segments.
fn retransmission_evidence(facts: &Facts) -> Vec<Evidence> {
    let again = facts.growth.of("Tcp.RetransSegs");
    let by_syn = facts.growth.of("TcpExt.TCPSynRetrans");
    let mut evidence = facts.all_grown(&[
        "Tcp.RetransSegs",
        "TcpExt.TCPTimeouts",
        "TcpExt.TCPSynRetrans",
        "TcpExt.TCPLostRetransmit",
        "TcpExt.TCPSpuriousRTOs",
    ]);
    let held = facts.sockets.held.iter();
    if let Some(most) = held.max_by_key(|it| it.retransmitted()).filter(|it| it.retransmitted() > 0)
    {
        evidence.push(state(format!(
            "most of an open connection's: {} to {}, of {}",
            counted(most.retransmitted(), "segment", "segments"),
            most.peer,
            most.program()
        )));
    }
    let full = facts.sockets.listeners.iter().find(|it| listen::overflows(facts, it));
    if let Some(full) = full.filter(|_| by_syn * 2 > again) {
        evidence.push(state(format!(
            "the full accept queue of {} drops SYNs: see its entry",
            full.local
        )));
    }
    evidence
}

fn sack(check: &Check, facts: &Facts) -> Vec<Entry> {
    let why = "without SACK several losses in one round trip end in a timeout (RFC 2018)";
    switched_off(check, facts, "net.ipv4.tcp_sack", why)
}

fn timestamps(check: &Check, facts: &Facts) -> Vec<Entry> {
    let why = "without timestamps round trips are measured rarely, and ports in TIME-WAIT cannot \
               be used again (RFC 7323 §3)";
    switched_off(check, facts, "net.ipv4.tcp_timestamps", why)
}

/// Returns an entry for a setting that should be on, and whose being off explains slow repairs of
/// losses, if there are any.
fn switched_off(check: &Check, facts: &Facts, name: &str, why: &str) -> Vec<Entry> {
    let Some(value) = facts.sysctls.number(name) else { return Vec::new() };
    let entry = check.entry(name, value.to_string(), why);
    if value > 0 {
        return vec![entry];
    }
    let causes = [Cause::RetransmissionTimeout, Cause::FastRecovery];
    let mut evidence = reported(facts.near_findings(&causes));
    if is_losing(facts) {
        evidence.extend(facts.grew("TcpExt.TCPTimeouts"));
    }
    let change = facts.sysctls.change(name, "1", "turn it on", "new connections only");
    vec![entry.explains(&[Cause::RetransmissionTimeout], evidence).change(change)]
}

fn congestion_control(check: &Check, facts: &Facts) -> Vec<Entry> {
    let name = "net.ipv4.tcp_congestion_control";
    let Some(now) = facts.sysctls.text(name) else { return Vec::new() };
    let there = facts.sysctls.text("net.ipv4.tcp_available_congestion_control");
    let value = format!("{now}; there are: {}", there.unwrap_or("unknown"));
    let why = "it decides how fast a sender is after a loss; BBR does not halve its rate for it";
    let entry = check.entry(name, value, why);
    let has_bbr = there.is_some_and(|there| there.split(' ').any(|it| it == "bbr"));
    if now == "bbr" || !has_bbr {
        return vec![entry];
    }
    let evidence = reported(facts.own_findings(&[Cause::CongestionWindow]));
    let risk = "takes more of a shared bottleneck than others; new connections only";
    let change = facts.sysctls.change(name, "bbr", "try BBR and measure (tcpwhy compare)", risk);
    vec![entry.explains(&[Cause::CongestionWindow], evidence).change(change)]
}

fn after_idle(check: &Check, facts: &Facts) -> Vec<Entry> {
    let name = "net.ipv4.tcp_slow_start_after_idle";
    let Some(value) = facts.sysctls.number(name) else { return Vec::new() };
    let why = "1: a connection that was idle for a timeout starts again with 10 segments a round \
               trip (RFC 5681 §4.1)";
    let entry = check.entry(name, value.to_string(), why);
    if value == 0 {
        return vec![entry];
    }
    // Slow start of new connections is not this setting's.
    let findings = facts.own_findings(&[Cause::SlowStart]).filter(|it| it.idle_ns.is_some());
    let evidence = reported(findings);
    let what = "keep the window of idle connections (helps where connections are kept open; new \
                ones start slowly all the same)";
    let risk = "a burst after a pause meets a path that may have changed: losses";
    let change = facts.sysctls.change(name, "0", what, risk);
    vec![entry.explains(&[Cause::SlowStart], evidence).change(change)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{find, grow, idle, loud, only};

    #[test]
    fn retransmissions_count_from_one_in_a_hundred() {
        let mut facts = idle();
        grow(&mut facts, "Tcp.OutSegs", 10_000);
        grow(&mut facts, "Tcp.RetransSegs", 90);
        assert_eq!(loud(&facts), []);
        grow(&mut facts, "Tcp.RetransSegs", 300);
        assert_eq!(only(&facts).explains, [Cause::FastRecovery]);
        grow(&mut facts, "TcpExt.TCPTimeouts", 300);
        grow(&mut facts, "TcpExt.TCPSynRetrans", 300);
        let entry = only(&facts);
        assert_eq!(entry.explains, [Cause::SynRetransmit]);
        assert_eq!(entry.rank, Rank::Consequence);
    }

    #[test]
    fn slow_start_of_a_new_connection_is_not_the_settings() {
        let mut facts = idle();
        find(&mut facts, Cause::SlowStart, "server", "10.0.0.2:80");
        assert_eq!(loud(&facts), []);
        facts.findings[0].idle_ns = Some(5_000_000_000);
        assert_eq!(only(&facts).check, "tcp_slow_start_after_idle");
    }

    #[test]
    fn a_switch_that_is_off_matters_while_segments_are_lost() {
        let mut facts = idle();
        facts.sysctls.set("net.ipv4.tcp_sack", "0");
        assert_eq!(loud(&facts), []);
        find(&mut facts, Cause::RetransmissionTimeout, "network", "10.0.0.2");
        assert_eq!(only(&facts).change.unwrap().command.unwrap(), "sysctl -w net.ipv4.tcp_sack=1");
    }
}
