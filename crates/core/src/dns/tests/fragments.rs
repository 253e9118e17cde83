//! Answers of which later IP fragments arrive and the first does not.

use super::*;

fn cut_short(lookup: &Lookup) -> Vec<bool> {
    lookup.queries.iter().map(Query::is_cut_short).collect()
}

#[test]
fn a_later_fragment_without_its_first_is_a_part_of_the_answer() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.001 r2 4000 10.0.0.53 77 A db.example.com
         5.005 q 4001 10.0.0.54 1 A db.example.com
         5.006 r 4001 10.0.0.54 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_timeout 5005");
    assert_eq!(cut_short(&lookup), [true, false]);
    assert!(!lookup.queries[0].is_silent());
}

#[test]
fn each_attempt_has_its_own_fragments() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.001 r2 4000 10.0.0.53 77 A db.example.com
         5.000 q 4000 10.0.0.53 1 A db.example.com
         5.001 r2 4000 10.0.0.53 78 A db.example.com
         10.00 q 4000 10.0.0.53 1 A db.example.com",
    );
    assert_eq!(cut_short(&lookup), [true, true, false]);
}

#[test]
fn fragments_that_come_in_another_order_are_a_whole_answer() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.001 r2 4000 10.0.0.53 77 A db.example.com
         0.002 r1 4000 10.0.0.53 77 A other.example
         5.005 q 4001 10.0.0.54 1 A db.example.com
         5.006 r 4001 10.0.0.54 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(cut_short(&lookup), [false, false]);
}

#[test]
fn fragments_of_another_server_or_before_the_query_do_not_belong_to_the_answer() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.001 r2 4000 10.0.0.54 77 A db.example.com
         5.005 q 4001 10.0.0.54 1 A db.example.com
         5.006 r 4001 10.0.0.54 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(cut_short(&lookup), [false, false]);
}

#[test]
fn a_later_fragment_belongs_to_the_unanswered_query_of_a_pair() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.001 r2 4000 10.0.0.53 77 AAAA db.example.com
         0.002 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         5.000 q 4000 10.0.0.53 2 AAAA db.example.com
         5.001 r 4000 10.0.0.53 2 AAAA db.example.com NODATA",
    );
    assert_eq!(cut_short(&lookup), [false, true, false]);
}

/// The client asks again, so the rest of the answer was not only left out by a capture filter.
#[test]
fn the_first_fragment_of_an_answer_whose_query_is_repeated_is_a_part_of_it() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.001 r1 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         2.000 q 4000 10.0.0.53 1 A db.example.com
         2.001 r1 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         9.000 end",
    );
    assert!(lookup.queries.iter().all(|query| query.is_cut_short()), "{lookup:#?}");
    assert!(lost(&lookup).contains("dns_timeout"), "{}", lost(&lookup));
}
