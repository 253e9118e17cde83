//! `tcpwhy host` where the fault is CPU time, the packet filter, a dead host, or a table of the
//! kernel, each with what is healthy beside it.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, SendFlags, SocketAddrV4, SocketType, ipproto};
use serde_json::{Value, json};
use tcpwhy_lab::group::{Controller, Group};

use super::{Space, loud, text};

/// A shell that computes without end and holds the listener of a port: a busy service.
struct Service(Child);

impl Service {
    /// Starts it in the namespace; `first` is run by its shell before.
    fn start(space: &Space, port: u16, first: &str) -> Self {
        let end = SocketAddr::from(([127, 0, 0, 1], port));
        let listener = space.inside(|| TcpListener::bind(end).expect("a port"));
        let pid = space.pid().to_string();
        let script = format!("{first}while :; do :; done");
        let mut command = Command::new("nsenter");
        command.args(["-t", &pid, "-n", "sh", "-c", &script]);
        Self(command.stdin(Stdio::from(OwnedFd::from(listener))).spawn().expect("nsenter"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn first_of(report: &Value, check: &str) -> Value {
    let mut entries = loud(report).into_iter();
    let entry = entries.find(|it| it["check"] == check);
    entry.unwrap_or_else(|| panic!("no {check} in {:#?}", loud(report))).clone()
}

fn checks(report: &Value) -> Vec<&str> {
    loud(report).into_iter().map(|it| text(&it["check"])).collect()
}

#[test]
fn a_throttled_service_is_named_first_with_its_quota() {
    let Some(space) = Space::new() else { return };
    let group = match Group::new(Controller::Cpu) {
        Ok(group) => group,
        Err(error) => return tcpwhy_testing::skip_in_ci_too(&error.to_string()),
    };
    group.limit_cpu(Duration::from_secs(1)).expect("a limit");
    let join = format!("echo $$ > {}/cgroup.procs; ", group.folder().display());
    let service = Service::start(&space, 8080, &join);
    let (_, free) = space.host(&[]);
    assert!(!checks(&free).contains(&"cpu_throttled"), "ten CPUs are no limit: {free:#}");
    // Less than a service gets on a machine where all CPUs are busy.
    group.limit_cpu(Duration::from_millis(2)).expect("a limit");
    let (code, report) = space.host(&[]);
    assert_eq!(code, Some(1));
    let first = loud(&report)[0];
    assert_eq!(first["check"], "cpu_throttled", "{:#?}", loud(&report));
    assert_eq!(first["explains"], json!(["server_think"]));
    assert_eq!(
        first["what"],
        format!("CPU quota of sh (pid {}) at 127.0.0.1:8080", service.0.id())
    );
    assert!(text(&first["value"]).starts_with("2 ms of CPU time in each 100 ms (0.02 CPUs)"));
    let change = &first["change"];
    let folder = group.folder().display();
    let undo = match group.folder().join("cpu.max").exists() {
        true => format!("echo '2000 100000' > {folder}/cpu.max"),
        false => format!("echo 2000 > {folder}/cpu.cfs_quota_us"),
    };
    assert_eq!(text(&change["undo"]), undo);
    let done = Command::new("sh").args(["-c", text(&change["command"])]).status();
    assert!(done.expect("a shell").success(), "{change:#}");
    drop(service);
}

#[test]
fn a_service_that_waits_for_a_cpu_is_named_with_the_cpu_that_it_is_bound_to() {
    let Some(space) = Space::new() else { return };
    let cpus = thread::available_parallelism().map_or(1, |it| it.get());
    if cpus < 2 {
        tcpwhy_testing::skip_in_ci_too("a service cannot be bound on one CPU");
        return;
    }
    let bind = "taskset -p -c 0 $$ >/dev/null; ";
    let service = Service::start(&space, 8080, bind);
    let _rival = Service::start(&space, 8081, bind);
    let (code, report) = space.host(&[]);
    assert_eq!(code, Some(1));
    let waits = loud(&report).into_iter().filter(|it| it["check"] == "cpu_wait");
    let named = format!("waits of sh (pid {}) at 127.0.0.1:8080 for a CPU", service.0.id());
    let its = waits.into_iter().find(|it| text(&it["what"]) == named);
    let its = its.unwrap_or_else(|| panic!("{:#?}", loud(&report)));
    let undo = format!("taskset -a -c -p 0 {}", service.0.id());
    assert_eq!(text(&its["change"]["undo"]), undo);
}

/// Connects in the namespace until the report is there, giving up after 50 ms each time.
fn while_connecting(space: &Space, end: &str, report: impl FnOnce() -> Value) -> Value {
    use std::sync::atomic::{AtomicBool, Ordering};
    let end: SocketAddr = end.parse().expect("an address");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            space.inside(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = TcpStream::connect_timeout(&end, Duration::from_millis(50));
                }
            });
        });
        let report = report();
        is_over.store(true, Ordering::Relaxed);
        report
    })
}

#[test]
fn the_rule_that_drops_packets_of_a_service_is_named_first_and_can_be_taken_away() {
    let Some(space) = Space::new() else { return };
    let _listener = space.inside(|| TcpListener::bind("127.0.0.1:8080").expect("a port"));
    space.run(&["iptables", "-w", "-A", "INPUT", "-p", "tcp", "--dport", "9", "-j", "DROP"]);
    space.run(&["iptables", "-w", "-A", "INPUT", "-p", "tcp", "--dport", "8080", "-j", "DROP"]);
    let (code, quiet) = space.host(&[]);
    assert_eq!((code, checks(&quiet)), (Some(0), vec![]), "it has dropped nothing yet");
    let report = while_connecting(&space, "127.0.0.1:8080", || space.host(&[]).1);
    let first = loud(&report)[0];
    assert_eq!(first["check"], "packet_filter_drops", "{:#?}", loud(&report));
    assert!(text(&first["value"]).contains("tcp dport 8080"), "{first:#}");
    assert!(text(&first["what"]).ends_with("in chain ip filter INPUT"), "{first:#}");
    let rules = || String::from_utf8(space.run(&["iptables", "-w", "-S"]).stdout).expect("text");
    let before = rules();
    for part in ["command", "undo"] {
        let command = text(&first["change"][part]);
        let done = Command::new("sh").args(["-c", command]).status();
        assert!(done.expect("a shell").success(), "{command}");
        let has_rule = rules().contains("8080");
        assert_eq!(has_rule, part == "undo", "{command}");
    }
    assert_eq!(rules(), before);
}

#[test]
fn a_dead_host_on_the_link_is_named_with_the_process_that_tries() {
    let Some(space) = Space::new() else { return };
    let run = |words: &str| space.run(&words.split(' ').collect::<Vec<_>>());
    run("ip link add v0 type veth peer name v1");
    run("ip link set v0 up");
    run("ip link set v1 up");
    run("ip addr add 10.9.0.1/24 dev v0");
    // A neighbour that is known, and takes everything without an answer.
    run("ip neigh add 10.9.0.8 lladdr 02:00:00:00:00:08 dev v0 nud permanent");
    let connecting = |end: &'static str| {
        let end: SocketAddr = end.parse().expect("an address");
        let open = || TcpStream::connect_timeout(&end, Duration::from_secs(5));
        let _ = space.inside(open);
    };
    let report = thread::scope(|scope| {
        scope.spawn(|| connecting("10.9.0.7:5432"));
        scope.spawn(|| connecting("10.9.0.8:5432"));
        // The first SYN is sent again after a second.
        thread::sleep(Duration::from_millis(1_200));
        space.host(&[]).1
    });
    let dead = first_of(&report, "neighbour_failed");
    assert_eq!(dead["what"], "10.9.0.7 on v0 does not answer ARP");
    assert_eq!(dead["explains"], json!(["syn_retransmit"]));
    let evidence = dead["evidence"].to_string();
    assert!(evidence.contains(&format!("(pid {}) tries to connect", super::own())), "{evidence}");
    let silent = first_of(&report, "unanswered");
    assert_eq!(silent["what"], "10.9.0.8:5432 does not answer");
    assert_eq!(checks(&report).len(), 2, "{report:#}");
}

#[test]
fn closed_connections_beyond_the_limit_of_time_wait_are_named() {
    let Some(space) = Space::new() else { return };
    space.sysctl("net.ipv4.tcp_max_tw_buckets", "4");
    let listener = space.inside(|| TcpListener::bind("127.0.0.1:8080").expect("a port"));
    let report = thread::scope(|scope| {
        let end = listener.local_addr().expect("an address");
        scope.spawn(move || {
            answer_closes(&listener, 120);
        });
        let space = &space;
        scope.spawn(move || {
            space.inside(|| {
                for _ in 0..120 {
                    let client = TcpStream::connect(end).expect("a connection");
                    client.shutdown(Shutdown::Write).expect("a FIN");
                    thread::sleep(Duration::from_millis(10));
                }
            });
        });
        space.host(&[]).1
    });
    let entry = first_of(&report, "time_wait");
    assert_eq!(entry["explains"], json!(["reset"]));
    assert!(text(&entry["change"]["undo"]).ends_with("sysctl -w net.ipv4.tcp_max_tw_buckets=4"));
}

/// Accepts connections and closes each once its client has.
fn answer_closes(listener: &TcpListener, number: u32) {
    for _ in 0..number {
        let (mut server, _) = listener.accept().expect("accepted");
        let _ = io::copy(&mut server, &mut io::sink());
        let _ = server.shutdown(Shutdown::Write);
    }
}

#[test]
fn segments_with_a_wrong_checksum_are_named() {
    let Some(space) = Space::new() else { return };
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            space.inside(|| {
                let raw =
                    rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::TCP));
                let raw = raw.expect("a raw socket");
                // A SYN from port 9 to port 8080 whose checksum is zero.
                let segment = [0, 9, 31, 144, 0, 0, 0, 1, 0, 0, 0, 0, 80, 2, 16, 0, 0, 0, 0, 0];
                let end = SocketAddrV4::new([127, 0, 0, 1].into(), 0);
                for _ in 0..100 {
                    let flags = SendFlags::empty();
                    rustix::net::sendto(&raw, &segment, flags, &end).expect("sent");
                    thread::sleep(Duration::from_millis(10));
                }
            });
        });
        space.host(&[]).1
    });
    let entry = first_of(&report, "checksum_errors");
    let counter = &entry["evidence"][0];
    assert_eq!(counter["counter"], "Tcp.InCsumErrors");
    assert!(counter["grew_by"].as_u64() > Some(3), "{entry:#}");
}

#[test]
fn syns_that_a_listener_drops_though_its_queue_has_room_are_named() {
    let Some(space) = Space::new() else { return };
    space.sysctl("net.ipv4.tcp_syncookies", "0");
    space.sysctl("net.ipv4.tcp_max_syn_backlog", "8");
    let _listener = space.inside(|| TcpListener::bind("127.0.0.1:8080").expect("a port"));
    // No SYN-ACK comes out: each SYN leaves a half-open connection behind.
    let flags = ["-p", "tcp", "--tcp-flags", "SYN,ACK", "SYN,ACK", "-j", "DROP"];
    space.run(&[&["iptables", "-w", "-A", "OUTPUT"], &flags[..]].concat());
    let report = while_connecting(&space, "127.0.0.1:8080", || {
        thread::sleep(Duration::from_millis(700));
        space.host(&[]).1
    });
    let entry = first_of(&report, "listen_drops");
    assert!(entry["evidence"].to_string().contains("half-open connections, its accept queue has"));
    let command = text(&entry["change"]["command"]);
    assert!(command.ends_with("sysctl -w net.ipv4.tcp_syncookies=1"), "{command}");
}
