//! Outputs of a watch of tainted traffic: its reports, the answer to a scrape of `--metrics`, the
//! data that `--otlp` pushes, and the pages beside the packets of `--write`.

use super::packets::{self, CAPTURES, Capture};
use super::tokens::Parts;
use super::{Tainted, folder};
use crate::watch::{ask_metrics, free_port, next_push, wait_for};
use serde_json::Value;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_lab::netns::Netns;

/// The captures whose packets are sent.
const SENT: [&str; 3] = ["whole", "middle-1", "server"];
/// Packets are sent faster than their times say.
const SPEED: u32 = 4;
/// `IPPROTO_RAW`: the socket is given whole packets.
const WHOLE_PACKETS: i32 = 255;
const TCP: u8 = 6;

/// A watch that writes what it says to files.
struct Watch {
    child: Child,
    said: [PathBuf; 2],
}

impl Watch {
    /// Starts a watch of `netns`, and waits until it captures.
    fn start(netns: &Netns, folder: &Path, name: &str, arguments: &[&str]) -> Self {
        let said = ["out", "err"].map(|it| folder.join(format!("{name}.{it}")));
        let [out, err] = said.each_ref().map(|it| File::create(it).expect("a file"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
        command.args(["watch", "--netns", netns.name(), "-i", "near", "--budget", "none", "--all"]);
        command.args(["--interval", "500ms"]).args(arguments).current_dir(folder);
        let child = command.stdout(out).stderr(err).spawn().expect("tcpwhy runs");
        let status = format!("/proc/{}/status", child.id());
        let has_begun = |text: String| text.contains("NoNewPrivs:\t1");
        wait_for("it captures", || fs::read_to_string(&status).is_ok_and(has_begun));
        Self { child, said }
    }

    /// Ends the watch, and returns its two outputs.
    fn end(mut self) -> [Vec<u8>; 2] {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
        let status = self.child.wait().expect("its end");
        let said = self.said.each_ref().map(|it| fs::read(it).expect("its output"));
        let error = String::from_utf8_lossy(&said[1]);
        assert!(status.code().is_some_and(|it| it < 2), "{status}: {error}");
        said
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the packets that the kernel takes into `netns` at their times; returns the number of TCP
/// segments.
fn send(tainted: &Tainted, how: &Capture, netns: &Netns) -> u64 {
    let raw = netns.inside(|| {
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(WHOLE_PACKETS)))?;
        // Sent anywhere else, the packets would leave this machine.
        raw.bind_device(Some(b"near")).map(|()| raw)
    });
    let raw = raw.expect("inside").expect("a raw socket");
    let packets = tainted.packets(how);
    let first = packets.first().map_or(0, |it| it.time_us);
    let (began, mut count) = (Instant::now(), 0);
    for packet in packets.iter().filter(|it| it.bytes.len() >= 20) {
        let due = Duration::from_micros(packet.time_us - first) / SPEED;
        thread::sleep(due.saturating_sub(began.elapsed()));
        let to: [u8; 4] = packet.bytes[16..20].try_into().expect("four bytes");
        let to = SockAddr::from(SocketAddrV4::new(Ipv4Addr::from(to), 0));
        raw.send_to(&packet.bytes[..packet.bytes.len().min(how.snap)], &to).expect("it is sent");
        count += u64::from(packet.bytes[9] == TCP);
    }
    count
}

/// Returns the number that a metric without labels has.
fn metric(page: &str, name: &str) -> f64 {
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|it| it.parse().ok()).unwrap_or(0.0)
}

/// A collector of pushes that answers each, with all that was pushed so far.
fn collector() -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let pushed = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&pushed);
    thread::spawn(move || {
        loop {
            let (head, body) = next_push(&listener);
            taken.lock().expect("a lock").extend(format!("{head}{body}").into_bytes());
        }
    });
    (url, pushed)
}

/// Looks into all that a watch says of the packets of `how`.
fn check_watch(tainted: &Tainted, how: &Capture) {
    let netns = Netns::create("taint").expect("a namespace");
    for words in [
        "link add near type veth peer name far",
        "link set near arp off up",
        "link set far up",
        "route add 10.0.0.0/8 dev near",
    ] {
        netns.ip(words).expect("ip");
    }
    let folder = folder(&format!("watch-{}", how.name));
    let ((url, pushed), metrics) = (collector(), free_port());
    let words = ["--json", "--metrics", &metrics, "--otlp", &url, "--write", "kept"];
    let json = Watch::start(&netns, &folder, "json", &words);
    let text = Watch::start(&netns, &folder, "text", &["--width", "400"]);
    let sent = send(tainted, how, &netns) as f64;
    let captured = || metric(&ask_metrics(&metrics), "tcpwhy_captured_packets_total");
    wait_for("all segments are counted", || captured() >= sent);
    let page = ask_metrics(&metrics);
    let pushed = || pushed.lock().expect("a lock").clone();
    let before = pushed().len();
    wait_for("another push", || pushed().len() > before);
    let pushed = pushed();
    let said = [json.end(), text.end()];
    let place = |what: &str| format!("watch, {}: {what}", how.name);

    assert!(page.contains("tcpwhy_endpoint_latency_seconds{endpoint="), "{page}");
    tainted.tokens.assert_clean(page.as_bytes(), true, &place("a scrape"));
    assert!(String::from_utf8_lossy(&pushed).contains("tcpwhy.lost"), "nothing was pushed");
    tainted.tokens.assert_clean(&pushed, true, &place("pushes"));
    for (output, what) in said.iter().flatten().zip(["JSON", "its notes", "text", "its notes"]) {
        tainted.tokens.assert_clean(output, true, &place(what));
    }
    let pages = check_kept(tainted, &folder.join("kept"), &place);
    if how.begins.is_none() && how.only.is_none() {
        assert!(page.contains("tcpwhy_lost_seconds_total{class="), "{page}");
        assert!(pages > 0, "no finding was kept");
        check_connections(tainted, &said[0][0]);
    }
}

/// Looks into the names of the files of `--write`, into the pages, and beside the packets of the
/// captures, which hold what was sent. Returns the number of pages.
fn check_kept(tainted: &Tainted, kept: &Path, place: &dyn Fn(&str) -> String) -> usize {
    let (mut captured, mut pages) = (Vec::new(), 0);
    for entry in fs::read_dir(kept).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let bytes = fs::read(&path).expect("a file");
        tainted.tokens.assert_clean(name.as_bytes(), true, &place("a name"));
        if name.ends_with(".pcapng") {
            tainted.tokens.assert_clean(&packets::beside_packets(&bytes), true, &place(&name));
            captured.extend(bytes);
        } else {
            tainted.tokens.assert_page_clean(&bytes, &place(&name));
            pages += usize::from(name.ends_with(".html"));
        }
    }
    // That the watch met the tokens shows in its packets.
    let (parts, tokens) = (Parts::of(&captured), tainted.tokens.all.borrow());
    let met = tokens.iter().filter(|it| parts.found(it).is_some()).count();
    assert!(4 * met > tokens.len(), "{met} of {} tokens passed", tokens.len());
    pages
}

/// A report of the whole watch has each conversation once.
fn check_connections(tainted: &Tainted, out: &[u8]) {
    let last = String::from_utf8_lossy(out).lines().last().map(str::to_owned);
    let report: Value = serde_json::from_str(&last.expect("a report")).expect("JSON");
    assert_eq!(report["totals"]["connections"], tainted.conversations.len());
}

#[test]
fn no_token_is_in_what_a_watch_says() {
    if !tcpwhy_testing::privileged("network namespaces") {
        return;
    }
    thread::scope(|scope| {
        for name in SENT {
            let how = CAPTURES.iter().find(|it| it.name == name).expect("a capture");
            scope.spawn(move || check_watch(&Tainted::new(), how));
        }
    });
}
