//! Arguments of `tcpwhy dns`.

use crate::args::Display;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use tcpwhy_probe::dns::{Config, RecordType, check_name, record_type};

pub const EXAMPLES: &str = "\
Examples:
  tcpwhy dns db.example.com                  what resolving it costs, server by server
  tcpwhy dns db --resolv-conf pod.conf       with another file: its servers, search list, options
  tcpwhy dns db.example.com --server 10.0.0.53 --server 9.9.9.9    compare two servers
  tcpwhy dns 192.0.2.7                       an address: its reverse name (PTR)
  tcpwhy dns db.example.com --type MX        other records
  tcpwhy dns db.example.com --trace --root 198.41.0.4              from the root down
  tcpwhy dns db.example.com --json | jq '.findings[0]'

All servers are asked at the same time. Each gets at most COUNT queries for each type and each name
of the search list, the same number over TCP where answers are cut short, one more for each type that
it is silent to, one for the reverse name, and one TCP connection that shows its round trip. Then
getaddrinfo of this system resolves the name once. --trace sends at most 24 times 6 queries.

Exit status: 0 no fault (also where there is no such name), 1 faults found, 2 nothing could be asked.";

/// Largest accepted `--count`, so that no server is flooded.
const COUNT_MAX: i64 = 100;

/// Arguments of `tcpwhy dns`.
#[derive(Debug, Args)]
pub struct Dns {
    /// A name, or an address for its reverse name
    #[arg(value_name = "NAME", value_parser = parse_name)]
    pub name: String,

    /// Ask for records of this type: A, AAAA, PTR, MX, TXT, … [default: A and AAAA together]
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_type)]
    pub types: Vec<RecordType>,

    /// Ask this server instead of those of resolv.conf; may be repeated
    #[arg(long = "server", value_name = "ADDR[:PORT]", value_parser = parse_server)]
    pub servers: Vec<SocketAddr>,

    /// Read servers, search list and options from this file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub resolv_conf: Option<PathBuf>,

    /// How often each server is asked; the repeated answers show whether it caches
    #[arg(long, value_name = "N", default_value = "3")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX))]
    pub count: u32,

    /// Follow the name from the root servers down, referral by referral
    #[arg(long, requires = "roots")]
    pub trace: bool,

    /// A root server for --trace; may be repeated
    #[arg(long = "root", value_name = "ADDR[:PORT]", value_parser = parse_server, requires = "trace")]
    pub roots: Vec<SocketAddr>,

    /// Print the measurements as JSON (docs/dns.schema.json)
    #[arg(long)]
    pub json: bool,

    /// Show each query
    #[arg(long)]
    pub all: bool,

    #[command(flatten)]
    pub display: Display,
}

impl Dns {
    /// Record types to ask for: those given, else PTR for an address, else A and AAAA.
    pub fn types(&self, config: &Config) -> Vec<RecordType> {
        if !self.types.is_empty() {
            self.types.clone()
        } else if self.name.parse::<std::net::IpAddr>().is_ok() {
            vec![RecordType::PTR]
        } else {
            config.address_types()
        }
    }
}

fn parse_name(text: &str) -> Result<String, String> {
    check_name(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

fn parse_type(text: &str) -> Result<RecordType, String> {
    record_type(text).ok_or_else(|| {
        "no such type; A, AAAA, PTR, CNAME, MX, NS, SOA, SRV, TXT, TYPE65 are some".into()
    })
}

fn parse_server(text: &str) -> Result<SocketAddr, String> {
    let why = "write the address of the server: 192.0.2.53, 192.0.2.53:5353, 2001:db8::53 or \
               [2001:db8::53]:5353";
    Config::parse_server(text).ok_or_else(|| why.to_owned())
}
