//! One place's capture in several files, where much of it is sent again with the same bytes: by floods,
//! scans, and timers whose packets never arrive.

use crate::diagnosis::{joined, sited};
use crate::frames::{Packet, pcap};
use crate::language::{Place, parse};
use crate::network::packets;
use tcpwhy_core::model::Report;
use tcpwhy_core::report::json;

/// A captured frame.
type Stamped = (u64, Packet);

/// Lines of the language in the order in which they pass `place`; repeated lines have equal bytes.
fn traffic(mut lines: Vec<(f64, String)>, place: Place) -> Vec<Stamped> {
    lines.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let text: Vec<_> = lines.iter().map(|(at, line)| format!("{at:.3} {line}")).collect();
    let mut seen = packets(&parse(&text.join("\n")), place);
    for (_, packet) in &mut seen {
        (packet.ip_id, packet.timestamps) = (0, None);
    }
    // Files are cut by time: no two frames have the same one.
    for index in 1..seen.len() {
        seen[index].0 = seen[index].0.max(seen[index - 1].0 + 1);
    }
    seen
}

/// Returns the packets of 40 clients that begin a handshake each, again and again every
/// `period_ms`, and never complete it.
fn flood(period_ms: f64) -> Vec<Stamped> {
    let mut lines = Vec::new();
    for (round, stranger) in (0..5).flat_map(|round| (0..40).map(move |it| (round, it))) {
        let at = period_ms * (f64::from(round) + f64::from(stranger) / 41.0);
        lines.push((at, format!(">{} S", 10 + stranger)));
        lines.push((at + 0.1, format!("<{} S.", 10 + stranger)));
    }
    traffic(lines, Place::Server)
}

/// A client that tries 40 closed ports twice, a second apart.
fn scan() -> Vec<Stamped> {
    let mut lines = Vec::new();
    for (round, port) in (0..2).flat_map(|round| (0..40).map(move |it| (round, it))) {
        let at = 1_000.0 * f64::from(round) + 10.0 * f64::from(port);
        lines.push((at, format!(">{} S", 10 + port)));
        lines.push((at + 0.1, format!("<{} R.", 10 + port)));
    }
    traffic(lines, Place::Client)
}

/// An outage: 12 requests that their clients repeat by timer, and that are answered in the end.
fn outage() -> Vec<Stamped> {
    let request = r#"P. seq 1 ack 1 "GET / HTTP/1.1\r\nHost: a\r\n\r\n""#;
    let mut lines = Vec::new();
    for client in 0..12 {
        let at = 7.0 * f64::from(client);
        let number = 10 + client;
        lines.extend([(at, format!(">{number} S")), (at + 1.0, format!("<{number} S."))]);
        lines.push((at + 2.0, format!(">{number} .")));
        for again in [3.0, 203.0, 603.0, 1_403.0] {
            let lost = if again < 1_000.0 { " lost" } else { "" };
            lines.push((at + again, format!(">{number} {request}{lost}")));
        }
        let answer = r#"P. "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok""#;
        lines.push((at + 1_404.0, format!("<{number} {answer}")));
        lines.push((at + 1_405.0, format!(">{number} .")));
    }
    traffic(lines, Place::Client)
}

/// Returns the lines of a handshake and of some exchanges.
fn conversation(client: u16, from_ms: f64, exchanges: u16) -> Vec<(f64, String)> {
    let opening = [(0.0, format!(">{client} S")), (0.1, format!("<{client} S."))];
    let mut lines: Vec<_> = opening.into_iter().chain([(0.2, format!(">{client} ."))]).collect();
    for exchange in 0..exchanges {
        let at = 1.0 + 10.0 * f64::from(exchange);
        lines.extend([
            (at, format!(r#">{client} P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n""#)),
            (at + 0.1, format!(r#"<{client} P. "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok""#)),
            (at + 0.2, format!(">{client} .")),
        ]);
    }
    lines.into_iter().map(|(at, line)| (from_ms + at, line)).collect()
}

/// A conversation of six exchanges. An answer and two ACKs of it come once more, late: around the
/// last exchange, when nothing is left for the second half of the capture but another conversation.
fn late_copies() -> Vec<Stamped> {
    let mut frames = traffic(conversation(10, 0.0, 6), Place::Server);
    let last = frames.split_off(frames.len() - 3);
    let (before_ns, end_ns) = (last[0].0, last[2].0);
    // The second packet of the fourth exchange, and the ACKs of the first and of the fourth.
    let [answer, first, fourth] = [13, 5, 14].map(|index: usize| frames[index].1.clone());
    frames.extend([(before_ns - 2, answer), (before_ns - 1, first)]);
    frames.extend(last);
    frames.push((end_ns + 100_000_000, fourth));
    frames.extend(traffic(conversation(12, 500.0, 3), Place::Server));
    frames
}

/// `count` files, one after the other.
fn cut(frames: &[Stamped], count: usize) -> Vec<Vec<u8>> {
    frames.chunks(frames.len().div_ceil(count)).map(|part| pcap(part, 262_144)).collect()
}

/// `count` files that all span the whole time.
fn dealt(frames: &[Stamped], count: usize) -> Vec<Vec<u8>> {
    let mut files = vec![Vec::new(); count];
    frames.iter().enumerate().for_each(|(index, frame)| {
        files[index * 7 % count].push(frame.clone());
    });
    files.iter().map(|file| pcap(file, 262_144)).collect()
}

fn named(files: &[Vec<u8>]) -> Vec<(&str, &[u8])> {
    files.iter().map(|bytes| ("part", bytes.as_slice())).collect()
}

/// Returns the report without the names of files, the numbers that frames have in them, and the
/// choice among connections that are all alike.
fn told(report: &Report) -> serde_json::Value {
    fn without_frames(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                let depends = |key: &str| {
                    ["frame", "file", "wireshark"].iter().any(|part| key.contains(part))
                };
                fields.retain(|key, _| !depends(key));
                fields.values_mut().for_each(without_frames);
            }
            serde_json::Value::Array(values) => values.iter_mut().for_each(without_frames),
            _ => {}
        }
    }
    let text = json::render(report, "").expect("JSON");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for part in ["inputs", "connections"] {
        value.as_object_mut().map(|top| top.remove(part));
    }
    without_frames(&mut value);
    value
}

#[test]
fn what_is_sent_again_with_the_same_bytes_proves_no_second_place() {
    let cases = [
        ("flood", flood(230.0)),
        ("flood that cycles faster than any timer", flood(90.0)),
        ("scan", scan()),
        ("outage", outage()),
        ("late copies", late_copies()),
    ];
    for (name, frames) in cases {
        let whole = told(&joined(&named(&cut(&frames, 1))));
        for count in [2, 3, 5, 10] {
            let files = cut(&frames, count);
            assert!(!sited(&named(&files)), "{name}, cut into {count}");
            assert_eq!(told(&joined(&named(&files))), whole, "{name}, cut into {count}");
        }
    }
    for (name, frames) in [("flood", flood(230.0)), ("scan", scan()), ("outage", outage())] {
        let whole = told(&joined(&named(&cut(&frames, 1))));
        for count in [2, 3, 5] {
            let files = dealt(&frames, count);
            assert_eq!(told(&joined(&named(&files))), whole, "{name}, dealt to {count}");
        }
    }
}

/// The twins: the same traffic, seen at two places by clocks that agree.
#[test]
fn a_flood_and_a_scan_seen_at_two_places_are_counted_once() {
    for (name, frames) in [("flood", flood(230.0)), ("scan", scan())] {
        let later = |(at_ns, packet): &Stamped| {
            let to_server = packet.destination < packet.source;
            let at_ns = if to_server { at_ns + 20_000 } else { at_ns - 20_000 };
            (at_ns, packet.clone())
        };
        let mut other: Vec<_> = frames.iter().map(later).collect();
        other.sort_by_key(|(at_ns, _)| *at_ns);
        let files = [pcap(&frames, 262_144), pcap(&other, 262_144)];
        assert!(sited(&named(&files)), "{name}");
    }
}
