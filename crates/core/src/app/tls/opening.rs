//! Opens the records of a connection, where keys were given.

use super::inside::{Content, Inside};
use super::{APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, HEADER_BYTES, Opening, Tickets, Tls};
use crate::app::exchanges::{Feed, Lost};
use crate::wire::Side;

impl Tls {
    /// Opens the records, if possible: the ClientHello follows. Without `inside` its handshake is not in
    /// the capture.
    pub fn with_keys(self, inside: Option<Inside>) -> Self {
        let opening = inside.as_ref().map_or(Opening::NoHandshake, |_| Opening::Open);
        Self { inside: inside.map(Box::new), opening, ..self }
    }

    /// Returns what the records hold, if they are opened.
    pub fn inside(&self) -> Option<&Inside> {
        self.inside.as_deref()
    }

    /// Returns what the records hold, if they are opened.
    pub fn inside_mut(&mut self) -> Option<&mut Inside> {
        self.inside.as_deref_mut()
    }

    /// Returns whether the records can be opened, and if not, why.
    pub fn opening(&self) -> Opening {
        self.opening
    }

    /// Returns the bytes of heap memory in use.
    pub fn heap_bytes(&self) -> usize {
        self.inside.as_ref().map_or(0, |it| size_of_val(&**it) + it.heap_bytes())
    }

    /// Processes missing bytes of the record of `from` that is being collected, if there is one. Returns
    /// the number of its bytes that are left.
    pub(super) fn lose_record(&mut self, from: Side, feed: &mut Feed<'_>) -> Option<u64> {
        let inside = self.inside.as_mut().filter(|it| it.is_collecting(from))?;
        let rest = inside.lacking_bytes(from);
        if let Err(why) = inside.lose(from, feed) {
            self.close(why);
        }
        Some(rest)
    }

    /// Gives up opening records, for this reason.
    fn close(&mut self, why: Opening) {
        self.inside = None;
        self.opening = match why {
            Opening::WrongKey | Opening::NoHandshake if self.done => Opening::OpenToHole,
            why => why,
        };
    }

    /// Begins to collect the record of `from` whose header was read last, if it can be opened or keys
    /// depend on it. Returns whether it does.
    pub(super) fn begins_to_collect(
        &mut self,
        from: Side,
        feed: &mut Feed<'_>,
    ) -> Result<bool, Lost> {
        let header = self.readers[from].header;
        let [content, _, _, length @ ..] = header;
        let Some(inside) = &mut self.inside else { return Ok(false) };
        let is_protected = inside.is_protected(from, content);
        if content == CHANGE_CIPHER_SPEC
            && let Err(why) = inside.change_cipher_spec(from)
        {
            self.close(why);
        }
        if content != HANDSHAKE && !is_protected {
            return Ok(false);
        }
        let start = feed.pos.saturating_sub(HEADER_BYTES);
        if let Some(inside) = &mut self.inside {
            inside.begin(from, &header, start);
        }
        // The header of a handshake record shows its meaning.
        if content == HANDSHAKE {
            self.record(from, content, u16::from_be_bytes(length), feed)?;
        }
        Ok(true)
    }

    /// Processes the record of `from` that was collected.
    pub(super) fn take_record(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<(), Lost> {
        let Some(inside) = &mut self.inside else { return Ok(()) };
        let (content, length) = inside.header(from);
        let is_protected = inside.is_protected(from, content);
        let taken = inside.take(from);
        let (hello, is_tls13) = (inside.server_hello().copied(), inside.is_tls13());
        if let Some(hello) = hello.filter(|_| from == Side::Server && content == HANDSHAKE) {
            self.server_hello(&hello);
        }
        match taken {
            Ok(Content::Handshake { is_finished }) if content == APPLICATION_DATA => {
                self.opened_handshake(from, length, is_finished, feed);
            }
            Ok(Content::Clear | Content::Handshake { .. }) => {}
            Ok(Content::Application(range)) => {
                if !self.done && from == Side::Client {
                    self.tls13 = is_tls13;
                    self.handshake_end(feed);
                }
                self.greets |= from == Side::Server && !feed.has_begun();
                if let Some(inside) = &mut self.inside {
                    inside.pass(from, range, feed);
                }
            }
            Ok(Content::Aside) => feed.aside(),
            Err(why) => {
                self.close(why);
                if is_protected && content != HANDSHAKE {
                    self.record(from, content, length, feed)?;
                }
            }
        }
        self.end_handshake_behind(from, feed);
        Ok(())
    }

    /// Processes a record of handshake messages of TLS 1.3 that was opened. Behind the handshake, they
    /// are tickets, key updates and the like (RFC 8446 §4.6).
    fn opened_handshake(
        &mut self,
        from: Side,
        length: u16,
        is_finished: bool,
        feed: &mut Feed<'_>,
    ) {
        match from {
            Side::Server if self.done => {
                let (record_bytes, count, behind_request) = (length, 1, feed.has_begun());
                self.tickets = Tickets::Seen { record_bytes, count, behind_request };
                feed.aside();
            }
            Side::Client if self.done => feed.aside(),
            Side::Server => self.count_encrypted_flight(length),
            Side::Client if is_finished => self.handshake_end(feed),
            Side::Client => {}
        }
    }
}
