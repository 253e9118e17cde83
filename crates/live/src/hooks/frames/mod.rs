//! Frames of one interface by programs at its ingress and egress (TCX, Linux 6.6). The programs are
//! attached by links of this process: the kernel detaches them when the process ends, however it
//! ends.

use std::os::fd::AsFd;

use aya::maps::{Map, MapData, RingBuf};
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader};

use super::flow::Fields;
use super::object::chain;
use super::program;
use super::unavailable::{Lack, before_loading};
use crate::sys::shared::Shared;

/// `struct frame_record` in frames.h.
const RECORD_BYTES: usize = 32;
/// `struct settings` in frames.h, and in it the terms, of `TERM_BYTES` each, and the counter.
const SETTINGS_BYTES: usize = 1112;
const TERMS_AT: usize = 16;
const TERM_BYTES: usize = 272;
const LOST_AT: usize = 1104;
/// `TERMS_MAX` and `VALUES_MAX` in frames.h.
pub const TERMS_MAX: usize = 4;
/// Greatest number of values of a term.
pub const VALUES_MAX: usize = 8;

/// A frame as the program recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRecord<'a> {
    /// Time of the packet by `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// Length of the packet, bytes.
    pub length: u32,
    /// Number of the interface.
    pub interface: u32,
    /// `PACKET_HOST` to `PACKET_OUTGOING`.
    pub direction: u8,
    /// EtherType, in network byte order.
    pub protocol: [u8; 2],
    /// EtherType and value of the VLAN tag beside the packet.
    pub tag: Option<([u8; 2], u16)>,
    /// Captured bytes of the packet, from the network header on.
    pub bytes: &'a [u8],
}

/// An end of a packet has to match one of the values, or must not match any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// `true` if an end has to match, `false` if no end may match.
    pub wanted: bool,
    /// `true` if the values are ranges of ports, `false` if they are hosts.
    pub is_ports: bool,
    /// Hosts: network and mask, words of the IPv6 space in network byte order. Ports: first and last
    /// in the first words. At most [`VALUES_MAX`].
    pub values: Vec<([u32; 4], [u32; 4])>,
}

/// The programs while they are attached.
pub struct FramesHook {
    /// Holds the programs and their links.
    _programs: Ebpf,
    ring: RingBuf<MapData>,
    settings: Shared,
}

impl FramesHook {
    /// Attaches the programs to an interface of the calling thread's namespace, ahead of all other
    /// programs there; with `egress` also to its outgoing packets. They keep the connections that
    /// are chosen by a hash with `seed`, each packet cut to `snap_bytes`. `ring_bytes` is the size
    /// of the ring.
    ///
    /// # Errors
    /// The `Lack` that prevents it.
    pub fn attach(
        interface: &str,
        egress: bool,
        (snap_bytes, seed): (u32, u32),
        ring_bytes: u32,
    ) -> Result<Self, Lack> {
        if let Some(lack) = before_loading() {
            return Err(lack);
        }
        let elf = program::frames().ok_or(Lack::NotBuilt)?;
        let refused = |error: &dyn std::error::Error| Lack::Refused(chain(error));
        let mut loader = EbpfLoader::new();
        loader.map_max_entries("ring", ring_bytes.max(1 << 16).next_power_of_two());
        let mut programs = loader.load(elf).map_err(|error| refused(&error))?;
        let Some(Map::Array(map)) = programs.map("shared") else {
            unreachable!("the program has this map")
        };
        let settings = Shared::map(map.fd().as_fd(), SETTINGS_BYTES).map_err(|it| refused(&it))?;
        settings.set(4, seed);
        settings.set(8, snap_bytes);
        let ring = programs.take_map("ring").map(RingBuf::try_from);
        let Some(Ok(ring)) = ring else { unreachable!("the program has this ring") };
        let ways = [("ingress", TcAttachType::Ingress), ("egress", TcAttachType::Egress)];
        for (name, place) in ways.into_iter().take(1 + usize::from(egress)) {
            let program = programs.program_mut(name).map(<&mut SchedClassifier>::try_from);
            let Some(Ok(program)) = program else { unreachable!("the program is a classifier") };
            program.load().map_err(|error| refused(&error))?;
            let first = TcAttachOptions::TcxOrder(LinkOrder::first());
            let attached = program.attach_with_options(interface, place, first);
            attached.map_err(|error| refused(&error))?;
        }
        Ok(Self { _programs: programs, ring, settings })
    }

    /// Keeps from now on the connections whose hash is below `limit`; 0 keeps all.
    pub fn set_limit(&self, limit: u32) {
        self.settings.set(0, limit);
    }

    /// Keeps from now on the packets that match `terms`, of which there are at most [`TERMS_MAX`].
    pub fn set_terms(&self, terms: &[Term]) {
        // Meanwhile all are kept; the core looks at the ends, too.
        self.settings.set(12, 0);
        for (index, term) in terms.iter().enumerate() {
            let at = TERMS_AT + index * TERM_BYTES;
            self.settings.set(at, term.wanted.into());
            self.settings.set(at + 4, term.is_ports.into());
            self.settings.set(at + 8, term.values.len() as u32);
            for (value, (from, to)) in term.values.iter().enumerate() {
                for (word, part) in from.iter().chain(to).enumerate() {
                    self.settings.set(at + 16 + value * 32 + word * 4, *part);
                }
            }
        }
        self.settings.set(12, terms.len() as u32);
    }

    /// Frames for which the ring had no room.
    pub fn lost(&self) -> u64 {
        self.settings.counter(LOST_AT)
    }

    /// Calls `take` with the next frame of the ring; returns `false` if there is none.
    pub fn next(&mut self, take: impl FnOnce(&FrameRecord<'_>)) -> bool {
        let Some(record) = self.ring.next() else { return false };
        if let Some(frame) = parse(&record) {
            take(&frame);
        }
        true
    }
}

fn parse(record: &[u8]) -> Option<FrameRecord<'_>> {
    let (header, rest) = record.split_first_chunk::<RECORD_BYTES>()?;
    let mut fields = Fields(header);
    let (time_ns, length, captured) = (fields.u64(), fields.u32(), fields.u32());
    let (interface, direction) = (fields.u32(), fields.u32() as u8);
    let (protocol, tag_protocol, tag) = (fields.take(), fields.take(), fields.u16());
    let tag = (tag_protocol != [0; 2]).then_some((tag_protocol, tag));
    let bytes = rest.get(..captured as usize)?;
    Some(FrameRecord { time_ns, length, interface, direction, protocol, tag, bytes })
}
