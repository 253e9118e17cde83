//! Every number that decides how two vantages are joined, with its unit and its source.

/// Number of windows from which on a drift is distinguished from queues that grow. Source:
/// judgement; a queue that grows lasts for some windows, and a capture of a second has dozens.
pub const DRIFT_WINDOWS: usize = 8;

/// Greatest drift between two clocks, parts per million. Source: kernel, `MAXFREQ` in
/// include/linux/timex.h: each clock is adjusted by at most 500 ppm.
pub const DRIFT_PPM_MAX: f64 = 1_000.0;

/// A drift moves the clocks at least this many times as far as the windows differ from its line.
/// Source: judgement; queues vary as much by chance, and a drift that matters moves the clocks
/// further with time.
pub const DRIFT_CLEAR: f64 = 4.0;

/// A packet that so many later ones have passed does not come any more. Source: judgement; parallel
/// paths reorder within some dozens of packets, and a window has a few thousand.
pub const REORDERING_DEPTH_MAX: u16 = 512;
