//! Columns of numbers as base64 (RFC 4648 §4) of little-endian values, which a page reads as typed
//! arrays.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes 64-bit floating-point numbers.
pub(super) fn f64s(values: impl Iterator<Item = f64>) -> String {
    base64(&values.flat_map(f64::to_le_bytes).collect::<Vec<_>>())
}

/// Encodes 32-bit unsigned numbers; larger ones become the maximum.
pub(super) fn u32s(values: impl Iterator<Item = u64>) -> String {
    let narrow = |value| u32::try_from(value).unwrap_or(u32::MAX);
    base64(&values.flat_map(|it| narrow(it).to_le_bytes()).collect::<Vec<_>>())
}

/// Encodes 16-bit unsigned numbers; larger ones become the maximum.
pub(super) fn u16s(values: impl Iterator<Item = u64>) -> String {
    let narrow = |value| u16::try_from(value).unwrap_or(u16::MAX);
    base64(&values.flat_map(|it| narrow(it).to_le_bytes()).collect::<Vec<_>>())
}

/// Encodes bytes as Base64.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_4648_section_10() {
        let all =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in all {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn numbers_are_little_endian() {
        assert_eq!(u32s([1, u64::MAX].into_iter()), base64(&[1, 0, 0, 0, 255, 255, 255, 255]));
        assert_eq!(f64s([1.0].into_iter()), base64(&[0, 0, 0, 0, 0, 0, 0xf0, 0x3f]));
    }
}
