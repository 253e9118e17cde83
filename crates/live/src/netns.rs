//! Network namespaces of the running system: found, named, and entered by a thread of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, thread};

use crate::error::LiveError;
use crate::sys;

/// Directory in which `ip netns add` keeps the names.
const NAMED: &str = "/run/netns";

/// A network namespace.
#[derive(Debug, Clone)]
pub struct Netns {
    /// Inode number of the namespace, as in `net:[4026531840]`.
    pub inode: u64,
    /// Name under `ip netns`, or `pid N` of a process in it; `None` for the caller's own.
    pub name: Option<String>,
    path: PathBuf,
    /// Keeps the namespace, if it is held.
    #[expect(dead_code, reason = "the namespace exists as long as the descriptor is open")]
    held: Option<Arc<File>>,
}

impl PartialEq for Netns {
    fn eq(&self, other: &Self) -> bool {
        (self.inode, &self.path) == (other.inode, &other.path)
    }
}

impl Eq for Netns {}

impl Netns {
    /// Returns the caller's network namespace.
    pub fn own() -> Self {
        let path = PathBuf::from("/proc/self/ns/net");
        Self { inode: inode(&path).unwrap_or(0), name: None, path, held: None }
    }

    /// Finds the namespace that `ip netns` calls `name`, or that of the process with the id `name`.
    ///
    /// # Errors It does not exist.
    pub fn find(name: &str) -> Result<Self, LiveError> {
        let named = Path::new(NAMED).join(name);
        if !name.contains('/')
            && let Some(inode) = inode(&named)
        {
            return Ok(Self { inode, name: Some(name.to_owned()), path: named, held: None });
        }
        match name.parse() {
            Ok(pid) => Self::of_process(pid),
            Err(_) => Err(LiveError::NoNetns { name: name.to_owned() }),
        }
    }

    /// Returns the network namespace of the process `pid`.
    ///
    /// # Errors
    /// There is no such process.
    pub fn of_process(pid: u32) -> Result<Self, LiveError> {
        let path = PathBuf::from(format!("/proc/{pid}/ns/net"));
        match inode(&path) {
            Some(inode) => Ok(Self { inode, name: Some(format!("pid {pid}")), path, held: None }),
            // Without permission to inspect another user's process, its namespace is assumed to be
            // the caller's own, as is true of most processes.
            None if Path::new(&format!("/proc/{pid}")).exists() => Ok(Self::own()),
            None => Err(LiveError::NoProcess { pid }),
        }
    }

    /// Returns all namespaces that have a name or a process, the caller's own first. Namespaces of
    /// other users' processes are missing without `CAP_SYS_PTRACE`.
    pub fn all() -> Vec<Self> {
        let own = Self::own();
        let mut found = BTreeMap::new();
        let named = fs::read_dir(NAMED).into_iter().flatten().flatten();
        for entry in named {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Ok(netns) = Self::find(&name) {
                found.entry(netns.inode).or_insert(netns);
            }
        }
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            if let Some(inode) = inode(Path::new(&format!("/proc/{pid}/ns/net")))
                && !found.contains_key(&inode)
                && let Ok(netns) = Self::of_process(pid)
            {
                found.insert(inode, netns);
            }
        }
        found.remove(&own.inode);
        std::iter::once(own).chain(found.into_values()).collect()
    }

    /// Finds the namespace with this inode number, if it has a name, a process in it, a mount, or a
    /// descriptor of this process. The kernel gives the number of an ended namespace to a new one.
    pub fn with_inode(inode: u64) -> Option<Self> {
        let own = Self::own();
        let is_it = |netns: &Self| netns.inode == inode;
        let known = Some(own).filter(is_it).or_else(|| Self::all().into_iter().find(is_it));
        known.or_else(|| Self::elsewhere(inode))
    }

    /// Finds it among the descriptors of this process, and the mounts that it sees.
    fn elsewhere(wanted: u64) -> Option<Self> {
        let identity = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
        // All namespaces are files of one file system.
        let device = fs::metadata("/proc/self/ns/net").ok()?.dev();
        let is_it = |path: &PathBuf| identity(path) == Some((device, wanted));
        let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let name = format!("net:[{wanted}]");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        // The fourth field is the root of the mount, the fifth its place (proc_pid_mountinfo(5)).
        let mounted = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(3);
            (fields.next()? == name).then(|| PathBuf::from(fields.next().unwrap_or_default()))
        });
        let path = descriptors.map(|entry| entry.path()).chain(mounted).find(is_it)?;
        let name = Some(path.display().to_string());
        Self { inode: wanted, name, path, held: None }.held().ok()
    }

    /// Returns the namespace with a descriptor of it: it exists as long as the value, and another
    /// one that gets its name is not taken for it.
    ///
    /// # Errors
    /// It is gone, or may not be opened.
    pub fn held(&self) -> Result<Self, LiveError> {
        let file = self.open()?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Ok(Self { path, held: Some(Arc::new(file)), ..self.clone() })
    }

    /// Returns the kernel's number of the namespace, which no other one gets until a reboot
    /// (`SO_NETNS_COOKIE`); `None` where the kernel is older than Linux 5.14.
    ///
    /// # Errors
    /// The namespace is gone, or may not be entered.
    pub fn cookie(&self) -> Result<Option<u64>, LiveError> {
        self.inside(|| {
            let socket = UnixDatagram::unbound().ok()?;
            sys::options::netns_cookie(socket.as_fd()).ok()
        })
    }

    fn open(&self) -> Result<File, LiveError> {
        let name = || self.name.clone().unwrap_or_default();
        let refused = |source| LiveError::EnterNetns { name: name(), source };
        let file = File::open(&self.path).map_err(refused)?;
        match file.metadata() {
            Ok(metadata) if metadata.ino() == self.inode => Ok(file),
            Ok(_) => Err(refused(io::ErrorKind::NotFound.into())),
            Err(error) => Err(refused(error)),
        }
    }

    /// Returns whether it is the namespace of the process, in which all threads start.
    pub fn is_own(&self) -> bool {
        self.name.is_none() || self.inode == Self::own().inode
    }

    /// Moves the calling thread into the namespace.
    ///
    /// # Errors
    /// The namespace is gone, or may not be entered.
    pub fn enter(&self) -> Result<(), LiveError> {
        if self.is_own() {
            return Ok(());
        }
        let name = || self.name.clone().unwrap_or_default();
        let entered = |source| LiveError::EnterNetns { name: name(), source };
        sys::enter_netns(self.open()?.as_fd()).map_err(entered)
    }

    /// Runs `work` in the namespace on a new thread, so that the caller stays in its own.
    ///
    /// # Errors
    /// The namespace is gone, or may not be entered.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LiveError> {
        if self.is_own() {
            return Ok(work());
        }
        thread::scope(|scope| {
            let inside = scope.spawn(|| self.enter().map(|()| work()));
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.ino())
}
