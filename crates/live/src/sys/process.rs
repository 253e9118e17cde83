//! Operations of a process on itself: capabilities (capabilities(7)), signals, its own CPU time.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// `_LINUX_CAPABILITY_VERSION_3`: two words for each set.
const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Words {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Returns the calling thread's effective capabilities, one bit each.
///
/// # Errors
/// None that is known.
pub fn effective_capabilities() -> io::Result<u64> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut words = [Words::default(); 2];
    // SAFETY: version 3 writes two words of each set, and `words` has room for them.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, words.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from(words[0].effective) | u64::from(words[1].effective) << 32)
}

/// Leaves the calling thread, and threads that it begins from now on, the capabilities in `kept`
/// and no others, and no program that it starts any more than that.
///
/// # Errors
/// It does not have those in `kept`.
pub fn keep_capabilities(kept: u64) -> io::Result<()> {
    // SAFETY: this option of prctl takes plain integers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut header = Header { version: VERSION_3, pid: 0 };
    let words = [kept as u32, (kept >> 32) as u32].map(|kept| Words {
        effective: kept,
        permitted: kept,
        inheritable: 0,
    });
    // SAFETY: version 3 reads two words of each set, and `words` has them.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, words.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `true` once a signal has asked this process to end.
static ENDING: AtomicBool = AtomicBool::new(false);

/// `true` once work has begun that signals must not cut.
static OUTLASTING: AtomicBool = AtomicBool::new(false);

/// Bytes written to standard output if a second signal ends the process at once: they show the
/// cursor and leave the alternate screen (xterm's control sequences).
const RESTORE: &[u8] = b"\x1b[?25h\x1b[?1049l";
/// `true` while the terminal shows the alternate screen.
static ALTERNATE: AtomicBool = AtomicBool::new(false);

extern "C" fn note_signal(signal: libc::c_int) {
    if ENDING.swap(true, Ordering::Relaxed) && !OUTLASTING.load(Ordering::Relaxed) {
        if ALTERNATE.load(Ordering::Relaxed) {
            // SAFETY: write(2) may be called in a handler, and the bytes are static.
            unsafe { libc::write(1, RESTORE.as_ptr().cast(), RESTORE.len()) };
            restore_keys();
        }
        // SAFETY: _exit(2) may be called in a handler.
        unsafe { libc::_exit(128 + signal) };
    }
}

/// Sets the flag at the first SIGINT or SIGTERM; the second ends the process. Blocking system calls
/// are interrupted.
///
/// # Errors
/// None that is known.
pub fn watch_signals() -> io::Result<&'static AtomicBool> {
    watch(&[libc::SIGINT, libc::SIGTERM])
}

/// Watches SIGHUP too: the terminal is closed, or its connection is lost.
///
/// # Errors Not expected.
pub fn watch_signals_and_hangup() -> io::Result<&'static AtomicBool> {
    watch(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
}

/// Makes signals set the flag alone from now on, however many there are, so that the present work is
/// completed. Programs that are started do not inherit it: a handler ends at exec.
pub fn outlast_signals() {
    OUTLASTING.store(true, Ordering::Relaxed);
    for signal in ENDERS {
        // A signal number of the system's own is not refused.
        let _ = handle(signal, libc::SA_RESTART);
    }
}

/// Signals that would end this process and do not tell of a fault in it.
const ENDERS: [libc::c_int; 10] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
];

/// Handles a signal, unless it is a hang-up that `nohup` has this process ignore.
fn handle(signal: libc::c_int, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: all bytes zero are a valid `sigaction`: no flags, no signal blocked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `sigaction`.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } < 0 {
        return Err(io::Error::last_os_error());
    }
    if signal == libc::SIGHUP && action.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    let handler: extern "C" fn(libc::c_int) = note_signal;
    (action.sa_sigaction, action.sa_flags) = (handler as libc::sighandler_t, flags);
    // SAFETY: the handler has the type that is called without SA_SIGINFO, makes calls only that are
    // allowed in one, and is never unloaded.
    if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn watch(signals: &[libc::c_int]) -> io::Result<&'static AtomicBool> {
    for &signal in signals {
        handle(signal, 0)?;
    }
    // Whoever started this process may have blocked them, and a new process inherits that.
    // SAFETY: the set is local, and sigemptyset initialises it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
    Ok(&ENDING)
}

/// Says whether the terminal shows its alternate screen, which a second signal has to leave. Returns
/// whether it was shown before.
pub fn note_alternate_screen(is_shown: bool) -> bool {
    ALTERNATE.swap(is_shown, Ordering::Relaxed)
}

/// The modes of the terminal at standard input before [`silence_keys`].
static MODES: OnceLock<libc::termios> = OnceLock::new();

/// Makes the terminal at standard input pass each key at once and not show it (termios(3)). Ctrl-C
/// stays a signal; the keys that stop or abort a process, which would leave it so, have no effect.
/// Does nothing if standard input is no terminal, or if it controls this process and has it in the
/// background, where a change of the modes would stop it. Returns whether keys can be read.
pub fn silence_keys() -> bool {
    // SAFETY: both calls only read.
    let (foreground, own) = unsafe { (libc::tcgetpgrp(0), libc::getpgrp()) };
    if foreground >= 0 && foreground != own {
        return false;
    }
    // SAFETY: all bytes zero are a valid `termios`.
    let mut modes: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: it writes one `termios`.
    if unsafe { libc::tcgetattr(0, &raw mut modes) } < 0 {
        return false;
    }
    let before = *MODES.get_or_init(|| modes);
    modes = before;
    modes.c_lflag &= !(libc::ECHO | libc::ICANON);
    (modes.c_cc[libc::VMIN], modes.c_cc[libc::VTIME]) = (0, 0);
    for key in [libc::VSUSP, libc::VQUIT] {
        modes.c_cc[key] = libc::_POSIX_VDISABLE;
    }
    // SAFETY: it reads one `termios`.
    unsafe { libc::tcsetattr(0, libc::TCSANOW, &raw const modes) == 0 }
}

/// Restores the modes that [`silence_keys`] changed. It may be called in a signal handler.
pub fn restore_keys() {
    if let Some(modes) = MODES.get() {
        // SAFETY: it reads one `termios`; tcsetattr(3) may be called in a handler.
        unsafe { libc::tcsetattr(0, libc::TCSANOW, std::ptr::from_ref(modes)) };
    }
}

/// Returns whether standard input has something to read, or is closed.
pub fn has_typed_keys() -> bool {
    let mut stdin = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel reads and writes one `pollfd`.
    unsafe { libc::poll(&raw mut stdin, 1, 0) > 0 }
}

/// Returns the CPU time of this process so far: of all threads, user and system.
pub fn cpu_time() -> Duration {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the CPU time of the calling thread so far, user and system.
pub fn thread_cpu_time() -> Duration {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU time of another process so far; zero if it has ended.
pub fn cpu_time_of(pid: u32) -> Duration {
    // The number of a process's clock (`make_process_cpuclock` of linux/posix-timers_types.h): the
    // complement of its id, and CPUCLOCK_SCHED.
    const SCHED: libc::clockid_t = 2;
    time_of(!(pid as libc::clockid_t) << 3 | SCHED)
}

fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Locks a file until it is closed (flock(2)).
///
/// # Errors `WouldBlock` if another process has locked it.
pub fn lock_file(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: flock takes plain integers, and the descriptor is open.
    let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until each program that the kernel was running when this was called has ended
/// (membarrier(2): `MEMBARRIER_CMD_GLOBAL` is a grace period of RCU).
pub fn wait_for_kernel_readers() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: membarrier takes plain integers. It is refused by sandboxes and by kernels with
    // `nohz_full`; then the programs, which run for microseconds, have the time of the call.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
}

/// Returns freed memory to the system, which an allocator normally keeps.
pub fn give_back_memory() {
    // SAFETY: it takes no pointer, and may be called at any time from any thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
