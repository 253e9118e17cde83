//! Name servers: a small authoritative one with settings for its faults (RFC 1035), and dnsmasq.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::{Doing, LabError};
use crate::netns::{Netns, Process};
use crate::stage::INTERFACE;

/// Question type of IPv4 addresses.
pub const A: u16 = 1;
/// Question type of reverse look-ups, from addresses to names.
pub const PTR: u16 = 12;
/// Question type of IPv6 addresses.
pub const AAAA: u16 = 28;

const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

/// The behaviour of the name server.
#[derive(Debug, Clone, Default)]
pub struct Behaviour {
    /// Addresses by name; all other names do not exist.
    pub zone: BTreeMap<String, IpAddr>,
    /// Delay of each answer.
    pub delay: Duration,
    /// `true` to answer every query with SERVFAIL.
    pub fails: bool,
    /// Types of queries that get no answer.
    pub ignores: Vec<u16>,
}

impl Behaviour {
    /// Knows one name and answers at once.
    pub fn healthy(name: &str, addr: IpAddr) -> Behaviour {
        Behaviour { zone: BTreeMap::from([(name.to_owned(), addr)]), ..Default::default() }
    }

    /// Never answers.
    pub fn dead() -> Behaviour {
        Behaviour { ignores: vec![A, AAAA, PTR], ..Default::default() }
    }
}

/// A running name server; stops when dropped.
#[derive(Debug)]
pub struct NameServer {
    stop: Arc<AtomicBool>,
    questions: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Answers at `addr` port 53 inside `netns`.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn start(
        netns: &Netns,
        addr: IpAddr,
        behaviour: Behaviour,
    ) -> Result<NameServer, LabError> {
        let at = SocketAddr::new(addr, 53);
        let bound = netns.inside(|| UdpSocket::bind(at))?;
        let socket = bound.doing(format!("bind {at}"))?;
        let wakes = Some(Duration::from_millis(50));
        socket.set_read_timeout(wakes).doing("set a timeout")?;
        let stop = Arc::new(AtomicBool::new(false));
        let questions = Arc::new(AtomicU64::new(0));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&questions));
        let thread = thread::spawn(move || {
            let (socket, behaviour) = (Arc::new(socket), Arc::new(behaviour));
            while !stopped.load(Ordering::Relaxed) {
                let mut packet = [0; 1_500];
                let Ok((length, from)) = socket.recv_from(&mut packet) else {
                    continue;
                };
                count.fetch_add(1, Ordering::Relaxed);
                if let Some(answer) = answer(&packet[..length], &behaviour) {
                    send_later(&socket, answer, from, behaviour.delay);
                }
            }
        });
        Ok(NameServer { stop, questions, thread: Some(thread) })
    }

    /// Number of queries received.
    pub fn questions(&self) -> u64 {
        self.questions.load(Ordering::Relaxed)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends the answer on its own thread, so that the queries of a pair do not wait for each other.
fn send_later(socket: &Arc<UdpSocket>, answer: Vec<u8>, to: SocketAddr, delay: Duration) {
    let socket = Arc::clone(socket);
    thread::spawn(move || {
        thread::sleep(delay);
        // A failure means that the client has closed its socket.
        let _ = socket.send_to(&answer, to);
    });
}

/// Returns the answer to a message with one question; `None` if the server does not answer.
fn answer(question: &[u8], behaviour: &Behaviour) -> Option<Vec<u8>> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*question.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = question.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        at += length;
    }
    let qtype = u16::from_be_bytes([*question.get(at)?, *question.get(at + 1)?]);
    let question_end = at + 4;
    if behaviour.ignores.contains(&qtype) {
        return None;
    }
    let known = behaviour.zone.get(&labels.join("."));
    let (rcode, address) = match (behaviour.fails, known, qtype) {
        (true, _, _) => (SERVFAIL, None),
        (_, None, _) => (NXDOMAIN, None),
        (_, Some(IpAddr::V4(v4)), A) => (0, Some(v4.octets().to_vec())),
        (_, Some(IpAddr::V6(v6)), AAAA) => (0, Some(v6.octets().to_vec())),
        _ => (0, None),
    };
    let mut message = question.get(..question_end)?.to_vec();
    // QR, RD copied, RA; one question, at most one answer, no other sections (RFC 1035 §4.1.1).
    message[2] = 0x80 | (question[2] & 0x01);
    message[3] = 0x80 | rcode;
    message[4..12].copy_from_slice(&[0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
    if let Some(address) = address {
        // A pointer to the name in the question, its type, class IN, 300 s.
        message.extend([0xc0, 12]);
        message.extend(qtype.to_be_bytes());
        message.extend([0, 1, 0, 0, 1, 44, 0, address.len() as u8]);
        message.extend(address);
    }
    Some(message)
}

/// Returns the address of resolver number `index`, given the address of its host.
pub fn resolver_address(host: IpAddr, index: u8) -> IpAddr {
    match host {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            [a, b, c, 251 + index].into()
        }
        IpAddr::V6(v6) => {
            let mut segments = v6.segments();
            segments[7] = 0x153 + 0x100 * u16::from(index);
            segments.into()
        }
    }
}

/// Adds the address of resolver number `index` to a host.
///
/// # Errors `ip` fails.
pub fn add_resolver(netns: &Netns, host: IpAddr, index: u8) -> Result<IpAddr, LabError> {
    let addr = resolver_address(host, index);
    let more = if addr.is_ipv6() { "/64 nodad" } else { "/24" };
    let (length, nodad) = more.split_once(' ').unwrap_or((more, ""));
    netns.ip(&format!("addr replace {addr}{length} dev {INTERFACE} noprefixroute {nodad}"))?;
    Ok(addr)
}

/// Returns a command in `netns` for which `resolv_conf` replaces `/etc/resolv.conf`.
pub fn command(netns: &Netns, resolv_conf: &Path, program: &str) -> Command {
    mounting(netns, resolv_conf, "/etc/resolv.conf", program)
}

/// Returns a command in `netns` for which `file` replaces the one at `place`.
pub fn mounting(netns: &Netns, file: &Path, place: &str, program: &str) -> Command {
    let mut command = netns.command("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c"]);
    command.arg(format!("mount --bind \"$0\" {place} && exec \"$@\""));
    command.arg(file).arg(program);
    command
}

/// Starts dnsmasq at `addr` inside `netns` with additional options and returns when it answers.
///
/// # Errors dnsmasq is missing or fails.
pub fn dnsmasq(netns: &Netns, addr: IpAddr, options: &[String]) -> Result<Process, LabError> {
    let mut command = netns.command("dnsmasq");
    command.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]);
    command.args(["--bind-interfaces", "--user=root", "--pid-file"]);
    command.arg(format!("--listen-address={addr}")).args(options);
    let dnsmasq = Process::start(command, "dnsmasq")?;
    let at = SocketAddr::new(addr, 53);
    // A query before it listens would be refused by ICMP, which a watch on all interfaces would
    // see.
    let is_ready = || {
        let listens = is_listening(at);
        if !listens {
            thread::sleep(Duration::from_millis(20));
        }
        listens
    };
    // The first query finds a program that is not in memory yet, so it must not be a client's.
    let answers = netns.inside(|| (0..500).any(|_| is_ready()) && ask(at, "lab", A).is_ok())?;
    if !answers {
        return Err(LabError::Timeout { what: format!("dnsmasq at {addr}"), seconds: 10 });
    }
    Ok(dnsmasq)
}

/// Returns whether a UDP socket of the calling thread's namespace is bound to `at`.
fn is_listening(at: SocketAddr) -> bool {
    // Words of 32 bits in the host's byte order, as the kernel writes them (proc_net_tcp.rst).
    let word = |bytes: &[u8]| match *bytes {
        [a, b, c, d] => format!("{:08X}", u32::from_ne_bytes([a, b, c, d])),
        _ => String::new(),
    };
    let (table, address) = match at.ip() {
        IpAddr::V4(v4) => ("udp", word(&v4.octets())),
        IpAddr::V6(v6) => ("udp6", v6.octets().chunks(4).map(word).collect()),
    };
    let local = format!("{address}:{:04X}", at.port());
    let sockets = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
    sockets.lines().any(|line| line.split_whitespace().nth(1) == Some(&local))
}

/// Asks the resolver at `addr` for both addresses of `name` from inside `netns`, so that it caches
/// the answers.
///
/// # Errors The resolver does not answer.
pub fn warm(netns: &Netns, addr: IpAddr, name: &str) -> Result<(), LabError> {
    let at = SocketAddr::new(addr, 53);
    let asked = netns.inside(|| ask(at, name, A).and_then(|()| ask(at, name, AAAA)))?;
    asked.doing(format!("ask {at} for {name}"))
}

/// Returns a message with one question (RFC 1035 §4.1), recursion desired.
pub fn question(id: u16, name: &str, qtype: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(qtype.to_be_bytes());
    message.extend([0, 1]);
    message
}

/// Sends one query and waits for any answer.
fn ask(at: SocketAddr, name: &str, qtype: u16) -> std::io::Result<()> {
    let socket = UdpSocket::bind((at.ip(), 0))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    // The socket is connected, so that a closed port is an error at once.
    socket.connect(at)?;
    socket.send(&question(1, name, qtype))?;
    socket.recv(&mut [0; 512]).map(|_| ())
}

/// Returns dnsmasq and its version, for the labels.
pub fn dnsmasq_version() -> (String, String) {
    let said = crate::netns::run("dnsmasq", &["--version"]).unwrap_or_default();
    let version = said.split_whitespace().nth(2).unwrap_or_default();
    ("dnsmasq".to_owned(), version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_name_has_an_address_and_another_does_not_exist() {
        let addr = IpAddr::from([10, 1, 2, 3]);
        let asked = question(0x1234, "x.lab", A);
        let known = answer(&asked, &Behaviour::healthy("x.lab", addr)).unwrap_or_default();
        assert_eq!(&known[known.len() - 4..], [10, 1, 2, 3]);
        assert_eq!((known[3] & 0xf, known[7]), (0, 1));
        let other = answer(&asked, &Behaviour::healthy("y.lab", addr)).unwrap_or_default();
        assert_eq!((other[3] & 0xf, other[7]), (NXDOMAIN, 0));
        assert_eq!(answer(&asked, &Behaviour::dead()), None);
        assert_eq!(answer(&asked[..15], &Behaviour::default()), None);
    }
}
