//! Commands and replies in connections whose exchanges are turns of direction, and what else the messages
//! in progress say.

use super::{Framer, Machine};
use crate::app::dialogue::{Dialogue, Refused, Said};
use crate::app::exchanges::Feed;
use crate::app::known::KnownHeaders;
use crate::app::mark::Mark;
use crate::app::protocol::Protocol;
use crate::wire::Side;

impl Framer {
    /// Returns whether all content of the response in progress has come, because its last chunk has
    /// (RFC 9112 §7.1): it is complete if the connection ends now (§8).
    pub fn has_last_chunk(&self) -> bool {
        matches!(&self.machine, Machine::Http(http) if http.has_last_chunk())
    }

    /// Returns whether the server has sent only a preliminary reply to the last command of FTP (RFC
    /// 959 §4.2): the client waits for the final one, and the data goes over another connection.
    pub fn owes_final_reply(&self) -> bool {
        self.dialogue.as_ref().is_some_and(|it| it.is_preliminary())
    }

    /// Returns what the session was for and did not get, as far as commands and replies show it.
    pub fn refused(&self) -> Option<Refused> {
        self.dialogue.as_ref().and_then(|it| it.refused())
    }

    /// Follows commands and replies. Returns what they say, each with the number of bytes before it.
    pub(super) fn listen(&mut self, from: Side, bytes: &[u8], missing: u32) -> Vec<(usize, Said)> {
        let mut said = Vec::new();
        let is_first = !std::mem::replace(&mut self.begun, true);
        if is_first && from == Side::Server {
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
            let mut feed = Feed { bytes, pos, pinned: None, exchanges, known, on };
            match it {
                Said::Kind(name) => feed.kind(&name.into()),
                Said::Error(code) => feed.error(code),
            }
        }
    }
}
