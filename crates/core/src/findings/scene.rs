//! One clear instance of a cause, told: the frames of its chain, the values for its words, and
//! the look-alikes that it is not.
//!
//! What an instance shows is gathered while its connection is at hand; what instances have in
//! common is added up in [`Shown`], by the name of the fact.

use crate::app::Side;
use crate::findings::thresholds::{FAR_SENDER_NS, LATE_ACK_PART};
use crate::findings::{
    application, buffer_limits, bufferbloat, delayed_ack, flight, http_100_continue, loss,
    mtu_black_hole, nagle_delayed_ack, receive_window, resets, set_up, tls_handshake, zero_window,
};
use crate::judge::{Gap, Turn};
use crate::model::{Cause, Evidence, Fact, Histogram, RuledOut, Sighting};
use crate::tcp::{Chain, Connection, Exchange, Sender};
use std::collections::BTreeMap;

/// Exchanges whose longest silence came when their response had begun.
pub(super) const AMID: &str = "amid";

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

    /// How long the receiver kept back the ACK that ended it, where that is a part of it worth a
    /// word: what is left of a round trip is none, and where no ACK of the path was prompt, all of
    /// it is taken for the path.
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
        bulk.pipe.rate_known().map(|rate| rate.saturating_mul(8))
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

    /// Gathers what the instance shows.
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
        match self.chain.cause {
            Cause::NagleDelayedAck => nagle_delayed_ack::prove(self, &mut proof),
            Cause::DelayedAck => delayed_ack::prove(self, &mut proof),
            Cause::SendBuffer | Cause::SlowStart | Cause::CongestionWindow => {
                flight::prove(self, &mut proof);
            }
            Cause::ReceiveWindow => receive_window::prove(self, &mut proof),
            Cause::ZeroWindow => zero_window::prove(self, &mut proof),
            Cause::RetransmissionTimeout => loss::prove_timeout(self, &mut proof),
            Cause::FastRecovery => loss::prove_recovery(self, &mut proof),
            Cause::SpuriousRetransmission => loss::prove_spurious(self, &mut proof),
            Cause::Reordering => loss::prove_reordering(self, &mut proof),
            Cause::MtuBlackHole => mtu_black_hole::prove(self, &mut proof),
            Cause::SynRetransmit => set_up::prove_repeated(self, &mut proof),
            Cause::AcceptQueueOverflow => set_up::prove_overflow(self, &mut proof),
            Cause::Refused => set_up::prove_refused(self, &mut proof),
            Cause::Reset => resets::prove_reset(self, &mut proof),
            Cause::IdleReset => resets::prove_idle(self, &mut proof),
            Cause::Http100Continue => http_100_continue::prove(self, &mut proof),
            Cause::Bufferbloat => bufferbloat::prove(self, &mut proof),
            Cause::ServerThink | Cause::ClientThink => application::prove(self, &mut proof),
            Cause::TlsHandshake => tls_handshake::prove(self, &mut proof),
            _ => proof.see_silence(self.gap()),
        }
        proof
    }

    /// Adds to what instances have in common.
    pub fn add_to(&self, shown: &mut Shown) {
        match self.chain.cause {
            Cause::NagleDelayedAck | Cause::DelayedAck => {
                if let Some(delay_ns) = self.ack_delay_ns() {
                    shown.measure("ack_delay_p50_ns", delay_ns);
                }
            }
            Cause::RetransmissionTimeout => shown.add("tail", self.chain.tails.into()),
            Cause::SynRetransmit | Cause::AcceptQueueOverflow => set_up::add_up(self, shown),
            Cause::ReceiveWindow => buffer_limits::add_up(self, shown),
            Cause::ZeroWindow => {
                buffer_limits::add_up(self, shown);
                zero_window::add_up(self, shown);
            }
            Cause::ServerThink if self.gap().turn == Turn::Continues => shown.add(AMID, 1),
            Cause::SpuriousRetransmission => {
                shown.add("dsack", self.sender().history().counts.dsacks.into())
            }
            Cause::Bandwidth => {
                let began = self.exchange.began_at[self.gap().sender as usize];
                shown.measure("bytes", self.sender().nxt.saturating_sub(began));
            }
            _ => {}
        }
    }
}

/// Evidence of one instance.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    links: Vec<(u64, Evidence)>,
    /// Values for the words.
    pub facts: Vec<(&'static str, Fact)>,
    /// Look-alikes it is not.
    pub ruled_out: Vec<RuledOut>,
}

impl Proof {
    /// A frame with its part in the chain; one that has a part already keeps it, and one that was
    /// sent before the capture began has none.
    pub fn see(&mut self, part: &'static str, seen: Sighting) {
        if seen.known().is_some() && self.links.iter().all(|(_, link)| link.frame != seen.frame) {
            let Sighting { frame, time_ns, payload_bytes, from } = seen;
            self.links.push((time_ns, Evidence { frame, part, from, payload_bytes, after_ns: 0 }));
        }
    }

    /// Adds the frame before the silence.
    pub fn see_before(&mut self, gap: &Gap, part: &'static str) {
        self.see(part, gap.last);
    }

    /// What ended it; the part is what it is where its sender went on.
    pub fn see_after(&mut self, gap: &Gap, part: &'static str) {
        self.see(if gap.next.from == gap.sender { part } else { "left" }, gap.next);
    }

    /// The pure ACK in it, if there was one.
    pub fn see_ack(&mut self, gap: &Gap, part: &'static str) {
        if let Some(ack) = gap.acks.last.filter(|ack| ack.pure && ack.seen_ns >= gap.start_ns) {
            let (frame, time_ns, from) = (ack.frame, ack.seen_ns, gap.sender.peer());
            self.see(part, Sighting { frame, time_ns, payload_bytes: 0, from });
        }
    }

    /// The usual chain: what was sent before, the ACK, what followed.
    pub fn see_silence(&mut self, gap: &Gap) {
        self.see_before(gap, "flight_end");
        self.see_ack(gap, "ack");
        self.see_after(gap, if gap.repair.is_retransmission() { "retransmission" } else { "next" });
    }

    /// The same of a sender that something held back until an ACK came: that what followed followed
    /// at once is said where that ACK is shown, and let it go.
    pub fn see_held(&mut self, gap: &Gap) {
        self.see_before(gap, "flight_end");
        self.see_ack(gap, "ack");
        self.see_after(gap, self.next_of(gap));
    }

    /// The part of the frame that followed.
    pub fn next_of(&self, gap: &Gap) -> &'static str {
        let shown =
            self.links.iter().any(|(_, link)| ["ack", "ack_with_data"].contains(&link.part));
        if shown && gap.ack_triggered() { "next" } else { "next_later" }
    }

    /// A value for the words.
    pub fn fact(&mut self, name: &'static str, fact: Fact) {
        self.facts.push((name, fact));
    }

    /// A look-alike and the id of the sentence that excludes it, if that `holds`.
    pub fn not(&mut self, cause: Cause, why: &'static str, holds: bool) {
        if holds {
            self.ruled_out.push(RuledOut { cause, why });
        }
    }

    /// What it takes for a loss turned out to be none, by D-SACKs that came later.
    pub fn was_needless(&mut self) {
        for (_, link) in &mut self.links {
            if link.part == "lost" {
                link.part = "original";
            }
        }
        self.ruled_out.clear();
        self.not(Cause::RetransmissionTimeout, "dsack", true);
    }

    /// The frames in the order they passed.
    pub fn evidence(&self) -> Vec<Evidence> {
        let mut links = self.links.clone();
        links.sort_by_key(|(at_ns, link)| (*at_ns, link.frame));
        let first_ns = links.first().map_or(0, |(at_ns, _)| *at_ns);
        let times: Vec<u64> =
            std::iter::once(first_ns).chain(links.iter().map(|it| it.0)).collect();
        let chain = links.into_iter().zip(times);
        chain
            .map(|((at_ns, link), before_ns)| Evidence { after_ns: at_ns - before_ns, ..link })
            .collect()
    }
}

/// What the instances of a cause have in common, by the name of the fact.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    counts: BTreeMap<&'static str, u64>,
    medians: BTreeMap<&'static str, Histogram>,
}

impl Shown {
    /// Adds to a number.
    pub fn add(&mut self, name: &'static str, count: u64) {
        if count > 0 {
            *self.counts.entry(name).or_default() += count;
        }
    }

    /// One more value of which the median will be told.
    pub fn measure(&mut self, name: &'static str, value: u64) {
        self.medians.entry(name).or_default().record(value);
    }

    /// A number, 0 if there was none.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        for (name, values) in &other.medians {
            self.medians.entry(name).or_default().merge(values);
        }
    }

    /// All as facts. The last word of a name is its unit.
    pub fn facts(&self) -> impl Iterator<Item = (&'static str, Fact)> + '_ {
        let is_bytes = |name: &str| name.ends_with("bytes");
        let counts = self.counts.iter().map(move |(&name, &count)| {
            (name, if is_bytes(name) { Fact::Bytes(count) } else { Fact::Count(count) })
        });
        let medians = self.medians.iter().map(move |(&name, values)| {
            let median = values.quantile_ns(0.5);
            (name, if is_bytes(name) { Fact::Bytes(median) } else { Fact::Ns(median) })
        });
        counts.chain(medians)
    }
}
