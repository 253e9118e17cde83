//! One connection or exchange as a flow ladder: client on the left, server on the right, time
//! downwards, gaps marked with their cause and owner.

mod labels;

use super::Phrases;
use super::layout::{Page, columns_of, cut, left, right};
use super::phrases::owner_name;
use super::style::{Look, Paint};
use crate::capture::FrameId;
use crate::findings::term;
use crate::model::{Cause, Class, Evidence, Finding, Language, Owner, units};
use crate::say;
use crate::wire::{Endpoint, Side};
pub use labels::{Label, Mark, Remark, SegmentLabel};

/// Segments and gaps between two endpoints, in time order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ladder {
    /// The endpoint that opened the connection.
    pub client: Endpoint,
    /// The endpoint that accepted the connection.
    pub server: Endpoint,
    /// The steps, in time order.
    pub steps: Vec<LadderStep>,
}

/// One rung of the ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LadderStep {
    /// Time since the ladder's start, ns.
    pub time_ns: u64,
    /// The content of the rung.
    pub step: Step,
}

/// The content of a rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A segment.
    Segment {
        /// The side that sent the segment.
        from: Side,
        /// The frame of the segment.
        frame: FrameId,
        /// Its payload and flags, or its role in the evidence.
        label: Label,
    },
    /// A silence: neither side sent anything.
    Gap {
        /// Length of the silence, ns.
        duration_ns: u64,
        /// The owner of the time.
        owner: Owner,
        /// The cause, if one was found.
        cause: Option<Cause>,
        /// Start and end of the silence, where they differ from the segments between which it is
        /// drawn.
        beyond: Beyond,
    },
    /// A mark between segments.
    Mark(Mark),
}

/// Start and end of a silence that extends beyond the segments between which it is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// Start of a silence that began before the segment above it, ns since the ladder's start.
    pub since_ns: Option<u64>,
    /// The frame that ended the silence, if it comes after the segment below it.
    pub until: Option<FrameId>,
}

/// A frame that evidence names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The frame.
    pub frame: FrameId,
    /// The side that sent it.
    pub from: Side,
    /// Its role in the evidence, for a frame that is not of the drawn connection.
    pub label: Label,
}

const TIME_COLUMNS: usize = 13;
const FRAME_COLUMNS: usize = 9;
const LADDER_COLUMNS_MAX: usize = 64;

/// Shorter times between the frames of look-ups are not drawn as silences, ns.
const LOOKUP_GAP_MIN_NS: u64 = 1_000_000;

impl Ladder {
    /// Creates the ladder of a finding about look-ups, whose evidence belongs to no connection.
    pub fn of_lookup(finding: &Finding) -> Option<Self> {
        // A single frame is not enough for a ladder.
        finding.evidence.get(1)?;
        let (client, server) = finding.evidence_flow?;
        let longest_ns = finding.evidence.iter().map(|evidence| evidence.after_ns).max()?;
        let (mut steps, mut time_ns) = (Vec::new(), 0);
        for (evidence, label) in finding.evidence.iter().zip(evidence_labels(finding)) {
            let Evidence { frame, from, after_ns, .. } = *evidence;
            time_ns += after_ns;
            if after_ns >= LOOKUP_GAP_MIN_NS {
                let cause = (after_ns == longest_ns).then_some(finding.cause);
                let (owner, beyond) = (Owner::Dns, Beyond::default());
                let step = Step::Gap { duration_ns: after_ns, owner, cause, beyond };
                steps.push(LadderStep { time_ns, step });
            }
            steps.push(LadderStep { time_ns, step: Step::Segment { from, frame, label } });
        }
        Some(Self { client, server, steps })
    }

    /// Renders the ladder as text.
    pub fn render(&self, look: &Look) -> String {
        let mut page = Page::new(look);
        let used = TIME_COLUMNS + FRAME_COLUMNS + 5;
        let columns = look.width.saturating_sub(used).clamp(24, LADDER_COLUMNS_MAX);
        let (client, server) = (self.client.to_string(), self.server.to_string());
        let half = columns.saturating_sub(1) / 2;
        let (client, server) = (cut(&client, half.max(16)), cut(&server, half.max(16)));
        let server = right(&server, (columns + 2).saturating_sub(columns_of(&client)));
        let names = look.paint(Paint::Bold, &format!("{client}{server}"));
        let language = look.language;
        let (time, frame) = (term(language, "time"), term(language, "frame"));
        page.line(&format!("{}  {names}  {frame}", right(time, TIME_COLUMNS)));
        for LadderStep { time_ns, step } in &self.steps {
            let rung = match step {
                Step::Segment { from, frame, label } => {
                    let arrow = arrow(
                        *from,
                        &cut(&units::printable(&label.text(language)), columns - 8),
                        columns,
                    );
                    format!("│{arrow}│  #{}", frame.number())
                }
                Step::Gap { duration_ns, owner, cause, beyond } => {
                    gap(look, *duration_ns, (*owner, *cause), *beyond, columns)
                }
                Step::Mark(mark) => {
                    let text = cut(&units::printable(&mark.text(language)), columns - 2);
                    format!("│ {}│", look.paint(Paint::Code, &left(&text, columns - 1)))
                }
            };
            let time = match step {
                // One unit and all digits, so that the times of a column can be compared.
                Step::Segment { .. } => format!("{:.3} ms", *time_ns as f64 / 1e6),
                _ => String::new(),
            };
            page.line(&format!("{}  {rung}", right(&time, TIME_COLUMNS)));
        }
        page.finish()
    }
}

/// Returns the roles of the frames of the evidence of `finding`, in each language.
pub(super) fn evidence_labels(finding: &Finding) -> Vec<Label> {
    let texts = Language::ALL.map(|language| Phrases::of(finding, language).evidence);
    let of_frame = |at: usize| {
        let texts = texts.iter().map(|all| all.get(at).cloned().unwrap_or_default());
        Label::Part(texts.collect())
    };
    (0..finding.evidence.len()).map(of_frame).collect()
}

fn arrow(from: Side, label: &str, columns: usize) -> String {
    let dashes = columns.saturating_sub(columns_of(label) + 3);
    let (short, long) = ("─".repeat(dashes.min(3)), "─".repeat(dashes.saturating_sub(3)));
    match from {
        Side::Client => format!("{short} {label} {long}▶"),
        Side::Server => format!("◀{long} {label} {short}"),
    }
}

/// Formats a gap: `┊ 41.4 ms  nagle_delayed_ack ┊`, in the colour of its class.
fn gap(
    look: &Look,
    ns: u64,
    (owner, cause): (Owner, Option<Cause>),
    beyond: Beyond,
    columns: usize,
) -> String {
    let name = owner_name(owner, look.language);
    let owned = match cause {
        Some(cause) if cause.id() != owner.id() => format!("{name} ({})", cause.id()),
        _ => name,
    };
    let mut text = format!("{}  {owned}", units::duration(ns));
    if let Some(since_ns) = beyond.since_ns {
        let since = format!("{:.3} ms", since_ns as f64 / 1e6);
        text += &say!(look.language, "gap_since", since);
    }
    if let Some(until) = beyond.until {
        text += &say!(look.language, "gap_until", frame = until.number().to_string());
    }
    let text = cut(&text, columns - 2);
    let paint = match cause.map(Cause::class) {
        Some(Class::Fault) => Paint::Fault,
        Some(Class::Cost) => Paint::Cost,
        None => Paint::Dim,
    };
    let spare = columns.saturating_sub(columns_of(&text));
    let (before, after) = (" ".repeat(spare / 2), " ".repeat(spare - spare / 2));
    format!("┊{before}{}{after}┊", look.paint(paint, &text))
}
