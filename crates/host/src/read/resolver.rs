//! Reads the configuration of name resolution in the audited namespace. No query leaves the host:
//! only a resolver at a loopback address gets one query.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::place::AuditedNamespace;
use tcpwhy_live::resolver::{Local, Resolver, hosts, parse};

/// Longest wait for the answer of a resolver on this host.
const ANSWER_MAX: Duration = Duration::from_secs(1);
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the files that programs of the place see: those of the process, those that `ip netns exec`
/// puts in their place (ip-netns(8)), or those of the host.
pub fn read(place: &AuditedNamespace) -> Resolver {
    let roots: Vec<String> = match place {
        AuditedNamespace::Process(pid) => vec![format!("/proc/{pid}/root/etc")],
        AuditedNamespace::Named(name) => vec![format!("/etc/netns/{name}"), "/etc".to_owned()],
        AuditedNamespace::Here => vec!["/etc".to_owned()],
    };
    let first = |name: &str| {
        roots.iter().find_map(|root| {
            let path = format!("{root}/{name}");
            let is_file =
                fs::metadata(&path).is_ok_and(|it| it.is_file() && it.len() <= FILE_BYTES_MAX);
            Some((fs::read_to_string(&path).ok().filter(|_| is_file)?, path))
        })
    };
    let Some((text, path)) = first("resolv.conf") else { return Resolver::default() };
    let mut resolver = parse(&text);
    resolver.file = Some(path);
    resolver.hosts = first("nsswitch.conf").and_then(|(text, _)| hosts(&text));
    let local = resolver.nameservers.iter().copied().find(IpAddr::is_loopback);
    resolver.local = local.map(ask);
    resolver
}

/// Asks a resolver at a loopback address for the name servers of the root, in the calling thread's
/// namespace.
fn ask(address: IpAddr) -> Local {
    let began = Instant::now();
    let answer = query(address);
    let answer_ns = u64::try_from(began.elapsed().as_nanos()).ok();
    match answer {
        Ok(()) => Local { address, answer_ns, failure: None },
        Err(why) => Local { address, answer_ns: None, failure: Some(why) },
    }
}

fn query(address: IpAddr) -> Result<(), String> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let words = |error: std::io::Error| match error.kind() {
        ErrorKind::ConnectionRefused => "nothing listens at its port 53".to_owned(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "no answer within 1 s".to_owned(),
        _ => error.to_string(),
    };
    let socket = UdpSocket::bind((any, 0)).map_err(words)?;
    socket.connect(SocketAddr::new(address, 53)).map_err(words)?;
    socket.set_read_timeout(Some(ANSWER_MAX)).map_err(words)?;
    // RFC 1035 §4.1: id, RD, one question: the root, NS, IN.
    let question = [0x74, 0x77, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
    socket.send(&question).map_err(words)?;
    let mut answer = [0; 2_048];
    let length = socket.recv(&mut answer).map_err(words)?;
    if length >= 12 && answer[..2] == question[..2] {
        Ok(())
    } else {
        Err("what came back is no answer".to_owned())
    }
}
