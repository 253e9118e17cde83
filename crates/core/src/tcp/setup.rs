//! The three-way handshake (RFC 9293 §3.5): who had to repeat what, and how long it took.

mod steps;

use crate::app::Side;
use crate::cause::{Cause, Owner};
use crate::report::Shares;
use crate::tcp::path::Path;
use crate::tcp::sent::Sighting;
use crate::wire::{Segment, TcpFlags};
use steps::{Step, Steps};

/// An exchange that begins later than this after its connection was set up did not wait for it:
/// the connection came from a pool or was opened in advance.
pub(super) const WAITED_FOR_NS: u64 = 100_000_000;

/// A SYN-ACK this much later than the client's ACK can have told its server is not one that crossed
/// it, ns.
const IGNORED_NS: u64 = 150_000_000;

/// A receiver may keep an ACK for almost this long (RFC 9293 §3.8.6.3): by how much the round trips
/// that data shows may be longer than those of a set-up, ns.
const ACK_KEPT_NS: u64 = 500_000_000;

/// Repetitions whose times are kept; of more, the last takes the place of the one before it.
const TIMES_MAX: usize = 8;

/// After this a SYN-ACK that nobody acknowledged is repeated (RFC 6298 §2.1), ns, and a little.
const SYN_ACK_AGAIN_NS: u64 = 1_300_000_000;

/// The frames of a set-up.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetupFrames {
    /// The first SYN.
    pub syn: Option<Sighting>,
    /// The second.
    pub syn_again: Option<Sighting>,
    /// The first SYN-ACK.
    pub syn_ack: Option<Sighting>,
    /// The second.
    pub syn_ack_again: Option<Sighting>,
    /// The client's first ACK.
    pub ack: Option<Sighting>,
}

/// What was seen of one connection's set-up.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    steps: Steps,
    /// What was repeated, if anything.
    again: Option<Box<Again>>,
    /// How many SYNs, up to [`u16::MAX`].
    pub syns: u16,
    /// How many SYN-ACKs, up to [`u16::MAX`].
    pub syn_acks: u16,
    /// The server sent something else than SYN-ACK.
    pub confirmed: bool,
    /// A RST answered the SYN.
    pub refused: bool,
    /// An exchange took the set-up's time to itself.
    pub claimed: bool,
    /// A SYN of either side did not offer window scaling.
    pub unscaled: bool,
}

/// The repetitions of a set-up, and of what follows it at once.
#[derive(Clone, Debug, Default)]
struct Again {
    /// The second SYN.
    syn: Sighting,
    /// When SYNs were repeated before the first SYN-ACK, ns.
    syns_ns: Vec<u64>,
    /// The timestamp of the last of them.
    syn_tsval: u32,
    /// The first SYN-ACK says by its timestamp that it answers the last of them.
    answers_last: bool,
    /// The second SYN-ACK.
    syn_ack: Sighting,
    /// When SYN-ACKs were repeated before the client's ACK, ns.
    syn_acks_ns: Vec<u64>,
    /// The timestamp of the last of them.
    syn_ack_tsval: u32,
    /// The client's ACK says by its timestamp that it answers an earlier one.
    acks_earlier: bool,
    /// When they were repeated after the client's ACK had passed, ns.
    after_ack_ns: Vec<u64>,
    /// Times the client repeated data before the server said anything.
    ignored_data: u32,
    /// The last of them, ns.
    ignored_last_ns: u64,
    /// Segments about an older connection of the same ports.
    others: u32,
}

impl Setup {
    /// A segment of the client.
    pub fn client(&mut self, segment: &Segment) {
        let here = Sighting::of(Side::Client, segment);
        if segment.flags.has(TcpFlags::SYN) {
            self.syns = self.syns.saturating_add(1);
            self.steps.note(Step::Syn, here);
            if self.syns > 1 {
                let unanswered = !self.steps.has(Step::SynAck);
                let again = self.again.get_or_insert_default();
                again.syn.get_or_insert(here);
                if unanswered {
                    keep(&mut again.syns_ns, here.time_ns);
                    again.syn_tsval = segment.tsval;
                }
            }
        } else if self.steps.has(Step::SynAck) && segment.flags.has(TcpFlags::ACK) {
            if let Some(again) = self.again.as_mut().filter(|_| !self.steps.has(Step::Ack)) {
                let of_another = |tsecr| tsecr != again.syn_ack_tsval;
                again.acks_earlier = segment.echoes().is_some_and(of_another);
            }
            self.steps.note(Step::Ack, here);
        }
    }

    /// A segment of the server.
    pub fn server(&mut self, segment: &Segment) {
        let here = Sighting::of(Side::Server, segment);
        if segment.flags.has(TcpFlags::SYN | TcpFlags::ACK) {
            self.syn_acks = self.syn_acks.saturating_add(1);
            self.steps.note(Step::SynAck, here);
            if self.syn_acks == 1 {
                if let Some(again) = &mut self.again {
                    again.answers_last = segment.echoes() == Some(again.syn_tsval);
                }
                return;
            }
            let again = self.again.get_or_insert_default();
            again.syn_ack.get_or_insert(here);
            match self.steps.get(Step::Ack) {
                None => {
                    keep(&mut again.syn_acks_ns, here.time_ns);
                    again.syn_ack_tsval = segment.tsval;
                }
                Some(_) => keep(&mut again.after_ack_ns, here.time_ns),
            }
        } else if segment.flags.has(TcpFlags::RST) && !self.confirmed {
            self.refused = !self.steps.has(Step::SynAck) && self.syns > 0;
        } else {
            self.confirmed = true;
        }
    }

    /// The frames that matter.
    pub fn frames(&self) -> SetupFrames {
        let again = self.again.as_deref();
        SetupFrames {
            syn: self.steps.get(Step::Syn),
            syn_again: again.and_then(|again| again.syn.known()),
            syn_ack: self.steps.get(Step::SynAck),
            syn_ack_again: again.and_then(|again| again.syn_ack.known()),
            ack: self.steps.get(Step::Ack),
        }
    }

    /// `side` offers in its SYN to be told what has come (RFC 2018 §2), or does not.
    pub fn note_sack(&mut self, side: Side, offers: bool) {
        self.steps.offers_sack[side as usize] |= offers;
    }

    /// Whether both sides have offered SACK: a receiver can say that something came twice (RFC 2883).
    pub fn has_sack(&self) -> bool {
        self.steps.offers_sack == [true; 2]
    }

    /// The first SYN, ns.
    pub fn syn_first_ns(&self) -> Option<u64> {
        self.steps.get(Step::Syn).map(|syn| syn.time_ns)
    }

    /// The first SYN-ACK, ns.
    pub fn syn_ack_first_ns(&self) -> Option<u64> {
        self.steps.get(Step::SynAck).map(|syn_ack| syn_ack.time_ns)
    }

    /// Whether the client's ACK was seen.
    #[inline]
    pub fn is_established(&self) -> bool {
        self.steps.has(Step::Ack)
    }

    /// The client's ACK, ns.
    pub fn established_ns(&self) -> Option<u64> {
        self.steps.get(Step::Ack).map(|ack| ack.time_ns)
    }

    /// The last SYN before the first SYN-ACK, ns; 0 if there was none.
    pub fn syn_last_ns(&self) -> u64 {
        last_ns(self.again.as_ref().map(|again| &again.syns_ns)).max(self.steps.time_ns(Step::Syn))
    }

    /// The last SYN-ACK before the client's ACK, ns; 0 if there was none.
    pub fn syn_ack_last_ns(&self) -> u64 {
        last_ns(self.again.as_ref().map(|again| &again.syn_acks_ns))
            .max(self.steps.time_ns(Step::SynAck))
    }

    /// What passed between the first SYN and the one that was answered, and between the first SYN-ACK
    /// and the one that was, ns. Where the round trip is longer than the timer, what is repeated was
    /// not lost: the answer comes sooner after the repetition than any answer to it could.
    pub fn repeated_ns(&self, path: &Path) -> u64 {
        let Some(again) = self.again.as_deref() else { return 0 };
        let answered_by = |first: Step, again_ns: &[u64], answer_ns: u64, side: Side| {
            let too_late = |&&sent_ns: &&u64| {
                answer_ns.saturating_sub(sent_ns) + ACK_KEPT_NS >= path.rtt_ns(side)
            };
            let heard = again_ns.iter().rfind(too_late);
            heard.map_or(0, |&sent_ns| sent_ns.saturating_sub(self.steps.time_ns(first)))
        };
        let syns_ns = match self.steps.get(Step::SynAck) {
            Some(syn_ack) if !again.answers_last => {
                answered_by(Step::Syn, &again.syns_ns, syn_ack.time_ns, Side::Server)
            }
            _ => self.syn_last_ns().saturating_sub(self.steps.time_ns(Step::Syn)),
        };
        let syn_acks_ns = match self.steps.get(Step::Ack) {
            Some(_) if again.acks_earlier && !path.knows(Side::Client) => 0,
            Some(ack) => answered_by(Step::SynAck, &again.syn_acks_ns, ack.time_ns, Side::Client),
            None => self.syn_ack_last_ns().saturating_sub(self.steps.time_ns(Step::SynAck)),
        };
        syns_ns + syn_acks_ns
    }

    /// Whether anything about it was repeated, or of another connection.
    #[inline]
    pub fn is_troubled(&self) -> bool {
        self.again.is_some()
    }

    /// What answered the SYN was rejected by its client.
    pub fn reject_answer(&mut self) {
        self.steps.forget_answer();
        (self.syn_acks, self.refused, self.confirmed) = (0, false, false);
        if let Some(again) = &mut self.again {
            again.syn_acks_ns.clear();
            again.after_ack_ns.clear();
            (again.syn_ack, again.acks_earlier) = (Sighting::default(), false);
        }
    }

    /// The server spoke of an older connection of the same ports.
    pub fn meet_another(&mut self) {
        self.again.get_or_insert_default().others += 1;
    }

    /// How often either side spoke of it.
    pub fn met_others(&self) -> u32 {
        self.again.as_ref().map_or(0, |again| again.others)
    }

    /// The handshake has not been completed by the client.
    pub fn half_open(&self) -> bool {
        self.syns > 0 && self.established_ns().is_none()
    }

    /// Only the server's half of the handshake was captured: SYN-ACKs, and nothing behind them.
    pub fn answers_alone(&self) -> bool {
        self.syns == 0 && self.syn_acks > 0 && !self.is_established() && !self.confirmed
    }

    /// The listener ignored the client's ACK: its queue of completed connections was full. Were it
    /// so for long, it would have repeated its SYN-ACK: without, the ACK was heard and the data lost.
    /// Elsewhere than at the server one ACK may have been lost; with the data behind it, it was not.
    pub fn ignored(&self, path: &Path) -> bool {
        let Some(again) = &self.again else { return false };
        let answered_ns = self.syn_ack_last_ns();
        let soon = again.ignored_last_ns < answered_ns + SYN_ACK_AGAIN_NS;
        let repeats = self.syn_acks_after_ack(path);
        let unheard = repeats + again.ignored_data;
        let ack_unheard = repeats > 0 && (path.ends_here(Side::Server) || unheard >= 2);
        ack_unheard || again.ignored_data >= 2 && soon
    }

    /// SYN-ACKs repeated after the client's ACK had come to the server. A SYN that was repeated for
    /// nothing is answered as well: at the server it shows which SYN-ACKs are such answers.
    pub fn syn_acks_after_ack(&self, path: &Path) -> u32 {
        let Some((again, ack)) = self.again.as_deref().zip(self.steps.get(Step::Ack)) else {
            return 0;
        };
        let heard_ns = ack.time_ns + path.rtt_ns(Side::Server) + IGNORED_NS;
        let repeats = again.after_ack_ns.iter().filter(|&&at_ns| at_ns > heard_ns).count();
        let answers = if path.ends_here(Side::Server) { 0 } else { self.syns.saturating_sub(1) };
        u32::try_from(repeats).unwrap_or(u32::MAX).saturating_sub(answers.into())
    }

    /// Times the client repeated data before the server said anything.
    pub fn ignored_data(&self) -> u32 {
        self.again.as_ref().map_or(0, |again| again.ignored_data)
    }

    /// The client repeats data at `time_ns`, and the server has not said anything.
    pub fn ignore_data(&mut self, time_ns: u64) {
        let again = self.again.get_or_insert_default();
        again.ignored_data += 1;
        again.ignored_last_ns = time_ns;
    }

    /// Whether there is a round trip of the handshake to `side`, where nothing was repeated.
    #[inline]
    pub fn times(&self, side: Side) -> bool {
        let (asked, answered, times) = self.leg(side);
        times == 1 && self.steps.has(asked) && self.steps.has(answered)
    }

    /// That round trip between the vantage and `side`, ns.
    pub fn rtt_ns(&self, side: Side) -> u64 {
        let (asked, answered, _) = self.leg(side);
        self.steps.time_ns(answered).saturating_sub(self.steps.time_ns(asked))
    }

    /// What goes to `side` and what comes back, and how often the former was sent.
    #[inline]
    fn leg(&self, side: Side) -> (Step, Step, u16) {
        match side {
            Side::Server => (Step::Syn, Step::SynAck, self.syns),
            Side::Client => (Step::SynAck, Step::Ack, self.syn_acks),
        }
    }

    /// Whether an exchange that begins at `start_ns` had to wait for the set-up.
    pub fn waited_for(&self, start_ns: u64, rtt_client_ns: u64) -> bool {
        let Some(_) = self.syn_first_ns() else { return false };
        let done_ns = self.established_ns().unwrap_or(start_ns).max(self.syn_ack_last_ns());
        !self.claimed && start_ns.saturating_sub(done_ns) <= WAITED_FOR_NS + rtt_client_ns
    }

    /// Splits the time from the first SYN to `until_ns` (the first byte of the request) among
    /// its owners; answers the repeated part, ns.
    pub fn split(&self, until_ns: u64, rtt_client_ns: u64, ledger: &mut Shares) -> u64 {
        let Some(first_ns) = self.syn_first_ns() else { return 0 };
        let total_ns = until_ns.saturating_sub(first_ns);
        let answered_ns = self.syn_ack_first_ns().unwrap_or(until_ns).min(until_ns);
        let repeated_syn_ns = self.syn_last_ns().min(answered_ns).saturating_sub(first_ns);
        let last_answer_ns = self.syn_ack_last_ns().clamp(answered_ns, until_ns);
        let repeated_ns = repeated_syn_ns + (last_answer_ns - answered_ns);
        let pause_ns = (until_ns - last_answer_ns).saturating_sub(rtt_client_ns);
        ledger.add(Owner::SynRetransmit, repeated_ns);
        ledger.add(Owner::Client, pause_ns);
        ledger.add(Owner::Connect, total_ns.saturating_sub(repeated_ns + pause_ns));
        repeated_ns
    }

    /// What the repeated part is called.
    pub fn cause(&self, path: &Path) -> Cause {
        if self.ignored(path) { Cause::AcceptQueueOverflow } else { Cause::SynRetransmit }
    }

    /// The SYN was answered only when it came again: it, or the answer, did not arrive, or the
    /// listener had no room.
    pub fn syn_unheard(&self) -> bool {
        self.syns > 1 && self.syn_acks <= 1
    }
}

/// Adds a time to those that are kept.
fn keep(times_ns: &mut Vec<u64>, time_ns: u64) {
    if times_ns.len() == TIMES_MAX {
        times_ns.pop();
    }
    times_ns.push(time_ns);
}

/// The last of them, 0 if there is none.
fn last_ns(times_ns: Option<&Vec<u64>>) -> u64 {
    times_ns.and_then(|times_ns| times_ns.last()).copied().unwrap_or(0)
}
