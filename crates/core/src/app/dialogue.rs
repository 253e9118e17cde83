//! Replies of SMTP, FTP, POP3 and IMAP, in which a client sends commands as lines, and its server
//! states of each whether it succeeded.
//!
//! Read first: RFC 5321 §4.2 (SMTP), RFC 959 §4.2 and §5.4 (FTP), RFC 1939 §3 (POP3), RFC 9051 §2.2
//! and §7.1 (IMAP). Exchanges of these protocols are turns of direction. Followed is only which
//! command a reply answers, for the kinds of requests and for their errors:
//!
//! ```text
//! numbered  1yz preliminary · 2yz done · 3yz the client continues · 4yz refused for now · 5yz refused
//! POP3      +OK · -ERR · + the client continues
//! IMAP      tag OK · tag NO · tag BAD · + the client continues · * data
//! ```
//!
//! Of commands that were sent together (RFC 2920) only the reply to the last decides, and the first
//! error is that of all: one recipient of several may be refused. A reply that no command waits for,
//! such as 421 after an idle time, belongs to no exchange.

use super::commands::{self, Command};
use super::error_code::ErrorCode;
use super::protocol::Protocol;
use crate::wire::{BySide, Side};
use memchr::memchr;
use std::fmt;

/// Number of bytes at the beginning of a line that are read: a tag and a command, or a reply's code.
const LINE_BYTES: usize = 40;
/// Greatest length of a tag of IMAP that is followed, bytes.
const TAG_BYTES: usize = 16;
/// Greatest length of a command with which a session is recognised from its middle, bytes.
const AMID_BYTES: usize = 256;

/// A protocol of commands and replies.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize,
)]
pub enum Service {
    /// Numbered replies, before a command has shown whose.
    Numbered,
    /// Simple Mail Transfer Protocol.
    Smtp,
    /// File Transfer Protocol.
    Ftp,
    /// Post Office Protocol, version 3.
    Pop3,
    /// Internet Message Access Protocol.
    Imap,
}

/// Code of a reply of POP3 or IMAP: `-ERR`, `NO`.
pub(super) const NO: u16 = 0;
/// `BAD`, or a refused greeting, `BYE`.
pub(super) const BAD: u16 = 1;
pub(super) const BYE: u16 = 2;
/// A login is refused.
pub(super) const LOGIN: u16 = 3;
/// The server states that the reason is its own (RFC 9051 §7.1, RFC 2449 §8.1, RFC 3206 §4).
pub(super) const OWN: u16 = 4;

/// Response codes of replies whose reason is the server's own.
const OWN_REASONS: [&[u8]; 5] =
    [b"[UNAVAILABLE]", b"[SERVERBUG]", b"[INUSE]", b"[IN-USE]", b"[SYS/"];

impl Service {
    pub(super) fn is_of_server(self, code: u16) -> bool {
        match self {
            // RFC 5321 §4.2.1, RFC 959 §4.2.1: the same command may succeed later.
            Self::Numbered | Self::Smtp | Self::Ftp => (400..500).contains(&code),
            Self::Pop3 | Self::Imap => matches!(code, OWN | BYE),
        }
    }

    pub(super) fn write(self, code: u16, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numbered => write!(f, "reply {code}"),
            Self::Smtp => write!(f, "SMTP {code}"),
            Self::Ftp => write!(f, "FTP {code}"),
            Self::Pop3 => f.write_str("POP3 -ERR"),
            Self::Imap => f.write_str(match code {
                BAD => "IMAP BAD",
                BYE => "IMAP BYE",
                _ => "IMAP NO",
            }),
        }
    }
}

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

/// The beginning of the current line of a side.
#[derive(Clone, Copy)]
struct Line {
    bytes: [u8; LINE_BYTES],
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; LINE_BYTES], len: 0 }
    }
}

impl Line {
    /// Takes bytes up to the end of the line, and returns its beginning if it is complete.
    fn take(&mut self, bytes: &[u8], pos: &mut usize) -> Option<Self> {
        let rest = bytes.get(*pos..).unwrap_or_default();
        let end = memchr(b'\n', rest);
        let taken = &rest[..end.unwrap_or(rest.len())];
        for (slot, byte) in self.bytes[self.len..].iter_mut().zip(taken) {
            *slot = *byte;
            self.len += 1;
        }
        *pos += taken.len() + usize::from(end.is_some());
        end.map(|_| std::mem::take(self))
    }

    fn text(&self) -> &[u8] {
        self.bytes[..self.len].trim_ascii_end()
    }
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
    /// Code of the first error among the replies to commands that were sent together, or 0.
    first_error: u16,
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
    /// The client waits for changes of its mailbox (RFC 9051 §6.3.13), and has not sent DONE.
    is_idling: bool,
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
        self.is_idling = false;
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
        (self.is_preliminary, self.is_idling) = (false, false);
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
            } else if let Some(line) = self.lines[0].take(bytes, &mut pos) {
                self.command(line.text());
                on(pos, Said::Kind(self.command.name));
            }
        }
        true
    }

    /// Processes a command.
    fn command(&mut self, line: &[u8]) {
        if self.waiting == 0 {
            self.first_error = 0;
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
        if self.command.name == "BDAT" {
            let size = words.next().and_then(|size| std::str::from_utf8(size).ok());
            self.chunk_left = size.and_then(|size| size.parse::<u32>().ok()).map_or(0, u64::from);
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
                on(
                    pos,
                    Said::Error(ErrorCode::Reply(self.service.unwrap_or(Service::Numbered), code)),
                );
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
        let (code, is_last) = number(line)?;
        if self.multiline != 0 && code != self.multiline {
            return None;
        }
        self.multiline = if is_last { 0 } else { code };
        let text = line.get(4..).unwrap_or_default();
        self.offers_login |= self.command.name == "EHLO" && code == 250 && offers_login(text);
        if !is_last {
            return None;
        }
        // RFC 959 §4.2.1: the final reply follows.
        self.is_preliminary = code < 200;
        if self.is_preliminary || self.waiting == 0 {
            return None;
        }
        self.waiting -= 1;
        let is_policy = code == 530 || code == 553 || code > 500 && text.starts_with(b"5.7.");
        self.wants_login |= self.command.sends_mail && is_policy;
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
        self.finish(code < 300, code)
    }

    /// Processes a line of POP3. Returns the code if it is an error.
    fn signed(&mut self, line: &[u8]) -> Option<u16> {
        let is_done = line.starts_with(b"+OK");
        let is_error = line.starts_with(b"-ERR");
        if self.waiting == 0 || !(is_done || is_error || line.first() == Some(&b'+')) {
            return None;
        }
        self.waiting -= 1;
        self.mode = if is_done || is_error { Mode::Commands } else { Mode::Continuation };
        if self.mode == Mode::Continuation {
            self.command.logs_in = true;
            return None;
        }
        let code = self.reason(line);
        self.finish(is_done, code)
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
        self.finish(is_done, code)
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

    /// Ends the wait for the reply to a command. Returns the code if that is an error of the turn.
    fn finish(&mut self, is_done: bool, code: u16) -> Option<u16> {
        let service = self.service?;
        let (command, is_last) = (self.command, self.waiting == 0);
        let is_error = !is_done && is_last && !commands::is_offer(service, &command, code);
        // USER of POP3 is only the first half of a login, and of a mail only the last step counts.
        let accepts = is_done && is_last;
        if command.logs_in {
            let is_half = service == Service::Pop3 && command.name == "USER";
            self.login.note(accepts && !is_half, is_error);
        }
        if service == Service::Smtp && command.sends_mail {
            self.mail.note(accepts && command.delivers, is_error);
        }
        if !is_done && self.first_error == 0 {
            self.first_error = code;
        }
        is_error.then_some(match service {
            Service::Pop3 | Service::Imap => code,
            _ => self.first_error,
        })
    }
}

/// Returns whether a line of the reply to EHLO offers AUTH; some servers write it with `=`.
fn offers_login(text: &[u8]) -> bool {
    let word = text.first_chunk::<4>().is_some_and(|word| word.eq_ignore_ascii_case(b"AUTH"));
    word && matches!(text.get(4), None | Some(b' ' | b'='))
}

/// Returns the code at the beginning of a line, and whether the line is the last of its reply.
fn number(line: &[u8]) -> Option<(u16, bool)> {
    let (code, rest) = line.split_first_chunk::<3>()?;
    let is_code = matches!(code, [b'1'..=b'5', b'0'..=b'9', b'0'..=b'9']);
    let code = code.iter().fold(0, |value, digit| value * 10 + u16::from(digit.wrapping_sub(b'0')));
    match rest.first() {
        _ if !is_code => None,
        None | Some(b' ') => Some((code, true)),
        Some(b'-') => Some((code, false)),
        Some(_) => None,
    }
}
