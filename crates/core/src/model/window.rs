//! The part of a capture's time that a report covers.

/// A time window, nanoseconds since the epoch; the default is all time.
///
/// Packets before it are analysed too: they show which side is the client, round trips, windows and
/// earlier losses. An exchange counts as a whole if any part of it lies in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First time in the window, ns.
    pub from_ns: u64,
    /// First time after the window, ns.
    pub until_ns: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self { from_ns: 0, until_ns: u64::MAX }
    }
}

impl Window {
    /// Returns whether a time is in the window.
    #[inline]
    pub fn contains(&self, ns: u64) -> bool {
        self.from_ns <= ns && ns < self.until_ns
    }

    /// Returns whether the time from `start_ns` to `end_ns` overlaps the window.
    #[inline]
    pub fn overlaps(&self, start_ns: u64, end_ns: u64) -> bool {
        self.from_ns <= end_ns.max(start_ns) && start_ns < self.until_ns
    }

    /// Returns whether the window is all time.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_includes_what_overlaps_its_ends() {
        let window = Window { from_ns: 10, until_ns: 20 };
        assert!(window.overlaps(5, 10) && window.overlaps(19, 40) && window.overlaps(1, 90));
        assert!(!window.overlaps(5, 9) && !window.overlaps(20, 40));
        assert!(window.contains(10) && !window.contains(20));
        assert!(Window::default().is_all() && Window::default().overlaps(0, 0));
    }
}
