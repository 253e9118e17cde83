//! Findings on what limited a client's own requests and their responses, as its sockets show it:
//! windows, queues, losses, and segments that are held back.

use super::account::{Usual, fills_own_window, held_ns, loss_owner};
use super::measured::Measured;
use super::median_ns;
use super::request::{OwnRequest, PeerWindow, SendLimit};
use crate::findings::{self, Floors};
use crate::model::{Cause, Fact, Finding, Owner, Report, Role, StateEvidence};
use crate::wire::Side;
use std::cmp::Ordering;

impl Measured {
    /// Returns findings about requests whose body waited for the server's window.
    pub(super) fn windows(&self, report: &Report) -> Vec<Finding> {
        let of = |cause, is_its: &dyn Fn(PeerWindow) -> bool| {
            let own = self.requests.iter().filter(|it| is_its(it.sending.window));
            let waits_ns: Vec<u64> = own.clone().map(held_ns).filter(|&ns| ns > 0).collect();
            let (count, lost_ns) = (waits_ns.len() as u64, waits_ns.iter().sum::<u64>());
            let mut finding = self.finding(cause, Role::Server, report, lost_ns);
            let floors = Floors::default();
            let each_ns = lost_ns / count.max(1);
            if finding.share < floors.fault_share || each_ns < floors.fault_ns {
                return None;
            }
            let rtt_ns = median_ns(own.clone().map(|it| it.rtt_ns).filter(|&it| it > 0));
            let widest = own.filter_map(|it| match it.sending.window {
                PeerWindow::Small { bytes } => Some(bytes),
                PeerWindow::Closed | PeerWindow::Unknown => None,
            });
            finding.sender = Side::Client;
            finding.affected.exchanges = count;
            finding.affected.connections = report.totals.connections;
            finding.facts = vec![("sender", Fact::Text("client".into()))];
            finding.facts.push(("receiver", Fact::Text("server".into())));
            finding.facts.push(("rtt_ns", Fact::Ns(rtt_ns)));
            finding.facts.push(("longest_ns", Fact::Ns(waits_ns.into_iter().max().unwrap_or(0))));
            finding.facts.extend(widest.max().map(|it| ("window_bytes", Fact::Bytes(it))));
            finding.state = vec![StateEvidence {
                id: "rwnd_limited",
                agrees: true,
                setting: "tcpi_rwnd_limited",
                value: (lost_ns / 1_000).to_string(),
                place: "own socket".to_owned(),
                process: None,
                read_ns: None,
                facts: vec![("limited_ns", Fact::Ns(lost_ns))],
            }];
            Some(finding)
        };
        [
            of(Cause::ZeroWindow, &|it| it == PeerWindow::Closed),
            of(Cause::ReceiveWindow, &|it| matches!(it, PeerWindow::Small { .. })),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns a finding about responses that filled the client's own receive window.
    pub(super) fn own_window(&self, report: &Report) -> Option<Finding> {
        let own: Vec<_> = self.requests.iter().filter(|it| fills_own_window(it)).collect();
        let lost_ns = own.iter().map(|it| it.pause_ns + it.receive_ns).sum();
        let finding = self.fault(Cause::ReceiveWindow, Role::Client, report, (&own, lost_ns))?;
        let window_bytes = own.iter().map(|it| it.rcv_wnd_bytes).max().unwrap_or(0);
        let facts = vec![
            ("sender", Fact::Text("server".into())),
            ("receiver", Fact::Text("client".into())),
            ("rtt_ns", Fact::Ns(rtt_ns(&own))),
            ("window_bytes", Fact::Bytes(window_bytes)),
        ];
        let state = vec![evidence("own_window", "tcpi_rcv_wnd", window_bytes, facts.clone())];
        Some(Finding { facts, state, ..finding })
    }

    /// Returns findings about requests and responses that waited for the repair of a loss: by a
    /// timer, or sooner.
    pub(super) fn losses(&self, usual: &Usual, report: &Report) -> Vec<Finding> {
        let of = |cause, sender: Side, waited_ns: &dyn Fn(&OwnRequest) -> u64| {
            let owner = match cause {
                Cause::RetransmissionTimeout => Owner::RetransmissionTimeout,
                _ => Owner::FastRecovery,
            };
            let is_its = |ns: u64| ns > 0 && loss_owner(ns) == owner;
            let own: Vec<_> = self.requests.iter().filter(|it| is_its(waited_ns(it))).collect();
            let lost_ns = own.iter().map(|it| waited_ns(it)).sum();
            let finding = self.fault(cause, Role::Network, report, (&own, lost_ns))?;
            let counted = |it: &&OwnRequest| match sender {
                Side::Server => it.out_of_order,
                Side::Client => it.repeated,
            };
            let count = own.iter().map(counted).sum();
            let (id, setting) = match sender {
                Side::Server => ("out_of_order", "tcpi_rcv_ooopack"),
                Side::Client => ("retransmitted", "tcpi_total_retrans"),
            };
            let facts = vec![("count", Fact::Count(count))];
            let state = vec![evidence(id, setting, count, facts)];
            let rtt = vec![("rtt_ns", Fact::Ns(rtt_ns(&own)))];
            Some(Finding { facts: rtt, state, sender, ..finding })
        };
        let of_response = |it: &OwnRequest| usual.repaired_ns(it);
        let of_request = |it: &OwnRequest| usual.resent_ns(it);
        let by_side =
            |cause| [of(cause, Side::Server, &of_response), of(cause, Side::Client, &of_request)];
        let causes = [Cause::RetransmissionTimeout, Cause::FastRecovery];
        causes.into_iter().flat_map(by_side).flatten().collect()
    }

    /// Returns a finding about responses whose last part was held back for a round trip: most pauses
    /// are as long, and none is shorter. A delay on the path or of a host can only lengthen them,
    /// while a server's own pauses are as long as a round trip by chance.
    pub(super) fn held_for_a_round_trip(&self, usual: &Usual, report: &Report) -> Option<Finding> {
        let compared: Vec<_> =
            self.requests.iter().map(|it| usual.pause_by_round_trip(it)).collect();
        let count = |wanted| compared.iter().filter(|&&it| it == wanted).count();
        let is_held = 2 * count(Some(Ordering::Equal)) > compared.len();
        if !is_held || count(None) > 0 || count(Some(Ordering::Less)) > 0 {
            return None;
        }
        let own: Vec<_> = self.requests.iter().collect();
        let lost_ns = own.iter().map(|it| it.pause_ns).sum();
        let finding = self.fault(Cause::NagleDelayedAck, Role::Server, report, (&own, lost_ns))?;
        let held_ns = median_ns(own.iter().map(|it| it.pause_ns));
        let facts = vec![
            ("count", Fact::Count(count(Some(Ordering::Equal)) as u64)),
            ("of", Fact::Count(own.len() as u64)),
            ("rtt_ns", Fact::Ns(rtt_ns(&own))),
            ("held_ns", Fact::Ns(held_ns)),
        ];
        let state = vec![evidence("held_a_round_trip", "read", held_ns, facts)];
        Some(Finding { state, ..finding })
    }

    /// Returns the finding of a fault that took `lost_ns` of `own` requests, if that is enough for
    /// one.
    fn fault(
        &self,
        cause: Cause,
        role: Role,
        report: &Report,
        (own, lost_ns): (&[&OwnRequest], u64),
    ) -> Option<Finding> {
        let (floors, count) = (Floors::default(), own.len() as u64);
        let mut finding = self.finding(cause, role, report, lost_ns);
        if finding.share < floors.fault_share || lost_ns / count.max(1) < floors.fault_ns {
            return None;
        }
        finding.affected.exchanges = count;
        finding.affected.connections = report.totals.connections;
        finding.confidence = findings::confidence_of(cause, count);
        Some(finding)
    }

    /// Returns the evidence of the limit that most requests with a body met.
    pub(super) fn observed(&self) -> Vec<StateEvidence> {
        let sum = |of: fn(&OwnRequest) -> u64| self.requests.iter().map(of).sum::<u64>();
        let limits =
            |limit| self.requests.iter().filter(|it| it.sending.limit() == Some(limit)).count();
        let all = sum(|it| it.sending.observed);
        let (count, id, setting) = match limits(SendLimit::Queue) > limits(SendLimit::SlowStart) {
            true => (sum(|it| it.sending.queued), "queued", "tcpi_rtt"),
            false => (sum(|it| it.sending.slow_start), "cwnd_full", "tcpi_snd_cwnd"),
        };
        let facts = vec![("count", Fact::Count(count)), ("of", Fact::Count(all))];
        let is_one = count > 0;
        is_one.then(|| evidence(id, setting, count, facts)).into_iter().collect()
    }
}

fn rtt_ns(own: &[&OwnRequest]) -> u64 {
    median_ns(own.iter().map(|it| it.rtt_ns).filter(|&it| it > 0))
}

/// Returns what the client's own sockets say.
fn evidence(
    id: &'static str,
    setting: &'static str,
    value: u64,
    facts: Vec<(&'static str, Fact)>,
) -> StateEvidence {
    StateEvidence {
        id,
        agrees: true,
        setting,
        value: value.to_string(),
        place: "own socket".to_owned(),
        process: None,
        read_ns: None,
        facts,
    }
}
