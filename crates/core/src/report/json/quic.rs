//! Connections of QUIC in JSON: `quic`.

use super::endpoint;
use crate::model::quic::{Close, Handshake, Outcome, Part, Parts, Sums, error_name};
use serde_json::{Map, Value, json};

/// Returns the sums; `None` without connections.
pub(super) fn sums(sums: &Sums) -> Option<Value> {
    let outcomes = Outcome::ALL.into_iter().map(|it| (it.id().to_owned(), json!(sums.of(it))));
    let value = json!({
        "connections": sums.connections(),
        "outcomes": outcomes.collect::<Map<_, _>>(),
        "retries": sums.retries,
        "version_negotiations": sums.negotiations,
        "hello_retries": sums.hello_retries,
        "resumed": sums.resumed,
        "with_early_data": sums.early,
        "with_repeated_hello": sums.repeated,
        "amplification_limited": sums.amplified,
        "with_spin_bit": sums.spinning,
        "short_datagrams": sums.short_datagrams,
        "wall_ns": sums.parts.total_ns(),
        "ledger": parts(&sums.parts),
        "latency": sums.time.latency(),
        "handshakes": sums.longest.iter().map(handshake).collect::<Vec<_>>(),
        "handshakes_omitted": sums.connections() - sums.longest.len() as u64,
        "connections_omitted": sums.omitted,
    });
    (sums.connections() > 0).then_some(value)
}

fn parts(parts: &Parts) -> Value {
    let all = Part::ALL.into_iter().map(|part| (part.id().to_owned(), json!(parts.of(part))));
    Value::Object(all.filter(|(_, ns)| *ns != json!(0)).collect())
}

fn handshake(it: &Handshake) -> Value {
    let amplification = it.amplification.map(|it| {
        json!({
            "received_bytes": it.received_bytes,
            "sent_bytes": it.sent_bytes,
            "flight_bytes": it.flight_bytes,
            "stopped_frame": it.stopped.number(),
            "went_on_frame": it.went_on.number(),
        })
    });
    let spin = it.spin.map(
        |it| json!({ "count": it.count, "rtt_min_ns": it.min_ns, "rtt_median_ns": it.median_ns }),
    );
    json!({
        "client": endpoint(&it.client),
        "server": endpoint(&it.server),
        "outcome": it.outcome.id(),
        "version": version(it.version),
        "version_first": it.version_first.map(version),
        "server_name": it.server_name,
        "alpn": it.alpn,
        "tls_versions": it.tls_versions,
        "start_ns": it.start_ns,
        "wall_ns": it.wall_ns(),
        "first_frame": it.first.number(),
        "last_frame": it.last.number(),
        "ledger": parts(&it.parts),
        "repeated_hellos": it.repetitions,
        "retry": it.has_retry,
        "version_negotiation": it.is_negotiated,
        "hello_retry": it.asks_hello_again,
        "resumed": it.is_resumed,
        "early_datagrams": it.early_datagrams,
        "amplification": amplification,
        "closed": it.close.map(|(close, by_client)| closed(close, by_client)),
        "rtt_min_ns": it.rtt_min_ns,
        "spin_bit": spin,
    })
}

/// Returns a version as it stands in headers.
fn version(number: u32) -> String {
    format!("{number:#010x}")
}

fn closed(close: Close, by_client: bool) -> Value {
    json!({
        "by": if by_client { "client" } else { "server" },
        "code": close.code,
        "name": error_name(close.code).filter(|_| !close.is_application),
    })
}
