//! The `draw` commands that reports print: each runs in a shell and shows the evidence.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tcpwhy");

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures")
}

/// The report of `files`, as JSON.
fn report(files: &[PathBuf]) -> Value {
    let mut command = Command::new(PROGRAM);
    command.args(files).arg("--json").stdin(Stdio::null());
    let output = command.output().expect("tcpwhy runs");
    serde_json::from_slice(&output.stdout).expect("a report")
}

/// Runs a printed command as a user would, and returns what it prints.
fn run(printed: &str) -> String {
    let arguments = printed.strip_prefix("tcpwhy ").expect("a command of tcpwhy");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("'{PROGRAM}' {arguments}")]).stdin(Stdio::null());
    let output = shell.output().expect("a shell");
    let error = String::from_utf8_lossy(&output.stderr);
    // 1: faults were found.
    assert!(matches!(output.status.code(), Some(0 | 1)), "`{printed}`: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs every printed command of the report of `files`; returns their number.
fn draw_all(files: &[PathBuf]) -> usize {
    let report = report(files);
    let findings = report["findings"].as_array().expect("findings");
    let mut drawn = 0;
    for finding in findings {
        let Some(command) = finding["draw"].as_str() else { continue };
        let shown = run(command);
        let numbers: Vec<_> =
            shown.split_whitespace().filter_map(|it| it.strip_prefix('#')).collect();
        for link in finding["evidence"].as_array().expect("evidence") {
            let frame = link["frame"].to_string();
            assert!(numbers.contains(&&*frame), "`{command}` lacks #{frame}:\n{shown}");
        }
        drawn += 1;
    }
    drawn
}

#[test]
fn printed_draw_commands_show_the_evidence() {
    let entries = fs::read_dir(captures()).expect("captures");
    let files = entries.map(|it| it.expect("an entry").path());
    let drawn: usize = files.map(|file| draw_all(&[file])).sum();
    assert!(drawn > 30, "{drawn}");
}

#[test]
fn printed_draw_commands_of_joined_captures_show_the_evidence() {
    let pair = ["client", "server"].map(|it| captures().join(format!("both_ends-{it}.pcap")));
    assert!(draw_all(&pair) > 0);
}

/// A name in the shell's own characters is quoted.
#[test]
fn printed_draw_command_of_a_file_with_blanks_runs() {
    let folder = tcpwhy_testing::Folder::new();
    let file = folder.join("it's slow & old.pcap");
    fs::copy(captures().join("nginx_nodelay_off.pcap"), &file).expect("a copy");
    assert!(draw_all(&[file]) > 0);
}
