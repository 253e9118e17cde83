//! The largest packet that the path carries: echo requests, or datagrams, that may not be fragmented
//! (RFC 1191, RFC 8201), searched by size where no router says what it carries (RFC 8899).

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use serde::Serialize;
use tcpwhy_live::sys::int_option;

use super::sender::{Sender, What};
use super::{Asked, Method, Report};

const IPPROTO_IP: i32 = 0;
const IPPROTO_IPV6: i32 = 41;
const IP_MTU: i32 = 14;
const IPV6_MTU: i32 = 24;
/// Headers of ICMP and UDP, bytes.
const HEADER_BYTES: usize = 8;
/// Packets that are sent at most.
const PROBES_MAX: u32 = 40;
/// Number of tries without an answer after which a size does not pass.
const TRIES: u32 = 2;
/// Wait for a size, at least: answers to large packets take a little longer.
const WAIT_MIN: Duration = Duration::from_millis(200);

/// Reason for the end of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MtuEnd {
    /// Packets as large as the first link carries pass.
    Whole,
    /// A router says that its next link carries less.
    Reported,
    /// Larger packets are lost without an ICMP error.
    BlackHole,
    /// The target answers no probe of any size.
    Unknown,
}

/// Largest packet that the path carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mtu {
    /// Kind of the probes.
    pub method: Method,
    /// The MTU of the first link, or of the path as the kernel knows it, bytes.
    pub link_mtu_bytes: u64,
    /// The largest packet that arrived, IP header included, bytes.
    pub path_mtu_bytes: Option<u64>,
    /// The smallest that did not, bytes.
    pub lost_bytes: Option<u64>,
    /// The router that said so.
    pub reported_by: Option<IpAddr>,
    /// Reason for the end of the search.
    pub end: MtuEnd,
    /// Packets that were sent.
    pub sent: u64,
}

enum Passes {
    Yes,
    /// No, and it is said what does, 0 where not.
    Reported(u64),
    Silent,
}

struct Search<'a> {
    asked: &'a Asked<'a>,
    sender: Sender,
    wait: Duration,
    sent: u32,
    reported_by: Option<IpAddr>,
}

/// Finds the path MTU, into the report.
pub(super) fn find(asked: &Asked<'_>, report: &mut Report, _: &mut dyn FnMut(&Report)) {
    if !asked.plan.mtu {
        return;
    }
    let echo_ns = report.echo.as_ref().and_then(|echo| match &echo.refusal {
        None => echo.max_ns,
        Some(_) => None,
    });
    let method = if echo_ns.is_some() { Method::Icmp } else { Method::Udp };
    let sender = Sender::open(method, asked.address)
        .and_then(|sender| sender.forbid_fragments().map(|()| sender));
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

/// The MTU of the route, bytes.
fn link_mtu(target: SocketAddr) -> Option<u64> {
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(SocketAddr::new(target.ip(), target.port().max(1))).ok()?;
    let (level, option) =
        if target.is_ipv4() { (IPPROTO_IP, IP_MTU) } else { (IPPROTO_IPV6, IPV6_MTU) };
    let mtu = int_option(socket.as_fd(), level, option).ok()?;
    // No datagram is larger, although the MTU of loopback is.
    u64::try_from(mtu).ok().map(|mtu| mtu.min(65_535))
}

impl Search<'_> {
    /// The largest size that passed, the smallest that did not, and why it ended there.
    fn run(&mut self, link: u64) -> (Option<u64>, Option<u64>, MtuEnd) {
        // The least MTU of an IPv6 link (RFC 8200 §5), and of nearly every IPv4 host (RFC 1122
        // §3.3.2).
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
                // A router said what passes, and it does.
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
                // Larger than the link of this host, whatever its route says.
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
