//! Two places in JSON: `join`, and the places of each finding.

use super::{Report, vantage_id};
use crate::model::{Crossing, Join, Sight};
use serde_json::{Value, json};

/// Returns how the captures were joined.
pub(super) fn join(join: &Join) -> Value {
    let clocks = join.clocks.map(|clocks| {
        json!({
            "offset_ns": clocks.offset_ns,
            "offset_uncertainty_ns": clocks.rtt_min_ns / 2,
            "drift_ppm": clocks.drift_ppm,
            "rtt_min_ns": clocks.rtt_min_ns,
        })
    });
    let [to_server, to_client] = join.crossings.map(|crossing| crossed(&crossing));
    json!({
        "vantages": join.vantages.map(vantage_id),
        "told_by": join.told_by + 1,
        "connections": join.connections,
        "clocks": clocks,
        "client_to_server": to_server,
        "server_to_client": to_client,
    })
}

fn crossed(crossing: &Crossing) -> Value {
    json!({
        "packets": crossing.packets,
        "lost_packets": crossing.lost_packets,
        "lost_bytes": crossing.lost_bytes,
        "lost_acks": crossing.lost_acks,
        "appeared_packets": crossing.appeared_packets,
    })
}

/// Returns the finding as each place sees it.
pub(super) fn places(sights: &[Sight], report: &Report) -> Vec<Value> {
    let vantage = |sight: &Sight| {
        let join = report.join.as_ref()?;
        join.vantages.get(sight.place).copied().map(vantage_id)
    };
    let place = |sight: &Sight| json!({ "place": sight.place + 1, "vantage": vantage(sight), "lost_ns": sight.lost_ns });
    sights.iter().map(place).collect()
}
