//! Names on the command line to capture sources.

use crate::error::Error;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal};
use std::path::Path;
use tcpwhy_core::capture::Source;

/// A source for each name. What a typing mistake would cause is an error at once; what is
/// wrong inside of a file is told by the report.
///
/// # Errors
/// A name that is missing, a directory or not ours to read, or standard input that cannot serve.
pub fn open(paths: &[impl AsRef<Path>]) -> Result<Vec<Source>, Error> {
    let standard_inputs = paths.iter().filter(|path| path.as_ref() == Path::new("-")).count();
    if standard_inputs > 1 {
        return Err(Error::StandardInputTwice);
    }
    paths.iter().map(|path| one(path.as_ref())).collect()
}

fn one(path: &Path) -> Result<Source, Error> {
    if path == Path::new("-") {
        if io::stdin().is_terminal() {
            return Err(Error::Terminal);
        }
        return Ok(Source::stream("-", io::stdin()));
    }
    let name = path.display().to_string();
    let metadata = fs::metadata(path).map_err(|error| problem(path, error))?;
    if metadata.is_dir() {
        let path = name.trim_end_matches('/').to_owned();
        return Err(Error::Directory { path });
    }
    let file = File::open(path).map_err(|error| problem(path, error))?;
    if !metadata.is_file() {
        // A named pipe or `<(…)`: it cannot be opened a second time.
        return Ok(Source::stream(name, file));
    }
    let again = path.to_owned();
    Ok(Source::file(name, Some(metadata.len()), move || File::open(&again)))
}

/// Why a path cannot be read, and what to do.
pub fn problem(path: &Path, source: io::Error) -> Error {
    let name = path.display().to_string();
    match source.kind() {
        ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.map_or(".".into(), |folder| folder.display().to_string());
            Error::Missing { path: name, folder }
        }
        ErrorKind::PermissionDenied => Error::Permission { path: name },
        _ => Error::Open { path: name, source },
    }
}
