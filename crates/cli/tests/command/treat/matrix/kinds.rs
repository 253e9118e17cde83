//! The kinds of treatment: what each changes, how an independent reader sees it, and what others may
//! do to it meanwhile.

use super::world::{NETNS, State, World, option, resolv_conf};
use super::*;

/// A kind of treatment.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Its arguments; the first is the command.
    pub(super) arguments: &'static [&'static str],
    /// The kinds of change that its record has, by their names in docs/treat.schema.json.
    pub(super) changes: &'static [&'static str],
    /// Returns what an independent reader finds.
    pub(super) state: fn(&World) -> State,
    /// The object goes; with the names of what changes by that.
    pub(super) gone: Happens,
    /// Another program changes the object.
    pub(super) other: Happens,
    /// The process that has the object is started anew.
    pub(super) restart: Happens,
    /// Gives a new namespace the values that the treatment set.
    pub(super) look_alike: fn(&World),
    /// The object that is not restored where programs are missing.
    pub(super) needs_helper: Option<&'static str>,
    /// Requirement of the kind itself on the machine.
    pub(super) requires: Requires,
}

pub(super) enum Happens {
    /// The action, the objects that it changes, and whether these count as changed by others.
    As(fn(&mut World), &'static [&'static str], By),
    /// Why it makes no sense.
    Not(&'static str),
}

/// The author of a change, as an undo has to see it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum By {
    /// It is gone, or as it was before.
    Itself,
    /// Another program has given it a value of its own.
    Others,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Requires {
    Nothing,
    Hooks,
    Program(&'static str),
    Bbr,
}

use By::{Itself, Others};
use Happens::{As, Not};

const SEND_LOCK: i32 = 72;

fn server(world: &World) -> &TcpStream {
    &world.connections[0].1
}

/// The value of each open connection's server.
fn each(world: &World, value: impl Fn(&TcpStream) -> String) -> String {
    world.connections.iter().map(|(_, server)| value(server)).collect::<Vec<_>>().join(" ")
}

fn tcp(world: &World, name: i32) -> State {
    [("socket", each(world, |it| option(it, libc::IPPROTO_TCP, name, None).to_string()))].into()
}

fn buffers(world: &World) -> State {
    let read = |it: &TcpStream, name| option(it, libc::SOL_SOCKET, name, None);
    let value = |it: &TcpStream| {
        let sizes = [libc::SO_SNDBUF, libc::SO_RCVBUF, SEND_LOCK].map(|name| read(it, name));
        format!("{sizes:?}")
    };
    [("socket", each(world, value))].into()
}

/// The application sets another size.
fn set_buffer(world: &World, name: i32) {
    option(server(world), libc::SOL_SOCKET, name, Some(65_536));
}

fn close(world: &mut World) {
    world.disconnect();
}

/// The server restarts: its sockets close, and clients connect again.
fn restart(world: &mut World) {
    world.disconnect();
    world.listener = None;
    world.listen();
    world.connect();
}

fn queue(world: &World) -> State {
    let listed = world.read(&["ss", "-Hltn", "src", "127.0.0.1:7070"]);
    let read = |name: &str| world.read(&["sysctl", "-n", name]);
    [
        ("listener", listed.split(' ').nth(2).unwrap_or_default().to_owned()),
        ("somaxconn", read("net.core.somaxconn")),
        ("syn_backlog", read("net.ipv4.tcp_max_syn_backlog")),
    ]
    .into()
}

fn flood(world: &World) -> State {
    let mut state = queue(world);
    state.insert("cookies", world.read(&["sysctl", "-n", "net.ipv4.tcp_syncookies"]));
    state.insert("nft", world.read(&["nft", "-s", "list", "tables"]));
    state
}

fn close_listener(world: &mut World) {
    world.disconnect();
    world.listener = None;
}

fn listen_again(world: &mut World, backlog: i32) {
    let listener = world.listener.as_ref().expect("a listener");
    socket2::SockRef::from(listener).listen(backlog).expect("it listens");
}

fn file(_: &World) -> State {
    use std::os::unix::fs::MetadataExt;
    let path = resolv_conf();
    let text = match fs::metadata(&path) {
        Ok(about) => {
            let content = fs::read_to_string(&path).expect("a file");
            format!("{:o} {}:{} {content}", about.mode(), about.uid(), about.gid())
        }
        Err(_) => "none".into(),
    };
    [("file", text)].into()
}

fn write_file(_: &mut World) {
    fs::write(resolv_conf(), "nameserver 10.1.1.1\n").expect("a file");
}

fn cache(world: &World) -> State {
    use std::os::unix::fs::MetadataExt;
    let mut state = file(world);
    let listed = world.read(&["ss", "-Hlun", "sport", "=", ":53"]);
    let places: Vec<&str> = listed.split(' ').filter(|word| word.ends_with(":53")).collect();
    state.insert("cache", places.join(" "));
    let null = fs::metadata("/dev/null").expect("a device");
    state.insert("/dev/null", format!("{}:{} {:o}", null.uid(), null.gid(), null.mode()));
    state
}

fn kill_cache(world: &mut World) {
    let found = world.read(&["sh", "-c", "cat /run/tcpwhy-cache-*.pid"]);
    world.run(&["kill", &found]);
    let has_ended = || !Path::new("/proc").join(&found).exists();
    until("the cache has ended", has_ended);
}

fn replace_cache(world: &mut World) {
    kill_cache(world);
    let first = fs::read_to_string(resolv_conf()).expect("a file");
    let address = first.lines().next().and_then(|line| line.split(' ').nth(1)).expect("one");
    let listen = format!("--listen-address={address}");
    world.run(&[
        "dnsmasq",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--bind-interfaces",
        "-x",
        "/run/other.pid",
        &listen,
    ]);
}

fn route(world: &World) -> State {
    [("route", world.read(&["ip", "-d", "route", "show", "default"]))].into()
}

const WITH_WINDOW: [&str; 6] = ["ip", "route", "change", "default", "via", "10.77.0.2"];

fn change_route(world: &World, window: &str) {
    world.run(&[&WITH_WINDOW[..], &["metric", "50", "initcwnd", window]].concat());
}

fn xdp(world: &World) -> State {
    let shown = world.read(&["ip", "-d", "link", "show", "near"]);
    let words: Vec<&str> = shown.split(' ').filter(|word| word.contains("xdp")).collect();
    [("program", words.join(" ")), ("pins", pins())].into()
}

/// Names of the objects that tcpwhy has pinned.
fn pins() -> String {
    let pinned = fs::read_dir("/sys/fs/bpf/tcpwhy").into_iter().flatten().flatten();
    pinned.map(|it| it.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn sysctl(world: &World) -> State {
    [("setting", world.read(&["sysctl", "-n", "net.ipv4.tcp_fin_timeout"]))].into()
}

fn set_timeout(world: &World, value: &str) {
    world.run(&["sysctl", "-w", &format!("net.ipv4.tcp_fin_timeout={value}")]);
}

const FREE: &str = "nothing has it: it is a value of the namespace";
const SWITCH: &str = "on and off are all its values";

/// A treatment of sockets, the base of several kinds.
const SOCKETS: Kind = Kind {
    name: "",
    arguments: &[],
    changes: &["socket"],
    state: |world| tcp(world, libc::TCP_NODELAY),
    gone: As(close, &["socket"], Itself),
    other: Not(SWITCH),
    restart: As(restart, &[], Itself),
    look_alike: |_| {},
    needs_helper: None,
    requires: Requires::Nothing,
};

/// All kinds. The test compares their commands and changes with those of the program.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "nodelay",
        arguments: &["nodelay", "--port", "7070", "--side", "server"],
        other: As(|world| server(world).set_nodelay(false).expect("an option"), &[], Itself),
        ..SOCKETS
    },
    Kind {
        name: "nodelay of what opens later",
        arguments: &["nodelay", "--port", "7070"],
        state: |world| {
            let mut state = tcp(world, libc::TCP_NODELAY);
            state.insert("pins", pins());
            state
        },
        other: As(
            |world| {
                world.connect();
                server(world).set_nodelay(true).expect("an option");
                world.connections.remove(0);
            },
            &[],
            Itself,
        ),
        requires: Requires::Hooks,
        ..SOCKETS
    },
    Kind {
        name: "quickack",
        arguments: &["quickack", "--port", "7070", "--side", "server"],
        state: |world| tcp(world, libc::TCP_QUICKACK),
        ..SOCKETS
    },
    Kind {
        name: "send buffer",
        arguments: &["buffers", "--port", "7070", "--side", "server", "--sndbuf", "1M"],
        state: buffers,
        other: As(|world| set_buffer(world, libc::SO_SNDBUF), &["socket"], Others),
        ..SOCKETS
    },
    Kind {
        name: "receive buffer",
        arguments: &["buffers", "--port", "7070", "--side", "server", "--rcvbuf", "256K"],
        state: buffers,
        other: As(|world| set_buffer(world, libc::SO_RCVBUF), &["socket"], Others),
        ..SOCKETS
    },
    Kind {
        name: "congestion control",
        arguments: &["congestion-control", "reno", "--port", "7070", "--side", "server"],
        state: |world| {
            let listed = world.read(&["ss", "-Htin", "src", "127.0.0.1:7070"]);
            let known = ["reno", "cubic", "bbr"];
            let words: Vec<&str> = listed.split(' ').filter(|it| known.contains(it)).collect();
            [("socket", words.join(" "))].into()
        },
        other: As(
            |world| {
                let socket = socket2::SockRef::from(server(world));
                socket.set_tcp_congestion(b"bbr").expect("an option");
            },
            &["socket"],
            Others,
        ),
        requires: Requires::Bbr,
        ..SOCKETS
    },
    Kind {
        name: "sysctl",
        arguments: &["sysctl", "tcp_fin_timeout=030", "--port", "7070"],
        changes: &["sysctl"],
        state: sysctl,
        gone: Not("a setting exists as long as its namespace"),
        other: As(|world| set_timeout(world, "15"), &["setting"], Others),
        restart: Not(FREE),
        look_alike: |world| set_timeout(world, "30"),
        ..SOCKETS
    },
    Kind {
        name: "backlog",
        arguments: &["backlog", "9000", "--port", "7070"],
        changes: &["sysctl", "listener"],
        state: queue,
        gone: As(close_listener, &["listener"], Itself),
        other: As(|world| listen_again(world, 33), &["listener"], Others),
        restart: As(restart, &[], Itself),
        look_alike: |world| world.run(&["sysctl", "-w", "net.core.somaxconn=9000"]),
        ..SOCKETS
    },
    Kind {
        name: "resolver",
        arguments: &[
            "resolver",
            "--ndots",
            "1",
            "--file",
            "/run/cell/resolv.conf",
            "--port",
            "7070",
        ],
        changes: &["file"],
        state: file,
        gone: As(|_| fs::remove_file(resolv_conf()).expect("a file"), &["file"], Itself),
        other: As(write_file, &["file"], Others),
        restart: Not("no process has a file"),
        ..SOCKETS
    },
    Kind {
        name: "cache",
        arguments: &["resolver", "--cache", "--file", "/run/cell/resolv.conf", "--port", "7070"],
        changes: &["file", "cache"],
        state: cache,
        gone: As(kill_cache, &[], Itself),
        other: As(write_file, &["file"], Others),
        restart: As(replace_cache, &["cache"], Itself),
        requires: Requires::Program("dnsmasq"),
        ..SOCKETS
    },
    Kind {
        name: "syn-flood",
        arguments: &["syn-flood", "--port", "7070", "--backlog", "9000"],
        changes: &["sysctl", "listener", "filter"],
        state: flood,
        gone: As(
            |world| world.run(&["nft", "delete", "table", "inet", "tcpwhy_syn_7070"]),
            &[],
            Itself,
        ),
        other: As(
            |world| world.run(&["nft", "add", "chain", "inet", "tcpwhy_syn_7070", "others"]),
            &["nft"],
            Others,
        ),
        restart: As(restart, &[], Itself),
        look_alike: |world| world.run(&["nft", "add", "table", "inet", "tcpwhy_syn_7070"]),
        needs_helper: Some("nft"),
        requires: Requires::Program("nft"),
    },
    Kind {
        name: "syn-flood --xdp",
        arguments: &["syn-flood", "--port", "7070", "--only", "limit", "--xdp", "--device", "near"],
        changes: &["xdp"],
        state: xdp,
        gone: As(|world| world.run(&["ip", "link", "del", "near"]), &[], Itself),
        other: Not("the kernel lets nobody replace a program that a link holds"),
        restart: Not(FREE),
        requires: Requires::Hooks,
        ..SOCKETS
    },
    Kind {
        name: "cwnd",
        arguments: &["cwnd", "--initcwnd", "30", "--port", "7070"],
        changes: &["route"],
        state: route,
        gone: As(|world| world.run(&["ip", "route", "del", "default"]), &["route"], Itself),
        other: As(|world| change_route(world, "55"), &["route"], Others),
        restart: Not(FREE),
        look_alike: |world| change_route(world, "30"),
        ..SOCKETS
    },
];

impl Kind {
    /// The arguments in the namespace.
    pub(super) fn in_netns(&self) -> Vec<&'static str> {
        [self.arguments, &["--netns", NETNS]].concat()
    }

    /// Returns whether objects of the kind are in the namespace, and go with it.
    pub(super) fn is_of_netns(&self, object: &str) -> bool {
        !matches!(object, "file" | "/dev/null" | "pins")
    }
}
