//! The three-way handshake (RFC 9293 §3.5): who had to repeat what, and how long it took.

use crate::app::Side;
use crate::cause::{Cause, Owner};
use crate::report::Shares;
use crate::tcp::sent::Sighting;
use crate::wire::{Segment, TcpFlags};

/// An exchange that begins later than this after its connection was set up did not wait for it:
/// the connection came from a pool or was opened in advance.
const WAITED_FOR_NS: u64 = 100_000_000;

/// A SYN-ACK this long after the client's ACK is not one that crossed it.
const IGNORED_NS: u64 = 150_000_000;

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
    /// The first SYN.
    syn: Sighting,
    /// The first SYN-ACK.
    syn_ack: Sighting,
    /// The client's first ACK after it.
    ack: Sighting,
    /// What was repeated, if anything.
    again: Option<Box<Again>>,
    /// How many SYNs.
    pub syns: u32,
    /// How many SYN-ACKs.
    pub syn_acks: u32,
    /// The server sent something else than SYN-ACK.
    pub confirmed: bool,
    /// A RST answered the SYN.
    pub refused: bool,
    /// An exchange took the set-up's time to itself.
    pub claimed: bool,
    /// The client offered window scaling.
    pub client_scales: bool,
}

/// The repetitions of a set-up, and of what follows it at once.
#[derive(Clone, Debug, Default)]
struct Again {
    /// The second SYN.
    syn: Sighting,
    /// The last SYN before the first SYN-ACK, ns.
    syn_last_ns: u64,
    /// The second SYN-ACK.
    syn_ack: Sighting,
    /// The last SYN-ACK before the client's ACK, ns.
    syn_ack_last_ns: u64,
    /// SYN-ACKs repeated after the client's ACK had passed.
    syn_acks_after_ack: u32,
    /// Times the client repeated data before the server said anything.
    ignored_data: u32,
    /// The last of them, ns.
    ignored_last_ns: u64,
}

impl Setup {
    /// A segment of the client.
    pub fn client(&mut self, segment: &Segment) {
        let here = Sighting::of(Side::Client, segment);
        if segment.flags.has(TcpFlags::SYN) {
            self.syns += 1;
            self.syn.get_or_insert(here);
            if self.syns > 1 {
                let unanswered = self.syn_ack.known().is_none();
                let again = self.again.get_or_insert_default();
                again.syn.get_or_insert(here);
                if unanswered {
                    again.syn_last_ns = here.time_ns;
                }
            }
        } else if self.syn_ack.known().is_some() && segment.flags.has(TcpFlags::ACK) {
            self.ack.get_or_insert(here);
        }
    }

    /// A segment of the server.
    pub fn server(&mut self, segment: &Segment) {
        let here = Sighting::of(Side::Server, segment);
        if segment.flags.has(TcpFlags::SYN | TcpFlags::ACK) {
            self.syn_acks += 1;
            self.syn_ack.get_or_insert(here);
            if self.syn_acks == 1 {
                return;
            }
            let again = self.again.get_or_insert_default();
            again.syn_ack.get_or_insert(here);
            match self.ack.known() {
                None => again.syn_ack_last_ns = here.time_ns,
                Some(ack) if here.time_ns.saturating_sub(ack.time_ns) > IGNORED_NS => {
                    again.syn_acks_after_ack += 1;
                }
                Some(_) => {}
            }
        } else if segment.flags.has(TcpFlags::RST) && !self.confirmed {
            self.refused = self.syn_ack.known().is_none() && self.syns > 0;
        } else {
            self.confirmed = true;
        }
    }

    /// The frames that matter.
    pub fn frames(&self) -> SetupFrames {
        let again = self.again.as_deref();
        SetupFrames {
            syn: self.syn.known(),
            syn_again: again.and_then(|again| again.syn.known()),
            syn_ack: self.syn_ack.known(),
            syn_ack_again: again.and_then(|again| again.syn_ack.known()),
            ack: self.ack.known(),
        }
    }

    /// The first SYN, ns.
    pub fn syn_first_ns(&self) -> Option<u64> {
        self.syn.known().map(|syn| syn.time_ns)
    }

    /// The first SYN-ACK, ns.
    pub fn syn_ack_first_ns(&self) -> Option<u64> {
        self.syn_ack.known().map(|syn_ack| syn_ack.time_ns)
    }

    /// The client's ACK, ns.
    pub fn established_ns(&self) -> Option<u64> {
        self.ack.known().map(|ack| ack.time_ns)
    }

    /// The last SYN before the first SYN-ACK, ns; 0 if there was none.
    pub fn syn_last_ns(&self) -> u64 {
        self.again.as_ref().map_or(0, |again| again.syn_last_ns).max(self.syn.time_ns)
    }

    /// The last SYN-ACK before the client's ACK, ns; 0 if there was none.
    pub fn syn_ack_last_ns(&self) -> u64 {
        self.again.as_ref().map_or(0, |again| again.syn_ack_last_ns).max(self.syn_ack.time_ns)
    }

    /// The handshake has not been completed by the client.
    pub fn half_open(&self) -> bool {
        self.syns > 0 && self.established_ns().is_none()
    }

    /// The listener ignored the client's ACK: its queue of completed connections was full. Were it
    /// so for long, it would have repeated its SYN-ACK: without, the ACK was heard and the data lost.
    pub fn ignored(&self) -> bool {
        let Some(again) = &self.again else { return false };
        let answered_ns = self.syn_ack.time_ns.max(again.syn_ack_last_ns);
        let soon = again.ignored_last_ns < answered_ns + SYN_ACK_AGAIN_NS;
        again.syn_acks_after_ack > 0 || again.ignored_data >= 2 && soon
    }

    /// SYN-ACKs repeated after the client's ACK had passed.
    pub fn syn_acks_after_ack(&self) -> u32 {
        self.again.as_ref().map_or(0, |again| again.syn_acks_after_ack)
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

    /// Handshake round trips, server's and client's side of the vantage, where nothing was
    /// repeated, ns.
    pub fn samples(&self) -> (Option<u64>, Option<u64>) {
        let once = self.syns == 1;
        let server = self.syn_ack_first_ns().zip(self.syn_first_ns()).filter(|_| once);
        let client =
            self.established_ns().zip(self.syn_ack_first_ns()).filter(|_| self.syn_acks == 1);
        let difference = |(later, earlier): (u64, u64)| later.saturating_sub(earlier);
        (server.map(difference), client.map(difference))
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

    /// What the repeated part is called. A SYN that reached the server's host (`at_server`) and
    /// was answered only when it came again found the listener's queue full.
    pub fn cause(&self, at_server: bool) -> Cause {
        let dropped = at_server && self.syns > 1 && self.syn_acks == 1;
        if self.ignored() || dropped { Cause::AcceptQueueOverflow } else { Cause::SynRetransmit }
    }
}
