//! Before a byte is parsed, the process gives up what parsing does not need.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tcpwhy_testing::{Folder, privileged};

/// A capture without frames.
const HEADER: [u8; 24] =
    [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 1, 0, 0, 0];

fn has_landlock() -> bool {
    use landlock::{AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    required.handle_access(AccessFs::ReadFile).and_then(|rules| rules.create()).is_ok()
}

fn status(process: &Path, field: &str) -> Option<u32> {
    let text = fs::read_to_string(process.join("status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line?.trim().parse().ok()
}

/// Reads standard input, on which the capture has begun.
fn under_way(more: &[&Path]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.arg("-").args(more).args(["--threads", "3"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("tcpwhy runs");
    child.stdin.as_mut().expect("a pipe").write_all(&HEADER).expect("a reader");
    child
}

/// Waits until the sandbox is on, at most a few seconds.
fn is_confined(child: &Child) -> bool {
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    (0..500).any(|_| {
        sleep(Duration::from_millis(10));
        status(&process, "Seccomp") == Some(2)
    })
}

fn end(mut child: Child) -> Output {
    drop(child.stdin.take());
    child.wait_with_output().expect("it ends")
}

/// Returns whether the kernel has seccomp; without it, the status file has no such line.
fn has_seccomp() -> bool {
    status(Path::new("/proc/self"), "Seccomp").is_some()
}

#[test]
fn every_thread_that_parses_is_confined() {
    if !has_seccomp() {
        return;
    }
    let child = under_way(&[]);
    assert!(is_confined(&child));
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).expect("a running process");
    for task in tasks {
        let task = task.expect("a thread").path();
        assert_eq!((status(&task, "Seccomp"), status(&task, "NoNewPrivs")), (Some(2), Some(1)));
    }
    let output = end(child);
    // A header alone: it was read, and there was nothing to judge.
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("nothing to judge"), "{error}");
}

#[test]
fn only_the_captures_named_can_be_opened() {
    if !has_seccomp() || !has_landlock() {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sandbox");
    fs::create_dir_all(&folder).expect("a folder");
    let (named, other) = (folder.join("named.pcap"), folder.join("other.pcap"));
    for replaced in [false, true] {
        fs::write(&named, HEADER).expect("a file");
        fs::write(&other, HEADER).expect("a file");
        let child = under_way(&[&named]);
        assert!(is_confined(&child));
        if replaced {
            fs::rename(&other, &named).expect("the same folder");
        }
        let output = end(child);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.contains("ermi"), replaced, "{text}");
    }
}

/// Starts tcpwhy where the kernel refuses these system calls.
fn refused(calls: &[i64], arguments: &[&str]) -> Output {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
    let rules: BTreeMap<_, _> = calls.iter().map(|&call| (call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
    let arch = std::env::consts::ARCH.try_into().expect("a known one");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    let journal = Folder::new();
    command.args(arguments).stdin(Stdio::null()).env("TCPWHY_TREAT_DIR", &*journal);
    // SAFETY: applying a filter makes system calls alone; nothing is allocated.
    unsafe { command.pre_exec(move || apply_filter(&program).map_err(std::io::Error::other)) };
    command.output().expect("tcpwhy runs")
}

#[test]
fn a_sandbox_that_cannot_be_set_up_is_said_once_and_the_work_goes_on() {
    if !has_seccomp() || !has_landlock() {
        return;
    }
    let capture = capture("nginx_nodelay_off.pcap");
    let folder = Folder::new();
    let page = folder.join("page.html").display().to_string();
    let cases: [(&[i64], &[&str]); 3] = [
        (&[], &[]),
        (&[libc::SYS_landlock_create_ruleset], &["no Landlock"]),
        (&[libc::SYS_landlock_create_ruleset, libc::SYS_seccomp], &["no Landlock", "seccomp: "]),
    ];
    for (calls, words) in cases {
        for arguments in [&[&*capture][..], &["report", &capture, "-o", &page]] {
            let output = refused(calls, arguments);
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
            assert_eq!(error.lines().count(), usize::from(!words.is_empty()), "{error}");
            assert!(words.iter().all(|it| error.contains(it)), "{error}");
        }
    }
}

#[test]
fn a_measurement_says_once_what_its_sandbox_lacks() {
    if !has_seccomp() || !has_landlock() {
        return;
    }
    let server = super::load::server(super::load::OK);
    let url = format!("http://{server}/");
    let _client = TcpStream::connect(server).expect("a connection");
    let port = server.port().to_string();
    let measure = ["--load", &url, "--measure", "200ms", "--for", "400ms"];
    let load = ["load", &url, "-n", "2", "--no-explain"];
    let treat = [&["treat", "nodelay", "--port", &port][..], &measure].concat();
    let cases: [(&[i64], usize); 2] = [(&[], 0), (&[libc::SYS_landlock_create_ruleset], 1)];
    for (calls, lines) in cases {
        for arguments in [&load[..], &treat] {
            if arguments[0] == "treat" && !privileged("capturing packets") {
                continue;
            }
            let output = refused(calls, arguments);
            let error = String::from_utf8_lossy(&output.stderr);
            // Whether so short a treatment makes it slower, which is status 1, is chance.
            assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {error}");
            assert_eq!(error.lines().count(), lines, "{arguments:?}: {error}");
            assert!(lines == 0 || error.contains("no Landlock"), "{error}");
        }
    }
}

#[test]
fn files_that_the_user_named_are_read_with_the_rights_that_are_given_up_after() {
    if !privileged("files of other users") {
        return;
    }
    const OTHER: u32 = 65_534;
    let folder = Folder::new();
    let body = folder.join("body");
    fs::write(&body, "of another user").expect("a file");
    for path in [&body, &*folder] {
        std::os::unix::fs::chown(path, Some(OTHER), Some(OTHER)).expect("root may");
    }
    let url = format!("http://{}/", super::load::server(super::load::OK));
    let body = format!("@{}", body.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    let output = command.args(["load", &url, "-n", "1", "--body", &body]).output();
    let output = output.expect("tcpwhy runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

fn capture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    folder.join(name).display().to_string()
}

/// Capabilities by their number (linux/capability.h).
const CAPABILITIES: [(&str, u32); 13] = [
    ("CHOWN", 0),
    ("DAC_OVERRIDE", 1),
    ("DAC_READ_SEARCH", 2),
    ("FOWNER", 3),
    ("FSETID", 4),
    ("NET_ADMIN", 12),
    ("NET_RAW", 13),
    ("SYS_PTRACE", 19),
    ("SYS_ADMIN", 21),
    ("SYS_RESOURCE", 24),
    ("SYSLOG", 34),
    ("PERFMON", 38),
    ("BPF", 39),
];

/// Words of the table with which a process begins that `tcpwhy_privileged` starts.
const HELPER: &str = "the process ";

/// What a thread may do: its effective capabilities, and whether seccomp limits its calls.
type Rights = (u64, bool);

/// The rights of threads; `true` for those of the process with rights.
type All = BTreeSet<(bool, Rights)>;

fn rights(task: &Path) -> Option<Rights> {
    let text = fs::read_to_string(task.join("status")).ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Some(line?.trim().to_owned())
    };
    let effective = u64::from_str_radix(&field("CapEff")?, 16).ok()?;
    // No right can come back.
    let (permitted, ambient) = (field("CapPrm")?, field("CapAmb")?);
    let held = [permitted, ambient].map(|it| u64::from_str_radix(&it, 16));
    assert!(held.into_iter().flatten().all(|it| it & !effective == 0), "{text}");
    Some((effective, field("Seccomp")? == "2"))
}

/// Returns the rights of each command's threads according to the table in SECURITY.md.
fn table() -> BTreeMap<String, All> {
    let text = include_str!("../../../../SECURITY.md");
    let section = text.split_once("## What each command may do").expect("the section").1;
    let section = section.split_once("\n## ").expect("the next one").0;
    let (own, _) = rights(Path::new("/proc/self")).expect("this process");
    let mut table: BTreeMap<String, All> = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let capabilities = match cells[2] {
            "none" => 0,
            "as started" => own,
            named => named.split(", ").fold(0, |bits, name| {
                let name = name.trim_matches('`');
                let (_, number) = CAPABILITIES.iter().find(|it| it.0 == name).expect("it is known");
                bits | 1 << number & own
            }),
        };
        for command in cells[0].split(", ") {
            let of_command = table.entry(command.trim_matches('`').to_owned()).or_default();
            of_command.insert((cells[1].starts_with(HELPER), (capabilities, cells[3] == "yes")));
        }
    }
    table
}

/// Returns the processes that this one has started.
pub fn children(pid: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |child: &u32| status(Path::new(&format!("/proc/{child}")), "PPid") == Some(pid);
    numbers.filter(is_child).collect()
}

fn rights_of_all(pid: u32) -> All {
    let of_process = |pid: u32, is_helper: bool| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks.filter_map(move |task| Some((is_helper, rights(&task.path())?)))
    };
    let of_helpers = children(pid).into_iter().flat_map(|helper| of_process(helper, true));
    of_process(pid, false).chain(of_helpers).collect()
}

/// Number of looks, one every millisecond, in which the rights have to stay.
const LOOKS: u32 = 50;

/// Waits until the threads of a command have just the rights `wanted` and keep them, and ends it.
fn has_just(mut command: Command, wanted: &All) -> Result<(), String> {
    // Standard input stays open: what ends with it goes on.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let (began, mut seen) = (Instant::now(), BTreeSet::new());
    let mut looks = 0;
    while looks < LOOKS && began.elapsed() < Duration::from_secs(10) {
        let now = rights_of_all(child.id());
        looks = if now == *wanted { looks + 1 } else { 0 };
        seen.insert(now);
        sleep(Duration::from_millis(1));
    }
    let helpers = children(child.id());
    let _ = child.kill();
    let _ = child.wait();
    for helper in helpers {
        let is_gone = || !Path::new(&format!("/proc/{helper}")).exists();
        let ends = (0..500).any(|_| is_gone() || (sleep(Duration::from_millis(10)), false).1);
        assert!(ends, "process {helper} outlives the command that it served");
    }
    if looks == LOOKS { Ok(()) } else { Err(format!("wanted {wanted:x?}, saw {seen:x?}")) }
}

/// A capture that takes a while.
fn long_capture(folder: &Folder) -> String {
    let bytes = fs::read(capture("nginx_nodelay_off.pcap")).expect("a capture");
    let (head, frames) = bytes.split_at(24);
    let path = folder.join("long.pcap");
    fs::write(&path, [head, &frames.repeat(400)].concat()).expect("a file");
    path.display().to_string()
}

#[test]
fn the_rights_of_each_command_are_those_of_the_table() {
    if !has_seccomp() || !privileged("capabilities") {
        return;
    }
    let folder = Folder::new();
    let (long, out) = (long_capture(&folder), folder.join("out").display().to_string());
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("an address"));
    let resolver = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let resolver = resolver.local_addr().expect("an address").to_string();
    let (anonymous, tables) = (format!("{out}.pcap"), format!("{out}.tables"));
    let own = std::process::id().to_string();
    // Sockets that a treatment could change; it measures first.
    let port = silent.local_addr().expect("an address").port().to_string();
    let _client =
        TcpStream::connect(silent.local_addr().expect("an address")).expect("a connection");
    let here = folder.display().to_string();
    let commands: [(&str, &[&str]); 17] = [
        ("explain", &["explain", &long]),
        ("compare", &["compare", &long, &long]),
        ("mcp", &["mcp", &here]),
        ("report", &["report", &long, "-o", &out]),
        ("annotate", &["annotate", &long, "-o", &out]),
        ("anonymize", &["anonymize", &long, "-o", &anonymous]),
        ("compare -o", &["compare", &long, &long, "-o", &out]),
        ("explain --parquet", &["explain", &long, "--parquet", &tables]),
        ("watch", &["watch", "-i", "lo"]),
        ("watch --pid", &["watch", "--pid", &own]),
        ("watch", &["watch", "--otlp", "http://127.0.0.1:9/", "--metrics", "127.0.0.1:0"]),
        ("doctor", &["doctor", &url]),
        ("load", &["load", &url, "-d", "5s"]),
        ("probe", &["probe", &url]),
        ("dns", &["dns", "example.org", "--server", &resolver]),
        ("drops", &["drops", "--for", "5s"]),
        ("treat", &["treat", "nodelay", "--port", &port, "--load", &url]),
    ];
    let table = table();
    for (name, words) in commands {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
        command.args(words);
        let wanted = table.get(name).unwrap_or_else(|| panic!("{name} has no row in SECURITY.md"));
        has_just(command, wanted).unwrap_or_else(|why| panic!("{words:?}: {why}"));
    }
    let rest: Vec<_> =
        table.keys().filter(|it| commands.iter().all(|(name, _)| name != it)).collect();
    // These end at once, or make namespaces; they have the rights of `drops`.
    assert_eq!(rest, ["host", "lab", "sockets"]);
    assert!(rest.iter().all(|&it| table[it] == table["drops"]));
}
