//! Commands of memcached without a reply (`noreply`, protocol.txt of memcached): they are no
//! requests, and the client does not wait for them. The rest of the protocol is treated as turns of
//! direction.

use memchr::memmem;

/// Commands followed by a block of data, whose length is their fifth word.
const STORING: [&[u8]; 6] = [b"set", b"add", b"replace", b"append", b"prepend", b"cas"];

/// Commands that may be sent without a reply.
const COMMANDS: [&[u8]; 12] = [
    b"set",
    b"add",
    b"replace",
    b"append",
    b"prepend",
    b"cas",
    b"delete",
    b"incr",
    b"decr",
    b"touch",
    b"flush_all",
    b"verbosity",
];

/// Maximum length of a command line: a key of 250 bytes and some numbers.
const LINE_MAX: usize = 512;

/// Returns the number of bytes that follow and belong to the last command if `bytes`, the first of
/// a client, are only commands without a reply; otherwise `None`.
pub(super) fn without_reply(bytes: &[u8]) -> Option<u64> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = memmem::find(&rest[..rest.len().min(LINE_MAX)], b"\r\n")?;
        let mut words = rest[..end].split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        let command = words.next()?;
        if !COMMANDS.contains(&command) || words.clone().next_back() != Some(b"noreply") {
            return None;
        }
        rest = &rest[end + 2..];
        if STORING.contains(&command) {
            let length = std::str::from_utf8(words.nth(3)?).ok()?.parse::<u32>().ok()?;
            let block = length as usize + 2;
            match rest.get(block..) {
                Some(behind) => rest = behind,
                None => return Some((block - rest.len()) as u64),
            }
        }
    }
    (!bytes.is_empty()).then_some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_without_a_reply_are_no_requests() {
        for text in [
            "set a 0 0 1 noreply\r\nx\r\n",
            "delete a noreply\r\n",
            "flush_all noreply\r\n",
            "set a 0 0 1 noreply\r\nx\r\nincr n 1 noreply\r\n",
        ] {
            assert_eq!(without_reply(text.as_bytes()), Some(0), "{text}");
        }
    }

    #[test]
    fn the_rest_of_a_block_belongs_to_its_command() {
        assert_eq!(without_reply(b"set a 0 0 100 noreply\r\n"), Some(102));
        assert_eq!(without_reply(b"set a 0 0 100 noreply\r\n0123456789"), Some(92));
    }

    #[test]
    fn other_commands_are_requests() {
        for text in [
            "",
            "get a\r\n",
            "set a 0 0 1\r\nx\r\n",
            "set a 0 0 1 noreply\r\nx\r\nget a\r\n",
            "set noreply",
            "set a 0 0 x noreply\r\n",
            "how are you, noreply\r\n",
        ] {
            assert_eq!(without_reply(text.as_bytes()), None, "{text}");
        }
    }
}
