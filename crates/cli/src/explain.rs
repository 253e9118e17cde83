//! `tcpwhy explain`: reads captures and prints a report.

use crate::analysis::{self, Answer, Wanted};
use crate::args::Explain;
use crate::error::Error;
use crate::page::asked_for;
use crate::progress::Bar;
use crate::tables::Tables;
use crate::{EXIT_FAILED, nothing_left, output, sandbox, sources, state, terminal, workers};
use std::process::ExitCode;
use tcpwhy_core::findings::words;
use tcpwhy_core::model::{Cause, Class, Report, Verdict};
use tcpwhy_core::pipeline::Options;
use tcpwhy_core::report::{Look, Page, json, render_manual, text};
use tcpwhy_core::state::weigh;

/// Reads and analyses captures and prints the report; the exit status says whether there are
/// faults.
///
/// # Errors [`Error`] if nothing could be read, or if what was asked for is not in the capture.
pub fn run(asked: &Explain) -> Result<ExitCode, Error> {
    let look = terminal::look(&asked.display, asked.all);
    if let Some(manual) = wanted_manual(asked, &look) {
        output::print(&manual)?;
        return Ok(ExitCode::SUCCESS);
    }
    let open = || sources::open(&asked.files);
    let (sources, wanted) = (open().map_err(Error::or_mistyped)?, wanted(asked));
    let state = asked.sockets.as_deref().map(state::read).transpose()?;
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
    answer.report.asked = asked_for(&asked.files, asked.filter.as_ref(), asked.vantages);
    if let Some(state) = state {
        weigh(&mut answer.report, &state);
    }
    if !answer.complete {
        let tables = if asked.parquet.is_some() { ", and no tables are written" } else { "" };
        output::note(&format!("tcpwhy: interrupted; this is what is known so far{tables}"));
    }
    output::print(&shown(asked, &answer, &look)?)?;
    let totals = &answer.report.totals;
    if answer.complete && totals.connections + totals.lookups == 0 {
        let left_out = totals.decode_errors.errors().map(|(_, count)| count).sum();
        let frames = answer.report.inputs.iter().map(|input| input.packets).sum();
        return Err(match &asked.filter {
            Some(filter) => {
                let hint = nothing_left::hint(filter, &answer.report, &open, interrupted);
                Error::NothingLeft { hint }
            }
            None if left_out > 0 => Error::NothingRead { left_out, frames },
            None => Error::Nothing,
        });
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
    let filter = asked.filter.clone().unwrap_or_default();
    let mut options =
        Options { filter, all: asked.all, show_values: asked.show_values, ..Options::default() };
    // With files, --cause limits the report to that cause.
    options.filter.also_causes(asked.cause.as_deref().and_then(Cause::from_id));
    let floors = &mut options.floors;
    floors.cost_share = asked.min_share.unwrap_or(floors.cost_share);
    floors.cost_ns = asked.min_lost.unwrap_or(floors.cost_ns);
    Wanted {
        options,
        connection: asked.connection,
        exchange: asked.exchange,
        all: asked.all,
        threads: asked.threads.map_or_else(workers::available, usize::from),
        vantages: asked.vantages,
        why: asked.why,
        check: asked.check,
    }
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
                let (id, class) = (cause.id(), cause.class().id());
                format!("{id:<24} {class:<6} {}\n", words(*cause).title)
            };
            Some(Cause::ALL.iter().map(row).collect())
        }
        None => None,
    }
}
