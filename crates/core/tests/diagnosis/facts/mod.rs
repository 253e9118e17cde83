//! Every caption of an evidence frame and every reason for which a look-alike is ruled out is a fact of
//! the packets that it names. These are read here once more, from the headers alone: nothing of this
//! knows how the analysis came to what it says.

mod look_alikes;
mod lookups;
mod numbers;
mod parts;
mod values;
mod wire;

use crate::diagnosis::diagnose;
use crate::network::capture;
use crate::traces::traces;
use std::path::{Path, PathBuf};
use tcpwhy_core::app::Side;
use tcpwhy_core::findings;
use tcpwhy_core::model::{Evidence, Fact, Finding, RuledOut};
use tcpwhy_core::report::Phrases;
use wire::{DNS_PORT, Flow, Wire};

/// One finding, with the capture that it was made from.
pub struct Case<'a> {
    pub finding: &'a Finding,
    pub wire: &'a Wire,
    pub phrases: Phrases,
}

/// A duration among the values of a finding's words, ns.
pub fn fact_ns(finding: &Finding, name: &str) -> Option<u64> {
    finding.facts.iter().find_map(|(of, fact)| match fact {
        Fact::Ns(ns) if *of == name => Some(*ns),
        _ => None,
    })
}

/// A number among the values of a finding's words.
pub fn fact_number(finding: &Finding, name: &str) -> Option<i64> {
    finding.facts.iter().find_map(|(of, fact)| match fact {
        Fact::Bytes(number) | Fact::Count(number) if *of == name => i64::try_from(*number).ok(),
        _ => None,
    })
}

impl Case<'_> {
    /// The links before `at`, the nearest first.
    pub fn links_before(&self, at: usize) -> impl Iterator<Item = &Evidence> {
        self.finding.evidence[..at].iter().rev()
    }

    /// Returns the caption of link `at`.
    pub fn caption(&self, at: usize) -> &str {
        self.phrases.evidence.get(at).map_or("", String::as_str)
    }

    /// Round trip between the capture and `side`, ns: as the frames show it, or, if they do not, as
    /// it is stated beside the chain.
    pub fn leg_ns(&self, flow: &Flow, side: Side) -> u64 {
        let said = fact_ns(self.finding, "rtt_sender_ns").filter(|_| self.phrases.note.is_some());
        let rtt_ns = fact_ns(self.finding, "rtt_ns");
        flow.leg_ns(side).or(said).or(rtt_ns).unwrap_or(0)
    }

    /// Returns whether a reason quotes the window.
    pub fn caption_of_window(&self) -> bool {
        self.phrases.ruled_out.iter().any(|(_, why)| why.contains("had room ("))
    }

    /// From the first frame of the chain to the last, ns.
    pub fn silence_ns(&self) -> u64 {
        self.finding.evidence.iter().map(|it| it.after_ns).sum()
    }

    /// The connection of its evidence.
    pub fn flow(&self) -> Option<Flow> {
        let (client, server) = self.finding.evidence_flow?;
        let last = self.finding.evidence.iter().rev();
        last.filter_map(|it| self.wire.flow(client, server, it.frame)).next()
    }

    /// Returns all statements that are untrue.
    fn untrue(&self) -> Vec<String> {
        let flow = self.flow().unwrap_or_default();
        let mut wrong = Vec::new();
        for (at, link) in self.finding.evidence.iter().enumerate() {
            let said = format!("#{} ({})", link.frame.number(), link.part);
            wrong.extend(self.plain(at).into_iter().map(|it| format!("{said} {it}")));
            let words = findings::words(self.finding.cause);
            if words.part(link.part).is_none() {
                wrong.push(format!("{said} has no words"));
            }
            let seen = match self.wire.datagrams.get(&link.frame) {
                Some(datagram) => parts::datagram(self, datagram, at),
                None if self.is_lookup() => Ok(()),
                None => parts::segment(self, &flow, at),
            };
            wrong.extend(seen.err().map(|it| format!("{said} {it}")));
        }
        if !self.is_lookup() && !flow.segs.is_empty() {
            let words = findings::words(self.finding.cause);
            for one in &self.finding.ruled_out {
                if words.why_not(one.cause, one.why).is_none() {
                    continue;
                }
                let answers =
                    [look_alikes::segment, numbers::segment].map(|it| it(self, &flow, one));
                let said = format!("not {} ({})", one.cause.id(), one.why);
                let untrue = answers.into_iter().filter_map(Result::err);
                wrong.extend(untrue.map(|it| format!("{said}: {it}")));
            }
            let values = values::untrue(self, &flow);
            wrong.extend(values);
        } else if self.is_lookup() {
            let words = findings::words(self.finding.cause);
            let said = |one: &&RuledOut| words.why_not(one.cause, one.why).is_some();
            for one in self.finding.ruled_out.iter().filter(said) {
                let answer = lookups::reason(self, one);
                let said = format!("not {} ({})", one.cause.id(), one.why);
                wrong.extend(answer.err().map(|it| format!("{said}: {it}")));
            }
            wrong.extend(values::of_lookups(self));
        }
        wrong
    }

    fn is_lookup(&self) -> bool {
        let id = self.finding.cause.id();
        id.starts_with("dns_") || id == "reverse_dns_timeout"
    }

    /// Checks the time, the sender and the length of a link.
    fn plain(&self, at: usize) -> Vec<String> {
        let evidence = &self.finding.evidence;
        let (link, before) = (&evidence[at], &evidence[at.saturating_sub(1)]);
        let mut wrong = Vec::new();
        let times = [link, before].map(|it| self.wire.times.get(&it.frame).copied());
        let [Some(now_ns), Some(then_ns)] = times else { return vec!["is no frame".into()] };
        let after_ns = now_ns.abs_diff(then_ns);
        if link.after_ns != after_ns && !self.wire.is_stepped {
            wrong.push(format!("comes {after_ns} ns after the one before, not {}", link.after_ns));
        }
        let Some((client, server)) = self.finding.evidence_flow else { return wrong };
        let (source, len) = if let Some(datagram) = self.wire.datagrams.get(&link.frame) {
            (datagram.source, i64::from(datagram.len))
        } else if let Some(flow) = self.wire.flow(client, server, link.frame) {
            let seg = &flow.segs[flow.index(link.frame).unwrap_or(0)];
            (if seg.from == Side::Client { client } else { server }, seg.len)
        } else {
            return wrong;
        };
        if i64::from(link.payload_bytes) != len {
            wrong.push(format!("carries {len} bytes, not {}", link.payload_bytes));
        }
        // Of a look-up, several name servers may have been asked, and from several ports.
        let from_server = source == server || source.port == DNS_PORT && source != client;
        let from = if from_server { Side::Server } else { Side::Client };
        if link.from != from {
            wrong.push(format!("is from the {from:?}"));
        }
        wrong
    }
}

/// Returns the untrue statements of a report on `bytes`.
fn untrue(name: &str, bytes: &[u8]) -> Vec<String> {
    let Some(wire) = Wire::read(name, bytes.to_vec()) else { return Vec::new() };
    let report = diagnose(bytes);
    let mut wrong = Vec::new();
    for finding in &report.findings {
        let case = Case { finding, wire: &wire, phrases: Phrases::of(finding) };
        let cause = finding.cause.id();
        wrong.extend(case.untrue().into_iter().map(|it| format!("{name}: {cause} {it}")));
    }
    wrong
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of captures");
    let mut files: Vec<_> = entries.map(|it| it.expect("an entry").path()).collect();
    files.sort();
    files
}

fn untrue_of(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    untrue(&name, &std::fs::read(path).expect("a capture"))
}

#[test]
fn what_is_said_of_stored_captures_is_so() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let wrong: Vec<_> = files(&folder).iter().flat_map(|path| untrue_of(path)).collect();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_said_of_traces_is_so() {
    let mut wrong = Vec::new();
    for (name, trace) in traces() {
        for &place in &trace.vantages {
            let name = format!("{name} at the {}", place.word());
            wrong.extend(untrue(&name, &capture(&trace, place)));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Captures of others, one path a line in the file that `TCPWHY_CAPTURES` names.
#[test]
fn what_is_said_of_captures_of_others_is_so() {
    let Some(list) = std::env::var_os("TCPWHY_CAPTURES") else { return };
    let list = std::fs::read_to_string(list).expect("a list of paths");
    let wrong: Vec<_> = list.lines().flat_map(|path| untrue_of(Path::new(path))).collect();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
