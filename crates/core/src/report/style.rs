//! Properties of the output: width, colour and character set; and what may be printed at all.

use crate::model::Language;
use crate::model::clean::{is_interpreted, push_escape};
use std::borrow::Cow;

/// Properties of the place where a report is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Width, columns.
    pub width: usize,
    /// ANSI colours are used.
    pub colour: bool,
    /// The character set.
    pub glyphs: Glyphs,
    /// Lists are shown in full.
    pub all: bool,
    /// The language of the text.
    pub language: Language,
}

impl Default for Look {
    /// Returns the properties of a pipe.
    fn default() -> Self {
        Self {
            width: 80,
            colour: false,
            glyphs: Glyphs::Unicode,
            all: false,
            language: Language::English,
        }
    }
}

/// Characters for lines, bars and signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// Unicode.
    Unicode,
    /// ASCII only.
    Ascii,
}

/// Colours by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Titles and summaries.
    Bold,
    /// The style of labels.
    Dim,
    /// The style of faults.
    Fault,
    /// A cost without a fault.
    Cost,
    /// No fault was found.
    Good,
    /// A limit of the report.
    Warning,
    /// Commands and configuration.
    Code,
    /// A segment of the bar, by rank.
    Segment(usize),
}

/// Characters for the bar's owners by rank, from filled to light.
const SEGMENTS_UNICODE: [char; 5] = ['█', '▓', '▒', '░', '·'];
const SEGMENTS_ASCII: [char; 5] = ['#', '=', '+', '-', '.'];
const SEGMENT_COLOURS: [&str; 5] = ["\x1b[31m", "\x1b[33m", "\x1b[36m", "\x1b[34m", "\x1b[90m"];

impl Look {
    /// Returns `text` in a colour, if colours are enabled.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        if self.colour { format!("{}{text}\x1b[0m", code(paint)) } else { text.to_owned() }
    }

    /// Returns the character for a segment of the bar by rank.
    pub(super) fn segment(&self, rank: usize) -> char {
        let all = if self.unicode() { SEGMENTS_UNICODE } else { SEGMENTS_ASCII };
        all[rank.min(all.len() - 1)]
    }

    pub(super) fn unicode(&self) -> bool {
        self.glyphs == Glyphs::Unicode
    }

    /// Returns `text`, converted to ASCII if only ASCII is available.
    pub fn spell(&self, text: &str) -> String {
        if self.unicode() {
            return text.to_owned();
        }
        let mut ascii = String::with_capacity(text.len());
        for char in text.chars() {
            match char {
                'µ' => ascii.push('u'),
                '·' => ascii.push('-'),
                '→' => ascii.push_str("->"),
                '←' => ascii.push_str("<-"),
                '…' => ascii.push_str("..."),
                '≥' => ascii.push_str(">="),
                '≤' => ascii.push_str("<="),
                '×' => ascii.push('x'),
                '√' => ascii.push_str("sqrt "),
                '–' | '—' | '─' | '−' => ascii.push('-'),
                '§' => ascii.push_str("sec. "),
                '▶' => ascii.push('>'),
                '▲' => ascii.push('^'),
                '↑' => ascii.push_str("Up"),
                '↓' => ascii.push_str("Down"),
                '◀' => ascii.push('<'),
                '│' | '┊' => ascii.push('|'),
                '█' | '▓' | '▒' | '░' => ascii.push('#'),
                _ if char.is_ascii() => ascii.push(char),
                _ => ascii.push('?'),
            }
        }
        ascii
    }
}

/// Codes that begin and end the styles of [`Paint`]: the first ends each.
const CODES: [(&str, Option<Paint>); 9] = [
    ("\x1b[0m", None),
    ("\x1b[1m", Some(Paint::Bold)),
    ("\x1b[90m", Some(Paint::Dim)),
    ("\x1b[1;31m", Some(Paint::Fault)),
    ("\x1b[33m", Some(Paint::Cost)),
    ("\x1b[32m", Some(Paint::Good)),
    ("\x1b[36m", Some(Paint::Code)),
    ("\x1b[31m", Some(Paint::Segment(0))),
    ("\x1b[34m", Some(Paint::Segment(3))),
];

/// Returns the code of a style at the begin of `text`, and the style; its end is `None`.
fn code_at(text: &str) -> Option<(&'static str, Option<Paint>)> {
    CODES.into_iter().find(|(code, _)| text.starts_with(code))
}

/// Divides a line of a coloured page into its pieces, each with its style, without the codes. Styles
/// with the same codes become the first of them.
pub fn pieces(line: &str) -> Vec<(Option<Paint>, &str)> {
    let (mut pieces, mut paint, mut rest) = (Vec::new(), None, line);
    let (mut begin, mut at) = (0, 0);
    while let Some(found) = rest.find('\x1b') {
        at += found;
        let (length, next) = match code_at(&line[at..]) {
            Some((code, next)) => (code.len(), next),
            None => (1, paint),
        };
        if length > 1 {
            pieces.push((paint, &line[begin..at]));
            begin = at + length;
        }
        (paint, at) = (next, at + length);
        rest = &line[at..];
    }
    pieces.push((paint, &line[begin..]));
    pieces.retain(|(_, text)| !text.is_empty());
    pieces
}

/// Returns `text` with every character that would be interpreted, not shown, replaced by its escape
/// in JSON, which does not change what a JSON document says. The characters in `layout` are kept;
/// with `coloured` also the codes of the styles.
pub fn inert<'t>(text: &'t str, layout: &[char], coloured: bool) -> Cow<'t, str> {
    let is_shown = |char: char| !is_interpreted(char) || layout.contains(&char);
    let Some(first) = text.find(|char| !is_shown(char)) else { return Cow::Borrowed(text) };
    let (shown, mut rest) = text.split_at(first);
    let mut inert = String::from(shown);
    while let Some(char) = rest.chars().next() {
        let code = code_at(rest).filter(|_| coloured);
        let length = code.map_or(char.len_utf8(), |(code, _)| code.len());
        if code.is_some() || is_shown(char) {
            inert.push_str(&rest[..length]);
        } else {
            push_escape(char, &mut inert);
        }
        rest = &rest[length..];
    }
    Cow::Owned(inert)
}

fn code(paint: Paint) -> &'static str {
    match paint {
        Paint::Bold => "\x1b[1m",
        Paint::Dim => "\x1b[90m",
        Paint::Fault => "\x1b[1;31m",
        Paint::Cost | Paint::Warning => "\x1b[33m",
        Paint::Good => "\x1b[32m",
        Paint::Code => "\x1b[36m",
        Paint::Segment(rank) => SEGMENT_COLOURS[rank.min(SEGMENT_COLOURS.len() - 1)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_codes_of_styles_are_kept() {
        let look = Look { colour: true, ..Look::default() };
        let every = [
            Paint::Bold,
            Paint::Dim,
            Paint::Fault,
            Paint::Cost,
            Paint::Good,
            Paint::Warning,
            Paint::Code,
        ];
        let segments = (0..SEGMENT_COLOURS.len()).map(Paint::Segment);
        for paint in every.into_iter().chain(segments) {
            let text = look.paint(paint, "µs →");
            assert_eq!(inert(&text, &[], true), text);
            assert!(!inert(&text, &[], false).contains('\x1b'));
            let line = format!("a {text} b");
            let [(None, "a "), (Some(style), "µs →"), (None, " b")] = pieces(&line)[..] else {
                panic!("{:?}", pieces(&line));
            };
            assert_eq!(code(style), code(paint));
        }
        let hostile = "a\x1b]0;x\x07\x1b[2J\x1b[8m\u{9b}31m\u{202e}\r\nb";
        let shown = "a\\u001b]0;x\\u0007\\u001b[2J\\u001b[8m\\u009b31m\\u202e\\u000d\nb";
        assert_eq!(inert(hostile, &['\n'], true), shown);
    }
}
