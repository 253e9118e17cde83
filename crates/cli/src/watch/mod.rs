//! `tcpwhy watch`: analyses a live capture with the same core as files.

mod args;
pub(crate) mod budget;
mod cuts;
mod files;
mod followed_log;
mod lines;
mod metrics;
mod ports;
mod screen;
mod state;
mod tap;
mod target;
mod view;
mod watcher;

pub use args::{EXAMPLES, Watch};

use crate::error::Error;
use crate::sandbox;
use crate::terminal;
use files::Files;
use followed_log::FollowedLog;
use metrics::{Push, Server};
use state::Reader;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use tap::Tap;
use target::Target;
use tcpwhy_core::model::{Class, NothingToJudge};
use tcpwhy_live::capture::{Capture, Wanted};
use tcpwhy_live::sys::process;
use tcpwhy_privileged::{Helper, Permitted, Watched};
use watcher::Watcher;

/// Number of intervals in a window: all are kept in memory and summed up for each report.
const INTERVALS_MAX: u64 = 1_000;

/// Captures, shows each interval, and prints a report on everything at the end; the exit status
/// says whether there are faults.
///
/// # Errors Packets cannot be captured, what is to be watched does not exist, or no traffic was
/// captured.
pub fn run(asked: &Watch) -> Result<ExitCode, Error> {
    if asked.window.div_ceil(asked.interval) > INTERVALS_MAX {
        return Err(Error::Window { intervals_max: INTERVALS_MAX });
    }
    if asked.reporting.filter.as_ref().is_some_and(|filter| !filter.window(0).is_all()) {
        return Err(Error::WatchTimes);
    }
    let target = Target::find(asked)?;
    let watched = Watched {
        netns: target.netns.clone(),
        pid: asked.pid,
        part: asked.budget.0.map(|budget| state::share(Some(budget))),
    };
    let helper = Helper::start(Permitted { watched: Some(watched), ..Permitted::default() })?;
    let capture = Capture::open(&Wanted {
        interface: asked.interface.clone(),
        netns: target.netns.clone(),
        ends: target.ends(),
        snap_bytes: asked.snaplen,
        ring_bytes: u32::try_from(asked.buffer).unwrap_or(u32::MAX),
        packet_socket: asked.packet_socket,
    })?;
    let interface = &asked.interface;
    let ring = (asked.ring_size, asked.ring_files);
    let files = asked.write.as_deref().map(|folder| Files::open(folder, interface, ring));
    let files = files.transpose()?;
    let followed = |path: &PathBuf| {
        let path_words = || path.display().to_string();
        FollowedLog::open(path).map_err(|source| Error::Open { path: path_words(), source })
    };
    let keylog = asked.keylog.as_ref().map(followed).transpose()?;
    let server = asked.metrics.map(Server::listen).transpose()?;
    let push = asked.otlp.as_deref().map(Push::to).transpose()?;
    let state = Reader::new(helper, asked.budget.0);
    let tap = Tap::new(&target.netns, &asked.interface, capture.means());
    let ending = process::watch_signals().map_err(tcpwhy_live::LiveError::Signals)?;
    let look = terminal::look(&asked.display, asked.all);
    let mut watcher = Watcher::new(asked, target, capture, state, tap, look, keylog);
    sandbox::confine_watch(files.as_ref().map(|it| it.folder().as_fd()));
    watcher.keep(files);
    watcher.tell_metrics(server, push);
    watcher.watch(ending)?;
    let whole = watcher.finish()?;
    let totals = &whole.totals;
    // The state of sockets shows some faults of which there is no packet, such as used up ports.
    if totals.connections + totals.lookups == 0 && whole.findings.is_empty() {
        return Err(match asked.reporting.filter {
            Some(_) => NothingToJudge::Filtered {
                hint: "nothing that matches it passed meanwhile: try without it".into(),
            },
            None => NothingToJudge::Absent,
        }
        .into());
    }
    let has_faults = whole.findings.iter().any(|it| it.cause.class() == Class::Fault);
    Ok(ExitCode::from(u8::from(has_faults)))
}
