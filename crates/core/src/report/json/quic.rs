//! Connections of QUIC in JSON: `quic`.

use super::EndpointView;
use crate::model::Latency;
use crate::model::quic::{
    Amplification, Close, Handshake, Outcome, Part, Parts, SpinRtt, Sums, error_name,
};
use crate::wire::Side;
use serde::Serialize;
use std::collections::BTreeMap;

/// Sums over the connections of QUIC.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct QuicView<'a> {
    /// Connections whose handshake is at least in part in the capture.
    connections: u64,
    outcomes: HandshakeOutcomes,
    /// Connections with a Retry.
    retries: u64,
    /// Connections with a Version Negotiation.
    version_negotiations: u64,
    /// Connections whose server asked for another ClientHello.
    hello_retries: u64,
    /// Connections that resume a session.
    resumed: u64,
    /// Connections with 0-RTT packets.
    with_early_data: u64,
    /// Connections whose client repeated its ClientHello.
    with_repeated_hello: u64,
    /// Connections whose server the amplification limit stopped.
    amplification_limited: u64,
    /// Connections with round trips by the spin bit.
    with_spin_bit: u64,
    /// Datagrams that begin with a short header.
    short_datagrams: u64,
    /// Time of completed handshakes.
    wall_ns: u64,
    ledger: HandshakeParts,
    /// Percentiles of the time of completed handshakes.
    latency: Latency,
    /// Those that took longest, in descending order.
    #[cfg_attr(test, schemars(length(max = 64)))]
    handshakes: Vec<HandshakeView<'a>>,
    /// Connections that `handshakes` leaves out.
    handshakes_omitted: u64,
    /// Connections for which there was no room; they are in no sum.
    connections_omitted: u64,
}

/// Number of connections by the result of the handshake.
#[derive(Serialize)]
pub(super) struct HandshakeOutcomes(BTreeMap<&'static str, u64>);

/// Time by part, ns; parts without time are absent.
#[derive(Serialize)]
pub(super) struct HandshakeParts(BTreeMap<&'static str, u64>);

impl HandshakeOutcomes {
    fn of(sums: &Sums) -> Self {
        Self(Outcome::ALL.into_iter().map(|it| (it.id(), sums.of(it))).collect())
    }
}

impl HandshakeParts {
    fn of(parts: &Parts) -> Self {
        let all = Part::ALL.into_iter().map(|part| (part.id(), parts.of(part)));
        Self(all.filter(|(_, ns)| *ns > 0).collect())
    }
}

impl<'a> QuicView<'a> {
    /// Returns the sums; `None` without connections.
    pub(super) fn of(sums: &'a Sums) -> Option<Self> {
        let view = Self {
            connections: sums.connections(),
            outcomes: HandshakeOutcomes::of(sums),
            retries: sums.retries,
            version_negotiations: sums.negotiations,
            hello_retries: sums.hello_retries,
            resumed: sums.resumed,
            with_early_data: sums.early,
            with_repeated_hello: sums.repeated,
            amplification_limited: sums.amplified,
            with_spin_bit: sums.spinning,
            short_datagrams: sums.short_datagrams,
            wall_ns: sums.parts.total_ns(),
            ledger: HandshakeParts::of(&sums.parts),
            latency: sums.time.latency(),
            handshakes: sums.longest.iter().map(HandshakeView::of).collect(),
            handshakes_omitted: sums.connections() - sums.longest.len() as u64,
            connections_omitted: sums.omitted,
        };
        (view.connections > 0).then_some(view)
    }
}

/// One handshake.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "QuicHandshake"))]
struct HandshakeView<'a> {
    client: EndpointView,
    server: EndpointView,
    /// closed: by an error in an Initial packet; refused: by ICMP; unfinished: its end is not in the
    /// capture.
    outcome: Outcome,
    /// Version of the last Initial packet, as it stands in headers.
    version: String,
    /// Version of the client's first Initial packet, if it changed.
    version_first: Option<String>,
    /// Only with `--show-values`.
    server_name: Option<&'a str>,
    /// Application protocols that the client offers.
    alpn: &'a [String],
    /// Versions of TLS that the client offers.
    tls_versions: &'a [u16],
    /// Time of the first Initial packet, nanoseconds since the Unix epoch.
    start_ns: u64,
    /// Until the client's first 1-RTT packet; without one, until the last packet that was kept.
    wall_ns: u64,
    /// Frame of the first Initial packet.
    #[cfg_attr(test, schemars(range(min = 1)))]
    first_frame: u64,
    /// Frame of its end.
    #[cfg_attr(test, schemars(range(min = 1)))]
    last_frame: u64,
    ledger: HandshakeParts,
    /// Datagrams in which the client repeated its ClientHello.
    repeated_hellos: u32,
    /// The server sent a Retry.
    retry: bool,
    /// The server sent a Version Negotiation.
    version_negotiation: bool,
    /// The server asked for another ClientHello (RFC 8446 §4.1.4).
    hello_retry: bool,
    /// A session is resumed; null: the ServerHello was not read.
    resumed: Option<bool>,
    /// Datagrams with 0-RTT packets.
    early_datagrams: u32,
    amplification: Option<AmplificationView>,
    closed: Option<ClosedView>,
    /// Least round trip between both ends that Initial packets show.
    rtt_min_ns: Option<u64>,
    /// Round trips by the spin bit (RFC 9000 §17.4); null if it does not turn.
    spin_bit: Option<SpinView>,
}

/// The server had to stop at three times what it had received (RFC 9000 §8.1).
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AmplificationView {
    /// Bytes in datagrams of the client before the server stopped.
    received_bytes: u32,
    /// Bytes in datagrams of the server up to then.
    sent_bytes: u32,
    /// Bytes in all datagrams of the server up to the end of the handshake.
    flight_bytes: u32,
    /// The last datagram before the server stopped.
    #[cfg_attr(test, schemars(range(min = 1)))]
    stopped_frame: u64,
    /// The datagram with which it went on.
    #[cfg_attr(test, schemars(range(min = 1)))]
    went_on_frame: u64,
}

/// An error with which a side closed the connection in an Initial packet.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ClosedView {
    /// The side that closed it.
    by: Side,
    /// The error code.
    code: u64,
    /// Its name (RFC 9000 §20.1); null for other codes.
    name: Option<&'static str>,
}

/// Round trips by the spin bit.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SpinView {
    /// Number of round trips.
    #[cfg_attr(test, schemars(range(min = 1)))]
    count: u32,
    /// The least.
    rtt_min_ns: u64,
    /// Half of them took no longer.
    rtt_median_ns: u64,
}

impl<'a> HandshakeView<'a> {
    fn of(it: &'a Handshake) -> Self {
        Self {
            client: EndpointView::of(&it.client),
            server: EndpointView::of(&it.server),
            outcome: it.outcome,
            version: version(it.version),
            version_first: it.version_first.map(version),
            server_name: it.server_name.as_deref(),
            alpn: &it.alpn,
            tls_versions: &it.tls_versions,
            start_ns: it.start_ns,
            wall_ns: it.wall_ns(),
            first_frame: it.first.number(),
            last_frame: it.last.number(),
            ledger: HandshakeParts::of(&it.parts),
            repeated_hellos: it.repetitions,
            retry: it.has_retry,
            version_negotiation: it.is_negotiated,
            hello_retry: it.asks_hello_again,
            resumed: it.is_resumed,
            early_datagrams: it.early_datagrams,
            amplification: it.amplification.map(AmplificationView::of),
            closed: it.close.map(|(close, by_client)| ClosedView::of(close, by_client)),
            rtt_min_ns: it.rtt_min_ns,
            spin_bit: it.spin.map(SpinView::of),
        }
    }
}

impl AmplificationView {
    fn of(it: Amplification) -> Self {
        Self {
            received_bytes: it.received_bytes,
            sent_bytes: it.sent_bytes,
            flight_bytes: it.flight_bytes,
            stopped_frame: it.stopped.number(),
            went_on_frame: it.went_on.number(),
        }
    }
}

impl ClosedView {
    fn of(close: Close, by_client: bool) -> Self {
        Self {
            by: if by_client { Side::Client } else { Side::Server },
            code: close.code,
            name: error_name(close.code).filter(|_| !close.is_application),
        }
    }
}

impl SpinView {
    fn of(it: SpinRtt) -> Self {
        Self { count: it.count, rtt_min_ns: it.min_ns, rtt_median_ns: it.median_ns }
    }
}

/// Returns a version as it stands in headers.
fn version(number: u32) -> String {
    format!("{number:#010x}")
}
