//! `tcpwhy anonymize`: the diagnosis stays, names and payload go.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tcpwhy_core::anonymize::Names;
use tcpwhy_core::capture::{Block, CaptureSet, Source};
use tcpwhy_core::wire::{FlowHasher, Packet, Segment, decode};

const SEED: u64 = 7;

fn tcpwhy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcpwhy")).args(arguments).output().expect("tcpwhy runs")
}

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let mut captures: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the stored captures")
        .map(|it| it.expect("one").path())
        .collect();
    captures.sort();
    captures
}

fn capture(name: &str) -> PathBuf {
    captures().into_iter().find(|it| it.ends_with(name)).expect("this capture is stored")
}

/// A folder for one test's files.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn names() -> Names {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&SEED.to_le_bytes());
    Names::new(key)
}

fn anonymize(capture: &Path, out: &Path) -> Value {
    let seed = SEED.to_string();
    let paths = [capture, out].map(|it| it.to_str().expect("a name"));
    let done = tcpwhy(&["anonymize", paths[0], "-o", paths[1], "--seed", &seed, "--json"]);
    assert!(done.status.success(), "{}: {}", paths[0], String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

/// Time, lengths, and the bytes of each frame; a segment's payload begins at the last number.
struct Taken {
    time_ns: u64,
    original_len: u32,
    bytes: Vec<u8>,
    payload_at: Option<usize>,
}

fn frames(path: &Path) -> Vec<Taken> {
    let source = Source::memory("one", fs::read(path).expect("a file"));
    let mut set = CaptureSet::new(vec![source]).expect("a capture");
    let (mut block, mut frames) = (Block::default(), Vec::new());
    let hasher = FlowHasher::new(0);
    while set.next_block(&mut block).expect("frames") {
        frames.extend(block.frames().map(|it| {
            let mut segment = Segment::default();
            let is_tcp = matches!(decode(&it, &hasher, &mut segment), Packet::Tcp);
            Taken {
                time_ns: it.time_ns,
                original_len: it.original_len,
                bytes: it.bytes.to_vec(),
                payload_at: is_tcp.then_some(segment.payload_offset as usize),
            }
        }));
    }
    frames
}

/// The report, but for what it says of the file itself.
fn report(path: &Path) -> Value {
    let name = path.to_str().expect("a name");
    let output = tcpwhy(&[name, "--json"]);
    let text = String::from_utf8_lossy(&output.stdout).replace(name, "FILE");
    let mut report: Value = serde_json::from_str(&text).expect("a report");
    report.as_object_mut().expect("a report").remove("inputs");
    report
}

/// An address in a report as it is after the command, if `text` is one.
fn address(text: &str) -> Option<String> {
    let mapped = match text.parse().ok()? {
        IpAddr::V4(it) => Ipv4Addr::from(names().ipv4(it.into())).to_string(),
        IpAddr::V6(it) => Ipv6Addr::from(names().ipv6(it.into())).to_string(),
    };
    Some(mapped)
}

/// `text` with pseudonyms in place of the addresses in it.
fn with_addresses(text: &str) -> String {
    let is_part = |it: char| it.is_ascii_hexdigit() || it == '.' || it == ':';
    let mut mapped = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
        let (token, behind) = rest.split_at(end);
        // A port or the end of a sentence may stand behind an address.
        let ends = (1..=token.len()).rev();
        let found = ends
            .filter(|&end| token.is_char_boundary(end))
            .find_map(|end| address(&token[..end]).map(|it| it + &token[end..]));
        mapped.push_str(&found.unwrap_or_else(|| token.to_owned()));
        let between = behind.find(is_part).unwrap_or(behind.len());
        mapped.push_str(&behind[..between]);
        rest = &behind[between..];
    }
    mapped
}

/// Words of paths and host names in `report`, longest first: kinds of requests and what is looked up.
fn words(report: &Value, into: &mut BTreeSet<String>) {
    match report {
        Value::Object(members) => members.iter().for_each(|(key, value)| match value.as_str() {
            Some(text) if matches!(key.as_str(), "kind" | "request_kind" | "question" | "name") => {
                let path = text.split_once(" /").map(|(_, path)| path);
                let host = Some(text).filter(|it| it.contains('.') && !it.contains(' '));
                let parts = path
                    .or(host)
                    .into_iter()
                    .flat_map(|it| it.split(|it: char| !it.is_ascii_alphanumeric()));
                into.extend(parts.filter(|it| it.len() > 1 && *it != "id").map(str::to_owned));
            }
            _ => words(value, into),
        }),
        Value::Array(values) => values.iter().for_each(|it| words(it, into)),
        _ => {}
    }
}

/// The report of a capture as that of the anonymized one has to be.
fn expected(report: &Value, words: &BTreeSet<String>) -> Value {
    match report {
        Value::String(text) => Value::String(with_words(&with_addresses(text), words)),
        Value::Array(values) => values.iter().map(|it| expected(it, words)).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, it)| (key.clone(), expected(it, words)));
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

fn with_words(text: &str, words: &BTreeSet<String>) -> String {
    let mut mapped = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let is_part = |it: char| it.is_ascii_alphanumeric();
        let end = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
        let mut word = rest[..end].as_bytes().to_vec();
        if words.contains(&rest[..end]) {
            names().words(&mut word);
        }
        mapped.push_str(&String::from_utf8(word).expect("ASCII"));
        let between = rest[end..].find(is_part).map_or(rest.len(), |it| end + it);
        mapped.push_str(&rest[end..between]);
        rest = &rest[between..];
    }
    mapped
}

/// Where two reports differ, as far as the first few differences.
fn differences(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        _ if one == other || found.len() > 8 => {}
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            a.iter()
                .for_each(|(key, it)| differences(&format!("{path}.{key}"), it, &b[key], found));
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.for_each(|(at, (a, b))| differences(&format!("{path}[{at}]"), a, b, found));
        }
        _ => found.push(format!("{path}: {one} {other}")),
    }
}

#[test]
fn the_diagnosis_stays_but_for_names() {
    let out = folder("anonymize-same").join("out.pcap");
    let mut wrong = Vec::new();
    for capture in captures() {
        let name = capture.file_name().expect("a name").to_string_lossy().into_owned();
        assert_eq!(anonymize(&capture, &out)["problem"], Value::Null, "{name}");
        let (before, after) = (report(&capture), report(&out));
        let mut said = BTreeSet::new();
        words(&before, &mut said);
        let mut found = Vec::new();
        differences("", &expected(&before, &said), &after, &mut found);
        if !found.is_empty() {
            wrong.push(format!("{name}:\n  {}", found.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
