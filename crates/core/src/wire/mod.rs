//! Frames to typed packets: link layers, IP, tunnels, TCP, UDP and ICMP errors.
//!
//! Raw bytes are judged once, here; what leaves this module cannot be malformed. A
//! [`Segment`] is the unit that crosses to `tcp`: fixed width, keyed by connection, ordered by
//! time, so that it can be shuffled between threads or machines.

mod segment;

pub use segment::{Endpoint, FlowKey, SackBlock, Segment, SegmentFlags, TcpFlags};
