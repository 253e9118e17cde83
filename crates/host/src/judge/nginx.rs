//! Settings of running nginx masters, with file and line.

use std::net::SocketAddr;

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::count;

use super::Check;
use super::{listen, nagle};
use crate::entry::{Change, Entry, Layer, Rank};
use crate::facts::{Facts, reported, state};
use crate::nginx::{Nginx, Setting};

pub const CHECKS: &[Check] = &[
    Check { id: "nginx_tcp_nodelay", layer: Layer::Application, judge: nodelay },
    Check { id: "nginx_keepalive_timeout", layer: Layer::Application, judge: keepalive },
    Check { id: "nginx_worker_connections", layer: Layer::Application, judge: connections },
    Check { id: "nginx_settings", layer: Layer::Application, judge: settings },
];

/// Returns the endpoints of the workers of nginx, from the listeners of the namespace.
fn ends(facts: &Facts) -> Vec<SocketAddr> {
    let listeners = facts.sockets.listeners.iter();
    let of_nginx = listeners
        .filter(|it| it.process.as_ref().is_some_and(|process| process.command == "nginx"));
    let mut ends: Vec<_> = of_nginx.map(|it| it.local).collect();
    // The address that a finding names is nearer than the wildcard.
    let found = facts.findings.iter().filter_map(|it| it.end());
    let found = found
        .filter(|end| listen::listener(facts, *end).is_some_and(|it| ends.contains(&it.local)));
    let found: Vec<_> = found.collect();
    ends.retain(|end| !found.iter().any(|it| it.port() == end.port()));
    ends.extend(found);
    ends.sort();
    ends.dedup();
    ends
}

/// Returns a note if the file on disk is newer than the running configuration.
fn stale(nginx: &Nginx) -> String {
    match &nginx.changed_since {
        Some(file) => format!(
            "; {} was changed after this nginx last read it, what runs may differ (`{}` loads it)",
            file.display(),
            nginx.reload
        ),
        None => String::new(),
    }
}

fn edit(facts: &Facts, nginx: &Nginx, setting: &Setting<'_>, text: &str) -> Change {
    let place = setting.directive.location();
    let (now, name) = (setting.directive.text(), &setting.directive.name);
    let what = format!(
        "write `{text};` instead of `{now};` in {place} (block {}), then reload",
        setting.block
    );
    let line = setting.directive.line;
    let file = setting.directive.file.display();
    let value = |text: &str| text.strip_prefix(name).unwrap_or(text).trim().to_owned();
    let sed = |from: &str, to: &str| {
        format!(
            "sed -i --follow-symlinks '{line}s|{name} *{from}|{name} {to}|' {file} && {}",
            nginx.reload
        )
    };
    // In a container nginx has other files; and no name may say more than a name to a shell.
    let is_word = |text: &str| text.chars().all(|it| it.is_alphanumeric() || " /._-".contains(it));
    let path = setting.directive.file.to_string_lossy();
    let is_plain = is_word(&now) && is_word(&path) && !path.contains(' ');
    let is_plain = is_plain && facts.is_own_root(nginx.pid);
    let (old, new) = (value(&now), value(text));
    if !is_plain {
        return Change::by_hand(what, RISK, format!("write `{now};` in {place} again and reload"));
    }
    Change::command(what, sed(&old, &new), RISK, sed(&new, &old))
}

const RISK: &str = "a reload keeps open connections with the old workers until they end";

fn nodelay(check: &Check, facts: &Facts) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for end in ends(facts) {
        let evidence = nagle::evidence(facts, end);
        if evidence.is_empty() {
            continue;
        }
        for nginx in &facts.nginx {
            let all = nginx.settings(end, "tcp_nodelay");
            let off =
                |it: &&Setting<'_>| it.directive.arguments.first().is_some_and(|it| it == "off");
            for setting in all.iter().filter(off) {
                let value = format!(
                    "off for {end}: {}, block {}{}",
                    setting.directive.location(),
                    setting.block,
                    stale(nginx)
                );
                let what = format!("tcp_nodelay of nginx (pid {})", nginx.pid);
                entries.push(
                    check
                        .entry(what, value, nagle::WHY)
                        .explains(&[Cause::NagleDelayedAck], evidence.clone())
                        .change(edit(facts, nginx, setting, "tcp_nodelay on")),
                );
            }
            let listens = !nginx.listens(end).is_empty();
            if listens && !all.iter().any(|it| off(&it)) {
                entries.push(
                    other(check, nginx, end).explains(&[Cause::NagleDelayedAck], evidence.clone()),
                );
            }
        }
    }
    entries
}

/// The directive is on (its default), but small segments are held nevertheless.
fn other(check: &Check, nginx: &Nginx, end: SocketAddr) -> Entry {
    let what = format!("tcp_nodelay of nginx (pid {})", nginx.pid);
    let value = format!("on for {end} by the configuration on disk{}", stale(nginx));
    let text = match &nginx.changed_since {
        Some(_) => "reload nginx: what runs was read before the file was changed",
        None => {
            "nginx sets the option on kept-alive connections only: look at tcp_nopush and at \
             `Connection: close` answers of this service"
        }
    };
    let change = Change::by_hand(text, RISK, "nothing is changed on disk");
    check.entry(what, value, nagle::WHY).change(change)
}

fn keepalive(check: &Check, facts: &Facts) -> Vec<Entry> {
    let mut entries = Vec::new();
    for finding in facts.own_findings(&[Cause::IdleReset]) {
        let Some(end) = finding.end() else { continue };
        for nginx in facts.nginx.iter().filter(|it| !it.listens(end).is_empty()) {
            let all = nginx.settings(end, "keepalive_timeout");
            let value = match all.first() {
                Some(it) => format!("{}: {}", it.directive.text(), it.directive.location()),
                None => "75 s (default)".to_owned(),
            };
            let why = "nginx closes a connection that was idle for so long; a request that is on \
                       its way then meets a closed connection";
            let change = match all.first() {
                Some(setting) => edit(facts, nginx, setting, "keepalive_timeout 75s"),
                None => Change::by_hand(
                    "let clients close idle connections first: their idle timeout below 75 s",
                    "none",
                    "set the clients' timeout back",
                ),
            };
            let what = format!("keepalive_timeout of nginx (pid {})", nginx.pid);
            let entry = check.entry(what, value + &stale(nginx), why).change(change);
            let evidence = reported(std::iter::once(finding));
            entries.push(entry.explains(&[Cause::IdleReset], evidence));
        }
    }
    entries
}

/// A worker that has as many connections as it may have accepts no more.
fn connections(check: &Check, facts: &Facts) -> Vec<Entry> {
    let mut entries = Vec::new();
    for nginx in &facts.nginx {
        let setting = nginx.main("worker_connections");
        let number = setting.and_then(|it| it.arguments.first()?.parse().ok()).unwrap_or(512);
        let workers = facts
            .programs
            .iter()
            .filter(|it| it.arguments.first().is_some_and(|it| it.starts_with("nginx: worker")));
        let Some(most) = workers.filter_map(|it| it.descriptors).max() else { continue };
        let place = setting.map_or("default".to_owned(), |it| it.location());
        let value = format!(
            "{} for each worker ({place}); the busiest has {} descriptors open{}",
            count(number),
            count(most),
            stale(nginx)
        );
        let why = "a worker with so many connections, upstream ones included, accepts no more, and \
                   new ones fill the accept queue";
        let what = format!("worker_connections of nginx (pid {})", nginx.pid);
        let entry = check.entry(what, value, why);
        // Listeners and the log are descriptors too.
        if most < number || facts.growth.of("TcpExt.ListenOverflows") == 0 {
            entries.push(entry);
            continue;
        }
        let mut evidence = vec![state(format!("a worker has {} descriptors open", count(most)))];
        evidence.extend(facts.grew("TcpExt.ListenOverflows"));
        let change = Change::by_hand(
            format!(
                "raise worker_connections ({place}) to {}, with worker_rlimit_nofile above it, \
                 and reload: `{}`",
                number * 4,
                nginx.reload
            ),
            "memory for each connection; upstreams get more of them",
            format!("write `worker_connections {number};` again and reload"),
        );
        entries.push(
            entry
                .explains(&[Cause::AcceptQueueOverflow], evidence)
                .ranked(Rank::Limit)
                .change(change),
        );
    }
    entries
}

/// Reports the settings, without a verdict.
fn settings(check: &Check, facts: &Facts) -> Vec<Entry> {
    let names = ["tcp_nodelay", "tcp_nopush", "sendfile", "keepalive_timeout"];
    let entries = facts.nginx.iter().map(|nginx| {
        let mut parts: Vec<String> = Vec::new();
        for name in names {
            for setting in nginx.all(name) {
                parts.push(format!(
                    "{} ({})",
                    setting.directive.text(),
                    setting.directive.location()
                ));
            }
        }
        if parts.is_empty() {
            parts.push("defaults (tcp_nodelay on, keepalive_timeout 75 s)".to_owned());
        }
        if let Some(problem) = &nginx.problem {
            parts.push(format!("not all was read: {problem}"));
        }
        let what = format!("settings of nginx (pid {}) in {}", nginx.pid, nginx.config.display());
        let why = "they decide how answers are cut into segments and how long connections are kept";
        check.entry(what, parts.join(", ") + &stale(nginx), why)
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{find, idle, loud, only};
    use crate::nginx::{Files, parse};
    use crate::sockets::Listener;
    use std::path::{Path, PathBuf};
    use tcpwhy_live::process::Process;

    struct One(&'static str);

    impl Files for One {
        fn text(&mut self, _: &Path) -> Result<String, String> {
            Ok(self.0.to_owned())
        }
        fn matching(&mut self, _: &Path) -> Vec<PathBuf> {
            Vec::new()
        }
    }

    fn facts(text: &'static str) -> Facts {
        let mut facts = idle();
        let (directives, problem) = parse(Path::new("/etc/nginx/nginx.conf"), &mut One(text));
        facts.nginx.push(Nginx {
            pid: 7,
            config: "/etc/nginx/nginx.conf".into(),
            directives,
            changed_since: None,
            problem,
            reload: "kill -HUP 7".into(),
        });
        facts.own_roots.push(7);
        facts.sockets.listeners.push(Listener {
            local: "0.0.0.0:8080".parse().unwrap(),
            process: Some(Process {
                pid: 7,
                command: "nginx".into(),
                container: None,
                runtime: None,
            }),
            backlog: 511,
            queue_max: 0,
            drops: 0,
            half_open: 0,
        });
        facts
    }

    const OFF: &str = "http {\n  tcp_nodelay off;\n  server {\n    listen 8080;\n  }\n}\n";

    #[test]
    fn the_directive_that_a_finding_speaks_of_is_named_with_its_line() {
        let mut facts = facts(OFF);
        find(&mut facts, Cause::NagleDelayedAck, "server", "10.0.0.2:8080");
        let entry = only(&facts);
        assert!(entry.value.contains("/etc/nginx/nginx.conf:2"), "{}", entry.value);
        let change = entry.change.unwrap();
        let command = "sed -i --follow-symlinks '2s|tcp_nodelay *off|tcp_nodelay on|' \
                       /etc/nginx/nginx.conf && \
                       kill -HUP 7";
        assert_eq!(change.command.as_deref(), Some(command));
        assert!(change.undo.contains("tcp_nodelay *on|tcp_nodelay off"));
    }

    #[test]
    fn without_a_finding_it_is_only_listed() {
        assert_eq!(loud(&facts(OFF)), []);
        let mut elsewhere = facts(OFF);
        find(&mut elsewhere, Cause::NagleDelayedAck, "server", "10.0.0.2:81");
        assert_eq!(loud(&elsewhere), [], "another port");
        let mut other_cause = facts(OFF);
        find(&mut other_cause, Cause::ServerThink, "server", "10.0.0.2:8080");
        assert_eq!(loud(&other_cause), []);
    }

    #[test]
    fn a_file_that_is_newer_than_the_master_is_said() {
        let mut facts = facts("http { server { listen 8080; } }");
        facts.nginx[0].changed_since = Some("/etc/nginx/nginx.conf".into());
        find(&mut facts, Cause::NagleDelayedAck, "server", "10.0.0.2:8080");
        let entry = only(&facts);
        assert!(entry.value.contains("was changed after"), "{}", entry.value);
        assert!(entry.change.unwrap().what.starts_with("reload nginx"));
    }

    #[test]
    fn an_idle_reset_is_explained_by_the_timeout() {
        let mut facts = facts("http { keepalive_timeout 5s; server { listen 8080; } }");
        find(&mut facts, Cause::IdleReset, "server", "10.0.0.2:8080");
        assert!(only(&facts).value.starts_with("keepalive_timeout 5s"));
    }
}
