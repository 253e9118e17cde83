//! The texts that cover the lists: the keys, and what Enter shows of a row.

use super::lists::Pane;
use super::{PAGE_ROWS, Shot};
use crate::watch::lines::Saved;
use std::rc::Rc;
use tcpwhy_core::filter::utc;
use tcpwhy_core::model::units::{count, counted, duration, endpoint_or_others, printable, share};
use tcpwhy_core::model::{Class, EndpointReport, Finding, SlowExchange};
use tcpwhy_core::report::{Look, Page, Paint, Phrases, left, render_manual, right, text};
use tcpwhy_core::state::sentence;

/// Number of exchanges that a text lists.
const EXCHANGES_MAX: usize = 8;

/// A text that covers the lists.
pub struct Open {
    /// Number of lines above the first one that is shown.
    pub top: usize,
    subject: Subject,
}

enum Subject {
    Help,
    /// A row as it was when it was opened: what is being read does not change.
    Row(Rc<Shot>, Pane, usize),
}

impl Open {
    /// Creates the list of keys.
    pub fn help() -> Self {
        Self { top: 0, subject: Subject::Help }
    }

    /// Creates the details of an item of a list.
    pub fn of(shot: Rc<Shot>, pane: Pane, item: usize) -> Self {
        Self { top: 0, subject: Subject::Row(shot, pane, item) }
    }

    /// Returns the title.
    pub fn title(&self) -> String {
        match &self.subject {
            Subject::Help => "keys".into(),
            Subject::Row(shot, pane, _) => format!("{}, as of {}", pane.title(), shot.time),
        }
    }

    /// Returns the text, for a terminal as wide as `look` says; `kept` is the folder of stored packets.
    pub fn text(&self, look: &Look, kept: Option<&str>) -> String {
        let mut page = Page::new(look);
        match &self.subject {
            Subject::Help => help(&mut page),
            Subject::Row(shot, pane, item) => match pane {
                Pane::Findings => {
                    let finding = shot.report.findings.get(*item);
                    return finding.map_or_else(String::new, |it| shot.case(it, look));
                }
                Pane::State => {
                    let Some((finding, state)) = shot.state().nth(*item) else {
                        return String::new();
                    };
                    let verb = if state.agrees { "supports" } else { "contradicts" };
                    page.paragraph(Some(Paint::Bold), &sentence(state, look.language), 0);
                    page.gap();
                    page.labelled("it", &format!("{verb} {}", finding.cause.id()));
                    page.labelled("setting", state.setting);
                    page.labelled("value", &printable(&state.value));
                    page.labelled("at", &printable(&state.place));
                    if let Some(process) = &state.process {
                        page.labelled("process", &printable(process));
                    }
                    if let Some(read_ns) = state.read_ns {
                        page.labelled("read", &utc(read_ns));
                    }
                    page.gap();
                    return page.finish() + &shot.case(finding, look);
                }
                Pane::Exchanges => {
                    let one = shot.exchanges.get(*item);
                    one.into_iter().for_each(|it| shot.write_exchange(&mut page, it, kept));
                }
                Pane::Endpoints => {
                    let one = shot.report.endpoints.get(*item);
                    one.into_iter().for_each(|it| shot.write_endpoint(&mut page, it));
                }
                Pane::Servers => shot.write_server(&mut page, *item),
                Pane::Connections => shot.write_connection(&mut page, *item),
            },
        }
        page.finish()
    }
}

fn help(page: &mut Page<'_>) {
    let rows = format!("{PAGE_ROWS} rows up or down");
    let keys = [
        ("↑ ↓  k j", "the row before or after; in a text, a line"),
        ("PgUp PgDn", rows.as_str()),
        ("Home End", "the first or the last row"),
        ("Tab ← → 1–6", "another list"),
        ("Enter", "details of a row: evidence, state, parts of the server's time, fixes"),
        ("s", "another order of the list"),
        ("/", "show only rows with a text: an endpoint, a process, a cause"),
        ("p", "exchanges at or above the median, p90, p99; then all of the longest again"),
        ("Space", "freeze the page; again: go on with the latest"),
        ("Esc", "close a text; else drop the filter"),
        ("q", "close a text; else end, with a report on the whole watch"),
        ("Ctrl-C", "end at once, with the same report"),
    ];
    for (key, does) in keys {
        page.labelled(key, does);
    }
    page.gap();
    page.paragraph(
        None,
        "A report covers the window (--window). In the history each column is one interval \
         (--interval), and ▲ marks those that show the selected cause.",
        2,
    );
}

impl Shot {
    /// Returns the case of a finding: the headline and the first fix, then the evidence, the slowest
    /// exchanges and the manual.
    fn case(&self, finding: &Finding, look: &Look) -> String {
        let mut page = Page::new(look);
        let phrases = Phrases::of(finding, look.language);
        let paint = match finding.cause.class() {
            Class::Fault => Paint::Fault,
            Class::Cost => Paint::Cost,
        };
        page.paragraph(Some(paint), &phrases.headline, 0);
        if let Some(fix) = phrases.fixes.first() {
            page.labelled("do", &format!("{}: {} → {}", fix.place, fix.change, fix.effect));
        }
        let (cause, culprit) = (finding.cause, finding.culprit);
        let its = |saved: &&Saved| {
            saved.cause == cause.id() && saved.endpoint == culprit.endpoint.to_string()
        };
        for saved in self.cost.saved.iter().filter(its) {
            page.labelled("packets", &printable(&saved.file));
            page.labelled("", &printable(&saved.page));
        }
        page.gap();
        page.embed(&text::finding(&self.report, finding, look));
        page.gap();
        let mut slow = self.exchanges_with(cause).take(EXCHANGES_MAX).peekable();
        if slow.peek().is_some() {
            page.line(&look.paint(Paint::Bold, "slowest exchanges with it"));
            slow.for_each(|it| self.write_slow(&mut page, it));
            page.gap();
        }
        page.embed(&render_manual(cause, look));
        page.finish()
    }

    /// Writes an exchange in one line, and the parts of the server's time below it.
    fn write_slow(&self, page: &mut Page<'_>, one: &SlowExchange) {
        let took = right(&duration(one.wall_ns), 9);
        let kind = printable(&one.kind);
        let words = format!("{} → {} {kind}, exchange {}", one.client, one.server, one.exchange);
        page.hanging(&format!("{took}  "), &words);
        if let Some(parts) = self.parts_in_words(one) {
            page.hanging(&format!("{}  ", " ".repeat(9)), &format!("server: {parts}"));
        }
    }

    fn write_exchange(&self, page: &mut Page<'_>, one: &SlowExchange, kept: Option<&str>) {
        let kind = printable(&one.kind);
        page.paragraph(Some(Paint::Bold), &format!("{kind} took {}", duration(one.wall_ns)), 0);
        page.labelled("began", &utc(one.start_ns));
        page.labelled("client", &one.client.to_string());
        page.labelled("server", &one.server.to_string());
        if let Some(process) = self.process_at(&one.server) {
            page.labelled("process", &printable(&process));
        }
        page.labelled("number", &format!("{} on its connection", count(one.exchange)));
        let part = share(one.server_ns as f64 / one.wall_ns.max(1) as f64);
        page.labelled("at server", &format!("{} ({part})", duration(one.server_ns)));
        if let Some(parts) = self.parts_in_words(one) {
            page.labelled("in it", &parts);
        }
        page.labelled("cause", one.cause.map_or("none took half of it", |cause| cause.id()));
        if let Some(kept) = kept {
            let (client, number) = (one.client, one.exchange);
            let files = format!("'{}'/tcpwhy-*.pcapng", printable(kept));
            let command = format!("tcpwhy {files} --connection {client} --exchange {number}");
            page.command("draw", &command);
        }
        let found = self.report.findings.iter().find(|it| {
            Some(it.cause) == one.cause
                && (it.culprit.endpoint == one.server
                    || it.evidence_flow.is_some_and(|(_, server)| server == one.server))
        });
        if let Some(finding) = found {
            page.gap();
            page.embed(&self.case(finding, page.look));
        }
    }

    fn write_endpoint(&self, page: &mut Page<'_>, one: &EndpointReport) {
        let at = endpoint_or_others(&one.endpoint);
        page.paragraph(Some(Paint::Bold), &at, 0);
        if let Some(process) = self.process_at(&one.endpoint) {
            page.labelled("process", &printable(&process));
        }
        if let Some(software) = &one.software {
            page.labelled("software", &printable(software));
        }
        let exchanges = counted(one.exchanges, "exchange", "exchanges");
        let connections = counted(one.connections, "connection", "connections");
        page.labelled("seen", &format!("{exchanges} on {connections}"));
        let total_ns = one.ledger.total_ns().max(1);
        let mut owners: Vec<_> = one.ledger.iter().collect();
        owners.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let owners = owners.into_iter().map(|(owner, ns)| {
            format!("{} {} ({})", owner.id(), duration(ns), share(ns as f64 / total_ns as f64))
        });
        page.listed("time of", &owners.collect::<Vec<_>>());
        page.gap();
        page.line(&page.look.paint(Paint::Bold, "kinds of requests"));
        for kind in &one.kinds {
            let start = format!(
                "{} {} {}  ",
                right(&count(kind.exchanges), 9),
                left(&format!("p50 {}", duration(kind.latency.p50_ns)), 12),
                left(&format!("p99 {}", duration(kind.latency.p99_ns)), 12),
            );
            page.hanging(&start, &printable(&kind.kind));
        }
        let latency = &one.latency;
        for (name, ns) in [("p99", latency.p99_ns), ("p90", latency.p90_ns)] {
            let at_server = self.exchanges.iter().filter(|it| it.server == one.endpoint);
            let behind: Vec<_> = at_server.filter(|it| it.wall_ns >= ns).collect();
            if behind.is_empty() {
                continue;
            }
            page.gap();
            let title =
                format!("exchanges behind {name}: those that took {} or more", duration(ns));
            page.line(&page.look.paint(Paint::Bold, &title));
            behind.iter().take(EXCHANGES_MAX).for_each(|it| self.write_slow(page, it));
        }
        let findings = self.report.findings.iter();
        for finding in findings.filter(|it| it.culprit.endpoint == one.endpoint) {
            page.gap();
            page.embed(&self.case(finding, page.look));
        }
    }

    fn write_server(&self, page: &mut Page<'_>, item: usize) {
        let Some(one) = self.servers.get(item) else { return };
        let title = format!("{} of {}", one.server, printable(&one.process.to_string()));
        page.paragraph(Some(Paint::Bold), &title, 0);
        let requests = counted(one.requests, "request", "requests");
        page.labelled("seen", &format!("{requests}, on average {}", duration(one.server_ns)));
        page.labelled("in it", &one.words());
        page.gap();
        page.line(&page.look.paint(Paint::Bold, "its slowest exchanges"));
        let own = self.exchanges.iter().filter(|it| {
            it.server.port == one.server.port() && it.server.ip() == one.server.ip().to_canonical()
        });
        own.take(EXCHANGES_MAX).for_each(|it| self.write_slow(page, it));
    }

    fn write_connection(&self, page: &mut Page<'_>, item: usize) {
        let Some(one) = self.report.connections.get(item) else { return };
        let title = format!("{} → {}", one.client, one.server);
        page.paragraph(Some(Paint::Bold), &title, 0);
        page.labelled("since", &utc(one.first_ns));
        if one.rtt_min_ns > 0 {
            page.labelled("round trip", &format!("{} at least", duration(one.rtt_min_ns)));
        }
        let exchanges = counted(one.exchanges, "exchange", "exchanges");
        let wall = duration(one.ledger.total_ns());
        page.labelled("exchanges", &format!("{exchanges} in {wall}"));
        page.labelled("cost", &format!("{} by faults", duration(one.lost_ns)));
        for (name, it) in
            [("client sent", one.client_to_server), ("server sent", one.server_to_client)]
        {
            let facts = [
                format!("{} bytes", count(it.unique_bytes)),
                format!("{} retransmitted segments", count(it.rexmt_data_packets)),
                format!("{} timeouts", count(it.rto_count)),
                format!("{} zero windows", count(it.zero_window_advertisements)),
            ];
            page.listed(name, &facts);
        }
        page.gap();
        page.line(&page.look.paint(Paint::Bold, "its slowest exchanges"));
        let own = |it: &&SlowExchange| it.client == one.client && it.server == one.server;
        let own = self.exchanges.iter().filter(own);
        own.take(EXCHANGES_MAX).for_each(|it| self.write_slow(page, it));
    }
}
