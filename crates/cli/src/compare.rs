//! `tcpwhy compare`: compares two runs and says whether the second is better.

use crate::analysis::{self, Wanted};
use crate::args::{Analysing, Display, Spoken, parse_percent};
use crate::error::Error;
use crate::page;
use crate::progress::Bar;
use crate::written::Written;
use crate::{output, sandbox, sources, spoken, state, terminal};
use clap::{Args, ValueEnum};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use tcpwhy_core::capture::{CaptureSet, Source};
use tcpwhy_core::compare::{Comparison, Measured, Options, compare};
use tcpwhy_core::model::Report;
use tcpwhy_core::page::{data, document, render};
use tcpwhy_core::picture::Picture;
use tcpwhy_core::report::comparison;
use tcpwhy_core::state::{State, weigh};

pub const EXAMPLES: &str = "\
Examples:
  tcpwhy compare before.pcap after.pcap
  tcpwhy compare before.json after.pcap --json | jq .sentence
  tcpwhy compare monday/ friday/ --filter 'port 5432'
  tcpwhy compare before.pcap after.pcap -o change.html

Exit status: 0 shown to be faster or equal, without a new fault; 1 slower, or a new fault; 2 the runs
are not comparable (other ports or requests), or the work could not be done; 3 not shown: so few
exchanges cannot tell.";

/// Share of the latency before, per cent, below which changes are ignored, if the user does not say.
pub const MIN_CHANGE_PERCENT: &str = "5";

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

    /// Ignore changes below this share of the latency before, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = MIN_CHANGE_PERCENT)]
    pub min_change: f64,

    /// The side whose captures are compared, for directories made by the lab
    #[arg(long, value_name = "SIDE", default_value = "client")]
    pub vantage: Side,

    /// Also show owners of almost no time
    #[arg(long)]
    pub all: bool,

    #[command(flatten)]
    pub analysing: Analysing,

    #[command(flatten)]
    pub display: Display,

    #[command(flatten)]
    pub spoken: Spoken,
}

/// The side of a connection at which a capture was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// The side that connects
    Client,
    /// The side that listens
    Server,
}

/// Reads both runs and prints how latency and causes changed. The exit status says whether latency
/// or the diagnosis became worse.
///
/// # Errors [`Error`] if one run cannot be read or has nothing to compare.
pub fn run(asked: &Compare) -> Result<ExitCode, Error> {
    let inputs = [&asked.before, &asked.after];
    let state = state::of(&asked.analysing)?;
    let page = match &asked.output {
        Some(path) => Some(Written::begin(path, &inputs)?),
        None => {
            sandbox::confine(&inputs);
            None
        }
    };
    let interrupted = terminal::interruptible();
    let (compared, runs) = compared(asked, state.as_ref(), interrupted)?;
    let aside = page.as_ref().is_some_and(Written::is_standard_output);
    if let Some(page) = page {
        let value = comparison::to_json(&compared, env!("CARGO_PKG_VERSION"));
        let mut value = serde_json::to_value(value)?;
        value["sentences"] = comparison::sentences(&compared);
        let language = spoken::language(asked.spoken);
        page.finish_with(render(&document(&runs, Some(&value), Some(language))).as_bytes())?;
    }
    let text = if asked.json {
        let value = comparison::to_json(&compared, env!("CARGO_PKG_VERSION"));
        serde_json::to_string_pretty(&value)? + "\n"
    } else {
        comparison::render(&compared, &terminal::look_in(asked.spoken, &asked.display, asked.all))
    };
    output::print_beside(&text, aside)?;
    Ok(ExitCode::from(compared.outcome() as u8))
}

/// Reads both runs and compares them. Also returns the data of both for the HTML page.
///
/// # Errors [`Error`] if one run cannot be read or has nothing to compare.
pub fn compared(
    asked: &Compare,
    state: Option<&State>,
    interrupted: &AtomicBool,
) -> Result<(Comparison, [String; 2]), Error> {
    let before = side(&asked.before, asked, state, interrupted)?;
    let after = side(&asked.after, asked, state, interrupted)?;
    let options = Options { min_change: asked.min_change };
    Ok((compare(before.measured, after.measured, options)?, [before.page, after.page]))
}

/// One side of a comparison.
struct Run {
    measured: Measured,
    /// The run's data for the HTML page; empty if no page is asked for.
    page: String,
}

/// Reads one run: a stored report is taken unchanged, captures are analysed.
fn side(
    path: &Path,
    asked: &Compare,
    state: Option<&State>,
    interrupted: &AtomicBool,
) -> Result<Run, Error> {
    let name = path.display().to_string();
    if is_json(path) {
        if let Some(option) = asked.analysing.given() {
            return Err(Error::Narrowed { path: name, option });
        }
        let text = fs::read(path).map_err(|error| sources::problem(path, error))?;
        let measured = Measured::from_json(&name, &text)
            .map_err(|source| Error::Report { path: name, source })?;
        // A stored report comes without packets, so nothing can be drawn.
        let text = String::from_utf8_lossy(&text);
        let picture = Picture::default().json(&Report::default());
        let page = format!("{{\"report\":{},\"picture\":{picture}}}", text.trim());
        return Ok(Run { measured, page });
    }
    let files = if path.is_dir() { captures(path, asked.vantage)? } else { vec![path.to_owned()] };
    let wanted = Wanted::of(&asked.analysing);
    let mut bar = Bar::new(!asked.display.no_progress);
    let open = || sources::open(&files);
    let progress = |at| bar.update(at);
    let weighed = |report: &mut Report| {
        if let Some(state) = state {
            weigh(report, state);
        }
    };
    let (report, page) = if asked.output.is_some() {
        let mut drawn = analysis::picture(open()?, &open, wanted, progress, interrupted)?;
        drawn.report.asked = page::asked_for(&files, &asked.analysing);
        weighed(&mut drawn.report);
        let page = data(&drawn.report, &drawn.picture, env!("CARGO_PKG_VERSION"))?;
        (drawn.report, page)
    } else {
        let mut answer = analysis::analyse(open()?, &open, wanted, progress, interrupted)?;
        if !answer.complete {
            return Err(Error::Interrupted);
        }
        weighed(&mut answer.report);
        (answer.report, String::new())
    };
    Ok(Run { measured: Measured::of(name, &report), page })
}

/// Returns whether a file is a JSON report: it begins with a brace, and no capture does.
fn is_json(path: &Path) -> bool {
    let mut first = [0; 16];
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file);
    let length = file
        .and_then(|_| fs::File::open(path).ok())
        .and_then(|mut file| file.read(&mut first).ok())
        .unwrap_or(0);
    first[..length].trim_ascii_start().starts_with(b"{")
}

/// Finds the captures in a directory. If labels say at which side each was taken, only those of one
/// side are used, since both would show every packet twice. Otherwise all of them are used as one
/// set.
fn captures(folder: &Path, vantage: Side) -> Result<Vec<PathBuf>, Error> {
    let labelled = folder.join("labels.json");
    let mut files = if labelled.is_file() {
        of_vantage(&labelled, vantage)
    } else {
        let entries = fs::read_dir(folder).map_err(|error| sources::problem(folder, error))?;
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        paths.filter(|path| path.is_file() && is_capture(path)).collect()
    };
    files.sort();
    if files.is_empty() {
        return Err(Error::NoCapture { path: folder.display().to_string() });
    }
    Ok(files)
}

fn of_vantage(labels: &Path, vantage: Side) -> Vec<PathBuf> {
    let wanted = match vantage {
        Side::Client => "client",
        Side::Server => "server",
    };
    let text = fs::read(labels).unwrap_or_default();
    let labels_json: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let captures = labels_json["captures"].as_array().cloned().unwrap_or_default();
    let here = captures.iter().filter(|capture| capture["vantage"] == wanted);
    here.filter_map(|capture| Some(labels.with_file_name(capture["file"].as_str()?))).collect()
}

/// Returns whether a file begins as a capture does, plain or compressed.
pub fn is_capture(path: &Path) -> bool {
    let again = path.to_owned();
    let source = Source::file("", None, move || fs::File::open(&again));
    CaptureSet::new(vec![source]).is_ok()
}
