//! One finding: culprit, cost, description, evidence, similar causes, fixes, and how to check them.

use super::join;
use super::sums::overlap;
use crate::findings::term;
use crate::model::template::show;
use crate::model::units::endpoint_or_others;
use crate::model::{Class, Evidence, Finding, Language, Report, Role, units};
use crate::report::layout::{Page, columns_of, left, right};
use crate::report::phrases::{Phrases, is_from_server};
use crate::report::style::{Look, Paint};
use crate::report::{draw, phrases, treat, verify};
use crate::say;
use crate::wire::{Endpoint, Side};

/// Similar causes shown for each finding; JSON has all.
const RULED_OUT_MAX: usize = 3;

/// Fixes shown for each finding; the manual has all.
const FIXES_MAX: usize = 3;

/// Writes a finding in full.
pub(super) fn render(page: &mut Page<'_>, report: &Report, finding: &Finding, phrases: &Phrases) {
    let language = page.look.language;
    heading(page, report, finding);
    page.labelled("what", &phrases.what);
    join::sights(page, report, finding);
    evidence(page, report, finding, phrases);
    state(page, finding);
    experiments(page, finding);
    for (index, (cause, why)) in phrases.ruled_out.iter().take(RULED_OUT_MAX).enumerate() {
        let text = say!(language, "named_row", name = cause.id(), words = why);
        page.labelled(if index == 0 { "ruled out" } else { "" }, &text);
    }
    for (index, fix) in phrases.fixes.iter().take(FIXES_MAX).enumerate() {
        let (place, change, effect) = (&fix.place, &fix.change, &fix.effect);
        let text = say!(language, "fix_row", place, change, effect);
        page.labelled(if index == 0 { "fix" } else { "" }, &text);
    }
    page.command("manual", &format!("tcpwhy explain {}", finding.cause.id()));
    if let Some(command) = draw(report, finding) {
        page.command("draw", &command);
    }
    if let Some(command) = treat(finding) {
        page.command("treat", &command);
    }
    if is_fault(finding) {
        page.command("verify", &verify(report, finding));
    }
}

/// Writes class, cause, culprit, cost, extent and confidence, in one line if it fits.
fn heading(page: &mut Page<'_>, report: &Report, finding: &Finding) {
    let (affected, language) = (&finding.affected, page.look.language);
    let mut facts = vec![culprit(finding, language)];
    if finding.lost_ns > 0 {
        let wall_ns = finding.load.map_or(report.totals.wall_ns, |it| it.wall_ns);
        let whole = units::duration(wall_ns);
        // How long a client waited after its last SYN is not seen.
        let has = |fact: &str| finding.facts.iter().any(|(name, _)| *name == fact);
        let is_least = has("all_silent") && !has("waiting_ns");
        let of = (affected.exchanges, affected.connections);
        let overlaps = overlap(report, finding.lost_ns, of);
        let lost = units::duration(finding.lost_ns);
        facts.push(say!(language, "finding_cost", is_least, lost, whole, overlaps));
    }
    if affected.exchanges > 0 {
        // The cost is that of all exchanges where those that count have only a part of it.
        let part = finding.facts.iter().find(|(name, _)| *name == "counted_ns");
        let part = part.map(|(_, ns)| show(ns));
        let (count, whole) = (affected.exchanges, affected.of_exchanges);
        facts.push(say!(language, "finding_exchanges", part, count, whole));
    } else if affected.connections > 0 {
        facts.push(say!(language, "connections", count = affected.connections));
    }
    if let Some(load) = finding.load {
        facts.push(say!(language, "finding_load", count = load.connections));
    }
    facts.push(phrases::confidence(finding, language));
    let title = page.look.paint(Paint::Bold, finding.cause.id());
    let class = class(page.look, finding);
    let plain = CLASS_COLUMNS + columns_of(finding.cause.id());
    let one_line = facts.join("   ");
    if plain + 3 + columns_of(&one_line) <= page.look.width {
        page.line(&format!("{class}{title}   {one_line}"));
    } else {
        page.line(&format!("{class}{title}   {}", facts.remove(0)));
        page.labelled("", &facts.join(" · "));
    }
}

/// Columns of the word for a class, and the blanks behind it.
const CLASS_COLUMNS: usize = 7;

pub(super) fn class(look: &Look, finding: &Finding) -> String {
    let (paint, word) = match finding.cause.class() {
        Class::Fault => (Paint::Fault, "FAULT"),
        Class::Cost => (Paint::Cost, "COST"),
    };
    look.paint(paint, &left(term(look.language, word), CLASS_COLUMNS))
}

pub(super) fn is_fault(finding: &Finding) -> bool {
    finding.cause.class() == Class::Fault
}

/// Names the party that has to change something.
pub(super) fn culprit(finding: &Finding, language: Language) -> String {
    let endpoint = finding.culprit.endpoint;
    let others = endpoint_or_others(&endpoint);
    let at = term(language, &others);
    let knows = |name: &str| finding.facts.iter().any(|(known, _)| *known == name);
    let id = match finding.culprit.role {
        Role::Network if knows("caller") => "network_of",
        // The filter may be on either side of the client's link, or near the peers.
        Role::Network if knows("filtered") && endpoint.port == 0 => "network_around",
        // Data that a server had to retransmit was lost on the way from the server.
        Role::Network if is_from_server(finding) => "network_from",
        Role::Network if knows("mute_host") => "network_to",
        // A router that identified itself (by ICMP).
        Role::Network if endpoint.port == 0 && endpoint != Endpoint::default() => "network_at",
        Role::Network => "network_to",
        role => return say!(language, "party_at", role = term(language, role.id()), at),
    };
    say!(language, id, at)
}

/// Writes one line per frame of the chain, then the filter that shows them in Wireshark.
fn evidence(page: &mut Page<'_>, report: &Report, finding: &Finding, phrases: &Phrases) {
    let Some(first) = finding.evidence.first() else { return };
    let rows: Vec<[String; 4]> =
        finding.evidence.iter().enumerate().map(|it| columns(it, page.look.language)).collect();
    let width = |column: usize| rows.iter().map(|row| columns_of(&row[column])).max().unwrap_or(0);
    let widths: [usize; 4] = std::array::from_fn(width);
    for (index, (row, words)) in rows.iter().zip(&phrases.evidence).enumerate() {
        let [number, from, bytes, after] = row;
        let start = format!(
            "{} {} {} {}  ",
            left(number, widths[0]),
            left(from, widths[1]),
            right(bytes, widths[2]),
            right(after, widths[3])
        );
        page.columned(if index == 0 { "evidence" } else { "" }, &start, words);
    }
    if let Some(note) = &phrases.note {
        page.labelled("", note);
    }
    if report.inputs.len() > 1
        && let Some(input) = report.inputs.get(first.frame.file() as usize)
    {
        page.labelled("in", &units::printable(&input.path));
    }
    // Frames of a running system are in no file.
    if report.watched.is_some() {
        return;
    }
    page.labelled("wireshark", &phrases::wireshark_filter(finding, first.frame.file()));
}

/// Writes the state of the system that supports or contradicts the finding.
fn state(page: &mut Page<'_>, finding: &Finding) {
    for evidence in &finding.state {
        let label = if evidence.agrees { "state" } else { "but state" };
        let language = page.look.language;
        let (place, process) = (&evidence.place, evidence.process.as_ref());
        let words = crate::state::sentence(evidence, language);
        page.labelled(label, &say!(language, "state_row", place, process, words));
    }
}

/// Writes the experiments that support or refute the finding, and a note if no packet shows it.
fn experiments(page: &mut Page<'_>, finding: &Finding) {
    for evidence in &finding.experiments {
        let label = if evidence.agrees { "experiment" } else { "but exp." };
        let language = page.look.language;
        let words = crate::experiment::sentence(&evidence.experiment, language);
        let text = say!(language, "named_row", name = evidence.experiment.name, words);
        page.labelled(label, &text);
    }
    if finding.is_unseen {
        page.labelled("but packets", &say!(page.look.language, "packets_do_not_show"));
    }
}

/// Returns number, sender, payload, and time since the previous frame of the chain, of one frame.
fn columns((index, link): (usize, &Evidence), language: Language) -> [String; 4] {
    let from = match link.from {
        // Any host on the way may have sent it.
        _ if link.part == "icmp" => "ICMP",
        Side::Client => term(language, "client"),
        Side::Server => term(language, "server"),
    };
    let bytes = match link.payload_bytes {
        0 => "–".into(),
        bytes => format!("{} B", units::count(bytes.into())),
    };
    let after = match index {
        0 => String::new(),
        _ => format!("+{}", units::duration(link.after_ns)),
    };
    [format!("#{}", link.frame.number()), from.into(), bytes, after]
}
