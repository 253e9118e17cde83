//! The command as users meet it: help, errors, exit codes, pipes, colours.

mod drawn;

use drawn::exchange;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
#[cfg(unix)]
use std::{thread, time::Duration};

fn tcpwhy(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG", "TERM"] {
        command.env_remove(name);
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    tcpwhy(arguments).output().expect("tcpwhy runs")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder for one test's files.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A capture with one ARP-sized frame of zeros.
fn pcap() -> Vec<u8> {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    bytes.extend([0; 8]);
    bytes.extend(65_535_u32.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    for field in [1_769_853_600_u32, 0, 60, 60] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend([0; 60]);
    bytes
}

fn capture(name: &str) -> String {
    let path = folder(name).join("one.pcap");
    fs::write(&path, pcap()).expect("a file");
    path.display().to_string()
}

/// The error is one line on standard error, the status 2, and nothing is on standard output.
fn fails_with(arguments: &[&str], words: &[&str]) {
    let output = run(arguments);
    let text = err(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {}", out(&output));
    assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{arguments:?}: {text}");
    }
}

#[test]
fn help_shows_examples_and_exit_status() {
    let output = run(&["--help"]);
    assert!(output.status.success());
    let text = out(&output);
    for words in ["Examples:", "tcpwhy slow.pcap", "--filter", "Exit status: 0 no fault"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let version = out(&run(&["--version"]));
    assert!(version.starts_with("tcpwhy "));
    #[cfg(target_os = "linux")]
    assert_eq!(version.contains("built without kernel hooks"), !tcpwhy_live::hooks::BUILT);
}

#[test]
fn without_arguments_help_is_shown() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("Usage:"));
}

#[test]
fn errors_say_what_where_and_what_to_do() {
    let folder = folder("errors");
    let path = |name: &str| folder.join(name).display().to_string();
    fs::write(path("empty.pcap"), []).expect("a file");
    fs::write(path("notes.txt"), "not a capture at all, just text\n").expect("a file");
    fails_with(&["nowhere/none.pcap"], &["nowhere/none.pcap", "no such file", "ls -l nowhere"]);
    fails_with(&[&folder.display().to_string()], &["is a directory", "/*.pcap*"]);
    fails_with(&[&path("empty.pcap")], &["empty.pcap", "is empty"]);
    fails_with(&[&path("notes.txt")], &["notes.txt", "is not a packet capture"]);
    fails_with(&["-", "-"], &["only once"]);
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    for (arguments, words) in [
        (["x.pcap", "--filter", "hots 1.2.3.4"], "`hots` is no filter"),
        (["x.pcap", "--filter", "+5s..+1s"], "write the earlier time first"),
        (["x.pcap", "--connection", "one"], "`one` is no connection"),
        (["x.pcap", "--cause", "nagle_delayed_akc"], "nagle_delayed_ack"),
        (["x.pcap", "--min-share", "200"], "from 0 to 100"),
        (["x.pcap", "--min-lost", "soon"], "as in 20ms"),
        (["x.pcap", "--min-lost", "30"], "as in 20ms"),
        (["x.pcap", "--filter", "after +2"], "`+2` has no unit: write +2s"),
        (["x.pcap", "--filter", "hsot 1.2.3.4"], "did you mean `host`?"),
        (["x.pcap", "--filter", "port 80 or port 81"], "as in host 10.0.0.1,10.0.0.2"),
        (["x.pcap", "--filter", "(port 80)"], "brackets are not known"),
        (["x.pcap", "--cause", "nagle_delayed_akc"], "did you mean `nagle_delayed_ack`?"),
        (["x.pcap", "--threads", "0"], "--threads"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(words), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn a_capture_without_fault_ends_with_status_0() {
    let path = exchange("healthy");
    for arguments in [vec![path.as_str()], vec!["explain", &path]] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert!(out(&output).contains("7 packets"), "{}", out(&output));
        assert!(err(&output).is_empty(), "{}", err(&output));
    }
}

#[test]
fn nothing_to_judge_ends_with_status_2() {
    let none = capture("nothing");
    let path = exchange("filtered");
    for (arguments, words) in [
        (vec![none.as_str()], "nothing to judge"),
        (vec![path.as_str(), "--filter", "port 9"], "--filter"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(out(&output).contains("Nothing to judge"), "{}", out(&output));
        assert!(err(&output).contains(words), "{}", err(&output));
    }
}

#[test]
fn a_report_cannot_be_narrowed() {
    let path = exchange("narrowed");
    let report = folder("narrowed").join("report.json");
    fs::write(&report, run(&[&path, "--json"]).stdout).expect("a file");
    let report = report.display().to_string();
    let filtered = ["compare", &report, &report, "--filter", "port 80"];
    fails_with(&filtered, &["cannot be analysed any more", "--filter"]);
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_an_error() {
    let full = fs::File::options().write(true).open("/dev/full").expect("a full device");
    for words in [&["--help"][..], &["help", "watch"], &["help", "lab"]] {
        let full = full.try_clone().expect("a descriptor");
        let status = tcpwhy(words).stdout(full).stderr(Stdio::null()).status();
        assert_eq!(status.expect("tcpwhy runs").code(), Some(2), "{words:?}");
    }
}

#[test]
fn standard_input_is_read() {
    let mut child =
        tcpwhy(&["-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("tcpwhy runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&fs::read(exchange("stdin")).expect("a file")).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(out(&output).starts_with("standard input"), "{}", out(&output));
}

/// Runs the command on a stream that goes silent after these `bytes`, and interrupts it.
#[cfg(unix)]
fn interrupted(bytes: &[u8]) -> Output {
    let mut command = tcpwhy(&["-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("tcpwhy runs");
    child.stdin.as_mut().expect("a pipe").write_all(bytes).expect("it reads");
    thread::sleep(Duration::from_millis(500));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    // The pipe stays open: nobody but the signal ends it.
    let stdin = child.stdin.take();
    let output = child.wait_with_output().expect("it ends");
    drop(stdin);
    output
}

#[cfg(unix)]
#[test]
fn ctrl_c_shows_what_is_known_of_a_stream_that_says_no_more() {
    let mut bytes = fs::read(exchange("interrupted")).expect("a file");
    // The beginning of another packet, which is not reported as a cut.
    bytes.extend_from_within(24..60);
    let output = interrupted(&bytes);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("! interrupted"), "{}", out(&output));
    assert!(!out(&output).contains("ends within"), "{}", out(&output));
}

#[cfg(unix)]
#[test]
fn ctrl_c_before_a_packet_came_says_so() {
    let output = interrupted(&[]);
    assert_eq!(output.status.code(), Some(2), "{}", out(&output));
    assert!(err(&output).contains("interrupted before a packet was read"), "{}", err(&output));
}

#[test]
fn a_cut_capture_still_gets_its_report() {
    let path = folder("cut").join("cut.pcap");
    let mut bytes = fs::read(exchange("cut")).expect("a file");
    bytes.extend_from_within(24..84);
    fs::write(&path, bytes).expect("a file");
    let output = run(&[&path.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("ends within the record"), "{}", out(&output));
}

#[test]
fn json_follows_the_schema() {
    let output = run(&[&capture("json"), "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let schema = include_str!("../../../../docs/report.schema.json");
    let schema = serde_json::from_str(schema).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is a schema");
    let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert_eq!(value["schema_version"], 1);
    assert_eq!(value["inputs"][0]["packets"], 1);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let mut child = tcpwhy(&["explain", "--cause", "nagle_delayed_ack"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tcpwhy runs");
    drop(child.stdout.take());
    let mut words = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut words).expect("it ends");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(words.is_empty(), "{words}");
}

#[test]
fn colours_only_where_they_are_wanted() {
    let manual = ["explain", "--cause", "refused"];
    let coloured =
        |command: &mut Command| out(&command.output().expect("tcpwhy runs")).contains('\u{1b}');
    assert!(!coloured(&mut tcpwhy(&manual)), "a pipe");
    let always = ["explain", "--cause", "refused", "--color", "always"];
    assert!(coloured(&mut tcpwhy(&always)));
    assert!(!coloured(tcpwhy(&manual).env("NO_COLOR", "1")));
    assert!(coloured(tcpwhy(&always).env("NO_COLOR", "1")), "what is asked for wins");
}

#[test]
fn a_locale_without_utf_8_gets_ascii() {
    let mut command = tcpwhy(&["explain", "--cause", "nagle_delayed_ack"]);
    let output = command.env("LC_ALL", "C").output().expect("tcpwhy runs");
    assert!(out(&output).is_ascii(), "{}", out(&output));
}

#[test]
fn every_cause_is_listed() {
    let text = out(&run(&["explain", "--cause", "list"]));
    assert!(text.lines().count() > 30 && text.contains("conntrack_race"), "{text}");
}

#[test]
fn every_command_has_a_man_page_with_its_examples() {
    let folder = folder("man");
    let done = run(&["man", folder.to_str().expect("a name")]);
    assert!(done.status.success(), "{}", err(&done));
    let page = |name: &str| fs::read_to_string(folder.join(name)).expect("a page");
    let first = page("tcpwhy.1");
    let named =
        first.lines().filter_map(|line| line.strip_suffix("(1)")).map(|it| it.replace('\\', ""));
    let mut commands: Vec<String> = named.collect();
    // The lab's pages come from its own program.
    commands.retain(|name| name.starts_with("tcpwhy-") && name != "tcpwhy-lab");
    assert!(commands.len() > 10, "{commands:?}");
    for name in commands {
        let text = page(&format!("{name}.1"));
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{name}: {text}");
    }
    assert!(first.contains(".SH EXAMPLES\n.nf\n\\&  tcpwhy slow.pcap "), "{first}");
    let junk = capture("man-junk");
    fails_with(&["man", &junk], &["man pages cannot be written there"]);
}

#[test]
fn completions_are_made_for_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success() && out(&output).contains("tcpwhy"), "{shell}");
    }
}

#[test]
fn a_connection_that_is_not_there_is_an_error() {
    fails_with(&[&capture("pick"), "--connection", "7"], &["connection 7 is not in this capture"]);
}

#[test]
fn a_manual_is_found_by_its_name() {
    let asked = out(&run(&["explain", "--cause", "refused"]));
    for arguments in [
        &["explain", "refused"][..],
        &["help", "refused"],
        &["refused"],
        &["explain", "refused", "--width", "80"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", err(&output));
        assert_eq!(out(&output), asked, "{arguments:?}");
    }
    assert!(out(&run(&["explain", "nagle-delayed-ack"])).starts_with("Nagle's algorithm"));
    assert!(out(&run(&["explain", "list"])).contains("conntrack_race"));
}

#[test]
fn help_is_a_command() {
    assert!(out(&run(&["help"])).contains("Examples:"));
    let compare = out(&run(&["help", "compare"]));
    assert!(compare.contains("before.pcap after.pcap"), "{compare}");
    fails_with(&["help", "comparr"], &["did you mean `compare`?"]);
    fails_with(&["help", "xyzzy"], &["tcpwhy help shows the commands"]);
}

#[test]
fn a_mistyped_command_is_recognised() {
    let path = exchange("mistyped");
    fails_with(&["exlain", &path], &["did you mean `tcpwhy explain`?"]);
    fails_with(&["comprae", &path, &path], &["did you mean `tcpwhy compare`?"]);
    fails_with(&["explain", "nagle_delayed_akc"], &["`tcpwhy explain nagle_delayed_ack`?"]);
    fails_with(&["slow.pcap"], &["there is no such file; check the name"]);
}

#[test]
fn a_filter_that_matches_nothing_is_answered_with_what_would() {
    let path = exchange("nothing_matches");
    for (filter, words) in [
        ("host 9.9.9.9", "the busiest hosts are 10.0.0.1 (7 packets), 10.0.0.2 (7 packets)"),
        ("port 9", "the busiest server ports are 80 (7 packets)"),
        (
            "after +5s",
            "the capture covers +0s..+251ms, which is 2026-01-31T10:00:00Z..2026-01-31T10",
        ),
    ] {
        let output = run(&[&path, "--filter", filter]);
        assert_eq!(output.status.code(), Some(2), "{filter}: {}", out(&output));
        assert!(err(&output).contains(words), "{filter}: {}", err(&output));
    }
}

/// Examples in the documents: the document, the first line, the directory that they are run in, and
/// their arguments.
const EXAMPLES: [(&str, &str, &str, &[&str]); 2] = [
    ("docs/index.md", "$ make run\n", "", &["testdata/captures/nginx_nodelay_off.pcap"]),
    (
        "docs/files.md",
        "$ tcpwhy both_ends-client.pcap both_ends-server.pcap\n",
        "testdata/captures",
        &["both_ends-client.pcap", "both_ends-server.pcap"],
    ),
];

/// Examples in documents show the actual output; an example may end with `…` before the output does.
/// With `EXAMPLES_UPDATE` in the environment the test rewrites them.
#[test]
fn documents_show_what_is_printed() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for (document, head, folder, files) in EXAMPLES {
        let path = format!("{root}/{document}");
        let mut text = fs::read_to_string(&path).expect(document);
        let start = text.find(head).expect(head) + head.len();
        let end = start + text[start..].find("```").expect("the end of the example");
        let arguments = [files, &["--width", "100", "--no-progress"]].concat();
        let mut command = tcpwhy(&arguments);
        command.env("LC_ALL", "C.UTF-8").current_dir(format!("{root}/{folder}"));
        let printed = out(&command.output().expect("tcpwhy runs"));
        let shown = text[start..end].to_owned();
        let expected = match shown.strip_suffix("  …\n") {
            None => printed,
            Some(part) => {
                let lines = printed.split_inclusive('\n').take(part.lines().count());
                lines.chain(["  …\n"]).collect()
            }
        };
        if std::env::var_os("EXAMPLES_UPDATE").is_some() {
            text.replace_range(start..end, &expected);
            fs::write(&path, text).expect("the document is written");
        } else {
            assert_eq!(
                shown, expected,
                "EXAMPLES_UPDATE=1 cargo test -p tcpwhy --test command documents_show"
            );
        }
    }
}

/// A capture holds passwords: nobody else may read it.
#[test]
fn no_advice_makes_a_capture_readable_by_all() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    for entry in fs::read_dir(source).expect("the sources") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert!(!text.contains("chmod"), "{}", path.display());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_case_that_is_not_there_is_answered_with_all_in_columns() {
    let output = run(&["lab", "run", "nagle_curll"]);
    assert_eq!(output.status.code(), Some(2));
    let text = err(&output);
    assert!(text.contains("no case is called `nagle_curll`"), "{text}");
    let all = err(&run(&["lab", "run", "nginx_nodelay_of"]));
    assert!(all.contains("did you mean `nginx_nodelay_off`?"), "{all}");
    assert!(all.lines().all(|line| line.chars().count() <= 80), "{all}");
    assert!(all.lines().filter(|line| line.starts_with("  ")).count() > 5, "{all}");
}

#[test]
fn the_connections_are_listed_with_their_counts() {
    let path = exchange("listed");
    let report: serde_json::Value =
        serde_json::from_str(&out(&run(&[&path, "--json"]))).expect("JSON");
    let connection = &report["connections"][0];
    assert_eq!(connection["client"], "10.0.0.1:40000");
    assert_eq!(connection["exchanges"], 1);
    assert_eq!(connection["client_to_server"]["packets"], 4);
    assert_eq!(connection["server_to_client"]["unique_bytes"], 40);
    assert_eq!(report["connections_omitted"], 0);
}

/// A state of the server in the capture of nginx with `tcp_nodelay off`.
fn sockets_file(name: &str, nodelay: bool) -> String {
    let path = folder(name).join("sockets.json");
    let state = format!(
        r#"{{"schema_version": 1, "read_ns": 1769853600000000000, "netns": [], "sockets": [
            {{"local": "10.55.172.131:8080", "peer": "10.55.172.115:60306", "is_server": true,
              "process": {{"pid": 42, "command": "nginx", "container": null}},
              "nodelay": {nodelay}, "cork": false}}]}}"#
    );
    fs::write(&path, state).expect("a file");
    path.display().to_string()
}

#[test]
fn sockets_speak_for_a_finding_or_against_it() {
    let capture =
        format!("{}/../../testdata/captures/nginx_nodelay_off.pcap", env!("CARGO_MANIFEST_DIR"));
    let weighed = |sockets: &str| {
        let output = run(&[&capture, "--sockets", sockets, "--json"]);
        assert_eq!(output.status.code(), Some(1));
        let report: serde_json::Value = serde_json::from_str(&out(&output)).expect("JSON");
        let schema = include_str!("../../../../docs/report.schema.json");
        let schema = serde_json::from_str(schema).expect("a schema");
        let validator = jsonschema::validator_for(&schema).expect("a valid schema");
        let errors: Vec<_> = validator.iter_errors(&report).map(|it| it.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        report["findings"][0].clone()
    };
    let off = sockets_file("weighed_off", false);
    let (agreed, denied) = (weighed(&off), weighed(&sockets_file("weighed_on", true)));
    assert_eq!(agreed["evidence_kinds"]["agree"], serde_json::json!(["packets", "state"]));
    assert_eq!(denied["evidence_kinds"]["disagree"], serde_json::json!(["state"]));
    let confidence = |finding: &serde_json::Value| finding["confidence"].as_f64();
    assert!(confidence(&agreed) > confidence(&denied));
    let text = out(&run(&[&capture, "--sockets", &off, "--width", "200"]));
    assert!(text.contains("nginx (pid 42): `TCP_NODELAY` is off on 1 of 1 socket"), "{text}");
}

#[test]
fn a_file_that_lists_no_sockets_is_refused_before_the_capture_is_read() {
    let capture = capture("no_sockets");
    fails_with(
        &[&capture, "--sockets", &capture],
        &["is not a list of sockets", "tcpwhy sockets --json"],
    );
    fails_with(&[&capture, "--sockets", "/nowhere.json"], &["/nowhere.json", "cannot be opened"]);
}
