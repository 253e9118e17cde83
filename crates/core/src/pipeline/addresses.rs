//! IPv4 addresses for which two MAC addresses answer (RFC 826, RFC 5227): two hosts have the same
//! address, or one host answers on two interfaces.
//!
//! Only two replies to one request show that. That an address moves to another MAC address is what a
//! failover does (RFC 9568), and a host with several links may answer each client from another one.

use crate::capture::{Block, Frame, FrameId, LinkType};
use crate::judge::thresholds::HABIT_MIN;
use crate::model::{Class, Fact, Finding, Observation};
use crate::wire::Endpoint;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

/// Number of IPv4 addresses of which requests and replies are kept.
const ADDRESSES_MAX: usize = 1 << 10;

/// Longest time from a request to a reply, ns: after it the requester asks again. Source: kernel,
/// `retrans_time_ms` of neighbours (1 s), and RFC 5227 §1.1 (`PROBE_MIN`, 1 s).
const REPLY_MAX_NS: u64 = 1_000_000_000;

/// A MAC address that answers for so many IP addresses answers for others' (RFC 1027): a router.
const PROXIED_MIN: usize = HABIT_MIN as usize;

/// Number of such addresses that are reported.
const REPORTED_MAX: usize = 8;

type Mac = [u8; 6];

/// Two replies to one request from two MAC addresses, and the number of such requests.
pub(super) type Double = ([(Mac, FrameId); 2], u64);

/// An ARP packet about IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arp {
    is_reply: bool,
    sender: (Mac, Ipv4Addr),
    target: (Mac, Ipv4Addr),
}

impl Arp {
    /// Reads the ARP packet in `frame`, if it contains one.
    fn of(frame: &Frame<'_>) -> Option<Self> {
        const ARP: [u8; 2] = [0x08, 0x06];
        const VLAN: [u8; 2] = [0x81, 0x00];
        let two = |at: usize| frame.bytes.get(at..)?.first_chunk::<2>().copied();
        let type_at = match frame.link {
            LinkType::ETHERNET if two(12)? == VLAN => 16,
            LinkType::ETHERNET => 12,
            LinkType::LINUX_SLL => 14,
            _ => return None,
        };
        if two(type_at)? != ARP {
            return None;
        }
        let packet: &[u8; 28] = frame.bytes.get(type_at + 2..)?.first_chunk()?;
        // Ethernet and IPv4, and the lengths of their addresses.
        let operation = packet.strip_prefix(&[0, 1, 8, 0, 6, 4])?.first_chunk::<2>()?;
        let mac = |at: usize| packet.get(at..)?.first_chunk::<6>().copied();
        let ip = |at: usize| packet.get(at..)?.first_chunk::<4>().copied().map(Ipv4Addr::from);
        let (sender, target) = ((mac(8)?, ip(14)?), (mac(18)?, ip(24)?));
        let is_reply = match operation {
            [0, 1] => false,
            [0, 2] => true,
            _ => return None,
        };
        Some(Self { is_reply, sender, target })
    }
}

/// Returns whether `frame` is an ARP packet about IPv4 addresses.
pub(crate) fn is_arp(frame: &Frame<'_>) -> bool {
    Arp::of(frame).is_some()
}

/// What was asked and answered about one IPv4 address.
#[derive(Clone, Debug, Default)]
struct ArpExchange {
    /// Time of the last request, ns, and the MAC address that sent it; `None` once it is answered
    /// twice.
    request: Option<(u64, Mac)>,
    /// First reply to it.
    reply: Option<(Mac, FrameId)>,
    /// The first of them, and the number of all.
    double: Option<Double>,
}

/// The IPv4 addresses in ARP packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    asked: BTreeMap<Ipv4Addr, ArpExchange>,
    /// Some of the IPv4 addresses for which each MAC address answered.
    answered: BTreeMap<Mac, BTreeSet<Ipv4Addr>>,
}

impl Addresses {
    /// Processes the ARP packets among the frames of `block`.
    #[cold]
    pub(super) fn take(&mut self, block: &Block) {
        for frame in block.frames() {
            if let Some(arp) = Arp::of(&frame) {
                self.arp(&arp, &frame);
            }
        }
    }

    fn arp(&mut self, arp: &Arp, frame: &Frame<'_>) {
        let about = if arp.is_reply { arp.sender.1 } else { arp.target.1 };
        let is_known = self.asked.contains_key(&about);
        if about.is_unspecified() || !is_known && self.asked.len() >= ADDRESSES_MAX {
            return;
        }
        if !arp.is_reply {
            let asked = self.asked.entry(about).or_default();
            // Two hosts that ask at the same time get a reply each.
            let is_other = asked.request.is_some_and(|(at_ns, mac)| {
                mac != arp.sender.0 && frame.time_ns < at_ns.saturating_add(REPLY_MAX_NS)
            });
            (asked.request, asked.reply) = (Some((frame.time_ns, arp.sender.0)), None);
            if is_other {
                asked.request = None;
            }
            return;
        }
        let is_kept = self.answered.contains_key(&arp.sender.0);
        if is_kept || self.answered.len() < ADDRESSES_MAX {
            let answered = self.answered.entry(arp.sender.0).or_default();
            if answered.len() < PROXIED_MIN {
                answered.insert(about);
            }
        }
        let asked = self.asked.entry(about).or_default();
        let is_due = asked.request.is_some_and(|(at_ns, mac)| {
            mac == arp.target.0 && frame.time_ns < at_ns.saturating_add(REPLY_MAX_NS)
        });
        let reply = (arp.sender.0, frame.id);
        match asked.reply {
            _ if !is_due => {}
            None => asked.reply = Some(reply),
            Some((mac, _)) if mac == arp.sender.0 => {}
            Some(first) => {
                asked.double.get_or_insert(([first, reply], 0)).1 += 1;
                asked.request = None;
            }
        }
    }

    /// Returns the first addresses for which two MAC addresses answered, neither of which answers for
    /// others.
    pub(super) fn doubles(&self) -> Vec<(Ipv4Addr, Double)> {
        let answers_for_others =
            |mac: &Mac| self.answered.get(mac).is_some_and(|it| it.len() >= PROXIED_MIN);
        let doubles = self.asked.iter().filter_map(|(ip, asked)| Some((*ip, asked.double?)));
        let real = doubles
            .filter(|(_, (replies, _))| !replies.iter().any(|(mac, _)| answers_for_others(mac)));
        real.take(REPORTED_MAX).collect()
    }
}

/// Returns the observations, one for each IPv4 address; `findings` show whether connections to it
/// fail.
pub(super) fn observations(
    doubles: &[(Ipv4Addr, Double)],
    findings: &[Finding],
) -> Vec<Observation> {
    let observe = |&(ip, (replies, count)): &(Ipv4Addr, Double)| {
        let [one, other] = replies.map(|(mac, _)| Fact::Text(shown(mac)));
        let mut facts = vec![
            ("address", Fact::Text(ip.to_string())),
            ("one", one),
            ("other", other),
            ("count", Fact::Count(count)),
        ];
        let address = Endpoint::from(SocketAddr::from((ip, 0))).address;
        let concerns = |finding: &&Finding| {
            let flow = finding.evidence_flow.map(|(_, server)| server.address);
            finding.cause.class() == Class::Fault
                && (finding.culprit.endpoint.address == address || flow == Some(address))
        };
        let fault = findings.iter().find(concerns);
        facts.extend(fault.map(|it| ("fault", Fact::Text(it.cause.id().into()))));
        let frames = replies.map(|(_, frame)| frame).to_vec();
        Observation { id: "duplicate_address", facts, frames }
    };
    doubles.iter().map(observe).collect()
}

fn shown(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
