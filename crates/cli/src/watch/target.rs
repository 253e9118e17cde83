//! The target of a watch: a network namespace, and the ports of a process in it.

use super::args::Watch;
use super::ports::Followed;
use crate::error::Error;
use std::time::Duration;
use tcpwhy_core::filter::{Ends, Values};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::process::container_process;
use tcpwhy_privileged::{Helper, Permitted};

/// The target of a watch.
pub struct Target {
    /// The namespace in which packets are captured.
    pub netns: Netns,
    /// The object whose end ends the watch.
    watched: Watched,
    ports: Option<Followed>,
    /// Terms of `--filter`.
    ends: Vec<Ends>,
}

enum Watched {
    Own,
    Process(u32),
    Netns(String),
    Container(String, u32),
}

impl Target {
    /// Finds what `asked` names, and follows the ports of a process by a process that keeps the
    /// rights of this one.
    ///
    /// # Errors There is no such process, namespace or container.
    pub fn find(asked: &Watch) -> Result<Self, Error> {
        let (netns, watched) = match (asked.pid, &asked.netns, &asked.container) {
            (Some(pid), ..) => (Netns::of_process(pid)?, Watched::Process(pid)),
            (_, Some(name), _) => {
                let netns = Netns::find(name)?;
                // A name has precedence over the number of a process.
                let is_named = netns.name.as_ref() == Some(name);
                let pid = name.parse().ok().filter(|_| !is_named);
                (netns, pid.map_or_else(|| Watched::Netns(name.clone()), Watched::Process))
            }
            (.., Some(id)) => {
                let pid = container_process(id)?;
                (Netns::of_process(pid)?, Watched::Container(id.clone(), pid))
            }
            _ => (Netns::own(), Watched::Own),
        };
        let follow = |pid| {
            let ports = Some((pid, netns.clone()));
            Followed::begin(Helper::start(Permitted { ports, ..Permitted::default() })?)
        };
        let ports = asked.pid.map(follow).transpose()?;
        let ends = asked
            .reporting
            .filter
            .as_ref()
            .map(|filter| filter.ends().to_vec())
            .unwrap_or_default();
        Ok(Self { netns, watched, ports, ends })
    }

    /// Returns the ends that packets have to match now.
    pub fn ends(&self) -> Vec<Ends> {
        let mut ends = self.ends.clone();
        if let Some(ports) = &self.ports {
            let ports = ports.ranges();
            ends.push(Ends { wanted: true, any: Values::Ports(ports) });
        }
        ends
    }

    /// Returns whether the ports of a watched process have changed since the last call.
    pub fn has_other_ports(&mut self) -> bool {
        self.ports.as_mut().is_some_and(Followed::has_changed)
    }

    /// Returns the CPU time of following its ports.
    pub fn cpu_time(&self) -> Duration {
        self.ports.as_ref().map_or(Duration::ZERO, Followed::cpu_time)
    }

    /// Returns the reason if the target no longer exists.
    pub fn is_gone(&self) -> Option<String> {
        match &self.watched {
            Watched::Own => None,
            Watched::Process(pid) if !is_alive(*pid) => Some(format!("process {pid} has ended")),
            Watched::Container(id, pid) if !is_alive(*pid) => {
                Some(format!("container {id} has ended (process {pid})"))
            }
            Watched::Netns(name) => match Netns::find(name) {
                Ok(netns) if netns.inode == self.netns.inode => None,
                _ => Some(format!("network namespace {name} was removed")),
            },
            Watched::Process(_) | Watched::Container(..) => None,
        }
    }
}

/// Returns whether the process exists and has not ended (a zombie has).
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}
