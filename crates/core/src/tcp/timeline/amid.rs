//! Messages amid a message of the other side, where the protocol does not say which ask for something: SSH and
//! HTTP/2 in TLS widen windows while much is on its way. What the other side sends on does not answer them.

use super::*;
use crate::tcp::pause::MESSAGE_MAX_BYTES;

/// Whether the client speaks while a message is still on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amid {
    /// It has all of the answer, for all that is known.
    #[default]
    No,
    /// Perhaps not: what its server sends next will tell.
    Perhaps,
    /// It has spoken perhaps amid an answer, which is kept until the server speaks.
    Open,
    /// It goes on with its request, and has not heard what its server has said.
    GoesOn,
}

/// What has passed of a side's stream, and where its peer knows it to stand.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// All that has been sent.
    pub sent: u64,
    /// All that has been acknowledged.
    pub acked: u64,
}

impl Passed {
    /// Whether, since it was at `begun`, more than a message was sent: a transfer, which its receiver may
    /// have a word for.
    fn is_transfer(self, begun: u64) -> bool {
        self.sent.saturating_sub(begun) > MESSAGE_MAX_BYTES
    }

    /// Whether its receiver has not heard of so much of it that it speaks amid it.
    fn is_under_way(self, begun: u64) -> bool {
        self.sent.saturating_sub(self.acked.max(begun)) > MESSAGE_MAX_BYTES
    }
}

impl Timeline {
    /// The client speaks at `now_ns`, when of its server's stream so much has `passed`, the last at
    /// `last_ns`. Answers whether it surely speaks amid an answer.
    pub fn speaks_amid(
        &mut self,
        now_ns: u64,
        passed: Passed,
        last_ns: u64,
        rtt_server_ns: u64,
    ) -> bool {
        let Some(exchange) = self.open.only().filter(|_| self.may_be_over()) else { return false };
        let begun = exchange.began_at[Side::Server as usize];
        if !passed.is_transfer(begun) {
            return false;
        }
        let goes_on = now_ns.saturating_sub(last_ns) < rtt_server_ns;
        if goes_on && !passed.is_under_way(begun) && self.done.is_empty() {
            self.amid = Amid::Perhaps;
        }
        passed.is_under_way(begun)
    }

    /// Whether the server, which speaks when of its client's stream so much has `passed`, does so amid the
    /// request.
    pub fn answers_amid(&self, passed: Passed) -> bool {
        let asked = self.open.only().filter(|it| {
            it.request_seen && !it.response_seen && !it.in_handshake && it.response_end.is_none()
        });
        asked.is_some_and(|it| passed.is_under_way(it.began_at[Side::Client as usize]))
    }

    /// The client speaks at `now_ns`, when of its stream so much had `passed`. Where it cannot have heard what
    /// its server has said since, it goes on with its request, and that was no answer.
    pub fn goes_on_asking(&mut self, now_ns: u64, passed: Passed, rtt_client_ns: u64) {
        if self.active != Some(Side::Server) || !self.may_be_over() {
            return;
        }
        let heard_ns = self.cursor_ns + rtt_client_ns - rtt_client_ns / 8;
        let Some(exchange) = self.open.back_mut().filter(|_| now_ns < heard_ns) else { return };
        if exchange.request_seen && passed.is_transfer(exchange.began_at[Side::Client as usize]) {
            (exchange.asked, exchange.response_seen, exchange.answered_ns) = (false, false, 0);
            self.active = Some(Side::Client);
            self.amid = Amid::GoesOn;
        }
    }

    /// What the client said has been taken in.
    #[inline]
    pub fn has_spoken_amid(&mut self) {
        if self.amid != Amid::Open {
            self.amid = Amid::No;
        }
    }

    /// Another request seems to begin amid an answer: that is over only if what its server sends next can
    /// be the answer to it. Answers whether that is to be seen.
    pub(super) fn interrupt(&mut self) -> bool {
        let is_open = self.amid == Amid::Perhaps;
        if let Some(answer) = is_open.then(|| self.open.pop_front()).flatten() {
            self.amid = Amid::Open;
            self.done.push_back(answer);
        }
        is_open
    }

    /// Whether what is done may turn out not to be.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        self.amid == Amid::Open
    }

    /// The server speaks at `now_ns` (`None`: it will not), so far away from the vantage as its client. Sooner
    /// than a round trip after the client it goes on with what it was saying: it was not asked for more.
    #[inline(never)]
    pub fn settle_interrupted(&mut self, now_ns: Option<u64>, rtts_ns: [u64; 2]) {
        self.amid = Amid::No;
        let Some(mut answer) = self.done.pop_front() else { return };
        let [rtt_client_ns, rtt_server_ns] = rtts_ns;
        let request = self.open.front().map(|it| (it.first.time_ns, it.began_at));
        let (spoke_ns, positions) = request.unwrap_or((answer.end_ns, answer.began_at));
        let answered_ns = spoke_ns + rtt_server_ns - rtt_server_ns / 8;
        if now_ns.is_some_and(|now_ns| now_ns < answered_ns) && self.open.len() == 1 {
            self.open.pop_front();
            (self.cursor_ns, self.active) = (answer.end_ns, Some(Side::Server));
            self.open.push_back(answer);
            return;
        }
        let position = positions[Side::Server as usize];
        answer.settle_pauses(Some(spoke_ns), rtt_client_ns, position, &mut self.manner);
        answer.outcome = Outcome::Complete;
        answer.ledger.add(Owner::Path, rtt_client_ns);
        self.done.push_back(answer);
    }
}
