//! Packet sockets (packet(7)) and the ring that they share with the kernel (TPACKET_V3,
//! Documentation/networking/packet_mmap.rst).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::descriptor;

/// Offset of the status word in a block's header (`struct tpacket_block_desc`), bytes.
const BLOCK_STATUS: usize = 8;

/// Opens a packet socket without link headers (`SOCK_DGRAM`), which receives no packet until it is
/// bound.
///
/// # Errors
/// `EPERM` without `CAP_NET_RAW`.
pub fn packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes plain integers.
    descriptor(unsafe { libc::socket(libc::AF_PACKET, kind, 0) }.into())
}

/// Makes the socket receive packets of all protocols from interface `index`; 0 means all
/// interfaces.
///
/// # Errors
/// There is no such interface, or it is down.
pub fn bind(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    // SAFETY: all bytes zero are a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a whole `sockaddr_ll`, of which `length` is the size.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets an option whose value is an `int`.
///
/// # Errors
/// The kernel does not know the option, or refuses it.
pub fn set_int(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    set(socket, level, option, &value)
}

/// Sets up a ring of `blocks` blocks of `block_bytes` each; the kernel hands over a block that is
/// full, or `retire_ms` old and not empty.
///
/// # Errors
/// The kernel has not the memory, or no `TPACKET_V3`.
pub fn ring(
    socket: BorrowedFd<'_>,
    (blocks, block_bytes): (u32, u32),
    retire_ms: u32,
) -> io::Result<Ring> {
    const FRAME_BYTES: u32 = 2048;
    set_int(socket, libc::SOL_PACKET, libc::PACKET_VERSION, 2)?;
    let request = libc::tpacket_req3 {
        tp_block_size: block_bytes,
        tp_block_nr: blocks,
        tp_frame_size: FRAME_BYTES,
        tp_frame_nr: block_bytes / FRAME_BYTES * blocks,
        tp_retire_blk_tov: retire_ms,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    let bytes = blocks as usize * block_bytes as usize;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping of the socket's ring, which is `bytes` long; nothing else is at the
    // address that the kernel chooses.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok(Ring { start, blocks: blocks as usize, block_bytes: block_bytes as usize })
}

/// The mapped ring of a packet socket.
#[derive(Debug)]
pub struct Ring {
    start: NonNull<u8>,
    blocks: usize,
    block_bytes: usize,
}

// SAFETY: the mapping belongs to the process, and only `&mut self` reads or writes it.
unsafe impl Send for Ring {}

impl Ring {
    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Shows block `index` to `read` if the kernel has handed it over, and gives it back then.
    /// `None` while it is the kernel's.
    pub fn take<T>(&mut self, index: usize, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        assert!(index < self.blocks, "a block of the ring");
        // SAFETY: `index` is below `blocks`, so that the block lies within the mapping.
        let block = unsafe { self.start.add(index * self.block_bytes) };
        // SAFETY: the status is an aligned `u32` in the block's header, which the kernel and this
        // process both access as one word; the mapping outlives the reference.
        let status = unsafe { AtomicU32::from_ptr(block.add(BLOCK_STATUS).as_ptr().cast()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the block is this process' until the status is written below: the kernel does
        // not write to it, and `&mut self` keeps others away.
        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), self.block_bytes) };
        let answer = read(bytes);
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        Some(answer)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and no slice of it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.blocks * self.block_bytes) };
    }
}

/// Replaces the socket's filter by `program` in one step: each packet passes the old one or the
/// new one.
///
/// # Errors
/// The program is longer than the kernel takes, or jumps wrongly.
pub fn attach_filter(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast_mut(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Returns the number of packets that passed the filter since the last call, and of those lost
/// because the ring was full.
///
/// # Errors Not expected.
pub fn statistics(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    // SAFETY: all bytes zero are a valid `tpacket_stats_v3`.
    let mut stats: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
    // SAFETY: `stats` and `length` describe the same local value.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok((stats.tp_packets, stats.tp_drops))
    }
}

/// Waits until the ring has a block, the socket has an error, or `timeout` is over. A signal ends
/// it too.
///
/// # Errors
/// The socket's own error, as when its interface goes down.
pub fn wait(socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let events = libc::POLLIN | libc::POLLERR;
    let mut polled = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `polled` is one `pollfd`, as the count says.
    let ready = unsafe { libc::poll(&raw mut polled, 1, timeout_ms) };
    if ready > 0 && polled.revents & libc::POLLERR != 0 {
        let error = super::int_option(socket, libc::SOL_SOCKET, libc::SO_ERROR)?;
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    Ok(())
}

/// Returns the index of the interface `name` in the socket's network namespace; `None` if it does
/// not exist.
pub fn interface_index(socket: BorrowedFd<'_>, name: &str) -> Option<u32> {
    let (request, ok) = interface_request(socket, name, libc::SIOCGIFINDEX)?;
    // SAFETY: every member of the union is plain numbers, and all of it was written.
    let index = unsafe { request.ifr_ifru.ifru_ifindex };
    ok.then_some(index as u32)
}

/// Returns whether the interface `name` is up; `None` if there is no such interface.
pub fn interface_is_up(socket: BorrowedFd<'_>, name: &str) -> Option<bool> {
    Some(interface_flags(socket, name)? & libc::IFF_UP != 0)
}

/// Returns whether the interface `name` is a loopback interface.
pub fn interface_is_loopback(socket: BorrowedFd<'_>, name: &str) -> bool {
    interface_flags(socket, name).is_some_and(|flags| flags & libc::IFF_LOOPBACK != 0)
}

/// Returns the kind of hardware (`ARPHRD_`) of the interface `name`; `None` if it does not exist.
pub fn interface_hardware(socket: BorrowedFd<'_>, name: &str) -> Option<u16> {
    let (request, ok) = interface_request(socket, name, libc::SIOCGIFHWADDR)?;
    // SAFETY: every member of the union is plain numbers, and all of it was written.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    ok.then_some(address.sa_family)
}

fn interface_flags(socket: BorrowedFd<'_>, name: &str) -> Option<i32> {
    let (request, ok) = interface_request(socket, name, libc::SIOCGIFFLAGS)?;
    // SAFETY: every member of the union is plain numbers, and all of it was written.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    ok.then_some(i32::from(flags))
}

fn interface_request(
    socket: BorrowedFd<'_>,
    name: &str,
    asked: libc::c_ulong,
) -> Option<(libc::ifreq, bool)> {
    // SAFETY: all bytes zero are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let room = request.ifr_name.len() - 1;
    if name.is_empty() || name.len() > room {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: all requests read the name and write into the union of this `ifreq`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), asked as libc::Ioctl, &raw mut request) };
    Some((request, result == 0))
}

fn set<T>(socket: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `value`, which is that long; what it points to
    // (a filter's program) lives as long.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
