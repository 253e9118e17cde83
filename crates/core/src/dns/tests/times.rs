//! Times of resolvers: each test has a wait on either side of one.

use super::*;

#[test]
fn a_query_within_a_tenth_of_a_second_is_a_second_capture_of_the_packet() {
    let queries = |again: &str| {
        lookup(&format!(
            "0.000 q 4000 10.0.0.53 1 A db.example.com
             {again} q 4000 10.0.0.53 1 A db.example.com
             0.400 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1"
        ))
        .queries
        .len()
    };
    assert_eq!([queries("0.070"), queries("0.150")], [1, 2]);
}

#[test]
fn the_other_type_asked_some_time_after_an_answer_is_another_lookup() {
    let count = |next: &str| {
        lookups(&format!(
            "0.000 q 4000 10.0.0.53 1 A db.example.com
             0.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
             {next}0 q 4000 10.0.0.53 2 AAAA db.example.com
             {next}1 r 4000 10.0.0.53 2 AAAA db.example.com NODATA"
        ))
        .len()
    };
    assert_eq!([count("0.20"), count("0.30")], [1, 2]);
}

#[test]
fn a_lookup_has_ended_after_three_default_timeouts() {
    let count = |again: &str| {
        lookups(&format!(
            "0.000 q 4000 10.0.0.53 1 A db.example.com
             {again}0 q 4001 10.0.0.53 2 A db.example.com
             {again}1 r 4001 10.0.0.53 2 A db.example.com 10.1.1.1"
        ))
        .len()
    };
    assert_eq!([count("12.00"), count("20.00")], [1, 2]);
}

#[test]
fn a_client_whose_timeout_is_unknown_has_the_default() {
    let unanswered = lookup(
        "0.0 q 4000 10.0.0.53 1 A db.example.com
         9.0 end",
    );
    assert_eq!(lost(&unanswered), "- 1, dns_timeout 4999");
}

#[test]
fn no_client_gives_up_on_a_name_within_a_second() {
    let search = |next: &str| {
        lost(&lookup(&format!(
            "0.000 q 4000 10.0.0.53 1 A db.one.example.com
             0.000 q 4000 10.0.0.53 2 AAAA db.one.example.com
             0.020 r 4000 10.0.0.53 2 AAAA db.one.example.com NXDOMAIN
             {next}0 q 4000 10.0.0.53 3 A db.example.com
             {next}1 r 4000 10.0.0.53 3 A db.example.com 10.1.1.1"
        )))
    };
    assert!(!search("0.80").contains("dns_timeout"), "{}", search("0.80"));
    assert!(search("1.50").contains("dns_timeout"), "{}", search("1.50"));
}

#[test]
fn an_answer_before_its_query_comes_within_a_train_of_packets() {
    let times_out = |query: &str| {
        let lookup = lookup(&format!(
            "0.00000 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
             {query} q 4000 10.0.0.53 1 A db.example.com
             9.00000 end"
        ));
        lost(&lookup).contains("dns_timeout")
    };
    assert!(!times_out("0.00025") && times_out("0.00045"));
}

#[test]
fn an_answer_is_slow_if_it_takes_several_times_that_of_its_server() {
    let is_slow = |answered: &str| {
        let lookup = lookup(&format!(
            "0.000 q 4000 10.0.0.53 1 A db.example.com
             {answered} r 4000 10.0.0.53 1 A db.example.com 10.1.1.1"
        ));
        let split = lookup.split(Some(40_000_000), 0);
        split.iter().any(|&(cause, ns)| cause == Some(Cause::DnsSlow) && ns > 0)
    };
    assert!(!is_slow("0.100") && is_slow("0.150"));
}

#[test]
fn a_server_that_is_always_slow_is_no_baseline() {
    let lost_after = |fastest: &str| {
        let lookups = lookups(&format!(
            "0.000 q 4000 10.0.0.53 1 A one.example.com
             {fastest} r 4000 10.0.0.53 1 A one.example.com 10.1.1.1
             1.000 q 4001 10.0.0.53 2 A two.example.com
             1.100 r 4001 10.0.0.53 2 A two.example.com 10.1.1.2"
        ));
        lost(&lookups[1])
    };
    assert_eq!(lost_after("0.008"), "- 8, dns_slow 92");
    assert_eq!(lost_after("0.015"), "- 1, dns_slow 99");
}
