//! The target of a measurement: a URL, or a host and a port.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::http::{Health, Response};

/// The protocol of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP over plain TCP.
    Http,
    /// HTTP over TLS.
    Https,
    /// A TCP port of unknown application protocol.
    Tcp,
}

impl Scheme {
    fn port(self) -> Option<u16> {
        match self {
            Scheme::Http => Some(80),
            Scheme::Https => Some(443),
            Scheme::Tcp => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Tcp => "tcp",
        }
    }
}

/// The purpose of a request to a target with HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The resource at the path.
    Resource,
    /// A WebSocket at the path (RFC 6455 §4.1).
    WebSocket,
    /// The health of the gRPC service that the path names; `/` is the whole server.
    HealthCheck,
}

/// A host and port, and the path of the request for a target with HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The protocol of the target.
    pub scheme: Scheme,
    /// A name or an address; an IPv6 address has no brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// Path and query of the request line; `/` if the target names none.
    pub path: String,
    /// The purpose of a request over the scheme's protocol.
    pub ask: Ask,
}

/// An error in the text of a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The scheme is not supported.
    #[error(
        "`{0}://` is not spoken here; name a URL with http://, https://, ws://, wss://, grpc:// or \
         grpcs://, or HOST:PORT"
    )]
    Scheme(String),
    /// The text has no host.
    #[error("`{0}` names no host; write http://HOST/PATH, https://HOST/PATH or HOST:PORT")]
    NoHost(String),
    /// The port is invalid.
    #[error("`{0}` is no port; ports are 1 to 65535")]
    Port(String),
    /// The text has neither a port nor a scheme.
    #[error("`{0}` lacks a port; write http://{0}/, https://{0}/ or {0}:PORT")]
    NoPort(String),
    /// An IPv6 address with a port lacks its brackets.
    #[error("an IPv6 address with a port has brackets: write {0}")]
    Brackets(String),
    /// The text contains a user name or password, which would be sent unencrypted or ignored.
    #[error(
        "user names and passwords in a URL are not used; pass them as a header: -H 'Authorization: …'"
    )]
    Credentials,
    /// A character is not permitted in a request line or a host name.
    #[error("`{0}` has a character that a URL cannot hold; write it as %XX")]
    Character(String),
}

impl Target {
    /// Parses `http://HOST[:PORT]/PATH?QUERY`, `https://…`, the same with `ws` or `wss` (RFC 6455 §3),
    /// `grpc://HOST[:PORT]/SERVICE` or `grpcs://…`, `tcp://HOST:PORT` or `HOST:PORT`; an IPv6 address is in brackets (RFC 3986 §3.2.2). A fragment is ignored (§3.5).
    ///
    /// # Errors
    /// The text is no target; the error states the expected form.
    pub fn parse(words: &str) -> Result<Target, TargetError> {
        if words.chars().any(|c| c.is_control() || c.is_whitespace() || !c.is_ascii()) {
            return Err(TargetError::Character(words.to_owned()));
        }
        let (name, rest) = words.split_once("://").unwrap_or(("tcp", words));
        let (scheme, ask) = match name.to_ascii_lowercase().as_str() {
            "http" => (Scheme::Http, Ask::Resource),
            "https" => (Scheme::Https, Ask::Resource),
            "ws" => (Scheme::Http, Ask::WebSocket),
            "wss" => (Scheme::Https, Ask::WebSocket),
            "grpc" => (Scheme::Http, Ask::HealthCheck),
            "grpcs" => (Scheme::Https, Ask::HealthCheck),
            "tcp" => (Scheme::Tcp, Ask::Resource),
            _ => return Err(TargetError::Scheme(name.to_owned())),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(TargetError::Credentials);
        }
        let (host, port) = split_port(authority);
        if host.is_empty() {
            return Err(TargetError::NoHost(words.to_owned()));
        }
        let port = match port {
            None => scheme.port().ok_or_else(|| without_port(host))?,
            Some(digits) => match digits.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(TargetError::Port(digits.to_owned())),
            },
        };
        let path = match path {
            "" => "/".to_owned(),
            query if query.starts_with('?') => format!("/{query}"),
            path => path.to_owned(),
        };
        Ok(Target { scheme, host: host.to_owned(), port, path, ask })
    }

    /// Returns the target to which a `Location` field of an answer leads (RFC 3986 §5.2).
    ///
    /// # Errors
    /// The field is no target of HTTP.
    pub fn follow(&self, location: &str) -> Result<Target, TargetError> {
        let location = location.split('#').next().unwrap_or_default();
        let has_scheme = location.split(['/', '?']).next().is_some_and(|it| it.contains(':'));
        if has_scheme {
            return Target::parse(location);
        }
        if location.starts_with("//") {
            return Target::parse(&format!("{}:{location}", self.scheme.name()));
        }
        if location.chars().any(|c| c.is_control() || c.is_whitespace() || !c.is_ascii()) {
            return Err(TargetError::Character(location.to_owned()));
        }
        let (old_path, _) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let path = match location.chars().next() {
            None => self.path.clone(),
            Some('/') => without_dots(location),
            Some('?') => format!("{old_path}{location}"),
            Some(_) => {
                let folder = old_path.rsplit_once('/').map_or("", |(folder, _)| folder);
                without_dots(&format!("{folder}/{location}"))
            }
        };
        Ok(Target { path, ..self.clone() })
    }

    /// Returns whether both have the same scheme, host and port (RFC 6454 §4).
    pub fn is_same_origin(&self, other: &Target) -> bool {
        let of = |it: &Target| (it.scheme, it.host.to_ascii_lowercase(), it.port);
        of(self) == of(other)
    }

    /// Returns whether an answer is what was asked for: status 2xx, for a WebSocket 101, and of a health
    /// check `SERVING`.
    pub fn is_success(&self, answer: &Response) -> bool {
        match self.ask {
            Ask::Resource => (200..300).contains(&answer.status),
            Ask::WebSocket => answer.status == 101,
            Ask::HealthCheck => answer.health == Some(Health::Serving),
        }
    }

    /// Returns the gRPC service whose health is asked for; it is empty for the whole server.
    pub fn service(&self) -> &str {
        self.path.trim_start_matches('/')
    }

    /// Returns the address if the host is one; then no name has to be resolved.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Returns host and port as in a `Host` header, without the scheme's default port (RFC 9110
    /// §7.2).
    pub fn authority(&self) -> String {
        if self.scheme.port() == Some(self.port) { self.bracketed() } else { self.endpoint() }
    }

    /// Returns `HOST:PORT`, with an IPv6 address in brackets.
    pub fn endpoint(&self) -> String {
        format!("{}:{}", self.bracketed(), self.port)
    }

    fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Scheme::Tcp => write!(to, "{}", self.endpoint()),
            scheme => {
                let name = match (self.ask, scheme) {
                    (Ask::Resource, scheme) => scheme.name(),
                    (Ask::WebSocket, Scheme::Https) => "wss",
                    (Ask::WebSocket, _) => "ws",
                    (Ask::HealthCheck, Scheme::Https) => "grpcs",
                    (Ask::HealthCheck, _) => "grpc",
                };
                write!(to, "{name}://{}{}", self.authority(), self.path)
            }
        }
    }
}

/// Returns the error of a target that has neither a port nor a scheme.
fn without_port(host: &str) -> TargetError {
    let parts = host.rsplit_once(':').filter(|(address, port)| {
        address.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok()
    });
    match parts {
        Some((address, port)) => TargetError::Brackets(format!("[{address}]:{port}")),
        None if host.contains(':') => TargetError::NoPort(format!("[{host}]")),
        None => TargetError::NoPort(host.to_owned()),
    }
}

/// Removes the segments `.` and `..` of a path (RFC 3986 §5.2.4); a query stays as it is.
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

/// Splits an authority into host and port; brackets around an IPv6 address are removed.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = authority.strip_prefix('[').and_then(|it| it.split_once(']')) {
        return (host, rest.strip_prefix(':'));
    }
    match authority.rsplit_once(':') {
        // An IPv6 address without brackets has no port.
        Some((host, _)) if host.contains(':') => (authority, None),
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_websocket_is_asked_for_over_http_and_over_tls() {
        for (words, scheme, port) in
            [("ws://host/chat", Scheme::Http, 80), ("wss://host/chat", Scheme::Https, 443)]
        {
            let target = Target::parse(words).unwrap();
            assert_eq!(
                (target.scheme, target.port, target.to_string()),
                (scheme, port, words.into())
            );
            let with = |status| Response { status, ..Response::default() };
            assert!(target.is_success(&with(101)) && !target.is_success(&with(200)));
            let plain = Target::parse("http://host/").unwrap();
            assert!(plain.is_success(&with(204)) && !plain.is_success(&with(101)));
        }
    }

    #[test]
    fn the_health_of_a_grpc_service_is_asked_for() {
        for (words, scheme, port, service) in [
            ("grpc://host/", Scheme::Http, 80, ""),
            ("grpcs://host:8443/shop.Cart", Scheme::Https, 8443, "shop.Cart"),
        ] {
            let target = Target::parse(words).unwrap();
            assert_eq!((target.scheme, target.port, target.service()), (scheme, port, service));
            assert_eq!(target.to_string(), words);
            let with = |health| Response { status: 200, health, ..Response::default() };
            assert!(target.is_success(&with(Some(Health::Serving))));
            assert!(!target.is_success(&with(Some(Health::NotServing))));
            assert!(!target.is_success(&with(None)));
        }
    }

    #[test]
    fn urls_and_endpoints_are_read() {
        for (words, shown) in [
            ("http://example.org", "http://example.org/"),
            ("HTTP://example.org:80/a?b=c#d", "http://example.org/a?b=c"),
            ("https://[::1]:8443?q", "https://[::1]:8443/?q"),
            ("10.0.0.1:5432", "10.0.0.1:5432"),
            ("tcp://db:5432/", "db:5432"),
        ] {
            assert_eq!(Target::parse(words).unwrap().to_string(), shown, "{words}");
        }
    }

    #[test]
    fn a_redirect_leads_where_the_reference_says() {
        let at = Target::parse("http://host:8080/a/b/c?d=e").unwrap();
        for (location, leads_to) in [
            ("/x/../y?z=..", "http://host:8080/y?z=.."),
            ("x", "http://host:8080/a/b/x"),
            ("../x/", "http://host:8080/a/x/"),
            ("..", "http://host:8080/a/"),
            ("?q=1#f", "http://host:8080/a/b/c?q=1"),
            ("//other/x", "http://other/x"),
            ("https://host/", "https://host/"),
            ("/login?next=http://host/", "http://host:8080/login?next=http://host/"),
        ] {
            assert_eq!(at.follow(location).unwrap().to_string(), leads_to, "{location}");
        }
        assert_eq!(at.follow("ftp://host/"), Err(TargetError::Scheme("ftp".into())));
        assert!(at.follow("/a b").is_err());
    }

    #[test]
    fn an_error_in_a_target_states_the_expected_form() {
        for (words, error) in [
            ("ftp://host/", TargetError::Scheme("ftp".into())),
            ("http:///x", TargetError::NoHost("http:///x".into())),
            ("host", TargetError::NoPort("host".into())),
            ("::1:80", TargetError::Brackets("[::1]:80".into())),
            ("2001:db8::", TargetError::NoPort("[2001:db8::]".into())),
            ("host:0", TargetError::Port("0".into())),
            ("http://host:99999/", TargetError::Port("99999".into())),
            ("http://me:secret@host/", TargetError::Credentials),
            ("http://host/a b", TargetError::Character("http://host/a b".into())),
        ] {
            assert_eq!(Target::parse(words), Err(error), "{words}");
        }
    }
}
