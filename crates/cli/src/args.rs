//! Options that several commands share, and their parsers.

use crate::keylog::KeyLog;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;
use tcpwhy_core::filter::{Filter, FilterError};
use tcpwhy_core::model::Language;
use tcpwhy_core::pipeline::Options;
#[cfg(feature = "program")]
use tcpwhy_probe::http::HttpVersions;
#[cfg(feature = "program")]
use tcpwhy_probe::tls::{PemFile, TlsOptions};

/// What is reported: for every command that names causes.
#[derive(Clone, Debug, Default, Args)]
pub struct Reporting {
    /// Analyse only a part: host, port, time, cause, as in 'host 10.0.0.1 and port 80 and +2s..+5s'
    #[arg(long, value_name = "EXPR", value_parser = parse_filter, long_help = FILTER_HELP)]
    pub filter: Option<Filter>,

    /// Report a cost only if it takes at least this share of the time, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub min_share: Option<f64>,

    /// Report a cost only if it takes at least this long per exchange, as in 20ms
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub min_lost: Option<u64>,
}

impl Reporting {
    /// Returns these as options of the core.
    pub fn options(&self) -> Options {
        let mut options =
            Options { filter: self.filter.clone().unwrap_or_default(), ..Options::default() };
        let floors = &mut options.floors;
        floors.cost_share = self.min_share.unwrap_or(floors.cost_share);
        floors.cost_ns = self.min_lost.unwrap_or(floors.cost_ns);
        options
    }
}

/// How captures are analysed: for every command that does so.
#[derive(Clone, Debug, Default, Args)]
pub struct Analysing {
    /// What is reported.
    #[command(flatten)]
    pub reporting: Reporting,

    /// Use the state of sockets as further evidence: a file of `tcpwhy sockets --json`, or `live`
    /// for the sockets of this system now
    #[arg(long, value_name = "FILE|live", value_hint = ValueHint::FilePath)]
    pub sockets: Option<PathBuf>,

    /// Open TLS with the secrets in this key log, as programs write it where SSLKEYLOGFILE is set; none
    /// of them, and nothing of what they open but kinds of requests, is shown
    #[arg(long, value_name = "FILE", value_parser = KeyLog::read, value_hint = ValueHint::FilePath)]
    pub keylog: Option<KeyLog>,

    /// Number of places at which the files were captured: 1, or 2 to join the packets of both
    /// [default: detected from the packets]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub vantages: Option<u8>,

    /// Number of threads; it does not change the result [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

impl Analysing {
    /// Returns the first option that was given and changes the result.
    pub fn given(&self) -> Option<&'static str> {
        let Reporting { filter, min_share, min_lost } = &self.reporting;
        let given = [
            ("--filter", filter.is_some()),
            ("--min-share", min_share.is_some()),
            ("--min-lost", min_lost.is_some()),
            ("--sockets", self.sockets.is_some()),
            ("--keylog", self.keylog.is_some()),
            ("--vantages", self.vantages.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }
}

/// The server certificates that are trusted.
#[cfg(feature = "program")]
#[derive(Clone, Debug, Args)]
pub struct Trust {
    /// Trust only the certificates in this file (PEM): the server's own, or its issuer's
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "insecure")]
    pub cacert: Option<PathBuf>,

    /// Accept any certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,
}

#[cfg(feature = "program")]
impl Trust {
    /// Reads the file, and returns the TLS options for this trust, with resumed sessions.
    pub fn tls(&self, versions: Versions) -> TlsOptions {
        let cacert = self.cacert.as_deref().map(PemFile::read);
        let versions = versions.http();
        TlsOptions { cacert, insecure: self.insecure, versions, ..TlsOptions::default() }
    }
}

/// The versions of HTTP that are spoken.
#[cfg(feature = "program")]
#[derive(Clone, Copy, Debug, Args)]
pub struct Versions {
    /// Speak HTTP/1.1 alone [default: over TLS HTTP/2 if the server has it, without TLS HTTP/1.1]
    #[arg(long = "http1.1", conflicts_with = "http2")]
    pub http1: bool,

    /// Speak HTTP/2 alone; without TLS with prior knowledge
    #[arg(long)]
    pub http2: bool,
}

#[cfg(feature = "program")]
impl Versions {
    /// Returns the versions that are offered to a server.
    pub fn http(self) -> HttpVersions {
        match (self.http1, self.http2) {
            (true, _) => HttpVersions::Http1,
            (_, true) => HttpVersions::Http2,
            _ => HttpVersions::Any,
        }
    }
}

/// Options for how results and progress are shown.
#[derive(Clone, Copy, Debug, Args)]
pub struct Display {
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Color,

    /// Width of the output in columns [default: the terminal's, or 80]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub width: Option<u16>,

    /// Show no progress bar
    #[arg(long)]
    pub no_progress: bool,
}

/// The language of the text, for every command that is translated.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Spoken {
    /// Language of the text; JSON is in English in any case [default: that of the locale, or English;
    /// a page opens in that of the browser]
    #[arg(long, value_name = "LANG", value_parser = languages())]
    pub lang: Option<Language>,
}

/// Returns the parser of a language's code.
fn languages() -> impl TypedValueParser<Value = Language> {
    let ids = PossibleValuesParser::new(Language::ALL.map(Language::id));
    ids.map(|id| Language::from_id(&id).unwrap_or_default())
}

/// The display options of a command that has none.
pub const PLAIN: Display = Display { color: Color::Auto, width: None, no_progress: false };

/// When colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Long help of `--filter`.
pub const FILTER_HELP: &str = "\
Analyse only a part. Terms are joined by `and`, all must match; a list `a,b` matches any of its
values:
  host 10.0.0.1 | host 10.0.0.0/8,2001:db8::/32 | not host …
  port 80 | port 80,8000-8099 | not port …
  after TIME | before TIME | TIME..TIME     TIME: +2s, +150ms, 10:00:05 (UTC),
                                            2026-01-31T10:00:05Z
    an exchange counts as a whole if a part of it lies in that time
  cause nagle_delayed_ack,send_buffer";

/// Parses an expression of `--filter`.
///
/// # Errors
/// The term that is not understood.
pub fn parse_filter(text: &str) -> Result<Filter, FilterError> {
    Filter::parse(text)
}

/// Parses a percentage into a share between 0 and 1.
///
/// # Errors
/// It is no number from 0 to 100.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    tcpwhy_core::filter::parse_share(text).ok_or_else(|| "write a number from 0 to 100".into())
}

/// Parses a duration with its unit into nanoseconds.
///
/// # Errors
/// It has no number or no unit.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let ns = tcpwhy_core::filter::parse_duration_ns(text);
    ns.ok_or_else(|| "write a time with its unit, as in 20ms or 1.5s".into())
}
