//! Sizes of the offered window that limited senders.

use crate::findings::thresholds::WINDOW_STANDS_MIN;

/// Sizes of the offered window that limited a sender, on the connection with the most such waits.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct WindowLimits {
    /// Number of consecutive waits at one size.
    pub at_level: u32,
    /// Number of consecutive waits at any size, without growth in between.
    pub at_any: u32,
}

impl WindowLimits {
    pub(super) fn add(&mut self, [at_level, at_any]: [u32; 2]) {
        self.merge(&Self { at_level, at_any });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.at_level = self.at_level.max(other.at_level);
        self.at_any = self.at_any.max(other.at_any);
    }

    /// Returns whether mostly one size limited the sender.
    pub fn is_fixed(&self) -> bool {
        self.at_level >= WINDOW_STANDS_MIN && 2 * self.at_level >= self.at_any
    }

    /// Returns whether the window limited the sender often, at whatever size.
    pub fn limits_often(&self) -> bool {
        self.at_any >= WINDOW_STANDS_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_moves_is_not_fixed() {
        let mut stands = WindowLimits::default();
        stands.add([WINDOW_STANDS_MIN, WINDOW_STANDS_MIN]);
        assert!(stands.is_fixed());
        stands.merge(&WindowLimits { at_level: 1, at_any: 3 * WINDOW_STANDS_MIN });
        assert!(!stands.is_fixed() && stands.limits_often());
    }
}
