//! Interfaces, their queues, and connection tracking, by netlink (rtnetlink(7)). Read first:
//! linux/if_link.h, linux/gen_stats.h, linux/netfilter/nfnetlink_conntrack.h.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::counters::Counters;

const NETLINK_ROUTE: i32 = 0;
const NETLINK_NETFILTER: i32 = 12;
/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET_STATS_CPU`.
const CTNETLINK_GET_STATS_CPU: u16 = 1 << 8 | 4;
/// `struct nfgenmsg`.
const NFGENMSG_BYTES: usize = 4;
/// `enum ctattr_stats_cpu` (linux/netfilter/nfnetlink_conntrack.h).
const CONNTRACK_STATS: [(u16, &str); 5] =
    [(4, "invalid"), (8, "insert"), (9, "insert_failed"), (10, "drop"), (11, "early_drop")];
const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_GETQDISC: u16 = 38;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSG_HEADER_BYTES: usize = 16;
/// `struct ifinfomsg`.
const LINK_BYTES: usize = 16;
/// `struct tcmsg`.
const QDISC_BYTES: usize = 20;
/// `struct ifaddrmsg`.
const ADDRESS_BYTES: usize = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFLA_IFNAME: u16 = 3;
const IFLA_STATS64: u16 = 23;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;

/// Counters of `struct rtnl_link_stats64` that count packets that were lost, by their place.
const LINK_DROPS: [(usize, &str); 6] = [
    (4, "rx_errors"),
    (5, "tx_errors"),
    (6, "rx_dropped"),
    (7, "tx_dropped"),
    (14, "rx_fifo_errors"),
    (15, "rx_missed_errors"),
];

/// Adds the counters of the calling thread's namespace: `dev NAME COUNTER` and
/// `qdisc NAME KIND drops`.
///
/// # Errors
/// The kernel refuses to list them.
pub(super) fn read(counters: &mut Counters) -> io::Result<()> {
    let mut names = BTreeMap::new();
    dump(NETLINK_ROUTE, RTM_GETLINK, LINK_BYTES, |message| {
        let Some(index) = word(message, 4) else { return };
        let Some(name) = attribute(&message[LINK_BYTES..], IFLA_IFNAME).and_then(text) else {
            return;
        };
        if let Some(stats) = attribute(&message[LINK_BYTES..], IFLA_STATS64) {
            for (place, counter) in LINK_DROPS {
                if let Some(value) = stats.get(place * 8..).and_then(|rest| rest.first_chunk()) {
                    counters.set(&format!("dev {name} {counter}"), u64::from_ne_bytes(*value));
                }
            }
        }
        names.insert(index, name);
    })?;
    dump(NETLINK_ROUTE, RTM_GETQDISC, QDISC_BYTES, |message| {
        let Some(name) = word(message, 4).and_then(|index| names.get(&index)) else { return };
        let attributes = &message[QDISC_BYTES..];
        let kind = attribute(attributes, TCA_KIND).and_then(text).unwrap_or_default();
        let queue = attribute(attributes, TCA_STATS2)
            .and_then(|stats| attribute(stats, TCA_STATS_QUEUE))
            .and_then(|queue| word(queue, 8));
        if let Some(drops) = queue {
            // A tree of queues counts a drop at the leaf and again at its root.
            let counter = format!("qdisc {name} {kind} drops");
            let known = counters.of(&counter);
            counters.set(&counter, known.max(u64::from(drops)));
        }
    })
}

/// Adds the addresses of the calling thread's namespace.
///
/// # Errors
/// The kernel refuses to list them.
pub(super) fn addresses(found: &mut BTreeSet<IpAddr>) -> io::Result<()> {
    dump(NETLINK_ROUTE, RTM_GETADDR, ADDRESS_BYTES, |message| {
        let attributes = &message[ADDRESS_BYTES..];
        let local = attribute(attributes, IFA_LOCAL).or_else(|| attribute(attributes, IFA_ADDRESS));
        let Some(bytes) = local else { return };
        found.extend(<[u8; 4]>::try_from(bytes).map(IpAddr::from));
        found.extend(<[u8; 16]>::try_from(bytes).map(IpAddr::from));
    })
}

/// Adds what connection tracking counts, as `conntrack -S` names it.
///
/// # Errors
/// The kernel has no connection tracking, or the caller no `CAP_NET_ADMIN`.
pub(super) fn conntrack(counters: &mut Counters) -> io::Result<()> {
    dump(NETLINK_NETFILTER, CTNETLINK_GET_STATS_CPU, NFGENMSG_BYTES, |message| {
        for (kind, name) in CONNTRACK_STATS {
            let value = attribute(&message[NFGENMSG_BYTES..], kind).and_then(|it| word(it, 0));
            if let Some(value) = value {
                let value = u64::from(u32::from_be(value));
                counters.add(&format!("nf_conntrack.{name}"), value);
            }
        }
    })
}

fn dump(
    protocol: i32,
    kind: u16,
    body_bytes: usize,
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    let protocol = Some(Protocol::from(protocol));
    let mut socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, protocol)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut request = vec![0; NLMSG_HEADER_BYTES + body_bytes];
    let length = request.len() as u32;
    request[..4].copy_from_slice(&length.to_ne_bytes());
    request[4..6].copy_from_slice(&kind.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    socket.write_all(&request)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = socket.read(&mut buffer)?;
        let mut rest = &buffer[..length];
        while let Some(length) = word(rest, 0).map(|length| length as usize) {
            let Some(message) = rest.get(..length).filter(|_| length >= NLMSG_HEADER_BYTES) else {
                return Ok(());
            };
            match u16::from_ne_bytes([message[4], message[5]]) {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    let code = word(message, NLMSG_HEADER_BYTES).unwrap_or(0) as i32;
                    return Err(io::Error::from_raw_os_error(-code));
                }
                _ if length >= NLMSG_HEADER_BYTES + body_bytes => {
                    take(&message[NLMSG_HEADER_BYTES..]);
                }
                _ => {}
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// Returns the value of the first attribute of this kind.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some(header) = attributes.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        if kind == wanted {
            return attributes.get(4..length);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_counters() {
        let mut counters = Counters::default();
        read(&mut counters).unwrap();
        assert!(counters.has("dev lo rx_dropped"), "{counters:?}");
        assert!(counters.has("qdisc lo noqueue drops"), "{counters:?}");
    }

    #[test]
    fn the_loopback_address_is_local() {
        let mut found = BTreeSet::new();
        addresses(&mut found).unwrap();
        assert!(found.contains(&IpAddr::from([127, 0, 0, 1])), "{found:?}");
    }

    #[test]
    fn connection_tracking_has_counters() {
        let mut counters = Counters::default();
        match conntrack(&mut counters) {
            Ok(()) => assert!(counters.has("nf_conntrack.insert_failed"), "{counters:?}"),
            Err(error) => tcpwhy_testing::skip(&format!("connection tracking: {error}")),
        }
    }

    #[test]
    fn attributes_of_any_length_end() {
        let bytes = [5, 0, 3, 0, b'x', 0, 0, 0, 0, 0, 9, 0];
        assert_eq!(attribute(&bytes, 3), Some(&b"x"[..]));
        assert_eq!(attribute(&bytes, 9), None, "its length is shorter than its header");
        assert_eq!(attribute(&bytes, 7), None);
        assert_eq!(attribute(&bytes[..3], 3), None);
    }
}
