//! The two ends of a packet or a socket, as the hooks record them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serialize;

/// `struct flow` in flow.h.
pub(super) const FLOW_BYTES: usize = 44;

/// The two ends of a packet or a socket. The source of a packet is its sender; the source of a
/// socket is its own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Flow {
    /// Source; its port is 0 where the protocol has none.
    pub source: SocketAddr,
    /// Destination.
    pub destination: SocketAddr,
    /// Protocol number of IP: 6 is TCP, 17 is UDP.
    pub protocol: u8,
}

/// A flow with the namespace that it was seen in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct HookedFlow {
    /// The ends; `None` where it was no IP packet.
    pub(super) flow: Option<Flow>,
    /// Protocol number of IP; 0 unknown.
    pub(super) protocol: u8,
    /// Ethernet's number for the protocol; 0 unknown.
    pub(super) ethertype: u16,
    /// Inode of the network namespace; 0 unknown.
    pub(super) netns: u32,
}

/// Reads the fields of a record one after the other, as C lays them out.
pub struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    /// Takes `N` bytes.
    ///
    /// # Panics
    /// The record is shorter, which the C side and the Rust side exclude when they are built.
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("sizes are asserted in the C record");
        self.0 = rest;
        *field
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// Takes a number of this machine's byte order.
    pub fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    /// Takes a number of this machine's byte order.
    pub fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    /// Takes a number of this machine's byte order.
    pub fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    pub(super) fn seen(&mut self) -> HookedFlow {
        let source = self.take();
        let destination = self.take();
        let (source_port, destination_port) = (self.u16(), self.u16());
        let (protocol, ip_version) = (self.u8(), self.u8());
        let (ethertype, netns) = (self.u16(), self.u32());
        let flow = (ip_version != 0).then(|| Flow {
            source: SocketAddr::new(address(ip_version, source), source_port),
            destination: SocketAddr::new(address(ip_version, destination), destination_port),
            protocol,
        });
        HookedFlow { flow, protocol, ethertype, netns }
    }

    /// Reads text that ends at its first zero byte.
    pub(super) fn text<const N: usize>(&mut self) -> String {
        let bytes: [u8; N] = self.take();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(N);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

fn address(ip_version: u8, bytes: [u8; 16]) -> IpAddr {
    if ip_version == 4 {
        let [first, second, third, fourth, ..] = bytes;
        Ipv4Addr::new(first, second, third, fourth).into()
    } else {
        // A socket of IPv6 that holds a connection of IPv4 names it ::ffff:a.b.c.d.
        IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
    }
}
