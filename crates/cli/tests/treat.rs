//! `tcpwhy treat` on real servers, in namespaces of its own. It needs root; without, the tests say
//! that they are skipped.
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tcpwhy_live::netns::Netns;

#[path = "treat/host.rs"]
mod host;
#[path = "treat/lab.rs"]
mod lab;

/// Longer than Nagle's algorithm waits for Linux's delayed ACK (40 ms) less scheduling.
const SLOW: Duration = Duration::from_millis(30);
/// Shorter than any delayed ACK.
const FAST: Duration = Duration::from_millis(8);

/// A network namespace and a journal; both go with it.
struct Place {
    name: String,
    folder: PathBuf,
}

impl Place {
    /// `None` without root, which is said.
    fn new(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: network namespaces need root");
            return None;
        }
        let name = format!("tw-treat-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("journal")).expect("a folder");
        ip(&["netns", "add", &name]);
        ip(&["-n", &name, "link", "set", "lo", "up"]);
        Some(Self { name, folder })
    }

    fn tcpwhy(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
        command.arg("treat").args(arguments);
        command.env("TCPWHY_TREAT_DIR", self.folder.join("journal"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.tcpwhy(arguments).output().expect("tcpwhy runs")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let out = self.run(&[arguments, &["--json"]].concat());
        checked(&out.stdout, &String::from_utf8_lossy(&out.stderr))
    }

    /// Starts a treatment, and returns when it has changed what is there.
    fn treat(&self, arguments: &[&str]) -> Child {
        let arguments = [arguments, &["--netns", &self.name, "--no-measure"]].concat();
        let mut child =
            self.tcpwhy(&arguments).stdout(Stdio::piped()).spawn().expect("tcpwhy runs");
        let mut said = Vec::new();
        let out = child.stdout.as_mut().expect("a pipe");
        while !String::from_utf8_lossy(&said).contains("  undo ") {
            let mut byte = [0];
            assert_eq!(out.read(&mut byte).expect("readable"), 1, "it goes on");
            said.push(byte[0]);
        }
        child
    }

    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        Netns::find(&self.name).expect("the namespace").inside(work).expect("entered")
    }

    fn journal_is_empty(&self) -> bool {
        let entries = fs::read_dir(self.folder.join("journal")).expect("a journal");
        let mut names = entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned());
        !names.any(|name| name.ends_with(".json"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.name]);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().expect("ip is installed");
    assert!(status.success() || thread::panicking(), "ip {arguments:?}");
}

/// The document, valid by its schema.
fn checked(bytes: &[u8], said: &str) -> Value {
    let value = serde_json::from_slice(bytes).unwrap_or_else(|_| panic!("JSON: {said}"));
    let schema = include_str!("../../../docs/treat.schema.json");
    let schema = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    value
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("it runs");
}

/// nginx that sends header and body apart with `tcp_nodelay off`.
struct Nginx(Child);

impl Nginx {
    fn start(place: &Place) -> Self {
        Self::start_in(place, None)
    }

    /// In a control group.
    fn start_in(place: &Place, cgroup: Option<&Path>) -> Self {
        let folder = place.folder.display();
        fs::write(place.folder.join("file.bin"), [b'n'; 500]).expect("a file");
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {folder}/{kind};"))
            .concat();
        let conf = format!(
            "user root; daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/log;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ access_log off; keepalive_requests 1000000; sendfile on; tcp_nopush off;\n\
             tcp_nodelay off; {paths} server {{ listen 127.0.0.1:8080; root {folder}; }} }}\n"
        );
        let path = place.folder.join("nginx.conf");
        fs::write(&path, conf).expect("a file");
        let enter = cgroup.map(|it| format!("echo $$ >{}/cgroup.procs; ", it.display()));
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{}exec \"$@\"", enter.unwrap_or_default()));
        command.args(["sh", "ip", "netns", "exec", &place.name, "nginx", "-e"]);
        command.arg(place.folder.join("log")).arg("-c").arg(path);
        let nginx = Self(command.stderr(Stdio::null()).spawn().expect("nginx is installed"));
        let connects = (0..100).any(|_| {
            thread::sleep(Duration::from_millis(20));
            place.inside(|| TcpStream::connect("127.0.0.1:8080").is_ok())
        });
        assert!(connects, "nginx listens");
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        signal(&self.0, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Keep-alive connections that ask one request after the other, until it is dropped.
struct Load {
    ending: Arc<AtomicBool>,
    failed: Arc<AtomicU64>,
    latencies: Receiver<Duration>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(place: &Place, connections: usize) -> Self {
        let (ending, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (send, latencies) = channel();
        let mut clients = Vec::new();
        for _ in 0..connections {
            let mut stream = place.inside(|| TcpStream::connect("127.0.0.1:8080").expect("nginx"));
            let (ending, failed, send) = (ending.clone(), failed.clone(), send.clone());
            clients.push(thread::spawn(move || {
                while !ending.load(Ordering::Relaxed) {
                    match request(&mut stream) {
                        Ok(latency) => drop(send.send(latency)),
                        Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                    }
                    thread::sleep(Duration::from_millis(4));
                }
            }));
        }
        Self { ending, failed, latencies, clients }
    }

    /// The median of what is asked from now on, for so long.
    fn median(&self, time: Duration) -> Duration {
        while self.latencies.try_recv().is_ok() {}
        thread::sleep(time);
        let mut all: Vec<Duration> = self.latencies.try_iter().collect();
        all.sort();
        all[all.len() / 2]
    }

    fn end(self) -> u64 {
        self.ending.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().expect("it ends"));
        self.failed.load(Ordering::Relaxed)
    }
}

fn request(stream: &mut TcpStream) -> std::io::Result<Duration> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let began = Instant::now();
    stream.write_all(b"GET /file.bin HTTP/1.1\r\nHost: test\r\n\r\n")?;
    let (mut got, mut buffer) = (Vec::new(), [0; 65_536]);
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        got.extend_from_slice(&buffer[..length]);
        let header = got.windows(4).position(|window| window == b"\r\n\r\n");
        if header.is_some_and(|header| got.len() >= header + 4 + content_length(&got[..header])) {
            return Ok(began.elapsed());
        }
    }
}

/// The slowest of requests so many that the kernel delays ACKs again: at the beginning of a
/// connection it does not.
fn slowest(stream: &mut TcpStream) -> Duration {
    (0..30).map(|_| request(stream).expect("an answer")).max().expect("some")
}

fn content_length(header: &[u8]) -> usize {
    let header = String::from_utf8_lossy(header).to_ascii_lowercase();
    let line = header.lines().find_map(|line| line.strip_prefix("content-length:"));
    line.and_then(|length| length.trim().parse().ok()).expect("a length")
}

#[test]
fn nginx_becomes_fast_while_it_runs_and_slow_again_when_it_is_undone() {
    let Some(place) = Place::new("nginx") else { return };
    let nginx = Nginx::start(&place);
    let load = Load::start(&place, 10);
    let half = Duration::from_millis(500);
    assert!(load.median(half) > SLOW);

    let mut child = place.treat(&["nodelay", "--port", "8080"]);
    thread::sleep(Duration::from_millis(200));
    assert!(load.median(half) < FAST, "within a second");
    let mut new = place.inside(|| TcpStream::connect("127.0.0.1:8080").expect("nginx"));
    assert!(slowest(&mut new) < SLOW, "a connection that opens meanwhile");
    let status = place.json(&["status"]);
    assert_eq!(status["treatments"][0]["is_running"], true);
    let again = place.run(&["nodelay", "--port", "8080", "--netns", &place.name, "--no-measure"]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(2));
    assert!(said.contains("treatment 1") && said.contains("undo 1"), "{said}");
    signal(&child, rustix::process::Signal::INT);
    assert!(child.wait().expect("it ends").success());
    assert!(load.median(half) > SLOW, "after Ctrl-C");
    assert!(place.journal_is_empty());

    let mut child = place.treat(&["nodelay", "--port", "8080"]);
    let mut kept = place.inside(|| TcpStream::connect("127.0.0.1:8080").expect("nginx"));
    assert!(slowest(&mut kept) < SLOW);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(load.median(half) < FAST, "kill -9 leaves the change");
    let said = String::from_utf8_lossy(&place.run(&["status"]).stdout).into_owned();
    assert!(said.contains("left behind") && said.contains("treat undo 1"), "{said}");
    let undone = place.json(&["undo", "1"]);
    assert!(undone["undone"][0]["restored"].as_u64() >= Some(22), "{undone}");
    assert!(load.median(half) > SLOW, "after undo");
    assert!(slowest(&mut kept) > SLOW, "a connection that opened before the kill");

    let mut child = place.treat(&["nodelay", "--port", "8080"]);
    let undone = place.json(&["undo", "--all"]);
    assert_eq!(undone["undone"][0]["by_its_process"], true);
    assert!(child.wait().expect("it ends").success());
    assert!(load.median(half) > SLOW, "after undo of one that runs");
    assert_eq!(load.end(), 0, "no request failed");
    drop(nginx);
}

#[test]
fn the_measurement_says_that_it_helped_and_what_it_cost_before() {
    let Some(place) = Place::new("measure") else { return };
    let nginx = Nginx::start(&place);
    let load = Load::start(&place, 10);
    let out = place.json(&[
        "nodelay",
        "--port",
        "8080",
        "--side",
        "server",
        "--netns",
        &place.name,
        "--measure",
        "2s",
        "--for",
        "3s",
    ]);
    assert_eq!(out["comparison"]["verdict"], "faster", "{out}");
    assert_eq!(out["comparison"]["gone_faults"][0]["cause"], "nagle_delayed_ack");
    assert_eq!((&out["guard"], &out["kept"]), (&Value::Null, &false.into()));
    assert_eq!(out["counts"]["changed"], 10, "the sockets of one side");
    assert_eq!(out["undone"]["restored"], 10);
    assert_eq!(load.end(), 0);
    drop(nginx);
}

/// A listener of this process in the namespace, with connections to it.
#[test]
fn requests_of_its_own_measure_a_server_that_nobody_asks() {
    let Some(place) = Place::new("load") else { return };
    let nginx = Nginx::start(&place);
    let url = "http://127.0.0.1:8080/file.bin";
    let asked = ["nodelay", "--port", "8080", "--side", "server", "--netns", &place.name];
    let out =
        place.json(&[&asked[..], &["--load", url, "--measure", "2s", "--for", "3s"]].concat());
    assert_eq!(out["comparison"]["verdict"], "faster", "{out}");
    assert_eq!(out["comparison"]["gone_faults"][0]["cause"], "nagle_delayed_ack");
    assert_eq!((&out["counts"]["changed"], &out["load"]["failed"]), (&10.into(), &0.into()));
    assert!(out["load"]["answered"].as_u64() > Some(400), "{out}");
    drop(nginx);
}

fn connected(place: &Place, number: usize) -> (TcpListener, Vec<(TcpStream, TcpStream)>) {
    place.inside(|| {
        let listener = TcpListener::bind("127.0.0.1:7070").expect("a port");
        let connect = |_| {
            let client = TcpStream::connect("127.0.0.1:7070").expect("a connection");
            (client, listener.accept().expect("a connection").0)
        };
        let all = (0..number).map(connect).collect();
        (listener, all)
    })
}

#[test]
fn each_socket_gets_back_what_it_had_and_what_others_changed_is_left_alone() {
    let Some(place) = Place::new("values") else { return };
    let (_listener, mut all) = connected(&place, 5);
    all[0].0.set_nodelay(true).expect("an option");
    let plan = place.json(&["nodelay", "--port", "7070", "--netns", &place.name, "--dry-run"]);
    assert_eq!((&plan["counts"]["changed"], &plan["counts"]["had_it"]), (&9.into(), &1.into()));
    assert!(!all[1].0.nodelay().expect("an option"), "a plan changes nothing");
    assert!(place.journal_is_empty());

    let mut child = place.treat(&["nodelay", "--port", "7070", "--keep"]);
    assert!(child.wait().expect("it ends").success());
    assert!(all.iter().all(|(one, other)| one.nodelay().unwrap() && other.nodelay().unwrap()));
    all[2].0.set_nodelay(false).expect("an option");
    drop(all.pop());
    let undone = &place.json(&["undo", "--all"])["undone"][0].clone();
    assert_eq!(undone["failed"], Value::Array(Vec::new()));
    assert_eq!(undone["gone"], 2, "a connection that has closed: {undone}");
    assert!(all[0].0.nodelay().unwrap(), "it was on before");
    let rest = all.iter().flat_map(|(one, other)| [one, other]).skip(1);
    assert!(rest.into_iter().all(|stream| !stream.nodelay().unwrap()));
    assert!(place.journal_is_empty());
}

#[test]
fn a_congestion_control_is_set_and_after_a_kill_restored() {
    let Some(place) = Place::new("control") else { return };
    let (_listener, all) = connected(&place, 2);
    let control = |stream: &TcpStream| {
        let name = socket2::SockRef::from(stream).tcp_congestion().expect("an option");
        String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
    };
    let before = control(&all[0].0);
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.expect("a kernel with TCP");
    let mut others = available.split_whitespace().filter(|&name| name != before);
    let Some(other) = others.next() else {
        println!("skipped: the kernel has one congestion control only");
        return;
    };
    let mut child = place.treat(&["congestion-control", other, "--port", "7070"]);
    assert!(all.iter().all(|(one, two)| control(one) == other && control(two) == other));
    socket2::SockRef::from(&all[0].0).set_tcp_congestion(before.as_bytes()).expect("an option");
    signal(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    let undone = &place.json(&["undo", "1"])["undone"][0].clone();
    assert_eq!((&undone["restored"], &undone["gone"]), (&4.into(), &0.into()), "{undone}");
    assert!(all.iter().all(|(one, two)| control(one) == before && control(two) == before));
    let unknown = place.run(&["congestion-control", "nosuch", "--port", "7070"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("modprobe tcp_nosuch"));
}

#[test]
fn buffers_are_unlocked_or_fixed_and_locked_again_as_they_were() {
    let Some(place) = Place::new("buffers") else { return };
    let (listener, all) = connected(&place, 1);
    let (client, server) = &all[0];
    let of = |stream: &TcpStream| socket2::SockRef::from(stream).send_buffer_size().unwrap();
    socket2::SockRef::from(server).set_send_buffer_size(16 << 10).expect("an option");
    let (fixed, free) = (of(server), of(client));
    let filled = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(bytes) = (&mut &*stream).write(&[0; 65_536]) {
            sent += bytes;
        }
        sent
    };
    let arguments = ["buffers", "--port", "7070", "--side", "server"];
    let child = place.treat(&[&arguments[..], &["--sndbuf", "1M"]].concat());
    assert_eq!((of(server), of(client)), (2 << 20, free));
    let _new = place.inside(|| TcpStream::connect("127.0.0.1:7070").expect("a connection"));
    let (new, _) = listener.accept().expect("a connection");
    let found = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(10));
        of(&new) == 2 << 20
    });
    assert!(found, "a connection that opens meanwhile is found by listing");
    end(child);
    assert!(of(&new) != 2 << 20);
    assert_eq!(of(server), fixed);
    let child = place.treat(&arguments);
    let status = place.json(&["status"]);
    let change = &status["treatments"][0]["changes"][0];
    assert_eq!(change["before"]["buffers"]["sndbuf_locked"], true);
    assert_eq!(change["set"]["buffers"]["sndbuf_locked"], false);
    filled(server);
    end(child);
    assert_eq!(of(server), fixed, "whatever the kernel made of it meanwhile");
    let plan = place.json(&[&arguments[..], &["--dry-run", "--netns", &place.name]].concat());
    assert_eq!(plan["changes"][0]["before"]["buffers"]["sndbuf_locked"], true, "locked again");
}

#[test]
fn a_size_that_the_application_sets_meanwhile_is_left_alone() {
    let Some(place) = Place::new("resized") else { return };
    let (_listener, all) = connected(&place, 2);
    let of = |stream: &TcpStream| socket2::SockRef::from(stream).send_buffer_size().unwrap();
    let set =
        |stream: &TcpStream| socket2::SockRef::from(stream).set_send_buffer_size(64 << 10).unwrap();
    let before = of(&all[1].1);
    let arguments = ["buffers", "--port", "7070", "--side", "server", "--sndbuf", "1M", "--keep"];
    let mut child = place.treat(&arguments);
    assert!(child.wait().expect("it ends").success());
    set(&all[0].1);
    let undone = &place.json(&["undo", "--all"])["undone"][0].clone();
    let counts = (&undone["restored"], &undone["changed_meanwhile"]);
    assert_eq!(counts, (&1.into(), &1.into()), "{undone}");
    assert_eq!((of(&all[0].1), of(&all[1].1)), (128 << 10, before));
}

#[test]
fn the_connections_of_a_control_group_are_treated_and_no_others() {
    let Some(place) = Place::new("group") else { return };
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let mut roots = mounts.lines().filter(|line| line.contains(" cgroup2 "));
    let root = roots.next().and_then(|line| line.split(' ').nth(1)).expect("control groups");
    let group = Path::new(root).join(&place.name);
    fs::create_dir(&group).expect("a control group");
    let nginx = Nginx::start_in(&place, Some(&group));
    let load = Load::start(&place, 4);
    let path = format!("/{}", place.name);
    let child = place.treat(&["nodelay", "--cgroup", &path]);
    let mut new = place.inside(|| TcpStream::connect("127.0.0.1:8080").expect("nginx"));
    assert!(slowest(&mut new) < SLOW, "a connection that opens meanwhile");
    assert!(load.median(Duration::from_millis(300)) < FAST);
    assert!(!new.nodelay().unwrap(), "the client is of another group");
    end(child);
    assert!(load.median(Duration::from_millis(500)) > SLOW);
    let none = place.run(&["nodelay", "--cgroup", "/no/such", "--no-measure"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("/proc/PID/cgroup"));
    assert_eq!(load.end(), 0);
    drop(nginx);
    let gone = (0..50).any(|_| {
        thread::sleep(Duration::from_millis(20));
        fs::remove_dir(&group).is_ok()
    });
    assert!(gone, "the control group is removed");
}

#[test]
fn a_treatment_that_makes_it_slower_is_undone_at_once() {
    let Some(place) = Place::new("guard") else { return };
    let nginx = Nginx::start(&place);
    let fast = place.treat(&["nodelay", "--port", "8080"]);
    // 2 MiB through 4 KiB of send buffer wait for the kernel's timers.
    fs::write(place.folder.join("file.bin"), vec![b'n'; 2 << 20]).expect("a file");
    let load = Load::start(&place, 4);
    let began = Instant::now();
    let out = place.json(&[
        "buffers",
        "--port",
        "8080",
        "--side",
        "server",
        "--netns",
        &place.name,
        "--sndbuf",
        "4K",
        "--measure",
        "2s",
        "--for",
        "30s",
    ]);
    assert!(out["guard"].is_string(), "{out}");
    assert!(began.elapsed() < Duration::from_secs(15), "long before it would have ended");
    assert_eq!(out["undone"]["restored"], 4, "{out}");
    assert_eq!(load.end(), 0);
    end(fast);
    drop(nginx);
}

fn end(mut child: Child) {
    signal(&child, rustix::process::Signal::TERM);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_thousand_connections_are_treated_within_a_second() {
    let Some(place) = Place::new("thousand") else { return };
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("root may");
    let (_listener, all) = connected(&place, 1_000);
    let began = Instant::now();
    let child = place.treat(&["nodelay", "--port", "7070", "--side", "server"]);
    let took = began.elapsed();
    println!("1,000 connections were treated in {took:?}");
    assert!(all.iter().all(|(_, server)| server.nodelay().unwrap()));
    assert!(took < Duration::from_secs(1), "{took:?}");
    end(child);
    assert!(all.iter().all(|(_, server)| !server.nodelay().unwrap()));
}

#[test]
fn a_kernel_setting_is_restored_unless_someone_else_has_changed_it() {
    let Some(place) = Place::new("sysctl") else { return };
    let path = Path::new("/proc/sys/net/ipv4/tcp_slow_start_after_idle");
    let read = || place.inside(|| fs::read_to_string(path).expect("a setting").trim().to_owned());
    let host = fs::read_to_string(path).expect("a setting");
    assert_eq!(read(), "1");
    let setting = ["sysctl", "net.ipv4.tcp_slow_start_after_idle=0"];
    let child = place.treat(&setting);
    assert_eq!(read(), "0");
    assert_eq!(fs::read_to_string(path).expect("a setting"), host, "only in that namespace");
    let again = place.run(&["sysctl", setting[1], "--netns", &place.name, "--no-measure"]);
    assert_eq!(again.status.code(), Some(2));
    end(child);
    assert_eq!(read(), "1");

    let fin = Path::new("/proc/sys/net/ipv4/tcp_fin_timeout");
    let mut child = place.treat(&["sysctl", "tcp_fin_timeout=30", "--keep"]);
    assert!(child.wait().expect("it ends").success());
    place.inside(|| fs::write(fin, "15")).expect("a setting");
    let undone = place.json(&["undo", "--all"]);
    assert_eq!(undone["undone"][0]["changed_meanwhile"], 1, "{undone}");
    let now = place.inside(|| fs::read_to_string(fin)).expect("a setting");
    assert_eq!(now.trim(), "15");
    let wrong = place.run(&["sysctl", "net.ipv4.ip_forward=1", "--netns", &place.name]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("tcp_mtu_probing"));
}

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
    let binary = place.folder.join("tcpwhy");
    fs::copy(env!("CARGO_BIN_EXE_tcpwhy"), &binary).expect("a copy");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let _client = TcpStream::connect(address).expect("a connection");
    let mut command = Command::new(binary);
    command.args(["treat", "nodelay", "--no-measure", "--port", &address.port().to_string()]);
    command.env("TCPWHY_TREAT_DIR", std::env::temp_dir().join(format!("{}-nobody", place.name)));
    let out = command.uid(65_534).gid(65_534).output().expect("tcpwhy runs");
    let _ = fs::remove_dir_all(std::env::temp_dir().join(format!("{}-nobody", place.name)));
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("CAP_SYS_PTRACE") && said.contains("sudo"), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
}

#[test]
fn a_connection_that_waits_to_be_accepted_is_restored_too() {
    let Some(place) = Place::new("queue") else { return };
    let (listener, _all) = connected(&place, 1);
    let own = std::process::id().to_string();
    let child = place.treat(&["nodelay", "--pid", &own]);
    let _client = place.inside(|| TcpStream::connect("127.0.0.1:7070").expect("a connection"));
    // Longer than the sockets are left without a look.
    thread::sleep(Duration::from_millis(1_300));
    let (server, _) = listener.accept().expect("a connection");
    assert!(server.nodelay().unwrap(), "treated as it opened");
    thread::sleep(Duration::from_millis(300));
    end(child);
    assert!(!server.nodelay().unwrap());
}
