//! Key logs: lines of a label, a random value of a ClientHello and a secret, both in hexadecimal (RFC
//! 9850 §2).

use super::{Keys, Label, Random, Secret};
use memchr::memchr_iter;
use zeroize::Zeroizing;

/// Maximum length of a secret in a line, bytes: longer ones are none of TLS 1.2 or 1.3.
const SECRET_BYTES: usize = 64;

impl Keys {
    /// Adds the secrets of a key log; returns how many lines had one. Comments, other labels and lines
    /// that are no such line are passed over, as RFC 9850 §2 asks.
    pub fn add_log(&mut self, text: &[u8]) -> usize {
        let ends = memchr_iter(b'\n', text).chain([text.len()]);
        let mut begin = 0;
        let mut added = 0;
        for end in ends {
            added += usize::from(self.add_line(text.get(begin..end).unwrap_or_default()).is_some());
            begin = end + 1;
        }
        added
    }

    fn add_line(&mut self, line: &[u8]) -> Option<()> {
        let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|it| !it.is_empty());
        let label = Label::named(words.next()?)?;
        let mut client_random = Random::default();
        if unhex(words.next()?, &mut client_random)? != client_random.len() {
            return None;
        }
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        let length = unhex(words.next()?, &mut *bytes)?;
        if words.next().is_some() {
            return None;
        }
        self.add(client_random, label, Secret::new(&bytes[..length])?);
        Some(())
    }
}

/// Writes the bytes that `digits` stand for to the beginning of `bytes`, and returns their number.
fn unhex(digits: &[u8], bytes: &mut [u8]) -> Option<usize> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let room = bytes.get_mut(..pairs.len()).filter(|_| rest.is_empty())?;
    for (byte, pair) in room.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = (high? << 4 | low?) as u8;
    }
    Some(pairs.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

    #[test]
    fn lines_of_all_labels_are_secrets_of_their_connection() {
        let (mut keys, mut log) = (Keys::default(), String::from("# made by a test\r\n\r\n"));
        for (label, name) in Label::ALL {
            let name = str::from_utf8(name).expect("a name");
            log += &format!("{name} {RANDOM} {:02x}ff\r\n", label as u8);
        }
        assert_eq!(keys.add_log(log.as_bytes()), Label::ALL.len());
        let random = std::array::from_fn(|index| index as u8);
        let secrets = keys.get(&random).expect("a connection");
        for (label, _) in Label::ALL {
            assert_eq!(secrets.get(label).map(Secret::bytes), Some(&[label as u8, 0xff][..]));
        }
        assert_eq!((keys.count(), keys.left_out()), (Label::ALL.len() as u64, 0));
    }

    #[test]
    fn what_is_no_line_of_a_key_log_is_passed_over() {
        for line in [
            "",
            "#",
            "CLIENT_RANDOM",
            &format!("CLIENT_RANDOM {RANDOM}"),
            &format!("CLIENT_RANDOM {RANDOM} "),
            &format!("CLIENT_RANDOM {RANDOM} 012"),
            &format!("CLIENT_RANDOM {RANDOM} 0g"),
            &format!("CLIENT_RANDOM {RANDOM}00 01"),
            &format!("CLIENT_RANDOM {} 01", &RANDOM[2..]),
            &format!("CLIENT_RANDOM {RANDOM} {}", "00".repeat(49)),
            &format!("CLIENT_RANDOM {RANDOM} {}", "00".repeat(65)),
            &format!("CLIENT_RANDOM {RANDOM} 01 02"),
            &format!("EXPORTER_SECRET {RANDOM} 01"),
        ] {
            assert_eq!(Keys::default().add_log(line.as_bytes()), 0, "{line}");
        }
    }

    #[test]
    fn a_log_without_end_of_line_is_read_to_its_end() {
        let line = format!("CLIENT_RANDOM {RANDOM} 01");
        assert_eq!(Keys::default().add_log(line.as_bytes()), 1);
        assert_eq!(Keys::default().add_log(format!("{line}\n{line}").as_bytes()), 2);
    }

    #[test]
    fn nothing_shows_a_secret() {
        let mut keys = Keys::default();
        keys.add_log(format!("CLIENT_RANDOM {RANDOM} 0102").as_bytes());
        assert_eq!(format!("{keys:?}"), "keys of 1 connections");
    }
}
