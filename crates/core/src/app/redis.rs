//! Redis serialization protocol, versions 2 and 3 (redis.io, "RESP protocol specification").
//!
//! Values are counted, not nested: each value is one expected part, and an aggregate adds the
//! number of its parts.

mod command;
mod whole;

use super::error_code::ErrorCode;
use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::kind::{Label, OTHER};
use super::lines::Lines;
use super::listed::REDIS_SUBCOMMANDS;
use crate::wire::{BySide, Side};
use command::{Answered, Command};
use std::collections::VecDeque;
use whole::{bulk_string, whole_command, whole_response};

/// Maximum length of a command word.
const COMMAND_MAX: u64 = 32;
/// Maximum number of parts of one message.
const MISSING_VALUES_MAX: u64 = 1 << 32;

/// Number of bytes and of words at the beginning of a command in which is looked for what makes it
/// wait: options come before the streams' names.
const LOOKED_AT_BYTES: usize = 512;
const LOOKED_AT_WORDS: usize = 12;

/// First words of the messages that confirm a subscription (redis.io, "Pub/Sub").
const SUBSCRIBING: [&[u8]; 6] =
    [b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE", b"UNSUBSCRIBE", b"PUNSUBSCRIBE", b"SUNSUBSCRIBE"];

/// First words of published messages, which answer nothing (redis.io, "Pub/Sub").
const PUBLISHED: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];

/// Maximum number of unanswered commands on one connection that are answered in another way than by
/// one response.
const PENDING_MAX: usize = 64;

/// Both directions of a connection that speaks RESP.
#[derive(Clone, Default)]
pub(super) struct Redis {
    readers: BySide<CommandReader>,
    replies: Replies,
}

/// The response that a command asks for, by its words alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// One response.
    Response,
    /// A response once there is data: the wait is not latency.
    Wait,
    /// This number of confirmations; the first is the response.
    Confirmations(u64),
    /// A response, and then a line for each command of any client (redis.io, "MONITOR").
    Monitor,
    /// No response to this command and the next (redis.io, "CLIENT REPLY").
    Skip,
    /// No response to this command and those after it (redis.io, "CLIENT REPLY").
    Off,
    /// A response, to this command and those after it (redis.io, "CLIENT REPLY").
    On,
    /// The stream of changes, which its receiver acknowledges now and then (redis.io,
    /// "Replication"). No message of either side is a request from then on.
    Replication,
}

/// Requests that are not answered by just one response, by their number, and the counts of all
/// requests sent and answered.
#[derive(Clone, Default)]
struct Replies {
    sent: u64,
    answered: u64,
    pending: VecDeque<Pending>,
    /// Commands get no response.
    off: bool,
    /// The next command gets no response.
    skips: bool,
    /// The server sends published messages as arrays (RESP2).
    subscribed: bool,
    /// The server sends the commands of other clients.
    monitors: bool,
    /// The response that the first command asks for, if the parser does not get all of its words:
    /// some were read before the protocol was recognised.
    first: Option<Asks>,
}

#[derive(Clone, Copy)]
struct Pending {
    number: u64,
    /// Number of messages that confirm a subscription and have not come; 0 if the request waits for
    /// data.
    confirmations: u64,
    /// The first of these has come.
    confirmed: bool,
}

impl Replies {
    /// Returns whether each command is answered once.
    fn are_plain(&self) -> bool {
        let is_special = self.off || self.skips || self.subscribed || self.monitors;
        !is_special && self.pending.is_empty() && self.first.is_none()
    }

    /// Records a request that `asks`. Returns whether it is part of an exchange.
    fn ask(&mut self, asks: Asks) -> bool {
        let is_skipped = std::mem::take(&mut self.skips);
        match asks {
            Asks::Skip => self.skips = true,
            Asks::Off => self.off = true,
            Asks::On => self.off = false,
            _ => {}
        }
        if asks == Asks::Skip || self.off || is_skipped {
            return false;
        }
        let confirmations = if let Asks::Confirmations(count) = asks { count } else { 0 };
        let is_kept =
            matches!(asks, Asks::Wait | Asks::Confirmations(_)) && self.pending.len() < PENDING_MAX;
        if is_kept {
            let number = self.sent;
            self.pending.push_back(Pending { number, confirmations, confirmed: false });
        }
        self.monitors |= asks == Asks::Monitor;
        self.sent += 1;
        !(is_kept && asks == Asks::Wait)
    }

    /// Records the server's message that begins with `bytes`. Returns whether it is the response of
    /// an exchange.
    fn answer(&mut self, bytes: &[u8]) -> bool {
        let is_push = bytes.first() == Some(&b'>');
        if is_push || bytes.first() == Some(&b'*') {
            let word = words(bytes).next().unwrap_or_default();
            let confirms = is_among(word, &SUBSCRIBING);
            if confirms && let Some(is_first) = self.confirm() {
                self.subscribed |= !is_push;
                return is_first;
            }
            if is_push || self.subscribed && (confirms || is_among(word, &PUBLISHED)) {
                return false;
            }
        }
        if self.monitors && matches!(bytes, [b'+', b'0'..=b'9', ..]) {
            return false;
        }
        // A response without a request answers a request from before the capture.
        if self.answered == self.sent {
            return true;
        }
        let front = self.pending.front().copied().filter(|it| it.number == self.answered);
        if front.is_some() {
            self.pending.pop_front();
        }
        self.answered += 1;
        front.is_none_or(|it| it.confirmations > 0 && !it.confirmed)
    }

    /// Records a confirmation. Returns whether it is the first for its request, `None` if no request
    /// awaits one.
    fn confirm(&mut self) -> Option<bool> {
        let pending = self.pending.front_mut()?;
        if pending.number != self.answered || pending.confirmations == 0 {
            return None;
        }
        let is_first = !std::mem::replace(&mut pending.confirmed, true);
        pending.confirmations -= 1;
        if pending.confirmations == 0 {
            self.pending.pop_front();
            self.answered += 1;
        }
        Some(is_first)
    }
}

/// Returns the first words of a command or message at the beginning of `bytes`, as far as they were
/// captured: bulk strings in an array or push, or an inline command.
fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let begin = &bytes[..bytes.len().min(LOOKED_AT_BYTES)];
    let is_inline = !matches!(begin.first(), Some(b'*' | b'>'));
    let mut lines = begin.split(|&byte| byte == b'\n');
    let first = lines.next().filter(|_| is_inline).unwrap_or_default();
    let inline = first.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let is_size = move |line: &&[u8]| !is_inline && line.first() == Some(&b'$');
    let mut lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let bulk = std::iter::from_fn(move || {
        lines.next().filter(is_size)?;
        lines.next()
    });
    inline.chain(bulk).take(LOOKED_AT_WORDS)
}

/// Returns the command at the beginning of `bytes`, if it is listed.
fn first_command(bytes: &[u8]) -> Option<&'static Command> {
    words(bytes).next().and_then(Command::of)
}

fn is_among(word: &[u8], list: &[&[u8]]) -> bool {
    list.iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// Returns what `command`, which is at the beginning of `bytes`, asks for.
fn asks_of(command: Option<&Command>, bytes: &[u8]) -> Asks {
    let mut options = words(bytes).skip(1);
    let is =
        |word: Option<&[u8]>, text: &[u8]| word.is_some_and(|it| it.eq_ignore_ascii_case(text));
    match command.map_or(Answered::Once, |command| command.answered) {
        Answered::Once => Asks::Response,
        Answered::OnceThereIsData => Asks::Wait,
        Answered::AtOnceUnlessBlocking => {
            let mut options = options.take_while(|word| !word.eq_ignore_ascii_case(b"STREAMS"));
            let waits = options.any(|word| word.eq_ignore_ascii_case(b"BLOCK"));
            if waits { Asks::Wait } else { Asks::Response }
        }
        Answered::ForEachChannel => Asks::Confirmations(size(bytes).saturating_sub(1).max(1)),
        Answered::WithoutEnd => Asks::Monitor,
        Answered::ByReplication => Asks::Replication,
        Answered::UnlessAck if is(options.next(), b"ACK") => Asks::Replication,
        Answered::AsReplySays if is(options.next(), b"REPLY") => match options.next() {
            mode if is(mode, b"OFF") => Asks::Off,
            mode if is(mode, b"SKIP") => Asks::Skip,
            mode if is(mode, b"ON") => Asks::On,
            _ => Asks::Response,
        },
        Answered::UnlessAck | Answered::AsReplySays => Asks::Response,
    }
}

/// Returns the number of words of the command at the beginning of `bytes`.
fn size(bytes: &[u8]) -> u64 {
    let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
    match line {
        [b'*', digits @ ..] => number(digits).ok().flatten().unwrap_or(0),
        _ => words(bytes).count() as u64,
    }
}

#[derive(Clone, Default)]
struct CommandReader {
    state: RedisState,
    lines: Lines,
    /// Number of values that the message still lacks.
    missing_values: u64,
    /// Number of words of a command seen so far.
    words: u64,
    /// The command by the first word that was captured of it, which may have been cut.
    named: Option<&'static Command>,
    /// The command, while its subcommand is awaited.
    command: Option<&'static Command>,
    /// The message belongs to no exchange: it is a published message, or a request that waits for
    /// data or gets no response, or the response to such a request.
    is_aside: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum RedisState {
    #[default]
    Start,
    Value,
    /// The word of a command and its line end follow.
    Word,
    /// The end of a bulk string, which the framer skips.
    Bulk,
}

impl Redis {
    /// Begins with a command, of which `begin` is what is known.
    pub fn new(begin: &[u8]) -> Self {
        let first = begin.starts_with(b"*").then(|| asks_of(first_command(begin), begin));
        Self { replies: Replies { first, ..Replies::default() }, ..Self::default() }
    }

    /// Parses the bytes of `feed` from one side.
    pub fn feed(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let reader = &mut self.readers[from];
        loop {
            if reader.state == RedisState::Bulk {
                reader.value_end(from, feed);
                continue;
            }
            let Some(&first) = feed.rest().first() else {
                return Ok(Next::More);
            };
            if reader.state == RedisState::Start {
                if reader.whole(from, &mut self.replies, feed) {
                    continue;
                }
                if !reader.start(from, first, &mut self.replies, feed)? {
                    return Ok(Next::Aside);
                }
                continue;
            }
            if reader.state == RedisState::Value {
                reader.pass_values(from, feed);
            }
            let Some(line) = reader.lines.next(feed.rest(), &mut feed.pos)? else {
                return Ok(Next::More);
            };
            let size = match reader.state {
                RedisState::Word => {
                    let named = (reader.words, reader.named);
                    let missing = reader.missing_values;
                    command_word(named, &mut reader.command, missing, line, feed);
                    reader.words += 1;
                    reader.value_end(from, feed);
                    continue;
                }
                _ => value_line(from, reader.words, &mut reader.missing_values, line, feed)?,
            };
            match size {
                None => reader.value_end(from, feed),
                Some(size) if from == Side::Client && reader.wants_word(size) => {
                    reader.state = RedisState::Word;
                }
                Some(size) => {
                    reader.state = RedisState::Bulk;
                    reader.words += 1;
                    let bytes = size + 2;
                    // What is in this push is skipped here, unless something may be missing behind it.
                    if bytes >= feed.rest().len() as u64 {
                        return Ok(Next::Skip(bytes));
                    }
                    feed.pos += bytes as usize;
                }
            }
        }
    }
}

impl CommandReader {
    /// Processes a message that is complete in this push, if it is a command that is answered once or a
    /// simple response: nearly all are. Returns whether it was processed; the marks are those of the
    /// general way.
    #[inline]
    fn whole(&mut self, from: Side, replies: &mut Replies, feed: &mut Feed<'_>) -> bool {
        if feed.is_anticipated() || !replies.are_plain() || self.lines.is_in_pieces() {
            return false;
        }
        let rest = feed.rest();
        // Behind the end of what was captured, something may be missing of the message.
        let room = rest.len().saturating_sub((feed.missing > 0).into());
        let begin = feed.pos;
        match from {
            Side::Client => {
                let Some((word, word_end, end)) = whole_command(rest) else { return false };
                let named = self.named.filter(|it| it.is_named(word));
                let Some(command) = named.or_else(|| Command::of(word)) else { return false };
                self.named = Some(command);
                if command.answered != Answered::Once || command.has_subcommands || end > room {
                    return false;
                }
                replies.ask(Asks::Response);
                feed.request_start();
                feed.pos = begin + word_end;
                feed.kind(&command.name);
                feed.pos = begin + end;
                feed.request_end();
            }
            Side::Server => {
                let Some(end) = whole_response(rest).filter(|&end| end <= room) else {
                    return false;
                };
                replies.answer(rest);
                feed.response_start();
                feed.pos = begin + end;
                feed.response_end();
            }
        }
        true
    }

    /// Begins a message. Returns `false` if no later message of either side is part of an exchange.
    fn start(
        &mut self,
        from: Side,
        first: u8,
        replies: &mut Replies,
        feed: &mut Feed<'_>,
    ) -> Result<bool, Lost> {
        self.is_aside = match from {
            Side::Client if first.is_ascii_control() => return Err(Lost),
            Side::Client => {
                self.named = first_command(feed.rest());
                let asks = replies.first.take();
                let asks = asks.unwrap_or_else(|| asks_of(self.named, feed.rest()));
                // A request that was marked already keeps its mark.
                let asks = if feed.is_anticipated() { Asks::Response } else { asks };
                if asks == Asks::Replication {
                    feed.aside();
                    return Ok(false);
                }
                !replies.ask(asks)
            }
            Side::Server if !b"+-:$*_#,(!=%~|>".contains(&first) => return Err(Lost),
            Side::Server => !replies.answer(feed.rest()),
        };
        match from {
            _ if self.is_aside => feed.aside(),
            Side::Client => feed.request_start(),
            Side::Server => feed.response_start(),
        }
        self.missing_values = 1;
        self.words = 0;
        self.command = None;
        self.lines.begin();
        self.state = RedisState::Value;
        Ok(true)
    }

    /// Passes over bulk strings that are complete in this push, but for the last value of the message:
    /// nothing in them is read.
    fn pass_values(&mut self, from: Side, feed: &mut Feed<'_>) {
        let names_kind = self.words == 0 || self.words == 1 && self.command.is_some();
        if from == Side::Client && names_kind || self.lines.is_in_pieces() {
            return;
        }
        while self.missing_values > 1
            && let Some((_, end)) = bulk_string(feed.rest())
            && end < feed.rest().len()
        {
            feed.pos += end;
            self.words += 1;
            self.missing_values -= 1;
        }
    }

    /// Returns whether the following word belongs to the request's kind.
    fn wants_word(&self, size: u64) -> bool {
        size <= COMMAND_MAX && (self.words == 0 || self.words == 1 && self.command.is_some())
    }

    /// Ends a value, and the message if it was the last.
    fn value_end(&mut self, from: Side, feed: &mut Feed<'_>) {
        self.missing_values = self.missing_values.saturating_sub(1);
        self.lines.begin();
        self.state = RedisState::Value;
        if self.missing_values > 0 {
            return;
        }
        self.state = RedisState::Start;
        match from {
            _ if self.is_aside => {}
            Side::Client => {
                if let Some(command) = self.command.take() {
                    feed.kind(&command.name);
                }
                feed.request_end();
            }
            Side::Server => feed.response_end(),
        }
    }
}

/// Reads the first line of a value; `Some` is the size of the bulk string that follows.
fn value_line(
    from: Side,
    words: u64,
    missing_values: &mut u64,
    line: &[u8],
    feed: &mut Feed<'_>,
) -> Result<Option<u64>, Lost> {
    let (&kind, rest) = line.split_first().unwrap_or((&b'\n', &[]));
    if from == Side::Server
        && kind == b'-'
        && let Some(code) = ErrorCode::of_redis(rest)
    {
        feed.error(code);
    }
    let parts = match kind {
        b'*' | b'~' | b'>' => number(rest)?.unwrap_or(0),
        b'%' => number(rest)?.unwrap_or(0).saturating_mul(2),
        // An attribute precedes the value that it describes and does not count as a value.
        b'|' => number(rest)?.unwrap_or(0).saturating_mul(2).saturating_add(1),
        b'$' | b'!' | b'=' => return number(rest),
        _ if from == Side::Server && b"+-:_#,(".contains(&kind) => 0,
        _ if from == Side::Client && words == 0 && *missing_values == 1 => {
            inline_command(line, feed);
            0
        }
        _ => return Err(Lost),
    };
    *missing_values = missing_values.saturating_add(parts);
    if *missing_values > MISSING_VALUES_MAX { Err(Lost) } else { Ok(None) }
}

fn inline_command(line: &[u8], feed: &mut Feed<'_>) {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let word = words.next().unwrap_or_default();
    match (Command::of(word), words.next()) {
        (Some(command), Some(second)) if command.has_subcommands => {
            feed.kind(&with_subcommand(command, second));
        }
        (Some(command), _) => feed.kind(&command.name),
        (None, _) => unlisted(word, feed),
    }
}

/// Processes `word`, which comes behind so many words of a command that begins with `named`.
fn command_word(
    (words, named): (u64, Option<&'static Command>),
    pending: &mut Option<&'static Command>,
    missing_values: u64,
    word: &[u8],
    feed: &mut Feed<'_>,
) {
    if let Some(command) = pending.take() {
        feed.kind(&with_subcommand(command, word));
    } else if words == 0 {
        let named = named.filter(|it| it.is_named(word));
        match named.or_else(|| Command::of(word)) {
            Some(command) if missing_values > 1 && command.has_subcommands => {
                *pending = Some(command);
            }
            Some(command) => feed.kind(&command.name),
            None => unlisted(word, feed),
        }
    }
}

/// Marks the kind of a command that is not listed: the first word of a capture that begins inside a
/// value is no command.
fn unlisted(word: &[u8], feed: &mut Feed<'_>) {
    if !word.is_empty() {
        let mut kind = Label::default();
        kind.push(OTHER);
        feed.kind(&kind);
    }
}

/// Returns the kind of `command` with the subcommand `word`, if that is listed.
fn with_subcommand(command: &Command, word: &[u8]) -> Label {
    let mut kind = command.name;
    if REDIS_SUBCOMMANDS.has(word) {
        kind.push(b" ");
        kind.push_upper(word);
    }
    kind
}

/// Parses a decimal length; `None` is the null value (-1).
fn number(digits: &[u8]) -> Result<Option<u64>, Lost> {
    if digits == b"-1" {
        return Ok(None);
    }
    let add = |value: u64, letter: &u8| {
        let digit = letter.wrapping_sub(b'0');
        let value = value * 10 + u64::from(digit);
        (digit <= 9 && value <= MISSING_VALUES_MAX).then_some(value)
    };
    let value = digits.iter().try_fold(0, add).filter(|_| !digits.is_empty());
    value.map(Some).ok_or(Lost)
}
