//! The state of the watched system's sockets, read on a thread of its own: it keeps the privileges that
//! this needs, which the thread that parses packets gives up.

use crate::error::Error;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_core::report::Report;
use tcpwhy_core::state::{Process, State, weigh};
use tcpwhy_live::hooks::{self, HookKind, Scope, Session};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sockets::{Selection, Where};

/// After a reading that took some time, so many times as long passes before the next: reading takes 1 % of
/// the time at most, whatever the number of sockets.
const REST: u32 = 100;

/// Readings of the sockets of one selection.
pub struct Reader {
    wanted: Sender<()>,
    read: Receiver<Reading>,
    /// A reading was asked for and has not come.
    is_waiting: bool,
    /// When the next may be asked for.
    next: Instant,
    asked: Instant,
    /// The last readings, latest first: what a socket was like before it was closed is in an older one.
    kept: VecDeque<State>,
    /// What to say of it, each once.
    notes: Vec<String>,
}

/// Readings kept.
const KEPT: usize = 3;

impl Reader {
    /// Reads the sockets of `netns`, with the privileges that the calling thread has now; kernel hooks look
    /// at one of 2 to the power of `sample_shift` connections.
    pub fn new(netns: Netns, sample_shift: u32) -> Self {
        let scope =
            Scope { netns: u32::try_from(netns.inode).ok(), sample_shift, ..Scope::default() };
        let selection = Selection { place: Where::Of(netns), ..Selection::default() };
        let (wanted, asked) = channel();
        let (answer, read) = channel();
        thread::spawn(move || {
            let mut hooks = Hooks::open(&scope);
            while asked.recv().is_ok() {
                let state = crate::sockets::state(&selection).map(|state| hooks.beside(state));
                let lacking = hooks.lacking.take();
                if answer.send(Reading { state, lacking }).is_err() {
                    break;
                }
            }
        });
        let now = Instant::now();
        Self {
            wanted,
            read,
            is_waiting: false,
            next: now,
            asked: now,
            kept: VecDeque::new(),
            notes: Vec::new(),
        }
    }

    /// Asks for a reading, unless the last one was so long that it has to rest.
    pub fn ask(&mut self) {
        let now = Instant::now();
        if !self.is_waiting && now >= self.next && self.wanted.send(()).is_ok() {
            (self.is_waiting, self.asked) = (true, now);
        }
    }

    /// Weighs the findings of `report` with the last readings; waits `wait` at most for one that was asked
    /// for.
    pub fn weigh(&mut self, report: &mut Report, wait: Duration) {
        if self.is_waiting {
            match self.read.recv_timeout(wait) {
                Ok(read) => self.take(read),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.is_waiting = false,
            }
        }
        self.kept.iter().for_each(|state| weigh(report, state));
    }

    /// What could not be read and why, each once.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn take(&mut self, read: Reading) {
        self.is_waiting = false;
        self.next = Instant::now() + self.asked.elapsed() * REST;
        self.notes.extend(read.lacking);
        match read.state {
            Ok(state) => {
                self.kept.truncate(KEPT - 1);
                self.kept.push_front(state);
            }
            Err(error) => {
                self.notes.push(format!("no state of sockets stands beside the findings: {error}"));
            }
        }
    }
}

/// What one reading gave.
struct Reading {
    state: Result<State, Error>,
    /// Why kernel hooks do not see what they should; in the first reading only.
    lacking: Option<String>,
}

/// Kernel hooks that see what no list of sockets shows.
struct Hooks {
    session: Session,
    lacking: Option<String>,
}

impl Hooks {
    fn open(scope: &Scope) -> Self {
        let (session, missing) = Session::open(&[HookKind::Unread, HookKind::SndbufWait], scope);
        // All lack the same, as a rule.
        let lacking = missing
            .first()
            .map(|lacks| format!("waits of readers and senders are not seen: {}", lacks.lack));
        Self { session, lacking }
    }

    /// Adds to `state` what the hooks counted since they were attached.
    fn beside(&mut self, mut state: State) -> State {
        let summary = self.session.summary();
        for unread in summary.unread {
            let flow = unread.flow;
            let hooked = &mut state.socket_between(flow.source, flow.destination).hooked;
            (hooked.unread_ns, hooked.unread_max_ns) = (unread.total_ns, unread.max_ns);
            if let Some(since_ns) = unread.since_ns {
                let waits_ns = hooks::monotonic_ns().saturating_sub(since_ns);
                hooked.unread_ns += waits_ns;
                hooked.unread_max_ns = hooked.unread_max_ns.max(waits_ns);
            }
        }
        for wait in summary.sndbuf_waits {
            let socket = state.socket_between(wait.flow.source, wait.flow.destination);
            socket.hooked.sndbuf_wait_ns = wait.wait_ns + wait.refused_ns;
            let process = || Process { pid: wait.pid.into(), command: wait.command.clone() };
            socket.process.get_or_insert_with(process);
        }
        self.session.forget(FORGET);
        state
    }
}

/// What hooks counted of connections without an event for so long makes room for others.
const FORGET: Duration = Duration::from_secs(60);
