//! The answer: what a report says first, and the first recommended change for each part.

use super::effect::{described, prediction};
use super::finding::is_fault;
use super::{Page, Paint, Phrases, Said, phrased, timing, unread};
use crate::app::Protocol;
use crate::findings;
use crate::findings::thresholds::TAIL_SHARE;
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::model::units::{self, counted};
use crate::model::{
    Cause, EndpointReport, Fact, Finding, Observation, OutcomeKind, Owner, Report, Totals, template,
};
use crate::report::phrases;
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

    fn of(paint: Paint, text: String, phrases: &Phrases) -> Self {
        let change = phrases.fixes.first().map(|fix| format!("{}: {}", fix.place, fix.change));
        Self { paint, text, change }
    }
}

/// Returns the parts of the answer, without the changes.
pub(in crate::report) fn texts(report: &Report) -> Vec<String> {
    parts(report, &phrased(report)).into_iter().map(|part| part.text).collect()
}

/// Writes the answer.
pub(super) fn render(page: &mut Page<'_>, report: &Report, findings: &[Said<'_>]) {
    for part in parts(report, findings) {
        page.paragraph(Some(part.paint), &part.text, 0);
        if let Some(change) = part.change {
            page.labelled("do", &change);
        }
    }
}

fn parts(report: &Report, findings: &[Said<'_>]) -> Vec<Part> {
    let fault = findings.iter().find(|(finding, _)| is_fault(finding));
    let cost = findings.iter().find(|(finding, _)| !is_fault(finding));
    let Some((fault, of_fault)) = fault else { return vec![healthy(report, cost)] };
    let unread = unread::udp(report);
    let unread = Some(unread).filter(|it| !it.is_empty());
    let unread = unread.map(|it| Part::plain(Paint::Bold, it.trim_start().to_owned()));
    of_faults(report, findings, (fault, of_fault), cost).into_iter().chain(unread).collect()
}

/// Returns the parts of the answer of a report with the fault `fault`, and with `cost` if it has one.
fn of_faults(
    report: &Report,
    findings: &[Said<'_>],
    (fault, of_fault): (&Finding, &Phrases),
    cost: Option<&Said<'_>>,
) -> Vec<Part> {
    let about_fault = format!(
        "{}.{}{}",
        of_fault.headline,
        prediction(report, fault),
        same_elsewhere(fault, findings)
    );
    let leads = findings.first().is_some_and(|(first, _)| is_fault(first));
    let outweighs = |(cost, _): &&Said<'_>| !leads || cost.lost_ns > fault.lost_ns;
    match cost.filter(outweighs) {
        Some((_, of_cost)) if leads => {
            let also = format!("Also: {}.", continued(&of_cost.headline));
            vec![Part::of(Paint::Bold, about_fault, of_fault), Part::of(Paint::Bold, also, of_cost)]
        }
        Some((_, of_cost)) => {
            let also = format!("Also a fault, which takes less: {}", continued(&about_fault));
            vec![
                Part::of(Paint::Bold, format!("{}.", of_cost.headline), of_cost),
                Part::of(Paint::Bold, also, of_fault),
            ]
        }
        None => {
            let also = most_of_the_time(report, fault, findings);
            [Part::of(Paint::Bold, about_fault, of_fault)].into_iter().chain(also).collect()
        }
    }
}

/// States at how many other places the `fault` of the headline occurs, and what it costs at all of them;
/// empty if there are none.
fn same_elsewhere(fault: &Finding, findings: &[Said<'_>]) -> String {
    let all = findings.iter().filter(|(it, _)| it.cause == fault.cause && it.load == fault.load);
    let others = all.clone().count().saturating_sub(1) as u64;
    if others == 0 {
        return String::new();
    }
    let places = counted(others, "other place", "other places");
    match all.map(|(it, _)| it.share).sum::<f64>() {
        share if fault.lost_ns > 0 && share <= 1.0 => {
            format!(" The same at {places}: {} in all.", units::share(share))
        }
        _ => format!(" The same at {places}."),
    }
}

/// Names what takes the greatest part of the time, if that is more than the `fault` of the headline
/// takes and not its own: a cost may be too short to be a finding. What a host takes in any case is
/// not worth a word.
fn most_of_the_time(report: &Report, fault: &Finding, findings: &[Said<'_>]) -> Option<Part> {
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
        let also = format!("Also: {}.", continued(&phrases.headline));
        return Some(Part::of(Paint::Bold, also, phrases));
    }
    let share = phrases::share_of(ns, report.ledger.total_ns());
    let text = format!("Also: the greatest part of the time, {share}, is {what}.");
    Some(Part::plain(Paint::Bold, text))
}

/// Describes the time of an owner that is no fault's.
fn owner_words(owner: Owner, report: &Report) -> Option<&'static str> {
    let has_holes = report.observations.iter().any(|it| it.id == "capture_drops");
    Some(match owner {
        Owner::Unknown if has_holes => "of unknown cause, since the capture has holes",
        Owner::Unknown => "of unknown cause",
        Owner::Dns => "name look-ups",
        Owner::Connect => "the set-up of connections",
        Owner::Tls => "TLS handshakes",
        Owner::Path => "the way between client and server",
        Owner::Bandwidth => "the rate of the link",
        Owner::Server => "the server's own work",
        Owner::Client => "the client's own work",
        _ => return None,
    })
}

/// Returns a sentence for use after a colon: its first word begins in lower case, unless it is a
/// name (`Nagle's`, `TLS`, an address).
fn continued(sentence: &str) -> String {
    let first = sentence.split(' ').next().unwrap_or_default();
    let mut letters = first.chars();
    let begins = letters.next().is_some_and(|letter| letter.is_ascii_uppercase());
    if begins && letters.all(|letter| letter.is_ascii_lowercase()) {
        let rest = sentence.get(first.len()..).unwrap_or_default();
        return first.to_ascii_lowercase() + rest;
    }
    sentence.to_owned()
}

fn healthy(report: &Report, cost: Option<&Said<'_>>) -> Part {
    let totals = &report.totals;
    if totals.exchanges == 0 {
        let connections = counted(totals.connections, "connection", "connections");
        let text = match totals.connections + totals.lookups {
            0 => unread::nothing_read(report),
            _ if totals.connections == 0 => {
                "No fault found, but no complete look-up of an application either.".into()
            }
            _ => format!("No fault found, but no complete exchange either in {connections}."),
        };
        let unread = unread::udp(report);
        return Part::plain(
            Paint::Bold,
            format!("{}{text}{}{unread}", scans(report), mute(report)),
        );
    }
    let exchanges = counted(totals.exchanges, "exchange", "exchanges");
    let latency = described(&report.latency, totals.exchanges);
    let unknown_ns = report.ledger.of(Owner::Unknown);
    let unclear = totals.outcomes.of(OutcomeKind::Unclear);
    // With `--only`, failures were not asked for.
    let errors = timing::errors(
        &totals.outcomes,
        totals.exchanges,
        if totals.exchanges == 1 {
            "exchange ended with an error"
        } else {
            "exchanges ended with an error"
        },
    );
    let errors = errors.map(|errors| format!(" {errors}.")).filter(|_| report.only.is_empty());
    let cut = cut(report).filter(|_| report.only.is_empty());
    let leads = cut.is_some()
        || timing::errors_of(&totals.outcomes) as f64 >= TAIL_SHARE * totals.exchanges as f64;
    let failed: String = [errors, cut].into_iter().flatten().collect();
    let text = if let Some((finding, phrases)) = cost
        && let Some(not) = ruled_out(finding)
        && report.only.is_empty()
    {
        let headline = continued(&phrases.headline);
        format!("{not}: {headline} ({exchanges}: {latency}).")
    } else if !report.only.is_empty() {
        let asked: Vec<_> = report.only.iter().map(|cause| cause.id()).collect();
        match cost {
            Some(_) => format!("{exchanges}: {latency}."),
            None => format!("No {} in {exchanges}: {latency}.", asked.join(", ")),
        }
    } else if unclear > 0 && unclear == totals.outcomes.total() {
        format!("It is not known whether an answer was due in {exchanges}: {latency}.")
    } else if findings::are_made_up(report) {
        let without = without_answer(totals);
        format!("No fault in {exchanges}{without}. How long they took was not measured.")
    } else if unknown_ns > totals.wall_ns / 2 {
        let unknown = phrases::share_of(unknown_ns, totals.wall_ns);
        let why = why_unknown(report);
        format!("It is not known which side waited in {unknown} of the time of {exchanges}{why}.")
    } else {
        // An error is a failure, if not a slow one.
        let that = if failed.is_empty() { "" } else { " that costs time" };
        format!("No fault{that} in {exchanges}: {latency}{}.", without_answer(totals))
    };
    let text = match failed.trim_start() {
        first if !first.is_empty() && leads => format!("{first} {text}"),
        _ => format!("{text}{failed}"),
    };
    let paint = if failed.is_empty() { Paint::Good } else { Paint::Bold };
    let (scans, late, unread) = (scans(report), late_first_requests(report), unread::udp(report));
    let text = format!("{scans}{text}{late}{unread}");
    let Some((finding, phrases)) = cost else { return Part::plain(paint, text) };
    let named = report.only.is_empty() && ruled_out(finding).is_some();
    let text = if named { text } else { format!("{text} {}.", phrases.headline) };
    Part::of(paint, text, phrases)
}

/// Says why the owner of most of the time is unknown, if that is the reason at all servers.
fn why_unknown(report: &Report) -> &'static str {
    let is_hidden = |it: &EndpointReport| {
        matches!(it.protocol, Protocol::Tls | Protocol::Turns | Protocol::Ssh)
    };
    let notes = |id: &str| report.observations.iter().any(|it| it.id == id);
    match report.endpoints.iter().all(is_hidden) {
        _ if notes("asymmetric_capture") => ": of some connections only one direction was captured",
        _ if notes("capture_drops") => ": the capture has holes",
        true => ": what they sent cannot be read (TLS, or an unknown protocol)",
        false => "",
    }
}

/// Returns how many exchanges had no complete answer, and how many may have had to have one.
fn without_answer(totals: &Totals) -> String {
    let mut text = String::new();
    let incomplete = totals.outcomes.incomplete();
    if incomplete > 0 {
        text += &format!("; {} without a complete answer", units::count(incomplete));
    }
    let unclear = totals.outcomes.of(OutcomeKind::Unclear);
    if unclear > 0 {
        let unclear = units::count(unclear);
        text +=
            &format!("; {unclear} closed without an answer, and whether one was due is unknown");
    }
    text
}

/// Names the delay that a cost excludes, if the cost has most of the time and there is no fault.
fn ruled_out(cost: &Finding) -> Option<&'static str> {
    let either_or = ["distance_max_ns", "typed_ns", "hidden", "forwards", "unread"];
    let is_either_or = cost.facts.iter().any(|(name, _)| either_or.contains(name));
    match cost.cause {
        _ if cost.share < 0.5 || is_either_or => None,
        Cause::ServerThink | Cause::UpstreamWait => Some("Not the network"),
        Cause::ClientThink => Some("Neither the network nor the server"),
        _ => None,
    }
}

/// Describes what programs report as failures, though no exchange waited.
fn cut(report: &Report) -> Option<String> {
    let says = |observation: &Observation| {
        let fact =
            |name: &str| observation.facts.iter().find(|(of, _)| *of == name).map(|it| &it.1);
        let Some(Fact::Count(count)) = fact("count") else { return None };
        let counted = |one: &str, many: &str| counted(*count, one, many);
        let idle = fact("idle_min_ns").map(template::show);
        let after =
            idle.as_ref().map_or_else(String::new, |it| format!(" after {it} without data"));
        Some(match observation.id {
            "cut_websockets" => {
                let cut = counted("WebSocket connection", "WebSocket connections");
                format!(" The server's host cut {cut}{after}.")
            }
            "ended_sessions" => {
                let ended = counted("idle session", "idle sessions");
                format!(" The server's host ended {ended}{after}.")
            }
            "cut_readers" => {
                let cut = counted("session", "sessions");
                format!(" The server's host ended {cut} after the client's window had closed.")
            }
            "unsent_bodies" => {
                let sent = counted("request", "requests");
                let idle = idle.unwrap_or_default();
                format!(" The client sent only a part of {sent}, and then nothing for {idle}.")
            }
            _ => return None,
        })
    };
    let text: String = report.observations.iter().filter_map(says).collect();
    (!text.is_empty()).then_some(text)
}

/// Says that clients gave up connections on which nobody had sent anything.
fn mute(report: &Report) -> String {
    let noted = report.observations.iter().find(|it| it.id == "mute_connections");
    let fact = |name: &str| noted?.facts.iter().find(|(of, _)| *of == name).map(|it| &it.1);
    let (count, idle) = (fact("count"), fact("idle_min_ns").map(template::show));
    let Some((&Fact::Count(count), idle)) = count.zip(idle) else { return String::new() };
    let ended =
        counted(count, "of them was ended by its client", "of them were ended by the client");
    format!(
        " {ended} after {idle} without a byte from either side: the server did not speak first."
    )
}

/// Says that clients sent nothing after they had connected, if that took longer than all exchanges.
fn late_first_requests(report: &Report) -> String {
    let noted = report.observations.iter().find(|it| it.id == "late_first_requests");
    let fact = |name: &str| noted?.facts.iter().find(|(of, _)| *of == name).map(|it| &it.1);
    let Some(&Fact::Ns(total_ns)) = fact("total_ns") else { return String::new() };
    let Some(longest) = fact("longest_ns").map(template::show) else { return String::new() };
    if total_ns <= report.totals.wall_ns || !report.only.is_empty() {
        return String::new();
    }
    match fact("connections") {
        Some(Fact::Count(2..)) => {
            format!(" Clients also sent nothing for up to {longest} after they had connected.")
        }
        _ => format!(" A client also sent nothing for {longest} after it had connected."),
    }
}

/// Describes the scans in a capture, which come before the rest of the answer.
fn scans(report: &Report) -> String {
    let is_scan = |it: &&Observation| matches!(it.id, "port_scan" | "network_scan");
    let Some(scan) = report.observations.iter().find(is_scan) else { return String::new() };
    let fact = |name: &str| {
        let known = scan.facts.iter().find(|(of, _)| *of == name);
        known.map_or_else(String::new, |(_, fact)| template::show(fact))
    };
    match scan.id {
        "port_scan" => format!("{} scans the ports of {}. ", fact("scanner"), fact("host")),
        _ => format!("{} scans the network. ", fact("scanner")),
    }
}
