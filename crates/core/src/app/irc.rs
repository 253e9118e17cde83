//! IRC (RFC 2812): lines that nothing in them joins. What one client writes comes to the others
//! unasked, and most commands have no reply, so that neither side is known to wait.

/// Maximum length of a line, bytes (RFC 2812 §2.3).
const LINE_MAX: usize = 512;

/// Commands that a server passes on from one client to others (RFC 2812 §3).
const EVENTS: [&[u8]; 10] = [
    b"PRIVMSG", b"NOTICE", b"JOIN", b"PART", b"QUIT", b"MODE", b"NICK", b"TOPIC", b"KICK",
    b"INVITE",
];

/// Returns whether `bytes` begin with a line that only IRC has: the client registers (NICK, CAP), or
/// the server greets (NOTICE), pings, replies with a number, or passes on a message. No other bytes
/// than those of the line are read.
pub(super) fn speaks(bytes: &[u8]) -> bool {
    if !matches!(bytes.first(), Some(b':' | b'N' | b'C' | b'P')) {
        return false;
    }
    let Some(end) = memchr::memchr(b'\n', &bytes[..bytes.len().min(LINE_MAX)]) else {
        return false;
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let (first, second, third) = (words.next(), words.next(), words.next());
    match (first, second) {
        (Some(b"NICK"), Some(name)) => third.is_none() && is_name(name),
        (Some(b"CAP"), Some(command)) => [&b"LS"[..], b"REQ", b"END"].contains(&command),
        (Some(b"NOTICE"), Some(target)) => [&b"AUTH"[..], b"*"].contains(&target),
        (Some(b"PING"), Some(server)) => server.len() > 1 && server[0] == b':' && third.is_none(),
        (Some([b':', prefix @ ..]), Some(command)) => {
            let is_number = command.len() == 3 && command.iter().all(u8::is_ascii_digit);
            let is_greeting = command == b"NOTICE" && third == Some(b"*");
            let is_user = prefix.contains(&b'!') && EVENTS.contains(&command);
            third.is_some() && is_number || is_greeting || is_user
        }
        _ => false,
    }
}

/// Returns whether `name` may be that of a user (RFC 2812 §2.3.1).
fn is_name(name: &[u8]) -> bool {
    let name = name.strip_prefix(b":").unwrap_or(name);
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic() && *byte != b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_irc_are_recognised() {
        for line in [
            "NICK guest\r\nUSER guest 0 * :Guest\r\n",
            "CAP LS 302\r\n",
            "NOTICE AUTH :*** Looking up your hostname\r\n",
            ":irc.example.org NOTICE * :*** Looking up your hostname\r\n",
            ":irc.example.org 001 guest :Welcome\r\n",
            ":other!~o@host.example PRIVMSG #room :hello\r\n",
            "PING :irc.example.org\r\n",
        ] {
            assert!(speaks(line.as_bytes()), "{line}");
        }
    }

    /// Negative twins: other protocols of lines, and lines that are not complete.
    #[test]
    fn lines_of_other_protocols_are_not() {
        for line in [
            "NICK guest",
            "PASS secret\r\n",
            "NOOP\r\n",
            "PING\r\n",
            "CAPA\r\n",
            "NICK a b\r\n",
            "PORT 127,0,0,1,4,1\r\n",
            ":1\r\n",
            ": 200 ok\n",
            "220 mail.example.org ESMTP\r\n",
        ] {
            assert!(!speaks(line.as_bytes()), "{line}");
        }
    }
}
