//! Replies of SMTP, FTP, POP3 and IMAP, in which a client sends commands as lines, and its server
//! states of each whether it succeeded.
//!
//! Read first: RFC 5321 §4.2 (SMTP), RFC 959 §4.2 and §5.4 (FTP), RFC 1939 §3 (POP3), RFC 9051 §2.2
//! and §7.1 (IMAP). Exchanges of these protocols are turns of direction. Followed is only which
//! command a reply answers, for the kinds of requests and for their errors:
//!
//! ```text
//! numbered  1yz preliminary · 2yz done · 3yz the client continues · 4yz refused for now · 5yz refused
//!           6yz a reply of FTP that is encrypted (RFC 2228 §5.1)
//! POP3      +OK · -ERR · + the client continues
//! IMAP      tag OK · tag NO · tag BAD · + the client continues · * data
//! ```
//!
//! Commands with numbered replies that were sent together (RFC 2920) are an exchange each: the server works on
//! one after the other, and replies in their order. Whether a mail is accepted shows the last reply: one
//! recipient of several may be refused. A reply that no command waits for, such as 421 after an idle time,
//! belongs to no exchange.

mod line;

use super::commands::{self, Command};
use super::error_code::ErrorCode;
use super::protocol::Protocol;
use super::reply::{BAD, BYE, EnhancedStatus, LOGIN, NO, OWN, OWN_REASONS, Service, number};
use crate::queue::Queue;
use crate::wire::{BySide, Side};
use line::{LINE_BYTES, Line};
use memchr::memchr;

/// Greatest length of a tag of IMAP that is followed, bytes.
const TAG_BYTES: usize = 16;
/// Greatest number of commands without a reply that are followed. Source: judgement; clients send a few hundred
/// recipients at most (RFC 5321 §4.5.3.1.8: at least 100 are accepted).
const COMMANDS_MAX: usize = 1024;
/// Greatest length of a command with which a session is recognised from its middle, bytes.
const AMID_BYTES: usize = 256;

/// What a session was begun for and did not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Each login was refused.
    Login,
    /// Each mail was refused.
    Mail,
    /// Each mail was refused by a submission server that offers AUTH (RFC 6409 §4.3), which the client did
    /// not use.
    MailWithoutLogin,
}

/// A statement of a line, for the marks.
pub(super) enum Said {
    Kind(&'static str),
    Error(ErrorCode),
    /// Another command begins, and the one before has no reply yet.
    Next,
    /// A reply is complete, and another is due.
    Replied,
    /// The next reply begins in the same push.
    Replies,
}

/// Progress of what a session is for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Untried,
    Refused,
    Accepted,
}

impl Progress {
    fn note(&mut self, accepts: bool, refuses: bool) {
        *self = match *self {
            _ if accepts => Self::Accepted,
            Self::Untried if refuses => Self::Refused,
            other => other,
        };
    }
}

/// What the client sends next.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Commands,
    /// More of the command that is not over.
    Continuation,
    /// A mail.
    Content,
}

/// State of one connection.
#[derive(Clone, Default)]
pub(super) struct Dialogue {
    /// `None` before the greeting is complete.
    service: Option<Service>,
    server_port: u16,
    lines: BySide<Line>,
    /// Commands without a final reply.
    waiting: u32,
    /// Those of them before the last one, oldest first, if replies are numbered.
    earlier: Queue<Command>,
    /// One of the commands that were sent together was refused.
    has_refused: bool,
    /// The last command; its name is empty if it is not listed.
    command: Command,
    tag: [u8; TAG_BYTES],
    tag_bytes: usize,
    /// Code of the reply whose further lines are awaited, or 0.
    multiline: u16,
    mode: Mode,
    /// Bytes of a chunk (RFC 3030 §2) that are no lines.
    chunk_left: u64,
    /// Bytes are missing: a command may wait that was not seen.
    has_lost: bool,
    /// The server has sent something since the client's last message.
    has_replied: bool,
    is_preliminary: bool,
    is_ended_idle: bool,
    /// Number of refusals that are no errors: the client asked what the server offers.
    refused_offers: u16,
    /// The client waits for changes of its mailbox (RFC 9051 §6.3.13), and has not sent DONE.
    is_idling: bool,
    /// A positive reply to the last command of POP3 has more lines, up to one with a dot alone (RFC 1939
    /// §3).
    has_list: bool,
    /// Such a reply has begun.
    is_listing: bool,
    /// A connection for data was prepared, by the client's port or by the server's (RFC 959 §3.2).
    has_data_port: bool,
    /// A transfer was refused for want of a connection for data, and none had been prepared.
    lacks_data_port: bool,
    /// The capture begins amid the session, and no reply has confirmed the protocol.
    is_tentative: bool,
    login: Progress,
    mail: Progress,
    /// The server offers AUTH (RFC 4954 §3).
    offers_login: bool,
    /// The server refused a mail for its policy or its sender (RFC 3463 §3.8, RFC 4954 §6).
    wants_login: bool,
}

/// Ports at which clients submit mail (RFC 6409 §3.1, RFC 8314 §3.3).
const SUBMISSION_PORTS: [u16; 2] = [465, 587];

impl Dialogue {
    /// Begins with the first bytes of a server; `None` if they are no greeting.
    pub fn new(server_port: u16, bytes: &[u8]) -> Option<Box<Self>> {
        let may_greet = matches!(bytes.first(), Some(b'1' | b'2' | b'4' | b'5' | b'+' | b'*'));
        may_greet.then(|| Box::new(Self { server_port, ..Self::default() }))
    }

    /// Begins amid a session of IMAP with a client's command; `None` if `bytes` are none. Its tag and its name
    /// are those of no other protocol, and the server's reply has to confirm it.
    pub fn amid(server_port: u16, bytes: &[u8]) -> Option<Box<Self>> {
        let end = memchr(b'\n', &bytes[..bytes.len().min(AMID_BYTES)])?;
        let mut words = bytes[..end].strip_suffix(b"\r")?.split(|&byte| byte == b' ');
        let tag = words.next()?;
        let is_tag = (1..=TAG_BYTES).contains(&tag.len())
            && tag.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'.');
        let is_known = commands::is_of_imap(commands::find(words.next()?).name);
        let service = Some(Service::Imap);
        let amid = Self { server_port, service, is_tentative: true, ..Self::default() };
        (is_tag && is_known).then(|| Box::new(amid))
    }

    /// Returns the bytes of memory in use.
    pub fn bytes(&self) -> usize {
        size_of_val(self) + self.earlier.heap_bytes()
    }

    /// Returns whether replies are numbered, so that each ends with its last line.
    fn is_numbered(&self) -> bool {
        matches!(self.service, Some(Service::Numbered | Service::Smtp | Service::Ftp))
    }

    /// Returns whether a command waits for its numbered reply, of which nothing has come.
    pub fn awaits_reply(&self) -> bool {
        self.is_numbered() && self.waiting > 0 && !self.is_preliminary
    }

    /// Returns whether the server is in the midst of a numbered reply.
    pub fn is_replying(&self) -> bool {
        self.is_numbered() && (self.lines[1].len > 0 || self.multiline != 0)
    }

    /// Returns whether a reply of several lines has begun, and the line with a dot alone has not come that
    /// ends it.
    pub fn is_listing(&self) -> bool {
        self.is_listing
    }

    /// Returns whether the server refused a transfer of FTP because there was no connection for data, and the
    /// client had asked for none by PORT or PASV, though the session was seen from its beginning.
    pub fn lacks_data_port(&self) -> bool {
        self.lacks_data_port
    }

    /// Returns whether the last reply was a preliminary one.
    pub fn is_preliminary(&self) -> bool {
        self.is_preliminary
    }

    /// Returns whether `bytes`, the next of the server, end the session although no command waits: the
    /// client was idle (RFC 5321 §3.8, RFC 959 §5.4, RFC 9051 §7.1.5). The code of that is 421; some
    /// servers send another that is temporary.
    pub fn ends_unasked(&mut self, bytes: &[u8]) -> bool {
        let rests = self.waiting == 0
            && self.mode == Mode::Commands
            && self.multiline == 0
            && self.lines.iter().all(|line| line.len == 0);
        let ends = match self.service {
            None | Some(Service::Pop3) => false,
            Some(Service::Imap) => bytes.starts_with(b"* BYE"),
            Some(_) => number(bytes).is_some_and(|(code, _)| {
                code == 421 || (400..500).contains(&code) && !self.has_lost
            }),
        };
        self.is_ended_idle |= rests && ends;
        rests && ends
    }

    /// Returns whether `bytes`, the next of the server, are changes of the mailbox for which the client of
    /// IMAP idles: they answer nothing until it sends DONE (RFC 2177 §3).
    pub fn is_told_idle(&self, bytes: &[u8]) -> bool {
        self.is_idling && self.lines[1].len == 0 && bytes.starts_with(b"* ")
    }

    /// Returns whether the server has ended the session so.
    pub fn is_ended_idle(&self) -> bool {
        self.is_ended_idle
    }

    /// Number of refusals that are no errors, see [`commands::is_offer`].
    pub fn refused_offers(&self) -> u16 {
        self.refused_offers
    }

    /// Returns the protocol, once a greeting or a command has shown it.
    pub fn protocol(&self) -> Protocol {
        match self.service {
            _ if self.is_tentative => Protocol::Turns,
            Some(Service::Smtp) => Protocol::Smtp,
            Some(Service::Ftp) => Protocol::Ftp,
            Some(Service::Pop3) => Protocol::Pop3,
            Some(Service::Imap) => Protocol::Imap,
            None | Some(Service::Numbered) => Protocol::Turns,
        }
    }

    /// Returns what the session did not get, if it tried.
    pub fn refused(&self) -> Option<Refused> {
        match (self.login, self.mail) {
            (Progress::Refused, _) => Some(Refused::Login),
            (Progress::Untried, Progress::Refused)
                if self.offers_login
                    && self.wants_login
                    && SUBMISSION_PORTS.contains(&self.server_port) =>
            {
                Some(Refused::MailWithoutLogin)
            }
            (_, Progress::Refused) => Some(Refused::Mail),
            _ => None,
        }
    }

    /// Processes bytes of one side; `on` receives what they say with the number of bytes before it.
    /// Returns `false` if this is not or no longer such a protocol.
    pub fn take(&mut self, from: Side, bytes: &[u8], on: &mut dyn FnMut(usize, Said)) -> bool {
        match from {
            Side::Client => self.client(bytes, on),
            Side::Server => self.server(bytes, on),
        }
    }

    /// Processes missing bytes of `from`: what they said is not known.
    pub fn lose(&mut self, from: Side) {
        self.lines[from] = Line::default();
        (self.waiting, self.multiline, self.chunk_left) = (0, 0, 0);
        self.earlier.clear();
        (self.is_idling, self.is_listing) = (false, false);
        self.tag_bytes = 0;
        self.has_lost = true;
        if from == Side::Server {
            self.mode = Mode::Commands;
        }
    }

    fn client(&mut self, bytes: &[u8], on: &mut dyn FnMut(usize, Said)) -> bool {
        const TLS_HANDSHAKE: u8 = 22;
        let encrypts = self.mode == Mode::Commands && bytes.first() == Some(&TLS_HANDSHAKE);
        if self.service.is_none() || encrypts {
            return false;
        }
        if self.is_preliminary && self.earlier.is_empty() {
            // The client does not wait for the final reply.
            self.waiting = 0;
        }
        // A client that goes on does not wait for more of a list.
        (self.is_preliminary, self.is_idling, self.is_listing) = (false, false, false);
        let is_new = std::mem::take(&mut self.has_replied);
        if self.mode != Mode::Commands {
            if is_new {
                on(0, Said::Kind(self.command.name));
                self.waiting = 1;
            }
            return true;
        }
        let mut pos = 0;
        while pos < bytes.len() {
            if self.chunk_left > 0 {
                let skipped = self.chunk_left.min((bytes.len() - pos) as u64);
                self.chunk_left -= skipped;
                pos += skipped as usize;
                continue;
            }
            if self.lines[0].len == 0 && self.awaits_reply() {
                if self.command.name == "DATA" {
                    // No command is sent behind it (RFC 2920 §3.1): this is the mail.
                    return true;
                }
                on(pos, Said::Next);
            }
            if let Some(line) = self.lines[0].take(bytes, &mut pos) {
                self.command(line.text());
                on(pos, Said::Kind(self.command.name));
            }
        }
        self.earlier.len() < COMMANDS_MAX
    }

    /// Processes a command.
    fn command(&mut self, line: &[u8]) {
        if self.waiting == 0 {
            self.has_refused = false;
        } else if self.is_numbered() {
            self.earlier.push_back(self.command);
        }
        self.waiting = self.waiting.saturating_add(1);
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        if self.service == Some(Service::Imap) {
            let tag = words.next().unwrap_or_default();
            self.tag_bytes = if tag.len() <= TAG_BYTES { tag.len() } else { 0 };
            self.tag[..self.tag_bytes].copy_from_slice(&tag[..self.tag_bytes]);
        }
        self.command = commands::find(words.next().unwrap_or_default());
        if self.command.name == "UID" {
            // RFC 9051 §6.4.9: it is a prefix of the command.
            self.command.name = commands::by_uid(words.next().unwrap_or_default());
        }
        if self.service == Some(Service::Numbered) {
            self.service = Some(match self.command.of {
                commands::OF_MAIL => Service::Smtp,
                commands::OF_FILES => Service::Ftp,
                _ => Service::Numbered,
            });
        }
        // A mechanism and an initial response (RFC 4954 §4, RFC 5034 §4, RFC 9051 §6.2.2).
        if commands::AUTHENTICATIONS.contains(&self.command.name) {
            self.command.logs_in = self.service != Some(Service::Ftp) && words.clone().count() > 1;
        }
        self.has_list = match self.command.name {
            "RETR" | "TOP" | "CAPA" => true,
            "LIST" | "UIDL" => words.clone().next().is_none(),
            _ => false,
        };
        self.has_data_port |= commands::DATA_PORTS.contains(&self.command.name);
        if self.command.name == "BDAT" {
            self.chunk_left = chunk_bytes(words).unwrap_or(0);
        }
    }

    fn server(&mut self, bytes: &[u8], on: &mut dyn FnMut(usize, Said)) -> bool {
        self.has_replied = true;
        if std::mem::take(&mut self.is_tentative) {
            let tag = &self.tag[..self.tag_bytes];
            let has_tag = !tag.is_empty() && bytes.starts_with(tag);
            if !(bytes.starts_with(b"* ") || bytes.starts_with(b"+ ") || has_tag) {
                return false;
            }
        }
        let mut pos = 0;
        while pos < bytes.len() {
            let Some(line) = self.lines[1].take(bytes, &mut pos) else {
                // A greeting without an end in sight is that of another protocol.
                return self.service.is_some() || self.lines[1].len < LINE_BYTES;
            };
            let waiting = self.waiting;
            let code = match self.service {
                None => match self.greeting(line.text()) {
                    Some(code) => code,
                    None => return false,
                },
                Some(Service::Imap) => self.tagged(line.text()),
                Some(Service::Pop3) => self.signed(line.text()),
                Some(_) => self.numbered(line.text()),
            };
            if let Some(code) = code {
                let service = self.service.unwrap_or(Service::Numbered);
                let status = EnhancedStatus::of(code, line.text().get(4..).unwrap_or_default());
                let status = status.filter(|_| service == Service::Smtp);
                on(pos, Said::Error(ErrorCode::Reply(service, code, status)));
            }
            if waiting > self.waiting && self.awaits_reply() {
                on(pos, Said::Replied);
                if pos < bytes.len() {
                    on(pos, Said::Replies);
                }
            }
        }
        true
    }

    /// Processes the first line of a server: the inner value is the code with which it refuses the
    /// session (RFC 5321 §3.1, RFC 959 §5.4, RFC 9051 §7.1.5).
    fn greeting(&mut self, line: &[u8]) -> Option<Option<u16>> {
        let (service, code) = match line {
            [b'+', b'O', b'K', ..] => (Service::Pop3, None),
            _ if line.starts_with(b"* OK") || line.starts_with(b"* PREAUTH") => {
                (Service::Imap, None)
            }
            _ if line.starts_with(b"* BYE") => (Service::Imap, Some(BYE)),
            _ => {
                let (code, is_last) = number(line).filter(|_| line.len() > 3)?;
                self.multiline = if is_last { 0 } else { code };
                let refused = match code {
                    120 | 220 => None,
                    421 | 521 | 554 => Some(code),
                    _ => return None,
                };
                // Only the port tells these two apart before the first command.
                let named = match self.server_port {
                    21 => Service::Ftp,
                    25 | 465 | 587 => Service::Smtp,
                    _ => Service::Numbered,
                };
                (if refused.is_some() { named } else { Service::Numbered }, refused)
            }
        };
        self.service = Some(service);
        Some(code)
    }

    /// Processes a line of a numbered reply. Returns the code if the reply is an error.
    fn numbered(&mut self, line: &[u8]) -> Option<u16> {
        let Some((code, is_last)) = number(line) else {
            if self.multiline == 0 {
                // Which command it answers is not known.
                self.waiting = 0;
                self.earlier.clear();
            }
            return None;
        };
        if self.multiline != 0 && code != self.multiline {
            return None;
        }
        self.multiline = if is_last { 0 } else { code };
        let text = line.get(4..).unwrap_or_default();
        let command = self.earlier.front().copied().unwrap_or(self.command);
        self.offers_login |= command.name == "EHLO" && code == 250 && offers_login(text);
        if !is_last {
            return None;
        }
        // RFC 959 §4.2.1: the final reply follows.
        self.is_preliminary = code < 200;
        if self.is_preliminary || self.waiting == 0 {
            return None;
        }
        self.waiting -= 1;
        let command = self.earlier.pop_front().unwrap_or(self.command);
        let is_policy = code == 530 || code == 553 || code > 500 && text.starts_with(b"5.7.");
        self.wants_login |= command.sends_mail && is_policy;
        self.mode = match (self.service, code) {
            (_, 354) => Mode::Content,
            (Some(Service::Smtp), 334) => Mode::Continuation,
            _ if self.mode == Mode::Content => {
                self.lines[0] = Line::default();
                Mode::Commands
            }
            _ => Mode::Commands,
        };
        match self.mode {
            Mode::Content => self.command = commands::MESSAGE,
            Mode::Continuation => self.command.logs_in = true,
            Mode::Commands => {}
        }
        if (300..400).contains(&code) {
            return None;
        }
        self.lacks_data_port |= matches!(code, 425 | 426) && !self.has_data_port && !self.has_lost;
        self.finish(command, !(300..600).contains(&code), code)
    }

    /// Processes a line of POP3. Returns the code if it is an error.
    fn signed(&mut self, line: &[u8]) -> Option<u16> {
        let is_done = line.starts_with(b"+OK");
        let is_error = line.starts_with(b"-ERR");
        if self.is_listing {
            self.is_listing = line != b".";
            return None;
        }
        if self.waiting == 0 || !(is_done || is_error || line.first() == Some(&b'+')) {
            return None;
        }
        self.waiting -= 1;
        self.mode = if is_done || is_error { Mode::Commands } else { Mode::Continuation };
        if self.mode == Mode::Continuation {
            self.command.logs_in = true;
            return None;
        }
        // Of several commands that wait, only the last one is known.
        self.is_listing = is_done && self.has_list && self.waiting == 0;
        let code = self.reason(line);
        self.finish(self.command, is_done, code)
    }

    /// Processes a line of IMAP. Returns the code if it is an error.
    fn tagged(&mut self, line: &[u8]) -> Option<u16> {
        if line.first() == Some(&b'+') {
            if self.waiting > 0 {
                self.mode = Mode::Continuation;
                self.is_idling = self.command.name == "IDLE";
                self.command.logs_in |= commands::AUTHENTICATIONS.contains(&self.command.name);
            }
            return None;
        }
        let tag = &self.tag[..self.tag_bytes];
        let rest = line.strip_prefix(tag).filter(|_| self.waiting > 0 && !tag.is_empty())?;
        let result = rest.strip_prefix(b" ")?;
        let is =
            |word: &[u8]| result.get(..word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word));
        let (is_done, is_bad) = (is(b"OK"), is(b"BAD"));
        if !(is_done || is_bad || is(b"NO")) {
            return None;
        }
        // The last tag is that of the last command.
        self.waiting = 0;
        self.mode = Mode::Commands;
        let code = if is_bad { BAD } else { self.reason(result) };
        self.finish(self.command, is_done, code)
    }

    /// Returns the code of a refusal of POP3 or IMAP, by its response code and its command.
    fn reason(&self, line: &[u8]) -> u16 {
        let has = |reason: &&[u8]| memchr::memmem::find(line, reason).is_some();
        match OWN_REASONS.iter().any(has) {
            true => OWN,
            false if self.command.logs_in => LOGIN,
            false => NO,
        }
    }

    /// Ends the wait of `command` for its reply. Returns the code if that is an error. A command that needs
    /// what another one before it was to do is refused because of that.
    fn finish(&mut self, command: Command, is_done: bool, code: u16) -> Option<u16> {
        let service = self.service?;
        let is_last = self.waiting == 0;
        let is_offer = !is_done && commands::is_offer(service, &command, code);
        self.refused_offers = self.refused_offers.saturating_add(is_offer.into());
        let is_error = !is_done && !is_offer;
        let follows = self.has_refused && service == Service::Smtp && matches!(code, 503 | 554);
        self.has_refused |= is_error;
        // USER of POP3 is only the first half of a login, and of a mail only the last step counts.
        let (accepts, refuses) = (is_done && is_last, is_error && is_last);
        if command.logs_in {
            let is_half = service == Service::Pop3 && command.name == "USER";
            self.login.note(accepts && !is_half, refuses);
        }
        if service == Service::Smtp && command.sends_mail {
            self.mail.note(accepts && command.delivers, refuses);
        }
        (is_error && !follows && (is_last || self.is_numbered())).then_some(code)
    }
}

/// Number of bytes of the chunk that BDAT with these words announces: a number, and perhaps LAST (RFC 3030
/// §2). `None` if the command has other words: no chunk follows what is refused.
fn chunk_bytes<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<u64> {
    let bytes = std::str::from_utf8(words.next()?).ok()?.parse::<u32>().ok()?;
    let is_last = |word: &[u8]| word.eq_ignore_ascii_case(b"LAST");
    let is_whole = words.next().is_none_or(is_last) && words.next().is_none();
    is_whole.then(|| bytes.into())
}

/// Returns whether a line of the reply to EHLO offers AUTH; some servers write it with `=`.
fn offers_login(text: &[u8]) -> bool {
    let word = text.first_chunk::<4>().is_some_and(|word| word.eq_ignore_ascii_case(b"AUTH"));
    word && matches!(text.get(4), None | Some(b' ' | b'='))
}
