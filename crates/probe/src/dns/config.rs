//! Reads the name servers and resolver options of the system: resolv.conf(5).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tcpwhy_live::resolver::{Resolver, hosts, parse};

use super::message::RecordType;

/// The configuration file of the system.
const RESOLV_CONF: &str = "/etc/resolv.conf";
const NSSWITCH_CONF: &str = "/etc/nsswitch.conf";
/// The port of DNS over UDP and TCP.
const PORT: u16 = 53;

/// The configuration of name resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The contents of resolv.conf.
    pub resolver: Resolver,
    /// The servers that are asked, in order.
    pub servers: Vec<SocketAddr>,
    /// `true` if the programs of this system use these servers and options.
    pub is_system: bool,
}

/// An error in reading a resolv.conf.
#[derive(Debug, thiserror::Error)]
#[error("{path}: cannot be read; name a file in the form of resolv.conf(5)")]
pub struct ConfigError {
    /// The file.
    pub path: String,
    /// The error of the system.
    pub source: io::Error,
}

impl Config {
    /// Reads the configuration that the programs of this system use. Without a resolv.conf, glibc
    /// asks 127.0.0.1.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn system() -> Result<Config, ConfigError> {
        match Config::read(Path::new(RESOLV_CONF)) {
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => {
                Ok(Config { is_system: true, ..Config::of("") })
            }
            read => read.map(|config| Config { is_system: true, ..config }),
        }
    }

    /// Reads the configuration from the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let named = || path.display().to_string();
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError { path: named(), source })?;
        let mut config = Config::of(&text);
        config.resolver.file = Some(named());
        config.resolver.hosts =
            fs::read_to_string(NSSWITCH_CONF).ok().and_then(|text| hosts(&text));
        Ok(config)
    }

    /// Parses text in the form of resolv.conf, with glibc's defaults for missing options.
    pub fn of(text: &str) -> Config {
        let resolver = parse(text);
        let mut servers: Vec<_> =
            resolver.nameservers.iter().map(|&address| SocketAddr::new(address, PORT)).collect();
        if servers.is_empty() {
            servers.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT));
        }
        Config { resolver, servers, is_system: false }
    }

    /// Returns the same options with other servers.
    #[must_use]
    pub fn with_servers(mut self, servers: Vec<SocketAddr>) -> Config {
        self.servers = servers;
        self.is_system = false;
        self
    }

    /// Parses a server in the form of the command line: `ADDRESS`, `ADDRESS:PORT`,
    /// `[ADDRESS]:PORT`.
    pub fn parse_server(words: &str) -> Option<SocketAddr> {
        let bare = words.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<IpAddr>().map(|address| SocketAddr::new(address, PORT));
        address.or_else(|_| words.parse()).ok().filter(|server| server.port() > 0)
    }

    /// Returns how long glibc waits for the server at this place in the list, in any round: the
    /// timeout, doubled with each place and divided by the number of servers (`send_dg` of
    /// res_send.c).
    pub fn wait(&self, place: usize) -> Duration {
        let timeout_s = self.resolver.timeout_s.max(1);
        let seconds = match place {
            0 => timeout_s,
            place => (timeout_s << place.min(16)) / self.servers.len().max(1) as u64,
        };
        Duration::from_secs(seconds.max(1))
    }

    /// Returns the types that getaddrinfo queries for the addresses of a name. With `options no-aaaa`
    /// glibc 2.36 and later query no AAAA record.
    pub fn address_types(&self) -> Vec<RecordType> {
        match self.resolver.has("no-aaaa") {
            true => vec![RecordType::A],
            false => vec![RecordType::A, RecordType::AAAA],
        }
    }

    /// Returns whether programs look into /etc/hosts before they ask a server: nsswitch.conf(5).
    /// Without a `hosts` line glibc takes `files dns`.
    pub fn asks_files_first(&self) -> bool {
        let services = self.resolver.hosts.as_deref().unwrap_or("files dns");
        services.split_whitespace().find(|it| matches!(*it, "files" | "dns" | "resolve"))
            == Some("files")
    }

    /// Returns the number of servers at which a look-up may begin. With `options rotate` glibc begins
    /// at a random one, and each further name of the look-up at the next (`nameserver_offset` of
    /// res_send.c).
    pub fn starts(&self) -> usize {
        if self.resolver.has("rotate") { self.servers.len().max(1) } else { 1 }
    }

    /// Returns the number of rounds over the servers.
    pub fn attempts(&self) -> u64 {
        self.resolver.attempts.max(1)
    }

    /// Returns the UDP payload that an answer may have if resolv.conf requests EDNS (`options
    /// edns0`), bytes.
    pub fn edns_bytes(&self) -> Option<u16> {
        // This is glibc's value, RESOLV_EDNS_BUFFER_SIZE.
        self.resolver.has("edns0").then_some(1_200)
    }

    /// Returns the names that are tried in turn until one exists (`res_search`). The name itself is
    /// tried before or after those with the search list, depending on its dots.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(whole) = name.strip_suffix('.') {
            return vec![whole.to_owned()];
        }
        let dots = name.bytes().filter(|&byte| byte == b'.').count() as u64;
        let searched = self.resolver.search.iter().map(|domain| match domain.trim_matches('.') {
            "" => name.to_owned(),
            domain => format!("{name}.{domain}"),
        });
        let mut names: Vec<String> = searched.collect();
        if dots >= self.resolver.ndots {
            names.retain(|it| it != name);
            names.insert(0, name.to_owned());
        } else if !names.iter().any(|it| it == name) {
            names.push(name.to_owned());
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ndots_decides_whether_the_search_list_comes_first() {
        let config = Config::of("search a.example b.example\noptions ndots:2");
        let names = |name| config.candidates(name);
        assert_eq!(names("db"), ["db.a.example", "db.b.example", "db"]);
        assert_eq!(names("db.x"), ["db.x.a.example", "db.x.b.example", "db.x"]);
        assert_eq!(names("db.x.y"), ["db.x.y", "db.x.y.a.example", "db.x.y.b.example"]);
        assert_eq!(names("db."), ["db"], "a final dot ends the name");
        let root = Config::of("search a.example .");
        assert_eq!(root.candidates("db"), ["db.a.example", "db"], "the root is the name itself");
    }

    #[test]
    fn waits_are_glibcs() {
        let waits = |text: &str| {
            let config = Config::of(text);
            (0..config.servers.len()).map(|it| config.wait(it).as_secs()).collect::<Vec<_>>()
        };
        assert_eq!(waits("nameserver 192.0.2.1"), [5]);
        assert_eq!(waits("nameserver 192.0.2.1\nnameserver 192.0.2.2"), [5, 5]);
        let three = "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n";
        assert_eq!(waits(three), [5, 3, 6]);
        assert_eq!(waits(&format!("{three}options timeout:1")), [1, 1, 1]);
        assert_eq!(Config::of("").servers, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn servers_have_port_53_unless_another_is_named() {
        for (words, server) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:5353", "192.0.2.1:5353"),
            ("2001:db8::1", "[2001:db8::1]:53"),
            ("[2001:db8::1]", "[2001:db8::1]:53"),
            ("[2001:db8::1]:54", "[2001:db8::1]:54"),
        ] {
            assert_eq!(Config::parse_server(words), server.parse().ok(), "{words}");
        }
        assert_eq!(Config::parse_server("dns.example"), None);
        assert_eq!(Config::parse_server("192.0.2.1:0"), None);
    }

    #[test]
    fn options_decide_on_types_and_starts_and_nsswitch_on_files() {
        let plain = Config::of("nameserver 192.0.2.1\nnameserver 192.0.2.2");
        assert_eq!((plain.address_types().len(), plain.starts()), (2, 1));
        let both = Config::of("nameserver 192.0.2.1\nnameserver 192.0.2.2\noptions rotate no-aaaa");
        assert_eq!((both.address_types(), both.starts()), (vec![RecordType::A], 2));
        for (hosts, files_first) in [
            (None, true),
            (Some("mymachines files [NOTFOUND=return] dns"), true),
            (Some("dns files"), false),
            (Some("dns"), false),
        ] {
            let mut config = plain.clone();
            config.resolver.hosts = hosts.map(str::to_owned);
            assert_eq!(config.asks_files_first(), files_first, "{hosts:?}");
        }
    }
}
