//! One clear instance of a cause, with its connection at hand: what its proof is made of.

use crate::app::Side;
use crate::findings::causes::rules;
use crate::findings::proof::{Proof, Shown};
use crate::findings::thresholds::{FAR_SENDER_NS, LATE_ACK_PART};
use crate::judge::Gap;
use crate::model::{Cause, Fact};
use crate::tcp::{Chain, Connection, Exchange, Sender};

/// A cause's part in one exchange, with what surrounds it.
pub(super) struct Scene<'a> {
    /// The connection.
    pub connection: &'a Connection,
    /// The exchange.
    pub exchange: &'a Exchange,
    /// The cause's part in it.
    pub chain: &'a Chain,
}

impl Scene<'_> {
    /// The longest silence.
    pub fn gap(&self) -> &Gap {
        &self.chain.gap
    }

    /// The sender that was silent in it.
    pub fn sender(&self) -> &Sender {
        &self.connection.senders[self.chain.gap.sender as usize]
    }

    /// Time by which the receiver delayed the ACK that ended the silence, if it is worth reporting.
    /// The rest of a round trip is no such delay; if no ACK on the path was prompt, all of it is
    /// attributed to the path.
    pub fn ack_delay_ns(&self) -> Option<u64> {
        let delay_ns = self.gap().acks.last?.delay_ns?;
        (delay_ns >= self.gap().len_ns() / LATE_ACK_PART).then_some(delay_ns)
    }

    /// Returns whether neither side has sent anything again on the connection so far.
    pub fn nothing_again(&self) -> bool {
        let again = |sender: &Sender| sender.counts().rexmt_data_packets > 0;
        !self.gap().losses.occurred && !self.connection.senders.iter().any(again)
    }

    /// The bottleneck's rate, bits per second, where it is known.
    pub fn bottleneck_bps(&self) -> Option<u64> {
        let bulk = self.sender().bulk.as_ref()?;
        bulk.pipe.last_rate().map(|rate| rate.saturating_mul(8))
    }

    /// Bytes the path takes in a base round trip, where its rate is known.
    pub fn bdp_bytes(&self) -> Option<u64> {
        let rate_bps = self.bottleneck_bps()?;
        let bits = u128::from(rate_bps) * u128::from(self.gap().rtt.base_ns) / 1_000_000_000;
        Some((bits / 8) as u64)
    }

    /// The rate of one flight of `bytes` per base round trip, and what the path would need
    /// instead, where it needs more.
    pub fn limited_to(&self, bytes: u64, proof: &mut Proof) {
        let rtt_ns = self.gap().rtt.base_ns;
        if rtt_ns == 0 {
            return;
        }
        let rate_bps = (u128::from(bytes) * 8_000_000_000 / u128::from(rtt_ns)) as u64;
        let bottleneck_bps = self.bottleneck_bps().filter(|&path_bps| path_bps > rate_bps);
        if let (Some(bottleneck_bps), Some(bdp_bytes)) = (bottleneck_bps, self.bdp_bytes()) {
            proof.fact("rate_bps", Fact::BitsPerSecond(rate_bps));
            proof.fact("bdp_bytes", Fact::Bytes(bdp_bytes));
            proof.fact("bottleneck_bps", Fact::BitsPerSecond(bottleneck_bps));
        }
    }

    /// Proves the instance.
    pub fn proof(&self) -> Proof {
        let mut proof = Proof::default();
        proof.fact("mss_bytes", Fact::Bytes(self.gap().smss));
        proof.fact("rtt_ns", Fact::Ns(self.gap().rtt.base_ns));
        let ack = self.gap().acks.last.filter(|ack| ack.pure && ack.seen_ns >= self.gap().start_ns);
        if ack.is_some() && self.gap().rtt.sender_ns >= FAR_SENDER_NS {
            let side = match self.gap().sender {
                Side::Client => "client",
                Side::Server => "server",
            };
            proof.fact("far_side", Fact::Text(side.into()));
            proof.fact("rtt_sender_ns", Fact::Ns(self.gap().rtt.sender_ns));
        }
        // A window that is closed says nothing of its height where that is what matters.
        let closes = self.chain.cause == Cause::ZeroWindow;
        if let Some(window) = self.gap().window.bytes.filter(|&window| window > 0 || closes) {
            proof.fact("window_bytes", Fact::Bytes(window));
        }
        (rules(self.chain.cause).prove)(self, &mut proof);
        proof
    }

    /// Adds the instance to the sums over all of them.
    pub fn add_to(&self, shown: &mut Shown) {
        (rules(self.chain.cause).add_up)(self, shown);
    }
}
