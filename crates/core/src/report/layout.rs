//! Fits text into lines: wraps between words, indents labels, aligns columns.

use super::style::{Look, Paint, inert};
use crate::findings::term;
use unicode_width::UnicodeWidthChar;

/// Columns before the text of a labelled paragraph.
pub(super) const LABEL_COLUMNS: usize = 13;

/// Units that stay on the line of their number.
const UNITS: &[&str] = &[
    "ns", "µs", "us", "ms", "s", "min", "h", "d", "B", "KiB", "MiB", "GiB", "bit/s", "kbit/s",
    "Mbit/s", "Gbit/s", "%",
];

/// Characters that begin no line, and those that end none: those of Chinese typesetting (JIS X 4051, GB/T
/// 15834), between which no blank stands.
const NEVER_FIRST: &str = "。，、；：！？）」』》〉】”’…—·)]}.,;:!?%";
const NEVER_LAST: &str = "（「『《〈【“‘([{";

/// Breaks `text` into lines of at most `width` columns: between words, but not between a number and its unit,
/// and between Chinese characters; a longer word gets a line of its own.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let (mut words, mut begin, mut is_spaced) = (Vec::new(), 0, true);
    let (mut before, mut in_code) = (' ', false);
    for (at, char) in text.char_indices() {
        let is_blank = char == ' ' && !joins(text, at);
        if is_blank || may_break(before, char, in_code) {
            words.push((is_spaced, text.get(begin..at).unwrap_or("")));
            (begin, is_spaced) = if is_blank { (at + 1, true) } else { (at, false) };
        }
        in_code ^= char == '`';
        before = char;
    }
    words.push((is_spaced, text.get(begin..).unwrap_or("")));
    fold(words.into_iter(), width)
}

/// Returns whether a line may end between two characters without a blank: one is Chinese, and neither is of
/// the code that backquotes enclose.
fn may_break(before: char, after: char, in_code: bool) -> bool {
    let is_wide = |char| columns_of_char(char) == 2;
    (is_wide(before) || is_wide(after))
        && !in_code
        && before != ' '
        && after != ' '
        && !NEVER_LAST.contains(before)
        && !NEVER_FIRST.contains(after)
}

/// Returns whether the blank at `at` lies between a number and its unit or the noun that it counts, or before
/// a number that is an upper bound (`< 0.1 %`).
fn joins(text: &str, at: usize) -> bool {
    let is_wide = |char| columns_of_char(char) == 2;
    let before = text.get(..at).and_then(|text| text.rsplit(' ').next()).unwrap_or("");
    let after = text.get(at + 1..).and_then(|text| text.split(' ').next()).unwrap_or("");
    let before = before.rsplit(is_wide).next().unwrap_or(before);
    let number = before.trim_start_matches(['(', '<', '+', '-', '−', '±', '~']);
    let is_number = number.starts_with(|first: char| first.is_ascii_digit())
        && number.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b','));
    let unit = after.split(is_wide).next().unwrap_or(after);
    let unit = unit.trim_end_matches(['.', ',', ';', ':', ')', '?']);
    let is_counted = after.starts_with(is_wide);
    before.trim_start_matches('(') == "<" || is_number && (is_counted || UNITS.contains(&unit))
}

/// Breaks a shell command into lines; quoted words are not broken.
fn wrap_command(command: &str, width: usize) -> Vec<String> {
    let mut quoted = false;
    let words = command.split(|char| {
        quoted ^= char == '\'';
        char == ' ' && !quoted
    });
    fold(words.map(|word| (true, word)), width)
}

/// Writes words into lines; a word has a blank before it on its line, or none.
fn fold<'t>(words: impl Iterator<Item = (bool, &'t str)>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut columns = 0;
    for (is_spaced, word) in words.filter(|(_, word)| !word.is_empty()) {
        let length = columns_of(word);
        let gap = usize::from(is_spaced);
        match lines.last_mut() {
            Some(line) if columns + gap + length <= width => {
                line.push_str(&" "[..gap]);
                line.push_str(word);
                columns += gap + length;
            }
            _ => {
                lines.push(word.to_owned());
                columns = length;
            }
        }
    }
    lines
}

/// Returns the number of columns of `text`: characters of East Asian scripts take two.
pub fn columns_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(columns_of_char).sum() }
}

/// Returns the number of columns of `char`. Lines, bars and signs, whose width UAX #11 leaves open, take one.
fn columns_of_char(char: char) -> usize {
    char.width().unwrap_or(1)
}

/// Pads `text` on the right to `columns`.
pub fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(columns_of(text))))
}

/// Pads `text` on the left to `columns`.
pub fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(columns_of(text))))
}

/// Truncates `text` to `columns` and marks the truncation.
pub fn cut(text: &str, columns: usize) -> String {
    if columns_of(text) <= columns {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |char: &char| {
        used += columns_of_char(*char);
        used <= columns
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{kept}…")
}

/// Collects the lines of an output.
pub struct Page<'a> {
    /// The properties of the output.
    pub look: &'a Look,
    text: String,
}

impl<'a> Page<'a> {
    /// Creates an empty page.
    pub fn new(look: &'a Look) -> Self {
        Self { look, text: String::new() }
    }

    /// Returns the text written so far.
    pub fn finish(self) -> String {
        self.text
    }

    /// Writes another page of the same look.
    pub fn embed(&mut self, page: &str) {
        self.text.push_str(page);
    }

    /// Writes an empty line, unless the page is empty or ends with one.
    pub fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Writes one line; the caller adds colours. What a terminal would interpret is escaped, line
    /// ends too: what was read from elsewhere adds no line.
    pub fn line(&mut self, line: &str) {
        let line = inert(line, &[], self.look.colour);
        self.text.push_str(self.look.spell(&line).trim_end());
        self.text.push('\n');
    }

    /// Writes a wrapped paragraph in one colour, indented by `indent` columns.
    pub fn paragraph(&mut self, paint: Option<Paint>, text: &str, indent: usize) {
        for line in self.wrapped(text, indent) {
            let line = match paint {
                Some(paint) => self.look.paint(paint, &line),
                None => line,
            };
            self.line(&format!("{}{line}", " ".repeat(indent)));
        }
    }

    /// Writes `  label     text`; the text is wrapped and indented, and commands in it are
    /// coloured.
    pub fn labelled(&mut self, label: &str, text: &str) {
        let lines = self.wrapped(text, LABEL_COLUMNS);
        self.hang(label, lines.iter().map(String::as_str), true);
    }

    /// Writes items separated by dots under a label; items are not broken.
    pub fn listed(&mut self, label: &str, items: &[String]) {
        let width = self.look.width.saturating_sub(LABEL_COLUMNS).max(20);
        let mut lines: Vec<String> = Vec::new();
        for item in items {
            match lines.last_mut() {
                Some(line) if columns_of(line) + 3 + columns_of(item) <= width => {
                    *line += &format!(" · {item}");
                }
                _ => lines.push(item.clone()),
            }
        }
        self.hang(label, lines.iter().map(String::as_str), false);
    }

    /// Writes a shell command under a label; broken lines end with `\` so that they can be pasted.
    pub fn command(&mut self, label: &str, command: &str) {
        let width = self.look.width.saturating_sub(LABEL_COLUMNS + 2).max(20);
        let lines = wrap_command(command, width);
        let last = lines.len().saturating_sub(1);
        let broken = lines
            .iter()
            .enumerate()
            .map(|(index, line)| if index < last { format!("{line} \\") } else { line.clone() });
        let lines: Vec<String> = broken.map(|line| self.look.paint(Paint::Code, &line)).collect();
        self.hang(label, lines.iter().map(String::as_str), false);
    }

    /// Writes an item of a list, wrapped and indented.
    pub fn item(&mut self, text: &str) {
        let mut in_code = false;
        for (index, line) in self.wrapped(text, 4).iter().enumerate() {
            let sign = if index == 0 { "  - " } else { "    " };
            let line = self.coloured(line, &mut in_code);
            self.line(&format!("{sign}{line}"));
        }
    }

    /// Writes a warning.
    pub fn warning(&mut self, text: &str) {
        for (index, line) in self.wrapped(text, 2).iter().enumerate() {
            let sign = if index == 0 { "!" } else { " " };
            self.line(&self.look.paint(Paint::Warning, &format!("{sign} {line}")));
        }
    }

    /// Writes a wrapped paragraph, indented by two columns; commands in it are coloured.
    pub fn prose(&mut self, text: &str) {
        let mut in_code = false;
        for line in self.wrapped(text, 2) {
            let line = self.coloured(&line, &mut in_code);
            self.line(&format!("  {line}"));
        }
    }

    /// Writes `start` unchanged, with the wrapped words beside it, or below it if there is no room.
    pub fn hanging(&mut self, start: &str, words: &str) {
        let beside = columns_of(start) + 2;
        let indent = if beside + 30 <= self.look.width { beside } else { 4 };
        let lines = self.wrapped(words, indent);
        let (first, below) = match lines.split_first() {
            Some((first, below)) if indent == beside => (first.as_str(), below),
            _ => ("", lines.as_slice()),
        };
        self.line(&format!("  {start}{first}"));
        below.iter().for_each(|line| self.line(&format!("{}{line}", " ".repeat(indent))));
    }

    /// Writes a labelled row of columns, the last of which is wrapped text; it goes below the
    /// others if there is no room beside them.
    pub(super) fn columned(&mut self, label: &str, start: &str, words: &str) {
        let indent = LABEL_COLUMNS + columns_of(start);
        let beside = indent + 24 <= self.look.width;
        let label = self.labelling(label);
        let mut lines =
            self.wrapped(words, if beside { indent } else { LABEL_COLUMNS + 2 }).into_iter();
        let first = if beside { lines.next().unwrap_or_default() } else { String::new() };
        self.line(&format!("  {label}{start}{first}"));
        let indent = if beside { indent } else { LABEL_COLUMNS + 2 };
        lines.for_each(|line| self.line(&format!("{}{line}", " ".repeat(indent))));
    }

    fn wrapped(&self, text: &str, indent: usize) -> Vec<String> {
        wrap(&self.look.spell(text), self.look.width.saturating_sub(indent).max(20))
    }

    fn hang<'l>(&mut self, label: &str, lines: impl Iterator<Item = &'l str>, codes: bool) {
        let mut in_code = false;
        for (index, line) in lines.enumerate() {
            let label = if index == 0 { label } else { "" };
            let label = self.labelling(label);
            let line = if codes { self.coloured(line, &mut in_code) } else { line.to_owned() };
            self.line(&format!("  {label}{line}"));
        }
    }

    /// Returns a label in the language of the page, padded to its columns.
    fn labelling(&self, label: &str) -> String {
        let label = term(self.look.language, label);
        self.look.paint(Paint::Dim, &left(label, LABEL_COLUMNS - 2))
    }

    /// Writes a title in the language of the page, with a text behind it if it is not empty.
    pub fn title(&mut self, title: &str, beside: &str) {
        let title = self.look.paint(Paint::Bold, term(self.look.language, title));
        let gap = if beside.is_empty() { "" } else { "   " };
        self.line(&format!("{title}{gap}{beside}"));
    }

    /// Colours the text between backquotes, which may span lines, if colours are enabled.
    pub(super) fn coloured(&self, line: &str, in_code: &mut bool) -> String {
        if !self.look.colour {
            return line.to_owned();
        }
        let mut text = String::new();
        for (index, piece) in line.split('`').enumerate() {
            if index > 0 {
                *in_code = !*in_code;
            }
            match (*in_code, piece) {
                (_, "") => {}
                (true, piece) => text.push_str(&self.look.paint(Paint::Code, piece)),
                (false, piece) => text.push_str(piece),
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_never_broken() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a-very-long-word b", 5), ["a-very-long-word", "b"]);
    }

    #[test]
    fn a_number_and_its_unit_stay_on_one_line() {
        assert_eq!(wrap("it takes 41.4 ms, then", 14), ["it takes", "41.4 ms, then"]);
        assert_eq!(wrap("a share of (< 0.1 %) here", 17), ["a share of", "(< 0.1 %) here"]);
        assert_eq!(wrap("seen in 10.0.0.1:80 s", 19), ["seen in 10.0.0.1:80", "s"]);
    }

    #[test]
    fn chinese_lines_break_between_characters_and_keep_their_punctuation() {
        assert_eq!(wrap("接收端延迟确认。发送端等待", 14), ["接收端延迟确", "认。发送端等待"]);
        assert_eq!(wrap("等待（最长）", 6), ["等待", "（最", "长）"]);
        assert_eq!(wrap("运行 `ss -ti`：看", 8), ["运行 `ss", "-ti`：看"]);
        assert_eq!(wrap("耗时 41.4 ms，其后", 12), ["耗时", "41.4 ms，其", "后"]);
        assert_eq!(wrap("共有 3 条连接", 8), ["共有", "3 条连接"]);
    }

    #[test]
    fn a_chinese_character_takes_two_columns() {
        assert_eq!(columns_of("延迟 41 ms"), 10);
        assert_eq!(cut("接收窗口", 6), "接收…");
        assert_eq!(left("原因", 6), "原因  ");
        assert_eq!(columns_of("µs → … ─▶█░"), 11);
    }

    #[test]
    fn a_broken_command_can_be_pasted() {
        let look = Look { width: 40, ..Look::default() };
        let mut page = Page::new(&look);
        page.command("verify", "tcpdump -i any 'host 10.0.0.1 and port 80'");
        let text = page.finish();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("-i any \\\n"), "{text}");
        assert!(text.contains("'host 10.0.0.1 and port 80'"), "{text}");
    }
}
