//! The budget of the traffic that is sent to others. Everything in this crate that sends takes what
//! it sends from a [`Budget`], and connections are opened only through it (`tests/budget.rs` holds
//! that), so no limit can be forgotten.

use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};
use tcpwhy_core::model::units::{bytes, count, counted};

/// The value of a limit that does not limit.
pub const NO_LIMIT: u64 = u64::MAX;
/// Bytes that a peer may send before the first read, on a system that does not state its buffer.
#[cfg(not(unix))]
const BUFFER_BYTES: u64 = 64 << 10;

/// The most that may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Limits {
    /// Number of requests; for name servers of queries, for paths of probes.
    #[serde(serialize_with = "limit")]
    #[cfg_attr(feature = "schemas", schemars(with = "Option<u64>"))]
    pub requests: u64,
    /// Number of connections that are attempted.
    #[serde(serialize_with = "limit")]
    #[cfg_attr(feature = "schemas", schemars(with = "Option<u64>"))]
    pub connections: u64,
    /// Number of connections at the same time.
    #[serde(serialize_with = "limit")]
    pub connections_at_once: u64,
    /// Bytes in connections, sent and received, with those of TLS.
    #[serde(serialize_with = "limit")]
    #[cfg_attr(feature = "schemas", schemars(with = "Option<u64>"))]
    pub bytes: u64,
}

impl Limits {
    /// Nothing may be sent.
    pub const NOTHING: Limits =
        Limits { requests: 0, connections: 0, connections_at_once: 0, bytes: 0 };

    /// Returns the limits of two budgets that are spent one after the other.
    #[must_use]
    pub fn then(self, next: Limits) -> Limits {
        Limits {
            requests: self.requests.saturating_add(next.requests),
            connections: self.connections.saturating_add(next.connections),
            connections_at_once: self.connections_at_once.max(next.connections_at_once),
            bytes: self.bytes.saturating_add(next.bytes),
        }
    }
}

/// Writes a limit, or `null` if there is none.
fn limit<S: Serializer>(limit: &u64, to: S) -> Result<S::Ok, S::Error> {
    (*limit != NO_LIMIT).then_some(limit).serialize(to)
}

/// The traffic that was sent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Spent {
    /// Number of requests, queries or probes.
    pub requests: u64,
    /// Number of connections that were attempted.
    pub connections: u64,
    /// Greatest number of connections at the same time.
    pub connections_at_once: u64,
    /// Bytes in connections, sent and received.
    pub bytes: u64,
}

impl Spent {
    /// Returns what two budgets spent one after the other.
    #[must_use]
    pub fn then(self, next: Spent) -> Spent {
        Spent {
            requests: self.requests + next.requests,
            connections: self.connections + next.connections,
            connections_at_once: self.connections_at_once.max(next.connections_at_once),
            bytes: self.bytes + next.bytes,
        }
    }
}

/// A limit that has been reached, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Number of requests.
    #[error("the budget of {} is spent", self.limit())]
    Requests(u64),
    /// Number of connections.
    #[error("the budget of {} is spent", self.limit())]
    Connections(u64),
    /// Number of connections at the same time.
    #[error("{} connections are open, as many as the budget allows at a time", count(*.0))]
    AtOnce(u64),
    /// Number of bytes.
    #[error("the budget of {} is spent", self.limit())]
    Bytes(u64),
}

impl Exceeded {
    /// Returns the limit with its unit.
    pub fn limit(&self) -> String {
        match *self {
            Exceeded::Requests(most) => counted(most, "request", "requests"),
            Exceeded::Connections(most) => counted(most, "connection", "connections"),
            Exceeded::AtOnce(most) => format!("{} connections at a time", count(most)),
            Exceeded::Bytes(most) => bytes(most),
        }
    }

    /// Returns the limit that an error of a [`Metered`] connection reports.
    pub fn of(error: &io::Error) -> Option<Exceeded> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<Exceeded> for io::Error {
    fn from(exceeded: Exceeded) -> io::Error {
        io::Error::other(exceeded)
    }
}

/// A budget; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Budget(Option<Arc<Account>>);

#[derive(Debug)]
struct Account {
    limits: Limits,
    state: Mutex<Spending>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct Spending {
    spent: Spent,
    /// Number of open connections.
    open: u64,
    /// Bytes that the peers may send without being asked again: what the receive buffers of the
    /// open connections hold. The budget has to have them left.
    held_bytes: u64,
}

impl Account {
    fn state(&self) -> MutexGuard<'_, Spending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budget {
    /// Returns a budget with these limits.
    pub fn new(limits: Limits) -> Budget {
        let (state, closed) = (Mutex::default(), Condvar::new());
        Budget(Some(Arc::new(Account { limits, state, closed })))
    }

    /// Returns a budget without limits, for what a user asks for without one. It counts nothing.
    pub fn none() -> Budget {
        Budget(None)
    }

    /// Returns what was spent so far.
    pub fn spent(&self) -> Spent {
        self.0.as_ref().map_or_else(Spent::default, |it| it.state().spent)
    }

    /// Returns the number of bytes that are left.
    pub fn left_bytes(&self) -> u64 {
        let Some(account) = &self.0 else { return NO_LIMIT };
        let state = account.state();
        account.limits.bytes.saturating_sub(state.spent.bytes + state.held_bytes)
    }

    /// Takes a request, a query or a probe.
    ///
    /// # Errors
    /// All were sent.
    pub fn request(&self) -> Result<(), Exceeded> {
        let Some(account) = &self.0 else { return Ok(()) };
        let mut state = account.state();
        if state.spent.requests >= account.limits.requests {
            return Err(Exceeded::Requests(account.limits.requests));
        }
        state.spent.requests += 1;
        Ok(())
    }

    /// Opens a connection by `connect`. If as many as are allowed at a time are open, it waits
    /// until one is closed, `wait` at most.
    ///
    /// # Errors
    /// An [`Exceeded`] limit, or the error of `connect`.
    pub fn connect<S: Socket>(
        &self,
        wait: Duration,
        connect: impl FnOnce() -> io::Result<S>,
    ) -> io::Result<Metered<S>> {
        let mut slot = self.slot(wait)?;
        let socket = connect()?;
        slot.hold(socket.receive_bytes_max())?;
        Ok(Metered { socket, slot })
    }

    fn slot(&self, wait: Duration) -> Result<Slot, Exceeded> {
        let slot = || Slot { budget: self.clone(), held_bytes: 0, is_over: false };
        let Some(account) = &self.0 else { return Ok(slot()) };
        let limits = &account.limits;
        let until = Instant::now() + wait;
        let mut state = account.state();
        while state.open >= limits.connections_at_once {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Exceeded::AtOnce(limits.connections_at_once));
            }
            let waited = account.closed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.spent.connections >= limits.connections {
            return Err(Exceeded::Connections(limits.connections));
        }
        state.spent.connections += 1;
        state.open += 1;
        state.spent.connections_at_once = state.spent.connections_at_once.max(state.open);
        Ok(slot())
    }
}

/// The part of a budget that an open connection has.
#[derive(Debug)]
struct Slot {
    budget: Budget,
    /// Its part of [`Spending::held_bytes`].
    held_bytes: u64,
    /// `true` if its peer sent more than the budget allows.
    is_over: bool,
}

impl Slot {
    /// Has the budget hold the bytes that the peer may send before the next read.
    fn hold(&mut self, bytes: u64) -> Result<(), Exceeded> {
        self.take(0, bytes)
    }

    /// Counts bytes that were received, and holds those that may follow before the next read.
    fn take(&mut self, received_bytes: u64, held_bytes: u64) -> Result<(), Exceeded> {
        let Some(account) = &self.budget.0 else { return Ok(()) };
        let mut state = account.state();
        state.spent.bytes += received_bytes;
        state.held_bytes = state.held_bytes - self.held_bytes + held_bytes;
        self.held_bytes = held_bytes;
        self.is_over = state.spent.bytes + state.held_bytes > account.limits.bytes;
        if self.is_over { Err(Exceeded::Bytes(account.limits.bytes)) } else { Ok(()) }
    }

    /// Returns how many of these bytes may be sent.
    fn allowed(&self, bytes: usize) -> Result<usize, Exceeded> {
        let Some(account) = &self.budget.0 else { return Ok(bytes) };
        let left = usize::try_from(self.budget.left_bytes()).unwrap_or(usize::MAX);
        match left.min(bytes) {
            0 if bytes > 0 => Err(Exceeded::Bytes(account.limits.bytes)),
            allowed => Ok(allowed),
        }
    }

    fn sent(&self, bytes: usize) {
        if let Some(account) = &self.budget.0 {
            account.state().spent.bytes += bytes as u64;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(account) = &self.budget.0 else { return };
        let mut state = account.state();
        state.open -= 1;
        state.held_bytes -= self.held_bytes;
        if self.is_over {
            // Its peer was still sending, so all that it could send may have come.
            state.spent.bytes += self.held_bytes;
        }
        account.closed.notify_one();
    }
}

/// A connection that takes what it sends and receives from a budget.
#[derive(Debug)]
pub struct Metered<S> {
    // Closed before its place in the budget is free.
    socket: S,
    slot: Slot,
}

impl<S> Metered<S> {
    /// Returns the socket, for its options. Bytes are sent and received by `self`.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// Returns the socket, for its registration in an event loop.
    pub fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Takes a request of this length from the budget, before it is written.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn request(&self, bytes: usize) -> Result<(), Exceeded> {
        match self.slot.allowed(bytes)? {
            all if all == bytes => self.slot.budget.request(),
            _ => Err(Exceeded::Bytes(self.slot.budget.0.as_ref().map_or(0, |it| it.limits.bytes))),
        }
    }
}

impl<S: Read + Socket> Read for Metered<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.socket.read(buffer)?;
        if self.slot.budget.0.is_some() {
            let held_bytes = self.socket.receive_bytes_max();
            let result = self.slot.take(read as u64, held_bytes);
            // The kernel enlarges buffers that fill up, mostly to twice their size.
            if self.slot.budget.left_bytes() < held_bytes {
                self.socket.stop_growth();
            }
            result?;
        }
        Ok(read)
    }
}

impl<S: Write> Write for Metered<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let allowed = self.slot.allowed(bytes.len())?;
        let written = self.socket.write(&bytes[..allowed])?;
        self.slot.sent(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// A socket whose receive buffer is known.
pub trait Socket {
    /// Returns the number of bytes that the peer may send before the next read.
    fn receive_bytes_max(&self) -> u64;

    /// Has the kernel enlarge the receive buffer no more. It may become smaller.
    fn stop_growth(&self);
}

#[cfg(unix)]
impl<S: std::os::fd::AsFd> Socket for S {
    fn receive_bytes_max(&self) -> u64 {
        // The window that is offered is never larger than the buffer.
        socket2::SockRef::from(self).recv_buffer_size().unwrap_or(0) as u64
    }

    fn stop_growth(&self) {
        let socket = socket2::SockRef::from(self);
        // Linux doubles what is asked for, for its own needs (socket(7), `SO_RCVBUF`).
        let _ = socket.recv_buffer_size().map(|size| socket.set_recv_buffer_size(size / 2));
    }
}

#[cfg(not(unix))]
impl<S> Socket for S {
    fn receive_bytes_max(&self) -> u64 {
        BUFFER_BYTES
    }

    fn stop_growth(&self) {}
}

/// Returns the number of bytes that a peer may send on a new connection before the first read.
pub fn receive_buffer_bytes() -> u64 {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    socket.map_or(0, |socket| socket.receive_bytes_max())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    const LIMITS: Limits =
        Limits { requests: 2, connections: 3, connections_at_once: 2, bytes: NO_LIMIT };

    fn local() -> (TcpListener, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        (listener, at)
    }

    #[test]
    fn requests_and_connections_end_with_the_budget() {
        let (_listener, at) = local();
        let budget = Budget::new(LIMITS);
        let open = || budget.connect(Duration::ZERO, || TcpStream::connect(at));
        let exceeded = |error: io::Error| Exceeded::of(&error);
        let (one, _two) = (open().expect("one"), open().expect("two"));
        assert_eq!(open().map_err(exceeded).err(), Some(Some(Exceeded::AtOnce(2))));
        drop(one);
        let three = open().expect("three");
        assert_eq!([three.request(9), three.request(9)], [Ok(()), Ok(())]);
        assert_eq!(three.request(9), Err(Exceeded::Requests(2)));
        drop(three);
        assert_eq!(open().map_err(exceeded).err(), Some(Some(Exceeded::Connections(3))));
        let spent = budget.spent();
        assert_eq!((spent.requests, spent.connections, spent.connections_at_once), (2, 3, 2));
    }

    #[test]
    fn a_connection_waits_until_another_is_closed() {
        let (_listener, at) = local();
        let budget = Budget::new(Limits { connections_at_once: 1, ..LIMITS });
        let open = || budget.connect(Duration::from_secs(60), || TcpStream::connect(at));
        let first = open().expect("one");
        std::thread::scope(|scope| {
            let second = scope.spawn(open);
            drop(first);
            assert!(second.join().expect("no panic").is_ok());
        });
        assert_eq!(budget.spent().connections_at_once, 1);
    }

    #[test]
    fn bytes_that_may_still_come_are_in_the_budget() {
        let (listener, at) = local();
        let most = (1 << 20) + receive_buffer_bytes();
        let budget = Budget::new(Limits { bytes: most, ..LIMITS });
        let mut client =
            budget.connect(Duration::ZERO, || TcpStream::connect(at)).expect("a connection");
        let mut server = listener.accept().expect("a client").0;
        let sending = std::thread::spawn(move || {
            let mut sent = 0;
            while let Ok(more) = server.write(&[0; 4096]) {
                sent += more;
            }
            sent
        });
        let ended = std::iter::repeat_with(|| client.read(&mut [0; 4096])).find_map(Result::err);
        let ended = ended.expect("an end");
        assert_eq!(Exceeded::of(&ended), Some(Exceeded::Bytes(most)));
        let read = budget.spent().bytes;
        drop(client);
        assert!(read < most && budget.spent().bytes >= most, "{read} {:?}", budget.spent());
        assert!(sending.join().expect("no panic") > 0);
    }

    #[test]
    fn a_request_that_does_not_fit_is_not_begun() {
        let (_listener, at) = local();
        let most = (8 << 20) + receive_buffer_bytes();
        let budget = Budget::new(Limits { bytes: most, ..LIMITS });
        let client =
            budget.connect(Duration::ZERO, || TcpStream::connect(at)).expect("a connection");
        assert_eq!(client.request(9 << 20), Err(Exceeded::Bytes(most)));
        assert_eq!(budget.spent().requests, 0);
    }

    /// Receives on a connection whose peer sends without end, until the receive buffer has grown or
    /// 64 MiB have been read; returns the size of the buffer before and after, bytes.
    fn receive(is_stopped: bool) -> (u64, u64) {
        let (listener, at) = local();
        let mut client = TcpStream::connect(at).expect("a connection");
        let mut server = listener.accept().expect("a client").0;
        let sending = std::thread::spawn(move || while server.write_all(&[0; 1 << 16]).is_ok() {});
        if is_stopped {
            client.stop_growth();
        }
        let before = client.receive_bytes_max();
        let mut read = 0;
        while read < 64 << 20 && client.receive_bytes_max() <= before {
            read += client.read(&mut [0; 1 << 14]).expect("the peer sends");
        }
        let after = client.receive_bytes_max();
        drop(client);
        sending.join().expect("no panic");
        (before, after)
    }

    #[test]
    fn a_receive_buffer_that_must_not_grow_keeps_its_size_while_data_pours_in() {
        let (before, after) = receive(false);
        if after <= before {
            tcpwhy_testing::skip("the kernel enlarges no receive buffers here");
            return;
        }
        let (before, after) = receive(true);
        assert_eq!(before, after);
    }
}
