//! The three-way handshake (RFC 9293 §3.5): its retransmissions and its duration.

mod held;
mod split;
mod steps;
mod syn;

use crate::judge::thresholds::{HABIT_MIN, RTO_INITIAL_NS, RTO_MIN_NS};
use crate::model::{Cause, Sighting};
use crate::tcp::path::Path;
use crate::tcp::thresholds::ACK_WITHIN_NS;
use crate::wire::{Segment, Side, TcpFlags};
pub use split::Split;
use steps::{FirstSegment, HandshakeStep, Steps};
pub use syn::{Syn, SynMarks};

/// The TTLs with which systems begin: Linux and macOS, Windows, others.
const INITIAL_TTLS: [u8; 3] = [64, 128, 255];

/// Greatest number of retransmission times kept; beyond it the last one is replaced.
const TIMES_MAX: usize = 8;

/// The frames of a handshake.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetupFrames {
    /// The first SYN.
    pub syn: Option<Sighting>,
    /// The second SYN.
    pub syn_again: Option<Sighting>,
    /// The first SYN-ACK.
    pub syn_ack: Option<Sighting>,
    /// The second SYN-ACK.
    pub syn_ack_again: Option<Sighting>,
    /// The client's first ACK.
    pub ack: Option<Sighting>,
}

/// The handshake of one connection, as captured.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    steps: Steps,
    /// Retransmissions, if there were any.
    repeated: Option<Box<Repeated>>,
    /// Number of SYNs, up to [`u16::MAX`].
    pub syns: u16,
    /// Number of SYN-ACKs, up to [`u16::MAX`].
    pub syn_acks: u16,
    /// The server sent a segment other than a SYN-ACK, or other than a RST before any such segment.
    pub confirmed: bool,
    /// A RST answered the SYN.
    pub refused: bool,
    /// An exchange has counted the time of the handshake as its own.
    pub claimed: bool,
    /// Time to live of the first SYN.
    syn_ttl: u8,
}

/// Retransmissions in a handshake and directly after it.
#[derive(Clone, Debug, Default)]
struct Repeated {
    /// The second SYN.
    syn: Sighting,
    /// SYNs repeated before the first SYN-ACK.
    syns: Vec<Syn>,
    /// Time of the last SYN after the first SYN-ACK, ns; 0 if there was none.
    syn_after_answer_ns: u64,
    /// The timestamp echo of the first SYN-ACK shows that it answers the last SYN.
    answers_last: bool,
    /// The second SYN-ACK.
    syn_ack: Sighting,
    /// Times of SYN-ACKs repeated before the client's ACK, ns.
    syn_acks_ns: Vec<u64>,
    /// Timestamps of these SYN-ACKs.
    syn_ack_tsvals: Vec<u32>,
    /// The timestamp echo of the client's ACK shows that it answers an earlier SYN-ACK.
    acks_earlier: bool,
    /// It answers the first SYN-ACK, which therefore was not lost (RFC 7323 §4.3).
    acks_first: bool,
    /// Times of SYN-ACKs repeated after the client's ACK had passed, ns.
    after_ack_ns: Vec<u64>,
    /// Number of times that the client repeated data before the server sent any.
    ignored_data: u32,
    /// Time of the last of these retransmissions, ns.
    ignored_last_ns: u64,
    /// Number of segments of an older connection with the same addresses and ports.
    others: u32,
    /// Number of SYN-ACKs with another initial sequence number than the first.
    other_syn_acks: u32,
    /// The client rejected an answer by a RST.
    rejected: bool,
}

impl Setup {
    /// Processes a segment of the client.
    pub fn client(&mut self, segment: &Segment) {
        let here = Sighting::of(Side::Client, segment);
        if segment.flags.has(TcpFlags::SYN) {
            let marks = SynMarks::of(segment);
            if self.syns > 0 && marks.has(SynMarks::FIN) && !self.marks().has(SynMarks::FIN) {
                // No kernel repeats its SYN with a FIN.
                return;
            }
            self.syns = self.syns.saturating_add(1);
            self.steps.note(HandshakeStep::Syn, here);
            if self.syns == 1 {
                self.steps.syn_tsval = marks.tsval;
                self.steps.traits |= marks.traits;
                self.syn_ttl = marks.ttl;
            } else {
                let unanswered = !self.steps.has(HandshakeStep::SynAck);
                let repeated = self.repeated.get_or_insert_default();
                repeated.syn.get_or_insert(here);
                if unanswered {
                    let Sighting { time_ns, frame, .. } = here;
                    keep(&mut repeated.syns, Syn { time_ns, frame, marks });
                } else {
                    repeated.syn_after_answer_ns = here.time_ns;
                }
            }
        } else if self.steps.has(HandshakeStep::SynAck) && segment.flags.has(TcpFlags::ACK) {
            if let Some(repeated) =
                self.repeated.as_mut().filter(|_| !self.steps.has(HandshakeStep::Ack))
            {
                let again = &repeated.syn_ack_tsvals;
                let of_another = |tsecr| again.last() != Some(&tsecr);
                let of_first = |tsecr| again.len() < TIMES_MAX && !again.contains(&tsecr);
                repeated.acks_earlier = segment.echoes().is_some_and(of_another);
                repeated.acks_first = segment.echoes().is_some_and(of_first);
            }
            if !self.steps.has(HandshakeStep::Ack)
                && segment.payload_len > 0
                && here.time_ns.saturating_sub(self.syn_ack_last_ns()) > RTO_INITIAL_NS
            {
                // No host holds an ACK back for longer than half a second (RFC 1122 §4.2.3.2), and a
                // server repeats a SYN-ACK that is not acknowledged (RFC 6298 §2.1).
                self.steps.first = FirstSegment::FollowsAck;
            }
            self.steps.note(HandshakeStep::Ack, here);
        }
    }

    /// Processes a segment of the server.
    pub fn server(&mut self, segment: &Segment) {
        let here = Sighting::of(Side::Server, segment);
        if segment.flags.has(TcpFlags::SYN | TcpFlags::ACK) {
            self.syn_acks = self.syn_acks.saturating_add(1);
            self.steps.note(HandshakeStep::SynAck, here);
            if self.syn_acks == 1 {
                if let Some(repeated) = &mut self.repeated {
                    let last = repeated.syns.last().map(|last| last.marks.tsval);
                    repeated.answers_last = segment.echoes() == Some(last.unwrap_or_default());
                }
                return;
            }
            let repeated = self.repeated.get_or_insert_default();
            repeated.syn_ack.get_or_insert(here);
            match self.steps.get(HandshakeStep::Ack) {
                None => {
                    keep(&mut repeated.syn_acks_ns, here.time_ns);
                    keep(&mut repeated.syn_ack_tsvals, segment.tsval);
                }
                Some(_) => keep(&mut repeated.after_ack_ns, here.time_ns),
            }
        } else if segment.flags.has(TcpFlags::RST) && !self.confirmed {
            // A host that waits for the answer to its SYN drops a RST without an ACK (RFC 9293 §3.10.7.3).
            let answers = segment.flags.has(TcpFlags::ACK);
            self.refused = answers && !self.steps.has(HandshakeStep::SynAck) && self.syns > 0;
        } else {
            self.confirmed = true;
        }
    }

    /// Returns the frames of the handshake.
    pub fn frames(&self) -> SetupFrames {
        let repeated = self.repeated.as_deref();
        SetupFrames {
            syn: self.steps.get(HandshakeStep::Syn),
            syn_again: repeated.and_then(|repeated| repeated.syn.known()),
            syn_ack: self.steps.get(HandshakeStep::SynAck),
            syn_ack_again: repeated.and_then(|repeated| repeated.syn_ack.known()),
            ack: self.steps.get(HandshakeStep::Ack).filter(|_| self.has_ack()),
        }
    }

    /// Records whether a side offers window scaling in its SYN (RFC 7323 §2.2).
    pub fn note_scaling(&mut self, offers: bool) {
        self.steps.traits |= if offers { 0 } else { SynMarks::UNSCALED };
    }

    /// Returns whether a SYN of either side did not offer window scaling.
    pub fn is_unscaled(&self) -> bool {
        self.marks().has(SynMarks::UNSCALED)
    }

    /// Records whether `side` offers SACK in its SYN (RFC 2018 §2).
    pub fn note_sack(&mut self, side: Side, offers: bool) {
        let bit = if side == Side::Client { SynMarks::SACK } else { SynMarks::SERVER_SACK };
        self.steps.traits |= if offers { bit } else { 0 };
    }

    /// Returns whether the client's SYN, if it was seen, does not ask for ECN: then no packet of the
    /// connection can be marked (RFC 3168 §6.1.1).
    pub fn lacks_ecn(&self) -> bool {
        self.steps.has(HandshakeStep::Syn) && !self.marks().has(SynMarks::ECN)
    }

    /// Returns the side that does not offer SACK, so that neither may use it (RFC 2018 §2), if the whole
    /// SYN and the SYN-ACK were captured. A server cannot offer what the SYN does not.
    pub fn lacks_sack(&self) -> Option<Side> {
        let is_seen = [HandshakeStep::Syn, HandshakeStep::SynAck].map(|step| self.steps.has(step));
        let is_known = is_seen == [true; 2] && !self.marks().has(SynMarks::OPTIONS_CUT);
        let side = if self.marks().has(SynMarks::SACK) { Side::Server } else { Side::Client };
        (is_known && !self.has_sack()).then_some(side)
    }

    /// Returns whether both sides offered SACK, so that a receiver can report duplicates (RFC
    /// 2883).
    pub fn has_sack(&self) -> bool {
        self.marks().has(SynMarks::SACK | SynMarks::SERVER_SACK)
    }

    /// Time of the first SYN, ns.
    pub fn syn_first_ns(&self) -> Option<u64> {
        self.steps.get(HandshakeStep::Syn).map(|syn| syn.time_ns)
    }

    /// Time of the first SYN-ACK, ns.
    pub fn syn_ack_first_ns(&self) -> Option<u64> {
        self.steps.get(HandshakeStep::SynAck).map(|syn_ack| syn_ack.time_ns)
    }

    /// Time from the SYN to the SYN-ACK, ns; 0 if either was sent again or is missing.
    pub fn clean_rtt_ns(&self) -> u64 {
        let rtt_ns = self.syn_first_ns().zip(self.syn_ack_first_ns());
        let rtt_ns = rtt_ns.filter(|_| (self.syns, self.syn_acks) == (1, 1));
        rtt_ns.map_or(0, |(syn_ns, syn_ack_ns)| syn_ack_ns.saturating_sub(syn_ns))
    }

    /// Returns whether the client's ACK was seen.
    #[inline]
    pub fn is_established(&self) -> bool {
        self.steps.has(HandshakeStep::Ack)
    }

    /// Time of the client's first segment after the SYN-ACK, ns, which is the ACK of the handshake, or
    /// follows that.
    pub fn established_ns(&self) -> Option<u64> {
        self.steps.get(HandshakeStep::Ack).map(|ack| ack.time_ns)
    }

    /// Time of the last SYN before the first SYN-ACK, ns; 0 if there was none.
    pub fn syn_last_ns(&self) -> u64 {
        let last = self.repeated.as_ref().and_then(|repeated| repeated.syns.last());
        last.map_or(0, |last| last.time_ns).max(self.steps.time_ns(HandshakeStep::Syn))
    }

    /// Returns the SYNs before the first SYN-ACK, the last of many in place of those before it.
    pub fn syns_before_answer(&self) -> impl Iterator<Item = Syn> + '_ {
        let first = self
            .steps
            .get(HandshakeStep::Syn)
            .map(|Sighting { time_ns, frame, .. }| Syn { time_ns, frame, marks: self.marks() });
        let again = self.repeated.iter().flat_map(|repeated| &repeated.syns);
        first.into_iter().chain(again.copied())
    }

    /// Returns whether the SYNs are probes, for whose answers no application waits: a kernel sends
    /// no SYN with a FIN (RFC 9293 §3.10.7), and repeats a SYN with the same TTL. (Where two ways
    /// differ in length, copies arrive with two.)
    pub fn is_probe(&self) -> bool {
        if self.marks().has(SynMarks::FIN) {
            return true;
        }
        let mut ttls: Vec<_> = self.syns_before_answer().map(|syn| syn.marks.ttl).collect();
        ttls.sort_unstable();
        ttls.dedup();
        ttls.len() >= HABIT_MIN as usize
    }

    /// Records that the host at which a SYN was received is not its server: it has sent the SYN on, or
    /// received the answer, too.
    pub fn deny_arrival(&mut self) {
        self.steps.traits &= !SynMarks::RECEIVED;
        for syn in self.repeated.iter_mut().flat_map(|repeated| &mut repeated.syns) {
            syn.marks.traits &= !SynMarks::RECEIVED;
        }
    }

    /// Properties of the first SYN.
    pub fn marks(&self) -> SynMarks {
        SynMarks {
            tsval: self.steps.syn_tsval,
            checksum_error: 0,
            traits: self.steps.traits,
            ttl: self.syn_ttl,
        }
    }

    /// Returns the SYN that the first SYN-ACK answers: the last, if the answer could come as soon.
    pub fn answered_syn(&self, path: &Path) -> Option<Syn> {
        let syn_ack = self.steps.get(HandshakeStep::SynAck)?;
        let answers_last = self.repeated.as_ref().is_none_or(|repeated| repeated.answers_last);
        let is_due =
            |syn: &Syn| answers_last || is_due(syn.time_ns, syn_ack.time_ns, Side::Server, path);
        let before = self.syns_before_answer();
        before.filter(is_due).last().or_else(|| self.syns_before_answer().next())
    }

    /// Time of the last SYN-ACK before the client's ACK, ns; 0 if there was none.
    pub fn syn_ack_last_ns(&self) -> u64 {
        last_ns(self.repeated.as_ref().map(|repeated| &repeated.syn_acks_ns))
            .max(self.steps.time_ns(HandshakeStep::SynAck))
    }

    /// Time from the first SYN to the one that was answered, plus the same for SYN-ACKs, ns. If the
    /// round trip is longer than the timer, a repeated segment was not lost: the answer follows the
    /// repetition sooner than an answer to the repetition could.
    pub fn repeated_ns(&self, path: &Path) -> u64 {
        let Some(repeated) = self.repeated.as_deref() else { return 0 };
        if self.is_held_up() {
            return 0;
        }
        let answered_by = |first: HandshakeStep, again_ns: &[u64], answer_ns: u64, side: Side| {
            let is_due = |&&sent_ns: &&u64| is_due(sent_ns, answer_ns, side, path);
            let answered = again_ns.iter().rfind(is_due);
            answered.map_or(0, |&sent_ns| sent_ns.saturating_sub(self.steps.time_ns(first)))
        };
        let syns_ns = match self.steps.get(HandshakeStep::SynAck) {
            Some(syn_ack) if !repeated.answers_last => {
                let syns_ns: Vec<_> = repeated.syns.iter().map(|syn| syn.time_ns).collect();
                answered_by(HandshakeStep::Syn, &syns_ns, syn_ack.time_ns, Side::Server)
            }
            _ => self.syn_last_ns().saturating_sub(self.steps.time_ns(HandshakeStep::Syn)),
        };
        let rtt_client_ns = path.known_rtt_ns(Side::Client);
        let syn_acks_ns = match self.steps.get(HandshakeStep::Ack) {
            Some(ack) if self.is_answered_late(ack.time_ns, rtt_client_ns) => 0,
            Some(_) if self.has_heard_first_answer() => 0,
            Some(_) if repeated.acks_earlier && !path.has_sample(Side::Client) => 0,
            Some(ack) => {
                answered_by(HandshakeStep::SynAck, &repeated.syn_acks_ns, ack.time_ns, Side::Client)
            }
            None => {
                let last_ns = self.unheard_until_ns().unwrap_or(0).max(self.syn_ack_last_ns());
                last_ns.saturating_sub(self.steps.time_ns(HandshakeStep::SynAck))
            }
        };
        syns_ns + syn_acks_ns
    }

    /// Returns the time of the client's last SYN, ns, if it repeated that after the SYN-ACK and never
    /// answered: no SYN-ACK reached it, since it would have been the answer to its SYN (RFC 9293
    /// §3.10.7.3).
    pub fn unheard_until_ns(&self) -> Option<u64> {
        let after_ns = self.repeated.as_ref()?.syn_after_answer_ns;
        let is_unheard =
            self.steps.has(HandshakeStep::SynAck) && !self.is_established() && !self.confirmed;
        (after_ns > 0 && is_unheard && !self.refused).then_some(after_ns)
    }

    /// Returns whether the server answered the first SYN, so that its listener had room for the
    /// connection then.
    pub fn is_first_syn_answered(&self) -> bool {
        let before = self.repeated.as_ref().map_or(0, |repeated| repeated.syns.len());
        self.steps.has(HandshakeStep::Syn) && self.steps.has(HandshakeStep::SynAck) && before == 0
    }

    /// Returns whether the client was late with its ACK.
    pub fn has_late_client(&self, rtt_client_ns: u64) -> bool {
        self.established_ns().is_some_and(|ack_ns| self.is_answered_late(ack_ns, rtt_client_ns))
    }

    /// Returns whether the client was late with its ACK, which came at `ack_ns`, so that the server
    /// repeated a SYN-ACK that was not lost: a client that misses it repeats its SYN (RFC 9293
    /// §3.8.1), and one that receives a copy answers that within a round trip. A timer that starts
    /// before a round trip is known (RFC 6298 §2.1) is longer than most.
    fn is_answered_late(&self, ack_ns: u64, rtt_client_ns: u64) -> bool {
        let late_ns = ack_ns.saturating_sub(self.syn_ack_last_ns());
        self.syns == 1 && self.syn_acks > 1 && late_ns > RTO_INITIAL_NS.max(2 * rtt_client_ns)
    }

    /// Returns whether the server repeated its SYN-ACK though the first had arrived.
    pub fn has_heard_first_answer(&self) -> bool {
        let repeated = self.repeated.as_ref();
        repeated.is_some_and(|it| it.acks_first && !it.syn_acks_ns.is_empty())
    }

    /// Returns whether a segment of the handshake was repeated or belonged to another connection.
    #[inline]
    pub fn is_troubled(&self) -> bool {
        self.repeated.is_some()
    }

    /// Returns whether a SYN or a SYN-ACK was sent more than once.
    #[inline]
    pub fn is_repeated(&self) -> bool {
        self.syns > 1 || self.syn_acks > 1
    }

    /// Removes the answer to the SYN, which the client rejected.
    pub fn reject_answer(&mut self) {
        self.steps.forget_answer();
        (self.syn_acks, self.refused, self.confirmed) = (0, false, false);
        self.steps.first = FirstSegment::default();
        let repeated = self.repeated.get_or_insert_default();
        repeated.rejected = true;
        repeated.syn_acks_ns.clear();
        repeated.syn_ack_tsvals.clear();
        repeated.after_ack_ns.clear();
        repeated.syn_after_answer_ns = 0;
        repeated.syn_ack = Sighting::default();
        (repeated.acks_earlier, repeated.acks_first) = (false, false);
    }

    /// Processes a RST of the client, with a sequence number that is `next` to the SYN: if the SYN has
    /// been answered, its host took that number from the answer, and has no such connection (RFC 9293
    /// §3.10.7.1). The answer has arrived. If the capture lacks it, the RST shows the same if it has no
    /// ACK: a client that gives up sends none (§3.10.4, §3.10.5).
    pub fn note_reset(&mut self, next: bool, acks: bool) {
        let is_answer = self.steps.has(HandshakeStep::SynAck) || !acks && self.syns > 0;
        if next && is_answer && !self.is_established() {
            self.steps.traits |= SynMarks::HEARD;
        }
    }

    /// Records a segment of the client, `past` its SYN, that acknowledges something: its host has received the
    /// answer to the SYN, be it in the capture or not (RFC 9293 §3.10.7.3).
    pub fn note_ack(&mut self, past: bool) {
        if past && self.syns > 0 && !self.steps.has(HandshakeStep::SynAck) {
            self.steps.traits |= SynMarks::HEARD;
        }
    }

    /// Returns whether a segment of the client shows that it has received the answer to its SYN, which
    /// the capture may lack.
    pub fn has_heard_answer(&self) -> bool {
        self.marks().has(SynMarks::HEARD)
    }

    /// Counts a segment of an older connection with the same addresses and ports.
    pub fn note_other_connection(&mut self) {
        self.repeated.get_or_insert_default().others += 1;
    }

    /// Counts a SYN-ACK with another initial sequence number than the first.
    pub fn note_other_syn_ack(&mut self) {
        self.repeated.get_or_insert_default().other_syn_acks += 1;
    }

    /// Returns whether the client rejected an answer to its SYN by a RST.
    pub fn has_rejected(&self) -> bool {
        self.repeated.as_ref().is_some_and(|repeated| repeated.rejected)
    }

    /// Number of SYN-ACKs with another initial sequence number than the first.
    pub fn other_syn_acks(&self) -> u32 {
        self.repeated.as_ref().map_or(0, |repeated| repeated.other_syn_acks)
    }

    /// Returns whether the server repeated its SYN-ACK and the client, at which it was captured,
    /// never answered. The SYN, and not the SYN-ACK, has the TTL with which its sender began.
    pub fn is_answer_ignored(&self, server_ttl: u8) -> bool {
        let is_first = |ttl: u8| INITIAL_TTLS.contains(&ttl);
        self.syn_acks > 1
            && !self.is_established()
            && is_first(self.syn_ttl)
            && !is_first(server_ttl)
    }

    /// Number of segments of an older connection with the same addresses and ports.
    pub fn other_connection_segments(&self) -> u32 {
        self.repeated.as_ref().map_or(0, |repeated| repeated.others)
    }

    /// Returns whether the client has sent a SYN and not completed the handshake.
    pub fn half_open(&self) -> bool {
        self.syns > 0 && self.established_ns().is_none()
    }

    /// Returns whether only SYN-ACKs of the server were captured.
    pub fn has_only_syn_acks(&self) -> bool {
        self.syns == 0 && self.syn_acks > 0 && !self.is_established() && !self.confirmed
    }

    /// Returns whether the listener ignored the client's ACK because its accept queue was full.
    /// This shows in one of two ways. Either the listener repeated the SYN-ACK: away from the
    /// server the ACK may have been lost, though not together with the data behind it. Or the
    /// client repeated its data before the SYN-ACK was due again; after that, only the data was
    /// lost. Away from the server, each copy of that may have been lost.
    pub fn ignored_ack(&self, path: &Path) -> bool {
        let Some(repeated) = &self.repeated else { return false };
        let answered_ns = self.syn_ack_last_ns();
        let soon = repeated.ignored_last_ns < answered_ns + RTO_INITIAL_NS + path.base_rtt_ns();
        let repeats = self.syn_acks_after_ack(path);
        let ignored = repeats + repeated.ignored_data;
        let is_ack_ignored = repeats > 0 && (path.ends_here(Side::Server) || ignored >= 2);
        is_ack_ignored || repeated.ignored_data >= 2 && soon && path.ends_here(Side::Server)
    }

    /// Number of SYN-ACKs repeated after the client's ACK had reached the server. The server
    /// answers a spuriously repeated SYN by a SYN-ACK as well; away from the server, where these
    /// are not recognised, one is deducted per repeated SYN.
    pub fn syn_acks_after_ack(&self, path: &Path) -> u32 {
        let Some((repeated, ack)) =
            self.repeated.as_deref().zip(self.steps.get(HandshakeStep::Ack))
        else {
            return 0;
        };
        let arrived_ns = ack.time_ns + path.rtt_ns(Side::Server) + RTO_MIN_NS;
        let repeats = repeated.after_ack_ns.iter().filter(|&&at_ns| at_ns > arrived_ns).count();
        let answers = if path.ends_here(Side::Server) { 0 } else { self.syns.saturating_sub(1) };
        u32::try_from(repeats).unwrap_or(u32::MAX).saturating_sub(answers.into())
    }

    /// Number of times that the client repeated data before the server sent any.
    pub fn ignored_data(&self) -> u32 {
        self.repeated.as_ref().map_or(0, |repeated| repeated.ignored_data)
    }

    /// Records that the client repeated data at `time_ns`, before the server has sent any.
    pub fn ignore_data(&mut self, time_ns: u64) {
        let repeated = self.repeated.get_or_insert_default();
        repeated.ignored_data += 1;
        repeated.ignored_last_ns = time_ns;
    }

    /// Returns whether the handshake gives a sample of the round trip to `side`: nothing was
    /// repeated in it.
    #[inline]
    pub fn times(&self, side: Side) -> bool {
        let (toward, back, times) = self.leg(side);
        let is_answer = side == Side::Server || self.has_ack();
        times == 1 && is_answer && self.steps.has(toward) && self.steps.has(back)
    }

    /// Round trip of the handshake between the vantage and `side`, ns.
    pub fn rtt_ns(&self, side: Side) -> u64 {
        let (toward, back, _) = self.leg(side);
        self.steps.time_ns(back).saturating_sub(self.steps.time_ns(toward))
    }

    /// Returns the step toward `side`, the step back, and the number of times the former was sent.
    #[inline]
    fn leg(&self, side: Side) -> (HandshakeStep, HandshakeStep, u16) {
        match side {
            Side::Server => (HandshakeStep::Syn, HandshakeStep::SynAck, self.syns),
            Side::Client => (HandshakeStep::SynAck, HandshakeStep::Ack, self.syn_acks),
        }
    }

    /// Cause of the part of the set-up that retransmissions took.
    pub fn cause(&self, path: &Path) -> Cause {
        if self.ignored_ack(path) { Cause::AcceptQueueOverflow } else { Cause::SynRetransmit }
    }

    /// Returns the time from the last SYN to its answer, ns, if a timer repeats a SYN as soon as that:
    /// the answer to an earlier SYN may have been as slow, and then nothing was lost.
    pub fn late_answer_ns(&self) -> Option<u64> {
        let late_ns = self.frames().syn_ack?.time_ns.checked_sub(self.syn_last_ns())?;
        (self.syns > 0 && late_ns >= RTO_INITIAL_NS).then_some(late_ns)
    }

    /// Returns whether the SYN was answered only after it was repeated: the SYN or its answer was
    /// lost, or the listener had no room. A client that repeats its SYN after the answer has not
    /// received that.
    pub fn is_syn_answered_late(&self) -> bool {
        self.syns > 1
            && self.syn_acks <= 1
            && !self.is_first_syn_answered()
            && self.unheard_until_ns().is_none()
    }
}

/// Returns whether what was seen at `sent_ns` may have been answered by `side` at `answer_ns`.
fn is_due(sent_ns: u64, answer_ns: u64, side: Side, path: &Path) -> bool {
    answer_ns.saturating_sub(sent_ns) + ACK_WITHIN_NS >= path.rtt_ns(side)
}

/// Adds an item to those that are kept.
fn keep<T>(kept: &mut Vec<T>, item: T) {
    if kept.len() == TIMES_MAX {
        kept.pop();
    }
    kept.push(item);
}

/// Returns the last of `times_ns`, or 0 if there is none.
fn last_ns(times_ns: Option<&Vec<u64>>) -> u64 {
    times_ns.and_then(|times_ns| times_ns.last()).copied().unwrap_or(0)
}
