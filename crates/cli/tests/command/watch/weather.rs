//! Disturbances of a watch: signals, a target that disappears, a full disk, a full ring, a second
//! watch.

use super::{HEALTHY, NAGLE, Place, faults, interrupt, ip, reports, signal, stderr, wait_for};
use crate::outputs::private::is_kept_privately;
use crate::sandbox::children;
use aya::programs::loaded_programs;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tcpwhy_live::hooks;

/// Once packets are captured, no capability is left, and seccomp is on where the kernel has it.
fn has_given_up_its_rights(child: &Child) {
    let status = |process: &str| {
        std::fs::read_to_string(format!("/proc/{process}/status")).expect("its status")
    };
    let text = status(&child.id().to_string());
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        line.map(str::to_owned)
    };
    for set in ["CapEff", "CapPrm", "CapInh"] {
        assert_eq!(field(set).as_deref(), Some("0000000000000000"), "{text}");
    }
    assert_eq!(field("NoNewPrivs").as_deref(), Some("1"));
    if status("self").contains("Seccomp:") {
        assert_eq!(field("Seccomp").as_deref(), Some("2"));
    }
}

/// A watch of a process has no right left either, and the threads that look into the process parse
/// nothing.
#[test]
fn the_packets_of_a_process_are_kept_without_rights() {
    let Some(mut place) = Place::new() else { return };
    place.nginx();
    let pid = place.children[0].id().to_string();
    let folder = place.folder.join("kept");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.args(["watch", "--json", "--interval", "500ms", "--pid", &pid, "--write"]);
    command.arg(&folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("tcpwhy runs");
    wait_for("a packet socket", || place.packet_sockets() > 0);
    let _load = place.load(NAGLE, 2, Duration::ZERO);
    let is_of_ring = |entry: std::fs::DirEntry| entry.file_name().as_encoded_bytes()[0] == b't';
    let is_kept = || {
        let mut entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        entries.any(is_of_ring)
    };
    wait_for("a file of the ring", is_kept);
    has_given_up_its_rights(&child);
    let out = interrupt(child);
    assert!(reports(&out).last().is_some(), "{}", stderr(&out));
    is_kept_privately(&folder);
}

#[test]
fn ctrl_c_and_sigterm_print_the_report_and_kill_leaves_nothing() {
    let Some(mut place) = Place::new() else { return };
    place.nginx();
    let _load = place.load(NAGLE, 2, Duration::ZERO);
    for sent in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let child = place.watch(&["--interval", "500ms"]);
        thread::sleep(Duration::from_millis(1_300));
        has_given_up_its_rights(&child);
        // As of a terminal, which sends it to all processes in the foreground.
        for helper in children(child.id()) {
            let helper = rustix::process::Pid::from_raw(helper as i32).expect("a process");
            rustix::process::kill_process(helper, sent).expect("it runs");
        }
        signal(&child, sent);
        let out = child.wait_with_output().expect("its output");
        let text = String::from_utf8_lossy(&out.stdout);
        assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("nagle_delayed_ack at server 127.0.0.1:8080"), "{text}");
        assert!(text.contains("FAULT  nagle_delayed_ack   server 127.0.0.1:8080"), "{text}");
        assert!(text.contains("sudo tcpwhy watch --for 60s"), "{text}");
        assert!(text.contains("Watching took"), "{text}");
        assert!(!stderr(&out).contains("no state of sockets"), "{}", stderr(&out));
        wait_for("the socket is closed", || place.packet_sockets() == 0);
    }
    for capture in [&["-i", "lo", "--packet-socket"][..], &["-i", "lo"]] {
        let mut child = place.watch(capture);
        let helpers = children(child.id());
        let all: Vec<u32> = helpers.iter().copied().chain([child.id()]).collect();
        let held: Vec<u32> = all.iter().flat_map(|&pid| program_ids(pid)).collect();
        assert_eq!(held.is_empty(), !hooks::BUILT, "{held:?}");
        let anonymous = |&pid: &u32| status_field(pid, "RssAnon").expect("its memory");
        let is_small = || all.iter().map(anonymous).sum::<u64>() < MEMORY_MAX_KB;
        wait_for("little memory before anything has passed", is_small);
        child.kill().expect("a signal");
        assert_eq!(child.wait().expect("its status").signal(), Some(9));
        wait_for("the socket is closed", || place.packet_sockets() == 0);
        let is_loaded = |id: &u32| loaded_programs().any(|it| it.is_ok_and(|it| it.id() == *id));
        wait_for("the programs are gone", || !held.iter().any(is_loaded));
        let is_alive = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
        wait_for("no process is left", || !helpers.iter().any(is_alive));
    }
}

/// Without the process that reads sockets, packets are still captured and judged.
#[test]
fn a_watch_outlives_the_process_that_keeps_its_rights() {
    let Some(mut place) = Place::new() else { return };
    place.nginx();
    let _load = place.load(NAGLE, 2, Duration::ZERO);
    let child = place.watch(&["--interval", "500ms"]);
    let helpers = children(child.id());
    assert_eq!(helpers.len(), 1);
    let helper = rustix::process::Pid::from_raw(helpers[0] as i32).expect("a process");
    rustix::process::kill_process(helper, rustix::process::Signal::KILL).expect("it runs");
    thread::sleep(Duration::from_millis(1_800));
    let out = interrupt(child);
    let (text, said) = (String::from_utf8_lossy(&out.stdout), stderr(&out));
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(text.contains("FAULT  nagle_delayed_ack   server 127.0.0.1:8080"), "{text}");
    assert_eq!(said.matches("no state of sockets stands beside").count(), 1, "{said}");
    assert!(said.contains("the process that keeps the rights"), "{said}");
}

/// Memory of a watch beside its ring and the program itself before any packet has passed, kB. The
/// kernel's types take 30 MB more, as long as its programs are being loaded.
const MEMORY_MAX_KB: u64 = 24_000;

/// A number in the status of a process, as proc(5) has it.
fn status_field(pid: u32, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

/// Numbers of the BPF programs that a process holds.
fn program_ids(pid: u32) -> Vec<u32> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("root may look");
    let ids = descriptors.flatten().filter_map(|descriptor| {
        let text = std::fs::read_to_string(descriptor.path()).ok()?;
        text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
    });
    ids.collect()
}

#[test]
fn a_namespace_that_is_removed_ends_the_watch() {
    for capture in [&[][..], &["-i", "lo"]] {
        let Some(place) = Place::new() else { return };
        let child = place.watch(&[&["--json"][..], capture].concat());
        ip(&["netns", "del", &place.name]);
        let out = child.wait_with_output().expect("its output");
        let said = stderr(&out);
        assert!(said.contains(&format!("network namespace {} was removed", place.name)), "{said}");
        assert!(said.contains("nothing to judge"), "{said}");
        assert_eq!(out.status.code(), Some(2));
    }
}

/// Programs at an interface run one after the other, and each passes the packet on to the next.
#[test]
fn two_watches_of_one_interface_see_the_same() {
    let Some(mut place) = Place::new() else { return };
    place.nginx();
    let common = ["--json", "--budget", "none", "-i", "lo"];
    let first = place.watch(&common);
    let second = place.watch(&common);
    let load = place.load(HEALTHY, 4, Duration::from_millis(5));
    thread::sleep(Duration::from_millis(1_000));
    drop(load);
    let wholes = [first, second].map(|child| {
        let all = reports(&interrupt(child));
        all[all.len() - 1].clone()
    });
    let packets = |whole: &Value| whole["inputs"][0]["packets"].as_u64();
    assert!(packets(&wholes[0]) > Some(500), "{}", wholes[0]["inputs"]);
    assert_eq!(packets(&wholes[0]), packets(&wholes[1]));
    // Each takes the time by itself.
    for count in ["connections", "exchanges", "segments"] {
        assert_eq!(wholes[0]["totals"][count], wholes[1]["totals"][count], "{count}");
    }
    assert_eq!(faults(&wholes[0]), Vec::<&Value>::new());
}

#[test]
fn an_interface_that_goes_down_is_waited_for_and_one_that_is_removed_ends_the_watch() {
    let Some(place) = Place::new() else { return };
    let link = |arguments: &str| {
        let words = arguments.split(' ');
        ip(&["-n", &place.name, "link"].into_iter().chain(words).collect::<Vec<_>>());
    };
    link("add near0 type veth peer name far0");
    link("set near0 up");
    let mut child = place.watch(&["--json", "-i", "near0"]);
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    // Without programs at interfaces it says first why there are none.
    let mut said =
        said.by_ref().map_while(Result::ok).skip_while(|it| it.contains("packet socket"));
    let mut next = || said.next().expect("a line");
    link("set near0 down");
    assert_eq!(next(), "tcpwhy: interface near0 is down; waiting until it is up again");
    link("set near0 up");
    assert_eq!(next(), "tcpwhy: interface near0 is up again");
    link("del near0");
    assert_eq!(next(), "tcpwhy: interface near0 was removed; this is what was seen until then");
    assert_eq!(child.wait().expect("its status").code(), Some(2));
}

#[test]
fn why_a_packet_socket_has_to_do_is_said() {
    let Some(place) = Place::new() else { return };
    let common = ["--for", "100ms", "--interval", "100ms"];
    let said = |capture: &[&str]| {
        let child = place.watch(&[&common[..], capture].concat());
        stderr(&child.wait_with_output().expect("its output"))
    };
    let near = |words: &str| {
        ip(&["-n", &place.name, "link"].into_iter().chain(words.split(' ')).collect::<Vec<_>>());
    };
    near("add near0 type veth peer name far0");
    let lead = "a packet socket captures near0, which costs more: ";
    let text = said(&["-i", "near0"]);
    assert!(text.contains(&format!("{lead}it is down")), "{text}");
    near("set near0 up");
    let queue = "qdisc add dev near0 root tbf rate 1mbit burst 10kb latency 50ms".split(' ');
    let set = Command::new("tc").args(["-n", &place.name]).args(queue).status();
    assert!(set.expect("tc runs (iproute2)").success());
    let text = said(&["-i", "near0"]);
    let why = format!("{lead}its queueing discipline (tbf) holds packets back");
    assert_eq!(text.matches(&why).count(), 1, "{text}");
    for chosen in [&[][..], &["-i", "lo", "--packet-socket"]] {
        let text = said(chosen);
        assert!(!text.contains("a packet socket captures"), "{text}");
    }
}

#[test]
fn packets_that_the_ring_has_no_room_for_are_counted() {
    let Some(mut place) = Place::new() else { return };
    place.nginx();
    for capture in [&["-i", "lo"][..], &["-i", "lo", "--packet-socket"]] {
        counts_what_it_has_no_room_for(&place, capture);
    }
}

fn counts_what_it_has_no_room_for(place: &Place, capture: &[&str]) {
    let common = ["--json", "--buffer", "512K", "--budget", "none"];
    let child = place.watch(&[&common[..], capture].concat());
    let load = place.load(HEALTHY, 4, Duration::ZERO);
    thread::sleep(Duration::from_millis(300));
    signal(&child, rustix::process::Signal::STOP);
    thread::sleep(Duration::from_millis(1_000));
    signal(&child, rustix::process::Signal::CONT);
    thread::sleep(Duration::from_millis(300));
    drop(load);
    let all = reports(&interrupt(child));
    let whole = &all[all.len() - 1];
    assert!(whole["watch"]["dropped_packets"].as_u64() > Some(0), "{}", whole["watch"]);
    assert_eq!(whole["inputs"][0]["problems"][0]["kind"], "capture_drops");
}

/// A small file system, unmounted at the end.
struct Mount(PathBuf);

impl Mount {
    fn new(at: &Path) -> Self {
        std::fs::create_dir_all(at).expect("a folder");
        let mut mount = Command::new("mount");
        let mount =
            mount.args(["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs"]).arg(at).status();
        assert!(mount.expect("mount runs").success());
        Self(at.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_said_once_and_watching_goes_on() {
    let Some(mut place) = Place::new() else { return };
    let mount = Mount::new(&place.folder.join("small"));
    place.nginx();
    let folder = mount.0.display().to_string();
    let child = place.watch(&["--json", "--budget", "none", "--write", &folder]);
    let load = place.load(HEALTHY, 4, Duration::ZERO);
    thread::sleep(Duration::from_millis(2_500));
    drop(load);
    let out = interrupt(child);
    let said = stderr(&out);
    assert_eq!(said.matches("packets cannot be kept in").count(), 1, "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    let all = reports(&out);
    let packets = all[all.len() - 1]["inputs"][0]["packets"].as_u64();
    assert!(packets > Some(2_000), "{packets:?}");
    assert_eq!(faults(&all[all.len() - 1]), Vec::<&Value>::new());
    assert_eq!(out.status.code(), Some(0), "{said}");
}
