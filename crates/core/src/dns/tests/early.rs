//! Answers with earlier timestamps than their queries, and answers that were not captured.

use super::*;

#[test]
fn an_answer_captured_just_before_its_query_is_assigned_to_it() {
    let lookup = lookup(
        "0.00000 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         0.00002 q 4000 10.0.0.53 1 A db.example.com
         9.0     end",
    );
    assert_eq!(lost(&lookup), "");
    assert_eq!(lookup.outcome, LookupOutcome::Answered);
}

#[test]
fn a_port_unreachable_captured_just_before_its_query_is_assigned_to_it() {
    let lookup = lookup(
        "0.00000 icmp 4000 10.0.0.53
         0.00002 q 4000 10.0.0.53 1 A db.example.com
         0.00010 q 4000 10.0.0.54 1 A db.example.com
         0.00100 r 4000 10.0.0.54 1 A db.example.com 10.1.1.1",
    );
    assert!(lookup.queries[0].flags.is_unreachable && !lookup.queries[1].flags.is_unreachable);
}

#[test]
fn an_answer_to_another_query_or_long_before_is_not_assigned() {
    for answer in ["0.00000 r 4000 10.0.0.53 2", "0.00000 r 4001 10.0.0.53 1"] {
        let lookup = lookup(&format!(
            "{answer} A db.example.com 10.1.1.1
             0.00002 q 4000 10.0.0.53 1 A db.example.com
             5.00002 q 4000 10.0.0.53 1 A db.example.com
             5.00100 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1"
        ));
        assert!(lost(&lookup).contains("dns_timeout"), "{lookup:#?}");
    }
    let late = lookup(
        "0.00000 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         0.00100 q 4000 10.0.0.53 1 A db.example.com
         5.00100 q 4000 10.0.0.53 1 A db.example.com
         5.00200 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1",
    );
    assert!(lost(&late).contains("dns_timeout"), "{late:#?}");
}

#[test]
fn a_client_that_queries_the_next_name_has_the_previous_answer() {
    let search = |next: &str| {
        lookup(&format!(
            "0.000 q 4000 10.0.0.53 1 A db.one.example.com
             0.000 q 4000 10.0.0.53 2 AAAA db.one.example.com
             0.020 r 4000 10.0.0.53 2 AAAA db.one.example.com NXDOMAIN
             {next}0 q 4000 10.0.0.53 3 A db.example.com
             {next}0 q 4000 10.0.0.53 4 AAAA db.example.com
             {next}2 r 4000 10.0.0.53 3 A db.example.com 10.1.1.1
             {next}2 r 4000 10.0.0.53 4 AAAA db.example.com NODATA"
        ))
    };
    assert_eq!(lost(&search("0.02")), "- 2, dns_search 20");
    // After a whole timeout the client may have given up.
    assert!(lost(&search("5.02")).contains("dns_timeout 5000"), "{}", lost(&search("5.02")));
}
