//! Every number that decides how two vantages are joined, with its unit and its source.

/// Number of windows from which on a drift is distinguished from queues that grow. Source:
/// judgement.
pub const DRIFT_WINDOWS: usize = 8;

/// Greatest drift between two clocks, parts per million. Source: judgement; crystals differ by
/// less.
pub const DRIFT_PPM_MAX: f64 = 1_000.0;

/// A drift moves the clocks at least this many times as far as the windows differ from its
/// line. Source: judgement.
pub const DRIFT_CLEAR: f64 = 4.0;

/// A packet that so many later ones have passed does not come any more. Source: judgement;
/// reordering is not as deep.
pub const REORDERING_DEPTH_MAX: u16 = 512;
