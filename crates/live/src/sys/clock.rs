//! The kernel's clocks (clock_gettime(2)).

/// Returns the offset of `CLOCK_REALTIME` from `CLOCK_MONOTONIC` now, ns. It changes when the clock
/// is set.
pub fn realtime_offset_ns() -> i64 {
    read(libc::CLOCK_REALTIME) - read(libc::CLOCK_MONOTONIC)
}

/// Returns the time of `CLOCK_MONOTONIC`, the clock of the kernel hooks, ns.
pub fn monotonic_ns() -> u64 {
    u64::try_from(read(libc::CLOCK_MONOTONIC)).unwrap_or(0)
}

/// Returns the time of `CLOCK_REALTIME`, the clock of packet timestamps, ns since the Unix epoch.
pub fn realtime_ns() -> u64 {
    u64::try_from(read(libc::CLOCK_REALTIME)).unwrap_or(0)
}

fn read(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local variable that the call fills in; both clocks always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_offset_leads_from_one_clock_to_the_other() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let read = super::read(libc::CLOCK_MONOTONIC) + super::realtime_offset_ns();
        assert!(read.abs_diff(now.as_nanos() as i64) < 1_000_000_000);
    }
}
