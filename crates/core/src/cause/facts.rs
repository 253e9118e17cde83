//! The values that go into a finding's words, how sure it is, and what it was told apart from.

use super::Cause;
use super::tally::{CauseTally, EndpointTally, Key};
use crate::app::Side;
use crate::report::{Fact, RuledOut, Vantage};
use crate::tcp::{Shape, Turn};

/// Values for the words of a cause.
pub fn facts(key: &Key, cause: &CauseTally, of_exchanges: u64) -> Vec<(&'static str, Fact)> {
    let mut facts = vec![
        ("cases", Fact::Count(cause.exchanges)),
        ("of_cases", Fact::Count(of_exchanges)),
        ("count", Fact::Count(cause.count)),
        ("longest_ns", Fact::Ns(cause.waits.latency().max_ns)),
        ("p50_ns", Fact::Ns(cause.waits.quantile_ns(0.5))),
        ("p99_ns", Fact::Ns(cause.waits.quantile_ns(0.99))),
    ];
    let (message, peer) = match key.sender {
        Side::Client => ("request", "server"),
        Side::Server => ("response", "client"),
    };
    facts.push(("message", Fact::Text(message.into())));
    facts.push(("peer", Fact::Text(peer.into())));
    let Some(instance) = &cause.worst else { return facts };
    let gap = &instance.chain.gap;
    facts.push(("rtt_ns", Fact::Ns(instance.rtt_base_ns)));
    facts.push(("mss_bytes", Fact::Bytes(gap.smss)));
    if gap.turn == Turn::Continues {
        facts.push(("flight_bytes", Fact::Bytes(gap.flight_before)));
        facts.push(("held_bytes", Fact::Bytes(gap.next_len)));
    }
    if let Some(window) = gap.window_before {
        facts.push(("window_bytes", Fact::Bytes(window)));
    }
    if let Some(delay_ns) = gap.ack.and_then(|ack| ack.delay_ns) {
        facts.push(("ack_delay_p50_ns", Fact::Ns(delay_ns)));
    }
    facts.extend(height_facts(key, cause, instance.rtt_base_ns));
    if key.cause == Cause::ZeroWindow {
        facts.push(("probes", Fact::Count(u64::from(gap.probes))));
    }
    if key.cause == Cause::RetransmissionTimeout {
        facts.push(("rto_ns", Fact::Ns(gap.len_ns())));
    }
    facts
}

/// The bandwidth-delay arithmetic of a flight with a ceiling.
fn height_facts(key: &Key, cause: &CauseTally, rtt_ns: u64) -> Vec<(&'static str, Fact)> {
    let Some(instance) = &cause.worst else { return Vec::new() };
    let gap = &instance.chain.gap;
    let height = match (key.cause, gap.shape) {
        (Cause::SendBuffer, Shape::Ceiling { bytes }) => bytes,
        (Cause::ReceiveWindow, _) => gap.window_before.unwrap_or(gap.flight_before),
        _ => return Vec::new(),
    };
    let mut facts = vec![("ceiling_bytes", Fact::Bytes(height))];
    if rtt_ns > 0 {
        let rate_bps = (u128::from(height) * 8_000_000_000 / u128::from(rtt_ns)) as u64;
        facts.push(("rate_bps", Fact::BitsPerSecond(rate_bps)));
    }
    facts
}

/// Values known of the endpoint as a whole.
pub fn endpoint_facts(cause: Cause, endpoint: &EndpointTally) -> Vec<(&'static str, Fact)> {
    match cause {
        Cause::PathRtt => vec![
            ("rtt_ns", Fact::Ns(endpoint.rtt_ns)),
            ("connects", Fact::Count(endpoint.connects)),
        ],
        Cause::TlsHandshake => vec![
            ("handshakes", Fact::Count(endpoint.handshakes.iter().sum())),
            ("resumed", Fact::Count(endpoint.handshakes[1])),
        ],
        _ => Vec::new(),
    }
}

/// How sure the finding is, 0 to 1: more cases and a vantage at the silent side help, a trace
/// that shows one link of the chain only by inference does not.
pub fn confidence(key: &Key, cause: &CauseTally) -> f64 {
    let cases = cause.exchanges.max(1) as f64;
    let repeated = 1.0 - 0.3 / cases;
    let place = match (cause.worst.as_ref().map(|instance| instance.vantage), key.sender) {
        (Some(Vantage::Server), Side::Server) | (Some(Vantage::Client), Side::Client) => 0.99,
        (Some(Vantage::Local), _) => 0.98,
        (Some(Vantage::Unknown), _) => 0.7,
        _ => 0.95,
    };
    (repeated * place * 100.0).round() / 100.0
}

/// Look-alikes that the signature excludes, with the sentence that says why.
pub fn ruled_out(key: &Key, _cause: &CauseTally) -> Vec<RuledOut> {
    let sentences: &[(Cause, &'static str)] = match key.cause {
        Cause::NagleDelayedAck => {
            &[(Cause::ServerThink, "follows_ack"), (Cause::ReceiveWindow, "window_open")]
        }
        _ => &[],
    };
    sentences.iter().map(|&(cause, why)| RuledOut { cause, why }).collect()
}
