//! Interfaces, addresses, queueing disciplines and neighbours of the calling thread's namespace,
//! by netlink. Read first: rtnetlink(7), linux/if_link.h, linux/pkt_sched.h, linux/gen_stats.h.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::counters::Counters;
use crate::link::Link;
use crate::netlink::{Netlink, attributes, put, word};

const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const RTM_GETNEIGH: u16 = 30;
const RTM_GETQDISC: u16 = 38;
const TC_H_ROOT: u32 = u32::MAX;
/// States of a neighbour (linux/neighbour.h): its address is being asked for, and none was found.
const NUD_INCOMPLETE: u16 = 0x01;
const NUD_FAILED: u16 = 0x20;
const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;

/// Counters of `struct rtnl_link_stats64`, by their place.
const STATS: [(&str, usize); 9] = [
    ("rx_packets", 0),
    ("tx_packets", 1),
    ("rx_errors", 4),
    ("tx_errors", 5),
    ("rx_dropped", 6),
    ("tx_dropped", 7),
    ("rx_over_errors", 11),
    ("rx_fifo_errors", 14),
    ("rx_missed_errors", 15),
];

/// The neighbour tables of a namespace: the hosts on its links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Number of entries of IPv4 and IPv6.
    pub counts: [u64; 2],
    /// Neighbours that do not answer the question for their link address (ARP, RFC 826; neighbour
    /// discovery, RFC 4861).
    pub unresolved: Vec<Neighbour>,
}

/// A host on the same link whose link address was not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Number of the interface behind which it should be.
    pub link: u32,
    /// `true` once the kernel gave up (`FAILED`), `false` while it asks (`INCOMPLETE`).
    pub is_failed: bool,
}

/// The host on a link to which packets for an address are sent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// The gateway, or the address itself if it is on the link.
    pub address: IpAddr,
    /// Number of the interface.
    pub link: u32,
}

/// A connection to the kernel's routing tables.
#[derive(Debug)]
pub struct Route(Netlink);

impl Route {
    /// Opens it.
    ///
    /// # Errors
    /// A sandbox forbids it.
    pub fn open() -> io::Result<Self> {
        Netlink::open().map(Self)
    }

    /// Reads the interfaces, and adds their counters to `counters`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn links(&mut self, counters: &mut Counters) -> io::Result<Vec<Link>> {
        let mut links: Vec<Link> = Vec::new();
        self.0.dump(RTM_GETLINK, &[0; 16], |body| links.extend(link(body, counters)))?;
        self.0.dump(RTM_GETQDISC, &[0; 20], |body| qdisc(body, &mut links, counters))?;
        Ok(links)
    }

    /// Addresses.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn addresses(&mut self) -> io::Result<Vec<IpAddr>> {
        let mut found = Vec::new();
        self.0.dump(RTM_GETADDR, &[0; 8], |body| {
            for (kind, value) in attributes(body.get(8..).unwrap_or_default()) {
                // IFA_ADDRESS is the peer's where there is one, IFA_LOCAL then the own.
                if matches!(kind, 1 | 2) {
                    found.extend(address(value));
                }
            }
        })?;
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Neighbour tables of IPv4 and IPv6.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn neighbours(&mut self) -> io::Result<Neighbours> {
        let mut found = Neighbours::default();
        for (family, count) in [libc::AF_INET, libc::AF_INET6].into_iter().zip(&mut found.counts) {
            let mut request = [0; 12];
            request[0] = family as u8;
            self.0.dump(RTM_GETNEIGH, &request, |body| {
                *count += 1;
                found.unresolved.extend(unresolved(body));
            })?;
        }
        Ok(found)
    }

    /// Returns where packets for `to` are sent first.
    ///
    /// # Errors
    /// There is no route to it.
    pub fn next_hop(&mut self, to: IpAddr) -> io::Result<NextHop> {
        // struct rtmsg: family, length of the destination's prefix.
        let mut body = vec![0; 12];
        let octets = match to {
            IpAddr::V4(to) => to.octets().to_vec(),
            IpAddr::V6(to) => to.octets().to_vec(),
        };
        body[0] = if to.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET } as u8;
        body[1] = octets.len() as u8 * 8;
        put(&mut body, RTA_DST, &octets);
        let mut hop = NextHop { address: to, link: 0 };
        self.0.ask(RTM_GETROUTE, 0, &body, |body| {
            for (kind, value) in attributes(body.get(12..).unwrap_or_default()) {
                match kind {
                    RTA_OIF => hop.link = word(value, 0),
                    RTA_GATEWAY => hop.address = address(value).unwrap_or(hop.address),
                    // struct rtvia: the family, then a gateway of the other IP version.
                    RTA_VIA => {
                        let via = value.get(2..).and_then(address);
                        hop.address = via.unwrap_or(hop.address);
                    }
                    _ => {}
                }
            }
        })?;
        Ok(hop)
    }
}

/// Attributes of a route (linux/rtnetlink.h).
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_VIA: u16 = 18;

/// Parses `struct ndmsg` (family, interface, state) and its attributes; `None` for a neighbour that
/// is known.
fn unresolved(body: &[u8]) -> Option<Neighbour> {
    let state = u16::from_ne_bytes(*body.get(8..)?.first_chunk()?);
    if state & (NUD_INCOMPLETE | NUD_FAILED) == 0 {
        return None;
    }
    // NDA_DST.
    let mut all = attributes(body.get(12..)?);
    let address = all.find_map(|(kind, value)| (kind == 1).then(|| address(value)))??;
    Some(Neighbour { address, link: word(body, 4), is_failed: state & NUD_FAILED != 0 })
}

fn text(value: &[u8]) -> String {
    let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(Ipv4Addr::from(*value.first_chunk::<4>()?).into()),
        16 => Some(Ipv6Addr::from(*value.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// Parses `struct ifinfomsg` and its attributes.
fn link(body: &[u8], counters: &mut Counters) -> Option<Link> {
    let flags = word(body, 8);
    let mut link = Link {
        index: word(body, 4),
        is_up: flags & IFF_UP != 0,
        is_loopback: flags & IFF_LOOPBACK != 0,
        ..Link::default()
    };
    let mut stats: &[u8] = &[];
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            3 => link.name = text(value),
            4 => link.mtu = word(value, 0).into(),
            6 => link.qdisc = text(value),
            13 => link.txqueuelen = word(value, 0).into(),
            23 => stats = value,
            31 => link.queues.1 = word(value, 0).into(),
            32 => link.queues.0 = word(value, 0).into(),
            _ => {}
        }
    }
    for (name, place) in STATS {
        let octets = stats.get(place * 8..place * 8 + 8).and_then(|it| it.try_into().ok());
        counters.set(&format!("{}.{name}", link.name), octets.map_or(0, u64::from_ne_bytes));
    }
    Some(link)
}

/// Parses `struct tcmsg` and its attributes. Only the root of a device is used; if there are
/// several queues, it contains their sum.
fn qdisc(body: &[u8], links: &mut [Link], counters: &mut Counters) {
    if word(body, 12) != TC_H_ROOT {
        return;
    }
    let Some(link) = links.iter_mut().find(|link| link.index == word(body, 4)) else { return };
    for (kind, value) in attributes(body.get(20..).unwrap_or_default()) {
        match kind {
            1 => link.qdisc = text(value),
            // TCA_STATS2, in it TCA_STATS_QUEUE: qlen, backlog, drops, requeues, overlimits.
            7 => {
                for (_, queue) in attributes(value).filter(|(kind, _)| *kind == 3) {
                    link.backlog = (word(queue, 4).into(), word(queue, 0).into());
                    let mut set = |name: &str, at: usize| {
                        let value = word(queue, at).into();
                        counters.set(&format!("{}.{name}", link.name), value);
                    };
                    set("qdisc_drops", 8);
                    set("qdisc_requeues", 12);
                    set("qdisc_overlimits", 16);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_there_with_its_counters() {
        let mut counters = Counters::default();
        let mut route = Route::open().unwrap();
        let links = route.links(&mut counters).unwrap();
        let loopback = links.iter().find(|link| link.is_loopback).unwrap();
        assert!(loopback.mtu > 0 && counters.has(&format!("{}.rx_dropped", loopback.name)));
        assert!(route.addresses().is_ok() && route.neighbours().is_ok());
        let own = "127.0.0.1".parse().unwrap();
        let hop = NextHop { address: own, link: loopback.index };
        assert_eq!(route.next_hop(own).unwrap(), hop);
    }

    #[test]
    fn neighbours_without_a_link_address_are_told_from_the_others() {
        // struct ndmsg of 10.9.0.7 behind interface 2, and its NDA_DST.
        let message = |state: u16| {
            let mut body = vec![2, 0, 0, 0];
            body.extend(2u32.to_ne_bytes());
            body.extend(state.to_ne_bytes());
            body.extend([0, 1]);
            put(&mut body, 1, &[10, 9, 0, 7]);
            body
        };
        let failed = unresolved(&message(NUD_FAILED)).unwrap();
        let address = "10.9.0.7".parse().unwrap();
        assert_eq!(failed, Neighbour { address, link: 2, is_failed: true });
        assert!(!unresolved(&message(NUD_INCOMPLETE)).unwrap().is_failed);
        assert_eq!(unresolved(&message(0x02)), None, "REACHABLE");
        for length in 0..message(NUD_FAILED).len() {
            assert_eq!(unresolved(&message(NUD_FAILED)[..length]), None);
        }
    }

    #[test]
    fn attributes_of_any_length_are_survived() {
        let bytes = [8, 0, 3, 0, b'l', b'o', 0, 0, 5, 0, 4];
        for length in 0..bytes.len() {
            assert!(attributes(&bytes[..length]).count() <= 1);
        }
        assert_eq!(attributes(&bytes).next(), Some((3, &b"lo\0\0"[..])));
    }
}
