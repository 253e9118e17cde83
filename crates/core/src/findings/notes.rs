//! Observations that limit the report, and observations of events that cost no time.

use crate::findings::cuts::Cuts;
use crate::findings::first_requests::FirstRequests;
use crate::findings::opened::Opened;
use crate::model::{Cause, Fact, Observation};
use crate::tcp::{Connection, Exchange};
use crate::wire::Side;

/// Counts from which the observations are made.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Notes {
    missing_bytes: u64,
    holed_connections: u64,
    duplicates: u64,
    one_sided: u64,
    /// Number of requests on these, whose answers would be in the other direction.
    unseen_answers: u64,
    without_acks: u64,
    /// Number of connections of which a SYN or an ACK without data was captured.
    with_bare_segments: u64,
    cut_headers: u64,
    truncated: u64,
    reversed_stamps: u64,
    super_packets: u64,
    mid_stream: u64,
    /// Number of connections with exchanges that are not counted, because either end may be the client.
    pub undirected: u64,
    unscaled: u64,
    duplicate_acks: u64,
    keep_alives: u64,
    unsolicited: u64,
    icmp_errors: u64,
    tunnelled: u64,
    ecn_marked: u64,
    ecn_echoed: u64,
    unanswered: u64,
    /// Number of look-ups whose only query has no answer, though the capture goes on.
    unanswered_lookups: u64,
    probes: u64,
    other_answers: u64,
    /// Number of attempts whose client neither acknowledged repeated SYN-ACKs nor repeated its SYN.
    unacknowledged_syn_acks: u64,
    /// TLS connections, where keys were given.
    opened: Opened,
    ignored_resets: u64,
    /// Events that no finding reports; known when all findings are.
    pub noticed: Noticed,
    /// Number of streams without a known end that their receivers stopped by a RST.
    pub stopped: u64,
    /// Connections that were ended, or left, while something was still to come.
    cuts: Cuts,
    /// Clients that connected long before their first request.
    pub(super) first_requests: FirstRequests,
    /// Number of names that were looked up and do not exist.
    pub nxdomain: u64,
    /// Number of connection attempts that were dropped to keep memory bounded.
    pub evicted: u64,
    /// Out-of-order bytes that were discarded to keep memory bounded.
    pub discarded_bytes: u64,
    /// Number of connections to servers that share a row, because there were too many servers.
    pub crowded: u64,
    /// Number of exchanges whose cause is added to that of others, because there were too many.
    pub joined_causes: u64,
    /// Number of look-ups that could not be kept until the exchanges after them were known.
    pub unlinked: u64,
    /// Number of connections that reused the addresses and ports of another.
    pub port_reuses: u64,
    /// Number of sessions that their server ended because the client was idle.
    ended_idle: u64,
    /// Number of commands that were refused and only asked what a server offers.
    refused_offers: u64,
    /// Number of look-ups for which nothing waits.
    pub background_lookups: u64,
    /// Number of queries of name servers, for which no application is seen to wait.
    pub iterative: u64,
    /// Number of requests behind one with which the connection ends, which were not answered.
    not_due: u64,
}

/// Counts of events at a sender that a finding may report.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Noticed {
    /// Number of retransmitted segments on connections with exchanges.
    pub retransmissions: u64,
    /// Number of retransmitted segments on connections without any exchange, where nothing shows
    /// whether something waited.
    pub uncounted: u64,
    /// Number of these that D-SACKs show to be spurious.
    pub spurious: u64,
    /// Number of segments out of order.
    pub reordered: u64,
    /// Number of times that a receiver closed its window, which was seen open before.
    pub zero_windows: u64,
}

impl Noticed {
    /// Returns the events at the sender of `side`.
    pub fn of(connection: &Connection, side: Side) -> Self {
        let history = connection.senders[side].history();
        // A retransmission that a D-SACK shows to be spurious is counted as spurious only.
        let spurious = u64::from(history.counts.dsacks);
        let repeated = history.counts.rexmt_data_packets.saturating_sub(spurious);
        let has_exchanges = connection.totals.exchanges > 0;
        Self {
            retransmissions: if has_exchanges { repeated } else { 0 },
            uncounted: if has_exchanges { 0 } else { repeated },
            spurious,
            reordered: history.counts.out_of_order_packets,
            zero_windows: history.window.closings,
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.retransmissions += other.retransmissions;
        self.uncounted += other.uncounted;
        self.spurious += other.spurious;
        self.reordered += other.reordered;
        self.zero_windows += other.zero_windows;
    }
}

/// Returns whether the server repeated its SYN-ACK and never heard of the client again: that has given
/// up, does not exist, or neither gets what the server sends nor tries again.
fn is_left_half_open(connection: &Connection) -> bool {
    let setup = &connection.setup;
    setup.half_open()
        && setup.syns == 1
        && setup.syn_acks > 1
        && !setup.confirmed
        && !connection.view().sends_probes()
        && connection.cold.ending().reset.is_none()
}

impl Notes {
    /// Records that a finding reports `count` requests without a response when the capture ended.
    pub fn count_answerless(&mut self, count: u64) {
        self.unanswered = self.unanswered.saturating_sub(count);
    }

    /// Records a look-up whose only query has no answer in the capture, which goes on behind it.
    pub fn count_unanswered_lookup(&mut self) {
        self.unanswered_lookups += 1;
    }

    /// Records a request without a response whose capture ended with it.
    pub fn count_unanswered(&mut self) {
        self.unanswered += 1;
    }

    /// Records a request whose answer would be in the direction that was not captured.
    pub fn count_unseen(&mut self, exchange: &Exchange) {
        self.unseen_answers += u64::from(exchange.request_seen);
    }

    /// Excludes the events that findings of these causes report.
    pub fn exclude(&mut self, reported: impl Iterator<Item = Cause>) {
        for cause in reported {
            match cause {
                Cause::DnsSearch | Cause::DnsFailure => self.nxdomain = 0,
                Cause::SynFlood => self.unacknowledged_syn_acks = 0,
                _ => {}
            }
        }
    }

    /// Returns whether frames were captured twice.
    pub fn has_copies(&self) -> bool {
        self.duplicates > 0
    }

    /// Adds the counts of a connection that is over.
    pub fn connection(&mut self, connection: &Connection) {
        let faults = connection.cold.faults();
        self.missing_bytes += faults.missing_bytes;
        self.holed_connections += u64::from(faults.missing_bytes > 0);
        self.duplicates += faults.duplicates;
        self.cut_headers += faults.cut_headers;
        self.truncated += faults.truncated;
        self.reversed_stamps += faults.reversed;
        self.super_packets += faults.super_packets;
        self.mid_stream += u64::from(connection.mid_stream);
        self.undirected += u64::from(connection.is_undirected());
        self.unsolicited += u64::from(connection.timeline.pattern.unsolicited);
        // A finding reports the errors about a SYN, and those about data that only a timer
        // repaired.
        let timed_out =
            |side: Side| connection.totals.causes[side].contains(Cause::RetransmissionTimeout);
        let reported = connection.cold.icmp_report().filter(|reported| !reported.about_syn);
        let reported = reported.filter(|reported| {
            connection.cold.icmp_report().filter(|it| it.rejects(reported.about)).is_none()
                || !timed_out(reported.about)
        });
        self.icmp_errors += reported.map_or(0, |reported| reported.count);
        self.unanswered += u64::from(connection.left_unanswered);
        self.probes += u64::from(connection.view().sends_probes());
        self.other_answers += u64::from(connection.setup.other_syn_acks() > 0);
        self.unacknowledged_syn_acks += u64::from(is_left_half_open(connection));
        self.ignored_resets += connection.cold.ignored_resets();
        self.opened.connection(connection);
        self.not_due += connection.cold.not_due();
        self.ended_idle += u64::from(connection.framer.is_ended_idle());
        self.refused_offers += connection.framer.refused_offers();
        self.cuts.connection(connection);
        self.tunnelled += u64::from(connection.is_tunnelled);
        let senders = &connection.senders;
        let seen = senders.iter().all(|sender| sender.volume.has_packets());
        self.one_sided +=
            u64::from(!seen && senders.iter().any(|sender| sender.volume.unique_bytes > 0));
        self.without_acks += u64::from(connection.view().lacks_acks());
        self.with_bare_segments += u64::from(connection.view().has_bare_segments());
        let unscaled = senders.iter().all(|sender| sender.space.window_scale().is_none());
        self.unscaled += u64::from(unscaled && !connection.mid_stream);
        for sender in senders.iter().filter(|sender| sender.is_troubled()) {
            if sender.history().counts.rexmt_data_packets == 0 {
                self.duplicate_acks += sender.history().counts.duplicate_acks;
            }
            self.ecn_marked += sender.history().ecn.marked;
            self.ecn_echoed += sender.history().ecn.echoed;
            self.keep_alives += sender.history().counts.keep_alives;
        }
    }

    /// Number of bytes that were acknowledged and never seen.
    pub fn missing_bytes(&self) -> u64 {
        self.missing_bytes
    }

    /// Number of connections of which only one direction was captured.
    pub fn one_sided(&self) -> u64 {
        self.one_sided
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.missing_bytes += other.missing_bytes;
        self.holed_connections += other.holed_connections;
        self.duplicates += other.duplicates;
        self.one_sided += other.one_sided;
        self.unseen_answers += other.unseen_answers;
        self.without_acks += other.without_acks;
        self.with_bare_segments += other.with_bare_segments;
        self.cut_headers += other.cut_headers;
        self.truncated += other.truncated;
        self.reversed_stamps += other.reversed_stamps;
        self.super_packets += other.super_packets;
        self.mid_stream += other.mid_stream;
        self.undirected += other.undirected;
        self.unscaled += other.unscaled;
        self.duplicate_acks += other.duplicate_acks;
        self.keep_alives += other.keep_alives;
        self.unsolicited += other.unsolicited;
        self.icmp_errors += other.icmp_errors;
        self.tunnelled += other.tunnelled;
        self.ecn_marked += other.ecn_marked;
        self.ecn_echoed += other.ecn_echoed;
        self.unanswered += other.unanswered;
        self.unanswered_lookups += other.unanswered_lookups;
        self.probes += other.probes;
        self.other_answers += other.other_answers;
        self.unacknowledged_syn_acks += other.unacknowledged_syn_acks;
        self.ignored_resets += other.ignored_resets;
        self.stopped += other.stopped;
        self.opened.merge(&other.opened);
        self.cuts.merge(&other.cuts);
        self.first_requests.merge(&other.first_requests);
        self.nxdomain += other.nxdomain;
        self.evicted += other.evicted;
        self.discarded_bytes += other.discarded_bytes;
        self.crowded += other.crowded;
        self.joined_causes += other.joined_causes;
        self.unlinked += other.unlinked;
        self.port_reuses += other.port_reuses;
        self.not_due += other.not_due;
        self.ended_idle += other.ended_idle;
        self.refused_offers += other.refused_offers;
        self.background_lookups += other.background_lookups;
        self.iterative += other.iterative;
    }

    /// Returns the observations; those that limit the report come first.
    pub fn observations(&self) -> Vec<Observation> {
        let mut all = Vec::new();
        let mut note = |id, facts: Vec<(&'static str, Fact)>| {
            all.push(Observation { id, facts, frames: Vec::new() });
        };
        // Holes in a file without any such segment are those of the filter that left these out.
        let is_filtered = self.without_acks > 0 && self.with_bare_segments == 0;
        // A filter left them out of all connections; those where nothing is known to be missing do not show it.
        let lacks_more = is_filtered && self.without_acks < self.mid_stream;
        if lacks_more {
            note("missing_acks", Vec::new());
        }
        if self.missing_bytes > 0 && !is_filtered {
            note(
                "capture_drops",
                vec![
                    ("bytes", Fact::Bytes(self.missing_bytes)),
                    ("connections", Fact::Count(self.holed_connections)),
                ],
            );
        }
        if self.discarded_bytes > 0 {
            note("early_payload_given_up", vec![("bytes", Fact::Bytes(self.discarded_bytes))]);
        }
        if self.duplicates > 0 {
            note("capture_duplicates", vec![("count", Fact::Count(self.duplicates))]);
        }
        if self.one_sided > 0 {
            let requests =
                (self.unseen_answers > 0).then_some(("requests", Fact::Count(self.unseen_answers)));
            let connections = ("connections", Fact::Count(self.one_sided));
            note("asymmetric_capture", [connections].into_iter().chain(requests).collect());
        }
        let counts = [
            ("missing_acks", "connections", if lacks_more { 0 } else { self.without_acks }),
            ("reversed_stamps", "count", self.reversed_stamps),
            ("truncated_headers", "count", self.cut_headers),
            ("truncated_payload", "count", self.truncated),
            ("super_packets", "count", self.super_packets),
            ("mid_stream_start", "connections", self.mid_stream),
            ("roles_unknown", "connections", self.undirected),
            ("window_scale_unknown", "connections", self.unscaled),
            ("connections_evicted", "count", self.evicted),
            ("too_many_servers", "connections", self.crowded),
            ("too_many_causes", "exchanges", self.joined_causes),
            ("too_many_lookups", "count", self.unlinked),
            ("tunnels", "connections", self.tunnelled),
            ("port_reuse", "count", self.port_reuses),
            ("one_off_retransmissions", "count", self.noticed.retransmissions),
            ("uncounted_retransmissions", "count", self.noticed.uncounted),
            ("spurious_retransmissions", "count", self.noticed.spurious),
            ("reordering", "count", self.noticed.reordered),
            ("duplicate_acks", "count", self.duplicate_acks),
            ("zero_windows", "count", self.noticed.zero_windows),
            ("keep_alives", "count", self.keep_alives),
            ("unasked_messages", "count", self.unsolicited),
            ("stopped_streams", "count", self.stopped),
            ("sessions_ended_idle", "count", self.ended_idle),
            ("refused_offers", "count", self.refused_offers),
            ("requests_behind_the_last", "count", self.not_due),
            ("icmp_errors", "count", self.icmp_errors),
            ("ecn", "count", self.ecn_marked),
            ("unanswered_requests", "count", self.unanswered),
            ("unanswered_lookups", "count", self.unanswered_lookups),
            ("probes", "count", self.probes),
            ("two_servers", "count", self.other_answers),
            ("unacknowledged_syn_acks", "count", self.unacknowledged_syn_acks),
            ("ignored_resets", "count", self.ignored_resets),
            ("dns_nxdomain", "count", self.nxdomain),
            ("background_lookups", "count", self.background_lookups),
            ("iterative_queries", "count", self.iterative),
        ];
        for (id, name, count) in counts.into_iter().filter(|&(_, _, count)| count > 0) {
            note(id, vec![(name, Fact::Count(count))]);
        }
        if let Some((id, facts)) = self.opened.facts() {
            note(id, facts);
        }
        for (id, facts) in self.cuts.facts() {
            note(id, facts);
        }
        if let Some(facts) = self.first_requests.facts() {
            note("late_first_requests", facts);
        }
        if self.ecn_marked == 0 && self.ecn_echoed > 0 {
            // The packets were marked beyond the vantage, so only the receivers' echo is seen.
            note("ecn", Vec::new());
        }
        all
    }
}
