//! The texts that people read: the manual of each cause is also its message table, in each language.
//!
//! A manual has fixed headings. `## Headline` and `## Message` are lists of sentence templates, `##
//! Evidence`, `## How it differs from look-alikes` and `## Fix` are tables; the rest is prose. A
//! template has `{fact}` places, `{fact:one|many}` for a counted noun, and `[…|…]` for
//! alternatives, of which the first that can be filled is used, or nothing. The parts that the
//! manual shows (look-alikes and fixes) have every fact in such brackets, so that they read well
//! without facts too. Each language has a set of such files ([`super::texts`]).

use crate::findings::causes::rules;
use crate::findings::texts::{row, texts};
use crate::model::{Cause, Language};

/// Returns the manual of `cause`, Markdown.
pub fn manual(cause: Cause, language: Language) -> &'static str {
    texts(language).manuals[cause as usize]
}

/// Returns the name of the fact of `cause` that the effect of an experiment is.
pub fn effect_fact(cause: Cause) -> Option<&'static str> {
    rules(cause).effect_fact
}

/// Returns the message table of `cause`.
pub fn words(cause: Cause, language: Language) -> Words {
    Words { evidence_of_all: texts(language).evidence, ..Words::parse(manual(cause, language)) }
}

/// The sentences of one cause, as templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Common name of the cause.
    pub title: &'static str,
    /// Headlines; the first that can be filled is used.
    pub headline: Vec<&'static str>,
    /// Sentences about what happened. Those that can be filled are used; the first always can.
    pub message: Vec<&'static str>,
    /// Names of the parts of the chain: id and words.
    pub evidence: Vec<(&'static str, &'static str)>,
    /// Reasons to exclude look-alikes: cause, id of the sentence, sentence.
    pub ruled_out: Vec<(&'static str, &'static str, &'static str)>,
    /// Recommended changes.
    pub fixes: Vec<FixRow>,
    /// Names of the parts of a chain that mean the same in most causes: a message table.
    pub evidence_of_all: &'static str,
}

/// A row of a manual's `## Fix` table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixRow {
    /// Condition of the fix: software, protocol and role names, facts that must be known (`?fact`)
    /// or unknown (`!fact`), joined by `+`, or `any`.
    pub applies: &'static str,
    /// The place of the change.
    pub place: &'static str,
    /// The change.
    pub change: &'static str,
    /// The effect of the change.
    pub effect: &'static str,
}

impl Words {
    /// Parses a manual. Missing parts stay empty.
    pub fn parse(manual: &'static str) -> Self {
        let mut words = Self::default();
        for (heading, body) in sections(manual, "## ") {
            match heading {
                "" => words.title = body.trim().trim_start_matches("# "),
                "Headline" => words.headline = items(body),
                "Message" => words.message = items(body),
                "Evidence" => {
                    words.evidence = rows(body).map(|[part, words]| (part, words)).collect();
                }
                "How it differs from look-alikes" => {
                    words.ruled_out = rows(body).map(|[of, id, why]| (of, id, why)).collect();
                }
                "Fix" => {
                    words.fixes = rows(body)
                        .map(|[applies, place, change, effect]| FixRow {
                            applies,
                            place,
                            change,
                            effect,
                        })
                        .collect();
                }
                _ => {}
            }
        }
        words
    }

    /// Returns the name of the part `id` of the causal chain.
    pub fn part(&self, id: &str) -> Option<&'static str> {
        let own = self.evidence.iter().find(|(part, _)| *part == id).map(|(_, words)| *words);
        own.or_else(|| row(self.evidence_of_all, id))
    }

    /// Returns the sentence `id`, which states why the finding is not `cause`.
    pub fn why_not(&self, cause: Cause, id: &str) -> Option<&'static str> {
        let row = self.ruled_out.iter().find(|(of, why, _)| *of == cause.id() && *why == id);
        row.map(|(_, _, sentence)| *sentence)
    }
}

/// The texts of one observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservationWords {
    /// Id of the observation.
    pub id: &'static str,
    /// The observation limits what the report can say, and so comes before the findings.
    pub limits: bool,
    /// Sentences. Those that can be filled are used; the first always can.
    pub message: Vec<&'static str>,
}

/// Returns every observation that has texts.
pub fn observations(language: Language) -> impl Iterator<Item = ObservationWords> {
    sections(texts(language).observations, "# ").flat_map(|(group, body)| {
        sections(body, "## ").filter(|(id, _)| !id.is_empty()).map(move |(id, body)| {
            ObservationWords { id, limits: group == "Limits", message: items(body) }
        })
    })
}

/// Returns the texts of observation `id`.
pub fn observation(id: &str, language: Language) -> Option<ObservationWords> {
    observations(language).find(|words| words.id == id)
}

/// Returns the parts of `text` between lines that begin with `mark`; the part before the first has
/// no name. `## x` does not begin with `# `, so levels do not mix.
fn sections(
    text: &'static str,
    mark: &'static str,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut rest = Some(("", text));
    std::iter::from_fn(move || {
        let (name, body) = rest.take()?;
        let mut at = 0;
        for line in body.split_inclusive('\n') {
            if let Some(heading) = line.strip_prefix(mark) {
                rest = Some((heading.trim(), body.get(at + line.len()..).unwrap_or("")));
                break;
            }
            at += line.len();
        }
        Some((name, body.get(..at).unwrap_or("")))
    })
}

/// Returns the items of a `- ` list, which have one line each.
fn items(body: &'static str) -> Vec<&'static str> {
    body.lines().filter_map(|line| line.strip_prefix("- ")).map(str::trim).collect()
}

/// Returns the rows of a message table with an id and its words.
pub fn table<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    rows(text)
}

/// Returns the rows of a table, without its head. Cells contain no `|` except inside `{…}` and
/// `[…]`.
fn rows<const N: usize>(body: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let lines = body.lines().filter(|line| line.starts_with('|')).skip(2);
    lines.filter_map(|line| cells(line).try_into().ok())
}

fn cells(line: &'static str) -> Vec<&'static str> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    let (mut cells, mut start, mut depth) = (Vec::new(), 0, 0u32);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => {
                cells.push(inner.get(start..at).unwrap_or("").trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    cells.push(inner.get(start..).unwrap_or("").trim());
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every manual.
    fn all() -> impl Iterator<Item = (Cause, Language)> {
        let of = |language| Cause::ALL.iter().map(move |cause| (*cause, language));
        Language::ALL.into_iter().flat_map(of)
    }

    #[test]
    fn every_cause_has_a_complete_manual() {
        for (cause, language) in all() {
            let words = words(cause, language);
            let id = cause.id();
            assert!(!words.title.is_empty(), "{id}: title");
            assert!(!words.headline.is_empty(), "{id}: headline");
            assert!(!words.message.is_empty(), "{id}: message");
            assert!(!words.evidence.is_empty(), "{id}: evidence");
            assert!(!words.fixes.is_empty(), "{id}: fix");
            for heading in
                ["What happens", "How it differs from look-alikes", "Confirm", "Fix", "Reproduce"]
            {
                assert!(
                    manual(cause, language).contains(&format!("\n## {heading}\n")),
                    "{id}: {heading}"
                );
            }
            for (look_alike, _, _) in &words.ruled_out {
                assert!(Cause::from_id(look_alike).is_some(), "{id}: {look_alike}");
            }
        }
    }

    #[test]
    fn no_row_of_a_manual_is_lost_to_a_stray_bar() {
        for (cause, language) in all() {
            let (words, text) = (words(cause, language), manual(cause, language));
            let tables = 3 - u32::from(words.ruled_out.is_empty());
            let lines = text.lines().filter(|line| line.starts_with('|')).count();
            let rows = words.evidence.len() + words.ruled_out.len() + words.fixes.len();
            assert_eq!(lines, rows + 2 * tables as usize, "{}", cause.id());
        }
    }

    /// An item of a list has one line: the manual would lose the next.
    #[test]
    fn no_line_of_a_list_is_lost() {
        for (cause, language) in all() {
            for (heading, body) in sections(manual(cause, language), "## ") {
                if body.trim_start().starts_with("- ") {
                    let is_item = |line: &str| line.is_empty() || line.starts_with("- ");
                    let lost = body.lines().find(|line| !is_item(line));
                    assert_eq!(lost, None, "{}: {heading}", cause.id());
                }
            }
        }
    }

    #[test]
    fn observations_are_split_into_limits_and_the_rest() {
        let all: Vec<_> = observations(Language::English).collect();
        assert!(all.iter().any(|words| words.id == "capture_drops" && words.limits));
        assert!(all.iter().any(|words| words.id == "keep_alives" && !words.limits));
        assert!(all.iter().all(|words| !words.message.is_empty()));
    }
}
