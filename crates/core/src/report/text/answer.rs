//! The answer: what a report says first, and the first recommended change for each part.

use super::effect::{described, prediction};
use super::finding::is_fault;
use super::{Page, Paint, Phrases, Said, phrased, quic, timing, unread};
use crate::app::Protocol;
use crate::findings;
use crate::findings::thresholds::TAIL_SHARE;
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::model::units;
use crate::model::{
    Cause, EndpointReport, Fact, Finding, Language, Observation, OutcomeKind, Owner, Report,
    template,
};
use crate::report::phrases;
use crate::say;
use std::cmp::Reverse;

/// A part of the answer.
struct Part {
    paint: Paint,
    text: String,
    /// The first recommended change for it.
    change: Option<String>,
}

impl Part {
    fn plain(paint: Paint, text: String) -> Self {
        Self { paint, text, change: None }
    }

    fn of(paint: Paint, text: String, phrases: &Phrases, language: Language) -> Self {
        let change = phrases.fixes.first();
        let change =
            change.map(|fix| say!(language, "change", place = &fix.place, change = &fix.change));
        Self { paint, text, change }
    }
}

/// Returns the parts of the answer, without the changes.
pub(in crate::report) fn texts(report: &Report, language: Language) -> Vec<String> {
    let findings = phrased(report, language);
    parts(report, &findings, language).into_iter().map(|part| part.text).collect()
}

/// Writes the answer.
pub(super) fn render(page: &mut Page<'_>, report: &Report, findings: &[Said<'_>]) {
    for part in parts(report, findings, page.look.language) {
        page.paragraph(Some(part.paint), &part.text, 0);
        if let Some(change) = part.change {
            page.labelled("do", &change);
        }
    }
}

fn parts(report: &Report, findings: &[Said<'_>], language: Language) -> Vec<Part> {
    let fault = findings.iter().find(|(finding, _)| is_fault(finding));
    let cost = findings.iter().find(|(finding, _)| !is_fault(finding));
    let Some((fault, of_fault)) = fault else {
        return vec![healthy(report, cost, language)];
    };
    let unread = Some(unread::udp(report, language)).filter(|it| !it.is_empty());
    let unread = unread.map(|it| Part::plain(Paint::Bold, it));
    let parts = of_faults(report, findings, (fault, of_fault), cost, language);
    parts.into_iter().chain(unread).collect()
}

/// Returns the parts of the answer of a report with the fault `fault`, and with `cost` if it has one.
fn of_faults(
    report: &Report,
    findings: &[Said<'_>],
    (fault, of_fault): (&Finding, &Phrases),
    cost: Option<&Said<'_>>,
    language: Language,
) -> Vec<Part> {
    let about_fault = language.sentences(&[
        say!(language, "stated", headline = &of_fault.headline),
        prediction(report, fault, language),
        same_elsewhere(fault, findings, language),
    ]);
    let part = |text, phrases| Part::of(Paint::Bold, text, phrases, language);
    let leads = findings.first().is_some_and(|(first, _)| is_fault(first));
    let outweighs = |(cost, _): &&Said<'_>| !leads || cost.lost_ns > fault.lost_ns;
    match cost.filter(outweighs) {
        Some((_, of_cost)) if leads => {
            let headline = continued(&of_cost.headline, language);
            let also = say!(language, "also", headline);
            vec![part(about_fault, of_fault), part(also, of_cost)]
        }
        Some((_, of_cost)) => {
            let about = continued(&about_fault, language);
            let also = say!(language, "also_a_fault", about);
            let stated = say!(language, "stated", headline = &of_cost.headline);
            vec![part(stated, of_cost), part(also, of_fault)]
        }
        None => {
            let also = most_of_the_time(report, fault, findings, language);
            [part(about_fault, of_fault)].into_iter().chain(also).collect()
        }
    }
}

/// States at how many other places the `fault` of the headline occurs, and what it costs at all of them;
/// empty if there are none.
fn same_elsewhere(fault: &Finding, findings: &[Said<'_>], language: Language) -> String {
    let all = findings.iter().filter(|(it, _)| it.cause == fault.cause && it.load == fault.load);
    let places = all.clone().count().saturating_sub(1) as u64;
    if places == 0 {
        return String::new();
    }
    let share: f64 = all.map(|(it, _)| it.share).sum();
    let share = (fault.lost_ns > 0 && share <= 1.0).then(|| units::share(share));
    say!(language, "same_elsewhere", places, share)
}

/// Names what takes the greatest part of the time, if that is more than the `fault` of the headline
/// takes and not its own: a cost may be too short to be a finding. What a host takes in any case is
/// not worth a word.
fn most_of_the_time(
    report: &Report,
    fault: &Finding,
    findings: &[Said<'_>],
    language: Language,
) -> Option<Part> {
    // A failure, and another connection that was waited for, explain time of these owners.
    let explains = |finding: &Finding| {
        let is_waited_for = finding.facts.iter().any(|(name, _)| *name == "waiting_ns");
        is_fault(finding) && (finding.cause.makes_exchanges_fail() || is_waited_for)
    };
    if findings.iter().any(|(finding, _)| explains(finding)) {
        return None;
    }
    let greatest = report.ledger.iter().max_by_key(|&(owner, ns)| (ns, Reverse(owner)));
    let least_ns = report.totals.exchanges.saturating_mul(HOST_DELAY_MAX_NS).max(fault.lost_ns);
    let (owner, ns) = greatest.filter(|&(_, ns)| ns > least_ns)?;
    let owns = |cause: Cause| cause.owners().contains(&owner);
    let is_told = owns(fault.cause) || !report.only.is_empty();
    let what = owner_words(owner, report).filter(|_| !is_told)?;
    // One server has not all of the time.
    let has_most = |finding: &Finding| owns(finding.cause) && finding.lost_ns > ns / 2;
    let others = findings.iter().find(|(finding, _)| has_most(finding));
    if let Some((_, phrases)) = others {
        let headline = continued(&phrases.headline, language);
        let also = say!(language, "also", headline);
        return Some(Part::of(Paint::Bold, also, phrases, language));
    }
    let share = phrases::share_of(ns, report.ledger.total_ns());
    let text = say!(language, "greatest_part", share, what = say!(language, what));
    Some(Part::plain(Paint::Bold, text))
}

/// Returns the id of the words for the time of an owner that is no fault's.
fn owner_words(owner: Owner, report: &Report) -> Option<&'static str> {
    let has_holes = report.observations.iter().any(|it| it.id == "capture_drops");
    Some(match owner {
        Owner::Unknown if has_holes => "part_unknown_holes",
        Owner::Unknown => "part_unknown",
        Owner::Dns => "part_dns",
        Owner::Connect => "part_connect",
        Owner::Tls => "part_tls",
        Owner::Path => "part_path",
        Owner::Bandwidth => "part_bandwidth",
        Owner::Server => "part_server",
        Owner::Client => "part_client",
        _ => return None,
    })
}

/// Returns a sentence for use after a colon: its first word begins in lower case, unless it is a
/// name (`Nagle's`, `TLS`, an address), where the language has capital letters.
fn continued(sentence: &str, language: Language) -> String {
    let first = sentence.split(' ').next().unwrap_or_default();
    let mut letters = first.chars();
    let begins = letters.next().is_some_and(|letter| letter.is_ascii_uppercase());
    if language.glue().capitals && begins && letters.all(|letter| letter.is_ascii_lowercase()) {
        let rest = sentence.get(first.len()..).unwrap_or_default();
        return first.to_ascii_lowercase() + rest;
    }
    sentence.to_owned()
}

fn healthy(report: &Report, cost: Option<&Said<'_>>, language: Language) -> Part {
    if report.totals.exchanges == 0 {
        return without_exchanges(report, language);
    }
    let failures = failures(report, language);
    let text = judged(report, cost, !failures.is_empty(), language);
    // With `--only`, failures were not asked for.
    let leads = failures.has_cut
        || timing::errors_of(&report.totals.outcomes) as f64
            >= TAIL_SHARE * report.totals.exchanges as f64;
    let failed = language.sentences(&failures.sentences);
    let paint = if failed.is_empty() { Paint::Good } else { Paint::Bold };
    let [first, second] = if leads { [failed, text] } else { [text, failed] };
    let text = language.sentences(&[
        scans(report, language),
        first,
        second,
        late_first_requests(report, language),
        unread::udp(report, language),
        quic::encrypted(report, language),
    ]);
    let Some((finding, phrases)) = cost else { return Part::plain(paint, text) };
    let named = report.only.is_empty() && ruled_out(finding).is_some();
    let also = say!(language, "stated", headline = &phrases.headline);
    let text = if named { text } else { language.sentences(&[text, also]) };
    Part::of(paint, text, phrases, language)
}

/// Returns the answer of a report in which no exchange is complete.
fn without_exchanges(report: &Report, language: Language) -> Part {
    let totals = &report.totals;
    let text = match totals.connections + totals.lookups {
        0 if report.quic.connections() > 0 => say!(language, "no_tcp"),
        0 => unread::nothing_read(report, language),
        _ if totals.connections == 0 => say!(language, "no_complete_lookup"),
        _ => say!(language, "no_complete_exchange", connections = totals.connections),
    };
    let all = [
        scans(report, language),
        text,
        unanswered_lookups(report, language).unwrap_or_default(),
        mute(report, language),
        unread::udp(report, language),
        quic::encrypted(report, language),
    ];
    Part::plain(Paint::Bold, language.sentences(&all))
}

/// What programs report as failures, in sentences.
struct Failures {
    sentences: Vec<String>,
    /// Sessions or requests were cut.
    has_cut: bool,
}

impl Failures {
    fn is_empty(&self) -> bool {
        self.sentences.is_empty()
    }
}

/// Describes the failures of a report without a fault; with `--only` none, which was not asked for.
fn failures(report: &Report, language: Language) -> Failures {
    let totals = &report.totals;
    let is_asked = report.only.is_empty();
    let errors = timing::errors(&totals.outcomes, totals.exchanges, "errors_in_all", language);
    let cut = if is_asked { cut(report, language) } else { Vec::new() };
    let has_cut = !cut.is_empty();
    let errors = errors.filter(|_| is_asked);
    let lookups = unanswered_lookups(report, language).filter(|_| is_asked);
    Failures { sentences: errors.into_iter().chain(lookups).chain(cut).collect(), has_cut }
}

/// Counts the look-ups whose only query has no answer in the capture, if there are any.
fn unanswered_lookups(report: &Report, language: Language) -> Option<String> {
    let note = report.observations.iter().find(|it| it.id == "unanswered_lookups")?;
    let (_, count) = note.facts.iter().find(|(name, _)| *name == "count")?;
    let count = count.count()?;
    Some(say!(language, "unanswered_lookups", count))
}

/// Says that there is no fault, or why that is not known.
fn judged(
    report: &Report,
    cost: Option<&Said<'_>>,
    has_failed: bool,
    language: Language,
) -> String {
    let totals = &report.totals;
    let exchanges = totals.exchanges;
    let latency = described(&report.latency, exchanges, language);
    let unknown_ns = report.ledger.of(Owner::Unknown);
    let count_of_unclear = totals.outcomes.of(OutcomeKind::Unclear);
    let some = |count: u64| Some(count).filter(|it| *it > 0);
    let incomplete = some(totals.outcomes.incomplete());
    let unclear = some(count_of_unclear);
    if let Some((finding, phrases)) = cost
        && let Some(not) = ruled_out(finding)
        && report.only.is_empty()
    {
        let headline = continued(&phrases.headline, language);
        say!(language, "not_it", not = say!(language, not), headline, exchanges, latency)
    } else if !report.only.is_empty() {
        let asked: Vec<_> = report.only.iter().map(|cause| cause.id()).collect();
        let causes = asked.join(language.glue().comma);
        match cost {
            Some(_) => say!(language, "only_latency", exchanges, latency),
            None => say!(language, "none_of_these", causes, exchanges, latency),
        }
    } else if count_of_unclear > 0 && count_of_unclear == totals.outcomes.total() {
        say!(language, "due_unknown", exchanges, latency)
    } else if findings::are_made_up(report) {
        say!(language, "no_fault_made_up", exchanges, incomplete, unclear)
    } else if unknown_ns > totals.wall_ns / 2 {
        waiter_unknown(report, unknown_ns, language)
    } else {
        // An error is a failure, if not a slow one.
        say!(language, "no_fault", has_failed, exchanges, latency, incomplete, unclear)
    }
}

/// Says that the owner of most of the time is unknown, and why if that is the reason at all servers.
fn waiter_unknown(report: &Report, unknown_ns: u64, language: Language) -> String {
    let is_hidden = |it: &EndpointReport| {
        matches!(it.protocol, Protocol::Tls | Protocol::Turns | Protocol::Ssh)
    };
    let notes = |id: &str| report.observations.iter().any(|it| it.id == id);
    let totals = &report.totals;
    // A reason of few connections is not that of most of the time.
    let is_of_most = |it: &Observation| {
        let connections = it.facts.iter().find(|(name, _)| *name == "connections");
        let count = connections.and_then(|(_, fact)| fact.count());
        it.id == "asymmetric_capture" && count.is_none_or(|it| 2 * it >= totals.connections)
    };
    let mut begun = report.observations.iter().filter(|it| it.id == "mid_stream_start");
    let are_begun =
        |it: &Observation| it.facts.contains(&("connections", Fact::Count(totals.connections)));
    say!(
        language,
        "waiter_unknown",
        share = phrases::share_of(unknown_ns, totals.wall_ns),
        exchanges = totals.exchanges,
        one_direction = report.observations.iter().any(is_of_most),
        holes = notes("capture_drops"),
        begun = begun.any(are_begun),
        hidden = report.endpoints.iter().all(is_hidden),
    )
}

/// Returns the id of the words for the delay that a cost excludes, if the cost has most of the time and there is no fault.
fn ruled_out(cost: &Finding) -> Option<&'static str> {
    let either_or = ["distance_max_ns", "typed_ns", "hidden", "forwards", "unread"];
    let is_either_or = cost.facts.iter().any(|(name, _)| either_or.contains(name));
    match cost.cause {
        _ if cost.share < 0.5 || is_either_or => None,
        Cause::ServerThink | Cause::UpstreamWait => Some("not_the_network"),
        Cause::ClientThink => Some("neither_network_nor_server"),
        _ => None,
    }
}

/// Describes what programs report as failures, though no exchange waited.
fn cut(report: &Report, language: Language) -> Vec<String> {
    let says = |observation: &Observation| {
        let fact =
            |name: &str| observation.facts.iter().find(|(of, _)| *of == name).map(|it| &it.1);
        let Some(Fact::Count(count)) = fact("count") else { return None };
        let idle = fact("idle_min_ns").map(template::show);
        let known =
            ["cut_websockets", "cut_streams", "ended_sessions", "cut_readers", "unsent_bodies"];
        let id = known.into_iter().find(|id| *id == observation.id)?;
        Some(say!(language, id, count = *count, idle))
    };
    report.observations.iter().filter_map(says).collect()
}

/// Says that clients gave up connections on which nobody had sent anything.
fn mute(report: &Report, language: Language) -> String {
    let noted = report.observations.iter().find(|it| it.id == "mute_connections");
    let fact = |name: &str| noted?.facts.iter().find(|(of, _)| *of == name).map(|it| &it.1);
    let (count, idle) = (fact("count"), fact("idle_min_ns").map(template::show));
    let Some((&Fact::Count(count), idle)) = count.zip(idle) else { return String::new() };
    say!(language, "mute", count, idle)
}

/// Says that clients sent nothing after they had connected, if that took longer than all exchanges.
fn late_first_requests(report: &Report, language: Language) -> String {
    let noted = report.observations.iter().find(|it| it.id == "late_first_requests");
    let fact = |name: &str| noted?.facts.iter().find(|(of, _)| *of == name).map(|it| &it.1);
    let Some(&Fact::Ns(total_ns)) = fact("total_ns") else { return String::new() };
    let Some(longest) = fact("longest_ns").map(template::show) else { return String::new() };
    if total_ns <= report.totals.wall_ns || !report.only.is_empty() {
        return String::new();
    }
    let are_several = matches!(fact("connections"), Some(Fact::Count(2..)));
    say!(language, if are_several { "late_first_requests" } else { "late_first_request" }, longest)
}

/// Describes the scans in a capture, which come before the rest of the answer.
fn scans(report: &Report, language: Language) -> String {
    let is_scan = |it: &&Observation| matches!(it.id, "port_scan" | "network_scan");
    let Some(scan) = report.observations.iter().find(is_scan) else { return String::new() };
    let fact = |name: &str| {
        let known = scan.facts.iter().find(|(of, _)| *of == name);
        known.map_or_else(String::new, |(_, fact)| template::show(fact))
    };
    match scan.id {
        "port_scan" => {
            say!(language, "scans_ports", scanner = fact("scanner"), host = fact("host"))
        }
        _ => say!(language, "scans_network", scanner = fact("scanner")),
    }
}
