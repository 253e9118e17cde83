//! Every number of the framers that decides a diagnosis, with its unit and its source.

/// Number of possible numbers of HTTP/2 frame headers that are tried where the capture lacks some: one
/// more than the least that frames of the greatest size need, and so on. Source: judgement; fewer miss
/// senders that write in pieces (five in 64 KiB), more lead to the end of a window by chance, unless the
/// window is wider.
pub const MISSING_HEADERS: u64 = 16;

/// Least window of HTTP/2 whose end is looked for behind missing headers, bytes. Source: derived; a stop
/// at any byte meets one of `MISSING_HEADERS` places in a window by a chance of their number by its
/// size, here one in 512, that of a habit (`HABIT_MIN`) with `AT_ONCE_PART`.
pub const UNFRAMED_WINDOW_MIN_BYTES: u64 = MISSING_HEADERS * 512;
