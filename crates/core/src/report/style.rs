//! How the terminal looks: width, colour, and which characters it can show.

/// What the place that shows the report can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns.
    pub width: usize,
    /// Whether ANSI colours are wanted.
    pub colour: bool,
    /// Which characters it shows.
    pub glyphs: Glyphs,
    /// Whether lists are shown to their end.
    pub all: bool,
}

impl Default for Look {
    /// What a pipe gets.
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
    /// Titles and what to read first.
    Bold,
    /// Labels.
    Dim,
    /// What somebody has to repair.
    Fault,
    /// Where time goes without a fault.
    Cost,
    /// Nothing is wrong.
    Good,
    /// What limits what is said.
    Warning,
    /// Commands and configuration.
    Code,
    /// A segment of the bar, by rank.
    Segment(usize),
}

/// Filled, then ever lighter, for the bar's owners by rank.
const SEGMENTS_UNICODE: [char; 5] = ['█', '▓', '▒', '░', '·'];
const SEGMENTS_ASCII: [char; 5] = ['#', '=', '+', '-', '.'];
const SEGMENT_COLOURS: [&str; 5] = ["\x1b[31m", "\x1b[33m", "\x1b[36m", "\x1b[34m", "\x1b[90m"];

impl Look {
    /// `text` in a colour, if there are colours.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        if self.colour { format!("{}{text}\x1b[0m", code(paint)) } else { text.to_owned() }
    }

    /// The character for a bar's segment by rank.
    pub(super) fn segment(&self, rank: usize) -> char {
        let all = if self.unicode() { SEGMENTS_UNICODE } else { SEGMENTS_ASCII };
        all[rank.min(all.len() - 1)]
    }

    pub(super) fn unicode(&self) -> bool {
        self.glyphs == Glyphs::Unicode
    }

    /// `text`, spelled in ASCII where that is all there is.
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
