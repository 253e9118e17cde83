//! The event loop of one thread. Sockets are registered once and watched edge-triggered, so that a
//! request on an open connection takes one write, one read, and its part of a wait (epoll(7)).

mod events;
mod on_streams;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::alarm::Alarm;
use super::connection::{Connection, Phase};
use super::fruitless::Fruitless;
use super::guard::{End, Latest};
use super::outcome::LoadOutcome;
use super::plan::{Pace, Plan, PlanError};
use super::schedule::Schedule;
use super::uneven::{STANDSTILL_NS, Standstill};
use crate::http::http2::{Event as StreamEvent, Prepared};

/// Greatest number of bytes of one read.
const BUFFER_BYTES: usize = 64 << 10;
/// The token of the event of the [`Alarm`].
const ALARM: Token = Token(usize::MAX);
/// Time between two checks for timeouts and for the end of the load.
const TICK: Duration = Duration::from_millis(50);
/// Number of consecutive failed attempts of each connection after which a thread ends, if no
/// connection was ever open or nothing else ends the load.
const TRIES: u64 = 3;

/// The state that the threads of a load share.
pub(super) struct Shared<'a> {
    pub plan: &'a Plan,
    pub request: Vec<u8>,
    /// The request in HTTP/2, if that may be spoken.
    pub prepared: Option<Prepared>,
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    pub stop: &'a AtomicBool,
    /// Index of the address in use.
    pub address: AtomicUsize,
    /// `true` once any connection was established, including TLS.
    pub has_connected: AtomicBool,
    /// `true` once any request was answered, also while requests are not counted.
    pub has_answered: AtomicBool,
    /// Number of threads whose connections ended one after the other without an answer.
    pub hopeless: AtomicUsize,
    /// Numbers of answered requests and of failures, for the progress reports.
    pub answered: AtomicU64,
    pub failed: AtomicU64,
    /// The reason why the load ended before its time.
    pub ended: OnceLock<End>,
    pub began: Instant,
}

/// The part of a load that one thread sends.
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    poll: Poll,
    alarm: Alarm,
    connections: Vec<Connection>,
    /// Connections without a request, the longest idle first.
    idle: VecDeque<usize>,
    /// Connections that are to be opened again.
    closed: Vec<usize>,
    /// Connections that have more to read.
    again: Vec<usize>,
    /// Connections with streams that have something to send.
    unsent: Vec<usize>,
    /// Times from which the latencies of requests count that are to be sent again, because the server
    /// did not process them or allowed no further stream, ns.
    returned: VecDeque<u64>,
    /// Results of streams that are not yet recorded.
    ended: Vec<(usize, StreamEvent)>,
    buffer: Vec<u8>,
    /// The planned times; `None` in a closed loop.
    schedule: Option<Schedule>,
    /// Number of this thread, and of all threads.
    index: u64,
    threads: u64,
    /// Number of requests that may still be sent.
    left: u64,
    /// Times from which on requests are sent, are counted, and are no longer sent, ns.
    start_ns: Option<u64>,
    count_ns: u64,
    end_ns: u64,
    failures_in_row: u64,
    fruitless: Fruitless,
    /// `true` once its connections ended one after the other without an answer.
    has_no_hope: bool,
    /// Time of the last check for timeouts, ns.
    swept_ns: u64,
    last_answer_ns: u64,
    latest: Latest,
    outcome: LoadOutcome,
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
            closed: Vec::new(),
            again: Vec::new(),
            unsent: Vec::new(),
            returned: VecDeque::new(),
            ended: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            schedule: None,
            index: index as u64,
            threads: threads as u64,
            left: shared.plan.requests.map_or(u64::MAX, part),
            start_ns: None,
            count_ns: 0,
            end_ns: u64::MAX,
            failures_in_row: 0,
            fruitless: Fruitless::default(),
            has_no_hope: false,
            swept_ns: 0,
            last_answer_ns: 0,
            latest: Latest::default(),
            outcome: LoadOutcome::default(),
        })
    }

    fn now_ns(&self) -> u64 {
        self.shared.began.elapsed().as_nanos() as u64
    }

    fn plan(&self) -> &'a Plan {
        self.shared.plan
    }

    /// Sends the load until the plan ends.
    pub fn run(mut self) -> Result<LoadOutcome, PlanError> {
        let mut events = Events::with_capacity(1024);
        for index in 0..self.connections.len() {
            self.released(index);
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
            self.flush_streams();
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

    /// Opens the connections, and begins to send when all were attempted: connecting is not part of
    /// a request's latency, unless each request has its own connection.
    fn begin(&mut self, now_ns: u64) {
        let plan = self.plan();
        if !self.is_over(now_ns) {
            for index in std::mem::take(&mut self.closed) {
                match self.connections[index].phase {
                    Phase::Closed(at_ns) if at_ns <= now_ns => self.open(index, now_ns),
                    _ => self.closed.push(index),
                }
            }
        }
        if self.start_ns.is_some() {
            return;
        }
        let is_open =
            |it: &Connection| matches!(it.phase, Phase::Idle | Phase::Streams | Phase::Closed(_));
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

    /// Returns whether no further requests are sent.
    fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.end_ns || self.left == 0 || self.has_ended()
    }

    /// Returns whether the load ended before its time.
    fn has_ended(&self) -> bool {
        self.shared.ended.get().is_some()
    }

    /// Ends the load before its time.
    fn end(&self, end: End) {
        // The first reason is the one that is reported.
        let _ = self.shared.ended.set(end);
    }

    /// Returns whether the worker still waits for answers after it has sent the last request: users
    /// would have waited for them, and slow answers would be missing among those that are counted.
    /// A load that ended before its time also waits for connections that are being opened: a SYN
    /// that is sent again shows a full queue.
    fn drains(&self, now_ns: u64) -> bool {
        let plan = self.plan();
        let is_opening = |it: &Connection| it.phase == Phase::Connecting;
        let ends_early = self.has_ended() && now_ns < self.end_ns;
        if ends_early && self.connections.iter().any(is_opening) {
            return true;
        }
        let timeout_ns = plan.timeout.as_nanos() as u64;
        now_ns < self.end_ns.saturating_add(timeout_ns)
            && (!self.returned.is_empty() || self.connections.iter().any(Connection::is_asked))
    }

    fn has_given_up(&self) -> bool {
        let tries = TRIES + self.plan().addresses.len() as u64;
        let has_no_end = self.plan().duration.is_none();
        self.failures_in_row >= tries * self.connections.len() as u64
            && (has_no_end || !self.shared.has_connected.load(Ordering::Relaxed))
    }

    /// Sends the requests that are due. Returns how long the loop may wait.
    fn dispatch(&mut self, now_ns: u64) -> Duration {
        let Some(start_ns) = self.start_ns else { return TICK };
        let timeout_ns = self.plan().timeout.as_nanos() as u64;
        while !self.returned.is_empty()
            && let Some(index) = self.next_idle(now_ns)
            && let Some(asked_ns) = self.returned.pop_front()
        {
            self.assign(index, asked_ns, now_ns);
        }
        if self.schedule.is_none() {
            while !self.is_over(now_ns)
                && let Some(index) = self.next_idle(now_ns)
            {
                self.ask(index, None, now_ns);
            }
            let idle = self.idle.iter().map(|&index| &self.connections[index]);
            let due = idle.filter(|it| it.has_room(u64::MAX)).map(|it| it.next_ns).min();
            return match due.filter(|_| !self.is_over(now_ns)) {
                Some(at_ns) if at_ns > now_ns => {
                    self.alarm.set(Duration::from_nanos(at_ns - now_ns), TICK)
                }
                _ => TICK,
            };
        }
        while !self.is_over(now_ns)
            && let Some(schedule) = &mut self.schedule
            && let Some(planned_ns) = schedule.next_ns().map(|it| start_ns + it)
        {
            if planned_ns > now_ns {
                return self.alarm.set(Duration::from_nanos(planned_ns - now_ns), TICK);
            }
            // A request that is later than its timeout is not sent, which limits the backlog.
            if now_ns - planned_ns > timeout_ns {
                schedule.advance();
                self.left -= 1;
                if planned_ns >= self.count_ns {
                    self.outcome.planned += 1;
                    self.outcome.latency.give_up(now_ns - planned_ns);
                }
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

    /// Returns the connection that sends the next request.
    fn next_idle(&mut self, now_ns: u64) -> Option<usize> {
        for _ in 0..self.idle.len() {
            let index = self.idle.pop_front()?;
            match self.connections[index].phase {
                Phase::Idle | Phase::Streams if self.connections[index].has_room(now_ns) => {
                    return Some(index);
                }
                Phase::Idle => self.idle.push_back(index),
                Phase::Streams if self.connections[index].has_room(u64::MAX) => {
                    self.idle.push_back(index);
                }
                // A connection that could not be opened is tried again after a pause.
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

    /// Assigns a request to a connection.
    fn ask(&mut self, index: usize, planned_ns: Option<u64>, now_ns: u64) {
        self.left -= 1;
        let asked_ns = planned_ns.unwrap_or(now_ns);
        if asked_ns >= self.count_ns {
            self.outcome.sent += 1;
        }
        self.assign(index, asked_ns, now_ns);
    }

    /// Assigns a request that is counted to a connection.
    fn assign(&mut self, index: usize, asked_ns: u64, now_ns: u64) {
        let spacing_ns = self.plan().spacing.as_nanos() as u64;
        let connection = &mut self.connections[index];
        connection.asked_ns = Some(asked_ns);
        connection.next_ns = now_ns.saturating_add(spacing_ns);
        if self.plan().new_connections {
            self.open(index, now_ns);
        } else {
            self.send(index, now_ns);
        }
    }

    fn send(&mut self, index: usize, now_ns: u64) {
        if self.connections[index].phase == Phase::Streams {
            return self.send_on_stream(index, now_ns);
        }
        let connection = &mut self.connections[index];
        (connection.written, connection.has_begun) = (0, false);
        connection.enter(Phase::Busy, now_ns);
        let bytes = connection.request(&self.shared.request).len();
        if let Err(failure) = connection.begin_request(bytes) {
            self.outcome.sent = self.outcome.sent.saturating_sub(1);
            return self.fail(index, &failure);
        }
        let connection = &mut self.connections[index];
        if let Err(failure) = connection.write(&self.shared.request) {
            self.fail(index, &failure);
        }
    }

    /// Notes the time without an answer that ends now, if it was long, and requests were in progress:
    /// one since `asked_ns`, which is now for none, and those of the connections.
    fn note_standstill(&mut self, asked_ns: u64, now_ns: u64) {
        let quiet_ns = now_ns.saturating_sub(self.last_answer_ns.max(self.count_ns));
        if quiet_ns < STANDSTILL_NS {
            return;
        }
        let others = self.connections.iter().flat_map(Connection::asked);
        let oldest_ns = others.fold(asked_ns, u64::min);
        let begin_ns = self.last_answer_ns.max(oldest_ns).max(self.count_ns);
        if now_ns.saturating_sub(begin_ns) >= STANDSTILL_NS {
            let age_ns = begin_ns.saturating_sub(oldest_ns);
            self.outcome.standstills.push(Standstill { begin_ns, end_ns: now_ns, age_ns });
        }
    }

    fn finish(mut self) -> LoadOutcome {
        let now_ns = self.now_ns();
        let stopped_ns = now_ns.min(self.end_ns);
        if let (Some(start_ns), Some(schedule)) = (self.start_ns, &mut self.schedule) {
            // The rest of the plan was never sent.
            while let Some(planned_ns) = schedule.next_ns().map(|it| start_ns + it)
                && planned_ns <= stopped_ns
            {
                schedule.advance();
                if planned_ns >= self.count_ns {
                    self.outcome.planned += 1;
                    self.outcome.latency.give_up(now_ns - planned_ns);
                }
            }
        } else {
            self.outcome.planned = self.outcome.sent;
        }
        let count = |phase| self.connections.iter().filter(|it| it.phase == phase).count() as u64;
        self.outcome.connecting = count(Phase::Connecting);
        self.outcome.shaking_hands = count(Phase::Handshaking);
        self.note_standstill(now_ns, now_ns);
        let asked = self.connections.iter().flat_map(Connection::asked);
        let asked = asked.chain(self.returned.iter().copied());
        for asked_ns in asked.filter(|it| *it >= self.count_ns) {
            self.outcome.unanswered += 1;
            self.outcome.latency.give_up(now_ns.saturating_sub(asked_ns));
        }
        let ended_ns = match self.left {
            0 if self.last_answer_ns > 0 => self.last_answer_ns,
            _ => stopped_ns.max(self.last_answer_ns),
        };
        self.outcome.elapsed_ns = ended_ns.saturating_sub(self.count_ns);
        self.outcome
    }
}
