//! The summary of each input: counts, times, problems. Updated while the file is read.

use super::clock::LATE_NS;
use super::reader::Chunk;
use super::{FrameId, LATEST_NS, LinkType, Problem, Site};

/// Minimum backward step in time that shows that a clock was set, ns: interfaces and processors of
/// one host differ by less.
pub const STEP_NS: u64 = 1_000_000;

/// Least step of a clock that is worth mentioning, ns: shorter ones are below the delays of hosts.
const STEP_OF_CLOCK_NS: u64 = 1_000_000;

/// Number of times apart that show the step of a clock. Of those that a clock of microseconds measures, one
/// in a thousand is a whole number of milliseconds by chance.
const APART_MIN: u32 = 10;

/// One input of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct InputSummary {
    /// The path as given.
    pub path: String,
    /// Frames read so far.
    pub packets: u64,
    /// Bytes read so far, as stored (before decompression).
    pub bytes: u64,
    /// Earliest frame, nanoseconds since the Unix epoch, by the file's own clock.
    pub first_ns: Option<u64>,
    /// Latest frame, nanoseconds since the Unix epoch.
    pub last_ns: Option<u64>,
    /// The link types of its frames, in order of appearance.
    pub link_types: Vec<LinkType>,
    /// The problems.
    pub problems: Vec<Problem>,
    /// The place and clock of the capture.
    pub site: Site,
}

/// The number of occurrences of an event, and the position of the first.
#[derive(Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) count: u64,
    pub(super) first: u64,
}

impl Counted {
    pub(super) fn note(&mut self, place: u64) {
        if self.count == 0 {
            self.first = place;
        }
        self.count += 1;
    }
}

/// The link types of a file: each look-up takes one step, however many there are.
#[derive(Default)]
struct LinkTypes {
    /// In order of appearance.
    in_order: Vec<LinkType>,
    /// One bit for each, if there is more than one: 8 KiB.
    seen: Option<Box<[u64; 1 << 10]>>,
}

impl LinkTypes {
    fn note(&mut self, link: LinkType) {
        if self.in_order.is_empty() {
            self.in_order.push(link);
            return;
        }
        let first = self.in_order[0];
        let seen = self.seen.get_or_insert_with(|| {
            let mut seen = Box::new([0; 1 << 10]);
            Self::set(&mut seen, first);
            seen
        });
        if Self::set(seen, link) {
            self.in_order.push(link);
        }
    }

    /// Sets the bit of a link type; returns whether it was not set before.
    fn set(seen: &mut [u64; 1 << 10], link: LinkType) -> bool {
        let (word, bit) = (&mut seen[usize::from(link.0 >> 6)], 1 << (link.0 & 63));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Appends link types that `written` lacks; it must have been written by this method only.
    /// Returns their number.
    fn write(&self, written: &mut Vec<LinkType>) -> usize {
        let new = self.in_order.get(written.len()..).unwrap_or_default();
        written.extend_from_slice(new);
        new.len()
    }
}

/// The step of the clock that gave the times: their greatest common divisor.
#[derive(Clone, Copy, Default)]
struct ClockStepSize {
    /// The greatest common divisor so far, ns; 0 before two times differ.
    divisor_ns: u64,
    /// Number of frames at another time than the one before.
    apart: u32,
}

impl ClockStepSize {
    /// Adds the time between two consecutive frames, ns.
    fn note(&mut self, apart_ns: u64) {
        if self.is_fine() || apart_ns == 0 {
            return;
        }
        self.apart = self.apart.saturating_add(1);
        let (mut one, mut other) = (self.divisor_ns, apart_ns);
        while one != 0 {
            (one, other) = (other % one, one);
        }
        self.divisor_ns = other;
    }

    /// Returns whether the clock is known to count in shorter steps than are worth mentioning.
    fn is_fine(self) -> bool {
        (1..STEP_OF_CLOCK_NS).contains(&self.divisor_ns)
    }

    /// Returns the problem if the clock counts in coarse steps.
    fn problem(self) -> Option<Problem> {
        let is_shown = self.divisor_ns >= STEP_OF_CLOCK_NS && self.apart >= APART_MIN;
        is_shown.then_some(Problem::CoarseClock { step_ns: self.divisor_ns })
    }
}

/// Running totals of one file.
#[derive(Default)]
pub(super) struct Tally {
    /// Number of frames of the file so far, which is the number of the last one.
    pub(super) number: u64,
    /// Time of the last frame, nanoseconds.
    pub(super) previous_ns: u64,
    packets: u64,
    span_ns: Option<(u64, u64)>,
    link_types: LinkTypes,
    steps: u64,
    step_largest_ns: u64,
    step_frame: u64,
    step_size: ClockStepSize,
    pub(super) untimed: Counted,
    pub(super) time_range: Counted,
    pub(super) unknown_interface: Counted,
    pub(super) bad_blocks: Counted,
    concatenated: Counted,
    /// Numbers of the first frames of appended captures, which may have another clock.
    pub(super) appended: Vec<u64>,
    /// `true` if a time differs much from that of the preceding frame.
    pub(super) unsteady: bool,
    /// Frames lost by the capturing host, in sections that have ended.
    pub(super) drops: u64,
    #[cfg(test)]
    pub(super) disable_fast_path: bool,
}

/// Consecutive frames on the fast path, with times in ascending order: the state that changes with
/// each frame.
#[derive(Clone, Copy)]
pub(super) struct Run {
    last: FrameId,
    /// Time of the last frame, nanoseconds.
    pub(super) previous_ns: u64,
}

impl Run {
    /// Returns whether a frame at `time_ns` is not before the last, nor long after it.
    #[inline(always)]
    pub(super) fn goes_on(&self, time_ns: u64) -> bool {
        time_ns.wrapping_sub(self.previous_ns) < LATE_NS
    }

    /// Adds the next frame at `time_ns`, which is not before the last; returns its identifier.
    #[inline(always)]
    pub(super) fn next(&mut self, time_ns: u64) -> FrameId {
        self.previous_ns = time_ns;
        self.last = self.last.next();
        self.last
    }
}

impl Tally {
    /// Begins a run of frames in time order, unless no frame has been read or the clock has shown no
    /// short step yet.
    pub(super) fn begin_run(&self, chunk: Chunk<'_>) -> Option<Run> {
        #[cfg(test)]
        if self.disable_fast_path {
            return None;
        }
        if !self.step_size.is_fine() {
            return None;
        }
        let last = chunk.frame(self.number);
        self.span_ns.map(|_| Run { last, previous_ns: self.previous_ns })
    }

    /// Adds the frames of a run.
    pub(super) fn end_run(&mut self, run: Run) {
        let number = run.last.number();
        self.packets += number - self.number;
        (self.number, self.previous_ns) = (number, run.previous_ns);
        if let Some((_, last_ns)) = &mut self.span_ns {
            *last_ns = run.previous_ns.max(*last_ns);
        }
    }

    /// Adds the next frame at `time_ns`; returns its number.
    #[inline]
    pub(super) fn frame(&mut self, time_ns: u64) -> u64 {
        let number = self.untimed_frame();
        self.unsteady |= time_ns.abs_diff(self.previous_ns) >= LATE_NS;
        match &mut self.span_ns {
            Some((first_ns, last_ns)) => {
                self.step_size.note(time_ns.abs_diff(self.previous_ns));
                // A step is relative to the preceding frame, whatever its time.
                *first_ns = time_ns.min(*first_ns);
                *last_ns = time_ns.max(*last_ns);
                self.note_step(number, self.previous_ns.saturating_sub(time_ns));
            }
            None => self.span_ns = Some((time_ns, time_ns)),
        }
        self.previous_ns = time_ns;
        number
    }

    /// Number of times that the clock went back.
    pub(super) fn steps_back(&self) -> u64 {
        self.steps
    }

    /// Returns whether appended captures were found.
    pub(super) fn may_restart(&self) -> bool {
        self.concatenated.count > 0
    }

    /// Records that the clock went back by `step_ns` at a frame.
    #[inline]
    pub(super) fn note_step(&mut self, frame: u64, step_ns: u64) {
        self.steps += u64::from(step_ns >= STEP_NS);
        if step_ns > self.step_largest_ns {
            (self.step_largest_ns, self.step_frame) = (step_ns, frame);
        }
    }

    /// Takes back the step of the clock by `step_ns` at a frame, because the one before or itself is left
    /// out.
    pub(super) fn forget_step(&mut self, frame: u64, step_ns: u64) {
        self.steps -= u64::from(step_ns >= STEP_NS).min(self.steps);
        if self.step_frame == frame {
            self.step_largest_ns = 0;
        }
    }

    /// Returns the time of a next frame with an impossible time: that of the preceding frame. The
    /// first frame is given the latest time, so that the next one sets the clock back and no time
    /// passes in between.
    pub(super) fn impossible_time(&mut self) -> u64 {
        self.time_range.note(self.number + 1);
        if self.number == 0 { LATEST_NS } else { self.previous_ns }
    }

    /// Adds the next frame, which has no time; returns its number.
    pub(super) fn untimed_frame(&mut self) -> u64 {
        self.packets += 1;
        self.number += 1;
        self.number
    }

    /// Records that another capture begins at `offset`.
    pub(super) fn append(&mut self, offset: u64) {
        self.concatenated.note(offset);
        self.restart();
    }

    /// Records that the next frame may have another clock.
    pub(super) fn restart(&mut self) {
        let next = self.number + 1;
        if self.appended.last() != Some(&next) {
            self.appended.push(next);
        }
        self.unsteady = true;
    }

    /// Records that frames of this link type were read.
    #[inline]
    pub(super) fn link(&mut self, link: LinkType) {
        if self.link_types.in_order.last() != Some(&link) {
            self.link_types.note(link);
        }
    }

    /// Returns whether this link type was the last one noted.
    pub(super) fn noted_last(&self, link: LinkType) -> bool {
        self.link_types.in_order.last() == Some(&link)
    }

    /// Writes the totals into the file's summary; `ending` is the reason why reading ended early.
    pub(super) fn write(&self, summary: &mut InputSummary, ending: Option<&Problem>) {
        summary.packets = self.packets;
        summary.first_ns = self.span_ns.map(|(first_ns, _)| first_ns);
        summary.last_ns = self.span_ns.map(|(_, last_ns)| last_ns);
        self.link_types.write(&mut summary.link_types);
        summary.problems.clear();
        summary.problems.extend(ending.cloned());
        summary.problems.extend(self.problems());
    }

    fn problems(&self) -> impl Iterator<Item = Problem> {
        let frames = |counted: Counted, problem: fn(u64, u64) -> Problem| {
            (counted.count > 0).then(|| problem(counted.count, counted.first))
        };
        [
            (self.drops > 0).then_some(Problem::CaptureDrops { frames: self.drops }),
            (self.steps > 0).then_some(Problem::ClockStep {
                steps: self.steps,
                largest_ns: self.step_largest_ns,
                frame: self.step_frame,
            }),
            self.step_size.problem(),
            frames(self.untimed, |frames, first_frame| Problem::Untimed { frames, first_frame }),
            frames(self.time_range, |frames, first_frame| Problem::TimeRange {
                frames,
                first_frame,
            }),
            frames(self.unknown_interface, |frames, first_frame| Problem::UnknownInterface {
                frames,
                first_frame,
            }),
            frames(self.bad_blocks, |blocks, offset| Problem::BadBlocks { blocks, offset }),
            frames(self.concatenated, |captures, offset| Problem::Concatenated {
                captures,
                offset,
            }),
        ]
        .into_iter()
        .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_type_is_noted_and_written_once() {
        let (mut types, mut written, mut copied) = (LinkTypes::default(), Vec::new(), 0);
        for _ in 0..3 {
            for number in (0..=u16::MAX).rev() {
                types.note(LinkType(number));
                if number % 1_000 == 0 {
                    copied += types.write(&mut written);
                }
            }
        }
        assert_eq!(written.len(), 1 << 16);
        assert_eq!(copied, 1 << 16, "blocks cost what is new in them");
        assert!(written.iter().rev().map(|link| link.0).eq(0..=u16::MAX));
    }
}
