//! Frames in a block of the ring (linux/if_packet.h: `tpacket_block_desc`, `tpacket3_hdr`,
//! `sockaddr_ll`).

use super::cooked::Cooked;
use tcpwhy_core::capture::Block;

/// Size of `struct tpacket3_hdr`, which `struct sockaddr_ll` follows.
const HEADER_BYTES: usize = 48;
const ADDRESS_BYTES: usize = 20;
/// EtherType of a VLAN tag where the kernel does not say which (IEEE 802.1Q).
const VLAN: u16 = 0x8100;

/// Adds all frames of a ring's block to `to`, each after its cooked header and without a number
/// yet. Returns the number of frames.
pub fn read(block: &[u8], to: &mut Block) -> u64 {
    let (count, mut at) = (word(block, 12), word(block, 16) as usize);
    let mut read = 0;
    for _ in 0..count {
        let Some(next) = frame(block, at, to) else { break };
        read += 1;
        if next == 0 {
            break;
        }
        at += next;
    }
    read
}

/// Adds the frame at `at` and returns the offset from it to the next frame, 0 for none; `None` if
/// the frame is incomplete, which the kernel does not produce.
fn frame(block: &[u8], at: usize, to: &mut Block) -> Option<usize> {
    let header = block.get(at..at + HEADER_BYTES + ADDRESS_BYTES)?;
    let (address, status) = (&header[HEADER_BYTES..], word(header, 20));
    let (captured, length) = (word(header, 12) as usize, word(header, 16));
    let data = at + usize::from(half(header, 26));
    let bytes = block.get(data..data + captured)?;
    let tag_type = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => VLAN,
        _ => half(header, 36),
    };
    let has_tag = status & libc::TP_STATUS_VLAN_VALID != 0;
    let mut link_address = [0; 10];
    link_address.copy_from_slice(&address[10..20]);
    let cooked = Cooked {
        time_ns: u64::from(word(header, 4)) * 1_000_000_000 + u64::from(word(header, 8)),
        protocol: [address[2], address[3]],
        interface: word(address, 4),
        hardware: half(address, 8),
        link_address,
        tag: has_tag.then(|| (tag_type.to_be_bytes(), word(header, 32) as u16)),
        length,
    };
    cooked.push(bytes, to);
    Some(word(header, 0) as usize)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let octets = bytes.get(at..at + 4).and_then(|octets| octets.try_into().ok());
    octets.map_or(0, u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    let octets = bytes.get(at..at + 2).and_then(|octets| octets.try_into().ok());
    octets.map_or(0, u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a block with one IPv4 packet of 4 bytes, of which the wire had 9, from interface 7.
    fn block(status: u32) -> Vec<u8> {
        let mut block = vec![0; 48];
        block[12..16].copy_from_slice(&1u32.to_ne_bytes());
        block[16..20].copy_from_slice(&48u32.to_ne_bytes());
        let mut header = vec![0; HEADER_BYTES + ADDRESS_BYTES];
        for (at, value) in [(4, 5u32), (8, 6), (12, 4), (16, 9), (20, status), (32, 0x2064)] {
            header[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        header[26..28].copy_from_slice(&(HEADER_BYTES as u16 + 20).to_ne_bytes());
        header[36..38].copy_from_slice(&0x88a8u16.to_ne_bytes());
        header[50..52].copy_from_slice(&[8, 0]);
        header[52..56].copy_from_slice(&7u32.to_ne_bytes());
        header[56..58].copy_from_slice(&1u16.to_ne_bytes());
        header[58..62].copy_from_slice(&[4, 6, 0xaa, 0xbb]);
        block.extend(header);
        block.extend([0x45, 1, 2, 3]);
        block
    }

    #[test]
    fn a_frame_has_its_time_interface_and_direction() {
        let mut to = Block::default();
        assert_eq!(read(&block(0), &mut to), 1);
        let frame = to.frames().next().unwrap();
        assert_eq!((frame.time_ns, frame.original_len), (5_000_000_006, 29));
        let header = [8, 0, 0, 0, 0, 0, 0, 7, 0, 1, 4, 6, 0xaa, 0xbb, 0, 0, 0, 0, 0, 0];
        assert_eq!(frame.bytes, [&header[..], &[0x45, 1, 2, 3]].concat());
    }

    #[test]
    fn a_vlan_tag_is_put_back() {
        let status = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        let mut to = Block::default();
        read(&block(status), &mut to);
        let frame = to.frames().next().unwrap();
        assert_eq!(frame.bytes[..2], [0x88, 0xa8]);
        assert_eq!(frame.bytes[20..], [0x20, 0x64, 8, 0, 0x45, 1, 2, 3]);
        assert_eq!(frame.original_len, 33);
    }

    #[test]
    fn a_block_of_any_length_is_survived() {
        let whole = block(0);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length], &mut Block::default()), 0, "{length}");
        }
    }
}
