//! Tells `--version` which commit the program was built from, and for which platform.
//!
//! `TCPWHY_COMMIT` names the commit where there is no repository, as in a source package. Builds that
//! are not optimised name none, so that a commit does not make cargo compile the crate once more.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TCPWHY_COMMIT");
    let target = env::var("TARGET").unwrap_or_default();
    let build = if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        match commit() {
            Some(commit) => format!("commit {commit}, {target}"),
            None => target,
        }
    } else {
        format!("not optimised, {target}")
    };
    println!("cargo::rustc-env=TCPWHY_BUILD={build}");
}

fn commit() -> Option<String> {
    if let Ok(commit) = env::var("TCPWHY_COMMIT") {
        return Some(commit);
    }
    // Every commit and every checkout adds a line there.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
