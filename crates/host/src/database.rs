//! TCP settings of running databases, from their command line and configuration file.

/// A running Redis or PostgreSQL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Database {
    /// `Redis` or `PostgreSQL`.
    pub name: &'static str,
    /// The number of its process.
    pub pid: u32,
    /// File from which the settings were read; `None` if only from the command line.
    pub file: Option<String>,
    /// Settings by name, the one in force.
    pub settings: Vec<(String, String)>,
}

/// Settings of Redis that concern connections.
pub const REDIS: [&str; 5] = ["tcp-backlog", "tcp-keepalive", "timeout", "maxclients", "port"];

/// Settings of PostgreSQL that concern connections.
pub const POSTGRESQL: [&str; 6] = [
    "max_connections",
    "tcp_keepalives_idle",
    "tcp_keepalives_interval",
    "tcp_keepalives_count",
    "tcp_user_timeout",
    "port",
];

/// Settings of Redis's command line: `--NAME VALUE`.
pub fn redis_arguments(arguments: &[String]) -> Vec<(String, String)> {
    let pairs = arguments.iter().zip(arguments.iter().skip(1));
    let settings = pairs.filter_map(|(name, value)| Some((name.strip_prefix("--")?, value)));
    let known = settings.filter(|(name, _)| REDIS.contains(name));
    known.map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

/// Settings of a configuration file with `NAME VALUE` or `NAME = VALUE` lines; the last counts.
pub fn lines(text: &str, known: &[&str]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.splitn(2, |char: char| char.is_whitespace() || char == '=');
        let Some(name) = words.next().filter(|name| known.contains(name)) else { continue };
        let value = words.next().unwrap_or_default().trim_start_matches(['=', ' ', '\t']);
        let value = value.trim().trim_matches('\'').to_owned();
        found.retain(|it| it.0 != name);
        found.push((name.to_owned(), value));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_arguments_and_files() {
        let words = ["redis-server", "--port", "7000", "--tcp-backlog", "4"].map(str::to_owned);
        let found = redis_arguments(&words);
        assert_eq!(found[1], ("tcp-backlog".to_owned(), "4".to_owned()));
        let text = "max_connections = 100 # change requires restart\n#port = 5432\n\
                    tcp_keepalives_idle='60'\nmax_connections=50\n";
        let found = lines(text, &POSTGRESQL);
        assert_eq!(found[0], ("tcp_keepalives_idle".to_owned(), "60".to_owned()));
        assert_eq!(found[1], ("max_connections".to_owned(), "50".to_owned()));
    }
}
