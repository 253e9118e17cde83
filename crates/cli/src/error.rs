//! Errors of the command: each says in one sentence what failed, where, and what to do.

use std::io;
use tcpwhy_core::capture::CaptureError;
use tcpwhy_core::compare::{CompareError, ReportError};
use tcpwhy_core::drill::DrillError;
use tcpwhy_core::model::{Cause, NothingToJudge};
use tcpwhy_core::survey::JoinError;

/// Error of a command.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what it is")]
pub enum Error {
    #[error(
        "{path}: there is no such file; check the name, or let the shell list it: ls -l {folder}"
    )]
    Missing { path: String, folder: String },
    #[error("{path}: there is no such file or command; did you mean `tcpwhy {meant}`?")]
    Mistyped { path: String, meant: String },
    #[error("{path}: there is no such file; {hint}")]
    NoTarget { path: String, hint: String },
    #[error("{path}: is no folder that can be read; name a folder of captures")]
    FolderRead { path: String, source: io::Error },
    #[error(
        "{path}: there is no such file in the folders of this server; `captures` lists the files"
    )]
    Outside { path: String },
    #[error("the arguments of the tool are wrong: {0}")]
    Arguments(serde_json::Error),
    #[error("{0}")]
    Argument(String),
    #[error("no assistant that speaks the Model Context Protocol is at standard input")]
    Protocol(#[source] io::Error),
    #[error("no command or cause is called `{word}`{meant}; tcpwhy help shows the commands")]
    NoHelp { word: String, meant: String },
    #[error("{path}: is a directory; name the captures in it: tcpwhy {path}/*.pcap*")]
    Directory { path: String },
    #[error("{path}: you may not read it; run tcpwhy as its owner, or: sudo tcpwhy {path}")]
    Permission { path: String },
    #[error("{path}: cannot be opened")]
    Open { path: String, source: io::Error },
    #[error("{path}: is the capture itself; write to another file")]
    Overwrites { path: String },
    #[error("{path}: cannot be written; name a file in a directory that you may write to")]
    Output { path: String, source: io::Error },
    #[error("{path}: man pages cannot be written there; name a folder that you may write to")]
    ManPages { path: String, source: io::Error },
    #[error("interrupted; nothing was written")]
    NotWritten,
    #[error("standard input is a terminal; pipe a capture into it: tcpdump -w - | tcpwhy -")]
    Terminal,
    #[error("standard input can be read only once; name `-` once")]
    StandardInputTwice,
    #[error("{0}")]
    Capture(#[from] CaptureError),
    #[error(
        "{path}: drawings and tables read the capture twice, and this can be read only once; save it \
         first: tcpdump -w FILE"
    )]
    Once { path: String },
    #[error("{0}")]
    Join(#[from] JoinError),
    #[error("{0}")]
    Drill(#[from] DrillError),
    #[error("{0}")]
    Compare(#[from] CompareError),
    #[error("{path}: {source}")]
    Report { path: String, source: ReportError },
    #[error(
        "{path}: no capture in it, nor labels of captures; `tcpwhy compare` takes a capture, a \
         directory of captures, or a report: tcpwhy FILE --json >{path}/report.json"
    )]
    NoCapture { path: String },
    #[error("{0}")]
    Nothing(#[from] NothingToJudge),
    #[error(
        "{path}: a report cannot be analysed any more; leave out {option}, or compare the captures"
    )]
    Narrowed { path: String, option: &'static str },
    #[error("interrupted before a packet was read")]
    NothingYet,
    #[error("interrupted: a run that was not read to its end cannot be compared")]
    Interrupted,
    #[error("interrupted: no page is made of a part of a capture; choose the part with --filter")]
    PageInterrupted,
    #[error("{what} is not in this capture: {hint}")]
    NotFound { what: String, hint: String },
    #[cfg(target_os = "linux")]
    #[error("{0}")]
    Live(#[from] tcpwhy_live::LiveError),
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[error("{0}")]
    Helper(#[from] tcpwhy_privileged::HelperError),
    #[error("{path} cannot be read")]
    Read { path: String, source: io::Error },
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[error("{path} {why}")]
    HostReport { path: String, why: tcpwhy_host::ReportError },
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Doctor(Box<dyn std::error::Error + Send + Sync>),
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[error("{0}")]
    Treat(#[from] tcpwhy_treat::TreatError),
    #[cfg(target_os = "linux")]
    #[error("the process that measures the treatment does not answer")]
    Measuring(#[source] io::Error),
    #[cfg(target_os = "linux")]
    #[error("{0}")]
    NotMeasured(String),
    #[cfg(target_os = "linux")]
    #[error("interrupted before anything was changed")]
    NotTreated,
    #[cfg(target_os = "linux")]
    #[error(
        "TCP_QUICKACK cannot be kept: the kernel switches it off when data is sent. Leave out --keep, \
         or set it for a route: ip route change ROUTE quickack 1"
    )]
    QuickackKept,
    #[cfg(target_os = "linux")]
    #[error(
        "{url}: metrics are pushed to http://HOST[:4318][/v1/metrics]; for https, let a collector on \
         this host pass them on"
    )]
    Otlp { url: String },
    #[cfg(target_os = "linux")]
    #[error(
        "the lab is a program of its own, tcpwhy-lab, which is neither beside tcpwhy nor in PATH; install \
         it: the Debian package tcpwhy-lab, or `make install-lab` where tcpwhy was built"
    )]
    NoLab,
    #[cfg(target_os = "linux")]
    #[error("{path} cannot be run")]
    Lab { path: String, source: io::Error },
    #[error(
        "{path}: is not a list of sockets; make one while the trouble lasts: sudo tcpwhy sockets \
         --json >{path}"
    )]
    State { path: String, source: serde_json::Error },
    #[cfg(not(target_os = "linux"))]
    #[error("the sockets of the running system are read on Linux only; give --sockets a file")]
    NoState,
    #[cfg(not(target_os = "linux"))]
    #[error(
        "this command reads, measures or changes a running Linux system: run it there. Captures are \
         read on every system: tcpwhy FILE"
    )]
    NotLinux,
    #[cfg(target_os = "linux")]
    #[error("--window may cover up to {intervals_max} intervals: use a longer --interval")]
    Window { intervals_max: u64 },
    #[cfg(target_os = "linux")]
    #[error("a watch begins now: leave times out of --filter, and end it with --for")]
    WatchTimes,
    #[cfg(target_os = "linux")]
    #[error("{path}: packets cannot be kept there; name a directory of your own, or a new one")]
    Folder { path: String, source: io::Error },
    #[cfg(target_os = "linux")]
    #[error("{path}: another tcpwhy watch keeps its packets there; name another directory")]
    FolderInUse { path: String },
    #[cfg(target_os = "linux")]
    #[error(
        "{address}: metrics cannot be served there; name an address of this machine and a free port"
    )]
    Metrics { address: std::net::SocketAddr, source: io::Error },
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[error("{0}")]
    DnsConfig(#[from] tcpwhy_probe::dns::ConfigError),
    #[cfg(target_os = "linux")]
    #[error(
        "no query can be sent to {server}: {why}; name a server that can be reached: --server ADDR"
    )]
    DnsUnsent { server: std::net::SocketAddr, why: String },
    #[cfg(feature = "program")]
    #[error("{0}")]
    Load(#[source] tcpwhy_probe::load::PlanError),
    #[error(
        "{host} cannot be resolved; check the name, or say where it is: --resolve {host}:ADDRESS"
    )]
    Resolve { host: String, source: io::Error },
    #[error("{host} has no {version} address; try without -4 and -6")]
    NoAddress { host: String, version: &'static str },
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[error("{0}")]
    Probe(#[from] tcpwhy_probe::path::ProbeError),
    #[error("{path}: no key of 16 bytes can be read; make one: head -c 16 /dev/urandom > key")]
    Key { path: String, source: io::Error },
    #[cfg(not(feature = "program"))]
    #[error(
        "{command} is not in the Python package, which reads captures: {all} need the program tcpwhy; {how}"
    )]
    Absent { command: String, all: String, how: String },
    #[error("the report cannot be written")]
    Write(#[source] io::Error),
    #[error("the report cannot be put into JSON")]
    Json(#[from] serde_json::Error),
}

#[cfg(not(feature = "program"))]
impl Error {
    /// Returns the error for a command that is one of `all` that only the program has.
    pub fn absent(command: &str, all: &[&str]) -> Self {
        let how = match crate::program::companion("tcpwhy") {
            Some(path) => format!("run {} {command}", path.display()),
            None => "install the Debian package tcpwhy, or `make install` its sources".to_owned(),
        };
        Self::Absent { command: command.to_owned(), all: all.join(", "), how }
    }
}

/// Returns an error with all its sources in one line, as it is printed.
pub fn sentences(error: &dyn std::error::Error) -> String {
    format!("tcpwhy: {}", sentence(error))
}

/// Returns an error with all its sources in one line.
pub fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text += &format!(": {words}");
        }
        source = error.source();
    }
    text
}

/// Returns the names of all causes.
pub fn causes() -> impl Iterator<Item = &'static str> {
    Cause::ALL.iter().map(|cause| cause.id())
}
