//! Reports of all stored captures and traces, in each language: nothing is left in English, and no line is wider
//! than the page.

use crate::claims::stored;
use crate::diagnosis::diagnose;
use crate::drawn::draw;
use crate::language::Place;
use crate::network::capture;
use crate::traces::traces;
use std::collections::BTreeSet;
use tcpwhy_core::findings::in_words;
use tcpwhy_core::model::{Cause, Fact, Language, Report};
use tcpwhy_core::report::{Look, columns_of, render_manual, text};

/// Words that English sentences consist of and that are neither names nor commands. One of them, alone, in a
/// Chinese text shows an English sentence.
const ENGLISH: &[&str] = &[
    "the",
    "of",
    "is",
    "are",
    "was",
    "were",
    "that",
    "with",
    "not",
    "its",
    "it",
    "an",
    "to",
    "for",
    "by",
    "no",
    "which",
    "than",
    "after",
    "before",
    "without",
    "has",
    "have",
    "had",
    "exchange",
    "exchanges",
    "connection",
    "connections",
    "request",
    "requests",
    "response",
    "answer",
    "answers",
    "packet",
    "packets",
    "segment",
    "segments",
    "server",
    "client",
    "network",
    "cost",
    "fault",
    "unknown",
    "again",
    "idle",
    "and",
    "or",
];

/// Labels of commands and filters, which are the same in all languages.
const COMMANDS: &[&str] = &["wireshark", "手册", "画图", "试修", "验证"];

/// Errors as protocols and servers name them, which are the same in all languages.
const ERRORS: &[&str] = &["MQTT 5, not authorized", "ERR max number of clients reached", "no TLS"];

/// Returns the lines of `text` that have an English sentence, apart from code, commands, messages of programs in
/// quotation marks, and what was read from the capture.
fn english(text: &str, read: &BTreeSet<String>) -> Vec<String> {
    let is_command =
        |line: &&str| COMMANDS.iter().any(|label| line.trim_start().starts_with(label));
    let has_english = |line: &&str| {
        let line = ERRORS.iter().fold((*line).to_owned(), |line, error| line.replace(error, ""));
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        let plain: String = plain.split(['“', '”']).step_by(2).collect::<Vec<_>>().join(" ");
        let is_name = |char: char| char.is_ascii_alphanumeric() || "_-./:@{}[]'=".contains(char);
        let mut words = plain.split(|char| !is_name(char)).filter(|word| !read.contains(*word));
        words.any(|word| ENGLISH.contains(&word.trim_matches(['.', ':', '\''])))
    };
    let lines = text.lines().filter(|line| !is_command(line));
    let lines = lines.filter(has_english);
    lines.map(|line| line.trim().chars().take(160).collect()).collect()
}

/// Returns the lines of `text` that are wider than the page although they could have been broken: those without
/// a name or a command that is itself as long as half a line.
fn too_wide(text: &str, width: usize) -> Vec<String> {
    let is_wide = |line: &&str| {
        let longest = line.split(' ').map(|word| {
            word.split(|char: char| !char.is_ascii()).map(columns_of).max().unwrap_or(0)
        });
        columns_of(line) > width && longest.max().unwrap_or(0) < width / 2
    };
    text.lines().filter(is_wide).map(str::to_owned).collect()
}

/// Names that were read from a capture, and are not translated.
fn read_names(report: &Report) -> BTreeSet<String> {
    let kinds = report.endpoints.iter().flat_map(|it| &it.kinds).map(|it| it.kind.clone());
    let software = report.endpoints.iter().filter_map(|it| it.software.clone());
    let words = kinds
        .chain(software)
        .flat_map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>());
    words.collect()
}

/// Returns the facts of `report` that are English words without a translation, and not `read` from the capture.
fn untranslated(report: &Report, read: &BTreeSet<String>) -> Vec<String> {
    let of_findings = report.findings.iter().flat_map(|it| &it.facts);
    let facts = of_findings.chain(report.observations.iter().flat_map(|it| &it.facts));
    let is_left = |text: &&String| {
        let has_words = text.split(' ').any(|word| ENGLISH.contains(&word) && !read.contains(word));
        let is_error = ERRORS.iter().any(|error| text.starts_with(error));
        has_words && !is_error && in_words(Language::Chinese, text).is_none()
    };
    let texts = facts.filter_map(|(_, fact)| match fact {
        Fact::Text(text) => Some(text),
        _ => None,
    });
    texts.filter(is_left).cloned().collect()
}

/// Returns what is wrong with the Chinese of one capture.
fn wrong(file: &[u8]) -> Vec<String> {
    let report = diagnose(file);
    let read = read_names(&report);
    let look = |width| Look { width, all: true, language: Language::Chinese, ..Look::default() };
    let ladders = report.connections.iter().take(3).map(|it| draw(file, it));
    let ladders: Vec<_> = ladders.collect();
    let drawn = |width| ladders.iter().map(|it| it.render(&look(width))).collect::<String>();
    let written = |width| text::render(&report, &look(width));
    let mut wrong = english(&(written(10_000) + &drawn(10_000)), &read);
    // Below 80 columns, tables and drawings are wider than the page in English as well.
    wrong.extend(too_wide(&(written(80) + &drawn(80)), 80));
    wrong.extend(untranslated(&report, &read));
    wrong
}

fn assert_none_wrong(captures: impl Iterator<Item = (String, Vec<u8>)>) {
    let (mut all, mut seen) = (BTreeSet::new(), 0);
    for (_, file) in captures {
        all.extend(wrong(&file));
        seen += 1;
    }
    assert!(seen > 20, "{seen} captures were read");
    let some: Vec<_> = all.iter().take(80).cloned().collect();
    assert!(all.is_empty(), "{}:\n{}", all.len(), some.join("\n"));
}

#[test]
fn reports_of_stored_captures_are_chinese_throughout() {
    assert_none_wrong(stored());
}

#[test]
fn reports_of_traces_are_chinese_throughout() {
    assert_none_wrong(
        traces().into_iter().map(|(name, trace)| (name, capture(&trace, Place::Client))),
    );
}

#[test]
fn manuals_are_chinese_throughout() {
    let look = |width| Look { width, language: Language::Chinese, ..Look::default() };
    let of = |&cause: &Cause| {
        let text = render_manual(cause, &look(10_000));
        let wide = too_wide(&render_manual(cause, &look(80)), 80);
        english(&text, &BTreeSet::new()).into_iter().chain(wide)
    };
    let wrong: Vec<String> = Cause::ALL.iter().flat_map(of).collect();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The check sees an English sentence, and takes neither code nor names for one.
#[test]
fn an_english_sentence_is_seen() {
    let none = BTreeSet::new();
    assert_eq!(english("  现象  the server waits", &none).len(), 1);
    assert_eq!(
        english("  验证  tcpdump host a and port 80\n  server_think：`a and b` 等待", &none).len(),
        0
    );
    assert_eq!(too_wide(&"很长的一行 ".repeat(9), 40).len(), 1);
}
