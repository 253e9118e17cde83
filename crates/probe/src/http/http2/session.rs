//! The client's side of one connection: streams with a request each, driven by whoever owns the socket.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};

use super::frames::{Code, HEADER_BYTES, Seen, WINDOW_BYTES};
use super::message::{Prepared, response};
use super::pipe::Pipe;
use crate::http::Response;
use crate::http::grpc::HealthReader;

/// Windows of this client for a stream and for the connection, bytes. What arrives is counted and
/// discarded at once, so they take no memory, and they hold no server back: 16 MiB in 80 ms are
/// 1.6 Gbit/s.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
/// Greatest size of a header section that this client accepts, bytes: as of HTTP/1.1.
const HEADER_LIST_BYTES_MAX: u32 = 64 << 10;
/// Greatest number of streams before the server has stated its limit, which the standard recommends to
/// be no smaller (RFC 9113 §6.5.2).
const STREAMS_BEFORE_SETTINGS: usize = 100;
/// Greatest number of interim responses to one request.
const INTERIM_MAX: u32 = 16;

/// The reason why a request on a stream has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Http2Error {
    /// The server reset the stream.
    #[error("the server reset the stream (RST_STREAM, {0})")]
    Reset(Code),
    /// The server ended the connection, and has not processed the request.
    #[error("the server ended the connection (GOAWAY, {0}) and did not process the request")]
    GoAway(Code),
    /// The server answered in HTTP/1.
    #[error("the server answers in HTTP/1 and does not speak HTTP/2 here; use --http1.1")]
    Http1,
    /// The server breaks the protocol, or a limit of this client.
    #[error("the answer is no HTTP/2 that can be read ({0}, RFC 9113 §7)")]
    Protocol(String),
    /// The connection was closed before the answer was complete.
    #[error("the connection was closed before the answer was complete")]
    Closed,
    /// As many streams as the server allows are open, and one more waits for its turn.
    #[error("as many streams as the server allows are open")]
    Busy,
    /// The request cannot be sent in HTTP/2.
    #[error("the request cannot be sent in HTTP/2: {0}")]
    Request(String),
}

/// The progress of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The header section of the response has arrived.
    Begun,
    /// Bytes of the body have arrived.
    Body(usize),
    /// The response is complete.
    Answered(Box<Response>),
    /// The stream has ended without one.
    Failed(Http2Error),
}

/// The windows that this client offers, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnWindows {
    /// Of each stream (`SETTINGS_INITIAL_WINDOW_SIZE`).
    pub stream: u32,
    /// Of the connection.
    pub connection: u32,
}

impl OwnWindows {
    /// The windows of a client that states none (RFC 9113 §6.9.2).
    pub const STANDARD: OwnWindows = OwnWindows { stream: WINDOW_BYTES, connection: WINDOW_BYTES };
}

impl Default for OwnWindows {
    fn default() -> OwnWindows {
        OwnWindows { stream: STREAM_WINDOW_BYTES, connection: CONNECTION_WINDOW_BYTES }
    }
}

/// The streams that can make progress, and whether the connection can.
#[derive(Debug, Default)]
struct Ready {
    connection: AtomicBool,
    streams: Mutex<Vec<usize>>,
}

impl Ready {
    fn streams(&self) -> MutexGuard<'_, Vec<usize>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.connection.store(true, Ordering::Relaxed);
    }
}

struct StreamWake {
    index: usize,
    is_queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for StreamWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::Relaxed) {
            self.ready.streams().push(self.index);
        }
    }
}

/// The part of a request body that the server's windows have not admitted yet.
struct Upload {
    stream: SendStream<Bytes>,
    left: Bytes,
}

/// The exchange on a stream.
struct Exchange {
    /// The number by which the caller knows it.
    key: usize,
    stream: u32,
    upload: Option<Upload>,
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    answer: Response,
    body_bytes: u64,
    interim: u32,
    /// Reads the answer to a health check of gRPC.
    health: Option<HealthReader>,
}

/// A place for an exchange, with what wakes it.
struct Slot {
    exchange: Option<Exchange>,
    wake: Arc<StreamWake>,
    waker: Waker,
}

/// One connection. The owner of its socket sends [`unsent`](Self::with_unsent) bytes, passes those that
/// arrive to [`receive`](Self::receive), and calls [`advance`](Self::advance) after both.
pub struct Session {
    pipe: Pipe,
    /// `None` once it has ended.
    connection: Option<Connection<Pipe, Bytes>>,
    sender: SendRequest<Bytes>,
    ready: Arc<Ready>,
    waker: Waker,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Leaves out what a load does not report, as `ResponseReader::terse` does.
    is_terse: bool,
    has_read_one: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Session").field("streams", &self.streams()).finish_non_exhaustive()
    }
}

impl Session {
    /// Begins a connection with the client's preface and settings, which wait to be sent.
    ///
    /// # Errors
    /// The library rejects the windows.
    pub fn new(windows: OwnWindows, is_terse: bool) -> Result<Session, Http2Error> {
        let pipe = Pipe::new();
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(windows.stream)
            .initial_connection_window_size(windows.connection)
            .initial_max_send_streams(STREAMS_BEFORE_SETTINGS)
            .max_header_list_size(HEADER_LIST_BYTES_MAX);
        let ready = Arc::new(Ready::default());
        let waker = Waker::from(ready.clone());
        // The pipe takes the preface at once.
        let begun = pin!(builder.handshake(pipe.clone())).poll(&mut Context::from_waker(&waker));
        let (sender, connection) = match begun {
            Poll::Ready(begun) => begun.map_err(|error| Http2Error::Protocol(error.to_string()))?,
            Poll::Pending => return Err(Http2Error::Protocol("the preface waits".to_owned())),
        };
        let (slots, free, connection) = (Vec::new(), Vec::new(), Some(connection));
        let has_read_one = false;
        let mut it =
            Session { pipe, connection, sender, ready, waker, slots, free, is_terse, has_read_one };
        it.advance(|_, _| ());
        Ok(it)
    }

    /// Opens a stream with a request; its events name `key`. A stream above the server's limit waits
    /// until another one ends.
    ///
    /// # Errors
    /// The connection has ended, [`Http2Error::Busy`], or the request is not valid.
    pub fn send(&mut self, request: &Prepared, key: usize) -> Result<(), Http2Error> {
        let waker = self.waker.clone();
        let mut context = Context::from_waker(&waker);
        match self.sender.poll_ready(&mut context) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Err(self.error(&error)),
            Poll::Pending => return Err(Http2Error::Busy),
        }
        let head = request.head();
        let has_body = !request.body.is_empty();
        let sent = self.sender.send_request(head, !has_body);
        let (response, stream) = sent.map_err(|error| self.error(&error))?;
        let upload = has_body.then(|| {
            let mut stream = stream;
            stream.reserve_capacity(request.body.len());
            Upload { stream, left: request.body.clone() }
        });
        let exchange = Exchange {
            key,
            stream: response.stream_id().as_u32(),
            upload,
            response: Some(response),
            body: None,
            answer: Response::default(),
            body_bytes: 0,
            interim: 0,
            health: request.is_health_check.then(HealthReader::default),
        };
        let index = self.free.pop().unwrap_or_else(|| self.add_slot());
        self.slots[index].exchange = Some(exchange);
        self.slots[index].wake.wake_by_ref();
        Ok(())
    }

    fn add_slot(&mut self) -> usize {
        let (index, ready) = (self.slots.len(), self.ready.clone());
        let wake = Arc::new(StreamWake { index, is_queued: AtomicBool::new(false), ready });
        let waker = Waker::from(wake.clone());
        self.slots.push(Slot { exchange: None, wake, waker });
        index
    }

    /// Adds bytes that were received.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.pipe.bytes().receive(bytes);
    }

    /// Notes that the server has closed the connection.
    pub fn close(&mut self) {
        self.pipe.bytes().end();
    }

    /// Calls `send` with the bytes that are to be sent, which returns how many were.
    ///
    /// # Errors
    /// That of `send`.
    pub fn with_unsent<E>(
        &mut self,
        send: impl FnOnce(&[u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let mut bytes = self.pipe.bytes();
        if !bytes.unsent().is_empty() {
            let sent = send(bytes.unsent())?;
            bytes.sent(sent);
        }
        Ok(())
    }

    /// Resets the stream with this key, whose answer is no longer wanted.
    pub fn cancel(&mut self, key: usize) {
        let is_own = |it: &Slot| it.exchange.as_ref().is_some_and(|exchange| exchange.key == key);
        if let Some(index) = self.slots.iter().position(is_own) {
            // The library sends RST_STREAM for a stream that nobody holds.
            self.slots[index].exchange = None;
            self.free.push(index);
        }
    }

    /// Returns whether bytes are to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.pipe.bytes().unsent().is_empty()
    }

    /// Has the library read what has come, and write into the place of what was sent.
    fn drive(&mut self) {
        let waker = self.waker.clone();
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(&mut Context::from_waker(&waker)).is_ready()
        {
            // Each stream gets the error of the connection as its own.
            self.connection = None;
        }
    }

    /// Returns whether a request body is not sent to its end.
    pub fn is_uploading(&self) -> bool {
        self.has_unsent()
            || self
                .slots
                .iter()
                .any(|it| it.exchange.as_ref().is_some_and(|exchange| exchange.upload.is_some()))
    }

    /// Returns what the frames of the connection have shown so far.
    pub fn seen(&self) -> Seen {
        self.pipe.bytes().observer.seen.clone()
    }

    /// Returns the number of streams without a complete answer.
    pub fn streams(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether the connection takes no further request.
    pub fn is_over(&self) -> bool {
        self.connection.is_none() || self.pipe.bytes().observer.seen.go_away.is_some()
    }

    /// Returns whether the connection has ended, and no stream makes progress any more.
    pub fn connection_has_ended(&self) -> bool {
        self.connection.is_none()
    }

    /// Works off what was received, and calls `on` with the key and the progress of each stream that has
    /// made some.
    pub fn advance(&mut self, mut on: impl FnMut(usize, Event)) {
        loop {
            self.ready.connection.store(false, Ordering::Relaxed);
            self.drive();
            let streams = std::mem::take(&mut *self.ready.streams());
            for &index in &streams {
                self.slots[index].wake.is_queued.store(false, Ordering::Relaxed);
                self.step(index, &mut on);
            }
            let is_readable = || self.connection.is_some() && self.pipe.bytes().is_readable();
            let again = self.ready.connection.load(Ordering::Relaxed) && self.connection.is_some();
            if !again && self.ready.streams().is_empty() && (streams.is_empty() || !is_readable()) {
                return;
            }
        }
    }

    /// Advances one exchange.
    fn step(&mut self, index: usize, on: &mut impl FnMut(usize, Event)) {
        let slot = &mut self.slots[index];
        let Some(mut exchange) = slot.exchange.take() else { return };
        let mut context = Context::from_waker(&slot.waker);
        match exchange.poll(&mut context, self.is_terse && self.has_read_one, on) {
            Poll::Pending => slot.exchange = Some(exchange),
            Poll::Ready(ended) => {
                self.free.push(index);
                let event = match ended {
                    Ok(()) => {
                        self.has_read_one = true;
                        Event::Answered(Box::new(self.finish(&mut exchange)))
                    }
                    Err(error) => Event::Failed(self.error(&error)),
                };
                on(exchange.key, event);
            }
        }
    }

    fn finish(&self, exchange: &mut Exchange) -> Response {
        let mut bytes = self.pipe.bytes();
        let header_bytes = bytes.observer.take_header_bytes(exchange.stream);
        let keep_alive = self.connection.is_some() && bytes.observer.seen.go_away.is_none();
        let wire_bytes = exchange.body_bytes + header_bytes;
        let health = exchange.health.as_ref().filter(|_| exchange.answer.status == 200);
        let health = health.map(HealthReader::health);
        Response { wire_bytes, keep_alive, health, ..std::mem::take(&mut exchange.answer) }
    }

    fn error(&self, error: &h2::Error) -> Http2Error {
        let bytes = self.pipe.bytes();
        let seen = &bytes.observer.seen;
        if seen.is_http1 {
            return Http2Error::Http1;
        }
        match error.reason().map(|it| Code(it.into())) {
            Some(code) if error.is_reset() && error.is_remote() => Http2Error::Reset(code),
            Some(code) if error.is_go_away() && error.is_remote() => Http2Error::GoAway(code),
            Some(code) => Http2Error::Protocol(code.to_string()),
            None if error.is_io() => match seen.go_away {
                Some(go_away) => Http2Error::GoAway(go_away.code),
                None => Http2Error::Closed,
            },
            None => Http2Error::Request(error.to_string()),
        }
    }
}

impl Exchange {
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        is_terse: bool,
        on: &mut impl FnMut(usize, Event),
    ) -> Poll<Result<(), h2::Error>> {
        if let Poll::Ready(Err(_)) = self.upload(context) {
            // The response states the reason.
            self.upload = None;
        }
        if let Some(future) = &mut self.response {
            while let Poll::Ready(Some(interim)) = future.poll_informational(context) {
                interim?;
                self.interim += 1;
                if self.interim > INTERIM_MAX {
                    return Poll::Ready(Err(h2::Reason::ENHANCE_YOUR_CALM.into()));
                }
            }
            let Poll::Ready(head) = Pin::new(future).poll(context) else { return Poll::Pending };
            let (head, body) = head?.into_parts();
            self.answer = response(&head, is_terse);
            if let Some(health) = &mut self.health {
                health.fields(&head.headers);
            }
            (self.response, self.body) = (None, Some(body));
            on(self.key, Event::Begun);
        }
        let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
        while !body.is_end_stream() {
            match body.poll_data(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => break,
                Poll::Ready(Some(piece)) => {
                    let piece = piece?;
                    let length = piece.len();
                    if let Some(health) = &mut self.health {
                        health.body(&piece);
                    }
                    // The whole frame has taken window; its padding is released by the library.
                    body.flow_control().release_capacity(length)?;
                    self.body_bytes += (length + HEADER_BYTES) as u64;
                    on(self.key, Event::Body(length));
                }
            }
        }
        if body.is_end_stream() {
            return Poll::Ready(Ok(()));
        }
        // Trailers end the stream; only those of gRPC are part of what is reported.
        let Poll::Ready(trailers) = body.poll_trailers(context) else { return Poll::Pending };
        if let (Some(health), Some(trailers)) = (&mut self.health, trailers?) {
            health.fields(&trailers);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends as much of the body as the windows admit.
    fn upload(&mut self, context: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        while let Some(Upload { stream, left }) = &mut self.upload {
            match stream.poll_capacity(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => self.upload = None,
                Poll::Ready(Some(room)) => {
                    let piece = left.split_to(room?.min(left.len()));
                    let ends = left.is_empty();
                    stream.send_data(piece, ends)?;
                    if ends {
                        self.upload = None;
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
