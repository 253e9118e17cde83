//! `ioctl(SIOCETHTOOL)`: what a driver says of an interface (linux/ethtool.h).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

const SIOCETHTOOL: u32 = 0x8946;

/// A socket of the calling thread's namespace by which drivers are asked.
#[derive(Debug)]
pub struct Ethtool(UdpSocket);

impl Ethtool {
    /// Opens it.
    ///
    /// # Errors
    /// There is neither IPv4 nor IPv6.
    pub fn open() -> io::Result<Self> {
        UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("[::]:0")).map(Self)
    }

    /// Asks the driver of an interface. `value` begins with the command, and its length is that of
    /// the command's structure; only commands that read may be given.
    ///
    /// # Errors
    /// The interface is gone, or its driver does not know the command.
    pub fn call<const N: usize>(&self, name: &str, value: &mut [u32; N]) -> io::Result<()> {
        // SAFETY: `ifreq` is plain data; all zeros is a value of it.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        // SAFETY: the request names an interface and points to `value`, which lives through the
        // call and is as long as the structures of the commands that callers use.
        let result = unsafe {
            libc::ioctl(self.0.as_raw_fd(), SIOCETHTOOL as libc::Ioctl, &raw mut request)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
