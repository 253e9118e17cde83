//! The local address of a route.

use std::net::{SocketAddr, UdpSocket};

/// Returns the local address for packets to `server`, with port 0. Connecting a UDP socket chooses a route and sends
/// nothing (udp(7)).
pub(crate) fn local_address(server: SocketAddr) -> Option<SocketAddr> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(server).ok()?;
    socket.local_addr().ok().map(|it| SocketAddr::new(it.ip(), 0))
}
