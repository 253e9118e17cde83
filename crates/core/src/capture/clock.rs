//! Corrects the times of one capture where the order of its frames shows that the clock was set.
//!
//! The frames in a file are nearly in the order of capture. A time far before that of the preceding
//! frame shows that the clock was set: back at this frame, or forward at a silence shortly before.
//! The time that passed while it was set is unknown and counted as zero; all other durations are as
//! captured.

use super::{FrameEntry, LATEST_NS};

/// Minimum step back that is not explained by a late frame, ns: tcpdump lets the kernel buffer
/// frames for a second, so frames of another processor or interface may come later in the file.
pub(super) const LATE_NS: u64 = 1_000_000_000;

/// Number of frames after a silence in which a step back of the clock is looked for.
pub(super) const AHEAD_FRAMES: usize = 64;

/// Bytes of these frames after which no further one is looked at, so that large frames do not fill
/// memory.
const AHEAD_BYTES: u64 = 1 << 20;

/// The state of the clock of a capture.
#[derive(Default)]
pub(super) struct Clock {
    /// Time of the last frame, as captured and corrected, ns.
    last_ns: Option<[u64; 2]>,
    /// Time by which the clock is behind since it was set back, ns.
    behind_ns: u64,
    /// Time by which the clock is ahead, ns, and the number of the frame at which it is set back.
    ahead: Option<(u64, u64)>,
    /// `true` if the clock was set an odd number of times before the last frame.
    is_set: bool,
    /// First and last corrected time, ns.
    span_ns: Option<(u64, u64)>,
    /// `true` if a time was changed.
    corrects: bool,
}

impl Clock {
    /// Returns the first and last time if they differ from those of the file, ns.
    pub(super) fn span_ns(&self) -> Option<(u64, u64)> {
        self.span_ns.filter(|_| self.corrects)
    }

    /// Takes frames whose clock runs normally; returns `false` if they have to be corrected.
    pub(super) fn runs(&mut self, entries: &[FrameEntry], is_steady: bool) -> bool {
        let runs = is_steady && !self.is_set && self.behind_ns == 0;
        if let ([first, ..], [.., last], true) = (entries, entries, runs) {
            self.note(first.time_ns, first.time_ns);
            self.note(last.time_ns, last.time_ns);
        }
        runs
    }

    /// Returns how many of `entries` are followed by enough frames to determine the silence before
    /// them.
    pub(super) fn settled(&self, entries: &[FrameEntry]) -> usize {
        let unsettled = entries.len() - looked_at(entries.iter().rev());
        let mut before_ns = match unsettled.checked_sub(1) {
            Some(before) => entries.get(before).map(|entry| entry.time_ns),
            None => self.last_ns.map(|[captured_ns, _]| captured_ns),
        };
        let jumps = |entry: &FrameEntry| {
            let before_ns = before_ns.replace(entry.time_ns);
            before_ns.map_or(entry.time_ns == LATEST_NS, |ns| entry.time_ns >= ns + LATE_NS)
        };
        let tail = entries.iter().skip(unsettled);
        tail.clone().position(jumps).map_or(entries.len(), |at| unsettled + at)
    }

    /// Corrects the times of `entries`, of which the first `settled` are final. Appended captures
    /// begin at the frame numbers in `appended`.
    pub(super) fn set_right(
        &mut self,
        entries: &mut [FrameEntry],
        settled: usize,
        appended: &[u64],
    ) {
        for at in 0..settled {
            let Some((entry, behind)) = entries.get_mut(at..).and_then(<[_]>::split_first_mut)
            else {
                return;
            };
            let number = entry.id.number();
            if appended.binary_search(&number).is_ok() {
                (self.last_ns, self.behind_ns, self.ahead) = (None, 0, None);
                self.is_set = false;
            }
            let next = || {
                behind.iter().take_while(|next| appended.binary_search(&next.id.number()).is_err())
            };
            let time_ns = match self.last_ns {
                Some([_, last_ns]) => self.by_order(entry, last_ns, next()),
                // The first frame has an impossible time.
                None if entry.time_ns == LATEST_NS => next().next().unwrap_or(entry).time_ns,
                None => entry.time_ns,
            };
            let captured_ns = std::mem::replace(&mut entry.time_ns, time_ns);
            self.corrects |= time_ns != captured_ns;
            entry.clock_set = self.is_set;
            self.note(captured_ns, time_ns);
        }
    }

    /// Returns the time of a frame that follows one at `last_ns`, ns.
    fn by_order<'a>(
        &mut self,
        entry: &FrameEntry,
        last_ns: u64,
        next: impl Iterator<Item = &'a FrameEntry> + Clone,
    ) -> u64 {
        let captured_ns = entry.time_ns;
        if let Some((ahead_ns, until)) = self.ahead {
            if entry.id.number() < until {
                return (captured_ns + self.behind_ns).saturating_sub(ahead_ns);
            }
            self.ahead = None;
            self.is_set ^= true;
        }
        if self.behind_ns > 0 && captured_ns >= last_ns {
            // The clock was set forward again.
            self.behind_ns = 0;
            self.is_set ^= true;
        }
        let time_ns = captured_ns.saturating_add(self.behind_ns).min(LATEST_NS);
        if time_ns.saturating_add(LATE_NS) <= last_ns {
            self.behind_ns = self.behind_ns.saturating_add(last_ns - time_ns);
            self.is_set ^= true;
            return last_ns;
        }
        let silent_ns = time_ns.saturating_sub(last_ns);
        if silent_ns >= LATE_NS {
            self.ahead = comes_back(entry, next).filter(|(ahead_ns, _)| *ahead_ns <= silent_ns);
            self.is_set ^= self.ahead.is_some();
        }
        time_ns - self.ahead.map_or(0, |(ahead_ns, _)| ahead_ns)
    }

    fn note(&mut self, captured_ns: u64, time_ns: u64) {
        self.last_ns = Some([captured_ns, time_ns]);
        let (first_ns, last_ns) = self.span_ns.unwrap_or((time_ns, time_ns));
        self.span_ns = Some((first_ns.min(time_ns), last_ns.max(time_ns)));
    }
}

/// Returns the number of the first frames of `entries` in which a step back is looked for.
fn looked_at<'a>(entries: impl Iterator<Item = &'a FrameEntry>) -> usize {
    let mut bytes = 0;
    let is_near = |entry: &&FrameEntry| {
        let before = bytes;
        bytes += u64::from(entry.captured_len);
        before < AHEAD_BYTES
    };
    entries.take(AHEAD_FRAMES).take_while(is_near).count()
}

/// Returns how far the clock steps back soon after `entry`, ns, and at which frame.
fn comes_back<'a>(
    entry: &FrameEntry,
    next: impl Iterator<Item = &'a FrameEntry> + Clone,
) -> Option<(u64, u64)> {
    let mut before_ns = entry.time_ns;
    let looked_at = looked_at(next.clone());
    for next in next.take(looked_at) {
        let back_ns = before_ns.saturating_sub(next.time_ns);
        if back_ns >= LATE_NS {
            return Some((back_ns, next.id.number()));
        }
        before_ns = next.time_ns;
    }
    None
}
