//! Disturbances during a treatment.

use super::*;
use std::os::fd::AsRawFd;

#[test]
fn a_record_that_is_garbage_is_said_and_the_others_are_undone() {
    let Some(place) = Place::new("garbage") else { return };
    let (_listener, all) = connected(&place, 1);
    let mut child = place.treat(&["nodelay", "--port", "7070", "--keep"]);
    assert!(child.wait().expect("it ends").success());
    let record = place.folder.join("journal/1.json");
    let whole = fs::read(&record).expect("a record");
    fs::write(place.folder.join("journal/2.json"), &whole[..whole.len() / 2]).expect("a file");
    // Of another boot: nothing of it holds.
    let mut old: Value = serde_json::from_slice(&whole).expect("JSON");
    (old["id"], old["since"]["boot_id"]) = (3.into(), "another".into());
    fs::write(place.folder.join("journal/3.json"), old.to_string()).expect("a file");
    let status = place.json(&["status"]);
    assert_eq!(status["problems"].as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(status["treatments"][1]["is_of_this_boot"], false);
    let undone = place.json(&["undo", "--all"]);
    assert_eq!(undone["undone"][0]["restored"], 2, "{undone}");
    assert_eq!(undone["undone"][1]["was_reboot"], true, "{undone}");
    assert!(!all[0].0.nodelay().unwrap());
    assert_eq!(place.run(&["undo", "2"]).status.code(), Some(2));
    assert!(place.folder.join("journal/2.json").exists(), "it is for people to look at");
}

#[test]
fn without_root_one_sentence_names_the_capability() {
    let Some(place) = Place::new("rights") else { return };
    // A copy that another user may run.
    let binary = place.folder.copy_program(env!("CARGO_BIN_EXE_tcpwhy"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let _client = TcpStream::connect(address).expect("a connection");
    let mut command = Command::new(binary);
    command.args(["treat", "nodelay", "--no-measure", "--port", &address.port().to_string()]);
    let own = place.folder.join("of nobody");
    fs::create_dir(&own).expect("a folder");
    std::os::unix::fs::chown(&own, Some(65_534), Some(65_534)).expect("its owner");
    command.env("TCPWHY_TREAT_DIR", own.join("journal"));
    let out = command.uid(65_534).gid(65_534).output().expect("tcpwhy runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("CAP_SYS_PTRACE") && said.contains("sudo"), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
}

#[test]
fn what_opened_right_before_a_kill_is_restored_to_what_each_socket_had() {
    let Some(place) = Place::new("unnoted") else { return };
    if !tcpwhy_live::hooks::BUILT {
        tcpwhy_testing::skip("built without kernel hooks");
        return;
    }
    let (listener, _all) = connected(&place, 1);
    let mut child = place.treat(&["nodelay", "--port", "7070", "--side", "server"]);
    // From here on it can note nothing; the kernel goes on.
    signal(&child, rustix::process::Signal::STOP);
    let open = || {
        let client = place.inside(|| TcpStream::connect("127.0.0.1:7070").expect("a connection"));
        (client, listener.accept().expect("a connection").0)
    };
    let new: Vec<_> = (0..300).map(|_| open()).collect();
    let has_it = |stream: &TcpStream| stream.nodelay().expect("an option");
    assert!(new.iter().all(|(_, server)| has_it(server)), "by the kernel's hook");
    // Of these the application has set one by itself.
    new[7].0.set_nodelay(true).expect("an option");
    signal(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    let undone = &place.json(&["undo", "1"])["undone"][0].clone();
    assert_eq!((&undone["restored"], &undone["failed"]), (&301.into(), &Value::Array(Vec::new())));
    assert!(!new.iter().any(|(_, server)| has_it(server)));
    assert!(has_it(&new[7].0), "it was not treated");
    assert!(place.journal_is_empty());
    assert!(!said(&place.run(&["undo", "--all"])).contains("restored"), "nothing is left");
}

#[test]
fn a_connection_that_closes_while_it_is_treated_is_said_to_be_closed() {
    let Some(place) = Place::new("closed") else { return };
    let (_listener, all) = connected(&place, 2);
    // The process that holds the sockets, and ends.
    let (_clients, servers): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let held: Vec<_> = servers.iter().map(AsRawFd::as_raw_fd).collect();
    let keep = move || {
        // SAFETY: fcntl with plain integers, on descriptors that fork has copied.
        held.iter().for_each(|&fd| assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }, 0));
        Ok(())
    };
    let mut server = Command::new("sleep");
    server.arg("60").stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: system calls alone.
    unsafe { server.pre_exec(keep) };
    let mut holder = server.spawn().expect("sleep is installed");
    drop(servers);
    let mut child = place.treat(&["nodelay", "--port", "7070", "--side", "server", "--keep"]);
    assert!(child.wait().expect("it ends").success());
    let status = place.json(&["status"]);
    let changes = status["treatments"][0]["changes"].as_array().map(Vec::len);
    assert_eq!(changes, Some(2), "{status}");
    holder.kill().expect("it runs");
    holder.wait().expect("it ends");
    let said = said(&place.run(&["undo", "--all"]));
    assert!(said.contains("2 closed since") && !said.contains("not restored"), "{said}");
    assert!(place.journal_is_empty());
}

#[test]
fn a_descriptor_that_another_socket_has_by_now_is_left_alone() {
    let Some(place) = Place::new("reused") else { return };
    let (_listener, mut all) = connected(&place, 2);
    let mut child = place.treat(&["nodelay", "--port", "7070", "--side", "server", "--keep"]);
    assert!(child.wait().expect("it ends").success());
    let (_other, ends) = place.inside(|| {
        let listener = TcpListener::bind("127.0.0.1:7071").expect("a port");
        let client = TcpStream::connect("127.0.0.1:7071").expect("a connection");
        let server = listener.accept().expect("a connection").0;
        (listener, (client, server))
    });
    ends.1.set_nodelay(true).expect("an option");
    // The number of a treated socket now names one that its application has set itself.
    let mut reused: std::os::fd::OwnedFd = all.pop().expect("a connection").1.into();
    rustix::io::dup2(&ends.1, &mut reused).expect("a descriptor");
    drop(ends.1);
    let other = TcpStream::from(reused);
    let undone = &place.json(&["undo", "--all"])["undone"][0].clone();
    assert_eq!((&undone["restored"], &undone["gone"]), (&1.into(), &1.into()), "{undone}");
    assert!(other.nodelay().expect("an option"), "it was never treated");
    assert!(!all[0].1.nodelay().expect("an option"));
}

#[test]
fn each_socket_gets_its_own_buffer_back_and_what_was_set_meanwhile_is_said() {
    let Some(place) = Place::new("each") else { return };
    let (_listener, all) = connected(&place, 4);
    let of = |at: usize| socket2::SockRef::from(&all[at].1).send_buffer_size().expect("an option");
    let set = |at: usize, bytes| {
        socket2::SockRef::from(&all[at].1).set_send_buffer_size(bytes).expect("an option");
    };
    set(0, 16 << 10);
    set(1, 64 << 10);
    let before = [0, 1, 2].map(of);
    let mut child =
        place.treat(&["buffers", "--port", "7070", "--side", "server", "--sndbuf", "1M"]);
    assert_eq!([0, 1, 2, 3].map(of), [2 << 20; 4]);
    set(3, 128 << 10);
    signal(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    let said = said(&place.run(&["undo", "1"]));
    assert!(said.contains("3 sockets restored"), "{said}");
    assert!(said.contains("1 changed by others meanwhile: left alone"), "{said}");
    assert_eq!([0, 1, 2].map(of), before);
    assert_eq!(of(3), 256 << 10, "what the application set");
}

#[test]
fn an_undo_by_the_process_that_treats_says_what_became_of_it() {
    let Some(place) = Place::new("outcome") else { return };
    let (_listener, all) = connected(&place, 2);
    let child = place.treat(&["buffers", "--port", "7070", "--side", "server", "--sndbuf", "1M"]);
    socket2::SockRef::from(&all[0].1).set_send_buffer_size(64 << 10).expect("an option");
    let said = said(&place.run(&["undo", "1"]));
    assert!(said.contains("1 socket restored"), "{said}");
    assert!(said.contains("1 changed by others meanwhile: left alone"), "{said}");
    assert!(said.contains("done by the process that treated"), "{said}");
    assert_eq!(child.wait_with_output().expect("it ends").status.code(), Some(1));
    let rest = fs::read_dir(place.folder.join("journal")).expect("a journal").flatten();
    let rest: Vec<_> = rest.map(|it| it.file_name()).collect();
    assert_eq!(rest, ["1.json"], "what others have changed stays in the journal");
    let forgotten = place.run(&["undo", "1", "--forget"]);
    assert_eq!(forgotten.status.code(), Some(1));
    assert!(place.journal_is_empty());
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn a_sandbox_without_pidfd_getfd_is_said_and_nothing_is_changed() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let Some(place) = Place::new("seccomp") else { return };
    let (listener, all) = connected(&place, 1);
    for errno in [libc::ENOSYS, libc::EPERM] {
        let rules = [(libc::SYS_pidfd_getfd, Vec::new())].into();
        let refuse = SeccompAction::Errno(errno as u32);
        let arch = std::env::consts::ARCH.try_into().expect("an architecture");
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch);
        let filter: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
        let asked = ["nodelay", "--port", "7070", "--netns", &place.name, "--no-measure"];
        let mut command = place.tcpwhy(&asked);
        let confine = move || seccompiler::apply_filter(&filter).map_err(std::io::Error::other);
        // SAFETY: the filter was made before; to apply it is two system calls.
        unsafe { command.pre_exec(confine) };
        let out = command.output().expect("tcpwhy runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains("no pidfd_getfd") && said.contains("restart"), "{said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
    }
    let _new = place.inside(|| TcpStream::connect("127.0.0.1:7070").expect("a connection"));
    let (new, _) = listener.accept().expect("a connection");
    assert!(!new.nodelay().expect("an option") && !all[0].1.nodelay().expect("an option"));
    assert!(place.journal_is_empty());
}

#[test]
fn root_without_the_capability_changes_nothing_and_names_it() {
    let Some(place) = Place::new("ptrace") else { return };
    let (listener, all) = connected(&place, 1);
    let asked = ["nodelay", "--port", "7070", "--netns", &place.name, "--no-measure"];
    let mut command = place.tcpwhy(&asked);
    const CAP_SYS_PTRACE: libc::c_ulong = 19;
    // SAFETY: prctl with plain integers. At exec root gets what the bounding set still has.
    let drop_it = || match unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: one system call, and no memory of the parent's.
    unsafe { command.pre_exec(drop_it) };
    let out = command.output().expect("tcpwhy runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("CAP_SYS_PTRACE") && said.contains("ptrace_scope"), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    let _new = place.inside(|| TcpStream::connect("127.0.0.1:7070").expect("a connection"));
    let (new, _) = listener.accept().expect("a connection");
    assert!(!new.nodelay().expect("an option") && !all[0].1.nodelay().expect("an option"));
    assert!(place.journal_is_empty());
}

/// `tcpwhy treat` after a command of the shell, with mounts of its own.
fn with_mounts(place: &Place, first: &str, arguments: &[&str]) -> Command {
    let treat = place.tcpwhy(arguments);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("{first}; exec \"$@\""), "sh"]);
    command.arg(treat.get_program()).args(treat.get_args());
    command.env("TCPWHY_TREAT_DIR", place.folder.join("journal"));
    command
}

#[test]
fn without_control_groups_new_connections_are_found_by_listing() {
    let Some(place) = Place::new("nocgroup") else { return };
    let (listener, _all) = connected(&place, 1);
    let unmount = "awk '$3 == \"cgroup2\" {print $2}' /proc/mounts | xargs -r -n 1 umount -l";
    let asked = ["nodelay", "--port", "7070", "--netns", &place.name, "--no-measure"];
    let group =
        with_mounts(&place, unmount, &["nodelay", "--cgroup", "/", "--no-measure"]).output();
    let why = String::from_utf8_lossy(&group.expect("unshare is installed").stderr).into_owned();
    assert!(why.contains("no control groups of version 2") && why.contains("--pid"), "{why}");
    let mut command = with_mounts(&place, unmount, &asked);
    let child = command.stdout(Stdio::piped()).spawn().expect("unshare is installed");
    let (child, told) = until_changed(child);
    assert!(told.contains("every 100 ms") && told.contains("no control groups"), "{told}");
    let _new = place.inside(|| TcpStream::connect("127.0.0.1:7070").expect("a connection"));
    let (new, _) = listener.accept().expect("a connection");
    let has_it = || new.nodelay().expect("an option");
    let found = (0..1_000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        has_it()
    });
    assert!(found, "listing finds it");
    end(child);
    assert!(!has_it());
}

#[test]
fn a_journal_without_room_is_said_and_nothing_is_changed() {
    let Some(place) = Place::new("full") else { return };
    // One record of so many sockets is larger than the file system.
    let (_listener, all) = connected(&place, 100);
    let mount =
        format!("mount -t tmpfs -o size=8k,mode=755 none {}/journal", place.folder.display());
    let asked = ["nodelay", "--port", "7070", "--netns", &place.name, "--no-measure"];
    let out = with_mounts(&place, &mount, &asked).output().expect("unshare is installed");
    let why = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{why}");
    assert!(why.contains("record cannot be written") && why.contains("No space left"), "{why}");
    let has_it = |stream: &TcpStream| stream.nodelay().expect("an option");
    assert!(!all.iter().any(|(client, server)| has_it(client) || has_it(server)));
}

#[test]
fn mounts_that_end_with_the_process_are_not_trusted_with_what_an_undo_needs() {
    let Some(place) = Place::new("mounts") else { return };
    let (_listener, _all) = connected(&place, 1);
    let unmount = "umount -l /sys/fs/bpf 2>/dev/null";
    let asked = ["nodelay", "--port", "7070", "--netns", &place.name, "--no-measure"];
    let mut command = with_mounts(&place, unmount, &asked);
    command.stdout(Stdio::piped());
    let (child, told) = until_changed(command.spawn().expect("unshare is installed"));
    let is_said = told.contains("/sys/fs/bpf") && told.contains("--netns");
    assert!(is_said || !tcpwhy_live::hooks::BUILT, "{told}");
    end(child);
}

#[test]
fn without_root_each_treatment_of_a_host_says_what_it_needs() {
    let Some(place) = Place::new("unprivileged") else { return };
    let (_listener, _all) = connected(&place, 1);
    ip(&["-n", &place.name, "link", "add", "near", "type", "veth", "peer", "name", "far"]);
    ip(&["-n", &place.name, "addr", "add", "10.79.0.1/24", "dev", "near"]);
    ip(&["-n", &place.name, "link", "set", "far", "up"]);
    ip(&["-n", &place.name, "link", "set", "near", "up"]);
    let file = place.folder.join("resolv.conf");
    fs::write(&file, "nameserver 10.9.9.9\n").expect("a file");
    let file = file.display().to_string();
    // A copy that another user may run, and a journal that it may write to.
    let binary = place.folder.copy_program(env!("CARGO_BIN_EXE_tcpwhy"));
    let journal = place.folder.join("nobody");
    fs::create_dir(&journal).expect("a folder");
    std::os::unix::fs::chown(&journal, Some(65_534), Some(65_534)).expect("root may");
    let limit = ["syn-flood", "--port", "7070", "--only", "limit"];
    let all: [&[&str]; 6] = [
        &["sysctl", "tcp_fin_timeout=30"],
        &["resolver", "--timeout", "1", "--file", &file],
        &["backlog", "20000", "--port", "7070"],
        &["cwnd", "--initcwnd", "20", "--to", "10.79.0.2"],
        &limit,
        &[&limit[..], &["--xdp", "--device", "near"]].concat(),
    ];
    for arguments in all {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &place.name, "setpriv", "--reuid", "65534"]);
        command.args(["--regid", "65534", "--clear-groups"]).arg(&binary).arg("treat");
        command.args(arguments).args(["--no-measure", "--for", "1s"]);
        let out = command.env("TCPWHY_TREAT_DIR", &journal).output().expect("ip is installed");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("sudo"), "{arguments:?}: {said}");
        assert_eq!(said.trim().lines().count(), 1, "{arguments:?}: {said}");
        let left = fs::read_dir(&journal).expect("a folder").flatten();
        let mut names = left.map(|it| it.file_name().to_string_lossy().into_owned());
        assert!(!names.any(|name| name.ends_with(".json")), "{arguments:?} leaves a record");
    }
}

#[test]
fn what_opens_after_an_undo_that_could_not_wait_is_restored_as_well() {
    let Some(place) = Place::new("late") else { return };
    if !tcpwhy_live::hooks::BUILT {
        tcpwhy_testing::skip("built without kernel hooks");
        return;
    }
    let (listener, all) = connected(&place, 1);
    let mut child = place.treat(&["nodelay", "--port", "7070", "--side", "server"]);
    // The process does not answer, but its hook still exists.
    signal(&child, rustix::process::Signal::STOP);
    let undone = &place.json(&["undo", "1"])["undone"][0].clone();
    let counts = (&undone["restored"], &undone["by_its_process"]);
    assert_eq!(counts, (&1.into(), &false.into()), "{undone}");
    let _new = place.inside(|| TcpStream::connect("127.0.0.1:7070").expect("a connection"));
    let (new, _) = listener.accept().expect("a connection");
    assert!(new.nodelay().expect("an option"), "by the kernel's hook");
    signal(&child, rustix::process::Signal::CONT);
    child.wait().expect("it ends");
    assert!(!new.nodelay().expect("an option") && !all[0].1.nodelay().expect("an option"));
    assert!(place.journal_is_empty());
}

/// The process that measures parses what strangers send; whatever happens to it, the change is undone.
#[test]
fn a_change_is_undone_where_the_process_that_measures_dies() {
    let Some(place) = Place::new("measured") else { return };
    let (_listener, all) = connected(&place, 1);
    let arguments = ["nodelay", "--port", "7070", "--netns", &place.name, "--measure", "300ms"];
    let mut command = place.tcpwhy(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let (child, _) = until_changed(child.expect("tcpwhy runs"));
    assert!(all[0].0.nodelay().expect("an option"));
    let measuring = crate::sandbox::children(child.id());
    assert_eq!(measuring.len(), 1);
    let measuring = rustix::process::Pid::from_raw(measuring[0] as i32).expect("a process");
    rustix::process::kill_process(measuring, rustix::process::Signal::KILL).expect("it runs");
    let out = child.wait_with_output().expect("it ends");
    let said = said(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("the process that measures"), "{said}");
    assert!(!all[0].0.nodelay().expect("an option"));
    assert!(place.journal_is_empty());
}

/// Ctrl-C at a terminal is sent to both processes; the measurement is still told.
#[test]
fn a_treatment_that_is_interrupted_tells_what_was_measured() {
    let Some(place) = Place::new("told") else { return };
    let (_listener, mut all) = connected(&place, 1);
    let arguments = ["nodelay", "--port", "7070", "--netns", &place.name, "--measure", "1s"];
    let mut command = place.tcpwhy(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("tcpwhy runs");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let out = thread::scope(|scope| {
        scope.spawn(|| {
            let (client, server) = &mut all[0];
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let mut bytes = [0; 64];
                client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("a request");
                assert!(server.read(&mut bytes).expect("a request") > 0);
                server
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                    .expect("an answer");
                assert!(client.read(&mut bytes).expect("an answer") > 0);
                thread::sleep(Duration::from_millis(5));
            }
        });
        let (child, _) = until_changed(child);
        thread::sleep(Duration::from_millis(600));
        for process in crate::sandbox::children(child.id()).into_iter().chain([child.id()]) {
            let process = rustix::process::Pid::from_raw(process as i32).expect("a process");
            rustix::process::kill_process(process, rustix::process::Signal::INT).expect("it runs");
        }
        let out = child.wait_with_output().expect("it ends");
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        out
    });
    // Whether it is faster or slower is chance here.
    let said = said(&out);
    let told = ["at Ctrl-C", "latency before after", "2 sockets restored"];
    assert!(told.iter().all(|it| said.contains(it)), "{said}");
    assert!(!said.contains("the process that measures"), "{said}");
    assert!(place.journal_is_empty());
}
