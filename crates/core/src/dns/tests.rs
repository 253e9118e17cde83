//! Traffic as timed text: `seconds q|r client-port server id type name [answer]`.
//!
//! `q` is a query, `r` its response: an address, `NXDOMAIN`, `SERVFAIL`, `REFUSED`, `NODATA` or
//! `TC`; `r1` is the first IP fragment of one, `r2` a later one of the packet with that id. `icmp`
//! in their place is a port unreachable about the query's datagram, `closed` one of the client about
//! the answer's.

use super::{Lookup, LookupOutcome, MessageContext, Query, Tracker, Transport};
use crate::capture::FrameId;
use crate::model::Cause;
use crate::wire::Endpoint;
use crate::wire::dns_message::{Answer, Message, MessageError, qtype, rcode};

mod again;
mod at_once;
mod early;
mod failures;
mod fragments;
mod lookups;
mod messages;
mod times;
mod unasked;

const CLIENT: &str = "10.0.0.2";

fn endpoint(address: &str, port: u16) -> Endpoint {
    let ip: std::net::IpAddr = address.parse().expect("an address");
    let address = match ip {
        std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(ip) => ip.octets(),
    };
    Endpoint { address, port }
}

fn push_name(bytes: &mut Vec<u8>, name: &str) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
}

fn type_of(word: &str) -> u16 {
    match word {
        "A" => qtype::A,
        "AAAA" => qtype::AAAA,
        "PTR" => qtype::PTR,
        "HTTPS" => qtype::HTTPS,
        other => other.parse().expect("a type"),
    }
}

/// Encodes a message; `answer` is `None` in a query.
fn encode(id: u16, kind: u16, name: &str, answer: Option<&str>) -> Vec<u8> {
    let address = answer.and_then(|answer| answer.parse::<std::net::IpAddr>().ok());
    let flags: u16 = match answer {
        None => 0x0100,
        Some("NXDOMAIN") => 0x8180 | u16::from(rcode::NXDOMAIN),
        Some("SERVFAIL") => 0x8180 | u16::from(rcode::SERVFAIL),
        Some("REFUSED") => 0x8180 | u16::from(rcode::REFUSED),
        Some("TC") => 0x8380,
        Some(_) => 0x8180,
    };
    let mut bytes = Vec::new();
    for word in [id, flags, 1, u16::from(address.is_some()), 0, 0] {
        bytes.extend(word.to_be_bytes());
    }
    push_name(&mut bytes, name);
    bytes.extend([kind, 1].iter().flat_map(|word| word.to_be_bytes()));
    let data = match address {
        Some(std::net::IpAddr::V4(ip)) => ip.octets().to_vec(),
        Some(std::net::IpAddr::V6(ip)) => ip.octets().to_vec(),
        None => return bytes,
    };
    bytes.extend([0xc0, 12]);
    bytes.extend([kind, 1, 0, 60, data.len() as u16].iter().flat_map(|word| word.to_be_bytes()));
    bytes.extend(data);
    bytes
}

/// Feeds a trace from `client`; frames are numbered like the lines.
fn feed(tracker: &mut Tracker, client: &str, trace: &str) -> u64 {
    let mut end_ns = 0;
    for (at, line) in trace.lines().filter(|line| !line.trim().is_empty()).enumerate() {
        let words: Vec<_> = line.split_whitespace().collect();
        let time_ns = (words[0].parse::<f64>().expect("seconds") * 1e9).round() as u64;
        let frame = FrameId::new(0, at as u64 + 1);
        end_ns = time_ns;
        if words[1] == "end" {
            continue;
        }
        let client = endpoint(client, words[2].parse().expect("a port"));
        let server = endpoint(words[3], 53);
        if words[1] == "icmp" {
            let router = words.get(4).map(|router| endpoint(router, 0));
            tracker.unreachable((time_ns, frame), &client, &server, router);
            continue;
        }
        if words[1] == "closed" {
            tracker.rejected(time_ns, frame, &client, &server);
            continue;
        }
        let id = words[4].parse().expect("an id");
        let bytes = encode(id, type_of(words[5]), words[6], words.get(7).copied());
        let stream = Transport::Stream { opened_ns: None };
        let (source, destination, carrier) = match words[1] {
            "q" => (&client, &server, Transport::Datagram),
            "r" => (&server, &client, Transport::Datagram),
            "r1" => (&server, &client, Transport::Beginning { id: u32::from(id) }),
            "r2" => (&server, &client, Transport::LaterFragment { id: u32::from(id) }),
            "tq" => (&client, &server, stream),
            "tr" => (&server, &client, stream),
            other => panic!("{other} is no event"),
        };
        let payload_bytes = bytes.len() as u32;
        let carried =
            MessageContext { time_ns, frame, payload_bytes, source, destination, carrier, ttl: 64 };
        tracker.message(&carried, &bytes);
    }
    end_ns
}

fn lookups(trace: &str) -> Vec<Lookup> {
    let mut tracker = Tracker::new(true);
    let end_ns = feed(&mut tracker, CLIENT, trace);
    let lookups = tracker.finish(end_ns);
    for lookup in &lookups {
        let sum: u64 = lookup.split(None, 0).iter().map(|(_, ns)| ns).sum();
        assert_eq!(sum, lookup.end_ns - lookup.start_ns, "{lookup:#?}");
    }
    lookups
}

/// Returns the only look-up of a trace.
fn lookup(trace: &str) -> Lookup {
    let mut lookups = lookups(trace);
    assert_eq!(lookups.len(), 1, "{lookups:#?}");
    lookups.remove(0)
}

/// Returns the lost time, milliseconds by cause id; `-` is time without a cause. Zeros are left
/// out.
fn lost(lookup: &Lookup) -> String {
    let split = lookup.split(None, 0);
    let parts = split.iter().filter(|(_, ns)| *ns > 0);
    let parts =
        parts.map(|(cause, ns)| format!("{} {}", cause.map_or("-", Cause::id), *ns as f64 / 1e6));
    parts.collect::<Vec<_>>().join(", ")
}
