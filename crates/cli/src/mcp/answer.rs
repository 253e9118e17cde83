//! The length of an answer.

use std::borrow::Cow;
use tcpwhy_core::report::inert;

/// Longest answer, bytes: about 8,000 words, of which an assistant can read several.
const ANSWER_MAX_BYTES: usize = 48 << 10;

/// Returns `text` with what a terminal would interpret escaped, and cut at the end of a line where it is
/// too long, which its last line says.
pub fn bounded(text: &str) -> Cow<'_, str> {
    let text = inert(text, &['\n', '\t'], false);
    if text.len() <= ANSWER_MAX_BYTES {
        return text;
    }
    let fitting = text.split_inclusive('\n').scan(0, |length, line| {
        *length += line.len();
        (*length <= ANSWER_MAX_BYTES).then_some(*length)
    });
    let (shown, rest) = text.split_at(fitting.last().unwrap_or(0));
    let left = rest.lines().filter(|line| !line.is_empty()).count();
    Cow::Owned(format!(
        "{shown}… {left} more lines; ask for less, with `filter`, `first` or `count`\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_ends_with_a_whole_line_and_the_number_of_those_left_out() {
        let line = "é".repeat(500) + "\n";
        let text = line.repeat(60);
        let shown = bounded(&text);
        assert!(shown.len() < ANSWER_MAX_BYTES + 100);
        let lines: Vec<_> = shown.lines().collect();
        let (last, whole) = lines.split_last().expect("lines");
        assert!(whole.iter().all(|it| *it == line.trim_end()));
        assert!(last.starts_with(&format!("… {} more lines", 60 - whole.len())), "{last}");
        assert_eq!(bounded(&line), line);
    }

    #[test]
    fn characters_that_a_terminal_interprets_are_escaped() {
        assert_eq!(bounded("a\u{1b}[2J\u{202e}b\n"), "a\\u001b[2J\\u202eb\n");
    }
}
