//! A host near the client that acknowledges in the name of a server behind it: a proxy that answers
//! the SYN only once the server has (split TCP, RFC 3135 §2.4).
//!
//! The handshake then measures the whole way, and an ACK of data only that to the proxy. An answer
//! takes at least the whole way. A handshake that was slow by itself looks the same until an answer
//! comes sooner, so that the way counts only once an answer took about as long as the handshake.

use super::Connection;
use crate::app::Side;
use crate::judge::Turn;
use crate::judge::thresholds::{ALIKE_PART, AT_ONCE_PART, HOST_DELAY_MAX_NS};
use crate::model::{Cause, Owner, Slice};
use crate::tcp::exchange::{Chain, Change, Exchange};

/// Evidence from the times of responses that a proxy acknowledges in the name of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Relay {
    /// Nothing yet.
    #[default]
    Unknown,
    /// An answer took about as long as the handshake.
    Shown,
    /// An answer came sooner than over the way that the handshake measured.
    Refuted,
}

impl Connection {
    /// Round trip of the handshake beyond that of an ACK, ns, if an ACK came so much sooner that
    /// another host may have sent it.
    pub(super) fn beyond_ack_ns(&self) -> Option<u64> {
        let whole_ns = self.setup.times(Side::Server).then(|| self.setup.rtt_ns(Side::Server))?;
        let ack_ns = self.path.rtt_ns(Side::Server);
        let beyond_ns = whole_ns.saturating_sub(ack_ns);
        let sooner =
            AT_ONCE_PART * ack_ns <= whole_ns && beyond_ns > AT_ONCE_PART * HOST_DELAY_MAX_NS;
        (sooner && self.path.is_known(Side::Server)).then_some(beyond_ns)
    }

    /// Returns whether a host nearer than the server seems to acknowledge in its name, so that nothing
    /// shows what belongs to the way behind that host.
    pub fn is_acknowledged_nearer(&self) -> bool {
        let relay = self.cold.get().map_or(Relay::Unknown, |cold| cold.relay);
        relay != Relay::Refuted && self.beyond_ack_ns().is_some()
    }

    /// Round trip between client and server over a proxy that acknowledges for the server, ns.
    pub fn relayed_rtt_ns(&self) -> Option<u64> {
        let relay = self.cold.get().map_or(Relay::Unknown, |cold| cold.relay);
        let beyond_ns = self.beyond_ack_ns().filter(|_| relay == Relay::Shown)?;
        Some(self.path.base_rtt_ns() + beyond_ns)
    }

    /// Attributes the way behind a proxy to the path, in an exchange that took it.
    pub(super) fn settle_relay(&mut self, exchange: &mut Exchange) {
        let Some(beyond_ns) = self.beyond_ack_ns() else { return };
        if exchange.in_handshake || !exchange.response_seen {
            return;
        }
        let think = exchange.chains.iter().find(|it| it.cause == Cause::ServerThink);
        // The longest of several silences is known, and it is not the one before the answer.
        if think.is_some_and(|it| it.gap.turn != Turn::Answers && it.count > 1) {
            return;
        }
        let before_answer = think.filter(|it| it.gap.turn == Turn::Answers);
        let waited_ns = before_answer.map_or(0, |it| it.ns);
        let variation_ns = beyond_ns / ALIKE_PART + HOST_DELAY_MAX_NS;
        let relay = &mut self.cold.get_or_create().relay;
        let shows = waited_ns.abs_diff(beyond_ns) <= variation_ns;
        *relay = match *relay {
            _ if waited_ns.saturating_add(variation_ns) < beyond_ns => Relay::Refuted,
            Relay::Unknown if shows => Relay::Shown,
            known => known,
        };
        if *relay == Relay::Shown {
            let ns = if shows { waited_ns } else { waited_ns.min(beyond_ns) };
            exchange.revise(&Change::Relayed { ns });
            Self::settle_relayed_handshake(exchange, beyond_ns);
        }
    }

    /// Takes the way behind a proxy, once for each flight of the server, off the server's own work in
    /// a TLS handshake, which the proxy passes on.
    fn settle_relayed_handshake(exchange: &mut Exchange, beyond_ns: u64) {
        let of_server =
            |it: &&mut Chain| it.cause == Cause::TlsHandshake && it.sender == Side::Server;
        let Some(chain) = exchange.chains.iter_mut().find(of_server) else { return };
        let variation_ns = beyond_ns / ALIKE_PART + HOST_DELAY_MAX_NS;
        let way_ns = beyond_ns.saturating_mul(u64::from(chain.count));
        let ns = match chain.longest_ns <= beyond_ns + variation_ns {
            true => chain.ns,
            false => chain.ns.min(way_ns),
        };
        let [from, to] = [Some(Cause::TlsHandshake), None]
            .map(|cause| Slice { cause, ..Slice::plain(Owner::Tls, ns) });
        chain.longest_ns = chain.longest_ns.saturating_sub(beyond_ns);
        let (sender, frame) = (Side::Server, chain.gap.next.frame);
        exchange.revise(&Change::Slice { sender, frame, from, to });
    }
}
