//! Attributes before the statement of COM_QUERY (MySQL source documentation, "COM_QUERY", "Binary
//! Protocol Value").

/// Returns what follows the length-encoded integer at the beginning of `bytes`, with its value.
pub(super) fn length_encoded(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let size = match first {
        value @ 0..=0xfa => return Some((u64::from(value), rest)),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(size)?;
    let fold = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
    Some((value.iter().rev().fold(0, fold), rest))
}

/// Types of values (`enum_field_types`) by the number of their bytes.
mod field {
    pub const ONE_BYTE: [u8; 1] = [1];
    pub const TWO_BYTES: [u8; 2] = [2, 13];
    pub const FOUR_BYTES: [u8; 3] = [3, 4, 9];
    pub const EIGHT_BYTES: [u8; 2] = [5, 8];
    /// A byte with the length comes first.
    pub const TIMES: [u8; 4] = [7, 10, 11, 12];
    pub const NULL: u8 = 6;
}

/// Returns the statement after the attributes at the beginning of `body`, `None` if it lies beyond
/// what was read of it.
pub(super) fn statement(body: &[u8]) -> Option<&[u8]> {
    let (count, rest) = length_encoded(body)?;
    let (_sets, rest) = length_encoded(rest)?;
    if count == 0 {
        return Some(rest);
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= rest.len())?;
    let (nulls, rest) = rest.split_at_checked(count.div_ceil(8))?;
    let (bound, mut rest) = rest.split_first()?;
    let mut types = Vec::new();
    for _ in 0..if *bound == 1 { count } else { 0 } {
        let [kind, _flags, name @ ..] = rest else { return None };
        types.push(*kind);
        rest = behind_text(name)?;
    }
    for (number, kind) in types.into_iter().enumerate() {
        let is_null = nulls.get(number / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1);
        if !is_null {
            rest = behind_value(kind, rest)?;
        }
    }
    Some(rest)
}

fn behind_text(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = length_encoded(bytes)?;
    rest.get(usize::try_from(length).ok()?..)
}

fn behind_value(kind: u8, bytes: &[u8]) -> Option<&[u8]> {
    match kind {
        field::NULL => Some(bytes),
        kind if field::ONE_BYTE.contains(&kind) => bytes.get(1..),
        kind if field::TWO_BYTES.contains(&kind) => bytes.get(2..),
        kind if field::FOUR_BYTES.contains(&kind) => bytes.get(4..),
        kind if field::EIGHT_BYTES.contains(&kind) => bytes.get(8..),
        kind if field::TIMES.contains(&kind) => {
            let (&length, rest) = bytes.split_first()?;
            rest.get(usize::from(length)..)
        }
        _ => behind_text(bytes),
    }
}
