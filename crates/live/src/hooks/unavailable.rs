//! Reasons why a hook cannot be attached, with the remedy.

use std::{fmt, fs};

use serde::Serialize;

use super::{BUILT, HookKind};

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// A hook that could not be attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Unavailable {
    /// The hook.
    pub hook: HookKind,
    /// What is missing, and how to get it.
    #[serde(serialize_with = "words")]
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub lack: Lack,
}

/// Reason why a hook is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// Clang was not present when this binary was built.
    NotBuilt,
    /// The process lacks these capabilities.
    NoPermission(Vec<&'static str>),
    /// The kernel does not describe its types (`CONFIG_DEBUG_INFO_BTF`).
    NoBtf,
    /// `/sys/fs/bpf` cannot keep objects that have to outlast the process; the reason.
    NoBpfFileSystem(String),
    /// The kernel refused the program; the kernel's message.
    Refused(String),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => f.write_str(
                "this tcpwhy was built without kernel hooks (clang was missing when it was built): \
                 install clang and build it again",
            ),
            Self::NoPermission(lacking) => write!(
                f,
                "kernel hooks need {}: use sudo, or \
                 `setcap cap_bpf,cap_perfmon,cap_net_admin,cap_syslog+ep` on the binary",
                lacking.join(" and "),
            ),
            Self::NoBtf => f.write_str(
                "this kernel does not describe its types (/sys/kernel/btf/vmlinux): kernel hooks \
                 need one built with CONFIG_DEBUG_INFO_BTF",
            ),
            Self::NoBpfFileSystem(why) => write!(
                f,
                "/sys/fs/bpf cannot keep what an undo needs after this process was killed: {why}"
            ),
            Self::Refused(words) => write!(f, "this kernel refuses the hook: {words}"),
        }
    }
}

fn words<S: serde::Serializer>(lack: &Lack, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(lack)
}

/// Returns the reason why all hooks are unavailable, if it is known without an attempt.
pub fn before_loading() -> Option<Lack> {
    if !BUILT {
        return Some(Lack::NotBuilt);
    }
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let lacking = lacking(effective(&status)?);
    (!lacking.is_empty()).then_some(Lack::NoPermission(lacking))
}

/// Returns the effective capabilities in `/proc/PID/status`.
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Capabilities that hooks need and that a set does not have (capabilities(7)).
fn lacking(capabilities: u64) -> Vec<&'static str> {
    let has = |bit: u32| capabilities & 1 << bit != 0;
    if has(CAP_SYS_ADMIN) {
        return Vec::new();
    }
    let needed = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")];
    needed.into_iter().filter(|(bit, _)| !has(*bit)).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_that_are_missing_are_named() {
        assert_eq!(lacking(0), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(lacking(1 << CAP_BPF), ["CAP_PERFMON"]);
        assert_eq!(lacking(1 << CAP_BPF | 1 << CAP_PERFMON), [""; 0]);
        assert_eq!(lacking(1 << CAP_SYS_ADMIN), [""; 0]);
        assert_eq!(effective("Name:\tx\nCapEff:\t000001ffffffffff\n"), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("Name:\tx\n"), None);
    }
}
