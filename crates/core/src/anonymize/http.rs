//! Lines of HTTP/1.x: start lines, fields, and sizes of chunks.

use super::mask::fill;
use super::{FILLER, Names};
use crate::app::{LINE_TOKENS, METHODS, is_method_byte, known_products, status_line};

/// Fields whose values determine where messages end, and what their senders wait for.
const FRAMING_FIELDS: [&str; 4] = ["Transfer-Encoding", "Expect", "Upgrade", "Connection"];
/// Fields whose value is a number.
const NUMBERS: [&str; 2] = ["Content-Length", "Retry-After"];
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
const EVENTS: &[u8] = b"text/event-stream";

/// Masks a line without its end. `is_chunk_size` is `true` if the size of a chunk is expected.
pub(super) fn line(line: &mut [u8], is_chunk_size: bool, names: &Names) {
    const STATUS_BYTES: usize = "HTTP/1.1 200".len();
    if is_chunk_size {
        let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
        line[end..].iter_mut().skip(1).for_each(|byte| *byte = FILLER);
    } else if status_line(line).is_some() {
        line[VERSION.len()] = digit(line[VERSION.len()]);
        names.words(&mut line[STATUS_BYTES..]);
    } else if let Some((target, version)) = request_target(line) {
        let (method, rest) = line.split_at_mut(target - 1);
        if !METHODS.has(method) {
            names.words(method);
        }
        let (target, version) = rest[1..].split_at_mut(version - target);
        target_of(target, names);
        // The blank, the name and the first digit of the version.
        let shown = 1 + VERSION.len();
        version[shown] = digit(version[shown]);
        fill(&mut version[shown + 1..]);
    } else if let Some(colon) = line.iter().position(|&byte| byte == b':').filter(|&it| it > 0) {
        field(line, colon, names);
    } else {
        fill(line);
    }
}

const VERSION: &[u8] = b"HTTP/1.";

fn digit(byte: u8) -> u8 {
    if byte.is_ascii_digit() { byte } else { b'1' }
}

/// Returns the start of the target and of the blank after it in a request line.
fn request_target(line: &[u8]) -> Option<(usize, usize)> {
    let method = line.iter().position(|&byte| !is_method_byte(byte)).filter(|&end| end > 0)?;
    let version = line.iter().rposition(|&byte| byte == b' ')?;
    let is_http =
        line[version + 1..].starts_with(VERSION) && line.len() > version + 1 + VERSION.len();
    (line[method] == b' ' && is_http && version > method).then_some((method + 1, version))
}

/// Replaces the parts of the path by pseudonyms and fills the query.
fn target_of(target: &mut [u8], names: &Names) {
    let query =
        target.iter().position(|&byte| matches!(byte, b'?' | b';' | b'#')).unwrap_or(target.len());
    let (path, query) = target.split_at_mut(query);
    let scheme = path.windows(3).position(|it| it == b"://");
    if let Some(scheme) = scheme {
        let is_listed = LINE_TOKENS.has(&path[..scheme]);
        let (before, behind) = path.split_at_mut(scheme + 3);
        if !is_listed {
            names.words(before);
        }
        names.path(behind);
    } else {
        names.path(path);
    }
    query.iter_mut().skip(1).for_each(|byte| *byte = FILLER);
}

fn field(line: &mut [u8], colon: usize, names: &Names) {
    let (name, value) = line.split_at_mut(colon);
    let value = &mut value[1..];
    let is = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
    if NUMBERS.iter().any(is) {
        if !value.trim_ascii().iter().all(u8::is_ascii_digit) {
            fill(value);
        }
        return;
    }
    if FRAMING_FIELDS.iter().any(is) {
        listed_tokens(value);
        return;
    }
    let begin = value.len() - value.trim_ascii_start().len();
    let value = &mut value[begin..];
    if SOFTWARE_FIELDS.iter().any(is) {
        let shown = known_products(value);
        // The byte after a name or a version ends it.
        let ends = value.get(shown).is_some_and(|byte| shown > 0 && b" /(;,".contains(byte));
        fill(&mut value[shown + usize::from(ends)..]);
        return;
    }
    let tells_events = is(&"Content-Type")
        && value.get(..EVENTS.len()).is_some_and(|it| it.eq_ignore_ascii_case(EVENTS));
    let is_common = COMMON_FIELDS.iter().any(is);
    fill(&mut value[if tells_events { EVENTS.len() } else { 0 }..]);
    if !is_common {
        names.words(name);
    }
}

/// Fills the tokens of a list that no standard defines.
fn listed_tokens(value: &mut [u8]) {
    for token in value.split_mut(|byte| b", \t".contains(byte)) {
        if !LINE_TOKENS.has(token) {
            fill(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(text: &str) -> String {
        masked(text, false)
    }

    fn masked(text: &str, is_chunk_size: bool) -> String {
        let mut text = text.as_bytes().to_vec();
        let end = text.trim_ascii_end().len();
        line(&mut text[..end], is_chunk_size, &Names::new([5; 16]));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn http_keeps_the_fields_that_frame_it() {
        for kept in [
            "Content-Length: 12\r\n",
            "transfer-encoding: chunked\r\n",
            "Expect: 100-continue\r\n",
            "\r\n",
            "Server: nginx/1.24.0\r\n",
            "Content-Type: text/event-stream\r\n",
        ] {
            assert_eq!(http(kept), kept);
        }
        assert_eq!(http("Cookie: id=secret\r\n"), "Cookie: .........\r\n");
        assert_eq!(masked("1f4;name=value\r\n", true), "1f4;..........\r\n");
        assert_eq!(masked("1f4\r\n", true), "1f4\r\n");
        assert_eq!(http("4155551234\r\n"), "..........\r\n");
        assert_eq!(http("Server: nginx/1.24.0 on alice\r\n"), "Server: nginx/1.24.0 ........\r\n");
        assert_eq!(http("User-Agent: alice/1.0\r\n"), "User-Agent: .........\r\n");
        assert_eq!(http("Connection: close, alice\r\n"), "Connection: close, .....\r\n");
        assert_eq!(http("Content-Length: alice\r\n"), "Content-Length:......\r\n");
        assert_eq!(http("HTTP/1.alice\r\n"), "............\r\n");
        let target = http("GET /users/alice?token=secret HTTP/1.1\r\n");
        assert!(
            target.starts_with("GET /") && target.ends_with("?............ HTTP/1.1\r\n"),
            "{target}"
        );
        assert!(!target.contains("users") && !target.contains("alice"));
        let field = http("X-Acme-Tenant: 7\r\n");
        assert!(!field.contains("Acme") && field.ends_with(": .\r\n"), "{field}");
    }
}
