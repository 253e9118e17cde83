//! Arguments of `tcpwhy treat`.

use crate::args::{Display, parse_duration, parse_percent};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::net::IpAddr;
use std::path::PathBuf;
use tcpwhy_live::sockets::Peer;
use tcpwhy_probe::load::PlanError;
use tcpwhy_probe::{Scheme, Target};
use tcpwhy_treat::{Buffer, Setting, Side, TreatmentRequest, WINDOW_MAX};

pub const EXAMPLES: &str = "\
Examples:
  sudo tcpwhy treat nodelay --port 8080            try it: measure, change, measure; Ctrl-C undoes it
  sudo tcpwhy treat nodelay --port 8080 --dry-run  only show what would change
  sudo tcpwhy treat nodelay --pid 4711 --for 60s   for a minute, then undo
  sudo tcpwhy treat nodelay --port 8080 --load http://localhost:8080/ --for 10s
  sudo tcpwhy treat buffers --port 5432 --keep     leave it; the journal has what was there
  sudo tcpwhy treat congestion-control bbr --peer 10.0.0.7
  sudo tcpwhy treat sysctl tcp_slow_start_after_idle=0 --port 443
  sudo tcpwhy treat resolver --cache --ndots 1
  sudo tcpwhy treat syn-flood --port 443 --only cookies,limit
  sudo tcpwhy treat cwnd --initcwnd 30 --to 203.0.113.7
  sudo tcpwhy treat status                         what is changed now, by whom, since when
  sudo tcpwhy treat undo --all                     restore what was there

The settings from before are recorded on disk (/var/lib/tcpwhy/treat) before anything is changed. The change
is undone at Ctrl-C, SIGTERM, a closed terminal or pipe and the end of --for, and at once if latency
becomes worse (--guard). After `kill -9` it stays until `tcpwhy treat undo`. What another program has
changed meanwhile is left as it is, and stays in the journal.

Exit status: 0 done, and not slower (where the slow end became faster and typical requests slower,
the mean request decides); 1 slower, or undone by the guard or after a failure, or something could
not be restored or was changed by others; 2 nothing was changed.";

/// Arguments of `tcpwhy treat`.
#[derive(Debug, Args)]
pub struct Treat {
    #[command(subcommand)]
    pub command: TreatCommand,
}

/// The treatments, and commands about them.
#[derive(Debug, Subcommand)]
pub enum TreatCommand {
    /// Sends small segments at once (TCP_NODELAY on), which ends waits of Nagle's algorithm
    #[command(after_help = EXAMPLES)]
    Nodelay(Sockets),
    /// Acknowledges at once (TCP_QUICKACK) while this runs, which ends waits for delayed ACKs
    Quickack(Sockets),
    /// Lets the kernel size the buffers for the path, or fixes their sizes
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

        #[command(flatten)]
        host: OnHost,
    },
    /// Lengthens the accept queue of a listener, and the kernel's limit for it
    Backlog {
        /// Connections that may wait to be accepted
        #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
        connections: u32,

        /// Port of the listener
        #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
        port: u16,

        #[command(flatten)]
        host: OnHost,
    },
    /// Changes the resolver's configuration (resolv.conf), or puts a cache in front of its servers
    Resolver {
        /// Time limit for an answer, seconds
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=30))]
        #[arg(required_unless_present_any =
            ["attempts", "ndots", "single_request_reopen", "nameserver", "cache"])]
        timeout: Option<u32>,

        /// Number of attempts at each server
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5))]
        attempts: Option<u32>,

        /// Number of dots from which on a name is tried without a search domain first
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=15))]
        ndots: Option<u32>,

        /// Use a second socket if only one of two answers comes
        #[arg(long)]
        single_request_reopen: bool,

        /// Use these servers instead of the present ones
        #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
        nameserver: Vec<IpAddr>,

        /// Run a caching resolver (dnsmasq) in front of the servers during the treatment
        #[arg(long)]
        cache: bool,

        /// The file, if it is not that of the host or of the namespace (containers)
        #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,

        /// Measure connections with this port at either end
        #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
        port: Option<u16>,

        #[command(flatten)]
        host: OnHost,
    },
    /// Defends a listener against a SYN flood: SYN cookies, longer queues, a limit per source
    SynFlood {
        /// Port that is flooded
        #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
        port: u16,

        /// Use only these defences
        #[arg(long, value_enum, value_delimiter = ',', value_name = "DEFENCE,…")]
        #[arg(default_values_t = [Defence::Cookies, Defence::Backlog, Defence::Limit])]
        only: Vec<Defence>,

        /// Length of the queues, connections
        #[arg(long, value_name = "N", default_value_t = 4_096)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=65_535))]
        backlog: u32,

        /// SYNs a second that one source address may send
        #[arg(long, value_name = "N", default_value_t = 100)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        limit: u32,

        /// Limit by an XDP program at the network interfaces instead of nftables, which costs less
        /// for each packet
        #[arg(long)]
        xdp: bool,

        /// Interfaces of the XDP program [default: those of the default routes]
        #[arg(long, value_name = "NAME,…", value_delimiter = ',', requires = "xdp")]
        device: Vec<String>,

        #[command(flatten)]
        host: OnHost,
    },
    /// Changes the initial windows of a route: the data that new connections send before the first
    /// ACK
    Cwnd {
        /// Segments that this host may send before the first ACK
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(WINDOW_MAX)))]
        #[arg(required_unless_present = "initrwnd")]
        initcwnd: Option<u32>,

        /// Segments that the other side may send before the first ACK
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(WINDOW_MAX)))]
        initrwnd: Option<u32>,

        /// The route that leads to this address [default: the default route of IPv4]
        #[arg(long, value_name = "ADDRESS")]
        to: Option<IpAddr>,

        /// Measure connections with this port at either end
        #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
        port: Option<u16>,

        #[command(flatten)]
        host: OnHost,
    },
    /// Lists the treatments in effect, with user and time
    Status {
        /// Print it as JSON (docs/treat.schema.json)
        #[arg(long)]
        json: bool,

        #[command(flatten)]
        display: Display,
    },
    /// Restores the settings from before a treatment
    Undo {
        /// Number of the treatment, as `tcpwhy treat status` lists it
        #[arg(value_name = "ID", required_unless_present = "all")]
        id: Option<u32>,

        /// All treatments
        #[arg(long, conflicts_with = "id")]
        all: bool,

        /// Also forget what cannot be restored, or was changed by others: it stays as it is now
        #[arg(long)]
        forget: bool,

        /// Print it as JSON (docs/treat.schema.json)
        #[arg(long)]
        json: bool,

        #[command(flatten)]
        display: Display,
    },
}

/// A defence against a SYN flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Defence {
    /// SYN cookies (tcp_syncookies)
    Cookies,
    /// Longer queues (the listener's backlog, somaxconn, tcp_max_syn_backlog)
    Backlog,
    /// At most this many SYNs a second from one address (nftables, or XDP)
    Limit,
}

/// The namespace in which a host setting is treated, and the course of the treatment.
#[derive(Debug, Args)]
pub struct OnHost {
    /// In this network namespace: its name, or the number of a process in it
    #[arg(long, value_name = "NAME|PID")]
    pub netns: Option<String>,

    #[command(flatten)]
    pub course: Course,
}

/// The sockets that are treated, and the course of the treatment.
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

    /// Keep the change after the measurement; `tcpwhy treat undo` restores the settings from before
    #[arg(long, conflicts_with = "duration")]
    pub keep: bool,

    /// Duration of the measurement before the change, and of that after it
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub measure: u64,

    /// Change at once, without a measurement (and so without --guard)
    #[arg(long)]
    pub no_measure: bool,

    /// Send requests to measure with, from the namespace that is treated: http://HOST[:PORT]/PATH
    /// or https://…
    #[arg(long, value_name = "URL", value_parser = parse_load, value_hint = ValueHint::Url)]
    #[arg(conflicts_with = "no_measure")]
    pub load: Option<Target>,

    /// Number of connections of --load
    #[arg(long, value_name = "N", default_value = "10", requires = "load")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub load_connections: u16,

    /// Undo at once if the 99th percentile grows by more than this; `none` never does
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

fn parse_load(text: &str) -> Result<Target, String> {
    let target = Target::parse(text).map_err(|error| error.to_string())?;
    match target.scheme {
        Scheme::Tcp => Err(PlanError::NotHttp(text.to_owned()).to_string()),
        Scheme::Http | Scheme::Https => Ok(target),
    }
}

/// Largest accepted growth of the 99th percentile, as a share; `None` accepts any growth.
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

/// Parses a size in bytes; `K` and `M` are powers of 1024.
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
    /// Returns what these arguments ask for, with `setting`.
    pub fn asked(&self, setting: Setting) -> TreatmentRequest {
        let side = match self.side {
            AskedSide::Server => Side::Server,
            AskedSide::Client => Side::Client,
            AskedSide::Both => Side::Both,
        };
        TreatmentRequest {
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

/// Returns the setting for buffers: autotuning, unless sizes are given. If they are, only the given
/// buffers change.
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
