//! Checks the claims of a report against the packets: each evidence frame, each reason for which a
//! look-alike is ruled out, and each number that a sentence quotes. It reads headers only, shares no
//! state with the analysis, and does not know how the analysis reached its conclusions.
//!
//! ```text
//! Report ─► Packets::of ─► Packets::take (a second pass over the frames) ─► check ─► Checked
//! ```
//!
//! A claim holds, is false, or is undecided where the packets of the named connection cannot show
//! it. `tcpwhy FILE --check` prints the result. A sentence of a manual without an entry in
//! [`parts`], [`reasons`], [`lookups`] or [`values`] fails a test.

mod attempts;
mod failures;
mod flow;
mod lookups;
mod message;
mod packets;
mod parts;
mod quoted;
mod reasons;
mod sums;
mod syns;
mod values;
mod windows;

pub use packets::Packets;

use crate::findings::{self, Words};
use crate::model::{
    Cause, Checked, Class, Evidence, Fact, Family, Finding, Language, Report, Verdict,
};
use crate::report::Phrases;
use crate::wire::Side;
use flow::{Flow, Seg};
use packets::DNS_PORT;

/// Why a claim is not shown to be true.
#[derive(Debug)]
enum Doubt {
    False(String),
    Undecided(&'static str),
}

type Answer = Result<(), Doubt>;

/// Returns `Ok` if `condition` holds; otherwise the claim is false, since `what`.
fn holds(condition: bool, what: impl Into<String>) -> Answer {
    if condition { Ok(()) } else { Err(Doubt::False(what.into())) }
}

fn verdict(answer: Answer) -> Verdict {
    match answer {
        Ok(()) => Verdict::Holds,
        Err(Doubt::False(why)) => Verdict::False(why),
        Err(Doubt::Undecided(why)) => Verdict::Undecided(why),
    }
}

fn undecided<T>(reason: &'static str) -> Result<T, Doubt> {
    Err(Doubt::Undecided(reason))
}

/// Checks every claim of `report` against `packets`, which were collected for it.
pub fn check(report: &Report, packets: &mut Packets) -> Vec<Checked> {
    packets.divide();
    let mut checked = sums::report(report, packets);
    for (at, finding) in report.findings.iter().enumerate() {
        let case = Case::new(finding, packets);
        let add = |(claim, answer)| Checked { finding: Some(at), claim, verdict: verdict(answer) };
        checked.extend(case.claims(report).into_iter().map(add));
    }
    checked
}

/// Returns whether an evidence frame with this `part` in a finding of `cause` can be checked.
pub fn knows_part(cause: Cause, part: &str) -> bool {
    match cause.family() {
        Family::Lookup => parts::of_lookup(part).is_some(),
        _ => parts::of(cause, part).is_some(),
    }
}

/// Returns whether the reason `why`, for which a finding of `cause` is not `other`, can be checked.
pub fn knows_reason(cause: Cause, other: Cause, why: &str) -> bool {
    match cause.family() {
        Family::Lookup => lookups::of(cause, why).is_some(),
        _ => reasons::of(cause, other, why).is_some(),
    }
}

/// Returns whether the fact `name` in sentences of `cause` can be checked.
pub fn knows_value(cause: Cause, name: &str) -> bool {
    values::of(cause, name).is_some()
}

/// Returns whether a sentence of `words` shows the fact `name`.
fn is_shown(words: &Words, name: &str) -> bool {
    let shows = |template: &str| {
        let mut places = template.split('{').skip(1);
        places.any(|it| it.strip_prefix(name).is_some_and(|rest| rest.starts_with(['}', ':', '|'])))
    };
    let captions = words.evidence.iter().map(|(_, sentence)| sentence);
    let reasons = words.ruled_out.iter().map(|(_, _, sentence)| sentence);
    let fixes = words.fixes.iter().flat_map(|it| [&it.place, &it.change, &it.effect]);
    let sentences = words.headline.iter().chain(&words.message);
    sentences.chain(captions).chain(reasons).chain(fixes).any(|it| shows(it))
}

/// A finding with the packets of its connection.
struct Case<'a> {
    finding: &'a Finding,
    packets: &'a Packets,
    phrases: Phrases,
    /// The connection of the evidence; empty if the evidence is not on a TCP connection.
    flow: Flow,
}

/// The frames of the evidence that matter to reasons: where the silence began, its ACK, and its
/// end, as places in the connection.
struct Chain {
    first: usize,
    ack: Option<usize>,
    end: usize,
}

impl<'a> Case<'a> {
    fn new(finding: &'a Finding, packets: &'a Packets) -> Self {
        let flow = finding.evidence_flow.and_then(|(client, server)| {
            let frames = finding.evidence.iter().rev().map(|it| it.frame);
            frames.filter_map(|frame| packets.flow(client, server, frame)).next()
        });
        let phrases = Phrases::of(finding, Language::English);
        Self { finding, packets, phrases, flow: flow.unwrap_or_default() }
    }

    /// Returns each claim of the finding with its answer.
    fn claims(&self, report: &Report) -> Vec<(String, Answer)> {
        let finding = self.finding;
        let mut claims = Vec::new();
        for (at, link) in finding.evidence.iter().enumerate() {
            let words = self.caption(at);
            let claim = format!("evidence #{} ({}): {words}", link.frame.number(), link.part);
            claims.push((claim, self.plain(at).and_then(|()| self.part(at))));
        }
        let words = findings::words(finding.cause, Language::English);
        for (said, (other, text)) in finding
            .ruled_out
            .iter()
            .filter(|it| words.why_not(it.cause, it.why).is_some())
            .zip(&self.phrases.ruled_out)
        {
            let answer = self.reason(said.cause, said.why);
            claims.push((format!("not {}: {text}", other.id()), answer));
        }
        for (name, fact) in finding.facts.iter().filter(|(name, _)| is_shown(&words, name)) {
            let answer = match values::of(finding.cause, name) {
                Some(checker) => checker(self, name, fact),
                None => Err(Doubt::False("no checker knows this value".into())),
            };
            claims.push((format!("value {name}={fact:?}"), answer));
        }
        claims.extend(sums::finding(report, finding, self.packets));
        claims.push(("the prediction is not below the round trip".into(), self.needs_path()));
        claims
    }

    /// Without its cause the exchange of the evidence still takes the round trip of its path, unless
    /// the cause is a longer path. The least round trip of the connection is that of the handshake,
    /// or less if later packets were faster.
    fn needs_path(&self) -> Answer {
        let finding = self.finding;
        let cause = finding.cause;
        let is_exchange = finding.evidence_exchange > 0 && !self.is_lookup();
        if !is_exchange || cause.class() != Class::Fault || cause.makes_exchanges_fail() {
            return undecided("no exchange that was answered is shown");
        }
        if cause == Cause::Bufferbloat {
            return undecided("the round trip was longer because of it");
        }
        self.is_whole()?;
        let Some(handshake_ns) = self.flow.handshake_ns() else {
            return undecided("the handshake was not captured, or was repeated");
        };
        let legs = self.flow.leg_ns(Side::Client).zip(self.flow.leg_ns(Side::Server));
        let rtt_ns = legs.map_or(handshake_ns, |(one, other)| handshake_ns.min(one + other));
        let most_ns = finding.counterfactual.most.max_ns;
        let what = format!("at most {most_ns} ns, and the round trip takes {rtt_ns}");
        holds(most_ns >= rtt_ns - rtt_ns / 8, what)
    }

    fn part(&self, at: usize) -> Answer {
        let Some(link) = self.finding.evidence.get(at) else { return Ok(()) };
        if findings::words(self.finding.cause, Language::English).part(link.part).is_none() {
            return Err(Doubt::False(format!("`{}` has no words", link.part)));
        }
        let unknown = || Err(Doubt::False(format!("no checker knows the part `{}`", link.part)));
        if let Some(message) = self.packets.datagram(link.frame) {
            return match parts::of_lookup(link.part) {
                Some(checker) => checker(self, message, at),
                None => unknown(),
            };
        }
        if self.packets.fragments.contains(&link.frame) {
            return undecided("fragments are not put together");
        }
        if self.packets.icmp.contains(&link.frame) {
            return holds(link.part == "icmp", "is an ICMP error");
        }
        if self.is_lookup() {
            return undecided("a message in a stream");
        }
        self.is_whole()?;
        let Some(checker) = parts::of(self.finding.cause, link.part) else { return unknown() };
        let Some(index) = self.flow.index(link.frame) else {
            // Another attempt, of another port or of before.
            let others = [
                "continuations",
                "first_syn",
                "syn",
                "syn_again",
                "syn_last",
                "syn_ack",
                "syn_ack_again",
                "victim",
            ];
            let elsewhere = others.contains(&link.part) || link.part == "went_on";
            return match elsewhere {
                true => undecided("a packet of another connection"),
                false => Err(Doubt::False("is not of that connection".into())),
            };
        };
        checker(self, at, index)
    }

    fn reason(&self, other: Cause, why: &str) -> Answer {
        let unknown = || Err(Doubt::False(format!("no checker knows the reason `{why}`")));
        if self.is_lookup() {
            let Some(checker) = lookups::of(self.finding.cause, why) else { return unknown() };
            return checker(self);
        }
        let Some(checker) = reasons::of(self.finding.cause, other, why) else { return unknown() };
        self.is_whole()?;
        let Some(chain) = self.chain() else { return undecided("no packet is named") };
        checker(self, &chain)
    }

    /// Undecided where the packets of the connection are not all known.
    fn is_whole(&self) -> Answer {
        let Some((client, server)) = self.finding.evidence_flow else { return Ok(()) };
        match self.packets.is_cut(client, server) {
            true => undecided("too many packets to keep"),
            false => Ok(()),
        }
    }

    fn chain(&self) -> Option<Chain> {
        let evidence = &self.finding.evidence;
        let known = || evidence.iter().filter_map(|it| self.flow.index(it.frame));
        let ack = evidence.iter().find(|it| it.part == "ack");
        let ack = ack.and_then(|it| self.flow.index(it.frame));
        Some(Chain { first: known().min()?, ack, end: known().max()? })
    }

    /// Returns the attempts to connect to the culprit; `None` if not all are kept.
    fn attempts(&self) -> Option<impl Iterator<Item = &attempts::Attempt> + Clone> {
        self.packets.attempts.to(self.finding.culprit.endpoint)
    }

    fn seg(&self, index: usize) -> Result<&Seg, Doubt> {
        self.flow.segs.get(index).ok_or(Doubt::Undecided("the packet is not in the capture"))
    }

    /// Returns the first evidence frame with one of `parts`, and its place in the connection.
    fn link(&self, parts: &[&str]) -> Option<(usize, &Seg)> {
        let mut links = self.finding.evidence.iter().filter(|it| parts.contains(&it.part));
        let at = links.find_map(|it| self.flow.index(it.frame))?;
        Some((at, self.flow.segs.get(at)?))
    }

    /// Returns the links before `at`, the nearest first.
    fn links_before(&self, at: usize) -> impl Iterator<Item = &Evidence> {
        self.finding.evidence.iter().take(at).rev()
    }

    /// Returns the words of link `at`.
    fn caption(&self, at: usize) -> &str {
        self.phrases.evidence.get(at).map_or("", String::as_str)
    }

    /// Returns the round trip between the capture and `side`, ns: as the frames show it, or, if they
    /// do not, as the finding states it.
    fn leg_ns(&self, side: Side) -> u64 {
        let stated = self.fact_ns("rtt_sender_ns").filter(|_| self.phrases.note.is_some());
        self.flow.leg_ns(side).or(stated).or(self.fact_ns("rtt_ns")).unwrap_or(0)
    }

    /// Returns the time from the first frame of the chain to the last, ns.
    fn silence_ns(&self) -> u64 {
        self.finding.evidence.iter().fold(0, |sum, it| sum.saturating_add(it.after_ns))
    }

    fn fact(&self, name: &str) -> Option<&Fact> {
        self.finding.facts.iter().find(|(of, _)| *of == name).map(|(_, fact)| fact)
    }

    /// Returns a duration among the facts, ns.
    fn fact_ns(&self, name: &str) -> Option<u64> {
        match self.fact(name)? {
            Fact::Ns(ns) => Some(*ns),
            _ => None,
        }
    }

    /// Returns a number among the facts.
    fn fact_number(&self, name: &str) -> Option<i64> {
        match self.fact(name)? {
            Fact::Bytes(number) | Fact::Count(number) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    fn is_lookup(&self) -> bool {
        self.finding.cause.family() == Family::Lookup
    }

    /// Checks the time, the sender and the length of link `at`.
    fn plain(&self, at: usize) -> Answer {
        let evidence = &self.finding.evidence;
        let (Some(link), Some(before)) = (evidence.get(at), evidence.get(at.saturating_sub(1)))
        else {
            return Ok(());
        };
        let times = [link, before].map(|it| self.packets.times.get(&it.frame).copied());
        let [Some(now_ns), Some(then_ns)] = times else {
            return Err(Doubt::False("there is no such frame".into()));
        };
        let after_ns = now_ns.abs_diff(then_ns);
        let what = format!("comes {after_ns} ns after the one before, not {}", link.after_ns);
        holds(link.after_ns == after_ns || self.packets.is_stepped, what)?;
        let Some((client, server)) = self.finding.evidence_flow else { return Ok(()) };
        let (source, len) = if let Some(message) = self.packets.datagram(link.frame) {
            (message.source, i64::from(message.len))
        } else if let Some(seg) =
            self.flow.index(link.frame).and_then(|index| self.flow.segs.get(index))
        {
            (if seg.from == Side::Client { client } else { server }, seg.len)
        } else {
            return Ok(());
        };
        let what = format!("carries {len} bytes, not {}", link.payload_bytes);
        holds(i64::from(link.payload_bytes) == len, what)?;
        // Of a look-up, several name servers may have been asked, from several ports.
        let from_server = source == server || source.port == DNS_PORT && source != client;
        let from = if from_server { Side::Server } else { Side::Client };
        holds(link.from == from, format!("is from the {from:?}"))
    }
}
