//! Arguments of `tcpwhy sockets`.

use crate::args::Display;
use clap::Args;
use tcpwhy_live::sockets::{Peer, Selection, Where};

pub const EXAMPLES: &str = "\
Examples:
  sudo tcpwhy sockets                        all of this network namespace
  sudo tcpwhy sockets --port 8080            those of one service, with their options
  sudo tcpwhy sockets --pid 4711             those of one process
  sudo tcpwhy sockets 10.0.0.7:5432          connections to one peer
  sudo tcpwhy sockets --all-netns --json | jq '.sockets[] | select(.nodelay == false)'

Without root the kernel's list is complete, but options of other users' processes (nodelay, cork,
whether a buffer is fixed) cannot be read; the report says so.

Exit status: 0 nothing limits a socket now, 1 something does, 2 the sockets could not be read.";

/// Arguments of `tcpwhy sockets`.
#[derive(Debug, Args)]
pub struct Sockets {
    /// Only connections to this peer, as ADDRESS or ADDRESS:PORT
    #[arg(value_name = "PEER")]
    pub peer: Option<Peer>,

    /// Only sockets with this port at either end
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// Only sockets that this process holds
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,

    /// Look into this network namespace: its name, or the number of a process in it
    #[arg(long, value_name = "NAME|PID", conflicts_with = "all_netns")]
    pub netns: Option<String>,

    /// Look into all network namespaces that can be found
    #[arg(long)]
    pub all_netns: bool,

    /// Print the sockets as JSON (docs/sockets.schema.json)
    #[arg(long)]
    pub json: bool,

    /// List each socket, not only groups
    #[arg(long)]
    pub all: bool,

    #[command(flatten)]
    pub display: Display,
}

impl Sockets {
    /// Returns the selection that these arguments state.
    pub fn selection(&self) -> Selection {
        let place = match &self.netns {
            Some(name) => Where::Netns(name.clone()),
            None if self.all_netns => Where::All,
            None => Where::Here,
        };
        Selection { pid: self.pid, port: self.port, peer: self.peer, place }
    }
}
