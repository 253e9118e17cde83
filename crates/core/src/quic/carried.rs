//! A datagram with its time and its ends.

use crate::capture::FrameId;
use crate::wire::Endpoint;

/// A UDP datagram that is, or may be, one of QUIC.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Capture time, ns since the Unix epoch.
    pub time_ns: u64,
    /// The frame.
    pub frame: FrameId,
    /// The endpoint that sent it.
    pub source: Endpoint,
    /// The endpoint that it was sent to.
    pub destination: Endpoint,
    /// The captured payload; of one with a short header, its beginning.
    pub payload: Box<[u8]>,
    /// Length of the payload on the wire, bytes.
    pub payload_bytes: u32,
}
