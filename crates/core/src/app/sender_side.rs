//! Determines which side is the client from the first bytes of a message, if the handshake was not
//! captured.

use super::sniff::{self, Hint, Verdict};
use crate::wire::Side;

/// Tests for messages that only clients send.
const REQUESTS: &[sniff::Test] = &[
    sniff::http2_preface,
    sniff::http_request,
    sniff::mqtt_connect,
    sniff::postgres_startup,
    sniff::dns_query,
];

/// Commands that most Redis clients use. Other arrays may be replies.
const REDIS_COMMANDS: &[&[u8]] = &[
    b"AUTH",
    b"CLIENT",
    b"DEL",
    b"EVAL",
    b"EVALSHA",
    b"EXISTS",
    b"EXPIRE",
    b"GET",
    b"HGET",
    b"HGETALL",
    b"HMGET",
    b"HSET",
    b"INCR",
    b"LPOP",
    b"LPUSH",
    b"LRANGE",
    b"MGET",
    b"MSET",
    b"MULTI",
    b"PING",
    b"PUBLISH",
    b"RPOP",
    b"RPUSH",
    b"SADD",
    b"SELECT",
    b"SET",
    b"SETEX",
    b"SMEMBERS",
    b"TTL",
    b"ZADD",
    b"ZRANGE",
];

/// Returns the side that sends a message beginning with `bytes`; `None` if both could.
pub fn sender_side(bytes: &[u8]) -> Option<Side> {
    let prefix = &bytes[..bytes.len().min(sniff::LINE_BYTES)];
    let hint = Hint { server_port: 0, mid_stream: false };
    let is = |test: &sniff::Test| test(prefix, hint) == Verdict::Yes;
    match *bytes {
        // A handshake record with a ClientHello or a ServerHello (RFC 8446 §4).
        [22, 3, _, _, _, 1, ..] => return Some(Side::Client),
        [22, 3, _, _, _, 2, ..] => return Some(Side::Server),
        _ => {}
    }
    if REQUESTS.iter().any(is) || sql_request(bytes) || redis_request(bytes) {
        return Some(Side::Client);
    }
    let answers = is(&(sniff::http_response as sniff::Test))
        || is(&(sniff::mysql_greeting as sniff::Test))
        || ready_for_query(bytes)
        || redis_reply(bytes)
        || numbered_reply(bytes);
    answers.then_some(Side::Server)
}

/// Recognises a Query or Parse of PostgreSQL, a COM_QUERY or COM_STMT_PREPARE of MySQL.
fn sql_request(bytes: &[u8]) -> bool {
    let is_text = |text: &[u8]| text.len() >= 3 && text[..3].iter().all(u8::is_ascii_alphabetic);
    match *bytes {
        [b'Q', high, a, b, c, ref text @ ..] => {
            let length = u32::from_be_bytes([high, a, b, c]) as usize;
            // The last byte of the message ends the text, if it is in the same segment.
            let ends = length.checked_sub(5).map(|last| text.get(last));
            ends.is_some_and(|last| last.is_none_or(|&byte| byte == 0)) && is_text(text)
        }
        [b'P', 0, _, _, _, ref rest @ ..] => {
            let name = rest.iter().take(64).position(|&byte| byte == 0);
            name.is_some_and(|end| is_text(&rest[end + 1..]))
        }
        // A command is the first packet, and nothing follows it before its response.
        [a, b, c, 0, 0x03 | 0x16, ref text @ ..] => {
            let length = u32::from_le_bytes([a, b, c, 0]) as usize;
            // Attributes of the query (their number is zero) may precede it.
            let text = text.strip_prefix(&[0, 1]).unwrap_or(text);
            length + 4 >= bytes.len() && is_text(text)
        }
        _ => false,
    }
}

/// Recognises ReadyForQuery, which ends each response of PostgreSQL.
fn ready_for_query(bytes: &[u8]) -> bool {
    matches!(bytes, [.., b'Z', 0, 0, 0, 5, b'I' | b'T' | b'E'])
}

fn redis_request(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"*") else { return false };
    let mut lines = rest.split(|&byte| byte == b'\n');
    let (Some(_), Some([b'$', ..]), Some(command)) = (lines.next(), lines.next(), lines.next())
    else {
        return false;
    };
    let command = command.strip_suffix(b"\r").unwrap_or(command);
    REDIS_COMMANDS.iter().any(|known| known.eq_ignore_ascii_case(command))
}

/// Recognises a simple string, an error or a number as the first message; clients send bulk strings
/// as well.
fn redis_reply(bytes: &[u8]) -> bool {
    let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
    match line {
        _ if line.len() == bytes.len() => false,
        b"+OK" | b"+PONG" | b"+QUEUED" | b"$-1" => true,
        [b'-', rest @ ..] => rest.starts_with(b"ERR "),
        [b':', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Recognises a reply of SMTP (RFC 5321 §4.2), FTP (RFC 959 §4.2) and similar protocols.
fn numbered_reply(bytes: &[u8]) -> bool {
    matches!(bytes, [b'2'..=b'5', b'0'..=b'5', b'0'..=b'9', b' ' | b'-', .., b'\r', b'\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_send_requests_and_servers_responses() {
        let client: &[&[u8]] = &[
            b"GET /items/7 HTTP/1.1\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            &[22, 3, 1, 0, 200, 1, 0, 0, 196],
            b"Q\0\0\0\x0dSELECT 1\0",
            b"P\0\0\0\x10\0SELECT 1\0\0\0",
            b"\x09\0\0\0\x03SELECT 1",
            b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n",
        ];
        let server: &[&[u8]] = &[
            b"HTTP/1.1 200 OK\r\n",
            &[22, 3, 3, 0, 90, 2, 0, 0, 86],
            b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I",
            b"+OK\r\n",
            b":5\r\n",
            b"250 ok\r\n",
        ];
        for bytes in client {
            assert_eq!(sender_side(bytes), Some(Side::Client), "{bytes:?}");
        }
        for bytes in server {
            assert_eq!(sender_side(bytes), Some(Side::Server), "{bytes:?}");
        }
    }

    #[test]
    fn messages_of_either_side_do_not_show_the_client() {
        let either: &[&[u8]] = &[
            b"",
            b"the middle of a body",
            &[23, 3, 3, 0, 40, 7, 7, 7],
            b"*2\r\n$3\r\nfoo\r\n$3\r\nbar\r\n",
            // The second write of a command.
            b"$5\r\nhello\r\n",
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"GET key\r\n",
        ];
        for bytes in either {
            assert_eq!(sender_side(bytes), None, "{bytes:?}");
        }
    }
}
