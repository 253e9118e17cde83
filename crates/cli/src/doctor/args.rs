//! Arguments of `tcpwhy doctor`.

use crate::args::{Display, Trust, parse_duration};
use crate::one_of::OneOf;
use clap::{Args, ValueHint};
use std::path::PathBuf;
use tcpwhy_probe::experiment::Kind;
use tcpwhy_probe::http::Request;

/// Examples, shown below the options in the help.
pub const EXAMPLES: &str = "\
Examples:
  tcpwhy https://example.org/search?q=tcp
  tcpwhy http://10.0.0.7:8080/ --experiment quickack,connection
  sudo tcpwhy http://10.0.0.7/ --bundle slow     with a capture of its own traffic
  tcpwhy https://10.0.0.7/ --cacert own.pem      a server whose certificate is its own
  tcpwhy http://10.0.0.7/upload -X POST --body @form.bin --experiment expect

It sends few requests, announces how many, and repeats only requests that may be repeated (GET, HEAD,
OPTIONS, PUT, DELETE), unless --method names another.

Exit status: 0 no fault, 1 faults found (a refused port is one), 2 the target does not resolve, does
not answer, or answers what is no HTTP.";

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

    /// Do not look for the hops of the path
    #[arg(long)]
    pub no_path: bool,

    /// Send only one request at a time
    #[arg(long)]
    pub no_load: bool,

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
        let method = match (&self.method, &self.body) {
            (Some(method), _) => method.to_ascii_uppercase(),
            (None, Some(_)) => "POST".to_owned(),
            (None, None) => "GET".to_owned(),
        };
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
        let mut cheap = vec![Kind::Quickack, Kind::Connection];
        cheap.extend(is_tls.then_some(Kind::Resumption));
        cheap
    }
}

/// The names of the experiments.
const EXPERIMENT: OneOf =
    OneOf { what: "experiment", names: || Kind::ALL.into_iter().map(Kind::name).collect() };

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
