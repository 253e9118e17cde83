//! The evidence of one instance of a cause, and facts that instances have in common.

use crate::judge::Gap;
use crate::literal::Literal;
use crate::model::{Cause, Evidence, Fact, Histogram, RuledOut, Sighting};
use crate::wire::Side;
use std::collections::BTreeMap;

/// Evidence of one instance.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Proof {
    links: Vec<(u64, Evidence)>,
    /// Values for the texts.
    #[serde(with = "crate::literal::pairs")]
    pub facts: Vec<(Literal, Fact)>,
    /// Look-alikes that the evidence excludes.
    pub ruled_out: Vec<RuledOut>,
    /// Chance that something else looks like this instance, 0 to 1.
    pub chance: f64,
}

impl Proof {
    /// Adds a frame with its part in the chain. A frame that already has a part keeps it, and a
    /// frame from before the capture began is left out.
    pub fn add_frame(&mut self, part: &'static str, seen: Sighting) {
        if seen.known().is_some() && self.links.iter().all(|(_, link)| link.frame != seen.frame) {
            let Sighting { frame, time_ns, payload_bytes, from } = seen;
            self.links.push((time_ns, Evidence { frame, part, from, payload_bytes, after_ns: 0 }));
        }
    }

    /// Adds the first frame of an exchange. An exchange that the server begins, with a greeting, has
    /// no request.
    pub fn add_request(&mut self, first: Sighting) {
        if first.from == Side::Client {
            self.add_frame("request", first);
        }
    }

    /// Adds the last frame of an exchange, unless its client ended it, with an ACK, a FIN or a RST.
    pub fn add_response(&mut self, last: Sighting) {
        if last.from == Side::Server {
            self.add_frame("response", last);
        }
    }

    /// Adds the frame before the silence.
    pub fn add_frame_before(&mut self, gap: &Gap, part: &'static str) {
        self.add_frame(part, gap.last);
    }

    /// Adds the segment that ended the silence; `part` is its role if the silent sender sent it.
    pub fn add_frame_after(&mut self, gap: &Gap, part: &'static str) {
        self.add_frame(if gap.next.from == gap.sender { part } else { "left" }, gap.next);
    }

    /// Adds the pure ACK in the silence, if there was one.
    pub fn add_ack(&mut self, gap: &Gap, part: &'static str) {
        if let Some(ack) = gap.acks.last.filter(|ack| ack.pure && ack.seen_ns >= gap.start_ns) {
            let (frame, time_ns, from) = (ack.frame, ack.seen_ns, gap.sender.peer());
            self.add_frame(part, Sighting { frame, time_ns, payload_bytes: 0, from });
        }
    }

    /// Adds the usual chain: the frame before the silence, the ACK, the frame after it.
    pub fn add_silence(&mut self, gap: &Gap) {
        self.add_frame_before(gap, "flight_end");
        self.add_ack(gap, "ack");
        self.add_frame_after(
            gap,
            if gap.repair.is_retransmission() { "retransmission" } else { "next" },
        );
    }

    /// Adds the usual chain of a sender that was held back until an ACK came. The text states that
    /// the next segment followed at once only if the ACK is shown and released that segment.
    pub fn add_held_data(&mut self, gap: &Gap) {
        self.add_frame_before(gap, "flight_end");
        self.add_ack(gap, "ack");
        self.add_frame_after(gap, self.next_of(gap));
    }

    /// Returns the part of the frame that followed the silence.
    pub fn next_of(&self, gap: &Gap) -> &'static str {
        let shown =
            self.links.iter().any(|(_, link)| ["ack", "ack_with_data"].contains(&link.part));
        if shown && gap.ack_triggered() { "next" } else { "next_later" }
    }

    /// Adds a value for the texts.
    pub fn add_fact(&mut self, name: &'static str, fact: Fact) {
        self.facts.push((name, fact));
    }

    /// Adds a look-alike with the id of the sentence that excludes it, if that sentence `holds`.
    pub fn rule_out(&mut self, cause: Cause, why: &'static str, holds: bool) {
        if holds {
            self.ruled_out.push(RuledOut { cause, why });
        }
    }

    /// Shows the lost frames as originals, because later D-SACKs showed that nothing was lost.
    pub fn mark_spurious(&mut self) {
        for (_, link) in &mut self.links {
            if link.part == "lost" {
                link.part = "original";
            }
        }
        self.ruled_out.clear();
        self.rule_out(Cause::RetransmissionTimeout, "dsack", true);
    }

    /// Returns the frames in the order in which they passed.
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

/// Facts that the instances of a cause share, by name.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Shown {
    #[serde(with = "crate::literal::map")]
    counts: BTreeMap<Literal, u64>,
    #[serde(with = "crate::literal::map")]
    medians: BTreeMap<Literal, Histogram>,
}

impl Shown {
    /// Adds `count` to a number.
    pub fn add(&mut self, name: &'static str, count: u64) {
        if count > 0 {
            *self.counts.entry(name).or_default() += count;
        }
    }

    /// Removes these numbers.
    pub fn remove(&mut self, names: &[&'static str]) {
        self.counts.retain(|name, _| !names.contains(name));
    }

    /// Adds a value to a fact of which the report shows the median.
    pub fn measure(&mut self, name: &'static str, value: u64) {
        self.medians.entry(name).or_default().record(value);
    }

    /// Returns a number, 0 if there was none.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Returns how many values a median is taken over.
    pub fn measured(&self, name: &str) -> u64 {
        self.medians.get(name).map_or(0, |values| values.count())
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

    /// Returns all values as facts. The last word of a name is its unit.
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
