//! The Huffman code of header fields (RFC 7541 Appendix B), as far as text of methods and paths uses it.

/// The symbols with codes of 5 to 15 bits, by the length of their code. The code is canonical: codes of
/// one length are consecutive, in the order of their symbols, and begin after those that are shorter.
const SYMBOLS: [(u32, &[u8]); 10] = [
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\0$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
];

/// Returns the text of `coded`, of at most `most` bytes; `None` if it is longer, or has other bytes than
/// printable ASCII, or padding that no encoder makes (RFC 7541 §5.2).
pub(super) fn decode(coded: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let (mut bits, mut count) = (0u64, 0u32);
    let mut rest = coded.iter();
    loop {
        while count <= 48 {
            let Some(&byte) = rest.next() else { break };
            bits = bits << 8 | u64::from(byte);
            count += 8;
        }
        match symbol(bits, count) {
            Some((symbol, length)) if text.len() < most => {
                text.push(symbol);
                count -= length;
                bits &= (1 << count) - 1;
            }
            Some(_) => return None,
            // The rest is padding: less than a byte of ones.
            None => return (count < 8 && bits == (1 << count) - 1).then_some(text),
        }
    }
}

/// Returns the symbol at the beginning of the last `count` of `bits`, with the length of its code.
fn symbol(bits: u64, count: u32) -> Option<(u8, u32)> {
    let (mut first, mut before) = (0u64, 0);
    for (length, symbols) in SYMBOLS {
        first <<= length - before;
        let code = bits >> count.checked_sub(length)?;
        if let Some(&symbol) = code.checked_sub(first).and_then(|at| symbols.get(at as usize)) {
            return Some((symbol, length));
        }
        (first, before) = (first + symbols.len() as u64, length);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn examples_of_the_standard_are_decoded() {
        let coded = b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        assert_eq!(decode(coded, 64).as_deref(), Some(&b"www.example.com"[..]));
        assert_eq!(decode(b"\xa8\xeb\x10\x64\x9c\xbf", 64).as_deref(), Some(&b"no-cache"[..]));
        let date = b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff";
        assert_eq!(decode(date, 64).as_deref(), Some(&b"Mon, 21 Oct 2013 20:13:21 GMT"[..]));
    }

    #[test]
    fn padding_of_zeros_or_a_text_that_is_too_long_is_refused() {
        assert_eq!(decode(b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\x00", 64), None);
        assert_eq!(decode(b"\xa8\xeb\x10\x64\x9c\xbf", 7), None);
        assert_eq!(decode(b"\xff", 7), None, "a whole byte of padding");
        assert_eq!(decode(b"", 7), Some(Vec::new()));
    }
}
