//! Redis serialization protocol, versions 2 and 3 (redis.io, "RESP protocol specification").
//!
//! Values are counted, not nested: each value is one expected part, and an aggregate adds the
//! number of its parts.

use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::kind::Label;
use super::lines::Lines;
use super::mark::Side;
use std::collections::VecDeque;

/// Maximum length of a command word.
const COMMAND_MAX: u64 = 32;
/// Maximum number of parts of one message.
const MISSING_VALUES_MAX: u64 = 1 << 32;

/// Commands whose second word is part of their kind.
const WITH_SUBCOMMAND: [&str; 16] = [
    "ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DEBUG", "FUNCTION", "LATENCY", "MEMORY",
    "MODULE", "OBJECT", "PUBSUB", "SCRIPT", "SENTINEL", "XGROUP", "XINFO",
];

/// Commands that wait until data is available: the client asked for the wait, so it is not latency
/// (redis.io, "Blocking commands").
const BLOCKING: [&[u8]; 8] =
    [b"BLPOP", b"BRPOP", b"BRPOPLPUSH", b"BLMOVE", b"BLMPOP", b"BZPOPMIN", b"BZPOPMAX", b"BZMPOP"];

/// Commands that wait only if the word `BLOCK` comes before the streams' names.
const BLOCKING_IF_ASKED: [&[u8]; 2] = [b"XREAD", b"XREADGROUP"];

/// Maximum number of unanswered waiting commands on one connection.
const WAITING_MAX: usize = 64;

/// First words of push messages that answer a request (redis.io, "Pub/Sub", RESP3).
const CONFIRMATIONS: [&[u8]; 6] =
    [b"subscribe", b"psubscribe", b"ssubscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe"];

/// Both directions of a connection that speaks RESP.
#[derive(Clone, Default)]
pub(super) struct Redis {
    readers: [CommandReader; 2],
    waiting: WaitingCommands,
}

/// Requests that wait for data, by their number, and the counts of all requests sent and answered.
#[derive(Clone, Default)]
struct WaitingCommands {
    sent: u64,
    answered: u64,
    open: VecDeque<u64>,
}

impl WaitingCommands {
    /// Records a request. Returns whether it waits for data.
    fn ask(&mut self, waits: bool) -> bool {
        let is_kept = waits && self.open.len() < WAITING_MAX;
        if is_kept {
            self.open.push_back(self.sent);
        }
        self.sent += 1;
        is_kept
    }

    /// Records a response. Returns whether it answers a request that waits for data.
    fn answer(&mut self) -> bool {
        // A response without a request answers a request from before the capture.
        if self.answered == self.sent {
            return false;
        }
        let is_awaited = self.open.front() == Some(&self.answered);
        if is_awaited {
            self.open.pop_front();
        }
        self.answered += 1;
        is_awaited
    }
}

/// Returns the words of a command at the beginning of `bytes`, as far as they were captured: bulk
/// strings in an array or push.
fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    lines.next();
    let is_size = |line: &&[u8]| line.first() == Some(&b'$');
    let mut lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    std::iter::from_fn(move || {
        lines.next().filter(is_size)?;
        lines.next()
    })
}

fn is_among(word: &[u8], list: &[&[u8]]) -> bool {
    list.iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// Returns whether the command at the beginning of `bytes` waits for data.
fn asks_to_wait(bytes: &[u8]) -> bool {
    let mut words = words(bytes);
    let Some(command) = words.next() else { return false };
    if is_among(command, &BLOCKING_IF_ASKED) {
        let mut options = words.take_while(|word| !word.eq_ignore_ascii_case(b"STREAMS"));
        return options.any(|word| word.eq_ignore_ascii_case(b"BLOCK"));
    }
    is_among(command, &BLOCKING)
}

/// Returns whether the push at the beginning of `bytes` confirms a subscription.
fn confirms(bytes: &[u8]) -> bool {
    words(bytes).next().is_some_and(|word| is_among(word, &CONFIRMATIONS))
}

#[derive(Clone, Default)]
struct CommandReader {
    state: State,
    lines: Lines,
    /// Number of values that the message still lacks.
    missing_values: u64,
    /// Number of words of a command seen so far.
    words: u64,
    /// The command, while its subcommand is awaited.
    command: Option<Box<Label>>,
    /// The message belongs to no exchange: it is out-of-band data (RESP3 push) that answers
    /// nothing, or a waiting request or its response.
    is_aside: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Value,
    /// The word of a command and its line end follow.
    Word,
    /// The end of a bulk string, which the framer skips.
    Bulk,
}

impl Redis {
    /// Parses the bytes of `feed` from one side.
    pub fn feed(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let reader = &mut self.readers[from as usize];
        loop {
            if reader.state == State::Bulk {
                reader.value_end(from, feed);
                continue;
            }
            let Some(&first) = feed.rest().first() else {
                return Ok(Next::More);
            };
            if reader.state == State::Start {
                reader.start(from, first, &mut self.waiting, feed)?;
                continue;
            }
            let Some(line) = reader.lines.next(feed.rest(), &mut feed.pos)? else {
                return Ok(Next::More);
            };
            let size = match reader.state {
                State::Word => {
                    command_word(
                        reader.words,
                        &mut reader.command,
                        reader.missing_values,
                        line,
                        feed,
                    );
                    reader.words += 1;
                    reader.value_end(from, feed);
                    continue;
                }
                _ => value_line(from, reader.words, &mut reader.missing_values, line, feed)?,
            };
            match size {
                None => reader.value_end(from, feed),
                Some(size) if from == Side::Client && reader.wants_word(size) => {
                    reader.state = State::Word;
                }
                Some(size) => {
                    reader.state = State::Bulk;
                    reader.words += 1;
                    return Ok(Next::Skip(size + 2));
                }
            }
        }
    }
}

impl CommandReader {
    fn start(
        &mut self,
        from: Side,
        first: u8,
        waiting: &mut WaitingCommands,
        feed: &mut Feed<'_>,
    ) -> Result<(), Lost> {
        let is_push = first == b'>' && !(feed.has_begun() && confirms(feed.rest()));
        match from {
            Side::Client if first.is_ascii_control() => return Err(Lost),
            Side::Client => {
                self.is_aside = waiting.ask(!feed.is_anticipated() && asks_to_wait(feed.rest()));
            }
            Side::Server if !b"+-:$*_#,(!=%~|>".contains(&first) => return Err(Lost),
            Side::Server => self.is_aside = is_push || waiting.answer(),
        }
        match from {
            _ if is_push => {}
            _ if self.is_aside => feed.aside(),
            Side::Client => feed.request_start(),
            Side::Server => feed.response_start(),
        }
        self.missing_values = 1;
        self.words = 0;
        self.command = None;
        self.lines.begin();
        self.state = State::Value;
        Ok(())
    }

    /// Returns whether the following word belongs to the request's kind.
    fn wants_word(&self, size: u64) -> bool {
        size <= COMMAND_MAX && (self.words == 0 || self.words == 1 && self.command.is_some())
    }

    /// Ends a value, and the message if it was the last.
    fn value_end(&mut self, from: Side, feed: &mut Feed<'_>) {
        self.missing_values = self.missing_values.saturating_sub(1);
        self.lines.begin();
        self.state = State::Value;
        if self.missing_values > 0 {
            return;
        }
        self.state = State::Start;
        match from {
            _ if self.is_aside => {}
            Side::Client => {
                if let Some(command) = self.command.take() {
                    feed.kind(&command);
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
    let mut kind = Label::default();
    kind.push_upper(words.next().unwrap_or_default());
    if let (true, Some(second)) = (WITH_SUBCOMMAND.contains(&&*kind), words.next()) {
        kind.push(b" ");
        kind.push_upper(second);
    }
    feed.kind(&kind);
}

fn command_word(
    words: u64,
    command: &mut Option<Box<Label>>,
    missing_values: u64,
    word: &[u8],
    feed: &mut Feed<'_>,
) {
    if let Some(mut kind) = command.take() {
        kind.push(b" ");
        kind.push_upper(word);
        feed.kind(&kind);
    } else if words == 0 {
        let mut kind = Label::default();
        kind.push_upper(word);
        if missing_values > 1 && WITH_SUBCOMMAND.contains(&&*kind) {
            *command = Some(Box::new(kind));
        } else {
            feed.kind(&kind);
        }
    }
}

/// Parses a decimal length; `None` is the null value (-1).
fn number(digits: &[u8]) -> Result<Option<u64>, Lost> {
    if digits == b"-1" {
        return Ok(None);
    }
    let text = std::str::from_utf8(digits).map_err(|_| Lost)?;
    let value = text.parse::<u64>().map_err(|_| Lost)?;
    if value > MISSING_VALUES_MAX { Err(Lost) } else { Ok(Some(value)) }
}
