//! Nagle's algorithm in programs other than nginx and JVMs, whose own switches are known.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::count;

use super::Check;
use super::listen::listener;
use crate::entry::{Change, Entry, Evidence, Layer};
use crate::facts::{Facts, reported, state};
use crate::sockets::Connection;

pub const CHECKS: &[Check] =
    &[Check { id: "tcp_nodelay", layer: Layer::Application, judge: nodelay }];

pub const WHY: &str = "Nagle's algorithm holds a small write while an earlier small one is not \
                       acknowledged, and the peer acknowledges late: 40 ms and more for each \
                       answer that is written in two pieces";

/// Evidence that Nagle's algorithm costs time at the endpoint of a server: sockets that were seen
/// with a held segment, and findings of the report.
pub fn evidence(facts: &Facts, end: SocketAddr) -> Vec<Evidence> {
    let is_at = |it: SocketAddr| {
        it.port() == end.port() && (end.ip().is_unspecified() || it.ip() == end.ip())
    };
    let held: Vec<&Connection> = facts
        .sockets
        .held
        .iter()
        .filter(|it| it.is_server && is_at(it.local) && it.is_held_by_nagle())
        .collect();
    let mut evidence = seen(&held);
    let findings = facts.own_findings(&[Cause::NagleDelayedAck]);
    evidence.extend(reported(findings.filter(|finding| finding.end().is_some_and(is_at))));
    evidence
}

/// Returns a sentence on sockets that were seen holding a segment.
fn seen(held: &[&Connection]) -> Vec<Evidence> {
    let Some(most) = held.iter().max_by_key(|it| it.holds) else { return Vec::new() };
    let all = match held.len() as u64 {
        1 => String::new(),
        all => format!("; {} connections show it", count(all)),
    };
    vec![state(format!(
        "TCP_NODELAY is off, and a small segment was held in {} of {} looks at the \
         connection with {}{all}",
        most.holds, most.looks, most.peer,
    ))]
}

/// Returns whether another check covers Nagle's algorithm for the program at this endpoint.
fn is_known(facts: &Facts, command: &str, pid: u32) -> bool {
    command == "nginx" && !facts.nginx.is_empty() || facts.jvms.iter().any(|it| it.pid == pid)
}

fn nodelay(check: &Check, facts: &Facts) -> Vec<Entry> {
    // Evidence by program and service.
    let mut found: BTreeMap<(String, u32, String), Vec<Evidence>> = BTreeMap::new();
    let held = facts.sockets.held.iter().filter(|it| it.is_held_by_nagle());
    for connection in held {
        let Some(process) = &connection.process else { continue };
        if is_known(facts, &process.command, process.pid) {
            continue;
        }
        let part = if connection.is_server { "at" } else { "to" };
        let place = format!("{part} {}", connection.service());
        let key = (process.command.clone(), process.pid, place);
        found.entry(key).or_insert_with(|| seen(&[connection]));
    }
    for finding in facts.own_findings(&[Cause::NagleDelayedAck]) {
        let Some(end) = finding.end() else { continue };
        let process = listener(facts, end).and_then(|it| it.process.as_ref());
        let Some(process) = process else { continue };
        if is_known(facts, &process.command, process.pid) {
            continue;
        }
        let key = (process.command.clone(), process.pid, format!("at {end}"));
        found.entry(key).or_default().extend(reported(std::iter::once(finding)));
    }
    let entries = found.into_iter().map(|((command, pid, place), evidence)| {
        let value = format!("off on connections {place}");
        let change = Change::by_hand(
            format!(
                "in {command}: write each message with one call (buffer it, or writev), or set \
                 TCP_NODELAY on its sockets"
            ),
            "with TCP_NODELAY and many tiny writes: more packets",
            "remove the option again",
        );
        let what = format!("TCP_NODELAY of {command} (pid {pid})");
        check.entry(what, value, WHY).explains(&[Cause::NagleDelayedAck], evidence).change(change)
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{idle, loud, only};
    use tcpwhy_live::diag::{Memory, TcpState};
    use tcpwhy_live::options::Options;
    use tcpwhy_live::process::Process;
    use tcpwhy_live::tcp_info::TcpInfo;

    fn held(holds: u64, nodelay: Option<bool>) -> Facts {
        let mut facts = idle();
        facts.sockets.held.push(Connection {
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
            after: TcpInfo::default(),
            memory: Memory::default(),
            unread_bytes: 0,
            holds,
            looks: 20,
            options: Options { nodelay, ..Options::default() },
            inode: 1,
            cookie: 1,
        });
        facts
    }

    #[test]
    fn a_segment_that_is_held_again_and_again_names_the_program() {
        let entry = only(&held(18, Some(false)));
        assert_eq!(entry.explains, [Cause::NagleDelayedAck]);
        assert!(entry.what.contains("app (pid 7)"));
    }

    #[test]
    fn one_look_or_an_option_that_is_on_says_nothing() {
        assert_eq!(loud(&held(1, Some(false))), []);
        assert_eq!(loud(&held(18, Some(true))), [], "something else holds it");
        assert_eq!(loud(&held(18, None)), [], "not read");
    }
}
