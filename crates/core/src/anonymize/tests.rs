//! Masked data is parsed as before: the marks have the same positions, the layers are the same, and
//! checksums are correct.

use super::masker::{Masker, Range};
use super::plan::Plan;
use super::{Anonymizer, Names};
use crate::app::{Framer, KnownHeaders};
use crate::capture::{Frame, FrameId, LinkType};
use crate::wire::Side;
use etherparse::PacketBuilder;
use proptest::prelude::*;

type Said<'a> = (Side, &'a [u8]);

fn names() -> Names {
    Names::new([11; 16])
}

/// Returns the conversation with each push masked.
fn masked(port: u16, said: &[Said<'_>]) -> Vec<(Side, Vec<u8>)> {
    let (mut masker, mut plans) =
        (Masker::new([port, 40_000], false), [Plan::default(), Plan::default()]);
    let mut positions = [0; 2];
    for &(side, bytes) in said {
        let position = positions[side];
        let range = Range { side, position, bytes, missing: 0 };
        masker.take(&range, &names(), &mut plans[side]);
        positions[side] += bytes.len() as u64;
    }
    positions = [0; 2];
    said.iter()
        .map(|&(side, bytes)| {
            let mut bytes = bytes.to_vec();
            plans[side].write(positions[side], &mut bytes);
            positions[side] += bytes.len() as u64;
            (side, bytes)
        })
        .collect()
}

/// Returns the marks of a conversation, without the words in them.
fn marks(port: u16, said: &[Said<'_>]) -> Vec<String> {
    let (mut framer, mut known) = (Framer::new(port, false), KnownHeaders::default());
    let mut marks = Vec::new();
    for (number, &(side, bytes)) in said.iter().enumerate() {
        framer.push(side, bytes, 0, &mut known, &mut |at, mark| {
            let text = format!("{mark:?}");
            let mut words =
                text.split(|it: char| !it.is_ascii_alphabetic()).filter(|it| !it.is_empty());
            // Of kinds only the verb is compared.
            let shown = match words.next() {
                Some("Kind") => words.next().unwrap_or_default().to_owned(),
                Some("Software") => "Software".to_owned(),
                _ => text.clone(),
            };
            marks.push(format!("{number} {at} {shown}"));
        });
    }
    marks.push(format!("{:?}", framer.protocol()));
    marks
}

/// Masks a conversation and compares the marks; none of `secrets` may be left.
fn assert_masked(port: u16, said: &[Said<'_>], secrets: &[&str]) {
    let masked = masked(port, said);
    let again: Vec<Said<'_>> = masked.iter().map(|(side, bytes)| (*side, &bytes[..])).collect();
    assert_eq!(marks(port, said), marks(port, &again), "{again:?}");
    for secret in secrets {
        let shown = |bytes: &[u8]| bytes.windows(secret.len()).any(|it| it == secret.as_bytes());
        assert!(said.iter().any(|(_, bytes)| shown(bytes)), "{secret} is not there before");
        assert!(!masked.iter().any(|(_, bytes)| shown(bytes)), "{secret} is left");
    }
}

use Side::{Client, Server};

#[test]
fn http_with_chunks_and_an_interim_response() {
    assert_masked(
        80,
        &[
            (Client, b"POST /users/alice/upload?token=hunter2 HTTP/1.1\r\nHost: shop.acme.test\r\nExpect: 100-continue\r\nContent-Le"),
            (Client, b"ngth: 9\r\nX-Acme: inner\r\n\r\n"),
            (Server, b"HTTP/1.1 100 Continue\r\n\r\n"),
            (Client, b"name=card"),
            (Server, b"HTTP/1.1 200 OK\r\nServer: acmesrv/7\r\nSet-Cookie: sid=opensesame\r\nTransfer-Encoding: chunked\r\n\r\n"),
            (Server, b"b;ext=val\r\nhello world\r\n"),
            (Server, b"0\r\nTrailer-Acme: late\r\n\r\n"),
            (Client, b"GET /b HTTP/1.1\r\nHost: shop.acme.test\r\n\r\nHEAD /c HTTP/1.1\r\n\r\n"),
            (Server, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"),
        ],
        &["alice", "hunter2", "shop", "inner", "card", "opensesame", "hello", "Acme", "late"],
    );
}

#[test]
fn redis_with_subcommands_errors_and_blocking_reads() {
    assert_masked(
        6379,
        &[
            (Client, b"*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$5\r\nacmes\r\n"),
            (Server, b"+OK\r\n"),
            (Client, b"*3\r\n$3\r\nSET\r\n$7\r\nuser:42\r\n$6\r\nsecret\r\n*2\r\n$4\r\nHGET\r\n$4\r\nhash\r\n"),
            (Server, b"-WRONGTYPE of alice\r\n*2\r\n$5\r\nvalue\r\n:1234567\r\n"),
            (Client, b"*6\r\n$5\r\nXREAD\r\n$5\r\nBLOCK\r\n$1\r\n0\r\n$7\r\nSTREAMS\r\n$6\r\norders\r\n$1\r\n$\r\n"),
            (Client, b"*2\r\n$3\r\nGET\r\n$5\r\nakeys\r\n"),
            (Server, b"$-1\r\n"),
        ],
        &["acmes", "user", "secret", "hash", "alice", "value", "1234567", "orders", "akeys"],
    );
}

#[test]
fn postgres_simple_and_extended() {
    assert_masked(
        5432,
        &[
            (Client, b"\0\0\0\x13\0\x03\0\0user\0alice\0"),
            (Server, b"R\0\0\0\x08\0\0\0\0S\0\0\0\x0fname\0value\0Z\0\0\0\x05I"),
            (Client, b"Q\0\0\0\x1dSELECT secret FROM cards\0"),
            (Server, b"D\0\0\0\x0e\0\x01\0\0\0\x04card"),
            (Server, b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I"),
            (Client, b"P\0\0\0\x1bstmt\0UPDATE accounts\0\0\0B\0\0\0\x06xxE\0\0\0\x04S\0\0\0\x04"),
            (Server, b"1\0\0\0\x042\0\0\0\x04Z\0\0\0\x05I"),
        ],
        &["alice", "secret", "cards", "accounts", "stmt", "value"],
    );
}

/// Returns a MySQL packet.
fn packet(sequence: u8, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes()[..3], &[sequence], body].concat()
}

#[test]
fn mysql_with_rows_and_an_ok() {
    let greeting = packet(0, b"\x0a8.0.36-acme\0\x01\0\0\0saltsalt\0");
    let mut login = vec![0x0d, 0xa6, 0x0f, 0x01];
    login.resize(32, 0);
    let login = packet(1, &[&login[..], b"alice\0hash\0"].concat());
    let ok = [0, 0, 0, 2, 0, 0, 0];
    let query = packet(0, b"\x03SELECT name FROM cards");
    let rows = [
        packet(1, &[1]),
        packet(2, b"\x03def\x04shop\x05cards\x05cards\x04name"),
        packet(3, b"\x06secret"),
        packet(4, b"\0\x05other"),
        packet(5, &[0xfe, 0, 0, 2, 0, 0, 0]),
    ]
    .concat();
    let insert = packet(0, b"\x03INSERT INTO cards VALUES ('secret')");
    assert_masked(
        3306,
        &[
            (Server, &greeting),
            (Client, &login),
            (Server, &packet(2, &ok)),
            (Client, &query),
            (Server, &rows),
            (Client, &insert),
            (Server, &packet(1, &ok)),
        ],
        &["acme", "alice", "cards", "secret", "shop", "other"],
    );
}

#[test]
fn mqtt_http2_and_unknown_protocols() {
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    let headers = b"\0\0\x0b\x01\x05\0\0\0\x01\x82\x86\x41\x08acmehost";
    let answer = b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x05\0\x01\0\0\0\x01hello";
    assert_masked(
        80,
        &[
            (Client, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            (Client, settings),
            (Server, settings),
            (Client, headers),
            (Server, answer),
        ],
        &["acmehost", "hello"],
    );
    assert_masked(
        1883,
        &[
            (Client, b"\x10\x11\0\x04MQTT\x04\x02\0\x3c\0\x05alice"),
            (Server, b"\x20\x02\0\0"),
            (Client, b"\x32\x0f\0\x06sensor\0\x01value"),
            (Server, b"\x40\x02\0\x01"),
        ],
        &["alice", "sensor", "value"],
    );
    assert_masked(
        7000,
        &[(Client, b"hello, it is alice"), (Server, b"who?"), (Client, b"alice")],
        &["alice", "who"],
    );
}

#[test]
fn tls_keeps_records_and_the_choice_of_the_server() {
    let mut hello = vec![3, 3];
    hello.extend_from_slice(&[b'R'; 32]);
    hello.extend_from_slice(&[0, 0x13, 1, 0, 0, 12, 0, 43, 0, 2, 3, 4, 0, 41, 0, 2, 0, 0]);
    let hello = [&[2, 0, 0, hello.len() as u8][..], &hello].concat();
    let record = |kind: u8, body: &[u8]| [&[kind, 3, 3, 0, body.len() as u8][..], body].concat();
    let server =
        [record(22, &hello), record(20, &[1]), record(23, &[7; 23]), record(23, &[7; 53])].concat();
    let client = record(22, b"\x01\0\0\x0cshop.example");
    assert_masked(
        443,
        &[
            (Client, &client),
            (Server, &server),
            (Client, &[record(20, &[1]), record(23, &[9; 53])].concat()),
            (Client, &record(23, b"a request in secret")),
            (Server, &record(23, b"an answer in secret")),
        ],
        &["shop", "RRRR", "secret"],
    );
}

#[test]
fn tls_keeps_that_http2_is_offered() {
    let hello = |kind: u8, body: &[u8]| [&[kind, 0, 0, body.len() as u8][..], body].concat();
    let record = |kind: u8, body: &[u8]| [&[kind, 3, 3, 0, body.len() as u8][..], body].concat();
    let server_name = b"\0\0\0\x11\0\x0f\0\0\x0cshop.example";
    let protocols = b"\0\x10\0\x0e\0\x0c\x02h2\x08shop/1.1";
    let length = [0, (server_name.len() + protocols.len()) as u8];
    let random = [b'R'; 32];
    let client = [&[3, 3], &random[..], b"\0\0\x02\x13\x01\x01\0", &length, server_name, protocols];
    let server = [&[3, 3], &random[..], b"\0\x13\x01\0\0\x06\0\x2b\0\x02\x03\x04"];
    let of_size = |bytes: usize| record(23, &vec![b's'; bytes + 17]);
    assert_masked(
        443,
        &[
            (Client, &record(22, &hello(1, &client.concat()))),
            (Server, &[record(22, &hello(2, &server.concat())), of_size(100)].concat()),
            (Client, &record(23, &[9; 53])),
            (Client, &[of_size(64), of_size(90)].concat()),
            (Server, &of_size(27)),
            (Client, &of_size(9)),
            (Server, &of_size(100)),
        ],
        &["shop", "RRRR", "ssss"],
    );
}

fn frame(link: LinkType, bytes: &[u8]) -> Frame<'_> {
    Frame { id: FrameId::new(0, 1), time_ns: 1, original_len: bytes.len() as u32, link, bytes }
}

fn changed(link: LinkType, bytes: &[u8]) -> (Vec<u8>, Anonymizer) {
    let mut anonymizer = Anonymizer::new(names());
    let frame = frame(link, bytes);
    anonymizer.learn(&frame);
    anonymizer.rewind();
    let mut out = Vec::new();
    anonymizer.change(&frame, &mut out);
    assert_eq!(out.len(), bytes.len());
    (out, anonymizer)
}

/// Returns whether the checksums of IPv4 and its payload are correct.
fn has_right_checksums(ip: &[u8]) -> bool {
    let packet = etherparse::SlicedPacket::from_ip(ip).unwrap();
    let Some(etherparse::NetSlice::Ipv4(v4)) = &packet.net else { panic!("no IPv4") };
    let header = v4.header().to_header();
    let payload = v4.payload().payload;
    header.header_checksum == header.calc_header_checksum()
        && match &packet.transport {
            Some(etherparse::TransportSlice::Tcp(tcp)) => {
                let sum = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).unwrap();
                sum == tcp.checksum()
            }
            Some(etherparse::TransportSlice::Udp(udp)) => {
                let sum = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
                sum == udp.checksum()
            }
            _ => {
                etherparse::checksum::Sum16BitWords::new().add_slice(payload).ones_complement() == 0
            }
        }
}

const CLIENT: [u8; 4] = [203, 0, 113, 5];
const SERVER: [u8; 4] = [198, 51, 100, 9];

fn tcp_packet(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let tcp = PacketBuilder::ipv4(CLIENT, SERVER, 64).tcp(40_000, 80, 7, 9).ack(3);
    tcp.write(&mut bytes, payload).unwrap();
    bytes
}

fn udp_packet(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let udp = PacketBuilder::ipv4(CLIENT, SERVER, 64).udp(40_000, port);
    udp.write(&mut bytes, payload).unwrap();
    bytes
}

fn shows(bytes: &[u8], secret: &[u8]) -> bool {
    bytes.windows(secret.len()).any(|it| it == secret)
}

#[test]
fn correct_checksums_remain_correct_and_wrong_ones_wrong() {
    let mut packet = tcp_packet(b"GET /alice HTTP/1.1\r\n\r\n");
    let (out, _) = changed(LinkType::RAW, &packet);
    assert!(has_right_checksums(&out) && !shows(&out, b"alice") && !shows(&out, &CLIENT));
    packet[36] ^= 1;
    assert!(!has_right_checksums(&changed(LinkType::RAW, &packet).0));
    let (out, _) = changed(LinkType::RAW, &udp_packet(9999, b"secret!"));
    assert!(has_right_checksums(&out) && out.ends_with(b"......."));
}

#[test]
fn tags_tunnels_and_quoted_packets_are_changed_inside() {
    let inner = tcp_packet(b"secret");
    let ethernet =
        |ether_type: [u8; 2]| [&[2, 9, 9, 9, 9, 1][..], &[2, 9, 9, 9, 9, 2], &ether_type].concat();
    let tagged = [&ethernet([0x81, 0])[..], &[0, 5, 8, 0], &inner].concat();
    let (out, _) = changed(LinkType::ETHERNET, &tagged);
    assert!(has_right_checksums(&out[18..]) && out[12..18] == tagged[12..18]);
    assert!(!shows(&out, &[9, 9, 9, 9]) && !shows(&out, b"secret"));

    let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &ethernet([8, 0]), &inner].concat();
    let (out, _) = changed(LinkType::RAW, &udp_packet(4789, &vxlan));
    assert!(has_right_checksums(&out) && has_right_checksums(&out[28 + 8 + 14..]));
    assert!(!shows(&out, &[9, 9, 9, 9]) && !shows(&out, &CLIENT) && !shows(&out, b"secret"));

    let mut error = Vec::new();
    let unreachable = etherparse::icmpv4::DestUnreachableHeader::Port;
    let icmp = PacketBuilder::ipv4(SERVER, CLIENT, 64)
        .icmpv4(etherparse::Icmpv4Type::DestinationUnreachable(unreachable));
    icmp.write(&mut error, &inner).unwrap();
    let (out, _) = changed(LinkType::RAW, &error);
    assert!(has_right_checksums(&out) && has_right_checksums(&out[28..]));
    assert!(!shows(&out, &CLIENT) && !shows(&out, &SERVER) && !shows(&out, b"secret"));
    // The quoted flow is that of the packet itself.
    assert_eq!(out[28 + 12..28 + 20], changed(LinkType::RAW, &inner).0[12..20]);
}

#[test]
fn ipv6_and_cooked_captures_are_changed() {
    let mut v6 = Vec::new();
    let from = [0x20, 1, 0x0d, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let tcp = PacketBuilder::ipv6(from, [0xfd; 16], 64).tcp(40_000, 80, 7, 9).ack(3);
    tcp.write(&mut v6, b"secret").unwrap();
    let cooked = [&[0, 0, 0, 1, 0, 6, 9, 9, 9, 9, 9, 9, 5, 5, 0x86, 0xdd][..], &v6].concat();
    let (out, _) = changed(LinkType::LINUX_SLL, &cooked);
    assert!(!shows(&out, &from[4..]) && !shows(&out, &[9; 6]) && !shows(&out, &[5, 5]));
    let ip = etherparse::SlicedPacket::from_ip(&out[16..]).unwrap();
    let (Some(etherparse::NetSlice::Ipv6(v6)), Some(etherparse::TransportSlice::Tcp(tcp))) =
        (ip.net, ip.transport)
    else {
        panic!("no TCP in IPv6")
    };
    let sum = tcp.to_header().calc_checksum_ipv6(&v6.header().to_header(), tcp.payload()).unwrap();
    assert_eq!((sum, tcp.payload()), (tcp.checksum(), &b"......"[..]));
}

#[test]
fn frames_that_are_not_understood_lose_their_bytes_and_are_counted() {
    let arp = [&[2, 9, 9, 9, 9, 1, 2, 9, 9, 9, 9, 2, 8, 6][..], b"who has alice?"].concat();
    for (link, bytes) in [(LinkType::ETHERNET, &arp), (LinkType(105), &arp)] {
        let (out, anonymizer) = changed(link, bytes);
        assert!(!shows(&out, b"alice") && !shows(&out, &[9; 4]));
        assert_eq!(anonymizer.counts().not_understood, 1);
    }
    // A damaged header shows nothing, however much of a frame was captured.
    let whole = [&[0x45, 0, 0, 60][..], b"GET /alice HTTP/1.1 and so on, at length"].concat();
    for end in 0..whole.len() {
        assert!(!shows(&changed(LinkType::RAW, &whole[..end]).0, b"and so"));
    }
}

proptest! {
    /// The length of a frame is preserved whatever it contains, and nothing panics.
    #[test]
    fn any_frame_can_be_changed(
        head in prop::sample::select(vec![
            Vec::new(), tcp_packet(b"GET / HTTP/1.1\r\n\r\n"), udp_packet(53, &[0; 40]), udp_packet(4789, &[8; 60]),
        ]),
        tail in prop::collection::vec(any::<u8>(), 0..80),
        changes in prop::collection::vec((0..100_usize, any::<u8>()), 0..6),
        link in prop::sample::select(vec![0, 1, 9, 101, 113, 276, 239]),
    ) {
        let mut bytes = [head, tail].concat();
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        changed(LinkType(link), &bytes);
    }

    /// A conversation in pieces is masked in the same way as the complete one.
    #[test]
    fn marks_stay_however_a_conversation_is_cut(cut in 1..60_usize) {
        let request = b"GET /users/17 HTTP/1.1\r\nCookie: a=b\r\n\r\n";
        let response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let pieces = request.chunks(cut).map(|it| (Client, it));
        let said: Vec<Said<'_>> = pieces.chain(response.chunks(cut).map(|it| (Server, it))).collect();
        assert_masked(80, &said, &[]);
    }
}
