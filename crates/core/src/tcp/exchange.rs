//! Exchanges of one connection: when they begin and end, and who owned their time.

mod opening;

pub use opening::Opening;

use crate::app::{Label, Side};
use crate::capture::FrameId;
use crate::cause::{self, Cause, Class, Owner, Slice, Slices};
use crate::report::Shares;
use crate::tcp::gap::{Gap, Turn};
use crate::tcp::pause::Pauses;
use crate::tcp::sent::Sighting;
use std::num::NonZeroU64;

/// A reader who closes his window fewer times is one who was late now and then.
const CLOSED_OFTEN: u32 = 3;

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// The response was complete, or the next request began.
    #[default]
    Complete,
    /// A RST ended it.
    Reset {
        /// Who sent the RST.
        by: Side,
    },
    /// The connection was closed before the response was complete.
    Closed,
    /// The capture or the patience of the sender ended before the response did.
    Unfinished,
}

/// A cause's part in one exchange, with the clearest instance of its chain of events.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The cause.
    pub cause: Cause,
    /// Who held things up: the sender that was silent.
    pub sender: Side,
    /// Time it owned, ns.
    pub ns: u64,
    /// How many silences.
    pub count: u32,
    /// The longest of them, ns.
    pub longest_ns: u64,
    /// Those that ended with a repetition of the last data there was.
    pub tails: u32,
    /// Segments that were sent again, where it is a repair and that is known.
    pub segments: u32,
    /// What the bytes of its sender take at the rate that was observed, where it is a loss, ns: the exchange
    /// takes no less without it.
    pub least_ns: u64,
    /// The longest one, in full.
    pub gap: Gap,
}

impl Chain {
    /// One silence of `sender`, and nothing else of it.
    pub fn of(cause: Cause, sender: Side, ns: u64, gap: Gap) -> Self {
        let (count, tails, segments, least_ns) = (1, 0, 0, 0);
        Self { cause, sender, ns, count, longest_ns: ns, tails, segments, least_ns, gap }
    }

    /// How clearly its longest silence shows the cause: of losses, those whose repair and whose
    /// original were seen say most; of holds, those least that no ACK ended.
    pub fn clarity(&self) -> (bool, bool, u64) {
        let of_loss = matches!(
            self.cause,
            Cause::RetransmissionTimeout | Cause::FastRecovery | Cause::MtuBlackHole
        );
        let repaired = self.gap.retransmission.is_some();
        let unmet = self.cause == Cause::NagleDelayedAck && self.gap.ack.is_none();
        let longest_ns = if unmet { 0 } else { self.longest_ns };
        (of_loss && repaired, of_loss && self.gap.original.is_some(), longest_ns)
    }
}

/// What of a set-up that took `connect_ns` is beyond the round trip, ns, where that is known.
#[inline]
pub fn set_up_late_ns(connect_ns: u64, rtt_base_ns: u64) -> u64 {
    let is_late = rtt_base_ns > 0 && connect_ns > 2 * rtt_base_ns;
    if is_late { connect_ns - rtt_base_ns } else { 0 }
}

/// One request and its response, as its client experienced it.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// What was asked: `GET /items/{id}`; empty where it could not be read.
    pub kind: Label,
    /// When it began, on the vantage's clock, ns.
    pub start_ns: u64,
    /// When its last byte passed the vantage, ns.
    pub end_ns: u64,
    /// Its first frame with data; it may have begun with the set-up before that.
    pub first: Sighting,
    /// Its last frame.
    pub last: Sighting,
    /// When its response began to pass, ns, or was first seen to, where it was under way when the capture
    /// began; 0 if none of it has passed.
    pub answered_ns: u64,
    /// Who owned its time; the sum is its wall time.
    pub ledger: Shares,
    /// What causes had a part in it.
    pub chains: Vec<Chain>,
    /// How it ended.
    pub outcome: Outcome,
    /// How long the connection had been idle before it, ns; 0 for its first.
    pub idle_ns: u64,
    /// It includes the connection's set-up.
    pub connects: bool,
    /// Of the set-up, what went to repeated SYNs or SYN-ACKs, ns.
    pub repeated_setup_ns: u64,
    /// A request was seen (a server may speak first).
    pub request_seen: bool,
    /// Any byte of the response was seen.
    pub response_seen: bool,
    /// The request's header asked for a 100 Continue and its body has not come.
    pub awaits_continue: bool,
    /// Its request is complete.
    pub asked: bool,
    /// TLS handshake under way.
    pub in_handshake: bool,
    /// A TLS handshake was part of it.
    pub handshake: Option<Handshake>,
    /// The framer lost the thread: the end of the response will not be told.
    pub(super) endless: bool,
    /// Position of the server's stream at which the response is complete.
    pub(super) response_end: Option<NonZeroU64>,
    /// Bytes of both streams, by who sent them: where they stood at its beginning.
    pub began_at: [u64; 2],
    /// Pauses of its server after which it is not known who waited.
    pub(super) pauses: Option<Box<Pauses>>,
    /// Time in `congestion_window` that may still turn out to be a ceiling's, by sender.
    pub(super) provisional_ns: u64,
    /// The ways from and to the vantage that its path has, by side, ns.
    pub(super) ways_ns: [u64; 2],
    /// Its server's time while its client said more, which belongs to the wait for the answer, ns.
    pub(super) waited_ns: u64,
    /// Silences in which a side that had more to say waited for a round trip of the path, and for nothing
    /// else.
    pub path_waits: u16,
}

/// What is known of a TLS handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handshake {
    /// Abbreviated.
    pub resumed: bool,
    /// Size of the certificate flight.
    pub certificate_bytes: u32,
}

impl Exchange {
    /// Begins with `seen` at `start_ns`, whatever it was before. It is large, and most of it nothing:
    /// in its place that takes less than to make it elsewhere and move it.
    pub fn begin(&mut self, seen: Sighting, at_ns: u64) {
        // All of them by name, so that none is forgotten.
        let Self {
            kind,
            start_ns,
            end_ns,
            first,
            last,
            answered_ns,
            ledger,
            chains,
            outcome,
            idle_ns,
            connects,
            repeated_setup_ns,
            request_seen,
            response_seen,
            awaits_continue,
            asked,
            in_handshake,
            handshake,
            endless,
            response_end,
            began_at,
            pauses,
            provisional_ns,
            ways_ns,
            waited_ns,
            path_waits,
        } = self;
        kind.clear();
        chains.clear();
        (*start_ns, *end_ns, *answered_ns) = (at_ns, at_ns, 0);
        (*first, *last) = (seen, seen);
        (*ledger, *outcome) = (Shares::default(), Outcome::default());
        (*idle_ns, *repeated_setup_ns, *provisional_ns, *waited_ns) = (0, 0, 0, 0);
        *path_waits = 0;
        (*connects, *request_seen, *response_seen) = (false, false, false);
        (*awaits_continue, *asked, *in_handshake, *endless) = (false, false, false, false);
        (*handshake, *response_end, *pauses) = (None, None, None);
        (*began_at, *ways_ns) = ([0; 2], [0; 2]);
    }

    /// Whether all of its time is the path's and that of the applications at its ends.
    pub(super) fn is_of_applications(&self) -> bool {
        let own = |cause| matches!(cause, Cause::ServerThink | Cause::ClientThink);
        !self.connects && self.chains.iter().all(|chain| own(chain.cause))
    }

    /// It was judged before more was known of the way to both ends than that it is no longer than some time:
    /// now it is `ways_ns`, by side.
    pub(super) fn learn_ways(&mut self, ways_ns: [u64; 2]) {
        let more_ns =
            |side: Side| ways_ns[side as usize].saturating_sub(self.ways_ns[side as usize]);
        let [to_client_ns, to_server_ns] = Side::ALL.map(more_ns);
        if self.outcome == Outcome::Complete {
            self.ledger.add(Owner::Path, to_client_ns);
        }
        self.ways_ns = ways_ns;
        let answered = |chain: &&mut Chain| {
            chain.cause == Cause::ServerThink && chain.gap.turn == Turn::Answers
        };
        let Some(chain) = self.chains.iter_mut().find(answered) else { return };
        let ns = self.ledger.transfer(Owner::Server, Owner::Path, to_server_ns.min(chain.ns));
        chain.ns -= ns.min(chain.ns);
        chain.longest_ns = chain.longest_ns.saturating_sub(ns).min(chain.ns);
        chain.gap.way_ns += ns;
        self.chains.retain(|chain| chain.ns > 0);
    }

    /// `gap` was judged with what is known of the way.
    #[inline]
    pub(super) fn note_way(&mut self, gap: &Gap) {
        if gap.turn == Turn::Answers {
            let known_ns = &mut self.ways_ns[gap.sender as usize];
            *known_ns = gap.way_ns.max(*known_ns);
        }
    }

    /// Its wall time, ns.
    pub fn wall_ns(&self) -> u64 {
        self.ledger.total_ns()
    }

    /// Whether its response was complete.
    pub fn is_complete(&self) -> bool {
        self.response_end.is_some()
    }

    /// The causes that had a part in it, one bit each.
    pub fn causes(&self) -> u64 {
        self.chains.iter().fold(0, |all, chain| all | 1 << chain.cause as u64)
    }

    /// Whether it is an exchange at all: something was asked and answered, or refused, or time went by
    /// while it was not. A host's RST may bear the time of what it refuses, where the capture's clock is coarse.
    pub fn counts(&self) -> bool {
        let refused = matches!(self.outcome, Outcome::Reset { by: Side::Server });
        let waited = self.end_ns > self.start_ns || refused;
        self.response_seen && self.outcome == Outcome::Complete
            || self.is_complete()
            || waited && (self.request_seen || self.response_seen || self.handshake.is_some())
            || waited && self.repeated_setup_ns > 0
    }

    /// By how much its set-up took longer than the way there and back, `rtt_base_ns`, explains: a SYN-ACK
    /// that came late for other reasons tells of no distance. Up to twice as long is what varies, ns.
    pub fn set_up_late_ns(&self, rtt_base_ns: u64) -> u64 {
        set_up_late_ns(self.ledger.of(Owner::Connect), rtt_base_ns)
    }

    /// Time of it in which its set-up was repeated, ns.
    pub fn set_up_again_ns(&self) -> u64 {
        let of_set_up = |cause| matches!(cause, Cause::SynRetransmit | Cause::AcceptQueueOverflow);
        let again = self.chains.iter().filter(|chain| of_set_up(chain.cause));
        again.map(|chain| chain.ns).sum()
    }

    /// Where in the stream of `sender`, and when, its message began, ns.
    pub fn began(&self, sender: Side) -> (u64, u64) {
        let at_ns = if sender == Side::Server { self.answered_ns } else { self.first.time_ns };
        (self.began_at[sender as usize], at_ns)
    }

    /// Payload of it that `sender` has sent, whose stream has come to `position`, bytes.
    pub fn sent_bytes(&self, sender: Side, position: u64) -> u64 {
        let end = self.response_end.filter(|_| sender == Side::Server);
        let end = end.map_or(position, |end| end.get().min(position));
        end.saturating_sub(self.began_at[sender as usize])
    }

    /// Time of it that losses of `sender` found by timer own, ns.
    pub fn timed_out_ns(&self, sender: Side) -> u64 {
        let of_sender = self.chains.iter().filter(|chain| chain.sender == sender);
        of_sender
            .filter(|chain| chain.cause == Cause::RetransmissionTimeout)
            .map(|chain| chain.ns)
            .sum()
    }

    /// Time of it that faults own, ns.
    pub fn fault_ns(&self) -> u64 {
        let faults = self.chains.iter().filter(|chain| chain.cause.class() == Class::Fault);
        faults.map(|chain| chain.ns).sum()
    }

    /// The sender turned out not to use Nagle's algorithm: its holds were its application's.
    pub fn refute_nagle(&mut self, sender: Side) {
        let (cause, owner) = match sender {
            Side::Client => (Cause::ClientThink, Owner::Client),
            Side::Server => (Cause::ServerThink, Owner::Server),
        };
        let held = self
            .chains
            .iter()
            .find(|chain| chain.cause == Cause::NagleDelayedAck && chain.sender == sender);
        if let Some(chain) = held {
            self.ledger.transfer(Owner::NagleDelayedAck, owner, chain.ns);
            self.rename(sender, Cause::NagleDelayedAck, cause);
        }
    }

    /// Takes the client's pauses out, where it went on after several.
    pub(super) fn drop_pauses(&mut self) -> bool {
        let several = |chain: &Chain| chain.cause == Cause::ClientThink && chain.count > 1;
        let paused = self.chains.iter().any(several);
        if paused {
            // Nor does anybody wait for what is held back on such a way.
            self.refute_nagle(Side::Client);
            self.take_pauses_out();
        }
        paused
    }

    /// Takes the client's time out.
    pub(super) fn take_pauses_out(&mut self) {
        let mut ledger = Shares::default();
        let all = self.ledger.ledger();
        let others = all.iter().filter(|(owner, _)| *owner != Owner::Client);
        others.for_each(|(owner, ns)| ledger.add(owner, ns));
        self.ledger = ledger;
        self.chains.retain(|chain| chain.cause != Cause::ClientThink);
    }

    /// Names what the repeated part of the set-up was.
    pub fn set_up_cost(&mut self, cause: Cause, syn: Sighting) {
        let ns = self.repeated_setup_ns;
        let gap = Gap::between(Side::Client, self.start_ns, self.start_ns + ns, syn, syn);
        self.join(Chain::of(cause, Side::Client, ns, gap));
    }

    /// Adds what of a silence lies after its beginning: what was before is others'.
    pub fn own_since_begun(&mut self, slices: &Slices, gap: &Gap) {
        let mut before_ns = self.start_ns.saturating_sub(gap.start_ns);
        for slice in slices.iter() {
            let skipped_ns = before_ns.min(slice.ns);
            before_ns -= skipped_ns;
            self.own(&Slice { ns: slice.ns - skipped_ns, ..*slice }, gap);
        }
    }

    /// Whether its request, or the answer to it, is on its way in a silence of the client that another
    /// request ended.
    pub fn waits_through(&self, gap: &Gap) -> bool {
        let due_ns = self.first.time_ns + gap.rtt_base_ns.saturating_sub(gap.rtt_sender_ns);
        gap.asks_more() && self.is_awaiting() && gap.start_ns < due_ns
    }

    /// Whether its request is complete, and nothing of its response has come.
    pub fn is_awaiting(&self) -> bool {
        self.asked && self.answered_ns == 0 && !self.endless
    }

    /// Adds a silence of the client, which keeps another request back: this one waits for its answer.
    pub fn own_waiting(&mut self, gap: &Gap) {
        let [path, server] = self.waiting(gap);
        self.ledger.add(Owner::Path, path.ns);
        self.ledger.add(Owner::Server, server.ns);
        self.waited_ns += server.ns;
    }

    /// Such a silence: its request is on its way, and then its server works.
    pub fn waiting(&self, gap: &Gap) -> [Slice; 2] {
        let rtt_server_ns = gap.rtt_base_ns.saturating_sub(gap.rtt_sender_ns);
        let begin_ns = gap.start_ns.max(self.start_ns).min(gap.end_ns);
        let there_ns = (self.first.time_ns + rtt_server_ns).clamp(begin_ns, gap.end_ns);
        let path = Slice::plain(Owner::Path, there_ns - begin_ns);
        [path, cause::busy(Side::Server, gap.end_ns - there_ns)]
    }

    /// Adds a slice of a silence.
    pub fn own(&mut self, slice: &Slice, gap: &Gap) {
        if slice.ns == 0 {
            return;
        }
        self.ledger.add(slice.owner, slice.ns);
        let on_the_way = slice.owner == Owner::Path && gap.turn == Turn::Continues;
        let on_the_way = on_the_way && 2 * slice.ns >= gap.rtt_base_ns;
        self.path_waits = self.path_waits.saturating_add(on_the_way.into());
        let Some(cause) = slice.cause else { return };
        if cause == Cause::SlowStart {
            self.provisional_ns += slice.ns;
        }
        let waited_ns =
            if cause == Cause::ServerThink { std::mem::take(&mut self.waited_ns) } else { 0 };
        let (sender, ns, tails) = (gap.sender, slice.ns + waited_ns, u32::from(gap.tail));
        if !self.chains.iter().any(|chain| chain.cause == cause && chain.sender == sender) {
            return self.link(Chain { tails, ..Chain::of(cause, sender, ns, *gap) });
        }
        self.join(Chain { tails, ..Chain::of(cause, sender, ns, *gap) });
    }

    /// Adds the first that it has of a cause and sender.
    #[inline(always)]
    fn link(&mut self, chain: Chain) {
        // Most exchanges have one: room for four, as a vector makes it, costs them dear.
        if self.chains.is_empty() {
            self.chains.reserve_exact(1);
        }
        self.chains.push(chain);
    }

    /// What `sender` lost by `from` turned out to be `to`, with the same owner.
    pub fn rename(&mut self, sender: Side, from: Cause, to: Cause) {
        let same = |chain: &Chain| chain.cause == from && chain.sender == sender;
        while let Some(index) = self.chains.iter().position(same) {
            let mut chain = self.chains.swap_remove(index);
            chain.cause = to;
            if from == Cause::CongestionWindow {
                // The wait after a repair is the loss's doing, but it is not a loss.
                chain.count = 0;
                chain.longest_ns = 0;
            }
            self.join(chain);
        }
    }

    /// Gives what the silence of `sender` that `frame` ended had given to `was` to `is`.
    pub fn revise(&mut self, sender: Side, frame: FrameId, was: Slice, is: Slice) {
        let same = |chain: &Chain| Some(chain.cause) == was.cause && chain.sender == sender;
        let found = self.chains.iter().position(same);
        let Some(index) = found.filter(|&index| self.chains[index].ns >= was.ns) else { return };
        let chain = &mut self.chains[index];
        let of_frame = chain.gap.next.frame == frame;
        let gap = if of_frame {
            chain.gap
        } else {
            Gap::between(sender, self.end_ns, self.end_ns + was.ns, self.last, self.last)
        };
        chain.ns -= was.ns;
        chain.count = chain.count.saturating_sub(1);
        if chain.ns == 0 {
            self.chains.swap_remove(index);
        }
        self.ledger.transfer(was.owner, is.owner, was.ns);
        if was.cause == Some(Cause::SlowStart) {
            self.provisional_ns = self.provisional_ns.saturating_sub(was.ns);
        }
        let Some(cause) = is.cause else { return };
        self.join(Chain::of(cause, sender, was.ns, gap));
    }

    /// What `sender` lost by `was` is nobody's as yet; answers whether it had been so.
    pub fn disown(&mut self, sender: Side, was: Slice) -> bool {
        let same = |chain: &&mut Chain| {
            Some(chain.cause) == was.cause && chain.sender == sender && chain.ns >= was.ns
        };
        let Some(chain) = self.chains.iter_mut().find(same) else { return false };
        chain.ns -= was.ns;
        chain.count = chain.count.saturating_sub(1);
        self.chains.retain(|chain| chain.ns > 0);
        let mut ledger = Shares::default();
        for (owner, ns) in self.ledger.ledger().iter() {
            ledger.add(owner, if owner == was.owner { ns.saturating_sub(was.ns) } else { ns });
        }
        self.ledger = ledger;
        true
    }

    /// Gives all that `from` had of it by `cause` to `to`.
    pub fn reassign(&mut self, from: (Owner, Cause), to: (Owner, Cause)) {
        for chain in self.chains.iter_mut().filter(|chain| chain.cause == from.1) {
            chain.cause = to.1;
            self.ledger.transfer(from.0, to.0, chain.ns);
        }
    }

    /// Nobody knows what the time is that `cause` was said to have taken.
    pub fn forget(&mut self, (owner, cause): (Owner, Cause)) {
        let taken = self.chains.iter().filter(|chain| chain.cause == cause);
        let ns = taken.map(|chain| chain.ns).sum();
        self.ledger.transfer(owner, Owner::Unknown, ns);
        self.chains.retain(|chain| chain.cause != cause);
        if ns > 0 && !self.response_seen {
            self.end_ns = self.start_ns;
        }
    }

    /// The height of `sender`'s flight turned out to be the offered window's: what was put down to
    /// its own windows and buffers belongs to that.
    pub fn reveal_window(&mut self, sender: Side) {
        let own =
            [(Owner::CongestionWindow, Cause::SlowStart), (Owner::SendBuffer, Cause::SendBuffer)];
        for (owner, cause) in own {
            let same = |chain: &&Chain| chain.cause == cause && chain.sender == sender;
            let ns = self.chains.iter().filter(same).map(|chain| chain.ns).sum();
            self.ledger.transfer(owner, Owner::ReceiveWindow, ns);
            self.rename(sender, cause, Cause::ReceiveWindow);
        }
        self.provisional_ns = 0;
    }

    /// What `sender` waited for in a window that was small, he did for the reader who closes it.
    pub fn blame_reader(&mut self, sender: Side) {
        let of = |cause| {
            let same = move |chain: &&Chain| chain.cause == cause && chain.sender == sender;
            self.chains.iter().find(same)
        };
        let closes = of(Cause::ZeroWindow).is_some_and(|closed| closed.count >= CLOSED_OFTEN);
        let small_ns = of(Cause::ReceiveWindow).map_or(0, |small| small.ns);
        if closes && small_ns > 0 {
            self.ledger.transfer(Owner::ReceiveWindow, Owner::ZeroWindow, small_ns);
            self.rename(sender, Cause::ReceiveWindow, Cause::ZeroWindow);
        }
    }

    /// The height of the flight turned out to be a ceiling: what was put down to a window that
    /// opens belongs to the buffer.
    pub fn confirm_ceiling(&mut self) {
        let moved =
            self.ledger.transfer(Owner::CongestionWindow, Owner::SendBuffer, self.provisional_ns);
        self.provisional_ns = 0;
        let opening = self.chains.iter().position(|chain| chain.cause == Cause::SlowStart);
        let Some(index) = opening.filter(|_| moved > 0) else { return };
        let ceiling = Chain { cause: Cause::SendBuffer, ns: moved, ..self.chains[index].clone() };
        self.chains[index].ns = self.chains[index].ns.saturating_sub(moved);
        if self.chains[index].ns == 0 {
            self.chains.swap_remove(index);
        }
        self.join(ceiling);
    }

    #[inline(never)]
    fn join(&mut self, other: Chain) {
        let same = |chain: &&mut Chain| chain.cause == other.cause && chain.sender == other.sender;
        match self.chains.iter_mut().find(same) {
            Some(chain) => {
                chain.ns += other.ns;
                chain.count += other.count;
                chain.tails += other.tails;
                if other.clarity() > chain.clarity() {
                    chain.longest_ns = chain.longest_ns.max(other.longest_ns);
                    chain.gap = other.gap;
                }
            }
            None => self.link(other),
        }
    }
}
