//! The division of a handshake's time. Packet numbers and acknowledgments of Initial packets show what
//! arrived, so that a repetition is attributed to a loss only where there was one.

use super::crypto_stream::Brings;
use super::thresholds::ACK_DATAGRAM_MAX_BYTES;
use crate::capture::FrameId;
use crate::model::quic::{Amplification, Part, Parts};
use crate::wire::quic::INITIAL_DATAGRAM_MIN_BYTES;
use crate::wire::{BySide, Side};
use std::ops::RangeInclusive;

/// The types of packets in a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(pub u8);

impl Kinds {
    pub const INITIAL: u8 = 1;
    pub const ZERO_RTT: u8 = 1 << 1;
    pub const HANDSHAKE: u8 = 1 << 2;
    pub const ONE_RTT: u8 = 1 << 3;
    pub const RETRY: u8 = 1 << 4;
    pub const NEGOTIATION: u8 = 1 << 5;

    pub fn has(self, kind: u8) -> bool {
        self.0 & kind != 0
    }
}

/// A datagram of a handshake.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub time_ns: u64,
    pub frame: FrameId,
    pub from: Side,
    /// Payload of the datagram, bytes.
    pub bytes: u32,
    pub kinds: Kinds,
    /// Numbers of its Initial packets.
    pub numbers: Option<RangeInclusive<u64>>,
    /// Whether the bytes of the CRYPTO frames in its Initial packets were seen before.
    pub brings: Brings,
    /// An Initial packet in it was acknowledged.
    pub is_acked: bool,
    /// Its Initial packet has a token.
    pub has_token: bool,
}

impl Sent {
    fn is(&self, from: Side, kind: u8) -> bool {
        self.from == from && self.kinds.has(kind)
    }

    /// Returns whether it carries a part of the server's flight.
    fn is_flight(&self) -> bool {
        let is_data = self.brings != Brings::Nothing || self.kinds.has(Kinds::HANDSHAKE);
        self.from == Side::Server && is_data
    }

    /// Returns whether it brings more than acknowledgments of what the client finished with.
    fn goes_on(&self) -> bool {
        let is_large = self.bytes > ACK_DATAGRAM_MAX_BYTES && self.kinds.has(Kinds::HANDSHAKE);
        self.from == Side::Server && (self.brings == Brings::New || is_large)
    }
}

/// The parts of a handshake's time, and the wait for the amplification limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Split {
    pub parts: Parts,
    pub amplification: Option<Amplification>,
}

/// Returns the place of the datagram with which the handshake ends for the client: its first one with a
/// 1-RTT packet, or else its first one with a Handshake packet.
pub(super) fn end(datagrams: &[Sent]) -> Option<usize> {
    let first = |kind| datagrams.iter().position(|it| it.is(Side::Client, kind));
    first(Kinds::ONE_RTT).or_else(|| first(Kinds::HANDSHAKE))
}

/// Divides the time from the first of `datagrams` to the one at `end`. `legs_ns` is the least round trip between
/// vantage and each side that acknowledgments show.
pub(super) fn split(datagrams: &[Sent], end: usize, legs_ns: BySide<Option<u64>>) -> Split {
    let mut split = Split::default();
    let Some(all) = datagrams.get(..=end) else { return split };
    let begin = answered_by_retry(all, &mut split.parts);
    let round = all.get(begin..).unwrap_or_default();
    let Some((first, last)) = round.first().zip(round.last()) else { return split };
    let arrived = Arrival::of(round);
    split.parts.add(Part::Client, arrived.sent_ns.saturating_sub(first.time_ns));
    split.parts.add(Part::LostInitial, arrived.arrived_ns.saturating_sub(arrived.sent_ns));
    let flight = round.iter().position(|it| it.is_flight() && it.time_ns >= arrived.arrived_ns);
    let Some(flight) = flight else {
        let rest_ns = last.time_ns.saturating_sub(arrived.arrived_ns);
        split.parts.add(Part::Unknown, rest_ns);
        return split;
    };
    until_flight(round, flight, arrived.arrived_ns, legs_ns[Side::Server], &mut split.parts);
    let stall = Stall::of(round, begin > 0, legs_ns[Side::Server].unwrap_or(0));
    after_flight(round, flight, legs_ns, stall.as_ref(), &mut split.parts);
    split.amplification = stall.map(|it| it.amplification(round));
    split
}

/// Adds the round trips that a Retry or a Version Negotiation took; returns where the client began
/// anew after the last one.
fn answered_by_retry(datagrams: &[Sent], parts: &mut Parts) -> usize {
    let mut begin = 0;
    for (place, datagram) in datagrams.iter().enumerate() {
        let part = match datagram.kinds {
            kinds if kinds.has(Kinds::RETRY) => Part::Retry,
            kinds if kinds.has(Kinds::NEGOTIATION) => Part::VersionNegotiation,
            _ => continue,
        };
        let rest = datagrams.get(place..).unwrap_or_default();
        let Some(next) = rest.iter().position(|it| it.is(Side::Client, Kinds::INITIAL)) else {
            continue;
        };
        let since_ns = datagrams[begin].time_ns;
        begin = place + next;
        parts.add(part, datagrams[begin].time_ns.saturating_sub(since_ns));
    }
    begin
}

/// When the ClientHello was sent, and when the copy that arrived was.
struct Arrival {
    /// Time at which all of it had been sent, ns.
    sent_ns: u64,
    /// Time at which the last part left that had not arrived before, ns.
    arrived_ns: u64,
}

impl Arrival {
    fn of(round: &[Sent]) -> Self {
        let hello = |brings| {
            let is_part = move |it: &&Sent| it.from == Side::Client && it.brings == brings;
            round.iter().filter(is_part)
        };
        let sent_ns = hello(Brings::New).map(|it| it.time_ns).max();
        let sent_ns = sent_ns.or(round.first().map(|it| it.time_ns)).unwrap_or(0);
        // Without any acknowledgment nothing says what arrived.
        let is_known = round.iter().any(|it| it.from == Side::Client && it.is_acked);
        let lost = hello(Brings::New).filter(|it| is_known && !it.is_acked);
        let again = |lost: &Sent| {
            let mut later = hello(Brings::Again).filter(|it| it.is_acked);
            later.find(|it| it.time_ns >= lost.time_ns).map(|it| it.time_ns)
        };
        let arrived_ns = lost.filter_map(again).max().unwrap_or(sent_ns).max(sent_ns);
        Self { sent_ns, arrived_ns }
    }
}

/// Divides the time until the server's flight begins: a round trip, and the server's own time. If its
/// first packet is not its first, earlier ones were lost.
fn until_flight(
    round: &[Sent],
    flight: usize,
    arrived_ns: u64,
    leg_ns: Option<u64>,
    parts: &mut Parts,
) {
    let waited_ns = round[flight].time_ns.saturating_sub(arrived_ns);
    let path_ns = leg_ns.unwrap_or(waited_ns).min(waited_ns);
    let answer = round.iter().find(|it| it.is(Side::Server, Kinds::INITIAL));
    let lacks_first =
        answer.and_then(|it| it.numbers.as_ref()).is_some_and(|numbers| *numbers.start() > 0);
    let rest = if lacks_first { Part::LostFlight } else { Part::Server };
    parts.add(Part::Path, path_ns);
    parts.add(rest, waited_ns - path_ns);
}

/// Divides the time from the first datagram of the server's flight to the end, silence by silence.
fn after_flight(
    round: &[Sent],
    flight: usize,
    legs_ns: BySide<Option<u64>>,
    stall: Option<&Stall>,
    parts: &mut Parts,
) {
    for place in flight + 1..round.len() {
        let (before, next) = (&round[place - 1], &round[place]);
        let ns = next.time_ns.saturating_sub(before.time_ns);
        let is_stalled = stall.is_some_and(|it| (it.from + 1..=it.to).contains(&place));
        // A repeated flight, and a repeated ClientHello that had arrived, follow a lost flight.
        let own = match next.from {
            _ if next.brings == Brings::Again => Part::LostFlight,
            Side::Server => Part::Server,
            Side::Client => Part::Client,
        };
        if is_stalled {
            parts.add(Part::Amplification, ns);
        } else if next.from != before.from {
            let path_ns = legs_ns[next.from].unwrap_or(ns).min(ns);
            parts.add(Part::Path, path_ns);
            parts.add(own, ns - path_ns);
        } else {
            // A server that is silent in its flight for longer than a round trip computes, or repeats
            // what was lost: Handshake packets do not show which.
            let round_ns = legs_ns.iter().copied().sum::<Option<u64>>().unwrap_or(u64::MAX);
            let is_unclear = own == Part::Server && ns > round_ns;
            parts.add(if is_unclear { Part::Unknown } else { own }, ns);
        }
    }
}

/// A wait of the server for its amplification limit (RFC 9000 §8.1): it could not send another full
/// datagram, and went on when a datagram of the client had arrived.
struct Stall {
    /// Place of the last datagram before it.
    from: usize,
    /// Place of the datagram with which the server went on.
    to: usize,
    received_bytes: u32,
    sent_bytes: u32,
}

impl Stall {
    /// Returns the first one. A client with a token, or one whose Handshake packet arrived, is
    /// validated. What the client sent has an effect on the packets seen here after `leg_ns` at the
    /// latest, a round trip between vantage and server.
    fn of(round: &[Sent], is_validated: bool, leg_ns: u64) -> Option<Self> {
        const FACTOR: u32 = 3;
        let of_client = || round.iter().filter(|it| it.from == Side::Client);
        if is_validated || of_client().any(|it| it.has_token) {
            return None;
        }
        let effect_ns = |it: &Sent| it.time_ns.saturating_add(leg_ns);
        let mut sent_bytes = 0_u32;
        let mut of_server = (0..).zip(round).filter(|(_, it)| it.from == Side::Server).peekable();
        while let Some((from, last)) = of_server.next() {
            let (to, next) = *of_server.peek()?;
            sent_bytes = sent_bytes.saturating_add(last.bytes);
            let arrived = || of_client().filter(|it| effect_ns(it) <= last.time_ns);
            if arrived().any(|it| it.kinds.has(Kinds::HANDSHAKE)) {
                return None;
            }
            let received_bytes = arrived().fold(0_u32, |sum, it| sum.saturating_add(it.bytes));
            let room = received_bytes.saturating_mul(FACTOR).checked_sub(sent_bytes);
            let is_full = room.is_some_and(|room| room < INITIAL_DATAGRAM_MIN_BYTES);
            let releases = |it: &Sent| it.time_ns <= next.time_ns && effect_ns(it) > last.time_ns;
            let is_released = of_client().any(releases);
            if is_full && is_released && next.goes_on() {
                return Some(Self { from, to, received_bytes, sent_bytes });
            }
        }
        None
    }

    fn amplification(&self, round: &[Sent]) -> Amplification {
        let of_server = round.iter().filter(|it| it.from == Side::Server);
        Amplification {
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
            flight_bytes: of_server.fold(0, |sum, it| sum.saturating_add(it.bytes)),
            stopped: round[self.from].frame,
            went_on: round[self.to].frame,
        }
    }
}
