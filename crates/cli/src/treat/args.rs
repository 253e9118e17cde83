//! What can be asked of `tcpwhy treat`.

use crate::args::{Display, parse_duration, parse_percent};
use clap::{Args, Subcommand, ValueEnum};
use tcpwhy_live::sockets::Peer;
use tcpwhy_live::treat::{Asked, Buffer, Setting, Side};

pub const EXAMPLES: &str = "\
Examples:
  sudo tcpwhy treat nodelay --port 8080            try it: measure, change, measure; Ctrl-C undoes it
  sudo tcpwhy treat nodelay --port 8080 --dry-run  only show what would change
  sudo tcpwhy treat nodelay --pid 4711 --for 60s   for a minute, then undo
  sudo tcpwhy treat buffers --port 5432 --keep     leave it; the journal has what was there
  sudo tcpwhy treat congestion-control bbr --peer 10.0.0.7
  sudo tcpwhy treat sysctl tcp_slow_start_after_idle=0 --port 443
  sudo tcpwhy treat status                         what is changed now, by whom, since when
  sudo tcpwhy treat undo --all                     restore what was there

A record of what was there is on disk (/var/lib/tcpwhy/treat) before anything is changed. The change
is undone at Ctrl-C, SIGTERM, a closed terminal and the end of --for, and at once where latency
becomes worse (--guard). After `kill -9` it stays until `tcpwhy treat undo`.

Exit status: 0 done, and not slower; 1 slower, or undone by the guard, or something could not be
restored; 2 nothing was changed.";

/// Arguments of `tcpwhy treat`.
#[derive(Debug, Args)]
pub struct Treat {
    #[command(subcommand)]
    pub command: TreatCommand,
}

/// What to treat.
#[derive(Debug, Subcommand)]
pub enum TreatCommand {
    /// Sends small segments at once (TCP_NODELAY on): ends waits of Nagle's algorithm
    #[command(after_help = EXAMPLES)]
    Nodelay(Sockets),
    /// Acknowledges at once (TCP_QUICKACK), for as long as this runs: ends waits of delayed ACKs
    Quickack(Sockets),
    /// Lets the kernel size the buffers by what the path carries, or fixes their sizes
    Buffers {
        /// Fix the send buffer at this size, as in 1M, instead of letting the kernel size it
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        sndbuf: Option<u32>,

        /// Fix the receive buffer at this size
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        rcvbuf: Option<u32>,

        #[command(flatten)]
        sockets: Sockets,
    },
    /// Changes the congestion control (TCP_CONGESTION)
    CongestionControl {
        /// Its name, as in bbr
        #[arg(value_name = "NAME")]
        name: String,

        #[command(flatten)]
        sockets: Sockets,
    },
    /// Changes a kernel setting that can be restored
    Sysctl {
        /// The setting and its value, as in tcp_slow_start_after_idle=0
        #[arg(value_name = "NAME=VALUE")]
        assignment: String,

        /// Measure connections with this port at either end
        #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
        port: Option<u16>,

        /// In this network namespace: its name, or the number of a process in it
        #[arg(long, value_name = "NAME|PID")]
        netns: Option<String>,

        #[command(flatten)]
        course: Course,
    },
    /// Lists what is changed now, by whom, and since when
    Status {
        /// Print it as JSON (docs/treat.schema.json)
        #[arg(long)]
        json: bool,

        #[command(flatten)]
        display: Display,
    },
    /// Restores what was there
    Undo {
        /// Number of the treatment, as `tcpwhy treat status` lists it
        #[arg(value_name = "ID", required_unless_present = "all")]
        id: Option<u32>,

        /// All treatments
        #[arg(long, conflicts_with = "id")]
        all: bool,

        /// Print it as JSON (docs/treat.schema.json)
        #[arg(long)]
        json: bool,

        #[command(flatten)]
        display: Display,
    },
}

/// Which sockets, and the course of the treatment.
#[derive(Debug, Args)]
pub struct Sockets {
    /// Connections with this port at either end
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(required_unless_present_any = ["pid", "peer", "cgroup"])]
    pub port: Option<u16>,

    /// Connections of this process and its children
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,

    /// Connections to this peer, as ADDRESS or ADDRESS:PORT
    #[arg(long, value_name = "PEER")]
    pub peer: Option<Peer>,

    /// Connections of the processes in this control group, as /proc/PID/cgroup names it
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub cgroup: Option<String>,

    /// In this network namespace: its name, or the number of a process in it
    #[arg(long, value_name = "NAME|PID")]
    pub netns: Option<String>,

    /// Only the sockets of one side of the connections
    #[arg(long, value_enum, default_value_t = AskedSide::Both)]
    pub side: AskedSide,

    #[command(flatten)]
    pub course: Course,
}

/// A side of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AskedSide {
    /// Sockets that a listener accepted
    Server,
    /// Sockets that connected
    Client,
    /// Both
    Both,
}

/// How a treatment runs.
#[derive(Debug, Args)]
pub struct Course {
    /// Undo after this time [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<u64>,

    /// Leave the change after the measurement; `tcpwhy treat undo` restores what was there
    #[arg(long, conflicts_with = "duration")]
    pub keep: bool,

    /// Measure for this time before, and after
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub measure: u64,

    /// Change at once, without a measurement (and so without --guard)
    #[arg(long)]
    pub no_measure: bool,

    /// Undo at once where the 99th percentile grows by more, or `none`
    #[arg(long, value_name = "p99:+N%", value_parser = parse_guard, default_value = "p99:+20%")]
    pub guard: Guard,

    /// Only show what would change
    #[arg(long)]
    pub dry_run: bool,

    /// Print the result as JSON (docs/treat.schema.json)
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub display: Display,
}

/// Growth of the 99th percentile that is borne, as a share; `None` is any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guard(pub Option<f64>);

fn parse_guard(text: &str) -> Result<Guard, String> {
    if text == "none" {
        return Ok(Guard(None));
    }
    let percent = text.strip_prefix("p99:+").map(parse_percent);
    match percent {
        Some(Ok(share)) if share > 0.0 => Ok(Guard(Some(share))),
        _ => Err("write p99:+20%, or none".into()),
    }
}

/// Bytes; `K` and `M` are powers of 1024.
fn parse_size(text: &str) -> Result<u32, String> {
    const SIZE_MAX: u32 = 1 << 29;
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let factor = match text[digits.len()..].trim_end_matches("iB") {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        _ => 0,
    };
    let bytes = digits.parse().ok().and_then(|number: u32| number.checked_mul(factor));
    let bytes = bytes.filter(|bytes| (1..=SIZE_MAX).contains(bytes));
    bytes.ok_or_else(|| "write a number of bytes, as in 64K or 1M".into())
}

impl Sockets {
    /// What these arguments ask of `setting`.
    pub fn asked(&self, setting: Setting) -> Asked {
        let side = match self.side {
            AskedSide::Server => Side::Server,
            AskedSide::Client => Side::Client,
            AskedSide::Both => Side::Both,
        };
        Asked {
            setting,
            port: self.port,
            pid: self.pid,
            peer: self.peer,
            cgroup: self.cgroup.clone(),
            side,
            netns: self.netns.clone(),
        }
    }
}

/// Autotuned buffers, unless sizes are given: then only what is given changes.
pub fn buffers(sndbuf: Option<u32>, rcvbuf: Option<u32>) -> Setting {
    match (sndbuf, rcvbuf) {
        (None, None) => {
            Setting::Buffers { send: Some(Buffer::Autotuned), receive: Some(Buffer::Autotuned) }
        }
        (send, receive) => {
            Setting::Buffers { send: send.map(Buffer::Bytes), receive: receive.map(Buffer::Bytes) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_and_sizes_have_their_units() {
        assert_eq!(parse_guard("p99:+20%"), Ok(Guard(Some(0.2))));
        assert_eq!(parse_guard("none"), Ok(Guard(None)));
        assert!(parse_guard("20%").is_err() && parse_guard("p99:+0%").is_err());
        assert_eq!(parse_size("64K"), Ok(64 << 10));
        assert!(parse_size("0").is_err() && parse_size("1G").is_err());
    }
}
