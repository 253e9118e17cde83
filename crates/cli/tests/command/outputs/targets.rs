//! Kinds of targets.

use super::place::{
    Devices, Made, Mounts, NEW_MODE, NOBODY, capture, expected, names, outputs, run, said, tcpwhy,
};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use tcpwhy_testing::{Folder, is_root, privileged, skip_in_ci_too};

/// Contents of files that were there before.
const OLD: &[u8] = b"old";

fn node(path: &Path, kind: FileType, minor: u32) {
    mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, makedev(1, minor)).expect("a node");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").mode() & 0o7777
}

/// Gives the file another owner, if this is root, and a mode that no umask makes.
fn mark(path: &Path) {
    if is_root() {
        lchown(path, Some(NOBODY), Some(NOBODY)).expect("another owner");
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o604)).expect("another mode");
}

#[test]
fn a_new_file_has_the_mode_of_the_umask_and_no_other_file_remains() {
    for made in outputs() {
        let place = Folder::passable();
        let folder = place.folder("out");
        run(&made.words(&capture(), &folder));
        assert_eq!(mode(&folder.join(made.file())), NEW_MODE, "{}", made.name());
        let temporary = |name: &std::ffi::OsString| name.to_string_lossy().starts_with('.');
        assert!(!names(&folder).iter().any(temporary), "{}", made.name());
    }
}

#[test]
fn a_copy_of_a_private_capture_is_private() {
    let place = Folder::passable();
    let private = place.join("private.pcap");
    fs::copy(capture(), &private).expect("a copy");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).expect("a mode");
    let copies = outputs().filter(|it| it.0.command == "annotate");
    for made in copies {
        let output = run(&made.words(&private, &place));
        assert_eq!(mode(&place.join(made.file())), 0o600, "{output:?}");
    }
}

#[test]
fn an_existing_file_keeps_its_mode_and_owner() {
    for made in outputs() {
        let place = Folder::passable();
        let (bytes, status) = expected(&made);
        let folder = place.folder("out");
        let target = folder.join(made.file());
        fs::write(&target, OLD).expect("a file");
        mark(&target);
        let before = fs::metadata(&target).expect("a file");
        let output = run(&made.words(&capture(), &folder));
        let after = fs::metadata(&target).expect("a file");
        assert_eq!(output.status.code(), status, "{}: {output:?}", made.name());
        assert!(fs::read(&target).expect("a file") == bytes, "{}", made.name());
        let of = |it: &fs::Metadata| (it.mode(), it.uid(), it.gid());
        assert_eq!(of(&after), of(&before), "{}", made.name());
    }
}

#[test]
fn all_names_of_a_file_have_the_new_contents() {
    for made in outputs() {
        let place = Folder::passable();
        let (bytes, _) = expected(&made);
        let folder = place.folder("out");
        // Longer than what replaces it.
        fs::write(folder.join(made.file()), vec![b'o'; 8 << 20]).expect("a file");
        fs::hard_link(folder.join(made.file()), place.join("other")).expect("a second name");
        let output = run(&made.words(&capture(), &folder));
        assert!(fs::read(place.join("other")).expect("a file") == bytes, "{output:?}");
    }
}

#[test]
fn symbolic_links_are_followed_and_stay() {
    for (made, is_dangling) in outputs().flat_map(|it| [(it, true), (it, false)]) {
        let place = Folder::passable();
        let (bytes, status) = expected(&made);
        let (folder, far) = (place.folder("out"), place.folder("far"));
        if !is_dangling {
            fs::write(far.join("file"), OLD).expect("a file");
            mark(&far.join("file"));
        }
        symlink("../far/second", folder.join(made.file())).expect("a link");
        symlink(far.join("file"), far.join("second")).expect("a link");
        let output = run(&made.words(&capture(), &folder));
        assert_eq!(output.status.code(), status, "{}: {output:?}", made.name());
        assert!(fs::symlink_metadata(folder.join(made.file())).expect("a link").is_symlink());
        assert!(fs::symlink_metadata(far.join("second")).expect("a link").is_symlink());
        assert!(fs::read(far.join("file")).expect("a file") == bytes, "{}", made.name());
        assert_eq!(mode(&far.join("file")), if is_dangling { NEW_MODE } else { 0o604 });
        assert_eq!(names(&far), ["file", "second"], "{}", made.name());
    }
}

#[test]
fn a_fifo_is_written_into() {
    for made in outputs() {
        let place = Folder::passable();
        let (bytes, status) = expected(&made);
        let folder = place.folder("out");
        let target = folder.join(made.file());
        node(&target, FileType::Fifo, 0);
        let other_name = place.join("fifo");
        fs::hard_link(&target, &other_name).expect("a second name");
        let reader = thread::spawn({
            let target = target.clone();
            move || fs::read(target).expect("a FIFO")
        });
        let output = run(&made.words(&capture(), &folder));
        // A reader of which nobody took notice would wait for ever.
        let release = fs::OpenOptions::new().read(true).write(true).open(other_name);
        drop(release.expect("a FIFO"));
        assert_eq!(output.status.code(), status, "{}: {output:?}", made.name());
        assert!(reader.join().expect("a reader") == bytes, "{}", made.name());
        assert!(fs::metadata(&target).expect("a FIFO").file_type().is_fifo());
    }
}

#[test]
fn devices_are_written_into_and_a_full_one_is_an_error() {
    const NULL: u32 = 3;
    const FULL: u32 = 7;
    if !privileged("device nodes of a private directory") {
        return;
    }
    for (made, minor) in outputs().flat_map(|it| [(it, NULL), (it, FULL)]) {
        let place = Folder::passable();
        let (_, status) = expected(&made);
        let folder = place.folder("out");
        let target = folder.join(made.file());
        node(&target, FileType::CharacterDevice, minor);
        if fs::OpenOptions::new().write(true).open(&target).is_err() {
            return skip_in_ci_too(
                "device nodes have no effect in the directory for temporary files",
            );
        }
        let output = run(&made.words(&capture(), &folder));
        let node = fs::symlink_metadata(&target).expect("a node");
        assert!(node.file_type().is_char_device(), "{}", made.name());
        assert_eq!(node.rdev(), makedev(1, minor), "{}", made.name());
        match minor {
            FULL => {
                assert_eq!(output.status.code(), Some(2), "{}: {output:?}", made.name());
                assert!(said(&output).contains("No space left"), "{}", said(&output));
            }
            _ => assert_eq!(output.status.code(), status, "{}: {output:?}", made.name()),
        }
    }
}

/// Returns the descriptors' names with the redirections that open them for a pipe on standard
/// output.
fn descriptors() -> [(&'static str, &'static str); 5] {
    [
        ("-", ""),
        ("/dev/stdout", ""),
        ("/proc/self/fd/1", ""),
        ("/dev/fd/7", "7>&1 >/dev/null"),
        ("/proc/self/fd/7", "7>&1 >/dev/null"),
    ]
}

#[test]
fn open_descriptors_are_written_into() {
    for made in outputs().filter(Made::is_file) {
        let place = Folder::passable();
        let (bytes, status) = expected(&made);
        let Some(devices) = Devices::new(&place) else { return };
        for (path, more) in descriptors() {
            let words = made.words_to(&capture(), Path::new(path));
            // A pipe, as of a process substitution.
            let output = devices.tcpwhy(&words, more).output().expect("tcpwhy runs");
            assert_eq!(output.status.code(), status, "{} {path}: {output:?}", made.name());
            assert!(output.stdout == bytes, "{} {path}: nothing else is printed", made.name());
            // A file goes on where it is.
            let file = place.join("file");
            fs::write(&file, OLD).expect("a file");
            let out = fs::OpenOptions::new().append(true).open(&file).expect("a file");
            let status = devices.tcpwhy(&words, more).stdout(out).stderr(Stdio::null()).status();
            assert!(status.is_ok_and(|it| it.code() != Some(2)), "{} {path}", made.name());
            assert!(fs::read(&file).expect("a file") == [OLD, &bytes].concat(), "{path}");
        }
    }
}

#[test]
fn a_socket_is_written_into() {
    for made in outputs().filter(Made::is_file) {
        let place = Folder::passable();
        let (bytes, _) = expected(&made);
        let Some(devices) = Devices::new(&place) else { return };
        for path in ["-", "/dev/stdout"] {
            let (mut ours, theirs) = UnixStream::pair().expect("sockets");
            let words = made.words_to(&capture(), Path::new(path));
            let mut command = devices.tcpwhy(&words, "");
            command.stdout(OwnedFd::from(theirs)).stderr(Stdio::null());
            let mut child = command.spawn().expect("tcpwhy runs");
            // It holds an end of the socket.
            drop(command);
            let mut read = Vec::new();
            ours.read_to_end(&mut read).expect("a socket");
            child.wait().expect("it ends");
            assert!(read == bytes, "{} {path}", made.name());
        }
    }
}

#[test]
fn a_link_into_a_descriptor_is_written_into() {
    for made in outputs() {
        let place = Folder::passable();
        let (bytes, _) = expected(&made);
        let Some(devices) = Devices::new(&place) else { return };
        let folder = place.folder("out");
        symlink("/dev/fd/7", folder.join(made.file())).expect("a link");
        let words = made.words(&capture(), &folder);
        let output = devices.tcpwhy(&words, "7>&1 >/dev/null").output().expect("tcpwhy runs");
        assert!(output.stdout == bytes, "{}: {output:?}", made.name());
        assert!(fs::symlink_metadata(folder.join(made.file())).expect("a link").is_symlink());
    }
}

#[test]
fn a_reader_that_leaves_ends_the_output_without_an_error() {
    for made in outputs().filter(Made::is_file) {
        let (_, status) = expected(&made);
        let (ours, theirs) = std::io::pipe().expect("a pipe");
        drop(ours);
        let words = made.words_to(&capture(), Path::new("-"));
        let output = tcpwhy(&words, "").stdout(theirs).output().expect("tcpwhy runs");
        assert_eq!(output.status.code(), status, "{}: {output:?}", made.name());
    }
}

#[test]
fn a_file_that_cannot_be_replaced_gets_the_new_contents() {
    for made in outputs() {
        let place = Folder::passable();
        let (bytes, status) = expected(&made);
        let real = place.join("real");
        fs::write(&real, OLD).expect("a file");
        mark(&real);
        let [busy, fixed] = ["busy", "fixed"].map(|name| place.folder(name));
        // One file is a mount point; the folder of the other cannot be written to either.
        let script = format!(
            "cd {place}; mount -t tmpfs -o mode=755 tmpfs fixed\n\
             for folder in busy fixed; do touch $folder/{file}; mount --bind real $folder/{file}; done\n\
             mount -o remount,ro fixed",
            place = place.display(),
            file = made.file(),
        );
        let folders = match made.is_file() {
            true => vec![busy, fixed],
            // The other files of a folder need one that can be written to.
            false => vec![busy],
        };
        let Some(mounts) = Mounts::new(&script) else { return };
        for folder in folders {
            fs::write(&real, OLD).expect("a file");
            let output = mounts.tcpwhy(&made.words(&capture(), &folder), "").output();
            let output = output.expect("tcpwhy runs");
            assert_eq!(output.status.code(), status, "{}: {output:?}", made.name());
            assert!(fs::read(&real).expect("a file") == bytes, "{}", made.name());
            assert_eq!(mode(&real), 0o604, "{}", made.name());
            let temporary = |name: &std::ffi::OsString| name.to_string_lossy().starts_with('.');
            assert!(!names(&mounts.at(&folder)).iter().any(temporary), "{}", made.name());
        }
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_what_was_there() {
    for made in outputs() {
        let place = Folder::passable();
        let [full, bound] = ["full", "bound"].map(|name| place.folder(name));
        let script = format!(
            "cd {place}; mount -t tmpfs -o size=64k,mode=755 tmpfs full\n\
             printf old >full/{file}; touch bound/{file}\n\
             mount --bind full/{file} bound/{file}\n\
             mkdir full/new; dd if=/dev/zero of=full/fill bs=4k 2>/dev/null || true",
            place = place.display(),
            file = made.file(),
        );
        let Some(mounts) = Mounts::new(&script) else { return };
        for folder in [full.clone(), bound, full.join("new")] {
            let before = names(&mounts.at(&folder));
            let output = mounts.tcpwhy(&made.words(&capture(), &folder), "").output();
            let output = output.expect("tcpwhy runs");
            assert_eq!(output.status.code(), Some(2), "{}: {output:?}", made.name());
            let said = said(&output);
            assert!(said.contains("No space left"), "{}: {said}", made.name());
            let old = fs::read(mounts.at(&full.join(made.file()))).expect("a file");
            assert!(old == OLD, "{} in {}", made.name(), folder.display());
            let after = names(&mounts.at(&folder));
            assert!(after == before, "{} in {}: {after:?}", made.name(), folder.display());
        }
    }
}

#[test]
fn what_others_planted_in_a_shared_folder_is_not_used() {
    if !privileged("files of other users") {
        return;
    }
    for (made, kind) in outputs().flat_map(|it| ["file", "link", "FIFO"].map(|kind| (it, kind))) {
        let place = Folder::passable();
        let (victim, folder) = (place.join("victim"), place.folder("shared"));
        fs::write(&victim, OLD).expect("a file");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).expect("a mode");
        let target = folder.join(made.file());
        match kind {
            "file" => fs::write(&target, OLD).expect("a file"),
            "link" => symlink(&victim, &target).expect("a link"),
            _ => node(&target, FileType::Fifo, 0),
        }
        lchown(&target, Some(NOBODY), Some(NOBODY)).expect("another owner");
        let output = run(&made.words(&capture(), &folder));
        assert_eq!(output.status.code(), Some(2), "{}: {kind}: {output:?}", made.name());
        assert!(said(&output).contains("belongs to another user"), "{}", said(&output));
        assert!(fs::read(&victim).expect("a file") == OLD, "{}: {kind}", made.name());
        assert_eq!(names(&folder), [made.file()], "{}: {kind}", made.name());
    }
}

#[test]
fn a_folder_is_not_an_output_file() {
    let place = Folder::passable();
    for made in outputs().filter(Made::is_file) {
        let folder = place.join("folder");
        fs::create_dir_all(folder.join(made.file())).expect("a directory");
        for to in [folder.join(made.file()), place.join("new/")] {
            let output = run(&made.words_to(&capture(), &to));
            assert_eq!(output.status.code(), Some(2), "{}: {output:?}", made.name());
        }
        assert_eq!(names(&folder), [made.file()]);
    }
}
