//! Datagrams with what the kernel knows of them beside the bytes: when they arrived, and errors that
//! routers and hosts sent back (recvmsg(2), `IP_RECVERR` of ip(7)).

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Room for control messages, bytes: a time, an error with the address of its sender, and a hop limit.
const CONTROL_BYTES: usize = 512;

/// A datagram, or an error about one that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// Bytes of the buffer that it fills; for an error, the captured length of the packet that
    /// caused it.
    pub length: usize,
    /// Sender; for an error, the destination of the packet that caused it.
    pub from: Option<SocketAddr>,
    /// Time of arrival by `CLOCK_REALTIME`, ns; `None` without `SO_TIMESTAMPNS`.
    pub stamp_ns: Option<u64>,
    /// The error, if it is one.
    pub error: Option<QueuedError>,
}

/// `struct sock_extended_err` of linux/errqueue.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedError {
    /// The `errno` of the error.
    pub errno: i32,
    /// `true` if an ICMP packet reported the error, `false` if this host detected it.
    pub is_icmp: bool,
    /// ICMP type.
    pub kind: u8,
    /// ICMP code.
    pub code: u8,
    /// The MTU, where the packet was too large for it, bytes.
    pub info: u32,
    /// Address of the host that reported the error.
    pub offender: Option<IpAddr>,
}

/// Takes the next datagram, or the next error about one, without waiting.
///
/// # Errors `WouldBlock` if there is none; else an error that was queued for the socket.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], is_error: bool) -> io::Result<Received> {
    #[repr(align(8))]
    struct Control([u8; CONTROL_BYTES]);
    let mut control = Control([0; CONTROL_BYTES]);
    let mut from = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all bytes zero are a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = from.as_mut_ptr().cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES as _;
    let queue = if is_error { libc::MSG_ERRQUEUE } else { 0 };
    let flags = libc::MSG_DONTWAIT | queue;
    // SAFETY: name, vector and control describe local buffers with their lengths.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let Ok(length) = usize::try_from(length) else { return Err(io::Error::last_os_error()) };
    // SAFETY: zeroed at first, so that it is initialised whatever the kernel wrote.
    let from = address(unsafe { from.assume_init_ref() });
    let mut received = Received { length, from, ..Received::default() };
    // SAFETY: `message` is as the kernel left it, with its control buffer.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !next.is_null() {
        // SAFETY: the kernel's macros keep `next` within the control buffer, which is aligned.
        let header = unsafe { *next };
        // SAFETY: as above; the data follows the header.
        let data = unsafe { libc::CMSG_DATA(next) };
        let data_length = (header.cmsg_len as usize)
            .saturating_sub(data as usize - next as usize)
            .min(CONTROL_BYTES);
        // SAFETY: `cmsg_len` counts the header and the data behind it, all within the buffer.
        let data = unsafe { std::slice::from_raw_parts(data, data_length) };
        control_message((header.cmsg_level, header.cmsg_type), data, &mut received);
        // SAFETY: as for the first one.
        next = unsafe { libc::CMSG_NXTHDR(&raw const message, next) };
    }
    Ok(received)
}

fn control_message(kind: (i32, i32), data: &[u8], received: &mut Received) {
    match kind {
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
            let field = |at: usize| data.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
            if let (Some(seconds), Some(ns)) = (field(0), field(8)) {
                received.stamp_ns = Some(seconds * 1_000_000_000 + ns);
            }
        }
        (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
            received.error = queued(data);
        }
        _ => {}
    }
}

/// Parses an extended error and the address of its sender, which follows it.
fn queued(data: &[u8]) -> Option<QueuedError> {
    const ERROR_BYTES: usize = size_of::<libc::sock_extended_err>();
    let word = |at: usize| data.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let [origin, kind, code] = *data.get(4..7)? else { return None };
    let is_icmp = matches!(origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6);
    let behind = data.get(ERROR_BYTES..).unwrap_or_default();
    let family = behind.get(..2).map(|it| u16::from_ne_bytes([it[0], it[1]])).map(i32::from);
    let offender = match family {
        Some(libc::AF_INET) => {
            let bytes: Option<[u8; 4]> = behind.get(4..8).and_then(|it| it.try_into().ok());
            bytes.map(|it| IpAddr::V4(it.into()))
        }
        Some(libc::AF_INET6) => {
            let bytes: Option<[u8; 16]> = behind.get(8..24).and_then(|it| it.try_into().ok());
            bytes.map(|it| IpAddr::V6(it.into()))
        }
        _ => None,
    };
    let (errno, info) = (word(0)? as i32, word(8)?);
    Some(QueuedError { errno, is_icmp, kind, code, info, offender })
}

fn address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which address it is; the storage is large enough for each.
            let it = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(it.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(it.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let it = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(it.sin6_addr.s6_addr);
            let port = u16::from_be(it.sin6_port);
            Some(SocketAddrV6::new(ip, port, it.sin6_flowinfo, it.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Waits at most `timeout_ms` until the socket has data or an error; returns whether it has.
///
/// # Errors The descriptor is invalid, or a signal arrived.
pub fn wait(socket: BorrowedFd<'_>, timeout_ms: i32) -> io::Result<bool> {
    poll(socket, libc::POLLIN, timeout_ms)
}

/// Waits until the connection is established or has failed, at most `timeout_ms`; says whether it is.
///
/// # Errors
/// As [`wait`].
pub fn wait_for_end(socket: BorrowedFd<'_>, timeout_ms: i32) -> io::Result<bool> {
    poll(socket, libc::POLLOUT, timeout_ms)
}

fn poll(socket: BorrowedFd<'_>, events: i16, timeout_ms: i32) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    // SAFETY: one `pollfd`, which is a local variable.
    let ready = unsafe { libc::poll(&raw mut poll, 1, timeout_ms) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::realtime_ns;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn a_datagram_comes_with_its_time_and_sender() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        crate::sys::options::set_int_option(
            receiver.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            1,
        )
        .unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = realtime_ns();
        sender.send_to(b"probe", receiver.local_addr().unwrap()).unwrap();
        assert!(wait(receiver.as_fd(), 1_000).unwrap());
        let mut buffer = [0; 64];
        let received = receive(receiver.as_fd(), &mut buffer, false).unwrap();
        assert_eq!(&buffer[..received.length], b"probe");
        assert_eq!(received.from, sender.local_addr().ok());
        let stamp_ns = received.stamp_ns.unwrap();
        assert!(stamp_ns >= before && stamp_ns <= realtime_ns(), "{stamp_ns}");
        let none = receive(receiver.as_fd(), &mut buffer, false).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_closed_port_is_an_error_with_its_sender() {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        crate::sys::options::set_int_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_RECVERR, 1)
            .unwrap();
        socket.connect(closed).unwrap();
        socket.send(b"who is there").unwrap();
        assert!(wait(socket.as_fd(), 1_000).unwrap());
        let mut buffer = [0; 64];
        let received = receive(socket.as_fd(), &mut buffer, true).unwrap();
        let error = received.error.unwrap();
        // Destination unreachable, port unreachable (RFC 792).
        assert_eq!((error.errno, error.kind, error.code), (libc::ECONNREFUSED, 3, 3));
        assert_eq!(error.offender, Some(closed.ip()));
        assert_eq!(&buffer[..received.length], b"who is there");
    }
}
