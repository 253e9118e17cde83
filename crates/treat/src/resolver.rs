//! Options of a resolver library in `resolv.conf` (resolv.conf(5)): timeout, servers and search
//! domains.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::error::TreatError;
use super::host::HostPlan;
use super::record::{Change, FileChange, What};
use super::{cache, file};
use tcpwhy_live::netns::Netns;

/// Options of the treatment; empty fields change nothing.
#[derive(Debug, Clone, Default)]
pub struct Resolver {
    /// Timeout of a query, s.
    pub timeout_s: Option<u32>,
    /// Number of queries to each server.
    pub attempts: Option<u32>,
    /// Names with this number of dots or more are first asked for as they are.
    pub ndots: Option<u32>,
    /// A socket of its own for the second question, where both answers do not come.
    pub single_request_reopen: bool,
    /// Servers that replace the configured ones.
    pub nameservers: Vec<IpAddr>,
    /// A caching resolver of the host's own, in front of the servers.
    pub cache: bool,
    /// The network namespace.
    pub netns: Option<String>,
    /// The file, if it is not that of the namespace.
    pub file: Option<PathBuf>,
}

/// Largest values that the library uses (`RES_MAXNDOTS`, `RES_MAXRETRANS` and `RES_MAXRETRY` of
/// glibc).
const MOST: [(&str, u32); 3] = [("ndots", 15), ("timeout", 30), ("attempts", 5)];
/// Number of symbolic links that are followed (path_resolution(7)).
const LINKS_MAX: u32 = 40;
/// Number of `nameserver` lines that the library uses (`MAXNS`).
const SERVERS_MAX: usize = 3;

/// Plans the changes for `asked`.
///
/// # Errors
/// The namespace has no file of its own, it cannot be read, or nothing would change.
pub fn plan(asked: &Resolver) -> Result<HostPlan, TreatError> {
    let (path, mounts) = path(asked)?;
    let shown = path.display().to_string();
    let read = file::read(&path).map_err(|source| TreatError::File { path: path.clone(), source });
    let before = read?;
    let mut changes = Vec::new();
    let mut risks = vec![
        "programs read the file when they look a name up the next time (glibc), or only when they \
         start",
    ];
    let mut nameservers = asked.nameservers.clone();
    if asked.cache {
        let netns = match &asked.netns {
            Some(name) => Netns::find(name)?,
            None => Netns::own(),
        };
        let upstream = if nameservers.is_empty() { servers(&before) } else { nameservers };
        let cache = cache::plan(&netns, &upstream)?;
        // If the cache ends early, the library continues with the servers listed after it.
        nameservers = std::iter::once(cache.address).chain(upstream).collect();
        changes.push(Change::Cache(cache));
        risks.push("the cache asks all servers at once, and keeps that a name is missing for 30 s");
    }
    let set = edited(&before, asked, &nameservers);
    if set == before {
        return Err(TreatError::HasIt { name: shown.clone(), value: "so".into() });
    }
    if before.contains("systemd-resolved") || before.contains("NetworkManager") {
        risks.push("a service that made the file may replace it: then the treatment ends early");
    }
    changes.push(Change::File(FileChange { path: shown.clone(), mounts, before, set }));
    Ok(HostPlan { what: What::Resolver { path: shown }, changes, risks })
}

/// Returns the file of the namespace: the one that `ip netns exec` shows, or that a process sees.
/// The second value is the mount namespace in which it is seen, if that is not the own one.
fn path(asked: &Resolver) -> Result<(PathBuf, Option<u64>), TreatError> {
    let path = match (&asked.file, &asked.netns) {
        (Some(path), _) => path.clone(),
        (None, None) => "/etc/resolv.conf".into(),
        (None, Some(name)) if name.parse::<u32>().is_ok() => {
            let process = Path::new("/proc").join(name);
            let refused = |source| TreatError::File { path: process.clone(), source };
            let mounts = |of: &Path| fs::metadata(of.join("ns/mnt")).map(|it| it.ino());
            let its = mounts(&process).map_err(refused)?;
            if its != mounts(Path::new("/proc/self")).map_err(refused)? {
                let root = process.join("root");
                let inside = resolved(&root, Path::new("etc/resolv.conf")).map_err(refused)?;
                return Ok((inside, Some(its)));
            }
            process.join("root/etc/resolv.conf")
        }
        (None, Some(name)) => {
            Netns::find(name)?;
            let path = Path::new("/etc/netns").join(name).join("resolv.conf");
            if !path.exists() {
                return Err(TreatError::NoResolverFile { netns: name.clone(), path });
            }
            path
        }
    };
    // A symbolic link is kept: its target is replaced.
    let path = fs::canonicalize(&path).map_err(|source| TreatError::File { path, source })?;
    Ok((path, None))
}

/// Follows the symbolic links of a path inside `root`, which is that of another mount namespace:
/// there, a link to `/run` is not the own `/run`.
fn resolved(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let words = |path: &Path| path.iter().rev().map(OsStr::to_owned).collect::<Vec<_>>();
    let (mut rest, mut inside) = (words(path), PathBuf::new());
    let mut links = 0;
    while let Some(word) = rest.pop() {
        if word == "/" || word == "." {
            continue;
        }
        if word == ".." {
            inside.pop();
            continue;
        }
        let next = inside.join(&word);
        if fs::symlink_metadata(root.join(&next))?.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            let target = fs::read_link(root.join(&next))?;
            if target.is_absolute() {
                inside = PathBuf::new();
            }
            rest.extend(words(&target));
        } else {
            inside = next;
        }
    }
    Ok(root.join(inside))
}

fn servers(content: &str) -> Vec<IpAddr> {
    let addresses = content.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()?.parse().ok()).flatten()
    });
    addresses.take(SERVERS_MAX).collect()
}

/// Returns the file with the options of `asked`. Only the last line of options counts, so they are
/// added as a line at the end, together with the existing ones.
fn edited(before: &str, asked: &Resolver, nameservers: &[IpAddr]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut options: Vec<String> = Vec::new();
    for line in before.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") if !nameservers.is_empty() => {}
            Some("options") => options.extend(words.map(str::to_owned)),
            _ => lines.push(line.to_owned()),
        }
    }
    let wanted = [asked.ndots, asked.timeout_s, asked.attempts];
    for ((name, most), value) in MOST.into_iter().zip(wanted) {
        let Some(value) = value else { continue };
        options.retain(|option| option.split(':').next() != Some(name));
        options.push(format!("{name}:{}", value.min(most)));
    }
    let reopen = "single-request-reopen";
    if asked.single_request_reopen && !options.iter().any(|option| option == reopen) {
        options.push(reopen.into());
    }
    let servers = nameservers.iter().take(SERVERS_MAX).map(|it| format!("nameserver {it}"));
    let mut all: Vec<String> = servers.chain(lines).collect();
    if !options.is_empty() {
        all.push(format!("options {}", options.join(" ")));
    }
    let mut text = all.join("\n");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_replace_their_namesakes_and_leave_the_rest() {
        let before =
            "# made by hand\nnameserver 10.0.0.1\nsearch a.lab b.lab\noptions ndots:5 rotate\n";
        let asked = Resolver { ndots: Some(1), timeout_s: Some(99), ..Resolver::default() };
        assert_eq!(
            edited(before, &asked, &[]),
            "# made by hand\nnameserver 10.0.0.1\nsearch a.lab b.lab\noptions rotate ndots:1 \
             timeout:30\n"
        );
        let nothing = Resolver::default();
        assert_eq!(edited(before, &nothing, &[]), before);
    }

    #[test]
    fn links_of_another_root_are_followed_inside_it() {
        let root = tcpwhy_testing::Folder::new();
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::create_dir_all(root.join("run/resolve")).unwrap();
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        };
        fs::write(root.join("run/resolve/stub.conf"), "").unwrap();
        link("/run/resolve/stub.conf", "etc/absolute");
        link("../../../run/resolve/stub.conf", "etc/relative");
        link("loop", "etc/loop");
        for name in ["etc/absolute", "etc/relative", "run/resolve/stub.conf"] {
            let found = resolved(&root, Path::new(name)).unwrap();
            assert_eq!(found, root.join("run/resolve/stub.conf"), "{name}");
        }
        assert!(resolved(&root, Path::new("etc/loop")).is_err());
    }

    #[test]
    fn servers_are_replaced_in_their_order() {
        let servers = ["127.0.53.1", "10.0.0.1"].map(|it| it.parse().unwrap());
        let asked = Resolver { single_request_reopen: true, ..Resolver::default() };
        let edited = edited("nameserver 10.0.0.9\nsearch lab\n", &asked, &servers);
        assert_eq!(
            edited,
            "nameserver 127.0.53.1\nnameserver 10.0.0.1\nsearch lab\noptions \
             single-request-reopen\n"
        );
        assert_eq!(super::servers(&edited), servers);
    }
}
