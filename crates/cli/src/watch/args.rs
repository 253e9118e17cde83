//! Arguments of `tcpwhy watch`.

use crate::args::{Display, Reporting, parse_duration, parse_percent};
use clap::Args;
use clap::builder::ArgPredicate;
use std::net::SocketAddr;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  sudo tcpwhy watch                          all interfaces, until Ctrl-C
  sudo tcpwhy watch --for 10s                ten seconds, then the report
  sudo tcpwhy watch -i eth0 --filter 'port 8080'
  sudo tcpwhy watch --pid $(pgrep -o nginx)  the ports of one process and its children
  sudo tcpwhy watch --json | jq '.findings[0].headline'
  sudo tcpwhy watch --write /var/tmp/why --metrics 127.0.0.1:9464

Keys on a terminal: ? all keys, arrows and Enter details, / filter, s order, space freeze, q end.

It needs CAP_NET_RAW (sudo has it), and drops its rights once the capture is open. Nothing is
changed on the system, and nothing is left behind, however it ends.

Exit status: 0 no fault, 1 faults found, 2 packets could not be captured, or there was nothing to judge.";

/// Arguments of `tcpwhy watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// The network interface, or `any` for all of them
    #[arg(short, long, value_name = "IF", default_value = tcpwhy_live::capture::ANY)]
    pub interface: String,

    /// Watch the ports of this process and its children, in its network namespace
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(conflicts_with_all = ["netns", "container"])]
    pub pid: Option<u32>,

    /// Watch this network namespace: its name, or the number of a process in it
    #[arg(long, value_name = "NAME|PID", conflicts_with = "container")]
    pub netns: Option<String>,

    /// Watch the network namespace of this container: its id, or the beginning of it
    #[arg(long, value_name = "ID")]
    pub container: Option<String>,

    /// End after this time [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<u64>,

    /// How often the view is refreshed
    #[arg(long, value_name = "TIME", value_parser = parse_interval, default_value = "2s")]
    pub interval: u64,

    /// How much of the past the view covers
    #[arg(long, value_name = "TIME", value_parser = parse_interval, default_value = "60s")]
    pub window: u64,

    /// CPU time that this process may use, in per cent of one CPU, or `none`. Beyond it, only a
    /// share of the connections is captured, each of them completely
    #[arg(long, value_name = "PERCENT", value_parser = parse_budget, default_value = "2%")]
    pub budget: Budget,

    /// Number of bytes kept of each packet, from its IP header on; all where --keylog is given
    #[arg(long, value_name = "BYTES", default_value_t = tcpwhy_live::capture::SNAP_BYTES)]
    #[arg(default_value_if("keylog", ArgPredicate::IsPresent, "65536"))]
    #[arg(value_parser = clap::value_parser!(u32).range(64..=65_536))]
    pub snaplen: u32,

    /// Follow this key log, which a program writes where SSLKEYLOGFILE is set, and open TLS
    /// connections made from now on; nothing of what they carry but kinds of requests is shown
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub keylog: Option<PathBuf>,

    /// Memory of the kernel's capture ring, as in 32M
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "32M")]
    pub buffer: u64,

    /// Capture with a packet socket even where programs at the interface (TCX) cost less
    #[arg(long)]
    pub packet_socket: bool,

    /// Keep the last packets in this directory, and the packets around each finding with a page
    /// that draws them
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub write: Option<PathBuf>,

    /// Size of each file of --write
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64M")]
    pub ring_size: u64,

    /// Number of files that --write keeps; the oldest is removed
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub ring_files: u16,

    /// Serve metrics for Prometheus at this address, in its text format, with latencies as a
    /// classic histogram
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,

    /// Push the same metrics to an OpenTelemetry collector each interval (OTLP over HTTP, as JSON)
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url)]
    pub otlp: Option<String>,

    /// Print each interval's report as one line of JSON, and the report on all as the last
    /// (docs/report.schema.json)
    #[arg(long)]
    pub json: bool,

    /// Show HTTP targets literally instead of grouped by kind (`/items/7`, not `/items/{id}`)
    #[arg(long)]
    pub show_values: bool,

    /// Show all findings, endpoints and connections, not only the first of them
    #[arg(long)]
    pub all: bool,

    #[command(flatten)]
    pub reporting: Reporting,

    #[command(flatten)]
    pub display: Display,
}

/// A share of one CPU's time; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget(pub Option<f64>);

fn parse_budget(text: &str) -> Result<Budget, String> {
    if text == "none" {
        return Ok(Budget(None));
    }
    match parse_percent(text) {
        Ok(share) if share > 0.0 => Ok(Budget(Some(share))),
        _ => Err("write a share of one CPU in per cent, as in 2%, or none".into()),
    }
}

/// Parses an interval into nanoseconds; the smallest is 0.1 s.
fn parse_interval(text: &str) -> Result<u64, String> {
    match parse_duration(text)? {
        short if short < 100_000_000 => Err("write 100ms or more".into()),
        ns => Ok(ns),
    }
}

/// Parses a size in bytes; `K`, `M` and `G` are powers of 1024.
fn parse_size(text: &str) -> Result<u64, String> {
    const SIZE_MAX: u64 = 1 << 40;
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let factor = match text[digits.len()..].trim_end_matches("iB") {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        _ => 0,
    };
    let bytes = digits.parse().ok().and_then(|number: u64| number.checked_mul(factor));
    let bytes = bytes.filter(|bytes| (1..=SIZE_MAX).contains(bytes));
    bytes.ok_or_else(|| "write a number of bytes, as in 512K, 16M or 1G".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_budgets_have_their_units() {
        assert_eq!(parse_size("512K"), Ok(512 << 10));
        assert_eq!(parse_size("2MiB"), Ok(2 << 20));
        assert_eq!(parse_size("4096"), Ok(4096));
        for text in ["", "M", "0", "5T", "-1", "1.5M", "99999999999G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(parse_budget("2%"), Ok(Budget(Some(0.02))));
        assert_eq!(parse_budget("none"), Ok(Budget(None)));
        assert!(parse_budget("0").is_err() && parse_budget("lots").is_err());
        assert!(parse_interval("50ms").is_err() && parse_interval("2s").is_ok());
    }
}
