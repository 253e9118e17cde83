//! Segments and silences as steps of a ladder.

use super::settled::{self, Silence};
use crate::app::Side;
use crate::capture::FrameId;
use crate::cause::{Cause, Owner, Slice};
use crate::filter::Window;
use crate::report::{LadderStep, Ledger, Step, units};
use crate::tcp::{Connection, Exchange};
use crate::wire::{Segment, SegmentFlags, TcpFlags};
use std::collections::HashMap;
use std::ops::Range;

/// Silences shorter than this are not drawn, nor those below a hundredth of the whole.
const GAP_MAX_FLOOR_NS: u64 = 1_000_000;
const GAP_MIN_FLOOR_NS: u64 = 30_000;

/// Segments looked at within one silence.
const PEERS_MAX: usize = 64;

/// One segment, reduced to what is drawn of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rung {
    time_ns: u64,
    frame: FrameId,
    from: Side,
    flags: TcpFlags,
    len: u32,
    /// Relative acknowledgment number, as Wireshark shows it.
    ack: u32,
    closed: bool,
    sacks: bool,
    remark: &'static str,
}

impl Rung {
    /// What the `segment` that `from` sent showed, which `connection` has just taken.
    pub fn of(connection: &mut Connection, segment: &Segment, from: Side) -> Self {
        let base = connection.halves[from.peer() as usize].first_number();
        let remark = connection.trace_mut().map_or("", |trace| trace.take_remark());
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
            remark,
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

/// All that is known of the connection.
pub(super) struct Drawing<'a> {
    pub connection: &'a Connection,
    pub rungs: &'a [Rung],
    /// Its exchanges, in the order they began.
    pub exchanges: &'a [Exchange],
    /// Their time by owner, as the report has it.
    pub ledger: &'a Ledger,
}

impl Drawing<'_> {
    /// The rungs of an exchange, with the ACK of its last byte.
    pub fn range_of(&self, exchange: &Exchange) -> Range<usize> {
        let at = |frame: FrameId| self.rungs.partition_point(|rung| rung.frame < frame);
        let first = if exchange.connects { 0 } else { at(exchange.first.frame) };
        let last = at(exchange.last.frame);
        let arrived = self.rungs.get(last + 1).is_some_and(|rung| rung.from == Side::Client);
        first..(last + 1 + usize::from(arrived)).min(self.rungs.len())
    }

    /// The rungs in `window`, and those of exchanges of which a part is.
    pub fn told_of(&self, window: &Window) -> Range<usize> {
        let told = |rung: &Rung| window.contains(rung.time_ns);
        let start = self.rungs.iter().position(told).unwrap_or(self.rungs.len());
        let end = self.rungs.iter().rposition(told).map_or(start, |last| last + 1);
        let exchanges = self.exchanges.iter().map(|exchange| self.range_of(exchange));
        exchanges.fold(start..end, |all, one| all.start.min(one.start)..all.end.max(one.end))
    }

    /// The steps of some rungs.
    pub fn steps(&self, range: Range<usize>) -> Vec<LadderStep> {
        let rungs = self.rungs.get(range).unwrap_or(&[]);
        let (Some(first), Some(last)) = (rungs.first(), rungs.last()) else { return Vec::new() };
        let span_ns = last.time_ns.saturating_sub(first.time_ns);
        let floor_ns = (span_ns / 100).clamp(GAP_MIN_FLOOR_NS, GAP_MAX_FLOOR_NS);
        let gaps = self.gaps();
        let begins: HashMap<FrameId, usize> =
            self.exchanges.iter().enumerate().map(|(at, it)| (it.first.frame, at)).collect();
        let mut steps = Vec::new();
        for rung in rungs {
            let time_ns = rung.time_ns.saturating_sub(first.time_ns);
            let mut push = |step| steps.push(LadderStep { time_ns, step });
            if let Some(&index) = begins.get(&rung.frame) {
                self.begin(index, floor_ns, &mut push);
            }
            let slices = gaps.get(&rung.frame).map_or(&[][..], Vec::as_slice);
            for slice in slices.iter().filter(|slice| slice.ns >= floor_ns) {
                let Slice { owner, cause, ns } = *slice;
                push(Step::Gap { duration_ns: ns, owner, cause });
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
        let wall = units::duration(exchange.wall_ns());
        push(Step::Mark(format!("exchange {}: {kind}, {wall}", index + 1)));
    }

    /// The silences by the frame before which they are drawn, as ledgers have them.
    fn gaps(&self) -> HashMap<FrameId, Vec<Slice>> {
        let mut traced: Vec<_> =
            self.connection.trace().into_iter().flat_map(|trace| &trace.gaps).collect();
        traced.sort_by_key(|gap| gap.next_frame);
        let before = |frame| traced.partition_point(|gap| gap.next_frame < frame);
        let mut silences = Vec::new();
        for (at, exchange) in self.exchanges.iter().enumerate() {
            let next = self.exchanges.get(at + 1).map_or(traced.len(), |it| before(it.first.frame));
            let own = traced.get(before(exchange.first.frame)..next).unwrap_or(&[]);
            // What came after its end kept nobody waiting.
            let own = own.iter().filter(|gap| gap.next_frame <= exchange.last.frame);
            let from = silences.len();
            silences.extend(own.map(|gap| Silence {
                start_ns: gap.start_ns,
                next_frame: gap.next_frame,
                slices: gap.slices.iter().map(|slice| settled::rename(slice, exchange)).collect(),
            }));
            let ledger = exchange.ledger.ledger();
            settled::settle(&mut silences[from..], &ledger, std::slice::from_ref(exchange));
            let more = self.unheard(exchange, &silences[from..]);
            silences.extend(more);
        }
        for silence in &mut silences {
            silence.next_frame = self.longest_pause(silence);
        }
        silences.extend(self.rungs.windows(2).filter_map(|pair| self.set_up(&pair[0], &pair[1])));
        if !self.exchanges.is_empty() {
            settled::settle(&mut silences, self.ledger, self.exchanges);
        }
        let mut gaps: HashMap<_, Vec<_>> = HashMap::new();
        for Silence { next_frame, slices, .. } in silences {
            gaps.entry(next_frame).or_default().extend(slices);
        }
        gaps
    }

    /// Silences of `exchange` that no segment of their sender ended, or that were before its request: what
    /// the ledger has beyond `silences` lies where nobody spoke for the longest time.
    fn unheard(&self, exchange: &Exchange, silences: &[Silence]) -> Vec<Silence> {
        let lacking = settled::lacking(silences, exchange);
        if lacking.is_empty() {
            return Vec::new();
        }
        let rungs = self.rungs.get(self.range_of(exchange)).unwrap_or(&[]);
        let at_ns = |frame| {
            let index = rungs.partition_point(|rung| rung.frame < frame);
            rungs.get(index).map_or(0, |rung| rung.time_ns)
        };
        let mut told: Vec<_> =
            silences.iter().map(|it| (it.start_ns, at_ns(it.next_frame))).collect();
        told.sort_unstable();
        // By when all that began until then was over.
        told.iter_mut().fold(0, |until_ns, it| {
            it.1 = it.1.max(until_ns);
            it.1
        });
        let is_free = |pair: &&[Rung]| {
            let begun = told.partition_point(|&(from_ns, _)| from_ns < pair[1].time_ns);
            told[..begun].last().is_none_or(|&(_, until_ns)| until_ns <= pair[0].time_ns)
        };
        let length_ns = |pair: &[Rung]| pair[1].time_ns.saturating_sub(pair[0].time_ns);
        let mut pauses: Vec<_> = rungs.windows(2).filter(is_free).collect();
        pauses.sort_by_key(|pair| std::cmp::Reverse(length_ns(pair)));
        let silence = |(slice, pair): (Slice, &[Rung])| Silence {
            start_ns: pair[0].time_ns,
            next_frame: pair[1].frame,
            slices: vec![Slice { ns: slice.ns.min(length_ns(pair)), ..slice }],
        };
        lacking.into_iter().zip(pauses).map(silence).collect()
    }

    /// Within a silence of the sender its peer may have spoken: it is drawn where nobody did for
    /// the longest time. Answers the frame that ended that pause.
    fn longest_pause(&self, gap: &Silence) -> FrameId {
        let last = self.rungs.partition_point(|rung| rung.frame < gap.next_frame);
        let first = last.saturating_sub(PEERS_MAX);
        let within = self.rungs.get(first..=last).unwrap_or(&[]).windows(2);
        let pauses = within.filter_map(|pair| match pair {
            [before, after] if before.time_ns >= gap.start_ns => {
                Some((after.time_ns.saturating_sub(before.time_ns), after.frame))
            }
            _ => None,
        });
        pauses.max_by_key(|&(ns, _)| ns).map_or(gap.next_frame, |(_, frame)| frame)
    }

    /// The wait before `rung`, if that is a step of the handshake.
    fn set_up(&self, before: &Rung, rung: &Rung) -> Option<Silence> {
        let (start_ns, next_frame) = (before.time_ns, rung.frame);
        let slice = self.of_set_up(rung, rung.time_ns.saturating_sub(start_ns))?;
        Some(Silence { start_ns, next_frame, slices: vec![slice] })
    }

    fn of_set_up(&self, rung: &Rung, ns: u64) -> Option<Slice> {
        let frames = self.connection.setup.frames();
        let is = |sighting: Option<crate::tcp::Sighting>| {
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
