//! Finds the process that holds a socket: `/proc/PID/fd` names sockets by their inode (proc(5)).

mod identity;
pub mod ports;
mod runtime;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Serialize;

use crate::error::LiveError;
pub use identity::{running, start_ticks};
pub use ports::Ports;
pub use runtime::Servers;

/// A process that holds a socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Command, as `ps -o comm` shows it.
    pub command: String,
    /// Id of the container in which it runs, from its control group; `None` outside of a container.
    pub container: Option<String>,
    /// Its runtime and the number of its workers, where it shows them: `gunicorn, 2 workers`.
    pub runtime: Option<String>,
}

/// A descriptor of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Index in [`Holders::processes`].
    pub process: usize,
    /// Number of the descriptor in that process.
    pub fd: u32,
}

/// The processes that hold sockets.
#[derive(Debug, Default)]
pub struct Holders {
    /// Processes that hold at least one socket, by number.
    pub processes: Vec<Process>,
    /// Holders by the socket's inode: the descriptor of the process that started first. Processes
    /// that share a socket after fork (nginx's workers and their master) share its inode. A child
    /// that is about to run another program has it for a moment only, and its id may be lower.
    pub by_inode: HashMap<u32, Holder>,
    /// The other processes that hold the same socket, by its inode: indices in
    /// [`Holders::processes`], such as those of nginx's workers for a listener.
    pub shared: HashMap<u32, Vec<usize>>,
    /// Processes whose descriptors may not be read: another user's, without `CAP_SYS_PTRACE`.
    pub unreadable: u64,
}

impl Holders {
    /// Reads the descriptors of all processes, or of `pids` alone.
    pub fn read(pids: Option<&[u32]>) -> Self {
        let mut all: Vec<u32> = match pids {
            Some(pids) => pids.to_vec(),
            None => self::all().collect(),
        };
        all.sort_unstable();
        let mut holders = Self::default();
        let mut found = read_all(&all);
        found.sort_by_cached_key(|(pid, sockets)| {
            let holds_any = sockets.as_ref().is_some_and(|it| !it.is_empty());
            // A process that has ended meanwhile comes last.
            let started = holds_any.then(|| start_ticks(*pid).unwrap_or(u64::MAX));
            (started, *pid)
        });
        let servers = Servers::default();
        for (pid, sockets) in found {
            holders.add(pid, sockets, &servers);
        }
        holders
    }

    fn add(&mut self, pid: u32, sockets: Option<Vec<(u32, u32)>>, servers: &Servers) {
        let Some(sockets) = sockets else {
            self.unreadable += u64::from(Path::new(&format!("/proc/{pid}/fd")).exists());
            return;
        };
        if sockets.is_empty() {
            return;
        }
        self.processes.push(describe(pid, servers));
        let process = self.processes.len() - 1;
        for (inode, fd) in sockets {
            let first = self.by_inode.entry(inode).or_insert(Holder { process, fd });
            if first.process != process {
                self.shared.entry(inode).or_default().push(process);
            }
        }
    }

    /// Returns all processes that hold the socket with this inode, the one that started first in
    /// front.
    pub fn all_of(&self, inode: u32) -> impl Iterator<Item = &Process> {
        let first = self.by_inode.get(&inode).map(|holder| holder.process);
        let others = self.shared.get(&inode).into_iter().flatten().copied();
        first.into_iter().chain(others).filter_map(|index| self.processes.get(index))
    }
}

/// Sockets of a process, each by inode and descriptor; `None` where they may not be read.
type Sockets = Option<Vec<(u32, u32)>>;

/// Reads the descriptors of processes on several threads, in the order of `pids`.
fn read_all(pids: &[u32]) -> Vec<(u32, Sockets)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(&pid) = pids.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.push((pid, sockets(pid)));
        }
        found
    };
    let threads = threads().min(pids.len());
    let mut all: Vec<_> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(found) => all.extend(found),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|&(pid, _)| pid);
    all
}

/// Returns the number of threads that read at the same time: one per CPU, up to a few.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, |cpus| cpus.get().min(8))
}

fn sockets(pid: u32) -> Sockets {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let socket = |entry: fs::DirEntry| {
        let inode = socket_inode(&entry.path())?;
        Some((inode, entry.file_name().to_str()?.parse().ok()?))
    };
    Some(entries.flatten().filter_map(socket).collect())
}

/// Returns the inode in `socket:[INODE]`, if the descriptor is a socket.
fn socket_inode(descriptor: &Path) -> Option<u32> {
    let target = fs::read_link(descriptor).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn describe(pid: u32, servers: &Servers) -> Process {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    Process {
        pid,
        command: read("comm").trim_end().to_owned(),
        container: container(&read("cgroup")),
        runtime: servers.runtime(pid),
    }
}

/// Returns the id of the container that a process runs in; `None` outside of containers.
pub fn container_of(pid: u32) -> Option<String> {
    container(&fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default())
}

/// Returns the numbers of all processes.
fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the first process in the container whose id begins with `id`.
///
/// # Errors There is no such container.
pub fn container_process(id: &str) -> Result<u32, LiveError> {
    // A shorter prefix matches too many.
    const DIGITS_MIN: usize = 4;
    let is_inside = |pid: &u32| {
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        full_container(&cgroup).is_some_and(|full| full.starts_with(&id.to_ascii_lowercase()))
    };
    let found = all().filter(is_inside).min().filter(|_| id.len() >= DIGITS_MIN);
    found.ok_or_else(|| LiveError::NoContainer { id: id.to_owned() })
}

/// Returns the container's id in the lines of `/proc/PID/cgroup`: Docker, containerd, CRI-O and
/// Podman name the control group by 64 hexadecimal digits, of which their tools show the first
/// twelve.
fn container(cgroup: &str) -> Option<String> {
    full_container(cgroup).map(|id| id[..12].to_owned())
}

fn full_container(cgroup: &str) -> Option<&str> {
    let parts = cgroup.split(['/', '-', '.', ':', '\n']);
    let mut ids =
        parts.filter(|part| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    ids.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_container_is_known_by_its_control_group() {
        let id = "0123456789abcdef".repeat(4);
        let docker = format!("0::/system.slice/docker-{id}.scope\n");
        assert_eq!(container(&docker).as_deref(), Some("0123456789ab"));
        let kubernetes = format!("0::/kubepods/burstable/pod12/{id}\n");
        assert_eq!(container(&kubernetes).as_deref(), Some("0123456789ab"));
        assert_eq!(container("0::/system.slice/nginx.service\n"), None);
    }

    #[test]
    fn the_holder_of_a_socket_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = std::process::id();
        let holders = Holders::read(Some(&[own]));
        let link = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
        let inode = link.to_str().unwrap()["socket:[".len()..].trim_end_matches(']');
        let holder = holders.by_inode[&inode.parse().unwrap()];
        assert_eq!(holder.fd, listener.as_raw_fd() as u32);
        assert_eq!(holders.processes[holder.process].pid, own);
    }

    #[test]
    fn all_processes_that_share_a_socket_are_known() {
        let mut holders = Holders::default();
        let own = std::process::id();
        holders.add(own, Some(vec![(77, 3), (78, 4), (77, 5)]), &Servers::default());
        holders.add(1, Some(vec![(77, 9)]), &Servers::default());
        let pids = |inode| holders.all_of(inode).map(|it| it.pid).collect::<Vec<_>>();
        assert_eq!((pids(77), pids(78), pids(79)), (vec![own, 1], vec![own], vec![]));
    }
}
