//! Treatments of host settings: resolver configuration, listeners, routes, packet filters.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use tcpwhy_testing::installed;

/// Returns the output of a command inside the namespace.
fn said(place: &Place, command: &[&str]) -> String {
    let out = Command::new("ip").args(["netns", "exec", &place.name]).args(command).output();
    let out = out.expect("ip is installed");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The namespace's own `resolv.conf`, as `ip netns exec` shows it; it goes with this.
pub(super) struct ResolvConf(PathBuf);

impl ResolvConf {
    pub(super) fn new(place: &Place, content: &str) -> Self {
        let folder = Path::new("/etc/netns").join(&place.name);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("resolv.conf"), content).expect("a file");
        Self(folder)
    }

    pub(super) fn read(&self) -> String {
        fs::read_to_string(self.0.join("resolv.conf")).expect("a file")
    }
}

impl Drop for ResolvConf {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program in the namespace, started before any treatment.
pub(super) struct Program(Child);

impl Program {
    pub(super) fn start(place: &Place) -> Self {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &place.name, "sleep", "60"]);
        Self::begin(command)
    }

    /// Starts another one that sees what this one sees.
    pub(super) fn with_the_same_mounts(&self) -> Self {
        let mut command = Command::new("nsenter");
        command.args([&format!("--mount=/proc/{}/ns/mnt", self.0.id()), "sleep", "60"]);
        Self::begin(command)
    }

    fn begin(mut command: Command) -> Self {
        let child = command.spawn().expect("it is installed");
        let comm = format!("/proc/{}/comm", child.id());
        let runs = (0..200).any(|_| {
            thread::sleep(Duration::from_millis(10));
            fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep")
        });
        assert!(runs, "it is started");
        Self(child)
    }

    pub(super) fn pid(&self) -> String {
        self.0.id().to_string()
    }

    pub(super) fn resolv_conf(&self) -> String {
        let path = format!("/proc/{}/root/etc/resolv.conf", self.0.id());
        fs::read_to_string(path).expect("a file")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_program_sees_the_resolver_change_and_its_undo() {
    let Some(place) = Place::new("resolver") else { return };
    let before = "nameserver 10.9.9.9\nsearch a.lab b.lab\noptions ndots:5\n";
    let none = place.run(&["resolver", "--ndots", "1", "--netns", &place.name, "--no-measure"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("--file"), "it has no file of its own");
    let file = ResolvConf::new(&place, before);
    let program = Program::start(&place);
    let arguments = ["resolver", "--ndots", "1", "--timeout", "2", "--single-request-reopen"];
    let plan = place.json(&[&arguments[..], &["--netns", &place.name, "--dry-run"]].concat());
    assert_eq!(
        (plan["changes"][0]["before"].as_str(), file.read().as_str()),
        (Some(before), before)
    );
    let mut child = place.treat(&arguments);
    let wanted = "options ndots:1 timeout:2 single-request-reopen\n";
    assert!(file.read().ends_with(wanted), "{}", file.read());
    assert_eq!(program.resolv_conf(), file.read(), "also one that runs");
    let again = place.run(&["resolver", "--ndots", "2", "--netns", &place.name, "--no-measure"]);
    assert_eq!(again.status.code(), Some(2));
    signal(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    assert!(file.read().ends_with(wanted), "kill -9 leaves it");
    let status = place.json(&["status"]);
    assert_eq!(status["treatments"][0]["what"]["kind"], "resolver");
    assert_eq!(place.json(&["undo", "--all"])["undone"][0]["restored"], 1);
    assert_eq!((file.read().as_str(), program.resolv_conf().as_str()), (before, before));
    assert!(place.journal_is_empty());
}

#[test]
fn a_file_that_was_changed_is_restored_after_a_reboot_unless_others_wrote_it() {
    let Some(place) = Place::new("reboot") else { return };
    let file = place.folder.join("resolv.conf");
    fs::write(&file, "nameserver 10.9.9.9\n").expect("a file");
    let path = file.display().to_string();
    let record = place.folder.join("journal/1.json");
    let of_another_boot = || {
        let mut child = place.treat(&["resolver", "--timeout", "1", "--file", &path, "--keep"]);
        assert!(child.wait().expect("it ends").success());
        let whole = fs::read(&record).expect("a record");
        let mut old: Value = serde_json::from_slice(&whole).expect("JSON");
        old["since"]["boot_id"] = "another".into();
        fs::write(&record, old.to_string()).expect("a file");
    };
    of_another_boot();
    let undone = &place.json(&["undo", "1"])["undone"][0].clone();
    assert_eq!((&undone["was_reboot"], &undone["restored"]), (&true.into(), &1.into()));
    assert_eq!(fs::read_to_string(&file).expect("a file"), "nameserver 10.9.9.9\n");
    of_another_boot();
    fs::write(&file, "nameserver 10.1.1.1\n").expect("a file");
    let undone = &place.json(&["undo", "1"])["undone"][0].clone();
    let changed = &undone["changed_meanwhile"][0];
    assert_eq!(
        (&changed["what"], &changed["now"]),
        (&path.into(), &"`nameserver 10.1.1.1`".into())
    );
    assert_eq!(fs::read_to_string(&file).expect("a file"), "nameserver 10.1.1.1\n");
}

#[test]
fn a_cache_answers_before_the_servers_and_ends_with_the_treatment() {
    let Some(place) = Place::new("cache") else { return };
    let file = ResolvConf::new(&place, "nameserver 127.0.0.1\n");
    if !installed("dnsmasq") {
        let out = place.run(&["resolver", "--cache", "--netns", &place.name, "--no-measure"]);
        let why = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(why.contains("dnsmasq") && out.status.code() == Some(2), "{why}");
        assert_eq!(file.read(), "nameserver 127.0.0.1\n", "nothing is left of it");
        assert!(place.journal_is_empty());
        return;
    }
    let mut child = place.treat(&["resolver", "--cache"]);
    let first = file.read().lines().next().unwrap_or_default().to_owned();
    assert!(first.starts_with("nameserver 127.0.53."), "{first}");
    assert!(file.read().contains("\nnameserver 127.0.0.1\n"), "those behind it stay");
    let address = first.trim_start_matches("nameserver ").to_owned();
    let listens = || said(&place, &["ss", "-lun"]).contains(&format!("{address}:53"));
    assert!(listens());
    signal(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    assert!(listens(), "names are still resolved");
    assert_eq!(place.json(&["undo", "--all"])["undone"][0]["restored"], 2);
    assert!(!listens());
    assert_eq!(file.read(), "nameserver 127.0.0.1\n");
}

/// The length of the accept queue at port 7070.
fn backlog(place: &Place) -> u32 {
    let listed = said(place, &["ss", "-Hltn", "sport", "=", ":7070"]);
    let length = listed.split_whitespace().nth(2).expect("a listener");
    length.parse().expect("a number")
}

#[test]
fn a_listener_is_defended_and_is_as_it_was_after_an_undo() {
    let Some(place) = Place::new("flood") else { return };
    let (_listener, _all) = connected(&place, 1);
    let before = backlog(&place);
    place.inside(|| fs::write("/proc/sys/net/ipv4/tcp_syncookies", "0")).expect("a setting");
    let cookies = || {
        let read = || fs::read_to_string("/proc/sys/net/ipv4/tcp_syncookies");
        place.inside(read).expect("a setting").trim().to_owned()
    };
    let tables = || said(&place, &["nft", "list", "tables"]);
    let mut child = place.treat(&["syn-flood", "--port", "7070", "--backlog", "9000"]);
    assert_eq!((backlog(&place), cookies().as_str()), (9_000, "1"));
    let rules = said(&place, &["nft", "list", "table", "inet", "tcpwhy_syn_7070"]);
    assert!(rules.contains("100/second") && rules.contains("dport 7070"), "{rules}");
    let again = place.run(&["syn-flood", "--port", "7070", "--netns", &place.name, "--no-measure"]);
    assert_eq!(again.status.code(), Some(2));
    signal(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    assert!(tables().contains("tcpwhy_syn_7070"), "kill -9 leaves it");
    let undone = place.json(&["undo", "1"]);
    assert_eq!(undone["undone"][0]["failed"], Value::Array(Vec::new()), "{undone}");
    assert_eq!((backlog(&place), cookies().as_str()), (before, "0"));
    assert!(!tables().contains("tcpwhy"), "{}", tables());
    let none = place.run(&["syn-flood", "--port", "9", "--netns", &place.name, "--no-measure"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("nothing listens at port 9"));
}

/// Returns whether a connection from an address is established at once.
fn connects(from: &str, to: &str) -> bool {
    let (kind, protocol) = (socket2::Type::STREAM, Some(socket2::Protocol::TCP));
    let from: SocketAddr = format!("{from}:0").parse().expect("an address");
    let domain = socket2::Domain::for_address(from);
    let socket = socket2::Socket::new(domain, kind, protocol).expect("a socket");
    socket.bind(&from.into()).expect("an address of this host");
    let to: SocketAddr = to.parse().expect("an address");
    socket.connect_timeout(&to.into(), Duration::from_millis(200)).is_ok()
}

/// Tries to connect twenty times to a port that lets in 5 SYNs a second, and a burst of 5. Returns how
/// often that succeeded, and how often it may have in the time that it took.
fn attempts(connects: &dyn Fn() -> bool) -> (usize, usize) {
    let began = Instant::now();
    let let_in = (0..20).filter(|_| connects()).count();
    (let_in, 5 + 1 + (5.0 * began.elapsed().as_secs_f64()) as usize)
}

#[test]
fn a_limit_of_syns_holds_back_one_source_and_no_other() {
    let Some(place) = Place::new("limit") else { return };
    let (_listener, _all) = connected(&place, 1);
    let child = place.treat(&["syn-flood", "--port", "7070", "--only", "limit", "--limit", "5"]);
    let connects = |from: &str| place.inside(|| connects(from, "127.0.0.1:7070"));
    let (let_in, most) = attempts(&|| connects("127.0.0.7"));
    assert!((4..=most).contains(&let_in), "5 a second, and a burst of 5: {let_in} of {most}");
    assert!(connects("127.0.0.8"), "another source");
    let undone = &place.json(&["undo", "--all"])["undone"][0].clone();
    // A client that was not let in sends one SYN within its time, or more on a busy machine.
    assert!(undone["syns_dropped"].as_u64() >= Some(20 - let_in as u64), "{undone}");
    assert!(child.wait_with_output().expect("it ends").status.success());
    assert!((0..20).all(|_| connects("127.0.0.7")));
}

#[test]
fn a_longer_accept_queue_is_given_to_a_running_listener() {
    let Some(place) = Place::new("backlog") else { return };
    let (_listener, _all) = connected(&place, 1);
    let before = backlog(&place);
    let child = place.treat(&["backlog", "20000", "--port", "7070"]);
    assert_eq!(backlog(&place), 20_000);
    end(child);
    assert_eq!(backlog(&place), before);
    let none = place.run(&["backlog", "1", "--port", "7070", "--netns", &place.name]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("there is nothing to change"));
}

#[test]
fn a_route_gets_other_initial_windows_and_is_as_it_was_after_an_undo() {
    let Some(place) = Place::new("cwnd") else { return };
    let on = |arguments: &[&str]| ip(&[&["-n", place.name.as_str()][..], arguments].concat());
    on(&["link", "add", "near", "type", "veth", "peer", "name", "far"]);
    on(&["link", "set", "far", "up"]);
    on(&["addr", "add", "10.77.0.1/24", "dev", "near"]);
    on(&["link", "set", "near", "up"]);
    on(&[
        "route",
        "add",
        "default",
        "via",
        "10.77.0.2",
        "metric",
        "50",
        "mtu",
        "1400",
        "initcwnd",
        "7",
    ]);
    on(&[
        "route",
        "add",
        "10.88.0.0/16",
        "nexthop",
        "via",
        "10.77.0.2",
        "nexthop",
        "via",
        "10.77.0.3",
    ]);
    let routes = || said(&place, &["ip", "route", "show"]);
    let before = routes();
    let mut child =
        place.treat(&["cwnd", "--initcwnd", "30", "--initrwnd", "40", "--to", "192.0.2.9"]);
    let now = routes();
    assert!(now.contains("metric 50") && now.contains("mtu 1400"), "{now}");
    assert!(now.contains("initcwnd 30") && now.contains("initrwnd 40"), "{now}");
    signal(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    assert_eq!(place.json(&["undo", "1"])["undone"][0]["restored"], 1);
    assert_eq!(routes(), before);
    let several = ["cwnd", "--initcwnd", "30", "--to", "10.88.0.1", "--netns", &place.name];
    let refused = place.run(&[&several[..], &["--no-measure"]].concat());
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && why.contains("nexthop"), "{why}");
    assert_eq!(routes(), before);
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
    let changed = serde_json::json!([{
        "what": "tcp_fin_timeout", "before": "60", "set": "30", "now": "15"
    }]);
    assert_eq!(undone["undone"][0]["changed_meanwhile"], changed);
    let now = place.inside(|| fs::read_to_string(fin)).expect("a setting");
    assert_eq!(now.trim(), "15");
    let wrong = place.run(&["sysctl", "net.ipv4.ip_forward=1", "--netns", &place.name]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("tcp_mtu_probing"));
}

#[test]
fn syns_are_limited_at_the_interface_natively_or_not_until_an_undo() {
    let Some(place) = Place::new("entrance") else { return };
    if !tcpwhy_live::hooks::BUILT {
        tcpwhy_testing::skip("built without kernel hooks");
        return;
    }
    let far = format!("{}-far", place.name);
    let _far = OtherEnd::new(&place, &far);
    let listener = place.inside(|| TcpListener::bind("0.0.0.0:7070").expect("a port"));
    thread::spawn(move || listener.incoming().flatten().count());
    let from_far = |source: &str| {
        Netns::find(&far)
            .expect("it")
            .inside(|| connects(source, "10.78.0.1:7070"))
            .expect("entered")
    };
    let from_near = |source: &str| place.inside(|| connects(source, "127.0.0.1:7070"));
    let xdp = ["syn-flood", "--port", "7070", "--only", "limit", "--limit", "5", "--xdp"];
    // The driver of veth runs programs, loopback has none that could.
    let drivers = [
        ("near", "xdp ", "10.78.0.2", &from_far as &dyn Fn(&str) -> bool),
        ("lo", "xdpgeneric ", "127.0.0.7", &from_near),
    ];
    for (device, mode, source, connects) in drivers {
        let mut child = place.treat(&[&xdp[..], &["--device", device]].concat());
        let shown = said(&place, &["ip", "link", "show", device]);
        assert!(shown.contains(mode), "{shown}");
        let (let_in, most) = attempts(&|| connects(source));
        assert!((4..=most).contains(&let_in), "{device}: {let_in} of {most}");
        let other = source.replace("10.78.0.2", "10.78.0.3").replace("127.0.0.7", "127.0.0.8");
        assert!(connects(&other), "another source");
        let again = [&xdp[..], &["--device", device, "--netns", &place.name, "--no-measure"]];
        assert_eq!(place.run(&again.concat()).status.code(), Some(2));
        signal(&child, rustix::process::Signal::KILL);
        child.wait().expect("it ends");
        let shown = said(&place, &["ip", "link", "show", device]);
        assert!(shown.contains(mode), "kill -9 leaves it: {shown}");
        let undone = &place.json(&["undo", "--all"])["undone"][0].clone();
        assert_eq!(undone["restored"], 1, "{undone}");
        // A client on a busy machine may repeat a SYN before its time is over.
        assert!(undone["syns_dropped"].as_u64() >= Some(20 - let_in as u64), "{undone}");
        assert!(!said(&place, &["ip", "link", "show", device]).contains("xdp"));
        assert!((0..20).all(|_| connects(source)), "{device}: as before");
    }
    // Without a default route, the only interface that is up is the one.
    let plan = place.json(&[&xdp[..], &["--dry-run", "--netns", &place.name]].concat());
    assert_eq!(plan["changes"][0]["device"], "near", "{plan}");
}

#[test]
fn an_interface_that_has_another_program_is_left_alone() {
    let Some(place) = Place::new("taken") else { return };
    if !tcpwhy_live::hooks::BUILT {
        tcpwhy_testing::skip("built without kernel hooks");
        return;
    }
    let (_listener, _all) = connected(&place, 1);
    let one = ["syn-flood", "--port", "7070", "--only", "limit", "--xdp", "--device", "lo"];
    let child = place.treat(&one);
    // Of another journal, so that nothing but the kernel knows of the first.
    let mut other = place.tcpwhy(&[&one[..], &["--netns", &place.name, "--no-measure"]].concat());
    other.env("TCPWHY_TREAT_DIR", place.folder.join("other"));
    let refused = other.output().expect("tcpwhy runs");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && why.contains("lo: "), "{why}");
    assert!(said(&place, &["ip", "link", "show", "lo"]).contains("xdpgeneric"), "the first stays");
    end(child);
    assert!(!said(&place, &["ip", "link", "show", "lo"]).contains("xdp"));
}

/// The other end of a veth pair, 10.78.0.2 and 10.78.0.3, in a namespace that goes with this.
struct OtherEnd(String);

impl OtherEnd {
    fn new(place: &Place, name: &str) -> Self {
        ip(&["netns", "add", name]);
        let end = Self(name.to_owned());
        let near = place.name.as_str();
        ip(&["-n", near, "link", "add", "near", "type", "veth", "peer", "far", "netns", name]);
        ip(&["-n", near, "addr", "add", "10.78.0.1/24", "dev", "near"]);
        ip(&["-n", name, "addr", "add", "10.78.0.2/24", "dev", "far"]);
        ip(&["-n", name, "addr", "add", "10.78.0.3/24", "dev", "far"]);
        ip(&["-n", near, "link", "set", "near", "up"]);
        ip(&["-n", name, "link", "set", "far", "up"]);
        end
    }
}

impl Drop for OtherEnd {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

#[test]
fn addresses_of_one_ipv6_network_are_one_source() {
    let Some(place) = Place::new("network") else { return };
    for address in ["fd00:1::1/64", "fd00:1::2/64", "fd00:2::1/64"] {
        ip(&["-n", &place.name, "addr", "add", address, "dev", "lo", "nodad"]);
    }
    let listener = place.inside(|| TcpListener::bind("[::]:7070").expect("a port"));
    thread::spawn(move || listener.incoming().flatten().count());
    let connects = |from: &str| place.inside(|| connects(from, "[fd00:1::1]:7070"));
    let limit = ["syn-flood", "--port", "7070", "--only", "limit", "--limit", "5"];
    let xdp = [&limit[..], &["--xdp", "--device", "lo"]].concat();
    let all = if tcpwhy_live::hooks::BUILT { vec![&limit[..], &xdp] } else { vec![&limit[..]] };
    for arguments in all {
        let child = place.treat(arguments);
        let sources = ["[fd00:1::1]", "[fd00:1::2]"];
        let turn = AtomicUsize::new(0);
        let next = || sources[turn.fetch_add(1, Ordering::Relaxed) % 2];
        let (let_in, most) = attempts(&|| connects(next()));
        assert!((4..=most).contains(&let_in), "{arguments:?}: {let_in} of {most}");
        assert!(connects("[fd00:2::1]"), "{arguments:?}: another network");
        end(child);
        assert!((0..20).all(|_| connects("[fd00:1::2]")), "{arguments:?}: as before");
    }
}
