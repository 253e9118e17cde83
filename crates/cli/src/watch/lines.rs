//! Renders the report of an interval as a line of JSON or a line of text.

use crate::error::Error;
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};
use tcpwhy_core::model::units::{counted, duration, printable, share};
use tcpwhy_core::model::{Cause, Class, Finding, Report, SlowExchange};
use tcpwhy_core::report::{Look, Page, Paint, json};
use tcpwhy_core::state::{Parts, Served, ServerParts, by_server, parts_of};

/// Costs and losses of the capture itself.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cost {
    /// The window that slides with time, or everything since the watch began: the last line.
    #[cfg_attr(test, schemars(extend("enum" = ["window", "whole"])))]
    pub covers: &'static str,
    /// What hands over packets: a packet socket, or programs at the ingress and egress of the interface
    /// (TCX).
    #[cfg_attr(test, schemars(extend("enum" = ["packet_socket", "programs"])))]
    pub captured_by: &'static str,
    /// Packets that the kernel could not hand over since the watch began.
    pub dropped_packets: u64,
    /// Packets handed over after others with a later time; they took that time.
    pub late_packets: u64,
    /// CPU time of this process since it began, ns.
    pub own_cpu_ns: u64,
    /// CPU time as a share of one CPU, in the last interval or since the watch began.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub own_cpu_share: f64,
    /// Number of connections that are followed.
    pub open_connections: u64,
    /// Files with the packets around findings, with --write.
    pub saved: Vec<Saved>,
    /// Why kernel hooks could not be attached. Without them, waits of readers and senders, and why
    /// segments were sent again, are not seen beside the findings.
    pub hooks_missing: Option<String>,
}

/// One of the slowest exchanges.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Slow<'a> {
    /// Its client.
    client: String,
    /// Its server.
    server: String,
    /// Number of the exchange on its connection since the watch began, from 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    exchange: u64,
    /// The request's kind.
    kind: &'a str,
    /// Time of its begin, ns since the Unix epoch.
    start_ns: u64,
    /// The duration, ns.
    wall_ns: u64,
    /// The server's own time in it, ns.
    server_ns: u64,
    /// The parts of `server_ns`, which sum to it, if hooks saw the server's threads.
    server_parts: Option<Parts>,
    /// The cause of a finding at its server that took half of it or more; `None` where none did.
    cause: Option<&'static str>,
}

impl<'a> Slow<'a> {
    fn of(one: &'a SlowExchange, served: &[Served]) -> Self {
        Self {
            client: one.client.to_string(),
            server: one.server.to_string(),
            exchange: one.exchange,
            kind: &one.kind,
            start_ns: one.start_ns,
            wall_ns: one.wall_ns,
            server_ns: one.server_ns,
            server_parts: parts_of(one, served),
            cause: one.cause.map(Cause::id),
        }
    }
}

/// A file with the packets around a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Saved {
    /// Cause of the finding.
    pub cause: &'static str,
    /// Role of the culprit.
    pub role: &'static str,
    /// Endpoint of the culprit.
    pub endpoint: String,
    /// Name of the capture file.
    pub file: String,
    /// Name of the HTML page with the same packets, as `tcpwhy report` writes it.
    pub page: String,
    /// First frame of the evidence, in the numbering of the watch.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub first_frame: u64,
    /// Last frame of the evidence.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub last_frame: u64,
}

/// The additional part of a `watch` report, beside that of a capture report.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Beside<'a> {
    /// The CPU time that `watch` takes and the packets that it lost; absent from reports on files.
    watch: Watched<'a>,
}

/// Cost of the watch, the longest exchanges, and the parts of the servers' time.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Watch"))]
struct Watched<'a> {
    #[serde(flatten)]
    cost: &'a Cost,
    /// The exchanges that took longest, the longest first.
    slowest_exchanges: Vec<Slow<'a>>,
    /// What the time of each server was spent on, from the last byte of a request to the first of its
    /// answer: of requests that took 1 ms or more while kernel hooks looked. The server that took most
    /// time first.
    server_parts: Vec<ServerParts>,
}

/// Returns the report as one line of JSON.
///
/// # Errors Not expected.
pub fn json(report: &Report, cost: &Cost, served: &[Served]) -> Result<String, Error> {
    let slowest_exchanges = report.slowest.iter().map(|it| Slow::of(it, served)).collect();
    let server_parts = by_server(served);
    let beside = Beside { watch: Watched { cost, slowest_exchanges, server_parts } };
    Ok(json::render_line_with(report, env!("CARGO_PKG_VERSION"), &beside)?)
}

/// Returns the report as one line of text.
pub fn text(report: &Report, cost: &Cost) -> String {
    let mut parts = vec![time_of_day(), exchanges(report)];
    if report.totals.exchanges > 0 {
        parts.push(format!("p50 {}", duration(report.latency.p50_ns)));
        parts.push(format!("p99 {}", duration(report.latency.p99_ns)));
    }
    parts.push(match faults(report).next() {
        Some(finding) => {
            let more = faults(report).count() - 1;
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            format!("{}{more}", fault(finding))
        }
        None => "no fault".into(),
    });
    parts.extend(limits(report, cost));
    parts.join(" · ") + "\n"
}

fn faults(report: &Report) -> impl Iterator<Item = &Finding> {
    report.findings.iter().filter(|finding| finding.cause.class() == Class::Fault)
}

fn fault(finding: &Finding) -> String {
    let (cause, culprit) = (finding.cause.id(), &finding.culprit);
    let lost = match finding.lost_ns {
        0 => String::new(),
        lost_ns => format!(" cost {} ({})", duration(lost_ns), share(finding.share)),
    };
    format!("{cause} at {} {}{lost}", culprit.role.id(), culprit.endpoint)
}

/// Returns the time of day, UTC.
pub fn time_of_day() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let date = tcpwhy_core::filter::utc(now.map_or(0, |now| now.as_nanos() as u64));
    date.split_once('T').map_or(date.clone(), |(_, time)| time.to_owned())
}

/// Returns the number of exchanges, estimated if only a share of them was captured.
pub fn exchanges(report: &Report) -> String {
    let (scaled, about) = scaled(report, report.totals.exchanges);
    format!("{about}{}", counted(scaled, "exchange", "exchanges"))
}

/// Scales a count of captured items to all that passed; the second value is the sign of an
/// estimate.
pub fn scaled(report: &Report, number: u64) -> (u64, &'static str) {
    match report.watched.map(|watched| watched.sampled_share) {
        Some(share) if share < 1.0 => ((number as f64 / share).round() as u64, "about "),
        _ => (number, ""),
    }
}

/// Returns the limits of the capture that the reader has to know.
pub fn limits(report: &Report, cost: &Cost) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(watched) = report.watched.filter(|watched| watched.sampled_share < 1.0) {
        parts.push(format!("{} of the connections captured", share(watched.sampled_share)));
    }
    if cost.dropped_packets > 0 {
        let packets = counted(cost.dropped_packets, "packet", "packets");
        parts.push(format!("{packets} lost by this capture"));
    }
    if cost.hooks_missing.is_some() {
        parts.push("without kernel hooks".to_owned());
    }
    parts
}

/// Returns the lines below the last report.
pub fn closing(report: &Report, cost: &Cost, look: &Look) -> String {
    let mut page = Page::new(look);
    page.gap();
    let share = share(cost.own_cpu_share);
    let mut text = format!("Watching took {share} of one CPU.");
    if let Some(watched) = report.watched.filter(|watched| watched.sampled_share < 1.0) {
        let part = tcpwhy_core::model::units::share(watched.sampled_share);
        text += &format!(
            " To stay within --budget, {part} of the connections were captured on average, each of \
             them whole; the numbers above are of these."
        );
    }
    page.paragraph(Some(Paint::Dim), &text, 0);
    if !cost.saved.is_empty() {
        page.gap();
        page.line(&page.look.paint(Paint::Bold, "packets kept"));
        for saved in &cost.saved {
            let (cause, role, endpoint) = (saved.cause, saved.role, &saved.endpoint);
            page.line(&format!("  {}   {cause}, {role} {endpoint}", printable(&saved.file)));
            page.line(&format!("  {}   the same as a page", printable(&saved.page)));
        }
    }
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpwhy_live::hooks::Lack;

    fn cost() -> Cost {
        Cost { covers: "window", captured_by: "programs", ..Cost::default() }
    }

    #[test]
    fn the_schema_of_watches_is_that_of_the_types() {
        tcpwhy_testing::schema::add_members::<Beside<'static>>("report");
    }

    #[test]
    fn each_line_of_a_watch_says_that_kernel_hooks_are_missing() {
        let report = Report::default();
        let with = (text(&report, &cost()), json(&report, &cost(), &[]).expect("JSON"));
        assert!(!with.0.contains("hooks") && with.1.contains("\"hooks_missing\":null"), "{with:?}");
        let why = Lack::NotBuilt.to_string();
        let cost = Cost { hooks_missing: Some(why.clone()), ..cost() };
        let (text, json) = (text(&report, &cost), json(&report, &cost, &[]).expect("JSON"));
        assert!(text.contains("without kernel hooks") && json.contains(&why), "{text}\n{json}");
    }
}
