//! Arguments of `tcpwhy load`.

use crate::args::{Display, Trust, Versions, parse_duration};
use clap::Args;
use std::net::IpAddr;
use std::time::Duration;
use tcpwhy_probe::Target;
use tcpwhy_probe::http::Request;

pub const EXAMPLES: &str = "\
Examples:
  tcpwhy load http://127.0.0.1:8080/         ten connections, ten seconds, one request after the other
  tcpwhy load -c 100 -d 30s https://host/    100 connections
  tcpwhy load --rate 500 http://host/        500 requests a second, however slow the answers are
  tcpwhy load --new-connections http://host/ a connection for each request
  tcpwhy load --http2 --streams 20 http://host/   20 requests at a time on each connection
  tcpwhy load -n 1000 -H 'Accept: text/html' http://host/ --json | jq .latency
  sudo tcpwhy load http://host/              and what made the slow requests slow

To name causes it captures its own packets, which takes CAP_NET_RAW (sudo has it). No more is sent
than is asked for, and redirects are not followed. The load ends when the server asks for fewer
requests, by status 429 or by 503 with Retry-After. It waits for the answers to what it has sent. A
request without an answer counts at the age that it reached; a percentile that it may change is a
lower bound (≥).

Exit status: 0 no fault, 1 faults found or requests failed (4xx, 5xx, no answer), 2 nothing was
answered, or it could not begin.";

/// Arguments of `tcpwhy load`.
#[derive(Debug, Args)]
pub struct Load {
    /// URL to request: http://HOST[:PORT]/PATH or https://…, ws:// and wss:// for a WebSocket, grpc:// and
    /// grpcs:// for the health check of gRPC
    #[arg(value_name = "URL", value_parser = Target::parse, value_hint = clap::ValueHint::Url)]
    pub url: Target,

    /// Number of connections, each with one request at a time unless --streams names more
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: u32,

    /// Number of requests at a time on each connection, by streams of HTTP/2
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "http1")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub streams: u32,

    /// Number of threads [default: one for 32 connections, at most one per core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// How long requests are sent [default: 10s; with --requests no limit]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<u64>,

    /// End after this many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,

    /// Open loop: send this many requests a second, and count latency from the planned time of each
    #[arg(long, value_name = "PER SECOND", value_parser = parse_rate)]
    pub rate: Option<f64>,

    /// Open a connection for each request; latency then begins with its connect
    #[arg(long)]
    pub new_connections: bool,

    /// Do not count the requests in this time at the beginning
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    pub warmup: u64,

    /// A request without a complete answer after this time has failed
    #[arg(long, value_name = "TIME", value_parser = parse_timeout, default_value = "10s")]
    pub timeout: u64,

    /// Go on when the server asks for fewer requests (429, or 503 with Retry-After)
    #[arg(long)]
    pub ignore_limits: bool,

    /// A header field, as in 'Accept: text/html'; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    pub headers: Vec<(String, String)>,

    /// The method [default: GET, with --body POST]
    #[arg(short = 'X', long, value_name = "METHOD", value_parser = parse_method)]
    pub method: Option<String>,

    /// The body: a string, or @FILE; with it the method is POST unless --method names another
    #[arg(long, value_name = "STRING|@FILE")]
    pub body: Option<String>,

    #[command(flatten)]
    pub trust: Trust,

    #[command(flatten)]
    pub versions: Versions,

    /// Connect to ADDR instead of the address of HOST in the URL
    #[arg(long, value_name = "HOST:ADDR", value_parser = parse_resolve)]
    pub resolve: Vec<(String, IpAddr)>,

    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,

    /// Use IPv6 only
    #[arg(short = '6', long)]
    pub ipv6: bool,

    /// Do not look for causes: capture nothing, read no sockets
    #[arg(long)]
    pub no_explain: bool,

    /// Print the measurement as JSON (docs/load.schema.json)
    #[arg(long)]
    pub json: bool,

    /// Show all findings, not only the first of them
    #[arg(long)]
    pub all: bool,

    #[command(flatten)]
    pub display: Display,
}

impl Load {
    /// Returns the request, with `body` already read from its file.
    pub fn request(&self, body: Vec<u8>) -> Request {
        Request {
            method: Request::method(self.method.as_deref(), self.body.is_some()),
            headers: self.headers.clone(),
            body,
        }
    }

    /// Returns the duration of the load; `None` for no limit.
    pub fn duration(&self) -> Option<Duration> {
        const DURATION: Duration = Duration::from_secs(10);
        let asked = self.duration.map(Duration::from_nanos);
        asked.or_else(|| self.requests.is_none().then_some(DURATION))
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.trim_end_matches("/s").parse().ok();
    let rate = rate.filter(|rate| *rate > 0.0 && *rate <= 1e9);
    rate.ok_or_else(|| "write requests a second, above 0, as in 500 or 0.5".into())
}

fn parse_timeout(text: &str) -> Result<u64, String> {
    match parse_duration(text)? {
        short if short < 1_000_000 => Err("write 1ms or more".into()),
        ns => Ok(ns),
    }
}

/// Returns whether a text is a valid field name or method (a token, RFC 9110 §5.6.2).
fn is_token(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

fn parse_method(text: &str) -> Result<String, String> {
    if !is_token(text) {
        return Err("write a method, as in POST".into());
    }
    Ok(text.to_ascii_uppercase())
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    let value = value.trim();
    if !text.contains(':') || !is_token(name) || value.chars().any(char::is_control) {
        return Err("write a header field as 'Name: value'".into());
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn parse_resolve(text: &str) -> Result<(String, IpAddr), String> {
    let parsed = text.split_once(':').and_then(|(host, rest)| {
        // curl's form is accepted too: HOST:PORT:ADDR.
        let bare = |it: &str| it.trim_matches(['[', ']']).parse().ok();
        let address = bare(rest).or_else(|| bare(rest.split_once(':')?.1));
        Some((host.to_owned(), address?))
    });
    parsed.ok_or_else(|| "write HOST:ADDRESS, as in example.org:192.0.2.1".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_stand_in_a_request_is_refused() {
        assert_eq!(parse_header("Accept: a:b"), Ok(("Accept".into(), "a:b".into())));
        for text in ["Accept", "A b: c", ": c", "a: b\r\nc: d"] {
            assert!(parse_header(text).is_err(), "{text}");
        }
        assert_eq!(parse_method("post"), Ok("POST".into()));
        assert!(parse_method("GET /").is_err());
    }

    #[test]
    fn rates_and_addresses_have_their_form() {
        assert_eq!(parse_rate("0.5"), Ok(0.5));
        assert_eq!(parse_rate("500/s"), Ok(500.0));
        assert!(parse_rate("0").is_err() && parse_rate("nan").is_err());
        let name = |address: &str| Ok(("host".to_owned(), address.parse().unwrap()));
        assert_eq!(parse_resolve("host:192.0.2.1"), name("192.0.2.1"));
        assert_eq!(parse_resolve("host:80:[2001:db8::1]"), name("2001:db8::1"));
        assert_eq!(parse_resolve("host:2001:db8::1"), name("2001:db8::1"));
        assert!(parse_resolve("host").is_err());
    }
}
