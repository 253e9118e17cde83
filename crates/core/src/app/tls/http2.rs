//! HTTP/2 in records that are not opened: its connection prefaces and the acknowledgements of settings, by
//! their sizes.
//!
//! A server or a client begins with SETTINGS, the client behind 24 bytes of its own, and each acknowledges the
//! other's with an empty frame (RFC 9113 §3.4, §6.5). None of these is a request or an answer, both of which
//! begin with a header.

use crate::app::exchanges::Feed;
use crate::app::hello::{ClientHello, ServerHello};
use crate::keys::Suite;
use crate::wire::{BySide, Side};

/// The name of the protocol (RFC 9113 §3.1).
pub(in crate::app) const NAME: &str = "h2";

/// Bytes that a client sends first (RFC 9113 §3.4).
const MAGIC_BYTES: u16 = 24;
/// Bytes of a frame's header, which is all of an acknowledgement (RFC 9113 §4.1, §6.5).
const FRAME_BYTES: u16 = 9;
/// Bytes of a WINDOW_UPDATE (RFC 9113 §6.9).
const WINDOW_UPDATE_BYTES: u16 = FRAME_BYTES + 4;
/// Bytes of a setting, and the number of those that RFC 9113 §6.5.2 defines.
const SETTING_BYTES: u16 = 6;
const SETTINGS_MAX: u16 = 6;

/// The part of its preface that a side has sent, or that it has gone beyond it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sent {
    #[default]
    Nothing,
    /// A client: the bytes before its SETTINGS.
    Magic,
    Settings,
    /// A header, with which a request or an answer begins.
    Header,
}

/// Whether a connection speaks HTTP/2, and how far each side is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Http2 {
    /// The client offers it (RFC 7301).
    is_offered: bool,
    /// The client offers no version of HTTP, in a hello that was read.
    lacks_http: bool,
    /// Bytes of a record around its content; `None` if another protocol is spoken, or that is unknown.
    overhead: Option<u16>,
    sent: BySide<Sent>,
    /// The client has not acknowledged the server's SETTINGS.
    owes_acknowledgement: bool,
}

impl Http2 {
    /// Takes note of the ClientHello.
    pub fn offered(&mut self, hello: &ClientHello) {
        self.is_offered = hello.alpn.iter().any(|name| name == NAME);
        self.lacks_http = !hello.alpn.iter().any(|name| name == NAME || name.starts_with("http/"));
    }

    /// Returns whether the client is known to offer no version of HTTP (RFC 7301 §6).
    pub fn lacks_http(&self) -> bool {
        self.lacks_http
    }

    /// Takes note of the ServerHello. In TLS 1.3 the choice itself is encrypted.
    pub fn chosen(&mut self, hello: &ServerHello) {
        let is_spoken = if hello.is_tls13 { self.is_offered } else { hello.has_http2 };
        let suite = Suite::of(hello.suite).filter(|_| is_spoken);
        self.overhead = suite.and_then(Suite::record_overhead);
    }

    /// Processes a record of `from` of application data, `length` bytes without its header. Returns whether
    /// it begins no request and no answer, and ends none; otherwise [`Self::passed`] follows, unless it is a
    /// ticket.
    pub fn is_control(&mut self, from: Side, length: u16, feed: &Feed<'_>) -> bool {
        let Some(bytes) = self.overhead.and_then(|overhead| length.checked_sub(overhead)) else {
            return false;
        };
        let sent = match from {
            Side::Client => self.client_sent(bytes),
            // Behind the settings, a late record may be an answer.
            Side::Server if feed.is_responding() => None,
            Side::Server if feed.exchanges.late && !self.owes_settings() => None,
            Side::Server => self.server_sent(bytes),
        };
        if let Some(sent) = sent {
            self.note(from, sent);
            return true;
        }
        from == Side::Client
            && bytes == FRAME_BYTES
            && std::mem::take(&mut self.owes_acknowledgement)
    }

    /// Takes note of a record of `from` with a header, at least.
    pub fn passed(&mut self, from: Side) {
        self.note(from, Sent::Header);
    }

    fn note(&mut self, from: Side, sent: Sent) {
        let before = std::mem::replace(&mut self.sent[from], sent);
        self.owes_acknowledgement |= from == Side::Server && before == Sent::Nothing;
    }

    /// Returns whether the server has not yet sent its settings, which come before all answers.
    pub fn owes_settings(&self) -> bool {
        self.overhead.is_some() && self.sent[Side::Server] == Sent::Nothing
    }

    /// Returns whether the server has sent its settings, and no answer yet.
    pub fn has_sent_settings_only(&self) -> bool {
        self.sent[Side::Server] == Sent::Settings
    }

    /// Returns how far the client is with a record of `bytes`; `None` if that is none of its preface.
    fn client_sent(&self, bytes: u16) -> Option<Sent> {
        let behind_magic = match self.sent[Side::Client] {
            Sent::Nothing if bytes == MAGIC_BYTES => return Some(Sent::Magic),
            Sent::Nothing => bytes.checked_sub(MAGIC_BYTES)?,
            Sent::Magic => bytes,
            Sent::Settings if bytes == WINDOW_UPDATE_BYTES => return Some(Sent::Settings),
            Sent::Settings | Sent::Header => return None,
        };
        let is_settings = [0, WINDOW_UPDATE_BYTES].iter().any(|&it| are_settings(behind_magic, it));
        is_settings.then_some(Sent::Settings)
    }

    /// Returns how far the server is with a record of `bytes`; `None` if an answer begins with it.
    fn server_sent(&self, bytes: u16) -> Option<Sent> {
        let behind = [0, FRAME_BYTES, WINDOW_UPDATE_BYTES, FRAME_BYTES + WINDOW_UPDATE_BYTES];
        let is_control = match self.sent[Side::Server] {
            Sent::Nothing => behind.iter().any(|&it| are_settings(bytes, it)),
            Sent::Magic | Sent::Settings => behind[1..].contains(&bytes),
            // A later answer may begin with a header of any size, but not with an empty frame.
            Sent::Header => bytes == FRAME_BYTES,
        };
        let sent =
            if self.sent[Side::Server] == Sent::Header { Sent::Header } else { Sent::Settings };
        is_control.then_some(sent)
    }
}

/// Returns whether `bytes` are those of SETTINGS, and `others` behind them.
fn are_settings(bytes: u16, others: u16) -> bool {
    let settings = bytes.checked_sub(FRAME_BYTES + others);
    settings.is_some_and(|it| it % SETTING_BYTES == 0 && it / SETTING_BYTES <= SETTINGS_MAX)
}
