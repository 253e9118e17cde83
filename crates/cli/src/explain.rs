//! `tcpwhy explain`: reads captures and prints a report.

use crate::analysis::{self, Answer, Wanted};
use crate::args::{Analysing, Display, Spoken};
use crate::error::Error;
use crate::one_of::OneOf;
use crate::page::asked_for;
use crate::program::EXIT_FAILED;
use crate::progress::Bar;
use crate::tables::Tables;
use crate::{nothing_left, output, sandbox, sources, state, terminal};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use tcpwhy_core::filter::Pick;
use tcpwhy_core::findings::{term, words};
use tcpwhy_core::model::{Cause, Class, Report, Verdict};
use tcpwhy_core::report::{Look, Page, json, left, render_manual, text};
use tcpwhy_core::state::weigh;

pub const EXAMPLES: &str = "\
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

    /// Also write connections, exchanges, stalls, look-ups and findings as Parquet tables into DIR
    /// (docs/parquet.md)
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    #[arg(conflicts_with_all = ["connection", "exchange"])]
    pub parquet: Option<PathBuf>,

    #[command(flatten)]
    pub analysing: Analysing,

    #[command(flatten)]
    pub display: Display,

    #[command(flatten)]
    pub spoken: Spoken,
}

/// Reads and analyses captures and prints the report; the exit status says whether there are
/// faults.
///
/// # Errors [`Error`] if nothing could be read, or if what was asked for is not in the capture.
pub fn run(asked: &Explain) -> Result<ExitCode, Error> {
    let look = terminal::look_in(asked.spoken, &asked.display, asked.all);
    if let Some(manual) = wanted_manual(asked, &look) {
        output::print(&manual)?;
        return Ok(ExitCode::SUCCESS);
    }
    let open = || sources::open(&asked.files);
    let (sources, wanted) = (open()?, wanted(asked));
    let state = state::of(&asked.analysing)?;
    let tables = match &asked.parquet {
        Some(folder) => Some(Tables::begin(folder, &asked.files)?),
        None => {
            sandbox::confine(&asked.files);
            None
        }
    };
    let interrupted = terminal::interruptible();
    let mut bar = Bar::new(!asked.display.no_progress);
    let progress = |at| bar.update(at);
    let answer = match tables {
        Some(tables) => analysis::tables(sources, &open, wanted, progress, interrupted, tables),
        None => analysis::analyse(sources, &open, wanted, progress, interrupted)
            .map(|answer| (answer, None)),
    };
    drop(bar);
    let (mut answer, tables) = match answer {
        Err(Error::Capture(_)) if terminal::is_interrupted() => return Err(Error::NothingYet),
        answer => answer?,
    };
    answer.report.interrupted = !answer.complete;
    answer.report.asked = asked_for(&asked.files, &asked.analysing);
    if let Some(state) = state {
        weigh(&mut answer.report, &state);
    }
    if !answer.complete {
        let tables = if asked.parquet.is_some() { ", and no tables are written" } else { "" };
        output::note(&format!("tcpwhy: interrupted; this is what is known so far{tables}"));
    }
    output::print(&shown(asked, &answer, &look)?)?;
    if answer.complete {
        nothing_left::check(&asked.analysing, &answer.report, &open, interrupted)?;
    }
    if let Some(tables) = tables {
        tables.finish(&answer.report)?;
    }
    if is_false(&answer.report) {
        return Ok(ExitCode::from(EXIT_FAILED));
    }
    Ok(ExitCode::from(u8::from(has_faults(&answer.report))))
}

/// Returns whether the packets contradict a claim of `report`.
fn is_false(report: &Report) -> bool {
    let checked = report.checked.iter().flatten();
    checked.into_iter().any(|it| matches!(it.verdict, Verdict::False(_)))
}

fn wanted(asked: &Explain) -> Wanted {
    let mut wanted = Wanted {
        connection: asked.connection,
        exchange: asked.exchange,
        all: asked.all,
        why: asked.why,
        check: asked.check,
        ..Wanted::of(&asked.analysing)
    };
    let options = &mut wanted.options;
    (options.all, options.show_values) = (asked.all, asked.show_values);
    // With files, --cause limits the report to that cause.
    options.filter.also_causes(asked.cause.as_deref().and_then(Cause::from_id));
    wanted
}

/// Returns the manual that is asked for: by --cause without files, or by a cause's name in place of
/// a file.
fn wanted_manual(asked: &Explain, look: &Look) -> Option<String> {
    match (asked.cause.as_deref(), asked.files.as_slice()) {
        (Some(name), []) => named_manual(name, look),
        (None, [path]) if !path.exists() => named_manual(path.to_str()?, look),
        _ => None,
    }
}

fn shown(asked: &Explain, answer: &Answer, look: &Look) -> Result<String, Error> {
    if let Some(why) = &answer.why {
        let json = || serde_json::to_string_pretty(&why.json(&answer.report));
        let note = answer.note.iter().map(|note| noted(note, look));
        return match asked.json {
            true => Ok(json()? + "\n"),
            false => Ok(note.chain([why.render(&answer.report, look)]).collect()),
        };
    }
    match (&answer.ladder, asked.json) {
        (Some(ladder), true) => {
            if let Some(note) = &answer.note {
                output::note(&format!("tcpwhy: {note}"));
            }
            let mut text = serde_json::to_string_pretty(&json::ladder(ladder))?;
            text.push('\n');
            Ok(text)
        }
        (Some(ladder), false) => {
            let note = answer.note.iter().map(|note| noted(note, look));
            Ok(note.chain([ladder.render(look)]).collect())
        }
        (None, true) => Ok(json::render(&answer.report, env!("CARGO_PKG_VERSION"))?),
        (None, false) => Ok(text::render(&answer.report, look)),
    }
}

/// Returns whether `report` has a finding that is a fault.
pub fn has_faults(report: &Report) -> bool {
    report.findings.iter().any(|finding| finding.cause.class() == Class::Fault)
}

/// Formats the note that stands above a drawing.
fn noted(note: &str, look: &Look) -> String {
    let mut page = Page::new(look);
    page.paragraph(None, note, 0);
    page.line("");
    page.finish()
}

/// Returns the manual of the cause `name`; for `list`, one line for each cause; `None` for other
/// names.
pub fn named_manual(name: &str, look: &Look) -> Option<String> {
    match Cause::from_id(&name.replace('-', "_")) {
        Some(cause) => Some(render_manual(cause, look)),
        None if name == "list" => {
            let row = |cause: &Cause| {
                let (id, class) = (cause.id(), term(look.language, cause.class().id()));
                let title = words(*cause, look.language).title;
                format!("{id:<24} {} {title}\n", left(class, 6))
            };
            Some(Cause::ALL.iter().map(row).collect())
        }
        None => None,
    }
}
