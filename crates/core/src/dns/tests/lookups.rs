//! Look-ups and the parts of their waiting time.

use super::*;

#[test]
fn a_pair_answered_promptly_is_one_healthy_lookup() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         0.002 r 4000 10.0.0.53 2 AAAA db.example.com NODATA",
    );
    assert_eq!(lost(&lookup), "- 2");
    assert_eq!(lookup.qtypes, [qtype::A, qtype::AAAA]);
    assert_eq!(lookup.outcome, LookupOutcome::Answered);
    assert_eq!(lookup.addresses, [endpoint("10.1.1.1", 0).address]);
    assert!(!lookup.conntrack_race_suspected);
}

#[test]
fn an_unanswered_query_is_repeated_at_another_server_after_5_s() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         5.005 q 4001 10.0.0.54 1 A db.example.com
         5.006 r 4001 10.0.0.54 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_timeout 5005");
    assert_eq!(lookup.queries.len(), 2);
    assert_eq!(lookup.queries[0].answered_ns, None);
}

#[test]
fn a_lone_unanswered_half_points_to_the_insert_race() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         5.000 q 4000 10.0.0.53 1 A db.example.com
         5.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         5.001 q 4000 10.0.0.53 2 AAAA db.example.com
         5.002 r 4000 10.0.0.53 2 AAAA db.example.com NODATA",
    );
    assert_eq!(lost(&lookup), "- 1, dns_timeout 5001");
    assert!(lookup.conntrack_race_suspected);
}

#[test]
fn a_query_repeated_after_a_timeout_had_received_no_answer() {
    // At the server: the other query of the pair was lost on its way.
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         5.004 q 4000 10.0.0.53 1 A db.example.com
         5.005 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         5.014 q 4000 10.0.0.53 2 AAAA db.example.com
         5.015 r 4000 10.0.0.53 2 AAAA db.example.com NODATA",
    );
    assert_eq!(lost(&lookup), "- 11, dns_timeout 5004");
}

#[test]
fn the_same_name_asked_for_again_is_another_lookup() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         5.000 q 4000 10.0.0.53 2 A db.example.com
         5.001 r 4000 10.0.0.53 2 A db.example.com 10.1.1.1
         10.000 q 4001 10.0.0.53 2 A db.example.com
         10.001 r 4001 10.0.0.53 2 A db.example.com 10.1.1.1",
    );
    assert_eq!(lookups.iter().map(lost).collect::<Vec<_>>(), ["- 1", "- 1", "- 1"]);
}

#[test]
fn a_query_asked_again_from_another_socket_belongs_to_the_lookup_under_way() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.000 q 4000 10.0.0.53 2 AAAA db.example.com
         0.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         1.000 q 4001 10.0.0.53 2 AAAA db.example.com
         2.100 q 4002 10.0.0.53 3 A db.example.com
         2.100 q 4002 10.0.0.53 4 AAAA db.example.com
         2.101 r 4002 10.0.0.53 3 A db.example.com 10.1.1.1
         3.100 q 4003 10.0.0.53 4 AAAA db.example.com",
    );
    let queries: Vec<_> = lookups.iter().map(|lookup| lookup.queries.len()).collect();
    assert_eq!(queries, [3, 3]);
}

#[test]
fn search_domains_are_tried_without_success() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A api.ns.svc.cluster.local
         0.002 r 4000 10.0.0.53 1 A api.ns.svc.cluster.local NXDOMAIN
         0.002 q 4001 10.0.0.53 2 A api.svc.cluster.local
         0.004 r 4001 10.0.0.53 2 A api.svc.cluster.local NXDOMAIN
         0.004 q 4002 10.0.0.53 3 A api
         0.005 r 4002 10.0.0.53 3 A api 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_search 4");
    assert_eq!(lookup.search_steps, 2);
    assert_eq!(lookup.name.as_deref(), Some("api"));
}

/// The known round trip to a resolver may be that of another host in its network.
#[test]
fn a_server_is_no_further_away_than_its_answers_take() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A api.ns.svc.cluster.local
         0.025 r 4000 10.0.0.53 1 A api.ns.svc.cluster.local NXDOMAIN
         0.025 q 4001 10.0.0.53 2 A api
         0.050 r 4001 10.0.0.53 2 A api 10.1.1.1",
    );
    let searched = |rtt_ns, unseen_ns| {
        let split = lookup.split(Some(rtt_ns), unseen_ns);
        split.into_iter().find(|(cause, _)| *cause == Some(Cause::DnsSearch)).map(|(_, ns)| ns)
    };
    assert_eq!(searched(60_000_000, 0), Some(25_000_000));
    // The part of the path that the capture does not show is not bounded by the answers' times.
    assert_eq!(searched(60_000_000, 10_000_000), Some(15_000_000));
}

#[test]
fn search_domains_fail_for_a_host_called_www() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A www.shop.svc.cluster.local
         0.002 r 4000 10.0.0.53 1 A www.shop.svc.cluster.local NXDOMAIN
         0.002 q 4001 10.0.0.53 2 A www.shop.cluster.local
         0.004 r 4001 10.0.0.53 2 A www.shop.cluster.local NXDOMAIN
         0.004 q 4002 10.0.0.53 3 A www.shop.example
         0.005 r 4002 10.0.0.53 3 A www.shop.example 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_search 4");
    assert_eq!(lookup.search_steps, 2);
}

/// Negative twin: no name of the series exists, so none was the right one.
#[test]
fn names_of_which_none_exists_were_not_tried_before_the_right_one() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A api.ns.svc.cluster.local
         0.002 r 4000 10.0.0.53 1 A api.ns.svc.cluster.local NXDOMAIN
         0.002 q 4001 10.0.0.53 2 A api.svc.cluster.local
         0.004 r 4001 10.0.0.53 2 A api.svc.cluster.local NXDOMAIN
         0.004 q 4002 10.0.0.53 3 A api
         0.005 r 4002 10.0.0.53 3 A api NXDOMAIN",
    );
    assert_eq!((lost(&lookup).as_str(), lookup.outcome), ("- 5", LookupOutcome::NxDomain));
}

/// Names of one domain that differ in the middle are asked for one after the other (RFC 2782).
#[test]
fn services_of_one_domain_are_not_a_search() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 33 _ldap._tcp.paris._sites.dc.corp.example
         0.010 r 4000 10.0.0.53 1 33 _ldap._tcp.paris._sites.dc.corp.example NXDOMAIN
         0.011 q 4001 10.0.0.53 2 33 _ldap._tcp.dc.corp.example
         0.021 r 4001 10.0.0.53 2 33 _ldap._tcp.dc.corp.example NXDOMAIN
         0.022 q 4002 10.0.0.53 3 33 _ldap._tcp.f00.domains.corp.example
         0.032 r 4002 10.0.0.53 3 33 _ldap._tcp.f00.domains.corp.example 10.1.1.1",
    );
    assert_eq!(lookups.iter().map(lost).collect::<Vec<_>>(), ["- 10", "- 10", "- 10"]);
}

#[test]
fn a_name_that_does_not_exist_is_no_search() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A nowhere.example.com
         0.001 r 4000 10.0.0.53 1 A nowhere.example.com NXDOMAIN",
    );
    assert_eq!((lost(&lookup).as_str(), lookup.outcome), ("- 1", LookupOutcome::NxDomain));
}

#[test]
fn unrelated_names_are_not_a_search() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A www.one.example
         0.001 r 4000 10.0.0.53 1 A www.one.example NXDOMAIN
         0.002 q 4001 10.0.0.53 2 A www.two.example
         0.003 r 4001 10.0.0.53 2 A www.two.example 10.1.1.1",
    );
    assert_eq!(lookups.len(), 2);
}

#[test]
fn a_failing_server_costs_until_the_next_is_asked() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.400 r 4000 10.0.0.53 1 A db.example.com SERVFAIL
         0.401 q 4001 10.0.0.54 1 A db.example.com
         0.403 r 4001 10.0.0.54 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 2, dns_failure 401");
    assert_eq!(lookup.outcome, LookupOutcome::Answered);
}

#[test]
fn a_closed_port_is_a_failure() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.001 icmp 4000 10.0.0.53
         0.002 q 4001 10.0.0.54 1 A db.example.com
         0.003 r 4001 10.0.0.54 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_failure 2");
}

#[test]
fn a_router_without_a_way_is_no_closed_port() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.001 icmp 4000 10.0.0.53 10.0.9.1
         0.002 q 4001 10.0.0.54 1 A db.example.com
         0.003 r 4001 10.0.0.54 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_failure 2");
    let router = lookup.queries[0].router.as_deref().copied();
    assert_eq!(router, Some(endpoint("10.0.9.1", 0)));
    assert_eq!(lookup.queries[1].router, None);
}

#[test]
fn an_answer_far_above_the_baseline_is_slow() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A one.example
         0.001 r 4000 10.0.0.53 1 A one.example 10.1.1.1
         1.000 q 4001 10.0.0.53 2 A two.example
         1.301 r 4001 10.0.0.53 2 A two.example 10.1.1.1",
    );
    assert_eq!(lost(&lookups[0]), "- 1");
    assert_eq!(lost(&lookups[1]), "- 1, dns_slow 300");
}

#[test]
fn a_first_answer_from_elsewhere_is_not_slow() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A one.example
         0.030 r 4000 10.0.0.53 1 A one.example 10.1.1.1
         1.000 q 4001 10.0.0.53 2 A one.example
         1.0005 r 4001 10.0.0.53 2 A one.example 10.1.1.1
         2.000 q 4002 10.0.0.53 2 A two.example
         2.050 r 4002 10.0.0.53 2 A two.example 10.1.1.1",
    );
    assert_eq!(lookups.iter().map(lost).collect::<Vec<_>>(), ["- 30", "- 0.5", "- 50"]);
}

#[test]
fn a_resolver_that_is_always_slow_is_slow() {
    let lookups = lookups(
        "0.0 q 4000 10.0.0.53 1 A one.example
         0.8 r 4000 10.0.0.53 1 A one.example 10.1.1.1
         2.0 q 4001 10.0.0.53 2 A two.example
         2.8 r 4001 10.0.0.53 2 A two.example 10.1.1.1",
    );
    assert_eq!(lost(&lookups[1]), "- 1, dns_slow 799");
}

#[test]
fn a_late_answer_counts_as_slow_from_the_query_on() {
    let lookup = lookup(
        "0.0 q 4000 10.0.0.53 1 A db.example.com
         5.0 q 4001 10.0.0.54 2 A db.example.com
         5.2 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_slow 5199");
}

#[test]
fn an_address_without_a_name_costs_the_timeout() {
    let lookup = lookup(
        "0.0 q 4000 10.0.0.53 1 PTR 1.1.1.10.in-addr.arpa
         5.0 q 4000 10.0.0.53 1 PTR 1.1.1.10.in-addr.arpa
         40.0 end",
    );
    assert_eq!(lost(&lookup), "- 1, reverse_dns_timeout 9999");
    assert_eq!((lookup.outcome, lookup.is_reverse), (LookupOutcome::Timeout, true));
}

#[test]
fn the_end_of_the_capture_ends_the_wait() {
    let lookup = lookup("0.0 q 4000 10.0.0.53 1 A db.example.com\n 2.0 end");
    assert_eq!(lost(&lookup), "- 1, dns_timeout 1999");
}

#[test]
fn the_last_wait_for_a_silent_server_is_as_long_as_the_one_before() {
    let lookup = lookup(
        "0.00 q 4000 10.0.0.53 1 A db.example.com
         2.00 q 4000 10.0.0.53 1 A db.example.com
         2.01 end",
    );
    assert_eq!(lost(&lookup), "- 1, dns_timeout 3999");
    assert_eq!(lookup.unseen_ns, 1_990_000_000);
}

#[test]
fn the_end_of_the_capture_ends_the_wait_for_a_server_that_answers() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A one.example
         0.001 r 4000 10.0.0.53 1 A one.example 10.1.1.1
         1.00 q 4001 10.0.0.53 2 A db.example.com
         3.00 q 4001 10.0.0.53 2 A db.example.com
         3.01 end",
    );
    assert_eq!(lost(&lookups[1]), "- 1, dns_timeout 2009");
    assert_eq!(lookups[1].unseen_ns, 0);
}

#[test]
fn the_end_of_the_capture_ends_the_wait_for_a_server_that_was_just_asked() {
    let lookup = lookup(
        "0.00 q 4000 10.0.0.53 1 A db.example.com
         2.00 q 4000 10.0.0.54 1 A db.example.com
         2.01 end",
    );
    assert_eq!(lost(&lookup), "- 1, dns_timeout 2009");
}

#[test]
fn the_same_name_again_is_another_lookup() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         0.001 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         0.010 q 4001 10.0.0.53 2 A db.example.com
         0.011 r 4001 10.0.0.53 2 A db.example.com 10.1.1.1",
    );
    assert_eq!(lookups.len(), 2);
}

#[test]
fn two_threads_have_a_lookup_each() {
    let lookups = lookups(
        "0.0000 q 4000 10.0.0.53 1 A db.example.com
         0.0001 q 4001 10.0.0.53 3 A db.example.com
         0.0002 q 4000 10.0.0.53 2 AAAA db.example.com
         0.0003 q 4001 10.0.0.53 4 AAAA db.example.com
         0.0010 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         0.0010 r 4001 10.0.0.53 3 A db.example.com 10.1.1.1
         0.0010 r 4000 10.0.0.53 2 AAAA db.example.com NODATA
         0.0010 r 4001 10.0.0.53 4 AAAA db.example.com NODATA",
    );
    let ports = lookups.iter().map(|l| l.queries.iter().map(|q| q.client_port).collect::<Vec<_>>());
    assert_eq!(ports.collect::<Vec<_>>(), [[4000, 4000], [4001, 4001]]);
}

#[test]
fn a_packet_captured_twice_counts_once() {
    let lookup = lookup(
        "0.00000 q 4000 10.0.0.53 1 A db.example.com
         0.00002 q 4000 10.0.0.53 1 A db.example.com
         0.00100 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         0.00102 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1",
    );
    assert_eq!((lookup.queries.len(), lost(&lookup).as_str()), (1, "- 1"));
}

#[test]
fn a_truncated_answer_is_asked_for_over_tcp() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A big.example.com
         0.001 r 4000 10.0.0.53 1 A big.example.com TC
         0.003 tq 5000 10.0.0.53 2 A big.example.com
         0.005 tr 5000 10.0.0.53 2 A big.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 5");
    assert!(lookup.queries[1].flags.over_tcp);
}

#[test]
fn a_truncated_answer_may_be_asked_for_in_a_datagram_again() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A big.example.com
         0.001 r 4000 10.0.0.53 1 A big.example.com TC
         0.003 q 4001 10.0.0.53 2 A big.example.com
         0.005 r 4001 10.0.0.53 2 A big.example.com 10.1.1.1",
    );
    assert_eq!((lookup.queries.len(), lookup.end_ns), (2, 5_000_000));
}

#[test]
fn both_halves_of_a_pair_go_over_to_tcp_where_one_answer_is_truncated() {
    for halves in [["A", "AAAA"], ["AAAA", "A"]] {
        let [first, second] = halves;
        let lookup = lookup(&format!(
            "0.000 q 4000 10.0.0.53 1 A big.example.com
             0.000 q 4000 10.0.0.53 2 AAAA big.example.com
             0.001 r 4000 10.0.0.53 1 A big.example.com TC
             0.002 r 4000 10.0.0.53 2 AAAA big.example.com NODATA
             0.003 tq 5000 10.0.0.53 3 {first} big.example.com
             0.003 tq 5000 10.0.0.53 4 {second} big.example.com
             0.005 tr 5000 10.0.0.53 3 {first} big.example.com 10.1.1.1
             0.007 tr 5000 10.0.0.53 4 {second} big.example.com NODATA"
        ));
        assert_eq!((lookup.queries.len(), lookup.end_ns), (4, 7_000_000), "{halves:?}");
    }
}

#[test]
fn a_resolver_that_forwards_queries_is_no_client() {
    let mut tracker = Tracker::new(false);
    feed(
        &mut tracker,
        CLIENT,
        "0.0 q 4000 10.0.0.53 1 A a.example\n 0.1 r 4000 10.0.0.53 1 A a.example 10.1.1.1",
    );
    feed(
        &mut tracker,
        "10.0.0.53",
        "1.0 q 6000 8.8.8.8 1 A b.example\n 1.1 r 6000 8.8.8.8 1 A b.example 10.1.1.1",
    );
    let lookups = tracker.finish(2_000_000_000);
    assert_eq!(lookups.iter().map(|lookup| lookup.by_resolver).collect::<Vec<_>>(), [false, true]);
    assert!(lookups.iter().all(|lookup| lookup.name.is_none()));
}

#[test]
fn a_query_without_rd_was_waited_for_if_it_was_repeated_and_answered_then() {
    let is_of_tool = |trace: &str, is_iterative: bool| {
        let mut tracker = Tracker::new(false);
        feed(&mut tracker, CLIENT, trace);
        let mut lookups = tracker.finish(20_000_000_000);
        assert_eq!(lookups.len(), 1);
        let lookup = &mut lookups[0];
        lookup.queries.iter_mut().for_each(|it| it.flags.is_iterative = is_iterative);
        lookup.is_of_tool()
    };
    let once = "0.0 q 4000 10.0.0.53 1 A a.example";
    let again = format!("{once}\n 5.0 q 4000 10.0.0.53 2 A a.example");
    let answered = format!("{again}\n 5.1 r 4000 10.0.0.53 2 A a.example 10.1.1.1");
    assert!(is_of_tool(once, true) && is_of_tool(&again, true));
    assert!(!is_of_tool(&answered, true));
    assert!(!is_of_tool(once, false));
}

#[test]
fn a_client_with_the_resolvers_own_address_is_no_resolver() {
    let mut tracker = Tracker::new(false);
    for at in ["0", "1"] {
        let trace = format!(
            "{at}.0 q 400{at} 127.0.0.1 1{at} A a.example\n {at}.1 r 400{at} 127.0.0.1 1{at} A a.example 10.1.1.1"
        );
        feed(&mut tracker, "127.0.0.1", &trace);
    }
    let lookups = tracker.finish(2_000_000_000);
    assert_eq!(lookups.iter().map(|lookup| lookup.by_resolver).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn open_lookups_are_bounded() {
    let mut tracker = Tracker::new(false);
    let frame = FrameId::new(0, 1);
    for client in 0..20_000u32 {
        let [_, _, high, low] = client.to_be_bytes();
        let client = endpoint(&format!("10.1.{high}.{low}"), 4000);
        let bytes = encode(1, qtype::A, "db.example.com", None);
        let (source, destination) = (&client, &endpoint("10.0.0.53", 53));
        let carrier = Transport::Datagram;
        let (time_ns, payload_bytes) = (0, bytes.len() as u32);
        let carried =
            MessageContext { time_ns, frame, payload_bytes, source, destination, carrier, ttl: 64 };
        tracker.message(&carried, &bytes);
    }
    assert!(tracker.open.len() <= 8192);
    assert_eq!(tracker.finish(1).len(), 20_000);
}

#[test]
fn an_answer_that_comes_after_the_client_asked_again_is_late() {
    // The resolver takes six seconds for each query; glibc repeats the query after five.
    let first = "0.000 q 4000 10.0.0.53 1 A db.example.com
         5.005 q 4000 10.0.0.53 1 A db.example.com
         6.022 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1";
    let second = format!("{first}\n11.027 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1");
    for text in [first, &second] {
        let lookup = lookup(text);
        assert_eq!(lost(&lookup), "- 1, dns_slow 6021");
        assert_eq!(lookup.queries[0].answered_ns, Some(6_022_000_000));
    }
    assert_eq!(lookup(&second).queries[1].answered_ns, Some(11_027_000_000));
}

#[test]
fn two_answers_belong_to_two_queries_though_the_first_came_soon_after_the_second() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         5.005 q 4000 10.0.0.53 1 A db.example.com
         5.105 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         10.110 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_slow 5104");
}

#[test]
fn an_answer_soon_after_a_repetition_belongs_to_the_repetition() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         5.005 q 4000 10.0.0.53 1 A db.example.com
         5.006 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         5.006 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1",
    );
    assert_eq!(lost(&lookup), "- 1, dns_timeout 5005");
}

#[test]
fn a_name_without_the_type_asked_for_is_no_failed_search() {
    let lookups = lookups(
        "0.000 q 4000 10.0.0.53 1 AAAA www.example.com
         0.160 r 4000 10.0.0.53 1 AAAA www.example.com NODATA
         0.161 q 4000 10.0.0.53 2 AAAA www.example.com.home
         0.187 r 4000 10.0.0.53 2 AAAA www.example.com.home REFUSED
         0.188 q 4000 10.0.0.53 3 A www.example.com
         0.298 r 4000 10.0.0.53 3 A www.example.com 10.1.1.1",
    );
    assert!(lookups.iter().all(|lookup| !lost(lookup).contains("dns_search")));
}

#[test]
fn a_failure_that_comes_late_has_the_time_until_it() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         2.000 q 4000 10.0.0.53 1 A db.example.com
         9.000 r 4000 10.0.0.53 1 A db.example.com SERVFAIL",
    );
    assert_eq!(lost(&lookup), "- 1, dns_failure 8999");
}

#[test]
fn a_query_younger_than_the_slowest_answer_may_still_be_answered() {
    let lookup = lookup(
        "0.000 q 4000 10.0.0.53 1 A db.example.com
         4.000 q 4000 10.0.0.53 1 A db.example.com",
    );
    let slowest = |ns: Option<u64>| lookup.may_still_be_answered(|_| ns);
    assert!(slowest(Some(12_000_000_000)));
    assert!(!slowest(Some(3_000_000_000)) && !slowest(None));
}

#[test]
fn an_answer_from_another_address_that_the_client_s_host_refuses_is_none() {
    let lookup = |last: &str| {
        lookup(&format!(
            "0.000 q 4000 10.0.0.53 1 A db.example.com
             0.001 r 4000 10.0.0.1 1 A db.example.com 10.1.1.1
             {last}"
        ))
    };
    let taken = lookup("");
    assert_eq!((taken.outcome, taken.addresses.len()), (LookupOutcome::Answered, 1));
    let refused = lookup("0.001 closed 4000 10.0.0.1");
    assert_eq!((refused.outcome, refused.addresses.len()), (LookupOutcome::Timeout, 0));
    assert_eq!(refused.queries[0].refused(), Some(endpoint("10.0.0.1", 0).address));
}
