//! nginx under a load: fast while it is treated, slow before and after.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// Number of latencies of which a median is taken, at least.
const LATENCIES_MIN: usize = 5;

/// Number of medians of which one has to be below a bound.
const MEDIANS_MAX: u32 = 10;

/// Longer than Nagle's algorithm waits for Linux's delayed ACK (40 ms) less scheduling.
pub(super) const SLOW: Duration = Duration::from_millis(30);
/// Shorter than any delayed ACK, and longer than a busy machine takes for most requests.
pub(super) const FAST: Duration = Duration::from_millis(25);

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
pub(super) struct Load {
    ending: Arc<AtomicBool>,
    failed: Arc<AtomicU64>,
    latencies: Receiver<Duration>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(place: &Place, connections: usize) -> Self {
        Self::with(&place.name, connections, "127.0.0.1:8080", request)
    }

    /// Of requests of a kind, each of which answers how long it took.
    pub(super) fn with(
        netns: &str,
        connections: usize,
        address: &str,
        ask: fn(&mut TcpStream) -> std::io::Result<Duration>,
    ) -> Self {
        let (ending, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (send, latencies) = channel();
        let mut clients = Vec::new();
        for _ in 0..connections {
            let stream =
                Netns::find(netns).and_then(|netns| netns.inside(|| TcpStream::connect(address)));
            let mut stream = stream.expect("the namespace").expect("a server");
            let (ending, failed, send) = (ending.clone(), failed.clone(), send.clone());
            clients.push(thread::spawn(move || {
                while !ending.load(Ordering::Relaxed) {
                    match ask(&mut stream) {
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
    pub(super) fn median(&self, time: Duration) -> Duration {
        while self.latencies.try_recv().is_ok() {}
        thread::sleep(time);
        let mut all: Vec<Duration> = self.latencies.try_iter().collect();
        // On a busy machine there may be none yet.
        while all.len() < LATENCIES_MIN {
            let latency = self.latencies.recv_timeout(Duration::from_secs(10));
            all.push(latency.expect("the clients are answered"));
        }
        all.sort();
        all[all.len() / 2]
    }

    /// The first median of so long below `bound`, or the least of several.
    pub(super) fn below(&self, bound: Duration, time: Duration) -> Duration {
        least_below(bound, || self.median(time))
    }

    /// Ends it, and returns the number of requests that failed.
    pub(super) fn end(self) -> u64 {
        let failed = self.failed.clone();
        drop(self);
        failed.load(Ordering::Relaxed)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            let result = client.join();
            assert!(result.is_ok() || thread::panicking(), "a client failed");
        }
    }
}

pub(super) fn request(stream: &mut TcpStream) -> std::io::Result<Duration> {
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

/// Returns the first of several medians that is below `bound`, or the least of them. Other tests may
/// need the processors, which makes a server slower, but never one fast that waits for delayed ACKs.
fn least_below(bound: Duration, mut median: impl FnMut() -> Duration) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..MEDIANS_MAX {
        least = least.min(median());
        if least < bound {
            break;
        }
    }
    least
}

/// Returns the median latency on a connection that is no longer at its beginning, where the kernel
/// delays no ACK.
fn settled(stream: &mut TcpStream) -> Duration {
    let latencies: Vec<_> = (0..40).map(|_| request(stream).expect("an answer")).collect();
    let mut later = latencies[latencies.len() / 2..].to_vec();
    later.sort();
    later[later.len() / 2]
}

/// Returns the first [`settled`] latency below [`FAST`], or the least of several.
fn settled_fast(stream: &mut TcpStream) -> Duration {
    least_below(FAST, || settled(stream))
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
    let before = load.median(half);
    assert!(before > SLOW);

    let mut child = place.treat(&["nodelay", "--port", "8080"]);
    thread::sleep(Duration::from_millis(200));
    let treated = load.below(FAST, half);
    assert!(treated < FAST, "within a second");
    told(before, treated);
    let mut new = place.inside(|| TcpStream::connect("127.0.0.1:8080").expect("nginx"));
    assert!(settled_fast(&mut new) < FAST, "a connection that opens meanwhile");
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
    assert!(settled_fast(&mut kept) < FAST);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(load.below(FAST, half) < FAST, "kill -9 leaves the change");
    let said = String::from_utf8_lossy(&place.run(&["status"]).stdout).into_owned();
    assert!(said.contains("left behind") && said.contains("treat undo 1"), "{said}");
    let undone = place.json(&["undo", "1"]);
    assert!(undone["undone"][0]["restored"].as_u64() >= Some(22), "{undone}");
    assert!(load.median(half) > SLOW, "after undo");
    assert!(settled(&mut kept) > SLOW, "a connection that opened before the kill");

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
    let words = ["nodelay", "--port", "8080", "--side", "server", "--netns", &place.name];
    // On a busy machine the longest requests take longer at times, whatever is changed.
    tcpwhy_testing::undisturbed(|| {
        let load = Load::start(&place, 10);
        let out = place.json(&[&words[..], &["--measure", "2s", "--for", "3s"]].concat());
        assert_eq!(out["comparison"]["verdict"], "faster", "{out}");
        assert_eq!(out["comparison"]["gone_faults"][0]["cause"], "nagle_delayed_ack");
        assert_eq!((&out["guard"], &out["kept"]), (&Value::Null, &false.into()));
        assert_eq!(out["counts"]["changed"], 10, "the sockets of one side");
        assert_eq!(out["undone"]["restored"], 10);
        assert_eq!(load.end(), 0);
    });
    drop(nginx);
}

#[test]
fn own_requests_measure_an_idle_server() {
    let Some(place) = Place::new("load") else { return };
    let nginx = Nginx::start(&place);
    let url = "http://127.0.0.1:8080/file.bin";
    let asked = ["nodelay", "--port", "8080", "--side", "server", "--netns", &place.name];
    let more = ["--load", url, "--measure", "2s", "--for", "3s"];
    tcpwhy_testing::undisturbed(|| {
        let out = place.json(&[&asked[..], &more].concat());
        assert_eq!(out["comparison"]["verdict"], "faster", "{out}");
        assert_eq!(out["comparison"]["gone_faults"][0]["cause"], "nagle_delayed_ack");
        assert_eq!((&out["counts"]["changed"], &out["load"]["failed"]), (&10.into(), &0.into()));
        assert!(out["load"]["answered"].as_u64() > Some(400), "{out}");
    });
    drop(nginx);
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
    assert!(settled_fast(&mut new) < FAST, "a connection that opens meanwhile");
    assert!(load.below(FAST, Duration::from_millis(300)) < FAST);
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
