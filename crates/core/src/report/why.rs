//! The log of decisions (`--why`): the verdict on each silence, and the conditions that decided it.

use super::layout::{Page, left};
use super::style::{Look, Paint};
use crate::findings::term;
use crate::judge::{Answer, Gap};
use crate::model::units::{duration, printable};
use crate::model::{Finding, Language, Report, Settled, Slice};
use crate::report::phrases::owner_name;
use crate::say;
use crate::tcp::{Exchange, Revision};
use crate::wire::{Endpoint, Side};
use serde_json::{Value, json};

/// A silence with everything that decided its owners.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The gap with everything that its sender knew.
    pub gap: Gap,
    /// The answer of each recogniser that was asked, in order.
    pub answers: Vec<(&'static str, Answer)>,
    /// The slices as the recognisers claimed them.
    pub judged: Vec<Slice>,
    /// The slices as added to the ledger, after corrections by the connection.
    pub recorded: Vec<Slice>,
}

/// The reasons for the verdicts on silences.
#[derive(Clone, Debug)]
pub struct Why {
    /// The client of the connection.
    pub client: Endpoint,
    /// The server of the connection.
    pub server: Endpoint,
    /// The silences, in time order.
    pub silences: Vec<Decided>,
    /// Number of shorter silences that are left out.
    pub omitted: u64,
    /// The exchange that contains the silences, with its number on the connection from 1.
    pub exchange: Option<(u64, Exchange)>,
}

fn part(slice: &Slice, language: Language) -> String {
    let cause = slice.cause.map(|cause| cause.id()).filter(|id| *id != slice.owner.id());
    let cause = cause.map_or_else(String::new, |id| format!(" ({id})"));
    format!("{} {}{cause}", duration(slice.ns), owner_name(slice.owner, language))
}

fn parts(slices: &[Slice], language: Language) -> String {
    let parts: Vec<String> = slices.iter().map(|slice| part(slice, language)).collect();
    if parts.is_empty() {
        return say!(language, "why_nothing");
    }
    parts.join(language.glue().comma)
}

fn answered(answer: &Answer, language: Language) -> String {
    match answer {
        Ok(slice) => say!(language, "why_claims", part = part(slice, language)),
        Err(why) => say!(language, "why_declines", reason = why.to_string()),
    }
}

/// Formats a change of the time of `name`: `−41 ms server`.
fn change(name: &str, ns: i64) -> String {
    let sign = if ns < 0 { '−' } else { '+' };
    format!("{sign}{} {name}", duration(ns.unsigned_abs()))
}

/// Formats the changes of a revision: `−41 ms nagle_delayed_ack, +41 ms server`.
fn changes(revision: &Revision) -> String {
    let owners = revision.owners.iter().map(|(owner, ns)| change(owner.id(), *ns));
    let causes = revision.causes.iter().map(|(cause, ns)| change(cause.id(), *ns));
    let all: Vec<String> =
        if revision.owners.is_empty() { causes.collect() } else { owners.collect() };
    all.join(", ")
}

/// Returns the place in the code that made a revision, relative to the sources of this crate.
fn code_location(revision: &Revision) -> String {
    let file = revision.by.file();
    let below = file.rsplit_once("src/").map_or(file, |(_, below)| below);
    format!("{below}:{}", revision.by.line())
}

impl Why {
    /// Returns the findings of `report` whose cause is that of one of these silences, at either end
    /// of the connection.
    fn findings<'a>(&self, report: &'a Report) -> Vec<&'a Finding> {
        let chains = self.exchange.iter().flat_map(|(_, it)| &it.chains);
        let causes: Vec<_> = chains.map(|chain| chain.cause).collect();
        let ends = [self.client.ip(), self.server.ip()];
        let concerns = |finding: &&Finding| {
            let at = finding.culprit.endpoint;
            let is_here = at == Endpoint::default() || ends.contains(&at.ip());
            is_here && causes.contains(&finding.cause)
        };
        report.findings.iter().filter(concerns).collect()
    }

    /// Returns the changes that passes over all connections made at this connection's server.
    fn settled<'a>(&self, report: &'a Report) -> Vec<&'a Settled> {
        report.settled.iter().flatten().filter(|it| it.server == self.server).collect()
    }

    /// Renders the log as text; `report` is that of the first pass.
    pub fn render(&self, report: &Report, look: &Look) -> String {
        let mut page = Page::new(look);
        let title = format!("{} → {}", self.client, self.server);
        page.line(&look.paint(Paint::Bold, &title));
        for decided in &self.silences {
            decided.render(&mut page);
        }
        if self.omitted > 0 {
            page.gap();
            let text = say!(look.language, "why_shorter", count = self.omitted.to_string());
            page.paragraph(Some(Paint::Dim), &text, 0);
        }
        if let Some((number, exchange)) = &self.exchange {
            render_exchange(&mut page, *number, exchange);
        }
        let settled = self.settled(report);
        if !settled.is_empty() {
            page.gap();
            let server = self.server.to_string();
            let title = say!(look.language, "why_all_connections", server);
            page.line(&look.paint(Paint::Bold, &title));
        }
        for it in settled {
            let change = change(it.cause.id(), it.ns);
            let (role, decides) = (term(look.language, it.role.id()), it.decides);
            let text = say!(look.language, "why_settled", change, role, decides);
            page.paragraph(None, &text, 2);
        }
        page.gap();
        page.title("in the report", "");
        let findings = self.findings(report);
        if findings.is_empty() {
            page.paragraph(None, &say!(look.language, "why_no_finding"), 2);
        }
        for finding in findings {
            let (class, cause) = (finding.cause.class().id(), finding.cause.id());
            let class = term(look.language, class);
            let role = term(look.language, finding.culprit.role.id());
            let (at, cost) = (finding.culprit.endpoint.to_string(), duration(finding.lost_ns));
            let text = say!(look.language, "why_finding", class, cause, role, at, cost);
            page.paragraph(None, &text, 2);
        }
        page.finish()
    }

    /// Returns the log as JSON; `report` is that of the first pass.
    pub fn json(&self, report: &Report) -> Value {
        json!({
            "client": self.client.to_string(),
            "server": self.server.to_string(),
            "silences": self.silences.iter().map(silence_json).collect::<Vec<_>>(),
            "silences_omitted": self.omitted,
            "exchange": self.exchange.as_ref().map(|(number, it)| exchange_json(*number, it)),
            "settled": self.settled(report).iter().map(|it| json!({
                "decides": it.decides,
                "cause": it.cause.id(),
                "role": it.role.id(),
                "ns": it.ns,
            })).collect::<Vec<_>>(),
            "findings": self.findings(report).iter().map(|it| json!({
                "cause": it.cause.id(),
                "lost_ns": it.lost_ns,
            })).collect::<Vec<_>>(),
        })
    }
}

impl Decided {
    fn render(&self, page: &mut Page<'_>) {
        let gap = &self.gap;
        let language = page.look.language;
        let [from, to] = [gap.last.frame, gap.next.frame].map(|it| it.number().to_string());
        let id = match gap.sender {
            Side::Client => "why_client_silent",
            Side::Server => "why_server_silent",
        };
        let title = say!(language, id, time = duration(gap.len_ns()), from, to);
        page.gap();
        page.line(&page.look.paint(Paint::Bold, &title));
        for group in gap.facts() {
            let facts: Vec<String> =
                group.facts.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            page.hanging(&format!("{:<18} ", group.group), &facts.join("; "));
        }
        page.line("");
        for (name, answer) in &self.answers {
            page.hanging(&format!("{name:<32} "), &answered(answer, language));
        }
        let name = left(term(language, "judged"), 32);
        page.hanging(&format!("{name} "), &parts(&self.judged, language));
        if self.judged != self.recorded {
            let name = left(term(language, "after what the connection knows"), 32);
            page.hanging(&format!("{name} "), &parts(&self.recorded, language));
        }
    }
}

fn render_exchange(page: &mut Page<'_>, number: u64, exchange: &Exchange) {
    page.gap();
    let kind = printable(&exchange.kind.to_string());
    let (language, wall) = (page.look.language, duration(exchange.wall_ns()));
    let title = say!(language, "why_exchange", number = number.to_string(), kind, wall);
    page.line(&page.look.paint(Paint::Bold, &title));
    let revisions = exchange.revisions.iter().flat_map(|all| all.iter());
    let mut has_any = false;
    for revision in revisions {
        has_any = true;
        let text = format!("{}: {} ({})", changes(revision), revision.why, code_location(revision));
        page.paragraph(None, &text, 2);
    }
    if !has_any {
        page.paragraph(None, &say!(language, "why_unchanged"), 2);
    }
    let ledger = exchange.ledger.ledger();
    let owners = ledger.iter().filter(|(_, ns)| *ns > 0);
    let owners: Vec<String> = owners
        .map(|(owner, ns)| format!("{} {}", duration(ns), owner_name(owner, language)))
        .collect();
    let owners = owners.join(language.glue().comma);
    page.paragraph(None, &say!(language, "why_ledger", owners), 2);
}

fn slice_json(slice: &Slice) -> Value {
    json!({
        "owner": slice.owner.id(),
        "cause": slice.cause.map(|cause| cause.id()),
        "ns": slice.ns,
    })
}

fn slices_json(slices: &[Slice]) -> Value {
    slices.iter().map(slice_json).collect()
}

fn silence_json(decided: &Decided) -> Value {
    let gap = &decided.gap;
    let answers = decided.answers.iter().map(|(name, answer)| match answer {
        Ok(claim) => json!({ "recogniser": name, "claims": slice_json(claim) }),
        Err(why) => json!({ "recogniser": name, "declines": why }),
    });
    let facts = gap.facts().into_iter().map(|group| {
        let facts = group.facts.into_iter().map(|(name, value)| (name, json!(value)));
        (group.group, facts.collect::<Value>())
    });
    json!({
        "from_frame": gap.last.frame.number(),
        "to_frame": gap.next.frame.number(),
        "sender": gap.sender.name(),
        "ns": gap.len_ns(),
        "facts": facts.collect::<Value>(),
        "answers": answers.collect::<Vec<_>>(),
        "judged": slices_json(&decided.judged),
        "recorded": slices_json(&decided.recorded),
    })
}

fn revision_json(revision: &Revision) -> Value {
    let owners = revision.owners.iter().map(|(owner, ns)| (owner.id(), json!(ns)));
    let causes = revision.causes.iter().map(|(cause, ns)| (cause.id(), json!(ns)));
    json!({
        "by": code_location(revision),
        "why": revision.why,
        "owners_ns": owners.collect::<Value>(),
        "causes_ns": causes.collect::<Value>(),
    })
}

fn exchange_json(number: u64, exchange: &Exchange) -> Value {
    let ledger = exchange.ledger.ledger();
    let ledger = ledger.iter().map(|(owner, ns)| (owner.id(), json!(ns)));
    let revisions = exchange.revisions.iter().flat_map(|all| all.iter());
    json!({
        "exchange": number,
        "kind": exchange.kind.to_string(),
        "wall_ns": exchange.wall_ns(),
        "revisions": revisions.map(revision_json).collect::<Vec<_>>(),
        "ledger_ns": ledger.collect::<Value>(),
    })
}
