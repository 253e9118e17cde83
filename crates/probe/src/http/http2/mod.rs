//! HTTP/2 of a measuring client (RFC 9113), by the library `h2`, which is driven without a runtime:
//!
//! ```text
//! socket ─► bytes ─► Session (streams, windows) ─► events of each stream
//!                └─► frames: settings, windows, waits, GOAWAY, RST_STREAM
//! ```
//!
//! The server is not trusted: the library bounds header sections (64 KiB, also in CONTINUATION frames),
//! frames (16 KiB), resets and small frames; server push is switched off; bodies are counted and
//! discarded.

mod frames;
mod message;
mod pipe;
mod session;
#[cfg(test)]
mod session_tests;

pub use frames::{Code, GoAway, Seen, ServerSettings, WINDOW_BYTES, Wait};
pub use message::Prepared;
pub use session::{Event, Http2Error, OwnWindows, Session};

/// The first bytes of a client with prior knowledge: the connection preface and an empty `SETTINGS`
/// frame (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The name of HTTP/2 in ALPN (RFC 9113 §3.2).
pub const ALPN: &[u8] = b"h2";
/// Length of a frame's header, and of a parameter in `SETTINGS`, bytes (RFC 9113 §4.1, §6.5.1).
const HEADER_BYTES: usize = 9;
const PARAMETER_BYTES: u32 = 6;
/// Type of `SETTINGS`.
const SETTINGS: u8 = 4;

/// Returns whether bytes begin as those of a server that speaks HTTP/2: with a `SETTINGS` frame on
/// stream 0 that acknowledges nothing (RFC 9113 §3.4).
pub fn begins(bytes: &[u8]) -> bool {
    let Some(&[high, middle, low, kind, flags, ref stream @ ..]) =
        bytes.first_chunk::<HEADER_BYTES>()
    else {
        return false;
    };
    let length = u32::from_be_bytes([0, high, middle, low]);
    kind == SETTINGS && flags == 0 && *stream == [0; 4] && length.is_multiple_of(PARAMETER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_http2_begins_with_its_settings() {
        assert!(begins(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100]));
        assert!(begins(&[0, 0, 0, 4, 0, 0, 0, 0, 0]));
        let ack = [0, 0, 0, 4, 1, 0, 0, 0, 0];
        for other in [&ack[..], b"HTTP/1.1 200 OK", b"SSH-2.0-OpenSSH", &ack[..5], b""] {
            assert!(!begins(other), "{other:?}");
        }
    }
}
