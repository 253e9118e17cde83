//! The state of the watched system's sockets, read on a thread of its own: it keeps the privileges that
//! this needs, which the thread that parses packets gives up.

use crate::error::Error;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_core::report::Report;
use tcpwhy_core::state::{State, weigh};
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sockets::{Selection, Where};

/// After a reading that took some time, so many times as long passes before the next: reading takes 1 % of
/// the time at most, whatever the number of sockets.
const REST: u32 = 100;

/// Readings of the sockets of one selection.
pub struct Reader {
    wanted: Sender<()>,
    read: Receiver<Result<State, Error>>,
    /// A reading was asked for and has not come.
    is_waiting: bool,
    /// When the next may be asked for.
    next: Instant,
    asked: Instant,
    /// The last readings, latest first: what a socket was like before it was closed is in an older one.
    kept: VecDeque<State>,
    failed: Option<String>,
}

/// Readings kept.
const KEPT: usize = 3;

impl Reader {
    /// Reads the sockets of `netns`, with the privileges that the calling thread has now.
    pub fn new(netns: Netns) -> Self {
        let selection = Selection { place: Where::Of(netns), ..Selection::default() };
        let (wanted, asked) = channel();
        let (answer, read) = channel();
        thread::spawn(move || {
            while asked.recv().is_ok() && answer.send(crate::sockets::state(&selection)).is_ok() {}
        });
        let now = Instant::now();
        Self {
            wanted,
            read,
            is_waiting: false,
            next: now,
            asked: now,
            kept: VecDeque::new(),
            failed: None,
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

    /// Why sockets could not be read, said once.
    pub fn take_failure(&mut self) -> Option<String> {
        self.failed.take()
    }

    fn take(&mut self, read: Result<State, Error>) {
        self.is_waiting = false;
        self.next = Instant::now() + self.asked.elapsed() * REST;
        match read {
            Ok(state) => {
                self.kept.truncate(KEPT - 1);
                self.kept.push_front(state);
            }
            Err(error) => self.failed = Some(error.to_string()),
        }
    }
}
