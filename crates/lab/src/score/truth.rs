//! The part of `labels.json` that answers are judged by, and the shorter `truth.json` of captures
//! that do not come from a run of the lab.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Doing, LabError};
use crate::labels::{Class, FORMAT, Latency, Role, Variant};
use crate::sys::TcpInfo;
use crate::timekeeping::Timekeeping;

/// The truth about the captures in one directory.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Truth {
    /// [`FORMAT`].
    pub format: String,
    /// Name of the case.
    pub case: String,
    /// The variant that was run.
    pub variant: Variant,
    /// Seed of the run.
    pub seed: u64,
    /// The class of the right finding.
    pub class: Class,
    /// The causes.
    pub causes: Vec<TrueCause>,
    /// Causes that do not count, whether named or not: the packets permit both.
    #[serde(default)]
    pub not_judged: Vec<String>,
    /// Number of requests.
    pub exchanges: u64,
    /// Sum of the requests' durations, ns.
    pub wall_ns: u64,
    /// Quantiles of the requests' times in the run with the fix.
    pub latency_after_fix_ns: Option<Latency>,
    /// Quantiles of the durations from first to last packet, which captures can show.
    #[serde(default)]
    pub on_wire_after_fix_ns: Option<Latency>,
    /// `TCP_INFO` of the client's sockets, if known.
    pub client_tcp_info: Option<TcpInfo>,
    /// `TCP_INFO` of the server's sockets, if known.
    pub server_tcp_info: Option<TcpInfo>,
    /// `TCP_INFO` of every socket, sampled during the run.
    #[serde(default)]
    pub sockets: Vec<TcpInfo>,
    /// Report of the link emulator, if there was one.
    pub relay: Option<Relay>,
    /// Lateness of the host, if it was measured.
    #[serde(default)]
    pub host_timekeeping: Option<Timekeeping>,
    /// Every request as the client measured it.
    pub requests: Vec<TrueRequest>,
    /// The captures.
    pub captures: Vec<LabelledCapture>,
}

/// The part of the link emulator's report that decides whether a run counts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Relay {
    /// Lateness of its deliveries.
    pub timekeeping: Timekeeping,
}

/// A request: its connection, and whether it failed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TrueRequest {
    /// Address and port of the client; empty if there was no connection.
    pub client_endpoint: String,
    /// The error, if it failed.
    pub error: Option<String>,
}

/// A cause that is present.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TrueCause {
    /// The id of the cause.
    pub cause: String,
    /// Role of the culprit.
    pub culprit_role: Role,
    /// Endpoint of the culprit.
    pub culprit_endpoint: Option<String>,
    /// Time it cost over all requests, ns, if known.
    pub lost_ns: Option<u64>,
    /// Part of it that is beside the cause, ns.
    #[serde(default)]
    pub beside_ns: u64,
    /// Ids that are right in addition to the cause or instead of it.
    pub also_right: Vec<String>,
    /// Verdicts that are right for a diagnosis from a capture alone.
    #[serde(default)]
    pub from_capture: FromCapture,
}

/// Verdicts that count as right if the diagnosis has only a capture.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct FromCapture {
    /// Vantages at which no packet shows the cause.
    pub unseen_at: Vec<String>,
    /// Verdicts of which any one is right in place of the cause.
    pub verdicts: Vec<Verdict>,
}

/// A cause with its culprit's role.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Verdict {
    /// The id of the cause.
    pub cause: String,
    /// Role of the culprit.
    pub culprit_role: Role,
}

impl Truth {
    /// Returns whether the link or the host did not keep time: then the labels do not cover all that
    /// made requests slow.
    pub fn is_late(&self) -> bool {
        let relay = self.relay.as_ref().map(|it| &it.timekeeping);
        relay.into_iter().chain(&self.host_timekeeping).any(|it| !it.is_punctual())
    }

    /// Returns a sum over the sockets of both sides: from the samples, or from what the lab's own
    /// sockets reported when they were closed, whichever is larger.
    pub fn over_sockets(&self, of: fn(&TcpInfo) -> u64) -> u64 {
        let own = [self.client_tcp_info, self.server_tcp_info];
        let own: u64 = own.iter().flatten().map(of).sum();
        own.max(self.sockets.iter().map(of).sum())
    }
}

impl TrueCause {
    /// Returns whether naming `id` is right, with any culprit.
    pub fn is(&self, id: &str) -> bool {
        self.cause == id || self.also_right.iter().any(|other| other == id)
    }

    /// Returns whether no packet at `vantage` shows the cause.
    pub fn is_unseen_at(&self, vantage: &str) -> bool {
        self.from_capture.unseen_at.iter().any(|unseen| unseen == vantage)
    }

    /// Returns whether naming `id` with `role` is right for a capture.
    pub fn looks_like(&self, id: &str, role: Role) -> bool {
        let verdicts = &self.from_capture.verdicts;
        verdicts.iter().any(|verdict| verdict.cause == id && verdict.culprit_role == role)
    }
}

/// A capture in the directory of the labels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LabelledCapture {
    /// The file name.
    pub file: String,
    /// `client` or `server`.
    pub vantage: String,
}

/// Returns all `labels.json` and `truth.json` below `dir`, each with its directory, in order of
/// their paths.
///
/// # Errors A file cannot be read, or labels are not in [`FORMAT`].
pub fn find_truth(dir: &Path) -> Result<Vec<(PathBuf, Truth)>, LabError> {
    let mut found = Vec::new();
    walk(dir, &mut found)?;
    found.sort_by(|one: &(PathBuf, Truth), other| one.0.cmp(&other.0));
    Ok(found)
}

/// An entry of `truth.json`: the truth about one capture that no run of the lab made.
#[derive(Debug, Deserialize)]
struct Stored {
    name: String,
    /// Path relative to `captures/` beside the file.
    file: PathBuf,
    vantage: String,
    class: Class,
    causes: Vec<TrueCause>,
    #[serde(default)]
    not_judged: Vec<String>,
    #[serde(default)]
    exchanges: u64,
    #[serde(default)]
    wall_ns: u64,
}

impl Stored {
    fn into_truth(self) -> Truth {
        let file = Path::new("captures").join(self.file);
        Truth {
            format: FORMAT.to_owned(),
            case: self.name,
            variant: if self.causes.is_empty() { Variant::Healthy } else { Variant::Faulty },
            seed: 0,
            class: self.class,
            causes: self.causes,
            not_judged: self.not_judged,
            exchanges: self.exchanges,
            wall_ns: self.wall_ns,
            latency_after_fix_ns: None,
            on_wire_after_fix_ns: None,
            client_tcp_info: None,
            server_tcp_info: None,
            sockets: Vec::new(),
            relay: None,
            host_timekeeping: None,
            requests: Vec::new(),
            captures: vec![LabelledCapture {
                file: file.display().to_string(),
                vantage: self.vantage,
            }],
        }
    }
}

fn walk(dir: &Path, found: &mut Vec<(PathBuf, Truth)>) -> Result<(), LabError> {
    let what = || format!("read {}", dir.display());
    for entry in fs::read_dir(dir).doing(what())? {
        let path = entry.doing(what())?.path();
        if path.is_dir() && !path.is_symlink() {
            walk(&path, found)?;
        } else if path.file_name().is_some_and(|name| name == "labels.json") {
            found.push((dir.to_owned(), read(&path)?));
        } else if path.file_name().is_some_and(|name| name == "truth.json") {
            found.extend(read_stored(&path)?.into_iter().map(|truth| (dir.to_owned(), truth)));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Truth, LabError> {
    let what = || format!("read {}", path.display());
    let text = fs::read(path).doing(what())?;
    let truth: Truth = serde_json::from_slice(&text).map_err(std::io::Error::from).doing(what())?;
    if truth.format == FORMAT {
        Ok(truth)
    } else {
        let other = std::io::Error::other(format!("its format is {}, not {FORMAT}", truth.format));
        Err(other).doing(what())
    }
}

fn read_stored(path: &Path) -> Result<Vec<Truth>, LabError> {
    let what = || format!("read {}", path.display());
    let text = fs::read(path).doing(what())?;
    let stored: Vec<Stored> =
        serde_json::from_slice(&text).map_err(std::io::Error::from).doing(what())?;
    Ok(stored.into_iter().map(Stored::into_truth).collect())
}
