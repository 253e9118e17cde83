//! Changes of the running system that are taken back: options of sockets of running processes
//! ([`Treatment`]), and what belongs to a host ([`HostTreatment`]): kernel settings, accept queues,
//! `resolv.conf`, routes, packet filters.
//!
//! ```text
//! plan ─► journal (on disk) ─► change ─► tend (new connections) ─► undo, or keep
//!                 └───────────────────── undo, after a crash, by another process
//! ```
//!
//! A record with the value before of each thing is on disk before the thing is changed, and goes
//! when it has its value again. Connections that a kernel hook changes as they open are noted by the
//! hook itself, in a pinned map of the kernel, and moved to the journal every 50 ms: after a process
//! was killed [`undo`](undo()) reads both.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod cache;
mod error;
mod fib;
mod file;
mod filter;
mod flood;
mod helper;
pub mod hooks;
mod host;
mod journal;
mod listener;
mod namespace;
mod plan;
mod reach;
pub mod record;
pub mod resolver;
mod route;
pub mod setting;
mod sysctl;
mod system;
mod treatment;
mod undo;
mod xdp;

pub use error::TreatError;
pub use flood::{SynFlood, plan as plan_syn_flood, plan_backlog};
pub use host::{HostPlan, HostTreatment};
pub use journal::{DIRECTORY_VARIABLE, Journal, Records};
pub use namespace::Namespace;
pub use plan::{Counts, Newcomers, TreatmentRequest, plan as plan_sockets};
pub use record::{Change, Lifetime, Record, Scope, Side, What};
pub use resolver::{Resolver, plan as plan_resolver};
pub use route::{InitialWindows, WINDOW_MAX, plan as plan_cwnd};
pub use setting::{Buffer, Setting, Value};
pub use sysctl::plan as plan_sysctl;
pub use treatment::Treatment;
pub use undo::{ChangedMeanwhile, Undone, forget, undo};

/// Returns whether the process that made a treatment is still running.
pub fn is_running(record: &Record) -> bool {
    record.state == Lifetime::Running && system::running(&record.by.process).is_some()
}

/// Returns whether a record was made since the last boot.
pub fn is_of_this_boot(record: &Record) -> bool {
    record.since.boot_id == system::boot_id()
}

/// Returns the files that still have the content of a treatment: a reboot resets all but files.
pub fn files_left(record: &Record) -> Vec<String> {
    let files = record.changes.iter().filter_map(|change| match change {
        Change::File(file) => Some(file),
        _ => None,
    });
    files.filter(|change| file::is_changed(change)).map(|change| change.path.clone()).collect()
}

/// Refuses if a record of this boot has a change for which `is_same` is `true`.
fn refuse_twice(journal: &Journal, is_same: impl Fn(&What) -> bool) -> Result<(), TreatError> {
    refuse_twice_of(journal, |record| is_same(&record.what))
}

fn refuse_twice_of(journal: &Journal, is_same: impl Fn(&Record) -> bool) -> Result<(), TreatError> {
    let boot_id = system::boot_id();
    for record in journal.read()?.records {
        let is_left = record.since.boot_id == boot_id || !files_left(&record).is_empty();
        if is_left && is_same(&record) {
            let since = clock(record.since.unix_ns);
            return Err(TreatError::Treated { id: record.id, what: record.what.words(), since });
        }
    }
    Ok(())
}

/// Returns a time of day in UTC, as `12:31:07 UTC`.
pub fn clock(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Returns a number of sockets in words: "1 socket", "12 sockets".
fn sockets(number: u64) -> String {
    if number == 1 { "1 socket".into() } else { format!("{number} sockets") }
}

impl What {
    /// Returns a description: "TCP_NODELAY of sockets: port 8080".
    pub fn words(&self) -> String {
        match self {
            Self::Sockets { setting, scope, .. } => {
                format!("{} of sockets: {}", setting.option(), scope.words())
            }
            Self::Sysctl { name } => format!("kernel setting {name}"),
            Self::Resolver { path } => format!("resolver: {path}"),
            Self::SynFlood { port } => format!("SYN flood at port {port}"),
            Self::Backlog { port } => format!("accept queue of port {port}"),
            Self::Cwnd { route } => format!("initial windows of route {route}"),
        }
    }
}
