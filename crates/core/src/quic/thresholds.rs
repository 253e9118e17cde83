//! Numbers that decide about connections of QUIC. `docs/thresholds.md` lists them.

/// Time without a packet after which a connection has ended, ns. Source: quinn, quic-go and Chromium; RFC
/// 9000 §10.1 leaves the idle timeout to the ends, and 30 s is their default.
pub const IDLE_MAX_NS: u64 = 30_000_000_000;

/// Least number of turns of the spin bit that each follow a turn of the other side, from which a round trip
/// is stated. Source: derived: where bits are random (RFC 9000 §17.4), one turn in four seems to follow the one
/// before; eight in a row do once in 65,000 connections.
pub const SPIN_TURNS_MIN: u64 = 8;

/// Maximum size of a datagram of a server that only acknowledges, bytes. Source: an ACK frame with its headers and tag
/// takes 50 to 100 bytes; a piece of a certificate chain that the amplification limit held back fills
/// datagrams.
pub const ACK_DATAGRAM_MAX_BYTES: u32 = 300;
