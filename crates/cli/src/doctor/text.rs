//! Text output of the doctor: what is wrong, who has to change it and what to do first; then
//! layers, experiments and omitted steps.

use super::Walk;
use super::asked::{Layers, RequestResults};
use super::faults::OutsideFault;
use super::loads::{self, Loaded};
use crate::host::explained;
use std::io::ErrorKind;
use tcpwhy_core::experiment::sentence;
use tcpwhy_core::model::{Class, Language, Report, units};
use tcpwhy_core::report::{Look, Page, Paint, Phrases, text};
use tcpwhy_probe::experiment::{ExchangeError, RequestStep, Subject};
use tcpwhy_probe::http::ResponseError;

/// Findings shown in full, unless all are asked for.
const FINDINGS_MAX: usize = 3;

/// Renders the whole page.
pub fn page(report: &Report, walk: &Walk<'_>, asked: &RequestResults, look: &Look) -> String {
    let mut page = Page::new(look);
    let software = asked.measured.software.as_deref().map(units::printable);
    let facts = [walk.address.clone(), software, Some(sent(walk)), statuses(walk), health(walk)];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    page.paragraph(Some(Paint::Bold), &units::printable(&walk.target), 0);
    page.paragraph(None, &facts.join(" · "), 2);
    page.gap();
    if !asked.is_answered() {
        page.paragraph(Some(Paint::Fault), &walk.verdict, 0);
        page.gap();
    }
    let mut uneven = walk.loads.iter().flat_map(|it| &it.uneven).peekable();
    let has_more = match walk.faults {
        [] if uneven.peek().is_none() => report.totals.exchanges > 0 || !report.findings.is_empty(),
        // That no packet shows a fault would contradict what is stated.
        _ => !report.findings.is_empty(),
    };
    for (index, fault) in walk.faults.iter().enumerate() {
        page.paragraph(Some(Paint::Fault), &units::printable(&fault.headline), 0);
        page.labelled("do", &fault.fix);
        if has_more || index + 1 < walk.faults.len() {
            page.gap();
        }
    }
    let is_silent = !has_more && walk.faults.is_empty() && uneven.peek().is_none();
    for words in uneven {
        page.paragraph(Some(Paint::Cost), &format!("{words}."), 0);
        if has_more {
            page.gap();
        }
    }
    if asked.is_answered() && is_silent {
        page.paragraph(Some(Paint::Good), &walk.verdict, 0);
    }
    let mut text = page.finish();
    if has_more {
        let shown = if look.all { report.findings.len() } else { FINDINGS_MAX };
        text += &text::diagnosis(report, look, shown);
    }
    text + &rest(report, walk, asked, look)
}

fn sent(walk: &Walk<'_>) -> String {
    let requests = units::counted(walk.requests, "request sent", "requests sent");
    format!("{requests}, {} with the answers", units::bytes(walk.sent.target.bytes))
}

/// Lists the statuses of the answers; `None` without any.
fn statuses(walk: &Walk<'_>) -> Option<String> {
    let each = walk.statuses.iter();
    let each: Vec<String> =
        each.map(|(status, number)| format!("{status} × {}", units::count(*number))).collect();
    (!each.is_empty()).then(|| format!("status {}", each.join(", ")))
}

/// Lists the answers to health checks; `None` without any.
fn health(walk: &Walk<'_>) -> Option<String> {
    let each = walk.health.iter().flatten();
    let each: Vec<String> =
        each.map(|(health, number)| format!("{health} × {}", units::count(*number))).collect();
    (!each.is_empty()).then(|| each.join(", "))
}

/// Renders the part below the verdict.
fn rest(report: &Report, walk: &Walk<'_>, asked: &RequestResults, look: &Look) -> String {
    let mut page = Page::new(look);
    page.line("");
    if !walk.host.is_empty() {
        page.line(&look.paint(Paint::Bold, "on the server's host, which is this machine"));
        for (number, entry) in (1..).zip(&walk.host) {
            explained(number, entry, look, &mut page);
        }
        page.gap();
    }
    if asked.is_answered() {
        page.line(&look.paint(Paint::Bold, "where the time of a request goes, medians"));
        layers(&mut page, &walk.layers);
    }
    if !walk.notes.is_empty() {
        page.gap();
        page.line(&look.paint(Paint::Bold, "worth knowing"));
        walk.notes.iter().for_each(|it| page.item(&units::printable(it)));
    }
    if !walk.loads.is_empty() {
        page.gap();
        page.line(&look.paint(Paint::Bold, "many requests at a time"));
        walk.loads.iter().for_each(|it| page.item(&loads::words(it, look)));
    }
    if !report.experiments.is_empty() {
        page.gap();
        page.line(&look.paint(Paint::Bold, "experiments"));
        for experiment in &report.experiments {
            page.item(&format!("{}: {}", experiment.name, sentence(experiment, look.language)));
        }
    }
    let skipped: Vec<_> = walk.steps.iter().filter(|it| it.outcome == "skipped").collect();
    if !skipped.is_empty() {
        page.gap();
        page.line(&look.paint(Paint::Bold, "left out"));
        for step in skipped {
            page.item(&format!("{}: {}", step.step, step.what));
        }
    }
    page.finish()
}

fn layers(page: &mut Page<'_>, layers: &Layers) {
    let all = [
        ("name", layers.name_ns),
        ("path", layers.path_ns),
        ("connect", layers.connect_ns),
        ("TLS", layers.tls_ns),
        ("server", layers.server_ns),
        ("transfer", layers.transfer_ns),
    ];
    let known = all.into_iter().filter(|&(_, ns)| ns > 0);
    let items: Vec<String> =
        known.map(|(name, ns)| format!("{name} {}", units::duration(ns))).collect();
    page.listed("", &items);
}

/// Returns the verdict in one sentence.
pub fn verdict(
    report: &Report,
    asked: &RequestResults,
    subject: &Subject,
    outside: &[OutsideFault],
    loads: &[Loaded],
) -> String {
    if let (Some(error), false) = (&asked.error, asked.is_answered()) {
        return in_words(error, subject);
    }
    let fault = report.findings.iter().find(|it| it.cause.class() == Class::Fault);
    if let (None, Some(fault)) = (fault, outside.first()) {
        return fault.headline.clone();
    }
    let uneven = loads.iter().flat_map(|it| &it.uneven).next();
    match fault.or(report.findings.first()) {
        Some(finding) => format!("{}.", Phrases::of(finding, Language::English).headline),
        None if asked.sent == 0 => {
            let connections = asked.measured.requests.len() as u64;
            let connections = units::counted(connections, "connection", "connections");
            format!("No fault in {connections}; nothing was asked on them.")
        }
        None => {
            let redirect = asked.redirect.as_ref().map(|(status, _)| {
                let to = asked.location.as_deref().unwrap_or_default();
                format!(" The answer is a redirect (status {status}) to {to}, which was not asked.")
            });
            let fault = uneven.map_or("No fault.".to_owned(), |words| format!("{words}."));
            fault + &redirect.unwrap_or_default()
        }
    }
}

/// Describes an error of a request, and what to do.
pub fn in_words(error: &ExchangeError, subject: &Subject) -> String {
    let at = subject.server;
    let timeout = units::duration(subject.timeout.as_nanos() as u64);
    match error {
        ExchangeError::Io { step: RequestStep::Connect, source, .. } => match source.kind() {
            ErrorKind::TimedOut => format!(
                "{at} does not answer within {timeout}: it is down, or a filter drops the SYNs; see how \
                 far packets get: tcpwhy probe {}",
                subject.target.endpoint()
            ),
            ErrorKind::ConnectionRefused => format!(
                "{at} refuses connections: nothing listens at that port and address, or a filter rejects \
                 them; start the service, or name another port"
            ),
            _ => format!(
                "{at} cannot be reached ({}): a router or filter on the way rejects the connection by an \
                 ICMP error, or this host has no route; see where: tcpwhy probe {}",
                of_system(source),
                subject.target.endpoint()
            ),
        },
        ExchangeError::Io { step: RequestStep::Tls, .. } if error.is_timeout() => format!(
            "{at} takes the connection and does not answer the TLS handshake within {timeout}: it may \
             speak no TLS; try http://{}",
            subject.target.endpoint()
        ),
        ExchangeError::Io { step: RequestStep::Tls, source, .. } => format!(
            "{at} takes the connection and ends it in the TLS handshake: {}; it may speak no TLS: try \
             http://{}",
            of_system(source),
            subject.target.endpoint()
        ),
        ExchangeError::Status(_) => format!("{at}: {error}"),
        error if error.is_timeout() => format!(
            "{at} takes the connection, and the answer has no end within {timeout}; allow more with \
             --timeout"
        ),
        ExchangeError::Io { source, .. } if source.kind() == ErrorKind::ConnectionReset => {
            format!(
                "{at} resets the connection before its answer is complete; see the server's log"
            )
        }
        ExchangeError::Io { step: RequestStep::Answer, source, .. }
            if source.kind() == ErrorKind::UnexpectedEof =>
        {
            format!(
                "{at} closes the connection without an answer; check scheme and port, and see the \
                 server's log"
            )
        }
        ExchangeError::Io { source, .. } => {
            format!("{at}: the connection broke: {}", of_system(source))
        }
        ExchangeError::Tls(why) => format!("the TLS handshake with {at} failed: {why}"),
        ExchangeError::Response(why @ ResponseError::Upgrade(_)) => format!("{at}: {why}"),
        ExchangeError::Response(why) => {
            format!("{at} does not answer as HTTP/1.1 does: {why}; check scheme and port")
        }
        ExchangeError::TlsPort => {
            format!("{at} speaks TLS and was asked in plain HTTP; write https://")
        }
        ExchangeError::OnlyHttp2 => format!(
            "{at} speaks HTTP/2 and does not answer HTTP/1.1; ask it in HTTP/2: tcpwhy --http2"
        ),
        ExchangeError::OnlyHttp1 => format!(
            "{at} speaks HTTP/1.1 and no HTTP/2; ask it in HTTP/1.1: tcpwhy --http1.1, or enable HTTP/2 \
             at the server"
        ),
        ExchangeError::Stream(error) => format!("{at}: {error}"),
        ExchangeError::Budget(exceeded) => format!(
            "{at} does not end its answer within the budget of {}; name a smaller resource",
            exceeded.limit()
        ),
    }
}

/// Describes an error of the system without its number.
fn of_system(error: &std::io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or_default().to_ascii_lowercase()
}
