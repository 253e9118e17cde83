//! What can go wrong at the edge: what, where, what to do; one sentence each.

use std::io;
use tcpwhy_core::capture::CaptureError;
use tcpwhy_core::compare::{CompareError, ReportError};
use tcpwhy_core::drill::DrillError;
use tcpwhy_core::join::JoinError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{path}: there is no such file; check the name, or let the shell list it: ls -l {folder}"
    )]
    Missing { path: String, folder: String },
    #[error("{path}: is a directory; name the captures in it: tcpwhy {path}/*.pcap*")]
    Directory { path: String },
    #[error("{path}: you may not read it; read it as its owner, or: sudo chmod a+r {path}")]
    Permission { path: String },
    #[error("{path}: cannot be opened")]
    Open { path: String, source: io::Error },
    #[error("standard input is a terminal; pipe a capture into it: tcpdump -w - | tcpwhy -")]
    Terminal,
    #[error("standard input can be read only once; name `-` once")]
    StandardInputTwice,
    #[error("{0}")]
    Capture(#[from] CaptureError),
    #[error(
        "{path}: a drawing needs a second look, and this can be read only once; save it first: \
         tcpdump -w FILE"
    )]
    Once { path: String },
    #[error(
        "{path}: two places are told apart by a look beforehand, and this can be read only once; \
         save it first: tcpdump -w FILE"
    )]
    JoinOnce { path: String },
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
    #[error("nothing to judge: no packet of a TCP connection or a name look-up was captured")]
    Nothing,
    #[error(
        "nothing to judge: --filter leaves no packet of a TCP connection or a name look-up; try \
         without it, or a wider one"
    )]
    NothingLeft,
    #[error(
        "{path}: a report cannot be narrowed any more; leave out --filter, or compare the captures"
    )]
    Narrowed { path: String },
    #[error("interrupted before a packet was read")]
    NothingYet,
    #[error("interrupted; half of a run cannot be compared")]
    Interrupted,
    #[error("{what} is not in this capture; `tcpwhy FILE --json` lists the connections")]
    NotFound { what: String },
    #[cfg(target_os = "linux")]
    #[error("{0}")]
    Live(#[from] tcpwhy_live::LiveError),
    #[cfg(target_os = "linux")]
    #[error("{0}")]
    Lab(#[from] tcpwhy_lab::LabError),
    #[cfg(target_os = "linux")]
    #[error("{path}: {source}")]
    Answers { path: String, source: tcpwhy_lab::score::AnswerError },
    #[cfg(target_os = "linux")]
    #[error(
        "{path}: there is no labels.json below it; `tcpwhy lab run CASE --out {path}` makes some"
    )]
    NoLabels { path: String },
    #[error("the case cannot be kept up: {0}")]
    Keep(#[source] io::Error),
    #[cfg(not(target_os = "linux"))]
    #[error("the lab builds network namespaces, which only Linux has: run it on Linux")]
    NotLinux,
    #[error("the report cannot be written")]
    Write(#[source] io::Error),
    #[error("the report cannot be put into JSON")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// The whole chain in one line, as it is printed.
    pub fn sentences(&self) -> String {
        let mut text = format!("tcpwhy: {self}");
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            let words = error.to_string();
            if !text.ends_with(&words) {
                text += &format!(": {words}");
            }
            source = error.source();
        }
        text
    }
}
