//! Numbers that decide, and bounds of memory. `docs/thresholds.md` lists them.

/// Maximum number of connections that are followed at a time. A connection takes up to 16 KB, so all
/// together up to 32 MB; of more, those that carried nothing for longest end. Source: memory.
pub const CONNECTIONS_MAX: usize = 1 << 11;

/// Maximum number of connections between the same two endpoints that are followed at a time. Clients
/// mostly use a port for each; more need an ID of the connection in each packet. Source: memory.
pub const CONNECTIONS_OF_FLOW_MAX: usize = 8;

/// Maximum number of handshakes that are kept until all is known; any more are counted. Source: memory, as
/// for look-ups.
pub const HANDSHAKES_MAX: usize = 1 << 14;

/// Maximum number of bytes of CRYPTO frames that are kept of each side's Initial packets. Source: RFC 9000
/// §7.5: implementations must buffer at least 4,096; a ClientHello with post-quantum key shares has 1.8 KB.
pub const CRYPTO_MAX_BYTES: usize = 4096;

/// Maximum number of pieces of a CRYPTO stream that are kept apart. Source: memory; a browser that
/// shuffles its ClientHello sends up to 20 pieces.
pub const CRYPTO_PIECES_MAX: usize = 64;

/// Maximum number of datagrams of a handshake that are kept. Source: memory; the initial flight of a server has 10
/// (RFC 9002 §7.2), and each of both sides repeats some.
pub const DATAGRAMS_MAX: usize = 96;

/// Time without a packet after which a connection has ended, ns. Source: RFC 9000 §10.1 leaves the idle
/// timeout to the ends; 30 s is the default of most implementations (quinn, quic-go, Chromium).
pub const IDLE_MAX_NS: u64 = 30_000_000_000;

/// Least number of turns of the spin bit that each follow a turn of the other side, from which a round trip
/// is stated. Source: derived: where bits are random (RFC 9000 §17.4), one turn in four seems to follow the one
/// before; eight in a row do once in 65,000 connections.
pub const SPIN_TURNS_MIN: u64 = 8;

/// Maximum number of round trips by the spin bit that are kept of a connection. Source: memory; a median of
/// 256 has an error of 3 %.
pub const SPIN_SAMPLES_MAX: usize = 256;

/// Maximum size of a datagram of a server that only acknowledges, bytes. Source: an ACK frame with its headers and tag
/// takes 50 to 100 bytes; a piece of a certificate chain that the amplification limit held back fills
/// datagrams.
pub const ACK_DATAGRAM_MAX_BYTES: u32 = 300;
