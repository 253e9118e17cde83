use super::*;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::process::{Child, Stdio};

/// A directory in place of the system's for temporary files.
struct Place(tcpwhy_testing::Folder);

impl Place {
    fn new() -> Self {
        Self(tcpwhy_testing::Folder::with_mode(0o1777))
    }

    /// Makes a directory of the lab that says to be kept up by `owner`.
    fn kept(&self, owner: Owner) -> PathBuf {
        let Owner { pid, start_ticks } = owner;
        let name = format!("{PREFIX}{pid}.{start_ticks}-{:016x}", random());
        let folder = Folder::create_new(&self.0, &name).unwrap();
        folder.write(KEPT, b"refused").unwrap();
        folder.path().to_owned()
    }
}

/// A process that waits until it is ended.
struct Bystander(Child);

impl Bystander {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap())
    }

    fn owner(&self) -> Owner {
        let pid = self.0.id();
        Owner { pid, start_ticks: start_ticks(pid).unwrap() }
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_kept_stage_is_ended_by_its_process_only() {
    let (place, mut holder) = (Place::new(), Bystander::start());
    let dir = place.kept(holder.owner());
    thread::scope(|scope| {
        // Stands for the process, which removes its directory last.
        scope.spawn(|| {
            let _ = holder.0.wait();
            let _ = fs::remove_dir_all(&dir);
        });
        let ended = end_kept(&place.0);
        assert_eq!(ended.len(), 1);
        assert!(ended[0].starts_with("refused, which was kept up by process "), "{ended:?}");
    });
}

#[test]
fn a_process_with_the_number_of_another_is_not_signalled() {
    let (place, mut bystander) = (Place::new(), Bystander::start());
    let Owner { pid, start_ticks } = bystander.owner();
    let dir = place.kept(Owner { pid, start_ticks: start_ticks - 1 });
    assert!(end_kept(&place.0).is_empty());
    assert!(bystander.is_alive());
    // Its own process has ended, so the directory was left behind.
    assert_eq!(remove_orphans(&place.0).len(), 1);
    assert!(!dir.exists());
}

#[test]
fn what_others_prepared_is_neither_believed_nor_removed() {
    let (place, mut bystander) = (Place::new(), Bystander::start());
    let gone = Owner { pid: u32::MAX - 1, start_ticks: 1 };
    let mut planted = Vec::new();
    for owner in [bystander.owner(), gone] {
        // Others may look into it: the lab makes no such directory.
        let open = place.kept(owner);
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        // A link to a directory that would be believed.
        let target = place.kept(owner);
        let aside = place.0.join(format!("aside-{:016x}", random()));
        fs::rename(&target, &aside).unwrap();
        symlink(&aside, &target).unwrap();
        planted.extend([open, target, aside]);
        if sys::is_root() {
            let foreign = place.kept(owner);
            lchown(&foreign, Some(65_534), Some(65_534)).unwrap();
            planted.push(foreign);
        } else {
            tcpwhy_testing::skip("directories of another user: needs root");
        }
    }
    assert_eq!((end_kept(&place.0), remove_orphans(&place.0)), (vec![], vec![]));
    assert!(bystander.is_alive());
    assert!(planted.iter().all(|path| fs::symlink_metadata(path).is_ok()));
}

#[test]
fn temporary_directories_are_private_and_their_names_say_whose_they_are() {
    let dirs = [temporary_dir().unwrap(), temporary_dir().unwrap()];
    for dir in &dirs {
        assert_eq!(fs::metadata(dir).unwrap().mode() & 0o7777, 0o700);
        let name = dir.file_name().unwrap().to_string_lossy();
        let own = Owner::of(&name).unwrap();
        assert_eq!((own.pid, own.running().is_some()), (process::id(), true));
        assert!(!is_orphan(&name));
    }
    assert_ne!(dirs[0], dirs[1]);
    dirs.iter().for_each(remove_dir);
}
