//! Arguments of `tcpwhy probe`.

use crate::args::{Display, Trust, Versions, parse_duration};
use clap::{Args, ValueEnum};
use std::time::Duration;
use tcpwhy_probe::Target;
use tcpwhy_probe::budget::Budget;
use tcpwhy_probe::path::{Family, Method, Plan};

pub const EXAMPLES: &str = "\
Examples:
  tcpwhy probe db.example.com:5432           round trips, hops, path MTU
  tcpwhy probe https://example.com/          the same, and what one request waits for
  sudo tcpwhy probe 192.0.2.7:443            SYN by raw sockets, timed by the kernel
  tcpwhy probe 192.0.2.7:443 --method icmp   hops by echo requests
  tcpwhy probe [2001:db8::7]:443 --no-hops   round trips alone
  tcpwhy probe https://example.com/ --json | jq .path.hops

Sends at most COUNT echo requests, COUNT SYNs, COUNT connections without a byte, MAX_HOPS × COUNT probes
of hops, 40 packets for the path MTU, and one GET, of whose answer it reads 16 MiB. All probes of hops have the same addresses and ports,
so that routers with equal paths choose one.

Exit status: 0 no fault, 1 faults found, 2 the name does not resolve, or no packet can be sent.";

/// Largest number of probes of a kind, so that no host is flooded.
const COUNT_MAX: i64 = 1_000;
/// Smallest interval between probes of one kind, ns.
const INTERVAL_NS_MIN: u64 = 10_000_000;

/// Arguments of `tcpwhy probe`.
#[derive(Debug, Args)]
pub struct Probe {
    /// HOST:PORT, or a URL with http:// or https://
    #[arg(value_name = "HOST:PORT|URL", value_parser = Target::parse)]
    pub target: Target,

    /// Number of round trips of each kind, and of probes of each hop
    #[arg(long, value_name = "N", default_value = "5")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX))]
    pub count: u32,

    /// Interval between two probes of a kind, as in 200ms
    #[arg(long, value_name = "TIME", value_parser = parse_interval, default_value = "200ms")]
    pub interval: Duration,

    /// Time limit for each answer
    #[arg(long, value_name = "TIME", value_parser = parse_wait, default_value = "1s")]
    pub wait: Duration,

    /// Protocol of the probes of hops [default: tcp if raw sockets are permitted, else udp]
    #[arg(long, value_name = "METHOD")]
    pub method: Option<Carrier>,

    /// Probe at most this many hops
    #[arg(long, value_name = "N", default_value = "30")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    pub max_hops: u8,

    /// Do not look for hops
    #[arg(long)]
    pub no_hops: bool,

    /// Do not look for the path MTU
    #[arg(long)]
    pub no_mtu: bool,

    /// Send no request, even if the target is a URL
    #[arg(long)]
    pub no_request: bool,

    /// Use only the IPv4 addresses of the name
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,

    /// Use only the IPv6 addresses of the name
    #[arg(short = '6', long)]
    pub ipv6: bool,

    #[command(flatten)]
    pub trust: Trust,

    #[command(flatten)]
    pub versions: Versions,

    /// Print the measurements as JSON (docs/probe.schema.json)
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub display: Display,
}

/// The protocol that carries a probe of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Carrier {
    /// SYNs to the target's port
    Tcp,
    /// Datagrams to port 33434
    Udp,
    /// Echo requests
    Icmp,
}

impl Probe {
    /// Returns the measurements to make.
    pub fn plan(&self) -> Plan {
        let method = self.method.map(|carrier| match carrier {
            Carrier::Tcp => Method::Tcp,
            Carrier::Udp => Method::Udp,
            Carrier::Icmp => Method::Icmp,
        });
        let family = match (self.ipv4, self.ipv6) {
            (true, _) => Some(Family::V4),
            (_, true) => Some(Family::V6),
            _ => None,
        };
        let plan = Plan {
            count: self.count,
            interval: self.interval,
            wait: self.wait,
            method,
            hops_max: self.max_hops,
            hops: !self.no_hops,
            mtu: !self.no_mtu,
            request: !self.no_request,
            tls: self.trust.tls(self.versions),
            family,
            budget: Budget::none(),
        };
        Plan { budget: Budget::new(plan.limits()), ..plan }
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        ns @ INTERVAL_NS_MIN..=60_000_000_000 => Ok(Duration::from_nanos(ns)),
        _ => Err("write a time from 10ms to 60s".into()),
    }
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        ns @ INTERVAL_NS_MIN..=10_000_000_000 => Ok(Duration::from_nanos(ns)),
        _ => Err("write a time from 10ms to 10s".into()),
    }
}
