//! A cause's manual for the terminal: its prose and tables, without the templates.

use super::layout::Page;
use super::style::{Look, Paint};
use super::text;
use crate::findings::{self, FixRow, term};
use crate::model::{Cause, Finding, Language, Report, template};
use crate::say;
use serde_json::{Value, json};

/// Renders the manual of `cause`.
pub fn render_manual(cause: Cause, look: &Look) -> String {
    let language = look.language;
    let words = findings::words(cause, language);
    let mut page = Page::new(look);
    page.line(&title(cause, look));
    let manual = findings::manual(cause, language);
    for section in manual.split("\n## ").skip(1) {
        let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
        match heading {
            "What happens" | "Confirm" | "Reproduce" => prose(&mut page, heading, body),
            "How it differs from look-alikes" => {
                start(&mut page, heading);
                for (of, _, why) in &words.ruled_out {
                    let words = plain(cause, why, language);
                    page.item(&say!(language, "named_row", name = *of, words));
                }
            }
            "Fix" => {
                start(&mut page, heading);
                for fix in &words.fixes {
                    page.item(&fix_row(cause, fix, language));
                }
            }
            _ => {}
        }
    }
    page.finish()
}

/// Renders the manual of the cause of `finding` with this case in the place of what the manual says of
/// all: the finding with its numbers, its frames, and the look-alikes and fixes that apply to it.
pub fn render_case(report: &Report, finding: &Finding, look: &Look) -> String {
    let cause = finding.cause;
    let mut page = Page::new(look);
    page.line(&title(cause, look));
    for section in findings::manual(cause, look.language).split("\n## ").skip(1) {
        let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
        match heading {
            "What happens" => {
                prose(&mut page, heading, body);
                start(&mut page, "In this capture");
                text::write_finding(&mut page, report, finding);
            }
            "Confirm" | "Reproduce" => prose(&mut page, heading, body),
            _ => {}
        }
    }
    page.finish()
}

/// Returns the manual of `cause` as JSON: `title` and `sections`, each with a `heading` and its
/// `text` (Markdown) or `items`.
pub fn manual_json(cause: Cause, language: Language) -> Value {
    let words = findings::words(cause, language);
    let look_alike = |(of, _, why): &(&str, &str, &str)| {
        let words = plain(cause, why, language);
        say!(language, "named_row", name = format!("`{of}`"), words)
    };
    let sections = findings::manual(cause, language).split("\n## ").skip(1).filter_map(|section| {
        let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
        match heading {
            "What happens" | "Confirm" | "Reproduce" => {
                Some(json!({ "heading": term(language, heading), "text": body.trim() }))
            }
            "How it differs from look-alikes" => {
                let items: Vec<_> = words.ruled_out.iter().map(look_alike).collect();
                Some(json!({ "heading": term(language, heading), "items": items }))
            }
            "Fix" => {
                let items: Vec<_> =
                    words.fixes.iter().map(|fix| fix_row(cause, fix, language)).collect();
                Some(json!({ "heading": term(language, heading), "items": items }))
            }
            _ => None,
        }
    });
    json!({ "title": words.title, "sections": sections.collect::<Vec<_>>() })
}

/// Returns a fix as the manual shows it, without a case.
fn fix_row(cause: Cause, fix: &FixRow, language: Language) -> String {
    let [place, change, effect] =
        [fix.place, fix.change, fix.effect].map(|template| plain(cause, template, language));
    say!(language, "fix_row", place, change, effect)
}

/// Returns the title of a manual: the name of the cause, its id and its class.
fn title(cause: Cause, look: &Look) -> String {
    let words = findings::words(cause, look.language);
    let class = term(look.language, cause.class().id());
    format!("{}   {} ({class})", look.paint(Paint::Bold, words.title), cause.id())
}

fn start(page: &mut Page<'_>, heading: &str) {
    page.gap();
    page.title(heading, "");
}

fn prose(page: &mut Page<'_>, heading: &str, body: &str) {
    start(page, heading);
    for (index, paragraph) in body.trim().split("\n\n").enumerate() {
        if index > 0 {
            page.gap();
        }
        if paragraph.starts_with("- ") {
            paragraph
                .lines()
                .filter_map(|line| line.strip_prefix("- "))
                .for_each(|item| page.item(item));
        } else {
            page.prose(&paragraph.replace('\n', " "));
        }
    }
}

/// Fills a template of the manual of `cause` without a finding: places for roles show the role's
/// name, and of alternatives the one without facts is used.
fn plain(cause: Cause, template: &str, language: Language) -> String {
    let names = ["peer", "message", "sender", "receiver"];
    let mut text = template.replace("{role}", term(language, cause.culprit_word()));
    for name in names {
        text = text.replace(&format!("{{{name}}}"), term(language, name));
    }
    template::fill(&text, &|_| None).unwrap_or(text)
}
