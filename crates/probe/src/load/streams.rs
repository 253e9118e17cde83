//! The streams of an HTTP/2 connection of a load. Times are ns since the load began.

use super::failure::{Failure, FailureKind};
use super::stream::{Found, Stream};
use crate::http::http2::{Event, Http2Error, OwnWindows, Prepared, Session};

/// A request on a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Time from which its latency counts, ns.
    pub asked_ns: u64,
    /// Time at which it was sent, ns.
    pub sent_ns: u64,
    /// `true` once its response has begun.
    pub has_begun: bool,
}

/// The streams of one connection.
pub(super) struct Streams {
    session: Session,
    /// The request of each stream that this client may open.
    asked: Vec<Option<Asked>>,
    /// Indices of the streams without a request.
    free: Vec<usize>,
    /// `true` if the connection takes no further request.
    pub is_ending: bool,
}

impl Streams {
    /// Begins HTTP/2 with at most `streams` requests at a time; `early` are bytes that came with the
    /// TLS handshake.
    pub fn new(streams: usize, early: &[u8]) -> Result<Streams, Failure> {
        let mut session = Session::new(OwnWindows::default(), true)?;
        session.receive(early);
        let free = (0..streams).rev().collect();
        Ok(Streams { session, asked: vec![None; streams], free, is_ending: false })
    }

    /// Returns whether a request can be sent.
    pub fn has_room(&self) -> bool {
        !self.is_ending && !self.free.is_empty()
    }

    /// Returns the requests without an answer.
    pub fn asked(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter().flatten()
    }

    /// Opens a stream with the request; it is sent by [`flush`](Self::flush). Returns `false` if it has
    /// to wait, because as many streams as the server allows are open.
    pub fn ask(&mut self, request: &Prepared, asked_ns: u64, now_ns: u64) -> Result<bool, Failure> {
        let Some(&key) = self.free.last() else { return Ok(false) };
        match self.session.send(request, key) {
            Ok(()) => {
                self.free.pop();
                self.asked[key] = Some(Asked { asked_ns, sent_ns: now_ns, has_begun: false });
                Ok(true)
            }
            Err(Http2Error::Busy) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Marks the response to a request as begun; returns the time from which its latency counts.
    pub fn begin(&mut self, key: usize) -> Option<u64> {
        let asked = self.asked.get_mut(key)?.as_mut()?;
        asked.has_begun = true;
        Some(asked.asked_ns)
    }

    /// Frees a stream whose exchange has ended; returns the time from which its latency counts.
    pub fn end(&mut self, key: usize) -> Option<u64> {
        let asked = self.asked.get_mut(key)?.take()?;
        self.free.push(key);
        Some(asked.asked_ns)
    }

    /// Resets the streams whose requests were sent before `before_ns` and are not answered.
    pub fn cancel(&mut self, before_ns: u64) -> Vec<Asked> {
        let mut late = Vec::new();
        for key in 0..self.asked.len() {
            if let Some(asked) = self.asked[key].filter(|it| it.sent_ns <= before_ns) {
                self.session.cancel(key);
                self.end(key);
                late.push(asked);
            }
        }
        late
    }

    /// Sends what is to be sent, as far as the socket takes it, and adds what becomes of the streams.
    pub fn flush(
        &mut self,
        stream: &mut Stream,
        events: &mut Vec<(usize, Event)>,
    ) -> Result<(), Failure> {
        let failed = |error| Failure::io(FailureKind::Write, &error);
        loop {
            self.session.advance(|key, event| {
                if !matches!(event, Event::Body(_)) {
                    events.push((key, event));
                }
            });
            self.is_ending = self.session.is_over();
            if !stream.flush().map_err(failed)? || !self.session.has_unsent() {
                return Ok(());
            }
            let mut is_blocked = false;
            self.session.with_unsent(|bytes| {
                let sent = stream.write(bytes).map_err(failed)?;
                is_blocked = sent < bytes.len();
                Ok::<_, Failure>(sent)
            })?;
            if is_blocked {
                return Ok(());
            }
        }
    }

    /// Reads once from the socket; returns whether there may be more to read.
    pub fn read(&mut self, stream: &mut Stream, buffer: &mut [u8]) -> Result<bool, Failure> {
        let session = &mut self.session;
        match stream.read(buffer, |bytes| {
            session.receive(bytes);
            Ok(())
        })? {
            Found::More => Ok(true),
            Found::Drained => Ok(false),
            Found::Closed => {
                self.session.close();
                Ok(false)
            }
        }
    }

    /// Returns whether the connection has ended.
    pub fn has_ended(&self) -> bool {
        self.session.connection_has_ended() || (self.is_ending && self.session.streams() == 0)
    }
}

impl From<Http2Error> for Failure {
    fn from(error: Http2Error) -> Failure {
        let kind = match error {
            Http2Error::Closed => FailureKind::Read,
            Http2Error::Http1 => FailureKind::HttpVersion,
            Http2Error::Protocol(_) => FailureKind::BadResponse,
            Http2Error::Busy | Http2Error::Request(_) => FailureKind::Write,
            Http2Error::Reset(_) | Http2Error::GoAway(_) => FailureKind::Stream,
        };
        Failure::new(kind, error)
    }
}
