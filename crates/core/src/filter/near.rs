//! Suggests the known word that is closest to an unknown one.

/// Returns the candidate that is closest to `word`, if at most one letter in three is missing,
/// added, changed or swapped with its neighbour.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().take(LETTERS_MAX).collect();
    let candidates = candidates.into_iter();
    let distances = candidates.map(|it| (distance(&word, &it.chars().collect::<Vec<_>>()), it));
    let (edits, nearest) = distances.min_by_key(|&(edits, _)| edits)?;
    let letters = word.len().max(nearest.chars().count());
    (edits <= (letters / 3).max(1) && edits < letters).then_some(nearest)
}

/// Letters of a word that are compared, at most.
const LETTERS_MAX: usize = 64;

/// Returns the number of edits between two words: the optimal string alignment distance.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, &mine) in one.iter().enumerate() {
        let mut now = vec![row + 1];
        for (column, &theirs) in other.iter().enumerate() {
            let changed = last[column] + usize::from(mine != theirs);
            let mut least = changed.min(last[column + 1] + 1).min(now[column] + 1);
            let swapped =
                row > 0 && column > 0 && mine == other[column - 1] && one[row - 1] == theirs;
            if swapped && let Some(&edits) = before.get(column - 1) {
                least = least.min(edits + 1);
            }
            now.push(least);
        }
        before = std::mem::replace(&mut last, now);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_a_typing_mistake_are_recognised() {
        let words = ["host", "port", "after", "before", "cause", "explain"];
        for (typed, meant) in
            [("hsot", "host"), ("prt", "port"), ("exlain", "explain"), ("Host", "host")]
        {
            assert_eq!(nearest(typed, words), Some(meant), "{typed}");
        }
    }

    #[test]
    fn other_words_are_not() {
        let words = ["host", "port", "explain"];
        for typed in ["slow", "capture.pcap", "x", ""] {
            assert_eq!(nearest(typed, words), None, "{typed}");
        }
    }
}
