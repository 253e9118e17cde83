//! The selection of packets in the kernel: a program in classic BPF that matches TCP, DNS, ICMP
//! errors and fragments, limited to the addresses and ports asked for and to a share of the
//! connections.
//!
//! Offsets count from the IP header, where packets of a `SOCK_DGRAM` packet socket begin. The
//! kernel usually keeps a VLAN tag outside the packet; a second tag precedes the IP header.

use tcpwhy_core::filter::{Ends, Values};

use super::bpf::{self, Assembler, Instruction, Label, Width};
use crate::sample::{ADDRESS_FACTOR, MIXING, PORT_FACTOR, Sample};

/// The packets to keep.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Terms on addresses and ports; all must match.
    pub ends: Vec<Ends>,
    /// Bytes kept of a TCP segment, from its IP header on.
    pub snap_bytes: u32,
    /// The connections that are kept of these.
    pub sample: Sample,
}

impl Selection {
    /// Selects all connections that match `ends`, with segments cut to `snap_bytes`.
    pub fn new(ends: &[Ends], snap_bytes: u32) -> Self {
        Self { ends: ends.to_vec(), snap_bytes, sample: Sample::all() }
    }
}

/// Segments of these protocols, by their numbers (IANA).
const TCP: u32 = 6;
const UDP: u32 = 17;
const ICMP: u32 = 1;
const ICMPV6: u32 = 58;
/// IPv6 headers behind which a transport header may stand: hop-by-hop and destination options,
/// routing, fragment.
const EXTENSIONS: [u32; 4] = [0, 60, 43, 44];
/// Destination unreachable, source quench, redirect, time exceeded, parameter problem.
const ICMP_ERRORS: [u32; 5] = [3, 4, 5, 11, 12];
const ICMPV6_ERRORS: [u32; 4] = [1, 2, 3, 4];
/// Bytes kept of packets that are not plain TCP segments: all.
const WHOLE: u32 = 1 << 16;

const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const VLANS: [u32; 2] = [0x8100, 0x88a8];

/// Returns the filter program of a selection.
pub fn program(selection: &Selection) -> Vec<Instruction> {
    let mut writer = Writer::new(selection);
    writer.write();
    writer.program.finish()
}

/// Position of the transport header.
#[derive(Clone, Copy)]
enum Transport {
    /// At this offset from the end of the IPv4 header, whose length is in X.
    BehindX(u32),
    At(u32),
    /// The packet has none.
    Nowhere,
}

/// A packet whose IP header is at offset `base`.
#[derive(Clone, Copy)]
struct At {
    base: u32,
    is_v6: bool,
    transport: Transport,
}

struct Writer<'s> {
    selection: &'s Selection,
    program: Assembler,
    drop: Label,
}

impl<'s> Writer<'s> {
    fn new(selection: &'s Selection) -> Self {
        let mut program = Assembler::default();
        let drop = program.label();
        Self { selection, program, drop }
    }

    fn write(&mut self) {
        let labels: [Label; 7] = std::array::from_fn(|_| self.program.label());
        let [loopback, begin, v4, v6, tagged, v4_inner, v6_inner] = labels;
        // Each packet of a loopback interface passes twice: on its way out and on its way in.
        self.program.load(Width::Word, bpf::HARDWARE_TYPE);
        self.program.if_equal(u32::from(libc::ARPHRD_LOOPBACK), loopback);
        self.program.goto(begin);
        self.program.here(loopback);
        self.program.load(Width::Word, bpf::PACKET_TYPE);
        self.program.if_equal(u32::from(libc::PACKET_OUTGOING), self.drop);
        self.program.here(begin);
        self.program.load(Width::Word, bpf::PROTOCOL);
        self.program.if_equal(IPV4, v4);
        self.program.if_equal(IPV6, v6);
        VLANS.into_iter().for_each(|tag| self.program.if_equal(tag, tagged));
        self.program.goto(self.drop);
        self.program.here(tagged);
        self.tagged([v4, v6, v4_inner, v6_inner]);
        for (label, base) in [(v4, 0), (v4_inner, 4)] {
            self.program.here(label);
            self.ipv4(base);
        }
        for (label, base) in [(v6, 0), (v6_inner, 4)] {
            self.program.here(label);
            self.ipv6(base);
        }
        self.program.here(self.drop);
        self.program.keep(0);
    }

    /// Matches a VLAN tag here, or directly before: some kernels report the tag of a sent packet as
    /// its protocol and show the packet without the tag.
    fn tagged(&mut self, [v4, v6, v4_inner, v6_inner]: [Label; 4]) {
        for (ether_type, version, inner) in [(IPV4, 0x40, v4_inner), (IPV6, 0x60, v6_inner)] {
            let other = self.program.label();
            self.program.load(Width::Half, 2);
            self.program.unless_equal(ether_type, other);
            self.program.load(Width::Byte, 4);
            self.program.and(0xf0);
            self.program.if_equal(version, inner);
            self.program.here(other);
        }
        self.program.load(Width::Byte, 0);
        self.program.and(0xf0);
        self.program.if_equal(0x40, v4);
        self.program.if_equal(0x60, v6);
        self.program.goto(self.drop);
    }

    fn ipv4(&mut self, base: u32) {
        let [tcp, udp, icmp] = std::array::from_fn(|_| self.program.label());
        self.program.load(Width::Byte, base + 9);
        for (number, label) in [(TCP, tcp), (UDP, udp), (ICMP, icmp)] {
            self.program.if_equal(number, label);
        }
        self.program.goto(self.drop);
        let whole = At { base, is_v6: false, transport: Transport::BehindX(base) };
        let part = At { transport: Transport::Nowhere, ..whole };

        let fragment = self.program.label();
        self.program.here(tcp);
        self.program.load(Width::Half, base + 6);
        self.program.if_any_bit(0x3fff, fragment);
        self.program.ip_header_to_x(base);
        self.keep_connection(whole, self.selection.snap_bytes);
        self.program.here(fragment);
        // Fragments after the first have no ports: whether their connection is kept is not known.
        if self.selection.sample.share.is_part() {
            self.program.goto(self.drop);
        } else {
            self.keep_connection(part, WHOLE);
        }

        let later = self.program.label();
        self.program.here(udp);
        self.program.load(Width::Half, base + 6);
        self.program.if_any_bit(0x1fff, later);
        self.program.ip_header_to_x(base);
        self.keep_lookup(whole);
        self.program.here(later);
        self.keep_connection(part, WHOLE);

        self.program.here(icmp);
        self.program.ip_header_to_x(base);
        self.program.load_behind_x(Width::Byte, base);
        self.keep_errors(&ICMP_ERRORS);
    }

    fn ipv6(&mut self, base: u32) {
        let [tcp, udp, icmp, extended] = std::array::from_fn(|_| self.program.label());
        self.program.load(Width::Byte, base + 6);
        for (number, label) in [(TCP, tcp), (UDP, udp), (ICMPV6, icmp)] {
            self.program.if_equal(number, label);
        }
        EXTENSIONS.into_iter().for_each(|number| self.program.if_equal(number, extended));
        self.program.goto(self.drop);
        let whole = At { base, is_v6: true, transport: Transport::At(base + 40) };
        self.program.here(tcp);
        self.keep_connection(whole, self.selection.snap_bytes);
        self.program.here(udp);
        self.keep_lookup(whole);
        self.program.here(extended);
        self.keep_connection(At { transport: Transport::Nowhere, ..whole }, WHOLE);
        self.program.here(icmp);
        self.program.load(Width::Byte, base + 40);
        self.keep_errors(&ICMPV6_ERRORS);
    }

    /// Keeps the packet if the ICMP type, which was loaded, is one of `errors`. The core examines
    /// the packet inside the error.
    fn keep_errors(&mut self, errors: &[u32]) {
        let error = self.program.label();
        errors.iter().for_each(|&number| self.program.if_equal(number, error));
        self.program.goto(self.drop);
        self.program.here(error);
        self.program.keep(WHOLE);
    }

    fn keep_lookup(&mut self, at: At) {
        let lookup = self.program.label();
        for side in [0, 2] {
            self.port(at.transport, side);
            self.program.if_equal(53, lookup);
        }
        self.program.goto(self.drop);
        self.program.here(lookup);
        self.keep_connection(at, WHOLE);
    }

    /// Keeps the packet up to `bytes` if its ends match and its connection is chosen.
    fn keep_connection(&mut self, at: At, bytes: u32) {
        for term in &self.selection.ends {
            self.term(term, at);
        }
        if let Some(limit) = self.selection.sample.share.limit() {
            self.sample(at, limit);
        }
        self.program.keep(bytes);
    }

    /// Continues if the packet's ends match, else drops it.
    fn term(&mut self, term: &Ends, at: At) {
        let [matches, on] = std::array::from_fn(|_| self.program.label());
        match &term.any {
            Values::Ports(_) if matches!(at.transport, Transport::Nowhere) => return,
            Values::Ports(ports) => {
                for side in [0, 2] {
                    self.port(at.transport, side);
                    ports.iter().for_each(|&range| self.port_range(range, matches));
                }
            }
            Values::Hosts(hosts) => {
                for side in [0, 1] {
                    for &(network, bits) in hosts {
                        if at.is_v6 {
                            self.host_v6(at.base + 8 + 16 * side, network, bits, matches);
                        } else {
                            self.host_v4(at.base + 12 + 4 * side, network, bits, matches);
                        }
                    }
                }
            }
        }
        self.program.goto(if term.wanted { self.drop } else { on });
        self.program.here(matches);
        if !term.wanted {
            self.program.goto(self.drop);
        }
        self.program.here(on);
    }

    /// Loads the source port (`side` 0) or the destination port (2).
    fn port(&mut self, transport: Transport, side: u32) {
        match transport {
            Transport::BehindX(offset) => self.program.load_behind_x(Width::Half, offset + side),
            Transport::At(offset) => self.program.load(Width::Half, offset + side),
            Transport::Nowhere => {}
        }
    }

    fn port_range(&mut self, (from, to): (u16, u16), matches: Label) {
        if from == to {
            return self.program.if_equal(from.into(), matches);
        }
        let other = self.program.label();
        self.program.unless_at_least(from.into(), other);
        self.program.unless_at_least(u32::from(to) + 1, matches);
        self.program.here(other);
    }

    /// The address at `offset` lies in `network`, which is given in the IPv6 space.
    fn host_v4(&mut self, offset: u32, network: u128, bits: u32, matches: Label) {
        const MAPPED: u128 = 0xffff_0000_0000;
        const PREFIX_BITS: u32 = 96;
        let prefix = mask(bits.min(PREFIX_BITS));
        if (network ^ MAPPED) & prefix != 0 {
            return;
        }
        let mask = mask(bits) as u32;
        if mask == 0 {
            return self.program.goto(matches);
        }
        self.program.load(Width::Word, offset);
        self.program.and(mask);
        self.program.if_equal(network as u32 & mask, matches);
    }

    fn host_v6(&mut self, offset: u32, network: u128, bits: u32, matches: Label) {
        let (mask, other) = (mask(bits), self.program.label());
        for word in 0..4 {
            let (network, mask) =
                ((network >> (96 - 32 * word)) as u32, (mask >> (96 - 32 * word)) as u32);
            if mask != 0 {
                self.program.load(Width::Word, offset + 4 * word);
                self.program.and(mask);
                self.program.unless_equal(network & mask, other);
            }
        }
        self.program.goto(matches);
        self.program.here(other);
    }

    /// Drops the packet unless the hash of its connection, the same in both directions, is below
    /// `limit`.
    fn sample(&mut self, at: At, limit: u32) {
        match at.transport {
            Transport::BehindX(offset) => self.program.load_behind_x(Width::Word, offset),
            Transport::At(offset) => self.program.load(Width::Word, offset),
            // Packets that cannot be classified are kept.
            Transport::Nowhere => return,
        }
        self.program.store(0);
        self.program.shift_right(16);
        self.fold_with(0);
        self.program.and(0xffff);
        self.program.multiply(PORT_FACTOR);
        self.program.store(1);
        let (first, words) = if at.is_v6 { (at.base + 8, 8) } else { (at.base + 12, 2) };
        self.program.load(Width::Word, first);
        for word in 1..words {
            self.program.copy_to_x();
            self.program.load(Width::Word, first + 4 * word);
            self.program.xor_x();
        }
        self.program.multiply(ADDRESS_FACTOR);
        self.fold_with(1);
        self.program.xor(self.selection.sample.seed);
        for (shift, factor) in MIXING {
            self.program.store(0);
            self.program.shift_right(shift);
            self.fold_with(0);
            self.program.multiply(factor);
        }
        self.program.if_at_least(limit, self.drop);
    }

    /// A becomes A XOR word `cell` of the scratch memory.
    fn fold_with(&mut self, cell: u32) {
        self.program.copy_to_x();
        self.program.recall(cell);
        self.program.xor_x();
    }
}

/// Returns a mask for the first `bits` of an address.
pub(super) fn mask(bits: u32) -> u128 {
    if bits == 0 { 0 } else { u128::MAX << (128 - bits.min(128)) }
}

#[cfg(test)]
mod tests;
