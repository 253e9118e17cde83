//! Directories for the files of a test.

use std::fs::{self, Permissions};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::{Builder, TempDir};

/// A new directory in the system's directory for temporary files, removed with its content when
/// dropped. Its name is random, and a directory or link that has the name already is not used: what
/// another user of the machine has prepared there cannot lead the test elsewhere.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    /// Makes a directory that only this user may enter.
    ///
    /// # Panics
    /// The system refuses.
    pub fn new() -> Self {
        Self::with_mode(0o700)
    }

    /// Makes a directory in which every user may open the files whose names they know, as a copied
    /// program, and nobody else may list or make files.
    ///
    /// # Panics
    /// The system refuses.
    pub fn passable() -> Self {
        Self::with_mode(0o711)
    }

    /// Makes a directory of this mode, whatever the umask.
    ///
    /// # Panics
    /// The system refuses.
    pub fn with_mode(mode: u32) -> Self {
        let mut builder = Builder::new();
        builder.prefix("tcpwhy-test-").rand_bytes(16).permissions(Permissions::from_mode(0o700));
        let folder = builder.tempdir().expect("a new directory");
        fs::set_permissions(&folder, Permissions::from_mode(mode)).expect("the mode is set");
        Self(folder)
    }

    /// Makes a directory in it, and returns its path.
    ///
    /// # Panics
    /// The name exists, or the system refuses.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir(&path).expect("a new directory");
        path
    }

    /// Copies `program` into it, for any user who may enter it, and returns the path of the copy.
    ///
    /// # Panics
    /// It cannot be copied.
    pub fn copy_program(&self, program: &str) -> PathBuf {
        let copy = self.join(Path::new(program).file_name().expect("a program has a name"));
        // Another process writes the copy: a child that another test starts meanwhile would inherit
        // the open file, and the kernel runs no file that is open for writing.
        let copied = Command::new("install").args(["-m", "755", program]).arg(&copy).status();
        assert!(copied.is_ok_and(|it| it.success()), "{program} is copied to {}", copy.display());
        copy
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files below `crates` that may name the system's directory for temporary files, with the reason.
    const EXCEPTIONS: [(&str, &str); 2] = [
        ("cli/tests/command/lab.rs", "it looks for what the lab has left there"),
        ("lab/src/cleanup.rs", "the lab's own directories are there, and `lab clean` removes them"),
    ];

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_folder_has_its_mode_and_is_gone_when_dropped() {
        let folders = [Folder::new(), Folder::passable(), Folder::with_mode(0o1777)];
        assert_eq!(folders.each_ref().map(|it| mode(it)), [0o700, 0o711, 0o1777]);
        let paths = folders.each_ref().map(|it| it.to_path_buf());
        assert!(paths[0] != paths[1] && paths[1] != paths[2]);
        fs::write(folders[0].join("file"), "of the test").unwrap();
        drop(folders);
        assert!(paths.iter().all(|path| !path.exists()));
    }

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|it| it == "rs") {
                found.push(path);
            }
        }
    }

    #[test]
    fn no_other_test_makes_files_in_the_directory_for_temporary_files() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = Vec::new();
        sources(&crates, &mut found);
        // Put together here, or this file would be found too.
        let directories =
            [["temp_", "dir()"], ["\"/", "tmp"], ["\"/var/", "tmp"]].map(|it| it.concat());
        let uses = |path: &&PathBuf| {
            let text = fs::read_to_string(path).unwrap();
            directories.iter().any(|directory| text.contains(directory))
        };
        let mut users: Vec<_> = found.iter().filter(uses).collect();
        users.sort();
        let names = users.iter().map(|path| path.strip_prefix(&crates).unwrap().to_str().unwrap());
        assert_eq!(
            names.collect::<Vec<_>>(),
            EXCEPTIONS.map(|(file, _)| file),
            "use tcpwhy_testing::Folder, or list the file here with the reason"
        );
    }
}
