//! Sets a TCP option in the kernel (`sock_ops`) on connections when they are established, before
//! the application has them. The program is attached to a control group by a link of this process:
//! the kernel detaches it when the process ends, in any way. The record of changed sockets stays in
//! a pinned map until it is saved elsewhere, so that a later undo can read it after the process was
//! killed.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use aya::maps::{HashMap, Map, MapData};
use aya::programs::{CgroupAttachMode, SockOps};
use aya::{Ebpf, EbpfLoader};
use tcpwhy_live::hooks::{Fields, Lack, before_loading, chain};
use tcpwhy_live::sys::process::wait_for_kernel_readers;

use super::{pinned, program};

/// `struct established` in established.h.
const RECORD_BYTES: usize = 72;
/// `PORTS_MAX` in established.h.
pub const PORTS_MAX: usize = 16;
/// `VALUE_BYTES` in established.h.
pub const VALUE_BYTES: usize = 16;

/// The connections to treat and the option to set.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// Number of the network namespace (`SO_NETNS_COOKIE`).
    pub netns_cookie: u64,
    /// `true` to treat connections that a listener accepted.
    pub servers: bool,
    /// `true` to treat connections that a process opened.
    pub clients: bool,
    /// Ports, one of which either end has; empty is any. At most [`PORTS_MAX`].
    pub ports: Vec<u16>,
    /// The other end; its port 0 is any.
    pub peer: Option<SocketAddr>,
    /// The option of the level `IPPROTO_TCP`.
    pub option: i32,
    /// Bytes of its value that count.
    pub size: u32,
    /// Value of the option, padded with zeros.
    pub value: [u8; VALUE_BYTES],
}

/// A connection that the program has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Established {
    /// The kernel's number of the socket.
    pub cookie: u64,
    /// Local address.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The `errno` with which the kernel refused the option; 0 if it was set.
    pub error: i32,
    /// The value before.
    pub before: [u8; VALUE_BYTES],
}

/// Connections that were changed, by their cookie.
type Changed = HashMap<MapData, [u8; 8], [u8; RECORD_BYTES]>;

/// The program while it is attached.
pub struct EstablishedHook {
    program: Ebpf,
    changed: Changed,
}

impl EstablishedHook {
    /// Loads the program and attaches it to the control group whose directory is `cgroup`. The map
    /// of its changes is pinned at `pin` until [`forget`] removes it.
    ///
    /// # Errors
    /// The `Lack` that prevents it.
    pub fn attach(rule: &Rule, cgroup: &Path, pin: &Path) -> Result<Self, Lack> {
        if let Some(lack) = before_loading() {
            return Err(lack);
        }
        let elf = program::established().ok_or(Lack::NotBuilt)?;
        let refused = |error: &dyn std::error::Error| Lack::Refused(chain(error));
        let sides = u32::from(rule.servers) | u32::from(rule.clients) << 1;
        let mut ports = [0u16; PORTS_MAX];
        let count = rule.ports.len().min(PORTS_MAX);
        ports[..count].copy_from_slice(&rule.ports[..count]);
        let count = count as u32;
        let peer_port = rule.peer.map_or(0, |peer| u32::from(peer.port()));
        let peer_set = u32::from(rule.peer.is_some());
        let peer = rule.peer.map_or([0; 4], words);
        let option = rule.option as u32;
        let mut loader = EbpfLoader::new();
        loader
            .override_global("scope_netns_cookie", &rule.netns_cookie, true)
            .override_global("scope_sides", &sides, true)
            .override_global("scope_ports_count", &count, true)
            .override_global("scope_ports", &ports[..], true)
            .override_global("scope_peer_set", &peer_set, true)
            .override_global("scope_peer", &peer[..], true)
            .override_global("scope_peer_port", &peer_port, true)
            .override_global("option_name", &option, true)
            .override_global("option_size", &rule.size, true)
            .override_global("option_value", &rule.value[..], true);
        let mut ebpf = loader.load(elf).map_err(|error| refused(&error))?;
        let Some(map) = ebpf.take_map("changed") else { unreachable!("the program has this map") };
        let prepared = pinned::prepare()?;
        map.pin(pin).map_err(|error| refused(&error))?;
        drop(prepared);
        let attached = Self::attach_program(&mut ebpf, cgroup);
        attached.inspect_err(|_| forget(pin))?;
        let Ok(changed) = Changed::try_from(map) else {
            unreachable!("the C record and the Rust record differ in size")
        };
        Ok(Self { program: ebpf, changed })
    }

    fn attach_program(ebpf: &mut Ebpf, cgroup: &Path) -> Result<(), Lack> {
        let refused = |error: &dyn std::error::Error| Lack::Refused(chain(error));
        let Some(Ok(program)) = ebpf.program_mut("established").map(<&mut SockOps>::try_from)
        else {
            unreachable!("the program is of this kind")
        };
        program.load().map_err(|error| refused(&error))?;
        let directory = File::open(cgroup)
            .map_err(|error| Lack::Refused(format!("{}: {error}", cgroup.display())))?;
        // A link takes no mode: the programs of all links run.
        program.attach(directory, CgroupAttachMode::Single).map_err(|error| refused(&error))?;
        Ok(())
    }

    /// Detaches the program, and returns the connections that [`changed`](Self::changed) would.
    pub fn detach(self) -> Vec<Established> {
        let Self { program, changed } = self;
        drop(program);
        // The program may still be running on another processor.
        wait_for_kernel_readers();
        read(&changed)
    }

    /// Returns the connections that were changed, without those that are [`noted`](Self::noted).
    pub fn changed(&self) -> Vec<Established> {
        read(&self.changed)
    }

    /// Makes room: these are noted elsewhere.
    pub fn noted(&mut self, events: &[Established]) {
        for event in events {
            let _ = self.changed.remove(&event.cookie.to_ne_bytes());
        }
    }
}

/// Returns the connections that a program has changed and that are in no record yet, also after its
/// process has ended; empty if nothing is pinned.
///
/// # Errors
/// The map cannot be read.
pub fn left(pin: &Path) -> io::Result<Vec<Established>> {
    if !fs::exists(pin)? {
        return Ok(Vec::new());
    }
    let map = MapData::from_pin(pin).and_then(Map::from_map_data).and_then(Changed::try_from);
    map.map(|map| read(&map)).map_err(|error| io::Error::other(chain(&error)))
}

/// Removes what was pinned.
pub fn forget(pin: &Path) {
    // The pin does not exist if the hook was not attached.
    if fs::remove_file(pin).is_ok() {
        pinned::release();
    }
}

fn read(changed: &Changed) -> Vec<Established> {
    // An entry is removed by this process alone.
    changed.iter().flatten().map(|(_, record)| parse(&record)).collect()
}

/// Returns the directory of the control groups of version 2, wherever they are mounted.
pub fn cgroup_root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of_kind = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let place = fields.next()?;
        (fields.next()? == "cgroup2").then(|| place.replace("\\040", " "))
    });
    of_kind.map(PathBuf::from)
}

/// Returns the address as four words of network order, IPv4 as ::ffff:a.b.c.d.
fn words(end: SocketAddr) -> [u32; 4] {
    let address = match end.ip() {
        std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        std::net::IpAddr::V6(ip) => ip,
    };
    let octets = address.octets();
    [0, 4, 8, 12].map(|at| u32::from_ne_bytes([0, 1, 2, 3].map(|i| octets[at + i])))
}

fn parse(record: &[u8; RECORD_BYTES]) -> Established {
    let mut fields = Fields(record);
    let cookie = fields.u64();
    let mut address = || {
        let octets: [u8; 16] = std::array::from_fn(|_| fields.u8());
        Ipv6Addr::from(octets).to_canonical()
    };
    let (local, remote) = (address(), address());
    let (local_port, remote_port) = (fields.u32() as u16, fields.u32() as u16);
    let _side = fields.u32();
    let error = fields.u32() as i32;
    let before = std::array::from_fn(|_| fields.u8());
    Established {
        cookie,
        local: SocketAddr::new(local, local_port),
        remote: SocketAddr::new(remote, remote_port),
        error: error.abs(),
        before,
    }
}
