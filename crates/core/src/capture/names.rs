//! Sorts file names by the numbers in them.

use std::cmp::Ordering;

/// Compares names, with digits compared as numbers: `trace.pcap9` comes before `trace.pcap10`, as
/// `tcpdump -C` counts its files.
pub(super) fn compare(left: &str, right: &str) -> Ordering {
    let (mut rest_left, mut rest_right) = (left.as_bytes(), right.as_bytes());
    while let (Some(a), Some(b)) = (rest_left.first(), rest_right.first()) {
        let ordering = if a.is_ascii_digit() && b.is_ascii_digit() {
            let (number_left, number_right) = (number(&mut rest_left), number(&mut rest_right));
            number_left.len().cmp(&number_right.len()).then_with(|| number_left.cmp(number_right))
        } else {
            (rest_left, rest_right) = (&rest_left[1..], &rest_right[1..]);
            a.cmp(b)
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    rest_left.len().cmp(&rest_right.len()).then_with(|| left.cmp(right))
}

/// Returns the digits at the start of `rest`, without leading zeros, and advances it.
fn number<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn rotated_files_are_counted_not_spelled() {
        let mut names = ["t.pcap10", "t.pcap", "t.pcap9", "t.pcap1", "t.pcap010", "s", "t.pcap2"];
        names.sort_by(|left, right| compare(left, right));
        let expected = ["s", "t.pcap", "t.pcap1", "t.pcap2", "t.pcap9", "t.pcap010", "t.pcap10"];
        assert_eq!(names, expected);
    }
}
