//! Sentence templates: `{fact}`, `{fact:one|many}`, and `[…|…]` alternatives. A language without plurals
//! has one form, `{fact:noun}`.
//!
//! A template that needs a missing fact yields nothing. Text inside `` ` `` is literal, so that
//! commands and configuration can be written as they are.

use super::{Fact, Language, units};

/// Fills `template` with the values of `fact`; `None` if a fact outside of brackets is missing.
pub fn fill<'a>(template: &str, fact: &dyn Fn(&str) -> Option<&'a Fact>) -> Option<String> {
    let mut rest = template;
    let text = sequence(&mut rest, fact, false);
    text.map(|text| text.trim().to_owned())
}

/// Fills the first template that can be filled.
pub fn fill_first<'a>(
    templates: &[&str],
    fact: &dyn Fn(&str) -> Option<&'a Fact>,
) -> Option<String> {
    templates.iter().find_map(|template| fill(template, fact))
}

/// Fills all templates that can be filled, as sentences with a capital letter and a full stop.
pub fn fill_all<'a>(
    language: Language,
    templates: &[&str],
    fact: &dyn Fn(&str) -> Option<&'a Fact>,
) -> String {
    let filled = templates.iter().filter_map(|text| fill(text, fact));
    let filled: Vec<String> = filled.map(|text| sentence(language, &text)).collect();
    language.sentences(&filled)
}

/// Returns `text` with a full stop, and a capital letter where the language has them. A first word with
/// other characters than lowercase letters, such as an address or a command, is not changed.
pub fn sentence(language: Language, text: &str) -> String {
    let glue = language.glue();
    let first = text.split(' ').next().unwrap_or("").trim_end_matches([',', ':']);
    let is_word = glue.capitals && first.bytes().all(|byte| byte.is_ascii_lowercase());
    let mut sentence = String::with_capacity(text.len() + glue.stop.len());
    match text.split_at_checked(1) {
        Some((letter, rest)) if is_word => {
            sentence.push_str(&letter.to_ascii_uppercase());
            sentence.push_str(rest);
        }
        _ => sentence.push_str(text),
    }
    if !text.ends_with(['.', '!', '?', '。', '！', '？']) {
        sentence.push_str(glue.stop);
    }
    sentence
}

/// Returns the names of the facts that a template uses, in order.
pub fn facts_of(template: &'static str) -> Vec<&'static str> {
    let mut names = Vec::new();
    for (index, quoted) in template.split('`').enumerate() {
        if index % 2 == 0 {
            let places = quoted.split('{').skip(1);
            names.extend(places.filter_map(|place| place.split(['}', ':']).next()));
        }
    }
    names
}

/// Formats a fact for display.
pub fn show(fact: &Fact) -> String {
    match fact {
        Fact::Ns(ns) => units::duration(*ns),
        Fact::Bytes(bytes) => units::bytes(*bytes),
        Fact::BitsPerSecond(rate) => units::rate(*rate),
        Fact::Count(count) => units::count(*count),
        Fact::Share(share) => units::share(*share),
        Fact::Text(text) => units::printable(text),
    }
}

/// Reads up to the end, or to the `|` or `]` that ends an alternative, whether or not the facts
/// exist.
fn sequence<'a>(
    rest: &mut &str,
    fact: &dyn Fn(&str) -> Option<&'a Fact>,
    nested: bool,
) -> Option<String> {
    let mut text = Some(String::new());
    while let Some(at) = rest.find(['{', '[', '|', ']', '`']) {
        let (before, tail) = rest.split_at(at);
        push(&mut text, Some(before));
        let mark = tail.as_bytes().first().copied().unwrap_or(0);
        let after = tail.get(1..).unwrap_or("");
        *rest = after;
        match mark {
            b'{' => {
                let (place, after) = after.split_once('}').unwrap_or((after, ""));
                *rest = after;
                push(&mut text, filled(place, fact).as_deref());
            }
            b'[' => push(&mut text, Some(&alternatives(rest, fact))),
            b'`' => {
                let length = after.find('`').map_or(after.len(), |end| end + 1);
                *rest = after.get(length..).unwrap_or("");
                push(&mut text, tail.get(..=length));
            }
            _ if nested => {
                *rest = tail;
                return text;
            }
            _ => push(&mut text, tail.get(..1)),
        }
    }
    push(&mut text, Some(rest));
    *rest = "";
    text
}

/// Reads `…|…]`: the first alternative that can be filled, or nothing.
fn alternatives<'a>(rest: &mut &str, fact: &dyn Fn(&str) -> Option<&'a Fact>) -> String {
    let mut chosen = None;
    loop {
        let alternative = sequence(rest, fact, true);
        chosen = chosen.or(alternative);
        let more = rest.starts_with('|');
        *rest = rest.get(1..).unwrap_or("");
        if !more {
            return chosen.unwrap_or_default();
        }
    }
}

/// Fills `fact`, or `fact:one|many` with the form of the noun that fits the number; a language may have
/// one form for all.
fn filled<'a>(place: &str, fact: &dyn Fn(&str) -> Option<&'a Fact>) -> Option<String> {
    let (name, noun) = place.split_once(':').unwrap_or((place, ""));
    let value = fact(name)?;
    let shown = show(value);
    let Some((one, many)) = noun.split_once('|') else {
        return Some(if noun.is_empty() { shown } else { format!("{shown} {noun}") });
    };
    Some(match (value, one) {
        (Fact::Count(1), "time") => "once".into(),
        (Fact::Count(2), "time") => "twice".into(),
        (Fact::Count(1), _) => format!("{shown} {one}"),
        _ => format!("{shown} {many}"),
    })
}

fn push(text: &mut Option<String>, piece: Option<&str>) {
    match (text.as_mut(), piece) {
        (Some(text), Some(piece)) => text.push_str(piece),
        _ => *text = None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(template: &str, facts: &[(&str, Fact)]) -> Option<String> {
        let find = |name: &str| facts.iter().find(|(of, _)| *of == name).map(|(_, fact)| fact);
        fill(template, &find)
    }

    #[test]
    fn a_missing_fact_drops_the_sentence_unless_it_is_in_brackets() {
        let facts = [("rto_ns", Fact::Ns(204_000_000))];
        assert_eq!(with("after {rto_ns}", &facts).as_deref(), Some("after 204 ms"));
        assert_eq!(with("after {nothing}", &facts), None);
        assert_eq!(with("a loss[ of {nothing}]", &facts).as_deref(), Some("a loss"));
        assert_eq!(with("[{nothing}|some], {rto_ns}", &facts).as_deref(), Some("some, 204 ms"));
    }

    #[test]
    fn nouns_follow_their_number() {
        let one = [("count", Fact::Count(1))];
        let many = [("count", Fact::Count(1_200))];
        assert_eq!(with("[{count:probe|probes}]", &one).as_deref(), Some("1 probe"));
        assert_eq!(with("{count:probe|probes}", &many).as_deref(), Some("1,200 probes"));
    }

    #[test]
    fn one_and_two_times_have_words_of_their_own() {
        let said = |count| with("closed {count:time|times}", &[("count", Fact::Count(count))]);
        let said = [1, 2, 3].map(|count| said(count).unwrap_or_default());
        assert_eq!(said, ["closed once", "closed twice", "closed 3 times"]);
    }

    #[test]
    fn commands_are_literal() {
        let text = "run `a {b} [c|d]` twice";
        assert_eq!(with(text, &[]).as_deref(), Some(text));
    }

    #[test]
    fn broken_templates_end() {
        for template in ["{", "[", "[a|", "`", "]", "|", "{a:", "[{", "[`"] {
            let _ = with(template, &[("a", Fact::Count(1))]);
        }
    }

    #[test]
    fn sentences_begin_with_a_capital_letter_and_end_with_a_full_stop() {
        assert_eq!(sentence(Language::English, "the peer waits"), "The peer waits.");
        assert_eq!(sentence(Language::English, "no fault: it reads on"), "No fault: it reads on.");
        assert_eq!(sentence(Language::English, "3 times"), "3 times.");
        assert_eq!(sentence(Language::English, "it ends."), "It ends.");
    }

    #[test]
    fn chinese_sentences_have_their_own_stop_and_no_capitals() {
        let said = |text| sentence(Language::Chinese, text);
        assert_eq!(said("nginx 等待"), "nginx 等待。");
        assert_eq!(said("它已结束。"), "它已结束。");
        let count = [("count", Fact::Count(3))];
        let find = |name: &str| count.iter().find(|(of, _)| *of == name).map(|(_, fact)| fact);
        let two = fill_all(Language::Chinese, &["共 {count:条连接}", "其余空闲"], &find);
        assert_eq!(two, "共 3 条连接。其余空闲。");
    }

    #[test]
    fn addresses_and_commands_keep_their_case() {
        assert_eq!(
            sentence(Language::English, "fe80::1 does not answer"),
            "fe80::1 does not answer."
        );
        assert_eq!(sentence(Language::English, "fd::1 does not answer"), "fd::1 does not answer.");
        assert_eq!(sentence(Language::English, "`ip -s link` shows it"), "`ip -s link` shows it.");
    }

    #[test]
    fn the_facts_a_template_asks_for_are_known() {
        assert_eq!(facts_of("[{a:x|y}] `{no}` {b}"), ["a", "b"]);
    }
}
