//! One clear instance of a cause with its connection, from which its proof is made.

use crate::findings::causes::rules;
use crate::findings::proof::{Proof, Shown};
use crate::judge::Gap;
use crate::judge::thresholds::{AT_ONCE_PART, HOST_DELAY_MAX_NS};
use crate::model::{Cause, Fact};
use crate::tcp::{Chain, Connection, Exchange, Sender};
use crate::wire::Side;

/// Initial TTLs of Linux (`net.ipv4.ip_default_ttl`) and of Windows.
const LINUX_TTL: u8 = 64;
const WINDOWS_TTL: u8 = 128;

/// The part of a cause in one exchange, with the connection and the exchange.
pub(super) struct Scene<'a> {
    /// The connection.
    pub connection: &'a Connection,
    /// The exchange.
    pub exchange: &'a Exchange,
    /// The part of the cause in the exchange.
    pub chain: &'a Chain,
}

impl Scene<'_> {
    /// Returns the longest silence.
    pub fn gap(&self) -> &Gap {
        &self.chain.gap
    }

    /// Returns the sender that was silent in the longest silence.
    pub fn sender(&self) -> &Sender {
        &self.connection.senders[self.chain.gap.sender]
    }

    /// Time by which the receiver delayed the ACK that ended the silence, if it is worth reporting. What its
    /// answer in the handshake was late by as well may be its link's delay.
    /// The rest of a round trip is no such delay; if no ACK on the path was prompt, the whole time
    /// is attributed to the path.
    pub fn ack_delay_ns(&self) -> Option<u64> {
        let gap = self.gap();
        let delay_ns = match (gap.acks.last, gap.acks.under_way) {
            (Some(ack), _) => ack.delay_ns?,
            (None, under_way) => {
                let apart_ns = under_way?.time_ns.saturating_sub(gap.last.time_ns);
                apart_ns.saturating_sub(gap.rtt.receiver_ns())
            }
        };
        let is_worth = delay_ns >= gap.len_ns() / AT_ONCE_PART;
        (is_worth && self.late_handshake_ns() < Some(delay_ns)).then_some(delay_ns)
    }

    /// Time by which the receiver answered the other side's packet of the handshake later than after the least
    /// round trip to it, ns, if that was seen. No TCP delays that answer (RFC 9293 §3.10.7.4): its link did, or
    /// its host.
    pub fn late_handshake_ns(&self) -> Option<u64> {
        let (setup, receiver) = (&self.connection.setup, self.gap().sender.peer());
        let answered_ns = setup.times(receiver).then(|| setup.rtt_ns(receiver))?;
        Some(answered_ns.saturating_sub(self.connection.path.rtt_ns(receiver)))
    }

    /// Returns whether neither side has retransmitted anything on the connection so far.
    pub fn nothing_retransmitted(&self) -> bool {
        let again = |sender: &Sender| sender.counts().rexmt_data_packets > 0;
        !self.gap().losses.occurred && !self.connection.senders.iter().any(again)
    }

    /// Rate of the bottleneck, bits per second, if it is known.
    pub fn bottleneck_bps(&self) -> Option<u64> {
        let bulk = self.sender().bulk.as_ref()?;
        bulk.pipe.last_rate().map(|rate| rate.saturating_mul(8))
    }

    /// Number of bytes that the path transmits in a base round trip, if its rate is known.
    pub fn bdp_bytes(&self) -> Option<u64> {
        let rate_bps = self.bottleneck_bps()?;
        let bits = u128::from(rate_bps) * u128::from(self.gap().rtt.base_ns) / 1_000_000_000;
        Some((bits / 8) as u64)
    }

    /// Adds the rate of one flight of `bytes` per base round trip, and the flight that the path
    /// would need instead, if it needs more.
    pub fn limited_to(&self, bytes: u64, proof: &mut Proof) {
        let rtt_ns = self.gap().rtt.base_ns;
        if rtt_ns == 0 {
            return;
        }
        let rate_bps = (u128::from(bytes) * 8_000_000_000 / u128::from(rtt_ns)) as u64;
        let bottleneck_bps = self.bottleneck_bps().filter(|&path_bps| path_bps > rate_bps);
        if let (Some(bottleneck_bps), Some(bdp_bytes)) = (bottleneck_bps, self.bdp_bytes()) {
            proof.add_fact("rate_bps", Fact::BitsPerSecond(rate_bps));
            proof.add_fact("bdp_bytes", Fact::Bytes(bdp_bytes));
            proof.add_fact("bottleneck_bps", Fact::BitsPerSecond(bottleneck_bps));
        }
    }

    /// Returns the proof of the instance.
    pub fn proof(&self) -> Proof {
        let mut proof = Proof::default();
        proof.add_fact("mss_bytes", Fact::Bytes(self.gap().smss));
        // Nothing may have shown the round trip.
        let rtt_ns = Some(self.gap().rtt.base_ns).filter(|ns| *ns > 0);
        proof.facts.extend(rtt_ns.map(|ns| ("rtt_ns", Fact::Ns(ns))));
        let ack = self.gap().acks.last.filter(|ack| ack.pure && ack.seen_ns >= self.gap().start_ns);
        if ack.is_some() && self.gap().rtt.sender_ns >= HOST_DELAY_MAX_NS {
            let side = match self.gap().sender {
                Side::Client => "client",
                Side::Server => "server",
            };
            proof.add_fact("far_side", Fact::Text(side.into()));
            proof.add_fact("rtt_sender_ns", Fact::Ns(self.gap().rtt.sender_ns));
        }
        proof.facts.extend(self.foreign_stacks());
        // A closed window shows nothing about its height, which matters here.
        let closes = self.chain.cause == Cause::ZeroWindow;
        if let Some(window) = self.gap().window.bytes.filter(|&window| window > 0 || closes) {
            proof.add_fact("window_bytes", Fact::Bytes(window));
        }
        (rules(self.chain.cause).prove)(self, &mut proof);
        proof
    }

    /// Returns which of sender and receiver is not Linux, by the TTL of its packets: its initial TTL is
    /// above 64 (Windows: 128).
    fn foreign_stacks(&self) -> impl Iterator<Item = (&'static str, Fact)> {
        let sender = self.gap().sender;
        let ends = [("sender_not_linux", sender), ("receiver_not_linux", sender.peer())];
        let ttl = |side: Side| self.connection.senders[side].packets.last.ttl;
        let ttls = ends.map(|(name, side)| (name, ttl(side)));
        ttls.into_iter()
            .filter(|(_, ttl)| (LINUX_TTL + 1..=WINDOWS_TTL).contains(ttl))
            .map(|(name, ttl)| (name, Fact::Text(format!("TTL {ttl}"))))
    }

    /// Adds the instance to the sums over all instances.
    pub fn add_to(&self, shown: &mut Shown) {
        (rules(self.chain.cause).add_up)(self, shown);
    }
}
