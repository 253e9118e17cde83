//! `tcpwhy watch` in network namespaces of its own, with real nginx; needs root.

use crate::outputs::private::is_kept_privately;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::privileges;
use tcpwhy_testing::Folder;

mod behind;
mod followed_keys;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod keys;
mod parts;
mod weather;

const NAGLE: u16 = 8080;
const HEALTHY: u16 = 8081;

/// Bytes of the file that is asked for at a port: at one a small segment that Nagle's algorithm
/// holds, at the other no size that is near a window's field in the header.
fn body(port: u16) -> usize {
    if port == NAGLE { 700 } else { 5_000 }
}

/// A namespace and a folder that are gone at the end.
struct Place {
    name: String,
    folder: Folder,
    children: Vec<Child>,
}

impl Place {
    /// `None` without root, which is said.
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !tcpwhy_testing::privileged("network namespaces") {
            return None;
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tcpwhy-test-{}-{count}", std::process::id());
        let place = Self { name, folder: Folder::new(), children: Vec::new() };
        ip(&["netns", "add", &place.name]);
        ip(&["-n", &place.name, "link", "set", "lo", "up"]);
        Some(place)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// nginx that writes header and file apart, with Nagle's algorithm at one port.
    fn nginx(&mut self) {
        let folder = self.folder.display();
        for port in [NAGLE, HEALTHY] {
            let path = self.folder.join(format!("{port}.bin"));
            std::fs::write(path, vec![b'n'; body(port)]).expect("a file");
        }
        let config = format!(
            "daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;\n\
             events {{}}\n\
             http {{ access_log off; sendfile on; tcp_nopush off; keepalive_requests 1000000;\n\
               client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};\n\
               uwsgi_temp_path {folder}; scgi_temp_path {folder};\n\
               server {{ listen 127.0.0.1:{NAGLE}; root {folder}; tcp_nodelay off; }}\n\
               server {{ listen 127.0.0.1:{HEALTHY}; root {folder}; tcp_nodelay on; }} }}\n"
        );
        let path = self.folder.join("nginx.conf");
        std::fs::write(&path, config).expect("a file");
        let mut command = self.command("nginx");
        command.args(["-p", &folder.to_string(), "-c"]).arg(&path).stderr(Stdio::null());
        self.children.push(command.spawn().expect("nginx starts"));
        let is_up = || self.inside(|| TcpStream::connect(("127.0.0.1", HEALTHY)).is_ok());
        wait_for("nginx listens", is_up);
    }

    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        Netns::find(&self.name).expect("the namespace").inside(work).expect("inside")
    }

    /// Clients that ask again and again, each on one connection.
    fn load(&self, port: u16, connections: usize, pause: Duration) -> Load {
        let ends = Arc::new(AtomicBool::new(false));
        let threads = (0..connections).map(|_| {
            let (name, ends) = (self.name.clone(), Arc::clone(&ends));
            thread::spawn(move || {
                let work = || ask_until(port, &ends, pause);
                Netns::find(&name).expect("the namespace").inside(work).expect("inside");
            })
        });
        let threads = threads.collect();
        Load { ends, threads }
    }

    /// Starts `tcpwhy watch` on this namespace and waits until it captures.
    fn watch(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
        command.args(["watch", "--netns", &self.name]).args(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("tcpwhy runs");
        // Rights are given up once the capture is open; one that is refused has ended.
        let status = format!("/proc/{}/status", child.id());
        let captures = |text: String| text.contains("NoNewPrivs:\t1") || text.contains("State:\tZ");
        wait_for("it captures", || std::fs::read_to_string(&status).is_ok_and(captures));
        child
    }

    /// Packet sockets in the namespace.
    fn packet_sockets(&self) -> usize {
        let table = self.inside(|| std::fs::read_to_string("/proc/thread-self/net/packet"));
        table.expect("the kernel's table").lines().count() - 1
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ =
            Command::new("ip").args(["netns", "del", &self.name]).stderr(Stdio::null()).status();
    }
}

/// Clients under way; dropping it ends them.
struct Load {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let result = thread.join();
            assert!(result.is_ok() || thread::panicking(), "a client failed");
        }
    }
}

fn ask_until(port: u16, ends: &AtomicBool, pause: Duration) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("accepted");
    stream.set_nodelay(true).expect("an option");
    let (request, body) = (format!("GET /{port}.bin HTTP/1.1\r\nHost: test\r\n\r\n"), body(port));
    let mut response = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        stream.write_all(request.as_bytes()).expect("sent");
        response.clear();
        let header = loop {
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).expect("received");
            assert!(read > 0, "the server stays");
            response.extend_from_slice(&buffer[..read]);
            if let Some(at) = response.windows(4).position(|end| end == b"\r\n\r\n")
                && response.len() >= at + 4 + body
            {
                break at;
            }
        };
        assert_eq!(response.len(), header + 4 + body);
        thread::sleep(pause);
    }
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().expect("ip runs (iproute2)");
    assert!(status.success(), "ip {arguments:?}");
}

pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} within 60 s");
        thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("a signal");
}

fn interrupt(child: Child) -> Output {
    signal(&child, rustix::process::Signal::INT);
    child.wait_with_output().expect("its output")
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// The reports, one a line, each as its schema says.
fn reports(out: &Output) -> Vec<Value> {
    let schema = include_str!("../../../../docs/report.schema.json");
    let schema = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let read = |line: &str| {
        let report = serde_json::from_str(line).expect("JSON");
        let errors: Vec<_> = validator.iter_errors(&report).map(|it| it.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        report
    };
    String::from_utf8_lossy(&out.stdout).lines().map(read).collect()
}

fn faults(report: &Value) -> Vec<&Value> {
    let findings = report["findings"].as_array().expect("findings");
    findings.iter().filter(|finding| finding["class"] == "fault").collect()
}

/// Two watches at once, each attached in the middle of running traffic.
#[test]
fn nagle_under_a_running_load_is_named_and_a_healthy_server_is_silent() {
    let Some(mut place) = Place::new() else { return };
    place.nginx();
    let _faulty = place.load(NAGLE, 10, Duration::ZERO);
    let _healthy = place.load(HEALTHY, 4, Duration::from_millis(5));
    thread::sleep(Duration::from_millis(300));
    let common = ["--for", "5s", "--json", "--budget", "none", "--filter"];
    // By programs at the interface where the kernel has them; the other one by a packet socket.
    let healthy = place.watch(&[&common[..], &["port 8081", "-i", "lo"]].concat());
    let faulty = place.watch(&[&common[..], &["port 8080"]].concat());
    let (faulty, healthy) =
        (faulty.wait_with_output().expect("output"), healthy.wait_with_output().expect("output"));

    let all = reports(&faulty);
    assert!((2..=4).contains(&all.len()), "{} lines", all.len());
    for (index, report) in all.iter().enumerate() {
        let is_last = index + 1 == all.len();
        assert_eq!(report["watch"]["covers"], if is_last { "whole" } else { "window" });
        assert_eq!(report["window"]["sampled_share"], 1.0);
        let finding = faults(report)[0];
        assert_eq!(finding["cause"], "nagle_delayed_ack");
        assert_eq!(finding["culprit"]["role"], "server");
        assert_eq!(finding["culprit"]["endpoint"], "127.0.0.1:8080");
    }
    assert_eq!(faulty.status.code(), Some(1), "{}", stderr(&faulty));
    let whole = &all[all.len() - 1];
    assert_eq!(whole["watch"]["captured_by"], "packet_socket");
    assert_eq!(whole["totals"]["connections"], 10);
    assert_eq!(whole["watch"]["dropped_packets"], 0);

    let all = reports(&healthy);
    let whole = &all[all.len() - 1];
    assert_eq!(faults(whole), Vec::<&Value>::new());
    assert!(whole["totals"]["exchanges"].as_u64() > Some(100), "{}", whole["totals"]);
    assert_eq!(whole["totals"]["connections"], 4);
    assert_eq!(healthy.status.code(), Some(0), "{}", stderr(&healthy));
}

#[test]
fn the_ports_of_a_process_are_watched_and_its_end_is_said() {
    let Some(mut place) = Place::new() else { return };
    place.nginx();
    let pid = place.children[0].id().to_string();
    // The child becomes nginx; its namespace is that of the process.
    let _load = place.load(NAGLE, 2, Duration::ZERO);
    let listener = place.inside(|| TcpListener::bind("127.0.0.1:9999").expect("a port"));
    let other = thread::spawn(move || listener.accept().expect("a connection"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.args(["watch", "--json", "--interval", "500ms", "--pid", &pid]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tcpwhy");
    wait_for("a packet socket", || place.packet_sockets() > 0);
    let _stranger = place.inside(|| TcpStream::connect("127.0.0.1:9999").expect("accepted"));
    let _accepted = other.join().expect("accepted");
    thread::sleep(Duration::from_millis(1_200));
    drop(_load);
    place.children[0].kill().expect("a signal");
    place.children[0].wait().expect("its end");
    let out = child.wait_with_output().expect("its output");
    assert!(stderr(&out).contains(&format!("process {pid} has ended")), "{}", stderr(&out));
    let all = reports(&out);
    let whole = &all[all.len() - 1];
    assert_eq!(whole["totals"]["connections"], 2);
    assert_eq!(faults(whole)[0]["cause"], "nagle_delayed_ack");
}

#[test]
fn used_up_ports_are_a_fault_though_no_packet_is_sent() {
    let Some(mut place) = Place::new() else { return };
    place.nginx();
    let set = |range: &str| std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", range);
    place.inside(|| set("40000 40019")).expect("a setting of the namespace");
    let connect = || TcpStream::connect(("127.0.0.1", HEALTHY));
    let _held: Vec<_> = (0..20).map(|_| place.inside(connect).expect("accepted")).collect();
    assert!(place.inside(connect).is_err(), "no port is free");
    let child = place.watch(&["--json", "--interval", "500ms", "--for", "2s"]);
    let out = child.wait_with_output().expect("its output");
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    let all = reports(&out);
    assert_eq!(faults(&all[all.len() - 1])[0]["cause"], "port_exhaustion");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_watch() {
    let Some(place) = Place::new() else { return };
    let mut child = place.watch(&["--json", "--interval", "200ms"]);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    lines.next().expect("a line").expect("text");
    drop(lines);
    let out = child.wait_with_output().expect("its output");
    assert!(stderr(&out).contains("the reader of the output has gone"), "{}", stderr(&out));
}

#[test]
fn packets_around_a_finding_are_kept_and_diagnosed_alike() {
    let Some(mut place) = Place::new() else { return };
    place.nginx();
    let _load = place.load(NAGLE, 4, Duration::ZERO);
    let folder = place.folder.join("kept");
    let folder = folder.to_str().expect("text");
    let common = ["--json", "--interval", "500ms", "--budget", "none"];
    let first = place.watch(&[&common[..], &["--write", folder]].concat());
    let metrics_at = free_port();
    let second = place.watch(&[&common[..], &["--metrics", &metrics_at]].concat());
    thread::sleep(Duration::from_millis(2_500));
    let metrics = ask_metrics(&metrics_at);
    // A folder has one ring.
    let third = place.watch(&["--write", folder]).wait_with_output().expect("its output");
    assert_eq!(third.status.code(), Some(2), "{}", stderr(&third));
    assert!(stderr(&third).contains("another tcpwhy watch"), "{}", stderr(&third));

    let all = reports(&interrupt(first));
    is_kept_privately(Path::new(folder));
    let saved = &all[all.len() - 1]["watch"]["saved"][0];
    assert_eq!(saved["cause"], "nagle_delayed_ack");
    let file = saved["file"].as_str().expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    let out = command.args([file, "--json"]).output().expect("tcpwhy runs");
    let again: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(faults(&again)[0]["cause"], "nagle_delayed_ack");
    assert_eq!(again["totals"]["connections"], 1);
    // The page beside it shows the same report.
    let page = std::fs::read_to_string(saved["page"].as_str().expect("a page")).expect("a file");
    let data = page.split_once("id=\"data\">").expect("its data").1;
    let data = data.split_once("</script>").expect("its end").0;
    let data: Value = serde_json::from_str(data).expect("JSON");
    let drawn = &data["runs"][0]["report"];
    assert_eq!(faults(drawn)[0]["cause"], "nagle_delayed_ack");
    assert_eq!(drawn["totals"], again["totals"]);

    // The numbers of a slow exchange draw it from what is kept.
    // On a busy machine others are slower.
    let slowest = all[all.len() - 1]["watch"]["slowest_exchanges"].as_array().expect("a list");
    let slow = slowest.iter().find(|it| it["cause"] == "nagle_delayed_ack");
    let slow = slow.unwrap_or_else(|| panic!("{slowest:?}"));
    let kept: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("tcpwhy-"))
        })
        .collect();
    let number = slow["exchange"].to_string();
    let client = slow["client"].as_str().expect("an end");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.args(&kept).args(["--connection", client, "--exchange", &number]);
    let drawn = command.output().expect("tcpwhy runs");
    let text = String::from_utf8_lossy(&drawn.stdout);
    let took = tcpwhy_core::model::units::duration(slow["wall_ns"].as_u64().expect("a time"));
    let head = format!("exchange {number}: {}, {took}", slow["kind"].as_str().expect("a kind"));
    assert!(text.contains(&head), "{head}: {text}{}", stderr(&drawn));

    reports(&interrupt(second));
    let line = |start: &str| {
        let line = metrics.lines().find(|line| line.starts_with(start));
        let value = line.and_then(|line| line.rsplit_once(' '));
        value
            .and_then(|(_, value)| value.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("{metrics}"))
    };
    let labels = "{class=\"fault\",cause=\"nagle_delayed_ack\",role=\"server\",\
                  endpoint=\"127.0.0.1:8080\"}";
    assert!(line(&format!("tcpwhy_lost_seconds_total{labels}")) > 0.5);
    let exchanges = line("tcpwhy_exchange_latency_seconds_count");
    assert!(exchanges > 10.0);
    // The first of a connection is acknowledged at once.
    assert!(line("tcpwhy_exchange_latency_seconds_bucket{le=\"0.025\"}") < 0.5 * exchanges);
    assert_eq!(line("tcpwhy_sampled_share"), 1.0);
}

/// An address of this host at which nothing listens.
pub fn free_port() -> String {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    free.expect("a free port").to_string()
}

pub fn ask_metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the metrics");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

#[test]
fn slow_idle_and_unread_clients_hold_up_no_scrape() {
    let Some(place) = Place::new() else { return };
    let at: &'static str = free_port().leak();
    let child = place.watch(&["--json", "--interval", "500ms", "--metrics", at]);
    wait_for("it listens", || TcpStream::connect(at).is_ok());
    let (has_begun, begins) = std::sync::mpsc::channel();
    // A byte each half second, on a new connection once the last one was closed.
    thread::spawn(move || {
        while let Ok(mut slow) = TcpStream::connect(at) {
            while slow.write_all(b"G").is_ok() && has_begun.send(()).is_ok() {
                thread::sleep(Duration::from_millis(500));
            }
        }
    });
    begins.recv().expect("its first byte");
    let unread: Vec<_> = (0..20)
        .map(|_| {
            let mut client = TcpStream::connect(at).expect("it listens");
            client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
            client
        })
        .collect();
    let idle: Vec<_> = (0..300).map(|_| TcpStream::connect(at)).collect();
    let began = Instant::now();
    for _ in 0..3 {
        assert!(ask_metrics(at).starts_with("HTTP/1.1 200 OK\r\n"));
    }
    // A second, and room for a busy machine.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    drop((unread, idle));
    interrupt(child);
}

/// The body of the next request to `collector`, which is answered with success.
pub fn next_push(collector: &TcpListener) -> (String, Value) {
    let mut stream = BufReader::new(collector.accept().expect("a push").0);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a line");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
        head += &line;
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("the body");
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    stream.get_mut().write_all(answer).expect("answered");
    (head, serde_json::from_slice(&body).expect("JSON"))
}

#[test]
fn metrics_are_pushed_to_a_collector_each_interval() {
    let Some(mut place) = Place::new() else { return };
    place.nginx();
    let _load = place.load(NAGLE, 2, Duration::ZERO);
    let collector = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", collector.local_addr().expect("its port"));
    let child = place.watch(&["--json", "--interval", "500ms", "--otlp", &url]);
    let count = |body: &Value| {
        let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array();
        let metrics = metrics.expect("metrics");
        let latency = metrics.iter().find(|it| it["histogram"].is_object()).expect("a histogram");
        let count = latency["histogram"]["dataPoints"][0]["count"].as_str().expect("a count");
        count.parse::<u64>().expect("a number")
    };
    let pushes: Vec<_> = (0..3).map(|_| next_push(&collector)).collect();
    assert!(pushes[0].0.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{}", pushes[0].0);
    let counts: Vec<_> = pushes.iter().map(|(_, body)| count(body)).collect();
    assert!(counts.is_sorted() && counts[2] > counts[0], "{counts:?}");
    drop(collector);
    let out = interrupt(child);
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
}

#[test]
fn a_missing_right_is_named_with_how_to_get_it() {
    let Some(place) = Place::new() else { return };
    let run = |arguments: Vec<String>| {
        // A program that is started without a right cannot gain it.
        let work = move || {
            privileges::keep_only(&[]).expect("fewer rights");
            let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
            command.arg("watch").args(arguments).output().expect("tcpwhy runs")
        };
        thread::spawn(work).join().expect("its output")
    };
    let out = run(Vec::new());
    assert_eq!(out.status.code(), Some(2));
    let said = stderr(&out);
    assert!(said.contains("CAP_NET_RAW") && said.contains("sudo"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let out = run(vec!["--netns".into(), place.name.clone()]);
    assert!(stderr(&out).contains("CAP_SYS_ADMIN"), "{}", stderr(&out));
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn what_does_not_exist_is_an_error_with_a_way_on() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
        let out = command.arg("watch").args(arguments).output().expect("tcpwhy runs");
        assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
        stderr(&out)
    };
    assert!(run(&["--pid", "4194305"]).contains("pgrep"));
    assert!(run(&["--netns", "no-such-namespace"]).contains("ip netns list"));
    assert!(run(&["--container", "0123456789ab"]).contains("docker ps"));
    if Place::new().is_some() {
        assert!(run(&["-i", "no-such-if0"]).contains("ip link"));
    }
    assert!(run(&["--filter", "hsot 10.0.0.1"]).contains("did you mean `host`?"));
    assert!(run(&["--filter", "after +2s"]).contains("--for"));
    assert!(run(&["--window", "1000s", "--interval", "500ms"]).contains("longer --interval"));
    assert!(run(&["--interval", "1ms"]).contains("100ms or more"));
}
