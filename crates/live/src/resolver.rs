//! Name resolution as programs of the audited namespace do it: resolv.conf(5), nsswitch.conf(5).

use std::net::IpAddr;

/// Configuration of name resolution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolver {
    /// File that was read; `None` if it does not exist.
    pub file: Option<String>,
    /// `nameserver` lines that count, the first asked first.
    pub nameservers: Vec<IpAddr>,
    /// Search list.
    pub search: Vec<String>,
    /// Number of dots from which on a name is first asked for without a search domain.
    pub ndots: u64,
    /// Wait for an answer, s.
    pub timeout_s: u64,
    /// Number of rounds over the servers.
    pub attempts: u64,
    /// Other options.
    pub options: Vec<String>,
    /// The `hosts` line of nsswitch.conf.
    pub hosts: Option<String>,
    /// Answer of the resolver at a loopback address; `None` if no nameserver is at one.
    pub local: Option<Local>,
}

/// Answer of a resolver at a loopback address to one query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// The address of the server.
    pub address: IpAddr,
    /// Time until the answer, ns; `None` if there was none.
    pub answer_ns: Option<u64>,
    /// Reason for the missing answer.
    pub failure: Option<String>,
}

/// glibc takes no more nameservers than this (`MAXNS`).
const NAMESERVERS_MAX: usize = 3;

/// Parses resolv.conf with glibc's defaults and limits.
pub fn parse(text: &str) -> Resolver {
    let mut resolver = Resolver { ndots: 1, timeout_s: 5, attempts: 2, ..Resolver::default() };
    for line in text.lines() {
        let line = line.split(['#', ';']).next().unwrap_or_default();
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => {
                // A zone (`fe80::1%eth0`) names the interface.
                let word = words.next().unwrap_or_default();
                let bare = word.split('%').next().unwrap_or_default();
                let address: Option<IpAddr> = bare.parse().ok();
                resolver.nameservers.extend(address);
            }
            // The last line counts.
            Some("search" | "domain") => resolver.search = words.map(str::to_owned).collect(),
            Some("options") => words.for_each(|word| option(&mut resolver, word)),
            _ => {}
        }
    }
    resolver.nameservers.truncate(NAMESERVERS_MAX);
    resolver
}

fn option(resolver: &mut Resolver, word: &str) {
    let number = |value: &str, most: u64| value.parse::<u64>().ok().map(|value| value.min(most));
    match word.split_once(':') {
        Some(("ndots", value)) => resolver.ndots = number(value, 15).unwrap_or(1),
        Some(("timeout", value)) => resolver.timeout_s = number(value, 30).unwrap_or(5),
        Some(("attempts", value)) => resolver.attempts = number(value, 5).unwrap_or(2),
        _ => resolver.options.push(word.to_owned()),
    }
}

/// Returns the services of the `hosts` line of nsswitch.conf.
pub fn hosts(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("hosts:"))?;
    Some(line.split('#').next()?.split_whitespace().collect::<Vec<_>>().join(" "))
}

impl Resolver {
    /// Returns the longest time that one query may take before it fails, s: in each round every
    /// server is asked once; glibc doubles the wait from server to server and divides that of all
    /// but the first by their number (`send_dg` of res_send.c).
    pub fn longest_wait_s(&self) -> u64 {
        let servers = self.nameservers.len().max(1) as u64;
        let waits = (0..servers).map(|server| match server {
            0 => self.timeout_s,
            _ => ((self.timeout_s << server) / servers).max(1),
        });
        waits.sum::<u64>() * self.attempts
    }

    /// Returns whether an option without a value is set.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|it| it == option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_with_glibcs_defaults_and_limits() {
        let text = "; comment\ndomain old.example\nsearch a.example b.example\n\
                    nameserver 127.0.0.53\nnameserver fe80::1%eth0 # router\n\
                    nameserver 9.9.9.9\nnameserver 8.8.8.8\n\
                    options ndots:5 timeout:2 single-request rotate attempts:9\n";
        let resolver = parse(text);
        assert_eq!(resolver.nameservers.len(), 3, "glibc asks no more");
        assert_eq!(resolver.nameservers[0], "127.0.0.53".parse::<IpAddr>().unwrap());
        assert_eq!(resolver.search, ["a.example", "b.example"]);
        assert_eq!((resolver.ndots, resolver.timeout_s, resolver.attempts), (5, 2, 5));
        assert!(resolver.has("rotate") && resolver.has("single-request"));
        let plain = parse("nameserver 9.9.9.9\n");
        assert_eq!((plain.ndots, plain.timeout_s, plain.attempts), (1, 5, 2));
        assert_eq!(plain.longest_wait_s(), 2 * 5);
        let two = parse("nameserver 9.9.9.9\nnameserver 8.8.8.8\n");
        assert_eq!(two.longest_wait_s(), 2 * (5 + 5));
        assert_eq!(hosts("passwd: files\nhosts:  files dns # x\n").as_deref(), Some("files dns"));
    }
}
