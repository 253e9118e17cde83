use super::*;
use crate::app::ErrorCode;
use crate::model::Cause::ErrorResponses;
use crate::model::experiment::{Experiment, Suspect, Verdict};
use crate::model::{Cause, Class, Culprit, Finding, Language, OutcomeKind, Owner, Report, Role};
use crate::wire::{Endpoint, Side};
use std::net::SocketAddr;

const MS: u64 = 1_000_000;

fn server() -> Endpoint {
    SocketAddr::from(([10, 0, 0, 2], 80)).into()
}

fn suspect(cause: Cause) -> Suspect {
    let culprit = Culprit { role: Role::Server, endpoint: server() };
    Suspect { cause, culprit, sender: Side::Server }
}

/// Returns an experiment in which prompt ACKs reduced 44 ms to 0.1 ms.
fn quickack(verdict: Verdict) -> Experiment {
    let effect_ns = if matches!(verdict, Verdict::Supports(_)) { 43_900_000 } else { 0 };
    Experiment {
        name: "quickack",
        usual_ns: 44 * MS,
        changed_ns: (44 * MS).saturating_sub(effect_ns as u64),
        effect_ns,
        interval_ns: (Some(effect_ns - 100_000), Some(effect_ns + 100_000)),
        floor_ns: MS,
        trials: 8,
        requests: 80,
        verdict,
    }
}

fn supports() -> Experiment {
    quickack(Verdict::Supports(suspect(Cause::NagleDelayedAck)))
}

fn refutes() -> Experiment {
    quickack(Verdict::Refutes(suspect(Cause::NagleDelayedAck)))
}

/// Returns ten requests on one connection, each with a pause within its response.
fn paused(pause_ns: u64) -> Measured {
    let request = OwnRequest {
        wait_ns: 150_000,
        pause_ns,
        rtt_ns: 100_000,
        wire_bytes: 900,
        ..OwnRequest::default()
    };
    Measured { server: server(), requests: vec![request; 10], ..Measured::default() }
}

#[test]
fn answers_that_state_an_error_are_no_health() {
    let statuses = |bad: usize, status| {
        let mut measured = paused(0);
        let first = measured.requests.iter_mut().take(bad);
        first.for_each(|request| request.error = ErrorCode::of_http(status));
        measured.report(&[])
    };
    for (bad, status) in [(10, 503), (10, 404), (5, 500)] {
        let report = statuses(bad, status);
        let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
        assert_eq!((finding.cause, finding.affected.exchanges), (ErrorResponses, bad as u64));
        assert_eq!(report.endpoints[0].outcomes.of(OutcomeKind::Error), bad as u64);
    }
    for (bad, status) in [(0, 503), (1, 404), (10, 302)] {
        assert!(statuses(bad, status).findings.is_empty(), "{bad} of {status}");
    }
}

fn captured(cause: Cause, confidence: f64) -> Report {
    let culprit = Culprit { role: Role::Server, endpoint: server() };
    let finding = Finding { confidence, lost_ns: 1, ..Finding::of_cause(cause, culprit) };
    let mut report = Report { findings: vec![finding], ..Report::default() };
    report.totals.segments = 100;
    report
}

#[test]
fn an_experiment_alone_names_the_cause_and_its_cost() {
    let measured = paused(43_850_000);
    let mut report = measured.report(&[supports()]);
    assert!(report.findings.is_empty(), "a pause alone has no owner: {:?}", report.findings);
    assert_eq!(report.ledger.of(Owner::Unknown), 438_500_000);
    weigh(&mut report, vec![supports()]);
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((finding.cause, finding.culprit.role), (Cause::NagleDelayedAck, Role::Server));
    assert!((430..=440).contains(&(finding.lost_ns / MS)), "{finding:?}");
    assert!(!finding.is_unseen && finding.share > 0.98, "{finding:?}");
    assert_eq!(finding.affected.exchanges, 10);
    assert_eq!(report.ledger.total_ns(), report.totals.wall_ns);
    assert_eq!(report.ledger.of(Owner::NagleDelayedAck), finding.lost_ns);
    assert!(finding.counterfactual.likely.p50_ns < MS);
    assert_eq!(report.experiments.len(), 1);
}

#[test]
fn the_confidence_in_a_cause_that_only_an_experiment_shows_falls_with_the_number_of_causes() {
    let confidence = |others: usize| {
        let others = vec![Experiment { verdict: Verdict::Undecided, ..supports() }; others];
        let mut report = paused(43_850_000).report(&[supports()]);
        weigh(&mut report, [vec![supports()], others].concat());
        report.findings[0].confidence
    };
    // Ten causes, none of them or an unknown one, with an error of 1 %: 1 / (1 + 11 × 0.01).
    assert!((confidence(9) - 0.90).abs() < 1e-9, "{}", confidence(9));
    // One kind of evidence is never worth 0.99.
    assert!((confidence(0) - 0.98).abs() < 1e-9, "{}", confidence(0));
}

#[test]
fn packets_and_experiment_that_agree_give_more_confidence_than_either() {
    let mut report = captured(Cause::NagleDelayedAck, 0.8);
    weigh(&mut report, vec![supports()]);
    assert_eq!(report.findings.len(), 1);
    assert!(report.findings[0].confidence > 0.95);
    assert!(report.findings[0].experiments[0].agrees);
}

#[test]
fn packets_and_experiment_that_disagree_are_both_shown() {
    let mut report = captured(Cause::NagleDelayedAck, 0.8);
    weigh(&mut report, vec![refutes()]);
    assert!(report.findings[0].confidence < 0.1);
    assert!(!report.findings[0].experiments[0].agrees);
    let mut report = captured(Cause::ServerThink, 0.8);
    weigh(&mut report, vec![supports()]);
    let nagle = report.findings.iter().find(|it| it.cause == Cause::NagleDelayedAck);
    assert!(nagle.is_some_and(|it| it.is_unseen));
}

#[test]
fn an_experiment_on_another_server_does_not_change_a_finding() {
    let mut report = captured(Cause::NagleDelayedAck, 0.8);
    report.findings[0].culprit.endpoint.port = 81;
    weigh(&mut report, vec![refutes()]);
    assert!((report.findings[0].confidence - 0.8).abs() < 1e-9);
    assert!(report.findings[0].experiments.is_empty());
}

#[test]
fn a_pause_that_prompt_acks_do_not_end_is_the_servers_own_work() {
    let report = paused(60 * MS).report(&[refutes()]);
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((finding.cause, finding.cause.class()), (Cause::ServerThink, Class::Cost));
}

#[test]
fn prompt_answers_yield_no_finding() {
    let mut report = paused(0).report(&[refutes()]);
    weigh(&mut report, vec![refutes()]);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn a_long_answer_with_pauses_is_not_attributed_to_the_server() {
    let mut measured = paused(60 * MS);
    measured.requests.iter_mut().for_each(|it| it.wire_bytes = 1 << 20);
    let report = measured.report(&[refutes()]);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.ledger.of(Owner::Unknown), 600 * MS);
}

#[test]
fn refusals_resets_and_silence_are_findings_without_packets() {
    for (failure, cause, role) in [
        (Failure::Refused { after_ns: 50_000 }, Cause::Refused, Role::Server),
        (Failure::Rejected { after_ns: 50_000 }, Cause::Refused, Role::Network),
        (Failure::Unanswered { after_ns: 3_000 * MS }, Cause::SynRetransmit, Role::Network),
        (Failure::Closed { after_ns: MS }, Cause::NoAnswer, Role::Server),
        (Failure::Reset { after_ns: MS }, Cause::Reset, Role::Server),
    ] {
        let measured =
            Measured { server: server(), failures: vec![failure], ..Measured::default() };
        let report = measured.report(&[]);
        let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
        assert_eq!((finding.cause, finding.culprit.role), (cause, role));
        assert_eq!(finding.state.len(), 1);
        assert_eq!(report.ledger.total_ns(), report.totals.wall_ns);
    }
}

#[test]
fn a_repeated_syn_is_reported_from_the_kernels_count() {
    let mut measured = paused(0);
    measured.requests[0].connect_ns = 1_030 * MS;
    measured.requests[0].repeated = 1;
    let report = measured.report(&[]);
    assert_eq!(report.findings.first().map(|it| it.cause), Some(Cause::SynRetransmit));
    // Without a retransmission, a slow connection is far away, or its server slow to accept.
    measured.requests[0].repeated = 0;
    let report = measured.report(&[]);
    assert!(report.findings.iter().all(|it| it.cause != Cause::SynRetransmit));
}

#[test]
fn each_sentence_states_effect_and_trials() {
    let said = sentence(&supports(), Language::English);
    assert!(said.contains("43.9 ms less (at least 43.8 ms, 8 pairs of trials)"), "{said}");
    let said = sentence(&refutes(), Language::English);
    assert!(said.contains("no difference of 1 ms or more: 44 ms and 44 ms (8 pairs"), "{said}");
    let few = Experiment { interval_ns: (None, None), trials: 3, ..supports() };
    assert!(
        sentence(&few, Language::English).contains("cannot tell"),
        "{}",
        sentence(&few, Language::English)
    );
    let slower = Experiment {
        effect_ns: -(5 * MS as i64),
        interval_ns: (Some(-6_000_000), Some(-4_000_000)),
        ..supports()
    };
    assert!(
        sentence(&slower, Language::English).contains("5 ms more"),
        "{}",
        sentence(&slower, Language::English)
    );
}

#[test]
fn the_median_is_one_of_the_times() {
    assert_eq!((median_ns([3, 1, 2]), median_ns([4, 1, 3, 2]), median_ns([])), (2, 3, 0));
}

#[test]
fn a_slower_name_server_supports_a_slow_look_up_and_slows_no_request() {
    let culprit = Culprit { role: Role::Resolver, endpoint: server() };
    let suspect = Suspect { cause: Cause::DnsSlow, culprit, sender: Side::Server };
    let slower = Experiment { name: "resolver", ..quickack(Verdict::Supports(suspect)) };
    let finding = Finding { confidence: 0.8, ..Finding::of_cause(Cause::DnsSlow, culprit) };
    let mut report = Report { findings: vec![finding], ..Report::default() };
    weigh(&mut report, vec![slower.clone()]);
    assert!(report.findings[0].confidence > 0.95, "{:?}", report.findings);
    let mut report = paused(0).report(&[]);
    weigh(&mut report, vec![slower]);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Returns the report of uploads that waited for the server's window, over a path with a round trip
/// of 40 ms.
fn held(window: PeerWindow, held_ns: u64) -> Report {
    let mut measured = paused(0);
    for it in &mut measured.requests {
        it.rtt_ns = 40 * MS;
        it.wait_ns = 40 * MS + held_ns;
        it.rwnd_limited_ns = held_ns;
        it.sending.window = window;
    }
    measured.report(&[])
}

#[test]
fn uploads_that_wait_for_the_servers_window_name_it() {
    for (window, cause, owner) in [
        (PeerWindow::Closed, Cause::ZeroWindow, Owner::ZeroWindow),
        (PeerWindow::Small { bytes: 8_192 }, Cause::ReceiveWindow, Owner::ReceiveWindow),
    ] {
        let report = held(window, 400 * MS);
        let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
        assert_eq!((finding.cause, finding.culprit.role), (cause, Role::Server));
        assert_eq!((finding.lost_ns, finding.state.len()), (4_000 * MS, 1));
        assert_eq!(report.ledger.of(owner), finding.lost_ns);
        assert_eq!(report.ledger.total_ns(), report.totals.wall_ns);
    }
}

#[test]
fn short_waits_for_a_window_and_windows_that_open_are_no_fault() {
    for (window, held_ns) in [
        (PeerWindow::Closed, 500_000),
        // The window opens within the next round trips.
        (PeerWindow::Small { bytes: 65_160 }, 80 * MS),
        (PeerWindow::Unknown, 400 * MS),
    ] {
        let report = held(window, held_ns);
        let faults = report.findings.iter().filter(|it| it.cause.class() == Class::Fault);
        assert_eq!(faults.count(), 0, "{:?}", report.findings);
        assert_eq!(report.ledger.total_ns(), report.totals.wall_ns);
    }
}

/// Returns uploads of 400 KB over a path of 40 ms whose sending took `acked_ns` beside 5 ms of the
/// server's own, with this limit at most observations.
fn uploads(sending: Sending) -> Report {
    let mut measured = paused(0);
    for it in &mut measured.requests {
        it.rtt_ns = 40 * MS;
        it.wait_ns = sending.acked_ns + 5 * MS;
        it.sending = sending;
    }
    measured.report(&[])
}

#[test]
fn the_server_does_not_work_on_a_request_that_is_on_its_way() {
    let sending = Sending { acked_ns: 250 * MS, observed: 100, ..Sending::default() };
    for (sending, cause, owner) in [
        (Sending { slow_start: 60, ..sending }, Cause::SlowStart, Owner::CongestionWindow),
        (Sending { queued: 90, slow_start: 10, ..sending }, Cause::Bandwidth, Owner::Bandwidth),
    ] {
        let report = uploads(sending);
        let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
        assert_eq!((finding.cause, finding.state.len()), (cause, 1));
        assert_eq!(report.ledger.of(owner), 2_100 * MS);
        assert_eq!(report.ledger.of(Owner::Server), 50 * MS);
        assert_eq!(report.ledger.total_ns(), report.totals.wall_ns);
    }
    // Without a limit that was met at most observations, the reason is unknown.
    let report = uploads(Sending { slow_start: 40, queued: 30, ..sending });
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.ledger.of(Owner::Unknown), 2_100 * MS);
}

#[test]
fn the_window_takes_all_the_time_of_a_request_that_it_held_back_at_most_observations() {
    let sending = Sending { acked_ns: 5_800 * MS, observed: 100, held: 60, ..Sending::default() };
    let report = uploads(Sending { window: PeerWindow::Small { bytes: 2_896 }, ..sending });
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((finding.cause, finding.lost_ns), (Cause::ReceiveWindow, 57_600 * MS));
}

/// Returns ten responses of 60 KB over a path of 20 ms that take 70 ms, and `longer_ns` more if
/// segments came out of order, which three did.
fn out_of_order(longer_ns: u64) -> Report {
    let mut measured = paused(10 * MS);
    for (number, it) in measured.requests.iter_mut().enumerate() {
        (it.rtt_ns, it.wait_ns, it.receive_ns) = (20 * MS, 20 * MS, 60 * MS);
        it.wire_bytes = 60_000;
        if number < 3 {
            (it.out_of_order, it.pause_ns) = (7, 10 * MS + longer_ns);
        }
    }
    measured.report(&[])
}

#[test]
fn losses_are_found_from_what_came_out_of_order_and_took_a_round_trip_longer() {
    for (longer_ns, cause) in
        [(25 * MS, Cause::FastRecovery), (230 * MS, Cause::RetransmissionTimeout)]
    {
        let report = out_of_order(longer_ns);
        let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
        assert_eq!((finding.cause, finding.culprit.role), (cause, Role::Network));
        assert_eq!((finding.affected.exchanges, finding.lost_ns), (3, 3 * longer_ns));
        assert_eq!((finding.sender, finding.state.len()), (Side::Server, 1));
        assert_eq!(report.ledger.total_ns(), report.totals.wall_ns);
    }
    // Segments that were only overtaken cost less than a round trip.
    assert!(out_of_order(15 * MS).findings.is_empty());
}

#[test]
fn a_request_that_was_sent_again_waited_for_the_path() {
    let mut measured = paused(0);
    for (number, it) in measured.requests.iter_mut().enumerate() {
        (it.rtt_ns, it.wait_ns) = (20 * MS, 22 * MS);
        if number == 0 {
            (it.repeated, it.wait_ns) = (1, 245 * MS);
        }
    }
    let report = measured.report(&[]);
    let faults: Vec<_> = report.findings.iter().filter(|it| it.cause != Cause::PathRtt).collect();
    let [finding] = &faults[..] else { panic!("{:?}", report.findings) };
    let found = (finding.cause, finding.sender, finding.lost_ns);
    assert_eq!(found, (Cause::RetransmissionTimeout, Side::Client, 223 * MS));
}

/// Returns an experiment on the queue of the path.
fn queue(verdict: fn(Suspect) -> Verdict) -> Experiment {
    let suspect = Suspect {
        cause: Cause::Bandwidth,
        culprit: Culprit { role: Role::Network, endpoint: server() },
        sender: Side::Server,
    };
    Experiment { name: "queue", ..quickack(verdict(suspect)) }
}

#[test]
fn a_queue_amid_answers_shows_a_slow_link_and_its_absence_a_server_that_pauses() {
    // Five chunks of 200 B, 60 ms apart.
    let mut measured = paused(61 * MS);
    for it in &mut measured.requests {
        (it.rtt_ns, it.wait_ns, it.receive_ns) = (40 * MS, 41 * MS, 180 * MS);
        (it.after_pause_bytes, it.mss_bytes) = (200, 1_448);
    }
    let found = |experiments: Vec<Experiment>| {
        let mut report = measured.report(&experiments);
        weigh(&mut report, experiments);
        assert_eq!(report.ledger.total_ns(), report.totals.wall_ns);
        report.findings.iter().map(|it| (it.cause, it.confidence)).collect::<Vec<_>>()
    };
    let refuted = queue(Verdict::Refutes);
    let [(cause, _)] = found(vec![refutes(), refuted.clone()])[..] else { panic!("one") };
    assert_eq!(cause, Cause::ServerThink);
    assert_eq!(found(vec![refuted]), [], "the pauses may wait for ACKs");
    let [(cause, confidence)] = found(vec![queue(Verdict::Supports)])[..] else { panic!("one") };
    assert!(cause == Cause::Bandwidth && confidence < 0.99, "{confidence}");
}

#[test]
fn a_pause_as_long_as_a_round_trip_is_a_wait_for_an_ack() {
    let with = |pauses_ns: [u64; 3], after_pause_bytes| {
        let mut measured = paused(5 * MS);
        for (number, it) in measured.requests.iter_mut().enumerate() {
            (it.rtt_ns, it.wait_ns) = (5 * MS, 6 * MS);
            it.pause_ns = pauses_ns[number % 3];
            (it.after_pause_bytes, it.mss_bytes) = (after_pause_bytes, 1_448);
        }
        measured.report(&[refutes()]).findings.iter().map(|it| it.cause).collect::<Vec<_>>()
    };
    let (alike, longer, shorter) = (5_100_000, 8 * MS, 3 * MS);
    assert_eq!(with([alike, alike, longer], 552), [Cause::NagleDelayedAck]);
    // A server that pauses on its own is not as regular.
    assert_eq!(with([alike, alike, shorter], 552), []);
    assert_eq!(with([alike, longer, longer], 552), []);
    // Full segments wait for something else.
    assert_eq!(with([alike, alike, longer], 1_448), []);
}

#[test]
fn a_response_that_fills_the_clients_own_window_names_it() {
    let with = |rcv_wnd_bytes| {
        let mut measured = paused(0);
        for it in &mut measured.requests {
            (it.rtt_ns, it.wait_ns, it.receive_ns) = (40 * MS, 41 * MS, 1_280 * MS);
            (it.wire_bytes, it.rcv_wnd_bytes) = (131_072, rcv_wnd_bytes);
        }
        measured.report(&[])
    };
    let report = with(4_096);
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    let found = (finding.cause, finding.culprit.role, finding.sender);
    assert_eq!(found, (Cause::ReceiveWindow, Role::Client, Side::Server));
    assert_eq!(finding.lost_ns, 12_800 * MS);
    // A window that is as large as the response held nothing back.
    assert!(with(131_072).findings.is_empty());
}

#[test]
fn pauses_of_a_long_response_beyond_round_trips_are_the_servers() {
    let found = |experiments: &[Experiment], change: &dyn Fn(usize, &mut OwnRequest)| {
        let mut measured = paused(60 * MS);
        for (number, it) in measured.requests.iter_mut().enumerate() {
            (it.receive_ns, it.beyond_trips_ns) = (180 * MS, 238 * MS);
            (it.wire_bytes, it.mss_bytes, it.after_pause_bytes) = (41_000, 1_448, 8_192);
            change(number, it);
        }
        let report = measured.report(experiments);
        (report.ledger.of(Owner::Server) / MS, report.findings.iter().map(|it| it.cause).collect())
    };
    let both = [refutes(), queue(Verdict::Refutes)];
    let same = |_: usize, _: &mut OwnRequest| ();
    assert_eq!(found(&both, &same), (2_380, vec![Cause::ServerThink]));
    // They may wait for ACKs, or in a queue.
    assert_eq!(found(&both[1..], &same), (0, vec![]));
    assert_eq!(found(&both[..1], &same).0, 0);
    // One response may wait for a timer after a loss; the others do not pause so long.
    let rarely = |number: usize, it: &mut OwnRequest| {
        it.beyond_trips_ns = if number == 0 { 238 * MS } else { 0 };
    };
    assert_eq!(found(&both, &rarely).0, 0);
    let lossy = |_: usize, it: &mut OwnRequest| it.out_of_order = 1;
    assert_eq!(found(&both, &lossy).0, 0);
}

#[test]
fn a_refusal_is_a_rst_or_an_icmp_error_where_no_packet_shows_it() {
    let failures = vec![Failure::Refused { after_ns: MS }; 3];
    let measured = Measured { server: server(), failures, ..Measured::default() };
    let report = measured.report(&[]);
    let what = &crate::report::Phrases::of(&report.findings[0], Language::English).what;
    assert!(what.contains("answered with a RST, or with an ICMP error"), "{what}");
}
