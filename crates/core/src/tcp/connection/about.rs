//! What is known of a connection: its ends, how far it has come, how it ended, what it takes.

use super::*;

impl Connection {
    /// Who opened it.
    pub fn client(&self) -> Endpoint {
        if self.client_is_high { self.key.high } else { self.key.low }
    }

    /// Who accepted it.
    pub fn server(&self) -> Endpoint {
        if self.client_is_high { self.key.low } else { self.key.high }
    }

    /// How it ended, as far as it has.
    pub fn ending(&self) -> Ending {
        self.ended().copied().unwrap_or_default()
    }

    /// Limits of the trace.
    pub fn faults(&self) -> TraceFaults {
        self.cold(|cold| &cold.faults).copied().unwrap_or_default()
    }

    /// Whether ACKs without data were sent on it and none of them was captured.
    pub fn lacks_acks(&self) -> bool {
        !self.pure_acks && self.faults().missing_acks > 0
    }

    /// What `side` says it is.
    pub fn software(&self, side: Side) -> Option<&str> {
        self.software.as_ref()?[side as usize].as_deref()
    }

    /// Messages that its server sent unasked.
    pub fn unasked(&self) -> u64 {
        self.timeline.manner.unasked.into()
    }

    /// Whether it was captured inside a tunnel.
    pub fn is_tunnelled(&self) -> bool {
        self.is_tunnelled
    }

    /// What is spoken on it.
    pub fn protocol(&self) -> Protocol {
        self.framer.protocol()
    }

    /// Whether the response under way tells where it ends.
    pub fn announces_end(&self) -> bool {
        self.framer.announces_end()
    }

    /// Whether `side` has announced more of what it has begun to say.
    pub fn owes(&self, side: Side) -> bool {
        self.framer.owes(side)
    }

    /// Whether what is spoken tells where a message ends.
    pub fn tells_ends(&self) -> bool {
        !self.framer.is_open_ended()
    }

    /// Where it was captured.
    pub fn vantage(&self) -> Vantage {
        self.path.vantage()
    }

    /// Whether this SYN begins another connection with the same addresses and ports.
    pub fn reused_by(&self, segment: &Segment) -> bool {
        if segment.flags.0 & (TcpFlags::SYN | TcpFlags::ACK) != TcpFlags::SYN {
            return false;
        }
        let over = self.ended().is_some();
        let repeated = self.syn_sequence() == Some(segment.seq);
        // Some try again after a RST, with the same number. Behind a RST of its own, which was about an older
        // connection, a client repeats its SYN.
        let reset = self.ending().reset.filter(|_| !self.repeats_syn(segment));
        let again = reset.is_some_and(|reset| segment.time_ns > reset.time_ns + TRIES_AGAIN_NS);
        let another = over || self.setup.established_ns().is_some() || self.mid_stream;
        again || !repeated && another
    }

    /// Whether this SYN repeats that of a client which has only sent a RST meanwhile: a client that gives up
    /// its attempt sends none (RFC 9293 §3.10.4), it rejects what is no answer to its SYN (§3.10.7.3).
    pub(super) fn repeats_syn(&self, segment: &Segment) -> bool {
        let by_client = |reset: Sighting| reset.from == Side::Client;
        let [client, server] = &self.senders;
        segment.flags.0 & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN
            && self.ending().reset.is_some_and(by_client)
            && self.syn_sequence() == Some(segment.seq)
            && client.last.time_ns == 0
            && server.last.time_ns == 0
    }

    /// The number of its SYN, where that was captured.
    pub fn syn_sequence(&self) -> Option<u32> {
        self.senders[Side::Client as usize].first_number()
    }

    /// Whether an exchange has begun that may lack some of its response.
    pub fn has_exchange_under_way(&self) -> bool {
        match &self.steady {
            Some(steady) => steady.is_asked(),
            None => self.timeline.lacks_response_end(),
        }
    }

    /// Whether both sides said they are done, or a RST did.
    pub fn is_over(&self) -> bool {
        self.ended().is_some_and(|ending| {
            ending.reset.is_some() || ending.fin_ns.iter().all(Option::is_some)
        })
    }

    /// Whether both sides closed, and each knows it of the other: nothing that comes later is anything to
    /// anybody who waits.
    pub fn left_cleanly(&self) -> bool {
        let both = |sender: &Sender| sender.fin().is_some_and(|fin| sender.una_seen() > fin);
        self.ending().reset.is_none() && self.senders.iter().all(both)
    }

    /// Whether both sides have closed and what one of them sent, its FIN included, is not acknowledged.
    pub fn is_unacknowledged(&self) -> bool {
        let ending = self.ending();
        ending.reset.is_none() && ending.fin_ns.iter().all(Option::is_some) && !self.left_cleanly()
    }

    /// The numbers of both sides, those of `key.high` second.
    pub fn numbers(&self) -> [Numbers; 2] {
        let sides = if self.client_is_high { [1, 0] } else { [0, 1] };
        sides.map(|side| self.senders[side].numbers(!self.mid_stream))
    }

    /// Whether `segment` is of another connection with the same addresses and ports, whose SYN was not captured:
    /// nothing follows where both sides have closed.
    pub fn is_before(&self, segment: &Segment) -> bool {
        let is_late =
            |numbers: [Numbers; 2]| numbers[segment.from_high() as usize].holds(segment.seq);
        segment.may_begin()
            && !segment.only_ends()
            && self.left_cleanly()
            && !is_late(self.numbers())
    }

    /// Whether the RST that ended it has come another way than its sender's other packets: its time
    /// to live says that something on the path sent it.
    pub fn was_cut(&self) -> bool {
        let [of_reset, of_others] = self.ending().reset_ttls;
        of_others > 0 && of_reset != of_others
    }

    /// When the last segment passed that was expected, ns, if it has.
    pub fn over_ns(&self) -> Option<u64> {
        self.ended()?.over_ns
    }

    /// Nothing more is expected after `now_ns`.
    pub fn set_over(&mut self, now_ns: u64) {
        self.ending_mut().over_ns = Some(now_ns);
    }

    /// Reads a word of each part that the next segment is going to need.
    pub fn glance(&self) -> u64 {
        let senders = self.senders.iter().map(Sender::glance).fold(0, |all, sender| all ^ sender);
        let parts = self.last.time_ns ^ self.totals.exchanges ^ self.timeline.glance();
        senders ^ parts ^ self.path.base_rtt_ns() ^ self.over_ns().unwrap_or(0)
    }

    /// Bytes of memory it holds, without what it shares with others and what only its end and
    /// faults of the trace take.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.senders.iter().map(Sender::heap_bytes).sum::<usize>()
            + self.streams.iter().map(Reassembly::heap_bytes).sum::<usize>()
            + self.timeline.heap_bytes()
            + self.framer.heap_bytes()
            + self.steady.as_deref().map_or(0, size_of_val)
            + self.standing_bytes()
    }
}
