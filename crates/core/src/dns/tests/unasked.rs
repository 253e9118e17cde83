//! Answers whose queries were not captured, and servers that are no resolvers.

use super::*;

/// The capture lacks packets between client and server: that it has no answer shows nothing.
#[test]
fn an_answer_without_its_query_shows_that_packets_are_missing() {
    let asked = "10.0 q 4000 10.0.0.53 1 A db.example.com
         13.0 q 4001 10.0.0.54 2 A www.example.org
         13.1 r 4001 10.0.0.54 2 A www.example.org 10.1.1.1";
    let before = "0.000 q 4002 10.0.0.54 3 A mail.example.org
         0.001 r 4002 10.0.0.54 3 A mail.example.org 10.1.1.1";
    let of = |answers: &str| {
        let all = lookups(&format!("{before}\n{asked}\n{answers}\n60 end"));
        let lacks =
            |name: &str| all.iter().any(|it| it.name.as_deref() == Some(name) && it.lacks_packets);
        [lacks("db.example.com"), lacks("www.example.org")]
    };
    assert_eq!(of("40.0 r 4003 10.0.0.53 9 A ns.example.net 10.1.1.1"), [true, false]);
    // It answers the query, comes twice, or is of another server.
    assert_eq!(of("13.2 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1"), [false, false]);
    assert_eq!(of("13.2 r 4001 10.0.0.54 2 A www.example.org 10.1.1.1"), [false, false]);
    assert_eq!(of("40.0 r 4003 10.0.0.55 9 A ns.example.net 10.1.1.1"), [false, false]);
}

#[test]
fn what_was_asked_before_the_capture_began_or_is_stamped_later_is_not_missing() {
    for answer in ["0.0", "4.9"] {
        let all = lookups(&format!(
            "0.000 q 4002 10.0.0.54 3 A mail.example.org
             {answer}01 r 4003 10.0.0.53 9 A ns.example.net 10.1.1.1
             10.0 q 4000 10.0.0.53 1 A db.example.com
             60 end"
        ));
        assert!(all.iter().all(|it| !it.lacks_packets), "{all:#?}");
    }
    let all = lookups(
        "0.0 q 4002 10.0.0.54 3 A mail.example.org
         10.0 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1
         10.00002 q 4000 10.0.0.53 1 A db.example.com
         60 end",
    );
    assert!(all.iter().all(|it| !it.lacks_packets), "{all:#?}");
}

#[test]
fn a_server_whose_answers_offer_no_recursion_is_no_resolver() {
    for flags in [0x01, 0x00] {
        let mut tracker = Tracker::new(true);
        feed(&mut tracker, CLIENT, "0.0 q 4000 10.0.0.53 1 A db.example.com");
        let mut bytes = encode(1, qtype::A, "db.example.com", Some("10.1.1.1"));
        (bytes[2], bytes[3]) = (flags | 0x84, 0);
        let (server, client) = (endpoint("10.0.0.53", 53), endpoint(CLIENT, 4000));
        let carried = MessageContext {
            time_ns: 20_000_000,
            frame: FrameId::new(0, 2),
            payload_bytes: bytes.len() as u32,
            source: &server,
            destination: &client,
            carrier: Transport::Datagram,
            ttl: 64,
        };
        tracker.message(&carried, &bytes);
        let lookups = tracker.finish(1_000_000_000);
        assert!(lookups[0].queries[0].flags.lacks_recursion);
    }
    let recurses = lookup(
        "0.0 q 4000 10.0.0.53 1 A db.example.com
         0.1 r 4000 10.0.0.53 1 A db.example.com 10.1.1.1",
    );
    assert!(!recurses.queries[0].flags.lacks_recursion);
}
