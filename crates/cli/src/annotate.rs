//! `tcpwhy annotate`: copies a capture and adds what was found in it as comments at its frames.

use crate::analysis::{self, Wanted};
use crate::args::{Analysing, Display};
use crate::error::Error;
use crate::progress::Bar;
use crate::written::Written;
use crate::{output, sources, state, terminal};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::slice;
use tcpwhy_core::capture::{Commented, Open, copy_with_comments};
use tcpwhy_core::model::units;
use tcpwhy_core::report::{Page, comments};
use tcpwhy_core::state::weigh;

pub const EXAMPLES: &str = "\
Examples:
  tcpwhy annotate slow.pcap -o why.pcapng
  wireshark why.pcapng                        comments are green; show them all: filter frame.comment
  tshark -r why.pcapng -Y frame.comment -T fields -e frame.number -e frame.comment

Packets, times and other contents of a pcapng file are kept unchanged. Exit status: 0 written, 2 it could
not be done.";

/// Number of connections whose silences are commented; those that lost most time come first.
const CONNECTIONS_MAX: usize = 16;

#[derive(Debug, Args)]
pub struct Annotate {
    /// The capture (pcap, pcapng, snoop; also gzip or zstd)
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub file: PathBuf,

    /// The pcapng file to write; `-` for standard output
    #[arg(short, long, value_name = "OUT.pcapng", value_hint = clap::ValueHint::FilePath)]
    pub output: PathBuf,

    /// Print what was written as JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub analysing: Analysing,

    #[command(flatten)]
    pub display: Display,
}

/// Reads the capture and copies it with comments.
///
/// # Errors [`Error`] if the capture cannot be read or the copy cannot be written.
pub fn run(asked: &Annotate) -> Result<ExitCode, Error> {
    let open = || sources::open(slice::from_ref(&asked.file));
    let sources = open()?;
    if sources.iter().any(|source| matches!(source.open, Open::Once(_))) {
        return Err(Error::Once { path: asked.file.display().to_string() });
    }
    let state = state::of(&asked.analysing)?;
    let mut written = Written::begin_copy(&asked.output, &asked.file)?;
    let interrupted = terminal::interruptible();
    let wanted = Wanted::every_connection(&asked.analysing);
    let mut bar = Bar::new(!asked.display.no_progress);
    let mut answer = analysis::analyse(sources, &open, wanted, |at| bar.update(at), interrupted)?;
    drop(bar);
    if let Some(state) = state {
        weigh(&mut answer.report, &state);
    }
    let (report, options) = (&answer.report, &answer.options);
    let ladders = analysis::draw_costly(&open, options, report, CONNECTIONS_MAX, interrupted)?;
    if terminal::is_interrupted() {
        return Err(Error::NotWritten);
    }
    let comments = comments::comments(report, &ladders);
    let about = comments::summary(report);
    let mut done = Commented::default();
    for source in open()? {
        let Open::Again(open) = source.open else { continue };
        done = copy_with_comments(&*open, &comments, &about, &mut written)
            .map_err(|source| written.blame(&asked.file, source))?;
    }
    let aside = written.is_standard_output();
    written.finish()?;
    let count = comments.values().map(Vec::len).sum::<usize>() as u64;
    let said = said(asked, &done, count, report.findings.len() as u64)?;
    output::print_beside(&said, aside)?;
    Ok(ExitCode::SUCCESS)
}

fn said(asked: &Annotate, done: &Commented, comments: u64, findings: u64) -> Result<String, Error> {
    let problem = done.problem.as_ref().map(ToString::to_string);
    if asked.json {
        let value = json!({
            "output": asked.output.display().to_string(),
            "findings": findings,
            "comments": comments,
            "commented_frames": done.frames,
            "frames_without_room": done.without_room,
            "problem": problem,
        });
        return Ok(serde_json::to_string_pretty(&value)? + "\n");
    }
    let look = terminal::look(&asked.display, false);
    let mut page = Page::new(&look);
    let file = asked.output.display();
    let (comments, frames) = (
        units::counted(comments, "comment", "comments"),
        units::counted(done.frames, "frame", "frames"),
    );
    page.paragraph(
        None,
        &format!("{file}: {comments} at {frames}; in Wireshark: frame.comment"),
        0,
    );
    if done.without_room > 0 {
        let left = units::counted(done.without_room, "frame", "frames");
        let text = format!("{left} could not be commented: their blocks have no room for it.");
        page.paragraph(None, &text, 0);
    }
    if let Some(problem) = problem {
        page.paragraph(None, &format!("{}: {problem}", asked.file.display()), 0);
    }
    Ok(page.finish())
}
