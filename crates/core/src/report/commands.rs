//! The follow-up commands of a finding: draw its evidence, try a fix, and measure again after the
//! change.

use super::ladder::{Named, evidence_labels};
use super::phrases::is_dns;
use crate::findings::{BLOCKED_BY_SEND_BUFFER, INITCWND};
use crate::model::{Cause, ConnectionReport, Fact, Finding, Invocation, Report, Role, units};
use crate::wire::{Endpoint, Side};

/// Maximum number of files that a command names; more are written as `FILES`.
const FILES_MAX: usize = 4;

/// Placeholder for the captures of a report if there are too many to name.
const NAMELESS: &str = "FILES";

/// Returns the command that draws a finding's evidence; `None` if the evidence is on no connection,
/// or no file has it.
pub fn draw(report: &Report, finding: &Finding) -> Option<String> {
    if report.watched.is_some() && report.asked.files.is_empty() {
        return None;
    }
    let place = place(report, finding);
    let pick = match place {
        // If connections were left out of the list, the numbers in it may differ from those of the
        // whole capture.
        Some((number, _)) if report.connections_omitted == 0 => number.to_string(),
        Some((_, connection)) => connection.client.to_string(),
        None if is_dns(finding.cause) => return None,
        None => finding.evidence_flow.filter(|(client, _)| client.port != 0)?.0.to_string(),
    };
    let exchange = match exchange(finding, place.map(|(_, it)| it)) {
        0 => String::new(),
        number => format!(" --exchange {number}"),
    };
    Some(format!("tcpwhy {} --connection {}{exchange}", asked(&report.asked), quoted(&pick)))
}

/// Returns the frames that a drawing of `connection`, or of its exchange with number `exchange`, has
/// to show: the evidence of all findings that [`draw`] draws there.
pub fn named(report: &Report, connection: &ConnectionReport, exchange: Option<u64>) -> Vec<Named> {
    let is_here = |finding: &&Finding| {
        let place = place(report, finding).map(|(_, it)| it);
        let number = self::exchange(finding, place);
        place.is_some_and(|it| std::ptr::eq(it, connection))
            && exchange.is_none_or(|wanted| wanted == number)
    };
    let named = report.findings.iter().filter(is_here).flat_map(|finding| {
        let frames = finding.evidence.iter().map(|it| (it.frame, it.from));
        frames.zip(evidence_labels(finding)).map(|((frame, from), label)| Named {
            frame,
            from,
            label,
        })
    });
    named.collect()
}

/// Returns the connection that shows a finding, with its number in the report's list.
fn place<'a>(report: &'a Report, finding: &Finding) -> Option<(u64, &'a ConnectionReport)> {
    match is_dns(finding.cause) {
        true => waiting(report, finding),
        false => connection(report, finding),
    }
}

/// Returns the number of the exchange on `connection` that shows a finding; 0 if it is the whole
/// connection, as where no exchange is complete.
fn exchange(finding: &Finding, connection: Option<&ConnectionReport>) -> u64 {
    // The look-up comes before the first exchange of the connection.
    let number = if is_dns(finding.cause) { 1 } else { finding.evidence_exchange };
    let is_there = connection.is_none_or(|it| number <= it.exchanges);
    if is_there { number } else { 0 }
}

/// Returns the connection of a finding's evidence, with its number in the report's list. Ports are
/// reused: of several connections, it is the last one that began before the evidence.
fn connection<'a>(report: &'a Report, finding: &Finding) -> Option<(u64, &'a ConnectionReport)> {
    let evidence = finding.evidence.first()?;
    let holds = |it: &&ConnectionReport| {
        Some((it.client, it.server)) == finding.evidence_flow && it.first_frame <= evidence.frame
    };
    let numbered = (1..).zip(&report.connections).filter(|(_, it)| holds(it));
    numbered.max_by_key(|(_, it)| it.first_frame)
}

/// Returns the connection that waited for the look-up of the evidence, with its number: the first
/// one that the same host opened after it.
fn waiting<'a>(report: &'a Report, finding: &Finding) -> Option<(u64, &'a ConnectionReport)> {
    let (client, _) = finding.evidence_flow?;
    let answered = finding.evidence.iter().map(|link| link.frame).max()?;
    let numbered = (1..).zip(&report.connections);
    let later =
        numbered.filter(|(_, it)| it.client.address == client.address && it.first_frame > answered);
    later.min_by_key(|(_, it)| it.first_frame)
}

/// Returns the commands that measure again after the change and compare.
pub fn verify(report: &Report, finding: &Finding) -> String {
    if let Some(target) = &report.asked.target {
        return format!("tcpwhy {}", quoted(target));
    }
    let what = what(finding);
    if report.watched.is_some() {
        return watch_again(&what);
    }
    // A capture filter sees only the outer headers of a tunnel.
    let is_tunnelled = report.observations.iter().any(|it| it.id == "tunnels");
    let chosen = if is_tunnelled { String::new() } else { format!(" {}", quoted(&what)) };
    let capture = format!("sudo timeout 60 tcpdump -i any -w after.pcap{chosen}");
    // If nothing was answered, there is no latency to compare.
    if finding.affected.of_exchanges == 0 {
        return format!("{capture}; tcpwhy after.pcap --filter 'cause {}'", finding.cause.id());
    }
    // The first capture may contain other traffic than the capture made after the change.
    let is_narrow = is_tunnelled || report.endpoints.len() > 1 || !report.asked.options.is_empty();
    let filter = match what.as_str() {
        what if is_narrow && what.starts_with("host ") => format!(" --filter {}", quoted(what)),
        _ => String::new(),
    };
    match report.asked.files.as_slice() {
        [one] if one != "-" => {
            format!("{capture}; tcpwhy compare {} after.pcap{filter}", quoted(one))
        }
        _ => format!(
            "tcpwhy {}{filter} --json >before.json; {capture}; tcpwhy compare before.json after.pcap",
            files(&report.asked)
        ),
    }
}

/// Length of the longer accept queue, connections.
const BACKLOG: u32 = 4_096;

/// Returns the command that tries the fix on the running system, on the host at fault; `None` if
/// the fix cannot be undone. If that host is not the culprit's, a shell comment names it.
pub fn treat(finding: &Finding) -> Option<String> {
    let role = finding.culprit.role;
    let sockets = |what: &str, at: Role| {
        let port = port(finding).filter(|_| matches!(at, Role::Client | Role::Server))?;
        Some(format!("{what} --port {port} --side {}", at.id()))
    };
    let measured = |what: &str| Some(format!("{what} --port {}", port(finding)?));
    let what = match finding.cause {
        Cause::NagleDelayedAck => sockets("nodelay", role)?,
        Cause::ReceiveWindow if has(finding, "unscaled") => return None,
        Cause::SendBuffer | Cause::ReceiveWindow => sockets("buffers", role)?,
        Cause::DelayedAck if is_blocked_by(finding, BLOCKED_BY_SEND_BUFFER) => {
            sockets("buffers", role)?
        }
        // A sender that waits for late ACKs cannot change that, because the other side sends them.
        Cause::DelayedAck => sockets("quickack", peer(role)?)?,
        Cause::SlowStart if role != Role::Server => return None,
        Cause::SlowStart if has(finding, "restarts") => {
            measured("sysctl tcp_slow_start_after_idle=0")?
        }
        Cause::SlowStart if has(finding, "saved") => {
            let (client, _) = finding.evidence_flow?;
            measured(&format!("cwnd --initcwnd {INITCWND} --to {}", client.ip()))?
        }
        Cause::MtuBlackHole if !has(finding, "obeyed_bytes") => {
            let what = measured("sysctl tcp_mtu_probing=1")?;
            return Some(format!("sudo tcpwhy treat {what}  # on the {}", side(finding.sender)));
        }
        Cause::AcceptQueueOverflow if role == Role::Server => {
            format!("backlog {BACKLOG} --port {}", port(finding)?)
        }
        Cause::SynFlood => {
            let port = port(finding)?;
            return Some(format!("sudo tcpwhy treat syn-flood --port {port}  # on the server"));
        }
        Cause::PortExhaustion if role == Role::Client => {
            "sysctl 'ip_local_port_range=1024 65535'".into()
        }
        Cause::DnsSearch => resolver("--ndots 1"),
        Cause::DnsSlow if role == Role::Resolver && has(finding, "asked_again_by_client") => {
            resolver("--cache")
        }
        // If all name servers are queried at the same time, the client does not wait for the silent
        // one.
        Cause::DnsTimeout if has(finding, "next_resolver") => resolver("--cache"),
        Cause::ConntrackRace => resolver("--single-request-reopen"),
        _ => return None,
    };
    Some(format!("sudo tcpwhy treat {what}"))
}

fn resolver(options: &str) -> String {
    format!("resolver {options}  # on the client")
}

fn has(finding: &Finding, name: &str) -> bool {
    finding.facts.iter().any(|(fact, _)| *fact == name)
}

fn is_blocked_by(finding: &Finding, what: &str) -> bool {
    let is_it = |fact: &Fact| matches!(fact, Fact::Text(text) if text == what);
    finding.facts.iter().any(|(name, fact)| *name == "blocker" && is_it(fact))
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Client => Role::Client.id(),
        Side::Server => Role::Server.id(),
    }
}

fn peer(role: Role) -> Option<Role> {
    match role {
        Role::Client => Some(Role::Server),
        Role::Server => Some(Role::Client),
        _ => None,
    }
}

/// Returns the server's port. A client's port changes, so its connections are selected by the
/// server's.
fn port(finding: &Finding) -> Option<u16> {
    let port = match finding.culprit.role {
        Role::Server => finding.culprit.endpoint.port,
        Role::Client => finding.evidence_flow?.1.port,
        _ => finding.evidence_flow.map_or(finding.culprit.endpoint.port, |(_, server)| server.port),
    };
    (port != 0).then_some(port)
}

/// Returns the commands that watch a running system before and after the change.
fn watch_again(what: &str) -> String {
    let filter = match what {
        what if what.starts_with("host ") => format!(" --filter {}", quoted(what)),
        _ => String::new(),
    };
    let watch =
        |run: &str| format!("sudo tcpwhy watch --for 60s{filter} --json | tail -n 1 >{run}.json");
    format!(
        "{}; read -p 'now make the change: '; {}; tcpwhy compare before.json after.json",
        watch("before"),
        watch("after")
    )
}

/// Returns the capture filter for the traffic in which a finding appears.
fn what(finding: &Finding) -> String {
    if is_dns(finding.cause) {
        return "tcp or port 53".into();
    }
    let Endpoint { port, .. } = finding.culprit.endpoint;
    let server = finding.evidence_flow.map(|(_, server)| server);
    // A client's ports change, and a router has none: traffic to the server is captured instead.
    let elsewhere =
        finding.culprit.role == Role::Client || finding.culprit.role == Role::Network && port == 0;
    let at = server.filter(|_| elsewhere);
    let at = at.unwrap_or(finding.culprit.endpoint);
    let port = if at.port == 0 { port } else { at.port };
    match port {
        // Many servers are reported as one.
        _ if finding.culprit.endpoint == Endpoint::default() => "tcp".into(),
        0 => format!("host {}", at.ip()),
        _ => format!("host {} and port {port}", at.ip()),
    }
}

/// Returns the names of the files and the options that select a part of them.
fn asked(asked: &Invocation) -> String {
    let options = asked.options.iter().map(|word| quoted(word));
    std::iter::once(files(asked)).chain(options).collect::<Vec<_>>().join(" ")
}

fn files(asked: &Invocation) -> String {
    match asked.files.as_slice() {
        [] => "FILE".into(),
        // Standard input cannot be read again.
        [one] if one == "-" => "FILE".into(),
        few if few.len() <= FILES_MAX => {
            few.iter().map(|file| quoted(file)).collect::<Vec<_>>().join(" ")
        }
        _ => NAMELESS.into(),
    }
}

/// Quotes `word` for the shell, if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "/._-+:=,@%".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let word = units::printable(word);
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Culprit, Observation};
    use std::net::SocketAddr;

    #[test]
    fn names_are_quoted_where_a_shell_would_split_or_expand_them() {
        assert_eq!(quoted("a/b-1.pcap"), "a/b-1.pcap");
        assert_eq!(quoted("a b.pcap"), "'a b.pcap'");
        assert_eq!(quoted("$(x)"), "'$(x)'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn what_is_in_a_tunnel_is_chosen_when_the_capture_is_read() {
        let server: SocketAddr = "10.0.0.2:80".parse().expect("an address");
        let culprit = Culprit { role: Role::Server, endpoint: server.into() };
        let mut finding = Finding::of_cause(Cause::ServerThink, culprit);
        (finding.affected.of_exchanges, finding.evidence_flow) =
            (1, Some((server.into(), server.into())));
        let asked = Invocation { files: vec!["a.pcap".into()], ..Invocation::default() };
        let mut report = Report { asked, ..Report::default() };
        let plain = verify(&report, &finding);
        assert!(plain.contains("-w after.pcap 'host 10.0.0.2"), "{plain}");
        assert!(plain.ends_with("tcpwhy compare a.pcap after.pcap"), "{plain}");
        let (facts, frames) = (Vec::new(), Vec::new());
        report.observations = vec![Observation { id: "tunnels", facts, frames }];
        let tunnelled = verify(&report, &finding);
        assert!(tunnelled.contains("-w after.pcap; tcpwhy compare"), "{tunnelled}");
        assert!(tunnelled.contains("after.pcap --filter 'host 10.0.0.2"), "{tunnelled}");
    }

    #[test]
    fn files_are_named_as_long_as_they_are_few() {
        let of = |files: &[&str]| {
            let files = files.iter().map(|&it| it.to_owned()).collect();
            super::files(&Invocation { files, ..Invocation::default() })
        };
        assert_eq!(of(&["a.pcap", "b.pcap"]), "a.pcap b.pcap");
        assert_eq!(of(&["-"]), "FILE");
        assert_eq!(of(&["a"; 5]), "FILES");
    }
}
