//! Exchanges of one segment each way, where nothing else is under way.

use super::*;
use crate::cause;

impl Timeline {
    /// Whether all that is under way is a response that ends at `end`, on its way to its client.
    #[inline]
    pub fn is_answered_up_to(&self, end: u64) -> bool {
        let only = self.open.only().and_then(|exchange| exchange.response_end);
        only.map(NonZeroU64::get) == Some(end)
            && self.active == Some(Side::Server)
            && self.done.is_empty()
    }

    /// Whether all that is under way is a request of which nothing but its bytes is known yet.
    #[inline]
    pub fn is_just_asked(&self) -> bool {
        let plain = self.open.only().is_some_and(|it| {
            it.is_awaiting()
                && it.request_seen
                && !it.response_seen
                && it.response_end.is_none()
                && !it.in_handshake
                && it.handshake.is_none()
                && it.chains.is_empty()
        });
        plain && self.active == Some(Side::Client) && self.done.is_empty()
    }

    /// The response of [`is_answered_up_to`](Self::is_answered_up_to) has arrived, without having been
    /// kept up, and with the ACK of it came a request of that `kind`, whole.
    #[inline]
    pub fn ask_next(
        &mut self,
        seen: Sighting,
        positions: [u64; 2],
        kind: &Label,
        spare: &mut Spare,
    ) {
        self.retire_at = u64::MAX;
        self.pass(Side::Client, seen.time_ns);
        self.request_began = true;
        let mut exchange = spare.room();
        exchange.begin(seen, seen.time_ns);
        (exchange.began_at, exchange.idle_ns) = (positions, self.paused_ns);
        (exchange.request_seen, exchange.asked) = (true, true);
        exchange.kind = *kind;
        self.open.push_back(exchange);
    }

    /// The last leg of the response that has arrived.
    #[inline]
    pub fn retire_only(&mut self, rtt_client_ns: u64) -> Option<Box<Exchange>> {
        let mut exchange = self.open.pop_front()?;
        exchange.outcome = Outcome::Complete;
        exchange.ledger.add(Owner::Path, rtt_client_ns);
        Some(exchange)
    }

    /// The response to the request of [`is_just_asked`](Self::is_just_asked) came whole, up to `end`,
    /// after the silence `gap`: the way, and its server's application.
    #[inline]
    pub fn answer(&mut self, gap: &Gap, end: u64, spare: &mut Spare) {
        self.pass(Side::Server, gap.end_ns);
        self.request_began = false;
        self.retire_at = self.retire_at.min(end);
        if let Some(exchange) = self.open.front_mut() {
            spare.lend(exchange);
            let way_ns = gap.way_ns.min(gap.len_ns());
            exchange.ledger.add(Owner::Path, way_ns);
            exchange.own(&cause::busy(gap.sender, gap.len_ns() - way_ns), gap);
            (exchange.end_ns, exchange.last) = (gap.end_ns, gap.next);
            exchange.response_seen = true;
            exchange.answered_ns = gap.end_ns;
            exchange.response_end = NonZeroU64::new(end);
        }
    }

    /// `side` sent what was waited for, and nothing of it is in doubt.
    #[inline]
    fn pass(&mut self, side: Side, now_ns: u64) {
        self.move_to(now_ns);
        self.active = Some(side);
        (self.open_ended, self.paused_now, self.rests) = (false, false, false);
    }
}
