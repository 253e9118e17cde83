//! Socket buffers: a window of B bytes on a path with a round trip of T carries at most B ÷ T
//! (RFC 7323 §1.1). Read first: tcp(7), socket(7).

use std::collections::HashSet;

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{bytes, counted, duration, share};

use super::Check;
use crate::entry::{Change, Entry, Evidence, Layer, Rank};
use crate::facts::{Facts, reported, state};
use crate::sockets::Connection;

pub const CHECKS: &[Check] = &[
    Check { id: "send_buffer", layer: Layer::Socket, judge: send },
    Check { id: "receive_buffer", layer: Layer::Socket, judge: receive },
    Check { id: "unread_data", layer: Layer::Application, judge: unread },
    Check { id: "tcp_window_scaling", layer: Layer::Transport, judge: scaling },
];

const WMEM: &str = "net.ipv4.tcp_wmem";
const RMEM: &str = "net.ipv4.tcp_rmem";
/// Time limited during the sample that is named, µs, and its share of the busy time.
const LIMITED_MIN_US: u64 = 40_000;
const BUSY_SHARE_MIN: f64 = 0.05;

fn is_limited(connection: &Connection, limited_us: u64) -> bool {
    let share = limited_us as f64 / connection.busy_us().max(1) as f64;
    limited_us >= LIMITED_MIN_US && share >= BUSY_SHARE_MIN
}

/// Returns the round trip, µs, if it is known.
fn rtt_us(connection: &Connection) -> Option<u64> {
    let info = connection.after;
    [info.tcpi_min_rtt_us, info.tcpi_rtt_us].into_iter().find(|&rtt| rtt > 0)
}

/// Returns a sentence such as `16 KiB ÷ 20 ms = 800 KiB/s`.
fn rate(window: u64, rtt_us: u64) -> String {
    let rate = u128::from(window) * 1_000_000 / u128::from(rtt_us.max(1));
    let rate = u64::try_from(rate).unwrap_or(u64::MAX);
    format!("{} ÷ {} = {}/s at most", bytes(window), duration(rtt_us * 1_000), bytes(rate))
}

fn settings(facts: &Facts, names: &[&str]) -> String {
    let text = |name: &&str| format!("{name} {}", facts.sysctls.text(name).unwrap_or("unknown"));
    names.iter().map(text).collect::<Vec<_>>().join("; ")
}

fn limited_words(connection: &Connection, limited_us: u64, over_ns: u64) -> Evidence {
    let part = (limited_us as f64 / connection.busy_us().max(1) as f64).min(1.0);
    state(format!(
        "it held sending back for {} of {} ({} of the busy time) on the connection with {}",
        duration((limited_us * 1_000).min(over_ns)),
        duration(over_ns),
        share(part),
        connection.peer,
    ))
}

fn send(check: &Check, facts: &Facts) -> Vec<Entry> {
    let why = "what is sent and not acknowledged stays in the send buffer: at most one buffer a \
               round trip goes out";
    let value = settings(facts, &[WMEM, "net.core.wmem_max"]);
    let mut limited: Vec<&Connection> =
        facts.sockets.held.iter().filter(|it| is_limited(it, it.sndbuf_limited_us())).collect();
    limited.sort_by_key(|it| std::cmp::Reverse(it.sndbuf_limited_us()));
    let mut seen = HashSet::new();
    limited.retain(|it| seen.insert((it.program(), it.service())));
    let findings = reported(facts.own_findings(&[Cause::SendBuffer]));
    if limited.is_empty() {
        let change = larger(facts, WMEM, 4 << 20);
        let entry = check.entry("send buffers", value, why);
        return vec![entry.explains(&[Cause::SendBuffer], findings).change(change)];
    }
    let entries = limited.into_iter().take(3).map(|it| {
        let room = it.memory.sndbuf_bytes / 2;
        let is_fixed = it.options.sndbuf_locked == Some(true);
        let by =
            if is_fixed { ", fixed by the program (SO_SNDBUF)" } else { ", set by the kernel" };
        let arithmetic = rtt_us(it).map(|rtt| format!(": {}", rate(room, rtt))).unwrap_or_default();
        let what = format!("send buffer of {} for {}", it.program(), it.service());
        let needs = it.after.tcpi_snd_cwnd * it.after.tcpi_snd_mss_bytes;
        let value = format!(
            "{}{by}{arithmetic}; the congestion window would take {}",
            bytes(room),
            bytes(needs)
        );
        let change = if is_fixed {
            Change::by_hand(
                format!(
                    "do not set SO_SNDBUF in {} (the kernel then sizes it up to tcp_wmem), or set \
                     {} at least",
                    it.program(),
                    bytes((needs * 2).max(room * 4))
                ),
                "more memory for each connection",
                format!("set SO_SNDBUF to {} again", bytes(room)),
            )
        } else {
            larger(facts, WMEM, (needs * 4).max(room * 8))
        };
        let mut evidence = vec![limited_words(it, it.sndbuf_limited_us(), facts.growth.over_ns)];
        evidence.extend(findings.clone());
        check.entry(what, value, why).explains(&[Cause::SendBuffer], evidence).change(change)
    });
    entries.collect()
}

/// Returns a change to a larger maximum of tcp_wmem or tcp_rmem.
fn larger(facts: &Facts, name: &str, least: u64) -> Change {
    let now = facts.sysctls.numbers(name);
    let [low, start, most] = now[..] else {
        return Change::by_hand(format!("raise {name}"), "memory", "put the value back");
    };
    let most = (most * 4).max(least).min(64 << 20);
    let risk = "memory: each busy connection may take so much; new connections only";
    let what = "let the kernel make the buffer larger (bandwidth × round trip is what it needs)";
    facts.sysctls.change(name, &format!("{low} {start} {most}"), what, risk)
}

fn receive(check: &Check, facts: &Facts) -> Vec<Entry> {
    let why = "a peer may send one receive window a round trip";
    let value = settings(facts, &[RMEM, "net.core.rmem_max", "net.ipv4.tcp_moderate_rcvbuf"]);
    let entry = check.entry("receive buffers", value, why);
    let findings: Vec<_> = facts.own_findings(&[Cause::ReceiveWindow]).collect();
    let mut entries = Vec::new();
    if !findings.is_empty() {
        // A connection of the finding's service, still open, whose buffer the program has fixed.
        let is_its = |it: &Connection| {
            let service = it.service().to_string();
            findings.iter().any(|finding| finding.server.as_ref() == Some(&service))
        };
        let mut held = facts.sockets.held.iter();
        let locked = held.find(|it| it.options.rcvbuf_locked == Some(true) && is_its(it));
        let change = match locked {
            Some(it) => unfixed(it),
            None => larger(facts, RMEM, 16 << 20),
        };
        let evidence = reported(findings.into_iter());
        entries.push(entry.explains(&[Cause::ReceiveWindow], evidence).change(change));
    } else {
        entries.push(entry);
    }
    entries.extend(own_windows(check, facts));
    entries.extend(peer_windows(check, facts));
    entries
}

/// Connections that receive one window a round trip, and whose buffer cannot grow any more.
fn own_windows(check: &Check, facts: &Facts) -> Vec<Entry> {
    let over_us = facts.growth.over_ns / 1_000;
    let [_, _, most] = facts.sysctls.numbers(RMEM)[..] else { return Vec::new() };
    let is_at_limit =
        |it: &&Connection| it.options.rcvbuf_locked == Some(true) || it.memory.rcvbuf_bytes >= most;
    let held = facts.sockets.held.iter().filter(|it| it.fills_window(over_us) && !it.is_unread());
    let mut limited: Vec<_> = held.filter(is_at_limit).collect();
    limited.sort_by_key(|it| std::cmp::Reverse(it.received_bytes()));
    let mut seen = HashSet::new();
    limited.retain(|it| seen.insert((it.program(), it.service())));
    let entries = limited.into_iter().take(3).map(|it| {
        let window = it.window_bytes();
        let is_fixed = it.options.rcvbuf_locked == Some(true);
        let by = match is_fixed {
            true => "fixed by the program (SO_RCVBUF)".to_owned(),
            false => format!("at the limit of tcp_rmem, {}", bytes(most)),
        };
        let arithmetic = rate(window, it.after.tcpi_min_rtt_us);
        let value = format!("window {}, {by}: {arithmetic}", bytes(window));
        let each_second = it.received_bytes() * 1_000_000 / over_us.max(1);
        let evidence = vec![state(format!(
            "{} sent {}/s in this sample: one window for each round trip",
            it.peer,
            bytes(each_second),
        ))];
        let change = if is_fixed { unfixed(it) } else { larger(facts, RMEM, window * 8) };
        let what = format!("receive buffer of {} for {}", it.program(), it.peer);
        let why = "a peer may send one receive window a round trip";
        check.entry(what, value, why).explains(&[Cause::ReceiveWindow], evidence).change(change)
    });
    entries.collect()
}

/// Returns a change of a program that fixes its receive buffer.
fn unfixed(it: &Connection) -> Change {
    let now = bytes(it.memory.rcvbuf_bytes / 2);
    Change::by_hand(
        format!(
            "do not set SO_RCVBUF in {} ({now} now): the kernel then sizes it up to tcp_rmem",
            it.program()
        ),
        "more memory for each connection",
        format!("set SO_RCVBUF to {now} again"),
    )
}

/// Peers whose window held sending back during the sample.
fn peer_windows(check: &Check, facts: &Facts) -> Vec<Entry> {
    let held = facts.sockets.held.iter();
    let mut limited: Vec<_> = held.filter(|it| is_limited(it, it.rwnd_limited_us())).collect();
    limited.sort_by_key(|it| std::cmp::Reverse(it.rwnd_limited_us()));
    let mut seen = HashSet::new();
    // Data that a program of this host does not read have their own entry.
    let unread = |end| facts.sockets.held.iter().any(|it| it.local == end && it.is_unread());
    limited.retain(|it| !unread(it.peer) && seen.insert((it.program(), it.peer.ip())));
    let entries = limited.into_iter().take(3).map(|it| {
        let window = it.after.tcpi_snd_wnd_bytes.unwrap_or(0);
        let is_here = facts.addresses.contains(&it.peer.ip()) || it.peer.ip().is_loopback();
        let arithmetic = match rtt_us(it) {
            Some(rtt) if window > 0 => format!(": {}", rate(window, rtt)),
            _ => String::new(),
        };
        let value = format!("{} now{arithmetic}", bytes(window));
        let what = format!("window of {} towards {}", it.peer, it.program());
        let why = "the peer's program reads slowly, or its receive buffer is small";
        let place = if is_here { "the program at the other end, on this host" } else { "the peer" };
        let change = Change::by_hand(
            format!(
                "at {place}: let it read faster, or not fix SO_RCVBUF; `tcpwhy sockets` there \
                 shows which"
            ),
            "more memory for each connection there",
            "nothing changes on this side",
        );
        let evidence = vec![limited_words(it, it.rwnd_limited_us(), facts.growth.over_ns)];
        let cause = if window == 0 { Cause::ZeroWindow } else { Cause::ReceiveWindow };
        let rank = if is_here { Rank::Setting } else { Rank::Consequence };
        check.entry(what, value, why).explains(&[cause], evidence).ranked(rank).change(change)
    });
    entries.collect()
}

/// Programs that leave received data until the window is closed.
fn unread(check: &Check, facts: &Facts) -> Vec<Entry> {
    let mut unread: Vec<_> = facts.sockets.held.iter().filter(|it| it.is_unread()).collect();
    unread.sort_by_key(|it| std::cmp::Reverse(it.unread_bytes));
    let mut seen = HashSet::new();
    let all = unread.clone();
    unread.retain(|it| seen.insert(it.program()));
    let entries = unread.into_iter().take(3).map(|it| {
        let same = all.iter().filter(|other| other.program() == it.program()).count() as u64;
        let what = format!("data that {} does not read", it.program());
        let value = format!(
            "{} from {} wait ({}); the window is closed and the peer may not send",
            bytes(it.unread_bytes),
            it.peer,
            counted(same, "connection is so", "connections are so"),
        );
        let why = "a program that does not read stops its peer: no setting of the kernel helps";
        let mut evidence = vec![state(format!(
            "{} unread, {} of window left; the last data came {} ago",
            bytes(it.unread_bytes),
            bytes(it.after.tcpi_rcv_wnd_bytes.unwrap_or(0)),
            duration(it.after.tcpi_last_data_recv_ms * 1_000_000),
        ))];
        evidence.extend(facts.grew("TcpExt.TCPToZeroWindowAdv"));
        evidence.extend(reported(facts.own_findings(&[Cause::ZeroWindow])));
        let pid = it.process.as_ref().map_or(0, |it| it.pid);
        let change = Change::look(format!(
            "find out what the program waits for: `cat /proc/{pid}/stack`, a stack dump of its \
                 own, or its CPU use"
        ));
        let entry = check.entry(what, value, why).change(change);
        entry.explains(&[Cause::ZeroWindow], evidence).ranked(Rank::Limit)
    });
    entries.collect()
}

fn scaling(check: &Check, facts: &Facts) -> Vec<Entry> {
    let name = "net.ipv4.tcp_window_scaling";
    let Some(value) = facts.sysctls.number(name) else { return Vec::new() };
    let why = "without it no window is larger than 64 KiB (RFC 7323 §2)";
    let entry = check.entry(name, value.to_string(), why);
    if value > 0 {
        return vec![entry];
    }
    let causes = [Cause::ReceiveWindow, Cause::SendBuffer];
    let mut evidence = reported(facts.own_findings(&causes));
    let held = facts.sockets.held.iter();
    let limited = held
        .filter(|it| is_limited(it, it.rwnd_limited_us()))
        .max_by_key(|it| it.rwnd_limited_us());
    evidence
        .extend(limited.map(|it| limited_words(it, it.rwnd_limited_us(), facts.growth.over_ns)));
    let risk = "broken middleboxes of the past dropped such SYNs; new connections only";
    let change = facts.sysctls.change(name, "1", "turn window scaling on", risk);
    vec![entry.explains(&[Cause::ReceiveWindow], evidence).change(change)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{find, idle, loud, only};
    use tcpwhy_live::diag::{Memory, TcpState};
    use tcpwhy_live::options::Options;
    use tcpwhy_live::process::Process;
    use tcpwhy_live::tcp_info::TcpInfo;

    fn connection(change: impl FnOnce(&mut Connection)) -> Facts {
        let mut facts = idle();
        let mut connection = Connection {
            local: "10.0.0.2:80".parse().unwrap(),
            peer: "10.0.0.1:5000".parse().unwrap(),
            is_server: true,
            state: TcpState::Established,
            process: Some(Process {
                pid: 7,
                command: "app".into(),
                container: None,
                runtime: None,
            }),
            before: TcpInfo::default(),
            after: TcpInfo {
                tcpi_min_rtt_us: 20_000,
                tcpi_busy_time_us: 2_000_000,
                tcpi_snd_cwnd: 100,
                tcpi_snd_mss_bytes: 1_448,
                tcpi_rcv_mss_bytes: 1_448,
                tcpi_snd_wnd_bytes: Some(65_536),
                tcpi_rcv_wnd_bytes: Some(65_536),
                ..TcpInfo::default()
            },
            memory: Memory { sndbuf_bytes: 32_768, ..Memory::default() },
            unread_bytes: 0,
            holds: 0,
            looks: 20,
            options: Options { sndbuf_locked: Some(true), ..Options::default() },
            inode: 1,
            cookie: 1,
        };
        change(&mut connection);
        facts.sockets.held.push(connection);
        facts
    }

    #[test]
    fn a_send_buffer_that_held_sending_back_has_its_arithmetic() {
        let mut facts = connection(|it| it.after.tcpi_sndbuf_limited_us = 1_900_000);
        let entry = only(&facts);
        assert_eq!(entry.explains, [Cause::SendBuffer]);
        assert!(entry.value.contains("16 KiB ÷ 20 ms = 800 KiB/s"), "{}", entry.value);
        assert_eq!(entry.change.unwrap().command, None, "the program has fixed it");
        facts.sockets.held[0].options.sndbuf_locked = Some(false);
        let change = only(&facts).change.unwrap();
        assert!(change.command.unwrap().starts_with("sysctl -w net.ipv4.tcp_wmem='4096 16384 "));
        assert_eq!(change.undo, "sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304'");
    }

    #[test]
    fn time_limited_before_the_sample_is_no_present_symptom() {
        let facts = connection(|it| {
            it.after.tcpi_sndbuf_limited_us = 1_900_000;
            it.before = it.after;
        });
        assert_eq!(loud(&facts), []);
        let short = connection(|it| it.after.tcpi_sndbuf_limited_us = 39_000);
        assert_eq!(loud(&short), []);
    }

    #[test]
    fn a_peers_window_is_the_peers() {
        let facts = connection(|it| it.after.tcpi_rwnd_limited_us = 1_000_000);
        let entry = only(&facts);
        assert_eq!(entry.explains, [Cause::ReceiveWindow]);
        assert_eq!(entry.rank, Rank::Consequence);
    }

    #[test]
    fn a_receive_buffer_at_its_limit_has_its_arithmetic() {
        // 64 KiB ÷ 20 ms = 3.1 MiB/s.
        let received = |bytes: u64, rcvbuf_bytes: u64| {
            connection(|it| {
                it.after.tcpi_bytes_received = bytes;
                it.memory.rcvbuf_bytes = rcvbuf_bytes;
            })
        };
        let entry = only(&received(6_000_000, 6_291_456));
        assert_eq!(entry.explains, [Cause::ReceiveWindow]);
        let value = "window 64 KiB, at the limit of tcp_rmem, 6 MiB: 64 KiB ÷ 20 ms = 3.12 MiB/s \
                     at most";
        assert_eq!(entry.value, value);
        assert!(entry.change.unwrap().command.unwrap().contains("net.ipv4.tcp_rmem='4096 131072 "));
        assert_eq!(loud(&received(6_000_000, 131_072)), [], "it may grow yet");
        assert_eq!(loud(&received(3_000_000, 6_291_456)), [], "half of what the window allows");
    }

    #[test]
    fn a_program_that_does_not_read_is_named() {
        let closed = |it: &mut Connection| {
            it.unread_bytes = 60_000;
            it.after.tcpi_rcv_wnd_bytes = Some(0);
        };
        assert_eq!(only(&connection(closed)).explains, [Cause::ZeroWindow]);
        assert_eq!(loud(&connection(|it| it.unread_bytes = 60_000)), [], "it has room");
    }

    #[test]
    fn a_reported_window_leads_to_the_setting() {
        let mut facts = idle();
        find(&mut facts, Cause::ReceiveWindow, "client", "10.0.0.2");
        let change = only(&facts).change.unwrap();
        assert!(change.command.unwrap().contains("net.ipv4.tcp_rmem='4096 131072 "));
        facts.sysctls.set("net.ipv4.tcp_window_scaling", "0");
        assert_eq!(loud(&facts).len(), 2);
    }
}
