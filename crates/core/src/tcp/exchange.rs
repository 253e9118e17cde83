//! Exchanges of one connection: their start, their end, and the owners of their time.

mod account;
mod changes;
mod opening;
mod revisions;

pub use account::{Account, Concerned, GapPlace, Part};
pub use opening::Opening;

pub(in crate::tcp) use revisions::Change;
pub use revisions::{Recording, Revision};

use crate::app::{ErrorCode, Label};
use crate::capture::FrameId;
use crate::judge::{self, Gap, Turn};
use crate::model::{
    Cause, CauseSet, Class, Clearest, Family, Outcome, Owner, Sighting, Slice, Slices,
};
use crate::tcp::pause::Pauses;
use crate::tcp::setup::Split;
use crate::wire::{BySide, Side};
use std::num::NonZeroU64;

/// Part that one cause has in one exchange, with the clearest gap as evidence.
#[derive(Clone, Debug)]
pub struct Chain {
    pub cause: Cause,
    /// The silent side.
    pub sender: Side,
    /// Time that the cause owned, ns.
    pub ns: u64,
    /// Part of `ns` after the response of the exchange had begun, ns.
    pub within_ns: u64,
    /// Number of gaps.
    pub count: u32,
    /// Longest gap, ns.
    pub longest_ns: u64,
    /// Number of gaps that last half a round trip or more.
    pub long_count: u32,
    /// Number of gaps that ended with a retransmission.
    pub repairs: u32,
    /// Number of gaps that ended with a retransmission of the last data sent.
    pub tails: u32,
    /// Number of segments repeated, if the cause is a repair and the number is known.
    pub segments: u32,
    /// For a loss: time that the sender's bytes take at the observed rate, which the exchange needs
    /// in any case, ns.
    pub least_ns: u64,
    /// For losses before the vantage: time beyond that of their timers, ns, for which nothing shows that
    /// the sender waited.
    pub beyond_ns: u64,
    /// The longest gap.
    pub gap: Gap,
}

impl Chain {
    /// Creates a chain of one gap of `sender`.
    pub fn of(cause: Cause, sender: Side, ns: u64, gap: Gap) -> Self {
        let mut chain = Self {
            cause,
            sender,
            ns: 0,
            within_ns: 0,
            count: 0,
            longest_ns: ns,
            long_count: 0,
            repairs: 0,
            tails: 0,
            segments: 0,
            least_ns: 0,
            beyond_ns: 0,
            gap,
        };
        chain.count_gap(ns, &gap);
        chain
    }

    /// Adds `ns` of `gap` to the sums.
    fn count_gap(&mut self, ns: u64, gap: &Gap) {
        self.ns += ns;
        self.count += 1;
        self.long_count += u32::from(ns >= gap.rtt.base_ns / 2);
        self.repairs += u32::from(gap.repair.is_retransmission());
        if self.cause == Cause::RetransmissionTimeout
            && let Some(timer_ns) = judge::unseen_repair_ns(gap)
        {
            self.beyond_ns = self.beyond_ns.saturating_add(ns.saturating_sub(timer_ns));
        }
    }

    /// Makes `gap`, of which `longest_ns` are its own, the evidence if it is the clearest.
    fn show(&mut self, longest_ns: u64, gap: &Gap) {
        if clarity(self.cause, longest_ns, gap) > self.clarity() {
            self.longest_ns = self.longest_ns.max(longest_ns);
            self.gap = *gap;
        }
    }

    /// Rank as evidence.
    pub fn clarity(&self) -> (bool, bool, u64) {
        clarity(self.cause, self.longest_ns, &self.gap)
    }
}

/// Rank of `longest_ns` of `gap` as evidence of `cause`.
fn clarity(cause: Cause, longest_ns: u64, gap: &Gap) -> (bool, bool, u64) {
    match cause.clearest() {
        Clearest::Longest => (false, false, longest_ns),
        Clearest::Repaired => {
            (gap.repair.is_retransmission(), gap.repair.original.is_some(), longest_ns)
        }
        Clearest::EndedByAck if gap.acks.last.is_none() => (false, false, 0),
        Clearest::EndedByAck => (false, false, longest_ns),
    }
}

/// One request and its response, as experienced by the client.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// Kind of the request: `GET /items/{id}`; empty if it could not be read.
    pub kind: Label,
    /// Start of the exchange, on the vantage's clock, ns.
    pub start_ns: u64,
    /// Time at which the last byte of the exchange passed the vantage, ns.
    pub end_ns: u64,
    /// First frame of the exchange with data; the set-up may precede it.
    pub first: Sighting,
    /// Last frame of the exchange.
    pub last: Sighting,
    /// Time at which the first byte of the response passed, or was first seen if the response was
    /// in progress when the capture began, ns; 0 if none has passed.
    pub answered_ns: u64,
    /// Time of the exchange by owner; the sum is its wall time.
    pub ledger: Account,
    /// Time of the exchange by cause.
    pub chains: Vec<Chain>,
    /// How the exchange ended.
    pub outcome: Outcome,
    /// The error that the response, or an alert in the TLS handshake, reports.
    pub(super) error: Option<ErrorCode>,
    /// Delay after which the response asks the client to try again, seconds.
    pub retry_after_s: Option<u32>,
    /// Time for which the connection was idle before the exchange, ns; 0 for the first exchange.
    pub idle_ns: u64,
    /// The exchange includes the connection's set-up.
    pub connects: bool,
    /// Part of the set-up that repeated SYNs or SYN-ACKs took, ns.
    pub repeated_setup_ns: u64,
    /// Time that the client took from the end of a handshake to its next step, ns. It is no part of
    /// the wall time: the client did not wait.
    pub rested_ns: u64,
    /// A request was seen. (A server may send the first data.)
    pub request_seen: bool,
    /// The client's message came after an event of the server (`Rule::Event`).
    pub(super) follows_event: bool,
    /// Any byte of the response was seen.
    pub response_seen: bool,
    /// The request asked for a 100 Continue, and its body has not come.
    pub awaits_continue: bool,
    /// The request asked for a 100 Continue.
    pub asked_to_continue: bool,
    /// The request is complete.
    pub asked: bool,
    /// It begins when the response before it has ended, which is behind its request.
    pub(super) is_behind_reply: bool,
    /// No answer is due: the request came behind one with which the connection ends (RFC 9112 §9.6).
    pub(super) not_due: bool,
    /// The request came when the server's FIN had been acknowledged.
    pub behind_fin: bool,
    /// A TLS handshake is in progress.
    pub in_handshake: bool,
    /// Time from the first ClientHello to the second, if a HelloRetryRequest asked for that, ns.
    pub(super) hello_again_ns: u64,
    /// The TLS handshake in the exchange, if there was one.
    pub handshake: Option<Handshake>,
    /// The framer lost synchronisation: the end of the response will not be recognised.
    pub(super) endless: bool,
    /// Position of the server's stream at which the response is complete.
    pub(super) response_end: Option<NonZeroU64>,
    /// Position of the client's stream at which the request began.
    pub(super) asked_at: u64,
    /// Position of each side's stream at the start of the exchange.
    pub began_at: BySide<u64>,
    /// Pauses of the server of which it is not yet known whether the client waited.
    pub(super) pauses: Option<Box<Pauses>>,
    /// Time attributed to `congestion_window` that may still turn out to belong to a ceiling, ns.
    pub(super) provisional_ns: u64,
    /// Round trip between the vantage and each side that was used in judging, ns.
    pub(super) known_rtts_ns: BySide<u64>,
    /// Time of the server while the client sent more, ns: it is part of the wait for the response.
    pub(super) waited_ns: u64,
    /// Number of gaps in which a side with more to send waited only for one round trip of the path.
    pub path_waits: u16,
    /// Later changes of the ledger, if they are logged.
    pub revisions: Option<Box<Vec<Revision>>>,
}

/// Summary of a TLS handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handshake {
    /// The handshake was abbreviated (session resumption).
    pub resumed: bool,
    /// Size of the certificate flight, bytes.
    pub certificate_bytes: u32,
    /// The version is TLS 1.3.
    pub is_tls13: bool,
    /// Time from the first ClientHello to the second, if a HelloRetryRequest (RFC 8446 §4.1.4) asked for
    /// that, ns; 0 if there was one ClientHello.
    pub again_ns: u64,
    /// The frame that ended it.
    pub end: Sighting,
}

impl Exchange {
    /// A new exchange that begins with `seen` at `at_ns`.
    pub fn begin(seen: Sighting, at_ns: u64) -> Box<Self> {
        let (start_ns, end_ns) = (at_ns, at_ns);
        Box::new(Self { start_ns, end_ns, first: seen, last: seen, ..Self::default() })
    }

    /// Begins the exchange when the response before it has ended, at `at_ns`: until then the server worked on
    /// that.
    pub(super) fn begin_behind(&mut self, at_ns: u64, recording: Recording) {
        (self.ledger, self.chains) = (Account::default(), Vec::new());
        (self.provisional_ns, self.waited_ns, self.path_waits) = (0, 0, 0);
        self.record(recording);
        (self.start_ns, self.is_behind_reply) = (at_ns, true);
    }

    /// Adds the way of the last byte to the client, ns. The one before an exchange that begins behind another's
    /// response takes as long.
    pub(super) fn add_last_leg(&mut self, rtt_client_ns: u64) {
        if !self.is_behind_reply {
            let last_byte = self.last_byte();
            self.ledger.add_after(Owner::Path, rtt_client_ns, last_byte);
        }
    }

    /// Sets how the exchange ended. A fatal alert ends a TLS handshake, whatever follows, and a client that
    /// leaves once it has read an error has its answer.
    pub(super) fn end(&mut self, outcome: Outcome) {
        let by_client = matches!(
            outcome,
            Outcome::Reset { by: Side::Client } | Outcome::CutShort { by: Side::Client }
        );
        let is_told = outcome == Outcome::Answered || by_client || self.in_handshake;
        self.outcome = match self.error {
            Some(code) if is_told => Outcome::Error(code),
            _ => outcome,
        };
    }

    /// Returns whether all time of the exchange belongs to the path and the applications.
    pub(super) fn is_of_applications(&self) -> bool {
        let own = |chain: &Chain| chain.cause.family() == Family::Application;
        !self.connects && self.chains.iter().all(own)
    }

    /// Corrects an exchange that was judged while only upper bounds of the round trips were known:
    /// they are `known_rtts_ns`, indexed by side.
    pub(super) fn set_known_rtts(&mut self, known_rtts_ns: BySide<u64>) {
        let more_ns = |side: Side| known_rtts_ns[side].saturating_sub(self.known_rtts_ns[side]);
        let [to_client_ns, to_server_ns] = Side::ALL.map(more_ns);
        if self.outcome.is_complete() {
            self.add_last_leg(to_client_ns);
        }
        self.known_rtts_ns = known_rtts_ns;
        let answered = |chain: &&mut Chain| {
            chain.cause == Cause::ServerThink && chain.gap.turn == Turn::Answers
        };
        let Some(chain) = self.chains.iter_mut().find(answered) else { return };
        let answer = Concerned::of(Owner::Server, Cause::ServerThink).at(chain.gap.next.frame);
        let way = Slice::plain(Owner::Path, to_server_ns.min(chain.ns));
        let ns = self.ledger.transfer(answer, way);
        chain.ns -= ns.min(chain.ns);
        chain.longest_ns = chain.longest_ns.saturating_sub(ns).min(chain.ns);
        chain.gap.rtt.known_ns += ns;
        self.chains.retain(|chain| chain.ns > 0);
    }

    /// Records the round trip with which `gap` was judged.
    #[inline]
    pub(super) fn note_rtt(&mut self, gap: &Gap) {
        if gap.turn == Turn::Answers {
            let known_ns = &mut self.known_rtts_ns[gap.sender];
            *known_ns = gap.rtt.known_ns.max(*known_ns);
        }
    }

    /// Time and frame of the last byte, behind which its way to the client lies.
    pub(super) fn last_byte(&self) -> (u64, FrameId) {
        (self.end_ns, self.last.frame)
    }

    /// Wall time of the exchange, ns.
    pub fn wall_ns(&self) -> u64 {
        self.ledger.total_ns()
    }

    /// Returns whether the response is complete.
    pub fn is_complete(&self) -> bool {
        self.response_end.is_some()
    }

    /// Causes that occurred in the exchange.
    pub fn causes(&self) -> CauseSet {
        self.chains.iter().map(|chain| chain.cause).collect()
    }

    /// Returns whether this counts as an exchange: it was answered or refused, or time passed while
    /// it was not. A host's RST may have the same time as the segment that it refuses, if the
    /// capture's clock is coarse.
    pub fn counts(&self) -> bool {
        let refused = matches!(self.outcome, Outcome::Reset { by: Side::Server });
        let waited = self.end_ns > self.start_ns || refused;
        self.response_seen && self.outcome.is_complete()
            || self.is_complete()
            || waited && (self.request_seen || self.response_seen || self.handshake.is_some())
            || waited && self.error.is_some()
            || self.in_handshake && self.outcome.by() == Some(Side::Server)
            || waited && self.repeated_setup_ns > 0
    }

    /// Part of the set-up beyond one round trip of `rtt_base_ns`, ns; 0 up to twice the round trip,
    /// which is ordinary variation. A SYN-ACK that was late for other reasons shows nothing about
    /// distance.
    pub fn set_up_late_ns(&self, rtt_base_ns: u64) -> u64 {
        let connect_ns = self.ledger.of(Owner::Connect);
        let is_late = rtt_base_ns > 0 && connect_ns > 2 * rtt_base_ns;
        if is_late { connect_ns - rtt_base_ns } else { 0 }
    }

    /// Time in which the set-up was repeated, ns.
    pub fn set_up_again_ns(&self) -> u64 {
        let again = self.chains.iter().filter(|chain| chain.cause.family() == Family::SetUp);
        again.map(|chain| chain.ns).sum()
    }

    /// Position in the stream of `sender` at which its message of the exchange began, and the time
    /// of that, ns.
    pub fn began(&self, sender: Side) -> (u64, u64) {
        let at_ns = if sender == Side::Server { self.answered_ns } else { self.first.time_ns };
        (self.began_at[sender], at_ns)
    }

    /// Payload that `sender`, whose stream is at `position`, has sent in the exchange, bytes.
    pub fn sent_bytes(&self, sender: Side, position: u64) -> u64 {
        let end = self.response_end.filter(|_| sender == Side::Server);
        let end = end.map_or(position, |end| end.get().min(position));
        end.saturating_sub(self.began_at[sender])
    }

    /// Time attributed to timeouts of `sender`, ns.
    pub fn timed_out_ns(&self, sender: Side) -> u64 {
        let of_sender = self.chains.iter().filter(|chain| chain.sender == sender);
        of_sender
            .filter(|chain| chain.cause == Cause::RetransmissionTimeout)
            .map(|chain| chain.ns)
            .sum()
    }

    /// Time attributed to faults, ns.
    pub fn fault_ns(&self) -> u64 {
        let faults = self.chains.iter().filter(|chain| chain.cause.class() == Class::Fault);
        faults.map(|chain| chain.ns).sum()
    }

    /// Removes the client's pauses from the exchange if there were several.
    pub(super) fn drop_pauses(&mut self) -> bool {
        let several = |chain: &Chain| chain.cause == Cause::ClientThink && chain.count > 1;
        let paused = self.chains.iter().any(several);
        if paused {
            // On such a connection nothing waits for held data either.
            self.revise(&Change::NoNagle { sender: Side::Client, is_driven: false });
            self.revise(&Change::OwnPauses);
        }
        paused
    }

    /// Adds the time of the set-up, before the exchange's first data in `frame`.
    pub(super) fn set_up(&mut self, split: &Split, frame: FrameId) {
        for &(owner, from_ns, to_ns) in &split.spans {
            let slice = Slice::plain(owner, to_ns.saturating_sub(from_ns));
            self.ledger.add(slice, GapPlace::of_both(from_ns, frame));
        }
        self.repeated_setup_ns = split.repeated_ns();
    }

    /// Sets the cause of the repeated part of the set-up, whose time `owner` has.
    pub fn set_up_cost(&mut self, (owner, cause): (Owner, Cause), syn: Sighting) {
        let ns = self.repeated_setup_ns;
        self.ledger
            .transfer(Concerned::of(Owner::SynRetransmit, None), Slice::of(owner, cause, ns));
        let gap = Gap::between(Side::Client, self.start_ns, self.start_ns + ns, syn, syn);
        self.join(Chain::of(cause, Side::Client, ns, gap));
    }

    /// Adds the part of a gap that lies after the start of the exchange.
    pub fn attribute_since_begun(&mut self, slices: &Slices, gap: &Gap) {
        let mut before_ns = self.start_ns.saturating_sub(gap.start_ns);
        let mut at_ns = gap.start_ns;
        for slice in slices.iter() {
            let skipped_ns = before_ns.min(slice.ns);
            before_ns -= skipped_ns;
            let since_ns = at_ns + skipped_ns;
            at_ns += slice.ns;
            self.attribute_since(since_ns, &Slice { ns: slice.ns - skipped_ns, ..*slice }, gap);
        }
    }

    /// Returns whether the request or response was on its way during a gap of the client that
    /// another request ended.
    pub fn waits_through(&self, gap: &Gap) -> bool {
        let due_ns = self.first.time_ns + gap.rtt.base_ns.saturating_sub(gap.rtt.sender_ns);
        gap.asks_more() && self.is_awaiting() && gap.start_ns < due_ns
    }

    /// Returns whether the client has sent something that needs an answer: a request or a ClientHello.
    pub fn asks(&self) -> bool {
        self.request_seen || self.in_handshake
    }

    /// Returns whether the request is complete and nothing of the response has come.
    pub fn is_awaiting(&self) -> bool {
        self.asked && self.answered_ns == 0 && !self.endless
    }

    /// Adds a gap of the client before another request: this exchange was waiting for its response.
    pub fn attribute_waiting(&mut self, gap: &Gap) {
        let [path, server] = self.waiting(gap);
        let begin_ns = gap.start_ns.max(self.start_ns).min(gap.end_ns);
        let since = |start_ns| {
            let (sender, frame) = (Some(Side::Server), gap.next.frame);
            GapPlace { sender, start_ns, frame }
        };
        self.ledger.add(path, since(begin_ns));
        self.ledger.add(server, since(begin_ns + path.ns));
        self.waited_ns += server.ns;
    }

    /// Returns the slices of such a gap: the request on its way, then the server's work.
    pub fn waiting(&self, gap: &Gap) -> [Slice; 2] {
        let rtt_server_ns = gap.rtt.base_ns.saturating_sub(gap.rtt.sender_ns);
        let begin_ns = gap.start_ns.max(self.start_ns).min(gap.end_ns);
        let arrived_ns = (self.first.time_ns + rtt_server_ns).clamp(begin_ns, gap.end_ns);
        let path = Slice::plain(Owner::Path, arrived_ns - begin_ns);
        [path, judge::busy(Side::Server, gap.end_ns - arrived_ns)]
    }

    /// Adds a slice of `gap`, with which the gap begins, to the ledger and the chains.
    pub fn attribute(&mut self, slice: &Slice, gap: &Gap) {
        self.attribute_since(gap.start_ns, slice, gap);
    }

    /// Adds a slice of `gap` that begins at `start_ns` to the ledger and the chains.
    pub fn attribute_since(&mut self, start_ns: u64, slice: &Slice, gap: &Gap) {
        if slice.ns == 0 {
            return;
        }
        let (sender, frame) = (Some(gap.sender), gap.next.frame);
        self.ledger.add(*slice, GapPlace { sender, start_ns, frame });
        let on_the_way = slice.owner == Owner::Path && gap.turn == Turn::Continues;
        let on_the_way = on_the_way && 2 * slice.ns >= gap.rtt.base_ns;
        self.path_waits = self.path_waits.saturating_add(on_the_way.into());
        let Some(cause) = slice.cause else { return };
        if cause == Cause::SlowStart {
            self.provisional_ns += slice.ns;
        }
        let waited_ns =
            if cause == Cause::ServerThink { std::mem::take(&mut self.waited_ns) } else { 0 };
        let (sender, ns, tails) = (gap.sender, slice.ns + waited_ns, u32::from(gap.repair.tail));
        // A server that answers pipelined requests may continue with another response.
        let is_within = gap.turn == Turn::Continues && self.answered_ns > 0;
        let within_ns = if is_within { slice.ns } else { 0 };
        let same = |chain: &&mut Chain| chain.cause == cause && chain.sender == sender;
        match self.chains.iter_mut().find(same) {
            Some(chain) => {
                chain.within_ns += within_ns;
                chain.tails += tails;
                chain.count_gap(ns, gap);
                chain.show(ns, gap);
            }
            None => {
                self.link(Chain { tails, within_ns, ..Chain::of(cause, sender, ns, *gap) });
            }
        }
    }

    /// Adds the first chain of a cause and sender.
    #[inline(always)]
    fn link(&mut self, chain: Chain) {
        // Most exchanges have one chain; the capacity of four that a vector starts with is too
        // costly.
        if self.chains.is_empty() {
            self.chains.reserve_exact(1);
        }
        self.chains.push(chain);
    }

    #[inline(never)]
    fn join(&mut self, other: Chain) {
        let same = |chain: &&mut Chain| chain.cause == other.cause && chain.sender == other.sender;
        match self.chains.iter_mut().find(same) {
            Some(chain) => {
                chain.ns += other.ns;
                chain.within_ns += other.within_ns;
                chain.beyond_ns = chain.beyond_ns.saturating_add(other.beyond_ns);
                chain.count += other.count;
                chain.repairs += other.repairs;
                chain.tails += other.tails;
                chain.long_count += other.long_count;
                chain.show(other.longest_ns, &other.gap);
            }
            None => self.link(other),
        }
    }
}
