//! Numbers at fixed places of messages, and patterns of their first bytes.

use crate::app::sniff::Verdict;

/// A byte of a pattern.
pub(super) enum Byte {
    Any,
    Is(u8),
    /// Between these two, including both.
    Within(u8, u8),
}

/// Compares `prefix` with `pattern` up to the shorter length.
pub(super) fn like(prefix: &[u8], pattern: &[Byte]) -> Verdict {
    let fits = prefix.iter().zip(pattern).all(|(byte, expected)| match expected {
        Byte::Any => true,
        Byte::Is(one) => byte == one,
        Byte::Within(least, most) => (least..=most).contains(&byte),
    });
    match fits {
        false => Verdict::No,
        true if prefix.len() >= pattern.len() => Verdict::Yes,
        true => Verdict::Maybe,
    }
}

/// Returns the `N` bytes at `at`.
pub(super) fn at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(super) fn u16_be(bytes: &[u8], place: usize) -> Option<u16> {
    at(bytes, place).map(u16::from_be_bytes)
}

pub(super) fn u16_le(bytes: &[u8], place: usize) -> Option<u16> {
    at(bytes, place).map(u16::from_le_bytes)
}

pub(super) fn u32_be(bytes: &[u8], place: usize) -> Option<u32> {
    at(bytes, place).map(u32::from_be_bytes)
}

pub(super) fn u32_le(bytes: &[u8], place: usize) -> Option<u32> {
    at(bytes, place).map(u32::from_le_bytes)
}

/// Returns the name of `number` in a table.
pub(super) fn name(table: &[(u8, &'static str)], number: u8) -> Option<&'static str> {
    table.iter().find(|(it, _)| *it == number).map(|(_, name)| *name)
}

/// Returns whether `part` stands somewhere in `bytes`.
pub(super) fn has(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}
