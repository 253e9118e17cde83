//! The ports that a process and its children use: those at which they listen, and their own ports
//! of connections that they opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::Holders;
use crate::diag::{Diag, TcpState};
use crate::error::LiveError;
use crate::netns::Netns;

/// Most ranges of ports: the size of a filter in the kernel.
const RANGES_MAX: usize = 32;
/// Name look-ups use a new port each time; all of the namespace are watched.
const NAMES: u16 = 53;

/// States in which a socket has a port that packets come to.
const STATES: [TcpState; 4] =
    [TcpState::Listen, TcpState::Established, TcpState::SynSent, TcpState::CloseWait];

/// Follows the ports of a process.
pub struct Ports {
    pid: u32,
    diag: Diag,
    ports: BTreeSet<u16>,
}

impl Ports {
    /// Reads the ports of `pid`, which lives in `netns`.
    ///
    /// # Errors
    /// The kernel's list of sockets cannot be read.
    pub fn open(pid: u32, netns: &Netns) -> Result<Self, LiveError> {
        let mut ports = Self { pid, diag: netns.inside(Diag::open)??, ports: BTreeSet::new() };
        ports.ports = ports.read()?;
        Ok(ports)
    }

    /// Reads the ports again; returns whether they have changed. Previous ports stay for one more
    /// reading, so that the end of a connection is captured.
    pub fn read_again(&mut self) -> bool {
        // A process that ends meanwhile has no ports any more, and is noticed elsewhere.
        let Ok(ports) = self.read() else { return false };
        let has_changed = ports != self.ports;
        self.ports = ports;
        has_changed
    }

    /// Returns the ports as ranges. If there are too many ranges the nearest ones are joined, and
    /// the ports between them are captured too.
    pub fn ranges(&self) -> Vec<(u16, u16)> {
        let all = self.ports.iter().copied().chain([NAMES]).collect::<BTreeSet<u16>>();
        let mut ranges: Vec<(u16, u16)> = all.into_iter().map(|port| (port, port)).collect();
        while ranges.len() > RANGES_MAX {
            let gap = |at: &usize| ranges[at + 1].0 - ranges[*at].1;
            let Some(nearest) = (0..ranges.len() - 1).min_by_key(gap) else { break };
            ranges[nearest].1 = ranges.remove(nearest + 1).1;
        }
        ranges
    }

    fn read(&mut self) -> Result<BTreeSet<u16>, LiveError> {
        let holders = Holders::read(Some(&family(self.pid)));
        let (mut listening, mut local) = (BTreeSet::new(), BTreeSet::new());
        self.diag.dump(&STATES, |entry| {
            if holders.by_inode.contains_key(&entry.inode) {
                let to = if entry.state == TcpState::Listen { &mut listening } else { &mut local };
                to.insert(entry.local.port());
            }
        })?;
        Ok(listening.into_iter().chain(local).collect())
    }
}

/// Returns the process and all its descendants.
pub fn family(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for child in super::all() {
        if let Some(parent) = parent(child) {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(member) = family.get(next) {
        family.extend(children.remove(member).unwrap_or_default());
        next += 1;
    }
    family
}

/// Returns the parent of a process.
pub fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may contain blanks and brackets: the last bracket ends it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn ports_of_this_process_are_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ports = Ports::open(std::process::id(), &Netns::own()).unwrap();
        let served = listener.local_addr().unwrap().port();
        assert!(ports.ports.contains(&served));
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(ports.read_again());
        assert!(ports.ports.contains(&client.local_addr().unwrap().port()));
    }

    #[test]
    fn too_many_ports_are_joined_where_they_are_near() {
        let diag = Diag::open().unwrap();
        let ports = (0..40).map(|number| 1_000 + 100 * number + u16::from(number == 7) * 99);
        let ports = Ports { pid: 1, diag, ports: ports.collect() }.ranges();
        assert_eq!(ports.len(), RANGES_MAX);
        assert_eq!(ports[0], (NAMES, NAMES));
        assert!(ports.iter().any(|&(from, to)| from == 1_799 && to >= 1_800), "{ports:?}");
    }
}
