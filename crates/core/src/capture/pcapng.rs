//! The pcapng file format (draft-ietf-opsawg-pcapng): sections of blocks, with interfaces.

use super::order::ByteOrder;
use super::reader::{Chunk, Halt};
use super::resolution::{LATEST_NS, Resolution};
use super::summary::Tally;
use super::{FRAME_BYTES_MAX, FrameEntry, LinkType, Problem};
use crate::keys::Keys;

pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
pub(super) const PACKET: u32 = 2;
pub(super) const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
pub(super) const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;
const SYSTEMD_JOURNAL: u32 = 9;
const CUSTOM: u32 = 0xbad;
const CUSTOM_NOT_COPIED: u32 = 0x4000_0bad;
const SYSDIG_EVENTS: [u32; 3] = [0x204, 0x216, 0x221];

pub(super) const OPTION_END: u16 = 0;
const OPTION_TSRESOL: u16 = 9;
const OPTION_TSOFFSET: u16 = 14;
const OPTION_IFRECV: u16 = 4;
const OPTION_IFDROP: u16 = 5;

/// Type of secrets: a key log of TLS (draft-ietf-opsawg-pcapng §4.7).
const TLS_KEY_LOG: u32 = 0x544c_534b;

/// Bytes of type and length, before the body.
pub(super) const HEAD_BYTES: usize = 8;
/// Bytes of the repeated length, after the body.
pub(super) const TAIL_BYTES: usize = 4;
/// Offset of the frame in the body of an Enhanced Packet Block.
pub(super) const ENHANCED_DATA_AT: usize = 20;
/// Length of an Enhanced Packet Block without frame and options.
const ENHANCED_PACKET_BYTES: usize = HEAD_BYTES + ENHANCED_DATA_AT + TAIL_BYTES;
/// Bytes of a section header up to its byte-order magic, without which its length cannot be read.
pub(super) const SECTION_HEAD_BYTES: usize = 12;

/// Maximum length of a block that is parsed, bytes; longer ones are skipped.
pub(super) const BLOCK_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;
/// Maximum number of interfaces, which is what the old Packet Block can address; a file with more
/// is hostile.
const INTERFACES_MAX: usize = 1 << 16;

/// The state of the current section.
#[derive(Debug)]
pub(super) struct Pcapng {
    pub(super) order: ByteOrder,
    interfaces: Vec<Interface>,
    /// Secrets of TLS connections that were read since they were taken last.
    pub(super) keys: Keys,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    snap_len: u32,
    resolution: Resolution,
    drops: u64,
}

/// An interface on the fast path.
#[derive(Clone, Copy)]
struct FastInterface {
    number: u32,
    /// Unit of its times, ns.
    unit_ns: u64,
    link: LinkType,
}

/// A complete block in memory.
#[derive(Clone, Copy)]
struct Body<'a> {
    bytes: &'a [u8],
    /// Start of the body in the chunk.
    at: usize,
}

/// The fields of a packet block of any type.
struct Packet {
    interface: u32,
    time: Option<u64>,
    data_at: usize,
    captured_len: u32,
    original_len: u32,
}

impl Pcapng {
    /// Returns whether a file that begins with `head` is pcapng.
    pub(super) fn recognises(head: &[u8]) -> bool {
        ByteOrder::Little.u32(head, 0) == Some(SECTION_HEADER) && section_order(head).is_some()
    }

    /// Creates the state for the first section.
    pub(super) fn new() -> Self {
        Self { order: ByteOrder::Little, interfaces: Vec::new(), keys: Keys::default() }
    }

    /// Indexes the packets of the complete blocks of `chunk`; returns their length in bytes, and
    /// why the walk ended.
    pub(super) fn walk(
        &mut self,
        chunk: Chunk<'_>,
        entries: &mut Vec<FrameEntry>,
        tally: &mut Tally,
    ) -> (usize, Halt) {
        let mut at = 0;
        loop {
            // One instance for each byte order, so that it need not be tested for every word.
            at = match self.order {
                ByteOrder::Little => self.run(ByteOrder::Little, chunk, at, entries, tally),
                ByteOrder::Big => self.run(ByteOrder::Big, chunk, at, entries, tally),
            };
            let rest = chunk.bytes.get(at..).unwrap_or_default();
            let offset = chunk.offset + at as u64;
            let (kind, length) = match self.block_head(rest, offset) {
                Ok(head) => head,
                Err(halt) => return (at, halt),
            };
            if !is_read(kind) || kind == DECRYPTION_SECRETS && length as usize > BLOCK_BYTES_MAX {
                tally.number += u64::from(is_numbered(kind));
                if length as usize > rest.len() {
                    return (at, Halt::Skip(length.into()));
                }
                at += length as usize;
                continue;
            }
            let length = length as usize;
            if length > BLOCK_BYTES_MAX {
                let what = "a block is longer than its kind can be";
                return (at, damaged(offset, what, length));
            }
            let Some(block) = rest.get(..length) else {
                return (at, Halt::Needs(length));
            };
            if self.order.u32(block, length - TAIL_BYTES) != Some(length as u32) {
                let what = "the two lengths of a block differ";
                return (at, damaged(offset, what, length));
            }
            let body = Body { bytes: &block[HEAD_BYTES..length - TAIL_BYTES], at: at + HEAD_BYTES };
            let sound = if is_packet(kind) {
                self.packet_block(kind, body, chunk, entries, tally)
            } else {
                match self.describing_block(kind, body, tally) {
                    Ok(sound) => sound,
                    Err(version) => return (at, Halt::Ended(version)),
                }
            };
            if !sound {
                tally.bad_blocks.note(offset);
            }
            at += length;
        }
    }

    /// Indexes packets from `at` on as long as they are simple: complete, in Enhanced Packet
    /// Blocks, with times in whole nanoseconds, not before that of the preceding frame, nor long
    /// after it. Returns the start of the first other block, which is left to [`walk`](Self::walk);
    /// that gives the same results for simple packets.
    #[inline(always)]
    fn run(
        &self,
        order: ByteOrder,
        chunk: Chunk<'_>,
        at: usize,
        entries: &mut Vec<FrameEntry>,
        tally: &mut Tally,
    ) -> usize {
        let Some(mut run) = tally.begin_run(chunk) else { return at };
        let mut known = FastInterface { number: u32::MAX, unit_ns: 0, link: LinkType(0) };
        let mut rest = chunk.bytes.get(at..).unwrap_or_default();
        while let Some(head) = rest.first_chunk::<ENHANCED_PACKET_BYTES>() {
            let [length, interface] = [order.word(head, 4), order.word(head, 8)];
            let time = u64::from(order.word(head, 12)) << 32 | u64::from(order.word(head, 16));
            let [captured_len, original_len] = [order.word(head, 20), order.word(head, 24)];
            if interface != known.number {
                let Some(other) = self.known(interface, tally) else { break };
                known = other;
            }
            let time_ns = time.checked_mul(known.unit_ns).filter(|&ns| ns <= LATEST_NS);
            let Some(time_ns) = time_ns else { break };
            let Some((block, next)) = rest.split_at_checked(length as usize) else { break };
            let is_usual = order.word(head, 0) == ENHANCED_PACKET
                // True only for multiples of four: in others, the rotation moves low bits to the
                // top.
                && length.rotate_right(2) as usize <= BLOCK_BYTES_MAX / 4
                && captured_len as usize + ENHANCED_PACKET_BYTES <= block.len()
                && captured_len <= original_len
                && run.goes_on(time_ns)
                && block.last_chunk().is_some_and(|tail| order.word::<TAIL_BYTES>(tail, 0) == length);
            if !is_usual {
                break;
            }
            let id = run.next(time_ns);
            let at = chunk.bytes.len() - rest.len();
            let offset = chunk.position(at + HEAD_BYTES + ENHANCED_DATA_AT);
            let link = known.link;
            let clock_set = false;
            entries.push(FrameEntry {
                time_ns,
                id,
                offset,
                captured_len,
                original_len,
                link,
                clock_set,
            });
            rest = next;
        }
        tally.end_run(run);
        chunk.bytes.len() - rest.len()
    }

    /// Returns an interface if its times need no conversion but a factor, and its link type was the
    /// last one noted.
    #[inline(never)]
    fn known(&self, number: u32, tally: &Tally) -> Option<FastInterface> {
        let interface = self.interfaces.get(number as usize)?;
        let (unit_ns, link) = (interface.resolution.plain()?, interface.link);
        tally.noted_last(link).then_some(FastInterface { number, unit_ns, link })
    }

    /// Returns type and length of the block at the start of `rest`. A section header first sets the
    /// byte order of everything that follows.
    #[inline]
    pub(super) fn block_head(&mut self, rest: &[u8], offset: u64) -> Result<(u32, u32), Halt> {
        let Some(kind) = self.order.u32(rest, 0) else {
            return Err(Halt::Needs(HEAD_BYTES));
        };
        if kind == SECTION_HEADER {
            if rest.len() < SECTION_HEAD_BYTES {
                return Err(Halt::Needs(SECTION_HEAD_BYTES));
            }
            let Some(order) = section_order(rest) else {
                return Err(damaged(offset, "a section has no valid byte-order magic", rest.len()));
            };
            self.order = order;
        }
        let Some(length) = self.order.u32(rest, 4) else {
            return Err(Halt::Needs(HEAD_BYTES));
        };
        let length_min = HEAD_BYTES + TAIL_BYTES;
        if (length as usize) < length_min || length % 4 != 0 {
            return Err(damaged(offset, "a block's length is impossible", length as usize));
        }
        Ok((kind, length))
    }

    /// Parses a block that describes the capture; returns `false` if it contradicts itself, and an
    /// error if the section has an unknown version.
    fn describing_block(
        &mut self,
        kind: u32,
        body: Body<'_>,
        tally: &mut Tally,
    ) -> Result<bool, Problem> {
        Ok(match kind {
            SECTION_HEADER => match self.begin_section(body) {
                Some((1, 0 | 2)) => {
                    tally.restart();
                    true
                }
                Some((major, minor)) => {
                    return Err(Problem::Version { format: "pcapng", major, minor });
                }
                None => false,
            },
            INTERFACE_DESCRIPTION => self.describe_interface(body).is_some(),
            DECRYPTION_SECRETS => self.take_secrets(body).is_some(),
            _ => self.count_drops(body, tally).is_some(),
        })
    }

    /// Indexes a packet; returns `false` if its block contradicts itself.
    #[inline]
    fn packet_block(
        &self,
        kind: u32,
        body: Body<'_>,
        chunk: Chunk<'_>,
        entries: &mut Vec<FrameEntry>,
        tally: &mut Tally,
    ) -> bool {
        let packet = match kind {
            ENHANCED_PACKET => self.enhanced_packet(body),
            SIMPLE_PACKET => self.simple_packet(body),
            _ => self.packet(body),
        };
        let valid = packet.filter(|packet| {
            packet.captured_len as usize <= body.bytes.len().saturating_sub(packet.data_at)
        });
        let Some(packet) = valid else {
            // The packet counts in the numbering of frames.
            tally.number += 1;
            return false;
        };
        let Some(interface) = self.interfaces.get(packet.interface as usize) else {
            tally.number += 1;
            tally.unknown_interface.note(tally.number);
            return true;
        };
        let (number, time_ns) = number_and_time(interface.resolution, packet.time, tally);
        tally.link(interface.link);
        entries.push(FrameEntry {
            id: chunk.frame(number),
            time_ns,
            offset: chunk.position(body.at + packet.data_at),
            captured_len: packet.captured_len,
            original_len: packet.original_len.max(packet.captured_len),
            link: interface.link,
            clock_set: false,
        });
        true
    }

    /// Section Header Block (§4.1): interfaces are numbered anew. Returns the version; only 1.0
    /// exists, but some programs wrote 1.2 for the same format.
    fn begin_section(&mut self, body: Body<'_>) -> Option<(u16, u16)> {
        self.interfaces.clear();
        Some((self.order.u16(body.bytes, 4)?, self.order.u16(body.bytes, 6)?))
    }

    /// Interface Description Block (§4.2).
    fn describe_interface(&mut self, body: Body<'_>) -> Option<()> {
        let order = self.order;
        let link = order.u16(body.bytes, 0)?;
        let snap_len = order.u32(body.bytes, 4)?;
        let mut resolution = Resolution::DEFAULT;
        for (code, value) in options(order, body.bytes, 8) {
            match (code, value) {
                (OPTION_TSRESOL, [tsresol, ..]) => resolution = resolution.with_tsresol(*tsresol),
                (OPTION_TSOFFSET, value) => {
                    if let Some(offset_s) = order.u64(value, 0) {
                        resolution = resolution.with_offset_s(offset_s as i64);
                    }
                }
                _ => {}
            }
        }
        if self.interfaces.len() == INTERFACES_MAX {
            return None;
        }
        self.interfaces.push(Interface { link: LinkType(link), snap_len, resolution, drops: 0 });
        Some(())
    }

    /// Decryption Secrets Block (§4.7).
    fn take_secrets(&mut self, body: Body<'_>) -> Option<()> {
        const SECRETS_AT: usize = 8;
        let (kind, length) = (self.order.u32(body.bytes, 0)?, self.order.u32(body.bytes, 4)?);
        let secrets = body.bytes.get(SECRETS_AT..)?.get(..length as usize)?;
        if kind == TLS_KEY_LOG {
            self.keys.add_log(secrets);
        }
        Some(())
    }

    /// Interface Statistics Block (§4.6): its counters are cumulative, so the last one is valid. If more
    /// packets were received than the file has, it is a part of that capture, and where the dropped
    /// ones were missing is not known.
    fn count_drops(&mut self, body: Body<'_>, tally: &mut Tally) -> Option<()> {
        let order = self.order;
        let interface = self.interfaces.get_mut(order.u32(body.bytes, 0)? as usize)?;
        let counter = |wanted| {
            let found = options(order, body.bytes, 12).find(|&(code, _)| code == wanted);
            found.and_then(|(_, value)| order.u64(value, 0))
        };
        let drops = counter(OPTION_IFDROP).unwrap_or(0);
        let kept = counter(OPTION_IFRECV).map_or(0, |received| received.saturating_sub(drops));
        if kept <= tally.number {
            tally.drops = tally.drops.saturating_add(drops.saturating_sub(interface.drops));
            interface.drops = interface.drops.max(drops);
        }
        Some(())
    }

    /// Enhanced Packet Block (§4.3).
    #[inline]
    fn enhanced_packet(&self, body: Body<'_>) -> Option<Packet> {
        Some(Packet {
            interface: self.order.u32(body.bytes, 0)?,
            time: Some(self.order.halves(body.bytes, 4)?),
            captured_len: self.order.u32(body.bytes, 12)?,
            original_len: self.order.u32(body.bytes, 16)?,
            data_at: ENHANCED_DATA_AT,
        })
    }

    /// Packet Block (appendix A), superseded by Enhanced Packet Blocks.
    fn packet(&self, body: Body<'_>) -> Option<Packet> {
        let interface = self.order.u16(body.bytes, 0)?.into();
        Some(Packet { interface, ..self.enhanced_packet(body)? })
    }

    /// Simple Packet Block (§4.4): belongs to the first interface, has no time; the captured length
    /// follows from the snap length and the block's own length.
    fn simple_packet(&self, body: Body<'_>) -> Option<Packet> {
        const DATA_AT: usize = 4;
        let original_len = self.order.u32(body.bytes, 0)?;
        let snap_len = match self.interfaces.first().map(|interface| interface.snap_len) {
            None | Some(0) => u32::MAX,
            Some(snap_len) => snap_len,
        };
        let room = (body.bytes.len() - DATA_AT) as u32;
        Some(Packet {
            interface: 0,
            time: None,
            data_at: DATA_AT,
            captured_len: original_len.min(snap_len).min(room),
            original_len,
        })
    }
}

/// Returns the next frame's number and its time in nanoseconds.
#[inline]
fn number_and_time(resolution: Resolution, time: Option<u64>, tally: &mut Tally) -> (u64, u64) {
    let Some(time) = time else {
        let number = tally.untimed_frame();
        tally.untimed.note(number);
        return (number, tally.previous_ns);
    };
    let time_ns = resolution.nanoseconds(time).unwrap_or_else(|_| tally.impossible_time());
    (tally.frame(time_ns), time_ns)
}

/// Returns whether a block type holds a packet.
#[inline]
pub(super) fn is_packet(kind: u32) -> bool {
    matches!(kind, PACKET | SIMPLE_PACKET | ENHANCED_PACKET)
}

/// Returns whether a block type is parsed.
#[inline]
fn is_read(kind: u32) -> bool {
    is_packet(kind)
        || matches!(
            kind,
            SECTION_HEADER | INTERFACE_DESCRIPTION | INTERFACE_STATISTICS | DECRYPTION_SECRETS
        )
}

/// Returns whether Wireshark gives such a block a frame number although it is not a packet.
pub(super) fn is_numbered(kind: u32) -> bool {
    matches!(kind, SYSTEMD_JOURNAL | CUSTOM | CUSTOM_NOT_COPIED) || SYSDIG_EVENTS.contains(&kind)
}

/// Returns the byte order of a section, from the magic number in its header.
fn section_order(block: &[u8]) -> Option<ByteOrder> {
    const MAGIC: u32 = 0x1a2b_3c4d;
    [ByteOrder::Little, ByteOrder::Big].into_iter().find(|order| order.u32(block, 8) == Some(MAGIC))
}

/// Returns a block's options from `at` on: code and value (§3.5). Ends at the first impossible one.
fn options(order: ByteOrder, body: &[u8], mut at: usize) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let code = order.u16(body, at).filter(|code| *code != OPTION_END)?;
        let length = usize::from(order.u16(body, at + 2)?);
        let value = body.get(at + 4..at + 4 + length)?;
        at += 4 + length.next_multiple_of(4);
        Some((code, value))
    })
}

fn damaged(offset: u64, what: &'static str, length: usize) -> Halt {
    Halt::Ended(Problem::Damaged { offset, what, length: length as u64 })
}
