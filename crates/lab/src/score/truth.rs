//! The part of `labels.json` that answers are judged by, and the shorter `truth.json` of captures
//! that no run of the lab made.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Doing, LabError};
use crate::labels::{Class, FORMAT, Latency, Role, Variant};
use crate::relay::Timekeeping;
use crate::sys::TcpInfo;

/// What is true of the captures in one directory.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Truth {
    /// [`FORMAT`].
    pub format: String,
    /// Name of the case.
    pub case: String,
    /// With the fault or without.
    pub variant: Variant,
    /// Where chance started.
    pub seed: u64,
    /// What kind of finding is right.
    pub class: Class,
    /// The causes.
    pub causes: Vec<TrueCause>,
    /// Causes that may be named or not: their packets allow both.
    #[serde(default)]
    pub not_judged: Vec<String>,
    /// Requests.
    pub exchanges: u64,
    /// Their times added up, ns.
    pub wall_ns: u64,
    /// Quantiles of the requests' times in the run with the fix.
    pub latency_after_fix_ns: Option<Latency>,
    /// The same from first to last packet: what captures can tell of.
    #[serde(default)]
    pub on_wire_after_fix_ns: Option<Latency>,
    /// What the kernel says limited the client's sockets, where known.
    pub client_tcp_info: Option<TcpInfo>,
    /// The same of the server's.
    pub server_tcp_info: Option<TcpInfo>,
    /// The kernel's word on every socket, sampled during the run.
    #[serde(default)]
    pub sockets: Vec<TcpInfo>,
    /// The link emulator's account, where there was one.
    pub relay: Option<Relay>,
    /// Every request as the client lived it.
    pub requests: Vec<Asked>,
    /// The captures.
    pub captures: Vec<LabelledCapture>,
}

/// Of the link emulator's account what decides whether a run counts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Relay {
    /// How punctual it was.
    pub timekeeping: Timekeeping,
}

/// Of a request whether it came to nothing, and on which connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Asked {
    /// The client's end; empty where there was no connection.
    pub client_endpoint: String,
    /// Why, if so.
    pub error: Option<String>,
}

/// A cause that is present.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TrueCause {
    /// Its id.
    pub cause: String,
    /// Who has to change something.
    pub culprit_role: Role,
    /// Where.
    pub culprit_endpoint: Option<String>,
    /// Time it cost over all requests, ns, where known.
    pub lost_ns: Option<u64>,
    /// Ids that are right beside or instead of it.
    pub also_right: Vec<String>,
    /// What a capture alone may be taken for.
    #[serde(default)]
    pub from_capture: FromCapture,
}

/// What a diagnosis may rightly come to that has only a capture.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct FromCapture {
    /// Vantages at which no packet tells of the cause.
    pub unseen_at: Vec<String>,
    /// Any of these may take its place.
    pub verdicts: Vec<Verdict>,
}

/// A cause with who is to blame for it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Verdict {
    /// Its id.
    pub cause: String,
    /// Who.
    pub culprit_role: Role,
}

impl Truth {
    /// The link did not keep time: what is labelled is not all that made requests slow.
    pub fn is_late(&self) -> bool {
        self.relay.as_ref().is_some_and(|relay| !relay.timekeeping.is_punctual())
    }

    /// A sum over the sockets of both sides: by the samples, or by what the lab's own sockets told
    /// when they were closed, whichever saw more.
    pub fn over_sockets(&self, of: fn(&TcpInfo) -> u64) -> u64 {
        let own = [self.client_tcp_info, self.server_tcp_info];
        let own: u64 = own.iter().flatten().map(of).sum();
        own.max(self.sockets.iter().map(of).sum())
    }
}

impl TrueCause {
    /// Returns whether naming `id` is right, by whomever.
    pub fn is(&self, id: &str) -> bool {
        self.cause == id || self.also_right.iter().any(|other| other == id)
    }

    /// Returns whether no packet that passes `vantage` tells of it.
    pub fn is_unseen_at(&self, vantage: &str) -> bool {
        self.from_capture.unseen_at.iter().any(|unseen| unseen == vantage)
    }

    /// Returns whether a capture may be taken for `id` by `role`.
    pub fn looks_like(&self, id: &str, role: Role) -> bool {
        let verdicts = &self.from_capture.verdicts;
        verdicts.iter().any(|verdict| verdict.cause == id && verdict.culprit_role == role)
    }
}

/// A capture beside the labels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LabelledCapture {
    /// Its file name.
    pub file: String,
    /// `client` or `server`.
    pub vantage: String,
}

/// All `labels.json` and `truth.json` below `dir`, each with the directory it is in, in order of
/// their paths.
///
/// # Errors
/// Something cannot be read, or labels are not in [`FORMAT`].
pub fn find_truth(dir: &Path) -> Result<Vec<(PathBuf, Truth)>, LabError> {
    let mut found = Vec::new();
    walk(dir, &mut found)?;
    found.sort_by(|one: &(PathBuf, Truth), other| one.0.cmp(&other.0));
    Ok(found)
}

/// An entry of `truth.json`: what is known of one capture, where there was no run of the lab.
#[derive(Debug, Deserialize)]
struct Stored {
    name: String,
    /// Below `captures/`, beside the file.
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
