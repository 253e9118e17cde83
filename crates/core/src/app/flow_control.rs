//! Flow control of HTTP/2 (RFC 9113 §5.2, §6.9): what the receiver of DATA has granted to its sender,
//! for the connection and for each stream, and whether the sender stands at the end of it.
//!
//! A window is kept as two positions in the DATA of its sender: how much was sent, and the limit up to
//! which it may be sent. Each grant (WINDOW_UPDATE, or a larger SETTINGS_INITIAL_WINDOW_SIZE) leaves an
//! [`Edge`]: the limit before it. A sender that had used up its window has sent exactly up to an edge.
//! Since a grant takes time to reach the sender, the edge may lie before the present limit.
//!
//! In a capture of the first bytes of packets, the headers of some frames are missing. Then it is known
//! how many bytes were sent, but not how many of them were headers: few numbers are possible, and a
//! sender stands at an edge if one of them leads there.

use super::thresholds::{MISSING_HEADERS, UNFRAMED_WINDOW_MIN_BYTES};
use crate::capture::FrameId;
use crate::wire::{BySide, Side};

/// Size of every window before the first SETTINGS frame, and of that of the connection before the first
/// WINDOW_UPDATE, bytes (RFC 9113 §6.9.2).
const INITIAL_BYTES: u64 = 65_535;
/// Greatest payload of a frame before the first SETTINGS frame, bytes (RFC 9113 §6.5.2).
const FRAME_MAX_BYTES: u64 = 16_384;
/// Bytes of a frame header (RFC 9113 §4.1).
const HEADER_BYTES: u64 = 9;

/// Identifiers of settings (RFC 9113 §6.5.2).
const SETTINGS_INITIAL_WINDOW_SIZE: u16 = 4;
const SETTINGS_MAX_FRAME_SIZE: u16 = 5;

/// Maximum number of grants that a window remembers while its sender has not reached their edges.
const EDGES_MAX: usize = 32;
/// Maximum number of streams with a window of their own; beyond it the oldest is forgotten.
const STREAMS_MAX: usize = 64;

/// When and where bytes passed the vantage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passing {
    /// Time, ns.
    pub time_ns: u64,
    /// The frame that carried them.
    pub frame: FrameId,
    /// Payload of its segment, bytes.
    pub payload_bytes: u32,
}

/// A window that a sender of DATA had used up, and the grant that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The window is that of the stream; `false`: of the connection.
    pub is_of_stream: bool,
    /// Size of the window, bytes: the most that was granted beyond what was sent.
    pub window_bytes: u64,
    /// The grant.
    pub granted: Passing,
}

/// A grant, at which the sender may still have to arrive.
#[derive(Clone, Copy, Debug)]
struct Edge {
    /// The limit before the grant.
    limit: i64,
    granted: Passing,
}

/// One flow-control window.
#[derive(Clone, Debug, Default)]
struct Window {
    sent: i64,
    limit: i64,
    size: u64,
    edges: Vec<Edge>,
    /// More was sent than was granted: a grant was not captured, and the limit is unknown.
    is_unknown: bool,
}

impl Window {
    fn new(bytes: u64) -> Self {
        let limit = i64::try_from(bytes).unwrap_or(i64::MAX);
        Self { limit, size: bytes, ..Self::default() }
    }

    /// Moves the limit by `bytes`, which are negative if the receiver has made all windows smaller (RFC
    /// 9113 §6.9.2), when `more` bytes of unknown framing were sent.
    fn grant(&mut self, bytes: i64, more: i64, granted: Passing) {
        if bytes > 0 {
            if self.edges.len() == EDGES_MAX {
                self.edges.remove(0);
            }
            self.edges.push(Edge { limit: self.limit, granted });
        }
        self.limit = self.limit.saturating_add(bytes);
        self.size = self.size.max(self.limit.saturating_sub(self.sent + more).max(0) as u64);
    }

    fn send(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        let sent = self.sent;
        // Beyond missing headers, up to this many bytes are no data.
        let margin = (MISSING_HEADERS * HEADER_BYTES) as i64;
        self.is_unknown |= bytes > 0 && sent > self.limit.max(0).saturating_add(margin);
        self.edges.retain(|edge| edge.limit >= sent - margin);
    }

    /// Returns the first grant behind the position `sent`, if that is an edge.
    fn at(&self, sent: i64) -> Option<Passing> {
        let edge = self.edges.iter().find(|edge| edge.limit == sent && !self.is_unknown);
        edge.map(|edge| edge.granted)
    }

    /// Returns whether nothing more may be sent from position `sent` on, as far as was seen.
    fn is_closed_at(&self, sent: i64) -> bool {
        self.limit <= sent && !self.is_unknown
    }
}

/// The windows for the DATA of one side.
#[derive(Clone, Debug)]
struct Credits {
    connection: Window,
    /// Windows of streams on which DATA or grants have passed and DATA may follow, oldest first.
    streams: Vec<(u32, Window)>,
    /// Size with which the window of a stream begins, bytes.
    initial: u64,
    /// Greatest payload of a frame, bytes.
    frame_max: u64,
    /// The stream of the last DATA, unless that ended the sender's part of it.
    last: Option<u32>,
    /// The number of bytes sent since the place of the last header was known, if it is lost.
    unframed: Option<u64>,
    /// A few of the headers may be counted as data.
    is_inexact: bool,
}

impl Default for Credits {
    fn default() -> Self {
        Self {
            connection: Window::new(INITIAL_BYTES),
            streams: Vec::new(),
            initial: INITIAL_BYTES,
            frame_max: FRAME_MAX_BYTES,
            last: None,
            unframed: None,
            is_inexact: false,
        }
    }
}

impl Credits {
    fn stream(&mut self, stream: u32) -> &mut Window {
        let place = self.streams.iter().position(|(of, _)| *of == stream);
        let place = place.unwrap_or_else(|| {
            if self.streams.len() == STREAMS_MAX {
                self.streams.remove(0);
            }
            self.streams.push((stream, Window::new(self.initial)));
            self.streams.len() - 1
        });
        &mut self.streams[place].1
    }

    fn send(&mut self, stream: u32, bytes: u64) {
        self.connection.send(bytes);
        self.stream(stream).send(bytes);
    }

    /// Greatest number of DATA bytes among `bytes` without known headers.
    fn most_data(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(bytes.div_ceil(self.frame_max + HEADER_BYTES) * HEADER_BYTES)
    }

    /// Returns the window that was used up last of those at whose edge the sender stands, and the
    /// number of bytes that are counted as data beyond that edge.
    fn stands(&self) -> Option<(Credit, u64)> {
        let last = self.last?;
        let more = self.unframed.map_or(0, |bytes| self.most_data(bytes)) as i64;
        let stream = self.streams.iter().find(|(of, _)| *of == last).map(|(_, window)| window)?;
        let counts = if self.unframed.is_some() || self.is_inexact { MISSING_HEADERS } else { 1 };
        (0..counts).map(|count| count * HEADER_BYTES).find_map(|headers| {
            let is_sure = |window: &Window| counts == 1 || window.size >= UNFRAMED_WINDOW_MIN_BYTES;
            let of = |window: &Window, is_of_stream| {
                let granted = window.at(window.sent + more - headers as i64)?;
                let window_bytes = window.size;
                is_sure(window).then_some(Credit { is_of_stream, window_bytes, granted })
            };
            // Which stream's frames are those without a header is known only if there is one stream.
            let is_known = counts == 1 || self.streams.len() == 1;
            let is_closed =
                |window: &Window| window.is_closed_at(window.sent + more - headers as i64);
            let still_closed = is_closed(&self.connection) || is_known && is_closed(stream);
            let standing = [of(&self.connection, false), of(stream, true).filter(|_| is_known)];
            let credit = standing.into_iter().flatten().max_by_key(|it| it.granted.time_ns)?;
            (!still_closed).then_some((credit, headers))
        })
    }

    /// Takes the bytes of unknown framing as data up to the place that the sender stands at, or else as
    /// much of them as can be data.
    fn settle(&mut self) {
        let Some(bytes) = self.unframed else { return };
        let stands = self.stands();
        let headers = stands.map_or(0, |(_, headers)| headers);
        self.is_inexact = stands.is_none();
        self.unframed = None;
        let Some(last) = self.last else { return };
        let data = self.most_data(bytes);
        self.send(last, data.saturating_sub(headers));
        if let Some(less) = headers.checked_sub(data).map(|it| it as i64) {
            // Headers that were counted as data earlier.
            self.connection.sent -= less;
            self.stream(last).sent -= less;
        }
    }
}

/// The windows of a connection, by the side that sends DATA.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowControl {
    senders: BySide<Credits>,
}

impl FlowControl {
    /// Processes the header of a DATA frame of `from` with `bytes` of payload; `ends` its part of the
    /// stream.
    pub fn send(&mut self, from: Side, stream: u32, bytes: u32, ends: bool) {
        let credits = &mut self.senders[from];
        credits.send(stream, bytes.into());
        credits.last = (!ends).then_some(stream);
        if ends {
            credits.streams.retain(|(of, _)| *of != stream);
        }
    }

    /// Forgets `stream`, which is over or on which `from` sends no more DATA.
    pub fn end(&mut self, from: Side, stream: u32) {
        let credits = &mut self.senders[from];
        credits.streams.retain(|(of, _)| *of != stream);
        credits.last = credits.last.filter(|&last| last != stream);
    }

    /// Processes the payload of a WINDOW_UPDATE frame of `from` (RFC 9113 §6.9): it grants to its peer.
    pub fn grant(&mut self, from: Side, stream: u32, payload: &[u8], granted: Passing) {
        let Some(increment) = payload.first_chunk().map(|it| u32::from_be_bytes(*it)) else {
            return;
        };
        let bytes = i64::from(increment & 0x7fff_ffff);
        let credits = &mut self.senders[from.peer()];
        let more = credits.unframed.map_or(0, |bytes| credits.most_data(bytes)) as i64;
        match stream {
            0 => credits.connection.grant(bytes, more, granted),
            _ => credits.stream(stream).grant(bytes, more, granted),
        }
    }

    /// Processes the payload of a SETTINGS frame of `from` (RFC 9113 §6.5).
    pub fn set(&mut self, from: Side, payload: &[u8], granted: Passing) {
        let credits = &mut self.senders[from.peer()];
        for setting in payload.chunks_exact(6) {
            let &[i1, i2, v1, v2, v3, v4] = setting else { continue };
            let value = u64::from(u32::from_be_bytes([v1, v2, v3, v4]));
            match u16::from_be_bytes([i1, i2]) {
                SETTINGS_INITIAL_WINDOW_SIZE => {
                    let more = value as i64 - credits.initial as i64;
                    credits.initial = value;
                    for (_, window) in &mut credits.streams {
                        window.grant(more, 0, granted);
                    }
                }
                SETTINGS_MAX_FRAME_SIZE => credits.frame_max = value.max(FRAME_MAX_BYTES),
                _ => {}
            }
        }
    }

    /// Records that `from` sent `bytes` in frames whose headers are unknown.
    pub fn send_unframed(&mut self, from: Side, bytes: u64) {
        let unframed = self.senders[from].unframed.get_or_insert(0);
        *unframed = unframed.saturating_add(bytes);
    }

    /// Records that a frame header of `from` follows those of unknown place.
    pub fn find_header(&mut self, from: Side) {
        self.senders[from].settle();
    }

    /// Returns whether `stream` carries DATA of `from`.
    pub fn is_open(&self, from: Side, stream: u32) -> bool {
        self.senders[from].streams.iter().any(|(of, _)| *of == stream)
    }

    /// Greatest payload of a frame of `from`, bytes.
    pub fn frame_max(&self, from: Side) -> u64 {
        self.senders[from].frame_max
    }

    /// Returns the window that held `from` back, if it has sent DATA exactly up to the end of one, and
    /// was granted more since.
    pub fn credit(&self, from: Side) -> Option<Credit> {
        self.senders[from].stands().map(|(credit, _)| credit)
    }

    /// Returns the bytes of heap memory in use.
    pub fn heap_bytes(&self) -> usize {
        let of = |window: &Window| window.edges.capacity() * size_of::<Edge>();
        let of_side = |credits: &Credits| {
            let streams = credits.streams.capacity() * size_of::<(u32, Window)>();
            let edges = credits.streams.iter().map(|(_, window)| of(window)).sum::<usize>();
            streams + edges + of(&credits.connection)
        };
        self.senders.iter().map(of_side).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: Side = Side::Client;
    const S: Side = Side::Server;

    fn at(time_ns: u64) -> Passing {
        Passing { time_ns, ..Passing::default() }
    }

    fn grant(flow: &mut FlowControl, stream: u32, bytes: u32, time_ns: u64) {
        flow.grant(S, stream, &bytes.to_be_bytes(), at(time_ns));
    }

    #[test]
    fn a_sender_stands_where_the_window_ended_when_it_was_granted_more() {
        let mut flow = FlowControl::default();
        for bytes in [16_384, 16_384, 16_384, 16_383] {
            assert_eq!(flow.credit(C), None);
            flow.send(C, 1, bytes, false);
        }
        assert_eq!(flow.credit(C), None, "nothing was granted yet");
        grant(&mut flow, 0, 8_192, 7);
        assert_eq!(flow.credit(C), None, "the stream's window is used up as well");
        grant(&mut flow, 1, 8_192, 9);
        let expected = Credit { is_of_stream: true, window_bytes: 65_535, granted: at(9) };
        assert_eq!(flow.credit(C), Some(expected));
        // Captured at the receiver, the next grant passes before the sender has used this one.
        grant(&mut flow, 0, 8_192, 11);
        grant(&mut flow, 1, 8_192, 12);
        assert_eq!(flow.credit(C), Some(expected));
        flow.send(C, 1, 8_191, false);
        assert_eq!(flow.credit(C), None, "a byte is left");
        flow.send(C, 1, 1, false);
        assert_eq!(flow.credit(C).map(|it| it.granted), Some(at(12)));
    }

    #[test]
    fn the_window_of_the_connection_holds_a_stream_with_a_window_left() {
        let mut flow = FlowControl::default();
        flow.set(S, &[0, 4, 0, 16, 0, 0], at(1));
        flow.send(C, 1, 65_535, false);
        grant(&mut flow, 0, 65_535, 5);
        let expected = Credit { is_of_stream: false, window_bytes: 65_535, granted: at(5) };
        assert_eq!(flow.credit(C), Some(expected));
    }

    #[test]
    fn a_message_that_is_over_waits_for_no_window() {
        let mut flow = FlowControl::default();
        flow.send(C, 1, 65_535, true);
        grant(&mut flow, 0, 65_535, 5);
        assert_eq!(flow.credit(C), None);
        flow.send(C, 3, 65_535, false);
        grant(&mut flow, 3, 65_535, 6);
        assert_eq!(flow.credit(C), None, "of the connection nothing is left");
        flow.end(C, 3);
        grant(&mut flow, 0, 65_535, 7);
        assert_eq!(flow.credit(C), None, "the stream was reset");
    }

    #[test]
    fn settings_change_the_windows_of_open_streams() {
        let mut flow = FlowControl::default();
        grant(&mut flow, 0, 1 << 20, 1);
        flow.send(C, 1, 65_535, false);
        flow.set(S, &[0, 4, 0, 1, 0, 0], at(4));
        assert_eq!(flow.credit(C).map(|it| (it.granted, it.is_of_stream)), Some((at(4), true)));
        // A smaller size takes back what the stream has not used, and grants nothing.
        flow.set(S, &[0, 4, 0, 0, 0x80, 0], at(5));
        grant(&mut flow, 1, 1, 6);
        assert_eq!(flow.credit(C), None, "the window is below 0");
    }

    #[test]
    fn missing_headers_are_counted_by_the_edge_that_they_lead_to() {
        let mut flow = FlowControl::default();
        flow.send(C, 1, 16_384, false);
        // Four frames more: 16,384, 16,384, 16,382 and 1 bytes, of which no header was captured.
        flow.send_unframed(C, 49_151 + 4 * 9);
        assert_eq!(flow.credit(C), None);
        grant(&mut flow, 0, 16_384, 3);
        grant(&mut flow, 1, 16_384, 4);
        assert_eq!(flow.credit(C).map(|it| it.granted), Some(at(4)));
        flow.find_header(C);
        assert_eq!(flow.credit(C).map(|it| it.granted), Some(at(4)), "now it is exact");
        flow.send(C, 1, 16_384, false);
        grant(&mut flow, 0, 16_384, 8);
        grant(&mut flow, 1, 16_384, 9);
        assert_eq!(flow.credit(C).map(|it| it.granted), Some(at(9)));
    }

    #[test]
    fn bytes_of_unknown_framing_that_lead_to_no_edge_show_nothing() {
        let mut flow = FlowControl::default();
        flow.send(C, 1, 16_384, false);
        flow.send_unframed(C, 49_151 + 4 * 9 + 1);
        grant(&mut flow, 0, 16_384, 3);
        grant(&mut flow, 1, 16_384, 4);
        assert_eq!(flow.credit(C), None, "one byte too many for any number of headers");
        // A window so small that one of the possible numbers leads to its edge by chance.
        let mut flow = FlowControl::default();
        flow.set(S, &[0, 4, 0, 0, 0x10, 0], at(1));
        flow.send(C, 1, 1_000, false);
        flow.send_unframed(C, 3_096 + 2 * 9);
        grant(&mut flow, 1, 4_096, 4);
        assert_eq!(flow.credit(C), None);
    }
}
