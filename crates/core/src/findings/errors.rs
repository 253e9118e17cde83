//! Errors and notes in the language of a person. They are made in English, in the code; another language has a
//! table, `errors.md`, with a row for each.

use super::texts::{rows, texts, values};
use crate::model::Language;

/// Depth to which an error is looked for within the values of another.
const DEPTH_MAX: u32 = 4;

/// Returns an error or a note in `language`, and what the language has no words for in English. Of rows that
/// fit, the one with the most fixed text counts; its values are said in the language too, and one with the name
/// `{number}` has to be one. Where no row fits the whole, a name or an error that has a row may stand in front of one.
pub fn error_in(language: Language, english: &str) -> String {
    let table = texts(language).errors;
    if table.is_empty() { english.to_owned() } else { said(table, english, DEPTH_MAX) }
}

/// Returns a text by the rows of a table of errors.
fn said(table: &'static str, english: &str, depth: u32) -> String {
    if depth == 0 {
        return english.to_owned();
    }
    if let Some(whole) = whole(table, english, depth) {
        return whole;
    }
    let after_space = english.match_indices(' ').map(|(at, _)| english.split_at(at + 1));
    let mut parts = after_space.filter_map(|(before, part)| {
        let is_name = !before.trim().contains(' ');
        match before.strip_suffix(": ") {
            Some(before) => {
                let said = said(table, before, depth - 1);
                let part = whole(table, part, depth).filter(|_| is_name || said != before)?;
                Some(format!("{said}：{part}"))
            }
            None => Some(format!("{before}{}", whole(table, part, depth).filter(|_| is_name)?)),
        }
    });
    parts.next().unwrap_or_else(|| english.to_owned())
}

/// Returns a text by the row that fits the whole of it.
fn whole(table: &'static str, english: &str, depth: u32) -> Option<String> {
    let fitting = rows(table).filter_map(|(form, words)| {
        let form = cell(form);
        let found = values(&form, english)?;
        let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
        if found.iter().any(|(name, value)| *name == "number" && !is_number(value)) {
            return None;
        }
        let of_values: usize = found.iter().map(|(_, value)| value.len()).sum();
        let found = found.into_iter().map(|(name, value)| (name.to_owned(), value));
        Some((of_values, found.collect::<Vec<_>>(), words))
    });
    let (_, values, words) = fitting.min_by_key(|(of_values, ..)| *of_values)?;
    let mut said_words = String::new();
    let words = cell(words);
    let mut rest = words.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        let value = values.iter().find(|(of, _)| of == name).map_or("", |(_, value)| *value);
        said_words = said_words + before + &said(table, value, depth - 1);
        rest = after;
    }
    Some(said_words + rest)
}

/// Returns the text of a cell, in which a bar is written as `\|`.
fn cell(text: &str) -> String {
    text.replace("\\|", "|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_said_with_its_values_and_its_sources() {
        let zh = |english| error_in(Language::Chinese, english);
        assert_eq!(zh("a b.pcap: cannot be opened"), "a b.pcap：无法打开");
        assert_eq!(
            zh("x: cannot be opened: Permission denied (os error 13)"),
            "x：无法打开：没有权限（os error 13）"
        );
        assert_eq!(
            zh("a.pcap holds no packets: was the filter or interface right?"),
            "a.pcap 没有数据包：抓包时的过滤器和接口对吗？"
        );
        assert_eq!(
            zh("is not a packet capture (pcap, pcapng or snoop): it looks like an xz-compressed \
                file: unpack it first (xz -dc FILE | tcpwhy -)"),
            "不是抓包文件（pcap、pcapng 或 snoop）：它看起来是 xz 压缩的文件：请先解压（xz -dc FILE | tcpwhy -）"
        );
        for unknown in ["c.conf says what nobody knows", "the server is on this machine: 3 sockets"]
        {
            assert_eq!(zh(unknown), unknown);
        }
        let english = "x: cannot be opened";
        assert_eq!(error_in(Language::English, english), english);
    }
}
