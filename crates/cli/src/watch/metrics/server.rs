//! Serves the page of metrics over HTTP (RFC 9112), to several clients at a time on one thread.
//!
//! A client may be hostile: it sends its request byte by byte, or never, or does not read the
//! answer. So each exchange has one time limit, the number of clients is bounded, and no client
//! waits for another.

use super::PATIENCE;
use crate::error::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Greatest number of clients at a time.
const CLIENTS_MAX: usize = 64;
/// Greatest number of bytes of a request's head.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Greatest number of bytes of a request behind its head. They are read because closing a
/// connection with unread bytes resets it, and its client may then lose the answer.
const REST_BYTES_MAX: usize = 256 << 10;
/// Time without new clients after one could not be accepted, usually for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The answer to a request for the metrics, with its head.
type Page = Arc<Mutex<Arc<[u8]>>>;

/// An HTTP server that serves one page.
pub struct Server {
    listener: Option<TcpListener>,
    page: Page,
}

impl Server {
    /// Listens; [`begin`](Self::begin) starts to answer.
    ///
    /// # Errors The address is not one of this machine, or it is in use.
    pub fn listen(address: SocketAddr) -> Result<Self, Error> {
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = listener.map_err(|source| Error::Metrics { address, source })?;
        Ok(Self { listener: Some(listener), page: Arc::new(Mutex::new(answer("200 OK", ""))) })
    }

    /// Starts the thread that answers.
    pub fn begin(&mut self) {
        self.begin_with(PATIENCE);
    }

    fn begin_with(&mut self, patience: Duration) {
        let Some(listener) = self.listener.take() else { return };
        let page = Arc::clone(&self.page);
        let clients = Clients { listener, page, patience, served: Vec::new(), paused: None };
        std::thread::spawn(move || clients.serve());
    }

    /// Replaces the page.
    pub fn show(&self, page: &str) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = answer("200 OK", page);
    }
}

/// Composes an answer.
fn answer(status: &str, body: &str) -> Arc<[u8]> {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    text.into_bytes().into()
}

/// The server's thread.
struct Clients {
    listener: TcpListener,
    page: Page,
    /// Time limit of an exchange.
    patience: Duration,
    served: Vec<Client>,
    /// End of the time in which no client is accepted.
    paused: Option<Instant>,
}

impl Clients {
    fn serve(mut self) {
        loop {
            let now = Instant::now();
            self.served.retain(|it| it.until > now);
            self.paused = self.paused.filter(|it| *it > now);
            let Ok((is_new, ready)) = self.wait(now) else {
                // Memory is short; no client is worth a busy loop.
                std::thread::sleep(PAUSE);
                continue;
            };
            let mut ready = ready.into_iter();
            let page = &self.page;
            // A client that closes the connection early is no error.
            self.served.retain_mut(|it| {
                !ready.next().unwrap_or_default() || it.advance(page).unwrap_or(false)
            });
            if is_new {
                self.accept();
            }
        }
    }

    /// Waits until something can be read or written, or a time limit is reached. Returns whether
    /// there are new clients, and for each client whether it can go on.
    fn wait(&self, now: Instant) -> io::Result<(bool, Vec<bool>)> {
        let ends = self.served.iter().map(|it| it.until).chain(self.paused).min();
        let wait = ends.map(|it| it.saturating_duration_since(now));
        let wait = wait.and_then(|it| Timespec::try_from(it).ok());
        let of_new = if self.paused.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut polled = vec![PollFd::new(&self.listener, of_new)];
        polled.extend(self.served.iter().map(|it| PollFd::new(&it.stream, it.waits_for())));
        match poll(&mut polled, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = polled.iter().map(|it| !it.revents().is_empty());
        Ok((ready.next().unwrap_or_default() && self.paused.is_none(), ready.collect()))
    }

    /// Accepts new clients. One whose request has come is answered before the next is accepted.
    fn accept(&mut self) {
        for _ in 0..CLIENTS_MAX {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let (stream, from) = match acceptfrom_with(&self.listener, flags) {
                Ok((stream, from)) => (TcpStream::from(stream), from),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(_) => {
                    self.paused = Some(Instant::now() + PAUSE);
                    return;
                }
            };
            let address = from.and_then(|from| SocketAddr::try_from(from).ok()).map(|it| it.ip());
            let until = Instant::now() + self.patience;
            let phase = Phase::Reading(Vec::new());
            let mut client = Client { stream, address, until, phase };
            if client.advance(&self.page).unwrap_or(false) {
                self.make_room();
                self.served.push(client);
            }
        }
    }

    /// Drops a client if there are as many as are allowed: the oldest of the address that has the
    /// most, so that one host cannot displace the others.
    fn make_room(&mut self) {
        if self.served.len() < CLIENTS_MAX {
            return;
        }
        let same = |one: &Client| self.served.iter().filter(|it| it.address == one.address).count();
        let oldest = |one: &Client| std::cmp::Reverse(one.until);
        let worst = self.served.iter().enumerate().max_by_key(|(_, it)| (same(it), oldest(it)));
        if let Some((index, _)) = worst {
            self.served.remove(index);
        }
    }
}

/// A client and the state of its exchange.
struct Client {
    stream: TcpStream,
    address: Option<IpAddr>,
    /// End of its exchange.
    until: Instant,
    phase: Phase,
}

enum Phase {
    /// The head of the request is received; its bytes so far.
    Reading(Vec<u8>),
    /// The answer is sent; number of bytes sent.
    Writing(Arc<[u8]>, usize),
    /// The answer was sent; number of bytes that are still read before the connection is closed.
    Ending(usize),
}

impl Client {
    fn waits_for(&self) -> PollFlags {
        match self.phase {
            Phase::Writing(..) => PollFlags::OUT,
            Phase::Reading(_) | Phase::Ending(_) => PollFlags::IN,
        }
    }

    /// Continues the exchange as far as it gets without waiting. Returns `false` at its end.
    fn advance(&mut self, page: &Page) -> io::Result<bool> {
        loop {
            match self.step(page) {
                Ok(true) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                ended => return ended,
            }
        }
    }

    fn step(&mut self, page: &Page) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        match &mut self.phase {
            Phase::Reading(head) => {
                let read = self.stream.read(&mut buffer)?;
                // The end of the head may have begun in the bytes before.
                let from = head.len().saturating_sub(3);
                head.extend_from_slice(&buffer[..read]);
                if head[from..].windows(4).any(|end| end == b"\r\n\r\n") {
                    self.phase = Phase::Writing(answer_to(head, page), 0);
                } else if head.len() > HEAD_BYTES_MAX {
                    let status = "431 Request Header Fields Too Large";
                    self.phase = Phase::Writing(answer(status, "the request is too long\n"), 0);
                }
                Ok(read > 0)
            }
            Phase::Writing(answer, sent) => {
                *sent += self.stream.write(&answer[*sent..])?;
                if *sent == answer.len() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.phase = Phase::Ending(REST_BYTES_MAX);
                }
                Ok(true)
            }
            Phase::Ending(left) => {
                let read = self.stream.read(&mut buffer)?;
                *left = left.saturating_sub(read);
                Ok(read > 0 && *left > 0)
            }
        }
    }
}

/// Returns the answer to a request with this head.
fn answer_to(head: &[u8], page: &Page) -> Arc<[u8]> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next();
    if method == Some(b"GET") && path == Some(b"/metrics") {
        return page.lock().unwrap_or_else(PoisonError::into_inner).clone();
    }
    answer("404 Not Found", "the metrics are at /metrics\n")
}

#[cfg(test)]
mod tests;
