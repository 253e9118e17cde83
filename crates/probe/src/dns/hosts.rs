//! Reads the table of names of this host: hosts(5).

use std::fs;
use std::net::IpAddr;

/// The entries of /etc/hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<(IpAddr, Vec<String>)>);

impl Hosts {
    /// Reads /etc/hosts; the table is empty if the file does not exist.
    pub fn system() -> Hosts {
        Hosts::parse(&fs::read_to_string("/etc/hosts").unwrap_or_default())
    }

    /// Parses a table in that format; invalid lines are skipped.
    pub fn parse(text: &str) -> Hosts {
        let entry = |line: &str| {
            let mut words = line.split('#').next()?.split_whitespace();
            let address = words.next()?.parse().ok()?;
            Some((address, words.map(str::to_owned).collect()))
        };
        Hosts(text.lines().filter_map(entry).collect())
    }

    /// Returns the addresses of a name.
    pub fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let has = |names: &[String]| names.iter().any(|it| it.eq_ignore_ascii_case(name));
        self.0.iter().filter(|(_, names)| has(names)).map(|(address, _)| *address).collect()
    }

    /// Returns the name of an address.
    pub fn name(&self, address: IpAddr) -> Option<&str> {
        let entry = self.0.iter().find(|(it, names)| *it == address && !names.is_empty())?;
        entry.1.first().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_found() {
        let hosts = Hosts::parse("127.0.0.1 localhost # own\n::1 localhost ip6\nbad x\n192.0.2.1");
        assert_eq!(hosts.addresses("LOCALHOST.").len(), 2);
        assert_eq!(hosts.addresses("own"), [] as [IpAddr; 0]);
        assert_eq!(hosts.name("::1".parse().unwrap()), Some("localhost"));
        assert_eq!(hosts.name("192.0.2.1".parse().unwrap()), None);
    }
}
