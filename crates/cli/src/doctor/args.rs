//! Arguments of `tcpwhy doctor`.

use crate::args::{Display, Trust, Versions, parse_duration};
use crate::one_of::OneOf;
use clap::{Args, ValueHint};
use std::path::PathBuf;
use tcpwhy_probe::experiment::{Kind, Occasion};
use tcpwhy_probe::http::Request;

/// Examples, shown below the options in the help.
pub const EXAMPLES: &str = "\
Examples:
  tcpwhy https://example.org/search?q=tcp
  tcpwhy http://10.0.0.7:8080/ --experiment quickack,connection
  sudo tcpwhy http://10.0.0.7/ --bundle slow     with a capture of its own traffic
  tcpwhy http://10.0.0.7/ --load=200 --load-seconds 10   more load than the default
  tcpwhy https://10.0.0.7/ --cacert own.pem      a server whose certificate is its own
  tcpwhy http://10.0.0.7/upload -X POST --body @form.bin --experiment expect

Before it sends anything it states the most that it will send, on standard error and as
`doctor.budget` in JSON: 15 requests alone, those of the experiments, then 1,000 on 10 connections in
2 s, and the bytes of all. The load follows only answers with a status of 2xx to requests that may be
repeated (GET, HEAD, OPTIONS, TRACE, PUT, DELETE), and ends at the first failure, or once most answers
take three times as long as alone (and 5 ms longer). After status 429 or 503 no request follows.
Requests of another method that --method or --body names are repeated alone and in experiments. At
most 5 redirects of GET and HEAD are followed; another host gets no credentials. If the name has
several addresses, all are tried, and the one that a client uses by RFC 8305 is measured.

Exit status: 0 no fault, 1 faults found (a refused port, a status of 4xx or 5xx, a limit of requests
and an address that does not answer are some), 2 the target does not resolve, does not answer, or
answers what is no HTTP.";

#[derive(Debug, Args)]
pub struct Doctor {
    /// A URL, or HOST:PORT
    #[arg(value_name = "URL|HOST:PORT", value_hint = ValueHint::Url)]
    pub target: String,

    /// Print the report as JSON (docs/report.schema.json)
    #[arg(long)]
    pub json: bool,

    /// Keep the report as JSON, text and HTML, and the packets, in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub bundle: Option<PathBuf>,

    /// Make these experiments instead of the cheap ones
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = EXPERIMENT)]
    #[arg(hide_possible_values = true)]
    pub experiment: Vec<String>,

    /// Make no experiments
    #[arg(long, conflicts_with = "experiment")]
    pub no_experiments: bool,

    /// Do not follow redirects: examine the first answer
    #[arg(long)]
    pub no_follow: bool,

    /// Do not look for the hops of the path
    #[arg(long)]
    pub no_path: bool,

    /// Send only one request at a time
    #[arg(long, conflicts_with = "load")]
    pub no_load: bool,

    /// Also send a load on CONNECTIONS connections [default: 100], as many requests as are answered,
    /// whatever the latency and the usual status are; without this option a load of at most 1,000
    /// requests on 10 connections follows answers with a status of 2xx
    #[arg(long, value_name = "CONNECTIONS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "100", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub load: Option<u32>,

    /// Duration of each load of --load, seconds
    #[arg(long, value_name = "N", default_value = "2", requires = "load")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub load_seconds: u32,

    /// Method of the requests
    #[arg(long, short = 'X', value_name = "METHOD")]
    pub method: Option<String>,

    /// A header field of the requests, as in 'Authorization: Bearer …'
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = parse_header)]
    pub header: Vec<(String, String)>,

    /// The body of the requests, or @FILE; with it the method is POST unless --method names another
    #[arg(long, value_name = "TEXT|@FILE")]
    pub body: Option<String>,

    #[command(flatten)]
    pub trust: Trust,

    #[command(flatten)]
    pub versions: Versions,

    /// Time limit for a connection, and for each answer
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub timeout: u64,

    /// Show all findings in full
    #[arg(long)]
    pub all: bool,

    #[command(flatten)]
    pub display: Display,
}

impl Doctor {
    /// Returns the request to send to the target, with this body.
    pub fn request(&self, body: Vec<u8>) -> Request {
        let method = Request::method(self.method.as_deref(), self.body.is_some());
        Request { method, headers: self.header.clone(), body }
    }

    /// Returns the experiments to make on a target, depending on whether it speaks TLS.
    pub fn experiments(&self, is_tls: bool) -> Vec<Kind> {
        if self.no_experiments {
            return Vec::new();
        }
        let named: Vec<Kind> =
            self.experiment.iter().filter_map(|name| Kind::from_name(name)).collect();
        if !named.is_empty() {
            return named;
        }
        let over_tls = Kind::on(Occasion::Tls).filter(|_| is_tls);
        Kind::on(Occasion::Http).chain(over_tls).collect()
    }
}

/// The names of the experiments.
const EXPERIMENT: OneOf =
    OneOf { what: "experiment", names: || Kind::ALL.iter().map(|it| it.name()).collect() };

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write NAME: VALUE")?;
    let is_token = |it: &str| {
        let other = |byte| b"!#$%&'*+-.^_`|~".contains(&byte);
        !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_alphanumeric() || other(byte))
    };
    let value = value.trim();
    if !is_token(name) || value.bytes().any(|byte| byte.is_ascii_control()) {
        return Err("a header field has a name of letters, digits and dashes, and one line".into());
    }
    Ok((name.to_owned(), value.to_owned()))
}
