use super::*;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

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
    let place = tcpwhy_testing::Folder::new();
    let folder = Folder::open(&place.join("one/two")).unwrap();
    folder.create("ring").unwrap();
    folder.write("page", b"page").unwrap();
    let inner = folder.folder("inner").unwrap();
    for path in ["one", "one/two", "one/two/inner"] {
        assert_eq!(mode(&place.join(path)), 0o700, "{path}");
    }
    for path in ["one/two/ring", "one/two/page"] {
        assert_eq!(mode(&place.join(path)), 0o600, "{path}");
    }
    assert!(folder.is_private().unwrap() && inner.is_private().unwrap());
    let mut names = folder.own_files().unwrap();
    names.sort();
    assert_eq!(names, ["page", "ring"]);
}

#[test]
fn links_in_a_folder_are_replaced_and_never_followed() {
    let place = tcpwhy_testing::Folder::new();
    let victim = place.join("victim");
    let folder = Folder::open(&place.join("folder")).unwrap();
    for name in ["ring", "page", "lock"] {
        fs::write(&victim, "kept").unwrap();
        symlink(&victim, place.join("folder").join(name)).unwrap();
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
    let place = tcpwhy_testing::Folder::new();
    let folder = Folder::open(&place.join("folder")).unwrap();
    let path = place.join("folder").join("lock");
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, FILE_MODE, 0).unwrap();
    assert!(folder.lock_file("lock").is_err());
}

#[test]
fn folders_of_others_and_folders_for_everybody_are_refused() {
    let place = tcpwhy_testing::Folder::new();
    let shared = place.join("shared");
    fs::create_dir(&shared).unwrap();
    for mode in [0o777, 0o1777] {
        fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).unwrap();
        assert!(reason(Folder::open(&shared)).contains("everybody may write"));
    }
    let foreign = place.join("foreign");
    fs::create_dir(&foreign).unwrap();
    if give_away(&foreign) {
        assert!(reason(Folder::open(&foreign)).contains("belongs to user 65534"));
        assert!(reason(Folder::existing(&place, "foreign")).contains("belongs to user 65534"));
        // What is created in it belongs to this user.
        assert!(Folder::open(&foreign.join("own")).is_ok());
    }
}

#[test]
fn a_link_to_a_folder_is_followed_if_nobody_else_made_it() {
    let place = tcpwhy_testing::Folder::new();
    fs::create_dir(place.join("far")).unwrap();
    symlink("far/../far", place.join("link")).unwrap();
    Folder::open(&place.join("link/own")).unwrap().create("file").unwrap();
    assert!(place.join("far/own/file").exists());
    if give_away(&place.join("link")) {
        assert!(reason(Folder::open(&place.join("link"))).contains("link"));
        assert!(reason(Folder::open(&place.join("link/own"))).contains("link"));
    }
    symlink("round", place.join("round")).unwrap();
    assert!(Folder::open(&place.join("round")).is_err());
}

#[test]
fn a_new_folder_takes_no_name_that_exists() {
    let place = tcpwhy_testing::Folder::new();
    Folder::create_new(&place, "new").unwrap();
    symlink("new", place.join("link")).unwrap();
    for name in ["new", "link"] {
        let error = Folder::create_new(&place, name).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{name}");
    }
    assert!(Folder::existing(&place, "link").is_err());
}

#[test]
fn a_file_stays_as_it_was_until_its_successor_is_complete() {
    let place = tcpwhy_testing::Folder::new();
    let folder = Folder::open(&place.join("folder")).unwrap();
    folder.write("page", b"old").unwrap();
    folder.write("page", b"new").unwrap();
    assert_eq!(fs::read(place.join("folder/page")).unwrap(), b"new");
    assert_eq!(folder.own_files().unwrap(), ["page"], "no temporary file remains");
}

#[test]
fn folders_that_several_threads_create_at_once_are_opened_by_all() {
    let place = tcpwhy_testing::Folder::new();
    for round in 0..50 {
        let path = place.join(format!("{round}/one/two"));
        let opened = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| Folder::open(&path))).collect();
            threads.into_iter().all(|it| it.join().unwrap().is_ok())
        });
        assert!(opened, "round {round}");
    }
}
