//! Captures, packets and answers of servers are hostile input. Before it parses their first byte, the
//! process gives up what parsing does not need: all files except the captures (of a measurement, all
//! but those of the system), writing to files that are not open yet, the network (of a measurement,
//! capturing it), other processes and other programs. This bounds the damage of a mistake in a parser.
//!
//! Landlock limits which files can be opened
//! (<https://docs.kernel.org/userspace-api/landlock.html>), seccomp limits the system calls
//! (seccomp(2)). Of the capabilities of root only those for files are kept. All of this also holds for
//! threads that are started later. What cannot be set up is said once, and the work goes on.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::output;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use landlock::PathFd;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use std::collections::BTreeSet;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use std::path::PathBuf;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use std::sync::{Mutex, Once, PoisonError};
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use tcpwhy_live::privileges::Capability;

/// Confines this process to reading `captures`, or the files in them if they are directories, and
/// to writing files that are open. If the kernel lacks Landlock or seccomp, or does not permit
/// their use, that part of the confinement is left out, with a warning.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn confine(captures: &[impl AsRef<Path>]) {
    warn([
        linux::limit_capabilities(&[Capability::DacReadSearch]),
        linux::limit_files(captures, &[]),
        linux::limit_calls(&linux::Rest::default()),
    ]);
}

/// Confines as [`confine`] does, and also permits what completes an output: to name and remove files
/// in `folders`.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn confine_but_finishing(captures: &[impl AsRef<Path>], folders: &[Option<&Path>]) {
    let folders = folders.iter().flatten().filter_map(|it| PathFd::new(it).ok());
    let folders: Vec<PathFd> = folders.collect();
    let named: Vec<_> = folders.iter().map(|it| (it.as_fd(), linux::naming())).collect();
    warn([
        linux::limit_files(captures, &named),
        linux::limit_calls(&linux::Rest { finishes: true, ..linux::Rest::default() }),
    ]);
}

/// Drops the capabilities that outputs do not need, once. A thread keeps those that it began with, so
/// this comes before the first thread.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn keep_file_capabilities() {
    static DONE: Once = Once::new();
    DONE.call_once(|| warn([linux::limit_capabilities(&FINISHING)]));
}

/// Does nothing: no confinement is implemented for this system.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub fn keep_file_capabilities() {}

/// Capabilities with which an output keeps its owner and mode, wherever it is.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
const FINISHING: [Capability; 5] = [
    Capability::Chown,
    Capability::DacOverride,
    Capability::DacReadSearch,
    Capability::Fowner,
    Capability::Fsetid,
];

/// Prints a warning if a part of the confinement could not be set up, once for each reason.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn warn<const PARTS: usize>(parts: [Result<(), String>; PARTS]) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let lacking = parts.into_iter().filter_map(Result::err);
    let lacking: Vec<String> = lacking.filter(|why| said.insert(why.clone())).collect();
    if !lacking.is_empty() {
        output::note(&format!(
            "tcpwhy: warning: what comes from elsewhere is parsed without a part of the sandbox: {}",
            lacking.join("; ")
        ));
    }
}

/// Confines the calling thread, and threads that it starts later, to capturing with the sockets
/// that are open and to writing files in `folder`. Other processes read the state of sockets and the
/// ports of a process; they parse nothing that comes from the network.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn confine_watch(folder: Option<BorrowedFd<'_>>) {
    let writable = folder.map(|folder| (folder, linux::keeping()));
    // Needed to check whether the watched process or interface still exists.
    let writes = folder.is_some();
    warn([
        linux::limit_capabilities(&[]),
        linux::limit_files(&["/proc", "/run/netns"], writable.as_slice()),
        linux::limit_calls(&linux::Rest { watches: true, writes, ..linux::Rest::default() }),
    ]);
}

/// Drops all capabilities; no other confinement is implemented for this system.
#[cfg(all(target_os = "linux", not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub fn confine_watch(_: Option<BorrowedFd<'_>>) {
    if let Err(error) = tcpwhy_live::privileges::keep_only(&[]) {
        crate::output::note(&format!("tcpwhy: warning: packets are parsed with rights: {error}"));
    }
}

/// Confines the calling thread, and threads that it starts later, to measuring: to connections and
/// datagrams, to reading the files of the system that name resolution and TLS need, and to writing
/// files in `folder`. It keeps no capability; what needs one is opened before, or by another process.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn confine_measuring(folder: Option<BorrowedFd<'_>>) {
    let writable = folder.map(|folder| (folder, linux::keeping()));
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].map(std::env::var_os);
    let roots = named.iter().flatten().flat_map(std::env::split_paths);
    let readable: Vec<_> = SYSTEM.iter().map(PathBuf::from).chain(roots).collect();
    let writes = folder.is_some();
    warn([
        linux::limit_capabilities(&[]),
        linux::limit_files_of_a_measurement(&readable, writable.as_slice()),
        linux::limit_calls(&linux::Rest { measures: true, writes, ..linux::Rest::default() }),
    ]);
}

/// Drops all capabilities; no other confinement is implemented for this system.
#[cfg(all(target_os = "linux", not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub fn confine_measuring(folder: Option<BorrowedFd<'_>>) {
    confine_watch(folder);
}

/// Folders of the system, in which the C library finds how names are resolved, the modules that do it
/// (nsswitch.conf(5)), and their caches and sockets; root certificates; the number of CPUs. Those of
/// users are not among them.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
const SYSTEM: [&str; 11] = [
    "/dev/null",
    "/dev/urandom",
    "/etc",
    "/lib",
    "/lib64",
    "/nix/store",
    "/proc",
    "/run",
    "/sys/fs/cgroup",
    "/usr",
    "/var",
];

/// Does nothing: no confinement is implemented for this system.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub fn confine(_: &[impl AsRef<Path>]) {}

/// Does nothing: no confinement is implemented for this system.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub fn confine_but_finishing(_: &[impl AsRef<Path>], _: &[Option<&Path>]) {}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linux {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
        RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    };
    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
        SeccompFilter, SeccompRule,
    };
    use std::collections::BTreeMap;
    use std::os::fd::BorrowedFd;
    use std::path::Path;
    use tcpwhy_live::privileges::{self, Capability};

    /// The newest version of Landlock used here; older kernels apply the part that they support.
    const LANDLOCK: ABI = ABI::V6;

    /// Permissions in addition to reading captures.
    #[derive(Default)]
    pub struct Rest {
        /// Capturing and serving metrics.
        pub watches: bool,
        /// Resolving names, connecting, and loading the C library's modules for that.
        pub measures: bool,
        /// Creating and removing files.
        pub writes: bool,
        /// Naming and removing files, and replacing the contents of an open file.
        pub finishes: bool,
    }

    /// Returns the rights that a ring of files needs.
    pub fn keeping() -> BitFlags<AccessFs> {
        naming() | AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate
    }

    /// Returns the rights that naming and removing files need.
    pub fn naming() -> BitFlags<AccessFs> {
        AccessFs::MakeReg | AccessFs::RemoveFile
    }

    /// Drops the capabilities that are not `kept`.
    ///
    /// # Errors
    /// Why the kernel refuses.
    pub fn limit_capabilities(kept: &[Capability]) -> Result<(), String> {
        privileges::keep_only(kept).map_err(|error| error.to_string())
    }

    /// Limits which files can be opened.
    ///
    /// # Errors
    /// Why Landlock cannot do it.
    pub fn limit_files(
        readable: &[impl AsRef<Path>],
        writable: &[(BorrowedFd<'_>, BitFlags<AccessFs>)],
    ) -> Result<(), String> {
        let no_network = Ruleset::default()
            .handle_access(AccessNet::from_all(LANDLOCK))
            .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK)));
        enforced(no_network.and_then(|rules| restrict(rules, readable, writable)))
    }

    /// Limits which files can be opened, and which processes can get signals, but not the network.
    ///
    /// # Errors
    /// Why Landlock cannot do it.
    pub fn limit_files_of_a_measurement(
        readable: &[impl AsRef<Path>],
        writable: &[(BorrowedFd<'_>, BitFlags<AccessFs>)],
    ) -> Result<(), String> {
        // Modules that resolve names may use abstract sockets.
        let rules = Ruleset::default().scope(Scope::Signal);
        enforced(rules.and_then(|rules| restrict(rules, readable, writable)))
    }

    fn enforced(restricted: Result<RulesetStatus, RulesetError>) -> Result<(), String> {
        match restricted {
            Ok(RulesetStatus::NotEnforced) => Err("this kernel has no Landlock".into()),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("Landlock: {error}")),
        }
    }

    fn restrict(
        rules: Ruleset,
        readable: &[impl AsRef<Path>],
        writable: &[(BorrowedFd<'_>, BitFlags<AccessFs>)],
    ) -> Result<RulesetStatus, RulesetError> {
        let mut rules = rules.handle_access(AccessFs::from_all(LANDLOCK))?.create()?;
        let reading = AccessFs::ReadFile | AccessFs::ReadDir;
        // A path that cannot be opened now (`-`), or a pipe (`<(…)`), needs no rule.
        for file in readable.iter().filter_map(|path| PathFd::new(path).ok()) {
            let _ = rules.as_mut().add_rule(PathBeneath::new(file, reading));
        }
        for (folder, allowed) in writable {
            let _ = rules.as_mut().add_rule(PathBeneath::new(folder, *allowed));
        }
        Ok(rules.restrict_self()?.ruleset)
    }

    /// System calls for reading, computing, threads and a terminal, which every command needs.
    const ALLOWED: &[i64] = &[
        // Files, directories and standard streams.
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_pread64,
        libc::SYS_lseek,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_fadvise64,
        libc::SYS_fcntl,
        libc::SYS_getdents64,
        libc::SYS_close,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pipe2,
        libc::SYS_ppoll,
        // Memory.
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        // Threads.
        libc::SYS_futex,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_membarrier,
        libc::SYS_rseq,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_yield,
        libc::SYS_set_robust_list,
        libc::SYS_exit,
        libc::SYS_exit_group,
        // Signals: Ctrl-C, and termination after a fatal error.
        libc::SYS_restart_syscall,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_tgkill,
        // Time and random numbers.
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_getrandom,
    ];

    /// System calls for sockets that a watch has open, and to check whether a process still exists.
    const WATCHING: &[i64] = &[
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll,
        libc::SYS_getsockopt,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_accept4,
        libc::SYS_shutdown,
        libc::SYS_readlinkat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_readlink,
    ];

    /// System calls for connections and datagrams, and for the modules with which the C library
    /// resolves names. Sockets themselves are limited by their family.
    const MEASURING: &[i64] = &[
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_getsockname,
        libc::SYS_getpeername,
        libc::SYS_getsockopt,
        libc::SYS_setsockopt,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_shutdown,
        libc::SYS_epoll_create1,
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_pwait,
        libc::SYS_eventfd2,
        libc::SYS_timerfd_create,
        libc::SYS_timerfd_settime,
        libc::SYS_pselect6,
        libc::SYS_dup,
        libc::SYS_dup3,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_readlinkat,
        libc::SYS_statfs,
        libc::SYS_fstatfs,
        libc::SYS_getcwd,
        libc::SYS_flock,
        libc::SYS_memfd_create,
        libc::SYS_uname,
        libc::SYS_sysinfo,
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_getgid,
        libc::SYS_getegid,
        libc::SYS_getppid,
        libc::SYS_getrusage,
        libc::SYS_clock_getres,
        libc::SYS_gettimeofday,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_create,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_dup2,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_access,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_stat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_lstat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_readlink,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_time,
    ];

    /// Families of sockets of a measurement: those of the Internet, those of the local services
    /// that resolve names, and netlink, which lists addresses and the process's own sockets.
    const FAMILIES: [libc::c_int; 4] =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

    /// System calls for keeping files.
    const WRITING: &[i64] = &[
        libc::SYS_openat,
        libc::SYS_ftruncate,
        libc::SYS_linkat,
        libc::SYS_renameat,
        libc::SYS_unlinkat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink,
    ];

    /// System calls that name and remove files, and replace the contents of an open file.
    const FINISHING: &[i64] = &[
        libc::SYS_linkat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename,
        libc::SYS_renameat,
        libc::SYS_renameat2,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink,
        libc::SYS_unlinkat,
        libc::SYS_fallocate,
        libc::SYS_ftruncate,
    ];

    /// The significant bits of an argument of type `int`.
    const INT: u64 = u32::MAX as u64;

    /// Limits the system calls.
    ///
    /// # Errors
    /// Why seccomp cannot do it.
    pub fn limit_calls(rest: &Rest) -> Result<(), String> {
        filter(rest).map_err(|error| format!("seccomp: {error}"))
    }

    fn filter(rest: &Rest) -> Result<(), seccompiler::Error> {
        let filter = SeccompFilter::new(
            rules(rest)?,
            // As on a kernel without the call; the C library then uses another call if there is
            // one.
            SeccompAction::Errno(libc::ENOSYS as u32),
            SeccompAction::Allow,
            std::env::consts::ARCH.try_into()?,
        )?;
        let program: BpfProgram = filter.try_into()?;
        match rest.watches || rest.measures {
            true => seccompiler::apply_filter(&program),
            false => seccompiler::apply_filter_all_threads(&program),
        }
    }

    fn rules(rest: &Rest) -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
        let mut rules: BTreeMap<_, _> = ALLOWED.iter().map(|&call| (call, Vec::new())).collect();
        let write = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64;
        let execute = libc::PROT_EXEC as u64;
        let thread = libc::CLONE_THREAD as u64;
        rules.insert(libc::SYS_openat, vec![bits(2, write, 0)?]);
        #[cfg(target_arch = "x86_64")]
        rules.insert(libc::SYS_open, vec![bits(1, write, 0)?]);
        rules.insert(libc::SYS_mmap, vec![bits(2, execute, 0)?]);
        rules.insert(libc::SYS_mprotect, vec![bits(2, execute, 0)?]);
        // Threads may be started, but no processes. The flags of clone3 are in memory that a filter
        // cannot read; if it fails, clone is used.
        rules.insert(libc::SYS_clone, vec![bits(0, thread, thread)?]);
        // Sets the name of a thread.
        rules.insert(libc::SYS_prctl, vec![bits(0, INT, libc::PR_SET_NAME as u64)?]);
        // Reads whether a stream is a terminal, and its width. Writing input to the terminal is not
        // permitted.
        const TCGETS: u64 = 0x5401;
        const TCGETS2: u64 = 0x802c_542a;
        const TIOCGWINSZ: u64 = 0x5413;
        let terminal = [TCGETS, TCGETS2, TIOCGWINSZ];
        let mut asked = terminal.to_vec();
        if rest.watches {
            // Restores the modes of the terminal.
            const TCSETS: u64 = 0x5402;
            const TCSETS2: u64 = 0x402c_542b;
            asked.extend([TCSETS, TCSETS2]);
            // Reads whether an interface exists and is up.
            asked.extend([libc::SIOCGIFINDEX, libc::SIOCGIFFLAGS]);
            rules.extend(WATCHING.iter().map(|&call| (call, Vec::new())));
            // Another filter for the capture socket; the timeout of a client that reads metrics.
            let own = bits(1, INT, libc::SOL_SOCKET as u64)?;
            rules.insert(libc::SYS_setsockopt, vec![own]);
        }
        if rest.measures {
            // Sets a socket non-blocking, and reads how much it has received.
            const FIONBIO: u64 = 0x5421;
            const FIONREAD: u64 = 0x541b;
            asked.extend([FIONBIO, FIONREAD]);
            asked.extend([libc::SIOCGIFINDEX, libc::SIOCGIFNAME, libc::SIOCGIFFLAGS]);
            rules.extend(MEASURING.iter().map(|&call| (call, Vec::new())));
            let family = |&family: &libc::c_int| bits(0, INT, family as u64);
            let families: Result<_, _> = FAMILIES.iter().map(family).collect();
            rules.insert(libc::SYS_socket, families?);
            // Only the limits of this process.
            rules.insert(libc::SYS_prlimit64, vec![bits(0, INT, 0)?]);
            // Modules are code from files.
            let of_file = bits(3, libc::MAP_ANONYMOUS as u64, 0)?;
            rules.insert(libc::SYS_mmap, vec![bits(2, execute, 0)?, of_file]);
        }
        if rest.writes {
            rules.extend(WRITING.iter().map(|&call| (call, Vec::new())));
        }
        if rest.finishes {
            rules.extend(FINISHING.iter().map(|&call| (call, Vec::new())));
        }
        let asked = asked.into_iter().map(|request| bits(1, INT, request));
        rules.insert(libc::SYS_ioctl, asked.collect::<Result<_, _>>()?);
        Ok(rules)
    }

    /// Rule: argument number `index` (from 0) equals `value` in the bits of `mask`.
    fn bits(index: u8, mask: u64, value: u64) -> Result<SeccompRule, BackendError> {
        let equal = SeccompCmpOp::MaskedEq(mask);
        let condition = SeccompCondition::new(index, SeccompCmpArgLen::Qword, equal, value)?;
        SeccompRule::new(vec![condition])
    }
}
