//! The folders that an assistant may have read.

use crate::error::Error;
use crate::{compare, sources};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Depth of folders within a folder that are listed.
const DEPTH_MAX: usize = 8;
/// Number of files that are looked at for a list.
const LOOKED_AT_MAX: usize = 10_000;

/// The folders, each as an absolute path without symbolic links.
pub struct Folders(Vec<PathBuf>);

/// A capture in one of the folders.
pub struct Listed {
    /// Its path.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

impl Folders {
    /// Takes the folders that the user names.
    ///
    /// # Errors
    /// One of them does not exist, may not be read, or is no folder.
    pub fn open(named: &[PathBuf]) -> Result<Self, Error> {
        let open = |folder: &PathBuf| {
            let path = fs::canonicalize(folder).map_err(|error| sources::problem(folder, error))?;
            fs::read_dir(&path).map_err(|source| Error::FolderRead {
                path: folder.display().to_string(),
                source,
            })?;
            Ok(path)
        };
        named.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the folders.
    pub fn all(&self) -> &[PathBuf] {
        &self.0
    }

    /// Returns the file that an assistant names: by its absolute path, or by its path within one of the
    /// folders. No symbolic link is followed.
    ///
    /// # Errors
    /// There is no such file in the folders.
    pub fn file(&self, name: &str) -> Result<PathBuf, Error> {
        let within = |folder: &PathBuf| {
            let named = folder.join(name);
            let rest = named.strip_prefix(folder).ok()?;
            let mut path = folder.clone();
            for part in rest.components() {
                // Neither `..` nor a link leads out of the folder.
                let Component::Normal(part) = part else { return None };
                path.push(part);
                fs::symlink_metadata(&path).ok().filter(|it| !it.is_symlink())?;
            }
            path.is_file().then_some(path)
        };
        let path = self.0.iter().find_map(within);
        path.ok_or_else(|| Error::Outside { path: name.to_owned() })
    }

    /// Returns the captures in the folders by name, and whether there may be more of them.
    pub fn captures(&self) -> (Vec<Listed>, bool) {
        let (mut captures, mut looked_at) = (Vec::new(), 0);
        for folder in &self.0 {
            collect(folder, DEPTH_MAX, &mut looked_at, &mut captures);
        }
        captures.sort_by(|one, other| one.path.cmp(&other.path));
        captures.dedup_by(|one, other| one.path == other.path);
        (captures, looked_at >= LOOKED_AT_MAX)
    }
}

/// Adds the captures in `folder` and in the folders in it, but those behind symbolic links.
fn collect(folder: &Path, depth: usize, looked_at: &mut usize, captures: &mut Vec<Listed>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        *looked_at += 1;
        if *looked_at >= LOOKED_AT_MAX {
            return;
        }
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.as_ref().is_ok_and(fs::FileType::is_dir) && depth > 0 {
            collect(&path, depth - 1, looked_at, captures);
        } else if kind.is_ok_and(|kind| kind.is_file()) && compare::is_capture(&path) {
            let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
            captures.push(Listed { path, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_dots_nor_links_lead_out_of_a_folder() {
        let all = tempfile::tempdir().expect("a folder");
        let inside = all.path().join("inside");
        fs::create_dir_all(inside.join("deeper")).expect("folders");
        for file in [inside.join("deeper/a.pcap"), all.path().join("secret")] {
            fs::write(file, b"").expect("a file");
        }
        let folders = Folders::open(std::slice::from_ref(&inside)).expect("a folder");
        let inside = &folders.all()[0];
        let found = |name: &str| folders.file(name).ok();
        assert_eq!(found("deeper/a.pcap"), Some(inside.join("deeper/a.pcap")));
        let absolute = inside.join("deeper/a.pcap");
        assert_eq!(found(absolute.to_str().expect("UTF-8")), Some(absolute.clone()));
        assert_eq!(found("../secret"), None);
        assert_eq!(found("deeper/../deeper/a.pcap"), None);
        assert_eq!(found(all.path().join("secret").to_str().expect("UTF-8")), None);
        assert_eq!(found("deeper"), None, "no file");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(all.path().join("secret"), inside.join("link"))
                .expect("a link");
            std::os::unix::fs::symlink(all.path(), inside.join("out")).expect("a link");
            assert_eq!((found("link"), found("out/secret")), (None, None));
        }
    }
}
