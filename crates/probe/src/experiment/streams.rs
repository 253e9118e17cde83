//! Requests on the streams of an HTTP/2 connection, with a clock around each.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConnection;

use super::connection::{Connection, Timing};
use super::error::{ExchangeError, RequestStep, io_error};
use crate::budget::Metered;
use crate::http::http2::{Event, Http2Error, OwnWindows, Prepared, Session};
use crate::http::{Response, ResponseError};

/// Requests that were sent at the same time on one connection.
#[derive(Clone, Debug, Default)]
pub struct Together {
    /// The timing of each answered request, in the order in which they were sent.
    pub timings: Vec<Timing>,
    /// Time from the first request to the last byte of the last answer.
    pub lasted: Duration,
    /// The longest time within that in which no byte came for any stream, while the kernel received
    /// segments behind one that was missing.
    pub blocked: Duration,
    /// Number of streams without a complete answer during that time.
    pub blocked_streams: usize,
}

/// One request on a stream.
#[derive(Clone, Debug, Default)]
struct Stream {
    timing: Timing,
    /// Round trip of the path, ns.
    trip_ns: u64,
    last: Option<Instant>,
    come_bytes: u64,
    response: Option<Response>,
}

impl Stream {
    /// Notes bytes that came at `now` for a request that was sent at `sent`.
    fn come(&mut self, bytes: usize, sent: Instant, now: Instant) {
        let timing = &mut self.timing;
        match self.last {
            None => timing.wait_ns = nanos(now.saturating_duration_since(sent)),
            Some(before) => {
                let pause_ns = nanos(now - before);
                timing.pause(pause_ns, self.trip_ns, (self.come_bytes, bytes as u64));
            }
        }
        self.last = Some(now);
        self.come_bytes += bytes as u64;
    }
}

impl Connection<'_> {
    /// Begins HTTP/2 on the connection.
    pub(super) fn begin_session(&mut self, windows: OwnWindows) -> Result<(), ExchangeError> {
        let failed = |source| io_error(RequestStep::Send, Instant::now(), source);
        self.socket.socket().set_nonblocking(true).map_err(failed)?;
        let session = Session::new(windows, false).map_err(ExchangeError::Stream)?;
        self.session = Some(Box::new(session));
        Ok(())
    }

    /// Sends the request on a stream and reads its answer.
    pub(super) fn ask_stream(&mut self) -> Result<(Timing, Response), ExchangeError> {
        let (mut streams, _) = self.ask_streams(1)?;
        let Stream { timing, response, .. } = streams.pop().unwrap_or_default();
        let response = response.ok_or(ResponseError::Truncated)?;
        Ok((timing, response))
    }

    /// Sends the request on `count` streams at once.
    ///
    /// # Errors
    /// As for [`ask`](Self::ask); the connection has to speak HTTP/2.
    pub fn ask_together(&mut self, count: usize) -> Result<Together, ExchangeError> {
        let (streams, mut together) = self.ask_streams(count)?;
        together.timings = streams.into_iter().map(|it| it.timing).collect();
        Ok(together)
    }

    fn ask_streams(&mut self, count: usize) -> Result<(Vec<Stream>, Together), ExchangeError> {
        let prepared = Prepared::new(&self.subject.request, &self.subject.target)
            .map_err(ExchangeError::Stream)?;
        for _ in 0..count {
            self.socket.request(prepared.bytes()).map_err(ExchangeError::Budget)?;
        }
        self.subject.answers.begin();
        let stream = Stream { trip_ns: self.kernel().rtt_min_ns, ..Stream::default() };
        let (mut streams, mut together) = (vec![stream; count], Together::default());
        let (began, mut sent) = (Instant::now(), Instant::now());
        let until = began + self.subject.timeout;
        let (mut asked, mut open, mut last) = (0, count, None::<Instant>);
        let mut out_of_order = self.kernel().out_of_order;
        while open > 0 {
            let Some(session) = &mut self.session else { break };
            // Above the server's limit one more waits for its turn at most.
            while asked < count {
                match session.send(&prepared, asked) {
                    Ok(()) => asked += 1,
                    Err(Http2Error::Busy) => break,
                    Err(error) => return Err(of_stream(error, began)),
                }
            }
            let is_uploading = session.is_uploading();
            let events = self.turn(until).map_err(|source| {
                let step = if is_uploading { RequestStep::Send } else { RequestStep::Answer };
                io_error(step, began, source)
            })?;
            let now = Instant::now();
            let begun = last.is_some();
            if !begun {
                sent = if is_uploading { now } else { sent };
            }
            let (mut has_come, waiting) = (false, open);
            for (key, event) in events {
                let Some(stream) = streams.get_mut(key) else { continue };
                match event {
                    Event::Begun => stream.come(0, sent, now),
                    Event::Body(bytes) => stream.come(bytes, sent, now),
                    Event::Answered(response) => {
                        self.subject.answers.add(&response);
                        stream.timing.wire_bytes = response.wire_bytes;
                        stream.response = Some(*response);
                        open -= 1;
                    }
                    Event::Failed(error) => return Err(of_stream(error, began)),
                }
                has_come = true;
            }
            if has_come {
                let before = std::mem::replace(&mut out_of_order, self.kernel().out_of_order);
                let pause = now - last.unwrap_or(sent);
                if out_of_order > before && pause > together.blocked {
                    (together.blocked, together.blocked_streams) = (pause, waiting);
                }
                last = Some(now);
            }
        }
        for stream in &mut streams {
            stream.timing.send_ns = nanos(sent - began);
        }
        together.lasted = began.elapsed();
        Ok((streams, together))
    }

    /// Sends what is to be sent, waits until the socket is ready, and returns what became of the streams.
    fn turn(&mut self, until: Instant) -> io::Result<Vec<(usize, Event)>> {
        let mut events = Vec::new();
        let Some(session) = &mut self.session else { return Ok(events) };
        let mut on = |key, event| events.push((key, event));
        let is_blocked = !send(session, &mut self.socket, self.tls.as_mut(), &mut on)?;
        let has_come = self.tls.as_mut().is_some_and(|tls| {
            tls.process_new_packets().is_ok_and(|it| it.plaintext_bytes_to_read() > 0)
        });
        if events.is_empty() && !has_come {
            self.wait(until, is_blocked)?;
        }
        let Some(session) = &mut self.session else { return Ok(events) };
        let read = match read(&mut self.socket, self.tls.as_mut(), &mut self.buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            read => Some(read?),
        };
        match read {
            None => {}
            Some(0) => session.close(),
            Some(bytes) => session.receive(&self.buffer[..bytes]),
        }
        let mut on = |key, event| events.push((key, event));
        send(session, &mut self.socket, self.tls.as_mut(), &mut on)?;
        self.arm();
        Ok(events)
    }

    /// Waits until the socket can be read, or written if it is blocked.
    fn wait(&self, until: Instant, is_blocked: bool) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let write = if is_blocked { PollFlags::OUT } else { PollFlags::empty() };
        let socket = self.socket.socket().as_fd();
        let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::IN | write)];
        let left = Timespec::try_from(left).map_err(|_| ErrorKind::InvalidInput)?;
        match poll(&mut polled, Some(&left)) {
            Err(rustix::io::Errno::INTR) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Advances the session and sends what it has to send; returns `false` if the socket takes no more at
/// present.
fn send(
    session: &mut Session,
    socket: &mut Metered<TcpStream>,
    mut tls: Option<&mut ClientConnection>,
    on: &mut impl FnMut(usize, Event),
) -> io::Result<bool> {
    loop {
        // Where bytes were sent, there is room for more of a request body.
        session.advance(&mut *on);
        if let Some(tls) = &mut tls {
            while tls.wants_write() {
                match tls.write_tls(socket) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                    sent => sent?,
                };
            }
        }
        if !session.has_unsent() {
            return Ok(true);
        }
        let mut is_blocked = false;
        session.with_unsent(|bytes| match &mut tls {
            Some(tls) => tls.writer().write(bytes),
            None => match socket.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    is_blocked = true;
                    Ok(0)
                }
                sent => sent,
            },
        })?;
        if is_blocked {
            return Ok(false);
        }
    }
}

/// Reads once; returns 0 at the end of the connection.
fn read(
    socket: &mut Metered<TcpStream>,
    tls: Option<&mut ClientConnection>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let Some(tls) = tls else { return socket.read(buffer) };
    loop {
        match tls.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
            read => return read,
        }
        let came = tls.read_tls(socket)?;
        tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        if came == 0 {
            return Ok(0);
        }
    }
}

/// Returns the error of a request on a stream; that the connection ended is one of the system.
fn of_stream(error: Http2Error, began: Instant) -> ExchangeError {
    match error {
        Http2Error::Http1 => ExchangeError::OnlyHttp1,
        Http2Error::Closed => io_error(RequestStep::Answer, began, ErrorKind::UnexpectedEof.into()),
        error => ExchangeError::Stream(error),
    }
}

fn nanos(duration: Duration) -> u64 {
    crate::nanoseconds(duration)
}
