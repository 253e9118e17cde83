//! Draws segments and silences as steps of a ladder.

use super::named::NamedFrames;
use crate::capture::FrameId;
use crate::model::{Cause, LookupReport, Owner, Slice, Window};
use crate::report::{Beyond, Label, LadderStep, Mark, Remark, SegmentLabel, Step};
use crate::tcp::{Account, Connection, Exchange, GapPlace, Kind, Part};
use crate::wire::{Endpoint, Segment, SegmentFlags, Side, TcpFlags};
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
    remark: Option<Remark>,
}

impl Rung {
    /// Creates the rung of `segment`, which `from` sent and `connection` has just processed.
    pub fn of(connection: &Connection, segment: &Segment, from: Side, kind: Option<Kind>) -> Self {
        let base = connection.senders[from.peer()].space.first_number();
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

    fn label(&self) -> Label {
        let syn = self.flags.has(TcpFlags::SYN);
        let named = [
            (syn && self.flags.has(TcpFlags::ACK), "SYN-ACK"),
            (syn && !self.flags.has(TcpFlags::ACK), "SYN"),
            (self.flags.has(TcpFlags::FIN), "FIN"),
            (self.flags.has(TcpFlags::RST), "RST"),
        ];
        let named = named.into_iter().filter(|(is_set, _)| *is_set);
        Label::Segment(SegmentLabel {
            bytes: self.len,
            remark: self.remark,
            flags: named.map(|(_, name)| name).collect(),
            ack: self.ack,
            sacks: self.sacks,
            closed: self.closed,
        })
    }
}

/// Returns a remark on a segment with payload; `None` for new data.
fn remark(kind: Option<Kind>) -> Option<Remark> {
    match kind? {
        Kind::Retransmission(_) => Some(Remark::Again),
        Kind::Fill(_) => Some(Remark::Filled),
        Kind::Reordered | Kind::Late => Some(Remark::Overtaken),
        Kind::Probe => Some(Remark::Probe),
        Kind::New => None,
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
    /// The time of each exchange as the report has it.
    pub accounts: &'a [Account],
    /// The look-up that the first exchange waited for.
    pub lookup: Option<&'a LookupReport>,
}

/// A slice of the time of an exchange. Its start and end are set if they lie beyond the rungs between
/// which it is drawn.
struct Drawn {
    slice: Slice,
    /// Index of the exchange.
    exchange: usize,
    start_ns: u64,
    since_ns: Option<u64>,
    until: Option<FrameId>,
}

impl Drawn {
    /// Returns the step of a ladder that begins at `start_ns`.
    fn step(&self, start_ns: u64) -> Step {
        let Slice { owner, cause, ns } = self.slice;
        let since_ns = self.since_ns.map(|at_ns| at_ns.saturating_sub(start_ns));
        let beyond = Beyond { since_ns, until: self.until };
        Step::Gap { duration_ns: ns, owner, cause, beyond }
    }
}

/// Returns the steps of a look-up, and of the pause until `opened_ns`, when its client opened the connection:
/// nobody waits in that.
fn looked_up(lookup: &LookupReport, opened_ns: u64, floor_ns: u64) -> Vec<LadderStep> {
    let took_ns = lookup.end_ns.saturating_sub(lookup.start_ns);
    let mark = Step::Mark(Mark::Lookup(took_ns));
    let mut steps = vec![LadderStep { time_ns: 0, step: mark }];
    let mut until_ns = lookup.start_ns;
    let mut wait = |steps: &mut Vec<LadderStep>, to_ns: u64| {
        let duration_ns = to_ns.saturating_sub(until_ns);
        until_ns = until_ns.max(to_ns);
        if duration_ns >= floor_ns {
            let (time_ns, beyond) = (to_ns.saturating_sub(lookup.start_ns), Beyond::default());
            let step = Step::Gap { duration_ns, owner: Owner::Dns, cause: None, beyond };
            steps.push(LadderStep { time_ns, step });
        }
    };
    for message in &lookup.messages {
        wait(&mut steps, message.time_ns);
        let time_ns = message.time_ns.saturating_sub(lookup.start_ns);
        let (from, frame, label) = (message.from, message.frame, Label::Lookup(message.clone()));
        steps.push(LadderStep { time_ns, step: Step::Segment { from, frame, label } });
    }
    wait(&mut steps, lookup.end_ns);
    let rested_ns = opened_ns.saturating_sub(lookup.end_ns);
    if rested_ns >= floor_ns {
        let time_ns = opened_ns.saturating_sub(lookup.start_ns);
        steps.push(LadderStep { time_ns, step: Step::Mark(Mark::Idle(rested_ns)) });
    }
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
    pub fn with(&self, range: Range<usize>, named: &NamedFrames) -> Range<usize> {
        let index = |frame| self.rungs.iter().position(|rung| rung.frame == frame);
        let indices = named.frames().filter_map(index);
        indices.fold(range, |all, at| all.start.min(at)..all.end.max(at + 1))
    }

    /// Returns the steps of a range of rungs, and those of named frames that are not of this
    /// connection.
    pub fn steps_with(
        &self,
        range: Range<usize>,
        exchange: Option<usize>,
        named: &NamedFrames,
    ) -> Vec<LadderStep> {
        let first_ns = self.first_ns(&range);
        let mut steps = self.steps(range, exchange);
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

    /// Returns the steps of a range of rungs, which is that of `exchange` if one was chosen.
    pub fn steps(&self, range: Range<usize>, exchange: Option<usize>) -> Vec<LadderStep> {
        let (lookup, start_ns) = (self.lookup.filter(|_| range.start == 0), self.first_ns(&range));
        let rungs = self.rungs.get(range.clone()).unwrap_or(&[]);
        let (Some(first), Some(last)) = (rungs.first(), rungs.last()) else { return Vec::new() };
        let span_ns = last.time_ns.saturating_sub(start_ns);
        let floor_ns = (span_ns / 100).clamp(GAP_MIN_FLOOR_NS, GAP_MAX_FLOOR_NS);
        let gaps = self.gaps(&range, exchange);
        let begun = self.exchanges.iter().enumerate().map(|(at, it)| (it.first.frame, at));
        let begins: HashMap<FrameId, usize> =
            begun.filter(|(frame, _)| (first.frame..=last.frame).contains(frame)).collect();
        let mut steps = lookup.map_or_else(Vec::new, |it| looked_up(it, first.time_ns, floor_ns));
        for rung in rungs {
            let time_ns = rung.time_ns.saturating_sub(start_ns);
            let mut push = |step| steps.push(LadderStep { time_ns, step });
            let begins = begins.get(&rung.frame).copied();
            let drawn = gaps.get(&rung.frame).map_or(&[][..], Vec::as_slice);
            let (earlier, own): (Vec<_>, Vec<_>) = drawn
                .iter()
                .filter(|it| it.slice.ns >= floor_ns)
                .partition(|it| begins.is_some_and(|index| it.exchange < index));
            earlier.into_iter().for_each(|it| push(it.step(start_ns)));
            if let Some(index) = begins {
                self.begin(index, floor_ns, &mut push);
            }
            own.into_iter().for_each(|it| push(it.step(start_ns)));
            push(Step::Segment { from: rung.from, frame: rung.frame, label: rung.label() });
        }
        steps
    }

    fn begin(&self, index: usize, floor_ns: u64, push: &mut impl FnMut(Step)) {
        let exchange = &self.exchanges[index];
        if index > 0 && exchange.idle_ns >= floor_ns {
            push(Step::Mark(Mark::Idle(exchange.idle_ns)));
        }
        let before_ns = match self.lookup.filter(|_| exchange.connects) {
            Some(lookup) => exchange.start_ns.min(lookup.end_ns).saturating_sub(lookup.start_ns),
            None => 0,
        };
        let (number, kind) = (index as u64 + 1, exchange.kind.to_string());
        let wall_ns = exchange.wall_ns() + before_ns;
        push(Step::Mark(Mark::Exchange { number, kind, wall_ns }));
    }

    /// Returns whether the exchange with that index may have a part of its time drawn in `range`.
    fn is_near(&self, index: usize, range: &Range<usize>) -> bool {
        let exchange = &self.exchanges[index];
        let before = self.rungs.get(range.start.saturating_sub(PEERS_MAX));
        let behind = self.rungs.get(range.end.saturating_add(PEERS_MAX));
        before.is_none_or(|rung| rung.frame <= exchange.last.frame)
            && (exchange.connects || behind.is_none_or(|rung| exchange.first.frame <= rung.frame))
    }

    /// Returns the silences of `range` by the frame before which they are drawn, with their owners
    /// in the report. A silence of several exchanges is drawn once: as `exchange` has it, or else the
    /// first of them.
    fn gaps(&self, range: &Range<usize>, exchange: Option<usize>) -> HashMap<FrameId, Vec<Drawn>> {
        let accounts = self.accounts;
        let mut gaps = HashMap::new();
        let mut drawn = HashMap::new();
        let others =
            (0..accounts.len()).filter(|at| Some(*at) != exchange && self.is_near(*at, range));
        for at in exchange.into_iter().chain(others) {
            for part in accounts.get(at).map_or(&[][..], Account::parts) {
                if *drawn.entry(part.at.frame).or_insert(at) == at {
                    self.draw(at, part, &mut gaps);
                }
            }
        }
        if accounts.is_empty() {
            let set_up = self.rungs.windows(2).filter_map(|pair| self.set_up(&pair[0], &pair[1]));
            set_up.for_each(|part| self.draw(0, &part, &mut gaps));
        }
        gaps.values_mut().for_each(|all: &mut Vec<Drawn>| all.sort_by_key(|it| it.start_ns));
        gaps
    }

    /// Draws a part of the time of the exchange with index `exchange` where it lies. Segments may have
    /// passed meanwhile: it is drawn in the pause that contains most of it, with a note of how far it
    /// extends beyond that pause. The set-up is drawn step by step.
    fn draw(&self, exchange: usize, part: &Part, gaps: &mut HashMap<FrameId, Vec<Drawn>>) {
        let (start_ns, end_ns) = (part.at.start_ns, part.end_ns());
        let ended = self.rungs.partition_point(|rung| rung.frame < part.at.frame);
        let first = ended.saturating_sub(PEERS_MAX);
        let following = self.rungs.get(ended..).unwrap_or(&[]).iter();
        let more = following.take_while(|rung| rung.time_ns < end_ns).count();
        let within =
            self.rungs.get(first..=ended + more).or(self.rungs.get(first..)).unwrap_or(&[]);
        if matches!(part.slice.owner, Owner::Connect | Owner::SynRetransmit) {
            let is_step = |rung: &&Rung| rung.time_ns > start_ns && rung.time_ns < end_ns;
            if let Some(step) = within.iter().filter(is_step).find(|it| self.is_of_set_up(it)) {
                let [before, after] = part.cut_at(step.time_ns);
                self.draw(exchange, &before, gaps);
                return self.draw(exchange, &after, gaps);
            }
        }
        let common_ns = |pair: &&[Rung]| {
            end_ns.min(pair[1].time_ns).saturating_sub(start_ns.max(pair[0].time_ns))
        };
        let most = within.windows(2).max_by_key(common_ns).filter(|pair| common_ns(pair) > 0);
        // Time before the first frame or after the last one is not drawn.
        let Some([before, after]) = most else { return };
        let slack_ns = (part.slice.ns / 16).clamp(GAP_MIN_FLOOR_NS, GAP_MAX_FLOOR_NS);
        let is_earlier = start_ns.saturating_add(slack_ns) < before.time_ns;
        let is_later = after.time_ns.saturating_add(slack_ns) < end_ns;
        let reached = |rung: &&Rung| rung.time_ns.saturating_add(slack_ns) >= end_ns;
        let until = within.iter().find(reached).filter(|_| is_later).map(|rung| rung.frame);
        if is_later && until.is_none() {
            // The last byte is on its way for longer than frames were captured.
            return;
        }
        let since_ns = is_earlier.then_some(start_ns);
        let drawn = Drawn { slice: part.slice, exchange, start_ns, since_ns, until };
        gaps.entry(after.frame).or_default().push(drawn);
    }

    /// Returns whether `rung` is a step of the handshake.
    fn is_of_set_up(&self, rung: &Rung) -> bool {
        let ack = self.connection.setup.frames().ack;
        rung.flags.has(TcpFlags::SYN) || ack.is_some_and(|ack| ack.frame == rung.frame)
    }

    /// Returns the wait before `rung`, if that is a step of the handshake.
    fn set_up(&self, before: &Rung, rung: &Rung) -> Option<Part> {
        let ns = rung.time_ns.saturating_sub(before.time_ns);
        let slice = self.of_set_up(rung, ns)?;
        Some(Part { at: GapPlace::of_both(before.time_ns, rung.frame), slice })
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
