//! A link with delay and rate that loses chosen packets, and what a capture at each end sees.

use crate::config::{Config, Loss};
use etherparse::TcpSlice;
use std::collections::VecDeque;

/// An end of the link, and an index into pairs.
pub const CLIENT: usize = 0;
/// The other end.
pub const SERVER: usize = 1;

/// Start of the run as a capture time, ns.
pub const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

/// IPv4 without options, as the stack sends it.
pub const IP_HEADER_BYTES: usize = 20;

/// Both directions of the link; all times are µs since the run began.
pub struct Link {
    delay_us: u64,
    rate_mbps: u64,
    loss: Loss,
    lost: bool,
    /// Stream range of the response that a loss hits, and how far it comes in it, hundredths.
    hit: (u64, u64),
    hit_percent: u64,
    isn: Option<u32>,
    free_us: [u64; 2],
    /// Packets in flight to each end.
    under_way: [VecDeque<(u64, Vec<u8>)>; 2],
    /// Packets captured at each end.
    pub captures: [Vec<(u64, Vec<u8>)>; 2],
}

impl Link {
    /// An empty link; `hit` is the stream range of the response that a loss hits.
    pub fn new(config: &Config, hit: (u64, u64)) -> Self {
        Self {
            delay_us: config.rtt_us / 2,
            rate_mbps: config.rate_mbps,
            loss: config.loss,
            lost: false,
            hit,
            hit_percent: config.hit_percent,
            isn: None,
            free_us: [0; 2],
            under_way: Default::default(),
            captures: Default::default(),
        }
    }

    /// Takes a packet from `end`.
    pub fn send(&mut self, end: usize, now_us: u64, packet: Vec<u8>) {
        self.capture(end, now_us, &packet);
        let bits = packet.len() as u64 * 8;
        let sent_us = now_us.max(self.free_us[end]) + bits / self.rate_mbps;
        self.free_us[end] = sent_us;
        if !self.loses(end, &packet) {
            self.under_way[1 - end].push_back((sent_us + self.delay_us, packet));
        }
    }

    /// The next packet that has arrived at `end`.
    pub fn arrived(&mut self, end: usize, now_us: u64) -> Option<Vec<u8>> {
        let (at_us, _) = self.under_way[end].front()?;
        if *at_us > now_us {
            return None;
        }
        let (at_us, packet) = self.under_way[end].pop_front()?;
        self.capture(end, at_us, &packet);
        Some(packet)
    }

    /// Returns the time at which the next packet arrives at an end, µs.
    pub fn next_us(&self) -> Option<u64> {
        self.under_way.iter().filter_map(|queue| queue.front()).map(|(at_us, _)| *at_us).min()
    }

    fn capture(&mut self, end: usize, at_us: u64, packet: &[u8]) {
        self.captures[end].push((EPOCH_NS + at_us * 1_000, packet.to_vec()));
    }

    fn loses(&mut self, end: usize, packet: &[u8]) -> bool {
        let tcp = TcpSlice::from_slice(&packet[IP_HEADER_BYTES..]).expect("a TCP segment");
        let seq = tcp.sequence_number();
        if end == SERVER && tcp.syn() {
            self.isn = Some(seq.wrapping_add(1));
        }
        let start = u64::from(seq.wrapping_sub(self.isn.unwrap_or(seq)));
        let carried = start..start + tcp.payload().len() as u64;
        let (hit_start, hit_end) = self.hit;
        let hit = match self.loss {
            Loss::None => false,
            Loss::Syn => end == CLIENT && tcp.syn(),
            Loss::Middle => {
                let middle = hit_start + (hit_end - hit_start) * self.hit_percent / 100;
                end == SERVER && carried.contains(&middle)
            }
            Loss::Tail => end == SERVER && carried.contains(&(hit_end - 1)),
        };
        let now_lost = hit && !self.lost;
        self.lost |= hit;
        now_lost
    }
}
