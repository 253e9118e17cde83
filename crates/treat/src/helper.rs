//! Programs that a treatment runs: nft(8), ip(8), dnsmasq(8).

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use tcpwhy_live::netns::Netns;

/// Returns a command that a signal to the terminal's process group does not reach: it completes its
/// work, as the treatment does. Its messages are in English, because they are read.
pub(super) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.process_group(0).env("LC_ALL", "C");
    command
}

/// Runs a program in a network namespace and returns its output.
///
/// # Errors
/// `NotFound` where the program is missing; else the first line that it says.
pub(super) fn run(netns: &Netns, program: &str, arguments: &[&str]) -> io::Result<String> {
    let run = || command(program).args(arguments).output();
    let output = netns.inside(run).map_err(io::Error::other)?.map_err(|error| {
        io::Error::new(error.kind(), format!("{program} cannot be run: {error}"))
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| !line.trim().is_empty());
    let said = first.map_or_else(|| format!("{program} failed"), str::to_owned);
    Err(io::Error::other(said))
}
