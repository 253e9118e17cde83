//! Lists the rules of the packet filter in the calling thread's namespace. Listing must change
//! nothing: a legacy table that is not in use is not listed, because listing creates it, and the
//! NAT table would enable connection tracking for all traffic.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::rules::{Rules, iptables, nft};

/// More of a listing is not read, bytes.
const LISTING_BYTES_MAX: u64 = 16 << 20;

/// Reads the rules.
pub fn read() -> Rules {
    let mut rules = Rules::default();
    if !has_module("nf_tables") {
        rules.unread.push("nftables is not loaded: it has no rules".to_owned());
    } else {
        match run("nft", &["--handle", "list", "ruleset"]) {
            Ok(text) => rules.sources.push(nft(&text)),
            Err(why) => rules.unread.push(format!("nft list ruleset: {why}")),
        }
    }
    for (file, program, other) in [
        ("ip_tables_names", "iptables-legacy", "iptables"),
        ("ip6_tables_names", "ip6tables-legacy", "ip6tables"),
    ] {
        let names = fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        for table in names.unwrap_or_default().split_whitespace() {
            let arguments = ["-t", table, "-v", "-S"];
            match run(program, &arguments).or_else(|_| run(other, &arguments)) {
                Ok(text) => rules.sources.push(iptables(program, table, &text)),
                Err(why) => rules.unread.push(format!("{program} -t {table} -S: {why}")),
            }
        }
    }
    rules
}

/// Returns whether a module of the kernel is loaded; `true` if the kernel has no modules.
fn has_module(name: &str) -> bool {
    let Ok(loaded) = fs::read_to_string("/proc/modules") else { return true };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let builtin = format!("/lib/modules/{}/modules.builtin", release.trim());
    let builtin = fs::read_to_string(builtin).unwrap_or_default();
    loaded.lines().any(|line| line.split(' ').next() == Some(name))
        || builtin.contains(&format!("/{name}.ko"))
}

/// Runs a program by its usual place and returns what it prints.
fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let paths = folders.iter().map(|folder| format!("{folder}/{program}"));
    let Some(path) = paths.into_iter().find(|path| fs::metadata(path).is_ok()) else {
        return Err(format!("{program} is not installed"));
    };
    let mut command = Command::new(path);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    if let Some(out) = child.stdout.take() {
        let read = out.take(LISTING_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
    }
    let mut complaint = String::new();
    if let Some(error) = child.stderr.take() {
        // The output on standard error is only shown to the user.
        let _ = error.take(4_096).read_to_string(&mut complaint);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    match complaint.to_ascii_lowercase().contains("permi") {
        true => Err("it needs CAP_NET_ADMIN; use sudo".to_owned()),
        false => Err(complaint.lines().next().unwrap_or("it failed").to_owned()),
    }
}
