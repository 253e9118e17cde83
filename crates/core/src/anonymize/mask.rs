//! Masks the bytes that parsers read, in place: length, framing and kind are preserved.

use super::{FILLER, Names};
use crate::app::{Protocol, Side, chunk_size, hello_skeleton, is_method_byte, verb_range};

/// Fields whose values determine where messages end, and what their senders wait for.
const FRAMING_FIELDS: [&str; 5] =
    ["Content-Length", "Transfer-Encoding", "Expect", "Upgrade", "Connection"];
/// Fields that name the software of a side.
const SOFTWARE_FIELDS: [&str; 2] = ["Server", "User-Agent"];
/// Field names that do not identify their users (RFC 9110, RFC 6265).
const COMMON_FIELDS: [&str; 22] = [
    "Accept",
    "Accept-Encoding",
    "Accept-Language",
    "Accept-Ranges",
    "Age",
    "Authorization",
    "Cache-Control",
    "Content-Encoding",
    "Content-Type",
    "Cookie",
    "Date",
    "ETag",
    "Host",
    "If-Modified-Since",
    "If-None-Match",
    "Keep-Alive",
    "Last-Modified",
    "Location",
    "Origin",
    "Referer",
    "Set-Cookie",
    "Vary",
];
/// Names of widely used programs, as they begin in these fields.
const KNOWN_SOFTWARE: [&str; 24] = [
    "nginx",
    "Apache",
    "curl",
    "wrk",
    "Python",
    "python",
    "Java",
    "JDK",
    "Go-http-client",
    "tcpwhy",
    "Jetty",
    "gunicorn",
    "uvicorn",
    "SimpleHTTP",
    "BaseHTTP",
    "WSGIServer",
    "Caddy",
    "envoy",
    "HAProxy",
    "Wget",
    "okhttp",
    "node",
    "Werkzeug",
    "Tomcat",
];
const EVENTS: &[u8] = b"text/event-stream";

/// Returns whether `software` names a widely used program, which is not masked.
pub fn is_known_software(software: &str) -> bool {
    KNOWN_SOFTWARE.iter().any(|known| software.trim_start().starts_with(known))
}

/// Masks a complete line, including its end, sent by `side`.
pub(super) fn line(protocol: Protocol, side: Side, is_word: bool, line: &mut [u8], names: &Names) {
    let end = line.trim_ascii_end().len();
    let text = &mut line[..end];
    match protocol {
        Protocol::Redis => redis_line(side, is_word, text, names),
        _ => http_line(text, names),
    }
}

fn http_line(line: &mut [u8], names: &Names) {
    const STATUS_BYTES: usize = "HTTP/1.1 200".len();
    if line.starts_with(b"HTTP/1.") {
        let shown = line.len().min(STATUS_BYTES);
        names.words(&mut line[shown..]);
    } else if let Some((target, version)) = request_target(line) {
        target_of(&mut line[target..version], names);
    } else if let Some(colon) = line.iter().position(|&byte| byte == b':').filter(|&it| it > 0) {
        field(line, colon, names);
    } else if chunk_size(line).is_some() {
        let end = line.iter().position(|&byte| byte == b';').unwrap_or(line.len());
        line[end..].iter_mut().skip(1).for_each(|byte| *byte = FILLER);
    } else {
        fill(line);
    }
}

/// Returns the start of the target and of the version in a request line.
fn request_target(line: &[u8]) -> Option<(usize, usize)> {
    let method = line.iter().position(|&byte| !is_method_byte(byte)).filter(|&end| end > 0)?;
    let version = line.iter().rposition(|&byte| byte == b' ')?;
    let is_request = line[method] == b' ' && line[version + 1..].starts_with(b"HTTP/1.");
    (is_request && version > method).then_some((method + 1, version))
}

/// Replaces path segments by pseudonyms and fills the query.
fn target_of(target: &mut [u8], names: &Names) {
    let query =
        target.iter().position(|&byte| matches!(byte, b'?' | b';' | b'#')).unwrap_or(target.len());
    let (path, query) = target.split_at_mut(query);
    let scheme = path.windows(3).position(|it| it == b"://").map_or(0, |at| at + 3);
    names.words(&mut path[scheme..]);
    query.iter_mut().skip(1).for_each(|byte| *byte = FILLER);
}

fn field(line: &mut [u8], colon: usize, names: &Names) {
    let (name, value) = line.split_at_mut(colon);
    let value = &mut value[1..];
    let is = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
    if FRAMING_FIELDS.iter().any(is) {
        return;
    }
    if SOFTWARE_FIELDS.iter().any(is) {
        if !str::from_utf8(value).is_ok_and(is_known_software) {
            names.words(value);
        }
        return;
    }
    let begin = value.len() - value.trim_ascii_start().len();
    let tells_events = is(&"Content-Type")
        && value[begin..].get(..EVENTS.len()).is_some_and(|it| it.eq_ignore_ascii_case(EVENTS));
    let is_common = COMMON_FIELDS.iter().any(is);
    let shown = if tells_events { begin + EVENTS.len() } else { begin };
    fill(&mut value[shown..]);
    if !is_common {
        names.words(name);
    }
}

fn redis_line(side: Side, is_word: bool, line: &mut [u8], names: &Names) {
    const KNOWN: [&[u8]; 4] = [b"+OK", b"+PONG", b"+QUEUED", b"$-1"];
    if is_word || KNOWN.contains(&&*line) {
        return;
    }
    match (side, line.first()) {
        (_, None | Some(b'*' | b'$' | b'%' | b'~' | b'>' | b'|' | b'!' | b'=' | b'_' | b'#')) => {}
        (Side::Server, Some(b'-')) if line.starts_with(b"-ERR ") => fill(&mut line[5..]),
        (Side::Server, Some(b':' | b',' | b'(')) => names.words(&mut line[1..]),
        (Side::Server, Some(_)) => fill(&mut line[1..]),
        // An inline command: its first word is the kind of request.
        (Side::Client, Some(_)) => {
            let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
            line[end..]
                .iter_mut()
                .filter(|it| !it.is_ascii_whitespace())
                .for_each(|it| *it = FILLER);
        }
    }
}

/// Returns whether `bytes` are a word that the Redis parser searches for in strings that it
/// otherwise skips.
pub(super) fn is_redis_word(bytes: &[u8]) -> bool {
    const WORDS: [&[u8]; 8] = [
        b"BLOCK",
        b"STREAMS",
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

/// Masks the beginning of a message of `side`, which follows the header `framing`. `last_command`
/// is the client's last command in MySQL.
pub(super) fn head(
    protocol: Protocol,
    side: Side,
    framing: &[u8],
    last_command: &mut u8,
    head: &mut [u8],
    names: &Names,
) {
    match (protocol, side) {
        (Protocol::Tls, _) => hello_skeleton(head),
        (Protocol::Postgres, _) => {
            let statement = match framing.iter().rev().nth(4) {
                // Parse begins with the name of the prepared statement.
                Some(b'P') => {
                    head.iter().position(|&byte| byte == 0).map_or(head.len(), |end| end + 1)
                }
                _ => 0,
            };
            let (name, text) = head.split_at_mut(statement);
            names.words(name);
            sql(text);
        }
        (Protocol::Mysql, _) => mysql(side, framing.last().copied(), last_command, head),
        (Protocol::Dns, _) => super::dns::mask(head, names),
        (Protocol::Http2, Side::Server) => {
            const FRAME_BYTES: usize = 9;
            let kind = framing.iter().rev().nth(FRAME_BYTES - 4);
            // The prefix of a gRPC message has five bytes.
            if kind != Some(&0) || head.len() > 5 {
                fill(head);
            }
        }
        _ => fill(head),
    }
}

/// Keeps a statement's verb and the characters that determine its position: comments and
/// parentheses.
fn sql(statement: &mut [u8]) {
    let verb = verb_range(statement);
    let is_end = statement.last() == Some(&0);
    for (at, byte) in statement.iter_mut().enumerate() {
        let may_stay = at < verb.end && !byte.is_ascii_alphanumeric() && byte.is_ascii();
        if !verb.contains(&at) && !may_stay {
            *byte = b'x';
        }
    }
    if let Some(last) = statement.last_mut().filter(|_| is_end) {
        *last = 0;
    }
    // The byte after the verb must not extend it.
    if let Some(next) = statement.get_mut(verb.end).filter(|next| **next == b'x') {
        *next = b' ';
    }
}

/// Masks a packet with the number `sequence`. Bytes that are not kept become zero, so that unknown
/// flags are not set.
fn mysql(side: Side, sequence: Option<u8>, last_command: &mut u8, head: &mut [u8]) {
    const QUERY: u8 = 0x03;
    const FIELD_LIST: u8 = 0x04;
    const STMT_PREPARE: u8 = 0x16;
    const STMT_FETCH: u8 = 0x1c;
    /// Capabilities, maximum packet size, character set, and zeros; the user's name follows.
    const LOGIN_BYTES: usize = 32;
    /// OK with small numbers, its status and warnings; or the numbers of a prepared statement
    /// follow.
    const STATUS_BYTES: usize = 12;
    let first = head.first().copied().unwrap_or_default();
    let kept = match (side, sequence) {
        (Side::Client, Some(0)) => {
            *last_command = first;
            if matches!(first, QUERY | STMT_PREPARE) {
                let attributes = if head[1..].starts_with(&[0, 1]) { 3 } else { 1 };
                return sql(&mut head[attributes..]);
            }
            1
        }
        (Side::Client, Some(1)) => LOGIN_BYTES,
        (Side::Client, _) => 1,
        // The greeting: protocol version and first digit of the server version.
        (Side::Server, Some(0)) => 2,
        (Side::Server, _) if first == 0xfe => STATUS_BYTES,
        (Side::Server, Some(1)) if matches!(*last_command, FIELD_LIST | STMT_FETCH) => 1,
        (Side::Server, Some(1)) if first == 0 => STATUS_BYTES,
        (Side::Server, Some(1)) if first == 0xfc => 3,
        (Side::Server, _) => 1,
    };
    let kept = kept.min(head.len());
    head[kept..].fill(0);
}

/// Returns the number of bytes after a header ending with `framing` that identify the side or the
/// next message, although no stream parser reads them.
pub(super) fn kept_after(protocol: Protocol, framing: &[u8]) -> usize {
    match (protocol, framing) {
        // The type of the handshake message.
        (Protocol::Tls, [.., 22, 3, _, _, _]) => 1,
        // ReadyForQuery: the transaction status.
        (Protocol::Postgres, [.., b'Z', 0, 0, 0, 5]) => 1,
        // The end of the preface, which is a constant.
        (Protocol::Http2, [.., b'H', b'T', b'T', b'P', b'/', b'2', b'.', b'0']) => 10,
        _ => 0,
    }
}

fn fill(bytes: &mut [u8]) {
    bytes.fill(FILLER);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(text: &str) -> String {
        let mut text = text.as_bytes().to_vec();
        line(Protocol::Http1, Side::Client, false, &mut text, &Names::new([5; 16]));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn http_keeps_the_fields_that_frame_it() {
        for kept in [
            "Content-Length: 12\r\n",
            "transfer-encoding: chunked\r\n",
            "Expect: 100-continue\r\n",
            "1f4\r\n",
            "\r\n",
            "Server: nginx/1.24.0\r\n",
            "Content-Type: text/event-stream\r\n",
        ] {
            assert_eq!(http(kept), kept);
        }
        assert_eq!(http("Cookie: id=secret\r\n"), "Cookie: .........\r\n");
        assert_eq!(http("1f4;name=value\r\n"), "1f4;..........\r\n");
        let target = http("GET /users/alice?token=secret HTTP/1.1\r\n");
        assert!(
            target.starts_with("GET /") && target.ends_with("?............ HTTP/1.1\r\n"),
            "{target}"
        );
        assert!(!target.contains("users") && !target.contains("alice"));
        let field = http("X-Acme-Tenant: 7\r\n");
        assert!(!field.contains("Acme") && field.ends_with(": .\r\n"), "{field}");
    }

    #[test]
    fn the_verb_of_a_statement_is_kept() {
        for (statement, masked) in [
            ("SELECT name FROM users\0", "SELECT xxxxxxxxxxxxxxx\0"),
            ("/* a */ (UPDATE t", "/* x */ (UPDATE x"),
            ("COMMIT", "COMMIT"),
        ] {
            let mut bytes = statement.as_bytes().to_vec();
            sql(&mut bytes);
            let text = String::from_utf8(bytes).unwrap();
            assert_eq!(text.replace(' ', "x"), masked.replace(' ', "x"));
            assert_eq!(verb_range(text.as_bytes()), verb_range(statement.as_bytes()));
        }
    }
}
