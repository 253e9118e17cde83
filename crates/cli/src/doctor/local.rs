//! A server on this machine: the state of its sockets, and the host's settings that explain a
//! finding.

use super::steps::Steps;
use std::net::SocketAddr;
use std::time::Instant;
use tcpwhy_core::model::{Report, units};
use tcpwhy_core::report::json;
use tcpwhy_core::state::{self, Socket, State};
use tcpwhy_host::{Entry, Evidence};
use tcpwhy_privileged::Helper;
use tcpwhy_probe::experiment::{Connection, Settings, Subject};

/// The network namespace of the server by name; that of this process has none.
pub struct ServerNamespace(Option<String>);

/// Number of audit entries that are shown.
const ENTRIES_MAX: usize = 3;

/// Weighs the findings with the state of the server's sockets, if the server is on this machine.
/// Returns the network namespace of the server.
pub fn weigh(
    report: &mut Report,
    subject: &Subject,
    helper: &Helper,
    steps: &mut Steps,
) -> Option<ServerNamespace> {
    let began = Instant::now();
    // A connection that stays open while the sockets are read.
    let connection = Connection::open(subject, Settings::default()).ok()?;
    let own = connection.local()?;
    let there = match helper.connection(own.port()) {
        Ok(there) => there,
        Err(error) => {
            steps.skipped("sockets", error.to_string());
            return None;
        }
    };
    let Some(server) = socket(&there, subject.server, own) else {
        steps.skipped("sockets", "the server is on another machine, or may not be seen");
        return None;
    };
    match helper.server() {
        Ok(mut all) => {
            // Full ports or tables of other namespaces have nothing to do with the target.
            let client = socket(&there, own, subject.server);
            let ends = [Some(server), client].map(|end| end.map(|it| &it.netns));
            all.netns.retain(|it| ends.contains(&Some(&it.name)));
            all.sockets.retain(|it| ends.contains(&Some(&it.netns)));
            state::weigh(report, &all);
            let count = all.sockets.len();
            steps.done("sockets", began, format!("the server is on this machine: {count} sockets"));
        }
        Err(error) => steps.skipped("sockets", error.to_string()),
    }
    Some(ServerNamespace(server.netns.clone()))
}

/// Returns the audit entries that explain findings of the report, the most direct first.
pub fn explain(
    report: &Report,
    place: &ServerNamespace,
    helper: &Helper,
    steps: &mut Steps,
) -> Vec<Entry> {
    if report.findings.is_empty() {
        return Vec::new();
    }
    let began = Instant::now();
    let Ok(document) = json::render(report, env!("CARGO_PKG_VERSION")) else { return Vec::new() };
    match helper.audit(place.0.as_deref(), document.as_bytes()) {
        Ok(mut entries) => {
            entries.retain(explains_a_finding);
            entries.truncate(ENTRIES_MAX);
            let count = entries.len() as u64;
            let what = match count {
                0 => "nothing explains a finding".to_owned(),
                1 => "1 entry explains a finding".to_owned(),
                _ => format!("{} explain a finding", units::counted(count, "entry", "entries")),
            };
            steps.done("host", began, what);
            entries
        }
        Err(error) => {
            steps.skipped("host", error.to_string());
            Vec::new()
        }
    }
}

fn explains_a_finding(entry: &Entry) -> bool {
    entry.evidence.iter().any(|it| matches!(it, Evidence::Report { .. }))
}

/// Finds the socket with these two ends.
fn socket(state: &State, local: SocketAddr, peer: SocketAddr) -> Option<&Socket> {
    let same = |one: SocketAddr, other: SocketAddr| {
        (one.ip().to_canonical(), one.port()) == (other.ip().to_canonical(), other.port())
    };
    state
        .sockets
        .iter()
        .find(|it| same(it.local, local) && it.peer.is_some_and(|at| same(at, peer)))
}
