//! Handles the events of the connections of a [`Worker`]: they open, receive bytes, end and fail.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::event::Event;
use mio::{Interest, Token};
use rustls::ClientConnection;

use super::super::connection::{Connection, Phase};
use super::super::failure::{Failure, FailureKind};
use super::super::guard::End;
use super::super::stream::Stream;
use super::{ALARM, TICK, Worker};
use crate::http::{Limited, Response};

/// Time after which a connection that could not be opened, or that brought no answer, is tried again,
/// ns.
pub(super) const AGAIN_NS: u64 = 100_000_000;
/// Greatest number of consecutive reads of a connection, after which other connections are read.
const READS_MAX: usize = 16;

impl Worker<'_> {
    fn address(&self) -> SocketAddr {
        let index = self.shared.address.load(Ordering::Relaxed);
        self.plan().addresses[index.min(self.plan().addresses.len() - 1)]
    }

    pub(super) fn open(&mut self, index: usize, now_ns: u64) {
        match self.stream(index) {
            Ok(stream) => {
                let plan = self.shared.plan;
                self.connections[index].open(stream, now_ns, plan);
            }
            Err(failure) => self.fail(index, &failure),
        }
    }

    fn stream(&self, index: usize) -> Result<Stream, Failure> {
        let tls = match &self.shared.tls {
            None => None,
            Some((config, name)) => Some(
                ClientConnection::new(config.clone(), name.clone())
                    .map_err(|error| Failure::new(FailureKind::Tls, error))?,
            ),
        };
        let opened =
            Stream::connect(self.address(), tls, &self.plan().budget).and_then(|mut stream| {
                let interest = Interest::READABLE | Interest::WRITABLE;
                self.poll.registry().register(stream.socket_mut(), Token(index), interest)?;
                Ok(stream)
            });
        opened.map_err(|error| Failure::connect(&error))
    }

    pub(super) fn event(&mut self, event: &Event) {
        let Token(index) = event.token();
        if event.token() == ALARM || index >= self.connections.len() {
            return;
        }
        if self.connections[index].phase == Phase::Connecting {
            match self.connections[index].has_connected() {
                Ok(true) => self.connected(index),
                Ok(false) => return,
                Err(failure) => return self.fail(index, &failure),
            }
        }
        let is_busy = |it: &Self| it.connections[index].phase == Phase::Busy;
        if event.is_writable() && self.connections[index].phase == Phase::Streams {
            self.unsent.push(index);
        }
        if event.is_writable() && is_busy(self) {
            let request = &self.shared.request;
            if let Err(failure) = self.connections[index].write(request) {
                return self.fail(index, &failure);
            }
        }
        self.connections[index].is_ending |= event.is_read_closed();
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.readable(index);
        }
    }

    fn connected(&mut self, index: usize) {
        let now_ns = self.now_ns();
        let connection = &mut self.connections[index];
        let opened_ns = connection.opened_ns;
        if opened_ns >= self.count_ns || self.shared.plan.warmup.is_zero() {
            self.outcome.connect.record(now_ns - opened_ns);
        }
        if connection.stream.as_ref().is_some_and(Stream::is_tls) {
            connection.enter(Phase::Handshaking, now_ns);
            self.shake_hands(index);
        } else {
            self.speak(index, now_ns);
        }
    }

    fn shake_hands(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        match connection.shake_hands(&mut self.buffer) {
            Err(failure) => self.fail(index, &failure),
            Ok(false) => {}
            Ok(true) => {
                let now_ns = self.now_ns();
                let connection = &self.connections[index];
                if connection.opened_ns >= self.count_ns || self.plan().warmup.is_zero() {
                    self.outcome.tls.record(now_ns - connection.since_ns);
                    let is_resumed = connection.stream.as_ref().is_some_and(Stream::is_resumed);
                    self.outcome.tls_resumed += u64::from(is_resumed);
                }
                // There may be more behind the handshake.
                self.again.push(index);
                self.speak(index, now_ns);
            }
        }
    }

    /// Sends the request for which the connection was opened, or waits for one, now that it is
    /// open.
    pub(super) fn ready(&mut self, index: usize, now_ns: u64) {
        self.has_opened();
        if self.connections[index].asked_ns.is_some() {
            return self.send(index, now_ns);
        }
        self.connections[index].enter(Phase::Idle, now_ns);
        self.idle.push_back(index);
    }

    /// Notes that a connection could be opened.
    pub(super) fn has_opened(&mut self) {
        self.shared.has_connected.store(true, Ordering::Relaxed);
        self.failures_in_row = 0;
    }

    pub(super) fn readable(&mut self, index: usize) {
        for _ in 0..READS_MAX {
            let connection = &mut self.connections[index];
            match connection.phase {
                Phase::Closed(_) | Phase::Connecting => return,
                Phase::Handshaking => return self.shake_hands(index),
                Phase::Streams => return self.read_streams(index),
                Phase::Idle | Phase::Busy => {}
            }
            let asked_ns = connection.asked_ns;
            let step = match connection.read(&mut self.buffer) {
                Ok(step) => step,
                Err(failure) => return self.fail(index, &failure),
            };
            if step.first_byte || step.answer.is_some() {
                let now_ns = self.now_ns();
                if let Some(asked_ns) =
                    asked_ns.filter(|it| step.first_byte && *it >= self.count_ns)
                {
                    self.outcome.first_byte.record(now_ns - asked_ns);
                }
                if let Some(response) = step.answer {
                    return self.answered(index, &response, now_ns);
                }
            }
            if !step.more {
                return;
            }
        }
        self.again.push(index);
    }

    /// Records the answer to a request; the connection sends the next one at once.
    fn answered(&mut self, index: usize, response: &Response, now_ns: u64) {
        self.connections[index].has_answered = true;
        let asked_ns = self.connections[index].asked_ns.take();
        self.record(asked_ns, response, now_ns);
        let is_ending = self.connections[index].is_ending || !response.keep_alive;
        if self.plan().new_connections || is_ending {
            self.connections[index].close(now_ns);
            return self.released(index);
        }
        let is_due = self.connections[index].next_ns <= now_ns;
        let is_first = self.idle.is_empty() && self.schedule.is_none() && is_due;
        if is_first && !self.is_over(now_ns) && self.start_ns.is_some() {
            return self.ask(index, None, now_ns);
        }
        self.connections[index].enter(Phase::Idle, now_ns);
        self.idle.push_back(index);
    }

    /// Records the answer to a request whose latency counts from `asked_ns`.
    pub(super) fn record(&mut self, asked_ns: Option<u64>, response: &Response, now_ns: u64) {
        self.fruitless.answered();
        if !self.shared.has_answered.load(Ordering::Relaxed) {
            self.shared.has_answered.store(true, Ordering::Relaxed);
        }
        if let Some(asked_ns) = asked_ns.filter(|it| *it >= self.count_ns) {
            let at_ns = now_ns - self.count_ns;
            self.note_standstill(asked_ns, now_ns);
            self.last_answer_ns = now_ns;
            let latency_ns = now_ns - asked_ns;
            self.outcome.answer(latency_ns, response, at_ns);
            let before = self.shared.answered.fetch_add(1, Ordering::Relaxed);
            if self.plan().heeds_limits
                && let Some(limited) = Limited::of(response, before, Duration::from_nanos(at_ns))
            {
                self.end(End::Limit(limited));
            }
            self.judge(response, latency_ns, at_ns);
            if self.outcome.server.is_none() {
                self.outcome.server.clone_from(&response.server);
            }
            if self.outcome.location.is_none() && (300..400).contains(&response.status) {
                self.outcome.location.clone_from(&response.location);
            }
        }
    }

    /// Counts an answer whose status is a failure, and ends the load as its guard says.
    fn judge(&mut self, response: &Response, latency_ns: u64, at_ns: u64) {
        let (guard, status) = (self.plan().guard, response.status);
        if let Some(failure) = Failure::status(status)
            && !guard.is_some_and(|it| it.is_usual(status))
        {
            self.outcome.fail(&failure, at_ns);
        }
        if let Some(failure) = response.health.and_then(Failure::health) {
            self.outcome.fail(&failure, at_ns);
        }
        let Some(guard) = guard else { return };
        if !guard.is_usual(status) {
            self.end(End::Status(status));
        }
        if let Some(slow_ns) = guard.slow_ns
            && self.latest.add(latency_ns > slow_ns)
        {
            self.end(End::Slow { slow_ns });
        }
    }

    /// Ends the load if most of its connections wait too long for their answers.
    fn judge_waiting(&self, now_ns: u64) {
        let Some(slow_ns) = self.plan().guard.and_then(|it| it.slow_ns) else { return };
        let waits_ns = |it: &&Connection| now_ns.saturating_sub(it.asked_ns.unwrap_or(now_ns));
        // One check may fall into a stall, of this host or of the server.
        let bound_ns = slow_ns.saturating_add(TICK.as_nanos() as u64);
        let late = self.connections.iter().filter(|it| waits_ns(it) > bound_ns).count();
        if 2 * late > self.connections.len() {
            self.end(End::Slow { slow_ns });
        }
    }

    /// Has a closed connection opened: by its next request, or before that.
    pub(super) fn released(&mut self, index: usize) {
        if self.plan().new_connections {
            self.idle.push_back(index);
        } else {
            self.closed.push(index);
        }
    }

    pub(super) fn fail(&mut self, index: usize, failure: &Failure) {
        let now_ns = self.now_ns();
        let connection = &mut self.connections[index];
        let (phase, asked_ns) = (connection.phase, connection.asked_ns);
        let on_streams: Vec<u64> = match &connection.streams {
            Some(streams) => streams.asked().map(|it| it.asked_ns).collect(),
            None => Vec::new(),
        };
        if let Some(exceeded) = failure.exceeded {
            connection.close(now_ns);
            self.end(End::Budget(exceeded));
            return;
        }
        let before_open =
            matches!(phase, Phase::Closed(_) | Phase::Connecting | Phase::Handshaking);
        let (opened_ns, has_answered) = (connection.opened_ns, connection.has_answered);
        connection.close(now_ns);
        let pauses = if before_open || has_answered {
            before_open
        } else {
            self.ended_without_answer(opened_ns, failure, now_ns)
        };
        let again_ns = if pauses { now_ns + AGAIN_NS } else { now_ns };
        self.connections[index].close(again_ns);
        if before_open {
            self.failures_in_row += 1;
            if self.tries_another_address() {
                self.connections[index].asked_ns = asked_ns;
                return self.open(index, now_ns);
            }
        }
        self.released(index);
        on_streams.into_iter().for_each(|asked_ns| self.count_failure(failure, asked_ns, now_ns));
        // A server may close a connection on which it has no request.
        match asked_ns {
            Some(asked_ns) => self.count_failure(failure, asked_ns, now_ns),
            None if before_open && now_ns >= self.count_ns => self.note_failure(failure, now_ns),
            None => {}
        }
    }

    /// Notes that a connection or a stream, begun at `begun_ns`, has ended without an answer, and ends
    /// the load if no other one has hope. Returns whether the next one is to be tried after a pause.
    pub(super) fn ended_without_answer(
        &mut self,
        begun_ns: u64,
        failure: &Failure,
        now_ns: u64,
    ) -> bool {
        let pauses = self.fruitless.add(begun_ns, now_ns);
        // A request that waits for longer than this one did may be answered, if slowly. In an open loop a
        // connection may reach the idle timeout of the server before its first request.
        let is_early = self.schedule.is_some() && self.outcome.sent == 0;
        if self.shared.has_answered.load(Ordering::Relaxed)
            || self.has_no_hope
            || is_early
            || !self.fruitless.is_hopeless()
            || self.connections.iter().flat_map(Connection::asked).any(|it| it < begun_ns)
        {
            return pauses;
        }
        self.has_no_hope = true;
        if self.outcome.errors.is_empty() {
            // The connections ended before a request could be sent.
            self.note_failure(failure, now_ns.max(self.count_ns));
        }
        if self.shared.hopeless.fetch_add(1, Ordering::Relaxed) + 1 == self.threads as usize {
            self.end(End::Unanswered(failure.words.clone()));
        }
        pauses
    }

    /// Counts the failure of a request whose latency counts from `asked_ns`.
    pub(super) fn count_failure(&mut self, failure: &Failure, asked_ns: u64, now_ns: u64) {
        if asked_ns >= self.count_ns {
            self.outcome.latency.give_up(now_ns.saturating_sub(asked_ns));
            self.note_failure(failure, now_ns);
        }
    }

    fn note_failure(&mut self, failure: &Failure, now_ns: u64) {
        self.outcome.fail(failure, now_ns - self.count_ns);
        if self.plan().guard.is_some() {
            self.end(End::Failure(failure.words.clone()));
        }
        self.shared.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether another address is tried, because none has accepted a connection yet.
    fn tries_another_address(&self) -> bool {
        if self.shared.has_connected.load(Ordering::Relaxed) {
            return false;
        }
        let tried = self.failures_in_row.div_ceil(self.connections.len().max(1) as u64);
        let next = usize::try_from(tried).unwrap_or(usize::MAX);
        if next >= self.plan().addresses.len() {
            return false;
        }
        self.shared.address.fetch_max(next, Ordering::Relaxed);
        true
    }

    /// Ends requests and connections that have reached a timeout.
    pub(super) fn sweep(&mut self, now_ns: u64) {
        self.judge_waiting(now_ns);
        let timeout_ns = self.plan().timeout.as_nanos() as u64;
        for index in 0..self.connections.len() {
            if self.connections[index].phase == Phase::Streams {
                self.cancel_late(index, now_ns.saturating_sub(timeout_ns), now_ns);
                continue;
            }
            let connection = &self.connections[index];
            let (phase, waited_ns) = (connection.phase, now_ns.saturating_sub(connection.since_ns));
            if waited_ns < timeout_ns {
                continue;
            }
            let failure = match phase {
                Phase::Closed(_) | Phase::Idle | Phase::Streams => continue,
                Phase::Connecting => Failure::new(
                    FailureKind::ConnectTimeout,
                    "no answer to the SYN within the timeout",
                ),
                Phase::Handshaking => {
                    Failure::new(FailureKind::Tls, "no TLS handshake within the timeout")
                }
                Phase::Busy if connection.has_begun => Failure::new(
                    FailureKind::Timeout,
                    "the answer began and did not end within the timeout",
                ),
                Phase::Busy => Failure::new(FailureKind::Timeout, "no answer within the timeout"),
            };
            self.fail(index, &failure);
        }
    }
}
