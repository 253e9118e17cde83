//! Messages of a client that need no response, in protocols that do not show which messages do:
//! HTTP/2 in TLS acknowledges settings and opens windows, a tunnel closes its channels. Nothing
//! waits after such a message.

use super::{At, StreamProgress, Timeline};
use crate::judge::thresholds::{AT_ONCE_PART, HOST_DELAY_MAX_NS, INITIAL_WINDOW_BYTES};
use crate::judge::{self, Gap, Turn};
use crate::model::{Cause, Owner, Slice, Slices};
use crate::tcp::exchange::{Chain, Change, Exchange};
use crate::tcp::owed::{Debt, Owed, Rule};
use crate::tcp::thresholds::STREAM_PAUSE_MIN_NS;
use crate::wire::Side;

impl Timeline {
    /// Returns what the server owes for the only message that it has not answered; `None` if there is
    /// no such message, or if several are. The client's stream is at `sent`.
    fn owed(&self, sent: u64) -> Option<Owed> {
        let it = self.exchanges.queue.only().filter(|it| it.is_unanswered())?;
        let bytes = it.first.payload_bytes;
        let is_one_segment = sent.saturating_sub(it.began_at[Side::Client]) == u64::from(bytes);
        let may_be_receipt = !it.connects && it.handshake.is_none() && is_one_segment;
        let by_length = self.pattern.receipts.debt(bytes);
        let debt =
            if may_be_receipt && by_length != Debt::Response { by_length } else { it.debt() };
        Some(Owed { since_ns: it.start_ns, debt })
    }

    /// Processes a message of the server that begins at `at` while the client's message before it
    /// may have acknowledged an event: it came at once after the event, and nothing came at once
    /// after it. A server that has something to answer answers about as fast as its client; the
    /// message is the next event then, and nothing waited for it. In a protocol that does not show
    /// events, the client's message has the length of earlier receipts.
    pub(super) fn drop_acknowledgement(&mut self, at: &At) {
        let rtts_ns = at.rtt_client_ns + at.rtt_server_ns;
        let Some(Owed { since_ns, debt: Debt::Unknown(rule) }) =
            self.owed(at.positions[Side::Client])
        else {
            return;
        };
        let Some(it) = self.exchanges.queue.only() else { return };
        let idle_ns = it.idle_ns.saturating_sub(at.rtt_client_ns);
        let waited_ns = at.time_ns.saturating_sub(since_ns + rtts_ns);
        if rule == Rule::Receipt && waited_ns <= HOST_DELAY_MAX_NS {
            let bytes = it.first.payload_bytes;
            self.pattern.receipts.forget(bytes);
        } else if idle_ns <= waited_ns / AT_ONCE_PART {
            self.exchanges.queue.pop_front();
            self.pattern.unsolicited = self.pattern.unsolicited.saturating_add(1);
        }
    }

    /// Moves the start of a request behind a pause of the client. Before `gap`, which ends with the
    /// server's response, the client had sent something, paused, and continued. A server that
    /// answers the last part at once would have answered the first part too: that needed no
    /// response, and the request began when the client continued. This applies if the client is
    /// known to send requests without a pause, or if the protocol is not known (`is_known`): then
    /// nothing shows that both parts are one message. The client's stream has come as far as `passed`.
    ///
    /// An answer that acknowledges only the first segment left before the others had arrived (RFC 9293
    /// §3.10.7.4: each segment acknowledges all that has been received). It answers that segment, and the
    /// client waited for it through its pauses; the `slices` of the gap become those of that wait.
    pub fn settle_client_pause(
        &mut self,
        gap: &Gap,
        slices: &mut Slices,
        passed: StreamProgress,
        is_known: bool,
    ) {
        let answers = gap.sender == Side::Server && gap.turn == Turn::Answers && gap.next_len > 0;
        if !answers || !self.open_ended {
            return;
        }
        let asks_at_once = self.pattern.asked_at_once;
        let Some(exchange) = self.exchanges.queue.front_mut().filter(|it| it.is_unanswered())
        else {
            return;
        };
        let paused = exchange.chains.iter().find(|chain| chain.cause == Cause::ClientThink);
        if paused.is_some() && exchange.is_only_first(passed.acked) {
            return exchange.wait_through_pause(gap, slices);
        }
        let Some(pause) = paused.filter(|pause| pause.longest_ns >= STREAM_PAUSE_MIN_NS) else {
            self.pattern.asked_at_once = true;
            return;
        };
        let own = slices.iter().filter(|slice| slice.owner == Owner::Server);
        let at_once = own.map(|slice| slice.ns).sum::<u64>() <= pause.longest_ns / AT_ONCE_PART;
        let short = passed.sent.saturating_sub(exchange.began_at[0]) <= INITIAL_WINDOW_BYTES;
        let is_first = exchange.connects || exchange.handshake.is_some();
        if !(at_once && short && (asks_at_once || !is_known)) {
            return;
        }
        if !is_first {
            let idle_ns = exchange.idle_ns.saturating_sub(gap.rtt.base_ns);
            let is_whole = pause.count == 1 && pause.gap.last.frame == exchange.first.frame;
            if is_whole && idle_ns <= pause.longest_ns / AT_ONCE_PART {
                self.pattern.receipts.note(exchange.first.payload_bytes);
            }
            exchange.begin_after(&pause.gap.clone());
        } else if !is_known {
            exchange.rested_ns += exchange.ledger.of(Owner::Client);
            exchange.revise(&Change::OwnPauses);
        }
    }
}

impl Exchange {
    /// Returns what the server owes for the request, as far as what came before it shows.
    pub(super) fn debt(&self) -> Debt {
        if self.follows_event { Debt::Unknown(Rule::Event) } else { Debt::Response }
    }

    /// Returns whether the exchange has a request, and nothing of the response has come.
    pub(super) fn is_unanswered(&self) -> bool {
        self.request_seen && !self.response_seen && !self.endless
    }

    /// Returns whether what is acknowledged up to `acked` is the first segment, or less.
    fn is_only_first(&self, acked: u64) -> bool {
        acked <= self.began_at[Side::Client] + u64::from(self.first.payload_bytes)
    }

    /// Makes the time since the first segment that of its way and of the server, which answers it in `gap`.
    fn wait_through_pause(&mut self, gap: &Gap, slices: &mut Slices) {
        let own = |slice: &Slice| matches!(slice.owner, Owner::Path | Owner::Server);
        if gap.rtt.is_bound || !slices.iter().all(own) {
            return;
        }
        let way_ns = gap.rtt.sender_ns;
        self.revise(&Change::Waited { way_ns });
        let left_ns = (self.first.time_ns + way_ns).saturating_sub(gap.start_ns);
        let mut waited = Slices::new(gap.len_ns());
        waited.take(Slice::plain(Owner::Path, left_ns));
        waited.take(judge::busy(Side::Server, gap.len_ns()));
        *slices = waited;
    }

    /// Removes what was sent before `pause`, with a hold before it, which the pause made no longer.
    fn begin_after(&mut self, pause: &Gap) {
        let is_before = |chain: &Chain| chain.count == 1 && chain.gap.end_ns <= pause.start_ns;
        let is_hold =
            |chain: &&Chain| chain.cause == Cause::NagleDelayedAck && chain.sender == Side::Client;
        if self.chains.iter().find(is_hold).is_some_and(is_before) {
            self.revise(&Change::Absorbed { sender: Side::Client, ns: pause.len_ns() });
        }
        self.revise(&Change::OwnPauses);
        self.idle_ns = pause.len_ns();
        self.start_ns = pause.end_ns;
        self.first = pause.next;
    }
}
