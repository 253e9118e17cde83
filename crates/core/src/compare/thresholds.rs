//! Every number that decides whether two captures differ, with its unit and its source.

/// Least share of the exchanges of either run that makes it another load. Source: derivation;
/// the 99th percentile, the slowest point that is compared, is then theirs.
pub const LOAD_SHARE_MIN: f64 = 0.01;

/// Probability with which intervals hold, and with which no difference is claimed where there
/// is none. Source: convention.
pub const CONFIDENCE: f64 = 0.95;
