//! The lab's own server: HTTP with settings for every way in which a server can be slow. It reports
//! how long it really slept, which is the truth for think time.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Doing, LabError};
use crate::http;
use crate::netns::Netns;
use crate::sys::{self, TcpInfo};

/// The behaviour of the server.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// Length of the response's body, bytes; a request for `/bytes/N` gets N instead.
    pub response_bytes: u64,
    /// `true` to write header and body separately.
    pub split: bool,
    /// Think time before the header.
    pub think: Duration,
    /// Think time between header and body (needs `split`).
    pub think_before_body: Duration,
    /// Size of the writes of the body, bytes; 0 writes all at once.
    pub piece_bytes: u64,
    /// Pause between pieces.
    pub piece_pause: Duration,
    /// Pause before reading a request's body.
    pub pause_before_read: Duration,
    /// `TCP_NODELAY` on accepted sockets.
    pub nodelay: bool,
    /// `SO_SNDBUF`; 0 leaves it to the kernel.
    pub sndbuf_bytes: u64,
    /// `SO_RCVBUF`; 0 leaves it to the kernel.
    pub rcvbuf_bytes: u64,
    /// Length of the accept queue.
    pub backlog: i32,
    /// Time for which the first connection, and all later ones, stay in the accept queue.
    pub accept_pause: Duration,
    /// `true` to answer `Expect: 100-continue` before reading the body (RFC 9110 §10.1.1).
    pub continues: bool,
    /// Number of bytes of a response after which the connection is reset; 0 never resets.
    pub reset_after_bytes: u64,
    /// Resets only every so many responses.
    pub reset_every: u64,
    /// Name in the `Server:` header.
    pub name: &'static str,
}

impl Behaviour {
    /// Returns the settings of a server without a fault that answers `response_bytes` in one write.
    pub fn healthy(response_bytes: u64) -> Behaviour {
        Behaviour {
            response_bytes,
            split: false,
            think: Duration::ZERO,
            think_before_body: Duration::ZERO,
            piece_bytes: 0,
            piece_pause: Duration::ZERO,
            pause_before_read: Duration::ZERO,
            nodelay: true,
            sndbuf_bytes: 0,
            rcvbuf_bytes: 0,
            backlog: 1024,
            accept_pause: Duration::ZERO,
            continues: true,
            reset_after_bytes: 0,
            reset_every: 1,
            name: "tcpwhy-lab",
        }
    }

    /// Returns the length of the complete response with its header, as rules for message tails count
    /// it.
    pub fn message_bytes(&self) -> u64 {
        self.header(self.response_bytes).len() as u64 + self.response_bytes
    }

    fn header(&self, body_bytes: u64) -> String {
        format!(
            "HTTP/1.1 200 OK\r\nServer: {}\r\nContent-Type: application/octet-stream\r\n\
             Content-Length: {body_bytes}\r\n\r\n",
            self.name
        )
    }
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    slept_ns: AtomicU64,
    responses: AtomicU64,
    resets: AtomicU64,
    kernel: Mutex<TcpInfo>,
}

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct Server {
    endpoint: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens inside `netns` and answers each connection on its own thread.
    ///
    /// # Errors The address cannot be bound.
    pub fn start(
        netns: &Netns,
        addr: IpAddr,
        port: u16,
        behaviour: Behaviour,
    ) -> Result<Server, LabError> {
        let endpoint = SocketAddr::new(addr, port);
        let listener = netns
            .inside(|| listen(endpoint, &behaviour))?
            .doing(format!("listen at {endpoint}"))?;
        let shared = Arc::new(Shared::default());
        let (ours, behaviour) = (Arc::clone(&shared), Arc::new(behaviour));
        let thread = thread::spawn(move || accept(&listener, &ours, &behaviour));
        Ok(Server { endpoint, shared, thread: Some(thread) })
    }

    /// Address at which it listens.
    pub fn endpoint(&self) -> SocketAddr {
        self.endpoint
    }

    /// Measured think time, over all requests.
    pub fn slept_ns(&self) -> u64 {
        self.shared.slept_ns.load(Ordering::Relaxed)
    }

    /// Number of connections reset on purpose.
    pub fn resets(&self) -> u64 {
        self.shared.resets.load(Ordering::Relaxed)
    }

    /// Returns `TCP_INFO` of the closed connections' sockets. Waits up to a second for the last
    /// connection to close.
    pub fn kernel(&self, connections: u64) -> TcpInfo {
        for _ in 0..100 {
            let seen = *self.shared.kernel.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.connections >= connections {
                return seen;
            }
            thread::sleep(Duration::from_millis(10));
        }
        *self.shared.kernel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(endpoint: SocketAddr, behaviour: &Behaviour) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(endpoint), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Set before listen, because the window scale of accepted connections follows from it.
    if behaviour.rcvbuf_bytes > 0 {
        socket.set_recv_buffer_size(behaviour.rcvbuf_bytes as usize)?;
    }
    if behaviour.sndbuf_bytes > 0 {
        socket.set_send_buffer_size(behaviour.sndbuf_bytes as usize)?;
    }
    socket.bind(&endpoint.into())?;
    socket.listen(behaviour.backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, behaviour: &Arc<Behaviour>) {
    if !behaviour.accept_pause.is_zero() {
        while !shared.stop.load(Ordering::Relaxed) {
            if sys::wait_one_readable(listener.as_fd(), 50_000_000) {
                break;
            }
        }
        think(shared, behaviour.accept_pause);
    }
    while !shared.stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            wait_for_connection(listener);
            continue;
        };
        let (shared, behaviour) = (Arc::clone(shared), Arc::clone(behaviour));
        thread::spawn(move || {
            // An error means that the client has closed the connection, which ends it in any case.
            let _ = serve(stream, &shared, &behaviour);
        });
    }
}

/// Waits for a connection, but at most 50 ms, so that the stop flag is seen.
fn wait_for_connection(listener: &TcpListener) {
    sys::wait_one_readable(listener.as_fd(), 50_000_000);
}

fn serve(mut stream: TcpStream, shared: &Shared, behaviour: &Behaviour) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(behaviour.nodelay)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut rest = Vec::new();
    let result = loop {
        if let Err(error) = answer(&mut stream, &mut rest, shared, behaviour) {
            break Err(error);
        }
    };
    let info = sys::tcp_info(stream.as_fd());
    shared.kernel.lock().unwrap_or_else(PoisonError::into_inner).add(&info);
    result
}

fn answer(
    stream: &mut TcpStream,
    rest: &mut Vec<u8>,
    shared: &Shared,
    behaviour: &Behaviour,
) -> io::Result<()> {
    let request = http::read_header(stream, rest)?;
    let length = http::body_bytes(&request).unwrap_or(0);
    let mut left = length.saturating_sub(rest.len() as u64);
    rest.clear();
    if left > 0 && behaviour.continues && http::field(&request, "expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if left > 0 {
        thread::sleep(behaviour.pause_before_read);
    }
    let mut chunk = vec![0; 65_536];
    while left > 0 {
        let want = left.min(chunk.len() as u64) as usize;
        match stream.read(&mut chunk[..want])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => left -= n as u64,
        }
    }
    think(shared, behaviour.think);
    let body_bytes = bytes_asked_for(&request).unwrap_or(behaviour.response_bytes);
    let body = vec![b'd'; body_bytes as usize];
    let mut first = behaviour.header(body_bytes).into_bytes();
    let number = shared.responses.fetch_add(1, Ordering::Relaxed) + 1;
    if behaviour.reset_after_bytes > 0 && number.is_multiple_of(behaviour.reset_every.max(1)) {
        first.extend(&body);
        first.truncate(behaviour.reset_after_bytes as usize);
        return reset(stream, &first, shared);
    }
    if !behaviour.split && behaviour.piece_bytes == 0 {
        first.extend(body);
        return stream.write_all(&first);
    }
    stream.write_all(&first)?;
    think(shared, behaviour.think_before_body);
    let piece = match behaviour.piece_bytes {
        0 => body.len().max(1),
        n => n as usize,
    };
    for (number, part) in body.chunks(piece).enumerate() {
        if number > 0 {
            think(shared, behaviour.piece_pause);
        }
        stream.write_all(part)?;
    }
    Ok(())
}

/// Sends the beginning of a response and resets the connection.
fn reset(stream: &mut TcpStream, beginning: &[u8], shared: &Shared) -> io::Result<()> {
    stream.write_all(beginning)?;
    // A close without lingering discards unsent data and sends a RST (RFC 9293 §3.10.4).
    let fd = stream.as_fd();
    socket2::SockRef::from(&fd).set_linger(Some(Duration::ZERO))?;
    shared.resets.fetch_add(1, Ordering::Relaxed);
    Err(io::ErrorKind::ConnectionAborted.into())
}

/// Returns N of `GET /bytes/N`.
fn bytes_asked_for(request: &str) -> Option<u64> {
    let path = request.split(' ').nth(1)?;
    path.strip_prefix("/bytes/")?.parse().ok()
}

fn think(shared: &Shared, time: Duration) {
    if time.is_zero() {
        return;
    }
    let before_ns = sys::monotonic_ns();
    thread::sleep(time);
    shared.slept_ns.fetch_add(sys::monotonic_ns() - before_ns, Ordering::Relaxed);
}
