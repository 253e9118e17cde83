//! Parses frames to typed packets: link layers, IP, tunnels, TCP, UDP and ICMP errors.
//!
//! Raw bytes are validated once, here; packets returned by this module are well-formed. A
//! [`Segment`] is the unit passed to `tcp`: fixed width, keyed by connection, ordered by time, so
//! that it can be distributed to threads or machines.

//!
//! Checksums are verified only where they may explain a drop, of SYNs and of tunnels around them,
//! and where a frame ends before its packet (`checksum.rs`): with offload, those of the sender are
//! computed only after the capture.

mod checksum;
mod decode;
pub mod dns_message;
mod error;
mod flow;
mod fragment;
mod framing;
mod icmp;
mod ip;
mod layout;
mod link;
mod packet;
pub mod quic;
mod reassembler;
mod segment;
mod side;
mod tcp;
mod tunnel;
mod udp;
mod walk;

pub use decode::{decode, decode_long_way};
pub use error::{DecodeCounts, DecodeError, Other};
pub use flow::FlowHasher;
pub(crate) use flow::digest;
pub use fragment::{Fragment, Reassembled};
pub(crate) use ip::{IPV4_MAPPED, protocol};
pub(crate) use layout::{Content, Header, HeaderKind, Layout, layout};
pub use packet::{Datagram, IcmpError, IcmpErrorKind, Packet};
pub use reassembler::{Reassembler, Reassembly, ReassemblyLimits};
pub use segment::{
    Endpoint, FlowKey, SackBlock, Segment, SegmentFlags, TcpFlags, may_be_ephemeral,
    may_be_of_one_host,
};
pub use side::{BySide, Side};
