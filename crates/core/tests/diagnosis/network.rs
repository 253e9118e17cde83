//! From what hosts sent to what a vantage captured.

use crate::frames::{Packet, pcap};
use crate::language::{Line, Numbers, Place, Side, Trace};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

/// Capture time of a trace's 0, ns since the epoch.
pub const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

/// Between the parts of a segment that `each` splits, ns.
const SPACING_NS: u64 = 10_000;

/// The capture of `trace` at `place`: a pcap file.
pub fn capture(trace: &Trace, place: Place) -> Vec<u8> {
    pcap(&packets(trace, place), trace.snap_len)
}

/// Returns the packets of `trace` that are captured at `place`, with their capture times.
pub fn packets(trace: &Trace, place: Place) -> Vec<(u64, Packet)> {
    let mut connections = HashMap::new();
    let mut seen = Vec::new();
    for line in &trace.lines {
        let connection =
            connections.entry(line.connection).or_insert_with(|| Connection::new(trace, line));
        for (at_ns, packet) in connection.send(trace, line) {
            if line.unseen || trace.only.is_some_and(|side| side != line.side) {
                continue;
            }
            let Some(seen_ns) = passes(trace, line, place, at_ns) else { continue };
            let stamp_ns = EPOCH_NS.saturating_add_signed(line.clock_ns) + seen_ns;
            if line.twice {
                seen.push((seen_ns + 4_000, stamp_ns + 4_000, packet.clone()));
            }
            seen.push((seen_ns, stamp_ns, packet));
        }
    }
    // By when they passed, which is not the stamp where the clock steps.
    seen.sort_by_key(|(seen_ns, _, _)| *seen_ns);
    seen.into_iter().map(|(_, stamp_ns, packet)| (stamp_ns, packet)).collect()
}

/// Returns the time at which a packet sent at `at_ns` passes `place`, if it gets there.
fn passes(trace: &Trace, line: &Line, place: Place, at_ns: u64) -> Option<u64> {
    let near_end = match place {
        Place::Client => Some(trace.client.ip()),
        Place::Server => Some(trace.server.ip()),
        Place::Middle | Place::Gateway => None,
    };
    let ends = trace.ends(line.connection).map(|end| end.ip());
    let is_within = ends.iter().all(IpAddr::is_loopback);
    if near_end.is_some_and(|host| !is_within && !ends.contains(&host)) {
        return None;
    }
    let near = match (place, line.side) {
        (Place::Client, Side::Client) | (Place::Server, Side::Server) if ends[0] == ends[1] => true,
        _ => ends[0] != ends[1] && near_end == Some(ends[line.side as usize]),
    };
    match place {
        _ if near => Some(at_ns),
        Place::Middle => Some(at_ns + trace.one_way_ns / 2),
        Place::Gateway => Some(match line.side {
            Side::Client => at_ns + trace.one_way_ns / 16,
            Side::Server => at_ns + trace.one_way_ns * 15 / 16,
        }),
        _ if line.lost => None,
        _ => Some(at_ns + trace.one_way_ns + line.late_ns),
    }
}

/// The state of both ends of one connection that is needed for headers.
struct Connection {
    number: u16,
    ends: [End; 2],
    ipid: [u16; 2],
    /// The last packet that each side sent.
    last: [Option<Packet>; 2],
}

#[derive(Default)]
struct End {
    isn: u32,
    next: u32,
    window: u32,
    scale: Option<u8>,
    received: u32,
    out_of_order: BTreeMap<u32, u32>,
    /// Arrival, sequence range and timestamp of what is on its way here.
    under_way: Vec<(u64, u32, u32, u32)>,
    ts_recent: u32,
    scaled: bool,
}

impl Connection {
    fn new(trace: &Trace, line: &Line) -> Self {
        let number = line.connection;
        let end = |side: Side| End {
            isn: trace.isn[side as usize]
                .wrapping_add(u32::from(number - 1).wrapping_mul(77_777_777)),
            window: 64_256,
            // A trace that begins without SYN begins in mid-stream.
            next: u32::from(!line.flags.contains('S')),
            received: u32::from(!line.flags.contains('S')),
            scaled: !line.flags.contains('S'),
            scale: Some(7),
            // Nor is it the first packet that has come: zero would be no timestamp.
            ts_recent: if line.flags.contains('S') {
                0
            } else {
                4_999 + 90_000 * (1 - side as u32)
            },
            ..End::default()
        };
        Self {
            number,
            ends: [end(Side::Client), end(Side::Server)],
            ipid: [0x1000, 0x5000],
            last: [None, None],
        }
    }

    fn send(&mut self, trace: &Trace, line: &Line) -> Vec<(u64, Packet)> {
        if let Some((kind, mtu, by)) = line.icmp {
            let about = self.last[1 - line.side as usize].as_ref().expect("a packet before");
            let end = trace.ends(line.connection)[line.side as usize];
            let by = by.map_or(end, |by| SocketAddr::from((by, 0)));
            return vec![(line.at_ns, about.error(kind, mtu, by))];
        }
        let syn = line.flags.contains('S');
        if syn && !line.flags.contains('.') && self.ends[0].next > 1 && line.seq.is_none() {
            self.begin_again();
        }
        let chunks: Vec<&[u8]> = match line.each {
            Some(each) => line.payload.chunks(each).collect(),
            None => vec![&line.payload],
        };
        let mut seq = line.seq;
        let mut packets = Vec::new();
        for (index, chunk) in chunks.iter().enumerate() {
            let at_ns = line.at_ns + index as u64 * SPACING_NS;
            let packet = self.packet(trace, line, at_ns, seq, chunk);
            self.last[line.side as usize] = Some(packet.clone());
            packets.push((at_ns, packet));
            seq = seq.map(|seq| seq + chunk.len() as u32);
        }
        packets
    }

    /// The identification of the next packet. Linux gives none to a SYN-ACK.
    fn number(&mut self, trace: &Trace, line: &Line, answers_syn: bool) -> u16 {
        if let Some(number) = line.number {
            return number;
        }
        let next = &mut self.ipid[line.side as usize];
        match trace.numbers {
            Numbers::Socket if answers_syn => return 0,
            Numbers::None => return 1,
            Numbers::Host => *next = next.wrapping_add(line.elsewhere),
            Numbers::Socket | Numbers::File => {}
        }
        *next
    }

    /// Starts another connection with the same addresses and ports.
    fn begin_again(&mut self) {
        for end in &mut self.ends {
            let isn = end.isn.wrapping_add(500_000_000);
            *end = End { isn, window: 64_256, scale: Some(7), ..End::default() };
        }
    }

    fn packet(
        &mut self,
        trace: &Trace,
        line: &Line,
        at_ns: u64,
        seq: Option<u32>,
        payload: &[u8],
    ) -> Packet {
        let (side, flags) = (line.side as usize, &line.flags);
        let syn = flags.contains('S');
        let tsval = line.tsval.unwrap_or(5_000 + 90_000 * side as u32 + (at_ns / 1_000_000) as u32);
        let end = &mut self.ends[side];
        end.receive_until(at_ns);
        end.window = line.window.unwrap_or(end.window);
        if let Some(scale) = line.window_scale {
            end.scale = scale;
        }
        let relative = seq.unwrap_or(end.next);
        let units = payload.len() as u32 + u32::from(syn) + u32::from(flags.contains('F'));
        if !line.forged {
            end.next = end.next.max(relative + units);
        }
        let shift = if syn || !end.scaled { 0 } else { end.scale.unwrap_or(0) };
        let (isn, window, scale) = (end.isn, (end.window >> shift).min(65_535) as u16, end.scale);
        let (received, ts_recent) = (line.ack.unwrap_or(end.received), end.ts_recent);
        let peer = &mut self.ends[1 - side];
        if !line.lost && !line.dropped {
            let arrives_ns = at_ns + trace.one_way_ns + line.late_ns;
            peer.under_way.push((arrives_ns, relative, relative + units, tsval));
        }
        let peer_isn = peer.isn;
        if syn && flags.contains('.') {
            let both = self.ends.iter().all(|end| end.scale.is_some());
            self.ends.iter_mut().for_each(|end| end.scaled = both);
        }
        let ipid = self.number(trace, line, syn && flags.contains('.'));
        let mss = usize::from(line.mss.filter(|&mss| mss > 0).unwrap_or(1460))
            - 12 * usize::from(trace.timestamps);
        let packets = payload.len().div_ceil(mss).max(1) as u16;
        match trace.numbers {
            _ if line.number.is_some() => {}
            Numbers::File => self.ipid = [ipid.wrapping_add(packets); 2],
            _ => self.ipid[side] = self.ipid[side].wrapping_add(packets),
        }
        let ends = trace.ends(self.number);
        Packet {
            source: ends[side],
            destination: ends[1 - side],
            vlan: trace.vlan,
            padded: trace.padded[side],
            ip_id: ipid,
            marked: line.marked,
            checksum: line.checksum,
            ttl: line.ttl.unwrap_or(trace.ttl[side]),
            flags: flags.clone(),
            seq: isn.wrapping_add(relative),
            ack: peer_isn.wrapping_add(received),
            window,
            mss: Some(line.mss.unwrap_or(1460)).filter(|&mss| syn && mss > 0),
            window_scale: scale.filter(|_| syn),
            sack_permitted: syn && !line.without_sack,
            sack: line
                .sack
                .iter()
                .map(|(left, right)| (peer_isn.wrapping_add(*left), peer_isn.wrapping_add(*right)))
                .collect(),
            timestamps: trace.timestamps.then_some((tsval, ts_recent)),
            payload: payload.to_vec(),
            total_len: line.total_len,
            without_payload: line.without_payload,
            icmp: None,
        }
    }
}

impl End {
    fn receive_until(&mut self, now_ns: u64) {
        self.under_way.sort_unstable();
        let arrived = self.under_way.iter().take_while(|(at_ns, ..)| *at_ns <= now_ns).count();
        for (_, left, right, tsval) in self.under_way.drain(..arrived) {
            let right = right.max(self.out_of_order.get(&left).copied().unwrap_or(0));
            self.out_of_order.insert(left, right);
            self.ts_recent = self.ts_recent.max(tsval);
        }
        while let Some((&left, &right)) = self.out_of_order.first_key_value() {
            if left > self.received {
                break;
            }
            self.received = self.received.max(right);
            self.out_of_order.remove(&left);
        }
    }
}
