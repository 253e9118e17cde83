//! Finds the largest packet that the path carries, by echo requests or datagrams that must not be
//! fragmented (RFC 1191, RFC 8201). If no router reports the MTU of its link, the size is searched
//! (RFC 8899).

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use serde::Serialize;
use tcpwhy_live::sys::int_option;

use super::sender::{Sender, What};
use super::{Method, PathMeasurement, Report};

const IPPROTO_IP: i32 = 0;
const IPPROTO_IPV6: i32 = 41;
const IP_MTU: i32 = 14;
const IPV6_MTU: i32 = 24;
/// Headers of ICMP and UDP, bytes.
const HEADER_BYTES: usize = 8;
/// Greatest number of packets that are sent.
pub(super) const PROBES_MAX: u32 = 40;
/// Number of unanswered probes of a size after which that size counts as too large.
const TRIES: u32 = 2;
/// Least wait for an answer: answers to large packets take a little longer.
const WAIT_MIN: Duration = Duration::from_millis(200);

/// How the search for the MTU ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MtuEnd {
    /// Packets of the size of the first link's MTU pass.
    Whole,
    /// A router reports that the MTU of its next link is smaller.
    Reported,
    /// Larger packets are lost without an ICMP error.
    BlackHole,
    /// The target answers no probe of any size.
    Unknown,
}

/// The largest packet that the path carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mtu {
    /// Kind of the probes.
    pub method: Method,
    /// The MTU of the first link, or of the path as the kernel knows it, bytes.
    pub link_mtu_bytes: u64,
    /// The largest packet that arrived, IP header included, bytes.
    pub path_mtu_bytes: Option<u64>,
    /// The size of the smallest packet that did not arrive, bytes.
    pub lost_bytes: Option<u64>,
    /// The router that reported its MTU.
    pub reported_by: Option<IpAddr>,
    /// How the search for the MTU ended.
    pub end: MtuEnd,
    /// Number of packets sent.
    pub sent: u64,
}

enum Passes {
    Yes,
    /// The packet is too large for a router, which reports the MTU of its next link, or 0 if it
    /// does not state it.
    Reported(u64),
    Silent,
}

struct Search<'a> {
    asked: &'a PathMeasurement<'a>,
    sender: Sender,
    wait: Duration,
    sent: u32,
    reported_by: Option<IpAddr>,
}

/// Finds the path MTU and writes it into the report.
pub(super) fn find(asked: &PathMeasurement<'_>, report: &mut Report, _: &mut dyn FnMut(&Report)) {
    if !asked.plan.mtu {
        return;
    }
    let echo_ns = report.echo.as_ref().and_then(|echo| match &echo.refusal {
        None => echo.max_ns,
        Some(_) => None,
    });
    let method = if echo_ns.is_some() { Method::Icmp } else { Method::Udp };
    let sender =
        Sender::open(method, asked).and_then(|sender| sender.forbid_fragments().map(|()| sender));
    let sender = match sender {
        Ok(sender) => sender,
        Err(error) => return report.skip("mtu", format!("its probes cannot be sent: {error}")),
    };
    let Some(link) = link_mtu(asked.address) else {
        return report.skip("mtu", "the kernel does not say what the first link carries");
    };
    let rtt_ns = echo_ns.or(report.connect.as_ref().and_then(|it| it.max_ns)).unwrap_or(0);
    let wait = (Duration::from_nanos(rtt_ns) * 4).max(WAIT_MIN).min(asked.plan.wait);
    let mut search = Search { asked, sender, wait, sent: 0, reported_by: None };
    let (passed, lost, end) = search.run(link);
    report.packets_sent += u64::from(search.sent);
    report.mtu = Some(Mtu {
        method,
        link_mtu_bytes: link,
        path_mtu_bytes: passed,
        lost_bytes: lost,
        reported_by: search.reported_by,
        end,
        sent: search.sent.into(),
    });
}

/// Returns the MTU of the route, bytes.
fn link_mtu(target: SocketAddr) -> Option<u64> {
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(SocketAddr::new(target.ip(), target.port().max(1))).ok()?;
    let (level, option) =
        if target.is_ipv4() { (IPPROTO_IP, IP_MTU) } else { (IPPROTO_IPV6, IPV6_MTU) };
    let mtu = int_option(socket.as_fd(), level, option).ok()?;
    // No datagram can be larger than this limit, although the MTU of loopback is.
    u64::try_from(mtu).ok().map(|mtu| mtu.min(65_535))
}

impl Search<'_> {
    /// Returns the largest size that passed, the smallest that did not, and what the search ended
    /// with.
    fn run(&mut self, link: u64) -> (Option<u64>, Option<u64>, MtuEnd) {
        // The least MTU of an IPv6 link (RFC 8200 §5), and of nearly all links of IPv4 hosts (RFC
        // 1122 §3.3.2).
        let least = if self.asked.address.is_ipv4() { 576 } else { 1_280 };
        let least = least.min(link);
        let (mut passed, mut lost) = (None, link + 1);
        let mut silent = false;
        let mut size = link;
        while passed.is_none_or(|passed| passed + 1 < lost) && self.may_go_on() {
            match self.passes(size) {
                Passes::Yes => passed = Some(size),
                Passes::Reported(mtu) if (least.min(68)..size).contains(&mtu) => {
                    lost = size;
                    size = mtu;
                    continue;
                }
                Passes::Reported(_) => lost = size,
                Passes::Silent if size == least => return (None, Some(size), MtuEnd::Unknown),
                Passes::Silent => {
                    silent = true;
                    lost = size;
                }
            }
            size = match passed {
                // Packets of the size that a router reported pass.
                Some(_) if self.reported_by.is_some() && !silent => break,
                Some(passed) => passed + (lost - passed) / 2,
                None => least,
            };
        }
        let end = match (passed, silent) {
            (None, _) => MtuEnd::Unknown,
            (Some(passed), false) if passed == link => MtuEnd::Whole,
            (Some(_), true) => MtuEnd::BlackHole,
            (Some(_), false) => MtuEnd::Reported,
        };
        (passed, (lost <= link).then_some(lost), end)
    }

    fn may_go_on(&self) -> bool {
        self.sent + TRIES <= PROBES_MAX && !self.asked.is_stopped()
    }

    /// Returns whether a packet of `size` bytes arrives.
    fn passes(&mut self, size: u64) -> Passes {
        let header = if self.asked.address.is_ipv4() { 20 } else { 40 };
        let payload = (size as usize).saturating_sub(header + HEADER_BYTES);
        for _ in 0..TRIES {
            let number = self.sent as u16;
            self.sent += 1;
            if self.sender.send(number, None, payload).is_err() {
                // The packet is larger than the MTU of this host's link, although its route states
                // a larger one.
                return Passes::Reported(0);
            }
            let until = Instant::now() + self.wait;
            while Instant::now() < until && !self.asked.is_stopped() {
                self.sender.wait(until.saturating_duration_since(Instant::now()));
                for arrival in self.sender.arrivals() {
                    if arrival.number.is_some_and(|it| it != number) {
                        continue;
                    }
                    match arrival.what {
                        What::TooLarge(mtu) => {
                            self.reported_by = arrival.from;
                            return Passes::Reported(mtu.into());
                        }
                        What::Echo | What::PortClosed => return Passes::Yes,
                        _ => {}
                    }
                }
            }
        }
        Passes::Silent
    }
}
