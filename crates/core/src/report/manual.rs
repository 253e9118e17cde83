//! A cause's manual for the terminal: its prose and tables, without the templates.

use super::layout::Page;
use super::style::{Look, Paint};
use super::text;
use crate::findings::{self, FixRow};
use crate::model::{Cause, Finding, Report, template};
use serde_json::{Value, json};

/// Renders the manual of `cause`.
pub fn render_manual(cause: Cause, look: &Look) -> String {
    let words = findings::words(cause);
    let mut page = Page::new(look);
    let title = look.paint(Paint::Bold, words.title);
    page.line(&format!("{title}   {} ({})", cause.id(), cause.class().id()));
    let manual = findings::manual(cause);
    for section in manual.split("\n## ").skip(1) {
        let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
        match heading {
            "What happens" | "Confirm" | "Reproduce" => prose(&mut page, heading, body),
            "How it differs from look-alikes" => {
                start(&mut page, heading);
                for (of, _, why) in &words.ruled_out {
                    page.item(&format!("{of}: {}", plain(cause, why)));
                }
            }
            "Fix" => {
                start(&mut page, heading);
                for fix in &words.fixes {
                    let change = plain(cause, fix.change);
                    page.item(&format!(
                        "{}: {change} → {}",
                        plain(cause, fix.place),
                        plain(cause, fix.effect)
                    ));
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
    let title = look.paint(Paint::Bold, findings::words(cause).title);
    page.line(&format!("{title}   {} ({})", cause.id(), cause.class().id()));
    for section in findings::manual(cause).split("\n## ").skip(1) {
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
pub fn manual_json(cause: Cause) -> Value {
    let words = findings::words(cause);
    let look_alike = |(of, _, why): &(&str, &str, &str)| format!("`{of}`: {}", plain(cause, why));
    let fix = |fix: &FixRow| {
        format!(
            "{}: {} → {}",
            plain(cause, fix.place),
            plain(cause, fix.change),
            plain(cause, fix.effect)
        )
    };
    let sections = findings::manual(cause).split("\n## ").skip(1).filter_map(|section| {
        let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
        match heading {
            "What happens" | "Confirm" | "Reproduce" => {
                Some(json!({ "heading": heading, "text": body.trim() }))
            }
            "How it differs from look-alikes" => {
                let items: Vec<_> = words.ruled_out.iter().map(look_alike).collect();
                Some(json!({ "heading": heading, "items": items }))
            }
            "Fix" => {
                let items: Vec<_> = words.fixes.iter().map(fix).collect();
                Some(json!({ "heading": heading, "items": items }))
            }
            _ => None,
        }
    });
    json!({ "title": words.title, "sections": sections.collect::<Vec<_>>() })
}

fn start(page: &mut Page<'_>, heading: &str) {
    page.gap();
    page.line(&page.look.paint(Paint::Bold, heading));
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
fn plain(cause: Cause, template: &str) -> String {
    let names = ["peer", "message", "sender", "receiver"];
    let mut text = template.replace("{role}", cause.culprit_word());
    for name in names {
        text = text.replace(&format!("{{{name}}}"), name);
    }
    template::fill(&text, &|_| None).unwrap_or(text)
}
