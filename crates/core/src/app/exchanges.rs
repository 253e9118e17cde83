//! The order of marks: what parsers report passes through here and comes out well-formed.

use super::kind::{LABEL_BYTES, Label};
use super::known::KnownHeaders;
use super::mark::{Mark, Side};
use super::tls;
use crate::queue::Queue;

/// More unanswered requests than this are taken for a misunderstanding.
const WAITING_MAX: usize = 4096;

/// The first byte of a TLS handshake record; no request of another protocol begins with it.
const CLIENT_HELLO_RECORD: u8 = 22;

/// The first byte of a short HTTP/2 frame; few other greetings begin with it.
const SETTINGS_FRAME: u8 = 0;

/// The parser no longer understands the bytes.
#[derive(Debug)]
pub(super) struct Lost;

/// Facts about a request that its response's framing needs (RFC 9112 §6.3).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct RequestFlags(pub u8);

impl RequestFlags {
    /// The response has no body whatever its header says.
    pub const HEAD: Self = Self(1);
    /// A successful response turns the connection into a tunnel.
    pub const CONNECT: Self = Self(2);
}

/// How far a TLS handshake has been reported.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Handshake {
    #[default]
    Unseen,
    Started,
    Ended,
}

/// Which requests are open and which response is in progress.
#[derive(Clone, Default)]
pub(super) struct Exchanges {
    /// Requests begun whose response has not begun, oldest first.
    waiting: Queue<RequestFlags>,
    /// The request that the response in progress answers, if there is one.
    answering: Option<RequestFlags>,
    /// The start of the message that the parser is about to see was marked by the sniffer.
    anticipated: Option<Side>,
    handshake: Handshake,
    /// Kinds may show the values in them.
    pub shows_values: bool,
    sending: bool,
    kind_given: bool,
    request_header_given: bool,
    responding: bool,
    response_header_given: bool,
    software_given: [bool; 2],
    /// What is pushed comes amid a message of the other side, see [`super::Framer::set_amid`].
    pub amid: bool,
    /// Of the push: something in it belongs to an exchange, and something to none.
    pub spoke: bool,
    pub set_aside: bool,
}

/// Bytes of one push in the hands of a parser, and where its marks go.
pub(super) struct Feed<'a> {
    /// The captured bytes of the push.
    pub bytes: &'a [u8],
    /// How many of them are consumed; beyond their length where missing bytes were skipped.
    pub pos: usize,
    /// Where all marks go instead, while a sniffed prefix of earlier pushes is replayed.
    pub pinned: Option<u32>,
    pub exchanges: &'a mut Exchanges,
    /// Headers that came before.
    pub known: &'a mut KnownHeaders,
    pub on: &'a mut (dyn FnMut(u32, Mark<'_>) + 'a),
}

impl Exchanges {
    /// `from` is in the middle of a message.
    pub fn take_up(&mut self, from: Side) {
        match from {
            Side::Client => self.waiting.push_back(RequestFlags::default()),
            Side::Server => self.responding = true,
        }
    }

    /// The message whose start was anticipated belongs to no known protocol.
    pub fn forget_anticipated(&mut self) {
        self.anticipated = None;
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.waiting.heap_bytes()
    }

    /// Whether it has been told what `from` is.
    #[inline]
    pub fn knows_software(&self, from: Side) -> bool {
        self.software_given[from as usize]
    }

    /// `from` has said what it is.
    pub fn know_software(&mut self, from: Side) {
        self.software_given[from as usize] = true;
    }

    /// Whether no request is under way or waits, and the next will be none amid another's answer.
    pub fn is_at_rest(&self) -> bool {
        !self.amid && !self.sending && self.anticipated.is_none() && self.waiting.is_empty()
    }

    /// A request begins, says what it is and ends. Answers whether it is that simple, or nothing
    /// was done.
    #[inline]
    pub fn ask_whole(&mut self, flags: RequestFlags) -> bool {
        if self.anticipated.is_some() || self.sending || self.waiting.len() >= WAITING_MAX {
            return false;
        }
        (self.spoke, self.set_aside) = (true, false);
        self.waiting.push_back(flags);
        (self.kind_given, self.request_header_given) = (true, true);
        true
    }

    /// The response to a request that asked for nothing special begins and ends. Answers whether
    /// it is that simple, or nothing was done.
    #[inline]
    pub fn answer_whole(&mut self) -> bool {
        let plain = self.waiting.front() == Some(&RequestFlags::default());
        if !plain || self.anticipated.is_some() {
            return false;
        }
        (self.spoke, self.set_aside) = (true, false);
        self.answering = self.waiting.pop_front();
        (self.responding, self.response_header_given) = (false, true);
        true
    }

    /// Whether the connection's ClientHello has been seen before.
    pub fn is_handshake_over(&self) -> bool {
        self.handshake == Handshake::Ended
    }
}

impl<'a> Feed<'a> {
    /// The captured bytes not yet consumed.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or_default()
    }

    /// Consumes and returns the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.pos)?;
        self.pos += 1;
        Some(byte)
    }

    fn mark(&mut self, mark: Mark<'_>) {
        let at = self.pinned.unwrap_or_else(|| u32::try_from(self.pos).unwrap_or(u32::MAX));
        (self.on)(at, mark);
    }

    /// Marks a message's start ahead of knowing its protocol; the parser's own mark is swallowed.
    pub fn anticipate(&mut self, from: Side) {
        match (from, self.rest()) {
            (Side::Client, [CLIENT_HELLO_RECORD, ..]) => self.handshake_start(),
            // A message, or what nobody waits for: its sniffer will say.
            (Side::Server, [SETTINGS_FRAME, ..]) => {}
            (_, bytes) if tls::begins_with_alert(bytes) => {}
            _ => {
                self.turn(from);
                self.exchanges.anticipated = Some(from);
            }
        }
    }

    /// Whether the start of the message that comes was marked before it was known what it is.
    pub fn is_anticipated(&self) -> bool {
        self.exchanges.anticipated.is_some()
    }

    fn was_anticipated(&mut self, from: Side) -> bool {
        let hit = self.exchanges.anticipated == Some(from);
        if hit {
            self.exchanges.anticipated = None;
        }
        hit
    }

    /// Bytes of an unknown protocol: a turn of direction begins a request or a response.
    pub fn turn(&mut self, from: Side) {
        self.exchanges.spoke = true;
        // Its start has been marked; what comes next from this side is another.
        if self.was_anticipated(from) || self.exchanges.amid {
            return;
        }
        let waiting = !self.exchanges.waiting.is_empty();
        match from {
            Side::Client if !waiting => self.request_start(),
            Side::Server if waiting => {
                self.request_end();
                self.response_start();
            }
            Side::Server if !self.exchanges.responding => self.response_start(),
            _ => {}
        }
    }

    /// What passes keeps the connection going or ends it, and belongs to no exchange.
    pub fn aside(&mut self) {
        self.exchanges.anticipated = None;
        self.exchanges.set_aside = true;
    }

    pub fn request_start(&mut self) {
        self.exchanges.spoke = true;
        if self.was_anticipated(Side::Client) {
            return;
        }
        self.request_end();
        if self.exchanges.waiting.len() >= WAITING_MAX {
            self.desync();
        }
        let exchanges = &mut *self.exchanges;
        exchanges.waiting.push_back(RequestFlags::default());
        exchanges.sending = true;
        exchanges.kind_given = false;
        exchanges.request_header_given = false;
        self.mark(Mark::RequestStart);
    }

    /// Sets what the response to the newest request depends on.
    pub fn request_flags(&mut self, flags: RequestFlags) {
        if let Some(newest) = self.exchanges.waiting.back_mut() {
            *newest = flags;
        }
    }

    pub fn kind(&mut self, kind: &Label) {
        if self.exchanges.sending && !self.exchanges.kind_given && !kind.is_empty() {
            self.exchanges.kind_given = true;
            self.mark(Mark::Kind(kind));
        }
    }

    pub fn request_header_end(&mut self, expects_continue: bool) {
        if self.exchanges.sending && !self.exchanges.request_header_given {
            self.exchanges.request_header_given = true;
            self.mark(Mark::RequestHeaderEnd { expects_continue });
        }
    }

    pub fn request_end(&mut self) {
        if self.exchanges.sending {
            self.exchanges.sending = false;
            self.mark(Mark::RequestEnd);
        }
    }

    pub fn response_start(&mut self) {
        self.exchanges.spoke = true;
        if self.was_anticipated(Side::Server) {
            return;
        }
        let exchanges = &mut *self.exchanges;
        exchanges.answering = exchanges.waiting.pop_front();
        exchanges.responding = true;
        exchanges.response_header_given = false;
        self.mark(Mark::ResponseStart);
    }

    /// What was said of the request that the response in progress answers.
    pub fn answering(&self) -> RequestFlags {
        self.exchanges.answering.unwrap_or_default()
    }

    /// Whether a response is in progress.
    pub fn is_responding(&self) -> bool {
        self.exchanges.responding
    }

    /// Whether a request waits for its response.
    pub fn is_waiting(&self) -> bool {
        !self.exchanges.waiting.is_empty()
    }

    /// Whether a request waits for its response or a response is in progress.
    pub fn has_begun(&self) -> bool {
        self.exchanges.responding || !self.exchanges.waiting.is_empty()
    }

    pub fn interim(&mut self, status: u16) {
        if self.exchanges.responding {
            self.exchanges.responding = false;
            if let Some(flags) = self.exchanges.answering.take() {
                self.exchanges.waiting.push_front(flags);
            }
            self.mark(Mark::Interim { status });
        }
    }

    pub fn response_header_end(&mut self, status: u16) {
        if self.exchanges.responding && !self.exchanges.response_header_given {
            self.exchanges.response_header_given = true;
            self.mark(Mark::ResponseHeaderEnd { status });
        }
    }

    pub fn response_end(&mut self) {
        if self.exchanges.responding {
            self.exchanges.responding = false;
            self.mark(Mark::ResponseEnd);
        }
    }

    /// Given once per side: what a connection's ends are does not change on the way.
    pub fn software(&mut self, from: Side, software: &[u8]) {
        let given = &mut self.exchanges.software_given[from as usize];
        if *given {
            return;
        }
        if let Some(name) = name_of(software) {
            *given = true;
            self.mark(Mark::Software(name));
        }
    }

    pub fn handshake_start(&mut self) {
        if self.exchanges.handshake == Handshake::Unseen {
            self.exchanges.handshake = Handshake::Started;
            self.mark(Mark::HandshakeStart);
        }
    }

    pub fn handshake_end(&mut self, resumed: bool, certificate_bytes: u32) {
        if self.exchanges.handshake == Handshake::Started {
            self.exchanges.handshake = Handshake::Ended;
            self.mark(Mark::HandshakeEnd { resumed, certificate_bytes });
        }
    }

    pub fn desync(&mut self) {
        let exchanges = &mut *self.exchanges;
        exchanges.anticipated = None;
        while exchanges.waiting.len() > 1 {
            exchanges.waiting.pop_front();
        }
        self.mark(Mark::Desync);
    }
}

/// What somebody who says that he is `software` is called.
pub(super) fn name_of(software: &[u8]) -> Option<&str> {
    std::str::from_utf8(software).ok().map(|software| cut(software.trim()))
}

/// At most [`LABEL_BYTES`] of `text`.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(LABEL_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
