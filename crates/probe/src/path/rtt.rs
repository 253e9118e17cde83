//! Measures round trips to the target: by echo requests, by SYNs, and by connections of the kernel.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use serde::Serialize;
use tcpwhy_live::sys;

use super::sender::{Sender, What};
use super::{Method, PathMeasurement, Report};

/// A refusal and its sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Address of the sender.
    pub by: Option<IpAddr>,
    /// How the probe was refused: `rst`, `port_unreachable`, `unreachable`.
    pub how: &'static str,
    /// Code of the ICMP error, if the refusal is one.
    pub code: Option<u8>,
}

/// Probes of one kind, and their answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoundTrips {
    /// Kind of the probes.
    pub method: Method,
    /// Number of probes.
    pub sent: u64,
    /// Number of answers, including refusals.
    pub received: u64,
    /// Round trip of each probe, in order, ns; `None` if it was not answered.
    pub samples_ns: Vec<Option<u64>>,
    /// Least round trip, ns.
    pub min_ns: Option<u64>,
    /// Median round trip, ns.
    pub p50_ns: Option<u64>,
    /// Greatest round trip, ns.
    pub max_ns: Option<u64>,
    /// The first refusal.
    pub refusal: Option<Refusal>,
}

/// Connections that the kernel opened, and that were closed without sending data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Connected {
    /// Number of attempts.
    pub sent: u64,
    /// Number of established connections.
    pub established: u64,
    /// Duration of each connect(2), ns.
    pub samples_ns: Vec<u64>,
    /// Least duration, ns.
    pub min_ns: Option<u64>,
    /// Median duration, ns.
    pub p50_ns: Option<u64>,
    /// Greatest duration, ns.
    pub max_ns: Option<u64>,
    /// Least round trip of the handshakes as the kernel measured it (`tcpi_rtt`), µs.
    pub tcpi_rtt_min_us: Option<u64>,
    /// The kernel's error for the first connect that failed.
    pub error: Option<String>,
    /// `true` if that connect was refused at once.
    pub is_refused: bool,
}

/// Returns the least, the median and the greatest sample.
pub(super) fn spread(samples_ns: impl Iterator<Item = u64>) -> Option<(u64, u64, u64)> {
    let mut sorted: Vec<u64> = samples_ns.collect();
    sorted.sort_unstable();
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    Some((first, sorted[sorted.len() / 2], last))
}

/// Measures round trips by echo requests.
pub(super) fn echo(
    asked: &PathMeasurement<'_>,
    report: &mut Report,
    tell: &mut dyn FnMut(&Report),
) {
    match Sender::open(Method::Icmp, asked) {
        Ok(sender) => measure(asked, &sender, Method::Icmp, report, tell),
        Err(error) => report.skip(
            "echo",
            refused(
                &error,
                "ICMP echo",
                "let this user's group in: sysctl net.ipv4.ping_group_range, or run as root",
            ),
        ),
    }
}

/// Measures round trips by SYNs, with the kernel's timestamps of the answers.
pub(super) fn syn(asked: &PathMeasurement<'_>, report: &mut Report, tell: &mut dyn FnMut(&Report)) {
    match Sender::open(Method::Tcp, asked) {
        Ok(sender) => measure(asked, &sender, Method::Tcp, report, tell),
        Err(error) => report.skip(
            "syn",
            refused(
                &error,
                "SYN by a raw socket",
                "run as root (CAP_NET_RAW); connections of the kernel are timed instead",
            ),
        ),
    }
}

/// Describes why a kind of packet cannot be sent, with the remedy.
pub(super) fn refused(error: &io::Error, what: &str, advice: &str) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!("{what} is not permitted: {advice}"),
        _ => format!("{what} cannot be sent: {error}"),
    }
}

impl RoundTrips {
    /// Discards a refusal by RST at a port that accepts connections. Where the RST of this host is lost, which
    /// ends the connection of a probe, the server resets that connection when the SYN of the next one comes
    /// (RFC 9293 §3.10.7.4).
    fn forget_resets(&mut self) {
        self.refusal.take_if(|it| it.how == "rst");
    }
}

fn measure(
    asked: &PathMeasurement<'_>,
    sender: &Sender,
    method: Method,
    report: &mut Report,
    tell: &mut dyn FnMut(&Report),
) {
    let mut trips = RoundTrips {
        method,
        sent: 0,
        received: 0,
        samples_ns: Vec::new(),
        min_ns: None,
        p50_ns: None,
        max_ns: None,
        refusal: None,
    };
    let mut is_open = false;
    for number in 0..asked.plan.count {
        if asked.is_stopped() {
            break;
        }
        let began = Instant::now();
        trips.sent += 1;
        report.packets_sent += 1;
        let answer = one(asked, sender, number as u16);
        trips.samples_ns.push(answer.as_ref().map(|(ns, _)| *ns));
        trips.received += u64::from(answer.is_some());
        match answer {
            Some((_, None)) => is_open = true,
            Some((_, refusal)) => trips.refusal = trips.refusal.take().or(refusal),
            None => {}
        }
        if is_open {
            trips.forget_resets();
        }
        if let Some((min, p50, max)) = spread(trips.samples_ns.iter().flatten().copied()) {
            (trips.min_ns, trips.p50_ns, trips.max_ns) = (Some(min), Some(p50), Some(max));
        }
        let place = if method == Method::Icmp { &mut report.echo } else { &mut report.syn };
        *place = Some(trips.clone());
        tell(report);
        // After two probes without an answer no third one is sent.
        if trips.received == 0 && trips.sent >= 2 {
            break;
        }
        if number + 1 < asked.plan.count {
            asked.pause(began);
        }
    }
}

/// Sends a probe. Returns its round trip, and the refusal if it was refused.
fn one(
    asked: &PathMeasurement<'_>,
    sender: &Sender,
    number: u16,
) -> Option<(u64, Option<Refusal>)> {
    let sent_ns = sender.probe(number, None).ok()?;
    let until = Instant::now() + asked.plan.wait;
    while Instant::now() < until && !asked.is_stopped() {
        sender
            .wait(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
        let arrivals = sender.arrivals();
        if let Some(it) = arrivals.into_iter().find(|it| it.number == Some(number)) {
            let refusal = |how, code| Some(Refusal { by: it.from, how, code });
            let refusal = match it.what {
                What::Accepted | What::Echo => None,
                What::Refused => refusal("rst", None),
                What::PortClosed => refusal("port_unreachable", None),
                What::Expired => refusal("hop_limit", None),
                What::TooLarge(_) => refusal("too_large", None),
                What::Unreachable { code } => refusal("unreachable", Some(code)),
            };
            return Some((it.at_ns.saturating_sub(sent_ns), refusal));
        }
    }
    None
}

/// Opens connections and closes them at once with a RST, so that none is left in TIME-WAIT.
pub(super) fn connect(
    asked: &PathMeasurement<'_>,
    report: &mut Report,
    tell: &mut dyn FnMut(&Report),
) {
    let mut connected = Connected {
        sent: 0,
        established: 0,
        samples_ns: Vec::new(),
        min_ns: None,
        p50_ns: None,
        max_ns: None,
        tcpi_rtt_min_us: None,
        error: None,
        is_refused: false,
    };
    for number in 0..asked.plan.count {
        let began = Instant::now();
        connected.sent += 1;
        report.packets_sent += 1;
        let (budget, wait) = (&asked.plan.budget, asked.plan.wait);
        let connect = || TcpStream::connect_timeout(&asked.address, wait);
        let stream =
            budget.request().map_err(Into::into).and_then(|()| budget.connect(wait, connect));
        let took_ns = crate::nanoseconds(began.elapsed());
        let failed = stream.is_err();
        match stream {
            Ok(stream) => {
                connected.established += 1;
                connected.samples_ns.push(took_ns);
                let rtt_us = sys::tcp_info(stream.socket().as_fd()).ok().map(|it| it.tcpi_rtt_us);
                let least = connected.tcpi_rtt_min_us.into_iter().chain(rtt_us).min();
                connected.tcpi_rtt_min_us = least;
                let _ = socket2::SockRef::from(stream.socket()).set_linger(Some(Duration::ZERO));
            }
            Err(error) => {
                connected.is_refused |= error.kind() == ErrorKind::ConnectionRefused;
                connected.error.get_or_insert_with(|| spoken(&error));
            }
        }
        if let Some((min, p50, max)) = spread(connected.samples_ns.iter().copied()) {
            (connected.min_ns, connected.p50_ns, connected.max_ns) =
                (Some(min), Some(p50), Some(max));
        }
        if connected.established > 0 {
            report.syn.iter_mut().for_each(RoundTrips::forget_resets);
        }
        report.connect = Some(connected.clone());
        tell(report);
        let in_vain = failed && (connected.is_refused || connected.sent >= 2);
        if asked.is_stopped() || in_vain || number + 1 == asked.plan.count {
            break;
        }
        asked.pause(began);
    }
}

fn spoken(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "no answer".to_owned(),
        _ => error.to_string(),
    }
}
