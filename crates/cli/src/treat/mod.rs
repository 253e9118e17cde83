//! `tcpwhy treat`: changes one thing on the running system, measures, and takes it back.

mod args;
mod course;
mod json;
mod measure;
mod text;

pub use args::{EXAMPLES, Treat};

use crate::error::Error;
use crate::{output, terminal};
use args::{Course, Sockets, TreatCommand, buffers};
use course::{Active, Place, Subject};
use std::process::ExitCode;
use tcpwhy_live::treat::{self, Journal, Setting, TreatError};

/// Something could not be restored, or the change did harm.
const EXIT_WORSE: u8 = 1;

/// Does what is asked.
///
/// # Errors
/// Nothing could be changed, or the journal cannot be used.
pub fn run(asked: &Treat) -> Result<ExitCode, Error> {
    match &asked.command {
        TreatCommand::Nodelay(sockets) => sockets_of(sockets, Setting::Nodelay),
        TreatCommand::Quickack(sockets) if sockets.course.keep => Err(Error::QuickackKept),
        TreatCommand::Quickack(sockets) => sockets_of(sockets, Setting::Quickack),
        TreatCommand::Buffers { sndbuf, rcvbuf, sockets } => {
            sockets_of(sockets, buffers(*sndbuf, *rcvbuf))
        }
        TreatCommand::CongestionControl { name, sockets } => {
            sockets_of(sockets, Setting::CongestionControl { name: name.clone() })
        }
        TreatCommand::Sysctl { assignment, port, netns, course } => {
            sysctl(assignment, *port, netns.as_deref(), course)
        }
        TreatCommand::Status { json, display } => {
            let journal = journal();
            let records = journal.read()?;
            if *json {
                output::print(&(serde_json::to_string_pretty(&json::status(&records))? + "\n"))?;
            } else {
                output::print(&text::status(&records, &terminal::look(display, false)))?;
            }
            let is_whole = records.garbage.is_empty();
            Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WORSE) })
        }
        TreatCommand::Undo { id, json, display, .. } => {
            undo(*id, *json, &terminal::look(display, false))
        }
    }
}

fn journal() -> Journal {
    Journal::of_user(rustix::process::geteuid().is_root())
}

fn sockets_of(sockets: &Sockets, setting: Setting) -> Result<ExitCode, Error> {
    let course = &sockets.course;
    let asked = sockets.asked(setting);
    if course.dry_run {
        let (changes, counts) = treat::plan_sockets(&asked)?;
        let text = match course.json {
            true => {
                serde_json::to_string_pretty(&json::plan_sockets(&asked, &changes, &counts))? + "\n"
            }
            false => text::plan_sockets(
                &asked,
                &changes,
                &counts,
                &terminal::look(&course.display, false),
            ),
        };
        output::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = Place::of(sockets.netns.as_deref(), sockets.port, sockets.peer, sockets.pid)?;
    course::run(course, place, &Subject::Sockets(asked))
}

fn sysctl(
    assignment: &str,
    port: Option<u16>,
    netns: Option<&str>,
    course: &Course,
) -> Result<ExitCode, Error> {
    let planned = treat::plan_sysctl(assignment, netns)?;
    if course.dry_run {
        let text = match course.json {
            true => serde_json::to_string_pretty(&json::plan_sysctl(&planned))? + "\n",
            false => text::plan_sysctl(&planned, &terminal::look(&course.display, false)),
        };
        output::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    course::run(course, Place::of(netns, port, None, None)?, &Subject::Sysctl(Box::new(planned)))
}

fn undo(
    id: Option<u32>,
    as_json: bool,
    look: &tcpwhy_core::report::Look,
) -> Result<ExitCode, Error> {
    let journal = journal();
    let records = journal.read()?;
    let ids: Vec<u32> = match id {
        Some(id) => vec![id],
        None => records.records.iter().map(|record| record.id).collect(),
    };
    let mut all = Vec::new();
    for id in ids {
        let record = journal.one(id)?.ok_or(TreatError::NoTreatment { id })?;
        all.push((record, treat::undo(&journal, id)?));
    }
    let garbage = if id.is_none() { records.garbage.as_slice() } else { &[] };
    let text = match as_json {
        true => serde_json::to_string_pretty(&json::undone(&all, garbage))? + "\n",
        false => text::undone(&all, garbage, look),
    };
    output::print(&text)?;
    let is_whole = garbage.is_empty() && all.iter().all(|(_, undone)| undone.failed.is_empty());
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WORSE) })
}

/// Begins what `subject` asks for.
fn begin(subject: &Subject) -> Result<Active, TreatError> {
    Ok(match subject {
        Subject::Sockets(asked) => {
            Active::Sockets(Box::new(treat::Treatment::begin(journal(), asked)?))
        }
        Subject::Sysctl(planned) => {
            Active::Sysctl(Box::new(treat::SysctlTreatment::begin(journal(), planned)?))
        }
    })
}
