//! Kernel settings that can be set and restored while the system runs (sysctl(8)).

use std::fs;
use std::io;
use std::path::PathBuf;

use super::error::TreatError;
use super::host::{HostPlan, Restored};
use super::namespace::Namespace;
use super::record::{Change, SysctlChange, What};
use tcpwhy_live::netns::Netns;

/// Type of the values of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// A number between both.
    Number(u64, u64),
    /// The value consists of this many numbers.
    Numbers(usize),
    /// A name.
    Word,
}

/// A setting that is taken back without a trace.
#[derive(Debug, Clone, Copy)]
struct HarmlessSetting {
    /// The name of the setting in a command.
    name: &'static str,
    /// The path of the setting below `/proc/sys/net`.
    place: &'static str,
    takes: Takes,
    /// The risk of a change.
    risk: &'static str,
}

const fn known(
    name: &'static str,
    place: &'static str,
    takes: Takes,
    risk: &'static str,
) -> HarmlessSetting {
    HarmlessSetting { name, place, takes, risk }
}

/// All settings that can be treated.
const KNOWN: &[HarmlessSetting] = &[
    known(
        "tcp_slow_start_after_idle",
        "ipv4",
        Takes::Number(0, 1),
        "0 lets a connection that was idle send a whole window at once, also into a path that \
         has become slower",
    ),
    known(
        "tcp_rmem",
        "ipv4",
        Takes::Numbers(3),
        "larger buffers take memory for each connection; the first two numbers count for new \
         connections only",
    ),
    known(
        "tcp_wmem",
        "ipv4",
        Takes::Numbers(3),
        "larger buffers take memory for each connection; the first two numbers count for new \
         connections only",
    ),
    known(
        "rmem_max",
        "core",
        Takes::Number(2_304, 1 << 30),
        "applications may ask for more memory; it counts for sockets that ask for it from now on",
    ),
    known(
        "wmem_max",
        "core",
        Takes::Number(4_608, 1 << 30),
        "applications may ask for more memory; it counts for sockets that ask for it from now on",
    ),
    known(
        "somaxconn",
        "core",
        Takes::Number(1, 65_535),
        "it counts when an application calls listen() the next time; longer queues hold clients \
         longer",
    ),
    known(
        "tcp_max_syn_backlog",
        "ipv4",
        Takes::Number(1, 1 << 20),
        "it counts for listeners that have no SYN cookies; more half-open connections take memory",
    ),
    known(
        "tcp_syncookies",
        "ipv4",
        Takes::Number(0, 2),
        "0 lets a SYN flood fill the queue; 2 leaves window scaling and SACK to clients with \
         timestamps",
    ),
    known(
        "tcp_abort_on_overflow",
        "ipv4",
        Takes::Number(0, 1),
        "1 resets clients that the accept queue has no room for, instead of letting them try again",
    ),
    known(
        "ip_local_port_range",
        "ipv4",
        Takes::Numbers(2),
        "ports in the range may be taken from services that start later",
    ),
    known(
        "tcp_tw_reuse",
        "ipv4",
        Takes::Number(0, 2),
        "1 uses ports in TIME-WAIT again for connections to the same server, if both sides have \
         timestamps",
    ),
    known(
        "tcp_fin_timeout",
        "ipv4",
        Takes::Number(1, 3_600),
        "a peer that is slow to close may find the connection gone",
    ),
    known(
        "nf_conntrack_max",
        "netfilter",
        Takes::Number(1, 1 << 31),
        "each tracked connection takes about 300 bytes of kernel memory",
    ),
    known(
        "nf_conntrack_tcp_timeout_established",
        "netfilter",
        Takes::Number(1, 1 << 31),
        "idle connections that outlive it are cut by NAT",
    ),
    known(
        "nf_conntrack_tcp_timeout_time_wait",
        "netfilter",
        Takes::Number(1, 1 << 31),
        "late segments of closed connections may be taken for new ones",
    ),
    known(
        "nf_conntrack_udp_timeout",
        "netfilter",
        Takes::Number(1, 1 << 31),
        "answers that come later are dropped by NAT",
    ),
    known(
        "tcp_mtu_probing",
        "ipv4",
        Takes::Number(0, 2),
        "2 begins each connection with small segments",
    ),
    known(
        "tcp_congestion_control",
        "ipv4",
        Takes::Word,
        "it counts for new connections; another algorithm shares a link in another way",
    ),
    known("tcp_autocorking", "ipv4", Takes::Number(0, 1), "0 sends more and smaller packets"),
    known(
        "tcp_notsent_lowat",
        "ipv4",
        Takes::Number(1, u32::MAX as u64),
        "a low value lets an application sleep and wake more often",
    ),
    known(
        "netdev_max_backlog",
        "core",
        Takes::Number(1, 1 << 24),
        "a longer queue holds packets longer before they are dropped",
    ),
];

/// Plans the change for `assignment`, in the form `NAME=VALUE`, in a network namespace.
///
/// # Errors
/// The setting is not on the list, the value is invalid, or it is set already.
pub fn plan(assignment: &str, netns: Option<&str>) -> Result<HostPlan, TreatError> {
    let (name, value) = assignment.split_once('=').ok_or(TreatError::NoAssignment)?;
    let short = name.trim().rsplit(['.', '/']).next().unwrap_or_default();
    let Some(known) = KNOWN.iter().find(|known| known.name == short) else {
        let known = KNOWN.iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
        return Err(TreatError::UnknownSysctl { name: name.trim().to_owned(), known });
    };
    let asked = value.split_whitespace().collect::<Vec<_>>().join(" ");
    let set = judge(known.takes, &asked).map_err(|why| TreatError::Value {
        name: known.name,
        value: asked,
        why,
    })?;
    let netns = match netns {
        Some(name) => Netns::find(name)?,
        None => Netns::own(),
    };
    let before = netns.inside(|| read(known)).map_err(TreatError::Live)?;
    let before = before.map_err(|source| refused(known, source))?;
    if before == set {
        return Err(TreatError::HasIt { name: known.name.into(), value: set });
    }
    let change = Change::Sysctl(changed(known, &netns, before, set)?);
    let what = What::Sysctl { name: known.name.into() };
    Ok(HostPlan { what, changes: vec![change], risks: vec![known.risk] })
}

/// Returns the change of a setting to `value`, if it is a number for which `is_worse` holds.
pub(super) fn change(
    netns: &Netns,
    name: &str,
    value: &str,
    is_worse: impl Fn(u64) -> bool,
) -> Result<Option<Change>, TreatError> {
    let Some(known) = KNOWN.iter().find(|known| known.name == name) else { return Ok(None) };
    let before = netns.inside(|| read(known))?.map_err(|source| refused(known, source))?;
    if !before.parse().is_ok_and(is_worse) {
        return Ok(None);
    }
    changed(known, netns, before, value.into()).map(|change| Some(Change::Sysctl(change)))
}

fn changed(
    known: &HarmlessSetting,
    netns: &Netns,
    before: String,
    set: String,
) -> Result<SysctlChange, TreatError> {
    let namespace = Namespace::of(netns)?;
    Ok(SysctlChange { name: known.name.into(), namespace, before, set })
}

/// Returns the value as the kernel prints it: it takes `0100` for an octal number.
fn judge(takes: Takes, value: &str) -> Result<String, String> {
    let numbers = || value.split(' ').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>();
    match takes {
        Takes::Number(least, most) => match value.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
            _ => Err(format!("write a number from {least} to {most}")),
        },
        Takes::Numbers(count) => match numbers() {
            Ok(all) if all.len() == count && all.is_sorted() && all[0] > 0 => {
                Ok(all.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
            }
            _ => Err(format!(
                "write {count} numbers, the least first, as in '{}'",
                match count {
                    2 => "10240 65535",
                    _ => "4096 131072 16777216",
                }
            )),
        },
        Takes::Word if value.is_empty() || value.contains([' ', '/']) => {
            Err("write one word".into())
        }
        Takes::Word => Ok(value.to_owned()),
    }
}

impl HarmlessSetting {
    /// Returns the file in which the kernel shows the setting of the namespace of the thread that
    /// opens it.
    fn path(&self) -> PathBuf {
        ["/proc/sys/net", self.place, self.name].iter().collect()
    }
}

fn read(known: &HarmlessSetting) -> io::Result<String> {
    let text = fs::read_to_string(known.path())?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn refused(known: &HarmlessSetting, source: io::Error) -> TreatError {
    let what = match source.kind() {
        io::ErrorKind::NotFound => {
            "there is no such setting here: the kernel lacks it, or it is one of the host's \
             network namespace"
        }
        io::ErrorKind::PermissionDenied => "it needs root in this network namespace: use sudo",
        _ => "the kernel refuses it",
    };
    TreatError::Sysctl { path: known.path(), what, source }
}

fn of(change: &SysctlChange) -> io::Result<&'static HarmlessSetting> {
    let known = KNOWN.iter().find(|known| known.name == change.name);
    known.ok_or_else(|| {
        io::Error::other(format!(
            "this version of tcpwhy does not know the setting; set it by sysctl to {}",
            change.before
        ))
    })
}

/// Writes a value and returns what the kernel made of it.
fn write(known: &HarmlessSetting, netns: &Netns, value: &str) -> io::Result<String> {
    netns
        .inside(|| fs::write(known.path(), value).and_then(|()| read(known)))
        .map_err(io::Error::other)?
}

/// Makes the change, and returns it with the value that the kernel made of it.
pub(super) fn make(change: &SysctlChange) -> Result<SysctlChange, TreatError> {
    let known = of(change)
        .map_err(|source| TreatError::File { path: change.name.clone().into(), source })?;
    let written = change.namespace.open().and_then(|netns| write(known, &netns, &change.set));
    let set = written.map_err(|source| refused(known, source))?;
    if set == change.before {
        let source = io::Error::other(format!("it is {set} as before"));
        return Err(refused(known, source));
    }
    Ok(SysctlChange { set, ..change.clone() })
}

/// Restores the value from before the change.
pub(super) fn restore(change: &SysctlChange) -> io::Result<Restored> {
    let known = of(change)?;
    let Some(netns) = change.namespace.find()? else { return Ok(Restored::Gone) };
    let now = match netns.inside(|| read(known)).map_err(io::Error::other)? {
        // A module of the kernel took its settings with it.
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::exists("/proc/sys/net")? => {
            return Ok(Restored::Gone);
        }
        other => other?,
    };
    if now == change.before {
        return Ok(Restored::Done);
    }
    if now != change.set {
        return Ok(Restored::ChangedMeanwhile { now });
    }
    match write(known, &netns, &change.before)? {
        now if now == change.before => Ok(Restored::Done),
        now => Err(io::Error::other(format!("the kernel made it {now}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_judged_before_anything_is_changed() {
        assert_eq!(judge(Takes::Number(0, 1), "1").as_deref(), Ok("1"));
        // The kernel would take them for octal and hexadecimal numbers.
        assert_eq!(judge(Takes::Number(1, 65_535), "0100").as_deref(), Ok("100"));
        assert_eq!(judge(Takes::Numbers(2), "01024 065535").as_deref(), Ok("1024 65535"));
        assert!(judge(Takes::Number(1, 65_535), "0x10").is_err());
        for wrong in ["2", "", "-1", "on", "1 1"] {
            assert!(judge(Takes::Number(0, 1), wrong).is_err(), "{wrong}");
        }
        assert!(judge(Takes::Numbers(3), "4096 87380 6291456").is_ok());
        assert!(judge(Takes::Numbers(3), "4096 87380").is_err());
        assert!(judge(Takes::Numbers(2), "60000 1024").is_err(), "the least first");
        assert!(judge(Takes::Word, "bbr").is_ok() && judge(Takes::Word, "../x").is_err());
    }

    #[test]
    fn what_is_not_on_the_list_is_refused_with_the_list() {
        let error = plan("net.ipv4.ip_forward=1", None).unwrap_err().to_string();
        assert!(error.contains("ip_forward") && error.contains("tcp_syncookies"), "{error}");
        assert!(plan("tcp_syncookies", None).unwrap_err().to_string().contains("NAME=VALUE"));
    }
}
