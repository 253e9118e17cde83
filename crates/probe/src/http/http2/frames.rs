//! Observes the frames of a connection in both directions (RFC 9113 §4.1): what the server allows by
//! `SETTINGS` and `WINDOW_UPDATE`, how it ends streams and the connection, and how long a request body
//! waits for its windows. The library acts on these frames and does not report them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use h2::Reason;

/// Length of a frame's header, bytes.
pub(super) const HEADER_BYTES: usize = 9;
/// Length of the connection preface of a client, bytes (RFC 9113 §3.4).
const PREFACE_BYTES: usize = 24;
/// Length of a parameter in `SETTINGS`, bytes (RFC 9113 §6.5.1).
const PARAMETER_BYTES: usize = 6;
/// Bytes of a payload that are kept: 32 parameters, where the standards define ten.
const PAYLOAD_BYTES_MAX: usize = 32 * PARAMETER_BYTES;
/// Windows before the first `SETTINGS` and `WINDOW_UPDATE`, bytes (RFC 9113 §6.9.2).
pub const WINDOW_BYTES: u32 = 65_535;
/// Greatest number of header sections and waits that are kept.
const KEPT_MAX: usize = 4_096;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// Flags of frames: `END_STREAM` of DATA and HEADERS, `ACK` of SETTINGS.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;

/// An error code (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl fmt::Display for Code {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?}", Reason::from(self.0))
    }
}

/// The settings of a server (RFC 9113 §6.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct ServerSettings {
    /// Size of the table that compresses the headers of requests, bytes.
    pub header_table_size: u32,
    /// Number of streams at once; `None` without a limit.
    pub max_concurrent_streams: Option<u32>,
    /// Window of a stream for the body of a request, bytes.
    pub initial_window_size: u32,
    /// Greatest payload of a frame, bytes.
    pub max_frame_size: u32,
    /// Greatest size of a header section, bytes; `None` if the server states none.
    pub max_header_list_size: Option<u32>,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            header_table_size: 4_096,
            max_concurrent_streams: None,
            initial_window_size: WINDOW_BYTES,
            max_frame_size: 16_384,
            max_header_list_size: None,
        }
    }
}

/// A `GOAWAY` of the server (RFC 9113 §6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoAway {
    /// The reason.
    pub code: Code,
    /// The last stream that the server has processed or may process.
    pub last_stream: u32,
}

/// A wait of a request body for the server's windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Time from the DATA that used the window up to the `WINDOW_UPDATE`.
    pub lasted: Duration,
    /// `true` if the window of the connection was used up, `false` if that of the stream was.
    pub of_connection: bool,
    /// The greatest size that this window had had before, bytes.
    pub window_bytes: u32,
}

/// Facts about a connection that its frames have shown so far.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The settings of the server; `None` before they arrive.
    pub settings: Option<ServerSettings>,
    /// The first `GOAWAY` that states an error, or else the last one.
    pub go_away: Option<GoAway>,
    /// Number of streams that the server reset, by the first code.
    pub resets: Option<(Code, u64)>,
    /// The greatest window of the connection that the server has offered, bytes.
    pub connection_window_bytes: u32,
    /// The waits of request bodies for windows, in order, without those for the server's first `SETTINGS`.
    pub waits: Vec<Wait>,
    /// `true` if the server's first bytes are those of an HTTP/1 response.
    pub is_http1: bool,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            settings: None,
            go_away: None,
            resets: None,
            connection_window_bytes: WINDOW_BYTES,
            waits: Vec::new(),
            is_http1: false,
        }
    }
}

impl Seen {
    /// Adds what another connection to the same server has shown.
    pub fn add(&mut self, other: Seen) {
        self.settings = other.settings.or(self.settings);
        let error = |it: &GoAway| it.code != Code(0);
        self.go_away = self.go_away.filter(error).or(other.go_away).or(self.go_away);
        self.resets = match (self.resets, other.resets) {
            (Some((code, before)), Some((_, more))) => Some((code, before + more)),
            (before, more) => before.or(more),
        };
        self.connection_window_bytes =
            self.connection_window_bytes.max(other.connection_window_bytes);
        let room = KEPT_MAX - self.waits.len();
        self.waits.extend(other.waits.into_iter().take(room));
        self.is_http1 |= other.is_http1;
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    length: u32,
    kind: u8,
    flags: u8,
    stream: u32,
}

/// Finds frames in the bytes of one direction, in pieces of any size. It keeps no payload but the first
/// bytes of short ones.
#[derive(Debug, Default)]
struct Direction {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    frame: Frame,
    left: u32,
    payload: Vec<u8>,
    skip: usize,
}

impl Direction {
    /// Calls `complete` with each frame whose last byte is among `bytes`, and its first bytes.
    fn push(&mut self, mut bytes: &[u8], mut complete: impl FnMut(Frame, &[u8])) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        bytes = &bytes[skipped..];
        while !bytes.is_empty() {
            if self.header_bytes < HEADER_BYTES {
                let taken = (HEADER_BYTES - self.header_bytes).min(bytes.len());
                let end = self.header_bytes + taken;
                self.header[self.header_bytes..end].copy_from_slice(&bytes[..taken]);
                self.header_bytes = end;
                bytes = &bytes[taken..];
                if end < HEADER_BYTES {
                    return;
                }
                let [high, middle, low, kind, flags, stream @ ..] = self.header;
                let length = u32::from_be_bytes([0, high, middle, low]);
                let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
                self.frame = Frame { length, kind, flags, stream };
                self.left = length;
                self.payload.clear();
            }
            let taken = (self.left as usize).min(bytes.len());
            let is_kept = matches!(self.frame.kind, RST_STREAM | SETTINGS | GOAWAY | WINDOW_UPDATE);
            if is_kept {
                let room = PAYLOAD_BYTES_MAX - self.payload.len();
                self.payload.extend_from_slice(&bytes[..taken.min(room)]);
            }
            self.left -= taken as u32;
            bytes = &bytes[taken..];
            if self.left == 0 {
                self.header_bytes = 0;
                complete(self.frame, &self.payload);
            }
        }
    }
}

/// The bytes that the server's windows still permit.
#[derive(Debug)]
struct Windows {
    connection: i64,
    /// Of streams whose request body is not complete.
    streams: HashMap<u32, StreamWindow>,
}

#[derive(Debug)]
struct StreamWindow {
    left: i64,
    /// The greatest value of `left` so far.
    most: i64,
    /// Its wait, if it has one.
    waits: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    of_connection: bool,
    /// The greatest size that the window had had before, bytes.
    window_bytes: u32,
    /// `true` if it began before the server had stated its windows: until then a client has those of the
    /// standard (RFC 9113 §6.9.2), and waits for the first round trip, however large they are.
    is_first: bool,
}

impl Windows {
    /// Notes for each stream whether it waits, now that a window has changed.
    fn judge(&mut self, seen: &mut Seen) {
        for stream in self.streams.values_mut() {
            let is_blocked = stream.left <= 0 || self.connection <= 0;
            match (is_blocked, stream.waits.take()) {
                (true, None) => {
                    let of_connection = stream.left > 0;
                    let own = size(stream.most);
                    let window_bytes =
                        if of_connection { seen.connection_window_bytes } else { own };
                    let (since, is_first) = (Instant::now(), seen.settings.is_none());
                    stream.waits = Some(Waiting { since, of_connection, window_bytes, is_first });
                }
                (true, waits) => stream.waits = waits,
                (false, Some(waits)) => {
                    if !waits.is_first && seen.waits.len() < KEPT_MAX {
                        let Waiting { since, of_connection, window_bytes, .. } = waits;
                        let lasted = since.elapsed();
                        seen.waits.push(Wait { lasted, of_connection, window_bytes });
                    }
                }
                (false, None) => {}
            }
        }
    }

    fn offer(&mut self, seen: &mut Seen) {
        seen.connection_window_bytes = seen.connection_window_bytes.max(size(self.connection));
        self.streams.values_mut().for_each(|it| it.most = it.most.max(it.left));
    }
}

/// Returns what is left of a window, bytes; a window can be negative (RFC 9113 §6.9.2).
fn size(left: i64) -> u32 {
    u32::try_from(left.max(0)).unwrap_or(u32::MAX)
}

/// Observes a connection of a client.
#[derive(Debug)]
pub(super) struct Observer {
    sent: Direction,
    received: Direction,
    windows: Windows,
    /// Lengths of header sections by stream, until they are taken.
    header_sections: VecDeque<(u32, u64)>,
    first: Vec<u8>,
    pub seen: Seen,
}

impl Observer {
    /// Creates the observer of a connection before its first byte.
    pub fn new() -> Observer {
        Observer {
            sent: Direction { skip: PREFACE_BYTES, ..Direction::default() },
            received: Direction::default(),
            windows: Windows { connection: WINDOW_BYTES.into(), streams: HashMap::new() },
            header_sections: VecDeque::new(),
            first: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Notes bytes that the client sends.
    pub fn sends(&mut self, bytes: &[u8]) {
        let Observer { sent, windows, seen, .. } = self;
        sent.push(bytes, |frame, _| {
            let ends = frame.flags & END_STREAM != 0;
            match frame.kind {
                HEADERS if !ends => {
                    let left = seen.settings.unwrap_or_default().initial_window_size.into();
                    windows
                        .streams
                        .insert(frame.stream, StreamWindow { left, most: left, waits: None });
                }
                DATA => {
                    windows.connection -= i64::from(frame.length);
                    match windows.streams.get_mut(&frame.stream) {
                        Some(stream) if !ends => stream.left -= i64::from(frame.length),
                        _ => drop(windows.streams.remove(&frame.stream)),
                    }
                }
                RST_STREAM => drop(windows.streams.remove(&frame.stream)),
                _ => return,
            }
            windows.offer(seen);
            windows.judge(seen);
        });
    }

    /// Notes bytes that came from the server.
    pub fn receives(&mut self, bytes: &[u8]) {
        const HTTP1: &[u8] = b"HTTP/1.";
        if self.first.len() < HTTP1.len() {
            let room = HTTP1.len() - self.first.len();
            self.first.extend_from_slice(&bytes[..bytes.len().min(room)]);
            self.seen.is_http1 = self.first == HTTP1;
        }
        let Observer { received, windows, seen, header_sections, .. } = self;
        received.push(bytes, |frame, payload| match frame.kind {
            HEADERS | CONTINUATION => {
                if header_sections.len() >= KEPT_MAX {
                    header_sections.pop_front();
                }
                let bytes = u64::from(frame.length) + HEADER_BYTES as u64;
                header_sections.push_back((frame.stream, bytes));
            }
            SETTINGS if frame.flags & ACK == 0 => {
                let before = seen.settings.unwrap_or_default();
                let settings = read_settings(before, payload);
                let delta =
                    i64::from(settings.initial_window_size) - i64::from(before.initial_window_size);
                seen.settings = Some(settings);
                windows.streams.values_mut().for_each(|it| it.left += delta);
                windows.offer(seen);
                windows.judge(seen);
            }
            WINDOW_UPDATE => {
                let Some(increment) = number(payload, 0) else { return };
                let increment = i64::from(increment & 0x7fff_ffff);
                match (frame.stream, windows.streams.get_mut(&frame.stream)) {
                    (0, _) => windows.connection = windows.connection.saturating_add(increment),
                    (_, Some(stream)) => stream.left = stream.left.saturating_add(increment),
                    (_, None) => return,
                }
                windows.offer(seen);
                windows.judge(seen);
            }
            RST_STREAM => {
                windows.streams.remove(&frame.stream);
                // Without an error it follows an answer before the end of the request (§8.1).
                let Some(code) = number(payload, 0).map(Code).filter(|it| it.0 != 0) else {
                    return;
                };
                let (first, count) = seen.resets.unwrap_or((code, 0));
                seen.resets = Some((first, count + 1));
            }
            GOAWAY => {
                let (Some(last), Some(code)) = (number(payload, 0), number(payload, 4)) else {
                    return;
                };
                let go_away = GoAway { code: Code(code), last_stream: last & 0x7fff_ffff };
                if seen.go_away.is_none_or(|it| it.code == Code(0)) {
                    seen.go_away = Some(go_away);
                }
            }
            _ => {}
        });
    }

    /// Takes the bytes of the header sections of a stream, with the headers of their frames.
    pub fn take_header_bytes(&mut self, stream: u32) -> u64 {
        let mut sum = 0;
        self.header_sections.retain(|(it, bytes)| {
            let is_own = *it == stream;
            sum += if is_own { *bytes } else { 0 };
            !is_own
        });
        sum
    }
}

/// Returns the four bytes at `at` as a number.
fn number(payload: &[u8], at: usize) -> Option<u32> {
    payload.get(at..)?.first_chunk().map(|it| u32::from_be_bytes(*it))
}

fn read_settings(before: ServerSettings, payload: &[u8]) -> ServerSettings {
    let mut settings = before;
    for parameter in payload.chunks_exact(PARAMETER_BYTES) {
        let id = u16::from_be_bytes([parameter[0], parameter[1]]);
        let Some(value) = number(parameter, 2) else { continue };
        match id {
            1 => settings.header_table_size = value,
            3 => settings.max_concurrent_streams = Some(value),
            4 => settings.initial_window_size = value.min(i32::MAX as u32),
            5 => settings.max_frame_size = value,
            6 => settings.max_header_list_size = Some(value),
            _ => {}
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpwhy_testing::http2::frame;

    fn parameter(id: u16, value: u32) -> Vec<u8> {
        [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
    }

    /// All that a server says about itself, in pieces of any size.
    #[test]
    fn settings_windows_and_ends_are_seen_whatever_the_pieces() {
        let settings = [parameter(1, 8_192), parameter(3, 128), parameter(4, 70_000)].concat();
        let wire = [
            frame(SETTINGS, 0, 0, &settings),
            frame(WINDOW_UPDATE, 0, 0, &100_000_u32.to_be_bytes()),
            frame(HEADERS, 4, 1, &[0; 300]),
            frame(DATA, 0, 1, &[7; 1_000]),
            frame(RST_STREAM, 0, 3, &11_u32.to_be_bytes()),
            frame(RST_STREAM, 0, 5, &8_u32.to_be_bytes()),
            frame(GOAWAY, 0, 0, &[&5_u32.to_be_bytes()[..], &11_u32.to_be_bytes()].concat()),
            frame(GOAWAY, 0, 0, &[0; 8]),
        ]
        .concat();
        for step in [1, 2, 7, 100, wire.len()] {
            let mut observer = Observer::new();
            wire.chunks(step).for_each(|piece| observer.receives(piece));
            let seen = &observer.seen;
            let settings = seen.settings.unwrap();
            assert_eq!(settings.header_table_size, 8_192);
            assert_eq!(settings.max_concurrent_streams, Some(128));
            assert_eq!((settings.initial_window_size, settings.max_frame_size), (70_000, 16_384));
            assert_eq!(seen.connection_window_bytes, WINDOW_BYTES + 100_000);
            assert_eq!(seen.resets, Some((Code(11), 2)));
            let go_away = seen.go_away.unwrap();
            assert_eq!(
                (go_away.code.to_string(), go_away.last_stream),
                ("ENHANCE_YOUR_CALM".into(), 5)
            );
            assert_eq!((observer.take_header_bytes(1), observer.take_header_bytes(1)), (309, 0));
            assert!(!observer.seen.is_http1);
        }
    }

    #[test]
    fn a_body_waits_from_its_last_byte_of_window_to_the_update() {
        let mut observer = Observer::new();
        observer.sends(&[0; PREFACE_BYTES]);
        observer.receives(&frame(SETTINGS, 0, 0, &parameter(4, 100)));
        observer.sends(&frame(HEADERS, 4, 1, &[0; 20]));
        observer.sends(&frame(DATA, 0, 1, &[0; 100]));
        assert!(observer.seen.waits.is_empty());
        std::thread::sleep(Duration::from_millis(5));
        // The connection's window is not that of the stream.
        observer.receives(&frame(WINDOW_UPDATE, 0, 0, &100_u32.to_be_bytes()));
        assert!(observer.seen.waits.is_empty());
        observer.receives(&frame(WINDOW_UPDATE, 0, 1, &50_u32.to_be_bytes()));
        let [wait] = observer.seen.waits[..] else { panic!("{:?}", observer.seen.waits) };
        assert!(wait.lasted >= Duration::from_millis(5) && !wait.of_connection);
        // The last byte of a body waits for nothing.
        observer.sends(&frame(DATA, END_STREAM, 1, &[0; 50]));
        observer.receives(&frame(WINDOW_UPDATE, 0, 1, &50_u32.to_be_bytes()));
        assert_eq!((observer.seen.waits.len(), wait.window_bytes), (1, 100));
    }

    #[test]
    fn a_wait_for_the_first_settings_is_not_one_for_a_small_window() {
        let mut observer = Observer::new();
        observer.sends(&[0; PREFACE_BYTES]);
        observer.sends(&frame(HEADERS, 4, 1, &[0; 20]));
        observer.sends(&frame(DATA, 0, 1, &[0; WINDOW_BYTES as usize]));
        observer.receives(&frame(SETTINGS, 0, 0, &parameter(4, 1_000_000)));
        observer.receives(&frame(WINDOW_UPDATE, 0, 0, &1_000_000_u32.to_be_bytes()));
        assert_eq!(observer.seen.waits, []);
        // The next one is.
        observer.sends(&frame(DATA, 0, 1, &[0; 1_000_000 - WINDOW_BYTES as usize]));
        observer.receives(&frame(WINDOW_UPDATE, 0, 1, &50_u32.to_be_bytes()));
        assert_eq!(observer.seen.waits.len(), 1);
    }

    #[test]
    fn an_answer_of_http1_is_recognised() {
        let mut observer = Observer::new();
        observer.receives(b"HTT");
        observer.receives(b"P/1.1 400 Bad Request\r\n\r\n");
        assert!(observer.seen.is_http1);
    }
}
