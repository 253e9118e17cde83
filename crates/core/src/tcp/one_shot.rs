//! Fast path of a one-shot connection: a client connects, sends one request in one segment, gets
//! the response in one, and both sides close. With many such clients, most connections are one-shot
//! connections. A segment that was expected so is only recorded ([`OneShotConnection`]); a complete
//! one-shot connection is counted without tracking its connection ([`OneShot`]). If any other
//! segment comes, the recorded ones are first processed in full ([`OneShotConnection::replay`]), so
//! that the results are the same.

mod note;

use crate::app::{Framer, KnownHeaders, Label, Mark, Protocol, Side};
use crate::capture::FrameId;
use crate::model::Sighting;
use crate::tcp::clock::SenderClock;
use crate::tcp::connection::Connection;
use crate::tcp::path::Path;
use crate::tcp::sender::{PacketCount, smss_of};
use crate::tcp::sequence::Numbers;
use crate::tcp::shared::{Names, Shared, Software};
use crate::tcp::thresholds::{DELAYED_ACK_MAX_NS, HANDSHAKE_WAITED_FOR_NS, TIMESTAMP_PROOF_NS};
use crate::tcp::tracker::Sink;
use crate::wire::{Endpoint, FlowKey, Segment, SegmentFlags, TcpFlags};
use note::Note;
use std::sync::Arc;

/// Most segments of a one-shot connection: three of the handshake, a request, a response, two FINs,
/// and as many ACKs.
const SEGMENTS_MAX: usize = 11;

/// Most payload recorded for a one-shot connection, bytes: it is needed if the connection turns out
/// to be no one-shot connection.
const PAYLOAD_MAX: usize = 2048;

/// Flags of a segment that is a whole message.
const MESSAGE: u8 = TcpFlags::ACK | TcpFlags::PSH;

/// Flags of a FIN without data.
const LEAVES: u8 = TcpFlags::ACK | TcpFlags::FIN;

/// Properties that no segment of a one-shot connection has.
const ODD_FACTS: u16 = SegmentFlags::TRUNCATED_HEADER
    | SegmentFlags::ECN_CE
    | SegmentFlags::TUNNELLED
    | SegmentFlags::CLOCK_SET;

/// Progress of a one-shot connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Stage {
    #[default]
    Syn,
    SynAck,
    Connected,
    Asked,
    Answered,
    /// The client has acknowledged the response.
    Arrived,
}

/// A connection that has been a one-shot connection so far.
#[derive(Clone)]
pub struct OneShotConnection {
    /// Its key.
    pub key: FlowKey,
    /// Hash of the key.
    pub flow_hash: u64,
    client_is_high: bool,
    stage: Stage,
    framer: Framer,
    software: Option<Arc<Software>>,
    kind: Label,
    path: Path,
    /// By side: next sequence number, acknowledgment number, greatest segment that it may send,
    /// whether it has closed, and the packet count.
    next: [u32; 2],
    acked: [u32; 2],
    smss: [u16; 2],
    left: [bool; 2],
    packets: [(PacketCount, u64); 2],
    syn: Sighting,
    answered_syn_ns: u64,
    connected_ns: u64,
    asked: Sighting,
    answered: Sighting,
    arrived_ns: u64,
    /// Round trip between vantage and server as known when the response came, ns; at most the time
    /// waited.
    known_rtt_ns: u64,
    /// Time at which both sides had closed, ns; 0 before.
    pub over_ns: u64,
    last_ns: u64,
    ttl: u8,
    notes: Vec<Note>,
    payload: Vec<u8>,
}

/// A complete one-shot connection.
pub struct OneShot<'a> {
    /// The client.
    pub client: Endpoint,
    /// The server.
    pub server: Endpoint,
    /// Kind of the request.
    pub kind: &'a Label,
    /// Protocol.
    pub protocol: Protocol,
    /// Software that the server states.
    pub software: Option<&'a str>,
    /// TTL of the server's last packet.
    pub ttl: u8,
    /// Round trips to both ends.
    pub path: Path,
    /// The first SYN.
    pub syn: Sighting,
    /// The request.
    pub asked: Sighting,
    /// The response.
    pub answered: Sighting,
    /// Time at which the response was acknowledged, ns.
    pub arrived_ns: u64,
    /// Duration of the set-up, ns.
    pub connect_ns: u64,
    /// Time of the client, between the set-up and its request, ns.
    pub client_ns: u64,
    /// Time on the path, ns.
    pub path_ns: u64,
    /// Time of the server, ns.
    pub server_ns: u64,
}

impl OneShot<'_> {
    /// Its wall time, ns.
    #[inline]
    pub fn wall_ns(&self) -> u64 {
        self.connect_ns + self.client_ns + self.path_ns + self.server_ns
    }
}

impl OneShotConnection {
    /// Returns whether a one-shot connection may begin with `segment`.
    pub fn begins_with(segment: &Segment) -> bool {
        segment.flags.0 == TcpFlags::SYN
            && segment.payload_len == 0
            && segment.facts.0 & ODD_FACTS == 0
            && segment.facts.has(SegmentFlags::MSS)
    }

    /// A new one-shot connection that begins with `syn`, in the memory of an ended one if there is
    /// any.
    pub fn begin(syn: &Segment, room: Option<Box<Self>>, shows_values: bool) -> Box<Self> {
        let client_is_high = syn.from_high();
        let server = if client_is_high { &syn.flow.low } else { &syn.flow.high };
        let mut framer = Framer::new(server.port, false);
        if shows_values {
            framer.show_values();
        }
        let mut room = room;
        let (mut notes, mut payload) = match &mut room {
            Some(room) => (std::mem::take(&mut room.notes), std::mem::take(&mut room.payload)),
            None => (Vec::with_capacity(SEGMENTS_MAX), Vec::new()),
        };
        notes.clear();
        payload.clear();
        let candidate = Self {
            key: syn.flow,
            flow_hash: syn.flow_hash,
            client_is_high,
            stage: Stage::Syn,
            framer,
            software: None,
            kind: Label::default(),
            path: Path::default(),
            next: [syn.seq.wrapping_add(1), 0],
            acked: [0; 2],
            smss: [0; 2],
            left: [false; 2],
            packets: Default::default(),
            syn: Sighting::of(Side::Client, syn),
            answered_syn_ns: 0,
            connected_ns: 0,
            asked: Default::default(),
            answered: Default::default(),
            arrived_ns: 0,
            known_rtt_ns: 0,
            over_ns: 0,
            last_ns: syn.time_ns,
            ttl: 0,
            notes,
            payload,
        };
        let mut candidate = match room {
            Some(mut room) => {
                *room = candidate;
                room
            }
            None => Box::new(candidate),
        };
        candidate.announce(Side::Server, syn);
        candidate.count_packet(Side::Client, syn);
        candidate.notes.push(Note::of(syn));
        candidate
    }

    /// Its first frame.
    pub fn first_frame(&self) -> FrameId {
        self.syn.frame
    }

    /// Time of its first frame, ns.
    pub fn first_ns(&self) -> u64 {
        self.syn.time_ns
    }

    /// Sequence numbers of both sides, those of `key.high` second.
    pub fn numbers(&self) -> [Numbers; 2] {
        let sides = if self.client_is_high { [1, 0] } else { [0, 1] };
        sides.map(|side| Numbers::new(self.next[side], self.notes.get(side).map(|it| it.seq)))
    }

    /// Returns whether its handshake is complete.
    pub fn is_connected(&self) -> bool {
        self.stage >= Stage::Connected
    }

    /// Returns whether both sides have closed and both FINs are acknowledged.
    pub fn is_over(&self) -> bool {
        self.left == [true; 2] && self.acked == [self.next[1], self.next[0]]
    }

    /// Takes the greatest segment of `sender` from its peer's SYN.
    fn announce(&mut self, sender: Side, syn: &Segment) {
        let timestamps = syn.facts.has(SegmentFlags::TIMESTAMPS);
        self.smss[sender as usize] = smss_of(syn.mss, timestamps);
    }

    /// Counts a packet; returns whether none of `side` is missing before it, by their
    /// identifications.
    #[inline]
    fn count_packet(&mut self, side: Side, segment: &Segment) -> bool {
        let (count, number) = &mut self.packets[side as usize];
        *number += 1;
        !segment.facts.has(SegmentFlags::IPV4)
            || *number > 1 && count.take_next(segment)
            || count.follow(segment, 1, *number, false) == 0
    }

    /// Returns whether `segment` was queued, by its timestamp; the clock has to run for a while
    /// before that shows.
    #[inline]
    fn has_queued(&self, segment: &Segment) -> bool {
        segment.time_ns - self.syn.time_ns >= TIMESTAMP_PROOF_NS && self.is_late(segment)
    }

    #[cold]
    fn is_late(&self, segment: &Segment) -> bool {
        let same = |note: &&Note| note.is_of_sender(segment);
        let mut clock = SenderClock::default();
        let before = self.notes.iter().filter(same).map(|note| note.stamp());
        for (tsval, time_ns) in before.chain([(segment.tsval, segment.time_ns)]) {
            clock.observe(tsval, time_ns);
        }
        segment.facts.has(SegmentFlags::TIMESTAMPS) && clock.queued_ns() > 0
    }

    /// Processes `segment` if it was expected; otherwise returns `false`, and the one-shot
    /// connection has ended.
    #[inline]
    pub fn goes_on(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        known: &KnownHeaders,
        names: &mut Names,
    ) -> bool {
        let side =
            if segment.from_high() == self.client_is_high { Side::Client } else { Side::Server };
        let (own, peer) = (side as usize, side.peer() as usize);
        let plain = segment.facts.0 & ODD_FACTS == 0
            && segment.sack_count == 0
            && segment.window > 0
            && segment.time_ns >= self.last_ns
            && segment.captured_len == segment.payload_len
            && segment.payload_len as usize == payload.len()
            && self.notes.len() < SEGMENTS_MAX
            && self.payload.len() + payload.len() <= PAYLOAD_MAX;
        if !plain || !self.count_packet(side, segment) || self.has_queued(segment) {
            return false;
        }
        let stands = segment.seq == self.next[own] && segment.flags.has(TcpFlags::ACK);
        let taken = match self.stage {
            Stage::Syn => self.answer_syn(side, segment),
            _ if !stands => false,
            Stage::SynAck => self.connect(side, segment),
            Stage::Connected => self.ask(side, segment, payload, known, names),
            Stage::Asked if segment.flags.0 == TcpFlags::ACK => self.hear(side, segment),
            Stage::Asked => self.answer(side, segment, payload, known, names),
            Stage::Answered | Stage::Arrived => self.leave(side, segment),
        };
        if !taken {
            return false;
        }
        self.last_ns = segment.time_ns;
        if side == Side::Server {
            self.ttl = segment.ttl;
        }
        self.acked[own] = segment.ack;
        let sequence_len =
            segment.payload_len + u32::from(segment.flags.0 & (TcpFlags::SYN | TcpFlags::FIN) != 0);
        self.next[own] = segment.seq.wrapping_add(sequence_len);
        if self.over_ns == 0 && self.left[own] && self.left[peer] {
            self.over_ns = segment.time_ns;
        }
        self.notes.push(Note::of(segment));
        self.payload.extend_from_slice(payload);
        true
    }

    fn answer_syn(&mut self, side: Side, segment: &Segment) -> bool {
        let expected = side == Side::Server
            && segment.flags.0 == TcpFlags::SYN | TcpFlags::ACK
            && segment.ack == self.next[Side::Client as usize]
            && segment.payload_len == 0
            && segment.facts.has(SegmentFlags::MSS);
        self.announce(Side::Client, segment);
        self.path.sample(Side::Server, segment.time_ns - self.syn.time_ns);
        (self.stage, self.answered_syn_ns) = (Stage::SynAck, segment.time_ns);
        expected
    }

    fn connect(&mut self, side: Side, segment: &Segment) -> bool {
        self.path.sample(Side::Client, segment.time_ns - self.answered_syn_ns);
        (self.stage, self.connected_ns) = (Stage::Connected, segment.time_ns);
        side == Side::Client && self.is_pure_ack(side, segment)
    }

    /// Returns whether `segment` acknowledges all data of the peer of `side` and does nothing
    /// else.
    #[inline]
    fn is_pure_ack(&self, side: Side, segment: &Segment) -> bool {
        segment.flags.0 == TcpFlags::ACK
            && segment.payload_len == 0
            && segment.ack == self.next[side.peer() as usize]
    }

    /// Returns whether `segment` may be a whole message of `side`.
    #[inline]
    fn is_message(&self, side: Side, segment: &Segment) -> bool {
        segment.flags.0 == MESSAGE
            && segment.ack == self.next[side.peer() as usize]
            && (1..=self.smss[side as usize].into()).contains(&segment.payload_len)
    }

    /// Parses `segment` of `side`; returns whether it is a whole message with known headers.
    #[inline]
    fn read(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        known: &KnownHeaders,
        names: &mut Names,
    ) -> bool {
        if !self.is_message(side, segment) {
            return false;
        }
        let software = match self.framer.known(side, payload, 0, known) {
            Some(Mark::Request { kind, software, .. }) => {
                self.kind = *kind;
                software
            }
            Some(Mark::Response { software, .. }) => software,
            _ => return false,
        };
        if let Some(stated) = software {
            names.add(&mut self.software, side, &stated.name);
        }
        true
    }

    fn ask(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        known: &KnownHeaders,
        names: &mut Names,
    ) -> bool {
        if side != Side::Client || !self.read(side, segment, payload, known, names) {
            return false;
        }
        (self.stage, self.asked) = (Stage::Asked, Sighting::of(side, segment));
        true
    }

    /// Handles the server's ACK of the request.
    fn hear(&mut self, side: Side, segment: &Segment) -> bool {
        let heard = side == Side::Server
            && self.acked[Side::Server as usize] != segment.ack
            && self.is_pure_ack(side, segment);
        self.path.sample(Side::Server, segment.time_ns - self.asked.time_ns);
        heard
    }

    fn answer(
        &mut self,
        side: Side,
        segment: &Segment,
        payload: &[u8],
        known: &KnownHeaders,
        names: &mut Names,
    ) -> bool {
        if side != Side::Server || !self.read(side, segment, payload, known, names) {
            return false;
        }
        let waited_ns = segment.time_ns - self.asked.time_ns;
        if self.acked[Side::Server as usize] != segment.ack {
            self.path.sample(Side::Server, waited_ns);
        }
        self.known_rtt_ns = self.path.rtt_ns(Side::Server).min(waited_ns);
        (self.stage, self.answered) = (Stage::Answered, Sighting::of(side, segment));
        true
    }

    /// Handles an ACK or FIN after the response.
    fn leave(&mut self, side: Side, segment: &Segment) -> bool {
        let own = side as usize;
        let leaves = segment.flags.0 == LEAVES && !self.left[own];
        let news = segment.ack != self.acked[own];
        let expected = segment.payload_len == 0
            && (leaves || segment.flags.0 == TcpFlags::ACK && news)
            && self.may_acknowledge(side, segment.ack);
        // A client that closes before it has the response no longer waits for it.
        if !expected || leaves && side == Side::Client && self.stage == Stage::Answered && !news {
            return false;
        }
        if side == Side::Client && news && self.stage == Stage::Answered {
            self.path.sample(Side::Client, segment.time_ns - self.answered.time_ns);
            (self.stage, self.arrived_ns) = (Stage::Arrived, segment.time_ns);
        }
        self.left[own] |= leaves;
        true
    }

    /// Returns whether `ack` covers all data of the peer of `side`, with or without its FIN.
    #[inline]
    fn may_acknowledge(&self, side: Side, ack: u32) -> bool {
        let next = self.next[side.peer() as usize];
        ack == next || self.left[side.peer() as usize] && ack == next.wrapping_sub(1)
    }

    /// The one-shot connection for counting, if it is complete and its counts say everything about
    /// it.
    pub fn one_shot(&self) -> Option<OneShot<'_>> {
        let waited_ns = self.answered.time_ns.saturating_sub(self.asked.time_ns);
        let paused_ns = self.asked.time_ns.saturating_sub(self.connected_ns);
        let late_ns = self.arrived_ns.saturating_sub(self.answered.time_ns);
        let counts = self.is_over()
            && self.stage == Stage::Arrived
            && paused_ns <= HANDSHAKE_WAITED_FOR_NS
            && late_ns <= DELAYED_ACK_MAX_NS;
        if !counts {
            return None;
        }
        let [low, high] = [self.key.low, self.key.high];
        let (client, server) = if self.client_is_high { (high, low) } else { (low, high) };
        let software = self.software.as_deref().and_then(|it| it[Side::Server as usize].as_deref());
        Some(OneShot {
            client,
            server,
            kind: &self.kind,
            protocol: self.framer.protocol(),
            software,
            ttl: self.ttl,
            path: self.path,
            syn: self.syn,
            asked: self.asked,
            answered: self.answered,
            arrived_ns: self.arrived_ns,
            connect_ns: self.connected_ns - self.syn.time_ns,
            client_ns: self.asked.time_ns - self.connected_ns,
            path_ns: self.known_rtt_ns + self.path.rtt_ns(Side::Client),
            server_ns: waited_ns - self.known_rtt_ns,
        })
    }

    /// Processes the recorded segments in full, on the new `connection`.
    #[inline(never)]
    pub fn replay(&self, connection: &mut Connection, shared: &mut Shared, sink: &mut impl Sink) {
        let mut begin = 0;
        for note in &self.notes {
            let segment = note.segment(self.key, self.flow_hash, begin as u32);
            let end = begin + usize::from(note.payload_len);
            let payload = self.payload.get(begin..end).unwrap_or_default();
            connection.segment(&segment, payload, shared, sink);
            begin = end;
        }
        if self.over_ns > 0 {
            connection.set_over(self.over_ns);
        }
    }

    /// Its first segment.
    pub fn syn(&self) -> Segment {
        self.notes.first().map(|note| note.segment(self.key, self.flow_hash, 0)).unwrap_or_default()
    }

    /// Memory that it takes, bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.notes.capacity() * size_of::<Note>() + self.payload.capacity()
    }
}
