//! The state of sockets as evidence, from a file or from the running system.

use crate::args::Analysing;
use crate::error::Error;
use std::fs;
use std::path::Path;
use tcpwhy_core::state::State;

/// Name that stands for the sockets of the running system in place of a file.
const LIVE: &str = "live";

/// Reads the state that `--sockets` names, if it is given.
///
/// # Errors As for [`read`].
pub fn of(asked: &Analysing) -> Result<Option<State>, Error> {
    asked.sockets.as_deref().map(read).transpose()
}

/// Reads the state that `--sockets` names.
///
/// # Errors [`Error::State`] if the file is no list of sockets, [`Error::Open`] if it cannot be
/// read, or an error of the kernel when it lists the sockets.
pub fn read(from: &Path) -> Result<State, Error> {
    if from.as_os_str() == LIVE {
        return now();
    }
    let path = from.display().to_string();
    let json = match fs::read(from) {
        Ok(json) => json,
        Err(source) => return Err(Error::Open { path, source }),
    };
    State::parse(&json).map_err(|source| Error::State { path, source })
}

#[cfg(target_os = "linux")]
fn now() -> Result<State, Error> {
    use tcpwhy_live::sockets::{Selection, Where};
    crate::sockets::state(&Selection { place: Where::All, ..Selection::default() })
}

#[cfg(not(target_os = "linux"))]
fn now() -> Result<State, Error> {
    Err(Error::NoState)
}
