//! A host near the client that acknowledges in the name of a server behind it: a proxy that answers
//! the SYN only once the server has (split TCP, RFC 3135 §2.4).
//!
//! The handshake then measures the whole way, and an ACK of data only that to the proxy. An answer
//! takes at least the whole way. A handshake that was slow by itself looks the same until an answer
//! comes sooner, so that the way counts only once an answer took about as long as the handshake.

use crate::judge::Turn;
use crate::judge::thresholds::{ALIKE_PART, AT_ONCE_PART, HOST_DELAY_MAX_NS};
use crate::model::{Cause, Owner, Slice};
use crate::tcp::connection::cold::Cold;
use crate::tcp::exchange::{Chain, Change, Exchange};
use crate::tcp::path::Path;
use crate::tcp::setup::Setup;
use crate::wire::Side;

/// Evidence from the times of responses that a proxy acknowledges in the name of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Relay {
    /// Nothing yet.
    #[default]
    Unknown,
    /// An answer took about as long as the handshake.
    Shown,
    /// An answer came sooner than over the way that the handshake measured.
    Refuted {
        /// Shortest time in which an answer came, ns.
        least_ns: u64,
    },
}

impl Relay {
    /// Returns whether a host nearer than the server seems to acknowledge in its name, so that nothing
    /// shows what belongs to the way behind that host.
    pub fn is_nearer(self, setup: &Setup, path: &Path) -> bool {
        !matches!(self, Self::Refuted { .. }) && beyond_ack_ns(setup, path).is_some()
    }

    /// Returns the longest way that may lie behind a host that acknowledges in the server's name, ns. The
    /// handshake may have been slow by itself, and all answers taken longer than the ACKs by the way
    /// behind that host.
    pub fn may_lie_behind_ns(self, setup: &Setup, path: &Path) -> Option<u64> {
        let beyond_ns = beyond_ack_ns(setup, path)?;
        let Self::Refuted { least_ns } = self else { return Some(beyond_ns) };
        beyond(least_ns, path).filter(|&ns| ns < beyond_ns)
    }

    /// Round trip between client and server over a proxy that acknowledges for the server, ns.
    pub fn rtt_ns(self, setup: &Setup, path: &Path) -> Option<u64> {
        let beyond_ns = beyond_ack_ns(setup, path).filter(|_| self == Self::Shown)?;
        Some(path.base_rtt_ns() + beyond_ns)
    }

    /// Returns the evidence after an answer before which the server's side was silent for `waited_ns`
    /// of its own, where the way behind the ACKs takes `beyond_ns`. It came `since_ns` after the client's
    /// first message that it can answer: of several, it need not answer the last.
    fn after(self, waited_ns: u64, since_ns: u64, beyond_ns: u64) -> Self {
        let is_sooner = since_ns.saturating_add(variation_ns(beyond_ns)) < beyond_ns;
        match self {
            Self::Refuted { least_ns } => Self::Refuted { least_ns: least_ns.min(since_ns) },
            _ if is_sooner => Self::Refuted { least_ns: since_ns },
            Self::Unknown if is_as_long(waited_ns, beyond_ns) => Self::Shown,
            known => known,
        }
    }
}

/// Difference of two silences over the way of `beyond_ns` that is still no difference, ns.
fn variation_ns(beyond_ns: u64) -> u64 {
    beyond_ns / ALIKE_PART + HOST_DELAY_MAX_NS
}

/// Returns whether a silence of `waited_ns` is about as long as the way of `beyond_ns`.
fn is_as_long(waited_ns: u64, beyond_ns: u64) -> bool {
    waited_ns.abs_diff(beyond_ns) <= variation_ns(beyond_ns)
}

/// Round trip of the handshake beyond that of an ACK, ns, if an ACK came so much sooner that
/// another host may have sent it.
pub(super) fn beyond_ack_ns(setup: &Setup, path: &Path) -> Option<u64> {
    let whole_ns = setup.times(Side::Server).then(|| setup.rtt_ns(Side::Server))?;
    beyond(whole_ns, path)
}

/// Returns by how much `whole_ns` is longer than the round trip of an ACK, ns, if an ACK came so much sooner
/// that another host may have sent it.
fn beyond(whole_ns: u64, path: &Path) -> Option<u64> {
    let ack_ns = path.rtt_ns(Side::Server);
    let beyond_ns = whole_ns.saturating_sub(ack_ns);
    let sooner = AT_ONCE_PART * ack_ns <= whole_ns && beyond_ns > AT_ONCE_PART * HOST_DELAY_MAX_NS;
    // Where the capture is on the server's own host, nobody acknowledges before it.
    let may_be_another = path.is_known(Side::Server) && !path.is_framed_at(Side::Server);
    (sooner && may_be_another).then_some(beyond_ns)
}

/// Attributes the way behind a proxy to the path, in an exchange that took it.
pub(super) fn settle_relay(setup: &Setup, path: &Path, cold: &mut Cold, exchange: &mut Exchange) {
    let Some(beyond_ns) = beyond_ack_ns(setup, path) else { return };
    if exchange.in_handshake {
        settle_failed_handshake(beyond_ns, cold, exchange);
        return;
    }
    if !exchange.response_seen {
        return;
    }
    let think = exchange.chains.iter().find(|it| it.cause == Cause::ServerThink);
    // The longest of several silences is known, and it is not the one before the answer.
    if think.is_some_and(|it| it.gap.turn != Turn::Answers && it.count > 1) {
        return;
    }
    let before_answer = think.filter(|it| it.gap.turn == Turn::Answers);
    let waited_ns = before_answer.map_or(0, |it| it.ns);
    let relay = &mut cold.get_or_create().relay;
    let asked_ns = exchange.first.time_ns;
    let since_ns = waited_ns.max(exchange.answered_ns.saturating_sub(asked_ns));
    *relay = relay.after(waited_ns, since_ns, beyond_ns);
    if *relay == Relay::Shown {
        let is_way = is_as_long(waited_ns, beyond_ns);
        let ns = if is_way { waited_ns } else { waited_ns.min(beyond_ns) };
        exchange.revise(&Change::Relayed { ns });
        settle_relayed_handshake(exchange, beyond_ns);
    }
}

/// Decides by the server's flights in a TLS handshake that was not completed whether they came over a
/// proxy: no answer to a request shows it there.
fn settle_failed_handshake(beyond_ns: u64, cold: &mut Cold, exchange: &mut Exchange) {
    let Some(chain) = exchange.chains.iter().find(is_flight) else { return };
    let waited_ns = chain.longest_ns;
    let relay = &mut cold.get_or_create().relay;
    *relay = relay.after(waited_ns, waited_ns, beyond_ns);
    if *relay == Relay::Shown {
        settle_relayed_handshake(exchange, beyond_ns);
    }
}

/// Returns whether `chain` is the time before flights of the server in a TLS handshake.
fn is_flight(chain: &&Chain) -> bool {
    chain.cause == Cause::TlsHandshake && chain.sender == Side::Server
}

/// Takes the way behind a proxy, once for each flight of the server, off the server's own work in
/// a TLS handshake, which the proxy passes on.
fn settle_relayed_handshake(exchange: &mut Exchange, beyond_ns: u64) {
    let Some(chain) = exchange.chains.iter_mut().find(|it| is_flight(&&**it)) else { return };
    let way_ns = beyond_ns.saturating_mul(u64::from(chain.count));
    let ns = match chain.longest_ns <= beyond_ns + variation_ns(beyond_ns) {
        true => chain.ns,
        false => chain.ns.min(way_ns),
    };
    let [from, to] = [Some(Cause::TlsHandshake), None]
        .map(|cause| Slice { cause, ..Slice::plain(Owner::Tls, ns) });
    chain.longest_ns = chain.longest_ns.saturating_sub(beyond_ns);
    let (sender, frame) = (Side::Server, chain.gap.next.frame);
    exchange.revise(&Change::Slice { sender, frame, from, to });
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn an_answer_as_late_as_the_handshake_shows_a_proxy() {
        let shown = Relay::Unknown.after(42 * MS, 42 * MS, 40 * MS);
        assert_eq!(shown, Relay::Shown);
        let later = shown.after(90 * MS, 90 * MS, 40 * MS);
        assert_eq!(later, Relay::Shown, "the server worked on that one");
    }

    #[test]
    fn an_answer_sooner_than_over_the_whole_way_refutes_a_proxy() {
        let refuted = Relay::Refuted { least_ns: 10 * MS };
        assert_eq!(Relay::Shown.after(10 * MS, 10 * MS, 40 * MS), refuted);
        assert_eq!(refuted.after(40 * MS, 40 * MS, 40 * MS), refuted);
    }

    #[test]
    fn a_long_wait_alone_shows_nothing() {
        assert_eq!(Relay::Unknown.after(90 * MS, 90 * MS, 40 * MS), Relay::Unknown);
    }

    #[test]
    fn an_answer_to_the_first_of_several_messages_refutes_nothing() {
        assert_eq!(Relay::Unknown.after(10 * MS, 40 * MS, 40 * MS), Relay::Unknown);
    }
}
