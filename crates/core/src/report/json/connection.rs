//! Server endpoints and connections in JSON.

use super::totals::{LedgerView, OutcomesView};
use super::{EndpointView, FrameView};
use crate::app::Protocol;
use crate::model::{
    ConnectionReport, DirectionReport, EndpointReport, KindReport, Latency, Report, Vantage,
};
use serde::Serialize;

/// The exchanges with one server endpoint.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct EndpointReportView<'a> {
    /// The server.
    endpoint: EndpointView,
    /// What the software says it is.
    software: Option<&'a str>,
    /// What is spoken; turns where it was not recognised.
    protocol: Protocol,
    /// Connections to it.
    connections: u64,
    /// Exchanges with it.
    exchanges: u64,
    ledger: LedgerView<'a>,
    latency: Latency,
    outcomes: OutcomesView<'a>,
    /// Per request kind, most wall time first.
    kinds: Vec<KindView<'a>>,
}

/// The exchanges of one kind of request.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct KindView<'a> {
    /// GET /items/{id}, SELECT, …; empty where it could not be read.
    kind: &'a str,
    /// How many.
    exchanges: u64,
    latency: Latency,
    outcomes: OutcomesView<'a>,
}

impl<'a> KindView<'a> {
    fn of(kind: &'a KindReport) -> Self {
        Self {
            kind: &kind.kind,
            exchanges: kind.exchanges,
            latency: kind.latency,
            outcomes: OutcomesView(&kind.outcomes),
        }
    }
}

impl<'a> EndpointReportView<'a> {
    pub(super) fn of(at: &'a EndpointReport) -> Self {
        Self {
            endpoint: EndpointView::of(&at.endpoint),
            software: at.software.as_deref(),
            protocol: at.protocol,
            connections: at.connections,
            exchanges: at.exchanges,
            ledger: LedgerView(&at.ledger),
            latency: at.latency,
            outcomes: OutcomesView(&at.outcomes),
            kinds: at.kinds.iter().map(KindView::of).collect(),
        }
    }
}

/// A connection.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ConnectionView<'a> {
    /// What --connection takes, with the same files and filter; with connections_omitted above 0 it
    /// takes an endpoint more reliably.
    #[cfg_attr(test, schemars(range(min = 1)))]
    number: u64,
    client: EndpointView,
    server: EndpointView,
    /// What is spoken; turns where it was not recognised.
    protocol: Protocol,
    first_frame: FrameView<'a>,
    /// Capture time of its first frame, nanoseconds since the Unix epoch.
    first_ns: u64,
    /// Capture time of its last frame, nanoseconds since the Unix epoch.
    last_ns: u64,
    /// Where it was captured.
    vantage: Vantage,
    /// Base RTT client to server; 0 if never measured.
    rtt_min_ns: u64,
    /// Exchanges on it.
    exchanges: u64,
    ledger: LedgerView<'a>,
    /// Time lost to faults.
    lost_ns: u64,
    client_to_server: DirectionReport,
    server_to_client: DirectionReport,
}

impl<'a> ConnectionView<'a> {
    pub(super) fn of(number: u64, connection: &'a ConnectionReport, report: &'a Report) -> Self {
        Self {
            number,
            client: EndpointView::of(&connection.client),
            server: EndpointView::of(&connection.server),
            protocol: connection.protocol,
            first_frame: FrameView::of(connection.first_frame, report),
            first_ns: connection.first_ns,
            last_ns: connection.last_ns,
            vantage: connection.vantage,
            rtt_min_ns: connection.rtt_min_ns,
            exchanges: connection.exchanges,
            ledger: LedgerView(&connection.ledger),
            lost_ns: connection.lost_ns,
            client_to_server: connection.client_to_server,
            server_to_client: connection.server_to_client,
        }
    }
}
