//! One end: a network interface, one socket and a place where its packets wait.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

/// Packets on their way between interface and link.
struct Card {
    mtu_bytes: usize,
    received: Option<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct Received(Vec<u8>);
struct Sent<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; len];
        let result = write(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Card {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received, Sent<'_>)> {
        let packet = self.received.take()?;
        Some((Received(packet), Sent(&mut self.sent)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = self.mtu_bytes;
        capabilities.medium = Medium::Ip;
        capabilities.checksum = ChecksumCapabilities::default();
        capabilities
    }
}

/// Options of a socket.
pub struct Options {
    pub nagle: bool,
    pub ack_delay_ms: u64,
    pub send_bytes: usize,
    pub receive_bytes: usize,
    pub mtu_bytes: usize,
}

/// One end of the connection.
pub struct Host {
    interface: Interface,
    card: Card,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
}

impl Host {
    /// A host at `10.0.0.last` with one socket.
    pub fn new(last: u8, options: &Options) -> Self {
        let mtu_bytes = options.mtu_bytes;
        let mut card = Card { mtu_bytes, received: None, sent: Vec::new() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = u64::from(last);
        let mut interface = Interface::new(config, &mut card, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            let own = IpCidr::new(IpAddress::v4(10, 0, 0, last), 24);
            addresses.push(own).expect("room for one address");
        });
        let mut socket = Socket::new(
            SocketBuffer::new(vec![0; options.receive_bytes]),
            SocketBuffer::new(vec![0; options.send_bytes]),
        );
        socket.set_nagle_enabled(options.nagle);
        let delay = Duration::from_millis(options.ack_delay_ms);
        socket.set_ack_delay((options.ack_delay_ms > 0).then_some(delay));
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Self { interface, card, sockets, handle }
    }

    /// Its socket.
    pub fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Opens the connection.
    pub fn connect(&mut self, server: (IpAddress, u16), port: u16) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
        socket.connect(self.interface.context(), server, port).expect("a closed socket");
    }

    /// Takes a packet from the link.
    pub fn receive(&mut self, now_us: u64, packet: Vec<u8>) {
        self.card.received = Some(packet);
        let now = instant(now_us);
        self.interface.poll_ingress_single(now, &mut self.card, &mut self.sockets);
    }

    /// Returns all packets that the socket wants to send now.
    pub fn transmit(&mut self, now_us: u64) -> Vec<Vec<u8>> {
        let mut before = usize::MAX;
        while self.card.sent.len() != before {
            before = self.card.sent.len();
            self.interface.poll_egress(instant(now_us), &mut self.card, &mut self.sockets);
        }
        std::mem::take(&mut self.card.sent)
    }

    /// Returns the time at which its timers expire, µs.
    pub fn next_us(&mut self, now_us: u64) -> Option<u64> {
        let at = self.interface.poll_at(instant(now_us), &self.sockets)?;
        Some(at.total_micros().max(0) as u64)
    }
}

fn instant(us: u64) -> Instant {
    Instant::from_micros(us as i64)
}
