//! One request of a client, or one failed attempt, as its own socket and clock show it.

use crate::app::ErrorCode;
use crate::experiment::thresholds::OPENING_TRIPS;
use crate::model::{Cause, Outcome};
use crate::wire::Side;

/// The consecutive times of one request, which sum to its latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnRequest {
    /// Time of the name look-up, ns; 0 if it was done before.
    pub lookup_ns: u64,
    /// Time until `connect` returned, ns; 0 on a reused connection.
    pub connect_ns: u64,
    /// Time of the TLS handshake, ns.
    pub tls_ns: u64,
    /// Time from the end of the request to the first byte of the response, ns.
    pub wait_ns: u64,
    /// The longest pause within the response, ns.
    pub pause_ns: u64,
    /// Time between the first and the last byte of the response, without that pause, ns.
    pub receive_ns: u64,
    /// The kernel's minimum round trip on this connection, ns; 0 if unknown.
    pub rtt_ns: u64,
    /// Segments retransmitted by the client's kernel on this connection.
    pub repeated: u64,
    /// Number of segments that arrived out of order: earlier ones were lost or reordered.
    pub out_of_order: u64,
    /// Bytes of the response.
    pub wire_bytes: u64,
    /// The error that the response states.
    pub error: Option<ErrorCode>,
    /// Bytes of the response that arrived after the longest pause, at once.
    pub after_pause_bytes: u64,
    /// Size of a full segment, bytes; 0 if unknown.
    pub mss_bytes: u64,
    /// The pauses within the response that were longer than a round trip, less one round trip each,
    /// summed up, ns.
    pub beyond_trips_ns: u64,
    /// The receive window that the client offers after the response, bytes; 0 if unknown.
    pub rcv_wnd_bytes: u64,
    /// Part of `wait_ns` in which the server's window held the request back, as the kernel counted
    /// it, ns.
    pub rwnd_limited_ns: u64,
    /// How the request was sent.
    pub sending: Sending,
}

/// The way of a request to the server, from observations of the client's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// Time from the begin of the request until the server had acknowledged all but its last
    /// segment, ns. A receiver may delay the ACK of that one, but not of two (RFC 5681 §4.2). 0 if
    /// two segments were never unacknowledged.
    pub acked_ns: u64,
    /// Number of observations at which a part of the request had not been sent yet.
    pub observed: u64,
    /// Number of those at which the congestion window was full, and slow start had not ended.
    pub slow_start: u64,
    /// Number of those at which the smoothed round trip was at least twice the least one: what is
    /// sent waits in a queue for as long as it travels.
    pub queued: u64,
    /// Number of those at which the server's window had no room for another segment.
    pub held: u64,
    /// State of the server's window while it held the request back.
    pub window: PeerWindow,
}

/// The limit that a request met at most observations while it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendLimit {
    /// The server's window.
    Window,
    /// A queue on the path.
    Queue,
    /// The congestion window, in slow start (RFC 5681 §3.1).
    SlowStart,
}

impl Sending {
    /// Returns the limit that was met at most observations; `None` if none was.
    pub fn limit(&self) -> Option<SendLimit> {
        let is_most = |count: u64| count > 0 && 2 * count >= self.observed;
        let has_window = self.window != PeerWindow::Unknown;
        [
            (SendLimit::Window, is_most(self.held) && has_window),
            (SendLimit::Queue, is_most(self.queued)),
            (SendLimit::SlowStart, is_most(self.slow_start)),
        ]
        .into_iter()
        .find_map(|(limit, is_met)| is_met.then_some(limit))
    }
}

/// The server's window while it holds a request back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerWindow {
    /// No request was held back, or the reason is unknown.
    #[default]
    Unknown,
    /// The window has no room for a segment: the server does not read received data.
    Closed,
    /// The window never exceeds this size.
    Small {
        /// Size of the window, bytes.
        bytes: u64,
    },
}

impl OwnRequest {
    /// Returns the time that the request needed to arrive, beyond the round trip that each needs,
    /// ns.
    pub fn sending_ns(&self) -> u64 {
        self.sending.acked_ns.min(self.wait_ns).saturating_sub(self.rtt_ns)
    }

    /// Returns the least number of round trips that the response takes if it fills the client's window
    /// in each; 0 if the window is unknown.
    pub fn window_trips(&self) -> u64 {
        self.wire_bytes.checked_div(self.rcv_wnd_bytes).unwrap_or(0)
    }

    /// Returns whether the client's window is small for the response: it does not open as fast as the
    /// response would let it.
    pub fn exceeds_own_window(&self) -> bool {
        self.window_trips() >= OPENING_TRIPS
    }

    /// Returns the latency of the request, ns.
    pub fn wall_ns(&self) -> u64 {
        let parts = [self.lookup_ns, self.connect_ns, self.tls_ns, self.wait_ns];
        parts.into_iter().sum::<u64>() + self.pause_ns + self.receive_ns
    }
}

/// A failed attempt, and the time until it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `connect` was refused (`ECONNREFUSED`).
    Refused {
        /// Time since the SYN, ns.
        after_ns: u64,
    },
    /// `connect` failed since the server cannot be reached (`EHOSTUNREACH`, `ENETUNREACH`): an ICMP
    /// error answered the SYN (RFC 1122 §4.2.3.9), or this host has no route.
    Rejected {
        /// Time since the SYN, ns.
        after_ns: u64,
    },
    /// `connect` had no answer.
    Unanswered {
        /// Time since the SYN, ns.
        after_ns: u64,
    },
    /// The server closed the connection before the first byte of a response.
    Closed {
        /// Time since the request, ns.
        after_ns: u64,
    },
    /// The server reset the connection before the response was complete.
    Reset {
        /// Time since the request, ns.
        after_ns: u64,
    },
}

impl Failure {
    pub(super) fn after_ns(self) -> u64 {
        match self {
            Self::Refused { after_ns }
            | Self::Rejected { after_ns }
            | Self::Unanswered { after_ns }
            | Self::Closed { after_ns }
            | Self::Reset { after_ns } => after_ns,
        }
    }

    pub(super) fn cause(self) -> Cause {
        match self {
            Self::Refused { .. } | Self::Rejected { .. } => Cause::Refused,
            Self::Unanswered { .. } => Cause::SynRetransmit,
            Self::Closed { .. } => Cause::NoAnswer,
            Self::Reset { .. } => Cause::Reset,
        }
    }

    /// Returns the outcome of the exchange; `connect` that fails begins none.
    pub(super) fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Closed { .. } => Some(Outcome::Closed { by: Side::Server }),
            Self::Reset { .. } => Some(Outcome::Reset { by: Side::Server }),
            Self::Refused { .. } | Self::Rejected { .. } | Self::Unanswered { .. } => None,
        }
    }
}
