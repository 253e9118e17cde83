//! Failures beside answers, port unreachable, and truncated answers.

use super::*;

/// The client waits for the later answer of a pair: a failure costs what comes after the good one.
#[test]
fn a_failure_beside_a_good_answer_costs_only_the_wait_after_it() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.020 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         0.025 r 4000 10.0.0.53 2 AAAA db.example.com SERVFAIL",
    );
    assert_eq!(lost(&lookup), "- 20, dns_failure 5");
    assert_eq!(lookup.outcome, LookupOutcome::Answered);
}

#[test]
fn a_silent_type_beside_a_good_answer_costs_only_the_wait_after_it() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.040 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         3.000 q 4000 10.0.0.53 2 AAAA db.example.com
         3.010 r 4000 10.0.0.53 2 AAAA db.example.com NODATA",
    );
    assert_eq!(lost(&lookup), "- 40, dns_timeout 2970");
}

/// Negative twin: nothing good came, so the failures are the whole wait.
#[test]
fn failures_of_both_types_cost_the_whole_wait() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.300 r 4000 10.0.0.53 1 A db.example.com SERVFAIL
         0.300 r 4000 10.0.0.53 2 AAAA db.example.com SERVFAIL
         0.300 q 4000 10.0.0.54 1 A db.example.com
         0.300 q 4000 10.0.0.54 2 AAAA db.example.com
         0.302 r 4000 10.0.0.54 1 A db.example.com 10.1.1.1
         0.302 r 4000 10.0.0.54 2 AAAA db.example.com NODATA",
    );
    assert_eq!(lost(&lookup), "- 2, dns_failure 300");
}

#[test]
fn a_search_goes_on_after_a_failure() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A api.example.com.ns.svc.local
         0.040 r 4000 10.0.0.53 1 A api.example.com.ns.svc.local NXDOMAIN
         0.040 q 4001 10.0.0.53 2 A api.example.com.svc.local
         0.080 r 4001 10.0.0.53 2 A api.example.com.svc.local SERVFAIL
         0.080 q 4002 10.0.0.53 3 A api.example.com
         0.120 r 4002 10.0.0.53 3 A api.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 40, dns_search 40, dns_failure 40");
    assert_eq!(lookup.outcome, LookupOutcome::Answered);
}

/// Negative twin: a failure of another name is the end of its look-up.
#[test]
fn a_name_asked_for_after_the_failure_of_another_is_its_own_lookup() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A api.example.com
         0.040 r 4000 10.0.0.53 1 A api.example.com SERVFAIL
         0.040 q 4001 10.0.0.53 2 A api.example.org
         0.080 r 4001 10.0.0.53 2 A api.example.org 10.1.1.1",
    );
    assert_eq!(lookups.len(), 2);
}

/// The client asks again although each query met a port unreachable: nothing was lost.
#[test]
fn a_closed_port_is_a_failure_however_often_the_client_asks() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.001 icmp 4000 10.0.0.53
         2.000 q 4000 10.0.0.53 1 A db.example.com
         2.001 icmp 4000 10.0.0.53
         4.000 q 4000 10.0.0.53 1 A db.example.com
         4.001 icmp 4000 10.0.0.53",
    );
    assert!(lost(&lookup).starts_with("- 1, dns_failure 4000"), "{}", lost(&lookup));
    assert!(!lookup.queries.iter().any(Query::lacks_answer));
}

/// The answer was truncated and TCP does not get through, so the client asks again.
#[test]
fn a_truncated_answer_that_is_asked_for_again_did_arrive() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.002 r 4000 10.0.0.53 1 A db.example.com TC
         5.000 q 4000 10.0.0.53 1 A db.example.com
         5.002 r 4000 10.0.0.53 1 A db.example.com TC",
    );
    assert!(!lost(&lookup).contains("dns_timeout"), "{}", lost(&lookup));
}
