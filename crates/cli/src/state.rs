//! The state of sockets as evidence: from a file, or of this system as it is now.

use crate::error::Error;
use std::fs;
use std::path::Path;
use tcpwhy_core::state::State;

/// In place of a file: the sockets of this system now.
const LIVE: &str = "live";

/// Reads the state that `--sockets` names.
///
/// # Errors
/// [`Error::State`]: it is no list of sockets; [`Error::Open`]: it cannot be read; or the kernel refuses
/// to list its sockets.
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
