//! The streams of the HTTP/2 connections of a [`Worker`].

use super::super::connection::Phase;
use super::super::failure::{Failure, FailureKind};
use super::super::streams::Streams;
use super::events::AGAIN_NS;
use super::{StreamEvent, Worker};
use crate::http::Response;
use crate::http::http2::{Code, Http2Error};

/// Greatest number of consecutive reads of a connection, after which other connections are read.
const READS_MAX: usize = 16;

impl Worker<'_> {
    /// Begins HTTP/1.1 or HTTP/2 on a connection that is open.
    pub(super) fn speak(&mut self, index: usize, now_ns: u64) {
        let versions = self.plan().tls.versions;
        let connection = &mut self.connections[index];
        let is_http2 = match &connection.stream {
            Some(stream) => versions.is_http2(stream.is_tls(), stream.protocol()),
            None => Some(false),
        };
        match is_http2 {
            Some(true) => {}
            Some(false) if connection.early.is_empty() => return self.ready(index, now_ns),
            Some(false) => {
                let words = "bytes came before the request";
                return self.fail(index, &Failure::new(FailureKind::BadResponse, words));
            }
            None => return self.fail(index, &Http2Error::Http1.into()),
        }
        // In an open loop and with a connection for each request, more streams would idle.
        let count = if self.plan().new_connections { 1 } else { self.plan().streams };
        let early = std::mem::take(&mut self.connections[index].early);
        match Streams::new(count, &early) {
            Ok(streams) => {
                let connection = &mut self.connections[index];
                connection.streams = Some(Box::new(streams));
                connection.enter(Phase::Streams, now_ns);
                self.unsent.push(index);
                self.open_for_streams(index, count, now_ns);
            }
            Err(failure) => self.fail(index, &failure),
        }
    }

    /// Sends the request for which the connection was opened, and offers its streams for others.
    fn open_for_streams(&mut self, index: usize, count: usize, now_ns: u64) {
        self.has_opened();
        let is_asked = self.connections[index].asked_ns.is_some();
        if is_asked {
            self.send_on_stream(index, now_ns);
        }
        self.idle.extend(std::iter::repeat_n(index, count - usize::from(is_asked)));
    }

    /// Opens a stream for the request that is assigned to the connection.
    pub(super) fn send_on_stream(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        let (Some(asked_ns), Some(prepared)) =
            (connection.asked_ns.take(), self.shared.prepared.as_ref())
        else {
            return;
        };
        if let Err(failure) = connection.begin_request(prepared.bytes()) {
            connection.asked_ns = Some(asked_ns);
            self.outcome.sent = self.outcome.sent.saturating_sub(1);
            return self.fail(index, &failure);
        }
        let Some(streams) = &mut connection.streams else { return };
        match streams.ask(prepared, asked_ns, now_ns) {
            Ok(true) => self.unsent.push(index),
            Ok(false) => self.returned.push_back(asked_ns),
            // The connection has ended, and its end is read soon.
            Err(_) if streams.is_ending => self.returned.push_back(asked_ns),
            Err(failure) => {
                connection.asked_ns = Some(asked_ns);
                self.fail(index, &failure);
            }
        }
    }

    /// Sends what the streams of all connections have to send.
    pub(super) fn flush_streams(&mut self) {
        while let Some(index) = self.unsent.pop() {
            self.flush(index);
        }
    }

    fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let (Some(stream), Some(streams)) = (&mut connection.stream, &mut connection.streams)
        else {
            return;
        };
        match streams.flush(stream, &mut self.ended) {
            Ok(()) => self.record_streams(index),
            Err(failure) => self.fail(index, &failure),
        }
    }

    pub(super) fn read_streams(&mut self, index: usize) {
        for _ in 0..READS_MAX {
            let connection = &mut self.connections[index];
            let (Some(stream), Some(streams)) = (&mut connection.stream, &mut connection.streams)
            else {
                return;
            };
            let is_ending = connection.is_ending;
            let read = streams.read(stream, &mut self.buffer);
            let flushed = read.and_then(|more| {
                streams.flush(stream, &mut self.ended).map(|()| more || is_ending)
            });
            match flushed {
                Err(failure) => return self.fail(index, &failure),
                Ok(more) => {
                    self.record_streams(index);
                    if !more {
                        return;
                    }
                }
            }
        }
        self.again.push(index);
    }

    /// Records what became of the streams of a connection, and closes it if it has ended.
    fn record_streams(&mut self, index: usize) {
        let mut ended = std::mem::take(&mut self.ended);
        let now_ns = if ended.is_empty() { 0 } else { self.now_ns() };
        for (key, event) in ended.drain(..) {
            let Some(streams) = &mut self.connections[index].streams else { break };
            match event {
                StreamEvent::Begun => {
                    let asked_ns = streams.begin(key).filter(|it| *it >= self.count_ns);
                    if let Some(asked_ns) = asked_ns {
                        self.outcome.first_byte.record(now_ns - asked_ns);
                    }
                }
                StreamEvent::Body(_) => {}
                StreamEvent::Answered(response) => {
                    let asked_ns = streams.end(key);
                    self.connections[index].has_answered = true;
                    self.answered_on_stream(index, asked_ns, &response, now_ns);
                }
                StreamEvent::Failed(error) => {
                    let Some(asked_ns) = streams.end(key) else { continue };
                    let has_answered = self.connections[index].has_answered;
                    match error {
                        // The server has not processed it, and clients send it again (RFC 9113 §8.7).
                        Http2Error::GoAway(Code(0)) if has_answered => {
                            self.returned.push_back(asked_ns);
                        }
                        error => {
                            let failure = error.into();
                            self.count_failure(&failure, asked_ns, now_ns);
                            if !has_answered
                                && self.ended_without_answer(asked_ns, &failure, now_ns)
                            {
                                self.connections[index].next_ns = now_ns + AGAIN_NS;
                            }
                        }
                    }
                    self.idle.push_back(index);
                }
            }
        }
        self.ended = ended;
        let connection = &self.connections[index];
        if connection.streams.as_ref().is_some_and(|it| it.has_ended()) {
            let again_ns = connection.next_ns.max(self.now_ns());
            self.connections[index].close(again_ns);
            self.released(index);
        }
    }

    fn answered_on_stream(
        &mut self,
        index: usize,
        asked_ns: Option<u64>,
        response: &Response,
        now_ns: u64,
    ) {
        self.record(asked_ns, response, now_ns);
        if self.plan().new_connections {
            self.connections[index].close(now_ns);
            return self.released(index);
        }
        let is_first = self.idle.is_empty() && self.returned.is_empty() && self.schedule.is_none();
        let has_room = self.connections[index].has_room(now_ns);
        if is_first && has_room && !self.is_over(now_ns) && self.start_ns.is_some() {
            return self.ask(index, None, now_ns);
        }
        self.idle.push_back(index);
    }

    /// Resets the streams whose requests were sent before `before_ns` and are not answered.
    pub(super) fn cancel_late(&mut self, index: usize, before_ns: u64, now_ns: u64) {
        let Some(streams) = &mut self.connections[index].streams else { return };
        for asked in streams.cancel(before_ns) {
            let words = match asked.has_begun {
                true => "the answer began and did not end within the timeout",
                false => "no answer within the timeout",
            };
            let failure = Failure::new(FailureKind::Timeout, words);
            self.count_failure(&failure, asked.asked_ns, now_ns);
            self.idle.push_back(index);
            self.unsent.push(index);
        }
    }
}
