//! System calls that the standard library lacks; all `unsafe` of the lab is here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Returns whether this process may build namespaces.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Returns the time in nanoseconds since the epoch, on the clock that tcpdump uses for packets.
pub fn realtime_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// Returns nanoseconds on the monotonic clock.
pub fn monotonic_ns() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

fn check(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Moves the calling thread into a network namespace.
///
/// # Errors The kernel refuses, for example without `CAP_SYS_ADMIN`.
pub fn enter_netns(netns: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open for the duration of the call.
    check(unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) })
}

/// Prepares a child between fork and exec: it is killed when this process ends, and blocks no
/// signals.
///
/// # Errors The kernel refuses `prctl`.
pub fn prepare_child() -> io::Result<()> {
    // SAFETY: plain system calls on local data; all are async-signal-safe.
    unsafe {
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))
    }
}

/// Blocks SIGINT, SIGTERM and SIGHUP in this and all later threads; [`wait_for_stop`] receives
/// them.
pub fn block_stop_signals() {
    // SAFETY: the set is local and initialised by sigemptyset.
    unsafe {
        let set = stop_signals();
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// Sleeps until one of the blocked stop signals arrives and returns its number.
pub fn wait_for_stop() -> i32 {
    let mut signal = 0;
    let set = stop_signals();
    // SAFETY: both pointers are to local, initialised data.
    unsafe { libc::sigwait(&set, &mut signal) };
    signal
}

fn stop_signals() -> libc::sigset_t {
    // SAFETY: sigemptyset initialises the zeroed set before it is used.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// Sends `signal` to the process `pid`.
pub fn kill(pid: u32, signal: i32) {
    // SAFETY: kill takes plain integers.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

#[repr(C)]
struct IfReq {
    name: [u8; 16],
    flags: libc::c_short,
    rest: [u8; 22],
}

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const IFF_TUN: libc::c_short = 0x0001;
const IFF_NO_PI: libc::c_short = 0x1000;

/// Creates a TUN device in the calling thread's namespace; reads do not block.
///
/// # Errors `/dev/net/tun` is missing, or the kernel refuses.
pub fn open_tun(name: &str) -> io::Result<OwnedFd> {
    let file: File = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    let mut request = IfReq { name: [0; 16], flags: IFF_TUN | IFF_NO_PI, rest: [0; 22] };
    for (slot, byte) in request.name.iter_mut().take(15).zip(name.bytes()) {
        *slot = byte;
    }
    // SAFETY: `request` has the size and layout of struct ifreq (40 bytes).
    check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as libc::Ioctl, &mut request) })?;
    Ok(file.into())
}

/// Reads one packet; `None` if there is none now.
///
/// # Errors The device no longer exists.
pub fn read_packet(fd: &OwnedFd, buf: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is valid for its whole length.
    let n = unsafe { libc::read(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len()) };
    if n >= 0 {
        return Ok(Some(n as usize));
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) }
}

/// Writes one packet.
///
/// # Errors The device no longer exists or is down.
pub fn write_packet(fd: &OwnedFd, packet: &[u8]) -> io::Result<()> {
    // SAFETY: the buffer is valid for its whole length.
    let n = unsafe { libc::write(fd.as_raw_fd(), packet.as_ptr().cast(), packet.len()) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sleeps until a descriptor is readable or `timeout_ns` is over.
pub fn wait_readable(fds: [&OwnedFd; 2], timeout_ns: u64) {
    let mut polls =
        fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as _,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `polls` and `timeout` live across the call.
    unsafe { libc::ppoll(polls.as_mut_ptr(), 2, &timeout, std::ptr::null()) };
}

/// Sleeps until a descriptor is readable or `timeout_ns` is over; returns whether it is readable.
pub fn wait_one_readable(fd: BorrowedFd<'_>, timeout_ns: u64) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `poll` lives across the call.
    unsafe { libc::poll(&mut poll, 1, (timeout_ns / 1_000_000) as libc::c_int) > 0 }
}

/// Real-time priority of the link emulator, above that of the run ([`take_precedence`]).
pub const RELAY_PRIORITY: i32 = 10;
/// Real-time priority of the thread that measures how late the host is.
pub const CLOCK_PRIORITY: i32 = RELAY_PRIORITY + 1;

/// Requests real-time scheduling and a timer slack of 1 ns for the calling thread. Returns whether
/// real-time scheduling was granted; without it the thread is only less exact.
pub fn become_punctual(priority: i32) -> bool {
    // SAFETY: plain system calls on local data.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
        let mut param = std::mem::zeroed::<libc::sched_param>();
        param.sched_priority = priority;
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) == 0 {
            return true;
        }
        // PRIO_PROCESS with 0 is the calling thread on Linux.
        libc::setpriority(libc::PRIO_PROCESS, 0, -20);
        false
    }
}

/// Gives the calling thread, and all threads and programs that it starts, precedence over the
/// host's other work, which would otherwise add waits that no label names. The kernel leaves a
/// twentieth of the time to other work (`sched_rt_runtime_us`). If this is refused, the run is only
/// noisier.
pub fn take_precedence() {
    // SAFETY: plain system calls on local data.
    unsafe {
        let mut param = std::mem::zeroed::<libc::sched_param>();
        param.sched_priority = 1;
        if libc::sched_setscheduler(0, libc::SCHED_RR, &param) != 0 {
            // PRIO_PROCESS with 0 is the calling thread on Linux.
            libc::setpriority(libc::PRIO_PROCESS, 0, -19);
        }
    }
}

/// Lets the program that `command` will start be scheduled as programs usually are, if before the rest of
/// the machine: quotas and other programs do not concern one with real-time priority, as
/// [`take_precedence`] gives it.
pub fn be_ordinary(command: &mut Command) {
    let work = || {
        // SAFETY: plain system calls on local data; all are async-signal-safe.
        unsafe {
            let param = std::mem::zeroed::<libc::sched_param>();
            check(libc::sched_setscheduler(0, libc::SCHED_OTHER, &param))?;
            check(libc::setpriority(libc::PRIO_PROCESS, 0, -20))
        }
    };
    // SAFETY: `work` makes only async-signal-safe system calls.
    unsafe { command.pre_exec(work) };
}

/// Returns the CPUs that the calling thread may use.
pub fn cpus() -> Vec<usize> {
    // SAFETY: the set is local and initialised; CPU_ISSET reads within it.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

/// Binds the calling thread to one CPU.
///
/// # Errors There is no such CPU.
pub fn stay_on_cpu(cpu: usize) -> io::Result<()> {
    // SAFETY: the set is local and initialised; CPU_SET ignores numbers beyond its size.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(cpu, &mut set);
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set))
    }
}

/// The limits of a sender that the kernel counts (`struct tcp_info`), summed over connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TcpInfo {
    /// Number of connections summed up.
    pub connections: u64,
    /// Time with data in flight or waiting, in microseconds.
    pub tcpi_busy_time_us: u64,
    /// Part of the busy time limited by the receiver's window, in microseconds.
    pub tcpi_rwnd_limited_us: u64,
    /// Part of the busy time limited by the send buffer, in microseconds.
    pub tcpi_sndbuf_limited_us: u64,
    /// Number of segments sent again.
    pub tcpi_total_retrans: u64,
    /// Smallest round trip seen, in microseconds.
    pub tcpi_min_rtt_us: u64,
}

impl TcpInfo {
    /// Returns the values of one connection's `TCP_INFO`.
    pub fn of(info: &tcpwhy_live::tcp_info::TcpInfo) -> Self {
        Self {
            connections: 1,
            tcpi_total_retrans: info.tcpi_total_retrans,
            tcpi_min_rtt_us: info.tcpi_min_rtt_us,
            tcpi_busy_time_us: info.tcpi_busy_time_us,
            tcpi_rwnd_limited_us: info.tcpi_rwnd_limited_us,
            tcpi_sndbuf_limited_us: info.tcpi_sndbuf_limited_us,
        }
    }

    /// Adds the values of another connection.
    pub fn add(&mut self, other: &TcpInfo) {
        let seen = [self.tcpi_min_rtt_us, other.tcpi_min_rtt_us].into_iter().filter(|&v| v > 0);
        self.tcpi_min_rtt_us = seen.min().unwrap_or(0);
        self.connections += other.connections;
        self.tcpi_busy_time_us += other.tcpi_busy_time_us;
        self.tcpi_rwnd_limited_us += other.tcpi_rwnd_limited_us;
        self.tcpi_sndbuf_limited_us += other.tcpi_sndbuf_limited_us;
        self.tcpi_total_retrans += other.tcpi_total_retrans;
    }
}

/// Reads `TCP_INFO` of a socket; fields an older kernel lacks are 0.
pub fn tcp_info(socket: BorrowedFd<'_>) -> TcpInfo {
    let mut bytes = [0u8; 256];
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: the buffer and its length describe the same local array.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if rc < 0 {
        return TcpInfo::default();
    }
    TcpInfo::of(&tcpwhy_live::tcp_info::TcpInfo::parse(&bytes))
}
