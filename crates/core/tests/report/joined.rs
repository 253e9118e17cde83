//! A report on captures of both ends.

use crate::fixtures;
use tcpwhy_core::capture::Site;
use tcpwhy_core::model::{Clocks, Crossing, Fact, Join, Observation, Report, Sight, Vantage};

/// The nagle case, captured at both ends by clocks that differ; a few packets were lost between.
pub fn joined() -> Report {
    let mut report = fixtures::nagle();
    let mut input = report.inputs[0].clone();
    input.path = "server.pcap".into();
    input.site = Site { is_second: true, ahead_ns: 3_700_000_000 };
    report.inputs.push(input);
    report.join = Some(Join {
        vantages: [Vantage::Client, Vantage::Server],
        told_by: 0,
        clocks: Some(Clocks {
            offset_ns: 3_700_120_000,
            drift_ppm: Some(-12.4),
            rtt_min_ns: 180_000,
        }),
        connections: 21,
        crossings: [
            Crossing { packets: 1_890, ..Crossing::default() },
            Crossing {
                packets: 1_912,
                lost_packets: 3,
                lost_bytes: 4_344,
                lost_acks: 1,
                appeared_packets: 2,
                uncovered_packets: 0,
            },
        ],
    });
    let lost_ns = report.findings[0].lost_ns;
    report.findings[0].sights =
        vec![Sight { place: 0, lost_ns }, Sight { place: 1, lost_ns: lost_ns - 2_000_000 }];
    let words = |words: &str| Fact::Text(words.into());
    report.observations.push(Observation {
        id: "join_refuted",
        facts: vec![
            ("cause", words("delayed_ack")),
            ("told", words("at the client")),
            ("other", words("at the server")),
        ],
        frames: Vec::new(),
    });
    report
}
