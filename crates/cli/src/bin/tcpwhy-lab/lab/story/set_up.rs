//! The section with the set-up: ends and link, fault, software, parameters.

use super::section;
use crate::lab::outcome::CaseOutcome;
use tcpwhy_core::model::units;
use tcpwhy_core::report::{Look, Page, Paint, columns_of, right};
use tcpwhy_lab::describe::fill;
use tcpwhy_lab::params::option;
use tcpwhy_lab::timekeeping::LATE_P99_MAX_NS;
use tcpwhy_lab::{Class, Labels, Link, tables};

/// Parameters of every case that are shown only if they are not 0.
const IS_SELDOM: [&str; 4] = ["any_interface", "bbr", "ipv6", "snaplen_bytes"];

/// Renders the section. `again` is the command that repeats the run.
pub fn set_up(outcome: &CaseOutcome<'_>, again: &str, look: &Look) -> String {
    let labels = outcome.labels();
    let mut page = section(look, "set up", "in network namespaces of its own");
    topology(&mut page, labels);
    if let Some(knob) = outcome.case.knob {
        let faulty = fill(knob.faulty, &labels.params);
        let label = if outcome.case.class == Class::Cost { "cost" } else { "fault" };
        page.labelled(label, &format!("{}: {faulty}", knob.at));
    }
    page.listed("software", &software(labels));
    let shown =
        labels.params.iter().filter(|(name, value)| *value > 0 || !IS_SELDOM.contains(name));
    let params = shown.map(|(name, value)| {
        let (name, unit) = option(name);
        format!("{name} {}", unit.show(value))
    });
    page.listed("parameters", &params.collect::<Vec<_>>());
    page.command("again", again);
    if tables::of(outcome.case.name).is_some() {
        page.command("table", &format!("sudo tcpwhy lab table {}", outcome.case.name));
    }
    let relay = labels.stage.relay.as_ref();
    let late = relay.map(|it| it.timekeeping.late_p99_ns).filter(|late| *late > LATE_P99_MAX_NS);
    if let Some(late_ns) = late {
        let late = units::duration(late_ns);
        page.warning(&format!("this machine is busy: the link delivered up to {late} late (p99)"));
    }
    page.finish()
}

/// Describes client, link and server in two lines, and other hosts that take part.
fn topology(page: &mut Page<'_>, labels: &Labels) {
    let (client, server) = (&labels.stage.client_address, &labels.server_endpoint);
    let link = format!(" {} ", link(labels));
    let width = page.look.width.clamp(40, 96) - 2;
    let room = width.saturating_sub(columns_of(client) + columns_of(server) + 2);
    let spare = room.saturating_sub(columns_of(&link));
    let (before, after) = ("─".repeat(spare / 2), "─".repeat(spare - spare / 2));
    let names = right("server", width.saturating_sub(columns_of("client")));
    page.line(&page.look.paint(Paint::Dim, &format!("  client{names}")));
    if spare >= 4 {
        page.line(&format!("  {client} {before}{link}{after} {server}"));
    } else {
        page.line(&format!("  {client}{}", right(server, width - columns_of(client))));
        page.labelled("link", link.trim());
    }
    if !labels.stage.others.is_empty() {
        page.labelled("also", &labels.stage.others.join(", "));
    }
}

fn link(labels: &Labels) -> String {
    let Link::Relay(relay) = &labels.link else { return "a cable (veth)".to_owned() };
    let (there, back) = (&relay.client_to_server, &relay.server_to_client);
    let mut text = format!("{} round trip", units::duration(there.delay_ns + back.delay_ns));
    match (there.rate_bps, back.rate_bps) {
        (0, 0) => {}
        (one, other) if one == other => text += &format!(" · {}", units::rate(one)),
        (up, down) => text += &format!(" · {} up, {} down", units::rate(up), units::rate(down)),
    }
    text
}

/// Returns the software that took part, with versions.
fn software(labels: &Labels) -> Vec<String> {
    let named = labels.versions.iter().map(|(name, said)| {
        let name = match name.as_str() {
            "kernel" => "Linux",
            "libc" => "glibc",
            name => name,
        };
        format!("{name} {}", version(said))
    });
    let own = labels.versions.keys().all(|name| ["kernel", "tcpdump"].contains(&name.as_str()));
    let own = own.then(|| "the lab's own client and server".to_owned());
    let congestion_control = format!("{} congestion control", labels.congestion_control);
    named.chain(own).chain([congestion_control]).collect()
}

/// Returns the version number in a program's version output.
fn version(said: &str) -> &str {
    let is_number = |word: &&str| word.contains('.') && word.contains(|c: char| c.is_ascii_digit());
    let words = || said.split(|c: char| c.is_whitespace() || "/()\",".contains(c));
    let number = words().find(is_number).or_else(|| words().next()).unwrap_or(said);
    let digits = number.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
    number.get(digits..).unwrap_or(number)
}
