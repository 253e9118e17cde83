//! A handshake of QUIC as it is reported, and the parts of its time.

use crate::capture::FrameId;
use crate::model::{Histogram, Owner};
use crate::wire::Endpoint;

/// The result of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The client went on with 1-RTT packets, or with Handshake packets if no others were captured.
    Completed,
    /// A side closed the connection with an error in an Initial packet.
    Closed,
    /// The server's host reported by ICMP that it does not take the packets.
    Refused,
    /// The server sent nothing, and the client repeated its ClientHello.
    Unanswered,
    /// The end of the handshake is not in the capture.
    Unfinished,
}

impl Outcome {
    /// All outcomes, in the order of their declaration.
    pub const ALL: [Self; 5] =
        [Self::Completed, Self::Closed, Self::Refused, Self::Unanswered, Self::Unfinished];

    /// Returns the public id.
    pub fn id(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Closed => "closed",
            Self::Refused => "refused",
            Self::Unanswered => "unanswered",
            Self::Unfinished => "unfinished",
        }
    }
}

/// Where a part of a handshake's time went.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Round trips between client and server that every handshake needs.
    Path,
    /// The server's own time: it had the ClientHello and had not sent its flight.
    Server,
    /// The client's own time.
    Client,
    /// The ClientHello, or a part of it, was lost and repeated.
    LostInitial,
    /// The server's answer was lost and repeated.
    LostFlight,
    /// The round trip of a Retry (RFC 9000 §8.1.2).
    Retry,
    /// The round trip of a Version Negotiation (RFC 9000 §6).
    VersionNegotiation,
    /// The server had sent three times what it had received and waited for more from the client (RFC
    /// 9000 §8.1).
    Amplification,
    /// Time that could not be attributed.
    Unknown,
}

impl Part {
    /// All parts, in the order of their declaration.
    pub const ALL: [Self; 9] = [
        Self::Path,
        Self::Server,
        Self::Client,
        Self::LostInitial,
        Self::LostFlight,
        Self::Retry,
        Self::VersionNegotiation,
        Self::Amplification,
        Self::Unknown,
    ];

    /// Returns the public id.
    pub fn id(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Server => "server",
            Self::Client => "client",
            Self::LostInitial => "lost_initial",
            Self::LostFlight => "lost_flight",
            Self::Retry => "retry",
            Self::VersionNegotiation => "version_negotiation",
            Self::Amplification => "amplification",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the owner of the time in the ledger of an exchange. All round trips of a set-up are one
    /// owner there, as are the works of both ends in a TLS handshake.
    pub fn owner(self) -> Owner {
        match self {
            Self::Path | Self::Retry | Self::VersionNegotiation | Self::Amplification => {
                Owner::Connect
            }
            Self::Server | Self::Client => Owner::Tls,
            Self::LostInitial => Owner::SynRetransmit,
            Self::LostFlight => Owner::RetransmissionTimeout,
            Self::Unknown => Owner::Unknown,
        }
    }
}

/// Time by [`Part`], ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Parts([u64; Part::ALL.len()]);

impl Parts {
    /// Adds `ns` to the time of `part`.
    pub fn add(&mut self, part: Part, ns: u64) {
        let sum = &mut self.0[part as usize];
        *sum = sum.saturating_add(ns);
    }

    /// Returns the time of `part`, ns.
    pub fn of(&self, part: Part) -> u64 {
        self.0[part as usize]
    }

    /// Returns the sum over all parts, ns.
    pub fn total_ns(&self) -> u64 {
        self.0.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        Part::ALL.into_iter().for_each(|part| self.add(part, other.of(part)));
    }
}

/// The reason that a CONNECTION_CLOSE frame states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Close {
    /// The error code.
    pub code: u64,
    /// An error of the application, which Initial packets state as APPLICATION_ERROR (RFC 9000 §10.2.3).
    pub is_application: bool,
}

/// Returns the name of a transport error (RFC 9000 §20.1, RFC 9368 §10.2); of a TLS alert, "CRYPTO_ERROR".
pub fn error_name(code: u64) -> Option<&'static str> {
    const NAMES: [&str; 18] = [
        "NO_ERROR",
        "INTERNAL_ERROR",
        "CONNECTION_REFUSED",
        "FLOW_CONTROL_ERROR",
        "STREAM_LIMIT_ERROR",
        "STREAM_STATE_ERROR",
        "FINAL_SIZE_ERROR",
        "FRAME_ENCODING_ERROR",
        "TRANSPORT_PARAMETER_ERROR",
        "CONNECTION_ID_LIMIT_ERROR",
        "PROTOCOL_VIOLATION",
        "INVALID_TOKEN",
        "APPLICATION_ERROR",
        "CRYPTO_BUFFER_EXCEEDED",
        "KEY_UPDATE_ERROR",
        "AEAD_LIMIT_REACHED",
        "NO_VIABLE_PATH",
        "VERSION_NEGOTIATION_ERROR",
    ];
    match code {
        0x100..=0x1ff => Some("CRYPTO_ERROR"),
        _ => NAMES.get(usize::try_from(code).ok()?).copied(),
    }
}

/// Round trips that the spin bit of a connection shows. What waited for an application is in them
/// as well, so that each is an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct SpinRtt {
    /// Number of round trips.
    pub count: u32,
    /// The least, ns.
    pub min_ns: u64,
    /// Half of them took no longer, ns.
    pub median_ns: u64,
}

/// A server that had to stop at three times what it had received (RFC 9000 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Amplification {
    /// Bytes in datagrams of the client before the server stopped.
    pub received_bytes: u32,
    /// Bytes in datagrams of the server up to then.
    pub sent_bytes: u32,
    /// Bytes in all datagrams of the server up to the end of the handshake.
    pub flight_bytes: u32,
    /// The last datagram before the server stopped.
    pub stopped: FrameId,
    /// The datagram with which it went on.
    pub went_on: FrameId,
}

/// One handshake of QUIC, and the round trips of its connection.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Handshake {
    /// The end that sent the first Initial packet.
    pub client: Endpoint,
    /// The other end.
    pub server: Endpoint,
    /// The version of the last Initial packet.
    pub version: u32,
    /// The version of the client's first Initial packet, if it changed.
    pub version_first: Option<u32>,
    /// The name of the server in the ClientHello, if values are shown.
    pub server_name: Option<String>,
    /// Hash of that name, which is known even if values are not shown.
    pub name_digest: Option<u64>,
    /// The application protocols that the client offers, in its order (bounded).
    pub alpn: Vec<String>,
    /// The versions of TLS that the client offers (bounded).
    pub tls_versions: Vec<u16>,
    /// Time of the first Initial packet, ns.
    pub start_ns: u64,
    /// Time of its end; of the last packet of the client if it has none, ns.
    pub end_ns: u64,
    /// Frame of the first Initial packet.
    pub first: FrameId,
    /// Frame of its end.
    pub last: FrameId,
    /// Time and frame of the client's first repetition of its ClientHello.
    pub repeated: Option<(u64, FrameId)>,
    /// Number of datagrams in which the client repeated its ClientHello.
    pub repetitions: u32,
    /// The result.
    pub outcome: Outcome,
    /// The parts of its time; they sum to the time between first packet and end.
    pub parts: Parts,
    /// The server sent a Retry with the right tag.
    pub has_retry: bool,
    /// The server sent a Version Negotiation.
    pub is_negotiated: bool,
    /// The server asked for another ClientHello (RFC 8446 §4.1.4).
    pub asks_hello_again: bool,
    /// A session is resumed; `None` if the ServerHello was not read.
    pub is_resumed: Option<bool>,
    /// Number of datagrams with 0-RTT packets.
    pub early_datagrams: u32,
    /// Where the amplification limit stopped the server.
    pub amplification: Option<Amplification>,
    /// An error with which a side closed the connection in an Initial packet; `true` if it was the client.
    pub close: Option<(Close, bool)>,
    /// Least round trip between vantage and both ends together that Initial packets show, ns.
    pub rtt_min_ns: Option<u64>,
    /// Round trips by the spin bit.
    pub spin: Option<SpinRtt>,
    /// Number of datagrams that begin with a short header.
    pub short_datagrams: u64,
}

impl Handshake {
    /// Time between the first Initial packet and the end, ns.
    pub fn wall_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Maximum number of handshakes that a report lists.
const LISTED_MAX: usize = 64;

/// Sums over the connections of QUIC.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Sums {
    /// Number of connections, by [`Outcome`].
    outcomes: [u64; Outcome::ALL.len()],
    /// Number of connections with a Retry.
    pub retries: u64,
    /// Number of connections with a Version Negotiation.
    pub negotiations: u64,
    /// Number of connections whose server asked for another ClientHello.
    pub hello_retries: u64,
    /// Number of connections that resume a session.
    pub resumed: u64,
    /// Number of connections with 0-RTT packets.
    pub early: u64,
    /// Number of connections whose server the amplification limit stopped.
    pub amplified: u64,
    /// Number of connections whose client repeated its ClientHello.
    pub repeated: u64,
    /// Number of connections with round trips by the spin bit.
    pub spinning: u64,
    /// Number of datagrams that begin with a short header, which the headers of no other packet
    /// identify.
    pub short_datagrams: u64,
    /// Time of completed handshakes, by part.
    pub parts: Parts,
    /// Time of completed handshakes.
    pub time: Histogram,
    /// The handshakes that took longest, in descending order (bounded).
    pub longest: Vec<Handshake>,
    /// Number of connections for whose handshake there was no room: they are in no sum.
    pub omitted: u64,
}

impl Sums {
    /// Adds a handshake.
    pub fn add(&mut self, handshake: Handshake) {
        self.outcomes[handshake.outcome as usize] += 1;
        self.retries += u64::from(handshake.has_retry);
        self.negotiations += u64::from(handshake.is_negotiated);
        self.hello_retries += u64::from(handshake.asks_hello_again);
        self.resumed += u64::from(handshake.is_resumed == Some(true));
        self.early += u64::from(handshake.early_datagrams > 0);
        self.amplified += u64::from(handshake.amplification.is_some());
        self.repeated += u64::from(handshake.repetitions > 0);
        self.spinning += u64::from(handshake.spin.is_some());
        self.short_datagrams += handshake.short_datagrams;
        if handshake.outcome == Outcome::Completed {
            self.parts.merge(&handshake.parts);
            self.time.record(handshake.wall_ns());
        }
        self.longest.push(handshake);
        if self.longest.len() >= 2 * LISTED_MAX {
            self.bound();
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.outcomes.iter_mut().zip(other.outcomes) {
            *mine += theirs;
        }
        self.retries += other.retries;
        self.negotiations += other.negotiations;
        self.hello_retries += other.hello_retries;
        self.resumed += other.resumed;
        self.early += other.early;
        self.amplified += other.amplified;
        self.repeated += other.repeated;
        self.spinning += other.spinning;
        self.short_datagrams += other.short_datagrams;
        self.omitted += other.omitted;
        self.parts.merge(&other.parts);
        self.time.merge(&other.time);
        self.longest.extend(other.longest);
        self.bound();
    }

    /// Sorts the listed handshakes, and drops those for which there is no room.
    pub fn bound(&mut self) {
        self.longest.sort_by_key(|it| (std::cmp::Reverse(it.wall_ns()), it.start_ns, it.first));
        self.longest.truncate(LISTED_MAX);
    }

    /// Returns the number of connections with this outcome.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> u64 {
        self.outcomes.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_names_of_the_standard() {
        let names = [2, 0x11, 0x128, 0x200].map(error_name);
        let refused = Some("CONNECTION_REFUSED");
        let negotiation = Some("VERSION_NEGOTIATION_ERROR");
        assert_eq!(names, [refused, negotiation, Some("CRYPTO_ERROR"), None]);
    }
}
