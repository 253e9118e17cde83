//! The parts of a server's time, with real programs and a healthy twin of each.

use super::*;
use crate::host::parts::Group;
use serde_json::Map;

const PORT: u16 = 8090;

/// A server with a thread for each connection, which works as its first argument says.
const THREADS: &str = r#"
import socket, sys, threading, time
lock = threading.Lock()
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
def work():
    if sys.argv[1] == 'compute': spin(0.02)
    if sys.argv[1] == 'sleep': time.sleep(0.02)
    if sys.argv[1] == 'lock':
        with lock: time.sleep(0.02)
def serve(connection):
    while connection.recv(4096):
        work()
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n' + b'x' * 5000)
listener = socket.create_server(('127.0.0.1', 8090))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
"#;

/// Node, in which every request computes for as long as its first argument says, ms.
const NODE: &str = r"
const server = require('http').createServer((request, response) => {
  const end = process.hrtime.bigint() + BigInt(process.argv[2]) * 1000000n;
  while (process.hrtime.bigint() < end);
  response.end('x'.repeat(5000));
});
server.listen(8090, '127.0.0.1');
";

/// Clients that ask again and again at [`PORT`], each on one connection.
fn load(place: &Place, connections: usize) -> Load {
    let ends = Arc::new(AtomicBool::new(false));
    let ask = |name: String, ends: Arc<AtomicBool>| {
        let work = || {
            let mut stream = TcpStream::connect(("127.0.0.1", PORT)).expect("accepted");
            stream.set_nodelay(true).expect("an option");
            while !ends.load(Ordering::Relaxed) {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").expect("sent");
                let mut response = Vec::new();
                while !response.ends_with(&[b'x'; 5_000]) {
                    let mut buffer = [0; 8192];
                    let read = stream.read(&mut buffer).expect("received");
                    assert!(read > 0, "the server stays");
                    response.extend_from_slice(&buffer[..read]);
                }
                thread::sleep(Duration::from_millis(5));
            }
        };
        Netns::find(&name).expect("the namespace").inside(work).expect("inside");
    };
    let threads = (0..connections).map(|_| {
        let (name, ends) = (place.name.clone(), Arc::clone(&ends));
        thread::spawn(move || ask(name, ends))
    });
    let threads = threads.collect();
    Load { ends, threads }
}

/// Starts a server; `first` begins the line of its shell, before it enters the namespace.
fn start(place: &mut Place, first: &str, program: &[&str]) {
    let name = place.name.clone();
    let script = format!("{first} ip netns exec {name} \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).args(program).stderr(Stdio::null());
    place.children.push(command.spawn().expect("sh runs"));
    let is_up = || place.inside(|| TcpStream::connect(("127.0.0.1", PORT)).is_ok());
    wait_for("it listens", is_up);
}

/// The report of a watch of the server under load: its parts, and the fact that names one of them.
fn watched(place: &Place, connections: usize) -> (Value, Map<String, Value>) {
    let _load = load(place, connections);
    let out = place.watch(&["--for", "5s", "--json", "--budget", "none", "--interval", "1s"]);
    let all = reports(&out.wait_with_output().expect("its output"));
    let last = all.into_iter().next_back().expect("a report");
    let watch = &last["watch"];
    assert_eq!(watch["hooks_missing"], Value::Null, "root can attach hooks");
    let servers = watch["server_parts"].as_array().expect("a list");
    let own = servers.iter().find(|it| it["server"] == format!("127.0.0.1:{PORT}"));
    let own = own.unwrap_or_else(|| panic!("no parts: {last:#}")).clone();
    assert_eq!(sum(&own["parts"]), own["server_ns"].as_u64().expect("a number"), "{own}");
    for one in watch["slowest_exchanges"].as_array().expect("a list") {
        let parts = &one["server_parts"];
        assert!(parts.is_null() || Some(sum(parts)) == one["server_ns"].as_u64(), "{one}");
    }
    let findings = last["findings"].as_array().expect("findings");
    let think = findings.iter().find(|it| it["cause"] == "server_think");
    let think = think.unwrap_or_else(|| panic!("the server takes time: {findings:#?}"));
    let kinds = ["throttled_ns", "cpu_wait_ns", "loop_busy_ns", "lock_wait_ns", "disk_wait_ns"];
    let mut facts = think["facts"].as_object().expect("facts").clone();
    facts.retain(|name, _| kinds.contains(&name.as_str()));
    (own, facts)
}

fn sum(parts: &Value) -> u64 {
    parts.as_object().expect("parts").values().filter_map(Value::as_u64).sum()
}

fn names(facts: &Map<String, Value>) -> Vec<&str> {
    facts.keys().map(String::as_str).collect()
}

fn python(place: &Place) -> Option<String> {
    let path = place.folder.join("server.py");
    std::fs::write(&path, THREADS).expect("a file");
    tcpwhy_testing::installed("python3").then(|| path.display().to_string())
}

#[test]
fn a_cpu_quota_is_named_and_none_is_none() {
    let Some(mut place) = Place::new() else { return };
    let Some(server) = python(&place) else { return };
    let Some(group) = Group::new("watch") else {
        tcpwhy_testing::skip_in_ci_too("no control group with a limit of CPU time can be made");
        return;
    };
    let _alone = tcpwhy_testing::alone();
    let join = format!("echo $$ > {}/cgroup.procs; exec", group.folder.display());
    start(&mut place, &join, &["python3", &server, "compute"]);
    let (free, facts) = watched(&place, 1);
    assert_eq!(free["parts"].get("throttled"), None, "{free}");
    assert!(!names(&facts).contains(&"throttled_ns"), "{facts:?}");
    group.limit(20).expect("a limit");
    let (held, facts) = watched(&place, 1);
    assert_eq!(
        (&held["largest"], names(&facts)),
        (&"throttled".into(), vec!["throttled_ns"]),
        "{held}"
    );
}

#[test]
fn other_programs_on_its_cpu_are_named_and_an_idle_cpu_is_none() {
    let Some(mut place) = Place::new() else { return };
    let Some(server) = python(&place) else { return };
    let _alone = tcpwhy_testing::alone();
    // It comes before what else this machine does.
    start(&mut place, "exec nice -n -20", &["python3", &server, "compute"]);
    tcpwhy_testing::undisturbed(|| {
        let (free, facts) = watched(&place, 1);
        assert_eq!((&free["largest"], names(&facts)), (&"running".into(), vec![]), "{free}");
    });
    let Some(mut place) = Place::new() else { return };
    start(&mut place, "exec taskset -c 0", &["python3", &server, "compute"]);
    let busy =
        || Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn();
    place.children.extend((0..4).map(|_| busy().expect("taskset runs")));
    let (held, facts) = watched(&place, 1);
    assert_eq!(
        (&held["largest"], names(&facts)),
        (&"cpu_wait".into(), vec!["cpu_wait_ns"]),
        "{held}"
    );
}

#[test]
fn a_lock_that_requests_wait_for_is_named_and_a_sleeping_handler_is_none() {
    let Some(mut place) = Place::new() else { return };
    let Some(server) = python(&place) else { return };
    start(&mut place, "exec", &["python3", &server, "lock"]);
    let (held, facts) = watched(&place, 6);
    assert_eq!((&held["largest"], names(&facts)), (&"lock".into(), vec!["lock_wait_ns"]), "{held}");
    let Some(mut place) = Place::new() else { return };
    start(&mut place, "exec", &["python3", &server, "sleep"]);
    let (asleep, facts) = watched(&place, 6);
    assert_eq!((&asleep["largest"], names(&facts)), (&"sleep".into(), vec![]), "{asleep}");
}

#[test]
fn a_blocked_event_loop_is_named_and_a_single_client_blocks_nobody() {
    let Some(mut place) = Place::new() else { return };
    if !tcpwhy_testing::installed("node") {
        return;
    }
    let path = place.folder.join("server.js");
    std::fs::write(&path, NODE).expect("a file");
    start(&mut place, "exec", &["node", &path.display().to_string(), "30"]);
    let (alone, facts) = watched(&place, 1);
    assert!(!names(&facts).contains(&"loop_busy_ns"), "{alone}");
    // On a busy machine it also waits for a CPU while it runs other requests.
    tcpwhy_testing::undisturbed(|| {
        let (held, facts) = watched(&place, 8);
        let is_it = (&held["largest"], names(&facts));
        assert_eq!(is_it, (&"other_requests".into(), vec!["loop_busy_ns"]), "{held}");
    });
}
