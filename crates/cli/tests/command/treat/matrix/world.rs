//! A place of its own for one treatment: network, mounts, files, and those who use them.

use super::*;
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The namespace; each cell has its own directory of names.
pub(super) const NETNS: &str = "cell";
/// All of a cell: it is mounted, and gone with the thread.
const FOLDER: &str = "/run/cell";
/// Time that an event may take on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Programs that a treatment may run.
const HELPERS: [&str; 3] = ["ip", "nft", "dnsmasq"];

/// Objects by name with their values, as an independent reader finds them.
pub(super) type State = BTreeMap<&'static str, String>;

pub(super) struct World {
    /// The namespace, which exists as long as the test holds it.
    pub(super) netns: Netns,
    pub(super) listener: Option<TcpListener>,
    pub(super) connections: Vec<(TcpStream, TcpStream)>,
    traffic: Option<Traffic>,
}

/// Requests that take 20 ms.
struct Traffic {
    /// Time that the server takes for a request, ms.
    work_ms: Arc<AtomicU64>,
    /// The longest request so far, ms.
    longest_ms: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// Mounts a file system; the thread has mounts of its own.
fn mount(kind: &str, options: &str, source: &str, target: &str) {
    let kind = if kind.is_empty() { vec![] } else { vec!["-t", kind] };
    let status = Command::new("mount").args(kind).args(["-o", options, source, target]).status();
    assert!(status.expect("mount is installed").success(), "mount {target}");
}

/// Gives this thread mounts of its own, in which nothing reaches the host.
fn own_mounts() {
    // SAFETY: unshare takes flags alone, of which these two concern this thread only.
    let done = unsafe { libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    let private = Command::new("mount").args(["--make-rprivate", "/"]).status();
    assert!(private.expect("mount is installed").success());
    mount("tmpfs", "mode=755", "none", "/run");
    // A device that a program gives away is not the host's.
    let null = Command::new("mknod").args(["-m", "666", "/run/null", "c", "1", "3"]).status();
    assert!(null.expect("mknod is installed").success());
    mount("", "bind", "/run/null", "/dev/null");
    if tcpwhy_live::hooks::BUILT {
        mount("bpf", "mode=700", "bpf", "/sys/fs/bpf");
    }
}

impl World {
    /// Makes the world of the calling thread.
    pub(super) fn new() -> Self {
        own_mounts();
        fs::create_dir_all(format!("{FOLDER}/journal")).expect("a folder");
        fs::create_dir_all(format!("{FOLDER}/bin")).expect("a folder");
        mount("tmpfs", "mode=755,size=256k", "none", &format!("{FOLDER}/journal"));
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        for program in HELPERS {
            let mut folders = std::env::split_paths(&path).map(|folder| folder.join(program));
            if let Some(found) = folders.find(|file| file.is_file()) {
                std::os::unix::fs::symlink(found, format!("{FOLDER}/bin/{program}"))
                    .expect("a link");
            }
        }
        fs::write(resolv_conf(), "nameserver 10.9.9.9\noptions ndots:5\n").expect("a file");
        let netns = network();
        let mut world = Self { netns, listener: None, connections: Vec::new(), traffic: None };
        world.listen();
        world.connect();
        world
    }

    /// Begins to listen, with a queue of 16 connections. They have the congestion control cubic where
    /// the kernel has it, whatever the host uses.
    pub(super) fn listen(&mut self) {
        let open = || {
            let (domain, kind) = (socket2::Domain::IPV4, socket2::Type::STREAM);
            let socket = socket2::Socket::new(domain, kind, None).expect("a socket");
            socket.set_reuse_address(true).expect("an option");
            let _ = socket.set_tcp_congestion(b"cubic");
            let address: SocketAddr = "127.0.0.1:7070".parse().expect("an address");
            // A program that is being started may have a copy of the old one for a moment.
            until("the port is free", || socket.bind(&address.into()).is_ok());
            until("the port is free", || socket.listen(16).is_ok());
            TcpListener::from(socket)
        };
        self.listener = Some(self.netns.inside(open).expect("entered"));
    }

    /// Opens a connection. Its server acknowledges late.
    pub(super) fn connect(&mut self) {
        let connect = || TcpStream::connect("127.0.0.1:7070").expect("a connection");
        let client = self.netns.inside(connect).expect("entered");
        let (server, _) = self.listener.as_ref().expect("a listener").accept().expect("a client");
        option(&server, libc::IPPROTO_TCP, libc::TCP_QUICKACK, Some(0));
        self.connections.push((client, server));
    }

    /// Closes all connections. A program that is being started may have a copy for a moment.
    pub(super) fn disconnect(&mut self) {
        self.connections.clear();
        let listed = ["ss", "-Htn", "state", "connected", "exclude", "time-wait"];
        let of_server = ["src", "127.0.0.1:7070"];
        let open = || self.read(&[&listed[..], &of_server].concat());
        until("the connections are closed", || open().is_empty());
    }

    /// Runs a program in the namespace, and returns its output.
    pub(super) fn read(&self, command: &[&str]) -> String {
        let run = || Command::new(command[0]).args(&command[1..]).output().expect("installed");
        let out = self.netns.inside(run).expect("entered");
        String::from_utf8_lossy(&out.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Runs a program in the namespace, which has to succeed.
    pub(super) fn run(&self, command: &[&str]) {
        let run = || Command::new(command[0]).args(&command[1..]).output().expect("installed");
        let out = self.netns.inside(run).expect("entered");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{command:?}: {said}");
    }

    /// Replaces the namespace by another one of its name.
    pub(super) fn replace(&mut self) {
        self.listener = None;
        self.connections.clear();
        ip(&["netns", "del", NETNS]);
        if self.traffic.is_none() {
            // Without a holder the old one ends, and the kernel may use its number again.
            self.netns = Netns::own();
        }
        self.netns = network();
        self.listen();
        self.connect();
    }

    /// Begins the traffic of which the guard knows the latency.
    pub(super) fn begin_traffic(&mut self) {
        let is_over = Arc::new(AtomicBool::new(false));
        let (work_ms, longest_ms) = (Arc::new(AtomicU64::new(20)), Arc::new(AtomicU64::new(0)));
        let bind = || TcpListener::bind("127.0.0.2:7070").expect("a port");
        let listener = self.netns.inside(bind).expect("entered");
        let work = Arc::clone(&work_ms);
        // It ends with the process of the test: nobody connects any more.
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let work = Duration::from_millis(work.load(Ordering::Relaxed));
                thread::spawn(move || {
                    let _ = client.read(&mut [0; 512]);
                    thread::sleep(work);
                    let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                });
            }
        });
        let client = || {
            let (netns, is_over) = (self.netns.clone(), Arc::clone(&is_over));
            let longest = Arc::clone(&longest_ms);
            let ask = move || {
                while !is_over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let Ok(mut stream) = TcpStream::connect("127.0.0.2:7070") else { continue };
                    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: cell\r\n\r\n");
                    let _ = stream.read(&mut [0; 512]);
                    longest.fetch_max(began.elapsed().as_millis() as u64, Ordering::Relaxed);
                    // Together less than a limit of 100 SYNs a second.
                    thread::sleep(Duration::from_millis(250));
                }
            };
            thread::spawn(move || netns.inside(ask).expect("entered"))
        };
        let threads = (0..16).map(|_| client()).collect();
        self.traffic = Some(Traffic { work_ms, longest_ms, is_over, threads });
    }

    /// Lets requests take so much longer that it is not the load of the machine.
    pub(super) fn slow_down(&self) {
        let traffic = self.traffic.as_ref().expect("traffic");
        let longest = traffic.longest_ms.load(Ordering::Relaxed);
        traffic.work_ms.store((4 * longest).clamp(500, 3_000), Ordering::Relaxed);
    }

    /// Takes away the programs that a treatment runs, or gives them back.
    pub(super) fn hide_helpers(is_hidden: bool) {
        let (here, away) = (format!("{FOLDER}/bin"), format!("{FOLDER}/away"));
        let (from, to) = if is_hidden { (here, away) } else { (away, here) };
        fs::rename(from, to).expect("a folder");
    }

    /// Leaves no room in the journal.
    pub(super) fn fill_journal() {
        let mut file = fs::File::create(format!("{FOLDER}/journal/full")).expect("a file");
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    pub(super) fn make_journal_read_only(is_read_only: bool) {
        let mode = if is_read_only { "remount,ro" } else { "remount,rw" };
        mount("", mode, "none", &format!("{FOLDER}/journal"));
    }

    /// `tcpwhy treat` in this world.
    pub(super) fn tcpwhy(arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
        command.arg("treat").args(arguments);
        command.env("TCPWHY_TREAT_DIR", format!("{FOLDER}/journal"));
        command.env("PATH", format!("{FOLDER}/bin"));
        command
    }

    /// The record of the treatment, if it is there.
    pub(super) fn record() -> Option<Value> {
        let bytes = fs::read(format!("{FOLDER}/journal/1.json")).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(traffic) = self.traffic.take() {
            traffic.is_over.store(true, Ordering::Relaxed);
            traffic.threads.into_iter().for_each(|thread| drop(thread.join()));
        }
        // Whatever is left in the namespace.
        let left = self.read(&["ip", "netns", "pids", NETNS]);
        let own = std::process::id().to_string();
        for pid in left.split(' ').filter(|pid| !pid.is_empty() && *pid != own) {
            let _ = Command::new("kill").args(["-9", pid]).output();
        }
        let _ = Command::new("ip").args(["netns", "del", NETNS]).output();
    }
}

/// Makes the namespace: loopback, an interface, and a default route with many attributes.
fn network() -> Netns {
    ip(&["netns", "add", NETNS]);
    let mut setup = Command::new("ip");
    let mut setup =
        setup.args(["-n", NETNS, "-batch", "-"]).stdin(Stdio::piped()).spawn().expect("ip");
    let lines = "link set lo up\n\
                 link add near type veth peer name far\n\
                 addr add 10.77.0.1/24 dev near\n\
                 link set far up\n\
                 link set near up\n\
                 route add default via 10.77.0.2 metric 50 mtu 1400 quickack 1 initrwnd 9 features ecn \
                 congctl reno\n";
    setup.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it reads");
    assert!(setup.wait().expect("it ends").success());
    Netns::find(NETNS).and_then(|netns| netns.held()).expect("the namespace")
}

pub(super) fn resolv_conf() -> String {
    format!("{FOLDER}/resolv.conf")
}

/// Reads an option of a socket, after it has set it if there is a value.
pub(super) fn option(socket: &TcpStream, level: i32, name: i32, value: Option<i32>) -> i32 {
    let fd = socket.as_raw_fd();
    if let Some(value) = value {
        let bytes = value.to_ne_bytes();
        // SAFETY: pointer and length describe the same local array.
        let set = unsafe { libc::setsockopt(fd, level, name, bytes.as_ptr().cast(), 4) };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
    let (mut read, mut length) = (0, 4);
    // SAFETY: the kernel writes one integer.
    let got = unsafe { libc::getsockopt(fd, level, name, (&raw mut read).cast(), &raw mut length) };
    assert_eq!(got, 0, "{}", std::io::Error::last_os_error());
    read
}
