//! Capabilities of this process (capabilities(7)): which are needed, and dropping the others once
//! the sockets and hooks that need them are open.

use crate::error::LiveError;
use crate::sys::process;

/// A right that the kernel asks for, by its number (linux/capability.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Permits giving files to other users.
    Chown = 0,
    /// Permits writing the files of other users.
    DacOverride = 1,
    /// Permits reading the files of other users.
    DacReadSearch = 2,
    /// Permits changing the modes of other users' files.
    Fowner = 3,
    /// Permits keeping the set-group-ID bit of a file of another group.
    Fsetid = 4,
    /// Permits administration of the network, and reading its packet filter.
    NetAdmin = 12,
    /// Permits capturing packets.
    NetRaw = 13,
    /// Permits inspecting the processes of other users.
    SysPtrace = 19,
    /// Permits entering namespaces.
    SysAdmin = 21,
    /// Permits locking memory beyond the limit, which kernels before 5.11 ask for hooks.
    SysResource = 24,
    /// Permits reading the addresses of the kernel's functions.
    Syslog = 34,
    /// Permits observing the kernel.
    Perfmon = 38,
    /// Permits loading hooks.
    Bpf = 39,
}

impl Capability {
    fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// Drops all capabilities of this thread, and of threads that it starts later, except those in
/// `kept` that it has. Programs that it starts cannot gain any.
///
/// # Errors
/// The kernel refuses.
pub fn keep_only(kept: &[Capability]) -> Result<(), LiveError> {
    let held = process::effective_capabilities().map_err(LiveError::Drop)?;
    let kept = kept.iter().fold(0, |bits, capability| bits | capability.bit());
    process::keep_capabilities(held & kept).map_err(LiveError::Drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_is_gone_for_this_thread_only() {
        let before = process::effective_capabilities().unwrap();
        let inside = std::thread::spawn(|| {
            keep_only(&[Capability::SysPtrace]).unwrap();
            process::effective_capabilities().unwrap()
        });
        assert_eq!(inside.join().unwrap(), before & Capability::SysPtrace.bit());
        assert_eq!(process::effective_capabilities().unwrap(), before);
    }
}
