//! QUIC without keys: what Initial packets, headers and the spin bit show of connections over UDP.
//!
//! Read first: RFC 9000 §7 (handshake), §8.1 (amplification limit), §12 and §17 (packets), RFC 9001 §5 (protection),
//! RFC 9002 §6.2 (probe timeouts), RFC 9368 and RFC 9369 (versions).
//!
//! ```text
//! datagrams ─► packets (wire::quic) ─► Initial packets opened ─► CRYPTO frames ─► hellos
//!          └─► Tracker ─► Datagrams of one handshake ─► split() ─► Handshake
//! ```
//!
//! The content of Handshake and 1-RTT packets is encrypted: of them only times, sizes and the spin bit
//! are known.

mod carried;
mod connection;
mod connection_id;
mod crypto_stream;
mod frames;
mod spin;
mod split;
#[cfg(test)]
mod tests;
pub mod thresholds;
mod tracker;

pub use carried::Carried;
pub use tracker::Tracker;
