//! Every number that decides how an experiment is read, with its unit and its source.

/// A window that is no wider after so many round trips is small. Source: kernel,
/// `tcp_rcv_space_adjust` (dynamic right-sizing): the window doubles with each round trip that
/// fills it.
pub const OPENING_TRIPS: u64 = 3;
