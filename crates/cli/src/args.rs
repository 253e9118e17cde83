//! The command line: commands, arguments and their parsers.

use crate::one_of::OneOf;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;
use tcpwhy_core::filter::{Filter, FilterError, Pick};
use tcpwhy_probe::tls::TlsOptions;

const EXAMPLES: &str = "\
Examples:
  tcpwhy slow.pcap                           why was it slow?
  tcpwhy https://example.org/                why is it slow? asked from here
  tcpwhy /var/captures/edge-*.pcapng.gz      files of one capture, in any order
  tcpwhy client.pcap server.pcap             the same traffic at both ends, joined
  sudo tcpdump -i any -w - port 443 | tcpwhy -    from a pipe; Ctrl-C shows the report so far
  tcpwhy slow.pcap --filter 'host 10.0.0.7 and port 5432 and +2s..+30s'
  tcpwhy slow.pcap --connection 10.0.0.7:50112    draw one connection
  tcpwhy slow.pcap --sockets sockets.json    with what `tcpwhy sockets --json` said meanwhile
  tcpwhy slow.pcap --json | jq '.findings[0]'
  tcpwhy slow.pcap --parquet tables          every exchange as a table, for DuckDB or Spark
  tcpwhy explain nagle_delayed_ack           the manual of a cause
  tcpwhy explain list                        all causes
  tcpwhy report slow.pcap -o report.html     the same as one page to look at
  tcpwhy compare before.pcap after.pcap      did the change help?

Exit status: 0 no fault, 1 faults found, 2 the captures could not be read, or there was nothing to judge.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  tcpwhy compare before.pcap after.pcap
  tcpwhy compare before.json after.pcap --json | jq .sentence
  tcpwhy compare monday/ friday/ --filter 'port 5432'
  tcpwhy compare before.pcap after.pcap -o change.html

Exit status: 0 shown to be faster or equal, without a new fault; 1 slower, or a new fault; 2 the runs
are not comparable (other ports or requests), or the work could not be done; 3 not shown: so few
exchanges cannot tell.";

/// Text of `--version`: the version, and the parts that this build lacks.
#[cfg(target_os = "linux")]
const LONG_VERSION: &str = if tcpwhy_live::hooks::BUILT {
    env!("CARGO_PKG_VERSION")
} else {
    concat!(
        env!("CARGO_PKG_VERSION"),
        "\nbuilt without kernel hooks, because clang was missing: `drops` reads counters alone,\n\
         `watch` does not see waits of readers and senders, `treat` lists the sockets to find\n\
         new connections. Install clang and build it again."
    )
};
#[cfg(not(target_os = "linux"))]
const LONG_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Says why it was slow, how much each cause cost, and who has to change what.
#[derive(Debug, Parser)]
#[command(name = "tcpwhy", version, long_version = LONG_VERSION, about, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub explain: Explain,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Reads captures and names what made them slow (the default)
    #[command(after_help = EXAMPLES, arg_required_else_help = true)]
    Explain(Box<Explain>),
    /// Examines a URL or HOST:PORT step by step and says why it is slow (the default for a URL)
    #[cfg(target_os = "linux")]
    #[command(after_help = crate::doctor::EXAMPLES, arg_required_else_help = true)]
    Doctor(Box<crate::doctor::Doctor>),
    /// Reproduces what makes connections slow, with real software, and names it
    #[cfg(target_os = "linux")]
    Lab {
        #[command(subcommand)]
        command: crate::lab::LabCommand,
    },
    /// Reproduces what makes connections slow (on Linux only)
    #[cfg(not(target_os = "linux"))]
    Lab {
        /// Whatever was asked of it
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Writes the report as one HTML page with causes, graphs, ladders and single exchanges
    #[command(after_help = crate::page::EXAMPLES, arg_required_else_help = true)]
    Report(Box<crate::page::ReportPage>),
    /// Says whether a change helped: compares latency and causes of two runs, before and after it
    #[command(after_help = COMPARE_EXAMPLES, arg_required_else_help = true)]
    Compare(Box<Compare>),
    /// Copies a capture and adds what was found as comments at its frames, for Wireshark
    #[command(after_help = crate::annotate::EXAMPLES, arg_required_else_help = true)]
    Annotate(Box<crate::annotate::Annotate>),
    /// Copies a capture with pseudonyms and without payload; the copy gives the same diagnosis
    #[command(after_help = crate::anonymize::EXAMPLES, arg_required_else_help = true)]
    Anonymize(Box<crate::anonymize::Anonymize>),
    /// Lists the TCP sockets of the running system: options, limits, queues, and what they cost
    #[cfg(target_os = "linux")]
    #[command(after_help = crate::sockets::EXAMPLES)]
    Sockets(Box<crate::sockets::Sockets>),
    /// Watches the running system: captures live and reports causes as they happen
    #[cfg(target_os = "linux")]
    #[command(after_help = crate::watch::EXAMPLES)]
    Watch(Box<crate::watch::Watch>),
    /// Audits this host: says what explains a present symptom, what to change and how to undo it
    #[cfg(target_os = "linux")]
    #[command(after_help = crate::host::EXAMPLES)]
    Host(Box<crate::host::Host>),
    /// Shows which packets the kernel drops, why, where, and what to do
    #[cfg(target_os = "linux")]
    #[command(after_help = crate::drops::EXAMPLES)]
    Drops(Box<crate::drops::Drops>),
    /// Changes one thing on the running system, measures the effect, and undoes the change
    #[cfg(target_os = "linux")]
    #[command(after_help = crate::treat::EXAMPLES)]
    Treat(Box<crate::treat::Treat>),
    /// Resolves a name as programs do, server by server, and says what was slow
    #[cfg(target_os = "linux")]
    #[command(after_help = crate::dns::EXAMPLES, arg_required_else_help = true)]
    Dns(Box<crate::dns::Dns>),
    /// Sends HTTP requests, measures them, and says what made the slow ones slow
    #[command(after_help = crate::load::EXAMPLES, arg_required_else_help = true)]
    Load(Box<crate::load::Load>),
    /// Measures the path to a server: round trips, hops, path MTU, TLS and HTTP phases
    #[cfg(target_os = "linux")]
    #[command(after_help = crate::probe::EXAMPLES, arg_required_else_help = true)]
    Probe(Box<crate::probe::Probe>),
    /// Prints this help, the help of a command, or the manual of a cause
    Help {
        /// A command, or a cause
        #[arg(value_name = "COMMAND|CAUSE")]
        words: Vec<String>,
    },
    /// Writes the man pages of all commands into a folder
    Man {
        /// The folder
        #[arg(value_hint = clap::ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Prints a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub struct Explain {
    /// Captures (pcap, pcapng; also gzip or zstd), or `-` for standard input; or the name of a
    /// cause, to print its manual
    #[arg(value_name = "FILE", required_unless_present = "cause")]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// Print the report as JSON (docs/report.schema.json)
    #[arg(long)]
    pub json: bool,

    /// Analyse only a part: host, port, time, cause, as in 'host 10.0.0.1 and port 80 and +2s..+5s'
    #[arg(long, value_name = "EXPR", value_parser = parse_filter, long_help = FILTER_HELP)]
    pub filter: Option<Filter>,

    /// Draw one connection: its number in the report's list, or one end as ADDRESS:PORT
    #[arg(long, value_name = "N|ADDR:PORT", value_parser = Pick::parse)]
    pub connection: Option<Pick>,

    /// Draw one exchange by its number, from 1: of the --connection, or of the one that lost most
    /// time
    #[arg(long, value_name = "N")]
    pub exchange: Option<u64>,

    /// Explain how a silence was judged: the one that frame FRAME ended or lies in, or without
    /// FRAME those of the --exchange. Prints what the sender knew, each recogniser's answer and
    /// later changes
    #[arg(long, value_name = "FRAME", num_args = 0..=1, value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(conflicts_with_all = ["parquet", "all"])]
    pub why: Option<Option<u64>>,

    /// Compare each claim of the report with the packets once more, apart from the analysis, and
    /// name those that are false; exit status 2 if there are any
    #[arg(long, conflicts_with_all = ["connection", "exchange", "why", "parquet"])]
    pub check: bool,

    /// Print the manual of a cause (`list` names them all); with FILE, report this cause only
    #[arg(long, value_name = "CAUSE", value_parser = OneOf::CAUSES, hide_possible_values = true)]
    pub cause: Option<String>,

    /// Show HTTP targets literally instead of grouped by kind (`/items/7`, not `/items/{id}`)
    #[arg(long)]
    pub show_values: bool,

    /// Show all findings, endpoints and connections, not only the first of them
    #[arg(long)]
    pub all: bool,

    /// Report a cost only if it takes at least this share of the time, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub min_share: Option<f64>,

    /// Report a cost only if it takes at least this long per exchange, as in 20ms
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub min_lost: Option<u64>,

    /// Use the state of sockets as further evidence: a file of `tcpwhy sockets --json`, or `live`
    /// for the sockets of this system now
    #[arg(long, value_name = "FILE|live", value_hint = clap::ValueHint::FilePath)]
    pub sockets: Option<PathBuf>,

    /// Also write connections, exchanges, stalls and findings as Parquet tables into DIR
    /// (docs/parquet.md)
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    #[arg(conflicts_with_all = ["connection", "exchange"])]
    pub parquet: Option<PathBuf>,

    /// Number of places at which the files were captured: 1, or 2 to join the packets of both
    /// [default: detected from the packets]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub vantages: Option<u8>,

    /// Number of threads; it does not change the result [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    #[command(flatten)]
    pub display: Display,
}

#[derive(Debug, Args)]
pub struct Compare {
    /// The run before the change: a capture, a directory of captures, or a report of `--json`
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub before: PathBuf,

    /// The run after the change
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub after: PathBuf,

    /// Print the comparison as JSON (docs/comparison.schema.json)
    #[arg(long)]
    pub json: bool,

    /// Also write the comparison as an HTML page with both runs; `-` for standard output
    #[arg(short, long, value_name = "HTML", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Compare only a part of both: host, port, time, cause, as in `tcpwhy --help`
    #[arg(long, value_name = "EXPR", value_parser = parse_filter, long_help = FILTER_HELP)]
    pub filter: Option<Filter>,

    /// Ignore changes below this share of the latency before, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "5")]
    pub min_change: f64,

    /// The side whose captures are compared, for directories made by the lab
    #[arg(long, value_name = "SIDE", default_value = "client")]
    pub vantage: Side,

    /// Also show owners of almost no time
    #[arg(long)]
    pub all: bool,

    /// Number of threads; it does not change the result [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    #[command(flatten)]
    pub display: Display,
}

/// The server certificates that are trusted.
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

impl Trust {
    /// Returns the TLS options for this trust; `resume` allows resumed sessions.
    pub fn tls(&self, resume: bool) -> TlsOptions {
        TlsOptions { cacert: self.cacert.clone(), insecure: self.insecure, resume }
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

/// The display options of a command that has none.
pub const PLAIN: Display = Display { color: Color::Auto, width: None, no_progress: false };

/// The side of a connection at which a capture was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// The side that connects
    Client,
    /// The side that listens
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Returns the command line with the command inserted that a URL or `HOST:PORT` in first place
/// stands for.
pub fn with_command(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let first = words.iter().skip(1).find(|it| !it.to_string_lossy().starts_with('-'));
    let is_target = first.and_then(|it| it.to_str()).is_some_and(is_target);
    if cfg!(target_os = "linux") && is_target {
        words.insert(1, "doctor".into());
    }
    words
}

/// Returns whether a word names a target to examine: it has a scheme, or it ends in a port and no
/// file has this name.
fn is_target(word: &str) -> bool {
    if word.contains("://") {
        return true;
    }
    let port = word.rsplit_once(':').and_then(|(host, port)| {
        let port: Option<u16> = port.parse().ok();
        port.filter(|_| !host.is_empty() && !host.contains('/'))
    });
    port.is_some() && !std::path::Path::new(word).exists()
}

pub const FILTER_HELP: &str = "\
Analyse only a part. Terms are joined by `and`, all must match; a list `a,b` matches any of its
values:
  host 10.0.0.1 | host 10.0.0.0/8,2001:db8::/32 | not host …
  port 80 | port 80,8000-8099 | not port …
  after TIME | before TIME | TIME..TIME     TIME: +2s, +150ms, 10:00:05 (UTC),
                                            2026-01-31T10:00:05Z
    an exchange counts as a whole if a part of it lies in that time
  cause nagle_delayed_ack,send_buffer";

pub fn parse_filter(text: &str) -> Result<Filter, FilterError> {
    Filter::parse(text)
}

/// Parses a percentage into a share between 0 and 1.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches(['%', ' ']).parse().ok();
    match percent {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("write a number from 0 to 100".into()),
    }
}

/// Parses a duration with its unit into nanoseconds.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let ns = tcpwhy_core::filter::parse_duration_ns(text);
    ns.ok_or_else(|| "write a time with its unit, as in 20ms or 1.5s".into())
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::builder::ValueParser;
    use clap::{Arg, Command, CommandFactory, ValueHint};

    include!("../tests/command/outputs/paths.rs");

    fn is_path(arg: &Arg) -> bool {
        let hinted = [ValueHint::AnyPath, ValueHint::FilePath, ValueHint::DirPath];
        arg.get_value_parser().type_id() == ValueParser::path_buf().type_id()
            || hinted.contains(&arg.get_value_hint())
    }

    fn collect(command: &Command, words: &str, found: &mut Vec<(String, String)>) {
        let paths = command.get_arguments().filter(|arg| is_path(arg));
        found.extend(paths.map(|arg| (words.to_owned(), arg.get_id().to_string())));
        for part in command.get_subcommands() {
            collect(part, format!("{words} {}", part.get_name()).trim(), found);
        }
    }

    /// Tests of outputs go through the table, so that none is forgotten.
    #[test]
    fn every_argument_that_is_a_path_is_known_as_input_or_output() {
        let mut found = Vec::new();
        let mut command = Arguments::command();
        command.build();
        collect(&command, "", &mut found);
        let known = PATHS.iter().map(|it| (it.command.to_owned(), it.argument.to_owned()));
        let mut known: Vec<_> = known.collect();
        found.sort();
        known.sort();
        assert_eq!(found, known, "each needs its row in tests/command/outputs/paths.rs");
    }
}
