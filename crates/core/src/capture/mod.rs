//! Capture files to frames: pcap and pcapng, plain or compressed, one file or many.
//!
//! Read first: the pcap file format (draft-ietf-opsawg-pcap) and pcapng
//! (draft-ietf-opsawg-pcapng). What comes out is [`Block`]s: some whole frames, back to back in
//! one buffer, with an index that says where each begins.

mod frame;

pub use frame::{Block, Frame, FrameEntry, FrameId, LinkType};
