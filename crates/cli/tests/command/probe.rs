//! `tcpwhy probe` through three routers, of which one answers nothing and one has two equal paths.
//! Without root these tests are skipped and say so; as root they need `ip` and iptables, and fail
//! without them. What traceroute(8) says is compared where it is installed.

use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tcpwhy_lab::netns::Netns;

const TARGET: &str = "10.91.5.2";
const OPEN: u16 = 8080;
const CLOSED: u16 = 8081;

/// client ─ first (silent) ─ second ═ third ─ server: two equal links between second and third.
struct Routers {
    client: Netns,
    third: Netns,
    _others: Vec<Netns>,
    stop: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl Routers {
    /// `None`: not root, and the test is skipped.
    fn build() -> Option<Routers> {
        if !tcpwhy_testing::privileged("network namespaces") {
            return None;
        }
        let make = |role| Netns::create(role).expect("a namespace");
        let [client, first, second, third, server] =
            ["client", "first", "second", "third", "server"].map(make);
        let links = [
            (&client, "e0", "10.91.1.2", &first, "e0", "10.91.1.1"),
            (&first, "e1", "10.91.2.1", &second, "e0", "10.91.2.2"),
            (&second, "e1", "10.91.3.1", &third, "e0", "10.91.3.2"),
            (&second, "e2", "10.91.4.1", &third, "e1", "10.91.4.2"),
            (&third, "e2", "10.91.5.1", &server, "e0", TARGET),
        ];
        for (near, near_end, near_address, far, far_end, far_address) in links {
            let far_name = far.name();
            near.ip(&format!("link add {near_end} type veth peer name {far_end} netns {far_name}"))
                .expect("a link");
            for (at, end, address) in [(near, near_end, near_address), (far, far_end, far_address)]
            {
                at.ip(&format!("addr add {address}/24 dev {end}")).expect("an address");
                at.ip(&format!("link set {end} up")).expect("a link that is up");
            }
        }
        for router in [&first, &second, &third] {
            for (key, value) in [
                ("net.ipv4.ip_forward", "1"),
                // By ports too, as routers of networks do.
                ("net.ipv4.fib_multipath_hash_policy", "1"),
                // Errors come from the address that the packet came to: the links show.
                ("net.ipv4.icmp_errors_use_inbound_ifaddr", "1"),
                ("net.ipv4.conf.all.rp_filter", "0"),
                ("net.ipv4.conf.e0.rp_filter", "0"),
                ("net.ipv4.conf.e1.rp_filter", "0"),
            ] {
                router.sysctl(key, value).expect("a setting");
            }
        }
        let routes = [
            (&client, "default via 10.91.1.1"),
            (&first, "default via 10.91.2.2"),
            (&second, "10.91.1.0/24 via 10.91.2.1"),
            (&second, "10.91.5.0/24 nexthop via 10.91.3.2 nexthop via 10.91.4.2"),
            (&third, "default via 10.91.3.1"),
            (&server, "default via 10.91.5.1"),
        ];
        for (at, route) in routes {
            at.ip(&format!("route add {route}")).expect("a route");
        }
        drop_icmp(&first, "time-exceeded");
        let stop = Arc::new(AtomicBool::new(false));
        let address: SocketAddr = format!("{TARGET}:{OPEN}").parse().expect("an address");
        let listener = server.inside(|| TcpListener::bind(address)).expect("inside");
        let serving = Some(serve(listener.expect("a port"), stop.clone()));
        let _others = vec![first, second, server];
        Some(Routers { client, third, _others, stop, server: serving })
    }

    /// `tcpwhy probe` from the client's namespace: exit status and report.
    fn probe(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        self.probe_with(&[], env!("CARGO_BIN_EXE_tcpwhy"), arguments)
    }

    fn probe_with(
        &self,
        before: &[&str],
        binary: &str,
        arguments: &[&str],
    ) -> (Option<i32>, Value) {
        let words =
            [before, &[binary, "probe", "--json", "--interval", "30ms"], arguments].concat();
        let out = self.run(&words);
        let report: Value = serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&out.stderr)));
        let schema = include_str!("../../../../docs/probe.schema.json");
        let schema = serde_json::from_str(schema).expect("a schema");
        let validator = jsonschema::validator_for(&schema).expect("a valid schema");
        let errors: Vec<_> = validator.iter_errors(&report).map(|it| it.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        (out.status.code(), report)
    }

    fn run(&self, words: &[&str]) -> Output {
        let name = self.client.name();
        let all = [&["netns", "exec", name], words].concat();
        Command::new("ip").args(all).stdin(Stdio::null()).output().expect("ip runs")
    }
}

impl Drop for Routers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

fn drop_icmp(at: &Netns, kind: &str) {
    let rule = ["-A", "OUTPUT", "-p", "icmp", "--icmp-type", kind, "-j", "DROP"];
    at.run("iptables", &rule).expect("a rule");
}

/// Accepts connections and closes them.
fn serve(listener: TcpListener, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    listener.set_nonblocking(true).expect("a listener");
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            if listener.accept().is_err() {
                thread::sleep(Duration::from_millis(2));
            }
        }
    })
}

/// The address of each hop; `None` where it answered nothing.
fn hops(report: &Value) -> Vec<Option<String>> {
    let hops = report["path"]["hops"].as_array().expect("hops");
    let address = |hop: &Value| {
        let addresses = hop["addresses"].as_array().expect("addresses");
        // Each connect(2) has a hash of its own, which packets keep across veth, and by which these
        // routers choose; routers elsewhere see the same ports.
        let connects = report["path"]["method"] == "tcp" && report["syn"].is_null();
        assert!(addresses.len() <= 1 || connects, "one flow has one path: {hop}");
        addresses.first().and_then(|it| it["address"].as_str()).map(str::to_owned)
    };
    hops.iter().map(address).collect()
}

/// The hops of the topology: the third router is met by one of its two equal links.
fn assert_topology(hops: &[Option<String>]) {
    let known: Vec<&str> = hops.iter().map(|it| it.as_deref().unwrap_or("-")).collect();
    assert_eq!(known.len(), 4, "{known:?}");
    assert_eq!([known[0], known[1], known[3]], ["-", "10.91.2.2", TARGET]);
    assert!(["10.91.3.2", "10.91.4.2"].contains(&known[2]), "{known:?}");
}

#[test]
fn hops_are_those_of_the_topology_by_every_method() {
    let Some(routers) = Routers::build() else { return };
    let open = format!("{TARGET}:{OPEN}");
    for method in ["tcp", "udp", "icmp"] {
        let arguments = [&open, "--method", method, "--no-mtu", "--count", "3", "--wait", "1s"];
        let (status, report) = routers.probe(&arguments);
        assert_eq!(status, Some(0), "{report}");
        assert_topology(&hops(&report));
        assert_eq!(report["path"]["end"], "reached", "{method}");
        assert_eq!(report["path"]["hops"][3]["is_target"], true, "{method}");
        assert_eq!(report["path"]["loses_from"], Value::Null, "{method}");
    }
}

#[test]
fn each_run_takes_one_of_two_equal_paths() {
    let Some(routers) = Routers::build() else { return };
    let open = format!("{TARGET}:{OPEN}");
    let mut met = std::collections::BTreeSet::new();
    // Each run has another source port; the same path twelve times has a chance of 1 in 2,048.
    for _ in 0..12 {
        let arguments = [&*open, "--no-mtu", "--count", "2", "--wait", "1s"];
        let hops = hops(&routers.probe(&arguments).1);
        assert_topology(&hops);
        met.extend(hops[2].clone());
        if met.len() == 2 {
            return;
        }
    }
    panic!("all runs took {met:?}");
}

#[test]
fn hops_are_found_without_privilege() {
    let Some(routers) = Routers::build() else { return };
    let open = format!("{TARGET}:{OPEN}");
    let folder = tcpwhy_testing::Folder::passable();
    let copy = folder.copy_program(env!("CARGO_BIN_EXE_tcpwhy"));
    let copy = copy.to_str().expect("a path");
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    for method in [&["--method", "tcp"][..], &[]] {
        let more = ["--no-mtu", "--count", "2", "--wait", "1s"];
        let (status, report) =
            routers.probe_with(&nobody, copy, &[&[&*open], method, &more].concat());
        assert_eq!(status, Some(0), "{report}");
        assert_topology(&hops(&report));
        assert_eq!(report["syn"], Value::Null, "raw sockets are not for everybody");
        assert!(report["connect"]["tcpi_rtt_min_us"].as_u64().expect("the kernel's") < 1_000_000);
    }
}

#[test]
fn hops_are_those_of_traceroute() {
    let Some(routers) = Routers::build() else { return };
    if !tcpwhy_testing::installed("traceroute") {
        return;
    }
    let port = OPEN.to_string();
    let words = ["traceroute", "-n", "-T", "-p", &port, "-q", "1", "-w", "1", TARGET];
    let out = routers.run(&words);
    let text = String::from_utf8_lossy(&out.stdout);
    let theirs: Vec<Option<String>> = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().nth(1).expect("a hop"))
        .map(|word| (word != "*").then(|| word.to_owned()))
        .collect();
    assert_topology(&theirs);
    let open = format!("{TARGET}:{OPEN}");
    let (_, report) = routers.probe(&[&open, "--no-mtu", "--count", "2", "--wait", "1s"]);
    let ours = hops(&report);
    // Which of the equal links is taken depends on the port.
    assert_eq!((ours.len(), &ours[..2], &ours[3]), (theirs.len(), &theirs[..2], &theirs[3]));
}

#[test]
fn a_closed_port_is_refused_and_says_so() {
    let Some(routers) = Routers::build() else { return };
    let closed = format!("{TARGET}:{CLOSED}");
    let (status, report) = routers.probe(&[&closed, "--no-mtu", "--no-hops", "--count", "2"]);
    assert_eq!(status, Some(1), "{report}");
    assert_eq!(report["findings"][0]["cause"], "refused");
    assert_eq!(report["findings"][0]["culprit"]["endpoint"], closed);
    assert_eq!(report["syn"]["refusal"]["how"], "rst");
}

/// The server still has the connection of an earlier probe, and resets it when the next SYN comes.
#[test]
fn an_open_port_is_not_refused_where_resets_of_this_host_are_lost() {
    let Some(routers) = Routers::build() else { return };
    let port = OPEN.to_string();
    let resets = ["-p", "tcp", "--dport", &port, "--tcp-flags", "RST", "RST", "-j", "DROP"];
    let rule = [&["-A", "FORWARD"][..], &resets].concat();
    routers.third.run("iptables", &rule).expect("a rule");
    let open = format!("{TARGET}:{OPEN}");
    let (status, report) = routers.probe(&[&open, "--no-mtu", "--no-hops", "--count", "3"]);
    assert_eq!((status, &report["findings"]), (Some(0), &Value::from(Vec::<Value>::new())));
    assert!(report["syn"]["refusal"].is_null(), "{report}");
}

#[test]
fn a_smaller_link_is_found_whether_its_router_says_so_or_not() {
    let Some(routers) = Routers::build() else { return };
    let open = format!("{TARGET}:{OPEN}");
    let arguments = [&*open, "--no-hops", "--count", "2"];
    let (status, report) = routers.probe(&arguments);
    assert_eq!((status, &report["mtu"]["end"]), (Some(0), &Value::from("whole")), "{report}");
    assert_eq!(report["mtu"]["path_mtu_bytes"], 1_500);
    routers.third.ip("link set e2 mtu 1300").expect("a smaller link");
    drop_icmp(&routers.third, "fragmentation-needed");
    let (status, report) = routers.probe(&arguments);
    assert_eq!((status, &report["mtu"]["end"]), (Some(1), &Value::from("black_hole")), "{report}");
    assert_eq!(report["mtu"]["path_mtu_bytes"], 1_300);
    assert_eq!(report["mtu"]["lost_bytes"], 1_301);
    assert_eq!(report["findings"][0]["cause"], "mtu_black_hole");
    assert!(report["mtu"]["sent"].as_u64().expect("a number") <= 40, "no more than announced");
    routers.third.run("iptables", &["-F", "OUTPUT"]).expect("no rule");
    let (status, report) = routers.probe(&arguments);
    assert_eq!((status, &report["mtu"]["end"]), (Some(0), &Value::from("reported")), "{report}");
    assert_eq!(report["mtu"]["path_mtu_bytes"], 1_300);
    let by = report["mtu"]["reported_by"].as_str().expect("a router");
    assert!(["10.91.3.2", "10.91.4.2"].contains(&by), "{report}");
}

#[test]
fn ipv6_is_probed_by_every_method() {
    let Some(routers) = Routers::build() else { return };
    let bound = routers.client.inside(|| TcpListener::bind("[::1]:8080")).expect("inside");
    let (stop, target) = (Arc::new(AtomicBool::new(false)), "[::1]:8080");
    let serving = serve(bound.expect("a port"), stop.clone());
    for method in ["tcp", "udp", "icmp"] {
        let (status, report) = routers.probe(&[target, "--method", method, "--count", "2"]);
        assert_eq!(status, Some(0), "{report}");
        assert_eq!(
            hops(&report),
            [Some("::1".to_owned())],
            "{method}: the target is the first hop"
        );
        assert_eq!(report["syn"]["received"], 2, "{method}");
        assert_eq!(report["echo"]["received"], 2, "{method}");
        assert_eq!(report["mtu"]["end"], "whole", "{method}");
    }
    stop.store(true, Ordering::Relaxed);
    serving.join().expect("a server");
}

/// Answers each request on loopback with these bytes and closes.
fn answering(bytes: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 1_024];
            if std::io::Read::read(&mut stream, &mut request).is_ok_and(|length| length > 0) {
                thread::sleep(Duration::from_millis(30));
                let _ = std::io::Write::write_all(&mut stream, bytes);
            }
        }
    });
    port
}

fn request(scheme: &str, port: u16) -> Value {
    let url = format!("{scheme}://127.0.0.1:{port}/");
    let words = ["probe", &url, "--json", "--no-hops", "--no-mtu", "--count", "1"];
    let out = Command::new(env!("CARGO_BIN_EXE_tcpwhy")).args(words).output().expect("it runs");
    let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    report["request"].clone()
}

#[test]
fn the_phases_of_a_request_are_its_parts() {
    let whole = b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 2\r\n\r\nok";
    let phases = request("http", answering(whole));
    assert_eq!((&phases["status"], &phases["location"]), (&302.into(), &"/there".into()));
    assert_eq!(phases["error"], Value::Null);
    let ns = |name: &str| phases[name].as_u64().expect("a time");
    // The server may have the request before the client's call returns.
    assert!(ns("sent_ns") + ns("first_byte_ns") >= 30_000_000, "{phases}");
    let parts = ns("connect_ns") + ns("sent_ns") + ns("first_byte_ns") + ns("rest_ns");
    assert!(parts <= ns("total_ns"), "{phases}");
}

#[test]
fn answers_that_are_none_are_named() {
    for (scheme, bytes, said) in [
        ("http", &b"SSH-2.0-OpenSSH_9.2\r\n\r\n"[..], "not HTTP/1.1"),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "before the answer"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "TLS"),
    ] {
        let phases = request(scheme, answering(bytes));
        let error = phases["error"].as_str().unwrap_or_default();
        assert!(error.contains(said), "{phases}");
    }
}

#[test]
fn what_cannot_be_probed_is_said_in_a_sentence() {
    let tcpwhy = |words: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_tcpwhy")).args(words).output().expect("it runs");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (status, said) = tcpwhy(&["probe", "no-port"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("lacks a port"), "{said}");
    let (status, said) = tcpwhy(&["probe", "localhost:1", "-6", "-4"]);
    assert_eq!(status, Some(2), "{said}");
    let (status, said) = tcpwhy(&["probe", "127.0.0.1:1", "-6", "--no-hops"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("has no IPv6 address"), "{said}");
}
