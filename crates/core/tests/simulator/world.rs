//! Runs a configuration: several requests on one connection, one after the other.

use crate::config::{AMPLE_BYTES, Config, REQUESTS};
use crate::host::{Host, Options};
use crate::link::{CLIENT, Link, SERVER};
use smoltcp::wire::IpAddress;
use std::collections::VecDeque;

/// Pause of the client's application between two requests, µs.
const PAUSE_US: u64 = 5_000;

/// A run that takes longer hangs, µs.
const END_US: u64 = 120_000_000;

/// The results of a run.
pub struct Run {
    /// Time that the client waited for each response, from the call that began it, ns.
    pub walls_ns: Vec<u64>,
    /// Packets captured at the client and at the server.
    pub captures: [Vec<(u64, Vec<u8>)>; 2],
}

impl Run {
    /// Sum of the client's waits, ns.
    pub fn wall_ns(&self) -> u64 {
        self.walls_ns.iter().sum()
    }
}

/// Runs `config` to its end.
pub fn run(config: &Config) -> Run {
    let mut world = World::new(config);
    while world.client.done.len() < REQUESTS || !world.closed() {
        world.settle();
        let Some(next_us) = world.next_us() else { break };
        world.now_us = next_us;
        assert!(next_us < END_US, "{config} hangs after {:?}", world.client.done);
    }
    Run { walls_ns: world.client.done, captures: world.link.captures }
}

/// Bytes that are written, a write at a time.
type Writes = VecDeque<Vec<u8>>;

struct Client {
    host: Host,
    writes: Writes,
    began_us: Option<u64>,
    begins_us: u64,
    missing_bytes: usize,
    done: Vec<u64>,
}

struct Server {
    host: Host,
    writes: Writes,
    received_bytes: usize,
    /// Time at which the current response is ready, µs.
    ready_us: Option<u64>,
}

struct World<'a> {
    config: &'a Config,
    now_us: u64,
    link: Link,
    client: Client,
    server: Server,
}

fn request(config: &Config) -> Writes {
    let body = "q".repeat(300);
    let header = format!("POST /items HTTP/1.1\r\nHost: shop\r\nContent-Length: {}\r\n\r\n", 300);
    writes(header.into_bytes(), body.into_bytes(), config.request_in_two)
}

fn response(config: &Config) -> Writes {
    let len = config.body_bytes;
    let header = format!("HTTP/1.1 200 OK\r\nServer: sim\r\nContent-Length: {len}\r\n\r\n");
    writes(header.into_bytes(), vec![b'r'; len], config.two_writes)
}

fn writes(mut header: Vec<u8>, body: Vec<u8>, two: bool) -> Writes {
    if two {
        return Writes::from([header, body]);
    }
    header.extend(body);
    Writes::from([header])
}

fn len(writes: &Writes) -> usize {
    writes.iter().map(Vec::len).sum()
}

impl<'a> World<'a> {
    fn new(config: &'a Config) -> Self {
        let client = Options {
            nagle: config.nagle && config.request_in_two,
            ack_delay_ms: config.ack_delay_ms,
            send_bytes: AMPLE_BYTES,
            receive_bytes: config.receive_bytes,
            mtu_bytes: config.mtu_bytes,
        };
        let server = Options {
            nagle: config.nagle && !config.request_in_two,
            ack_delay_ms: config.ack_delay_ms,
            send_bytes: config.send_bytes,
            receive_bytes: AMPLE_BYTES,
            mtu_bytes: config.mtu_bytes,
        };
        let mut server = Server {
            host: Host::new(2, &server),
            writes: Writes::new(),
            received_bytes: 0,
            ready_us: None,
        };
        server.host.socket().listen(80).expect("a closed socket");
        let client = Client {
            host: Host::new(1, &client),
            writes: Writes::new(),
            began_us: None,
            begins_us: 0,
            missing_bytes: 0,
            done: Vec::new(),
        };
        let response_bytes = len(&response(config)) as u64;
        let hit_start = response_bytes * config.hit_request as u64;
        let link = Link::new(config, (hit_start, hit_start + response_bytes));
        Self { config, now_us: 0, link, client, server }
    }

    /// Lets everything happen that happens now.
    fn settle(&mut self) {
        self.client_works();
        self.server_works();
        for end in [CLIENT, SERVER] {
            while let Some(packet) = self.link.arrived(end, self.now_us) {
                match end {
                    CLIENT => self.client.host.receive(self.now_us, packet),
                    _ => self.server.host.receive(self.now_us, packet),
                }
                // Applications read at once, so acknowledged data has been read.
                self.client_works();
                self.server_works();
            }
        }
    }

    fn client_works(&mut self) {
        let client = &mut self.client;
        let due = client.done.len() < REQUESTS && self.now_us >= client.begins_us;
        if due && client.began_us.is_none() {
            client.began_us = Some(self.now_us);
            client.writes = request(self.config);
            client.missing_bytes = len(&response(self.config));
            if client.done.is_empty() {
                client.host.connect((IpAddress::v4(10, 0, 0, 2), 80), 50_000);
            }
        }
        client.missing_bytes -= read(&mut client.host);
        if client.missing_bytes == 0
            && let Some(began_us) = client.began_us.take()
        {
            client.done.push((self.now_us - began_us) * 1_000);
            client.begins_us = self.now_us + PAUSE_US;
        }
        if client.done.len() == REQUESTS && self.now_us >= client.begins_us {
            client.host.socket().close();
        }
        work(CLIENT, &mut client.host, &mut client.writes, &mut self.link, self.now_us);
    }

    fn server_works(&mut self) {
        let server = &mut self.server;
        server.received_bytes += read(&mut server.host);
        let request_bytes = len(&request(self.config));
        if server.received_bytes >= request_bytes {
            server.received_bytes -= request_bytes;
            server.ready_us = Some(self.now_us + self.config.think_ms * 1_000);
        }
        if server.ready_us.is_some_and(|ready_us| ready_us <= self.now_us) {
            server.ready_us = None;
            server.writes = response(self.config);
        }
        let socket = server.host.socket();
        if socket.is_active() && !socket.may_recv() && socket.may_send() && self.client.closing() {
            socket.close();
        }
        work(SERVER, &mut server.host, &mut server.writes, &mut self.link, self.now_us);
    }

    fn next_us(&mut self) -> Option<u64> {
        let now_us = self.now_us;
        let timers = [self.client.host.next_us(now_us), self.server.host.next_us(now_us)];
        let begins_us = self.client.begins_us;
        let pause = (begins_us > now_us).then_some(begins_us);
        [self.link.next_us(), self.server.ready_us, pause]
            .into_iter()
            .chain(timers)
            .flatten()
            .map(|at_us| at_us.max(now_us + 1))
            .min()
    }

    fn closed(&mut self) -> bool {
        !self.server.host.socket().is_open() && self.link.next_us().is_none()
    }
}

impl Client {
    fn closing(&self) -> bool {
        self.done.len() == REQUESTS
    }
}

/// Takes all that has arrived; answers how much.
fn read(host: &mut Host) -> usize {
    let socket = host.socket();
    let mut bytes = 0;
    while socket.can_recv() {
        bytes += socket.recv(|data| (data.len(), data.len())).expect("data to read");
    }
    bytes
}

/// Hands the socket one write after the other while its buffer has room, and sends.
fn work(end: usize, host: &mut Host, writes: &mut Writes, link: &mut Link, now_us: u64) {
    loop {
        let mut wrote = 0;
        if host.socket().may_send()
            && let Some(data) = writes.front_mut()
        {
            wrote = host.socket().send_slice(data).expect("an open socket");
            data.drain(..wrote);
            if data.is_empty() {
                writes.pop_front();
            }
        }
        let packets = host.transmit(now_us);
        packets.into_iter().for_each(|packet| link.send(end, now_us, packet));
        if wrote == 0 {
            return;
        }
    }
}
