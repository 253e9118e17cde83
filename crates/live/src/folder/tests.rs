use super::*;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

/// A place for one test, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let name = format!("tcpwhy-test-{:016x}", nameless::random());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn reason(opened: io::Result<Folder>) -> String {
    opened.err().map(|error| error.to_string()).unwrap_or_default()
}

/// Gives `path` to another user; `false` without root, which is said.
fn give_away(path: &Path) -> bool {
    if !tcpwhy_testing::is_root() {
        tcpwhy_testing::skip("files of another user: needs root");
        return false;
    }
    std::os::unix::fs::lchown(path, Some(65_534), Some(65_534)).unwrap();
    true
}

#[test]
fn new_folders_and_files_are_for_their_owner_only() {
    let place = Place::new();
    let folder = Folder::open(&place.at("one/two")).unwrap();
    folder.create("ring").unwrap();
    folder.write("page", b"page").unwrap();
    let inner = folder.folder("inner").unwrap();
    for path in ["one", "one/two", "one/two/inner"] {
        assert_eq!(mode(&place.at(path)), 0o700, "{path}");
    }
    for path in ["one/two/ring", "one/two/page"] {
        assert_eq!(mode(&place.at(path)), 0o600, "{path}");
    }
    assert!(folder.is_private().unwrap() && inner.is_private().unwrap());
    let mut names = folder.own_files().unwrap();
    names.sort();
    assert_eq!(names, ["page", "ring"]);
}

#[test]
fn links_in_a_folder_are_replaced_and_never_followed() {
    let place = Place::new();
    let victim = place.at("victim");
    let folder = Folder::open(&place.at("folder")).unwrap();
    for name in ["ring", "page", "lock"] {
        fs::write(&victim, "kept").unwrap();
        symlink(&victim, place.at("folder").join(name)).unwrap();
    }
    folder.create("ring").unwrap().write_all(b"packets").unwrap();
    folder.write("page", b"page").unwrap();
    assert!(folder.lock_file("lock").is_err());
    assert!(folder.read("lock").is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    let mut text = String::new();
    folder.read("ring").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "packets");
    assert_eq!(folder.own_files().unwrap().len(), 2);
}

#[test]
fn a_lock_is_no_fifo_that_somebody_made() {
    let place = Place::new();
    let folder = Folder::open(&place.at("folder")).unwrap();
    let path = place.at("folder").join("lock");
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, FILE_MODE, 0).unwrap();
    assert!(folder.lock_file("lock").is_err());
}

#[test]
fn folders_of_others_and_folders_for_everybody_are_refused() {
    let place = Place::new();
    let shared = place.at("shared");
    fs::create_dir(&shared).unwrap();
    for mode in [0o777, 0o1777] {
        fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).unwrap();
        assert!(reason(Folder::open(&shared)).contains("everybody may write"));
    }
    let foreign = place.at("foreign");
    fs::create_dir(&foreign).unwrap();
    if give_away(&foreign) {
        assert!(reason(Folder::open(&foreign)).contains("belongs to user 65534"));
        assert!(reason(Folder::existing(&place.0, "foreign")).contains("belongs to user 65534"));
        // What is created in it belongs to this user.
        assert!(Folder::open(&foreign.join("own")).is_ok());
    }
}

#[test]
fn a_link_to_a_folder_is_followed_if_nobody_else_made_it() {
    let place = Place::new();
    fs::create_dir(place.at("far")).unwrap();
    symlink("far/../far", place.at("link")).unwrap();
    Folder::open(&place.at("link/own")).unwrap().create("file").unwrap();
    assert!(place.at("far/own/file").exists());
    if give_away(&place.at("link")) {
        assert!(reason(Folder::open(&place.at("link"))).contains("link"));
        assert!(reason(Folder::open(&place.at("link/own"))).contains("link"));
    }
    symlink("round", place.at("round")).unwrap();
    assert!(Folder::open(&place.at("round")).is_err());
}

#[test]
fn a_new_folder_takes_no_name_that_exists() {
    let place = Place::new();
    Folder::create_new(&place.0, "new").unwrap();
    symlink("new", place.at("link")).unwrap();
    for name in ["new", "link"] {
        let error = Folder::create_new(&place.0, name).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{name}");
    }
    assert!(Folder::existing(&place.0, "link").is_err());
}

#[test]
fn a_file_stays_as_it_was_until_its_successor_is_complete() {
    let place = Place::new();
    let folder = Folder::open(&place.at("folder")).unwrap();
    folder.write("page", b"old").unwrap();
    folder.write("page", b"new").unwrap();
    assert_eq!(fs::read(place.at("folder/page")).unwrap(), b"new");
    assert_eq!(folder.own_files().unwrap(), ["page"], "no temporary file remains");
}

#[test]
fn folders_that_several_threads_create_at_once_are_opened_by_all() {
    let place = Place::new();
    for round in 0..50 {
        let path = place.at(&format!("{round}/one/two"));
        let opened = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| Folder::open(&path))).collect();
            threads.into_iter().all(|it| it.join().unwrap().is_ok())
        });
        assert!(opened, "round {round}");
    }
}
