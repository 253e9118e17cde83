//! `tcpwhy anonymize`: the diagnosis stays, names and payload go.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::str;
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

/// A frame; where it is a segment, where its payload begins, and its addresses.
struct Taken {
    time_ns: u64,
    original_len: u32,
    bytes: Vec<u8>,
    payload_at: Option<usize>,
    addresses: Vec<IpAddr>,
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
                addresses: match is_tcp {
                    true => vec![segment.flow.low.ip(), segment.flow.high.ip()],
                    false => Vec::new(),
                },
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

/// Returns the pseudonym of an address in a report; `None` if `text` is no address.
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

/// Names from the capture that `report` shows, with what becomes of them: paths, what is looked up, programs.
fn pseudonyms(report: &Value, into: &mut BTreeMap<String, String>) {
    match report {
        Value::Object(members) => members.iter().for_each(|(key, value)| match value.as_str() {
            Some(text) => {
                let path = text.split_once(" /").filter(|_| key == "kind").map(|(_, path)| path);
                let is_host = text.contains('.')
                    && !text.contains([' ', ':', '/'])
                    && address(text).is_none();
                let host = Some(text).filter(|_| matches!(&**key, "name" | "question") && is_host);
                path.or(host)
                    .into_iter()
                    .filter(|it| !it.is_empty())
                    .for_each(|it| add(&with_slash(it, path), path.is_some(), into));
            }
            _ => pseudonyms(value, into),
        }),
        Value::Array(values) => values.iter().for_each(|it| pseudonyms(it, into)),
        _ => {}
    }
}

fn add(text: &str, is_path: bool, into: &mut BTreeMap<String, String>) {
    let parts = text.split('/').map(|text| {
        let mut part = text.as_bytes().to_vec();
        match is_path {
            _ if text.contains("{id}") => {}
            true => names().path(&mut part),
            false => names().words(&mut part),
        }
        String::from_utf8(part).expect("UTF-8")
    });
    into.insert(text.to_owned(), parts.collect::<Vec<_>>().join("/"));
}

fn with_slash(text: &str, path: Option<&str>) -> String {
    path.map_or(text.to_owned(), |path| format!("/{path}"))
}

/// The report of a capture as that of the anonymized one has to be.
fn expected(report: &Value, pseudonyms: &BTreeMap<String, String>) -> Value {
    match report {
        Value::String(text) => {
            let mut text = with_addresses(text);
            // Longer names first: one may be part of another.
            let mut names: Vec<_> = pseudonyms.iter().collect();
            names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
            if let Some((name, pseudonym)) =
                names.into_iter().find(|(name, _)| text.contains(&***name))
            {
                text = text.replace(name, pseudonym);
            }
            Value::String(text)
        }
        Value::Array(values) => values.iter().map(|it| expected(it, pseudonyms)).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, it)| (key.clone(), expected(it, pseudonyms)));
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

/// Collects the places where two reports differ, at most the first few.
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
        let mut said = BTreeMap::new();
        pseudonyms(&before, &mut said);
        let mut found = Vec::new();
        differences("", &expected(&before, &said), &after, &mut found);
        if !found.is_empty() {
            wrong.push(format!("{name}:\n  {}", found.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Words that every speaker of a protocol uses, in lower case.
const VOCABULARY: [&str; 42] = [
    "accept",
    "tcpwhy",
    "encoding",
    "language",
    "ranges",
    "authorization",
    "cache",
    "control",
    "content",
    "length",
    "cookie",
    "modified",
    "location",
    "origin",
    "referer",
    "server",
    "expect",
    "continue",
    "transfer",
    "chunked",
    "connection",
    "upgrade",
    "nginx",
    "ubuntu",
    "python",
    "simplehttp",
    "basehttp",
    "select",
    "insert",
    "update",
    "delete",
    "commit",
    "rollback",
    "begin",
    "client",
    "setinfo",
    "agent",
    "httpserver",
    "keep",
    "alive",
    "close",
    "identity",
];

/// Runs of letters and digits in `payload` that are long enough to name something.
fn long_words(payload: &[u8]) -> BTreeSet<&str> {
    const LONG: usize = 6;
    // The length of a body is kept.
    let lines =
        payload.split(|&byte| byte == b'\n').filter(|it| !it.starts_with(b"Content-Length:"));
    let runs = lines.flat_map(|it| it.split(|byte| !byte.is_ascii_alphanumeric()));
    let runs = runs.filter(|it| it.len() >= LONG);
    runs.filter_map(|it| str::from_utf8(it).ok()).collect()
}

#[test]
fn no_address_word_or_body_is_left() {
    let out = folder("anonymize-private").join("out.pcap");
    for capture in captures() {
        let name = capture.display().to_string();
        anonymize(&capture, &out);
        let (before, after) = (frames(&capture), frames(&out));
        assert_eq!(before.len(), after.len(), "{name}");
        let (mut words, mut left) = (0, BTreeSet::new());
        for (one, other) in before.iter().zip(&after) {
            let same = |it: &Taken| (it.time_ns, it.original_len, it.bytes.len(), it.payload_at);
            assert_eq!(same(one), same(other), "{name}");
            let Some(at) = one.payload_at else { continue };
            let shown = long_words(&other.bytes[at..]);
            for word in long_words(&one.bytes[at..]) {
                words += 1;
                // A length in front of a word may look like a letter.
                let lower = word.to_ascii_lowercase();
                let is_common = VOCABULARY
                    .iter()
                    .any(|it| lower.strip_suffix(it).is_some_and(|before| before.len() <= 1));
                if !is_common && shown.contains(word) {
                    left.insert(word.to_owned());
                }
            }
        }
        assert!(left.is_empty(), "{name}: of {words} words there are {left:?}");
        let hosts: BTreeSet<_> = before.iter().flat_map(|it| it.addresses.clone()).collect();
        let pseudonyms: BTreeSet<_> = after.iter().flat_map(|it| it.addresses.clone()).collect();
        assert!(!hosts.is_empty() && hosts.len() == pseudonyms.len(), "{name}");
        for host in hosts.difference(&pseudonyms) {
            let IpAddr::V4(host) = host else { continue };
            let shows = |it: &Taken| it.bytes.windows(4).any(|it| it == host.octets());
            assert!(!after.iter().any(shows), "{name}: {host}");
        }
        let stays = hosts.intersection(&pseudonyms).filter(|it| !it.is_loopback());
        assert!(stays.count() < hosts.len().div_ceil(2).max(2), "{name}: {hosts:?} {pseudonyms:?}");
    }
}

#[test]
fn without_a_key_no_two_runs_give_the_same_names_and_with_one_they_do() {
    let folder = folder("anonymize-key");
    let key = folder.join("key");
    fs::write(&key, [9; 16]).expect("a key");
    let capture = capture("nginx_nodelay_off.pcap");
    let run = |name: &str, options: &[&str]| {
        let out = folder.join(name);
        let paths = [&capture, &out].map(|it| it.to_str().expect("a name"));
        let done = tcpwhy(&[&["anonymize", paths[0], "-o", paths[1]], options].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        fs::read(out).expect("a file")
    };
    let key_file = ["--key-file", key.to_str().expect("a name")];
    assert_ne!(run("one.pcap", &[]), run("other.pcap", &[]));
    assert_eq!(run("one.pcap", &key_file), run("other.pcap", &key_file));
    fs::write(&key, [9; 15]).expect("a key");
    let paths =
        [&capture, &folder.join("none.pcap")].map(|it| it.to_str().expect("a name").to_owned());
    let short = tcpwhy(&["anonymize", &paths[0], "-o", &paths[1], key_file[0], key_file[1]]);
    let said = String::from_utf8_lossy(&short.stderr).into_owned();
    assert!(short.status.code() == Some(2) && said.contains("no key of 16 bytes"), "{said}");
    assert!(!folder.join("none.pcap").exists());
}

#[test]
fn the_capture_itself_is_never_written_to_and_junk_leaves_nothing() {
    let folder = folder("anonymize-itself");
    let (one, junk) = (folder.join("one.pcap"), folder.join("junk.pcap"));
    fs::copy(capture("nginx_nodelay_off.pcap"), &one).expect("a copy");
    let before = fs::read(&one).expect("the copy");
    let name = one.to_str().expect("a name");
    let done = tcpwhy(&["anonymize", name, "-o", name]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(2) && said.contains("is the capture itself"), "{said}");
    assert!(fs::read(&one).expect("the copy") == before);
    fs::write(&junk, "no capture").expect("a file");
    let out = folder.join("out.pcap");
    let names = [&junk, &out].map(|it| it.to_str().expect("a name"));
    let done = tcpwhy(&["anonymize", names[0], "-o", names[1]]);
    assert_eq!(done.status.code(), Some(2), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(!out.exists());
}

#[test]
fn pcapng_is_written_where_the_name_says_so() {
    let folder = folder("anonymize-pcapng");
    let [pcap, pcapng] = ["out.pcap", "out.pcapng"].map(|it| folder.join(it));
    let capture = capture("vlan.pcapng");
    anonymize(&capture, &pcap);
    anonymize(&capture, &pcapng);
    assert!(fs::read(&pcapng).expect("a file").starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]));
    let all =
        |path: &Path| frames(path).into_iter().map(|it| (it.time_ns, it.bytes)).collect::<Vec<_>>();
    assert!(all(&pcap) == all(&pcapng) && !all(&pcap).is_empty());
}

#[test]
fn an_input_that_cannot_be_read_is_named_and_not_the_output() {
    let folder = folder("anonymize-unread");
    let (text, out) = (folder.join("notes.txt"), folder.join("out.pcap"));
    fs::write(&text, "this is no capture").expect("a file");
    let names = [&text, &out].map(|it| it.to_str().expect("a name"));
    for command in ["anonymize", "annotate"] {
        let done = tcpwhy(&[command, names[0], "-o", names[1]]);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains(names[0]) && !said.contains(names[1]), "{said}");
        assert!(!out.exists());
    }
}
