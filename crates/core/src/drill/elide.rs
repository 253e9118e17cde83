//! Shortens a long ladder to one or two screens: its beginning, its end, and the surroundings of
//! the longest silences.

use crate::capture::FrameId;
use crate::model::{Ledger, Owner};
use crate::report::{LadderStep, Mark, Step};

/// Limits of what is shown of a ladder.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// Maximum number of steps shown in full.
    steps_max: usize,
    head: usize,
    tail: usize,
    /// Number of silences shown with their surroundings.
    gaps: usize,
}

impl Room {
    /// Limits for one or two screens.
    pub const SCREENS: Room = Room { steps_max: 70, head: 24, tail: 10, gaps: 6 };
    /// Limits for part of a screen.
    pub const SHORT: Room = Room { steps_max: 22, head: 7, tail: 3, gaps: 2 };

    /// Maximum number of steps of a ladder that is shown in full.
    pub const fn steps(&self) -> usize {
        self.steps_max
    }
}

/// Replaces the steps between those that are shown by lines that summarise them. Named frames are
/// shown, with the silence before them.
pub(super) fn elide(
    steps: Vec<LadderStep>,
    room: Room,
    is_named: impl Fn(FrameId) -> bool,
) -> Vec<LadderStep> {
    if steps.len() <= room.steps_max {
        return steps;
    }
    let mut keep = vec![false; steps.len()];
    keep[..room.head].fill(true);
    keep[steps.len() - room.tail..].fill(true);
    let mut gaps: Vec<(u64, usize)> = Vec::new();
    for (index, step) in steps.iter().enumerate().skip(room.head) {
        if let Step::Gap { duration_ns, .. } = step.step {
            gaps.push((duration_ns, index));
        }
    }
    gaps.sort_by_key(|&(ns, index)| (std::cmp::Reverse(ns), index));
    for &(_, index) in gaps.iter().take(room.gaps) {
        keep[index.saturating_sub(2)..(index + 4).min(steps.len())].fill(true);
    }
    for (index, step) in steps.iter().enumerate() {
        if matches!(step.step, Step::Segment { frame, .. } if is_named(frame)) {
            let before = steps[..index].iter().rev();
            let gaps = before.take_while(|it| matches!(it.step, Step::Gap { .. })).count();
            keep[index - gaps..=index].fill(true);
        }
    }
    let (mut shown, mut left_out) = (Vec::new(), LeftOut::default());
    for (step, keep) in steps.into_iter().zip(keep) {
        if keep {
            shown.extend(left_out.take(step.time_ns));
            shown.push(step);
        } else {
            left_out.add(step);
        }
    }
    shown
}

/// Consecutive steps that are left out.
#[derive(Default)]
struct LeftOut {
    steps: Vec<LadderStep>,
    segments: u64,
    ledger: Ledger,
}

impl LeftOut {
    fn add(&mut self, step: LadderStep) {
        match step.step {
            Step::Segment { .. } => self.segments += 1,
            Step::Gap { duration_ns, owner, .. } => self.ledger.add(owner, duration_ns),
            Step::Mark(_) => {}
        }
        self.steps.push(step);
    }

    /// Ends the run at `end_ns`: returns a line that summarises it, or the step itself if there is
    /// only one.
    fn take(&mut self, end_ns: u64) -> Option<LadderStep> {
        let mut run = std::mem::take(self);
        let first_ns = run.steps.first()?.time_ns;
        if run.steps.len() == 1 {
            return run.steps.pop();
        }
        let mut owners: Vec<(Owner, u64)> = run.ledger.iter().collect();
        owners.sort_by_key(|&(owner, ns)| (std::cmp::Reverse(ns), owner));
        owners.truncate(2);
        let (segments, span_ns) = (run.segments, end_ns.saturating_sub(first_ns));
        let mark = Mark::LeftOut { segments, span_ns, owners };
        Some(LadderStep { time_ns: first_ns, step: Step::Mark(mark) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Beyond, Label, SegmentLabel};
    use crate::wire::Side;

    /// Steps of 1,000 segments, with a silence before the 501st.
    fn long() -> Vec<LadderStep> {
        let mut steps = Vec::new();
        for number in 1..=1_000u64 {
            let time_ns = number * 1_000_000 + if number > 500 { 900_000_000 } else { 0 };
            if number == 501 {
                let owner = Owner::ZeroWindow;
                let (cause, beyond) = (None, Beyond::default());
                let step = Step::Gap { duration_ns: 900_000_000, owner, cause, beyond };
                steps.push(LadderStep { time_ns, step });
            }
            let frame = FrameId::new(0, number);
            let label = Label::Segment(SegmentLabel::default());
            let step = Step::Segment { from: Side::Server, frame, label };
            steps.push(LadderStep { time_ns, step });
        }
        steps
    }

    #[test]
    fn named_frames_are_shown_with_the_silence_before_them() {
        let shown = elide(long(), Room { gaps: 0, ..Room::SCREENS }, |it| it.number() == 501);
        let at = shown.iter().position(|it| matches!(it.step, Step::Gap { .. }));
        let next = at.and_then(|at| shown.get(at + 1)).map(|it| &it.step);
        let is_named =
            |step: &&Step| matches!(step, Step::Segment { frame, .. } if frame.number() == 501);
        assert!(next.filter(is_named).is_some(), "{next:?}");
    }

    #[test]
    fn a_long_ladder_keeps_its_ends_and_its_longest_silence() {
        let shown = elide(long(), Room::SCREENS, |_| false);
        assert!(shown.len() < Room::SCREENS.steps_max);
        assert!(shown.iter().any(|step| matches!(step.step, Step::Gap { .. })));
        let marks: Vec<_> =
            shown.iter().filter(|step| matches!(step.step, Step::Mark(_))).collect();
        assert_eq!(marks.len(), 2, "{marks:?}");
        assert_eq!(shown.last().map(|step| step.time_ns), Some(1_900_000_000));
    }
}
