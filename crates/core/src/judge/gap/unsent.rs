//! Data that a sender had not yet sent in a gap.

/// Data in the sender's buffer beyond its flight, as far as segments show it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsent {
    /// The sender had nothing more buffered after its last departure, as far as PSH shows.
    pub drained: bool,
    /// The sender had more in its buffer at the start of the silence, and the packets' IP
    /// identification would not show a loss before the vantage.
    pub more_queued: bool,
    /// The sender had more in its buffer at the start of the silence, and no ACK for two or more
    /// full segments came for as long as the timer of the tail loss probe (RFC 8985 §7.2).
    pub probe_due: bool,
    /// The sender had nothing more to send for a part of the gap: its tail loss probe repeated the
    /// last segment, because there was no new data.
    pub ran_out: bool,
}
