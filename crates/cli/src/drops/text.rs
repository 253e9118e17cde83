//! Text output of `tcpwhy drops`: harmful drops first, with the place in the kernel, the flows, and
//! what to do.

use std::time::Duration;
use tcpwhy_core::model::units::{count, counted, duration, printable};
use tcpwhy_core::report::{Look, Page, Paint};
use tcpwhy_live::drops::{Harm, Line, Report};

/// Number of lines shown unless all are asked for.
const LINES_MAX: usize = 12;
/// Number of flows shown in a line unless all are asked for.
const FLOWS_MAX: usize = 3;

/// Renders the whole report.
pub fn render(report: &Report, look: &Look) -> String {
    let mut page = Page::new(look);
    page.line(&headline(report));
    body(report, look, &mut page);
    page.finish()
}

/// Renders the drops so far, while the watch runs.
pub fn running(report: &Report, left: Duration, look: &Look) -> String {
    let mut page = Page::new(look);
    let seconds = left.as_secs() + 1;
    page.line(&format!("{} · {seconds} s left, Ctrl-C ends", headline(report)));
    body(report, look, &mut page);
    page.finish()
}

fn headline(report: &Report) -> String {
    let of = |harm: Harm| {
        let lines = report.drops.iter().filter(|line| line.harm == harm);
        lines.map(|line| line.packets).sum::<u64>()
    };
    let hurts = match of(Harm::Hurts) {
        // Counters do not say which connection a drop belongs to.
        0 if !report.hooks_missing.is_empty() => {
            "whether a drop hurt a connection is not known: the counters show none".to_owned()
        }
        0 => "no drop hurt a connection".to_owned(),
        packets => format!("{} that hurt", counted(packets, "drop", "drops")),
    };
    let place = match &report.netns[..] {
        [only] => only.name.as_ref().map_or_else(
            || "in this network namespace".to_owned(),
            |name| format!("in network namespace {}", printable(name)),
        ),
        all => format!("in {} network namespaces", all.len()),
    };
    format!("{} watched {place} · {hurts}", duration(report.duration_ns))
}

fn body(report: &Report, look: &Look, page: &mut Page) {
    for missing in &report.hooks_missing {
        page.warning(&format!(
            "counters only, no reasons, functions or flows: {}",
            printable(&missing.lack.to_string()),
        ));
    }
    if report.uncounted > 0 {
        let drops = counted(report.uncounted, "drop was", "drops were");
        page.warning(&format!("{drops} seen and not counted: the hook's table is full"));
    }
    tracking(report, look, page);
    let wanted: Vec<_> =
        report.drops.iter().filter(|line| look.all || line.harm != Harm::Harmless).collect();
    let shown = if look.all { wanted.len() } else { LINES_MAX };
    for line in wanted.iter().take(shown) {
        page.gap();
        show(line, look, page);
    }
    let harmless: u64 = report
        .drops
        .iter()
        .filter(|line| line.harm == Harm::Harmless)
        .map(|line| line.packets)
        .sum();
    let omitted = wanted.len().saturating_sub(shown) as u64;
    if omitted > 0 {
        page.gap();
        page.line(&format!("{} more: --all shows them", counted(omitted, "kind", "kinds")));
    }
    if harmless > 0 && !look.all {
        page.gap();
        let packets = counted(harmless, "harmless drop", "harmless drops");
        page.line(&look.paint(
            Paint::Dim,
            &format!(
                "{packets} (duplicates, closed connections, multicast, other hosts): \
                 --all shows them"
            ),
        ));
    }
}

/// Writes the state of connection tracking, if it is in use.
fn tracking(report: &Report, look: &Look, page: &mut Page) {
    for netns in &report.netns {
        let Some(conntrack) = netns.conntrack else { continue };
        let close_to_full = conntrack.count * 10 >= conntrack.max * 8;
        if conntrack.count == 0 || !(look.all || close_to_full) {
            continue;
        }
        let place = netns.name.as_ref().map(|name| format!(", namespace {}", printable(name)));
        let text = format!(
            "connection tracking: {} of {} entries in use{}",
            count(conntrack.count),
            count(conntrack.max),
            place.unwrap_or_default(),
        );
        if close_to_full { page.warning(&text) } else { page.line(&text) }
    }
}

fn show(line: &Line, look: &Look, page: &mut Page) {
    let (word, paint) = match line.harm {
        Harm::Hurts => ("HURTS", Paint::Fault),
        Harm::CanHurt => ("can hurt", Paint::Warning),
        Harm::Harmless => ("harmless", Paint::Dim),
    };
    let what = line.cause.map_or_else(|| line.subject.title(), |cause| cause.id());
    page.line(&format!("{}  {}", look.paint(paint, word), look.paint(Paint::Bold, what)));
    page.paragraph(None, &format!("{}.", line.sentence), 2);
    let place = location(line);
    if !place.is_empty() {
        page.listed("where", &place);
    }
    let flows_max = if look.all { line.flows.len() } else { FLOWS_MAX };
    let mut flows: Vec<String> = line.flows.iter().take(flows_max).map(flow).collect();
    let omitted = line.flows_omitted + (line.flows.len() - flows.len()) as u64;
    if omitted > 0 {
        flows.push(counted(omitted, "more flow", "more flows"));
    }
    if !flows.is_empty() {
        page.listed("flows", &flows);
    }
    if !line.counters.is_empty() {
        let counters = line.counters.iter();
        let counters: Vec<_> =
            counters.map(|it| format!("{} +{}", printable(&it.name), count(it.by))).collect();
        page.listed("counters", &counters);
    }
    if !line.change.is_empty() {
        page.labelled("do", line.change);
    }
}

fn location(line: &Line) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(socket) = line.socket {
        parts.push(format!("socket {socket}"));
    }
    if let Some(process) = &line.process {
        parts.push(format!("{} (pid {})", printable(&process.command), process.pid));
        parts.extend(process.container.as_ref().map(|id| format!("container {id}")));
    }
    if let Some(interface) = &line.interface {
        parts.push(format!("interface {}", printable(interface)));
    }
    if let Some(netns) = &line.netns {
        parts.push(format!("namespace {}", printable(netns)));
    }
    if let Some(function) = &line.function {
        parts.push(format!("kernel function {}", printable(function)));
    }
    if let Some(reason) = &line.reason {
        parts.push(format!("reason {}", printable(reason)));
    }
    parts
}

fn flow(drops: &tcpwhy_live::drops::FlowDrops) -> String {
    let protocol = match drops.flow.protocol {
        0 => "IPv6 options ".to_owned(),
        1 => "ICMP ".to_owned(),
        2 => "IGMP ".to_owned(),
        6 => "TCP ".to_owned(),
        17 => "UDP ".to_owned(),
        58 => "ICMPv6 ".to_owned(),
        other => format!("protocol {other} "),
    };
    let end = |end: std::net::SocketAddr| {
        if end.port() == 0 { end.ip().to_string() } else { end.to_string() }
    };
    let (source, destination) = (end(drops.flow.source), end(drops.flow.destination));
    let mut kinds = Vec::new();
    for (number, word) in [(drops.syns, "SYN"), (drops.with_data, "with data")] {
        if number > 0 {
            kinds.push(format!("{} {word}", count(number)));
        }
    }
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    format!("{protocol}{source} → {destination} ×{}{kinds}", count(drops.packets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpwhy_live::hooks::{HookKind, Lack, Unavailable};

    #[test]
    fn without_hooks_it_is_not_said_that_no_drop_hurt_a_connection() {
        let mut report = Report {
            duration_ns: 2_000_000_000,
            hooks_missing: Vec::new(),
            uncounted: 0,
            netns: Vec::new(),
            drops: Vec::new(),
        };
        let none = "no drop hurt a connection";
        let look = Look { width: 200, ..Look::default() };
        assert!(render(&report, &look).contains(none));
        report.hooks_missing = vec![Unavailable { hook: HookKind::Drop, lack: Lack::NotBuilt }];
        for text in [render(&report, &look), running(&report, Duration::ZERO, &look)] {
            assert!(!text.contains(none) && text.contains("is not known"), "{text}");
            let why = "built without kernel hooks (clang was missing";
            assert!(text.contains(why) && text.contains("install clang"), "{text}");
        }
    }
}
