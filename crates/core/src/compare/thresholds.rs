//! Every number that decides whether two captures differ, with its unit and its source.

/// Probability with which intervals hold, and with which no difference is claimed where there is
/// none. Source: convention.
pub const CONFIDENCE: f64 = 0.95;
