//! DNS over TCP (RFC 7766): the messages in the streams of port 53, each after a length of two
//! bytes (RFC 1035 §4.2.2).

use super::tracker::{DNS_PORT, MessageContext, Tracker, Transport};
use crate::tcp::{EarlyBytes, ORIGIN, Reassembly, Sequence};
use crate::wire::dns_message::Message;
use crate::wire::{BySide, FlowKey, Segment, Side, TcpFlags};
use std::collections::HashMap;

/// Maximum number of connections followed at a time, so that a flood cannot fill memory.
const OPEN_MAX: usize = 1024;

/// Silence after which a connection is dropped to make room for others, ns.
const SILENT_NS: u64 = 60_000_000_000;

/// Interval at which silent connections are searched for, ns of capture time.
const SWEEP_NS: u64 = 1_000_000_000;

/// Number of bytes kept of a message: enough for the header, the question and all answers that are
/// read.
const KEPT_MAX: usize = 2048;

/// Follows the connections to and from port 53, and passes their complete messages to a
/// [`Tracker`].
#[derive(Clone, Default)]
pub struct Streams {
    open: HashMap<FlowKey, Stream>,
    /// Out-of-order payload.
    early: EarlyBytes,
    /// Time of the last search for silent connections, ns.
    swept_ns: u64,
}

#[derive(Clone)]
struct Stream {
    /// Time of the SYN, if it was captured and is not yet used as the beginning of the first
    /// message, ns.
    opened_ns: Option<u64>,
    last_ns: u64,
    directions: BySide<Direction>,
}

#[derive(Clone, Default)]
struct Direction {
    sequence: Option<Sequence>,
    /// Position up to which the stream was seen.
    seen: u64,
    bytes: Reassembly,
    message: Partial,
    /// The sender has closed its direction.
    finished: bool,
}

/// The current message of a direction.
#[derive(Clone, Default)]
struct Partial {
    length: [u8; 2],
    /// Number of bytes of the message that have arrived, including the length field.
    arrived: usize,
    kept: Vec<u8>,
    /// The position of the next message is unknown because bytes were not captured.
    lost: bool,
}

/// Returns whether `segment` is from or to a name server.
#[inline]
pub fn concerns(segment: &Segment) -> bool {
    segment.flow.low.port == DNS_PORT || segment.flow.high.port == DNS_PORT
}

impl Streams {
    /// Processes the next segment for which [`concerns`] is true, with its captured payload.
    pub fn segment(&mut self, segment: &Segment, payload: &[u8], tracker: &mut Tracker) {
        let flags = segment.flags;
        let syn = flags.has(TcpFlags::SYN);
        let opens = syn && !flags.has(TcpFlags::ACK);
        if opens {
            self.remove(&segment.flow);
        }
        if opens || segment.payload_len > 0 && !self.open.contains_key(&segment.flow) {
            self.begin(segment, opens);
        }
        let Some(stream) = self.open.get_mut(&segment.flow) else { return };
        stream.last_ns = segment.time_ns;
        let side = if segment.destination().port == DNS_PORT { Side::Client } else { Side::Server };
        let Stream { opened_ns, directions, .. } = stream;
        let mut on = |message: Option<&[u8]>| {
            let Some(message) = message else {
                // These bytes may have contained an answer.
                if side == Side::Server {
                    tracker.missed(segment.destination(), segment.source());
                }
                return;
            };
            let carried = MessageContext {
                time_ns: segment.time_ns,
                frame: segment.frame,
                payload_bytes: segment.payload_len,
                source: segment.source(),
                destination: segment.destination(),
                carrier: Transport::Stream { opened_ns: opened_ns.take() },
                ttl: segment.ttl,
            };
            tracker.message(&carried, message);
        };
        directions[side].take(side, segment, payload, &mut self.early, &mut on);
        if side == Side::Client && (flags.has(TcpFlags::FIN) || flags.has(TcpFlags::RST)) {
            let (client, server) = (segment.source(), segment.destination());
            tracker.closed(segment.time_ns, segment.frame, client, server);
        }
        let is_over = |it: &Direction| it.finished;
        if flags.has(TcpFlags::RST) || directions.iter().all(is_over) {
            self.remove(&segment.flow);
        }
    }

    fn remove(&mut self, flow: &FlowKey) {
        if let Some(mut stream) = self.open.remove(flow) {
            stream.discard_waiting(&mut self.early);
        }
    }

    fn begin(&mut self, segment: &Segment, opens: bool) {
        let now_ns = segment.time_ns;
        if self.open.len() >= OPEN_MAX && now_ns.saturating_sub(self.swept_ns) > SWEEP_NS {
            self.swept_ns = now_ns;
            let early = &mut self.early;
            self.open.retain(|_, stream| {
                let stays = now_ns.saturating_sub(stream.last_ns) < SILENT_NS;
                if !stays {
                    stream.discard_waiting(early);
                }
                stays
            });
        }
        if self.open.len() < OPEN_MAX {
            let opened_ns = opens.then_some(now_ns);
            let stream = Stream { opened_ns, last_ns: now_ns, directions: Default::default() };
            self.open.insert(segment.flow, stream);
        }
    }
}

impl Stream {
    /// Releases the memory of out-of-order bytes when the connection is over.
    fn discard_waiting(&mut self, early: &mut EarlyBytes) {
        self.directions.iter_mut().for_each(|direction| direction.bytes.discard_waiting(early));
    }
}

impl Direction {
    fn take(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        early: &mut EarlyBytes,
        on: &mut dyn FnMut(Option<&[u8]>),
    ) {
        let sequence = *self.sequence.get_or_insert_with(|| {
            self.seen = ORIGIN;
            self.message.lost = !segment.flags.has(TcpFlags::SYN);
            Sequence::new(segment.seq)
        });
        let syn = u32::from(segment.flags.has(TcpFlags::SYN));
        let start = sequence.position(segment.seq.wrapping_add(syn), self.seen);
        self.seen = self.seen.max(start + u64::from(segment.payload_len));
        self.finished |= segment.flags.has(TcpFlags::FIN);
        self.bytes.start(start);
        if segment.payload_len > 0 {
            let message = &mut self.message;
            let stretch = (start, segment.payload_len);
            self.bytes.push(side, stretch, payload, early, &mut |_, bytes, missing, _| {
                message.take(side, bytes, missing as usize, on);
            });
        }
    }
}

impl Partial {
    /// Processes the next `bytes` of the stream, followed by `missing` bytes that were not
    /// captured. `on` receives the messages, and `None` for bytes in which message boundaries are
    /// unknown.
    fn take(
        &mut self,
        side: Side,
        mut bytes: &[u8],
        mut missing: usize,
        on: &mut dyn FnMut(Option<&[u8]>),
    ) {
        if self.lost && begins_message(side, bytes) {
            *self = Self::default();
        }
        if self.lost {
            on(None);
        }
        while !self.lost && bytes.len() + missing > 0 {
            if self.arrived < self.length.len() {
                let Some((&byte, rest)) = bytes.split_first() else {
                    self.lost = true;
                    on(None);
                    return;
                };
                self.length[self.arrived] = byte;
                self.arrived += 1;
                bytes = rest;
                continue;
            }
            let whole = self.length.len() + usize::from(u16::from_be_bytes(self.length));
            let here = bytes.len().min(whole - self.arrived);
            let room = KEPT_MAX.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&bytes[..here.min(room)]);
            let skipped =
                if here == bytes.len() { missing.min(whole - self.arrived - here) } else { 0 };
            (bytes, missing) = (&bytes[here..], missing - skipped);
            self.arrived += here + skipped;
            if self.arrived == whole {
                on(Some(&self.kept));
                self.arrived = 0;
                self.kept.clear();
            }
        }
    }
}

/// Returns whether `bytes`, the start of a segment's payload, begin a message of `side`: a length,
/// and a header and question that can be parsed.
fn begins_message(side: Side, bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk() else { return false };
    let message = rest.get(..usize::from(u16::from_be_bytes(*length)).min(rest.len()));
    let message = message.and_then(|bytes| Message::parse(bytes).ok());
    message.is_some_and(|it| {
        it.opcode == 0 && it.is_response == (side == Side::Server) && it.question.is_some()
    })
}
