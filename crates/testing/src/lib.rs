//! Shared by the tests of all crates: skipping a test, running it alone, measuring on a busy
//! machine, directories for files, and the schemas in `docs`.
//!
//! A test runs beside others, in its own process and in others, unless it holds [`alone`]. So it uses
//! names of its own for files, namespaces and ports, and waits for events with generous deadlines.
#![cfg(unix)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::{env, io, thread};

use rustix::fs::FlockOperation;

mod folder;
pub mod http2;
pub mod schema;
mod undisturbed;
pub use folder::Folder;
pub use undisturbed::undisturbed;

/// File to which `make test` wants the skipped tests added, one a line: test, tab, reason.
const LIST: &str = "TCPWHY_SKIPPED";

/// Returns whether this process is root's.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns whether what `reason` names may not be missing: as root in CI, every test runs.
fn has_to_run() -> bool {
    is_root() && env::var_os("CI").is_some()
}

/// Records that the calling test is skipped, and why. The caller then returns.
///
/// # Panics
/// As root in CI, where everything is installed and allowed.
pub fn skip(reason: &str) {
    assert!(!has_to_run(), "{reason}");
    skip_in_ci_too(reason);
}

/// Like [`skip`], for what a machine of CI may lack as well: a JDK, a feature of a newer kernel.
pub fn skip_in_ci_too(reason: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    let reason = reason.trim().replace('\n', " ");
    // Past the test runner, which shows only what failing tests print.
    let _ = writeln!(io::stderr(), "skipped {test}: {reason}");
    if let Some(list) = env::var_os(LIST) {
        let list = OpenOptions::new().append(true).create(true).open(list);
        let line = format!("{test}\t{reason}\n");
        list.and_then(|mut list| list.write_all(line.as_bytes()))
            .expect("the list of TCPWHY_SKIPPED");
    }
}

/// Returns whether this process may do what root may, such as `what`; where not, the calling test is
/// skipped.
pub fn privileged(what: &str) -> bool {
    if !is_root() {
        skip(&format!("{what}: needs root"));
        return false;
    }
    // Root of a container may lack the right; below a changed root, there are no mount namespaces.
    let tried = Command::new("unshare").args(["--net", "--mount", "true"]).output();
    let is_allowed = tried.is_ok_and(|it| it.status.success());
    if !is_allowed {
        skip(&format!("{what}: not allowed to root here"));
    }
    is_allowed
}

/// Programs that `scripts/setup.sh test` does not install: a JDK, since Java alone cannot run a source file.
const LARGE: [&str; 1] = ["javac"];

/// Returns whether `program` is installed; where not, the calling test is skipped.
pub fn installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_here = env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !is_here {
        let reason = format!("{program} is not installed");
        if LARGE.contains(&program) { skip_in_ci_too(&reason) } else { skip(&reason) }
    }
    is_here
}

/// The right to run while no other test that asked for it does; given back when dropped.
#[must_use]
pub struct Alone(#[expect(dead_code, reason = "closing the file releases its lock")] File);

/// Waits until no other test is alone, in any process of this build.
pub fn alone() -> Alone {
    let test = env::current_exe().expect("the test has a file");
    let file = test.parent().map_or_else(PathBuf::new, PathBuf::from).join("alone.lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(file);
    let file = file.expect("a file beside the test");
    rustix::fs::flock(&file, FlockOperation::LockExclusive).expect("a lock");
    Alone(file)
}
