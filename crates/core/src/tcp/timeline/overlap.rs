//! Messages that overlap a message of the other side, in protocols that do not show which messages
//! are requests: SSH and HTTP/2 in TLS send window updates during transfers. Data that the other
//! side then continues to send is no response to them.

use crate::judge::thresholds::{ALIKE_PART, INITIAL_WINDOW_BYTES};
use crate::model::Outcome;
use crate::tcp::owed::Debt;
use crate::tcp::timeline::Timeline;
use crate::wire::Side;

/// Whether data overlaps a message of the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverlappingMessage {
    /// It does not: its sender had received the whole message.
    #[default]
    None,
    /// The client's message may overlap the response; the server's next data decides.
    Possible,
    /// The client continues its request and has not received the server's data yet.
    RequestContinues,
    /// The message certainly overlaps one of the other side, which continues.
    Certain,
}

/// Progress of one side's stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamProgress {
    /// Position up to which data was sent.
    pub sent: u64,
    /// Position up to which data was acknowledged.
    pub acked: u64,
}

impl StreamProgress {
    /// Returns whether more than a message was sent since position `begun`. It is then a transfer,
    /// during which the receiver may send updates.
    fn is_transfer(self, begun: u64) -> bool {
        self.sent.saturating_sub(begun) > INITIAL_WINDOW_BYTES
    }

    /// Returns whether more than a message of the data since `begun` is unacknowledged.
    pub(super) fn is_under_way(self, begun: u64) -> bool {
        self.sent.saturating_sub(self.acked.max(begun)) > INITIAL_WINDOW_BYTES
    }
}

impl Timeline {
    /// Processes data of the client at `now_ns`, when the server's stream had `passed` so far, the
    /// last of it at `last_ns`. Returns whether it overlaps a response.
    pub fn request_overlaps(
        &self,
        now_ns: u64,
        passed: StreamProgress,
        last_ns: u64,
        rtt_server_ns: u64,
    ) -> OverlappingMessage {
        let begun = self
            .exchanges
            .queue
            .only()
            .filter(|_| self.may_be_over())
            .map(|exchange| exchange.began_at[Side::Server]);
        let Some(begun) = begun.filter(|&begun| passed.is_transfer(begun)) else {
            return OverlappingMessage::None;
        };
        if passed.is_under_way(begun) {
            return OverlappingMessage::Certain;
        }
        let continues = now_ns.saturating_sub(last_ns) < rtt_server_ns;
        match continues && self.done.is_empty() {
            true => OverlappingMessage::Possible,
            false => OverlappingMessage::None,
        }
    }

    /// Processes data of the client at `now_ns`, when its stream had `passed` so far. If the client
    /// cannot have received the server's data yet, it continues its request, and that data was no
    /// response: returns `true`.
    pub fn continues_request(
        &mut self,
        now_ns: u64,
        passed: StreamProgress,
        rtt_client_ns: u64,
    ) -> bool {
        if self.active != Some(Side::Server) || !self.may_be_over() {
            return false;
        }
        let reached_ns = self.cursor_ns + rtt_client_ns - rtt_client_ns / ALIKE_PART;
        let continued = self.exchanges.queue.back_mut().filter(|it| {
            now_ns < reached_ns && it.request_seen && passed.is_transfer(it.began_at[Side::Client])
        });
        let Some(exchange) = continued else { return false };
        (exchange.asked, exchange.response_seen, exchange.answered_ns) = (false, false, 0);
        self.active = Some(Side::Client);
        true
    }

    /// Processes a request that seems to begin during a response: the response is over only if the
    /// server's next data can be the answer to the request. Returns whether that is left open.
    pub(super) fn interrupt(&mut self) -> bool {
        if self.is_interrupted {
            return false;
        }
        if let Some(answer) = self.exchanges.queue.pop_front() {
            self.is_interrupted = true;
            self.done.push_back(answer);
        }
        true
    }

    /// Decides about an interrupted response when the server sends at `now_ns` (`None`: it never
    /// does). `rtts_ns` are the round trips between the vantage and both ends. Data that follows
    /// the client's sooner than a round trip continues the response: the client's message was no
    /// request.
    #[inline(never)]
    pub fn settle_interrupted(&mut self, now_ns: Option<u64>, rtts_ns: [u64; 2]) {
        self.is_interrupted = false;
        let Some(mut answer) = self.done.pop_front() else { return };
        let [rtt_client_ns, rtt_server_ns] = rtts_ns;
        let request = self.exchanges.queue.front().map(|it| (it.first.time_ns, it.began_at));
        let (client_data_ns, positions) = request.unwrap_or((answer.end_ns, answer.began_at));
        let answered_ns = client_data_ns + rtt_server_ns - rtt_server_ns / ALIKE_PART;
        if now_ns.is_some_and(|now_ns| now_ns < answered_ns) && self.exchanges.queue.len() == 1 {
            self.exchanges.queue.pop_front();
            (self.cursor_ns, self.active) = (answer.end_ns, Some(Side::Server));
            self.exchanges.queue.push_back(answer);
            return;
        }
        let position = positions[Side::Server];
        let (next_ns, next) = (Some(client_data_ns), Debt::Response);
        answer.settle_pauses(next_ns, rtt_client_ns, position, next, &mut self.pattern);
        answer.end(Outcome::Answered);
        answer.add_last_leg(rtt_client_ns);
        self.done.push_back(answer);
    }
}
