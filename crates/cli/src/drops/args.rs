//! Arguments of `tcpwhy drops`.

use crate::args::{Display, parse_duration};
use clap::Args;
use tcpwhy_live::drops::Watched;

pub const EXAMPLES: &str = "\
Examples:
  sudo tcpwhy drops                          what the kernel drops in the next 10 s
  sudo tcpwhy drops --for 1h --interval 5s   longer; Ctrl-C ends it and keeps what is known
  sudo tcpwhy drops --netns web              in one network namespace
  sudo tcpwhy drops --pid 4711               at the sockets of one process
  sudo tcpwhy drops --json | jq '.drops[] | select(.harm == \"hurts\")'

Without CAP_BPF and CAP_PERFMON (or in a binary that was built without clang) only the kernel's
counters are read: how many and which kind, but no reason, function or flow.

Exit status: 0 no drop hurt a connection, 1 some did, 2 the counters could not be read.";

/// Arguments of `tcpwhy drops`.
#[derive(Debug, Args)]
pub struct Drops {
    /// How long to watch, as in 10s or 5m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    pub for_ns: u64,

    /// How often the terminal is refreshed
    #[arg(long = "interval", value_name = "TIME", value_parser = parse_duration)]
    #[arg(default_value = "2s")]
    pub interval_ns: u64,

    /// Only drops at sockets of this process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,

    /// Only this network namespace: its name, or the number of a process in it [default: all that
    /// can be found]
    #[arg(long, value_name = "NAME|PID", conflicts_with = "pid")]
    pub netns: Option<String>,

    /// Print the drops as JSON (docs/drops.schema.json)
    #[arg(long)]
    pub json: bool,

    /// Also show harmless drops, all flows and all counters
    #[arg(long)]
    pub all: bool,

    #[command(flatten)]
    pub display: Display,
}

impl Drops {
    /// Returns what these arguments ask to watch.
    pub fn watched(&self) -> Watched {
        Watched { netns: self.netns.clone(), pid: self.pid }
    }
}
