//! Lines of Redis: sizes, commands, and short answers.

use super::mask::fill;
use super::{FILLER, Names};
use crate::app::{REDIS_COMMANDS, REDIS_SUBCOMMANDS, redis_code};
use crate::wire::Side;

/// Maximum number of digits of a size.
const SIZE_DIGITS_MAX: usize = 10;

/// Masks a line without its end. If it is a word of a command, `word` is its number.
pub(super) fn line(side: Side, word: Option<u8>, line: &mut [u8], names: &Names) {
    const KNOWN: [&[u8]; 7] = [b"+OK", b"+PONG", b"+QUEUED", b"$-1", b"*-1", b"#t", b"#f"];
    match (side, line.first()) {
        (_, None) => {}
        (_, Some(_)) if word.is_some() => {
            let list = if word == Some(0) { &REDIS_COMMANDS } else { &REDIS_SUBCOMMANDS };
            if !list.has(line) {
                fill(line);
            }
        }
        _ if KNOWN.contains(&&*line) => {}
        (_, Some(b'*' | b'$' | b'%' | b'~' | b'>' | b'|' | b'!' | b'=')) => {
            let size = &mut line[1..];
            if size.len() > SIZE_DIGITS_MAX || !size.iter().all(u8::is_ascii_digit) {
                fill(size);
            }
        }
        (Side::Server, Some(b'-')) => {
            // The blank after a code stays, too.
            let shown = redis_code(&line[1..]).map_or(1, |code| code.len() + 2);
            let shown = shown.min(line.len());
            fill(&mut line[shown..]);
        }
        (Side::Server, Some(b':' | b',' | b'(')) => names.words(&mut line[1..]),
        // The time at which a command came begins the lines of MONITOR.
        (Side::Server, Some(b'+')) if line.get(1).is_some_and(u8::is_ascii_digit) => {
            line[1] = b'0';
            fill(&mut line[2..]);
        }
        (Side::Server, Some(_)) => fill(&mut line[1..]),
        // An inline command: its first word is the kind of request.
        (Side::Client, Some(_)) => {
            let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
            let begin = if REDIS_COMMANDS.has(&line[..end]) { end } else { 0 };
            let words = line[begin..].iter_mut();
            words.filter(|it| !it.is_ascii_whitespace()).for_each(|it| *it = FILLER);
        }
    }
}

/// Returns whether `bytes` are a word that the parser searches for in strings that it otherwise
/// skips.
pub(super) fn is_option(bytes: &[u8]) -> bool {
    const WORDS: [&[u8]; 16] = [
        b"BLOCK",
        b"STREAMS",
        b"ACK",
        b"REPLY",
        b"ON",
        b"OFF",
        b"SKIP",
        b"message",
        b"pmessage",
        b"smessage",
        b"subscribe",
        b"psubscribe",
        b"ssubscribe",
        b"unsubscribe",
        b"punsubscribe",
        b"sunsubscribe",
    ];
    let word = bytes.strip_suffix(b"\r\n").unwrap_or(bytes);
    WORDS.iter().any(|it| it.eq_ignore_ascii_case(word))
}
