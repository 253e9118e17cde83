//! A single connection with blocking calls whose durations are measured: the waits of a request, as
//! its client sees them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{AlertDescription, ClientConfig, ClientConnection, HandshakeKind};
use socket2::{Domain, Protocol, Socket, Type};
use tcpwhy_core::experiment::Sending;

use crate::budget::{Budget, Metered};
use crate::http::http2::{self, OwnWindows, Seen, Session};
use crate::http::{
    Answers, Handshake, HttpVersions, Progress, Request, Response, ResponseError, ResponseReader,
};
use crate::target::{Scheme, Target};
use crate::tls::{sentence, server_name};

use super::error::{ExchangeError, RequestStep, io_error};

/// Greatest number of bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// Time for which curl waits for `100 Continue` before it sends the body.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// Options of a connection, and the way in which requests are written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Sets `TCP_QUICKACK` again after every read, since the kernel disables it by itself.
    pub quickack: bool,
    /// Sets `TCP_NODELAY`.
    pub nodelay: bool,
    /// Writes the header and the body of a request separately.
    pub two_writes: bool,
    /// `SO_RCVBUF`, bytes; with `None` the kernel sizes the buffer.
    pub rcvbuf_bytes: Option<usize>,
    /// `TCP_MAXSEG`, bytes; `None` for the size that the path allows.
    pub mss_bytes: Option<u32>,
    /// The windows of HTTP/2.
    pub windows: OwnWindows,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            quickack: false,
            nodelay: true,
            two_writes: false,
            rcvbuf_bytes: None,
            mss_bytes: None,
            windows: OwnWindows::default(),
        }
    }
}

/// The server and the request of an experiment.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The target as the user named it.
    pub target: Target,
    /// Address of the server.
    pub server: SocketAddr,
    /// The request.
    pub request: Request,
    /// The TLS configuration; `None` for plain HTTP.
    pub tls: Option<Arc<ClientConfig>>,
    /// The versions of HTTP, which the TLS configuration offers.
    pub versions: HttpVersions,
    /// Longest time of a connection set-up, and of each request.
    pub timeout: Duration,
    /// The budget of all requests to the server.
    pub budget: Budget,
    /// The count of all answers of the server.
    pub answers: Answers,
    /// Status of the usual answer: one of another class (RFC 9110 §15) is an error. `None` if any
    /// answer is accepted.
    pub usual_status: Option<u16>,
}

/// The durations in one request, ns, by a monotonic clock in user space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Duration of writing the request.
    pub send_ns: u64,
    /// Time from then to the first byte of the answer.
    pub wait_ns: u64,
    /// Time from the first byte to the last one.
    pub receive_ns: u64,
    /// The longest pause between two reads of the answer.
    pub pause_ns: u64,
    /// Bytes of the answer that had arrived before that pause.
    pub before_pause_bytes: u64,
    /// Bytes of the first read after that pause.
    pub after_pause_bytes: u64,
    /// The pauses between two reads of the answer that were longer than a round trip, less one round
    /// trip each, summed up.
    pub beyond_trips_ns: u64,
    /// Bytes of the answer on the wire, without TLS.
    pub wire_bytes: u64,
}

impl Timing {
    /// Adds the time between two reads of the answer, on a path with this round trip; so many bytes
    /// had come before it, and came after it at once.
    pub(super) fn pause(&mut self, ns: u64, trip_ns: u64, (before, after): (u64, u64)) {
        self.receive_ns += ns;
        self.beyond_trips_ns += ns.saturating_sub(trip_ns);
        if ns > self.pause_ns {
            (self.pause_ns, self.before_pause_bytes, self.after_pause_bytes) = (ns, before, after);
        }
    }

    /// Returns the time from the begin of the request to the end of the answer, ns.
    pub fn latency_ns(&self) -> u64 {
        self.send_ns + self.wait_ns + self.receive_ns
    }
}

/// The kernel's values for a connection at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Least round trip, ns; 0 if the kernel has measured none.
    pub rtt_min_ns: u64,
    /// Number of retransmitted segments.
    pub repeated: u64,
    /// Number of segments that arrived out of order.
    pub out_of_order: u64,
    /// Time for which the peer's window held data back, ns.
    pub rwnd_limited_ns: u64,
    /// Segment size towards the peer, bytes.
    pub mss_bytes: u64,
    /// The window offered to the peer, bytes; 0 if the kernel does not say it.
    pub rcv_wnd_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

/// An open connection.
pub struct Connection<'a> {
    pub(super) subject: &'a Subject,
    settings: Settings,
    pub(super) socket: Metered<TcpStream>,
    pub(super) tls: Option<ClientConnection>,
    reader: ResponseReader,
    /// The handshake of a WebSocket, if it is asked for.
    handshake: Option<Handshake>,
    /// The streams, if the connection speaks HTTP/2.
    pub(super) session: Option<Box<Session>>,
    pub(super) buffer: Vec<u8>,
    /// Time until `connect` returned, ns.
    pub connect_ns: u64,
    /// Duration of the TLS handshake, ns.
    pub tls_ns: u64,
    /// Time from the begin of the handshake to the server's first bytes, ns.
    pub tls_first_byte_ns: u64,
    /// Bytes that the server sent in the TLS handshake.
    pub tls_bytes: u64,
}

impl<'a> Connection<'a> {
    /// Connects, with TLS if the subject uses it.
    ///
    /// # Errors
    /// The connection is refused, no answer arrives in time, or TLS fails.
    pub fn open(subject: &'a Subject, settings: Settings) -> Result<Connection<'a>, ExchangeError> {
        let mut began = Instant::now();
        let opened = subject.budget.connect(subject.timeout, || {
            began = Instant::now();
            connect(subject, settings)
        });
        let socket = opened.map_err(|source| io_error(RequestStep::Connect, began, source))?;
        let connect_ns = nanos(began);
        let handshake = Handshake::of(&subject.target);
        let accept = handshake.as_ref().map(|it| it.accept(&subject.request));
        let mut it = Connection {
            subject,
            settings,
            socket,
            tls: None,
            reader: ResponseReader::new(subject.request.method == "HEAD").accepting(accept),
            handshake,
            session: None,
            buffer: vec![0; READ_BYTES],
            connect_ns,
            tls_ns: 0,
            tls_first_byte_ns: 0,
            tls_bytes: 0,
        };
        if let Some(config) = &subject.tls {
            it.shake(config)?;
        }
        let chosen = it.tls.as_ref().and_then(|tls| tls.alpn_protocol());
        match subject.versions.is_http2(it.tls.is_some(), chosen) {
            Some(true) if subject.target.scheme != Scheme::Tcp => {
                it.begin_session(settings.windows)?;
            }
            None => return Err(ExchangeError::OnlyHttp1),
            Some(_) => {}
        }
        Ok(it)
    }

    /// Returns what the frames of the connection have shown, if it speaks HTTP/2.
    pub fn seen(&self) -> Option<Seen> {
        self.session.as_ref().map(|it| it.seen())
    }

    /// Returns the local address.
    pub fn local(&self) -> Option<SocketAddr> {
        self.socket.socket().local_addr().ok()
    }

    /// Returns whether TLS resumed a session of an earlier connection (RFC 8446 §2.2).
    pub fn is_resumed(&self) -> bool {
        let kind = self.tls.as_ref().and_then(|it| it.handshake_kind());
        kind == Some(HandshakeKind::Resumed)
    }

    /// Sends the request and reads its answer.
    ///
    /// # Errors
    /// The connection breaks, the time is up, or the received bytes are no answer.
    pub fn ask(&mut self) -> Result<(Timing, Response), ExchangeError> {
        let (timing, response) =
            if self.session.is_some() { self.ask_stream()? } else { self.ask_http1()? };
        match self.subject.usual_status {
            Some(usual) if usual / 100 != response.status / 100 => {
                Err(ExchangeError::Status(response.status))
            }
            _ => Ok((timing, response)),
        }
    }

    fn ask_http1(&mut self) -> Result<(Timing, Response), ExchangeError> {
        let bytes = self.subject.request.bytes(&self.subject.target, self.handshake.as_ref());
        let body_bytes = self.subject.request.body.len();
        self.socket.request(bytes.len()).map_err(ExchangeError::Budget)?;
        self.subject.answers.begin();
        let began = Instant::now();
        let (head, body) = match self.settings.two_writes {
            true => bytes.split_at(bytes.len() - body_bytes),
            false => (&bytes[..], &[][..]),
        };
        for piece in [head, body].into_iter().filter(|it| !it.is_empty()) {
            self.write(piece).map_err(|source| io_error(RequestStep::Send, began, source))?;
        }
        let mut timing = Timing { send_ns: nanos(began), ..Timing::default() };
        let response = self.answer(&mut timing)?;
        timing.wire_bytes = response.wire_bytes;
        Ok((timing, response))
    }

    /// Sends the request as [`ask`](Self::ask) does, and observes the own socket if it has a body.
    ///
    /// # Errors As for [`ask`](Self::ask).
    pub fn ask_watching(&mut self) -> Result<(Timing, Response, Sending), ExchangeError> {
        #[cfg(target_os = "linux")]
        if !self.subject.request.body.is_empty()
            && let Ok(socket) = self.socket.socket().try_clone()
        {
            let (asked, sending) = super::window::watched(&socket, || self.ask());
            return asked.map(|(timing, response)| (timing, response, sending));
        }
        self.ask().map(|(timing, response)| (timing, response, Sending::default()))
    }

    /// Sends the request with `Expect: 100-continue`: the body is sent when the server asks for it,
    /// or after a second without a reply, as curl does.
    ///
    /// # Errors As for [`ask`](Self::ask).
    pub fn ask_expecting(&mut self) -> Result<Timing, ExchangeError> {
        let bytes = self.subject.request.bytes(&self.subject.target, self.handshake.as_ref());
        let (head, body) = bytes.split_at(bytes.len() - self.subject.request.body.len());
        self.socket.request(bytes.len()).map_err(ExchangeError::Budget)?;
        self.subject.answers.begin();
        let began = Instant::now();
        self.write(head).map_err(|source| io_error(RequestStep::Send, began, source))?;
        match self.read(CONTINUE_WAIT) {
            // An interim answer does not end the exchange; after a final one the body is not sent.
            Ok(read @ 1..) => {
                if let Progress::Complete { .. } = self.reader.push(&self.buffer[..read])? {
                    return Ok(Timing { send_ns: nanos(began), ..Timing::default() });
                }
            }
            Ok(_) => return Err(ResponseError::Truncated.into()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(source) => return Err(io_error(RequestStep::Answer, began, source)),
        }
        self.write(body).map_err(|source| io_error(RequestStep::Send, began, source))?;
        let mut timing = Timing { send_ns: nanos(began), ..Timing::default() };
        timing.wire_bytes = self.answer(&mut timing)?.wire_bytes;
        Ok(timing)
    }

    /// Returns whether the server answers the preface of HTTP/2 with its own.
    pub fn speaks_http2(&mut self) -> bool {
        if self.write(http2::PREFACE).is_err() {
            return false;
        }
        match self.read(self.subject.timeout) {
            Ok(read) => http2::begins(&self.buffer[..read]),
            Err(_) => false,
        }
    }

    /// Reads up to the end of an answer.
    fn answer(&mut self, timing: &mut Timing) -> Result<Response, ExchangeError> {
        let began = Instant::now();
        let trip_ns = self.kernel().rtt_min_ns;
        let mut last: Option<Instant> = None;
        let mut come_bytes = 0_u64;
        loop {
            let left = self.subject.timeout.saturating_sub(began.elapsed());
            let read =
                self.read(left).map_err(|source| io_error(RequestStep::Answer, began, source))?;
            let now = Instant::now();
            match last {
                None => timing.wait_ns = (now - began).as_nanos() as u64,
                Some(before) => {
                    let pause_ns = (now - before).as_nanos() as u64;
                    timing.pause(pause_ns, trip_ns, (come_bytes, read as u64));
                }
            }
            last = Some(now);
            come_bytes += read as u64;
            if read == 0 && come_bytes == 0 {
                let source = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Err(io_error(RequestStep::Answer, began, source));
            }
            if read == 0 {
                let response = self.reader.close()?.ok_or(ResponseError::Truncated)?;
                self.subject.answers.add(&response);
                return Ok(response);
            }
            if let Progress::Complete { response, .. } = self.reader.push(&self.buffer[..read])? {
                self.subject.answers.add(&response);
                return Ok(response);
            }
        }
    }

    /// Returns whether bytes pass without TLS and frames, so that the end of the connection shows
    /// between answers.
    pub fn is_plain(&self) -> bool {
        self.tls.is_none() && self.session.is_none()
    }

    /// Returns whether the server ends the plain connection within this time, while nothing is asked; without
    /// a time, whether it has ended.
    pub fn ends_within(&self, time: Option<Duration>) -> bool {
        let socket = self.socket.socket();
        if !self.is_plain() {
            return false;
        }
        let set = match time {
            Some(time) => socket.set_read_timeout(Some(time)),
            None => socket.set_nonblocking(true),
        };
        if set.is_err() {
            return false;
        }
        let came = socket.peek(&mut [0]);
        // If that fails, so does the next request, which has the reason.
        let _ = socket.set_nonblocking(false);
        match came {
            Ok(bytes) => bytes == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    /// Returns the kernel's values for the connection.
    pub fn kernel(&self) -> Kernel {
        kernel_of(self.socket.socket())
    }

    /// Returns the socket again, for another thread that looks at its state.
    ///
    /// # Errors
    /// The system gives no further descriptor.
    pub fn watched(&self) -> Result<TcpStream, ExchangeError> {
        let again = self.socket.socket().try_clone();
        again.map_err(|source| io_error(RequestStep::Connect, Instant::now(), source))
    }

    fn shake(&mut self, config: &Arc<ClientConfig>) -> Result<(), ExchangeError> {
        let began = Instant::now();
        let failed = |source| io_error(RequestStep::Tls, began, source);
        let words = |error: &rustls::Error| ExchangeError::Tls(sentence(error));
        let name = server_name(&self.subject.target.host)
            .map_err(|error| ExchangeError::Tls(error.to_string()))?;
        let mut tls = ClientConnection::new(config.clone(), name).map_err(|error| words(&error))?;
        while tls.is_handshaking() || tls.wants_write() {
            let left = self.subject.timeout.saturating_sub(began.elapsed());
            self.wait_at_most(left).map_err(failed)?;
            if tls.wants_write() {
                tls.write_tls(&mut self.socket).map_err(failed)?;
                continue;
            }
            let came = tls.read_tls(&mut self.socket).map_err(failed)?;
            self.tls_bytes += came as u64;
            if came == 0 {
                let why = "the server closes the connection before it is over; is it a TLS port?";
                return Err(ExchangeError::Tls(why.to_owned()));
            }
            if self.tls_first_byte_ns == 0 {
                self.tls_first_byte_ns = nanos(began);
            }
            if let Err(error) = tls.process_new_packets() {
                // The alert that states the reason has not been sent yet.
                let _ = tls.write_tls(&mut self.socket);
                let lacks_protocol =
                    error == rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol);
                return Err(match self.subject.versions {
                    HttpVersions::Http2 if lacks_protocol => ExchangeError::OnlyHttp1,
                    _ => words(&error),
                });
            }
            self.arm();
        }
        self.tls_ns = nanos(began);
        self.tls = Some(tls);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return self.socket.write_all(bytes) };
        tls.writer().write_all(bytes)?;
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Reads bytes of the answer into the buffer; returns 0 at its end.
    fn read(&mut self, left: Duration) -> io::Result<usize> {
        self.wait_at_most(left)?;
        let Some(tls) = &mut self.tls else {
            let read = self.socket.read(&mut self.buffer);
            self.arm();
            return read;
        };
        loop {
            match tls.reader().read(&mut self.buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // A peer that closes without `close_notify` ends a response that has no other end.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            let came = tls.read_tls(&mut self.socket)?;
            tls.process_new_packets()
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            arm(self.socket.socket(), self.settings);
            if came == 0 {
                return Ok(0);
            }
        }
    }

    fn wait_at_most(&self, left: Duration) -> io::Result<()> {
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.socket.socket().set_read_timeout(Some(left))?;
        self.socket.socket().set_write_timeout(Some(left))
    }

    pub(super) fn arm(&self) {
        arm(self.socket.socket(), self.settings);
    }
}

/// Returns the kernel's values for a socket.
#[cfg(target_os = "linux")]
pub fn kernel_of(socket: &TcpStream) -> Kernel {
    let Ok(info) = tcpwhy_live::sys::tcp_info(socket.as_fd()) else {
        return Kernel::default();
    };
    Kernel {
        rtt_min_ns: info.tcpi_min_rtt_us.saturating_mul(1_000),
        repeated: info.tcpi_total_retrans,
        out_of_order: info.tcpi_rcv_ooopack,
        rwnd_limited_ns: info.tcpi_rwnd_limited_us.saturating_mul(1_000),
        mss_bytes: info.tcpi_snd_mss_bytes,
        rcv_wnd_bytes: info.tcpi_rcv_wnd_bytes.unwrap_or(0),
        received_bytes: info.tcpi_bytes_received,
    }
}

/// Returns zeros, because only Linux has these values.
#[cfg(not(target_os = "linux"))]
pub fn kernel_of(_: &TcpStream) -> Kernel {
    Kernel::default()
}

/// Sets the option for quick ACKs again: the kernel leaves that mode by itself (tcp(7)).
fn arm(socket: &TcpStream, settings: Settings) {
    #[cfg(target_os = "linux")]
    if settings.quickack {
        // An error is ignored: a closed connection has nothing to acknowledge.
        let _ = socket2::SockRef::from(socket).set_tcp_quickack(true);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (socket, settings);
}

fn connect(subject: &Subject, settings: Settings) -> io::Result<TcpStream> {
    let domain = Domain::for_address(subject.server);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(settings.nodelay)?;
    // The options are set before `connect`, because the SYN states window scale and MSS.
    if let Some(bytes) = settings.rcvbuf_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    #[cfg(target_os = "linux")]
    if let Some(bytes) = settings.mss_bytes {
        socket.set_tcp_mss(bytes)?;
    }
    socket.connect_timeout(&subject.server.into(), subject.timeout)?;
    let socket = socket.into();
    arm(&socket, settings);
    Ok(socket)
}

fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
