//! Programs at the ingress and egress of one interface (TCX).

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use tcpwhy_core::capture::Block;
use tcpwhy_core::filter::{Ends, Values};

use super::cooked::Cooked;
use super::selection::{Selection, mask};
use super::{ANY, Source, Wanted};
use crate::counters::Counters;
use crate::error::LiveError;
use crate::hooks::Lack;
use crate::hooks::frames::{FramesHook, TERMS_MAX, Term, VALUES_MAX};
use crate::route::Route;
use crate::sys::{clock, packet};

/// Period at which the ring is read: many frames at once cost less than each by itself.
const PERIOD: Duration = Duration::from_millis(20);
/// Bytes taken in one round: what is handed over stays in a core's cache.
const ROUND_BYTES: usize = 1 << 20;
/// Queueing disciplines that send packets as soon as the device takes them, so that a packet's
/// times before and after them are equal unless the device is busy. Others pace or delay packets on
/// purpose (`fq`, `netem`, `tbf`, `htb`, …).
const PROMPT: [&str; 5] = ["noqueue", "pfifo_fast", "fq_codel", "pfifo", "bfifo"];

/// Reason why a packet socket is used instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// The capture is of all interfaces, or the packet socket was asked for.
    NotAsked,
    /// The interface has this queueing discipline, before which the programs see packets.
    HoldsBack(String),
    /// The queueing discipline of the interface is not known.
    Unknown,
    /// The interface is down: its queueing discipline once it is up is not known.
    Down,
    /// Packets of the interface have no Ethernet header.
    NoEthernet,
    /// The programs cannot be attached.
    Lacking(Lack),
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("no programs at an interface were asked for"),
            Self::HoldsBack(discipline) => write!(
                f,
                "its queueing discipline ({discipline}) holds packets back, and programs at the \
                 interface would see them too early"
            ),
            Self::Unknown => f.write_str("its queueing discipline cannot be read"),
            Self::Down => f.write_str("it is down, and its queueing discipline not known yet"),
            Self::NoEthernet => f.write_str("its packets have no Ethernet header"),
            Self::Lacking(lack) => write!(f, "programs cannot be attached to it: {lack}"),
        }
    }
}

/// The programs, and the times at which their ring is read.
pub struct Programs {
    hook: FramesHook,
    hardware: u16,
    /// Time at which the ring was last found empty.
    emptied: Option<Instant>,
}

impl Programs {
    /// Attaches the programs to the interface.
    ///
    /// # Errors
    /// They were not asked for, cannot be attached, or would see packets at another time than the
    /// wire.
    pub fn attach(
        control: BorrowedFd<'_>,
        wanted: &Wanted,
        selection: &Selection,
    ) -> Result<Self, Fallback> {
        let name = wanted.interface.as_str();
        if wanted.packet_socket || name == ANY {
            return Err(Fallback::NotAsked);
        }
        match discipline(name).ok_or(Fallback::Unknown)?.as_str() {
            "noop" => return Err(Fallback::Down),
            kind if !PROMPT.contains(&kind) => return Err(Fallback::HoldsBack(kind.to_owned())),
            _ => {}
        }
        let hardware = packet::interface_hardware(control, name).ok_or(Fallback::NoEthernet)?;
        // Each packet of a loopback interface passes twice: on its way out and on its way in.
        let egress = match hardware {
            libc::ARPHRD_ETHER => true,
            libc::ARPHRD_LOOPBACK => false,
            // The link header does not have the length of Ethernet's.
            _ => return Err(Fallback::NoEthernet),
        };
        let kept = (selection.snap_bytes, selection.sample.seed);
        let hook = FramesHook::attach(name, egress, kept, wanted.ring_bytes);
        let hook = hook.map_err(Fallback::Lacking)?;
        let mut programs = Self { hook, hardware, emptied: None };
        programs.choose(selection);
        Ok(programs)
    }

    fn choose(&mut self, selection: &Selection) {
        self.hook.set_limit(selection.sample.share.limit().unwrap_or(0));
        // The core checks the addresses and ports as well, so a term that is too long is left to
        // it.
        let terms = selection.ends.iter().filter_map(term).take(TERMS_MAX);
        self.hook.set_terms(&terms.collect::<Vec<_>>());
    }

    /// Returns the time until the next read of the ring.
    fn rest(&self) -> Duration {
        self.emptied.map_or(Duration::ZERO, |at| PERIOD.saturating_sub(at.elapsed()))
    }
}

impl Source for Programs {
    fn fill(&mut self, to: &mut Block) -> bool {
        if !self.rest().is_zero() {
            return false;
        }
        let (before, enough) = (to.entries.len(), to.bytes.len() + ROUND_BYTES);
        let (offset_ns, hardware) = (clock::realtime_offset_ns(), self.hardware);
        while to.bytes.len() < enough {
            let found = self.hook.next(|frame| {
                let mut link_address = [0; 10];
                link_address[0] = frame.direction;
                let cooked = Cooked {
                    time_ns: frame.time_ns.saturating_add_signed(offset_ns),
                    protocol: frame.protocol,
                    interface: frame.interface,
                    hardware,
                    link_address,
                    tag: frame.tag,
                    length: frame.length,
                };
                cooked.push(frame.bytes, to);
            });
            if !found {
                self.emptied = Some(Instant::now());
                break;
            }
        }
        to.entries.len() > before
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), LiveError> {
        thread::sleep(timeout.min(self.rest()));
        Ok(())
    }

    fn select(&mut self, selection: &Selection) -> Result<(), LiveError> {
        self.choose(selection);
        Ok(())
    }

    fn lost(&mut self) -> u64 {
        self.hook.lost()
    }
}

/// Returns the kind of the interface's queueing discipline.
fn discipline(name: &str) -> Option<String> {
    let links = Route::open().and_then(|mut route| route.links(&mut Counters::default()));
    let link = links.ok()?.into_iter().find(|link| link.name == name)?;
    // Below this one each queue of the device has one of the default kind.
    let kind = match link.qdisc.as_str() {
        "mq" => fs::read_to_string("/proc/sys/net/core/default_qdisc").unwrap_or_default(),
        _ => link.qdisc,
    };
    Some(kind.trim().to_owned())
}

/// Returns the form of a term for the programs; `None` if it has too many values.
fn term(ends: &Ends) -> Option<Term> {
    let (is_ports, values): (bool, Vec<_>) = match &ends.any {
        Values::Ports(ports) => {
            let range = |&(from, to): &(u16, u16)| ([from.into(), 0, 0, 0], [to.into(), 0, 0, 0]);
            (true, ports.iter().map(range).collect())
        }
        Values::Hosts(hosts) => {
            let network = |&(network, bits): &(u128, u32)| {
                let mask = mask(bits);
                (words(network & mask), words(mask))
            };
            (false, hosts.iter().map(network).collect())
        }
    };
    (values.len() <= VALUES_MAX).then_some(Term { wanted: ends.wanted, is_ports, values })
}

/// Words as they lie in memory in network byte order.
fn words(address: u128) -> [u32; 4] {
    let octets = address.to_be_bytes();
    std::array::from_fn(|word| {
        u32::from_ne_bytes(std::array::from_fn(|octet| octets[4 * word + octet]))
    })
}
