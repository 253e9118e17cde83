//! The event loop of one thread. Sockets are watched edge-triggered and registered once, so that a request
//! on an open connection takes one write, one read, and its part of a wait (epoll(7)).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::alarm::Alarm;
use super::connection::{Connection, Phase};
use super::failure::{Failure, FailureKind};
use super::outcome::Outcome;
use super::plan::{Pace, Plan, PlanError};
use super::schedule::Schedule;
use super::stream::Stream;
use crate::http::Response;

/// Bytes read at once.
const BUFFER_BYTES: usize = 64 << 10;
/// The event of the [`Alarm`].
const ALARM: Token = Token(usize::MAX);
/// How often timeouts and the end are looked for.
const TICK: Duration = Duration::from_millis(50);
/// A connection that could not be opened is tried again after this time, ns.
const AGAIN_NS: u64 = 100_000_000;
/// Where nothing ever connected, a thread ends after so many tries of each connection.
const TRIES: u64 = 3;
/// A connection is read at most so often before the others have their turn.
const READS_MAX: usize = 16;

/// What the threads of a load share.
pub(super) struct Shared<'a> {
    pub plan: &'a Plan,
    pub request: Vec<u8>,
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    pub stop: &'a AtomicBool,
    /// The address in use, an index.
    pub address: AtomicUsize,
    /// Whether any connection was ever open.
    pub has_connected: AtomicBool,
    /// Requests answered and failures, for progress.
    pub answered: AtomicU64,
    pub failed: AtomicU64,
    pub began: Instant,
}

/// One thread's part of a load.
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    poll: Poll,
    alarm: Alarm,
    connections: Vec<Connection>,
    /// Connections without a request, longest idle first.
    idle: VecDeque<usize>,
    /// Connections that have more to read.
    again: Vec<usize>,
    buffer: Vec<u8>,
    /// Open loop.
    schedule: Option<Schedule>,
    /// This thread's share of the load.
    index: u64,
    threads: u64,
    /// Requests that may still be begun.
    left: u64,
    /// When requests began to be sent, when they begin to count, and when none is sent any more, ns.
    start_ns: Option<u64>,
    count_ns: u64,
    end_ns: u64,
    failures_in_row: u64,
    /// When timeouts were looked for last.
    swept_ns: u64,
    last_answer_ns: u64,
    outcome: Outcome,
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared<'a>, index: usize, threads: usize) -> Result<Self, PlanError> {
        let poll = Poll::new().map_err(PlanError::Loop)?;
        let alarm = Alarm::new(poll.registry(), ALARM).map_err(PlanError::Loop)?;
        let part = |all: u64| {
            let (index, threads) = (index as u64, threads as u64);
            all / threads + u64::from(index < all % threads)
        };
        let to_head = shared.plan.request.method == "HEAD";
        let own = part(shared.plan.connections as u64);
        Ok(Worker {
            shared,
            poll,
            alarm,
            connections: (0..own).map(|_| Connection::new(to_head)).collect(),
            idle: VecDeque::new(),
            again: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            schedule: None,
            index: index as u64,
            threads: threads as u64,
            left: shared.plan.requests.map_or(u64::MAX, part),
            start_ns: None,
            count_ns: 0,
            end_ns: u64::MAX,
            failures_in_row: 0,
            swept_ns: 0,
            last_answer_ns: 0,
            outcome: Outcome::default(),
        })
    }

    fn now_ns(&self) -> u64 {
        self.shared.began.elapsed().as_nanos() as u64
    }

    fn plan(&self) -> &'a Plan {
        self.shared.plan
    }

    /// Works until the end of the plan.
    pub fn run(mut self) -> Result<Outcome, PlanError> {
        let mut events = Events::with_capacity(1024);
        if self.plan().new_connections {
            self.idle.extend(0..self.connections.len());
        }
        loop {
            let now_ns = self.now_ns();
            self.begin(now_ns);
            if self.shared.stop.load(Ordering::Relaxed) {
                self.outcome.interrupted = true;
                break;
            }
            if self.has_given_up() || (self.is_over(now_ns) && !self.drains(now_ns)) {
                break;
            }
            let wait = self.dispatch(now_ns);
            let wait = if self.again.is_empty() { wait } else { Duration::ZERO };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                    return Err(PlanError::Loop(error));
                }
                _ => {}
            }
            for event in &events {
                self.event(event);
            }
            for index in std::mem::take(&mut self.again) {
                self.readable(index);
            }
            let now_ns = self.now_ns();
            if now_ns.saturating_sub(self.swept_ns) >= TICK.as_nanos() as u64 {
                self.swept_ns = now_ns;
                self.sweep(now_ns);
            }
        }
        Ok(self.finish())
    }

    /// Opens connections that are to be open, and begins to send once each was tried: connecting is no part
    /// of a request's latency, unless each request has its own connection.
    fn begin(&mut self, now_ns: u64) {
        let plan = self.plan();
        if !plan.new_connections && !self.is_over(now_ns) {
            for index in 0..self.connections.len() {
                if matches!(self.connections[index].phase, Phase::Closed(at_ns) if at_ns <= now_ns)
                {
                    self.open(index, now_ns);
                }
            }
        }
        if self.start_ns.is_some() {
            return;
        }
        let is_open = |it: &Connection| matches!(it.phase, Phase::Idle | Phase::Closed(_));
        let waited = now_ns > plan.timeout.as_nanos().min(1_000_000_000) as u64;
        if plan.pace == Pace::Closed || waited || self.connections.iter().all(is_open) {
            self.start_ns = Some(now_ns);
            self.count_ns = now_ns + plan.warmup.as_nanos() as u64;
            let duration = plan.duration.map(|it| (plan.warmup + it).as_nanos() as u64);
            self.end_ns = duration.map_or(u64::MAX, |it| now_ns.saturating_add(it));
            if let Pace::PerSecond(rate) = plan.pace {
                let (end_ns, all) = (duration.unwrap_or(u64::MAX), plan.requests);
                self.schedule = Some(Schedule::new(rate, self.index, self.threads, end_ns, all));
            }
        }
    }

    /// Whether no request is begun any more.
    fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.end_ns || self.left == 0
    }

    /// Whether answers are waited for although no request is begun any more: those of an open loop would have
    /// been waited for by its users, and those of a number of requests were asked for.
    fn drains(&self, now_ns: u64) -> bool {
        let plan = self.plan();
        let waits = plan.pace != Pace::Closed || plan.requests.is_some();
        let timeout_ns = plan.timeout.as_nanos() as u64;
        waits
            && now_ns < self.end_ns.saturating_add(timeout_ns)
            && self.connections.iter().any(|it| it.asked_ns.is_some())
    }

    fn has_given_up(&self) -> bool {
        let tries = TRIES + self.plan().addresses.len() as u64;
        self.failures_in_row >= tries * self.connections.len() as u64
            && !self.shared.has_connected.load(Ordering::Relaxed)
    }

    /// Sends what is due; answers how long the loop may wait.
    fn dispatch(&mut self, now_ns: u64) -> Duration {
        let Some(start_ns) = self.start_ns else { return TICK };
        let timeout_ns = self.plan().timeout.as_nanos() as u64;
        if self.schedule.is_none() {
            while !self.is_over(now_ns)
                && let Some(index) = self.next_idle(now_ns)
            {
                self.ask(index, None, now_ns);
            }
            return TICK;
        }
        while !self.is_over(now_ns)
            && let Some(schedule) = &mut self.schedule
            && let Some(planned_ns) = schedule.next_ns().map(|it| start_ns + it)
        {
            if planned_ns > now_ns {
                return self.alarm.set(Duration::from_nanos(planned_ns - now_ns), TICK);
            }
            // What waited longer than its answer may take is given up: this bounds what waits.
            if now_ns - planned_ns > timeout_ns {
                schedule.advance();
                self.left -= 1;
                self.outcome.planned += u64::from(planned_ns >= self.count_ns);
                continue;
            }
            let Some(index) = self.next_idle(now_ns) else { return TICK };
            if let Some(schedule) = &mut self.schedule {
                schedule.advance();
            }
            self.outcome.planned += u64::from(planned_ns >= self.count_ns);
            self.ask(index, Some(planned_ns), now_ns);
        }
        TICK
    }

    /// The connection whose turn it is to take a request.
    fn next_idle(&mut self, now_ns: u64) -> Option<usize> {
        for _ in 0..self.idle.len() {
            let index = self.idle.pop_front()?;
            match self.connections[index].phase {
                Phase::Idle => return Some(index),
                // One that could not be opened rests for a while.
                Phase::Closed(at_ns) if self.plan().new_connections => {
                    if at_ns <= now_ns {
                        return Some(index);
                    }
                    self.idle.push_back(index);
                }
                _ => {}
            }
        }
        None
    }

    /// Gives a connection its request.
    fn ask(&mut self, index: usize, planned_ns: Option<u64>, now_ns: u64) {
        self.left -= 1;
        let asked_ns = planned_ns.unwrap_or(now_ns);
        if asked_ns >= self.count_ns {
            self.outcome.sent += 1;
        }
        self.connections[index].asked_ns = Some(asked_ns);
        if self.plan().new_connections {
            self.open(index, now_ns);
        } else {
            self.send(index, now_ns);
        }
    }

    fn send(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        (connection.written, connection.has_begun) = (0, false);
        connection.enter(Phase::Busy, now_ns);
        if let Err(failure) = connection.write(&self.shared.request) {
            self.fail(index, &failure);
        }
    }

    fn address(&self) -> SocketAddr {
        let index = self.shared.address.load(Ordering::Relaxed);
        self.plan().addresses[index.min(self.plan().addresses.len() - 1)]
    }

    fn open(&mut self, index: usize, now_ns: u64) {
        match self.stream(index) {
            Ok(stream) => {
                let to_head = self.plan().request.method == "HEAD";
                self.connections[index].open(stream, now_ns, to_head);
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
        let opened = Stream::connect(self.address(), tls).and_then(|mut stream| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream.socket, Token(index), interest)?;
            Ok(stream)
        });
        opened.map_err(|error| Failure::connect(&error))
    }

    fn event(&mut self, event: &Event) {
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
        self.shared.has_connected.store(true, Ordering::Relaxed);
        self.failures_in_row = 0;
        let connection = &mut self.connections[index];
        let opened_ns = connection.opened_ns;
        if opened_ns >= self.count_ns || self.shared.plan.warmup.is_zero() {
            self.outcome.connect.record(now_ns - opened_ns);
        }
        if connection.stream.as_ref().is_some_and(Stream::is_tls) {
            connection.enter(Phase::Handshaking, now_ns);
            self.shake_hands(index);
        } else {
            self.ready(index, now_ns);
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
                self.ready(index, now_ns);
            }
        }
    }

    /// The connection is open: it sends the request that it was opened for, or waits for one.
    fn ready(&mut self, index: usize, now_ns: u64) {
        if self.connections[index].asked_ns.is_some() {
            return self.send(index, now_ns);
        }
        self.connections[index].enter(Phase::Idle, now_ns);
        self.idle.push_back(index);
    }

    fn readable(&mut self, index: usize) {
        for _ in 0..READS_MAX {
            let connection = &mut self.connections[index];
            match connection.phase {
                Phase::Closed(_) | Phase::Connecting => return,
                Phase::Handshaking => return self.shake_hands(index),
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

    /// A request has its answer; the connection takes the next one at once.
    fn answered(&mut self, index: usize, response: &Response, now_ns: u64) {
        let connection = &mut self.connections[index];
        if let Some(asked_ns) = connection.asked_ns.take().filter(|it| *it >= self.count_ns) {
            let at_ns = now_ns - self.count_ns;
            self.last_answer_ns = now_ns;
            let latency_ns = now_ns - asked_ns;
            self.outcome.answer(latency_ns, response.status, response.wire_bytes, at_ns);
            self.shared.answered.fetch_add(1, Ordering::Relaxed);
            if let Some(failure) = Failure::status(response.status) {
                self.outcome.fail(&failure, at_ns);
            }
            if self.outcome.server.is_none() {
                self.outcome.server.clone_from(&response.server);
            }
            if self.outcome.location.is_none() && (300..400).contains(&response.status) {
                self.outcome.location.clone_from(&response.location);
            }
        }
        let is_ending = self.connections[index].is_ending || !response.keep_alive;
        if self.plan().new_connections || is_ending {
            self.connections[index].close(now_ns);
            if self.plan().new_connections {
                self.idle.push_back(index);
            }
            return;
        }
        let is_first = self.idle.is_empty() && self.schedule.is_none();
        if is_first && !self.is_over(now_ns) && self.start_ns.is_some() {
            return self.ask(index, None, now_ns);
        }
        self.connections[index].enter(Phase::Idle, now_ns);
        self.idle.push_back(index);
    }

    fn fail(&mut self, index: usize, failure: &Failure) {
        let now_ns = self.now_ns();
        let connection = &mut self.connections[index];
        let (phase, asked_ns) = (connection.phase, connection.asked_ns);
        let before_open =
            matches!(phase, Phase::Closed(_) | Phase::Connecting | Phase::Handshaking);
        connection.close(if before_open { now_ns + AGAIN_NS } else { now_ns });
        if before_open {
            self.failures_in_row += 1;
            if self.tries_another_address() {
                self.connections[index].asked_ns = asked_ns;
                return self.open(index, now_ns);
            }
        }
        if self.plan().new_connections {
            self.idle.push_back(index);
        }
        // A server may close a connection on which it was asked for nothing.
        let is_idle = asked_ns.is_none() && !before_open;
        let counts = asked_ns.unwrap_or(now_ns) >= self.count_ns;
        if !is_idle && counts {
            self.outcome.fail(failure, now_ns - self.count_ns);
            self.shared.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Another address is tried where none has taken a connection yet.
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

    /// Ends what takes too long.
    fn sweep(&mut self, now_ns: u64) {
        let timeout_ns = self.plan().timeout.as_nanos() as u64;
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            let (phase, waited_ns) = (connection.phase, now_ns.saturating_sub(connection.since_ns));
            if waited_ns < timeout_ns {
                continue;
            }
            let failure = match phase {
                Phase::Closed(_) | Phase::Idle => continue,
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

    fn finish(mut self) -> Outcome {
        let now_ns = self.now_ns();
        let stopped_ns = now_ns.min(self.end_ns);
        if let (Some(start_ns), Some(schedule)) = (self.start_ns, &self.schedule) {
            // The rest of the plan up to the end was never sent.
            self.outcome.planned += schedule.due(stopped_ns.saturating_sub(start_ns));
        } else {
            self.outcome.planned = self.outcome.sent;
        }
        let is_counted = |it: &&Connection| it.asked_ns.is_some_and(|it| it >= self.count_ns);
        self.outcome.unanswered = self.connections.iter().filter(is_counted).count() as u64;
        let ended_ns = match self.left {
            0 if self.last_answer_ns > 0 => self.last_answer_ns,
            _ => stopped_ns.max(self.last_answer_ns),
        };
        self.outcome.elapsed_ns = ended_ns.saturating_sub(self.count_ns);
        self.outcome
    }
}
