//! Frames as Linux cooked capture, version 2 (LINKTYPE_LINUX_SLL2): what packet sockets and hooks
//! have in place of a link header.

use tcpwhy_core::capture::{Block, FrameEntry, FrameId, LinkType};

/// The header of a cooked frame.
const SLL2_BYTES: usize = 20;

/// Metadata of a packet that are not in its bytes.
pub struct Cooked {
    /// Time of the packet, ns since 1970.
    pub time_ns: u64,
    /// EtherType, in network byte order.
    pub protocol: [u8; 2],
    /// Number of the interface.
    pub interface: u32,
    /// Kind of hardware (`ARPHRD_`).
    pub hardware: u16,
    /// Kind of packet (`PACKET_`), length of the sender's link address, and that address.
    pub link_address: [u8; 10],
    /// EtherType and value of the VLAN tag that the kernel has taken out of the packet.
    pub tag: Option<([u8; 2], u16)>,
    /// Length of the packet, bytes.
    pub length: u32,
}

impl Cooked {
    /// Adds a frame with the first `bytes` of the packet to `to`, with its cooked header before it and
    /// without a number yet.
    pub fn push(&self, bytes: &[u8], to: &mut Block) {
        let offset = to.bytes.len();
        let mut header = [0; SLL2_BYTES];
        let protocol = self.tag.map_or(self.protocol, |(tag_type, _)| tag_type);
        header[..2].copy_from_slice(&protocol);
        header[4..8].copy_from_slice(&self.interface.to_be_bytes());
        header[8..10].copy_from_slice(&self.hardware.to_be_bytes());
        header[10..].copy_from_slice(&self.link_address);
        to.bytes.extend_from_slice(&header);
        if let Some((_, tag)) = self.tag {
            // The tag is put back: its value, then the EtherType of the payload.
            to.bytes.extend_from_slice(&tag.to_be_bytes());
            to.bytes.extend_from_slice(&self.protocol);
        }
        let added = (to.bytes.len() - offset) as u32;
        to.bytes.extend_from_slice(bytes);
        to.entries.push(FrameEntry {
            time_ns: self.time_ns,
            id: FrameId::default(),
            offset: offset as u32,
            captured_len: added + bytes.len() as u32,
            original_len: added + self.length,
            link: LinkType::LINUX_SLL2,
            clock_set: false,
        });
    }
}
