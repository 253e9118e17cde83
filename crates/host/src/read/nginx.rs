//! Finds running nginx masters and reads their configuration files as they see them. Nothing of
//! theirs is executed: a process may only pretend to be nginx.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::program::{Program, started};
use crate::nginx::{Files, Nginx, parse};

/// Largest size of a configuration file, bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Largest size of the binary of nginx, bytes.
const BINARY_BYTES_MAX: u64 = 64 << 20;

/// Returns the nginx masters among `programs`.
pub fn read(programs: &[Program]) -> Vec<Nginx> {
    programs.iter().filter_map(master).collect()
}

fn master(program: &Program) -> Option<Nginx> {
    if program.process.command != "nginx" {
        return None;
    }
    // The master's title is `nginx: master process ` and its own command line; with
    // `master_process off` the command line is as it was started.
    let text = program.arguments.join(" ");
    let text = text.strip_prefix("nginx: master process ").unwrap_or(&text);
    if text.starts_with("nginx: ") {
        return None;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = |flag: &str| {
        let at = words.iter().position(|word| word.starts_with(flag))?;
        let joined = &words[at][flag.len()..];
        if joined.is_empty() { words.get(at + 1).copied() } else { Some(joined) }
    };
    let pid = program.process.pid;
    let mut files = ProcessFiles::of(pid);
    let built = built(pid);
    let folder = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_else(|_| "/".into());
    let prefix = match after("-p") {
        Some(prefix) => folder.join(prefix),
        None => built.prefix,
    };
    let config = match after("-c") {
        Some(config) => prefix.join(config),
        None => prefix.join(built.config),
    };
    let (directives, problem) = parse(&config, &mut files);
    let read_ns = last_read(pid);
    let is_later = |at: SystemTime| read_ns.is_some_and(|read| at > read + START_ERROR);
    let changed_since = files.newest.filter(|(at, _)| is_later(*at));
    Some(Nginx {
        pid,
        config,
        directives,
        changed_since: changed_since.map(|(_, path)| path),
        problem,
        reload: format!("kill -HUP {pid}"),
    })
}

/// The start of a process is known to a clock tick (10 ms), as is the uptime that it is taken from;
/// on a busy machine both are read apart. A file written this shortly before is not called changed.
const START_ERROR: Duration = Duration::from_millis(200);

/// Returns when the master last read its configuration: the start of its youngest worker.
fn last_read(pid: u32) -> Option<SystemTime> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    children.chain([pid]).filter_map(started).max()
}

/// Paths with which the binary was built.
struct Built {
    prefix: PathBuf,
    config: PathBuf,
}

/// Returns the arguments of `configure`, which the binary contains as text for `nginx -V`.
fn built(pid: u32) -> Built {
    let path = format!("/proc/{pid}/exe");
    let is_small = fs::metadata(&path).is_ok_and(|it| it.len() <= BINARY_BYTES_MAX);
    let bytes = if is_small { fs::read(path).unwrap_or_default() } else { Vec::new() };
    let value = |name: &[u8]| {
        let at = bytes.windows(name.len()).position(|window| window == name)? + name.len();
        let rest = &bytes[at..];
        let end = rest.iter().position(|&byte| byte == b' ' || byte == 0)?;
        let text = std::str::from_utf8(&rest[..end]).ok()?;
        Some(PathBuf::from(text.trim_matches('\'')))
    };
    Built {
        prefix: value(b"--prefix=").unwrap_or_else(|| "/usr/local/nginx".into()),
        config: value(b"--conf-path=").unwrap_or_else(|| "conf/nginx.conf".into()),
    }
}

/// Files as a process sees them, and the newest of them.
struct ProcessFiles {
    root: PathBuf,
    newest: Option<(SystemTime, PathBuf)>,
}

impl ProcessFiles {
    fn of(pid: u32) -> Self {
        Self { root: format!("/proc/{pid}/root").into(), newest: None }
    }

    fn below(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Files for ProcessFiles {
    fn text(&mut self, path: &Path) -> Result<String, String> {
        let real = self.below(path);
        let metadata = fs::metadata(&real).map_err(|error| error.to_string())?;
        // A pipe would never end.
        if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
            return Err("no regular file of at most 4 MiB".to_owned());
        }
        if let Ok(at) = metadata.modified()
            && self.newest.as_ref().is_none_or(|(newest, _)| at > *newest)
        {
            self.newest = Some((at, path.to_owned()));
        }
        let bytes = fs::read(&real).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn matching(&mut self, pattern: &Path) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::from("/")];
        for part in pattern.components().skip(1) {
            let part = part.as_os_str().to_string_lossy();
            found = found.iter().flat_map(|folder| self.step(folder, &part)).collect();
        }
        found
    }
}

impl ProcessFiles {
    /// Returns the entries of `folder` that match one part of a pattern.
    fn step(&self, folder: &Path, part: &str) -> Vec<PathBuf> {
        if !part.contains(['*', '?', '[']) {
            return vec![folder.join(part)];
        }
        let entries = fs::read_dir(self.below(folder)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        // glob(3): a leading dot is not matched by a wildcard.
        let mut names: Vec<_> =
            names.filter(|name| !name.starts_with('.') && glob(part, name)).collect();
        names.sort();
        names.into_iter().map(|name| folder.join(name)).collect()
    }
}

/// Returns whether `name` matches a pattern of glob(7).
fn glob(pattern: &str, name: &str) -> bool {
    fn matches(pattern: &[char], name: &[char]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((&'*', rest)), _) => (0..=name.len()).any(|skip| matches(rest, &name[skip..])),
            (Some((&'?', rest)), Some((_, after))) => matches(rest, after),
            (Some((&'[', rest)), Some((char, after))) => {
                let Some(end) = rest.iter().position(|&it| it == ']') else { return false };
                let (set, is_other) = match rest[..end].split_first() {
                    Some(('!' | '^', set)) => (set, true),
                    _ => (&rest[..end], false),
                };
                let is_in = set.contains(char)
                    || set.windows(3).any(|it| it[1] == '-' && (it[0]..=it[2]).contains(char));
                is_in != is_other && matches(&rest[end + 1..], after)
            }
            (Some((one, rest)), Some((other, after))) => one == other && matches(rest, after),
            _ => false,
        }
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    matches(&pattern, &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_a_shell_matches_them() {
        assert!(glob("*.conf", "a.conf") && !glob("*.conf", "a.conf.bak"));
        assert!(glob("[0-9]?.conf", "10.conf") && !glob("[!0-9]*", "1x"));
    }

    #[test]
    fn the_running_files_are_read_below_the_process_root() {
        let mut seen = ProcessFiles::of(std::process::id());
        assert!(seen.text(Path::new("/proc/self")).is_err(), "a folder");
        assert!(seen.matching(Path::new("/pro[c]/sel?")).contains(&PathBuf::from("/proc/self")));
    }
}
