//! The state of one connection. Times are ns since the load began.

use super::failure::{Failure, FailureKind};
use super::plan::Plan;
use super::stream::{Found, Stream};
use super::streams::Streams;
use crate::http::{Handshake, Progress, Response, ResponseError, ResponseReader, http2};

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The connection is closed, and is not opened before this time, ns.
    Closed(u64),
    /// The SYN was sent.
    Connecting,
    /// The TLS handshake is in progress.
    Handshaking,
    /// The connection is open and has no request.
    Idle,
    /// The connection has a request whose answer is not complete.
    Busy,
    /// The connection speaks HTTP/2 and is open, whatever its streams do.
    Streams,
}

pub(super) struct Connection {
    pub stream: Option<Stream>,
    /// The streams, if the connection speaks HTTP/2.
    pub streams: Option<Box<Streams>>,
    /// Bytes that came with the TLS handshake.
    pub early: Vec<u8>,
    pub phase: Phase,
    /// Time at which this phase began, ns.
    pub since_ns: u64,
    /// Time from which the latency of its request counts, ns; `None` if there is none, or if it is on
    /// a stream.
    pub asked_ns: Option<u64>,
    /// Time at which the connect began, ns.
    pub opened_ns: u64,
    /// Its request, if that is not the one of all connections.
    own_request: Option<Vec<u8>>,
    /// Number of bytes of the request that are written.
    pub written: usize,
    /// `true` once a byte of the answer has arrived.
    pub has_begun: bool,
    /// `true` once it has brought an answer.
    pub has_answered: bool,
    /// `true` if the peer has closed: the remaining bytes are read, and no further request is sent.
    pub is_ending: bool,
    /// Time before which the connection sends no request, ns.
    pub next_ns: u64,
    reader: ResponseReader,
}

/// The result of reading from a connection.
#[derive(Default)]
pub(super) struct Reading {
    /// `true` if this read received the first byte of the answer.
    pub first_byte: bool,
    /// The answer, if it is complete.
    pub answer: Option<Response>,
    /// `true` if there may be more to read.
    pub more: bool,
}

impl Connection {
    pub fn new(to_head: bool) -> Connection {
        Connection {
            stream: None,
            streams: None,
            early: Vec::new(),
            phase: Phase::Closed(0),
            since_ns: 0,
            asked_ns: None,
            opened_ns: 0,
            own_request: None,
            written: 0,
            has_begun: false,
            has_answered: false,
            is_ending: false,
            next_ns: 0,
            reader: ResponseReader::terse(to_head),
        }
    }

    /// Resets the connection and begins to connect with `stream` for requests to the target of `plan`.
    pub fn open(&mut self, stream: Stream, now_ns: u64, plan: &Plan) {
        let handshake = Handshake::of(&plan.target);
        let accept = handshake.as_ref().map(|it| it.accept(&plan.request));
        self.own_request = handshake.map(|it| plan.bytes(Some(&it)));
        self.reader = ResponseReader::terse(plan.request.method == "HEAD").accepting(accept);
        (self.stream, self.streams) = (Some(stream), None);
        self.early.clear();
        (self.opened_ns, self.written) = (now_ns, 0);
        (self.has_begun, self.has_answered, self.is_ending) = (false, false, false);
        self.enter(Phase::Connecting, now_ns);
    }

    /// Changes to `phase`.
    pub fn enter(&mut self, phase: Phase, now_ns: u64) {
        (self.phase, self.since_ns) = (phase, now_ns);
    }

    /// Returns whether a request is sent and not answered.
    pub fn is_asked(&self) -> bool {
        self.asked().next().is_some()
    }

    /// Returns the times from which the latencies of its unanswered requests count, ns.
    pub fn asked(&self) -> impl Iterator<Item = u64> {
        let on_streams = self.streams.iter().flat_map(|it| it.asked().map(|it| it.asked_ns));
        self.asked_ns.into_iter().chain(on_streams)
    }

    /// Returns whether a request can be sent at this time.
    pub fn has_room(&self, now_ns: u64) -> bool {
        self.next_ns <= now_ns
            && match self.phase {
                Phase::Idle => true,
                Phase::Streams => self.streams.as_ref().is_some_and(|it| it.has_room()),
                _ => false,
            }
    }

    /// Closes the connection, which may be opened again at `again_ns`.
    pub fn close(&mut self, again_ns: u64) {
        (self.stream, self.streams) = (None, None);
        self.phase = Phase::Closed(again_ns);
        self.asked_ns = None;
    }

    /// Returns whether the socket has connected; `false` while the SYN is unanswered.
    pub fn has_connected(&self) -> Result<bool, Failure> {
        let Some(stream) = &self.stream else { return Ok(false) };
        match stream.socket().take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => return Err(Failure::connect(&error)),
        }
        match stream.socket().peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(Failure::connect(&error)),
        }
    }

    /// Returns what is sent: its own request, or else that of all connections.
    pub fn request<'a>(&'a self, of_all: &'a [u8]) -> &'a [u8] {
        self.own_request.as_deref().unwrap_or(of_all)
    }

    /// Takes a request of this length from the budget.
    pub fn begin_request(&self, bytes: usize) -> Result<(), Failure> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let failed = |exceeded| Failure::io(FailureKind::Write, &std::io::Error::from(exceeded));
        stream.request(bytes).map_err(failed)
    }

    /// Writes the rest of the request, where `of_all` is that of all connections.
    pub fn write(&mut self, of_all: &[u8]) -> Result<(), Failure> {
        let failed = |error| Failure::io(FailureKind::Write, &error);
        let request = self.own_request.as_deref().unwrap_or(of_all);
        let Some(stream) = &mut self.stream else { return Ok(()) };
        if !stream.flush().map_err(failed)? {
            return Ok(());
        }
        while self.written < request.len() {
            match stream.write(&request[self.written..]).map_err(failed)? {
                0 => break,
                taken => self.written += taken,
            }
        }
        Ok(())
    }

    /// Continues the TLS handshake; returns whether it is complete.
    pub fn shake_hands(&mut self, buffer: &mut [u8]) -> Result<bool, Failure> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        stream.flush().map_err(|error| Failure::io(FailureKind::Tls, &error))?;
        loop {
            let early = &mut self.early;
            let found = stream.read(buffer, |bytes| {
                early.extend_from_slice(bytes);
                Ok(())
            });
            match found.map_err(|it| Failure { kind: of_handshake(it.kind), ..it })? {
                Found::More if !stream.is_handshaking() => return Ok(true),
                Found::More => {}
                Found::Drained => return Ok(!stream.is_handshaking()),
                Found::Closed => {
                    let words = "closed during the TLS handshake";
                    return Err(Failure::new(FailureKind::Tls, words));
                }
            }
        }
    }

    /// Reads once from the socket.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Reading, Failure> {
        let mut step = Reading::default();
        let Some(stream) = &mut self.stream else { return Ok(step) };
        let (reader, has_begun, is_busy) =
            (&mut self.reader, &mut self.has_begun, self.phase == Phase::Busy);
        let found = stream.read(buffer, |bytes| {
            if !is_busy && http2::begins(bytes) {
                return Err(ResponseError::Http2.into());
            }
            if !is_busy || step.answer.is_some() {
                return Err(unsolicited());
            }
            step.first_byte |= !std::mem::replace(has_begun, true);
            if let Progress::Complete { used, response } = reader.push(bytes)? {
                step.answer = Some(response);
                if used < bytes.len() {
                    return Err(unsolicited());
                }
            }
            Ok(())
        })?;
        match found {
            Found::More => step.more = true,
            // The peer closed right after the last bytes, so one event reports both.
            Found::Drained => step.more = self.is_ending,
            // An answer without a length is complete when the connection ends.
            Found::Closed => match self.reader.close()? {
                Some(response) => step.answer = Some(response),
                None => return Err(Failure::new(FailureKind::Read, "closed by the server")),
            },
        }
        Ok(step)
    }
}

fn unsolicited() -> Failure {
    Failure::new(FailureKind::BadResponse, "bytes came behind the end of the answer")
}

/// Failures before the end of the handshake count as TLS failures, except a lost connection.
fn of_handshake(kind: FailureKind) -> FailureKind {
    if kind == FailureKind::Read { kind } else { FailureKind::Tls }
}
