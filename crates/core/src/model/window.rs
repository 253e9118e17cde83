//! The part of a capture's time that is told of.

/// From one time up to another, nanoseconds since the epoch; the default is all time.
///
/// What passed before is followed all the same: who is client, round trips, windows and earlier
/// losses are known from there. What counts is every exchange of which a part lies in the window,
/// as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first time in it, ns.
    pub from_ns: u64,
    /// The first time behind it, ns.
    pub until_ns: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self { from_ns: 0, until_ns: u64::MAX }
    }
}

impl Window {
    /// Whether a time is in it.
    #[inline]
    pub fn contains(&self, ns: u64) -> bool {
        self.from_ns <= ns && ns < self.until_ns
    }

    /// Whether a part of what lasted from `start_ns` to `end_ns` is in it.
    #[inline]
    pub fn overlaps(&self, start_ns: u64, end_ns: u64) -> bool {
        self.from_ns <= end_ns.max(start_ns) && start_ns < self.until_ns
    }

    /// Whether it leaves anything out.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_before_or_ends_after_is_in_it_too() {
        let window = Window { from_ns: 10, until_ns: 20 };
        assert!(window.overlaps(5, 10) && window.overlaps(19, 40) && window.overlaps(1, 90));
        assert!(!window.overlaps(5, 9) && !window.overlaps(20, 40));
        assert!(window.contains(10) && !window.contains(20));
        assert!(Window::default().is_all() && Window::default().overlaps(0, 0));
    }
}
