//! A second process with a copy of this one's memory (fork(2)), and its beginning.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use std::{fs, io, thread};

/// How often other threads are looked for, and the time between two looks.
const LOOKS: u32 = 100;
const ENDED_AFTER: Duration = Duration::from_millis(1);

/// Starts a process that does `work` and ends, and returns its number.
///
/// # Errors
/// This process has more than one thread; the kernel has no room.
pub fn start(work: impl FnOnce()) -> io::Result<u32> {
    let threads = || fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    // A thread that has ended is listed for a moment longer.
    let is_single = || threads() == 1 || (thread::sleep(ENDED_AFTER), false).1;
    if !(0..LOOKS).any(|_| is_single()) {
        return Err(io::Error::other("this process has begun other threads"));
    }
    // SAFETY: the process has one thread, so no lock is held in the copy that nobody would release.
    match unsafe { libc::fork() } {
        ..0 => Err(io::Error::last_os_error()),
        0 => {
            let done = catch_unwind(AssertUnwindSafe(work));
            // SAFETY: the process ends here, without what this copy inherited to do at its end.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        pid => Ok(pid as u32),
    }
}

/// Makes this process independent of the terminal and of whoever started it: signals that ask to end
/// do not end it, nothing is read, and of the inherited descriptors only `kept` and standard error, for
/// warnings, stay open.
///
/// # Errors
/// The system has no `/dev/null`, or its descriptors cannot be listed.
pub fn detach(kept: BorrowedFd<'_>) -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: to ignore a signal needs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let names = fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.file_name());
    let open: Vec<libc::c_int> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    for number in open {
        if number == libc::STDERR_FILENO {
            continue;
        }
        if number < libc::STDERR_FILENO {
            // SAFETY: dup2 takes plain integers; the standard streams have no other owner.
            unsafe { libc::dup2(null.as_raw_fd(), number) };
        } else if number != kept.as_raw_fd() && number != null.as_raw_fd() {
            // SAFETY: nothing in this copy of the process uses what it inherited, and it ends
            // without closing it again.
            unsafe { libc::close(number) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_copied() {
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(start(|| ()).is_err()));
        });
    }
}
