//! `tcpwhy annotate`: nothing but comments is added, and Wireshark's tools read them.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tcpwhy_core::capture::{Block, CaptureSet, Source};

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

/// A folder for one test's files.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Time, length and bytes of each frame.
fn frames(path: &Path) -> Vec<(u64, u32, Vec<u8>)> {
    let source = Source::memory("one", fs::read(path).expect("a file"));
    let mut set = CaptureSet::new(vec![source]).expect("a capture");
    let (mut block, mut frames) = (Block::default(), Vec::new());
    while set.next_block(&mut block).expect("frames") {
        frames.extend(block.frames().map(|it| (it.time_ns, it.original_len, it.bytes.to_vec())));
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

#[test]
fn packets_times_and_diagnosis_stay_the_same() {
    let out = folder("annotate-same").join("out.pcapng");
    for capture in captures() {
        let name = capture.display().to_string();
        let done = tcpwhy(&["annotate", &name, "-o", out.to_str().expect("a name"), "--json"]);
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        let done: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!(done["problem"], Value::Null, "{name}");
        assert!(frames(&capture) == frames(&out), "{name}: other frames");
        let (before, after) = (report(&capture), report(&out));
        assert_eq!(before, after, "{name}");
        let findings = before["findings"].as_array().expect("findings");
        let has_evidence = findings.iter().any(|it| it["evidence"] != Value::Array(Vec::new()));
        assert!(!has_evidence || done["comments"] != 0, "{name}: {done}");
    }
}

#[test]
fn tshark_reads_the_comments_back() {
    if !tcpwhy_testing::installed("tshark") {
        return;
    }
    let out = folder("annotate-tshark").join("out.pcapng");
    let capture = captures().into_iter().find(|it| it.ends_with("nginx_nodelay_off.pcap"));
    let capture = capture.expect("this capture is stored");
    let names = [capture.to_str().expect("a name"), out.to_str().expect("a name")];
    assert!(tcpwhy(&["annotate", names[0], "-o", names[1]]).status.success());
    let fields = ["-T", "fields", "-e", "frame.number", "-e", "frame.comment"];
    let read =
        Command::new("tshark").args(["-r", names[1], "-Y", "frame.comment"]).args(fields).output();
    let read = String::from_utf8_lossy(&read.expect("tshark runs").stdout).into_owned();
    let stalls =
        read.lines().filter(|line| line.contains("nagle_delayed_ack") && line.contains("waited 4"));
    let affected = &report(&capture)["findings"][0]["affected"]["exchanges"];
    let exchanges = affected.as_u64().expect("a count");
    assert!(exchanges > 30, "{exchanges}");
    assert_eq!(stalls.count() as u64, exchanges, "{read}");
    let finding = &report(&capture)["findings"][0];
    for evidence in finding["evidence"].as_array().expect("evidence") {
        let number = evidence["frame"].as_u64().expect("a number").to_string();
        let mut lines = read.lines().filter(|line| line.split('\t').next() == Some(&number));
        assert!(lines.next().is_some(), "frame {number} has no comment:\n{read}");
    }
}

#[test]
fn the_capture_itself_is_never_written_to() {
    let folder = folder("annotate-itself");
    let (one, other) = (folder.join("one.pcap"), folder.join("other.pcap"));
    let capture = captures().into_iter().find(|it| it.ends_with("nginx_nodelay_off.pcap"));
    fs::copy(capture.expect("this capture is stored"), &one).expect("a copy");
    let _ = fs::remove_file(&other);
    #[cfg(unix)]
    std::os::unix::fs::symlink(&one, &other).expect("a link");
    let before = fs::read(&one).expect("the copy");
    for name in [&one, &other] {
        let (one, name) = (one.to_str().expect("a name"), name.to_str().expect("a name"));
        let done = tcpwhy(&["annotate", one, "-o", name]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains("is the capture itself"), "{said}");
    }
    assert!(fs::read(&one).expect("the copy") == before);
}

#[test]
fn nothing_is_left_where_it_fails() {
    let folder = folder("annotate-fails");
    let junk = folder.join("junk.pcap");
    fs::write(&junk, "no capture").expect("a file");
    let out = folder.join("out.pcapng");
    let done =
        tcpwhy(&["annotate", junk.to_str().expect("a name"), "-o", out.to_str().expect("a name")]);
    assert_eq!(done.status.code(), Some(2));
    let left: Vec<_> =
        fs::read_dir(&folder).expect("a folder").map(|it| it.expect("one").path()).collect();
    assert_eq!(left, std::slice::from_ref(&junk));
    let nowhere = folder.join("nowhere/out.pcapng");
    let done = tcpwhy(&[
        "annotate",
        junk.to_str().expect("a name"),
        "-o",
        nowhere.to_str().expect("a name"),
    ]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(2) && said.contains("cannot be written"), "{said}");
}
