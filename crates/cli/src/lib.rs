//! The commands of `tcpwhy`: arguments, files, exit codes and progress, without any analysis. What is
//! public, the program `tcpwhy-lab` or the Python package uses as well.

// All text is printed by `output`, which removes control characters.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod analysis;
mod annotate;
mod anonymize;
pub mod args;
mod command;
mod compare;
#[cfg(all(feature = "program", target_os = "linux"))]
mod dns;
#[cfg(all(feature = "program", target_os = "linux"))]
mod doctor;
#[cfg(all(feature = "program", target_os = "linux"))]
mod drops;
pub mod error;
mod explain;
#[cfg(all(feature = "program", target_os = "linux"))]
mod host;
mod keylog;
#[cfg(feature = "program")]
mod load;
#[cfg(feature = "program")]
pub mod man;
mod mcp;
mod meant;
mod nothing_left;
pub mod one_of;
pub mod output;
mod page;
#[cfg(all(feature = "program", target_os = "linux"))]
mod probe;
pub mod program;
pub mod progress;
#[cfg(feature = "program")]
mod proxy;
#[cfg_attr(
    not(feature = "program"),
    allow(dead_code, reason = "the commands that watch and measure are in the program only")
)]
mod sandbox;
#[cfg(target_os = "linux")]
mod sockets;
pub mod sources;
mod spoken;
pub mod state;
mod tables;
#[cfg(all(feature = "program", target_os = "linux"))]
mod tap;
pub mod terminal;
#[cfg(all(feature = "program", target_os = "linux"))]
mod treat;
#[cfg(all(feature = "program", target_os = "linux"))]
mod watch;
pub mod workers;
mod written;

pub use command::main;
pub use page::asked_for;
