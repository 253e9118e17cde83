//! The lab's client: sends HTTP requests in a loop and measures each with its own clock. A
//! diagnosis is judged by these times.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::LabError;
use crate::http;
use crate::netns::{Netns, NetnsHandle};
use crate::sys::{self, TcpInfo};

/// Options of the load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Address of the server.
    pub server: SocketAddr,
    /// Number of concurrent connections, each in its own thread.
    pub connections: u64,
    /// Number of requests on each connection.
    pub requests: u64,
    /// `true` for a new connection for every request.
    pub new_connections: bool,
    /// Pause between a response and the next request.
    pub spacing: Duration,
    /// Method of the request line.
    pub method: &'static str,
    /// Path of the request line.
    pub path: String,
    /// Length of the request's body.
    pub body_bytes: u64,
    /// `true` to write header and body separately.
    pub split: bool,
    /// Bytes of the body that are written with the header if `split` is set.
    pub body_with_header_bytes: u64,
    /// Size of the writes, bytes; 0 writes all at once. Not used with `split`.
    pub write_bytes: u64,
    /// Pause between header and body.
    pub pause_before_body: Duration,
    /// `TCP_NODELAY` on the client's socket.
    pub nodelay: bool,
    /// `SO_RCVBUF`; 0 leaves it to the kernel.
    pub rcvbuf_bytes: u64,
    /// `SO_SNDBUF`; 0 leaves it to the kernel.
    pub sndbuf_bytes: u64,
    /// Bytes of a response after which the client stops reading.
    pub pause_after_bytes: u64,
    /// Time for which it then stops reading.
    pub read_pause: Duration,
    /// Time without progress after which a request fails.
    pub timeout: Duration,
    /// Pause between a failed request and the next.
    pub retry_pause: Duration,
}

impl Load {
    /// Returns a load of `requests` GETs on one keep-alive connection, with healthy settings.
    pub fn get(server: SocketAddr, requests: u64) -> Load {
        Load {
            server,
            connections: 1,
            requests,
            new_connections: false,
            spacing: Duration::ZERO,
            method: "GET",
            path: "/".to_owned(),
            body_bytes: 0,
            split: false,
            body_with_header_bytes: 0,
            write_bytes: 0,
            pause_before_body: Duration::ZERO,
            nodelay: true,
            rcvbuf_bytes: 0,
            sndbuf_bytes: 0,
            pause_after_bytes: 0,
            read_pause: Duration::ZERO,
            timeout: Duration::from_secs(30),
            retry_pause: Duration::ZERO,
        }
    }

    /// Returns the same load with POST and a body.
    pub fn post(server: SocketAddr, requests: u64, body_bytes: u64) -> Load {
        Load { method: "POST", body_bytes, ..Load::get(server, requests) }
    }
}

/// One request as the client measured it. Times are on the captures' clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Request {
    /// Time before connect, or before the first write on an open connection.
    pub start_ns: u64,
    /// Time after the last byte of the response.
    pub end_ns: u64,
    /// Time to resolve the name; 0 if there was none.
    #[serde(default)]
    pub lookup_ns: u64,
    /// Duration of connect; 0 on an open connection.
    #[serde(default)]
    pub connect_ns: u64,
    /// Address and port of the server, which distinguishes the servers of a case.
    #[serde(default)]
    pub server_endpoint: String,
    /// Duration of the TLS handshake, which follows connect; 0 without TLS.
    #[serde(default)]
    pub tls_ns: u64,
    /// Address and port of the client, which identify the connection in the capture.
    pub client_endpoint: String,
    /// Length of the request with its header, bytes.
    pub request_bytes: u64,
    /// Length of the response with its header, bytes.
    pub response_bytes: u64,
    /// Time from its first packet to its last at the client's end; `None` if not known.
    #[serde(default)]
    pub on_wire_ns: Option<u64>,
    /// The error, if it failed.
    #[serde(default)]
    pub error: Option<String>,
}

impl Request {
    /// Duration of the request.
    pub fn took_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// The results of all connections.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The requests, ordered by start.
    pub requests: Vec<Request>,
    /// `TCP_INFO` of the client's sockets, summed.
    pub kernel: TcpInfo,
}

impl Loaded {
    /// Adds the results of another load.
    pub fn add(&mut self, other: Loaded) {
        self.requests.extend(other.requests);
        self.requests.sort_by_key(|r| r.start_ns);
        self.kernel.add(&other.kernel);
    }
}

/// Runs the load from inside the client's namespace.
///
/// # Errors
/// The namespace cannot be entered. Failed requests are results, not errors.
pub fn run(netns: &Netns, load: &Load) -> Result<Loaded, LabError> {
    run_all(netns, std::slice::from_ref(load))
}

/// Runs several loads at the same time.
///
/// # Errors
/// The namespace cannot be entered. Failed requests are results, not errors.
pub fn run_all(netns: &Netns, loads: &[Load]) -> Result<Loaded, LabError> {
    let connections = loads.iter().flat_map(|load| (0..load.connections).map(move |_| load));
    let handles = connections.map(|load| netns.handle().map(|h| (h, load)));
    let handles: Vec<(NetnsHandle, &Load)> = handles.collect::<Result<_, _>>()?;
    let results: Vec<Result<Loaded, LabError>> = thread::scope(|scope| {
        let workers: Vec<_> = handles
            .into_iter()
            .map(|(h, load)| scope.spawn(move || h.enter().map(|()| Worker::new(load).run())))
            .collect();
        let join = |w: thread::ScopedJoinHandle<'_, _>| match w.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).collect()
    });
    let mut all = Loaded::default();
    for one in results {
        let one = one?;
        all.add(one);
    }
    Ok(all)
}

struct Worker<'a> {
    load: &'a Load,
    stream: Option<TcpStream>,
    rest: Vec<u8>,
    done: Loaded,
}

impl<'a> Worker<'a> {
    fn new(load: &'a Load) -> Worker<'a> {
        Worker { load, stream: None, rest: Vec::new(), done: Loaded::default() }
    }

    fn run(mut self) -> Loaded {
        let mut pause = Duration::ZERO;
        for _ in 0..self.load.requests {
            thread::sleep(pause);
            let mut request = Request {
                start_ns: sys::realtime_ns(),
                server_endpoint: self.load.server.to_string(),
                ..Default::default()
            };
            let result = self.exchange(&mut request);
            request.end_ns = sys::realtime_ns();
            request.error = result.err().map(|e| why(&e));
            let failed = request.error.is_some();
            pause = if failed { self.load.retry_pause } else { self.load.spacing };
            if self.load.new_connections || failed {
                self.close();
            }
            self.done.requests.push(request);
        }
        self.close();
        self.done
    }

    fn close(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.done.kernel.add(&sys::tcp_info(stream.as_fd()));
        }
        self.rest.clear();
    }

    fn exchange(&mut self, request: &mut Request) -> io::Result<()> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = connect(self.load)?;
                request.connect_ns = sys::realtime_ns() - request.start_ns;
                stream
            }
        };
        request.client_endpoint = stream.local_addr()?.to_string();
        let result =
            self.send(&mut stream, request).and_then(|()| self.receive(&mut stream, request));
        self.stream = Some(stream);
        result
    }

    fn send(&self, stream: &mut TcpStream, request: &mut Request) -> io::Result<()> {
        let load = self.load;
        let mut head =
            format!("{} {} HTTP/1.1\r\nHost: {}\r\n", load.method, load.path, load.server);
        head += "User-Agent: tcpwhy-lab\r\nAccept: */*\r\n";
        if load.body_bytes > 0 || load.method == "POST" {
            head += &format!("Content-Length: {}\r\n", load.body_bytes);
        }
        head += "\r\n";
        let mut first = head.into_bytes();
        let body = vec![b'u'; load.body_bytes as usize];
        request.request_bytes = (first.len() + body.len()) as u64;
        if !load.split {
            first.extend(&body);
            let piece = match load.write_bytes {
                0 => first.len(),
                n => n as usize,
            };
            return first.chunks(piece).try_for_each(|part| stream.write_all(part));
        }
        let early = load.body_with_header_bytes.min(load.body_bytes) as usize;
        first.extend(&body[..early]);
        stream.write_all(&first)?;
        thread::sleep(load.pause_before_body);
        stream.write_all(&body[early..])
    }

    fn receive(&mut self, stream: &mut TcpStream, request: &mut Request) -> io::Result<()> {
        let header = http::read_header(stream, &mut self.rest)?;
        request.response_bytes = header.len() as u64;
        let Some(length) = http::body_bytes(&header) else {
            request.response_bytes += http::read_chunked(stream, &mut self.rest)?;
            return Ok(());
        };
        let mut left = length.saturating_sub(self.rest.len() as u64);
        self.rest.clear();
        request.response_bytes += length;
        let mut paused = self.load.read_pause.is_zero();
        let mut chunk = vec![0; 65_536];
        while left > 0 {
            if !paused && length - left >= self.load.pause_after_bytes {
                thread::sleep(self.load.read_pause);
                paused = true;
            }
            let want = left.min(chunk.len() as u64) as usize;
            match stream.read(&mut chunk[..want])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => left -= n as u64,
            }
        }
        if !header.starts_with("HTTP/1.1 2") {
            let status = header.lines().next().unwrap_or_default().to_owned();
            return Err(io::Error::other(status));
        }
        Ok(())
    }
}

fn connect(load: &Load) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(load.server), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(load.nodelay)?;
    if load.rcvbuf_bytes > 0 {
        socket.set_recv_buffer_size(load.rcvbuf_bytes as usize)?;
    }
    if load.sndbuf_bytes > 0 {
        socket.set_send_buffer_size(load.sndbuf_bytes as usize)?;
    }
    socket.connect_timeout(&load.server.into(), load.timeout)?;
    socket.set_read_timeout(Some(load.timeout))?;
    socket.set_write_timeout(Some(load.timeout))?;
    Ok(socket.into())
}

/// Describes why a request failed. A socket's timeout is reported as `WouldBlock`.
pub fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "timed out".to_owned(),
        _ => error.to_string(),
    }
}
