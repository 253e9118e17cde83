//! Commands and replies in connections whose exchanges are turns of direction, and what else the messages
//! in progress say.

use super::{Framer, Machine};
use crate::app::dialogue::{Dialogue, Refused, Said};
use crate::app::error_code::ErrorCode;
use crate::app::exchanges::Feed;
use crate::app::known::KnownHeaders;
use crate::app::mark::Mark;
use crate::app::protocol::Protocol;
use crate::wire::{BySide, Side};

/// How what the two sides have sent last ended, one bit each.
#[derive(Clone, Copy, Default)]
pub(super) struct Spoken(u8);

impl Spoken {
    /// Either side has sent something.
    const BEGUN: u8 = 1 << 0;
    /// The last push of the client, and of the server, ended a line.
    const LINES: BySide<u8> = [1 << 1, 1 << 2];
    /// The client began like one of SOCKS, and the server answered so.
    const SOCKS: BySide<u8> = [1 << 3, 1 << 4];

    /// Returns whether either side has sent something.
    pub fn has_begun(self) -> bool {
        self.0 & Self::BEGUN != 0
    }

    /// Notes a push of `from`: `bytes`, after which `missing` bytes were not captured.
    pub fn note(&mut self, from: Side, bytes: &[u8], missing: u32) {
        let is_asked = from == Side::Client && !self.has_begun() && asks_socks(bytes);
        let [asked, answered] = Self::SOCKS;
        if is_asked {
            self.0 |= asked;
        } else if from == Side::Server && self.0 & (asked | answered) == asked {
            self.0 = if answers_socks(bytes) { self.0 | answered } else { self.0 & !asked };
        }
        let line = Self::LINES[from];
        let ends_line = missing == 0 && bytes.ends_with(b"\n");
        self.0 = self.0 & !line | Self::BEGUN | if ends_line { line } else { 0 };
    }

    /// Returns whether the last push of each side ended a line.
    fn are_lines(self) -> bool {
        Self::LINES.into_iter().all(|line| self.0 & line != 0)
    }
}

/// Returns whether `bytes` are the first message of a client of SOCKS: the list of its methods (RFC 1928 §3), or
/// the request of version 4, which a user's name and a zero end.
fn asks_socks(bytes: &[u8]) -> bool {
    const SOCKS4_BYTES: usize = 8;
    match bytes {
        [5, count, methods @ ..] => *count > 0 && methods.len() == usize::from(*count),
        [4, 1 | 2, .., 0] => bytes.len() > SOCKS4_BYTES,
        _ => false,
    }
}

/// Returns whether `bytes` are the answer to that: the method, or the result of version 4.
fn answers_socks(bytes: &[u8]) -> bool {
    matches!(bytes, [5, _] | [0, 0x5a..=0x5d, _, _, _, _, _, _])
}

impl Framer {
    /// Returns whether the connection began as one of SOCKS: the server is a proxy, which sets up a
    /// connection to another one.
    pub fn is_of_socks(&self) -> bool {
        self.spoken.0 & Spoken::SOCKS[Side::Server] != 0
    }

    /// Returns the protocol recognised last.
    pub fn protocol(&self) -> Protocol {
        let inside = self.spoken_by();
        if !std::ptr::eq(inside, self) {
            return match inside.protocol() {
                Protocol::Turns => Protocol::Tls,
                protocol => protocol,
            };
        }
        match &self.dialogue {
            _ if self.protocol != Protocol::Turns => self.protocol,
            _ if self.is_ssh => Protocol::Ssh,
            Some(dialogue) => dialogue.protocol(),
            None => Protocol::Turns,
        }
    }

    /// Returns whether all content of the response in progress has come, because its last chunk has
    /// (RFC 9112 §7.1): it is complete if the connection ends now (§8).
    pub fn has_last_chunk(&self) -> bool {
        matches!(&self.spoken_by().machine, Machine::Http(http) if http.has_last_chunk())
    }

    /// Returns whether events are streamed in chunks over HTTP/1, and the last chunk has not come.
    pub fn is_amid_stream_of_events(&self) -> bool {
        let lacks_end =
            |it: &Self| matches!(&it.machine, Machine::Http(it) if it.lacks_last_chunk());
        self.streams_events() && lacks_end(self.spoken_by())
    }

    /// Returns whether the server has sent only a preliminary reply to the last command of FTP (RFC
    /// 959 §4.2): the client waits for the final one, and the data goes over another connection.
    pub fn owes_final_reply(&self) -> bool {
        self.spoken_by().dialogue.as_ref().is_some_and(|it| it.is_preliminary())
    }

    /// Returns whether the server has begun a reply of POP3 with several lines and not ended it (RFC 1939
    /// §3): the client waits for the line with a dot alone.
    pub fn owes_lines(&self) -> bool {
        self.spoken_by().dialogue.as_ref().is_some_and(|it| it.is_listing())
    }

    /// Returns whether a transfer of FTP was refused because its client had prepared no connection for data.
    pub fn lacks_data_port(&self) -> bool {
        self.spoken_by().dialogue.as_ref().is_some_and(|it| it.lacks_data_port())
    }

    /// Returns whether the server has ended a session of commands and replies whose client was idle (SMTP's
    /// and FTP's 421, IMAP's BYE).
    pub fn is_ended_idle(&self) -> bool {
        self.dialogue.as_ref().is_some_and(|it| it.is_ended_idle())
    }

    /// Number of commands that the server refused and that only asked what it offers, or whether something
    /// exists: no errors.
    pub fn refused_offers(&self) -> u64 {
        self.spoken_by().dialogue.as_ref().map_or(0, |it| it.refused_offers().into())
    }

    /// Returns what the session was for and did not get, as far as commands and replies show it.
    pub fn refused(&self) -> Option<Refused> {
        self.spoken_by().dialogue.as_ref().and_then(|it| it.refused())
    }

    /// Returns whether both sides speak an unknown protocol, and what each sent last ended a line.
    pub fn speaks_lines(&self) -> bool {
        let it = self.spoken_by();
        it.protocol == Protocol::Turns && it.spoken.are_lines()
    }

    /// Returns whether a command waits for its reply, so that another one is pipelined (RFC 2920).
    pub(super) fn awaits_reply(&self) -> bool {
        self.spoken_by().dialogue.as_ref().is_some_and(|it| it.awaits_reply())
    }

    /// Returns whether the server is in the midst of a numbered reply.
    pub(super) fn is_replying(&self) -> bool {
        self.dialogue.as_ref().is_some_and(|it| it.is_replying())
    }

    /// Follows commands and replies. Returns what they say, each with the number of bytes before it.
    /// The bytes may be the first of the connection (`is_first`).
    pub(super) fn listen(
        &mut self,
        from: Side,
        bytes: &[u8],
        missing: u32,
        is_first: bool,
    ) -> Vec<(usize, Said)> {
        let mut said = Vec::new();
        let refusal =
            ErrorCode::of_ssh(bytes).filter(|_| from == Side::Server && self.dialogue.is_none());
        if let Some(code) = refusal.filter(|_| is_first || self.is_ssh) {
            self.is_ssh = true;
            said.push((0, Said::Error(code)));
        } else if is_first && from == Side::Server {
            self.dialogue = Dialogue::new(self.server_port, bytes);
        }
        if let Some(dialogue) = &mut self.dialogue {
            let goes_on = dialogue.take(from, bytes, &mut |at, it| said.push((at, it)));
            if missing > 0 {
                dialogue.lose(from);
            }
            if !goes_on {
                self.dialogue = None;
            }
        }
        said
    }

    /// Marks the kinds and errors of commands and replies.
    pub(super) fn mark_said(
        &mut self,
        bytes: &[u8],
        said: Vec<(usize, Said)>,
        known: &mut KnownHeaders,
        on: &mut dyn FnMut(u32, Mark<'_>),
    ) {
        if self.protocol != Protocol::Turns || self.exchanges.overlapping {
            return;
        }
        for (pos, it) in said {
            let exchanges = &mut self.exchanges;
            let mut feed = Feed { bytes, missing: 0, pos, pinned: None, exchanges, known, on };
            match it {
                Said::Kind(name) => feed.kind(&name.into()),
                Said::Error(code) => feed.error(code),
                Said::Next => feed.next_command(),
                Said::Replied => feed.response_end_before_next(),
                Said::Replies => {
                    feed.request_end();
                    feed.response_start();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socks_is_a_list_of_methods_and_the_choice_of_one() {
        let is_socks = |request: &[u8], answer: &[u8]| {
            let mut spoken = Spoken::default();
            spoken.note(Side::Client, request, 0);
            spoken.note(Side::Server, answer, 0);
            spoken.note(Side::Client, &[5, 1, 0, 1, 10, 0, 0, 1, 0, 80], 0);
            spoken.0 & Spoken::SOCKS[Side::Server] != 0
        };
        assert!(is_socks(&[5, 2, 0, 2], &[5, 0]));
        assert!(is_socks(&[4, 1, 0, 80, 10, 0, 0, 1, b'u', 0], &[0, 0x5a, 0, 0, 0, 0, 0, 0]));
        assert!(!is_socks(&[5, 2, 0], &[5, 0]), "a list of another length");
        assert!(!is_socks(&[5, 1, 0], &[5, 0, 0]), "no choice");
        assert!(!is_socks(b"\x05hello", &[5, 0]));
    }
}
