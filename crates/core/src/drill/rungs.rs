//! Draws segments and silences as steps of a ladder.

use super::named::Seen;
use super::settled::{self, Silence};
use crate::app::Side;
use crate::capture::FrameId;
use crate::model::{Cause, Ledger, LookupReport, Owner, Slice, Window, units};
use crate::report::{Beyond, LadderStep, Step};
use crate::tcp::{Connection, Exchange, Kind};
use crate::wire::{Endpoint, Segment, SegmentFlags, TcpFlags};
use std::collections::HashMap;
use std::ops::Range;

/// Limits of the shortest silence drawn, which is a hundredth of the whole, ns.
const GAP_MAX_FLOOR_NS: u64 = 1_000_000;
const GAP_MIN_FLOOR_NS: u64 = 30_000;

/// Maximum number of segments examined within one silence.
const PEERS_MAX: usize = 64;

/// The drawn properties of one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rung {
    pub(super) time_ns: u64,
    frame: FrameId,
    from: Side,
    flags: TcpFlags,
    len: u32,
    /// Relative acknowledgment number, as in Wireshark.
    ack: u32,
    closed: bool,
    sacks: bool,
    remark: &'static str,
}

impl Rung {
    /// Creates the rung of `segment`, which `from` sent and `connection` has just processed.
    pub fn of(connection: &Connection, segment: &Segment, from: Side, kind: Option<Kind>) -> Self {
        let base = connection.senders[from.peer() as usize].space.first_number();
        let is_reset = segment.flags.has(TcpFlags::RST);
        Self {
            time_ns: segment.time_ns,
            frame: segment.frame,
            from,
            flags: segment.flags,
            len: segment.payload_len,
            ack: segment.ack.wrapping_sub(base.unwrap_or(segment.ack)),
            closed: segment.window == 0 && segment.flags.has(TcpFlags::ACK) && !is_reset,
            sacks: segment.sack_count > 0 && !segment.facts.has(SegmentFlags::TRUNCATED_HEADER),
            remark: remark(kind),
        }
    }

    fn label(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        let syn = self.flags.has(TcpFlags::SYN);
        let named = [
            (syn && self.flags.has(TcpFlags::ACK), "SYN-ACK"),
            (syn && !self.flags.has(TcpFlags::ACK), "SYN"),
            (self.flags.has(TcpFlags::FIN), "FIN"),
            (self.flags.has(TcpFlags::RST), "RST"),
        ];
        if self.len > 0 {
            parts.push(format!("{} B{}", units::count(self.len.into()), self.remark));
        }
        let named = named.into_iter().filter(|(is_set, _)| *is_set);
        parts.extend(named.map(|(_, name)| name.to_owned()));
        if parts.is_empty() {
            let sack = if self.sacks { ", SACK" } else { "" };
            parts.push(format!("ACK {}{sack}", units::count(self.ack.into())));
        }
        if self.closed {
            parts.push("window 0".into());
        }
        parts.join(", ")
    }
}

/// Returns a remark on a segment with payload; empty for new data.
fn remark(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::Retransmission(_)) => " again",
        Some(Kind::Fill(_)) => " again (first not seen)",
        Some(Kind::Reordered | Kind::Late) => " overtaken",
        Some(Kind::Probe) => " probe",
        Some(Kind::New) | None => "",
    }
}

/// Returns the side that sent `segment`.
pub(super) fn sender(client: Endpoint, segment: &Segment) -> Side {
    let (source, _) = if segment.from_high() {
        (segment.flow.high, segment.flow.low)
    } else {
        (segment.flow.low, segment.flow.high)
    };
    if source == client { Side::Client } else { Side::Server }
}

/// Data of the connection to draw.
pub(super) struct Drawing<'a> {
    pub connection: &'a Connection,
    pub rungs: &'a [Rung],
    /// Exchanges of the connection, in the order in which they began.
    pub exchanges: &'a [Exchange],
    /// Time of the exchanges by owner, as in the report.
    pub ledger: &'a Ledger,
    /// The look-up that the first exchange waited for.
    pub lookup: Option<&'a LookupReport>,
}

/// A slice of a silence. Its start and end are set if they lie beyond the rungs between which it is
/// drawn.
struct Drawn {
    slice: Slice,
    since_ns: Option<u64>,
    until: Option<FrameId>,
}

/// Returns the steps of a look-up, and of the pause until `opened_ns`, when the connection that
/// waited for it was opened.
fn looked_up(lookup: &LookupReport, opened_ns: u64, floor_ns: u64) -> Vec<LadderStep> {
    let took_ns = lookup.end_ns.saturating_sub(lookup.start_ns);
    let mark = Step::Mark(format!("look-up, {}", units::duration(took_ns)));
    let mut steps = vec![LadderStep { time_ns: 0, step: mark }];
    let mut until_ns = lookup.start_ns;
    let mut wait = |steps: &mut Vec<LadderStep>, to_ns: u64, owner| {
        let duration_ns = to_ns.saturating_sub(until_ns);
        until_ns = until_ns.max(to_ns);
        if duration_ns >= floor_ns {
            let (time_ns, beyond) = (to_ns.saturating_sub(lookup.start_ns), Beyond::default());
            let step = Step::Gap { duration_ns, owner, cause: None, beyond };
            steps.push(LadderStep { time_ns, step });
        }
    };
    for message in &lookup.messages {
        wait(&mut steps, message.time_ns, Owner::Dns);
        let time_ns = message.time_ns.saturating_sub(lookup.start_ns);
        let (from, frame, label) = (message.from, message.frame, message.label.clone());
        steps.push(LadderStep { time_ns, step: Step::Segment { from, frame, label } });
    }
    wait(&mut steps, lookup.end_ns, Owner::Dns);
    wait(&mut steps, opened_ns, Owner::Client);
    steps
}

impl Drawing<'_> {
    /// Returns the rungs of an exchange, including the ACK of its last byte.
    pub fn range_of(&self, exchange: &Exchange) -> Range<usize> {
        let at = |frame: FrameId| self.rungs.partition_point(|rung| rung.frame < frame);
        let first = if exchange.connects { 0 } else { at(exchange.first.frame) };
        let last = at(exchange.last.frame);
        let arrived = self.rungs.get(last + 1).is_some_and(|rung| rung.from == Side::Client);
        first..(last + 1 + usize::from(arrived)).min(self.rungs.len())
    }

    /// Returns the rungs in `window`, and those of exchanges that overlap it.
    pub fn in_window(&self, window: &Window) -> Range<usize> {
        let is_shown = |rung: &Rung| window.contains(rung.time_ns);
        let start = self.rungs.iter().position(is_shown).unwrap_or(self.rungs.len());
        let end = self.rungs.iter().rposition(is_shown).map_or(start, |last| last + 1);
        let exchanges = self.exchanges.iter().map(|exchange| self.range_of(exchange));
        exchanges.fold(start..end, |all, one| all.start.min(one.start)..all.end.max(one.end))
    }

    /// Returns `range`, extended to the rungs of named frames.
    pub fn with(&self, range: Range<usize>, named: &Seen) -> Range<usize> {
        let index = |frame| self.rungs.iter().position(|rung| rung.frame == frame);
        let indices = named.frames().filter_map(index);
        indices.fold(range, |all, at| all.start.min(at)..all.end.max(at + 1))
    }

    /// Returns the steps of a range of rungs, and those of named frames that are not of this
    /// connection.
    pub fn steps_with(&self, range: Range<usize>, named: &Seen) -> Vec<LadderStep> {
        let first_ns = self.first_ns(&range);
        let mut steps = self.steps(range);
        let is_drawn = |frame| {
            let of_frame =
                |it: &LadderStep| matches!(it.step, Step::Segment { frame: of, .. } if of == frame);
            steps.iter().any(of_frame)
        };
        let mut others: Vec<_> = named.timed().filter(|(it, _)| !is_drawn(it.frame)).collect();
        others.sort_by_key(|(it, time_ns)| (*time_ns, it.frame));
        others.dedup_by_key(|(it, _)| it.frame);
        let Some(start_ns) = others.iter().map(|(_, time_ns)| first_ns.min(*time_ns)).min() else {
            return steps;
        };
        steps.iter_mut().for_each(|step| step.time_ns += first_ns - start_ns);
        steps.extend(others.into_iter().map(|(it, time_ns)| LadderStep {
            time_ns: time_ns - start_ns,
            step: Step::Segment { from: it.from, frame: it.frame, label: it.label.clone() },
        }));
        steps.sort_by_key(|step| step.time_ns);
        steps
    }

    /// Returns the capture time at which the steps of `range` begin, ns.
    pub fn first_ns(&self, range: &Range<usize>) -> u64 {
        let first_ns = self.rungs.get(range.start).map_or(0, |rung| rung.time_ns);
        let lookup = self.lookup.filter(|_| range.start == 0);
        lookup.map_or(first_ns, |it| it.start_ns.min(first_ns))
    }

    /// Returns the steps of a range of rungs.
    pub fn steps(&self, range: Range<usize>) -> Vec<LadderStep> {
        let (lookup, start_ns) = (self.lookup.filter(|_| range.start == 0), self.first_ns(&range));
        let rungs = self.rungs.get(range).unwrap_or(&[]);
        let (Some(first), Some(last)) = (rungs.first(), rungs.last()) else { return Vec::new() };
        let span_ns = last.time_ns.saturating_sub(start_ns);
        let floor_ns = (span_ns / 100).clamp(GAP_MIN_FLOOR_NS, GAP_MAX_FLOOR_NS);
        let gaps = self.gaps();
        let begins: HashMap<FrameId, usize> =
            self.exchanges.iter().enumerate().map(|(at, it)| (it.first.frame, at)).collect();
        let mut steps = lookup.map_or_else(Vec::new, |it| looked_up(it, first.time_ns, floor_ns));
        for rung in rungs {
            let time_ns = rung.time_ns.saturating_sub(start_ns);
            let mut push = |step| steps.push(LadderStep { time_ns, step });
            if let Some(&index) = begins.get(&rung.frame) {
                self.begin(index, floor_ns, &mut push);
            }
            let drawn = gaps.get(&rung.frame).map_or(&[][..], Vec::as_slice);
            for Drawn { slice, since_ns, until } in
                drawn.iter().filter(|it| it.slice.ns >= floor_ns)
            {
                let Slice { owner, cause, ns } = *slice;
                let since_ns = since_ns.map(|at_ns| at_ns.saturating_sub(start_ns));
                let beyond = Beyond { since_ns, until: *until };
                push(Step::Gap { duration_ns: ns, owner, cause, beyond });
            }
            push(Step::Segment { from: rung.from, frame: rung.frame, label: rung.label() });
        }
        steps
    }

    fn begin(&self, index: usize, floor_ns: u64, push: &mut impl FnMut(Step)) {
        let exchange = &self.exchanges[index];
        if index > 0 && exchange.idle_ns >= floor_ns {
            push(Step::Mark(format!("idle for {}", units::duration(exchange.idle_ns))));
        }
        let kind = if exchange.kind.is_empty() { "request" } else { &*exchange.kind };
        let before_ns = match self.lookup.filter(|_| exchange.connects) {
            Some(lookup) => exchange.start_ns.saturating_sub(lookup.start_ns),
            None => 0,
        };
        let wall = units::duration(exchange.wall_ns() + before_ns);
        push(Step::Mark(format!("exchange {}: {kind}, {wall}", index + 1)));
    }

    /// Returns the silences by the frame before which they are drawn, with the owners from the
    /// ledgers.
    fn gaps(&self) -> HashMap<FrameId, Vec<Drawn>> {
        let mut traced: Vec<_> =
            self.connection.cold.trace().into_iter().flat_map(|trace| &trace.gaps).collect();
        traced.sort_by_key(|gap| gap.next_frame);
        let before = |frame| traced.partition_point(|gap| gap.next_frame < frame);
        let mut silences = Vec::new();
        for (at, exchange) in self.exchanges.iter().enumerate() {
            let next = self.exchanges.get(at + 1).map_or(traced.len(), |it| before(it.first.frame));
            let own = traced.get(before(exchange.first.frame)..next).unwrap_or(&[]);
            // Silences after the end of the exchange delayed nothing.
            let own = own.iter().filter(|gap| gap.next_frame <= exchange.last.frame);
            let from = silences.len();
            silences.extend(own.map(|gap| Silence {
                start_ns: gap.start_ns,
                next_frame: gap.next_frame,
                slices: gap.slices.iter().map(|slice| settled::rename(slice, exchange)).collect(),
            }));
            let ledger = exchange.ledger.ledger();
            settled::settle(&mut silences[from..], &ledger, std::slice::from_ref(exchange));
            let more = self.undrawn(exchange, &silences[from..]);
            silences.extend(more);
        }
        silences.extend(self.rungs.windows(2).filter_map(|pair| self.set_up(&pair[0], &pair[1])));
        if !self.exchanges.is_empty() {
            settled::settle(&mut silences, self.ledger, self.exchanges);
        }
        let mut gaps = HashMap::new();
        silences.iter().for_each(|silence| self.draw(silence, &mut gaps));
        gaps
    }

    /// Returns silences of `exchange` that were not ended by a segment of their sender, or came
    /// before its request. Time that the ledger has and `silences` lack is drawn in the longest
    /// pauses.
    fn undrawn(&self, exchange: &Exchange, silences: &[Silence]) -> Vec<Silence> {
        let lacking = settled::lacking(silences, exchange);
        if lacking.is_empty() {
            return Vec::new();
        }
        let rungs = self.rungs.get(self.range_of(exchange)).unwrap_or(&[]);
        let at_ns = |frame| {
            let index = rungs.partition_point(|rung| rung.frame < frame);
            rungs.get(index).map_or(0, |rung| rung.time_ns)
        };
        let mut spans: Vec<_> =
            silences.iter().map(|it| (it.start_ns, at_ns(it.next_frame))).collect();
        spans.sort_unstable();
        // Latest end of all silences that began before.
        spans.iter_mut().fold(0, |until_ns, it| {
            it.1 = it.1.max(until_ns);
            it.1
        });
        let is_free = |pair: &&[Rung]| {
            if self.set_up(&pair[0], &pair[1]).is_some() {
                return false;
            }
            let begun = spans.partition_point(|&(from_ns, _)| from_ns < pair[1].time_ns);
            spans[..begun].last().is_none_or(|&(_, until_ns)| until_ns <= pair[0].time_ns)
        };
        let length_ns = |pair: &[Rung]| pair[1].time_ns.saturating_sub(pair[0].time_ns);
        let mut pauses: Vec<_> = rungs.windows(2).filter(is_free).collect();
        pauses.sort_by_key(|pair| std::cmp::Reverse(length_ns(pair)));
        let silence = |slice: Slice| {
            // A client's pause ends when the client sends data.
            let has_data = |pair: &[Rung]| pair[1].from == Side::Client && pair[1].len > 0;
            let fits = |pair: &[Rung]| slice.owner != Owner::Client || has_data(pair);
            let at = pauses.iter().position(|pair| fits(pair))?;
            let pair = pauses.remove(at);
            Some(Silence {
                start_ns: pair[0].time_ns,
                next_frame: pair[1].frame,
                slices: vec![Slice { ns: slice.ns.min(length_ns(pair)), ..slice }],
            })
        };
        lacking.into_iter().filter_map(silence).collect()
    }

    /// Draws the slices of a silence, one after the other, at their times. The peer may have sent
    /// segments meanwhile: a slice is drawn in the pause that contains most of it, with a note of
    /// how far it extends beyond that pause.
    fn draw(&self, silence: &Silence, gaps: &mut HashMap<FrameId, Vec<Drawn>>) {
        let last = self.rungs.partition_point(|rung| rung.frame < silence.next_frame);
        let first = last.saturating_sub(PEERS_MAX);
        let within = self.rungs.get(first..=last).unwrap_or(&[]);
        let mut from_ns = silence.start_ns;
        for &slice in &silence.slices {
            let (since_ns, until_ns) = (from_ns, from_ns.saturating_add(slice.ns));
            from_ns = until_ns;
            let common_ns = |pair: &&[Rung]| {
                until_ns.min(pair[1].time_ns).saturating_sub(since_ns.max(pair[0].time_ns))
            };
            let most = within.windows(2).max_by_key(common_ns).filter(|pair| common_ns(pair) > 0);
            let Some([before, after]) = most else {
                let drawn = Drawn { slice, since_ns: None, until: None };
                gaps.entry(silence.next_frame).or_default().push(drawn);
                continue;
            };
            let slack_ns = (slice.ns / 16).clamp(GAP_MIN_FLOOR_NS, GAP_MAX_FLOOR_NS);
            let is_earlier = since_ns.saturating_add(slack_ns) < before.time_ns;
            let is_later = after.time_ns.saturating_add(slack_ns) < until_ns;
            let reached = |rung: &&Rung| rung.time_ns.saturating_add(slack_ns) >= until_ns;
            let until = within.iter().find(reached).filter(|_| is_later).map(|rung| rung.frame);
            let since_ns = is_earlier.then_some(since_ns);
            gaps.entry(after.frame).or_default().push(Drawn { slice, since_ns, until });
        }
    }

    /// Returns the wait before `rung`, if that is a step of the handshake.
    fn set_up(&self, before: &Rung, rung: &Rung) -> Option<Silence> {
        let (start_ns, next_frame) = (before.time_ns, rung.frame);
        let slice = self.of_set_up(rung, rung.time_ns.saturating_sub(start_ns))?;
        Some(Silence { start_ns, next_frame, slices: vec![slice] })
    }

    fn of_set_up(&self, rung: &Rung, ns: u64) -> Option<Slice> {
        let frames = self.connection.setup.frames();
        let is = |sighting: Option<crate::model::Sighting>| {
            sighting.is_some_and(|sighting| sighting.frame == rung.frame)
        };
        if !rung.flags.has(TcpFlags::SYN) {
            return is(frames.ack).then(|| Slice::plain(Owner::Connect, ns));
        }
        if is(frames.syn) || is(frames.syn_ack) {
            return Some(Slice::plain(Owner::Connect, ns));
        }
        let (setup, path) = (&self.connection.setup, &self.connection.path);
        match setup.cause(path) {
            _ if setup.repeated_ns(path) == 0 => Some(Slice::plain(Owner::Connect, ns)),
            Cause::AcceptQueueOverflow => {
                Some(Slice::of(Owner::Connect, Cause::AcceptQueueOverflow, ns))
            }
            cause => Some(Slice::of(Owner::SynRetransmit, cause, ns)),
        }
    }
}
