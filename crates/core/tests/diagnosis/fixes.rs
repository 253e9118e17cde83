//! A fix is listed only where the packets do not contradict it.

use crate::diagnosis::diagnose;
use crate::frames::pcap_of;
use crate::names::{ANSWER, CLIENT, MS, QUERY, RESOLVER, SERVER, Traffic, message};
use crate::network::capture;
use crate::traces::trace;
use tcpwhy_core::model::{Cause, Language, Report};
use tcpwhy_core::report::{Look, Phrases, text};

/// Returns the fixes for `cause`, a line each.
fn fixes(report: &Report, cause: Cause) -> String {
    let finding = report.findings.iter().find(|it| it.cause == cause).expect("the finding");
    let fixes = Phrases::of(finding, Language::English).fixes;
    fixes.iter().map(|fix| format!("{}: {}\n", fix.place, fix.change)).collect()
}

fn fixes_of_trace(name: &str, cause: Cause) -> String {
    let trace = trace(name);
    fixes(&diagnose(&capture(&trace, trace.vantages[0])), cause)
}

#[test]
fn a_router_without_a_route_drops_nothing_that_its_connection_table_counts() {
    let name = "router_without_a_route_and_a_second_attempt";
    let fixes = fixes_of_trace(name, Cause::SynRetransmit);
    assert!(fixes.contains("add a route"), "{fixes}");
    assert!(!fixes.contains("conntrack") && !fixes.contains("ListenOverflows"), "{fixes}");
}

#[test]
fn a_listener_in_whose_queue_nobody_waited_needs_no_longer_queue() {
    let name = "filter_drops_a_syn_beside_an_idle_listener";
    let trace = trace(name);
    let fixes = |place| fixes(&diagnose(&capture(&trace, place)), Cause::SynRetransmit);
    let [client, server] = trace.vantages[..] else { panic!("two vantages") };
    assert!(!fixes(server).contains("accept faster"), "{}", fixes(server));
    // There is no capture of the other clients there.
    assert!(fixes(client).contains("accept faster"), "{}", fixes(client));
}

#[test]
fn requests_that_wait_for_their_turn_need_more_workers_and_work_alone_a_profile() {
    let first = |name| fixes_of_trace(name, Cause::ServerThink).lines().next().map(String::from);
    for (name, change) in [
        ("burst_at_a_server_that_answers_one_after_the_other", "more workers or threads"),
        ("burst_at_a_server_with_two_workers", "more than 2 requests at a time"),
    ] {
        let in_turn = first(name).expect("a fix");
        assert!(in_turn.contains(change), "{name}: {in_turn}");
    }
    for name in [
        "burst_of_requests_that_take_times_of_their_own",
        "requests_at_equal_distances_at_a_server_that_works_on_many",
    ] {
        let alone = first(name).expect("a fix");
        assert!(alone.contains("profile the slowest kinds"), "{name}: {alone}");
    }
}

#[test]
fn a_longer_queue_gains_nothing_before_a_server_that_answers_in_turn_without_a_pause() {
    let name = "overflow_at_a_server_that_answers_one_after_the_other";
    let trace = trace(name);
    let report = diagnose(&capture(&trace, trace.vantages[0]));
    let finding = report.findings.iter().find(|it| it.cause == Cause::AcceptQueueOverflow);
    let finding = finding.expect("the finding");
    assert_eq!(finding.counterfactual.likely, finding.latency);
    let text = text::render(&report, &Look::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!text.contains("would be") && text.contains("gains nothing"), "{text}");
}

#[test]
fn a_small_window_without_scaling_is_that_of_its_buffer() {
    let name = "server_without_window_scaling_and_a_small_window";
    let fixes = fixes_of_trace(name, Cause::ReceiveWindow);
    assert!(fixes.contains("SO_RCVBUF") && !fixes.contains("tcp_window_scaling"), "{fixes}");
}

/// Three look-ups, each answered after 200 ms, from a host whose packets have this TTL.
fn look_ups(are_alike: bool, ttl: u8) -> String {
    let mut traffic = Traffic::with_ttl(ttl);
    for letter in b'a'..=b'c' {
        let named = |mut message: Vec<u8>| {
            message[13] = if are_alike { b'a' } else { letter };
            message
        };
        traffic.datagram(7_000 * MS, (CLIENT, RESOLVER), &named(message(QUERY, None)));
        traffic.datagram(200 * MS, (RESOLVER, CLIENT), &named(message(ANSWER, Some(SERVER))));
    }
    fixes(&diagnose(&pcap_of(&traffic.frames, 65_535)), Cause::DnsSlow)
}

#[test]
fn a_cache_helps_only_names_that_are_asked_again() {
    let (alike, apart) = (look_ups(true, 64), look_ups(false, 64));
    for advice in ["a local cache", "rrset-cache-size"] {
        assert!(alike.contains(advice), "{advice}: {alike}");
        assert!(!apart.contains(advice), "{advice}: {apart}");
    }
    assert!(!alike.contains("a longer TTL"), "{alike}");
}

#[test]
fn a_cache_has_no_answer_whose_ttl_has_passed() {
    let asked_each = |seconds: u64| {
        let mut traffic = Traffic::default();
        for _ in 0..3 {
            traffic.datagram(seconds * 1_000 * MS, (CLIENT, RESOLVER), &message(QUERY, None));
            let answer = message(ANSWER, Some(SERVER));
            traffic.datagram(200 * MS, (RESOLVER, CLIENT), &answer);
        }
        fixes(&diagnose(&pcap_of(&traffic.frames, 65_535)), Cause::DnsSlow)
    };
    // The TTL of the answers is 60 s.
    let (within, after) = (asked_each(59), asked_each(60));
    for advice in ["a local cache", "rrset-cache-size", "look names up once"] {
        assert!(within.contains(advice), "{advice}: {within}");
        assert!(!after.contains(advice), "{advice}: {after}");
    }
    for advice in ["serve-expired", "a longer TTL"] {
        assert!(after.contains(advice), "{advice}: {after}");
        assert!(!within.contains(advice), "{advice}: {within}");
    }
}

/// Returns the report of queries to `resolver`, each for a letter's name and a type, and answered
/// after so many ms.
fn asked(resolver: [u8; 4], queries: &[(u8, u8, u64)]) -> Report {
    let mut traffic = Traffic::default();
    for &(letter, kind, ms) in queries {
        let named = |mut message: Vec<u8>| {
            (message[13], message[30]) = (letter, kind);
            message
        };
        traffic.datagram(7_500 * MS, (CLIENT, resolver), &named(message(QUERY, None)));
        traffic.datagram(ms * MS, (resolver, CLIENT), &named(message(ANSWER, Some(SERVER))));
    }
    diagnose(&pcap_of(&traffic.frames, 65_535))
}

const A: u8 = 1;
const MX: u8 = 15;

#[test]
fn a_cache_has_no_answer_of_another_type_or_of_a_later_question() {
    let slow = |queries: &[_]| fixes(&asked(RESOLVER, queries), Cause::DnsSlow);
    let other_type = slow(&[(b'a', A, 1), (b'a', MX, 900), (b'b', A, 1), (b'b', MX, 900)]);
    let asked_later = slow(&[(b'a', A, 900), (b'a', A, 1), (b'b', A, 900), (b'b', A, 1)]);
    let asked_before = slow(&[(b'a', A, 1), (b'a', A, 900), (b'b', A, 1), (b'b', A, 900)]);
    for advice in ["a local cache", "rrset-cache-size"] {
        assert!(!other_type.contains(advice), "{other_type}");
        assert!(!asked_later.contains(advice), "{asked_later}");
        assert!(asked_before.contains(advice), "{asked_before}");
    }
}

#[test]
fn a_public_resolver_is_not_the_readers() {
    let queries = [(b'a', A, 900), (b'a', A, 900), (b'a', A, 900)];
    let [private, public] = [RESOLVER, [8, 8, 8, 8]].map(|it| asked(it, &queries));
    let [private, public] = [private, public].map(|it| fixes(&it, Cause::DnsSlow));
    assert!(
        private.starts_with("the resolver") && private.contains("rrset-cache-size"),
        "{private}"
    );
    assert!(
        public.starts_with("the client's host") && !public.contains("rrset-cache-size"),
        "{public}"
    );
}

#[test]
fn first_questions_are_compared_with_first_questions() {
    // Answers from a cache take 1 ms, quick ones to first questions 20 ms.
    let quick = [(b'a', A, 20), (b'b', A, 20), (b'c', A, 20)];
    let again = [(b'a', A, 1), (b'b', A, 1)];
    let slow = [(b'd', A, 900), (b'e', A, 900), (b'f', A, 900)];
    let report = asked(RESOLVER, &[&quick[..], &again, &slow].concat());
    let finding = report.findings.iter().find(|it| it.cause == Cause::DnsSlow).expect("it");
    assert_eq!(finding.lost_ns / MS, 3 * (900 - 20));
    assert!(
        !text::render(&report, &Look::default()).contains("how much of that time can be saved")
    );
    // Without a quick answer nothing is predicted.
    let report = asked(RESOLVER, &slow);
    let text = text::render(&report, &Look::default());
    assert!(text.contains("no quick answer of 10.0.0.53"), "{text}");
    assert!(!text.contains("would be"), "{text}");
}

#[test]
fn a_client_with_the_ttl_of_windows_has_no_resolv_conf() {
    let (unix, windows) = (look_ups(true, 64), look_ups(true, 128));
    assert!(unix.contains("/etc/resolv.conf") && !unix.contains("Set-DnsClient"), "{unix}");
    assert!(windows.contains("Set-DnsClient") && !windows.contains("resolv.conf"), "{windows}");
}

#[test]
fn a_hold_until_a_prompt_ack_is_not_shortened_by_a_quicker_one() {
    let prompt =
        fixes_of_trace("rest_of_a_body_waits_for_the_ack_of_its_header", Cause::NagleDelayedAck);
    assert!(prompt.contains("TCP_NODELAY") && !prompt.contains("QUICKACK"), "{prompt}");
    let name = "full_segments_and_a_short_end_that_waits_for_their_ack";
    let none_delayed = fixes_of_trace(name, Cause::NagleDelayedAck);
    assert!(!none_delayed.contains("QUICKACK"), "{none_delayed}");
    let late = fixes_of_trace("held_body_waits_for_a_delayed_ack", Cause::NagleDelayedAck);
    assert!(late.contains("QUICKACK"), "{late}");
}
