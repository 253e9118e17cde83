//! Exchanges like each other are counted together, and that does not show.

use crate::memory::{frames, track};
use tcpwhy_core::findings::{Floors, Tally, assemble};
use tcpwhy_core::internals::{Connection, Exchange, Sink, Tracker};
use tcpwhy_core::model::Report;

/// Counts each exchange individually.
#[derive(Default)]
struct OneByOne(Tally);

impl Sink for OneByOne {
    fn exchange(&mut self, connection: &Connection, exchange: &Exchange) {
        let mut alone = Tally::default();
        alone.exchange(connection, exchange);
        self.0.merge(alone);
    }

    fn connection(&mut self, connection: &Connection) {
        self.0.connection(connection);
    }
}

const OPENED: &str = "0 > S\n+0.06 < S.\n+0.06 > .\n";

/// A request of one of three kinds, and the answer: at once, late, or in two parts with a pause between.
fn exchange(number: usize) -> String {
    let kind = ["a", "b", "c"][number % 3];
    let late = [0.06, 0.9, 85.0, 40.0, 60.0, 0.06, 25.0][number % 7];
    let answer = if number % 4 != 3 {
        format!(
            "+0.06 < P. \"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\n\"\n+{} < P. \"hello\"\n",
            60 - number % 5
        )
    } else {
        format!("+{late} < P. \"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello\"\n")
    };
    format!("+0.1 > P. \"GET /{kind} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n\"\n{answer}")
}

fn report(tally: Tally) -> String {
    let mut report = Report::default();
    assemble(tally, &Floors::default(), &mut report);
    assert!(!report.findings.is_empty());
    format!("{report:?}")
}

#[test]
fn exchanges_counted_together_give_the_same_report_as_alone() {
    for step in 1..8 {
        let exchanges: String = (0..60).map(|number| exchange(number * step)).collect();
        let packets = frames(&[OPENED, &exchanges].concat(), 0, 40_000);
        let (mut together, mut alone) = (Tally::default(), OneByOne::default());
        let mut tracker = Tracker::default();
        track(&mut tracker, &mut together, &packets);
        tracker.finish(&mut together);
        let mut tracker = Tracker::default();
        track(&mut tracker, &mut alone, &packets);
        tracker.finish(&mut alone);
        let mut all = Tally::default();
        all.merge(together);
        assert_eq!(report(all), report(alone.0), "every {step}");
    }
}
