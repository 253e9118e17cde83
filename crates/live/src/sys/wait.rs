//! Waiting for descriptors (poll(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Waits until one of the descriptors can be read, or the time is over. A signal ends it early.
///
/// # Errors
/// The kernel refuses to wait.
pub fn readable(descriptors: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<()> {
    let mut polled: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let length = polled.len() as libc::nfds_t;
    // SAFETY: `polled` has `length` elements, and the descriptors are open during the call.
    let result = unsafe { libc::poll(polled.as_mut_ptr(), length, milliseconds) };
    let error = io::Error::last_os_error();
    if result < 0 && error.kind() != io::ErrorKind::Interrupted {
        return Err(error);
    }
    Ok(())
}
