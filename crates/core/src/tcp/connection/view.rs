//! What the tracker and the findings may ask of a connection: its progress, how it ended, and the
//! memory that it takes.

use crate::app::Protocol;
use crate::capture::FrameId;
use crate::judge::NagleEvidence;
use crate::judge::thresholds::{HOST_DELAY_MAX_NS, RTO_MIN_NS};
use crate::model::Sighting;
use crate::tcp::connection::Connection;
use crate::tcp::connection::at_end::owes_request;
use crate::tcp::connection::closing::last_data;
use crate::tcp::connection::ending::Ending;
use crate::tcp::connection::gap::nagle_evidence;
use crate::tcp::connection::icmp::IcmpReport;
use crate::tcp::connection::place::is_beside_receiver;
use crate::tcp::reassembly::Reassembly;
use crate::tcp::sender::Sender;
use crate::tcp::sequence::Numbers;
use crate::tcp::thresholds::{HANDSHAKE_WAITED_FOR_NS, PROBE_TTL_MAX};
use crate::wire::{Endpoint, IcmpErrorKind, Segment, Side, TcpFlags};

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
    /// What may be asked of the connection.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View(self)
    }
}

/// What the tracker and the findings may ask of a connection; it changes nothing.
#[derive(Clone, Copy)]
pub struct View<'a>(&'a Connection);

impl<'a> View<'a> {
    /// Returns whether both sides closed and both FINs are acknowledged.
    pub fn is_clean(self) -> bool {
        self.0.cold.ended().is_some_and(|ending| ending.is_clean(&self.0.senders))
    }

    /// Returns whether both sides have closed and the data or FIN of one is not acknowledged.
    pub fn is_unacknowledged(self) -> bool {
        self.0.cold.ended().is_some_and(|ending| ending.is_unacknowledged(&self.0.senders))
    }

    /// Returns whether the server closed first, `ns` or longer after the last data.
    pub fn is_closed_idle(self, ns: u64) -> bool {
        self.0.cold.ended().is_some_and(|ending| ending.has_closed_idle(ns, &self.0.senders))
    }

    /// Returns whether the server of HTTP/1 closed right behind an answer, though the client had not asked for
    /// that.
    pub fn is_closed_unasked(self) -> bool {
        let at_once_ns = self.0.path.base_rtt_ns() + HOST_DELAY_MAX_NS;
        self.0.framer.protocol() == Protocol::Http1
            && self.is_closed_idle(0)
            && !self.is_closed_idle(at_once_ns)
            && !self.0.framer.has_asked_last()
    }

    /// Returns whether ACKs without data were sent and none of them was captured.
    pub fn lacks_acks(self) -> bool {
        !self.0.pure_acks && self.0.cold.faults().missing_acks > 0
    }

    /// Returns whether a SYN or an ACK without data was captured.
    pub fn has_bare_segments(self) -> bool {
        let setup = &self.0.setup;
        self.0.pure_acks || setup.syns > 0 || setup.syn_acks > 0
    }

    /// Returns whether the client has not yet sent all of its request.
    pub fn owes_request(self) -> bool {
        owes_request(&self.0.framer)
    }

    /// Returns whether the vantage is at the receiver of what `side` sends, and not at its sender.
    pub fn is_beside_receiver(self, side: Side) -> bool {
        is_beside_receiver(&self.0.setup, &self.0.path, side)
    }

    /// Evidence about Nagle's algorithm at `side`.
    pub fn nagle(self, side: Side) -> NagleEvidence {
        nagle_evidence(&self.0.senders[side], &self.0.cold, self.0.framer.is_ssh)
    }

    /// Returns whether a host nearer than the server seems to acknowledge in its name, so that nothing
    /// shows what belongs to the way behind that host.
    pub fn is_acknowledged_nearer(self) -> bool {
        self.0.cold.relay().is_nearer(&self.0.setup, &self.0.path)
    }

    /// Longest round trip that may lie behind a host nearer than the server, ns, if such a host may
    /// acknowledge in its name: by that the handshake, or else each answer, took longer than an ACK.
    pub fn beyond_nearer_ns(self) -> Option<u64> {
        self.0.cold.relay().may_lie_behind_ns(&self.0.setup, &self.0.path)
    }

    /// Round trip between client and server over a proxy that acknowledges for the server, ns.
    pub fn relayed_rtt_ns(self) -> Option<u64> {
        self.0.cold.relay().rtt_ns(&self.0.setup, &self.0.path)
    }

    /// The last data that either side has sent, other than in `frame`.
    pub fn last_data(self, frame: FrameId) -> Option<Sighting> {
        last_data(&self.0.senders, frame)
    }

    /// Host, other than the server, that rejected the SYN by an ICMP error.
    pub fn rejecting_host(self) -> Option<Endpoint> {
        let of_syn = |report: &&IcmpReport| report.about_syn && report.about == Side::Client;
        let report = self.0.cold.icmp_report().filter(of_syn)?;
        (report.reporter.address != self.0.server().address).then_some(report.reporter)
    }

    /// Returns whether nothing shows that both ends take part: the handshake is incomplete, or all
    /// that was captured is a packet or two of one end.
    pub fn is_attempt(self) -> bool {
        let packets = self.0.senders.each_ref().map(|sender| sender.counts().packets);
        let is_one_sided = packets.contains(&0) && packets.iter().sum::<u64>() <= 2;
        self.0.setup.half_open() || is_one_sided
    }

    /// Name of the software that `side` states, if it states one.
    pub fn software(self, side: Side) -> Option<&'a str> {
        self.0.software.as_ref()?[side].as_deref()
    }

    /// Returns whether `segment` is a SYN that begins another connection with the same addresses
    /// and ports.
    pub fn reused_by(self, segment: &Segment) -> bool {
        if segment.flags.0 & (TcpFlags::SYN | TcpFlags::ACK) != TcpFlags::SYN {
            return false;
        }
        let over = self.0.cold.ended().is_some();
        let repeated = self.syn_sequence() == Some(segment.seq);
        // After a RST that it sent itself, about an older connection, a client repeats its SYN.
        // Some clients do so after a RST that refused it.
        let reset = self.0.cold.ending().reset.filter(|_| !self.repeats_syn(segment));
        // A SYN that the client sent before the RST reached it may follow.
        let heard_ns = self.0.path.rtt_ns(Side::Client) + HOST_DELAY_MAX_NS;
        let again = reset.is_some_and(|reset| segment.time_ns > reset.time_ns + heard_ns);
        // A client that rejected the answer of an older connection repeats its SYN.
        let rejected = self.0.setup.other_connection_segments() > 0;
        let established = self.0.setup.established_ns().is_some();
        let another = over || established || self.0.mid_stream || rejected;
        // No host sends a SYN behind its data, whatever number a program gives it.
        let said_ns = self.0.senders[Side::Client].last.time_ns;
        let waited_ns = self.0.path.base_rtt_ns() + RTO_MIN_NS;
        let said = established && said_ns > 0 && segment.time_ns > said_ns + waited_ns;
        again || said || !repeated && another
    }

    /// Returns whether `segment` is a SYN that repeats that of an attempt which only a RST has answered.
    /// A client that gives up an attempt sends no RST (RFC 9293 §3.10.4), but it sends one to
    /// reject a wrong answer to its SYN (§3.10.7.3). A client whose SYN is refused may send it again: the
    /// number shows that its application has connected once (RFC 9293 §3.4.1).
    pub fn repeats_syn(self, segment: &Segment) -> bool {
        let may_go_on = |reset: Sighting| reset.from == Side::Client || self.0.setup.refused;
        let [client, server] = &self.0.senders;
        segment.flags.0 & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN
            && self.0.cold.ending().reset.is_some_and(may_go_on)
            && self.syn_sequence() == Some(segment.seq)
            && !self.0.setup.has_heard_answer()
            && client.last.time_ns == 0
            && server.last.time_ns == 0
    }

    /// Returns whether the client may send its SYN again although that was refused.
    pub fn may_repeat_syn(self) -> bool {
        self.0.setup.refused && self.0.cold.is_over()
    }

    /// RSTs and ICMP errors after which the client sent the SYN that they refused again: their number,
    /// and the last.
    pub fn refusals(self) -> Option<(u32, Sighting)> {
        self.0.cold.get().and_then(|cold| cold.refusals.as_deref().copied())
    }

    /// Sequence number of the SYN, if it was captured.
    pub fn syn_sequence(self) -> Option<u32> {
        self.0.senders[Side::Client].space.first_number()
    }

    /// Returns whether an exchange has begun whose response may be incomplete.
    pub fn has_exchange_under_way(self) -> bool {
        match &self.0.steady {
            Some(steady) => steady.is_asked(),
            None => self.0.timeline.lacks_response_end(),
        }
    }

    /// How far the connection has come to its end.
    pub fn end(self) -> End {
        match self.0.cold.ended().filter(|ending| ending.is_over()) {
            None => End::Open,
            Some(ending) if ending.is_clean(&self.0.senders) => End::Clean,
            Some(_) => End::Over,
        }
    }

    /// Ranges of the sequence numbers of both sides, that of `key.high` second.
    pub fn numbers(self) -> [Numbers; 2] {
        let sides = if self.0.client_is_high { [1, 0] } else { [0, 1] };
        sides.map(|side| self.0.senders[side].space.numbers(!self.0.mid_stream))
    }

    /// Returns whether this connection ended before `segment`, which belongs to another one with
    /// the same addresses and ports whose SYN was not captured: no new data follows both FINs.
    pub fn ended_before(self, segment: &Segment) -> bool {
        let is_late =
            |numbers: [Numbers; 2]| numbers[segment.from_high() as usize].contains(segment.seq);
        segment.may_begin() && !segment.only_ends() && self.is_clean() && !is_late(self.numbers())
    }

    /// Returns the side that ended the connection, by its FIN or RST, and the time without data before
    /// that, ns; `None` if the capture lacks data.
    pub fn ended_first(self) -> Option<(Side, u64)> {
        let is_read = self.0.senders.iter().all(|sender| sender.history().holes.bytes() == 0);
        let first = self.0.cold.ended().filter(|_| is_read)?.first()?;
        Some((first.from, first.time_ns.saturating_sub(self.last_data_ns())))
    }

    /// Returns the FIN or RST by which the server ended the connection before either side had sent
    /// anything, and so soon after the handshake that it did not wait for a request.
    pub fn closed_at_once(self) -> Option<Sighting> {
        let Connection { setup, senders, path, cold, .. } = self.0;
        let due_ns = setup.established_ns()? + HANDSHAKE_WAITED_FOR_NS;
        let ending = cold.ending();
        let Ending { fin: [left, closed], reset, .. } = ending;
        let [by_client, by_server] = Side::ALL.map(|side| reset.filter(|it| it.from == side));
        let end = closed.or(by_server).filter(|it| it.time_ns <= due_ns + path.base_rtt_ns())?;
        let is_first = left.into_iter().chain(by_client).all(|it| it.time_ns > end.time_ns);
        let is_empty =
            |it: &Sender| it.counts().actual_data_bytes == 0 && it.history().holes.bytes() == 0;
        let is_of_server =
            is_first && self.0.at_end().shows_silence() && !ending.was_reset_on_path();
        (is_of_server && senders.iter().all(is_empty)).then_some(end)
    }

    /// Returns how long before the last data of the client its server had closed, ns, if a RST answered
    /// that data and the client had acknowledged the server's FIN.
    pub fn used_after_close_ns(self) -> Option<u64> {
        let Connection { senders, cold, .. } = self.0;
        let Ending { fin: [_, closed], last_data, .. } = cold.ending();
        let (closed, last) = (closed?, last_data.filter(|it| it.from == Side::Client)?);
        let after_ns = last.time_ns.checked_sub(closed.time_ns)?;
        senders[Side::Server].has_told_its_end().then_some(after_ns)
    }

    /// Time at which data last passed, ns.
    pub(super) fn last_data_ns(self) -> u64 {
        self.0.senders[0].last.time_ns.max(self.0.senders[1].last.time_ns)
    }

    /// Times at which the client last sent data, a request that a stream of events answers, and at which the
    /// server last sent some of these, ns; `None` if it is no such request.
    pub fn stream_of_events_ns(self) -> Option<(u64, u64)> {
        let [asked_ns, ended_ns] = Side::ALL.map(|side| self.0.senders[side].last.time_ns);
        self.0.framer.streams_events().then_some((asked_ns, ended_ns))
    }

    /// Time for which the client had sent only a part of a request, and then nothing, until either side
    /// closed or it was seen last, ns; `None` if it owes nothing, or if not all that it sent was
    /// acknowledged.
    pub fn silent_amid_request_ns(self) -> Option<u64> {
        if let Some(silent_ns) = self.0.cold.ending().amid_request_ns {
            return Some(silent_ns);
        }
        let client = &self.0.senders[Side::Client];
        let is_received =
            client.space.una_seen() >= client.space.nxt && client.history().holes.bytes() == 0;
        let ended_ns = self.0.cold.ended().and_then(Ending::first).map(|it| it.time_ns);
        let until_ns = ended_ns.unwrap_or(self.0.last.time_ns);
        let is_left = owes_request(&self.0.framer) && is_received;
        is_left.then(|| until_ns.saturating_sub(self.last_data_ns()))
    }

    /// Returns whether the server sent the last data.
    pub fn has_answered_last(self) -> bool {
        let [client, server] = &self.0.senders;
        server.last.time_ns >= client.last.time_ns
    }

    /// Memory in use, bytes, without the state that is shared or that only the ending and the
    /// defects of the capture need.
    pub fn memory_bytes(self) -> usize {
        size_of::<Connection>()
            + self.0.senders.iter().map(Sender::heap_bytes).sum::<usize>()
            + self.0.streams.iter().map(Reassembly::heap_bytes).sum::<usize>()
            + self.0.timeline.heap_bytes()
            + self.0.framer.heap_bytes()
            + self.0.steady.as_deref().map_or(0, size_of_val)
            + self.0.cold.queue_delay_bytes()
    }

    /// Returns whether the SYNs are probes: they show it themselves, or one came with a TTL with
    /// which no system begins and died on the way.
    pub fn sends_probes(self) -> bool {
        let died =
            |report: &IcmpReport| report.about_syn && report.kind == IcmpErrorKind::TimeExceeded;
        self.0.setup.is_probe()
            || self.0.setup.marks().ttl <= PROBE_TTL_MAX
                && self.0.cold.icmp_report().is_some_and(died)
    }

    /// Returns whether the connection has had an exchange.
    pub(super) fn has_exchanged(self) -> bool {
        self.0.totals.exchanges > 0 || self.0.cold.get().is_some_and(|cold| !cold.kept.is_empty())
    }

    /// Returns whether an exchange that ends now is held back until the round trip is known.
    pub(super) fn awaits_path(self) -> bool {
        let settled = Side::ALL.into_iter().all(|side| self.0.path.is_known(side));
        self.0.mid_stream && !settled && self.0.totals.exchanges == 0
    }
}
