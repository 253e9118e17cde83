//! Every text of English exists in each other language, with the same facts and the same code.

use super::*;
use crate::findings::words::{Words, observations, words};
use crate::model::template::facts_of;
use std::collections::BTreeSet;

/// Returns the languages that are translated.
fn others() -> impl Iterator<Item = Language> {
    Language::ALL.into_iter().filter(|language| *language != Language::English)
}

/// Returns the rows of a message table, all but heads: id and template.
fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let heads = ["id", "part", "English"];
    super::rows(table).filter(move |(id, _)| !heads.contains(id))
}

/// Returns the parts of a text between backquotes.
fn code_of(template: &str) -> BTreeSet<&str> {
    template.split('`').skip(1).step_by(2).collect()
}

/// Names what a translated template has and the English one has not, or the other way round.
fn differences(about: &str, english: &'static str, other: &'static str) -> Vec<String> {
    let known: BTreeSet<_> = facts_of(english).into_iter().collect();
    let unknown = facts_of(other).into_iter().filter(|name| !known.contains(name));
    let mut wrong: Vec<String> =
        unknown.map(|name| format!("{about}: {{{name}}} is no fact of the English text")).collect();
    if code_of(english) != code_of(other) {
        wrong.push(format!("{about}: the code differs: {english} | {other}"));
    }
    let is_chinese = |char: char| ('\u{4e00}'..='\u{9fff}').contains(&char);
    let plain = english.split('`').step_by(2);
    let words = plain.flat_map(str::chars).filter(char::is_ascii_alphabetic).count();
    if english == other && words > 30 && !other.contains(is_chinese) {
        wrong.push(format!("{about}: is not translated"));
    }
    wrong
}

fn compared<'a>(
    about: &str,
    english: impl IntoIterator<Item = &'a &'static str>,
    other: impl IntoIterator<Item = &'a &'static str>,
) -> Vec<String> {
    let (english, other): (Vec<_>, Vec<_>) =
        (english.into_iter().collect(), other.into_iter().collect());
    if english.len() != other.len() {
        return vec![format!("{about}: {} templates, not {}", other.len(), english.len())];
    }
    english.iter().zip(other).flat_map(|(one, other)| differences(about, one, other)).collect()
}

fn of_manual(id: &str, english: &Words, other: &Words) -> Vec<String> {
    let mut wrong = compared(&format!("{id} headline"), &english.headline, &other.headline);
    wrong.extend(compared(&format!("{id} message"), &english.message, &other.message));
    let parts = |words: &Words| words.evidence.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    let reasons = |words: &Words| words.ruled_out.iter().map(|it| (it.0, it.1)).collect::<Vec<_>>();
    let fixes = |words: &Words| words.fixes.iter().map(|it| it.applies).collect::<Vec<_>>();
    if parts(english) != parts(other)
        || reasons(english) != reasons(other)
        || fixes(english) != fixes(other)
    {
        wrong.push(format!(
            "{id}: other rows: {:?} {:?} {:?}",
            parts(other),
            reasons(other),
            fixes(other)
        ));
        return wrong;
    }
    for (one, two) in english.evidence.iter().zip(&other.evidence) {
        wrong.extend(differences(&format!("{id} {}", one.0), one.1, two.1));
    }
    for (one, two) in english.ruled_out.iter().zip(&other.ruled_out) {
        wrong.extend(differences(&format!("{id} {}", one.1), one.2, two.2));
    }
    for (one, two) in english.fixes.iter().zip(&other.fixes) {
        let of = [(one.place, two.place), (one.change, two.change), (one.effect, two.effect)];
        let about = format!("{id} fix {}", one.applies);
        wrong.extend(of.into_iter().flat_map(|(one, two)| differences(&about, one, two)));
    }
    wrong
}

#[test]
fn every_manual_says_the_same_in_each_language() {
    let mut wrong = Vec::new();
    for (language, &cause) in
        others().flat_map(|it| Cause::ALL.iter().map(move |cause| (it, cause)))
    {
        let (english, other) = (words(cause, Language::English), words(cause, language));
        wrong.extend(of_manual(cause.id(), &english, &other));
        let headings = |language: Language| {
            let manual = texts(language).manuals[cause as usize];
            manual.lines().filter(|line| line.starts_with("## ")).collect::<Vec<_>>()
        };
        assert_eq!(headings(Language::English), headings(language), "{}", cause.id());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_row_of_a_message_table_has_its_translation() {
    let mut wrong = Vec::new();
    for language in others() {
        let tables = |language| {
            let Texts { evidence, state, experiment, sentences, .. } = *texts(language);
            [evidence, state, experiment, sentences]
        };
        for (english, other) in tables(Language::English).into_iter().zip(tables(language)) {
            let ids = |table| rows(table).map(|(id, _)| id).collect::<Vec<_>>();
            assert_eq!(ids(english), ids(other));
            for ((id, english), (_, other)) in rows(english).zip(rows(other)) {
                wrong.extend(differences(id, english, other));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_observation_has_its_translation() {
    let mut wrong = Vec::new();
    for language in others() {
        let (english, other): (Vec<_>, Vec<_>) =
            (observations(Language::English).collect(), observations(language).collect());
        assert_eq!(english.len(), other.len());
        for (english, other) in english.iter().zip(&other) {
            assert_eq!((english.id, english.limits), (other.id, other.limits));
            wrong.extend(compared(english.id, &english.message, &other.message));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A row twice would hide its second text, and an empty one would fill in nothing.
#[test]
fn no_id_of_a_table_is_there_twice() {
    for language in Language::ALL {
        let Texts { evidence, state, experiment, sentences, terms, errors, .. } = *texts(language);
        for table in [evidence, state, experiment, sentences, terms, errors] {
            let mut seen = BTreeSet::new();
            for (id, words) in rows(table) {
                assert!(seen.insert(id), "{id} is there twice");
                assert!(!words.is_empty() && row(table, id) == Some(words), "{id}");
            }
        }
    }
}

#[test]
fn a_condition_of_a_sentence_holds_or_leaves_its_part_out() {
    let said = |overlaps| {
        crate::say!(Language::Chinese, "finding_cost", lost = "3 ms", whole = "9 ms", overlaps)
    };
    assert_eq!(said(true), "开销 3 ms，共 9 ms（等待有重叠）");
    assert_eq!(said(false), "开销 3 ms，共 9 ms");
}

#[test]
fn a_fact_of_words_and_values_is_translated_and_what_was_read_is_not() {
    let said = |text| in_words(Language::Chinese, text);
    assert_eq!(said("in use (factor 128)").as_deref(), Some("已启用（系数 128）"));
    assert_eq!(said("10.0.0.1 and 3 more").as_deref(), Some("10.0.0.1 等另外 3 个"));
    assert_eq!(said("10.0.0.1:80 and 10.0.0.2:80").as_deref(), Some("10.0.0.1:80 和 10.0.0.2:80"));
    assert_eq!(said("between the sender and the capture").as_deref(), Some("发送端与抓包位置之间"));
    assert_eq!(said("search and replace all"), None);
    assert_eq!(said("nginx/1.22.1"), None);
    assert_eq!(in_words(Language::English, "a and b"), None);
}
