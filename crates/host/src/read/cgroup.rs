//! Control groups with a limit of CPU time. Read first: cgroups(7),
//! Documentation/scheduler/sched-bwc.rst (version 1 and `cpu.stat`),
//! Documentation/admin-guide/cgroup-v2.rst ("CPU Interface Files").

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::pressure;
use crate::work::{ControlGroup, Pressure, Throttled};

/// Where the hierarchies of control groups are mounted that limit CPU time and count stalls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mounts {
    /// The hierarchy of version 1 with the controller `cpu`.
    v1: Option<Mount>,
    /// The hierarchy of version 2.
    v2: Option<Mount>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    place: PathBuf,
    /// The group that is mounted there, as `/proc/PID/cgroup` names it.
    root: String,
}

/// Control groups of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups {
    /// Those that may limit its CPU time: its own, then the ones around it.
    pub limiting: Vec<PathBuf>,
    /// `true` if these are of version 2.
    pub is_v2: bool,
    /// The one that counts its stalls.
    pub stalls: Option<PathBuf>,
}

impl Mounts {
    /// Reads them as this process sees them.
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Parses lines such as `32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct`
    /// (proc_pid_mountinfo(5)).
    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let Some((mount, kind)) = line.split_once(" - ") else { continue };
            let mount: Vec<&str> = mount.split(' ').collect();
            let kind: Vec<&str> = kind.split(' ').collect();
            let (&[_, _, _, root, place, ..], &[kind, .., options]) = (&mount[..], &kind[..])
            else {
                continue;
            };
            let mount = || Some(Mount { place: place.into(), root: root.to_owned() });
            match kind {
                "cgroup" if options.split(',').any(|it| it == "cpu") => found.v1 = mount(),
                "cgroup2" => found.v2 = mount(),
                _ => {}
            }
        }
        found
    }

    /// Returns the groups of the process with this `/proc/PID/cgroup`.
    pub fn groups(&self, cgroup: &str) -> Groups {
        let lines = || cgroup.lines().filter_map(|line| line.split_once(':'));
        let v1 = lines().find_map(|(_, rest)| {
            let (controllers, path) = rest.split_once(':')?;
            let folders = self.v1.as_ref()?.folders(path)?;
            controllers.split(',').any(|it| it == "cpu").then_some(folders)
        });
        let v2 = lines().find_map(|(number, rest)| {
            let path = rest.strip_prefix(':').filter(|_| number == "0")?;
            self.v2.as_ref()?.folders(path)
        });
        let stalls = v2.as_ref().and_then(|folders| folders.first().cloned());
        Groups { is_v2: v1.is_none(), limiting: v1.or(v2).unwrap_or_default(), stalls }
    }
}

impl Mount {
    /// Returns the folder of a group and those of the groups around it; `None` where the group is
    /// outside of what is mounted.
    fn folders(&self, path: &str) -> Option<Vec<PathBuf>> {
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        if below.components().any(|it| it.as_os_str() == "..") {
            return None;
        }
        let folder = self.place.join(below);
        let around = folder.ancestors().take_while(|it| it.starts_with(&self.place));
        Some(around.map(Path::to_owned).collect())
    }
}

/// Reads a group; `None` if its CPU time is not limited.
pub fn read(folder: &Path, is_v2: bool) -> Option<ControlGroup> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let (quota_us, period_us) = if is_v2 {
        limit(&text("cpu.max")?)?
    } else {
        let number = |name| text(name)?.trim().parse().ok();
        // −1: no limit.
        (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    };
    Some(ControlGroup {
        folder: folder.display().to_string(),
        is_v2,
        quota_us,
        period_us,
        ever: stat(&text("cpu.stat")?),
        ..ControlGroup::default()
    })
}

/// Parses `cpu.max`: quota and period, µs; `max` is no limit.
fn limit(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some((quota.parse().ok()?, period.parse().ok()?))
}

/// Parses `cpu.stat` of either version: `throttled_time` is in ns, `throttled_usec` in µs.
fn stat(text: &str) -> Throttled {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let values: BTreeMap<&str, u64> =
        pairs.filter_map(|(name, value)| Some((name, value.trim().parse().ok()?))).collect();
    let of = |name: &str| values.get(name).copied();
    let throttled_us = of("throttled_usec").map(|us| us * 1_000);
    Throttled {
        periods: of("nr_periods").unwrap_or(0),
        throttled: of("nr_throttled").unwrap_or(0),
        throttled_ns: of("throttled_time").or(throttled_us).unwrap_or(0),
    }
}

/// Reads the stalls of a group of version 2.
pub fn stalls(folder: &Path) -> Option<Pressure> {
    pressure::read(|name| fs::read_to_string(folder.join(format!("{name}.pressure"))).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpwhy_testing::Folder;

    /// `/proc/self/mountinfo` of a host with version 1, of one with version 2, and of a container.
    const V1: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const V2: &str = "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - \
                      cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
    const CONTAINER: &str = "\
        731 728 0:29 /docker/4f1e /sys/fs/cgroup/cpu ro,nosuid - cgroup cgroup rw,cpu\n";

    fn limiting(mounts: &str, cgroup: &str) -> Vec<String> {
        let folders = Mounts::parse(mounts).groups(cgroup).limiting;
        folders.iter().map(|it| it.display().to_string()).collect()
    }

    #[test]
    fn the_groups_around_a_process_limit_it_too() {
        let cgroup = "9:name=systemd:/x\n3:cpuset:/\n1:cpu,cpuacct:/pod7/web\n0::/system.slice\n";
        let folders =
            ["/pod7/web", "/pod7", ""].map(|it| format!("/sys/fs/cgroup/cpu,cpuacct{it}"));
        assert_eq!(limiting(V1, cgroup), folders);
        let of_v1 = Mounts::parse(V1).groups(cgroup);
        assert!(!of_v1.is_v2);
        assert_eq!(of_v1.stalls.unwrap(), Path::new("/sys/fs/cgroup/unified/system.slice"));
        let folders = ["/sys/fs/cgroup/a/web.service", "/sys/fs/cgroup/a", "/sys/fs/cgroup"];
        assert_eq!(limiting(V2, "0::/a/web.service\n"), folders);
        assert!(Mounts::parse(V2).groups("0::/a\n").is_v2);
    }

    #[test]
    fn a_container_sees_its_own_group_and_no_other() {
        let folders = ["/sys/fs/cgroup/cpu/w", "/sys/fs/cgroup/cpu"];
        assert_eq!(limiting(CONTAINER, "1:cpu:/docker/4f1e/w\n"), folders);
        assert_eq!(limiting(CONTAINER, "1:cpu:/docker/77aa\n"), [""; 0]);
        assert_eq!(limiting(V2, "0::/../other\n"), [""; 0]);
        assert_eq!(limiting("", "0::/a\n"), [""; 0]);
    }

    fn folder(files: &[(&str, &str)]) -> Folder {
        let folder = Folder::new();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn both_versions_say_how_long_a_group_was_throttled() {
        let v1 = folder(&[
            ("cpu.cfs_quota_us", "10000\n"),
            ("cpu.cfs_period_us", "100000\n"),
            (
                "cpu.stat",
                "nr_periods 20\nnr_throttled 19\nthrottled_time 1709148752\nnr_bursts 0\n\
                 burst_time 0\n",
            ),
        ]);
        let read_v1 = read(&v1, false).unwrap();
        assert_eq!((read_v1.quota_us, read_v1.period_us), (10_000, 100_000));
        let throttled = Throttled { periods: 20, throttled: 19, throttled_ns: 1_709_148_752 };
        assert_eq!(read_v1.ever, throttled);
        let v2 = folder(&[
            ("cpu.max", "20000 100000\n"),
            (
                "cpu.stat",
                "usage_usec 93214\nuser_usec 83011\nsystem_usec 10203\nnr_periods 20\n\
                 nr_throttled 19\nthrottled_usec 1709148\nnr_bursts 0\nburst_usec 0\n",
            ),
        ]);
        let read_v2 = read(&v2, true).unwrap();
        assert_eq!(read_v2.ever.throttled_ns, 1_709_148_000);
        assert_eq!((read_v2.quota_us, read_v2.ever.throttled), (20_000, 19));
    }

    #[test]
    fn a_group_without_a_limit_is_none() {
        let v2 = folder(&[("cpu.max", "max 100000\n"), ("cpu.stat", "usage_usec 1\n")]);
        assert_eq!(read(&v2, true), None);
        let v1 = folder(&[
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
            ("cpu.stat", "nr_periods 0\n"),
        ]);
        assert_eq!(read(&v1, false), None);
        assert_eq!(read(Path::new("/no/such/group"), true), None);
    }
}
