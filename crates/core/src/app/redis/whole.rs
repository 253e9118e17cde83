//! Values, commands and responses that are complete in one push.

use super::{COMMAND_MAX, LOOKED_AT_BYTES};
use memchr::memchr;
use std::ops::Range;

/// Greatest number of digits of a length that is within a push.
const DIGITS_MAX: usize = 6;

/// Returns the number behind `sign` at the beginning of `bytes`, which ends its line, with the length of
/// that line.
#[inline]
fn short_number(sign: u8, bytes: &[u8]) -> Option<(usize, usize)> {
    let (_, digits) = bytes.split_first().filter(|(first, _)| **first == sign)?;
    let mut number = 0;
    for (count, byte) in digits.iter().take(DIGITS_MAX + 1).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let is_end = count > 0 && *byte == b'\r' && digits.get(count + 1) == Some(&b'\n');
            return is_end.then_some((number, 1 + count + 2));
        }
        number = 10 * number + usize::from(digit);
    }
    None
}

/// Returns the place of the bulk string with which `bytes` begin, and its end behind its line end,
/// wherever `bytes` end.
#[inline]
pub(super) fn bulk_string(bytes: &[u8]) -> Option<(Range<usize>, usize)> {
    let (size, begin) = short_number(b'$', bytes)?;
    Some((begin..begin + size, begin + size + 2))
}

/// Returns the first word of the command with which `bytes` begin, the end of that word's line, and the
/// end of the command, if it is an array of bulk strings and complete.
#[inline]
pub(super) fn whole_command(bytes: &[u8]) -> Option<(&[u8], usize, usize)> {
    let (count, mut end) = short_number(b'*', bytes)?;
    let (place, word_end) = bulk_string(&bytes[end..])?;
    let word = bytes[end..].get(place).filter(|word| word.len() as u64 <= COMMAND_MAX)?;
    if bytes[end..].get(..word_end)?.ends_with(b"\r\n") && count > 0 {
        let word_end = end + word_end;
        end = word_end;
        for _ in 1..count {
            end += bulk_string(bytes.get(end..)?)?.1;
        }
        return (end <= bytes.len()).then_some((word, word_end, end));
    }
    None
}

/// Returns the end of the response with which `bytes` begin, if it is a status, a number or a bulk string,
/// and complete.
#[inline]
pub(super) fn whole_response(bytes: &[u8]) -> Option<usize> {
    let end = match bytes.first()? {
        b'+' | b':' => memchr(b'\n', bytes.get(..LOOKED_AT_BYTES).unwrap_or(bytes))? + 1,
        b'$' => bulk_string(bytes)?.1,
        _ => return None,
    };
    (end <= bytes.len()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_whole_if_all_its_words_are() {
        let whole = |bytes: &[u8]| whole_command(bytes).map(|(word, ..)| word.to_vec());
        let get = b"*2\r\n$3\r\nGET\r\n$2\r\nab\r\n";
        assert_eq!(whole_command(get), Some((&b"GET"[..], 13, 21)));
        assert_eq!(whole(&[get, &b"*1"[..]].concat()).as_deref(), Some(&b"GET"[..]));
        assert!((0..get.len()).all(|len| whole(&get[..len]).is_none()));
        for other in [&b"*0\r\n"[..], b"*-1\r\n", b"PING\r\n", b"*1\r\n$4\r\nPINGxx"] {
            assert_eq!(whole(other), None);
        }
    }

    #[test]
    fn a_response_of_one_value_is_whole_up_to_its_line_end() {
        for (bytes, end) in [(&b"+OK\r\n:1\r\n"[..], 5), (b":12\r\n", 5), (b"$2\r\nab\r\n", 8)] {
            assert_eq!(whole_response(bytes), Some(end));
            assert_eq!(whole_response(&bytes[..end - 1]), None);
        }
        for other in [&b"-ERR\r\n"[..], b"$-1\r\n", b"*1\r\n:1\r\n", b"$9999999\r\n", b""] {
            assert_eq!(whole_response(other), None);
        }
    }
}
