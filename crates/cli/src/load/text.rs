//! Text output of a load: the cause of slow requests, then the measurements, then the evidence.

use super::{Explained, Sockets};
use tcpwhy_core::model::units::{bytes, count, counted, duration, printable, share};
use tcpwhy_core::model::{Class, Finding, Report};
use tcpwhy_core::report::{Glyphs, Look, Page, Paint, Phrases, text};
use tcpwhy_probe::http::{Health, HttpVersions};
use tcpwhy_probe::load::{End, FailureKind, LoadOutcome, Pace, Plan, Quantile, Times, Uneven};

/// Number of findings shown in full.
const FINDINGS_MAX: usize = 3;
/// Number of columns of the time series. One column is a second; of a longer load, several seconds
/// share a column.
const COLUMNS_MAX: usize = 60;
/// A finding explains the slow requests if it has at least this share of their time.
const EXPLAINS: f64 = 0.5;

/// Renders the whole output.
pub fn render(plan: &Plan, outcome: &LoadOutcome, explained: &Explained, look: &Look) -> String {
    let mut page = Page::new(look);
    verdict(&mut page, plan, outcome, explained);
    page.gap();
    header(&mut page, plan, outcome);
    if outcome.latency.count() > 0 {
        numbers(&mut page, outcome);
    }
    errors(&mut page, outcome);
    beside(&mut page, outcome);
    if let Some(sockets) = &explained.sockets {
        page.labelled("sockets", &of_sockets(sockets));
    }
    for note in explained.note.iter().chain(&explained.notes) {
        page.warning(note);
    }
    let mut text = page.finish();
    if let Some(report) = explained.report.as_ref().filter(|it| !it.findings.is_empty()) {
        text.push('\n');
        text += &text::diagnosis(report, look, if look.all { usize::MAX } else { FINDINGS_MAX });
        text += &sample(report, explained, look);
    }
    text
}

/// Writes the verdict: what failed, why the slow requests were slow, and what to do.
fn verdict(page: &mut Page<'_>, plan: &Plan, outcome: &LoadOutcome, explained: &Explained) {
    if outcome.requests == 0 {
        page.paragraph(Some(Paint::Fault), &nothing(plan, outcome), 0);
        if let Some(End::Unanswered(_)) = &outcome.ended {
            page.labelled("do", &ask_otherwise(plan, outcome));
        }
        return;
    }
    let failed = failed(outcome);
    if let Some(failed) = &failed {
        page.paragraph(Some(Paint::Fault), failed, 0);
    }
    if let Some(End::Limit(limited)) = &outcome.ended {
        let words = limited.words();
        page.paragraph(Some(Paint::Fault), &format!("The load ended at a limit: {words}."), 0);
        page.labelled("do", "send fewer requests: --rate; or, past the limit: --ignore-limits");
    }
    let uneven = Uneven::of(plan, outcome);
    for words in uneven.words() {
        page.paragraph(Some(Paint::Cost), &format!("{words}."), 0);
    }
    let is_even = uneven == Uneven::default();
    let p99 = format!("p99 is {}", quantile(outcome.latency.quantile(0.99), page.look));
    let report = explained.report.as_ref();
    if let Some((finding, part)) = report.and_then(explains) {
        let phrases = Phrases::of(finding, page.look.language);
        let (headline, part) = (&phrases.headline, share(part));
        let text = format!("{p99}. {headline}: {part} of the time of the slow requests.");
        page.paragraph(Some(paint(finding)), &text, 0);
        if let Some(fix) = phrases.fixes.first() {
            page.labelled("do", &format!("{}: {}", fix.place, fix.change));
        }
    } else {
        let faults = report.into_iter().flat_map(|it| &it.findings).map(|it| it.cause.class());
        let text = match (report, faults.into_iter().find(|it| *it == Class::Fault)) {
            (None, _) => format!("{p99}."),
            (Some(_), Some(_)) => {
                format!("{p99}; no single cause explains it, the faults are below.")
            }
            (Some(report), None) if report.totals.exchanges == 0 => {
                format!("{p99}; no whole exchange was captured.")
            }
            (Some(report), None) if failed.is_some() || !is_even => {
                format!("{p99}{}.", owners(report))
            }
            (Some(report), None) => format!("{p99}, and no fault was found{}.", owners(report)),
        };
        page.paragraph(Some(Paint::Bold), &text, 0);
    }
    if outcome.not_sent() > 0 {
        page.warning(&format!(
            "{} of {} planned requests could not be sent, because all connections were waiting for \
             answers: the rate is more than is answered",
            count(outcome.not_sent()),
            count(outcome.planned)
        ));
    }
}

/// Says how many requests failed and how; `None` if all were answered without an error.
pub fn failed(outcome: &LoadOutcome) -> Option<String> {
    let statuses =
        outcome.statuses.range(400..).map(|(status, n)| (format!("status {status}"), *n));
    let health = outcome.health.iter().filter(|(health, _)| **health != Health::Serving);
    let statuses = statuses.chain(health.map(|(health, n)| (health.to_string(), *n)));
    let others = outcome.errors.iter().filter(|(kind, _)| !kind.is_status());
    let others = others.map(|(kind, n)| (kind.words().to_owned(), *n));
    let waiting = (!outcome.interrupted && outcome.unanswered > 0)
        .then(|| ("unanswered at the end".to_owned(), outcome.unanswered));
    let mut all: Vec<(String, u64)> = statuses.chain(others).chain(waiting).collect();
    all.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let sum: u64 = all.iter().map(|(_, n)| n).sum();
    let parts = all.iter().map(|(what, n)| format!("{what} × {}", count(*n)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    let planned = outcome.planned.max(sum);
    let of = share(sum as f64 / planned.max(1) as f64);
    let planned = counted(planned, "request", "requests");
    (sum > 0).then(|| format!("{} of {planned} failed ({of}): {parts}.", count(sum)))
}

/// Says why no request was answered.
fn nothing(plan: &Plan, outcome: &LoadOutcome) -> String {
    let first = outcome.errors.iter().max_by_key(|(_, count)| **count).map(|(kind, _)| kind);
    let address = outcome.address.map_or_else(String::new, |it| format!(" ({it})"));
    let why = match first {
        Some(kind) => {
            let sample = outcome.samples.get(kind).map_or("", String::as_str);
            format!("{}: {}", kind.words(), printable(sample))
        }
        None if outcome.unanswered > 0 => {
            let sent = counted(outcome.unanswered, "request was sent", "requests were sent");
            let waited = duration(outcome.latency.max().ns);
            format!("{sent}, and after {waited} at most no answer was complete; see --timeout")
        }
        None if outcome.shaking_hands > 0 => "it accepts connections, and no TLS handshake was \
            complete; does the port speak TLS? Without it the URL is http://"
            .to_owned(),
        None if outcome.connecting > 0 => format!(
            "no SYN was answered in {}: the host is down, or a filter drops them; see how far \
             packets get: tcpwhy probe {}",
            duration(outcome.elapsed_ns),
            plan.target.endpoint()
        ),
        None => "it ended before a request was sent".to_owned(),
    };
    let ended = match &outcome.ended {
        Some(End::Unanswered(_)) => {
            " One connection after the other ended without an answer, so the load has ended."
        }
        _ => "",
    };
    format!("{}{address} answered no request: {why}.{ended}", plan.target)
}

/// Says how the server is asked with more success, after connections that brought no answer.
fn ask_otherwise(plan: &Plan, outcome: &LoadOutcome) -> String {
    let target = &plan.target;
    let is_other_version = outcome.errors.contains_key(&FailureKind::HttpVersion);
    match (is_other_version, plan.tls.versions) {
        (true, HttpVersions::Http2) => {
            format!("ask it in HTTP/1.1: tcpwhy load --http1.1 {target}")
        }
        (true, _) => format!("ask it in HTTP/2: tcpwhy load --http2 {target}"),
        (false, _) => format!("see what it does with one request at a time: tcpwhy {target}"),
    }
}

/// Writes a quantile; a lower bound is marked.
pub fn quantile(it: Quantile, look: &Look) -> String {
    let mark = match (it.at_least, look.glyphs) {
        (false, _) => "",
        (true, Glyphs::Unicode) => "≥ ",
        (true, Glyphs::Ascii) => ">= ",
    };
    format!("{mark}{}", duration(it.ns))
}

/// Returns the finding with the largest share of the slow requests' time, and that share: the part
/// of the 99th percentile that would disappear without it.
fn explains(report: &Report) -> Option<(&Finding, f64)> {
    let part = |finding: &Finding| {
        let (now, then) = (finding.latency.p99_ns, finding.counterfactual.likely.p99_ns);
        if finding.lost_ns == 0 { 0.0 } else { 1.0 - then as f64 / now.max(1) as f64 }
    };
    let parts = report.findings.iter().map(|it| (it, part(it)));
    parts.filter(|(_, part)| *part >= EXPLAINS).max_by(|a, b| a.1.total_cmp(&b.1))
}

fn paint(finding: &Finding) -> Paint {
    if finding.cause.class() == Class::Fault { Paint::Fault } else { Paint::Cost }
}

/// Lists the owners of the time if there is no fault.
fn owners(report: &Report) -> String {
    let mut owners: Vec<_> = report.ledger.iter().collect();
    owners.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let wall_ns = report.totals.wall_ns.max(1);
    let parts = owners
        .iter()
        .take(2)
        .map(|(owner, ns)| format!("{} {}", owner.id(), share(*ns as f64 / wall_ns as f64)));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { String::new() } else { format!("; time by owner: {}", parts.join(", ")) }
}

fn header(page: &mut Page<'_>, plan: &Plan, outcome: &LoadOutcome) {
    let pace = match plan.pace {
        Pace::Closed => "closed loop".to_owned(),
        Pace::PerSecond(rate) => format!("open loop, {rate}/s"),
    };
    let mut facts = vec![
        counted(plan.connections as u64, "connection", "connections"),
        counted(outcome.threads as u64, "thread", "threads"),
        duration(outcome.elapsed_ns),
        pace,
    ];
    if plan.streams > 1 {
        facts.push(format!(
            "{} of HTTP/2 on each",
            counted(plan.streams as u64, "stream", "streams")
        ));
    }
    if plan.new_connections {
        facts.push("a connection for each request".into());
    }
    if outcome.interrupted {
        facts.push("interrupted".into());
    }
    page.line(&page.look.paint(Paint::Bold, &printable(&plan.target.to_string())));
    page.paragraph(None, &facts.join(" · "), 2);
}

fn numbers(page: &mut Page<'_>, outcome: &LoadOutcome) {
    let seconds = outcome.elapsed_ns.max(1) as f64 / 1e9;
    let per_second = outcome.requests_per_second();
    let shown =
        if per_second < 100.0 { format!("{per_second:.1}") } else { count(per_second as u64) };
    page.labelled(
        "requests",
        &format!(
            "{} · {shown}/s · {}/s",
            count(outcome.requests),
            bytes((outcome.bytes as f64 / seconds) as u64)
        ),
    );
    let latency = &outcome.latency;
    let quantiles = [
        ("p50", 0.5),
        ("p75", 0.75),
        ("p90", 0.9),
        ("p99", 0.99),
        ("p99.9", 0.999),
        ("p99.99", 0.9999),
    ];
    let mut items: Vec<String> = quantiles
        .iter()
        .map(|(name, q)| format!("{name} {}", quantile(latency.quantile(*q), page.look)))
        .collect();
    items.push(format!("max {}", quantile(latency.max(), page.look)));
    if latency.unanswered() > 0 {
        let all = count(latency.count());
        items.push(format!("{} of {all} without an answer", count(latency.unanswered())));
    }
    page.listed("latency", &items);
    brief(page, "first byte", &outcome.first_byte, None);
    brief(page, "connect", &outcome.connect, None);
    let resumed = format!("{} resumed", count(outcome.tls_resumed));
    brief(page, "TLS", &outcome.tls, Some(resumed));
    page.labelled("by second", &series(outcome, page.look));
}

fn brief(page: &mut Page<'_>, label: &str, times: &Times, more: Option<String>) {
    if times.count() == 0 {
        return;
    }
    let mut items = vec![
        format!("p50 {}", quantile(times.quantile(0.5), page.look)),
        format!("p99 {}", quantile(times.quantile(0.99), page.look)),
        format!("max {}", quantile(times.max(), page.look)),
        format!("{} of them", count(times.count())),
    ];
    items.extend(more);
    page.listed(label, &items);
}

/// Draws the requests of each second as bars, with the least and the most.
fn series(outcome: &LoadOutcome, look: &Look) -> String {
    // The last second is rarely complete.
    let whole = (outcome.elapsed_ns / 1_000_000_000).max(1) as usize;
    let seconds = &outcome.seconds[..outcome.seconds.len().min(whole)];
    let group = seconds.len().div_ceil(COLUMNS_MAX).max(1);
    let mean = |part: &[tcpwhy_probe::load::Second]| {
        part.iter().map(|it| it.requests).sum::<u64>() / part.len().max(1) as u64
    };
    let columns: Vec<u64> = seconds.chunks(group).map(mean).collect();
    let (least, most) = (columns.iter().min(), columns.iter().max());
    let (least, most) = (least.copied().unwrap_or(0), most.copied().unwrap_or(0));
    let bars: Vec<char> = match look.glyphs {
        Glyphs::Unicode => "▁▂▃▄▅▆▇█".chars().collect(),
        Glyphs::Ascii => "_.-:=+*#".chars().collect(),
    };
    let bar = |it: &u64| bars[(it * (bars.len() as u64 - 1)).div_ceil(most.max(1)) as usize];
    let line: String = columns.iter().map(bar).collect();
    let from = if least == most { String::new() } else { format!("{} to ", count(least)) };
    format!("{line} {from}{}/s", count(most))
}

/// Writes the statuses of the answers, and the failures of other kinds.
fn errors(page: &mut Page<'_>, outcome: &LoadOutcome) {
    let statuses = outcome.statuses.iter();
    let statuses: Vec<String> =
        statuses.map(|(status, number)| format!("{status} × {}", count(*number))).collect();
    if !statuses.is_empty() {
        page.listed("status", &statuses);
    }
    let health = outcome.health.iter();
    let health: Vec<String> =
        health.map(|(health, number)| format!("{health} × {}", count(*number))).collect();
    if !health.is_empty() {
        page.listed("health", &health);
    }
    let errors = outcome.errors.iter().filter(|(kind, _)| !kind.is_status());
    for (index, (kind, number)) in errors.enumerate() {
        let sample = outcome.samples.get(kind).map_or("", String::as_str);
        let text = format!("{} {}: {}", count(*number), kind.words(), printable(sample));
        page.labelled(if index == 0 { "errors" } else { "" }, &text);
    }
}

/// Writes notes on redirects and on requests that were not answered.
fn beside(page: &mut Page<'_>, outcome: &LoadOutcome) {
    let redirects: u64 = outcome.statuses.range(300..400).map(|(_, count)| count).sum();
    if redirects > 0 {
        let to = outcome.location.as_deref().map(printable);
        let to = to.map_or_else(String::new, |to| format!(" to {to}"));
        let all = counted(redirects, "answer redirects", "answers redirect");
        page.warning(&format!("{all}{to}; redirects are not followed"));
    }
    if outcome.unanswered > 0 {
        let waiting = counted(outcome.unanswered, "request was", "requests were");
        page.warning(&format!("{waiting} still unanswered at the end, and count at their age"));
    }
}

fn of_sockets(sockets: &Sockets) -> String {
    let mut text = format!(
        "round trip {} on average, {} at least; {}",
        duration(sockets.rtt_ns),
        duration(sockets.rtt_min_ns),
        counted(sockets.total_retrans, "segment sent again", "segments sent again")
    );
    for (part, by) in [
        (sockets.rwnd_limited_share, "the server's receive window"),
        (sockets.sndbuf_limited_share, "the own send buffer"),
    ] {
        if part >= 0.01 {
            text += &format!("; {} of the sending time held back by {by}", share(part));
        }
    }
    text
}

/// Says on what part of the load the findings are based, if it is not all of it.
fn sample(report: &Report, explained: &Explained, look: &Look) -> String {
    let sampled = report.watched.map_or(1.0, |it| it.sampled_share);
    let mut page = Page::new(look);
    page.gap();
    let mut text = String::new();
    if sampled < 0.995 {
        let exchanges = counted(report.totals.exchanges, "exchange", "exchanges");
        text = format!(
            "The causes are of {exchanges}, {} of the load: capturing less takes less of it.",
            share(sampled)
        );
    }
    if explained.dropped_packets > 0 {
        let packets = counted(explained.dropped_packets, "packet was", "packets were");
        text += &format!(" {packets} lost by the capture.");
    }
    if !text.is_empty() {
        page.line("");
        page.paragraph(Some(Paint::Dim), text.trim_start(), 0);
    }
    page.finish()
}
