//! The state of the watched system's sockets. The process with rights reads it; this one asks for it,
//! and weighs findings with it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tcpwhy_core::findings::NOT_RECEIVED;
use tcpwhy_core::model::{Cause, Report, SlowExchange};
use tcpwhy_core::state::{Process, Served, State, weigh, weigh_served};
use tcpwhy_live::hooks::SERVED_SLOW_NS;
use tcpwhy_live::sample::Sample;
use tcpwhy_privileged::{Helper, HelperError, Looked, Request, SocketHooks};

/// Share of a budget for reading sockets; the rest is for capturing and reporting, which go on
/// meanwhile.
pub const STATE_PART: f64 = 0.25;

/// Share of one CPU that reading may take without a budget, whatever the number of sockets.
const SHARE: f64 = 0.01;

/// How long the kernel may take to accept the hooks before the watch begins without them.
const HOOKS_WAIT: Duration = Duration::from_secs(3);

/// Readings of the sockets of one namespace.
pub struct Reader {
    helper: Helper,
    /// The answer that the process with rights owes.
    awaited: Awaited,
    /// Share of one CPU that reading may take.
    share: f64,
    /// Earliest time of the next request.
    next: Instant,
    /// The last readings, latest first: the state of a socket before it closed is in an older one.
    kept: VecDeque<State>,
    /// The last requests that hooks saw answered, oldest first.
    served: VecDeque<Served>,
    /// `true` after the failure of readings was reported.
    has_failed: bool,
    /// Notes for the user.
    notes: Vec<String>,
    /// The reason, if hooks could not be attached.
    hooks_missing: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Nothing,
    Attached,
    Looked,
}

/// Number of readings that are kept.
const KEPT: usize = 3;

/// Number of answered requests that are kept.
const SERVED_MAX: usize = 4_000;

/// Returns whether hooks can say more about a cause.
fn is_witnessed(cause: Cause) -> bool {
    cause.is_of_server_time() || matches!(cause, Cause::SendBuffer | Cause::ZeroWindow)
}

/// Returns whether hooks can show the parts of an exchange: the server took most of it, and long enough
/// to be recorded ([`SERVED_SLOW_NS`]).
fn is_slow_at_server(exchange: &SlowExchange) -> bool {
    exchange.server_ns >= SERVED_SLOW_NS && 2 * exchange.server_ns >= exchange.wall_ns
}

/// Returns the share of one CPU that reading may take with this `budget`.
pub fn share(budget: Option<f64>) -> f64 {
    budget.map_or(SHARE, |budget| budget * STATE_PART)
}

impl Reader {
    /// Lets `helper` read within [`STATE_PART`] of `budget`, a share of one CPU. Returns when the
    /// hooks that stay attached are attached.
    pub fn new(helper: Helper, budget: Option<f64>) -> Self {
        let mut reader = Self {
            helper,
            awaited: Awaited::Nothing,
            share: share(budget),
            next: Instant::now(),
            kept: VecDeque::new(),
            served: VecDeque::new(),
            has_failed: false,
            notes: Vec::new(),
            hooks_missing: None,
        };
        reader.request(&Request::Attach, Awaited::Attached);
        // The time to load the hooks does not count as cost of the watch.
        reader.wait(HOOKS_WAIT);
        reader
    }

    /// Returns the reason, if hooks could not be attached so far.
    pub fn hooks_missing(&self) -> Option<&str> {
        self.hooks_missing.as_deref()
    }

    /// Returns the CPU time of the process that reads.
    pub fn cpu_time(&self) -> Duration {
        self.helper.cpu_time()
    }

    /// Requests a reading, unless the pause after the last one is not over. Connections of `sample` are
    /// captured.
    pub fn ask(&mut self, report: &Report, sample: Sample) {
        let arrives = |(name, _): &(&str, _)| NOT_RECEIVED.contains(name);
        if self.awaited == Awaited::Nothing && Instant::now() >= self.next {
            let is_supported = report.findings.iter().any(|it| is_witnessed(it.cause));
            let is_slow = report.slowest.iter().any(is_slow_at_server);
            let wanted = Request::Look {
                follow: (is_supported || is_slow).then_some(sample),
                witness: is_supported.then_some(sample),
                drops: report.findings.iter().any(|it| it.facts.iter().any(arrives)),
            };
            self.request(&wanted, Awaited::Looked);
        }
    }

    /// Weighs the findings of `report` with the last readings; waits at most `wait` for a requested
    /// one.
    pub fn weigh(&mut self, report: &mut Report, wait: Duration) {
        self.wait(wait);
        self.kept.iter().for_each(|state| weigh(report, state));
        weigh_served(report, &self.served(report));
    }

    /// Returns the requests that hooks saw answered in the time of `report`.
    pub fn served(&self, report: &Report) -> Vec<Served> {
        let since_ns = report.watched.map_or(0, |watched| watched.first_ns);
        self.served.iter().filter(|it| it.ready_ns >= since_ns).cloned().collect()
    }

    /// Returns notes on what could not be read and why, each once.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn request(&mut self, request: &Request, awaited: Awaited) {
        match self.helper.ask(request) {
            Ok(()) => self.awaited = awaited,
            Err(error) => self.fail(&error),
        }
    }

    /// Takes the answer that is awaited, if it comes within `wait`.
    fn wait(&mut self, wait: Duration) {
        match self.awaited {
            Awaited::Nothing => {}
            Awaited::Attached => match self.helper.attached(wait) {
                Ok(None) => {}
                Ok(Some(missing)) => {
                    self.awaited = Awaited::Nothing;
                    self.hooks_missing = missing;
                }
                Err(error) => self.fail(&error),
            },
            Awaited::Looked => match self.helper.looked(wait) {
                Ok(None) => {}
                Ok(Some((state, looked))) => self.take(state, looked),
                Err(error) => self.fail(&error),
            },
        }
    }

    fn take(&mut self, mut state: State, looked: Looked) {
        self.awaited = Awaited::Nothing;
        let took = Duration::from_nanos(looked.took_ns);
        self.next = Instant::now() + took.div_f64(self.share);
        self.notes.extend(looked.notes);
        self.hooks_missing = looked.hooks_missing;
        add(&mut state, looked.hooked);
        self.served.extend(looked.served);
        let excess = self.served.len().saturating_sub(SERVED_MAX);
        self.served.drain(..excess);
        self.kept.truncate(KEPT - 1);
        self.kept.push_front(state);
    }

    fn fail(&mut self, error: &HelperError) {
        self.awaited = Awaited::Nothing;
        if !std::mem::replace(&mut self.has_failed, true) {
            self.notes.push(format!("no state of sockets stands beside the findings: {error}"));
        }
    }
}

/// Adds what hooks counted to the sockets of `state`.
fn add(state: &mut State, hooked: Vec<SocketHooks>) {
    let mut sockets = state.by_ends();
    for counted in hooked {
        let socket = sockets.socket(counted.local, counted.peer);
        let to = &mut socket.hooked;
        if let Some(unread_ns) = counted.unread_ns {
            (to.unread_ns, to.unread_max_ns) = unread_ns;
        }
        if let Some(segments) = counted.retransmits {
            (to.rto_segments, to.fast_segments) = segments;
        }
        if let Some((wait_ns, pid, command)) = counted.sndbuf_wait {
            to.sndbuf_wait_ns = wait_ns;
            let pid = pid.into();
            socket.process.get_or_insert(Process { pid, command, container: None, runtime: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn hooks_follow_requests_that_are_slow_at_the_server() {
        let took = |server_ns, wall_ns| {
            let end = |text: &str| text.parse::<SocketAddr>().expect("an end").into();
            is_slow_at_server(&SlowExchange {
                client: end("10.0.0.1:50000"),
                server: end("10.0.0.2:80"),
                exchange: 1,
                kind: "GET /".into(),
                start_ns: 0,
                wall_ns,
                server_ns,
                cause: None,
            })
        };
        assert!(took(1_000_000, 2_000_000));
        assert!(!took(1_000_000, 2_000_001), "the network took most of it");
        assert!(!took(999_999, 999_999), "hooks do not record it");
    }
}
