//! Drops SYNs beyond a rate per source at an interface (XDP), before the kernel allocates memory
//! for them. The link of the program is pinned: the limit lasts until the pin is removed, even
//! after the process has ended.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use aya::maps::{Map, MapData, PerCpuArray};
use aya::programs::links::FdLink;
use aya::programs::{Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};
use tcpwhy_live::hooks::{Lack, before_loading, chain};

use super::{pinned, program};

/// Loads the program and attaches it to an interface of the calling thread's namespace: in the
/// driver where it can run programs, else in the kernel's general path. Each source may send
/// `syns_per_second` to `port`.
///
/// # Errors
/// The `Lack` that prevents it, also if another program is attached there.
pub fn attach(interface: &str, port: u16, syns_per_second: u32, pin: &Path) -> Result<(), Lack> {
    if let Some(lack) = before_loading() {
        return Err(lack);
    }
    let elf = program::syn_limit().ok_or(Lack::NotBuilt)?;
    let refused = |error: &dyn std::error::Error| Lack::Refused(chain(error));
    let interval_ns = 1_000_000_000 / u64::from(syns_per_second.max(1));
    let mut loader = EbpfLoader::new();
    loader.override_global("limit_port", &port, true);
    loader.override_global("limit_interval_ns", &interval_ns, true);
    let mut ebpf = loader.load(elf).map_err(|error| refused(&error))?;
    let prepared = pinned::prepare()?;
    let Some(dropped) = ebpf.map("dropped") else { unreachable!("the program has this map") };
    dropped.pin(count(pin)).map_err(|error| refused(&error))?;
    let attached = attach_pinned(&mut ebpf, interface, pin);
    drop(prepared);
    attached.inspect_err(|_| {
        let _ = fs::remove_file(count(pin));
        pinned::release();
    })
}

fn attach_pinned(ebpf: &mut Ebpf, interface: &str, pin: &Path) -> Result<(), Lack> {
    let refused = |error: &dyn std::error::Error| Lack::Refused(chain(error));
    let Some(Ok(program)) = ebpf.program_mut("syn_limit").map(<&mut Xdp>::try_from) else {
        unreachable!("the program is of this kind")
    };
    program.load().map_err(|error| refused(&error))?;
    // A driver may take programs, but not with this interface's settings (its MTU, its queues).
    let attached = program
        .attach(interface, XdpMode::Default)
        .or_else(|_| program.attach(interface, XdpMode::Skb))
        .map_err(|error| refused(&error))?;
    let link = program.take_link(attached).map_err(|error| refused(&error))?;
    let link = FdLink::try_from(link).map_err(|error| refused(&error))?;
    // The pin keeps the link; without the pin it would end here.
    link.pin(pin).map(drop).map_err(|error| refused(&error))
}

/// Returns the number of SYNs that the program pinned at `pin` has dropped.
pub fn dropped(pin: &Path) -> u64 {
    let map = MapData::from_pin(count(pin)).and_then(Map::from_map_data);
    let count = map.and_then(PerCpuArray::<MapData, u64>::try_from).and_then(|it| it.get(&0, 0));
    count.map_or(0, |each| each.iter().sum())
}

/// Detaches the program that is pinned there.
///
/// # Errors
/// `NotFound` where none is; it may not be detached.
pub fn detach(pin: &Path) -> io::Result<()> {
    let removed = fs::remove_file(pin);
    // The pin also exists if the process was killed before it attached the program.
    let _ = fs::remove_file(count(pin));
    pinned::release();
    removed
}

/// Returns the path at which the counter of a program is pinned.
fn count(pin: &Path) -> PathBuf {
    let mut name: OsString = pin.into();
    name.push("-dropped");
    name.into()
}
