//! Capture files to frames: pcap and pcapng, plain or compressed, one file or many.
//!
//! Read first: the pcap file format (draft-ietf-opsawg-pcap), pcapng (draft-ietf-opsawg-pcapng),
//! and RFC 1761 for snoop. The result are [`Block`]s: complete frames, one after the other in one
//! buffer, with an index of their positions.
//!
//! ```text
//! Source ─► input ──────────► reader ─────────► set ─► Block
//! bytes     plain, gzip, zstd  pcap(ng), snoop  files in time order, merged where they overlap
//! ```
//!
//! Bytes are read directly into the block that is returned, and record headers are parsed in place:
//! no copy and no allocation per frame. Of a file that cannot be read to its end, the part read is
//! used, and its [`InputSummary`] reports the problem; other files are not affected.

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
mod plan;
mod problem;
mod reader;
mod repeats;
mod resolution;
mod set;
mod snoop;
mod source;
mod summary;

pub use commented::{Commented, copy_with_comments};
pub use each::{each_frame, pcap_frame, pcap_header};
pub use encoder::{Encoder, frames};
pub use frame::{Block, Frame, FrameEntry, FrameId, LinkType};
pub use plan::{Peeked, Plan, peek};
pub use problem::{CaptureError, Problem};
pub use resolution::LATEST_NS;
pub use set::{CaptureSet, Progress};
pub use source::{Open, OpenAgain, Site, Source};
pub use summary::{InputSummary, STEP_NS};

/// Maximum length of a frame, bytes. Linux delivers super-packets of up to 512 KiB
/// (`GRO_MAX_SIZE`); a longer record is treated as damaged.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
