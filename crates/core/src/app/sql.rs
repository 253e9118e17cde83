//! The verb of an SQL statement.

use super::kind::{Label, OTHER};
use super::listed::SQL_VERBS;
use std::ops::Range;

/// Returns the verb in upper case, after blanks, parentheses and comments; empty if the captured
/// part has none.
pub(super) fn verb(statement: &[u8]) -> Label {
    let mut label = Label::default();
    match &statement[first_word(statement)] {
        [] => {}
        verb if SQL_VERBS.has(verb) => label.push_upper(verb),
        _ => label.push(OTHER),
    }
    label
}

/// Returns the range of the verb in a statement; empty if there is none.
pub(crate) fn verb_range(statement: &[u8]) -> Range<usize> {
    let word = first_word(statement);
    if SQL_VERBS.has(&statement[word.clone()]) { word } else { word.start..word.start }
}

/// Returns the range of the first word of a statement; empty if there is none.
fn first_word(statement: &[u8]) -> Range<usize> {
    let mut rest = statement;
    loop {
        rest = rest.trim_ascii_start();
        rest = match rest {
            [b'(' | b';', tail @ ..] => tail,
            [b'-', b'-', tail @ ..] | [b'#', tail @ ..] => after(tail, b"\n"),
            [b'/', b'*', tail @ ..] => after(tail, b"*/"),
            _ => break,
        };
    }
    let end = rest.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(rest.len());
    let begin = statement.len() - rest.len();
    begin..begin + end
}

fn after<'a>(text: &'a [u8], end: &[u8]) -> &'a [u8] {
    let found = text.windows(end.len()).position(|window| window == end);
    found.map_or(&[], |at| &text[at + end.len()..])
}
