//! Arguments of `tcpwhy host`.

use crate::args::{Display, parse_duration};
use clap::Args;
use std::path::PathBuf;
use tcpwhy_host::AuditedNamespace;

pub const EXAMPLES: &str = "\
Examples:
  sudo tcpwhy host                           what on this host explains a symptom now?
  sudo tcpwhy host --for 10s                 the same over a longer sample
  tcpwhy slow.pcap --json > report.json; sudo tcpwhy host --for-report report.json
                                             what on this host explains this report?
  sudo tcpwhy host --pid 4711                the network namespace and resolv.conf of a container
  sudo tcpwhy host --all                     all settings, also those that explain nothing
  sudo tcpwhy host --json | jq '.entries[] | select(.explains != [])'

Nothing is changed: each command that is shown is for you to run, with the one that undoes it.

Exit status: 0 nothing here explains a present symptom, 1 something does, 2 the host could not be
read.";

/// Arguments of `tcpwhy host`.
#[derive(Debug, Args)]
pub struct Host {
    /// How long to watch which counters grow, as in 3s
    #[arg(long = "for", value_name = "TIME", value_parser = parse_sample, default_value = "2s")]
    pub sample_ns: u64,

    /// Look for what explains the findings of this report (`tcpwhy FILE --json`)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub for_report: Option<PathBuf>,

    /// Look into this network namespace: its name, or the number of a process in it
    #[arg(long, value_name = "NAME|PID", conflicts_with = "pid")]
    pub netns: Option<String>,

    /// Look into the network namespace of this process, with its resolv.conf
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,

    /// Print the audit as JSON (docs/host.schema.json)
    #[arg(long)]
    pub json: bool,

    /// Show all settings, including those that explain no present symptom
    #[arg(long)]
    pub all: bool,

    #[command(flatten)]
    pub display: Display,
}

impl Host {
    /// Returns the namespace or process that these arguments name.
    pub fn place(&self) -> AuditedNamespace {
        match (&self.netns, self.pid) {
            (Some(name), _) => AuditedNamespace::Named(name.clone()),
            (None, Some(pid)) => AuditedNamespace::Process(pid),
            (None, None) => AuditedNamespace::Here,
        }
    }
}

/// Parses a sample time between 0.1 s and one hour.
fn parse_sample(text: &str) -> Result<u64, String> {
    let ns = parse_duration(text)?;
    if (100_000_000..=3_600_000_000_000).contains(&ns) {
        Ok(ns)
    } else {
        Err("write a time from 100ms to 3600s".into())
    }
}
