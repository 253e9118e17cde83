//! TCP settings of running databases.

use tcpwhy_core::model::Cause;

use super::Check;
use crate::entry::{Change, Entry, Layer};
use crate::facts::{Facts, reported};

pub const CHECKS: &[Check] =
    &[Check { id: "database_settings", layer: Layer::Application, judge: settings }];

fn settings(check: &Check, facts: &Facts) -> Vec<Entry> {
    let entries = facts.databases.iter().map(|database| {
        let settings = database.settings.iter().map(|(name, value)| format!("{name} {value}"));
        let settings: Vec<_> = settings.collect();
        let source = database.file.as_deref().unwrap_or("its command line");
        let value = if settings.is_empty() {
            format!("nothing set in {source}: defaults")
        } else {
            format!("{} ({source})", settings.join(", "))
        };
        let what = format!("connection settings of {} (pid {})", database.name, database.pid);
        let why = "they bound connections, the accept queue, and how long an idle one is kept";
        let entry = check.entry(what, value, why);
        let idle = database.settings.iter().find(|it| it.0 == "timeout" && it.1 != "0");
        let Some((_, seconds)) = idle else { return entry };
        let listens = |end: std::net::SocketAddr| {
            let listener = super::listen::listener(facts, end);
            let process = listener.and_then(|it| it.process.as_ref());
            process.is_some_and(|process| process.pid == database.pid)
        };
        let findings = facts.own_findings(&[Cause::IdleReset]);
        let findings = findings.filter(|it| it.end().is_some_and(listens));
        let change = Change::command(
            "let clients close idle connections first, or keep them for ever",
            "redis-cli CONFIG SET timeout 0",
            "connections of clients that vanished stay until tcp-keepalive ends them",
            format!("redis-cli CONFIG SET timeout {seconds}"),
        );
        entry.explains(&[Cause::IdleReset], reported(findings)).change(change)
    });
    entries.collect()
}
