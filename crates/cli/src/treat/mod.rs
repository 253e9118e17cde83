//! `tcpwhy treat`: changes one thing on the running system, measures the effect, and undoes the
//! change.

mod apart;
mod args;
mod course;
mod json;
mod load;
mod measure;
mod text;

pub use args::{EXAMPLES, Treat};

use crate::error::Error;
use crate::{output, terminal};
use args::{Defence, OnHost, Sockets, TreatCommand, buffers};
use course::{Active, MeasuredConnections, Subject};
use std::process::ExitCode;
use tcpwhy_live::sys::process;
use tcpwhy_treat::{HostPlan, Journal, Records, Setting, TreatError};

/// Exit status if something could not be restored, or if the change did harm.
const EXIT_WORSE: u8 = 1;

/// Runs the given command.
///
/// # Errors Nothing could be changed, or the journal cannot be used.
pub fn run(asked: &Treat) -> Result<ExitCode, Error> {
    match done(&asked.command) {
        // Something was changed, and not all of it is undone.
        Err(error @ Error::Treat(TreatError::Half { .. })) => {
            output::note(&crate::error::sentences(&error));
            Ok(ExitCode::from(EXIT_WORSE))
        }
        other => other,
    }
}

fn done(command: &TreatCommand) -> Result<ExitCode, Error> {
    match command {
        TreatCommand::Nodelay(sockets) => sockets_of(sockets, Setting::Nodelay),
        TreatCommand::Quickack(sockets) if sockets.course.keep => Err(Error::QuickackKept),
        TreatCommand::Quickack(sockets) => sockets_of(sockets, Setting::Quickack),
        TreatCommand::Buffers { sndbuf, rcvbuf, sockets } => {
            sockets_of(sockets, buffers(*sndbuf, *rcvbuf))
        }
        TreatCommand::CongestionControl { name, sockets } => {
            sockets_of(sockets, Setting::CongestionControl { name: name.clone() })
        }
        TreatCommand::Sysctl { assignment, port, host } => {
            on_host(tcpwhy_treat::plan_sysctl(assignment, host.netns.as_deref())?, *port, host)
        }
        TreatCommand::Backlog { connections, port, host } => {
            let plan = tcpwhy_treat::plan_backlog(*port, *connections, host.netns.as_deref())?;
            on_host(plan, Some(*port), host)
        }
        TreatCommand::SynFlood { port, only, backlog, limit, xdp, device, host } => {
            let has = |defence| only.contains(&defence);
            let plan = tcpwhy_treat::plan_syn_flood(&tcpwhy_treat::SynFlood {
                port: *port,
                cookies: has(Defence::Cookies),
                backlog: has(Defence::Backlog).then_some(*backlog),
                syns_per_second: has(Defence::Limit).then_some(*limit),
                xdp: *xdp,
                devices: device.clone(),
                netns: host.netns.clone(),
            })?;
            on_host(plan, Some(*port), host)
        }
        TreatCommand::Cwnd { initcwnd, initrwnd, to, port, host } => {
            let (initcwnd, initrwnd, to) = (*initcwnd, *initrwnd, *to);
            let netns = host.netns.clone();
            let asked = tcpwhy_treat::InitialWindows { to, initcwnd, initrwnd, netns };
            on_host(tcpwhy_treat::plan_cwnd(&asked)?, *port, host)
        }
        TreatCommand::Resolver {
            timeout,
            attempts,
            ndots,
            single_request_reopen,
            nameserver,
            cache,
            file,
            port,
            host,
        } => {
            let plan = tcpwhy_treat::plan_resolver(&tcpwhy_treat::Resolver {
                timeout_s: *timeout,
                attempts: *attempts,
                ndots: *ndots,
                single_request_reopen: *single_request_reopen,
                nameservers: nameserver.clone(),
                cache: *cache,
                netns: host.netns.clone(),
                file: file.clone(),
            })?;
            on_host(plan, *port, host)
        }
        TreatCommand::Status { json, display } => {
            let records = all_records()?;
            if *json {
                output::print(&(serde_json::to_string_pretty(&json::status(&records))? + "\n"))?;
            } else {
                output::print(&text::status(&records, &terminal::look(display, false)))?;
            }
            let is_whole = records.garbage.is_empty();
            Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WORSE) })
        }
        TreatCommand::Undo { id, forget, json, display, .. } => {
            undo(*id, *forget, *json, &terminal::look(display, false))
        }
    }
}

/// Returns this user's treatments, and those of root.
fn all_records() -> Result<Records, TreatError> {
    let own = journal();
    let mut records = own.read()?;
    let of_root = Journal::of_root();
    let is_named = std::env::var_os(tcpwhy_treat::DIRECTORY_VARIABLE).is_some();
    if !is_named && of_root.directory() != own.directory() {
        match of_root.read() {
            Ok(of_root) => {
                records.records.extend(of_root.records);
                records.garbage.extend(of_root.garbage);
            }
            Err(error) => records.garbage.push(error),
        }
    }
    Ok(records)
}

fn journal() -> Journal {
    Journal::of_user(rustix::process::geteuid().is_root())
}

fn sockets_of(sockets: &Sockets, setting: Setting) -> Result<ExitCode, Error> {
    let course = &sockets.course;
    let asked = sockets.asked(setting);
    // A treatment that is impossible is refused before anything is measured.
    let (changes, counts) = tcpwhy_treat::plan_sockets(&asked)?;
    if course.dry_run {
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
    let place =
        MeasuredConnections::of(sockets.netns.as_deref(), sockets.port, sockets.peer, sockets.pid)?;
    course::run(course, &place, &Subject::Sockets(asked))
}

fn on_host(plan: HostPlan, port: Option<u16>, host: &OnHost) -> Result<ExitCode, Error> {
    let course = &host.course;
    if course.dry_run {
        let text = match course.json {
            true => serde_json::to_string_pretty(&json::plan_host(&plan))? + "\n",
            false => text::plan_host(&plan, &terminal::look(&course.display, false)),
        };
        output::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = MeasuredConnections::of(host.netns.as_deref(), port, None, None)?;
    course::run(course, &place, &Subject::Host(plan))
}

fn undo(
    id: Option<u32>,
    is_forgotten: bool,
    as_json: bool,
    look: &tcpwhy_core::report::Look,
) -> Result<ExitCode, Error> {
    process::outlast_signals();
    let journal = journal();
    let records = journal.read()?;
    let ids: Vec<u32> = match id {
        Some(id) => vec![id],
        None => records.records.iter().map(|record| record.id).collect(),
    };
    let mut all = Vec::new();
    for id in ids {
        let record = journal.one(id)?.ok_or(TreatError::NoTreatment { id })?;
        let undone = tcpwhy_treat::undo(&journal, id)?;
        if is_forgotten && !undone.is_whole() {
            tcpwhy_treat::forget(&journal, id)?;
        }
        all.push((record, undone));
    }
    let garbage = if id.is_none() { records.garbage.as_slice() } else { &[] };
    let text = match as_json {
        true => serde_json::to_string_pretty(&json::undone(&all, garbage))? + "\n",
        false => text::undone(&all, garbage, is_forgotten, look),
    };
    output::print(&text)?;
    let is_whole = garbage.is_empty() && all.iter().all(|(_, undone)| undone.is_whole());
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WORSE) })
}

/// Begins the treatment of `subject`.
fn begin(subject: &Subject) -> Result<Active, TreatError> {
    Ok(match subject {
        Subject::Sockets(asked) => {
            Active::Sockets(Box::new(tcpwhy_treat::Treatment::begin(journal(), asked)?))
        }
        Subject::Host(plan) => Active::Host(
            Box::new(tcpwhy_treat::HostTreatment::begin(journal(), plan)?),
            plan.risks.clone(),
        ),
    })
}
