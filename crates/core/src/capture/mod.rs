//! Capture files to frames: pcap and pcapng, plain or compressed, one file or many.
//!
//! Read first: the pcap file format (draft-ietf-opsawg-pcap) and pcapng
//! (draft-ietf-opsawg-pcapng), and for snoop RFC 1761. What comes out is [`Block`]s: some whole frames, back to back in
//! one buffer, with an index that says where each begins.
//!
//! ```text
//! Source ─► input ──────────► reader ─────────► set ─► Block
//! bytes     plain, gzip, zstd  pcap(ng), snoop  files in time order, merged where they overlap
//! ```
//!
//! Bytes are read straight into the block that leaves, and record headers are walked in place:
//! no copy and no allocation per frame. A file that cannot be read to its end keeps what was
//! read and says so in its [`InputSummary`]; it never costs another file anything.

mod clock;
mod commented;
mod each;
mod encoder;
mod foreign;
mod frame;
mod input;
mod member;
mod names;
mod order;
mod pcap;
mod pcapng;
mod problem;
mod reader;
mod resolution;
mod set;
mod snoop;
mod source;
mod summary;

pub use commented::{Commented, copy_with_comments};
pub use each::{each_frame, pcap_frame, pcap_header};
pub use encoder::{Encoder, frames};
pub use frame::{Block, Frame, FrameEntry, FrameId, LinkType};
pub use problem::{CaptureError, Problem};
pub use resolution::LATEST_NS;
pub use set::{CaptureSet, Progress};
pub use source::{Open, OpenAgain, Site, Source};
pub use summary::{InputSummary, STEP_NS};

/// The longest frame taken for real, bytes. Linux hands on super-packets of up to 512 KiB
/// (`GRO_MAX_SIZE`); a longer record is damage, not a packet.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
