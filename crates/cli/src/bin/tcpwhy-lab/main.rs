//! The program `tcpwhy-lab`, which `tcpwhy lab` runs: it reproduces causes of slow connections and
//! explains each case. It is apart from `tcpwhy`, so that nobody installs a lab of faults with an
//! analyser.

// All text is printed by `output`, which removes control characters.
#![deny(clippy::print_stderr, clippy::print_stdout)]

#[cfg(target_os = "linux")]
mod lab;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    lab::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    tcpwhy_cli::program::ended(Err(tcpwhy_cli::error::Error::NotLinux))
}
