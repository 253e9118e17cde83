//! The files of each language: English beside the code, every other one in a folder of the same files.
//!
//! | file | content |
//! |---|---|
//! | `causes/CAUSE.md` | the manual of a cause |
//! | `evidence.md`, `observations.md`, `state.md`, `experiment.md` | message tables with the facts of each row |
//! | `sentences.md` | what the program itself says around them |
//! | `terms.md` | words that stand alone: labels, roles, words that a fact consists of |
//! | `errors.md` | errors and notes, beside the English of the code that makes them |

use super::causes::MANUALS;
use crate::model::template::fill;
use crate::model::{Cause, Fact, Language};

/// The texts of one language.
pub(super) struct Texts {
    language: Language,
    /// The manuals, in the order of [`Cause::ALL`].
    pub manuals: &'static [&'static str; Cause::ALL.len()],
    pub evidence: &'static str,
    pub observations: &'static str,
    pub state: &'static str,
    pub experiment: &'static str,
    pub sentences: &'static str,
    /// Words of English and this language's; empty for English.
    pub terms: &'static str,
    /// Errors and notes of English and this language's; empty for English.
    pub errors: &'static str,
}

/// The languages; the first is English, whose texts are always complete.
const TEXTS: [Texts; Language::ALL.len()] = [
    Texts {
        language: Language::English,
        manuals: &MANUALS.english,
        evidence: include_str!("evidence.md"),
        observations: include_str!("observations.md"),
        state: include_str!("../state/state.md"),
        experiment: include_str!("../experiment/experiment.md"),
        sentences: include_str!("sentences.md"),
        terms: "",
        errors: "",
    },
    Texts {
        language: Language::Chinese,
        manuals: &MANUALS.chinese,
        evidence: include_str!("zh/evidence.md"),
        observations: include_str!("zh/observations.md"),
        state: include_str!("zh/state.md"),
        experiment: include_str!("zh/experiment.md"),
        sentences: include_str!("zh/sentences.md"),
        terms: include_str!("zh/terms.md"),
        errors: include_str!("zh/errors.md"),
    },
];

/// Returns the texts in `language`.
pub(super) fn texts(language: Language) -> &'static Texts {
    let texts = const { &TEXTS };
    texts.iter().find(|it| it.language == language).unwrap_or(&texts[0])
}

/// Fills the sentence `id` with the facts that are known; its id if there is no such sentence.
pub fn say(language: Language, id: &str, facts: &[(&str, Option<Fact>)]) -> String {
    let fact =
        |name: &str| facts.iter().find(|(of, _)| *of == name).and_then(|(_, it)| it.as_ref());
    let said = |language| fill(row(texts(language).sentences, id)?, &fact);
    said(language).or_else(|| said(Language::English)).unwrap_or_else(|| id.replace('_', " "))
}

/// Returns the word of `language` for an English word that stands alone; the same word if it has none.
pub fn term(language: Language, english: &str) -> &str {
    row(texts(language).terms, english).unwrap_or(english)
}

/// Returns the words of `language` for a text that a fact consists of: the row of terms with this text, or with
/// `{}` in the place of a value, or those of a list of terms, names and values.
/// `None` if it has none, as for what was read.
pub fn in_words(language: Language, english: &str) -> Option<String> {
    let terms = texts(language).terms;
    if let Some(whole) = row(terms, english) {
        return Some(whole.to_owned());
    }
    let of_value = rows(terms).filter(|(form, _)| form.contains("{}"));
    let mut filled = of_value.filter_map(|(form, words)| {
        let values = values(form, english)?;
        if values.iter().any(|(_, value)| value.is_empty()) {
            return None;
        }
        let said = values.iter().map(|(_, value)| term(language, value));
        Some(said.fold(words.to_owned(), |words, value| words.replacen("{}", value, 1)))
    });
    filled.next().or_else(|| {
        let is_name_or_value = |part: &str| {
            !part.contains(' ') || part.starts_with(|first: char| first.is_ascii_digit())
        };
        let words = |part| {
            Some(term(language, part)).filter(|words| *words != part || is_name_or_value(part))
        };
        let parts: Option<Vec<&str>> = english.split(" and ").map(words).collect();
        parts
            .filter(|parts| !terms.is_empty() && parts.len() > 1)
            .map(|parts| language.list(&parts))
    })
}

/// Returns what stands in the places `{name}` or `{}` of `form` in `text`, each with its name; `None` if it is
/// another text.
pub(super) fn values<'f, 't>(form: &'f str, text: &'t str) -> Option<Vec<(&'f str, &'t str)>> {
    let (first, mut places) = form.split_once('{').unwrap_or((form, ""));
    let mut rest = text.strip_prefix(first)?;
    let mut values = Vec::new();
    while let Some((name, fixed)) = places.split_once('}') {
        let (fixed, after) = fixed.split_once('{').unwrap_or((fixed, ""));
        let at = match after {
            "" => rest.strip_suffix(fixed)?.len(),
            _ => rest.find(fixed)?,
        };
        values.push((name, rest.get(..at)?));
        (rest, places) = (rest.get(at + fixed.len()..)?, after);
    }
    rest.is_empty().then_some(values)
}

/// Returns the rows of a message table, with the heads: both cells.
pub(super) fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let cells = |line: &'static str| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ");
    table.lines().filter_map(cells)
}

/// A message table of evidence that is not of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// The state of a host.
    State,
    /// Experiments.
    Experiment,
}

impl Table {
    fn text(self, language: Language) -> &'static str {
        match self {
            Self::State => texts(language).state,
            Self::Experiment => texts(language).experiment,
        }
    }
}

/// Returns the template `id` of a message table; `None` if it has none.
pub fn template(language: Language, of: Table, id: &str) -> Option<&'static str> {
    row(of.text(language), id)
}

/// Returns the second cell of the row of a message table that begins with `id`.
pub fn row(table: &'static str, id: &str) -> Option<&'static str> {
    let begin = format!("\n| {id} | ");
    let from = table.find(&begin)? + begin.len();
    let rest = table.get(from..)?;
    rest.lines().next()?.strip_suffix(" |")
}

/// A value for a sentence: a number, a text, or a condition on which a part of it depends.
pub trait IntoFact {
    /// Returns the fact; `None` if it is not known, or the condition does not hold.
    fn into_fact(self) -> Option<Fact>;
}

impl IntoFact for Fact {
    fn into_fact(self) -> Option<Fact> {
        Some(self)
    }
}

impl IntoFact for u64 {
    fn into_fact(self) -> Option<Fact> {
        Some(Fact::Count(self))
    }
}

impl IntoFact for &str {
    fn into_fact(self) -> Option<Fact> {
        Some(Fact::Text(self.to_owned()))
    }
}

impl IntoFact for String {
    fn into_fact(self) -> Option<Fact> {
        Some(Fact::Text(self))
    }
}

impl IntoFact for &String {
    fn into_fact(self) -> Option<Fact> {
        Some(Fact::Text(self.clone()))
    }
}

impl IntoFact for bool {
    fn into_fact(self) -> Option<Fact> {
        self.then(|| Fact::Text(String::new()))
    }
}

impl<T: IntoFact> IntoFact for Option<T> {
    fn into_fact(self) -> Option<Fact> {
        self.and_then(IntoFact::into_fact)
    }
}

/// Says the sentence with an id in a language, with values by name: `say!(language, "more_findings", count)`,
/// `say!(language, "cost", lost = units::duration(ns), overlaps = true)`. A condition is a part's first
/// place: `[{overlaps} (waits overlap)]`.
#[macro_export]
macro_rules! say {
    ($language:expr, $id:expr $(, $name:ident $(= $value:expr)?)* $(,)?) => {
        $crate::findings::say($language, $id, &[$(
            (stringify!($name), $crate::findings::IntoFact::into_fact($crate::say!(@value $name $(= $value)?))),
        )*])
    };
    (@value $name:ident) => { $name };
    (@value $name:ident = $value:expr) => { $value };
}

#[cfg(test)]
mod tests;
