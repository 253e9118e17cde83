//! Clients that query all their servers at the same time, and take the first answer (musl).

use super::*;

#[test]
fn a_dead_server_delays_nothing_if_another_answers() {
    // Two look-ups 2 s apart, which differ only in that the first was answered.
    let one = |at: u32, port: u32, id: u32| {
        format!(
            "{at}.0000 q {port} 10.0.0.55 {id} A db.example.com
             {at}.0001 q {port} 10.0.0.54 {id} A db.example.com
             {at}.0002 q {port} 10.0.0.55 {id}1 AAAA db.example.com
             {at}.0003 q {port} 10.0.0.54 {id}1 AAAA db.example.com
             {at}.0010 r {port} 10.0.0.54 {id} A db.example.com 10.1.1.1
             {at}.0011 r {port} 10.0.0.54 {id}1 AAAA db.example.com NODATA\n"
        )
    };
    let lookups = lookups(&[one(0, 4000, 1), one(2, 4001, 3)].concat());
    assert_eq!(lookups.iter().map(lost).collect::<Vec<_>>(), ["- 1.1", "- 1.1"]);
    assert!(!lookups[0].conntrack_race_suspected);
}

#[test]
fn servers_that_are_all_silent_were_waited_for_once() {
    let lookup = lookup(
        "0.0000 q 4000 10.0.0.55 1 A db.example.com
         0.0001 q 4000 10.0.0.54 1 A db.example.com
         2.5000 q 4000 10.0.0.55 1 A db.example.com
         2.5001 q 4000 10.0.0.54 1 A db.example.com
         2.5010 r 4000 10.0.0.54 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_timeout 2500");
}

#[test]
fn a_query_that_was_captured_twice_went_to_one_server() {
    let lookup = lookup(
        "0.0000 q 4000 10.0.0.55 1 A db.example.com
         0.0000 q 4000 10.0.0.55 1 A db.example.com
         0.0001 q 4000 10.0.0.54 1 A db.example.com
         0.0001 q 4000 10.0.0.54 1 A db.example.com
         0.0010 r 4000 10.0.0.54 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lookup.queries.len(), 2);
}

#[test]
fn servers_queried_one_after_the_other_are_separate_attempts() {
    let lookup = lookup(
        "0.0000 q 4000 10.0.0.55 1 A db.example.com
         0.0500 r 4000 10.0.0.55 1 A db.example.com SERVFAIL
         0.0501 q 4000 10.0.0.54 1 A db.example.com
         0.0511 r 4000 10.0.0.54 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_failure 50.1");
}

#[test]
fn a_type_that_is_unanswered_even_alone_shows_no_race() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         5.000 q 4000 10.0.0.53 1 A db.example.com
         5.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         5.001 q 4000 10.0.0.53 2 AAAA db.example.com
         10.001 end",
    );
    assert!(!lookup.conntrack_race_suspected);
}

/// Which query of a pair left first does not matter: the other one followed at once.
#[test]
fn the_first_query_of_a_pair_was_not_sent_alone() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.0001 q 4000 10.0.0.53 2 AAAA db.example.com
         0.001 r 4000 10.0.0.53 2 AAAA db.example.com NODATA
         5.000 q 4000 10.0.0.53 1 A db.example.com
         5.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1",
    );
    assert!(!lookup.leaves_lone_queries_unanswered(&lookup.queries[0]));
    assert!(lookup.conntrack_race_suspected);
}

/// Negative twin: the client asks for the second type much later.
#[test]
fn a_query_long_before_that_of_the_other_type_was_sent_alone() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         5.000 q 4000 10.0.0.53 1 A db.example.com
         5.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         5.002 q 4000 10.0.0.53 2 AAAA db.example.com
         5.003 r 4000 10.0.0.53 2 AAAA db.example.com NODATA",
    );
    assert!(lookup.leaves_lone_queries_unanswered(&lookup.queries[0]));
    assert!(!lookup.conntrack_race_suspected);
}
