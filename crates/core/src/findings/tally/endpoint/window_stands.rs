//! Heights at which the offered window stood in the way.

use crate::findings::thresholds::WINDOW_STANDS_MIN;

/// Heights at which the offered window stood in the way, on the connection where it did most.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowStands {
    /// Times in a row that it stood at one height.
    pub at_level: u32,
    /// Times in a row that it stood at any, without having opened meanwhile.
    pub at_any: u32,
}

impl WindowStands {
    pub(super) fn add(&mut self, [at_level, at_any]: [u32; 2]) {
        self.merge(&Self { at_level, at_any });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.at_level = self.at_level.max(other.at_level);
        self.at_any = self.at_any.max(other.at_any);
    }

    /// Returns whether it mostly stood at one height.
    pub fn is_fixed(&self) -> bool {
        self.at_level >= WINDOW_STANDS_MIN && 2 * self.at_level >= self.at_any
    }

    /// Returns whether it stood in the way often, at whatever height.
    pub fn is_often(&self) -> bool {
        self.at_any >= WINDOW_STANDS_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_moves_is_not_fixed() {
        let mut stands = WindowStands::default();
        stands.add([WINDOW_STANDS_MIN, WINDOW_STANDS_MIN]);
        assert!(stands.is_fixed());
        stands.merge(&WindowStands { at_level: 1, at_any: 3 * WINDOW_STANDS_MIN });
        assert!(!stands.is_fixed() && stands.is_often());
    }
}
