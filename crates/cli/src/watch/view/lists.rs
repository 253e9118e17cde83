//! The lists of the view: which rows each has, in which order, and which columns.

use super::{Shot, View};
use crate::watch::lines;
use std::cmp::Reverse;
use tcpwhy_core::filter::utc;
use tcpwhy_core::model::units::{count, duration, endpoint_or_others, share};
use tcpwhy_core::model::{Cause, Class, Finding, Language, SlowExchange, StateEvidence};
use tcpwhy_core::report::Paint;
use tcpwhy_core::state::{parts_of, sentence};
use tcpwhy_core::wire::Endpoint;

/// A list of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    /// Findings.
    Findings,
    /// The exchanges that took longest.
    Exchanges,
    /// Servers with their latency.
    Endpoints,
    /// The parts of the servers' own time.
    Servers,
    /// The connections that lost most time.
    Connections,
    /// The state of the system that stands beside the findings.
    State,
}

/// A column of a list.
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// Numbers are aligned on the right.
    pub is_number: bool,
    /// It takes the room that the others leave.
    pub is_wide: bool,
    /// Without room, the columns of the highest rank are left out first; of rank 0 none.
    pub rank: u8,
}

const fn column(name: &'static str, rank: u8) -> Column {
    Column { name, is_number: false, is_wide: false, rank }
}

const fn number(name: &'static str, rank: u8) -> Column {
    Column { is_number: true, ..column(name, rank) }
}

const fn wide(name: &'static str, rank: u8) -> Column {
    Column { is_wide: true, ..column(name, rank) }
}

impl Pane {
    /// All lists, in the order in which they are shown.
    pub const ALL: [Self; 6] = [
        Self::Findings,
        Self::Exchanges,
        Self::Endpoints,
        Self::Servers,
        Self::Connections,
        Self::State,
    ];

    /// Returns the list `steps` after this one; the first follows the last.
    pub fn after(self, steps: usize) -> Self {
        Self::ALL[(self as usize + steps) % Self::ALL.len()]
    }

    /// Returns the title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Findings => "causes by cost",
            Self::Exchanges => "slowest exchanges",
            Self::Endpoints => "endpoints",
            Self::Servers => "server time",
            Self::Connections => "connections",
            Self::State => "state",
        }
    }

    /// Returns the name among those of all lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Findings => "causes",
            Self::Exchanges => "exchanges",
            Self::Endpoints => "endpoints",
            Self::Servers => "servers",
            Self::Connections => "connections",
            Self::State => "state",
        }
    }

    /// Returns the names of the orders, the default first.
    pub fn orders(self) -> &'static [&'static str] {
        match self {
            Self::Findings => &["urgency", "cost", "exchanges", "cause"],
            Self::Exchanges => &["duration", "time", "server time"],
            Self::Endpoints => &["time taken", "p99", "exchanges", "address"],
            Self::Servers => &["time taken", "mean", "requests"],
            Self::Connections => &["cost", "time taken", "exchanges", "retransmissions"],
            Self::State => &["finding", "process"],
        }
    }

    /// Returns the columns.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Findings => {
                const {
                    &[
                        column("", 0),
                        number("cost", 0),
                        number("share", 2),
                        column("cause", 0),
                        column("at", 1),
                        column("process", 3),
                        wide("in words", 4),
                    ]
                }
            }
            Self::Exchanges => {
                const {
                    &[
                        number("took", 0),
                        number("server took", 3),
                        column("began", 4),
                        column("server", 1),
                        wide("request", 0),
                        column("cause", 2),
                        column("process", 6),
                        column("client", 5),
                    ]
                }
            }
            Self::Endpoints => {
                const {
                    &[
                        wide("endpoint", 0),
                        column("process", 5),
                        column("software", 4),
                        number("exchanges", 1),
                        number("p50", 0),
                        number("p90", 3),
                        number("p99", 0),
                        number("max", 2),
                    ]
                }
            }
            Self::Servers => {
                const {
                    &[
                        number("mean", 0),
                        number("requests", 2),
                        column("server", 1),
                        column("process", 3),
                        wide("parts", 0),
                    ]
                }
            }
            Self::Connections => {
                const {
                    &[
                        number("cost", 0),
                        number("of", 2),
                        number("exchanges", 1),
                        number("retransmitted", 3),
                        wide("connection", 0),
                    ]
                }
            }
            Self::State => {
                const {
                    &[
                        column("", 2),
                        column("cause", 1),
                        column("process", 3),
                        column("at", 4),
                        wide("state", 0),
                    ]
                }
            }
        }
    }
}

/// A row of a list.
pub struct Row {
    /// Identifier of the finding, exchange or endpoint that it shows; it is the same in each report.
    pub id: String,
    /// Its place in the report.
    pub item: usize,
    /// One text for each column.
    pub cells: Vec<String>,
    /// The style of the first cell.
    pub paint: Option<Paint>,
}

impl Row {
    fn new(id: String, item: usize, cells: Vec<String>) -> Self {
        Self { id, item, cells, paint: None }
    }

    /// Returns whether a cell contains `filter`, in capitals or not.
    fn has(&self, filter: &str) -> bool {
        self.cells.iter().any(|cell| cell.to_lowercase().contains(filter))
    }
}

impl Shot {
    /// Returns the process that serves at `endpoint`, as far as hooks or the state of sockets show it.
    pub fn process_at(&self, endpoint: &Endpoint) -> Option<String> {
        let is_there = |at: &std::net::SocketAddr| {
            at.port() == endpoint.port && at.ip().to_canonical() == endpoint.ip()
        };
        let served = self.servers.iter().find(|it| is_there(&it.server));
        served.map(|it| it.process.to_string()).or_else(|| {
            let at = |it: &&Finding| it.culprit.endpoint == *endpoint;
            self.report.findings.iter().filter(at).find_map(process_of)
        })
    }

    /// Returns the state evidence with the finding beside which it stands, in order.
    pub fn state(&self) -> impl Iterator<Item = (&Finding, &StateEvidence)> {
        self.report.findings.iter().flat_map(|it| it.state.iter().map(move |state| (it, state)))
    }

    fn finding(&self, (item, finding): (usize, &Finding)) -> Row {
        let at = endpoint_or_others(&finding.culprit.endpoint);
        let at = format!("{} {at}", finding.culprit.role.id());
        let is_fault = finding.cause.class() == Class::Fault;
        let (word, paint) = if is_fault { ("FAULT", Paint::Fault) } else { ("cost", Paint::Cost) };
        let has_cost = finding.lost_ns > 0;
        let process = process_of(finding).or_else(|| self.process_at(&finding.culprit.endpoint));
        let cells = vec![
            word.to_owned(),
            if has_cost { duration(finding.lost_ns) } else { "–".into() },
            if has_cost { share(finding.share) } else { String::new() },
            finding.cause.id().to_owned(),
            at.clone(),
            process.unwrap_or_default(),
            self.phrases[item].headline.clone(),
        ];
        let id = format!("{} {at}", finding.cause.id());
        Row { paint: Some(paint), ..Row::new(id, item, cells) }
    }

    fn exchange(&self, (item, one): (usize, &SlowExchange)) -> Row {
        let time = utc(one.start_ns);
        let time = time.split_once('T').map_or(time.as_str(), |(_, time)| time);
        let cells = vec![
            duration(one.wall_ns),
            duration(one.server_ns),
            time.to_owned(),
            one.server.to_string(),
            one.kind.to_string(),
            one.cause.map_or_else(String::new, |cause| cause.id().to_owned()),
            self.process_at(&one.server).unwrap_or_default(),
            one.client.to_string(),
        ];
        Row::new(format!("{} {} {}", one.client, one.server, one.exchange), item, cells)
    }

    /// Returns the rows of a list in the order of the report.
    fn all_rows(&self, pane: Pane) -> Vec<Row> {
        let report = &self.report;
        match pane {
            Pane::Findings => {
                report.findings.iter().enumerate().map(|it| self.finding(it)).collect()
            }
            Pane::Exchanges => {
                self.exchanges.iter().enumerate().map(|it| self.exchange(it)).collect()
            }
            Pane::Endpoints => {
                let row = |(item, it): (usize, &tcpwhy_core::model::EndpointReport)| {
                    let latency = &it.latency;
                    let cells = vec![
                        it.endpoint.to_string(),
                        self.process_at(&it.endpoint).unwrap_or_default(),
                        it.software.clone().unwrap_or_default(),
                        count(lines::scaled(report, it.exchanges).0),
                        duration(latency.p50_ns),
                        duration(latency.p90_ns),
                        duration(latency.p99_ns),
                        duration(latency.max_ns),
                    ];
                    Row::new(it.endpoint.to_string(), item, cells)
                };
                report.endpoints.iter().enumerate().map(row).collect()
            }
            Pane::Servers => {
                let row = |(item, it): (usize, &tcpwhy_core::state::ServerParts)| {
                    let server = it.server.to_string();
                    let (mean, requests) = (duration(it.server_ns), count(it.requests));
                    let process = it.process.to_string();
                    let cells = vec![mean, requests, server.clone(), process, it.words()];
                    Row::new(server, item, cells)
                };
                self.servers.iter().enumerate().map(row).collect()
            }
            Pane::Connections => {
                let row = |(item, it): (usize, &tcpwhy_core::model::ConnectionReport)| {
                    let ends = format!("{} → {}", it.client, it.server);
                    let (up, down) = (&it.client_to_server, &it.server_to_client);
                    let cells = vec![
                        if it.lost_ns > 0 { duration(it.lost_ns) } else { "–".into() },
                        duration(it.ledger.total_ns()),
                        count(it.exchanges),
                        count(up.rexmt_data_packets + down.rexmt_data_packets),
                        ends.clone(),
                    ];
                    Row::new(ends, item, cells)
                };
                report.connections.iter().enumerate().map(row).collect()
            }
            Pane::State => {
                let row = |(item, (finding, it)): (usize, (&Finding, &StateEvidence))| {
                    let cells = vec![
                        if it.agrees { "agrees" } else { "BUT" }.to_owned(),
                        finding.cause.id().to_owned(),
                        it.process.clone().unwrap_or_default(),
                        it.place.clone(),
                        sentence(it, Language::English),
                    ];
                    let id = format!("{} {} {} {}", finding.cause.id(), it.id, it.place, it.agrees);
                    let paint = if it.agrees { Paint::Good } else { Paint::Warning };
                    Row { paint: Some(paint), ..Row::new(id, item, cells) }
                };
                self.state().enumerate().map(row).collect()
            }
        }
    }

    /// Puts rows in the order of a number, the default being that of the report.
    fn arrange(&self, pane: Pane, order: usize, rows: &mut [Row]) {
        let report = &self.report;
        match (pane, Pane::orders(pane).get(order).copied().unwrap_or_default()) {
            (Pane::Findings, "cost") => {
                rows.sort_by_key(|row| Reverse(report.findings[row.item].lost_ns));
            }
            (Pane::Findings, "exchanges") => {
                rows.sort_by_key(|row| Reverse(report.findings[row.item].affected.exchanges));
            }
            (Pane::Findings, "cause") => {
                rows.sort_by_key(|row| report.findings[row.item].cause.id());
            }
            (Pane::Exchanges, "time") => {
                rows.sort_by_key(|row| Reverse(self.exchanges[row.item].start_ns));
            }
            (Pane::Exchanges, "server time") => {
                rows.sort_by_key(|row| Reverse(self.exchanges[row.item].server_ns));
            }
            (Pane::Endpoints, "p99") => {
                rows.sort_by_key(|row| Reverse(report.endpoints[row.item].latency.p99_ns));
            }
            (Pane::Endpoints, "exchanges") => {
                rows.sort_by_key(|row| Reverse(report.endpoints[row.item].exchanges));
            }
            (Pane::Endpoints, "address") => {
                rows.sort_by_key(|row| report.endpoints[row.item].endpoint);
            }
            (Pane::Servers, "mean") => {
                rows.sort_by_key(|row| Reverse(self.servers[row.item].server_ns));
            }
            (Pane::Servers, "requests") => {
                rows.sort_by_key(|row| Reverse(self.servers[row.item].requests));
            }
            (Pane::Connections, "time taken") => {
                rows.sort_by_key(|row| Reverse(report.connections[row.item].ledger.total_ns()));
            }
            (Pane::Connections, "exchanges") => {
                rows.sort_by_key(|row| Reverse(report.connections[row.item].exchanges));
            }
            (Pane::Connections, "retransmissions") => rows.sort_by_key(|row| {
                let it = &report.connections[row.item];
                let (up, down) = (&it.client_to_server, &it.server_to_client);
                Reverse(up.rexmt_data_packets + down.rexmt_data_packets)
            }),
            (Pane::State, "process") => {
                rows.sort_by(|one, other| one.cells[2].cmp(&other.cells[2]));
            }
            _ => {}
        }
    }

    /// Returns the time that `percentile` of all exchanges do not exceed, ns.
    pub fn percentile_ns(&self, percentile: u64) -> u64 {
        self.report.latency_histogram.quantile_ns(percentile as f64 / 100.0)
    }

    /// Returns the parts of the server's time in an exchange, in words, if hooks saw it.
    pub fn parts_in_words(&self, one: &SlowExchange) -> Option<String> {
        parts_of(one, &self.served).map(|parts| parts.words(None))
    }

    /// Returns the listed exchanges that have `cause`.
    pub fn exchanges_with(&self, cause: Cause) -> impl Iterator<Item = &SlowExchange> {
        self.exchanges.iter().filter(move |it| it.cause == Some(cause))
    }
}

/// Returns the process that the state beside a finding names.
fn process_of(finding: &Finding) -> Option<String> {
    finding.state.iter().find_map(|it| it.process.clone())
}

impl View {
    /// Returns the rows of a list that the filter and the percentile leave, in its order.
    pub(super) fn rows(&self, pane: Pane) -> Vec<Row> {
        let Some(shot) = &self.shot else { return Vec::new() };
        let mut rows = shot.all_rows(pane);
        if let Some(percentile) = self.percentile.filter(|_| pane == Pane::Exchanges) {
            let least_ns = shot.percentile_ns(percentile);
            rows.retain(|row| shot.exchanges[row.item].wall_ns >= least_ns);
        }
        if !self.filter.is_empty() {
            let filter = self.filter.to_lowercase();
            rows.retain(|row| row.has(&filter));
        }
        shot.arrange(pane, self.choices[pane as usize].order, &mut rows);
        rows
    }
}
