//! The latency without a cause: exchanges without it keep their time.

use crate::diagnosis::diagnose;
use crate::language::{Place, parse};
use crate::network::capture;
use tcpwhy_core::model::{Cause, Finding, Prediction};

/// The only fault of four exchanges over a round trip of 2 ms: two responses are held for 40 ms until
/// a late ACK, after `held_ms` of the server's work; one takes `other_ms` of it.
fn held_beside_work(held_ms: u32, other_ms: u32) -> Finding {
    let request = "\"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n\"";
    let head = "\"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\n\"";
    let answer = "\"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello\"";
    let text = format!(
        "one_way 1\n0 > S\n+1 < S.\n+1 > .\n+1 > P. {request}\n+2 < P. {answer}\n+1 > .\n\
         repeat 2 {{\n+5 > P. {request}\n+{} < P. {head}\n+41 > .\n+1.02 < P. \"hello\"\n+1 > .\n}}\n\
         +5 > P. {request}\n+{} < P. {answer}\n+1 > .",
        held_ms + 1,
        other_ms + 1
    );
    let mut report = diagnose(&capture(&parse(&text), Place::Client));
    let found = report.findings.iter().position(|it| it.cause == Cause::NagleDelayedAck);
    report.findings.swap_remove(found.expect("a hold"))
}

#[test]
fn the_longest_keeps_its_time_where_it_has_no_hold() {
    let held = held_beside_work(1, 300);
    let Prediction { likely, least, most } = held.counterfactual;
    let now_ns = held.latency.max_ns;
    assert_eq!([likely.max_ns, least.max_ns, most.max_ns], [now_ns; 3]);
}

#[test]
fn the_longest_has_an_interval_below_its_time_where_it_has_a_hold() {
    let held = held_beside_work(20, 1);
    let Prediction { likely, least, most } = held.counterfactual;
    assert!(least.max_ns < likely.max_ns && likely.max_ns < most.max_ns, "{held:?}");
    assert!(most.max_ns < held.latency.max_ns, "{held:?}");
}
