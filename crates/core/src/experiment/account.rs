//! Attributes the time of a client's own requests to owners.

use super::median_ns;
use super::request::{Failure, OwnRequest, PeerWindow, SendLimit};
use crate::experiment::thresholds::OPENING_TRIPS;
use crate::judge::thresholds::{ALIKE_PART, HOST_DELAY_NS, INITIAL_WINDOW_BYTES, LINUX_RTO_MIN_NS};
use crate::model::experiment::{Experiment, Verdict};
use crate::model::{Cause, Ledger, Owner};
use crate::wire::Side;
use std::cmp::Ordering;

/// The other requests and the experiments, with which one request is compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usual {
    /// Median wait for the first byte of a response, ns.
    wait_ns: u64,
    /// Median time from the first byte to the last, ns, of the responses without a loss; of the
    /// fastest if each had one.
    answer_ns: u64,
    /// Median of the pauses within a response beyond a round trip each, ns.
    beyond_trips_ns: u64,
    /// An experiment shows that no pause within a response waits for an ACK.
    never_for_acks: bool,
    /// Least round trip, ns; 0 if unknown.
    rtt_ns: u64,
    /// Whether responses wait in a queue on the path, if an experiment shows it.
    is_queued: Option<bool>,
}

impl Usual {
    /// Returns what `requests` have in common.
    pub fn of(requests: &[OwnRequest], experiments: &[Experiment]) -> Self {
        let calm = requests.iter().filter(|it| !is_lossy(it)).map(answer_ns);
        let fastest_ns = requests.iter().map(answer_ns).min().unwrap_or(0);
        let answer_ns = if calm.clone().count() > 0 { median_ns(calm) } else { fastest_ns };
        let about_queues = experiments.iter().filter_map(|it| it.verdict.suspect());
        Self {
            wait_ns: median_ns(requests.iter().map(|it| it.wait_ns)),
            answer_ns,
            beyond_trips_ns: median_ns(requests.iter().map(|it| it.beyond_trips_ns)),
            rtt_ns: requests.iter().map(|it| it.rtt_ns).filter(|&it| it > 0).min().unwrap_or(0),
            never_for_acks: experiments.iter().any(refutes_waiting_for_acks),
            is_queued: about_queues
                .filter(|(suspect, _)| suspect.cause == Cause::Bandwidth)
                .map(|(_, agrees)| agrees)
                .next(),
        }
    }

    /// Returns the time of one request by owner.
    pub fn ledger(&self, request: &OwnRequest) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.add(Owner::Dns, request.lookup_ns);
        let connect = if is_repeated_syn(request) { Owner::SynRetransmit } else { Owner::Connect };
        ledger.add(connect, request.connect_ns);
        ledger.add(Owner::Tls, request.tls_ns);
        self.add_wait(request, &mut ledger);
        self.add_answer(request, &mut ledger);
        ledger
    }

    /// Adds the time until the first byte of the response. The server cannot work on a request that
    /// has not arrived. Its own time is the wait that all requests have in common: a wait that is
    /// longer by a retransmission timeout may contain one.
    fn add_wait(&self, request: &OwnRequest, ledger: &mut Ledger) {
        let path_ns = request.wait_ns.min(request.rtt_ns);
        ledger.add(Owner::Path, path_ns);
        let window_ns = held_ns(request);
        let window = match request.sending.window {
            PeerWindow::Closed => Owner::ZeroWindow,
            PeerWindow::Small { .. } => Owner::ReceiveWindow,
            PeerWindow::Unknown => Owner::Unknown,
        };
        ledger.add(window, window_ns);
        let lost_ns = lost_on_the_way_ns(request, self.wait_ns);
        let sending_ns = request.sending_ns().saturating_sub(window_ns.max(lost_ns));
        let sending = match request.sending.limit() {
            Some(SendLimit::Queue) => Owner::Bandwidth,
            Some(SendLimit::SlowStart) => Owner::CongestionWindow,
            Some(SendLimit::Window) | None => Owner::Unknown,
        };
        ledger.add(sending, sending_ns);
        let rest_ns = (request.wait_ns - path_ns).saturating_sub(window_ns + sending_ns);
        let lost_ns = lost_ns.min(rest_ns);
        ledger.add(loss_owner(lost_ns), lost_ns);
        let is_typical = request.wait_ns < self.wait_ns + LINUX_RTO_MIN_NS && request.repeated == 0;
        let rest = if is_typical { Owner::Server } else { Owner::Unknown };
        ledger.add(rest, rest_ns - lost_ns);
    }

    /// Adds the time from the first byte of the response to the last.
    fn add_answer(&self, request: &OwnRequest, ledger: &mut Ledger) {
        let lost_ns = self.repaired_ns(request);
        ledger.add(loss_owner(lost_ns), lost_ns);
        let left_ns = answer_ns(request) - lost_ns;
        if self.is_queued == Some(true) {
            ledger.add(Owner::Bandwidth, left_ns);
            return;
        }
        if fills_own_window(request) {
            ledger.add(Owner::ReceiveWindow, left_ns);
            return;
        }
        let is_whole = request.wire_bytes <= INITIAL_WINDOW_BYTES && request.out_of_order == 0;
        let may_be_held = self.pause_by_round_trip(request) == Some(Ordering::Equal);
        if !self.never_for_acks || may_be_held {
            ledger.add(Owner::Unknown, left_ns);
            return;
        }
        if !is_whole {
            let own_ns = self.server_pauses_ns(request).min(left_ns);
            ledger.add(Owner::Server, own_ns);
            ledger.add(Owner::Unknown, left_ns - own_ns);
            return;
        }
        // A response of one flight waits for no ACK. All its pauses are the server's if no link on
        // the path is as slow.
        let pause_ns = request.pause_ns.min(left_ns);
        ledger.add(Owner::Server, pause_ns);
        let others = if self.is_queued == Some(false) { Owner::Server } else { Owner::Unknown };
        ledger.add(others, left_ns - pause_ns);
    }

    /// Returns the time in which the server paused within a response of several flights, ns. On a path
    /// without a queue, a sender that waits for ACKs sends on after a round trip, so what pauses take
    /// beyond that is the server's. What a response has more of it than the others may be a timer that
    /// repaired a loss.
    fn server_pauses_ns(&self, request: &OwnRequest) -> u64 {
        let is_calm = self.is_queued == Some(false) && !is_lossy(request) && self.rtt_ns > 0;
        if is_calm { request.beyond_trips_ns.min(self.beyond_trips_ns) } else { 0 }
    }

    /// Returns the time for which a response waited for the repair of a loss, ns: it is longer than
    /// the responses without one by at least the round trip that a repair takes (RFC 5681 §3.2).
    /// Segments that were only reordered cost less.
    pub fn repaired_ns(&self, request: &OwnRequest) -> u64 {
        let longer_ns = answer_ns(request).saturating_sub(self.answer_ns);
        let is_repair = is_lossy(request) && request.rtt_ns > 0 && longer_ns >= request.rtt_ns;
        if is_repair { longer_ns } else { 0 }
    }

    /// Compares the longest pause of a response with a round trip, if less than a segment follows
    /// it: Nagle's algorithm holds such a segment until the ACK of the data before (RFC 1122
    /// §4.2.3.4). Returns `None` if it does not follow, or if the round trip is as short as the
    /// delay of a host. Pauses that differ by less than an eighth are equal.
    pub fn pause_by_round_trip(&self, request: &OwnRequest) -> Option<Ordering> {
        let part_ns = self.rtt_ns / ALIKE_PART;
        let is_small = (1..request.mss_bytes).contains(&request.after_pause_bytes);
        if !is_small || part_ns < HOST_DELAY_NS {
            return None;
        }
        Some(match request.pause_ns {
            ns if ns < self.rtt_ns - part_ns => Ordering::Less,
            ns if ns > self.rtt_ns + part_ns => Ordering::Greater,
            _ => Ordering::Equal,
        })
    }

    /// Returns the time for which a request itself waited for the repair of a loss, ns.
    pub fn resent_ns(&self, request: &OwnRequest) -> u64 {
        let others_ns = held_ns(request) + request.rtt_ns;
        let rest_ns = request.wait_ns.saturating_sub(others_ns);
        lost_on_the_way_ns(request, self.wait_ns).min(rest_ns)
    }
}

/// Returns the time from the first byte of the response to the last, ns.
fn answer_ns(request: &OwnRequest) -> u64 {
    request.pause_ns + request.receive_ns
}

fn is_lossy(request: &OwnRequest) -> bool {
    request.out_of_order > 0
}

/// Returns by how much a request whose segments were sent again waited longer than usual, ns, if it
/// is at least a round trip. The SYN has its own time.
fn lost_on_the_way_ns(request: &OwnRequest, usual_wait_ns: u64) -> u64 {
    let longer_ns = request.wait_ns.saturating_sub(usual_wait_ns);
    let is_loss = request.repeated > 0 && !is_repeated_syn(request) && request.rtt_ns > 0;
    if is_loss && longer_ns >= request.rtt_ns { longer_ns } else { 0 }
}

/// Returns the owner of a repair that took so long.
pub fn loss_owner(lost_ns: u64) -> Owner {
    if lost_ns >= LINUX_RTO_MIN_NS { Owner::RetransmissionTimeout } else { Owner::FastRecovery }
}

/// Returns whether the client's own receive window explains the time of a response: n bytes need
/// n ÷ window round trips, and they took little longer.
pub fn fills_own_window(request: &OwnRequest) -> bool {
    let explained_ns = request.window_trips() * request.rtt_ns;
    let answer_ns = answer_ns(request);
    request.exceeds_own_window()
        && request.rtt_ns > 0
        && explained_ns <= answer_ns + answer_ns / ALIKE_PART
        && explained_ns >= answer_ns - answer_ns / ALIKE_PART
}

/// Returns whether the SYN was retransmitted: the connection took longer than its timer, and the
/// kernel reports a retransmission.
pub fn is_repeated_syn(request: &OwnRequest) -> bool {
    request.repeated > 0 && request.connect_ns >= LINUX_RTO_MIN_NS + request.rtt_ns
}

/// Returns the owner of the time of a failed attempt.
pub fn owner_of(failure: Failure) -> Owner {
    match failure {
        Failure::Refused { .. } | Failure::Rejected { .. } => Owner::Connect,
        Failure::Unanswered { .. } => Owner::SynRetransmit,
        Failure::Closed { .. } => Owner::Server,
        Failure::Reset { .. } => Owner::Unknown,
    }
}

/// Returns the time for which the server's window held a request back, ns, without the round trip
/// that it takes in any case. If it was the limit at most observations, that is all the time until
/// the request had arrived: between the observations the window opens for the next segment alone.
pub fn held_ns(request: &OwnRequest) -> u64 {
    let is_limit = request.sending.limit() == Some(SendLimit::Window);
    let least_ns = if is_limit { request.sending_ns() } else { 0 };
    let held_ns = request.rwnd_limited_ns.max(least_ns);
    let is_small = matches!(request.sending.window, PeerWindow::Small { .. });
    if is_small && held_ns < OPENING_TRIPS * request.rtt_ns {
        return 0;
    }
    held_ns.min(request.wait_ns.saturating_sub(request.rtt_ns))
}

fn refutes_waiting_for_acks(experiment: &Experiment) -> bool {
    let Verdict::Refutes(suspect) = &experiment.verdict else { return false };
    suspect.cause.waits_for_ack() && suspect.sender == Side::Server
}
