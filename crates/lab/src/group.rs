//! Control groups that limit what the programs of a case use. A group is removed when it is dropped;
//! its programs have to end before.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::cleanup;
use crate::error::{Doing, LabError};
use crate::netns::Process;

/// A resource that a control group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// CPU time.
    Cpu,
    /// Operations of a block device.
    Disk,
    /// Memory, with the pages of files that were read.
    Memory,
}

/// A control group.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    is_v2: bool,
}

/// Length of the period of a CPU quota, µs: the kernel's default.
const PERIOD_US: u64 = 100_000;

impl Group {
    /// Makes a group below the root of the controller's hierarchy: of version 1 where that has it,
    /// else of version 2.
    ///
    /// # Errors This machine has no such hierarchy, or does not let it be changed.
    pub fn new(controller: Controller) -> Result<Self, LabError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = match controller {
            Controller::Cpu => ["cpu", "cpu"],
            Controller::Disk => ["blkio", "io"],
            Controller::Memory => ["memory", "memory"],
        };
        let mounts = fs::read_to_string("/proc/self/mounts").doing("read the mounts")?;
        let place = |is_v2: bool| {
            mounts.lines().find_map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                let &[_, place, kind, options, ..] = &words[..] else { return None };
                let is_it = match is_v2 {
                    true => kind == "cgroup2",
                    false => kind == "cgroup" && options.split(',').any(|it| it == name[0]),
                };
                is_it.then(|| PathBuf::from(place))
            })
        };
        let found = place(false).map(|it| (it, false)).or_else(|| place(true).map(|it| (it, true)));
        let nowhere = || io::Error::from(io::ErrorKind::NotFound);
        let (place, is_v2) = found.ok_or_else(nowhere).doing("find control groups")?;
        if is_v2 {
            // Where the root passes the controller on already, this changes nothing.
            let passed = fs::write(place.join("cgroup.subtree_control"), format!("+{}", name[1]));
            passed.doing("pass a controller on")?;
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = place.join(format!("{}{count}", cleanup::own_prefix()));
        fs::create_dir(&folder).doing("make a control group")?;
        Ok(Self { folder, is_v2 })
    }

    /// Lets it run for `time` in each 100 ms. It comes before the rest of the machine, so that this
    /// limit alone holds it back.
    ///
    /// # Errors The kernel rejects it.
    pub fn limit_cpu(&self, time: Duration) -> Result<(), LabError> {
        let quota_us = time.as_micros();
        let (weight, most) =
            if self.is_v2 { ("cpu.weight", "10000") } else { ("cpu.shares", "262144") };
        self.write(weight, most)?;
        match self.is_v2 {
            true => self.write("cpu.max", &format!("{quota_us} {PERIOD_US}")),
            false => self.write("cpu.cfs_quota_us", &quota_us.to_string()),
        }
    }

    /// Returns how long the quota stopped it so far, ns.
    ///
    /// # Errors The kernel does not say so.
    pub fn throttled_ns(&self) -> Result<u64, LabError> {
        let text = fs::read_to_string(self.folder.join("cpu.stat")).doing("read cpu.stat")?;
        let of = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.filter(|(of, _)| *of == name).find_map(|(_, value)| value.parse::<u64>().ok())
        };
        let ns = of("throttled_time").or_else(|| Some(of("throttled_usec")? * 1_000));
        ns.ok_or_else(|| io::ErrorKind::InvalidData.into()).doing("read cpu.stat")
    }

    /// Lets it make so many reads and as many writes a second on the device that has `path`.
    ///
    /// # Errors `path` is on no block device, or the kernel rejects the limit.
    pub fn limit_disk(&self, path: &Path, a_second: u64) -> Result<(), LabError> {
        let device = disk_of(path)?;
        match self.is_v2 {
            true => self.write("io.max", &format!("{device} riops={a_second} wiops={a_second}")),
            false => {
                let limit = format!("{device} {a_second}");
                self.write("blkio.throttle.read_iops_device", &limit)?;
                self.write("blkio.throttle.write_iops_device", &limit)
            }
        }
    }

    /// Lets it have so much memory, with the pages of files that it reads; then the kernel takes back
    /// what was used least.
    ///
    /// # Errors The kernel rejects it.
    pub fn limit_memory(&self, bytes: u64) -> Result<(), LabError> {
        let file = if self.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        self.write(file, &bytes.to_string())
    }

    /// Makes a running process a member, with those that it starts from now on.
    ///
    /// # Errors The kernel rejects it.
    pub fn take(&self, process: &Process) -> Result<(), LabError> {
        self.write("cgroup.procs", &process.pid().to_string())
    }

    fn write(&self, file: &str, value: &str) -> Result<(), LabError> {
        fs::write(self.folder.join(file), value).doing(format!("set {file} to {value}"))
    }

    /// Its directory in the hierarchy.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lets the program that `command` will start be a member.
    pub fn add(&self, command: &mut Command) {
        let members = self.folder.join("cgroup.procs");
        // SAFETY: the child opens and writes one file; nothing else of this process runs in it, and
        // the path was made before.
        unsafe { command.pre_exec(move || fs::write(&members, "0")) };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that were killed leave the group a moment later.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the numbers of the whole disk that has `path`: limits are not for partitions.
fn disk_of(path: &Path) -> Result<String, LabError> {
    let device = fs::metadata(path).doing("find the disk")?.dev();
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    let entry = Path::new("/sys/dev/block").join(&number);
    match entry.join("partition").exists() {
        false if entry.exists() => Ok(number),
        false => Err(io::ErrorKind::NotFound.into())
            .doing(format!("find the disk that has {}", path.display())),
        true => {
            let disk = fs::read_to_string(entry.join("../dev")).doing("find the disk")?;
            Ok(disk.trim().to_owned())
        }
    }
}
