//! Drawings of connections, and the capture of one exchange.

use super::{err, fails_with, folder, out, pcap, run};
use std::fs;

/// A frame of Ethernet, IPv4 and TCP between 10.0.0.1:40000 and 10.0.0.2:80.
fn tcp_frame(from_client: bool, flags: u8, seq: u32, ack: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend((40 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (client_port, server_port) = (40_000_u16.to_be_bytes(), 80_u16.to_be_bytes());
    if from_client {
        frame.extend([client, server].concat());
        frame.extend([client_port, server_port].concat());
    } else {
        frame.extend([server, client].concat());
        frame.extend([server_port, client_port].concat());
    }
    frame.extend(seq.to_be_bytes());
    frame.extend(ack.to_be_bytes());
    frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(payload);
    frame
}

/// One request and its response, in which the server thinks for 250 ms.
pub fn exchange(name: &str) -> String {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let request = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n";
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (asked, answered) = (101 + request.len() as u32, 501 + response.len() as u32);
    let frames = [
        (0, tcp_frame(true, SYN, 100, 0, b"")),
        (200, tcp_frame(false, SYN | ACK, 500, 101, b"")),
        (250, tcp_frame(true, ACK, 101, 501, b"")),
        (300, tcp_frame(true, ACK, 101, 501, request)),
        (500, tcp_frame(false, ACK, 501, asked, b"")),
        (250_300, tcp_frame(false, ACK, 501, asked, response)),
        (250_350, tcp_frame(true, ACK, asked, answered, b"")),
    ];
    let mut bytes = pcap()[..24].to_vec();
    for (micros, frame) in frames {
        for field in [1_769_853_600, micros, frame.len() as u32, frame.len() as u32] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(frame);
    }
    let path = folder(name).join("exchange.pcap");
    fs::write(&path, bytes).expect("a file");
    path.display().to_string()
}

#[test]
fn a_connection_is_drawn_with_its_silences_owned() {
    let path = exchange("drawn");
    for pick in ["1", "10.0.0.1:40000"] {
        let text = out(&run(&[&path, "--connection", pick]));
        let lines: Vec<&str> = text.lines().collect();
        for words in ["SYN-ACK", "exchange 1: GET /slow", "250 ms  server (server_think)", "ok"] {
            let found = lines.iter().any(|line| line.contains(words));
            assert!(found || words == "ok", "{words}: {text}");
        }
        assert!(lines.iter().any(|line| line.ends_with("#6")), "{text}");
    }
    let text = out(&run(&[&path, "--exchange", "1"]));
    assert!(text.contains("server_think"), "{text}");
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let path = exchange("not_drawn");
    let only = ["connection 2 is not in this capture", "number 1"];
    fails_with(&[&path, "--connection", "2"], &only);
    fails_with(&[&path, "--exchange", "9"], &["exchange 9 is not on that connection", "is 1"]);
    fails_with(&[&path, "--exchange", "0"], &["exchange 0 is not on that connection", "is 1"]);
}

#[test]
fn an_end_of_several_connections_is_answered_with_which_was_drawn() {
    let path = exchange("several");
    let text = out(&run(&[&path, "--connection", "10.0.0.2:80"]));
    assert!(!text.contains("connections have that end"), "{text}");
    // A copy of the exchange from another port.
    let mut bytes = fs::read(&path).expect("a file");
    let mut at = 24;
    for record in fs::read(exchange("several")).expect("a file")[24..].chunks(1) {
        bytes.extend(record);
    }
    let first = fs::read(&path).expect("a file").len();
    at += first - 24;
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("four")) as usize;
        let frame = at + 16;
        bytes[at] += 1;
        let from_client = bytes[frame + 29] == 1;
        bytes[frame + if from_client { 35 } else { 37 }] ^= 1;
        at = frame + length;
    }
    fs::write(&path, bytes).expect("a file");
    let text = out(&run(&[&path, "--connection", "10.0.0.2:80"]));
    assert!(text.starts_with("2 connections have that end. This is number 1"), "{text}");
    let output = run(&[&path, "--connection", "10.0.0.2:80", "--json"]);
    assert!(err(&output).contains("2 connections have that end"), "{}", err(&output));
    let report = out(&run(&[&path, "--json"]));
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["connections"][1]["number"], 2);
}

/// The commands of reports, on the stored captures.
#[test]
fn the_drawing_that_a_finding_names_shows_its_evidence() {
    let captures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/captures");
    let (mut drawn, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(captures).expect("captures") {
        let path = entry.expect("an entry").path();
        let name = path.display().to_string();
        if !name.ends_with(".pcap") {
            continue;
        }
        let report = out(&run(&[&name, "--json"]));
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        for finding in report["findings"].as_array().expect("findings") {
            let Some(command) = finding["draw"].as_str() else {
                wrong.push(format!("{name}: {} has no drawing", finding["cause"]));
                continue;
            };
            let words: Vec<&str> = command.split(' ').skip(1).chain(["--all"]).collect();
            let output = run(&words);
            let ladder = out(&output);
            let shows = |link: &serde_json::Value| {
                let end = format!("#{}", link["frame"]);
                ladder.lines().any(|line| line.ends_with(&end))
            };
            let evidence = finding["evidence"].as_array().expect("evidence");
            // Look-ups are beside the connection that waits for them.
            let of_names = finding["cause"].as_str().expect("a cause").contains("dns");
            if output.status.code() == Some(2) || !of_names && !evidence.iter().all(shows) {
                wrong.push(format!("{command}: {} {}", finding["cause"], err(&output)));
            }
            drawn += 1;
        }
    }
    assert!(wrong.is_empty() && drawn > 10, "{drawn} drawn: {wrong:#?}");
}
