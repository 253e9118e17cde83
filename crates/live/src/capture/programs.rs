//! Programs at the ingress and egress of one interface (TCX).

use std::fs;
use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, Instant};

use tcpwhy_core::capture::Block;
use tcpwhy_core::filter::{Ends, Values};

use super::cooked::Cooked;
use super::selection::{Selection, mask};
use super::{ANY, Source, Wanted};
use crate::counters::Counters;
use crate::error::LiveError;
use crate::hooks::frames::{FramesHook, TERMS_MAX, Term, VALUES_MAX};
use crate::host::read::route::Route;
use crate::sys::{clock, packet};

/// How often the ring is looked at: many frames at once cost less than each by itself.
const PERIOD: Duration = Duration::from_millis(20);
/// Bytes taken in one round: what is handed over stays in a core's cache.
const ROUND_BYTES: usize = 1 << 20;
/// Queueing disciplines that send packets as soon as the device takes them, so that the time before
/// them is the time after them unless the device is busy. Others pace or delay packets on purpose
/// (`fq`, `netem`, `tbf`, `htb`, …).
const PROMPT: [&str; 5] = ["noqueue", "pfifo_fast", "fq_codel", "pfifo", "bfifo"];

/// The programs, and when their ring is looked at.
pub struct Programs {
    hook: FramesHook,
    hardware: u16,
    /// When the ring was found empty last.
    emptied: Option<Instant>,
}

impl Programs {
    /// Attaches the programs to the interface; `None` where they cannot be, or would see packets at
    /// another time than the wire.
    pub fn attach(control: BorrowedFd<'_>, wanted: &Wanted, selection: &Selection) -> Option<Self> {
        let name = wanted.interface.as_str();
        if wanted.packet_socket || name == ANY || !is_prompt(name) {
            return None;
        }
        let hardware = packet::interface_hardware(control, name)?;
        // Each packet of a loopback interface passes twice: on its way out and on its way in.
        let egress = match hardware {
            libc::ARPHRD_ETHER => true,
            libc::ARPHRD_LOOPBACK => false,
            // No link header of Ethernet's length.
            _ => return None,
        };
        let kept = (selection.snap_bytes, selection.seed);
        let hook = FramesHook::attach(name, egress, kept, wanted.ring_bytes).ok()?;
        let mut programs = Self { hook, hardware, emptied: None };
        programs.select(selection).ok()?;
        Some(programs)
    }

    /// Time until the ring is to be looked at again.
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
        self.hook.set_limit(selection.share.limit().unwrap_or(0));
        // The core looks at the ends of what the kernel keeps, too: a term too long is left to it.
        let terms = selection.ends.iter().filter_map(term).take(TERMS_MAX);
        self.hook.set_terms(&terms.collect::<Vec<_>>());
        Ok(())
    }

    fn lost(&mut self) -> u64 {
        self.hook.lost()
    }
}

/// Whether what the interface sends leaves when it is given to it.
fn is_prompt(name: &str) -> bool {
    let links = Route::open().and_then(|mut route| route.links(&mut Counters::default()));
    let Ok(links) = links else { return false };
    let Some(link) = links.into_iter().find(|link| link.name == name) else { return false };
    // Below this one each queue of the device has one of the default kind.
    let kind = match link.qdisc.as_str() {
        "mq" => fs::read_to_string("/proc/sys/net/core/default_qdisc").unwrap_or_default(),
        _ => link.qdisc,
    };
    PROMPT.contains(&kind.trim())
}

/// The form of a term that the programs know; `None` where it has too many values.
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
