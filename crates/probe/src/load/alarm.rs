//! Wakes the event loop at a given time: to the microsecond on Linux, where the loop's own timeout
//! is in whole milliseconds (timerfd_create(2)).

use std::io;
use std::time::Duration;

use mio::{Registry, Token};

/// A timer for which the event loop waits as for a socket.
#[cfg(target_os = "linux")]
pub(super) struct Alarm(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Alarm {
    /// Creates a timer that is not set and whose event has `token`.
    pub fn new(registry: &Registry, token: Token) -> io::Result<Alarm> {
        use mio::{Interest, unix::SourceFd};
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        use std::os::fd::AsRawFd;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Alarm(timer))
    }

    /// Sets the timer. Returns how long the loop may wait for other events.
    pub fn set(&self, after: Duration, most: Duration) -> Duration {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        if after >= most {
            return most;
        }
        let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would disable the timer.
        let wait = after.max(Duration::from_nanos(1));
        let wait = Timespec { tv_sec: wait.as_secs() as _, tv_nsec: wait.subsec_nanos() as _ };
        let time = Itimerspec { it_interval: nothing, it_value: wait };
        match timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &time) {
            Ok(_) => most,
            Err(_) => after,
        }
    }
}

/// On systems without such a timer, the loop's own timeout is used.
#[cfg(not(target_os = "linux"))]
pub(super) struct Alarm;

#[cfg(not(target_os = "linux"))]
impl Alarm {
    pub fn new(_: &Registry, _: Token) -> io::Result<Alarm> {
        Ok(Alarm)
    }

    pub fn set(&self, after: Duration, most: Duration) -> Duration {
        after.min(most)
    }
}
