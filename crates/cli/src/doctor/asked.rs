//! Sends requests one at a time, to measure what a single request waits for.

use super::args::Doctor;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use tcpwhy_core::app::{ErrorCode, Protocol};
use tcpwhy_core::experiment::{Failure, Measured, OwnRequest, median_ns};
use tcpwhy_core::model::units::{self, duration};
use tcpwhy_probe::Scheme;
use tcpwhy_probe::experiment::{
    Connection, ExchangeError, Kernel, RequestStep, Settings, Subject, Timing,
};
use tcpwhy_probe::http::http2::{Http2Error, Seen};
use tcpwhy_probe::http::{Health, HttpVersions, ResponseError};
use tcpwhy_probe::tls::{TlsOptions, client_config};

/// Number of connections, and of requests on each.
pub const CONNECTIONS: usize = 3;
pub const REQUESTS: usize = 5;

/// Time after which no further connection is opened.
const LASTS: Duration = Duration::from_secs(3);

/// Time after an answer within which a server that closes each connection after one does so, also a busy
/// one: many times what a process needs to be scheduled.
const CLOSES_WITHIN: Duration = Duration::from_millis(50);

/// Segments of the initial congestion window (RFC 6928 §2).
const INITIAL_WINDOW_SEGMENTS: u64 = 10;
/// Segment size of an Ethernet, bytes, for a system that does not say that of a connection.
const USUAL_MSS_BYTES: u64 = 1_460;

/// Statuses of redirects that lead clients on (RFC 9110 §15.4).
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// The result of the single requests.
#[derive(Default)]
pub struct RequestResults {
    /// The measurements for the core.
    pub measured: Measured,
    /// Number of requests sent.
    pub sent: u64,
    /// Status of the last response.
    pub status: Option<u16>,
    /// Status of the first response that has none of 2xx.
    pub unsuccessful: Option<u16>,
    /// The first answer to a health check of gRPC that is not `SERVING`.
    pub unhealthy: Option<Health>,
    /// `true` if further requests would have exceeded the budget.
    pub is_short: bool,
    /// Target of a redirect, if the server sent one, without values.
    pub location: Option<String>,
    /// Status and `Location` field of a redirect, as it was received.
    pub redirect: Option<(u16, String)>,
    /// Error of the last request that failed.
    pub error: Option<ExchangeError>,
    /// Time from the start of each TLS handshake to the server's first bytes, ns.
    pub tls_first_bytes_ns: Vec<u64>,
    /// Bytes of the server's part of a TLS handshake, and those of a segment of the path.
    pub tls_handshake: Option<(u64, u64)>,
    /// Number of connections that the server closed after their first answer, which does not announce it.
    pub closed_unannounced: u64,
    /// `true` if the connection of the error ended when its second request came.
    pub ended_at_second: bool,
    /// `true` if a request was sent or its response began, but the response did not end before the
    /// timeout.
    pub is_stuck: bool,
    /// Settings, windows and ends of connections that frames of HTTP/2 have shown; `None` in HTTP/1.1.
    pub http2: Option<Seen>,
    /// Number of requests that a `GOAWAY` left unprocessed.
    pub unprocessed: u64,
}

impl RequestResults {
    /// Sends the requests and measures them. If redirects are followed, it ends at the first one.
    pub fn ask(subject: &Subject, lookup_ns: u64, follows: bool) -> Self {
        let mut asked = Self::default();
        asked.measured.server = subject.server.into();
        let began = Instant::now();
        for number in 0..CONNECTIONS {
            if number > 0 && began.elapsed() > LASTS {
                break;
            }
            let lookup_ns = if number == 0 { lookup_ns } else { 0 };
            if let Err(error) = asked.on_one(subject, lookup_ns, follows) {
                if matches!(error, ExchangeError::Budget(_)) && asked.is_answered() {
                    asked.is_short = true;
                    break;
                }
                let is_over = error.is_timeout() || matches!(error, ExchangeError::Budget(_));
                asked.fail(error);
                if is_over {
                    break;
                }
            }
            let is_over = follows && asked.redirect.is_some();
            if is_over || asked.is_short || asked.is_unwelcome() {
                break;
            }
        }
        if asked.is_doubtful() && subject.target.scheme == Scheme::Http && speaks_tls(subject) {
            asked.measured.requests.clear();
            asked.error = Some(ExchangeError::TlsPort);
        } else if !asked.is_answered() && asked.may_be_http2() && speaks_http2(subject) {
            asked.error = Some(ExchangeError::OnlyHttp2);
        }
        asked
    }

    /// Returns whether the server may expect TLS: its response is not HTTP, or says that a plain
    /// request came to a TLS port.
    fn is_doubtful(&self) -> bool {
        let is_closed = |error: &ExchangeError| match error {
            ExchangeError::Io { step, source, .. } => {
                let closes = [ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof];
                *step == RequestStep::Answer && closes.contains(&source.kind())
            }
            ExchangeError::Response(ResponseError::Upgrade(_)) => false,
            error => matches!(
                error,
                ExchangeError::Response(_)
                    | ExchangeError::OnlyHttp1
                    | ExchangeError::Stream(Http2Error::Protocol(_))
            ),
        };
        let is_silent = !self.is_answered() && self.error.as_ref().is_some_and(is_closed);
        self.status == Some(400) || is_silent
    }

    /// Returns whether the server may speak HTTP/2 alone: it closes, resets, or talks something
    /// else, over TLS already in the handshake, because the client offers no protocol that it has.
    fn may_be_http2(&self) -> bool {
        matches!(self.error, Some(ExchangeError::Tls(_))) || self.is_doubtful()
    }

    /// Returns whether the server speaks another protocol than the one in which it was asked. What
    /// it did with these requests is no fault of its own.
    pub fn is_other_protocol(&self) -> bool {
        matches!(
            self.error,
            Some(ExchangeError::TlsPort | ExchangeError::OnlyHttp1 | ExchangeError::OnlyHttp2)
        )
    }

    /// Returns whether requests on several streams at once may follow.
    pub fn welcomes_streams(&self, wanted: &Doctor, subject: &Subject) -> bool {
        self.is_answered()
            && self.error.is_none()
            && self.unsuccessful.is_none()
            && !self.is_short
            && !wanted.no_experiments
            && wanted.experiment.is_empty()
            && subject.request.is_idempotent()
    }

    fn on_one(
        &mut self,
        subject: &Subject,
        lookup_ns: u64,
        follows: bool,
    ) -> Result<(), ExchangeError> {
        let mut connection = Connection::open(subject, Settings::default())?;
        let asked = self.ask_on(&mut connection, subject, lookup_ns, follows);
        if let Some(seen) = connection.seen() {
            match &mut self.http2 {
                Some(before) => before.add(seen),
                None => self.http2 = Some(seen),
            }
        }
        if let Err(ExchangeError::Stream(Http2Error::GoAway(_))) = asked {
            self.unprocessed += 1;
        }
        asked
    }

    fn ask_on(
        &mut self,
        connection: &mut Connection<'_>,
        subject: &Subject,
        lookup_ns: u64,
        follows: bool,
    ) -> Result<(), ExchangeError> {
        if let Some(local) = connection.local() {
            self.measured.client = local.into();
        }
        if connection.tls_ns > 0 {
            self.tls_first_bytes_ns.push(connection.tls_first_byte_ns);
            self.tls_handshake = Some((connection.tls_bytes, connection.kernel().mss_bytes));
        }
        let mut set_up = OwnRequest {
            lookup_ns,
            connect_ns: connection.connect_ns,
            tls_ns: connection.tls_ns,
            ..OwnRequest::default()
        };
        if subject.target.scheme == Scheme::Tcp {
            let kernel = connection.kernel();
            self.measured.requests.push(with(set_up, &Timing::default(), &kernel));
            return Ok(());
        }
        let mut before = Kernel::default();
        for number in 0..REQUESTS {
            // Whether it closes after an answer, or when the next request comes, shows without one.
            let has_failed = self.closed_unannounced > 0 || self.error.is_some();
            let is_suspect = number == 1 && has_failed;
            let ends = number == 1 && connection.ends_within(is_suspect.then_some(CLOSES_WITHIN));
            if ends {
                self.closed_unannounced += 1;
                self.explain_end();
                break;
            }
            self.sent += 1;
            let (timing, response, sending) = match connection.ask_watching() {
                Err(error) if is_suspect && connection.is_plain() => {
                    self.closed_unannounced = 0;
                    return Err(error);
                }
                Err(error) if number == 1 && was_closed(&error, before.rtt_min_ns) => {
                    self.closed_unannounced += 1;
                    break;
                }
                Err(error) => {
                    self.ended_at_second = number == 1 && is_end(&error);
                    return Err(error);
                }
                Ok(asked) => asked,
            };
            let kernel = connection.kernel();
            let own = Kernel {
                repeated: kernel.repeated.saturating_sub(before.repeated),
                out_of_order: kernel.out_of_order.saturating_sub(before.out_of_order),
                rwnd_limited_ns: kernel.rwnd_limited_ns.saturating_sub(before.rwnd_limited_ns),
                ..kernel
            };
            before = kernel;
            let is_http2 = connection.seen().is_some();
            self.measured.protocol = if is_http2 { Protocol::Http2 } else { Protocol::Http1 };
            let error = match response.health {
                Some(Health::Status(code)) => Some(ErrorCode::Grpc(code)),
                _ => ErrorCode::of_http(response.status),
            };
            let request = OwnRequest { sending, error, ..with(set_up, &timing, &own) };
            self.measured.requests.push(request);
            self.status = Some(response.status);
            if !subject.target.is_success(&response) {
                self.unsuccessful.get_or_insert(response.status);
                self.unhealthy = self.unhealthy.or(response.health);
            }
            self.measured.software = response.server.or(self.measured.software.take());
            self.location = response.location;
            let leads_on = REDIRECTS.contains(&response.status);
            self.redirect = response.redirect.filter(|_| leads_on).map(|to| (response.status, to));
            set_up = OwnRequest::default();
            self.is_short = subject.budget.left_bytes() < exchange_bytes(subject, &timing);
            let is_over = follows && self.redirect.is_some();
            if is_over || !response.keep_alive || self.is_short || self.is_unwelcome() {
                break;
            }
        }
        Ok(())
    }

    /// Counts the connection whose second request failed among those that the server closes: another one
    /// ended after its first answer although nothing was asked.
    fn explain_end(&mut self) {
        if std::mem::take(&mut self.ended_at_second) {
            self.error = None;
            self.closed_unannounced += 1;
            let is_end =
                |it: &Failure| matches!(it, Failure::Closed { .. } | Failure::Reset { .. });
            self.measured.failures.retain(|it| !is_end(it));
        }
    }

    fn fail(&mut self, error: ExchangeError) {
        if let ExchangeError::Io { step, after, source } = &error {
            let after_ns = after.as_nanos() as u64;
            let failure = match (step, source.kind()) {
                (RequestStep::Connect, ErrorKind::ConnectionRefused) => {
                    Some(Failure::Refused { after_ns })
                }
                (
                    RequestStep::Connect,
                    ErrorKind::HostUnreachable
                    | ErrorKind::NetworkUnreachable
                    | ErrorKind::PermissionDenied,
                ) => Some(Failure::Rejected { after_ns }),
                (RequestStep::Connect, ErrorKind::TimedOut) => {
                    Some(Failure::Unanswered { after_ns })
                }
                (RequestStep::Answer, ErrorKind::UnexpectedEof) => {
                    Some(Failure::Closed { after_ns })
                }
                (_, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                    Some(Failure::Reset { after_ns })
                }
                _ => None,
            };
            self.measured.failures.extend(failure);
            self.is_stuck |= *step == RequestStep::Answer && error.is_timeout();
        }
        self.error = Some(error);
    }

    /// Returns whether the server has said that it gets too many requests (RFC 6585 §4) or cannot
    /// answer more of them (RFC 9110 §15.6.4).
    pub fn is_unwelcome(&self) -> bool {
        matches!(self.status, Some(429 | 503))
    }

    /// Returns the number of round trips that the server's part of the TLS handshake takes beyond
    /// the first one, because it is larger than the initial congestion window of ten segments (RFC
    /// 6928), which doubles each round trip, and the bytes of that part.
    pub fn tls_further_trips(&self) -> Option<(u64, u64)> {
        let (bytes, mss_bytes) = self.tls_handshake?;
        let window_bytes = INITIAL_WINDOW_SEGMENTS * mss_bytes.max(1);
        let windows = bytes.div_ceil(window_bytes).max(1);
        // After n further trips, 2^(n + 1) - 1 initial windows were sent.
        let trips = u64::from(windows.ilog2());
        (trips > 0).then_some((trips, bytes))
    }

    /// Describes the cost of a large TLS handshake; `None` if it has none.
    pub fn tls_words(&self) -> Option<String> {
        let (trips, bytes) = self.tls_further_trips()?;
        let trips = units::counted(trips, "round trip", "round trips");
        let rtt = duration(self.layers().path_ns);
        Some(format!(
            "the server's part of the TLS handshake has {}, more than the initial congestion window: \
             {trips} of {rtt} more on each new connection; send fewer or smaller certificates",
            units::bytes(bytes)
        ))
    }

    /// Returns the largest number of bytes of a request and its answer.
    pub fn exchange_bytes_max(&self, subject: &Subject) -> u64 {
        let own = |it: &OwnRequest| it.wire_bytes;
        let answer = self.measured.requests.iter().map(own).max().unwrap_or(0);
        answer + subject.request.sent_bytes(&subject.target)
    }

    /// Returns whether an answer needs more than the first flight of a connection, so that the path may
    /// decide how long it takes.
    pub fn exceeds_first_flight(&self, subject: &Subject) -> bool {
        let mss_bytes = self.measured.requests.iter().map(|it| it.mss_bytes).max().unwrap_or(0);
        let window_bytes = INITIAL_WINDOW_SEGMENTS * mss_bytes.max(USUAL_MSS_BYTES);
        self.exchange_bytes_max(subject) > window_bytes
    }

    /// Returns whether any request was answered.
    pub fn is_answered(&self) -> bool {
        !self.measured.requests.is_empty()
    }

    /// Longest time of a request on an open connection, ns.
    pub fn slowest_ns(&self) -> u64 {
        let own = |it: &OwnRequest| it.wait_ns + it.pause_ns + it.receive_ns;
        self.measured.requests.iter().map(own).max().unwrap_or(0)
    }

    /// Returns whether the window of this client is so small that answers take several round trips
    /// after which it is full.
    pub fn has_small_window(&self) -> bool {
        self.measured.requests.iter().any(OwnRequest::exceeds_own_window)
    }

    /// Median time from the first byte of an answer to the last, ns.
    pub fn answer_ns(&self) -> u64 {
        median_ns(self.measured.requests.iter().map(|it| it.pause_ns + it.receive_ns))
    }

    /// Median of the longest pauses within answers, ns.
    pub fn pause_ns(&self) -> u64 {
        median_ns(self.measured.requests.iter().map(|it| it.pause_ns))
    }

    /// Time spent in each layer, medians over the requests, ns.
    pub fn layers(&self) -> Layers {
        let of = |part: &dyn Fn(&OwnRequest) -> u64| {
            median_ns(self.measured.requests.iter().map(part).filter(|&it| it > 0))
        };
        Layers {
            name_ns: of(&|it| it.lookup_ns),
            path_ns: of(&|it| it.rtt_ns),
            connect_ns: of(&|it| it.connect_ns),
            tls_ns: of(&|it| it.tls_ns),
            tls_first_byte_ns: median_ns(self.tls_first_bytes_ns.iter().copied()),
            server_ns: of(&|it| it.wait_ns.saturating_sub(it.rtt_ns.max(it.sending.acked_ns))),
            transfer_ns: of(&|it| it.sending_ns() + it.pause_ns + it.receive_ns),
            request_ns: of(&|it| it.wait_ns + it.pause_ns + it.receive_ns),
        }
    }

    /// Describes the result in one line.
    pub fn words(&self) -> String {
        let layers = self.layers();
        let latency = format!("{} in the median", duration(layers.request_ns));
        let status = self.status.map_or_else(String::new, |status| format!("status {status}, "));
        let location = self.location.as_deref();
        let location =
            location.map_or_else(String::new, |to| format!("; a redirect to {to}: not followed"));
        let count = units::counted(self.measured.requests.len() as u64, "request", "requests");
        let short = if self.is_short { "; more would exceed the budget" } else { "" };
        format!("{status}{count}, {latency}{location}{short}")
    }
}

/// Where the time of a request goes, ns: medians of the requests that have the layer, 0 where none has.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Layers {
    /// Resolving the name.
    pub name_ns: u64,
    /// One round trip.
    pub path_ns: u64,
    /// Establishing a connection.
    pub connect_ns: u64,
    /// The TLS handshake.
    pub tls_ns: u64,
    /// The part of the TLS handshake before the server's first bytes.
    pub tls_first_byte_ns: u64,
    /// From the request to the first byte of the response, less one round trip, or less the time
    /// until the request had arrived.
    pub server_ns: u64,
    /// The time of a request on its way beyond a round trip, and that from the first byte of the
    /// response to the last.
    pub transfer_ns: u64,
    /// From the request to the last byte of the response, on an open connection.
    pub request_ns: u64,
}

/// Returns whether the server had closed the connection before the request could reach it: the end
/// arrives sooner than a round trip after the request.
fn was_closed(error: &ExchangeError, rtt_ns: u64) -> bool {
    let ExchangeError::Io { after, .. } = error else { return false };
    is_end(error) && after.as_nanos() < rtt_ns.into()
}

/// Returns whether a request failed because its connection ended.
fn is_end(error: &ExchangeError) -> bool {
    let ExchangeError::Io { source, .. } = error else { return false };
    let ends = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    ends.contains(&source.kind())
}

/// Returns the number of bytes of a request and its answer.
fn exchange_bytes(subject: &Subject, timing: &Timing) -> u64 {
    timing.wire_bytes + subject.request.sent_bytes(&subject.target)
}

fn with(set_up: OwnRequest, timing: &Timing, kernel: &Kernel) -> OwnRequest {
    OwnRequest {
        wait_ns: timing.send_ns + timing.wait_ns,
        pause_ns: timing.pause_ns,
        receive_ns: timing.receive_ns - timing.pause_ns,
        rtt_ns: kernel.rtt_min_ns,
        repeated: kernel.repeated,
        out_of_order: kernel.out_of_order,
        wire_bytes: timing.wire_bytes,
        rwnd_limited_ns: kernel.rwnd_limited_ns,
        after_pause_bytes: timing.after_pause_bytes,
        mss_bytes: kernel.mss_bytes,
        beyond_trips_ns: timing.beyond_trips_ns,
        rcv_wnd_bytes: kernel.rcv_wnd_bytes,
        ..set_up
    }
}

/// Returns whether the server accepts a TLS handshake, whatever its certificate is.
fn speaks_tls(subject: &Subject) -> bool {
    let any = TlsOptions { insecure: true, ..TlsOptions::default() };
    let Ok(config) = client_config(&any) else { return false };
    let versions = HttpVersions::Any;
    let asked = Subject { tls: Some(config), versions, ..subject.clone() };
    Connection::open(&asked, Settings::default()).is_ok()
}

/// Returns whether the server speaks HTTP/2: with prior knowledge, or by ALPN over TLS, whatever its
/// certificate is.
fn speaks_http2(subject: &Subject) -> bool {
    let versions = HttpVersions::Http2;
    let any = TlsOptions { insecure: true, versions, ..TlsOptions::default() };
    let config = subject.tls.as_ref().map(|_| client_config(&any));
    let Ok(tls) = config.transpose() else { return false };
    // The preface is sent by hand.
    let asked = Subject { tls, versions: HttpVersions::Http1, ..subject.clone() };
    Connection::open(&asked, Settings::default()).is_ok_and(|mut it| it.speaks_http2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_certificate_takes_further_round_trips() {
        let of = |bytes| RequestResults {
            tls_handshake: Some((bytes, 1_460)),
            ..RequestResults::default()
        };
        for (bytes, trips) in
            [(3_000, None), (14_600, None), (14_601, Some(1)), (30_000, Some(1)), (43_801, Some(2))]
        {
            let found = of(bytes).tls_further_trips().map(|(trips, _)| trips);
            assert_eq!(found, trips, "{bytes}");
        }
    }
}
