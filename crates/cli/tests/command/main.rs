//! The command as it is used: each module runs the program that was built, and looks at what comes
//! out.

mod analysing;
mod annotate;
mod anonymize;
mod cli;
mod compare;
#[cfg(target_os = "linux")]
mod dns;
#[cfg(target_os = "linux")]
mod doctor;
mod documents;
mod draw;
#[cfg(target_os = "linux")]
mod drops;
#[cfg(target_os = "linux")]
mod hooks;
#[cfg(target_os = "linux")]
mod host;
mod hostile;
#[cfg(target_os = "linux")]
mod https;
mod keys;
#[cfg(target_os = "linux")]
mod lab;
mod languages;
#[cfg(target_os = "linux")]
mod load;
mod mcp;
#[cfg(target_os = "linux")]
mod outputs;
mod parquet;
#[cfg(target_os = "linux")]
mod probe;
mod report;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod sandbox;
#[cfg(target_os = "linux")]
mod score;
#[cfg(target_os = "linux")]
mod sockets;
mod taint;
#[cfg(target_os = "linux")]
mod treat;
mod vantages;
#[cfg(target_os = "linux")]
mod watch;
mod why;
