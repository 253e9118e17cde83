//! Properties of the output: width, colour and character set.

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
}

impl Default for Look {
    /// Returns the properties of a pipe.
    fn default() -> Self {
        Self { width: 80, colour: false, glyphs: Glyphs::Unicode, all: false }
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
