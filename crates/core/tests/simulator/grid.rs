//! The grid of runs, one table, and what must hold in each row.

use crate::config::{Config, LARGE_BYTES, Loss, SMALL_BYTES};
use crate::verdict::{Verdict, judge};

const RTTS_US: [u64; 4] = [200, 2_000, 20_000, 100_000];
const ACK_DELAYS_MS: [u64; 3] = [0, 40, 200];

/// The part of the grid in which no buffer and no loss plays a part.
fn writes(body_bytes: usize) -> Vec<Config> {
    let mut all = Vec::new();
    for rtt_us in RTTS_US {
        for ack_delay_ms in ACK_DELAYS_MS {
            for (nagle, two_writes) in [(false, false), (false, true), (true, false), (true, true)]
            {
                for think_ms in [0, 40] {
                    let config = Config { nagle, ack_delay_ms, rtt_us, ..Config::default() };
                    all.push(Config { two_writes, body_bytes, think_ms, ..config });
                }
            }
        }
    }
    all
}

/// Requests in two writes.
fn requests() -> Vec<Config> {
    let mut all = Vec::new();
    for rtt_us in RTTS_US {
        for ack_delay_ms in ACK_DELAYS_MS {
            for nagle in [false, true] {
                let config = Config { nagle, ack_delay_ms, rtt_us, ..Config::default() };
                all.push(Config { request_in_two: true, ..config });
            }
        }
    }
    all
}

fn losses() -> Vec<Config> {
    let mut all = Vec::new();
    for rtt_us in RTTS_US {
        for (loss, body_bytes) in [
            (Loss::Middle, LARGE_BYTES),
            (Loss::Tail, LARGE_BYTES),
            (Loss::Tail, SMALL_BYTES),
            (Loss::Syn, SMALL_BYTES),
            (Loss::Syn, LARGE_BYTES),
        ] {
            for ack_delay_ms in ACK_DELAYS_MS {
                let config = Config { loss, body_bytes, ack_delay_ms, ..Config::default() };
                all.push(Config { rtt_us, ..config });
                all.push(Config { rtt_us, think_ms: 40, two_writes: true, ..config });
            }
        }
    }
    all
}

/// Buffers of one size at either end; responses of a few rounds, and long ones.
fn buffers() -> Vec<Config> {
    let mut all = Vec::new();
    for rtt_us in RTTS_US {
        for ack_delay_ms in [0, 40] {
            for bytes in [4 << 10, 16 << 10, 64 << 10] {
                for body_bytes in [4 * bytes, LARGE_BYTES] {
                    let config = Config { rtt_us, ack_delay_ms, body_bytes, ..Config::default() };
                    all.push(Config { send_bytes: bytes, ..config });
                    all.push(Config { receive_bytes: bytes, ..config });
                }
                let config = Config { rtt_us, ack_delay_ms, think_ms: 40, ..Config::default() };
                let config = Config { body_bytes: 4 * bytes, nagle: true, ..config };
                all.push(Config { send_bytes: bytes, ..config });
                all.push(Config { receive_bytes: bytes, ..config });
            }
        }
    }
    all
}

/// Fails with what is wrong, where more rows are than are known to be: those stand in the
/// table, marked `WRONG`. A change that mends some must lower the count.
fn must_hold(verdicts: impl Iterator<Item = Verdict>, known: usize) {
    let complaints: Vec<_> = verdicts.map(|verdict| verdict.complaint()).collect();
    let rows = complaints.len();
    let complaints: Vec<_> = complaints.into_iter().flatten().collect();
    let count = complaints.len();
    assert!(
        count == known,
        "{count} of {rows} rows are wrong, {known} are known to be:\n{}",
        complaints.join("\n")
    );
}

#[test]
fn small_responses_are_judged_as_injected() {
    must_hold(writes(SMALL_BYTES).into_iter().map(judge), 0);
}

#[test]
fn large_responses_are_judged_as_injected() {
    must_hold(writes(LARGE_BYTES).into_iter().map(judge), 0);
}

#[test]
fn requests_in_two_writes_are_judged_as_injected() {
    must_hold(requests().into_iter().map(judge), 0);
}

#[test]
fn losses_are_judged_as_injected() {
    must_hold(losses().into_iter().map(judge), 0);
}

#[test]
fn buffers_are_judged_as_injected() {
    let verdicts = buffers().into_iter().map(judge);
    must_hold(verdicts.filter(|verdict| !verdict.repeats_needlessly()), 3);
}

#[test]
fn buffers_are_judged_as_injected_whatever_the_sender_repeats() {
    must_hold(buffers().into_iter().map(judge).filter(Verdict::repeats_needlessly), 10);
}

#[test]
fn the_whole_grid() {
    let parts = [
        ("small responses", writes(SMALL_BYTES)),
        ("large responses", writes(LARGE_BYTES)),
        ("requests in two writes", requests()),
        ("losses", losses()),
        ("buffers", buffers()),
    ];
    let mut table = String::from(
        "configuration (ms) | truth: wall, faults with cost | at client: wall, faults | at server\n",
    );
    for (name, configs) in parts {
        let rows: Vec<_> = configs.into_iter().map(judge).map(|verdict| verdict.row()).collect();
        table += &format!("\n{name}\n{}\n", rows.join("\n"));
    }
    insta::assert_snapshot!("grid", table);
}
