//! The traces of `tests/traces`, read.

use crate::language::{Trace, parse};
use std::fs;
use std::path::{Path, PathBuf};

/// A trace and where it lies.
#[derive(Clone, Debug)]
pub struct Case {
    /// The folder below that of all traces: a cause or a subject.
    pub folder: String,
    /// Name of the file without its ending. No two traces have the same.
    pub name: String,
    path: PathBuf,
}

impl Case {
    /// The trace as its file states it.
    pub fn trace(&self) -> Trace {
        parse(&fs::read_to_string(&self.path).expect("a readable trace"))
    }
}

/// The folder of the traces.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces")
}

/// The files with this ending in the folders of the traces, by name.
pub fn files(ending: &str) -> Vec<Case> {
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
    };
    let stem = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let folders = entries(&folder()).into_iter().filter(|path| path.is_dir());
    let mut found: Vec<_> = folders
        .flat_map(|folder| entries(&folder).into_iter().map(move |path| (stem(&folder), path)))
        .filter(|(_, path)| path.extension().is_some_and(|it| it == ending))
        .map(|(folder, path)| Case { folder, name: stem(&path), path })
        .collect();
    found.sort_by(|a, b| (&a.name, &a.folder).cmp(&(&b.name, &b.folder)));
    found
}

/// All traces, by name.
pub fn cases() -> Vec<Case> {
    files("trace")
}

/// All traces, by name, parsed.
pub fn traces() -> Vec<(String, Trace)> {
    cases().into_iter().map(|case| (case.name.clone(), case.trace())).collect()
}

/// The trace with this name.
pub fn trace(name: &str) -> Trace {
    let found = cases().into_iter().find(|case| case.name == name);
    found.unwrap_or_else(|| panic!("there is no trace {name}")).trace()
}
