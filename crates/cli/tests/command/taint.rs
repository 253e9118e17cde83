//! Data that leaves the machine: a token in each field that a user can fill appears in no output
//! except those that SECURITY.md lists, and in no anonymized capture.

use crate::mcp::Assistant;
use conversations::{Conversation, dns_message};
use packets::{CAPTURES, Capture, Packet};
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tcpwhy_core::app::Protocol;
use tcpwhy_core::wire::Side;
use tokens::{Shown, Tokens};

mod conversations;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod measured;
mod packets;
mod tokens;

/// Fields that are shown, with the sentence of SECURITY.md that says so.
const SHOWN: [(&str, &str); 4] = [
    ("DNS name", "| names that are looked up | in full |"),
    ("redirect's host", "| where a redirect leads, if it is measured | its host in full,"),
    ("certificate's name", "| names in the certificate of a measured server | in full,"),
    ("target", "| the URL of a measurement | as it was given |"),
];

/// The conversations of all protocols, and packets of no conversation.
struct Tainted {
    tokens: Tokens,
    conversations: Vec<Conversation>,
    others: Vec<Vec<u8>>,
    texts: [String; 4],
}

impl Tainted {
    fn new() -> Self {
        let tokens = Tokens::default();
        let conversations =
            Protocol::ALL.iter().flat_map(|&it| conversations::of(it, &tokens)).collect();
        let others = others(&tokens);
        let texts = ["comment", "program", "interface", "packet's comment"]
            .map(|it| tokens.of(&format!("pcapng {it}")));
        Self { tokens, conversations, others, texts }
    }

    /// Returns the packets that the capture `how` of all conversations has, in the order of time.
    fn packets(&self, how: &Capture) -> Vec<Packet> {
        let mut all: Vec<Packet> = Vec::new();
        for (number, Conversation { port, said }) in self.conversations.iter().enumerate() {
            all.extend(packets::packets(number as u8 + 1, *port, said, how));
        }
        let times = (0..).map(|number| 1_500_000 + number * 300_000);
        all.extend(
            times
                .zip(&self.others)
                .map(|(time_us, bytes)| Packet { time_us, bytes: bytes.clone() }),
        );
        all.sort_by_key(|it| it.time_us);
        all
    }

    /// Writes the capture `how` of all conversations.
    fn write(&self, how: &Capture, path: &Path) {
        let file = packets::pcapng(&self.packets(how), how.snap, &self.texts);
        fs::write(path, file).expect("a file");
    }
}

/// Datagrams, an echo request, and what is no IP.
fn others(tokens: &Tokens) -> Vec<Vec<u8>> {
    let name = tokens.shown("DNS name");
    let mut all = vec![
        packets::udp(200, 53, Side::Client, &dns_message(&name, false, tokens)),
        packets::udp(200, 53, Side::Server, &dns_message(&name, true, tokens)),
    ];
    for port in [53, 123, 161, 443, 514, 1900, 5353, 9999] {
        for side in [Side::Client, Side::Server] {
            let text =
                format!("{0}{1} {0}", tokens.of(&format!("UDP port {port}")), tokens.of("UDP"));
            all.push(packets::udp(201, port, side, text.as_bytes()));
        }
    }
    let echo = [&[8, 0, 0, 0, 0, 1, 0, 1][..], tokens.of("ICMP echo").as_bytes()].concat();
    all.push(packets::ip(202, Side::Client, 1, 2, echo));
    all.push(packets::ip(
        202,
        Side::Client,
        99,
        0,
        format!("..{}", tokens.of("IP protocol 99")).into(),
    ));
    let mut trailed = packets::udp(203, 9999, Side::Client, b"..");
    trailed.extend(tokens.of("trailer").bytes());
    all.push(trailed);
    all.push(tokens.of("damaged packet").into());
    all
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("taint").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Runs tcpwhy in `folder`; returns both outputs.
fn tcpwhy(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    let output = command.output().expect("tcpwhy runs");
    assert!(output.status.code().is_some_and(|it| it <= 3), "{arguments:?}: {output:?}");
    // Notes follow the report.
    [output.stdout, output.stderr].concat()
}

/// Returns the texts of all tables in a folder.
fn rows(folder: &Path) -> Vec<u8> {
    let mut text = String::new();
    for table in fs::read_dir(folder).expect("a folder") {
        let table = File::open(table.expect("a table").path()).expect("a table");
        let reader = SerializedFileReader::new(table).expect("Parquet");
        reader
            .get_row_iter(None)
            .expect("rows")
            .for_each(|row| text += &row.expect("a row").to_string());
    }
    text.into()
}

const FILE: &str = "tainted.pcapng";

/// Looks into everything that shows a capture.
fn check_reports(tainted: &Tainted, how: &Capture) {
    let folder = folder(&format!("reports-{}", how.name));
    tainted.write(how, &folder.join(FILE));
    let runs: [&[&str]; 9] = [
        &[FILE, "--all", "--width", "400"],
        &[FILE, "--all", "--json"],
        &[FILE, "--exchange", "1", "--why", "--width", "400"],
        &[FILE, "--why", "40", "--json"],
        &[FILE, "--connection", "99999"],
        &[FILE, "--filter", "host 192.0.2.1"],
        &["report", FILE, "-o", "report.html"],
        &["annotate", FILE, "-o", "annotated.pcapng"],
        &["compare", FILE, FILE, "--json"],
    ];
    let place = |what: &dyn std::fmt::Debug| format!("{}: {what:?}", how.name);
    if how.begins.is_none() && how.only.is_none() {
        let report: Value = serde_json::from_slice(&tcpwhy(&folder, runs[1])).expect("JSON");
        assert_eq!(report["totals"]["connections"], tainted.conversations.len(), "{}", how.name);
    }
    for run in runs {
        tainted.tokens.assert_clean(&tcpwhy(&folder, run), true, &place(&run));
    }
    let step = if how.begins.is_none() { 1 } else { 7 };
    for number in (1..=tainted.conversations.len()).step_by(step) {
        let run = [FILE, "--connection", &number.to_string(), "--width", "400"];
        tainted.tokens.assert_clean(&tcpwhy(&folder, &run), true, &place(&run));
    }
    let file = |name: &str| fs::read(folder.join(name)).expect("it was written");
    tainted.tokens.assert_page_clean(&file("report.html"), &place(&"the page"));
    let comments = packets::beside_packets(&file("annotated.pcapng"));
    // Comments of the capture itself stay in its copy, and are no annotations.
    let added = tainted.texts.iter().fold(comments, |rest, text| without(&rest, text.as_bytes()));
    tainted.tokens.assert_clean(&added, true, &place(&"annotations"));
    let mut assistant = Assistant::of(&folder);
    let whole = json!({"files": [FILE], "all": true});
    let some = json!({"files": [FILE], "count": 99});
    let one = json!({"files": [FILE], "exchange": 1});
    for (tool, arguments) in [("diagnose", whole), ("findings", some), ("evidence", one)] {
        let (Ok(answer) | Err(answer)) = assistant.call(tool, &arguments);
        tainted.tokens.assert_clean(answer.as_bytes(), true, &place(&tool));
    }
    tcpwhy(&folder, &[FILE, "--parquet", "tables"]);
    tainted.tokens.assert_clean(&rows(&folder.join("tables")), true, &place(&"tables"));
}

/// Looks into the anonymized capture, and into what is reported of it.
fn check_anonymized(tainted: &Tainted, how: &Capture) {
    let folder = folder(&format!("anonymized-{}", how.name));
    tainted.write(how, &folder.join(FILE));
    for (out, seed) in [("one.pcap", "7"), ("other.pcapng", "8")] {
        let done = tcpwhy(&folder, &["anonymize", FILE, "-o", out, "--seed", seed]);
        let copy = fs::read(folder.join(out)).expect("it was written");
        for (output, what) in [
            (done, "said"),
            (copy, "the copy"),
            (tcpwhy(&folder, &[out, "--all", "--json"]), "its report"),
        ] {
            tainted.tokens.assert_clean(&output, false, &format!("{}, {out}: {what}", how.name));
        }
    }
}

/// Returns `bytes` with each `text` blanked.
fn without(bytes: &[u8], text: &[u8]) -> Vec<u8> {
    let mut rest = bytes.to_vec();
    let places = bytes.windows(text.len()).enumerate().filter(|(_, it)| *it == text);
    places.for_each(|(at, _)| rest[at..at + text.len()].fill(b'.'));
    rest
}

#[test]
fn no_token_is_in_a_report() {
    let tainted = Tainted::new();
    CAPTURES.iter().for_each(|how| check_reports(&tainted, how));
}

#[test]
fn no_token_is_in_an_anonymized_capture() {
    let tainted = Tainted::new();
    CAPTURES.iter().for_each(|how| check_anonymized(&tainted, how));
}

/// Panics if a token is shown without a promise.
fn assert_promised(tokens: &Tokens) {
    let security = include_str!("../../../../SECURITY.md");
    let tokens = tokens.all.borrow();
    for token in tokens.iter().filter(|it| it.shown == Shown::InReports) {
        let promise = SHOWN.iter().find(|(field, _)| *field == token.field);
        let (_, line) = promise.unwrap_or_else(|| panic!("{} is not in the table", token.field));
        assert!(security.contains(line), "{line}");
    }
}

#[test]
fn what_is_shown_is_promised() {
    assert_promised(&Tainted::new().tokens);
}
