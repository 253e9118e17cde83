//! The requests of a trial: what is sent on which connections, and what time is measured.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustls::ClientConfig;
use tcpwhy_core::experiment::median_ns;
use tcpwhy_core::model::Cause;

use super::connection::{Connection, Settings, Subject, Timing, kernel_of};
use super::error::ExchangeError;
use super::kinds::{REQUESTS, Skipped};
use super::statistics::PAIRS_MIN;
use super::trials::{Bounds, Pairs, Trial, on_one_connection};

/// Size of segments that pass any IPv4 path (RFC 9293 §3.7.1), bytes.
const SMALL_MSS_BYTES: u32 = 536;
/// Time between two looks at a socket.
const LOOK: Duration = Duration::from_millis(1);

pub fn with_header(subject: &Subject, name: &str, value: &str) -> Subject {
    let mut changed = subject.clone();
    changed.request.headers.push((name.to_owned(), value.to_owned()));
    changed
}

/// Returns the cause that holds the rest of an answer back until an ACK arrives. Nagle's algorithm
/// holds back less than a segment; a full segment waits for room in a buffer or window. Returns
/// `None` if the pause does not occur again.
pub fn held_by(subject: &Subject) -> Option<Cause> {
    let mut connection = Connection::open(subject, Settings::default()).ok()?;
    let mut longest = None::<Timing>;
    for _ in 0..REQUESTS {
        let (timing, _) = connection.ask().ok()?;
        longest = longest.filter(|it| it.pause_ns >= timing.pause_ns).or(Some(timing));
    }
    let timing = longest?;
    let mss_bytes = connection.kernel().mss_bytes;
    let is_small = timing.after_pause_bytes < mss_bytes;
    Some(if is_small { Cause::NagleDelayedAck } else { Cause::DelayedAck })
}

/// Returns whether the server accepts a second request on a connection. Some servers close it and
/// do not announce that.
pub fn is_kept(subject: &Subject) -> Result<bool, ExchangeError> {
    let mut connection = Connection::open(subject, Settings::default())?;
    let (_, response) = connection.ask()?;
    if !response.keep_alive {
        return Ok(false);
    }
    match connection.ask() {
        Ok(_) => Ok(true),
        Err(ExchangeError::Io { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns half of the bytes that an answer has on the wire.
pub fn half_of_answer(subject: &Subject) -> Result<u64, ExchangeError> {
    let mut connection = Connection::open(subject, Settings::default())?;
    connection.ask()?;
    Ok(connection.kernel().received_bytes / 2)
}

/// Measures the set-up of a connection, without TLS, while nothing else is sent.
pub fn connecting(subject: &Subject) -> Result<Trial, ExchangeError> {
    let plain = Subject { tls: None, ..subject.clone() };
    let ns = Connection::open(&plain, Settings::default())?.connect_ns;
    Ok(Trial { ns, requests: 0 })
}

/// Measures the set-up of a connection after `half_bytes` of an answer have arrived on another one.
/// The server's kernel answers the SYN, whatever its application does; what waits in a queue on the
/// path delays it.
pub fn connecting_amid(subject: &Subject, half_bytes: u64) -> Result<Trial, ExchangeError> {
    let mut connection = Connection::open(subject, Settings::default())?;
    let socket = connection.watched()?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            while kernel_of(&socket).received_bytes < half_bytes && !is_over.load(Relaxed) {
                std::thread::sleep(LOOK);
            }
            connecting(subject)
        });
        let asked = connection.ask();
        is_over.store(true, Relaxed);
        let measured = ended(measuring);
        asked?;
        Ok(Trial { requests: 1, ..measured? })
    })
}

/// Returns whether a connection speaks HTTP/2.
pub fn speaks_http2(subject: &Subject) -> Result<bool, ExchangeError> {
    Ok(Connection::open(subject, Settings::default())?.seen().is_some())
}

/// Measures a request on a new connection, without the connection set-up.
pub fn once(subject: &Subject, settings: Settings) -> Result<Trial, ExchangeError> {
    on_one_connection(subject, settings, (0, 1))
}

/// Sends `count` requests at the same time, each on a connection that was opened before, and
/// returns the median latency, ns. A connection is closed after its answer, since a server may
/// process them one after the other.
pub fn together(subject: &Subject, count: usize) -> Result<Trial, ExchangeError> {
    let open = |_| Connection::open(subject, Settings::default());
    let connections: Vec<_> = (0..count).map(open).collect::<Result<_, _>>()?;
    let ask = |mut it: Connection<'_>| it.ask().map(|(timing, _)| timing.latency_ns());
    let asked: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> =
            connections.into_iter().map(|it| scope.spawn(move || ask(it))).collect();
        running.into_iter().map(ended).collect()
    });
    let times_ns = asked.into_iter().collect::<Result<Vec<u64>, _>>()?;
    Ok(Trial { ns: median_ns(times_ns), requests: count as u64 })
}

/// Returns the subject with a TLS configuration that resumes sessions. A session begins with a full
/// handshake, and its ticket arrives with an answer at the latest (RFC 8446 §4.6.1).
pub fn resuming(subject: &Subject, config: Option<&Arc<ClientConfig>>) -> Result<Subject, Skipped> {
    let Some(config) = config else {
        return Err(Skipped::DoesNotApply("the target speaks no TLS"));
    };
    let resuming = Subject { tls: Some(config.clone()), ..subject.clone() };
    Connection::open(&resuming, Settings::default())?.ask()?;
    let mut second = Connection::open(&resuming, Settings::default())?;
    second.ask()?;
    if !second.is_resumed() {
        return Err(Skipped::DoesNotApply("the server resumes no TLS session"));
    }
    Ok(resuming)
}

/// Measures the TLS handshake of a new connection. A request follows it, since each session is
/// resumed once.
pub fn handshake(subject: &Subject) -> Result<Trial, ExchangeError> {
    let mut connection = Connection::open(subject, Settings::default())?;
    connection.ask()?;
    Ok(Trial { ns: connection.tls_ns, requests: 1 })
}

/// Returns the result of a thread, or continues its panic in this thread.
fn ended<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Measures a request on a new connection, including the connection set-up.
pub fn new(subject: &Subject, settings: Settings) -> Result<Trial, ExchangeError> {
    let mut connection = Connection::open(subject, settings)?;
    let set_up_ns = connection.connect_ns + connection.tls_ns;
    let (timing, _) = connection.ask()?;
    Ok(Trial { ns: set_up_ns + timing.latency_ns(), requests: 1 })
}

/// Measures the first request of a connection with the connection set-up, or the second one without
/// it.
pub fn new_or_used(subject: &Subject, is_used: bool) -> Result<Trial, ExchangeError> {
    if !is_used {
        return new(subject, Settings::default());
    }
    let mut connection = Connection::open(subject, Settings::default())?;
    connection.ask()?;
    let (timing, _) = connection.ask()?;
    Ok(Trial { ns: timing.latency_ns(), requests: 2 })
}

/// Sends a request with `Expect: 100-continue`, and waits for `100 Continue` as curl does.
pub fn expecting(subject: &Subject) -> Result<Trial, ExchangeError> {
    let mut connection = Connection::open(subject, Settings::default())?;
    let timing = connection.ask_expecting()?;
    Ok(Trial { ns: timing.latency_ns(), requests: 1 })
}

/// Compares full-sized segments with small ones. If full-sized segments are lost, a trial lasts
/// until its timeout; all trials run at the same time, as far as the budget permits, so that the
/// total wait is one timeout and not eight.
pub fn large_and_small(subject: &Subject, bounds: &Bounds) -> Result<Pairs, ExchangeError> {
    let pairs = bounds.pairs_max.min(PAIRS_MIN);
    let trial = |mss_bytes| {
        let settings = Settings { mss_bytes, ..Settings::default() };
        match new(subject, settings) {
            Err(error) if error.is_timeout() => {
                let ns = u64::try_from(subject.timeout.as_nanos()).unwrap_or(u64::MAX);
                Ok(Trial { ns, requests: 1 })
            }
            trial => trial,
        }
    };
    let trial = &trial;
    let made: Vec<[Result<Trial, ExchangeError>; 2]> = std::thread::scope(|scope| {
        let both = |_| [None, Some(SMALL_MSS_BYTES)].map(|mss| scope.spawn(move || trial(mss)));
        let running: Vec<_> = (0..pairs).map(both).collect();
        running.into_iter().map(|both| both.map(ended)).collect()
    });
    let mut all = Pairs::default();
    for [large, small] in made {
        all.add(large?, small?);
    }
    Ok(all)
}
