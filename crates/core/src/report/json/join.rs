//! Two places in JSON: `join`, and the places of each finding.

use super::Report;
use crate::model::{Clocks, Crossing, Join, Sight, Vantage};
use serde::Serialize;

/// How the captures of two places were joined.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JoinView {
    /// What the places are; the first is nearer the clients.
    vantages: [Vantage; 2],
    /// Which place tells of most connections that both saw; each is told by the one that sees it
    /// better.
    #[cfg_attr(test, schemars(range(min = 1, max = 2)))]
    told_by: usize,
    /// Connections that both places saw.
    connections: u64,
    /// How the clocks differ; null where only packets of one direction were seen at both.
    clocks: Option<ClocksView>,
    client_to_server: Crossing,
    server_to_client: Crossing,
}

/// The difference between the clocks of the two places.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ClocksView {
    /// By how much the clock of place 2 is ahead of that of place 1, at the beginning where they
    /// drift: right where the fastest packets took as long both ways.
    offset_ns: i64,
    /// By how much it may be off, whatever the path: half of rtt_min_ns.
    offset_uncertainty_ns: u64,
    /// How much faster the clock of place 2 runs, parts per million, where that shows.
    drift_ppm: Option<f64>,
    /// The least round trip between the places.
    rtt_min_ns: u64,
}

impl ClocksView {
    fn of(clocks: Clocks) -> Self {
        Self {
            offset_ns: clocks.offset_ns,
            offset_uncertainty_ns: clocks.rtt_min_ns / 2,
            drift_ppm: clocks.drift_ppm,
            rtt_min_ns: clocks.rtt_min_ns,
        }
    }
}

impl JoinView {
    pub(super) fn of(join: &Join) -> Self {
        let [client_to_server, server_to_client] = join.crossings;
        Self {
            vantages: join.vantages,
            told_by: join.told_by + 1,
            connections: join.connections,
            clocks: join.clocks.map(ClocksView::of),
            client_to_server,
            server_to_client,
        }
    }
}

/// A finding as one of the places sees it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PlaceView {
    /// One of two places; 1 is nearer the clients.
    #[cfg_attr(test, schemars(range(min = 1, max = 2)))]
    place: usize,
    /// What the place is.
    vantage: Option<Vantage>,
    /// What was lost to the cause by the capture of this place.
    lost_ns: u64,
}

impl PlaceView {
    pub(super) fn of(sight: &Sight, report: &Report) -> Self {
        let vantages = report.join.as_ref().map(|join| join.vantages);
        Self {
            place: sight.place + 1,
            vantage: vantages.and_then(|it| it.get(sight.place).copied()),
            lost_ns: sight.lost_ns,
        }
    }
}
