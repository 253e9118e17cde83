//! Time of decoding: `cargo bench --bench decode`; divan prints time and frames per second.

use divan::counter::ItemsCount;
use etherparse::{PacketBuilder, TcpOptionElement};
use tcpwhy_core::capture::{Block, FrameEntry, FrameId, LinkType};
use tcpwhy_core::wire::{FlowHasher, Packet, Segment, decode};

fn main() {
    divan::main();
}

const FRAMES: u64 = 500_000;
/// Payload of a frame in a capture with a usual snap length, bytes.
const PAYLOAD_LEN: usize = 220;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Ipv4,
    Ipv4Vlan,
    Ipv4Sack,
    Ipv6,
    Vxlan,
}

fn options(kind: Kind) -> Vec<TcpOptionElement> {
    let timestamps = TcpOptionElement::Timestamp(1, 2);
    let sack = TcpOptionElement::SelectiveAcknowledgement((1, 2), [Some((3, 4)), None, None]);
    match kind {
        Kind::Ipv4Sack => vec![TcpOptionElement::Noop, sack, TcpOptionElement::Noop, timestamps],
        _ => vec![TcpOptionElement::Noop, TcpOptionElement::Noop, timestamps],
    }
}

fn frame(kind: Kind, number: u64) -> Vec<u8> {
    // Directions and connections alternate without a pattern, as on a busy link.
    let mix = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let (client, server) = ([10, 0, (mix >> 2) as u8, 1], [10, 1, 0, 1]);
    let (client_port, server_port) = (40_000 + (mix >> 10) as u16 % 1000, 80);
    let forth = mix & 1 == 0;
    let (source, destination) = if forth { (client, server) } else { (server, client) };
    let ports = if forth { (client_port, server_port) } else { (server_port, client_port) };
    let ethernet = PacketBuilder::ethernet2([1; 6], [2; 6]);
    let wide = |[a, b, c, d]: [u8; 4]| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d];
    let ip = match kind {
        Kind::Ipv6 => ethernet.ipv6(wide(source), wide(destination), 64),
        Kind::Ipv4Vlan => ethernet.single_vlan(etherparse::VlanId::try_new(5).unwrap()).ipv4(
            source,
            destination,
            64,
        ),
        _ => ethernet.ipv4(source, destination, 64),
    };
    let tcp =
        ip.tcp(ports.0, ports.1, number as u32, 65_535).ack(7).options(&options(kind)).unwrap();
    let mut bytes = Vec::new();
    tcp.write(&mut bytes, &[0; PAYLOAD_LEN]).unwrap();
    if !matches!(kind, Kind::Vxlan) {
        return bytes;
    }
    let mut tunnelled = Vec::new();
    let payload = [&[8, 0, 0, 0, 0, 0, 1, 0], &bytes[..]].concat();
    let outer = PacketBuilder::ethernet2([3; 6], [4; 6]).ipv4([9; 4], [8; 4], 64).udp(5555, 4789);
    outer.write(&mut tunnelled, &payload).unwrap();
    tunnelled
}

fn block(kind: Kind) -> Block {
    let mut block = Block::default();
    for number in 1..=FRAMES {
        let bytes = frame(kind, number);
        block.entries.push(FrameEntry {
            id: FrameId::new(0, number),
            time_ns: number,
            offset: block.bytes.len() as u32,
            captured_len: bytes.len() as u32,
            original_len: bytes.len() as u32,
            link: LinkType::ETHERNET,
            clock_set: false,
        });
        block.bytes.extend(bytes);
    }
    block
}

/// Half a million frames to segments in a reused buffer, as a pipeline does.
#[divan::bench(args = [Kind::Ipv4, Kind::Ipv4Vlan, Kind::Ipv4Sack, Kind::Ipv6, Kind::Vxlan])]
fn segments(bencher: divan::Bencher<'_, '_>, kind: Kind) {
    let block = block(kind);
    let hasher = FlowHasher::new(1);
    let mut segments = vec![Segment::default(); 4096];
    bencher.counter(ItemsCount::new(FRAMES)).bench_local(|| {
        let mut next = 0;
        for (frame, entry) in block.frames().zip(&block.entries) {
            let segment = &mut segments[next];
            if let Packet::Tcp = decode(&frame, &hasher, segment) {
                segment.rebase(entry.offset);
                next = (next + 1) % 4096;
            }
        }
        divan::black_box(&segments);
    });
}
