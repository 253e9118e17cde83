//! Listeners: accept queues and SYN queues. Read first: listen(2), tcp(7), and in the kernel
//! `tcp_conn_request` and `tcp_v4_syn_recv_sock`: a connection is dropped while the accept queue is
//! longer than the backlog.

use std::net::SocketAddr;

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{count, counted, duration};

use super::Check;
use crate::entry::{Change, Entry, Layer, Rank};
use crate::facts::{Facts, reported, state};
use crate::sockets::{Listener, program};

pub const CHECKS: &[Check] = &[
    Check { id: "accept_queue", layer: Layer::Socket, judge: accept_queue },
    Check { id: "somaxconn", layer: Layer::Socket, judge: somaxconn },
    Check { id: "syn_queue", layer: Layer::Transport, judge: syn_queue },
    Check { id: "tcp_abort_on_overflow", layer: Layer::Transport, judge: abort_on_overflow },
];

/// Returns whether the kernel drops SYNs or connections of a listener.
pub fn overflows(facts: &Facts, listener: &Listener) -> bool {
    let is_full = listener.queue_max > listener.backlog;
    let has_dropped = listener.drops > 0 && facts.growth.of("TcpExt.ListenOverflows") > 0;
    is_full || has_dropped && listener.queue_max >= listener.backlog
}

/// Returns the listener that accepts connections to `end`.
pub fn listener(facts: &Facts, end: SocketAddr) -> Option<&Listener> {
    let listeners = || facts.sockets.listeners.iter().filter(|it| it.local.port() == end.port());
    let exact = listeners().find(|it| it.local.ip() == end.ip());
    exact.or_else(|| listeners().find(|it| it.local.ip().is_unspecified()))
}

fn accept_queue(check: &Check, facts: &Facts) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut quiet = Vec::new();
    for listener in &facts.sockets.listeners {
        let findings = facts.own_findings(&[Cause::AcceptQueueOverflow]);
        let findings = reported(findings.filter(|finding| {
            let end = finding.end();
            end.is_some_and(|end| {
                super::listen::listener(facts, end).is_some_and(|it| it.local == listener.local)
            })
        }));
        if !overflows(facts, listener) && findings.is_empty() {
            quiet.push(listener);
            continue;
        }
        entries.push(
            overflow(check, facts, listener).explains(&[Cause::AcceptQueueOverflow], findings),
        );
    }
    if let Some(fullest) = quiet.iter().max_by_key(|it| it.queue_max * 1_000 / it.backlog.max(1)) {
        let value = format!(
            "{}; the fullest is at {}: {} of {}",
            counted(quiet.len() as u64, "listener", "listeners"),
            fullest.local,
            count(fullest.queue_max),
            count(fullest.backlog),
        );
        entries.push(check.entry("accept queues", value, WHY));
    }
    entries
}

const WHY: &str = "connections that are complete wait here for accept(2); when the queue is longer \
                   than the backlog, the kernel drops what comes, and clients try again after 1 s, \
                   3 s and more";

fn overflow(check: &Check, facts: &Facts, listener: &Listener) -> Entry {
    let what = format!("accept queue of {}", listener.local);
    let value = format!(
        "up to {} in the queue, backlog {}; held by {}",
        counted(listener.queue_max, "connection", "connections"),
        count(listener.backlog),
        program(listener.process.as_ref()),
    );
    let mut evidence = Vec::new();
    if overflows(facts, listener) {
        evidence.extend(facts.grew("TcpExt.ListenOverflows"));
        if listener.drops > 0 {
            let dropped = counted(listener.drops, "SYN or connection", "SYNs or connections");
            let over = duration(facts.growth.over_ns);
            evidence.push(state(format!("this listener dropped {dropped} in {over}")));
        }
        if listener.queue_max > listener.backlog {
            evidence.push(state(format!(
                "its queue was full: {} waited, and the backlog is {}",
                count(listener.queue_max),
                count(listener.backlog)
            )));
        }
    }
    check
        .entry(what, value, WHY)
        .explains(&[Cause::AcceptQueueOverflow], evidence)
        .ranked(Rank::Limit)
        .change(wider(facts, listener))
}

/// Returns the changes for a longer queue: the program's own setting, and the kernel's limit if
/// that is the lower one.
fn wider(facts: &Facts, listener: &Listener) -> Change {
    const RISK: &str = "a longer queue bridges bursts only: where the program accepts too slowly, \
                        connections wait in it instead, and time out there";
    let name = program(listener.process.as_ref());
    let target = (listener.backlog * 4).max(1_024);
    let limit = facts.sysctls.number("net.core.somaxconn").unwrap_or(4_096);
    let first = format!("find out why {name} does not accept (busy, blocked, out of descriptors)");
    let (own, undo) = own_setting(facts, listener, target);
    if listener.backlog >= limit || target > limit {
        let what = format!("{first}; for bursts raise the kernel's limit, then {own}");
        let mut change =
            facts.sysctls.change("net.core.somaxconn", &target.to_string(), &what, RISK);
        change.undo = format!("{}; {undo}", change.undo);
        return change;
    }
    Change::by_hand(format!("{first}; for bursts {own}"), RISK, undo)
}

/// Returns a change of the program's own backlog, and how to undo it.
fn own_setting(facts: &Facts, listener: &Listener, target: u64) -> (String, String) {
    let now = listener.backlog;
    let nginx = facts
        .nginx
        .iter()
        .find_map(|nginx| Some((nginx, nginx.listens(listener.local).into_iter().next()?)));
    let command = listener.process.as_ref().map_or("", |it| it.command.as_str());
    if let Some((nginx, listen)) = nginx.filter(|_| command == "nginx") {
        let text = listen.directive.text();
        let words: Vec<_> = text.split(' ').filter(|it| !it.starts_with("backlog=")).collect();
        return (
            format!(
                "write `{} backlog={target};` in {} and restart nginx (a reload keeps the old \
                 queue on some kernels; its master is pid {})",
                words.join(" "),
                listen.directive.location(),
                nginx.pid
            ),
            format!("write `{text};` in {} again and restart nginx", listen.directive.location()),
        );
    }
    let command = if command.is_empty() { "the program" } else { command };
    let redis = facts.databases.iter().any(|it| {
        it.name == "Redis" && listener.process.as_ref().is_some_and(|process| process.pid == it.pid)
    });
    if redis {
        return (
            format!("set `tcp-backlog {target}` in the configuration of Redis and restart it"),
            format!("set `tcp-backlog {now}` and restart Redis"),
        );
    }
    (
        format!("raise the backlog that {command} passes to listen(2) from {now} to {target}"),
        format!("set the backlog that {command} passes to listen(2) to {now} again"),
    )
}

fn somaxconn(check: &Check, facts: &Facts) -> Vec<Entry> {
    let Some(value) = facts.sysctls.text("net.core.somaxconn") else { return Vec::new() };
    let why = "no listener's backlog can be longer, whatever the program asks for";
    vec![check.entry("net.core.somaxconn", value, why)]
}

fn syn_queue(check: &Check, facts: &Facts) -> Vec<Entry> {
    let growth = &facts.growth;
    let cookies = growth.of("TcpExt.TCPReqQFullDoCookies");
    let drops = growth.of("TcpExt.TCPReqQFullDrop");
    let half_open: u64 = facts.sockets.listeners.iter().map(|it| it.half_open).sum();
    let is_on = facts.sysctls.number("net.ipv4.tcp_syncookies").unwrap_or(1) > 0;
    let limit = facts.sysctls.text("net.ipv4.tcp_max_syn_backlog").unwrap_or("unknown").to_owned();
    let fullest = facts.sockets.listeners.iter().max_by_key(|it| it.half_open);
    let fullest = fullest.filter(|it| it.half_open > 0);
    let at = fullest.map(|it| {
        let name = program(it.process.as_ref());
        format!(", most at {} of {name}, whose backlog is {}", it.local, count(it.backlog))
    });
    let value = format!(
        "{} half open{}; SYN cookies {}; tcp_max_syn_backlog {limit}",
        count(half_open),
        at.unwrap_or_default(),
        if is_on { "on" } else { "off" },
    );
    let why = "half-open connections wait here for the client's ACK; when the queue is full, the \
               kernel answers with SYN cookies, or drops SYNs where they are off; it is as \
               long as the listener's backlog";
    let entry = check.entry("SYN queues", value, why);
    let full = cookies + drops;
    let completed = growth.of("Tcp.PassiveOpens");
    let mut evidence = facts.all_grown(&[
        "TcpExt.TCPReqQFullDrop",
        "TcpExt.TCPReqQFullDoCookies",
        "TcpExt.SyncookiesSent",
    ]);
    let reports = reported(facts.own_findings(&[Cause::SynFlood]));
    if full == 0 && reports.is_empty() {
        return vec![entry];
    }
    // A full accept queue fills the SYN queue behind it.
    let is_behind = facts.sockets.listeners.iter().any(|it| overflows(facts, it));
    let is_flood = !is_behind && completed * 10 < full;
    let causes: &[Cause] = match () {
        () if is_behind => &[Cause::AcceptQueueOverflow],
        () if is_flood || !reports.is_empty() => &[Cause::SynFlood],
        () => &[Cause::SynRetransmit],
    };
    if is_flood {
        let made = counted(completed, "connection was", "connections were");
        evidence.push(state(format!("{made} completed meanwhile")));
    }
    evidence.extend(reports);
    let rank = if is_behind { Rank::Consequence } else { Rank::Limit };
    let change = if is_on {
        spared(facts, fullest)
    } else {
        facts.sysctls.change(
            "net.ipv4.tcp_syncookies",
            "1",
            "turn SYN cookies on",
            "connections made by a cookie lose window scaling and SACK where timestamps are off",
        )
    };
    vec![entry.explains(causes, evidence).ranked(rank).change(change)]
}

/// Returns what a longer queue would save: with SYN cookies enabled, only what the cookies take
/// from clients.
fn spared(facts: &Facts, fullest: Option<&Listener>) -> Change {
    let first = "SYN cookies keep the service up: nothing has to be done at once. Filter few \
                 sources with nftables, many upstream";
    let Some(listener) = fullest else { return Change::look(first) };
    let (own, undo) = own_setting(facts, listener, (listener.backlog * 4).max(1_024));
    let what = format!("{first}; so that fewer clients get a cookie, {own}");
    let risk = "about 300 bytes of memory for each half-open connection, and net.core.somaxconn \
                must allow it";
    Change::by_hand(what, risk, undo)
}

fn abort_on_overflow(check: &Check, facts: &Facts) -> Vec<Entry> {
    let name = "net.ipv4.tcp_abort_on_overflow";
    let Some(value) = facts.sysctls.number(name) else { return Vec::new() };
    let why = "1: a full accept queue answers with RST, so that a burst becomes errors instead of \
               a wait of 1 s";
    let entry = check.entry(name, value.to_string(), why);
    if value == 0 {
        return vec![entry];
    }
    let evidence = facts.grew("TcpExt.ListenOverflows").into_iter().collect();
    let change = facts.sysctls.change(name, "0", "let clients try again", "clients wait longer");
    vec![entry.explains(&[Cause::Reset], evidence).change(change)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{find, grow, idle, loud, only};
    use tcpwhy_live::process::Process;

    fn listener(queue_max: u64, backlog: u64, drops: u64) -> Listener {
        Listener {
            local: "10.0.0.2:8080".parse().unwrap(),
            process: Some(Process {
                pid: 7,
                command: "app".into(),
                container: None,
                runtime: None,
            }),
            backlog,
            queue_max,
            drops,
            half_open: 0,
        }
    }

    #[test]
    fn a_full_queue_is_named_with_its_program_and_backlog() {
        let mut facts = idle();
        facts.sockets.listeners.push(listener(5, 4, 312));
        grow(&mut facts, "TcpExt.ListenOverflows", 312);
        let entry = only(&facts);
        assert_eq!(
            (&*entry.check, &entry.explains[..]),
            ("accept_queue", &[Cause::AcceptQueueOverflow][..])
        );
        assert!(entry.what.contains("10.0.0.2:8080"));
        assert!(entry.value.contains("backlog 4; held by app (pid 7)"), "{}", entry.value);
        let change = entry.change.unwrap();
        assert_eq!(change.command, None, "the kernel's limit is not in the way");
        assert!(change.undo.contains("to 4 again"));
    }

    #[test]
    fn the_kernels_limit_is_changed_where_it_cuts_the_backlog() {
        let mut facts = idle();
        facts.sysctls.set("net.core.somaxconn", "128");
        facts.sockets.listeners.push(listener(129, 128, 3));
        let change = only(&facts).change.unwrap();
        assert_eq!(change.command.as_deref(), Some("sysctl -w net.core.somaxconn=1024"));
        assert!(change.undo.starts_with("sysctl -w net.core.somaxconn=128;"), "{}", change.undo);
    }

    #[test]
    fn a_queue_with_room_or_drops_of_another_kind_are_not_its_fault() {
        let mut facts = idle();
        facts.sockets.listeners.push(listener(4, 4, 0));
        assert_eq!(loud(&facts), [], "a queue as long as the backlog still takes one");
        facts.sockets.listeners[0] = listener(0, 128, 9);
        grow(&mut facts, "TcpExt.ListenOverflows", 9);
        assert_eq!(loud(&facts), [], "another namespace's or listener's");
    }

    #[test]
    fn a_full_syn_queue_is_a_flood_where_hardly_anything_completes() {
        let mut facts = idle();
        grow(&mut facts, "TcpExt.TCPReqQFullDoCookies", 5_000);
        grow(&mut facts, "Tcp.PassiveOpens", 3);
        assert_eq!(only(&facts).explains, [Cause::SynFlood]);
        grow(&mut facts, "Tcp.PassiveOpens", 5_000);
        assert_eq!(only(&facts).explains, [Cause::SynRetransmit], "real clients");
        facts.sockets.listeners.push(listener(5, 4, 312));
        let entries = loud(&facts);
        assert_eq!(entries[0].check, "accept_queue");
        assert_eq!(entries[1].explains, [Cause::AcceptQueueOverflow], "it follows");
    }

    #[test]
    fn a_finding_of_the_report_is_put_to_its_listener_alone() {
        let mut facts = idle();
        facts.sockets.listeners.push(listener(0, 4, 0));
        find(&mut facts, Cause::AcceptQueueOverflow, "server", "10.0.0.2:9090");
        assert_eq!(loud(&facts), []);
        find(&mut facts, Cause::AcceptQueueOverflow, "server", "10.0.0.2:8080");
        assert_eq!(only(&facts).check, "accept_queue");
    }
}
