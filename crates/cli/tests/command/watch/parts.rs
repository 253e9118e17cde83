//! The parts of a server's time, with real programs and a healthy twin of each.

use super::*;
use tcpwhy_lab::group::{Controller, Group};

const PORT: u16 = 8090;

/// A server with a thread for each connection, which works as its first argument says.
const THREADS: &str = r#"
import mmap, os, random, socket, sys, threading, time
lock = threading.Lock()
PAGE, PAGES = 4096, 1024
data = os.open(sys.argv[0] + '.data', os.O_RDWR | os.O_CREAT)
os.pwrite(data, os.urandom(PAGE * PAGES), 0)
pages = mmap.mmap(data, PAGE * PAGES, access=mmap.ACCESS_READ)
pages.madvise(mmap.MADV_RANDOM)
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
def work():
    if sys.argv[1] == 'compute': spin(0.02)
    if sys.argv[1] in ('sleep', 'touch', 'sync'): time.sleep(0.02)
    if sys.argv[1] == 'lock':
        with lock: time.sleep(0.02)
    if sys.argv[1] == 'sync':
        os.pwrite(data, os.urandom(PAGE), random.randrange(PAGES) * PAGE)
        os.fdatasync(data)
    if sys.argv[1] == 'drop':
        pages.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(data, 0, 0, os.POSIX_FADV_DONTNEED)
    if sys.argv[1] in ('drop', 'touch'):
        pages[random.randrange(PAGES) * PAGE]
def serve(connection):
    while connection.recv(4096):
        work()
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n' + b'x' * 5000)
os.fdatasync(data)
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
fn load(place: &Place, clients: usize) -> Load {
    load_with(place, clients, false)
}

/// The same; if `anew`, each request has a connection of its own.
fn load_with(place: &Place, clients: usize, anew: bool) -> Load {
    let ends = Arc::new(AtomicBool::new(false));
    let connect = || {
        let stream = TcpStream::connect(("127.0.0.1", PORT)).expect("accepted");
        stream.set_nodelay(true).expect("an option");
        stream
    };
    let ask = move |name: String, ends: Arc<AtomicBool>| {
        let work = || {
            let mut stream = connect();
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
                if anew {
                    stream = connect();
                }
            }
        };
        Netns::find(&name).expect("the namespace").inside(work).expect("inside");
    };
    let threads = (0..clients).map(|_| {
        let (name, ends) = (place.name.clone(), Arc::clone(&ends));
        thread::spawn(move || ask(name, ends))
    });
    let threads = threads.collect();
    Load { ends, threads }
}

/// A control group; `None`, with the reason, where this machine lets none be made. It has to outlive
/// its members.
fn group(controller: Controller) -> Option<Group> {
    if !tcpwhy_testing::privileged("control groups") {
        return None;
    }
    let made = Group::new(controller);
    if let Err(error) = &made {
        tcpwhy_testing::skip_in_ci_too(&error.to_string());
    }
    made.ok()
}

/// Starts a server as a member of `group`.
fn start(place: &mut Place, group: Option<&Group>, program: &[&str]) {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &place.name]).args(program).stderr(Stdio::null());
    if let Some(group) = group {
        group.add(&mut command);
    }
    place.children.push(command.spawn().expect("ip runs"));
    let is_up = || place.inside(|| TcpStream::connect(("127.0.0.1", PORT)).is_ok());
    wait_for("it listens", is_up);
}

/// Causes of a server's time.
const CAUSES: [&str; 9] = [
    "server_think",
    "cpu_throttled",
    "cpu_saturation",
    "event_loop_blocked",
    "workers_exhausted",
    "lock_wait",
    "gc_pause",
    "disk_wait",
    "memory_pressure",
];

/// The report of a watch of the server under load: its parts, and the cause of its time, which is empty if
/// that is too short to have one.
fn watched(place: &Place, load: Load) -> (Value, String) {
    let out = place.watch(&["--for", "5s", "--json", "--budget", "none", "--interval", "1s"]);
    let all = reports(&out.wait_with_output().expect("its output"));
    drop(load);
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
    let named = findings.iter().filter_map(|it| it["cause"].as_str());
    let own_time: Vec<&str> = named.filter(|it| CAUSES.contains(it)).collect();
    let cause = match own_time[..] {
        [] => "",
        [cause] => cause,
        _ => panic!("several causes of the server's time: {findings:#?}"),
    };
    (own, cause.to_owned())
}

fn sum(parts: &Value) -> u64 {
    parts.as_object().expect("parts").values().filter_map(Value::as_u64).sum()
}

fn python(place: &Place) -> Option<String> {
    let path = place.folder.join("server.py");
    std::fs::write(&path, THREADS).expect("a file");
    tcpwhy_testing::installed("python3").then(|| path.display().to_string())
}

#[test]
fn a_cpu_quota_is_named_and_none_is_none() {
    let Some(group) = group(Controller::Cpu) else { return };
    let Some(mut place) = Place::new() else { return };
    let Some(server) = python(&place) else { return };
    let _alone = tcpwhy_testing::alone();
    group.limit_cpu(Duration::from_secs(1)).expect("a limit");
    start(&mut place, Some(&group), &["python3", &server, "compute"]);
    let (free, cause) = watched(&place, load(&place, 1));
    assert_eq!(free["parts"].get("throttled"), None, "{free}");
    assert_ne!(cause, "cpu_throttled");
    group.limit_cpu(Duration::from_millis(20)).expect("a limit");
    let (held, cause) = watched(&place, load(&place, 1));
    assert_eq!((&held["largest"], &*cause), (&"throttled".into(), "cpu_throttled"), "{held}");
}

#[test]
fn other_programs_on_its_cpu_are_named_and_an_idle_cpu_is_none() {
    let Some(mut place) = Place::new() else { return };
    let Some(server) = python(&place) else { return };
    let _alone = tcpwhy_testing::alone();
    // It comes before what else this machine does.
    start(&mut place, None, &["nice", "-n", "-20", "python3", &server, "compute"]);
    tcpwhy_testing::undisturbed(|| {
        let (free, cause) = watched(&place, load(&place, 1));
        assert_eq!((&free["largest"], &*cause), (&"running".into(), "server_think"), "{free}");
    });
    let Some(mut place) = Place::new() else { return };
    start(&mut place, None, &["taskset", "-c", "0", "python3", &server, "compute"]);
    let busy =
        || Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn();
    place.children.extend((0..4).map(|_| busy().expect("taskset runs")));
    let (held, cause) = watched(&place, load(&place, 1));
    assert_eq!((&held["largest"], &*cause), (&"cpu_wait".into(), "cpu_saturation"), "{held}");
}

#[test]
fn a_lock_that_requests_wait_for_is_named_and_a_sleeping_handler_is_none() {
    let Some(mut place) = Place::new() else { return };
    let Some(server) = python(&place) else { return };
    start(&mut place, None, &["python3", &server, "lock"]);
    let (held, cause) = watched(&place, load(&place, 6));
    assert_eq!((&held["largest"], &*cause), (&"lock".into(), "lock_wait"), "{held}");
    let Some(mut place) = Place::new() else { return };
    start(&mut place, None, &["python3", &server, "sleep"]);
    let (asleep, cause) = watched(&place, load(&place, 6));
    assert_eq!((&asleep["largest"], &*cause), (&"sleep".into(), "server_think"), "{asleep}");
}

#[test]
fn a_blocked_event_loop_is_named_and_a_single_client_blocks_nobody() {
    let Some(mut place) = Place::new() else { return };
    if !tcpwhy_testing::installed("node") {
        return;
    }
    let path = place.folder.join("server.js");
    std::fs::write(&path, NODE).expect("a file");
    start(&mut place, None, &["node", &path.display().to_string(), "30"]);
    let (alone, cause) = watched(&place, load(&place, 1));
    assert_ne!(cause, "event_loop_blocked", "{alone}");
    // On a busy machine it also waits for a CPU while it runs other requests.
    tcpwhy_testing::undisturbed(|| {
        let (held, cause) = watched(&place, load(&place, 8));
        let is_it = (&held["largest"], &*cause);
        assert_eq!(is_it, (&"other_requests".into(), "event_loop_blocked"), "{held}");
        assert_eq!(held["process"]["runtime"], "Node.js, one event loop", "{held}");
    });
}

/// Each worker answers a request and closes, as the synchronous ones of gunicorn do.
const WORKERS: &str = r#"
import ctypes, os, socket, sys, time
listener = socket.create_server(('127.0.0.1', 8090), backlog=100)
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
        break
while True:
    connection = listener.accept()[0]
    connection.recv(4096)
    time.sleep(0.03)
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n' + b'x' * 5000)
    connection.close()
"#;

#[test]
fn too_few_workers_are_named_and_enough_of_them_are_none() {
    if !tcpwhy_testing::installed("python3") {
        return;
    }
    for (workers, largest, cause) in
        [("2", "no_worker_free", "workers_exhausted"), ("12", "sleep", "server_think")]
    {
        tcpwhy_testing::undisturbed(|| {
            let Some(mut place) = Place::new() else { return };
            let path = place.folder.join("workers.py");
            std::fs::write(&path, WORKERS).expect("a file");
            let path = path.display().to_string();
            start(&mut place, None, &["python3", &path, workers]);
            let (parts, named) = watched(&place, load_with(&place, 10, true));
            assert_eq!((&parts["largest"], &*named), (&largest.into(), cause), "{parts}");
        });
    }
}

/// A server of one thread for each connection that keeps 100 MB, and allocates 6 MB for each request.
const COLLECTS: &str = r#"
import java.io.*;
import java.net.*;
public class Collects {
    static Object[] kept = new Object[100_000_000 / 64];
    static volatile byte[] last;
    public static void main(String[] args) throws IOException {
        for (int at = 0; at < kept.length; at++) kept[at] = new byte[40];
        System.gc();
        ServerSocket listener = new ServerSocket(8090, 50, InetAddress.getByName("127.0.0.1"));
        while (true) {
            Socket connection = listener.accept();
            new Thread(() -> serve(connection)).start();
        }
    }
    static void serve(Socket connection) {
        byte[] head = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n".getBytes();
        byte[] answer = java.util.Arrays.copyOf(head, head.length + 5000);
        java.util.Arrays.fill(answer, head.length, answer.length, (byte) 'x');
        try {
            byte[] request = new byte[4096];
            while (connection.getInputStream().read(request) > 0) {
                for (int at = 0; at < 100; at++) last = new byte[1 << 16];
                connection.getOutputStream().write(answer);
            }
        } catch (IOException gone) {
        }
    }
}
"#;

#[test]
fn a_java_heap_that_is_full_is_named_and_a_large_one_is_not() {
    if !tcpwhy_testing::installed("javac") {
        return;
    }
    let served = |heap: &str| {
        let mut place = Place::new()?;
        let path = place.folder.join("Collects.java");
        std::fs::write(&path, COLLECTS).expect("a file");
        let (path, heap) =
            (path.display().to_string(), [format!("-Xms{heap}"), format!("-Xmx{heap}")]);
        start(&mut place, None, &["java", "-XX:+UseSerialGC", &heap[0], &heap[1], &path]);
        Some(watched(&place, load(&place, 2)))
    };
    let _alone = tcpwhy_testing::alone();
    let Some((full, cause)) = served("140m") else { return };
    assert_eq!((&full["largest"], &*cause), (&"collector".into(), "gc_pause"), "{full}");
    assert_eq!(full["process"]["runtime"], "Java, Serial GC", "{full}");
    let Some((roomy, cause)) = served("2g") else { return };
    assert_ne!(cause, "gc_pause", "{roomy}");
}

#[test]
fn a_slow_disk_is_named_and_a_fast_one_is_none() {
    let Some(group) = group(Controller::Disk) else { return };
    let Some(mut place) = Place::new() else { return };
    let Some(server) = python(&place) else { return };
    start(&mut place, Some(&group), &["python3", &server, "sync"]);
    let (free, cause) = watched(&place, load(&place, 1));
    assert_eq!(cause, "server_think", "it sleeps longer than the disk takes: {free}");
    group.limit_disk(&place.folder, 20).expect("a limit");
    let (held, cause) = watched(&place, load(&place, 1));
    assert_eq!((&held["largest"], &*cause), (&"disk".into(), "disk_wait"), "{held}");
}

#[test]
fn pages_that_are_not_in_memory_are_named_and_those_that_are_are_none() {
    let Some(group) = group(Controller::Disk) else { return };
    let Some(mut place) = Place::new() else { return };
    let Some(server) = python(&place) else { return };
    group.limit_disk(&place.folder, 20).expect("a limit");
    start(&mut place, Some(&group), &["python3", &server, "drop"]);
    let (dropped, cause) = watched(&place, load(&place, 1));
    let is_it = (&dropped["largest"], &*cause);
    assert_eq!(is_it, (&"memory".into(), "memory_pressure"), "{dropped}");
    let Some(mut place) = Place::new() else { return };
    start(&mut place, Some(&group), &["python3", &server, "touch"]);
    let (kept, cause) = watched(&place, load(&place, 1));
    assert_eq!((&kept["largest"], &*cause), (&"sleep".into(), "server_think"), "{kept}");
}
