//! Compares the latency that the first run predicted without a fault with what the second run, after
//! the repair, measures.

use super::Comparison;
use crate::findings::prediction;
use crate::model::units;

/// The prediction for the only fault that is gone.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Outlook {
    /// Id of the cause.
    pub cause: String,
    /// The median.
    pub p50: Predicted,
    /// The 99th percentile.
    pub p99: Predicted,
}

/// An interval that was predicted, and the value that was measured, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Predicted {
    /// Lower end.
    pub least_ns: u64,
    /// Upper end.
    pub most_ns: u64,
    /// The value in the run after.
    pub measured_ns: u64,
    /// The value lies in the interval as it is printed, rounded outward.
    pub holds: bool,
}

impl Predicted {
    fn of(least_ns: u64, most_ns: u64, measured_ns: u64) -> Self {
        let holds = units::is_in_range(least_ns, most_ns, measured_ns);
        Self { least_ns, most_ns, measured_ns, holds }
    }
}

impl Comparison {
    /// Returns what the run before predicted for the run after; `None` unless exactly one fault is
    /// gone, none is new, and both runs have the same requests. Each of several faults is predicted
    /// as if it alone were gone.
    pub fn outlook(&self) -> Option<Outlook> {
        let [gone] = self.gone_faults.as_slice() else { return None };
        if !self.new_faults.is_empty() || !self.only_in.is_empty() {
            return None;
        }
        let then = prediction::in_another_run(&gone.without.filter(|it| it.most.max_ns > 0)?);
        let now = &self.after.latency;
        Some(Outlook {
            cause: gone.cause.clone(),
            p50: Predicted::of(then.least.p50_ns, then.most.p50_ns, now.p50_ns),
            p99: Predicted::of(then.least.p99_ns, then.most.p99_ns, now.p99_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::compare::{Comparison, Measured, Options, Outlook, Sample, compare};
    use serde_json::{Value, json};

    const MS: u64 = 1_000_000;

    fn percentiles(ns: u64) -> Value {
        json!({ "p50_ns": ns, "p90_ns": ns, "p99_ns": ns, "max_ns": ns })
    }

    /// Returns a report of 40 exchanges of `ns` with the `findings`.
    fn report(ns: u64, findings: &[Value]) -> Measured {
        let text = json!({
            "schema_version": 1,
            "totals": { "exchanges": 40, "wall_ns": 40 * ns, "vantage": "client" },
            "ledger": { "path": 40 * ns },
            "latency": percentiles(ns),
            "latency_histogram": [[ns, 40]],
            "findings": findings,
        });
        Measured::from_json("run", text.to_string().as_bytes()).expect("a report")
    }

    fn fault(cause: &str, counterfactual: Value) -> Value {
        json!({
            "cause": cause, "class": "fault", "culprit": { "role": "server" }, "lost_ns": 40 * MS,
            "affected": { "of_exchanges": 40 }, "counterfactual": counterfactual,
        })
    }

    fn held(cause: &str) -> Value {
        let mut counterfactual = percentiles(3 * MS);
        counterfactual["least"] = percentiles(2 * MS);
        counterfactual["most"] = percentiles(4 * MS);
        fault(cause, counterfactual)
    }

    fn compared(findings: &[Value], after_ns: u64) -> Comparison {
        let runs = [report(40 * MS, findings), report(after_ns, &[])];
        let [before, after] = runs;
        assert_eq!(before.sample.as_ref().map(Sample::count), Some(40));
        compare(before, after, Options::default()).expect("both have exchanges")
    }

    fn holds(outlook: &Outlook) -> [bool; 2] {
        [outlook.p50.holds, outlook.p99.holds]
    }

    #[test]
    fn the_run_after_the_fix_is_held_against_the_prediction() {
        let inside = compared(&[held("send_buffer")], 4 * MS).outlook().expect("one fault is gone");
        assert_eq!((inside.cause.as_str(), holds(&inside)), ("send_buffer", [true, true]));
        let outside = compared(&[held("send_buffer")], 5 * MS).outlook().expect("it is gone too");
        assert_eq!(holds(&outside), [false, false]);
    }

    #[test]
    fn several_faults_that_are_gone_have_no_common_prediction() {
        let both = [held("send_buffer"), held("nagle_delayed_ack")];
        assert_eq!(compared(&both, 4 * MS).outlook(), None);
    }

    #[test]
    fn a_stored_report_without_intervals_is_read() {
        let stored = fault("send_buffer", percentiles(3 * MS));
        assert_eq!(compared(&[stored], 4 * MS).outlook(), None);
    }
}
