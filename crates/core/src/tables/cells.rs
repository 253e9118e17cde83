//! The rows of the tables, in the order of their [columns](super::Table::columns).

use super::columns::Cell;
use super::{Stall, TableExchange};
use crate::capture::FrameId;
use crate::dns::{Lookup, LookupOutcome};
use crate::findings::causes::lookup::{rcode_name, type_name};
use crate::model::{ConnectionReport, DirectionReport, Finding, Ledger, Owner, vantage_id};
use std::net::Ipv6Addr;

fn identity(first_frame: FrameId) -> [Cell; 2] {
    [Cell::Integer(first_frame.file().into()), Cell::Integer(first_frame.number())]
}

fn ledger(ledger: &Ledger) -> impl Iterator<Item = Cell> {
    Owner::ALL.iter().map(|owner| Cell::Integer(ledger.of(*owner)))
}

fn direction(direction: &DirectionReport) -> [Cell; 7] {
    [
        direction.packets,
        direction.actual_data_bytes,
        direction.unique_bytes,
        direction.rexmt_data_packets,
        direction.rto_count,
        direction.out_of_order_packets,
        direction.zero_window_advertisements,
    ]
    .map(Cell::Integer)
}

/// Returns the row of a connection.
pub fn connection_row(it: &ConnectionReport) -> impl Iterator<Item = Cell> {
    let own = [
        Cell::Text(it.client.to_string()),
        Cell::Text(it.server.to_string()),
        Cell::Text(it.protocol.id().into()),
        Cell::Instant(it.first_ns),
        Cell::Instant(it.last_ns),
        Cell::Text(vantage_id(it.vantage).into()),
        Cell::Integer(it.rtt_min_ns),
        Cell::Integer(it.exchanges),
        Cell::Integer(it.lost_ns),
    ];
    let directions =
        direction(&it.client_to_server).into_iter().chain(direction(&it.server_to_client));
    identity(it.first_frame).into_iter().chain(own).chain(directions).chain(ledger(&it.ledger))
}

/// Returns the row of an exchange.
pub fn exchange_row(exchange: &TableExchange) -> impl Iterator<Item = Cell> {
    let it = &exchange.row;
    let own = [
        Cell::Integer(it.number),
        Cell::Text(it.client.to_string()),
        Cell::Text(it.server.to_string()),
        Cell::Text(it.protocol.id().into()),
        Cell::Text(it.kind.clone()),
        Cell::Text(it.outcome.kind().id().into()),
        Cell::Text(it.outcome.by().map_or("", |side| side.name()).into()),
        Cell::Text(it.outcome.error().map_or_else(String::new, |code| code.to_string())),
        Cell::Instant(it.start_ns),
        Cell::Integer(it.first.number()),
        Cell::Integer(it.last.number()),
        Cell::Flag(exchange.connects),
        Cell::Integer(it.wall_ns),
    ];
    identity(exchange.connection_frame).into_iter().chain(own).chain(ledger(&it.ledger))
}

/// Returns the row of a stall of `exchange`.
pub fn stall_row(exchange: &TableExchange, it: &Stall) -> impl Iterator<Item = Cell> {
    let own = [
        Cell::Integer(exchange.row.number),
        Cell::Text(it.cause.id().into()),
        Cell::Text(it.sender.name().into()),
        Cell::Text(it.culprit.role.id().into()),
        Cell::Text(it.culprit.endpoint.to_string()),
        Cell::Integer(it.ns),
        Cell::Integer(it.count.into()),
        Cell::Integer(it.longest_ns),
        Cell::Integer(it.before.number()),
        Cell::Integer(it.after.number()),
    ];
    identity(exchange.connection_frame).into_iter().chain(own)
}

/// Returns the row of a look-up.
pub fn lookup_row(it: &Lookup) -> impl Iterator<Item = Cell> {
    let first = it.queries.first();
    let frame = first.map_or_else(FrameId::default, |query| query.query_frame);
    let answered = || it.queries.iter().filter(|query| query.is_answered());
    let answer_ns = answered().filter_map(|it| Some(it.answered_ns?.saturating_sub(it.sent_ns)));
    let qtypes: Vec<String> = it.qtypes.iter().copied().map(type_name).collect();
    let (outcome, rcode) = match it.outcome {
        LookupOutcome::Answered => ("answered", None),
        LookupOutcome::NxDomain => ("no_such_name", None),
        LookupOutcome::Failure { rcode } => ("failed", rcode),
        LookupOutcome::Timeout => ("unanswered", None),
    };
    [
        Cell::Integer(frame.file().into()),
        Cell::Integer(frame.number()),
        Cell::Text(Ipv6Addr::from(it.client).to_canonical().to_string()),
        Cell::Text(first.map_or_else(String::new, |query| query.server.to_string())),
        Cell::Text(qtypes.join(" ")),
        Cell::Text(outcome.into()),
        Cell::Text(rcode.map_or_else(String::new, rcode_name)),
        Cell::Instant(it.start_ns),
        Cell::Integer(it.end_ns.saturating_sub(it.start_ns)),
        Cell::Integer(it.queries.len() as u64),
        Cell::Integer(answered().count() as u64),
        Cell::Integer(answer_ns.min().unwrap_or(0)),
        Cell::Integer(it.search_steps.into()),
        Cell::Flag(it.queries.iter().any(|query| query.flags.over_tcp)),
        Cell::Flag(it.is_reverse),
        Cell::Flag(it.by_resolver),
    ]
    .into_iter()
}

/// Returns the row of a finding, of a report whose exchanges took `wall_ns` together.
pub fn finding_row(it: &Finding, wall_ns: u64) -> impl Iterator<Item = Cell> {
    [
        Cell::Text(it.cause.id().into()),
        Cell::Text(it.cause.class().id().into()),
        Cell::Text(it.culprit.role.id().into()),
        Cell::Text(it.culprit.endpoint.to_string()),
        Cell::Integer(it.lost_ns),
        Cell::Integer(wall_ns),
        Cell::Share(it.share),
        Cell::Share(it.confidence),
        Cell::Integer(it.affected.exchanges),
        Cell::Integer(it.latency.p50_ns),
        Cell::Integer(it.latency.p99_ns),
        Cell::Integer(it.counterfactual.likely.p50_ns),
        Cell::Integer(it.counterfactual.likely.p99_ns),
        Cell::Integer(it.counterfactual.least.p50_ns),
        Cell::Integer(it.counterfactual.most.p50_ns),
        Cell::Integer(it.counterfactual.least.p99_ns),
        Cell::Integer(it.counterfactual.most.p99_ns),
    ]
    .into_iter()
}
