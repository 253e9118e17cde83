//! The labels and marks of a ladder: facts, which become words in a language.

use crate::findings::term;
use crate::model::units::{bytes_exact, duration, printable};
use crate::model::{Language, LookupMessage, LookupStep, Owner};
use crate::report::phrases::owner_name;
use crate::say;

/// The label of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// Payload and flags of a segment.
    Segment(SegmentLabel),
    /// A query or an answer of a look-up.
    Lookup(LookupMessage),
    /// The role of a frame in the evidence of a finding, in the order of [`Language::ALL`].
    Part(Vec<String>),
}

/// Payload and flags of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentLabel {
    /// Payload, bytes.
    pub bytes: u32,
    /// How its payload differs from new data in order, if it does.
    pub remark: Option<Remark>,
    /// The names of its flags, without ACK.
    pub flags: Vec<&'static str>,
    /// Relative acknowledgment number, as in Wireshark.
    pub ack: u32,
    /// It has a SACK block.
    pub sacks: bool,
    /// It advertises a window of zero.
    pub closed: bool,
}

/// How a payload differs from new data in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// It was sent before.
    Again,
    /// It was sent before, which the capture does not show.
    Filled,
    /// Later data was captured before it.
    Overtaken,
    /// It probes a closed window.
    Probe,
}

/// A mark between segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A look-up begins, which takes so long, ns.
    Lookup(u64),
    /// Nothing was waited for, for so long, ns.
    Idle(u64),
    /// An exchange begins.
    Exchange {
        /// Its number on the connection, from 1.
        number: u64,
        /// The kind of request; empty if it could not be read.
        kind: String,
        /// Its wall time, ns.
        wall_ns: u64,
    },
    /// Steps that are not shown.
    LeftOut {
        /// Number of segments.
        segments: u64,
        /// The time that they take, ns.
        span_ns: u64,
        /// The owners of most of it, with their time, ns.
        owners: Vec<(Owner, u64)>,
    },
}

impl Label {
    /// Returns the words of the label: `238 B`, `ACK 239`, `615 B again`.
    pub fn text(&self, language: Language) -> String {
        match self {
            Self::Segment(segment) => segment.text(language),
            Self::Lookup(message) => {
                let id = match message.step {
                    LookupStep::Query => "lookup_query",
                    LookupStep::Answer => "lookup_answer",
                    LookupStep::Unreachable => "lookup_unreachable",
                };
                let (record, server) = (&message.record, message.server.to_string());
                say!(language, id, record, server)
            }
            Self::Part(texts) => {
                let at = Language::ALL.iter().position(|it| *it == language);
                at.and_then(|at| texts.get(at)).cloned().unwrap_or_default()
            }
        }
    }
}

impl SegmentLabel {
    fn text(&self, language: Language) -> String {
        let mut parts: Vec<String> = Vec::new();
        if self.bytes > 0 {
            let is = |remark| self.remark == Some(remark);
            parts.push(say!(
                language,
                "data",
                bytes = bytes_exact(self.bytes.into()),
                again = is(Remark::Again),
                filled = is(Remark::Filled),
                overtaken = is(Remark::Overtaken),
                probe = is(Remark::Probe),
            ));
        }
        parts.extend(self.flags.iter().map(|name| (*name).to_owned()));
        if parts.is_empty() {
            parts.push(say!(language, "ack", number = u64::from(self.ack), sack = self.sacks));
        }
        if self.closed {
            parts.push(term(language, "window 0").to_owned());
        }
        parts.join(", ")
    }
}

impl Mark {
    /// Returns the words of the mark: `exchange 2: GET /, 3 ms`, `idle for 2 s`.
    pub fn text(&self, language: Language) -> String {
        match self {
            Self::Lookup(ns) => say!(language, "mark_lookup", took = duration(*ns)),
            Self::Idle(ns) => say!(language, "mark_idle", idle = duration(*ns)),
            Self::Exchange { number, kind, wall_ns } => {
                let kind = Some(printable(kind)).filter(|kind| !kind.is_empty());
                let (number, wall) = (number.to_string(), duration(*wall_ns));
                say!(language, "mark_exchange", number, kind, wall)
            }
            Self::LeftOut { segments, span_ns, owners } => {
                let owners = owners.iter().map(|(owner, ns)| {
                    let (owner, time) = (owner_name(*owner, language), duration(*ns));
                    say!(language, "owner_time", owner, time)
                });
                let owners = owners.collect::<Vec<_>>().join(language.glue().comma);
                let owners = Some(owners).filter(|it| !it.is_empty());
                let span = duration(*span_ns);
                say!(language, "mark_left_out", segments = *segments, span, owners)
            }
        }
    }
}
