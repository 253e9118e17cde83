//! Interfaces, addresses, queueing disciplines and neighbours of the calling thread's namespace,
//! by netlink. Read first: rtnetlink(7), linux/if_link.h, linux/pkt_sched.h, linux/gen_stats.h.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::counters::Counters;
use crate::link::Link;
use crate::netlink::{Netlink, attributes, word};

const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_GETNEIGH: u16 = 30;
const RTM_GETQDISC: u16 = 38;
const TC_H_ROOT: u32 = u32::MAX;
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

    /// Entries of the neighbour tables of IPv4 and IPv6.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn neighbours(&mut self) -> io::Result<[u64; 2]> {
        let mut counts = [0; 2];
        for (family, count) in [libc::AF_INET, libc::AF_INET6].into_iter().zip(&mut counts) {
            let mut request = [0; 12];
            request[0] = family as u8;
            self.0.dump(RTM_GETNEIGH, &request, |_| *count += 1)?;
        }
        Ok(counts)
    }
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
