//! Two DNS queries at once, of which a NAT router loses one: the insert race of the kernel's
//! connection table, reproduced with the kernel's own code.
//!
//! A resolver library asks for A at one name server and for AAAA at another, from one socket, at
//! the same instant. Both addresses belong to the router, which forwards both to the same dnsmasq.
//! If two CPUs process the first packets of both flows at the same time, each makes an entry, and
//! the answers of both entries would have the same addresses and ports. The second entry cannot be
//! inserted, and its packet is dropped (`insert_failed`).
//!
//! Queries to *one* address from one socket, as glibc sends them, were lost in the same way until
//! Linux 5.7; since then the kernel merges their entries (`clash_resolve`), and no packet is lost.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::nat::{BACKEND, nft_version, route, translate};
use crate::case::{Case, Observed, Ran};
use crate::client::{self, Load, Loaded};
use crate::describe::{Knob, Layer};
use crate::dns;
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::{Link, Stage};
use crate::sys;

const NAME: &str = "api.shop.lab";

/// The twin sends one query after the other (`options single-request`).
pub const CASE: Case = Case {
    name: "conntrack_race",
    layer: Layer::Network,
    summary: "a NAT router drops one of two DNS questions asked at once: a real insert race",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the client's resolver",
        faulty: "asks for A and AAAA at the same time",
        healthy: "asks for A, then for AAAA",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("losses", rng.between(2, 4))
            .with("requests_min", rng.between(20, 40))
            .with("race_for_ns", 9_000_000_000)
            .with("timeout_ns", rng.pick(&[1_000, 1_000, 2_000]) * 1_000_000)
            .with("response_bytes", rng.between(100, 3_000))
            // The NAT is for IPv4; a capture on `any` would also show the packets behind the
            // router.
            .with("ipv6", 0)
            .with("any_interface", 0)
    },
    // The relay would hand over packets one after the other, so that no two CPUs would process them
    // at the same time.
    link: |_, _, _| Ok(Link::Veth),
    act,
    truth,
};

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let backend = stage.namespace("backend")?;
    route(stage, &backend)?;
    let resolver = |index| dns::add_resolver(&stage.server, stage.server_addr, index);
    let resolvers = [resolver(0)?, resolver(1)?];
    let [first, second] = resolvers;
    translate(stage, &format!("ip daddr {{ {first}, {second} }} udp dport 53 dnat to {BACKEND}"))?;
    let record = format!("--host-record={NAME},{}", stage.server_addr);
    let _dnsmasq = dns::dnsmasq(&backend, BACKEND.into(), &[record, "--local=/lab/".to_owned()])?;
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let loaded = requests(stage, p, variant, (server.endpoint(), resolvers))?;
    let failed = stage.server.inside(insert_failed)?.doing("read the router's counters")?;
    let mut observed = Observed::with_server(loaded, &server);
    observed.measured.insert("conntrack_insert_failed", failed);
    observed.versions.extend([nft_version(), dns::dnsmasq_version()]);
    Ok(observed)
}

/// Looks the name up and sends a request to its address, until enough queries were lost.
fn requests(
    stage: &Stage,
    p: &Params,
    variant: Variant,
    (web, resolvers): (SocketAddr, [IpAddr; 2]),
) -> Result<Loaded, LabError> {
    let timeout = p.duration("timeout_ns")?;
    let (losses, at_least) = (p.get("losses")?, p.get("requests_min")?);
    let ends = Instant::now() + p.duration("race_for_ns")?;
    let load = Load { new_connections: true, ..Load::get(web, 1) };
    let mut loaded = Loaded::default();
    let mut lost = 0;
    let is_enough = |number: u64, lost: u64| match variant {
        Variant::Faulty => (number >= at_least && lost >= losses) || Instant::now() > ends,
        Variant::Healthy => number >= at_least,
    };
    while !is_enough(loaded.requests.len() as u64, lost) {
        let start_ns = sys::realtime_ns();
        let ask = || look_up(resolvers, variant == Variant::Faulty, timeout);
        lost += stage.client.inside(ask)?.doing("look a name up")?;
        let lookup_ns = sys::realtime_ns() - start_ns;
        let mut one = client::run(&stage.client, &load)?;
        for request in &mut one.requests {
            (request.start_ns, request.lookup_ns) = (start_ns, lookup_ns);
        }
        loaded.add(one);
    }
    Ok(loaded)
}

/// Asks for A at the first resolver and for AAAA at the second from one socket, and again for each
/// that is not answered in time. Returns how many queries were repeated.
fn look_up(resolvers: [IpAddr; 2], at_once: bool, timeout: Duration) -> io::Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(timeout))?;
    let questions = [dns::question(1, NAME, dns::A), dns::question(2, NAME, dns::AAAA)];
    let send = |index: usize| socket.send_to(&questions[index], (resolvers[index], 53)).map(|_| ());
    let mut open = vec![0, 1];
    if at_once {
        both_at_once(&send)?;
    } else {
        send(0)?;
        receive(&socket, &mut open)?;
        send(1)?;
    }
    let mut again = 0;
    while !open.is_empty() {
        if !receive(&socket, &mut open)? {
            for &index in &open {
                send(index)?;
                again += 1;
            }
            if again > 6 {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
    Ok(again)
}

/// Removes an answer from the list of open queries; returns whether one came in time.
fn receive(socket: &UdpSocket, open: &mut Vec<usize>) -> io::Result<bool> {
    let mut answer = [0; 512];
    match socket.recv(&mut answer) {
        Ok(_) => {
            open.retain(|&index| usize::from(answer[1]) != index + 1);
            Ok(true)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sends from two CPUs at once, each of which processes its packet in the router's tables.
fn both_at_once(send: &(impl Fn(usize) -> io::Result<()> + Sync)) -> io::Result<()> {
    let ready = AtomicU64::new(0);
    let one = |index: usize| {
        // With a single CPU the race cannot occur, and the case fails with "not reproduced".
        let _ = sys::stay_on_cpu(index);
        ready.fetch_add(1, Ordering::AcqRel);
        let since = Instant::now();
        while ready.load(Ordering::Acquire) < 2 && since.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        send(index)
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| one(1));
        // This thread ends with the look-up, so it need not be moved back.
        one(0)?;
        other.join().unwrap_or_else(|_| Err(io::Error::other("the sender panicked")))
    })
}

/// Returns the counter of entries that could not be inserted, summed over the CPUs.
fn insert_failed() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/net/stat/nf_conntrack")?;
    let mut lines = text.lines().map(str::split_whitespace);
    let column = lines.next().and_then(|mut names| names.position(|name| name == "insert_failed"));
    let values = lines.filter_map(|mut line| line.nth(column?));
    Ok(values.filter_map(|value| u64::from_str_radix(value, 16).ok()).sum())
}

fn truth(p: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let timeout_ns = p.get("timeout_ns")?;
    let requests = &ran.observed.loaded.requests;
    let waited = requests.iter().map(|r| r.lookup_ns).filter(|&ns| ns >= timeout_ns);
    let lost_ns = waited.sum();
    let failed = ran.observed.measured.get("conntrack_insert_failed").copied().unwrap_or(0);
    if failed == 0 || lost_ns == 0 {
        let what = "in so many look-ups no two CPUs met in the connection table of the router; \
                    dns_lost_question makes the same packets with the relay";
        return Err(LabError::NotReproduced(what.to_owned()));
    }
    let router = Some(ran.observed.server.ip().to_string());
    let how = "look-ups that waited for a repetition, by the client's clock";
    let cause = Cause::by_twin("conntrack_race", Role::Host, router).measured(lost_ns, how);
    // As `dns_timeout` the cause is named once for each of the two resolvers, and the two add up.
    let cause = cause.or(&["dns_timeout"]);
    Ok(vec![cause.looks_like(&[
        ("conntrack_race", Role::Network),
        ("dns_timeout", Role::Network),
        ("dns_timeout", Role::Resolver),
    ])])
}
