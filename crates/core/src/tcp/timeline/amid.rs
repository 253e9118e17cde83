//! Messages of a client in the midst of an answer, where the protocol does not say which ask for something:
//! SSH and HTTP/2 in TLS widen windows while they download. What its server sends on does not answer them.

use super::*;
use crate::tcp::pause::MESSAGE_MAX_BYTES;

/// Whether the client speaks while an answer is still on its way to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amid {
    /// It has all of it, for all that is known.
    #[default]
    No,
    /// What its server sends next will tell.
    Perhaps,
    /// It acknowledges that it has not: it waits for more of the same.
    Surely,
    /// It has spoken perhaps amid an answer, which is kept until the server speaks.
    Open,
}

impl Timeline {
    /// The client speaks at `now_ns`, and has acknowledged `acked` of `sent` bytes of its server, who spoke
    /// last at `last_ns`, `rtt_server_ns` away. More than a message is a transfer, which its client may
    /// have a word for.
    pub fn speaks_amid(
        &mut self,
        now_ns: u64,
        [acked, sent]: [u64; 2],
        last_ns: u64,
        rtt_server_ns: u64,
    ) {
        let Some(exchange) = self.open.only().filter(|_| self.may_be_over()) else { return };
        let begun = exchange.began_at[Side::Server as usize];
        if sent.saturating_sub(begun) <= MESSAGE_MAX_BYTES {
            return;
        }
        let unheard_bytes = sent.saturating_sub(acked.max(begun));
        if unheard_bytes > MESSAGE_MAX_BYTES {
            self.amid = Amid::Surely;
        } else if now_ns.saturating_sub(last_ns) < rtt_server_ns && self.done.is_empty() {
            self.amid = Amid::Perhaps;
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
