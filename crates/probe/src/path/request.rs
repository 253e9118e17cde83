//! Measures the phases of one request on a connection of its own.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use serde::Serialize;
use tcpwhy_live::sys;

use super::{PathMeasurement, Report, speaks_http};
use crate::budget::{Exceeded, Metered};
use crate::http::http2::{Event, Http2Error, OwnWindows, Prepared, Session};
use crate::http::{
    Handshake, HttpVersions, Progress, Request, Response, ResponseError, ResponseReader,
};
use crate::nanoseconds;
use crate::target::Scheme;
use crate::tls::{TlsError, client_config, sentence, server_name};

/// Greatest number of bytes of the exchange, with TLS.
pub(super) const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Longest duration of all phases together.
const TIME_MAX: Duration = Duration::from_secs(10);

/// The durations of the phases of a request, in their order. Each phase begins at the end of the
/// one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Phases {
    /// Duration of connect(2), ns.
    pub connect_ns: u64,
    /// The kernel's round trip of the TCP handshake (`tcpi_rtt`), µs.
    pub tcpi_rtt_us: Option<u64>,
    /// Duration of the TLS handshake, ns; `None` for plain HTTP, or if the request failed before
    /// it.
    pub tls_ns: Option<u64>,
    /// Time from the ClientHello to the server's first bytes, ns.
    pub tls_first_byte_ns: Option<u64>,
    /// The version of TLS, such as `TLSv1_3`.
    pub tls_version: Option<String>,
    /// The cipher suite.
    pub tls_cipher: Option<String>,
    /// The version of HTTP in which the request was sent: `1.1` or `2`.
    pub http_version: Option<&'static str>,
    /// Duration of writing the request to the socket, ns.
    pub sent_ns: Option<u64>,
    /// Time from then to the first byte of the answer, ns.
    pub first_byte_ns: Option<u64>,
    /// Time from the first byte to the last, ns.
    pub rest_ns: Option<u64>,
    /// Total time, ns.
    pub total_ns: u64,
    /// Status code of the answer.
    pub status: Option<u16>,
    /// The answer to a health check of gRPC.
    pub health: Option<String>,
    /// Bytes of the answer, without those of TLS.
    pub answer_bytes: u64,
    /// Where a redirect leads, without values; it is not followed.
    pub location: Option<String>,
    /// The known programs that the `server` field of the response states.
    pub server: Option<String>,
    /// The error as a sentence; the phases before it were measured.
    pub error: Option<String>,
}

/// The error of a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The connection could not be opened.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// TLS cannot be used on this host.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The handshake failed.
    #[error("the TLS handshake failed: {0}")]
    Handshake(String),
    /// The server closed the connection during the handshake.
    #[error("the server closed the connection during the TLS handshake")]
    HandshakeClosed,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Connection(io::Error),
    /// The reply is not an HTTP response.
    #[error("{0}")]
    Answer(#[from] ResponseError),
    /// The request has no answer in HTTP/2.
    #[error("{0}")]
    Http2(#[from] Http2Error),
    /// Nothing arrived in time.
    #[error("{0} within {1} s")]
    Late(&'static str, u64),
    /// The answer is longer than the budget.
    #[error("{0}; the rest of the answer was not read")]
    Budget(Exceeded),
}

/// Sends a GET request and writes its phases into the report.
pub(super) fn send(asked: &PathMeasurement<'_>, report: &mut Report, _: &mut dyn FnMut(&Report)) {
    if !asked.plan.request || !speaks_http(asked.target) {
        return;
    }
    if report.connect.as_ref().is_some_and(|it| it.established == 0) {
        return report.skip("request", "no connection could be established");
    }
    let mut exchange = Exchange { asked, began: Instant::now(), phases: Phases::default() };
    if let Err(error) = exchange.run() {
        exchange.phases.error = Some(error.to_string());
    }
    exchange.phases.total_ns = nanoseconds(exchange.began.elapsed());
    report.packets_sent += 1;
    report.request = Some(exchange.phases);
}

struct Exchange<'a> {
    asked: &'a PathMeasurement<'a>,
    began: Instant,
    phases: Phases,
}

impl Exchange<'_> {
    fn versions(&self) -> HttpVersions {
        self.asked.plan.tls.versions.of_target(self.asked.target)
    }

    fn run(&mut self) -> Result<(), RequestError> {
        let (budget, wait) = (&self.asked.plan.budget, self.asked.plan.wait);
        let connect = || TcpStream::connect_timeout(&self.asked.address, wait);
        let mut stream = budget.connect(wait, connect).map_err(RequestError::Connect)?;
        self.phases.connect_ns = nanoseconds(self.began.elapsed());
        self.phases.tcpi_rtt_us =
            sys::tcp_info(stream.socket().as_fd()).ok().map(|it| it.tcpi_rtt_us);
        stream.socket().set_nodelay(true).map_err(RequestError::Connection)?;
        if self.asked.target.scheme != Scheme::Https {
            return self.speak(stream, None);
        }
        let tls = self.handshake(&mut stream)?;
        let chosen = tls.alpn_protocol().map(<[u8]>::to_vec);
        self.speak(rustls::StreamOwned::new(tls, stream), chosen.as_deref())
    }

    /// Sends the request in the version of HTTP that is chosen.
    fn speak(
        &mut self,
        stream: impl Connection,
        chosen: Option<&[u8]>,
    ) -> Result<(), RequestError> {
        let is_tls = self.asked.target.scheme == Scheme::Https;
        match self.versions().is_http2(is_tls, chosen) {
            Some(true) => {
                self.phases.http_version = Some("2");
                self.exchange_http2(stream)
            }
            Some(false) => {
                self.phases.http_version = Some("1.1");
                self.exchange(stream)
            }
            None => Err(Http2Error::Http1.into()),
        }
    }

    fn exchange_http2(&mut self, mut stream: impl Connection) -> Result<(), RequestError> {
        let prepared = Prepared::new(&Request::get(), self.asked.target)?;
        let mut session = Session::new(OwnWindows::default(), false)?;
        let began = Instant::now();
        self.asked.plan.budget.request().map_err(RequestError::Budget)?;
        session.send(&prepared, 0)?;
        let mut buffer = vec![0; 64 * 1024];
        let (mut sent, mut first, mut ended) = (None::<Instant>, None::<Instant>, None);
        while ended.is_none() {
            session.advance(|_, event| match event {
                Event::Begun => first = first.or_else(|| Some(Instant::now())),
                Event::Body(_) => {}
                Event::Answered(response) => ended = Some(Ok(*response)),
                Event::Failed(error) => ended = Some(Err(error)),
            });
            session
                .with_unsent(|bytes| stream.write_all(bytes).map(|()| bytes.len()))
                .and_then(|()| stream.flush())
                .map_err(RequestError::Connection)?;
            sent.get_or_insert_with(Instant::now);
            if ended.is_some() || session.has_unsent() {
                continue;
            }
            let left = self.left("no end of the answer")?;
            stream.set_timeout(left).map_err(RequestError::Connection)?;
            match stream.read(&mut buffer) {
                Ok(0) => session.close(),
                Ok(length) => {
                    self.phases.answer_bytes += length as u64;
                    session.receive(&buffer[..length]);
                }
                Err(error) if is_late(&error) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => session.close(),
                Err(error) => {
                    return Err(Exceeded::of(&error)
                        .map_or(RequestError::Connection(error), RequestError::Budget));
                }
            }
        }
        let sent = sent.unwrap_or(began);
        self.phases.sent_ns = Some(nanoseconds(sent - began));
        self.phases.first_byte_ns = first.map(|it| nanoseconds(it - sent));
        self.phases.rest_ns = first.map(|it| nanoseconds(it.elapsed()));
        match ended {
            Some(Ok(response)) => self.answered(response),
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
        Ok(())
    }

    /// Returns the remaining time to wait.
    fn left(&self, waited_for: &'static str) -> Result<Duration, RequestError> {
        let left = TIME_MAX.saturating_sub(self.began.elapsed());
        let late = RequestError::Late(waited_for, TIME_MAX.as_secs());
        if left.is_zero() { Err(late) } else { Ok(left) }
    }

    fn handshake(
        &mut self,
        stream: &mut Metered<TcpStream>,
    ) -> Result<ClientConnection, RequestError> {
        let config = client_config(&self.asked.plan.tls)?;
        let name = server_name(&self.asked.target.host)?;
        let failed = |error: rustls::Error| RequestError::Handshake(sentence(&error));
        let mut tls = ClientConnection::new(config, name).map_err(failed)?;
        let began = Instant::now();
        while tls.is_handshaking() {
            while tls.wants_write() {
                tls.write_tls(stream).map_err(RequestError::Connection)?;
            }
            if !tls.is_handshaking() {
                break;
            }
            let left = self.left("no end of the TLS handshake")?;
            stream.socket().set_read_timeout(Some(left)).map_err(RequestError::Connection)?;
            match tls.read_tls(stream) {
                Ok(0) => return Err(RequestError::HandshakeClosed),
                Ok(_) => {
                    let at_ns = nanoseconds(began.elapsed());
                    self.phases.tls_first_byte_ns.get_or_insert(at_ns);
                }
                Err(error) if is_late(&error) => {}
                Err(error) => return Err(RequestError::Connection(error)),
            }
            if let Err(error) = tls.process_new_packets() {
                // The alert that states the reason has not been sent yet.
                let _ = tls.write_tls(stream);
                return Err(failed(error));
            }
        }
        while tls.wants_write() {
            tls.write_tls(stream).map_err(RequestError::Connection)?;
        }
        self.phases.tls_ns = Some(nanoseconds(began.elapsed()));
        self.phases.tls_version = tls.protocol_version().map(|it| format!("{it:?}"));
        let cipher = tls.negotiated_cipher_suite().map(|it| format!("{:?}", it.suite()));
        self.phases.tls_cipher = cipher;
        Ok(tls)
    }

    fn exchange(&mut self, mut stream: impl Connection) -> Result<(), RequestError> {
        let mut request = Request::get();
        let handshake = Handshake::of(self.asked.target);
        if handshake.is_none() {
            request.headers.push(("Connection".into(), "close".into()));
        }
        let accept = handshake.as_ref().map(|it| it.accept(&request));
        let began = Instant::now();
        let bytes = request.bytes(self.asked.target, handshake.as_ref());
        self.asked.plan.budget.request().map_err(RequestError::Budget)?;
        stream.write_all(&bytes).and_then(|()| stream.flush()).map_err(RequestError::Connection)?;
        let sent = Instant::now();
        self.phases.sent_ns = Some(nanoseconds(sent - began));
        let mut reader = ResponseReader::new(false).accepting(accept);
        let mut buffer = vec![0; 64 * 1024];
        let mut first: Option<Instant> = None;
        let ended = loop {
            let waited_for =
                if first.is_some() { "no end of the answer" } else { "no answer to the request" };
            let left = self.left(waited_for);
            if first.is_some() && left.is_err() {
                break left.map(|_| None);
            }
            stream.set_timeout(left?).map_err(RequestError::Connection)?;
            let length = match stream.read(&mut buffer) {
                Ok(length) => length,
                Err(error) if is_late(&error) => continue,
                // The server closed without an alert of TLS: the received bytes show whether the
                // answer is complete.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
                Err(error) => {
                    break Err(Exceeded::of(&error)
                        .map_or(RequestError::Connection(error), RequestError::Budget));
                }
            };
            if length > 0 && first.is_none() {
                let now = Instant::now();
                self.phases.first_byte_ns = Some(nanoseconds(now - sent));
                first = Some(now);
            }
            self.phases.answer_bytes += length as u64;
            if length == 0 {
                break reader.close().map_err(Into::into);
            }
            match reader.push(&buffer[..length]) {
                Ok(Progress::Complete { response, .. }) => break Ok(Some(response)),
                Ok(Progress::Incomplete) => {}
                Err(error) => break Err(error.into()),
            }
        };
        self.phases.rest_ns = first.map(|first| nanoseconds(first.elapsed()));
        if let Some(response) = ended? {
            self.answered(response);
        }
        Ok(())
    }

    fn answered(&mut self, response: Response) {
        self.phases.status = Some(response.status);
        self.phases.health = response.health.map(|it| it.to_string());
        self.phases.location = response.location;
        self.phases.server = response.server;
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// A connection whose reads have a time limit.
trait Connection: Read + Write {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()>;
}

impl Connection for Metered<TcpStream> {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.socket().set_read_timeout(Some(timeout))
    }
}

impl Connection for rustls::StreamOwned<ClientConnection, Metered<TcpStream>> {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.sock.socket().set_read_timeout(Some(timeout))
    }
}
