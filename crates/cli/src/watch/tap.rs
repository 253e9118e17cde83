//! The cost of capturing in the kernel, which the kernel charges to the processes that send and
//! receive: each packet of a watched interface is passed to the capture's filter, whether it is
//! kept or not.

use std::fs::File;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};
use tcpwhy_live::capture::Means;
use tcpwhy_live::netns::Netns;

/// Cost of one packet in the kernel, s of CPU time.
#[derive(Debug, Clone, Copy)]
struct Price {
    /// Cost of each packet that passes, since the filter runs on it.
    offered_s: f64,
    /// Additional cost of a packet that is kept: it is copied into shared memory.
    kept_s: f64,
}

/// Packet sockets, measured with a filter that keeps nothing: a saturated nginx lost 2.0 to 2.3 %
/// of its requests at 430,000 packets a second. The clone of a kept packet is included in the first
/// figure; its copy is assumed to cost as much as below.
const PACKET_SOCKET: Price = Price { offered_s: 50e-9, kept_s: 200e-9 };
/// Programs at the interface: run times that the kernel counts (`kernel.bpf_stats_enabled`), less
/// 60 ns for the counting. Measured: 99 ns with 3 of 64 connections kept, 310 ns with all of them,
/// at 170,000 to 250,000 packets a second.
const PROGRAMS: Price = Price { offered_s: 40e-9, kept_s: 210e-9 };

/// Counts the packets of the watched interfaces.
pub struct Tap {
    /// `/proc/net/dev` of the namespace; `None` if it cannot be read.
    counters: Option<File>,
    /// The interface; `None` means all of them.
    interface: Option<String>,
    last: (Instant, u64),
    price: Price,
}

impl Tap {
    /// Counts from now on at `interface` of `netns`, or at all interfaces (`any`). `means` is how
    /// packets are captured.
    pub fn new(netns: &Netns, interface: &str, means: Means) -> Self {
        // The file shows the namespace in which it was opened.
        let opened = netns.inside(|| File::open("/proc/thread-self/net/dev"));
        let counters = opened.ok().and_then(Result::ok);
        let interface = (interface != "any").then(|| interface.to_owned());
        let price = match means {
            Means::PacketSocket => PACKET_SOCKET,
            Means::Programs => PROGRAMS,
        };
        let mut tap = Self { counters, interface, last: (Instant::now(), 0), price };
        tap.last.1 = tap.packets().unwrap_or(0);
        tap
    }

    /// Returns the CPU time that the kernel took to copy `kept` packets.
    pub fn copying(&self, kept: u64) -> Duration {
        Duration::from_secs_f64(kept as f64 * self.price.kept_s)
    }

    /// Returns the share of one CPU that filtering the packets cost since the last call, whether
    /// they were kept or not.
    pub fn share(&mut self) -> f64 {
        let packets = self.packets().unwrap_or(self.last.1);
        self.share_until(Instant::now(), packets)
    }

    /// Returns that share, given that `packets` were counted until `now`.
    fn share_until(&mut self, now: Instant, packets: u64) -> f64 {
        let (then, before) = std::mem::replace(&mut self.last, (now, packets));
        let passed_s = now.duration_since(then).as_secs_f64();
        // Counters restart at 0 if an interface is created anew.
        packets.saturating_sub(before) as f64 * self.price.offered_s / passed_s.max(1e-3)
    }

    fn packets(&mut self) -> Option<u64> {
        let file = self.counters.as_mut()?;
        let mut text = String::new();
        file.rewind().ok()?;
        file.read_to_string(&mut text).ok()?;
        Some(sum(&text, self.interface.as_deref()))
    }
}

/// Returns the number of packets received and sent by `interface`, or by all. After the name come
/// eight columns for reception and eight for transmission; the second of each is packets.
fn sum(text: &str, interface: Option<&str>) -> u64 {
    let of_line = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        let is_wanted = interface.is_none_or(|wanted| name.trim() == wanted);
        let columns: Vec<u64> = counters.split_whitespace().flat_map(str::parse).collect();
        is_wanted.then_some(*columns.get(1)? + *columns.get(9)?)
    };
    text.lines().filter_map(of_line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_pass_and_packets_that_are_kept_have_their_prices() {
        let began = Instant::now();
        let shares_of = |price, packets| {
            let (counters, interface) = (None, None);
            let mut tap = Tap { counters, interface, last: (began, 1_000), price };
            let shares = [1, 2].map(|s| tap.share_until(began + Duration::from_secs(s), packets));
            assert_eq!(shares[1], 0.0, "no packet passed since");
            (shares[0], tap.copying(100_000).as_secs_f64())
        };
        let near = |is: f64, wanted: f64| assert!((is - wanted).abs() < 1e-9, "{is}, not {wanted}");
        let (socket, programs) = (shares_of(PACKET_SOCKET, 401_000), shares_of(PROGRAMS, 401_000));
        near(socket.0, 0.02);
        near(programs.0, 0.016);
        near(socket.1, 0.02);
        near(programs.1, 0.021);
        assert_eq!(shares_of(PACKET_SOCKET, 7).0, 0.0, "the interface was made anew");
    }

    #[test]
    fn packets_of_both_directions_are_counted_where_it_is_watched() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n    \
            lo: 100 7 0 0 0 0 0 0 100 7 0 0 0 0 0 0\n  \
            eth0: 900 20 0 0 0 0 0 0 300 5 0 0 0 0 0 0\n";
        assert_eq!(sum(text, Some("eth0")), 25);
        assert_eq!(sum(text, None), 39);
        assert_eq!(sum(text, Some("eth1")), 0);
        assert_eq!(sum("", None), 0);
    }
}
