//! Every number that decides how the state of the host is weighed, with its unit and its
//! source.

/// A buffer of more than so many times the greatest flight was not the limit. Source: socket(7):
/// the kernel doubles the size that was asked for, and spends as much again on its own structures
/// when segments are small.
pub const BUFFER_ROOM_FACTOR: u64 = 4;

/// Least time for which data lay unread that is longer than the wake-up of a process, ns. Source:
/// kernel, one tick at `HZ=100`.
pub const UNREAD_MIN_NS: u64 = 10_000_000;

/// How much likelier the observed state is with the cause than without it. Source: derivation; a
/// setting with two states is as a cause needs it in at most half of the sockets without the cause.
pub const LIKELIHOOD_RATIO: f64 = 2.0;

/// Time for which a port stays in TIME-WAIT, seconds; while the list is read, at most a 60th of
/// them becomes free. Source: kernel, `TCP_TIMEWAIT_LEN`.
pub const TIME_WAIT_S: u64 = 60;

/// Time for which the entry of an unanswered UDP query is kept, seconds; within a second, at most a
/// 30th of the entries goes. Source: kernel, `nf_conntrack_udp_timeout`.
pub const UNREPLIED_S: u64 = 30;
