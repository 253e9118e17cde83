//! Text output of `tcpwhy probe`: round trips, hops, path MTU, one request, then the findings.

use crate::dns::findings;
use tcpwhy_core::model::units::{bytes, counted, duration, printable, share};
use tcpwhy_core::report::{Look, Page, Paint, left, right};
use tcpwhy_probe::dns::Judged;
use tcpwhy_probe::path::{
    Connected, Hop, Method, Mtu, MtuEnd, Path, PathEnd, Phases, Report, RoundTrips,
};

/// Width of a time, columns.
const TIME_COLUMNS: usize = 8;

/// Renders the whole report.
pub fn render(report: &Report, judged: &[Judged], verify: &str, look: &Look) -> String {
    let mut page = Page::new(look);
    let paint = if findings::any_fault(judged) { Paint::Fault } else { Paint::Good };
    page.paragraph(Some(paint), &headline(report), 0);
    body(report, &mut page);
    for skipped in &report.skipped {
        let text = format!("{} not measured: {}", skipped.what, printable(&skipped.why));
        page.paragraph(Some(Paint::Dim), &text, 0);
    }
    for judged in judged {
        page.gap();
        findings::render(judged, verify, &mut page);
    }
    page.finish()
}

/// Renders the measurements so far, while the probe runs.
pub fn running(doing: &str, report: &Report, look: &Look) -> String {
    let mut page = Page::new(look);
    page.line(&format!("{} · {doing}, Ctrl-C ends", printable(&report.target)));
    body(report, &mut page);
    page.finish()
}

fn headline(report: &Report) -> String {
    let target = printable(&report.target);
    let at = match report.address {
        Some(address) if !target.contains(&address.ip().to_string()) => {
            format!("{target} ({})", address.ip())
        }
        _ => target,
    };
    let trip = best(report).map(duration);
    match (&report.connect, trip) {
        (Some(connect), Some(trip)) if connect.established > 0 => {
            let lost = connect.sent - connect.established;
            let lost = if lost > 0 {
                format!("; {lost} of {} connections failed", connect.sent)
            } else {
                String::new()
            };
            format!("{at} accepts connections; the round trip takes {trip}{lost}.")
        }
        (Some(connect), _) if connect.is_refused => {
            format!("{at} refuses connections: the host answers, and nothing listens there.")
        }
        (Some(connect), _) => {
            let why = connect.error.as_deref().map_or_else(|| "no answer".to_owned(), printable);
            format!("{at} cannot be connected to: {why}.")
        }
        (None, _) => format!("{at} was not measured: interrupted."),
    }
}

/// Returns the smallest round trip of the most direct kind of measurement.
fn best(report: &Report) -> Option<u64> {
    let of = |it: &Option<RoundTrips>| it.as_ref().and_then(|it| it.min_ns);
    let kernel = report.connect.as_ref().and_then(|it| it.tcpi_rtt_min_us);
    of(&report.syn).or(kernel.map(|us| us * 1_000)).or_else(|| of(&report.echo))
}

fn body(report: &Report, page: &mut Page<'_>) {
    if let Some(lookup) = &report.lookup {
        let how = match lookup.queries.len() as u64 {
            0 => "/etc/hosts".to_owned(),
            queries => counted(queries, "query", "queries"),
        };
        let addresses: Vec<_> = lookup.addresses.iter().map(ToString::to_string).collect();
        let text = format!("{} by {how}: {}", duration(lookup.took_ns), addresses.join(", "));
        page.labelled("resolve", &text);
    }
    for (label, trips) in [("echo", &report.echo), ("syn", &report.syn)] {
        if let Some(trips) = trips {
            page.labelled(label, &round_trips(trips));
        }
    }
    if let Some(connect) = &report.connect {
        page.labelled("connect", &connected(connect));
    }
    if let Some(path) = report.path.as_ref() {
        hops(path, page);
        added(report, path, page);
    }
    if let Some(mtu) = &report.mtu {
        page.labelled("path mtu", &path_mtu(mtu));
    }
    if let Some(phases) = &report.request {
        request(phases, page);
    }
}

/// Formats `min / median / max` of samples.
fn times(all: (Option<u64>, Option<u64>, Option<u64>)) -> String {
    match all {
        (Some(min), Some(p50), Some(max)) => {
            format!("least {}, median {}, most {}", duration(min), duration(p50), duration(max))
        }
        _ => "no answer".to_owned(),
    }
}

fn round_trips(trips: &RoundTrips) -> String {
    let mut text = times((trips.min_ns, trips.p50_ns, trips.max_ns));
    let lost = trips.sent - trips.received;
    text += &match lost {
        0 => format!("; {} answered", counted(trips.sent, "probe", "probes")),
        _ => format!("; {lost} of {} without an answer", counted(trips.sent, "probe", "probes")),
    };
    if let Some(refusal) = &trips.refusal {
        let by = refusal.by.map(|it| format!(" by {it}")).unwrap_or_default();
        let how = match (refusal.how, refusal.code) {
            ("rst", _) => "RST".to_owned(),
            (how, Some(code)) => format!("ICMP {}, code {code}", how.replace('_', " ")),
            (how, None) => format!("ICMP {}", how.replace('_', " ")),
        };
        text += &format!("; refused{by} ({how})");
    }
    if trips.received == 0 && trips.method == Method::Icmp {
        text += ": filtered, or the host does not answer echo requests";
    }
    text
}

fn connected(connect: &Connected) -> String {
    let mut text = match connect.established {
        0 => connect.error.as_deref().map_or_else(|| "no answer".to_owned(), printable),
        _ => times((connect.min_ns, connect.p50_ns, connect.max_ns)),
    };
    if let Some(us) = connect.tcpi_rtt_min_us {
        text += &format!("; by the kernel (tcpi_rtt) {}", duration(us * 1_000));
    }
    let failed = connect.sent - connect.established;
    if failed > 0 && connect.established > 0 {
        text += &format!("; {failed} of {} failed", connect.sent);
    }
    text
}

fn hops(path: &Path, page: &mut Page<'_>) {
    page.gap();
    let by = path.method.map_or("?", Method::name);
    let head = format!(
        "  hop  {}  {}  {}  {}  {}",
        left(&format!("address (by {by}, from port {})", path.source_port), 39),
        right("lost", 6),
        right("least", TIME_COLUMNS),
        right("median", TIME_COLUMNS),
        right("most", TIME_COLUMNS)
    );
    page.line(&page.look.paint(Paint::Bold, head.trim_end()));
    path.hops.iter().for_each(|it| hop(it, page));
    let end = match path.end {
        PathEnd::Reached => String::new(),
        PathEnd::Silent => match path.hops.last() {
            Some(last) => {
                let hop = last.hop;
                format!("Nothing behind hop {hop} answers: filtered, or the target is silent.")
            }
            None => "No hop answers: filtered on the way out of this host, or soon after.".into(),
        },
        PathEnd::Unreachable { by, code } => {
            let by = by.map_or_else(|| "A router".to_owned(), |it| it.to_string());
            format!("{by} refuses to pass packets on (ICMP destination unreachable, code {code}).")
        }
    };
    if !end.is_empty() {
        page.paragraph(None, &end, 2);
    }
}

fn hop(hop: &Hop, page: &mut Page<'_>) {
    let time = |ns: Option<u64>| right(&ns.map_or_else(|| "-".to_owned(), duration), TIME_COLUMNS);
    let addresses: Vec<_> = hop.addresses.iter().map(|it| it.address.to_string()).collect();
    let address = match &addresses[..] {
        [] => "no answer".to_owned(),
        [only] if hop.is_target => format!("{only} (the target)"),
        all => all.join(" "),
    };
    let lost = match hop.sent {
        0 => "-".to_owned(),
        sent => share((sent - hop.received.min(sent)) as f64 / sent as f64),
    };
    let line = format!(
        "  {}  {}  {}  {}  {}  {}",
        right(&hop.hop.to_string(), 3),
        left(&address, 39),
        right(&lost, 6),
        time(hop.min_ns),
        time(hop.p50_ns),
        time(hop.max_ns)
    );
    page.line(&line);
}

/// Writes where latency is added and packets are lost.
fn added(report: &Report, path: &Path, page: &mut Page<'_>) {
    page.gap();
    if let Some(step) = &report.step {
        let from = match step.after_hop {
            0 => "this host".to_owned(),
            hop => format!("hop {hop}"),
        };
        let text = format!(
            "between {from} and hop {}: {} more from there on, {} of the round trip",
            step.hop,
            duration(step.added_ns),
            share(step.share)
        );
        page.labelled("latency", &text);
    }
    if let Some(hop) = path.loses_from {
        let text = format!(
            "from hop {hop} on each hop that answers loses probes: the loss is on the path there"
        );
        page.labelled("loss", &text);
    } else if path.end == PathEnd::Reached
        && path.hops.iter().any(|it| it.received > 0 && it.received < it.sent)
    {
        page.labelled(
            "loss",
            "none that goes on to the target: a router that answers now and then limits its ICMP",
        );
    }
}

fn path_mtu(mtu: &Mtu) -> String {
    let size = |bytes: u64| format!("{bytes} bytes");
    let passed = mtu.path_mtu_bytes.map(size).unwrap_or_default();
    let by = format!("{} by {}", counted(mtu.sent, "probe", "probes"), mtu.method.name());
    match mtu.end {
        MtuEnd::Whole => format!(
            "{passed}: as much as this host sends there at a time, by its link or by a path MTU that its \
             kernel remembers ({by})"
        ),
        MtuEnd::Reported => {
            let who = mtu.reported_by.map_or_else(|| "this host".to_owned(), |it| it.to_string());
            format!("{passed}, says {who}; the first link carries {} ({by})", mtu.link_mtu_bytes)
        }
        MtuEnd::BlackHole => format!(
            "{passed}; larger packets vanish and no router says so ({by}; the first link carries {})",
            mtu.link_mtu_bytes
        ),
        MtuEnd::Unknown => format!("not known: the target answers none of {by}"),
    }
}

fn request(phases: &Phases, page: &mut Page<'_>) {
    let mut parts = vec![format!("connect {}", duration(phases.connect_ns))];
    if let Some(tls_ns) = phases.tls_ns {
        let split = phases.tls_first_byte_ns.map(|first_ns| {
            let rest_ns = tls_ns.saturating_sub(first_ns);
            format!(" (server's answer {}, the rest {})", duration(first_ns), duration(rest_ns))
        });
        parts.push(format!("TLS {}{}", duration(tls_ns), split.unwrap_or_default()));
    }
    let phase = |name: &str, ns: Option<u64>| ns.map(|ns| format!("{name} {}", duration(ns)));
    parts.extend(phase("sent", phases.sent_ns));
    parts.extend(phase("first byte", phases.first_byte_ns));
    parts.extend(phase("rest", phases.rest_ns));
    parts.push(format!("in all {}", duration(phases.total_ns)));
    page.listed("request", &parts);
    if let Some(status) = phases.status {
        let mut answer = format!("status {status}, {}", bytes(phases.answer_bytes));
        if let Some(health) = &phases.health {
            answer += &format!(", {health}");
        }
        if let Some(version) = &phases.tls_version {
            answer += &format!(", {version}");
        }
        if let Some(server) = &phases.server {
            answer += &format!(", {}", printable(server));
        }
        if let Some(location) = &phases.location {
            answer += &format!("; it leads on to {}, which was not followed", printable(location));
        }
        page.labelled("answer", &answer);
    }
    if let Some(error) = &phases.error {
        page.warning(&printable(error));
    }
}
