//! TLS whose secrets are known: captures of real programs (`testdata/tls`), each with its key log in a
//! Decryption Secrets Block.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tcpwhy_core::capture::{Block, CaptureSet, Source};
use tcpwhy_core::drill::Drill;
use tcpwhy_core::model::Report;
use tcpwhy_core::pipeline::{Analysis, Options};
use tcpwhy_core::report::json::render;
use tcpwhy_core::survey::{Begun, JoinError, begin};
use tcpwhy_testing::Folder;

/// The captures, with the requests in them, which Wireshark counts as well.
const CAPTURES: [(&str, u64); 12] = [
    ("tls12_aes128_gcm", 3),
    ("tls12_aes256_gcm", 3),
    ("tls12_cbc_sha1", 3),
    ("tls12_cbc_sha256", 3),
    ("tls12_cbc_sha384_etm", 3),
    ("tls12_chacha20", 3),
    ("tls13", 3),
    ("tls13_aes128_gcm", 1),
    ("tls13_early", 3),
    ("tls13_http2", 2),
    ("tls13_keyupdate", 3),
    ("tls13_retry_chacha20", 1),
];

/// Values in most captures: of a query, of two headers, and of a body.
const VALUES: [&str; 4] = ["q-3e8a4b17", "h-9c2f5d60", "c-5b7e9d31", "body-6f1d2c9a"];

const DECRYPTION_SECRETS: u32 = 10;
const ENHANCED_PACKET: u32 = 6;

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tls");
    folder.join(name).with_extension("pcapng")
}

/// The blocks of a capture, with their types.
fn blocks(capture: &[u8]) -> Vec<(u32, &[u8])> {
    let (mut rest, mut blocks) = (capture, Vec::new());
    while let Some((head, _)) = rest.split_first_chunk::<8>() {
        let [kind, length] =
            [0, 4].map(|at| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes")));
        let (block, behind) = rest.split_at(length as usize);
        blocks.push((kind, block));
        rest = behind;
    }
    blocks
}

/// The capture without the blocks that are not `kept`, by their place and type.
fn only(capture: &[u8], kept: impl Fn(usize, u32) -> bool) -> Vec<u8> {
    let blocks = blocks(capture).into_iter().enumerate();
    blocks.filter(|&(at, (kind, _))| kept(at, kind)).flat_map(|(_, (_, it))| it).copied().collect()
}

/// The key log in a capture.
fn key_log(capture: &[u8]) -> Vec<u8> {
    let blocks = blocks(capture);
    let (_, block) = blocks.iter().find(|(kind, _)| *kind == DECRYPTION_SECRETS).expect("secrets");
    let length = u32::from_le_bytes(block[12..16].try_into().expect("four bytes"));
    block[16..16 + length as usize].to_vec()
}

fn tcpwhy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcpwhy")).args(arguments).output().expect("tcpwhy runs")
}

fn json(arguments: &[&str]) -> Value {
    let output = tcpwhy(&[arguments, &["--json", "--all", "--no-progress"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

/// Number of requests whose kind is known.
fn requests(report: &Value) -> u64 {
    let endpoints = report["endpoints"].as_array().expect("a list");
    let kinds = endpoints.iter().flat_map(|it| it["kinds"].as_array().expect("a list"));
    let read = kinds.filter(|it| it["kind"].as_str().is_some_and(|it| it.starts_with("GET /")));
    read.filter_map(|it| it["exchanges"].as_u64()).sum()
}

/// The report of a capture in memory.
fn analysed(capture: Vec<u8>) -> Option<Report> {
    analysed_with(&capture).map(|(report, _)| report)
}

/// The report of a capture in memory, and the options it was made with.
fn analysed_with(capture: &[u8]) -> Option<(Report, Options)> {
    let sources = || {
        let source = Source::memory("changed.pcapng", capture);
        Ok::<_, Failed>(vec![source])
    };
    let begun = begin(sources().ok()?, &sources, Options::default(), Some(1), &|| true);
    let Begun { options, mut capture, .. } = begun.ok()?;
    let mut analysis = Analysis::new(options.clone());
    analysis.run(&mut capture, &mut |_| true).ok()?;
    Some((analysis.finish(capture.inputs()), options))
}

#[derive(Debug)]
struct Failed;

impl From<tcpwhy_core::capture::CaptureError> for Failed {
    fn from(_: tcpwhy_core::capture::CaptureError) -> Self {
        Self
    }
}

impl From<JoinError> for Failed {
    fn from(_: JoinError) -> Self {
        Self
    }
}

#[test]
fn requests_in_tls_are_those_that_wireshark_counts() {
    for (name, expected) in CAPTURES {
        let report = json(&[&file(name).display().to_string()]);
        assert_eq!(requests(&report), expected, "{name}");
        let observations = report["observations"].to_string();
        assert!(observations.contains("tls_opened"), "{name}: {observations}");
    }
}

/// Drawings read what the report has read, so that they show the same exchanges.
#[test]
fn a_drawing_opens_what_the_report_opened() {
    for (name, expected) in CAPTURES {
        let capture = fs::read(file(name)).expect("a capture");
        let (report, options) = analysed_with(&capture).expect("a report");
        let mut drawn = 0;
        for connection in &report.connections {
            let source = Source::memory(name, capture.as_slice());
            let mut blocks = CaptureSet::new(vec![source]).expect("a capture");
            let (mut drill, mut block) = (Drill::new(&options, connection), Block::default());
            while blocks.next_block(&mut block).expect("readable") && drill.take(&block) {}
            let exchanges = drill.slices();
            assert_eq!(exchanges.len() as u64, connection.exchanges, "{name}");
            let slices = exchanges.iter().flat_map(|(_, slices)| slices);
            let drawn_ns: u64 = slices.map(|slice| slice.ns).sum();
            assert_eq!(drawn_ns, connection.ledger.total_ns(), "{name}");
            drawn += connection.exchanges;
        }
        assert!(drawn >= expected, "{name}: {drawn} exchanges");
    }
}

#[test]
fn a_key_log_opens_what_a_block_of_secrets_opens() {
    let folder = Folder::new();
    for (name, expected) in CAPTURES {
        let capture = fs::read(file(name)).expect("a capture");
        let (closed, log) = (folder.join("closed.pcapng"), folder.join("keys.txt"));
        fs::write(&closed, only(&capture, |_, kind| kind != DECRYPTION_SECRETS)).expect("written");
        fs::write(&log, key_log(&capture)).expect("written");
        let (closed, log) = (closed.display().to_string(), log.display().to_string());
        assert_eq!(requests(&json(&[&closed])), 0, "{name}");
        let report = json(&[&closed, "--keylog", &log]);
        assert_eq!(requests(&report), expected, "{name}");
        assert_eq!(report["endpoints"], json(&[&file(name).display().to_string()])["endpoints"]);
    }
}

#[test]
fn secrets_behind_the_packets_open_them_too() {
    let folder = Folder::new();
    let late = folder.join("late.pcapng");
    let capture = fs::read(file("tls13")).expect("a capture");
    let packets = only(&capture, |_, kind| kind != DECRYPTION_SECRETS);
    let secrets = only(&capture, |_, kind| kind == DECRYPTION_SECRETS);
    fs::write(&late, [packets, secrets].concat()).expect("written");
    assert_eq!(requests(&json(&[&late.display().to_string()])), 3);
}

#[test]
fn keys_of_other_connections_are_named_as_missing() {
    let folder = Folder::new();
    let log = folder.join("keys.txt");
    fs::write(&log, key_log(&fs::read(file("tls12_chacha20")).expect("a capture")))
        .expect("written");
    let capture = fs::read(file("tls13")).expect("a capture");
    let closed = folder.join("closed.pcapng");
    fs::write(&closed, only(&capture, |_, kind| kind != DECRYPTION_SECRETS)).expect("written");
    let (closed, log) = (closed.display().to_string(), log.display().to_string());
    let report = json(&[&closed, "--keylog", &log]);
    let observations = report["observations"].to_string();
    let said = "The keys open 0 of 1 TLS connection; 1 has no secret in the key log.";
    assert!(observations.contains(said), "{observations}");
    assert_eq!(report["endpoints"], json(&[&closed])["endpoints"], "as without keys");
}

#[test]
fn a_hello_retry_request_is_named_with_keys_and_without() {
    let folder = Folder::new();
    let capture = fs::read(file("tls13_retry_chacha20")).expect("a capture");
    let closed = folder.join("closed.pcapng");
    fs::write(&closed, only(&capture, |_, kind| kind != DECRYPTION_SECRETS)).expect("written");
    for path in [file("tls13_retry_chacha20"), closed] {
        let path = path.display().to_string();
        let report = json(&[&path, "--min-share", "1", "--min-lost", "1us"]);
        let facts = report["findings"].to_string();
        assert!(facts.contains("\"hello_retries\""), "{path}: {facts}");
    }
}

#[test]
fn a_file_without_secrets_is_no_key_log() {
    let output = tcpwhy(&["capture.pcap", "--keylog", env!("CARGO_MANIFEST_DIR")]);
    assert_eq!(output.status.code(), Some(2));
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = tcpwhy(&["capture.pcap", "--keylog", manifest]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("it has no secret of a TLS connection"), "{error}");
}

/// Number of requests whose kind is known.
fn requests_of(report: &Report) -> u64 {
    let text = render(report, "").expect("JSON");
    requests(&serde_json::from_str(&text).expect("JSON"))
}

/// Neither a cut nor a lost packet makes more of a capture than is in it.
#[test]
fn captures_with_holes_and_cuts_have_no_more_requests() {
    for (name, whole) in CAPTURES {
        let capture = fs::read(file(name)).expect("a capture");
        let count = blocks(&capture).len();
        for lost in 0..count {
            let kept = |at, kind| at != lost || kind != ENHANCED_PACKET;
            let report = analysed(only(&capture, kept)).expect("a report");
            assert!(requests_of(&report) <= whole, "{name} without block {lost}");
        }
        for end in (0..capture.len()).step_by(61) {
            if let Some(report) = analysed(capture[..end].to_vec()) {
                assert!(requests_of(&report) <= whole, "{name} up to byte {end}");
            }
        }
    }
}

#[test]
fn no_output_has_a_secret_or_a_value_from_inside() {
    let folder = Folder::new();
    for (name, _) in CAPTURES {
        let capture = fs::read(file(name)).expect("a capture");
        let (log, path) = (folder.join("keys.txt"), file(name).display().to_string());
        fs::write(&log, key_log(&capture)).expect("written");
        let log = log.display().to_string();
        let outputs: [&[&str]; 8] = [
            &[&path, "--all", "--keylog", &log],
            &[&path, "--all", "--json"],
            &[&path, "--check", "--json"],
            &[&path, "--connection", "1", "--all"],
            &[&path, "--connection", "1", "--exchange", "1", "--why", "--json"],
            &["report", &path, "-o", "-", "--keylog", &log],
            &["anonymize", &path, "-o", "-"],
            &[&path, "--filter", "cause dns_slow", "--json"],
        ];
        let mut written = Vec::new();
        for arguments in outputs {
            let output = tcpwhy(&[arguments, &["--no-progress"]].concat());
            written.push([output.stdout, output.stderr].concat());
        }
        let secrets: Vec<String> = String::from_utf8(key_log(&capture))
            .expect("text")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split(' ').nth(2).map(str::to_owned))
            .collect();
        assert!(!secrets.is_empty());
        for (output, arguments) in written.iter().zip(outputs) {
            assert!(!output.is_empty(), "{name}: {arguments:?}");
            let text = String::from_utf8_lossy(output);
            for value in VALUES {
                assert!(!text.contains(value), "{name}: {value} in {arguments:?}");
            }
            for secret in &secrets {
                let raw: Vec<u8> = (0..secret.len())
                    .step_by(2)
                    .filter_map(|at| u8::from_str_radix(&secret[at..at + 2], 16).ok())
                    .collect();
                let has_raw = output.windows(16).any(|it| it == &raw[..16]);
                assert!(!text.contains(secret) && !has_raw, "{name}: a secret in {arguments:?}");
            }
        }
    }
}
