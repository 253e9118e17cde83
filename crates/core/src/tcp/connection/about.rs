//! Properties of a connection: its ends, its progress, how it ended, and the memory that it takes.

use crate::app::{Protocol, Refused, Side};
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::model::{Sighting, Vantage};
use crate::tcp::connection::Connection;
use crate::tcp::connection::cold::CaptureFaults;
use crate::tcp::connection::ending::Ending;
use crate::tcp::reassembly::Reassembly;
use crate::tcp::sender::Sender;
use crate::tcp::sequence::Numbers;
use crate::wire::{Endpoint, Segment, TcpFlags, may_be_of_one_host};

/// How far a connection has come to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// One side at least may send.
    Open,
    /// Both sides sent a FIN, or a RST ended the connection.
    Over,
    /// Both FINs are acknowledged, too.
    Clean,
}

impl Connection {
    /// The end that opened the connection.
    pub fn client(&self) -> Endpoint {
        if self.client_is_high { self.key.high } else { self.key.low }
    }

    /// The end that accepted the connection.
    pub fn server(&self) -> Endpoint {
        if self.client_is_high { self.key.low } else { self.key.high }
    }

    /// How the connection has ended so far.
    pub fn ending(&self) -> Ending {
        self.ended().copied().unwrap_or_default()
    }

    /// Defects of the capture that concern this connection.
    pub fn faults(&self) -> CaptureFaults {
        self.cold(|cold| &cold.faults).copied().unwrap_or_default()
    }

    /// Returns whether ACKs without data were sent and none of them was captured.
    pub fn lacks_acks(&self) -> bool {
        !self.pure_acks && self.faults().missing_acks > 0
    }

    /// Returns whether nothing shows that both ends take part: the handshake is incomplete, or all
    /// that was captured is a packet or two of one end.
    pub fn is_attempt(&self) -> bool {
        let packets = self.senders.each_ref().map(|sender| sender.counts().packets);
        let is_one_sided = packets.contains(&0) && packets.iter().sum::<u64>() <= 2;
        self.setup.half_open() || is_one_sided
    }

    /// Name of the software that `side` states, if it states one.
    pub fn software(&self, side: Side) -> Option<&str> {
        self.software.as_ref()?[side as usize].as_deref()
    }

    /// Number of unsolicited messages of the server.
    pub fn unsolicited(&self) -> u64 {
        self.timeline.pattern.unsolicited.into()
    }

    /// Returns whether the connection was captured inside a tunnel.
    pub fn is_tunnelled(&self) -> bool {
        self.is_tunnelled
    }

    /// Protocol of the connection.
    pub fn protocol(&self) -> Protocol {
        self.framer.protocol()
    }

    /// Returns whether the response under way announces its end.
    pub fn announces_end(&self) -> bool {
        self.framer.announces_end()
    }

    /// Returns what the session was for and did not get, as far as commands and replies show it.
    pub fn refused(&self) -> Option<Refused> {
        self.framer.refused()
    }

    /// Returns whether `side` has begun a message whose announced length it has not yet sent.
    pub fn owes(&self, side: Side) -> bool {
        self.framer.owes(side)
    }

    /// Number of bytes that `side` has announced of its last message and not sent.
    pub fn lacking_bytes(&self, side: Side) -> u64 {
        self.framer.lacking_bytes(side)
    }

    /// Returns whether the protocol shows where messages end.
    pub fn delimits_messages(&self) -> bool {
        !self.framer.is_open_ended()
    }

    /// Location at which the connection was captured.
    pub fn vantage(&self) -> Vantage {
        self.path.vantage()
    }

    /// Returns whether `segment` is a SYN that begins another connection with the same addresses
    /// and ports.
    pub fn reused_by(&self, segment: &Segment) -> bool {
        if segment.flags.0 & (TcpFlags::SYN | TcpFlags::ACK) != TcpFlags::SYN {
            return false;
        }
        let over = self.ended().is_some();
        let repeated = self.syn_sequence() == Some(segment.seq);
        // Some clients try again with the same sequence number after a RST. After a RST that it
        // sent itself, about an older connection, a client repeats its SYN.
        let reset = self.ending().reset.filter(|_| !self.repeats_syn(segment));
        // A SYN that the client sent before the RST reached it may follow.
        let heard_ns = self.path.rtt_ns(Side::Client) + HOST_DELAY_MAX_NS;
        let again = reset.is_some_and(|reset| segment.time_ns > reset.time_ns + heard_ns);
        // A client that rejected the answer of an older connection repeats its SYN.
        let rejected = self.setup.other_connection_segments() > 0;
        let established = self.setup.established_ns().is_some();
        let another = over || established || self.mid_stream || rejected;
        again || !repeated && another
    }

    /// Returns whether `segment` is a SYN that repeats that of a client which has since sent only a
    /// RST. A client that gives up an attempt sends no RST (RFC 9293 §3.10.4), but it sends one to
    /// reject a wrong answer to its SYN (§3.10.7.3).
    pub(super) fn repeats_syn(&self, segment: &Segment) -> bool {
        let by_client = |reset: Sighting| reset.from == Side::Client;
        let [client, server] = &self.senders;
        segment.flags.0 & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN
            && self.ending().reset.is_some_and(by_client)
            && self.syn_sequence() == Some(segment.seq)
            && client.last.time_ns == 0
            && server.last.time_ns == 0
    }

    /// Sequence number of the SYN, if it was captured.
    pub fn syn_sequence(&self) -> Option<u32> {
        self.senders[Side::Client as usize].space.first_number()
    }

    /// Returns whether an exchange has begun whose response may be incomplete.
    pub fn has_exchange_under_way(&self) -> bool {
        match &self.steady {
            Some(steady) => steady.is_asked(),
            None => self.timeline.lacks_response_end(),
        }
    }

    /// Returns whether both sides sent a FIN, or a RST ended the connection.
    pub fn is_over(&self) -> bool {
        self.ended().is_some_and(|ending| {
            ending.reset.is_some() || ending.fin_ns.iter().all(Option::is_some)
        })
    }

    /// How far the connection has come to its end.
    pub fn end(&self) -> End {
        match self.is_over() {
            false => End::Open,
            true if self.left_cleanly() => End::Clean,
            true => End::Over,
        }
    }

    /// Returns whether both sides closed and both FINs are acknowledged, so that later segments
    /// have no effect.
    pub fn left_cleanly(&self) -> bool {
        let both =
            |sender: &Sender| sender.space.fin().is_some_and(|fin| sender.space.una_seen() > fin);
        self.ending().reset.is_none() && self.senders.iter().all(both)
    }

    /// Returns whether both sides have closed and the data or FIN of one is not acknowledged.
    pub fn is_unacknowledged(&self) -> bool {
        let ending = self.ending();
        ending.reset.is_none() && ending.fin_ns.iter().all(Option::is_some) && !self.left_cleanly()
    }

    /// Ranges of the sequence numbers of both sides, that of `key.high` second.
    pub fn numbers(&self) -> [Numbers; 2] {
        let sides = if self.client_is_high { [1, 0] } else { [0, 1] };
        sides.map(|side| self.senders[side].space.numbers(!self.mid_stream))
    }

    /// Returns whether this connection ended before `segment`, which belongs to another one with
    /// the same addresses and ports whose SYN was not captured: no new data follows both FINs.
    pub fn ended_before(&self, segment: &Segment) -> bool {
        let is_late =
            |numbers: [Numbers; 2]| numbers[segment.from_high() as usize].contains(segment.seq);
        segment.may_begin()
            && !segment.only_ends()
            && self.left_cleanly()
            && !is_late(self.numbers())
    }

    /// Returns whether a device on the path sent the RST: the TTL of the RST differs from that of
    /// the other packets of its sender.
    pub fn was_reset_on_path(&self) -> bool {
        let [of_reset, of_others] = self.ending().reset_ttls;
        of_others > 0 && !may_be_of_one_host(of_reset, of_others)
    }

    /// Returns the side that ended the connection, by its FIN or RST, and the time without data before
    /// that, ns; `None` if the capture lacks data.
    pub fn ended_first(&self) -> Option<(Side, u64)> {
        let is_read = self.senders.iter().all(|sender| sender.history().holes.bytes() == 0);
        let Ending { fin, reset, .. } = self.ended().filter(|_| is_read)?;
        let ends = fin.iter().chain([reset]).flatten();
        let first = ends.min_by_key(|it| (it.time_ns, it.from as usize))?;
        Some((first.from, first.time_ns.saturating_sub(self.last_data_ns())))
    }

    /// Time at which data last passed, ns.
    fn last_data_ns(&self) -> u64 {
        self.senders[0].last.time_ns.max(self.senders[1].last.time_ns)
    }

    /// Returns whether this is a WebSocket connection on which no Close frame has passed.
    pub fn lacks_close_frame(&self) -> bool {
        self.framer.lacks_close_frame()
    }

    /// Time for which the client had sent only a part of a request, and then nothing, until it left or
    /// was seen last, ns; `None` if it owes nothing, or if not all that it sent was acknowledged.
    pub fn silent_amid_request_ns(&self) -> Option<u64> {
        let client = &self.senders[Side::Client as usize];
        let is_received =
            client.space.una_seen() >= client.space.nxt && client.history().holes.bytes() == 0;
        let ends = self.ended().map(|it| it.fin.iter().chain([&it.reset]).flatten());
        let ended_ns = ends.and_then(|ends| ends.map(|it| it.time_ns).min());
        let until_ns = ended_ns.unwrap_or(self.last.time_ns);
        let is_left = self.owes_request() && is_received;
        is_left.then(|| until_ns.saturating_sub(self.last_data_ns()))
    }

    /// Returns whether the server sent the last data.
    pub fn has_answered_last(&self) -> bool {
        let [client, server] = &self.senders;
        server.last.time_ns >= client.last.time_ns
    }

    /// Time at which the last expected segment passed, ns, if it has passed.
    pub fn over_ns(&self) -> Option<u64> {
        self.ended()?.over_ns
    }

    /// Records that nothing more is expected after `now_ns`.
    pub fn set_over(&mut self, now_ns: u64) {
        self.ending_mut().over_ns = Some(now_ns);
    }

    /// Memory in use, bytes, without the state that is shared or that only the ending and the
    /// defects of the capture need.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.senders.iter().map(Sender::heap_bytes).sum::<usize>()
            + self.streams.iter().map(Reassembly::heap_bytes).sum::<usize>()
            + self.timeline.heap_bytes()
            + self.framer.heap_bytes()
            + self.steady.as_deref().map_or(0, size_of_val)
            + self.queue_delay_bytes()
    }
}
