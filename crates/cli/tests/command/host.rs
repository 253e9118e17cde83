//! `tcpwhy host` on network namespaces in which something is wrong. Without root a test is
//! skipped and says so; as root it needs `unshare`, `nsenter`, `ip`, iptables and nginx, and fails
//! without them.

use rustix::net::{AddressFamily, RecvFlags, SocketType, netlink};
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tcpwhy_live::netns::Netns;
use tcpwhy_testing::Folder;

pub mod parts;

/// A network namespace that lives as long as a process of ours, at most 60 s.
struct Space(Child);

impl Space {
    /// `None`: not root, and the test is skipped.
    fn new() -> Option<Self> {
        if !tcpwhy_testing::privileged("network namespaces") {
            return None;
        }
        let script = "ip link set lo up && echo up && exec sleep 60";
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("unshare runs");
        let mut up = [0; 3];
        let out = child.stdout.as_mut().expect("a pipe");
        out.read_exact(&mut up).expect("a namespace with lo");
        Some(Self(child))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Runs `work` on a thread inside.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        Netns::of_process(self.pid()).and_then(|it| it.inside(work)).expect("inside")
    }

    /// Runs a program inside.
    fn run(&self, words: &[&str]) -> Output {
        let pid = self.pid().to_string();
        let enter = ["-t", &pid, "-n"];
        let out = Command::new("nsenter").args(enter).args(words).output().expect("nsenter");
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        out
    }

    fn sysctl(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.inside(|| fs::write(&path, value)).unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// `tcpwhy host` on it: exit status and report.
    fn host(&self, more: &[&str]) -> (Option<i32>, Value) {
        let pid = self.pid().to_string();
        let out = tcpwhy(&[&["host", "--pid", &pid, "--for", "600ms", "--json"], more].concat());
        let report: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| {
            panic!("no JSON: {}", String::from_utf8_lossy(&out.stderr));
        });
        let schema = include_str!("../../../../docs/host.schema.json");
        let schema = serde_json::from_str(schema).expect("a schema");
        let validator = jsonschema::validator_for(&schema).expect("a valid schema");
        let errors: Vec<_> = validator.iter_errors(&report).map(|it| it.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        (out.status.code(), report)
    }

    fn text(&self) -> String {
        let pid = self.pid().to_string();
        let out = tcpwhy(&["host", "--pid", &pid, "--for", "200ms"]);
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tcpwhy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcpwhy")).args(arguments).output().expect("tcpwhy runs")
}

/// Entries that explain something.
fn loud(report: &Value) -> Vec<&Value> {
    let entries = report["entries"].as_array().expect("entries");
    entries.iter().filter(|it| it["evidence"] != json!([])).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

#[test]
fn an_idle_namespace_explains_nothing() {
    let Some(space) = Space::new() else { return };
    let (code, report) = space.host(&[]);
    assert_eq!(loud(&report), Vec::<&Value>::new());
    assert_eq!(code, Some(0));
    assert!(report["entries"].as_array().expect("entries").len() > 25, "settings are listed");
    assert!(space.text().starts_with("Nothing in the network namespace of process"));
}

#[test]
fn a_full_accept_queue_is_named_first_with_listener_process_and_backlog() {
    let Some(space) = Space::new() else { return };
    let listener = space.inside(|| TcpListener::bind("127.0.0.1:8080").expect("a port"));
    rustix::net::listen(&listener, 4).expect("a shorter backlog");
    let is_over = AtomicBool::new(false);
    let (code, report) = thread::scope(|scope| {
        scope.spawn(|| {
            space.inside(|| {
                let mut open = Vec::new();
                let end: SocketAddr = "127.0.0.1:8080".parse().expect("an address");
                // Most attempts get no answer.
                while !is_over.load(Ordering::Relaxed) {
                    open.extend(TcpStream::connect_timeout(&end, Duration::from_millis(15)));
                }
            });
        });
        thread::sleep(Duration::from_millis(300));
        let result = space.host(&[]);
        is_over.store(true, Ordering::Relaxed);
        result
    });
    assert_eq!(code, Some(1));
    let first = loud(&report)[0];
    assert_eq!(first["explains"], json!(["accept_queue_overflow"]), "{first:#}");
    assert!(text(&first["what"]).ends_with("127.0.0.1:8080"));
    let value = text(&first["value"]);
    assert!(value.contains("backlog 4") && value.contains(&format!("(pid {})", own())), "{value}");
    let grew = first["evidence"].as_array().expect("evidence").iter();
    let mut grew = grew.filter(|it| it["counter"] == "TcpExt.ListenOverflows");
    assert!(grew.next().expect("the counter")["grew_by"].as_u64() > Some(3));
}

fn own() -> u32 {
    std::process::id()
}

#[test]
fn used_up_local_ports_are_named_first_with_their_destination() {
    let Some(space) = Space::new() else { return };
    space.sysctl("net.ipv4.ip_local_port_range", "40000 40063");
    space.sysctl("net.ipv4.tcp_tw_reuse", "0");
    let last = space.inside(|| {
        let listener = TcpListener::bind("127.0.0.1:8080").expect("a port");
        let end = listener.local_addr().expect("an address");
        for _ in 0..200 {
            match TcpStream::connect(end) {
                // The client closes first: TIME-WAIT. A program that another test starts at this
                // moment holds a copy of both ends, so that closing alone would send no FIN.
                Ok(client) => {
                    let (mut server, _) = listener.accept().expect("accepted");
                    client.shutdown(Shutdown::Write).expect("a FIN");
                    assert_eq!(server.read(&mut [0]).expect("the end"), 0);
                    server.shutdown(Shutdown::Write).expect("a FIN");
                }
                Err(error) => return Some(error.raw_os_error()),
            }
        }
        None
    });
    assert_eq!(last, Some(Some(99)), "EADDRNOTAVAIL");
    let (code, report) = space.host(&[]);
    assert_eq!(code, Some(1));
    let first = loud(&report)[0];
    assert_eq!(first["explains"], json!(["port_exhaustion"]), "{first:#}");
    assert!(text(&first["what"]).ends_with("to 127.0.0.1:8080"));
    assert!(text(&first["evidence"][0]["sentence"]).starts_with("64 of 64"));
    let undo = text(&first["change"]["undo"]);
    assert!(undo.ends_with("sysctl -w net.ipv4.ip_local_port_range='40000 40063'"), "{undo}");
}

/// Attributes of netlink (`struct nlattr`).
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A message that adds an entry to the table of tracked connections which is not dropped for
/// others (linux/netfilter/nfnetlink_conntrack.h): a UDP flow with answers.
fn tracked(number: u32) -> Vec<u8> {
    const NESTED: u16 = 0x8000;
    let [_, high, low, port] = number.to_be_bytes();
    let near = ([10, high, low, 1], [4, port]);
    let far = ([10, 255, 255, 2], [0, 80]);
    let tuple = |kind: u16, from: ([u8; 4], [u8; 2]), to: ([u8; 4], [u8; 2])| {
        let ip = [attribute(1, &from.0), attribute(2, &to.0)].concat();
        let udp = [attribute(1, &[17]), attribute(2, &from.1), attribute(3, &to.1)].concat();
        let both = [attribute(1 | NESTED, &ip), attribute(2 | NESTED, &udp)].concat();
        attribute(kind | NESTED, &both)
    };
    let status: u32 = 2 | 4 | 8; // SEEN_REPLY, ASSURED, CONFIRMED
    let body = [
        vec![2, 0, 0, 0], // struct nfgenmsg: AF_INET
        tuple(1, near, far),
        tuple(2, far, near),
        attribute(3, &status.to_be_bytes()),
        attribute(7, &120u32.to_be_bytes()),
    ]
    .concat();
    let mut message = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend((1u16 << 8).to_ne_bytes()); // ctnetlink, IPCTNL_MSG_CT_NEW
    message.extend(0x601u16.to_ne_bytes()); // REQUEST, CREATE, EXCL
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Adds entries until there are `target` of them.
fn fill_table(target: u32) {
    let family = AddressFamily::NETLINK;
    let socket = rustix::net::socket(family, SocketType::RAW, Some(netlink::NETFILTER));
    let socket = socket.expect("a socket of netlink");
    let mut answer = [0; 8_192];
    for first in (0..target).step_by(64) {
        let batch: Vec<u8> = (first..(first + 64).min(target)).flat_map(tracked).collect();
        rustix::io::write(&socket, &batch).expect("the kernel takes them");
        // The kernel answers only requests that it refuses.
        while rustix::net::recv(&socket, &mut answer, RecvFlags::DONTWAIT).is_ok() {}
    }
}

#[test]
fn a_full_table_of_tracked_connections_is_named_first() {
    let Some(space) = Space::new() else { return };
    let rule = ["-A", "OUTPUT", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP"];
    space.run(&[&["iptables", "-w"], &rule[..]].concat());
    let limit = "/proc/sys/net/netfilter/nf_conntrack_max";
    // One limit for the whole machine on most kernels: the table is filled instead of shrunk.
    let max = space.inside(|| {
        let _ = fs::write(limit, "500");
        fs::read_to_string(limit).expect("connection tracking").trim().parse::<u32>()
    });
    let max = max.expect("a number");
    if max > 1 << 20 {
        tcpwhy_testing::skip_in_ci_too(&format!("the table takes {max} entries: too many to fill"));
        return;
    }
    space.inside(|| fill_table(max));
    let is_over = AtomicBool::new(false);
    let (code, report) = thread::scope(|scope| {
        scope.spawn(|| {
            space.inside(|| {
                let end: SocketAddr = "127.0.0.1:8080".parse().expect("an address");
                while !is_over.load(Ordering::Relaxed) {
                    let _ = TcpStream::connect_timeout(&end, Duration::from_millis(20));
                }
            });
        });
        let result = space.host(&[]);
        is_over.store(true, Ordering::Relaxed);
        result
    });
    assert_eq!(code, Some(1));
    let first = loud(&report)[0];
    assert_eq!(first["explains"], json!(["conntrack_full"]), "{:#}", report["entries"][0]);
    let grew = first["evidence"].as_array().expect("evidence").iter();
    assert!(grew.filter(|it| it["kind"] == "counter").count() > 0, "{first:#}");
    let undo = text(&first["change"]["undo"]);
    assert_eq!(undo, format!("sysctl -w net.netfilter.nf_conntrack_max={max}"));
}

/// nginx in a namespace, with a folder of its own; both end with it.
struct Nginx {
    child: Child,
    folder: Folder,
}

impl Nginx {
    /// Serves a file at port 8080 with `tcp_nodelay` as given in line 8.
    fn start(space: &Space, nodelay: &str) -> Self {
        let folder = Folder::new();
        let at = folder.display();
        let text = format!(
            "daemon off;\npid {at}/pid;\nerror_log {at}/log;\nuser root;\nworker_processes 1;\n\
             events {{}}\nhttp {{\n  tcp_nodelay {nodelay};\n  sendfile on;\n  access_log off;\n  \
             client_body_temp_path {at}/b;\n  proxy_temp_path {at}/p;\n  \
             fastcgi_temp_path {at}/f;\n  uwsgi_temp_path {at}/u;\n  scgi_temp_path {at}/s;\n  \
             server {{ listen 127.0.0.1:8080; root {at}; }}\n}}\n"
        );
        fs::write(folder.join("nginx.conf"), text).expect("a configuration");
        let pid = space.pid().to_string();
        let config = folder.join("nginx.conf");
        let words = ["-t", &pid, "-n", "nginx", "-c", config.to_str().expect("a path")];
        let child = Command::new("nsenter").args(words).spawn().expect("nginx");
        let began = Instant::now();
        while !space.inside(|| TcpStream::connect("127.0.0.1:8080").is_ok()) {
            assert!(began.elapsed() < Duration::from_secs(60), "nginx listens");
            thread::sleep(Duration::from_millis(20));
        }
        Self { child, folder }
    }

    fn report(&self, endpoint: &str) -> PathBuf {
        let finding = json!({
            "cause": "nagle_delayed_ack",
            "headline": "Nagle's algorithm and delayed ACKs cost 41 ms of each answer",
            "culprit": { "role": "server", "endpoint": endpoint },
            "connection": { "client": "127.0.0.1:50000", "server": endpoint },
        });
        let report = json!({ "schema_version": 1, "findings": [finding] });
        let path = self.folder.join("report.json");
        fs::write(&path, report.to_string()).expect("a report");
        path
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM: the master ends its workers.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

#[test]
fn the_directive_behind_a_finding_is_named_with_file_and_line() {
    let Some(space) = Space::new() else { return };
    let nginx = Nginx::start(&space, "off");
    let (code, quiet) = space.host(&[]);
    assert_eq!((code, loud(&quiet).len()), (Some(0), 0), "off, and nobody waits: {quiet:#}");
    let report = nginx.report("127.0.0.1:8080");
    let report = ["--for-report", report.to_str().expect("a path")];
    let (code, found) = space.host(&report);
    assert_eq!(code, Some(1));
    let first = loud(&found)[0];
    assert_eq!(first["check"], "nginx_tcp_nodelay", "{first:#}");
    let config = nginx.folder.join("nginx.conf");
    let place = format!("off for 127.0.0.1:8080: {}:8, block http", config.display());
    assert_eq!(first["value"], place);
    assert_eq!(found["findings"][0]["whose"], "here");
    assert_eq!(found["findings"][0]["is_explained"], true);

    // The command that is shown repairs it, and the other one undoes that.
    let shell = |command: &Value| {
        let done = Command::new("sh").args(["-c", text(command)]).status();
        assert!(done.expect("a shell").success(), "{command}");
    };
    let before = fs::read_to_string(&config).expect("the file");
    shell(&first["change"]["command"]);
    let after = fs::read_to_string(&config).expect("the file");
    assert_eq!(after, before.replace("tcp_nodelay off", "tcp_nodelay on"));
    shell(&first["change"]["undo"]);
    assert_eq!(fs::read_to_string(&config).expect("the file"), before);

    // A finding at another host is not this one's.
    let report = nginx.report("192.0.2.7:8080");
    let (code, elsewhere) = space.host(&["--for-report", report.to_str().expect("a path")]);
    assert_eq!((code, loud(&elsewhere).len()), (Some(0), 0));
    assert_eq!(elsewhere["findings"][0]["whose"], "elsewhere");
}

#[test]
fn a_configuration_that_was_not_loaded_is_said() {
    let Some(space) = Space::new() else { return };
    let nginx = Nginx::start(&space, "on");
    let config = nginx.folder.join("nginx.conf");
    let text_now = fs::read_to_string(&config).expect("the file");
    fs::write(&config, text_now.replace("tcp_nodelay on", "tcp_nodelay off")).expect("a file");
    // As if it was changed some time after the start.
    let file = fs::File::options().write(true).open(&config).expect("the file");
    file.set_modified(SystemTime::now() + Duration::from_secs(2)).expect("a time");
    let report = nginx.report("127.0.0.1:8080");
    let (_, found) = space.host(&["--for-report", report.to_str().expect("a path")]);
    let first = loud(&found)[0];
    assert!(text(&first["value"]).contains("was changed after this nginx"), "{first:#}");
}

#[test]
fn what_cannot_be_done_is_an_error_with_a_way_on() {
    let fails = |arguments: &[&str], words: &str| {
        let out = tcpwhy(&[&["host"], arguments].concat());
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{error}");
        assert!(error.contains(words), "{error}");
    };
    fails(&["--pid", "4194305"], "pgrep");
    fails(&["--netns", "no-such-namespace"], "ip netns list");
    fails(&["--for-report", "/no/such/file"], "/no/such/file cannot be read");
    fails(&["--for-report", "/proc/self/status"], "tcpwhy FILE --json");
    fails(&["--for", "3"], "1.5s");
    fails(&["--for", "5ms"], "from 100ms to 3600s");
}
