//! Attributes that an existing file keeps besides its mode and owner, and files of which an
//! ordinary user may change the contents alone.

use super::place::{Made, NOBODY, capture, expected, outputs, run};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tcpwhy_testing::{Folder, is_root, skip_in_ci_too};

/// Access control list as the kernel stores it (linux/posix_acl_xattr.h): the version, then tag,
/// permissions and user of each entry. User 12345 may read and write, the group only read.
fn access_list() -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let entries =
        [(1, 6, NO_ID), (2, 6, 12_345), (4, 4, NO_ID), (0x10, 6, NO_ID), (0x20, 0, NO_ID)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, user) in entries {
        list.extend([tag, permissions].map(u16::to_le_bytes).concat());
        list.extend(u32::to_le_bytes(user));
    }
    list
}

fn attribute(path: &Path, name: &str) -> Vec<u8> {
    let mut value = vec![0; 4096];
    let length = getxattr(path, name, &mut value).unwrap_or(0);
    value.truncate(length);
    value
}

#[test]
fn attributes_and_access_lists_of_an_existing_file_stay() {
    let attributes = [("user.note", b"kept".to_vec()), ("system.posix_acl_access", access_list())];
    for made in outputs() {
        let place = Folder::passable();
        let (bytes, _) = expected(&made);
        let folder = place.folder("out");
        let target = folder.join(made.file());
        fs::write(&target, "old").expect("a file");
        for (name, value) in &attributes {
            if let Err(error) = setxattr(&target, *name, value, XattrFlags::empty()) {
                return skip_in_ci_too(&format!("{name} of a temporary file: {error}"));
            }
        }
        let before = fs::metadata(&target).expect("a file");
        let output = run(&made.words(&capture(), &folder));
        let after = fs::metadata(&target).expect("a file");
        assert!(fs::read(&target).expect("a file") == bytes, "{}: {output:?}", made.name());
        assert_ne!(after.ino(), before.ino(), "{}: it is a new file", made.name());
        assert_eq!(after.mode(), before.mode(), "{}", made.name());
        for (name, value) in &attributes {
            assert_eq!(attribute(&target, name), *value, "{}: {name}", made.name());
        }
    }
}

/// A user without rights: nobody, if this is root.
struct Ordinary {
    program: PathBuf,
    /// A capture that it may read.
    input: PathBuf,
}

impl Ordinary {
    fn new(place: &Folder) -> Self {
        let program = place.copy_program(env!("CARGO_BIN_EXE_tcpwhy"));
        let input = place.join("input.pcap");
        fs::copy(capture(), &input).expect("a copy");
        fs::set_permissions(&input, fs::Permissions::from_mode(0o644)).expect("a mode");
        Self { program, input }
    }

    fn run(&self, made: &Made, folder: &Path) -> Output {
        let mut command = Command::new("env");
        if is_root() {
            let nobody = NOBODY.to_string();
            command.args(["setpriv", "--reuid", &nobody, "--regid", &nobody, "--clear-groups"]);
        }
        command.arg(&self.program).args(made.words(&self.input, folder));
        command.output().expect("setpriv is installed")
    }
}

#[test]
fn a_file_of_which_a_user_may_change_the_contents_alone_gets_the_new_ones() {
    // The other capture of a comparison may be where only its owner may read.
    for made in outputs().filter(|it| it.is_file() && it.0.command != "compare") {
        let place = Folder::passable();
        let user = Ordinary::new(&place);
        let [fixed, foreign, new] = ["fixed", "foreign", "new"].map(|name| place.folder(name));
        let output = run(&made.words(&user.input, &new));
        let bytes = fs::read(new.join(made.file())).expect("a file");
        let status = output.status.code();
        // In a folder that it may not write to; as root, also a file that it may not give away.
        let mut folders = vec![fixed.clone()];
        if is_root() {
            chown(&foreign, Some(NOBODY), Some(NOBODY)).expect("another owner");
            folders.push(foreign);
        }
        for folder in folders {
            let target = folder.join(made.file());
            // Longer than what replaces it, and shorter.
            for old in [vec![b'o'; 8 << 20], b"old".to_vec()] {
                fs::write(&target, old).expect("a file");
                fs::set_permissions(&target, fs::Permissions::from_mode(0o666)).expect("a mode");
                if folder == fixed {
                    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555))
                        .expect("a mode");
                }
                let before = fs::metadata(&target).expect("a file");
                let output = user.run(&made, &folder);
                let after = fs::metadata(&target).expect("a file");
                let of = |it: &fs::Metadata| (it.ino(), it.mode(), it.uid(), it.gid());
                assert_eq!(output.status.code(), status, "{}: {output:?}", made.name());
                assert!(fs::read(&target).expect("a file") == bytes, "{}", made.name());
                assert_eq!(of(&after), of(&before), "{}", made.name());
                assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "{}", made.name());
                fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("a mode");
            }
        }
    }
}
