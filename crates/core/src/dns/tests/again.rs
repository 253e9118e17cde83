//! Repeated queries, and the look-ups that they belong to.

use super::*;

#[test]
fn a_library_that_keeps_its_identifiers_begins_another_lookup_with_new_ones() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.010 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         1.000 q 4000 10.0.0.53 1 A db.example.com
         1.010 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         1.010 q 4000 10.0.0.53 2 AAAA db.example.com
         2.030 q 4001 10.0.0.53 3 A db.example.com
         2.030 q 4001 10.0.0.53 4 AAAA db.example.com
         2.040 r 4001 10.0.0.53 3 A db.example.com 10.1.1.1
         2.041 r 4001 10.0.0.53 4 AAAA db.example.com -",
    );
    assert_eq!(lookups.len(), 2);
    assert_eq!(lookups[1].queries.len(), 2);
}

#[test]
fn a_query_with_a_new_identifier_repeats_the_unanswered_one() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.376 q 4001 10.0.0.53 2 A db.example.com
         1.128 q 4002 10.0.0.53 3 A db.example.com
         1.138 r 4002 10.0.0.53 3 A db.example.com 10.1.1.1",
    );
    assert_eq!((lookup.queries.len(), lost(&lookup).as_str()), (3, "- 10, dns_timeout 1128"));
}

#[test]
fn a_query_with_a_new_identifier_after_the_same_wait_is_a_repetition() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.800 q 4001 10.0.0.53 2 A db.example.com
         1.590 q 4002 10.0.0.54 3 A db.example.com
         2.400 q 4003 10.0.0.54 4 A db.example.com
         2.410 r 4003 10.0.0.54 4 A db.example.com 10.1.1.1",
    );
    assert_eq!((lookup.queries.len(), lost(&lookup).as_str()), (4, "- 10, dns_timeout 2400"));
}

/// Negative twins: an answered query is not repeated, and independent programs query at arbitrary
/// times.
#[test]
fn queries_with_new_identifiers_at_arbitrary_times_are_separate_lookups() {
    let answered = lookups(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.010 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         0.376 q 4001 10.0.0.53 2 A db.example.com
         0.386 r 4001 10.0.0.53 2 A db.example.com 10.1.1.1",
    );
    assert_eq!(answered.iter().map(lost).collect::<Vec<_>>(), ["- 10", "- 10"]);
    let many = lookups(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.700 q 4001 10.0.0.53 2 A db.example.com
         0.820 q 4002 10.0.0.53 3 A db.example.com
         0.830 r 4002 10.0.0.53 3 A db.example.com 10.1.1.1",
    );
    assert_eq!(many.iter().map(|it| it.queries.len()).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn both_queries_of_a_pair_are_repeated_if_one_was_lost() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.010 r 4000 10.0.0.53 2 AAAA db.example.com -
         2.000 q 4000 10.0.0.53 1 A db.example.com
         2.010 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         2.010 q 4000 10.0.0.53 2 AAAA db.example.com
         2.020 r 4000 10.0.0.53 2 AAAA db.example.com -
         2.060 q 4001 10.0.0.53 3 A db.example.com
         2.060 q 4001 10.0.0.53 4 AAAA db.example.com
         2.070 r 4001 10.0.0.53 3 A db.example.com 10.1.1.1
         2.070 r 4001 10.0.0.53 4 AAAA db.example.com -",
    );
    assert_eq!(lookups.iter().map(|lookup| lookup.queries.len()).collect::<Vec<_>>(), [4, 2]);
    assert_eq!(lost(&lookups[0]), "- 10, dns_timeout 2000");
}

#[test]
fn a_type_that_is_never_answered_costs_each_lookup_its_own_timeouts() {
    // glibc: both types from one socket, the same messages again, and then without the answer.
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         2.001 q 4000 10.0.0.53 1 A db.example.com
         2.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         2.002 q 4000 10.0.0.53 2 AAAA db.example.com
         4.010 q 4001 10.0.0.53 3 A db.example.com
         4.010 q 4001 10.0.0.53 4 AAAA db.example.com
         4.011 r 4001 10.0.0.53 3 A db.example.com 10.1.1.1
         6.011 q 4001 10.0.0.53 3 A db.example.com
         6.011 r 4001 10.0.0.53 3 A db.example.com 10.1.1.1
         6.012 q 4001 10.0.0.53 4 AAAA db.example.com
         30.00 end",
    );
    let costs: Vec<_> = lookups.iter().map(lost).collect();
    assert_eq!(costs, ["- 1, dns_timeout 4002", "- 1, dns_timeout 4002"]);
}

#[test]
fn a_closed_port_costs_each_lookup_its_own_failure() {
    let lookups = lookups(
        "0.000 q 4000 127.0.0.1 1 A db.example.com
         0.000 icmp 4000 127.0.0.1
         0.000 q 4000 127.0.0.1 2 AAAA db.example.com
         0.000 icmp 4000 127.0.0.1
         0.001 q 4001 127.0.0.1 1 A db.example.com
         0.001 icmp 4001 127.0.0.1
         0.001 q 4001 127.0.0.1 2 AAAA db.example.com
         0.001 icmp 4001 127.0.0.1
         0.012 q 4002 127.0.0.1 3 A db.example.com
         0.012 icmp 4002 127.0.0.1
         0.012 q 4002 127.0.0.1 4 AAAA db.example.com
         0.012 icmp 4002 127.0.0.1",
    );
    assert_eq!(lookups.len(), 2, "{lookups:#?}");
}

#[test]
fn a_query_without_an_answer_at_the_end_of_the_capture_shows_no_timeout() {
    let until = |end: &str| {
        let trace = "0.000 q 4000 10.0.0.53 1 A db.example.com
                     0.010 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
                     0.500 q 4001 10.0.0.53 2 AAAA www.example.com\n";
        lookups(&format!("{trace}{end} end"))
    };
    // The resolver's timer (resolv.conf(5)) is 5 s, and the capture ends after 1.8 s.
    assert!(until("2.300")[1].is_abandoned && !until("2.300")[1].ends_with_capture);
    assert!(until("1.400")[1].ends_with_capture, "no client repeats a query after 0.9 s");
    assert!(until("6.000")[1].is_abandoned, "nothing shows how long the client waited");
    let repeated = "5.500 q 4001 10.0.0.53 2 AAAA www.example.com\n6.000";
    assert!(!until(repeated)[1].is_abandoned);
}

/// A tunnel repeats its data in queries for new names: each wait ends at the next query.
#[test]
fn a_wait_without_repetition_ends_at_the_next_query() {
    let trace = |step: f64| {
        let query = |at: u32| {
            format!("{} q 4000 10.0.0.53 {at} A d{at}.t.example.com\n", f64::from(at) * step)
        };
        let queries: String = (1..=4).map(query).collect();
        lookups(&format!("{queries}60 end"))
    };
    let waits =
        |step: f64| trace(step)[..3].iter().map(|it| it.end_ns - it.start_ns).collect::<Vec<_>>();
    assert_eq!(waits(1.0), [1_000_000_000; 3]);
    assert_eq!(waits(2.5), [2_500_000_000; 3]);
    assert!(trace(1.0)[..3].iter().all(|it| !it.is_abandoned));
}

/// Negative twin: queries that leave within a second of each other do not wait for each other, and
/// a query much later does not show that the client waited.
#[test]
fn parallel_queries_and_one_much_later_show_no_wait() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A one.example.com
         0.010 q 4001 10.0.0.53 2 A two.example.net
         9.000 q 4002 10.0.0.53 3 A six.example.org
         9.010 r 4002 10.0.0.53 3 A six.example.org 10.1.1.1
         60 end",
    );
    assert!(lookups[..2].iter().all(|it| it.is_abandoned), "{lookups:#?}");
}

#[test]
fn a_query_with_a_new_identifier_after_a_whole_timeout_is_a_repetition() {
    // Go: a socket and an identifier for each attempt.
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         5.001 q 4001 10.0.0.54 2 A db.example.com
         5.002 r 4001 10.0.0.54 2 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_timeout 5001");
}

#[test]
fn a_query_with_a_new_identifier_at_another_time_is_another_lookup() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         3.400 q 4001 10.0.0.53 2 A db.example.com
         3.401 r 4001 10.0.0.53 2 A db.example.com 10.1.1.1",
    );
    let costs: Vec<_> = lookups.iter().map(lost).collect();
    assert_eq!(costs, ["- 1, dns_timeout 3399", "- 1"]);
}

#[test]
fn a_lookup_without_repetition_ends_when_its_client_begins_another() {
    // A tool with a timeout of two seconds was terminated after a fifth of a second.
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 PTR 1.0.0.10.in-addr.arpa
         2.000 q 4000 10.0.0.53 1 PTR 1.0.0.10.in-addr.arpa
         4.010 q 4001 10.0.0.53 2 PTR 1.0.0.10.in-addr.arpa
         4.210 q 4002 10.0.0.53 3 A db.example.com
         4.211 r 4002 10.0.0.53 3 A db.example.com 10.1.1.1
         30.00 end",
    );
    let costs: Vec<_> = lookups.iter().map(lost).collect();
    assert_eq!(costs, ["- 1, reverse_dns_timeout 3999", "- 1, reverse_dns_timeout 199", "- 1"]);
    assert!(lookups[1].is_abandoned && !lookups[0].is_abandoned);
}

#[test]
fn the_first_fragment_of_an_answer_is_an_answer() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.003 r1 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         9.000 end",
    );
    assert_eq!(lost(&lookup), "- 3");
    assert_eq!(lookup.outcome, LookupOutcome::Answered);
    assert_eq!(lookup.addresses, [endpoint("10.1.1.1", 0).address]);
}

#[test]
fn the_first_fragment_of_an_answer_is_no_answer_if_the_query_is_repeated() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.003 r1 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         5.000 q 4000 10.0.0.53 1 A db.example.com
         5.003 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         9.000 end",
    );
    assert_eq!(lost(&lookup), "- 3, dns_timeout 5000");
}

#[test]
fn a_pair_for_two_servers_of_which_one_is_answered_points_to_the_insert_race() {
    let pair = "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.54 2 AAAA db.example.com
         0.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         1.000 q 4000 10.0.0.54 2 AAAA db.example.com
         1.001 r 4000 10.0.0.54 2 AAAA db.example.com NODATA";
    assert!(lookup(pair).conntrack_race_suspected);
    // musl asks all servers for both: one of them is down.
    let all = "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.54 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.000 q 4000 10.0.0.54 2 AAAA db.example.com
         0.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         0.001 r 4000 10.0.0.53 2 AAAA db.example.com NODATA";
    let suspected = lookups(all).iter().any(|lookup| lookup.conntrack_race_suspected);
    assert!(!suspected);
}

/// A server with several addresses may answer from another one.
#[test]
fn an_answer_from_another_address_is_the_answer_to_the_query() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.002 r 4000 10.0.0.99 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 2");
}

/// Negative twins: another identifier, port or name.
#[test]
fn a_message_that_answers_no_query_is_no_answer() {
    for other in [
        "r 4000 10.0.0.99 2 A db.example.com 10.1.1.1",
        "r 4001 10.0.0.99 1 A db.example.com 10.1.1.1",
        "r 4000 10.0.0.99 1 A other.example.com 10.1.1.1",
    ] {
        let lookup = lookup(&format!("0.000 q 4000 10.0.0.53 1 A db.example.com\n0.002 {other}"));
        assert_eq!(lookup.outcome, LookupOutcome::Timeout, "{other}");
    }
}

/// Both queries have one identifier and one port, and the answer may be to either.
#[test]
fn one_answer_to_two_equal_queries_shows_no_loss() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.150 q 4000 10.0.0.53 1 A db.example.com
         0.300 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_slow 299");
}

/// Twins: the server is known to answer at once; no resolver takes as long as since the first query.
#[test]
fn one_answer_to_two_equal_queries_comes_at_the_usual_time_after_the_second() {
    let known = lookups(
        "0.000 q 3999 10.0.0.53 9 A www.example.com
         0.010 r 3999 10.0.0.53 9 A www.example.com 10.1.1.2
         1.000 q 4000 10.0.0.53 1 A db.example.com
         1.150 q 4000 10.0.0.53 1 A db.example.com
         1.160 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&known[1]), "- 10, dns_timeout 150");
    let after_a_second = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         1.000 q 4000 10.0.0.53 1 A db.example.com
         1.010 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&after_a_second), "- 10, dns_timeout 1000");
}

#[test]
fn a_client_that_closed_its_port_no_longer_waited_for_the_answer() {
    let is_too_late = |answered: &str| {
        let lookups = lookups(&format!(
            "0.000 q 4000 10.0.0.53 1 A db.example.com
             {answered}0 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
             {answered}1 closed 4000 10.0.0.53"
        ));
        lookups[0].queries[0].flags.is_too_late
    };
    assert!(is_too_late("5.26"));
    // Negative twin: a program that ends behind its quick query has not waited for a timeout.
    assert!(!is_too_late("0.02"));
}

/// Negative twin: the other server's answer had come before.
#[test]
fn a_second_answer_at_a_closed_port_is_not_waited_for() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.54 1 A db.example.com
         0.010 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         2.000 r 4000 10.0.0.54 1 A db.example.com 10.1.1.1
         2.001 closed 4000 10.0.0.54",
    );
    assert!(lookup.queries.iter().all(|query| !query.flags.is_too_late));
}

/// Discovery: nobody has to answer.
#[test]
fn a_query_to_a_group_or_to_all_hosts_is_no_lookup() {
    for group in ["255.255.255.255", "224.0.0.251", "ff02::fb"] {
        assert!(lookups(&format!("0.0 q 4000 {group} 1 A db.local\n 9.0 end")).is_empty());
    }
    assert_eq!(lookups("0.0 q 4000 10.0.0.53 1 A db.local\n 9.0 end").len(), 1);
}
