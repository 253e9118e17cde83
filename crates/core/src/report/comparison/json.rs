//! A comparison as JSON (`docs/comparison.schema.json`, which is made of these types).

use super::sentence;
use crate::compare::thresholds::CONFIDENCE;
use crate::compare::{Comparison, Found, Look, Measured, OnlyIn, Outlook, Ranks, Tail, Verdict};
use crate::model::{Language, Latency};
use serde::Serialize;
use serde_json::{Value, json};

/// Returns the verdict in each language but English, which the JSON has: for a page's switch.
pub fn sentences(comparison: &Comparison) -> Value {
    let others = Language::ALL.into_iter().filter(|language| *language != Language::English);
    let said = others.map(|it| (it.id().to_owned(), json!(sentence(comparison, it))));
    said.collect::<serde_json::Map<_, _>>().into()
}

/// Version of the schema.
const SCHEMA_VERSION: u32 = 1;

/// Returns the whole comparison in the form that is serialised.
pub fn to_json<'a>(comparison: &'a Comparison, tool_version: &'a str) -> impl Serialize + use<'a> {
    View::of(comparison, tool_version)
}

/// The whole comparison.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct View<'a> {
    /// Version of this contract.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA_VERSION)))]
    schema_version: u32,
    /// Version of tcpwhy.
    tool_version: &'a str,
    /// What became of the latency. mixed: one end of the distribution faster, the other slower. equal:
    /// a change of min_change is excluded. no_difference_shown: so many exchanges cannot tell.
    /// other_load: one run has requests that the other has not, see only_in.
    verdict: Verdict,
    /// slower or mixed, or a new fault: exit status 1.
    worse: bool,
    /// 0 shown to be faster or equal, and no new fault; 1 slower, or a new fault; 2 not comparable; 3
    /// not shown: so many exchanges cannot tell, or a slow end looks slower, or there are only
    /// percentiles, which nothing tests.
    #[cfg_attr(test, schemars(range(max = 3)))]
    exit_status: u8,
    /// The verdict for people.
    sentence: String,
    /// Changes below this share of the latency before do not matter.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    min_change: f64,
    /// Probability with which intervals hold, and with which no change is claimed where there is none.
    confidence: f64,
    before: RunView<'a>,
    after: RunView<'a>,
    /// The test of ranks; null where a report has percentiles only, which are then compared without a
    /// test.
    ranks: Option<Ranks>,
    /// The slow end, at 90 and 99 %.
    tails: &'a [Tail],
    /// Percentiles that look different though it is not shown, the most different first.
    looks: &'a [Look],
    /// Exchanges in each run that would settle what is not shown, if the figures stay as they are.
    #[cfg_attr(test, schemars(range(min = 1)))]
    exchanges_needed: Option<u64>,
    /// Requests that only one of the runs has; from 1 % of its exchanges on the runs are not
    /// comparable.
    only_in: &'a [OnlyIn],
    /// Findings of either run, by cause and role.
    causes: Vec<CauseView<'a>>,
    /// A mean exchange by owner; the sum is its mean_ns, but for rounding.
    owners: Vec<OwnerView<'a>>,
    /// Faults found only in the run after.
    new_faults: Vec<FaultView<'a>>,
    /// Faults found only in the run before.
    gone_faults: Vec<FaultView<'a>>,
    /// What the run before predicted without the only fault that is gone, and what the run after
    /// measures; null where several faults or none are gone, one is new, or the requests differ.
    prediction: Option<Outlook>,
}

/// One of the runs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RunView<'a> {
    /// The path that was given.
    name: &'a str,
    /// Where it was captured, as in the report.
    vantage: &'a str,
    /// Number of exchanges.
    #[cfg_attr(test, schemars(range(min = 1)))]
    exchanges: u64,
    /// Sum of the exchanges' wall times.
    wall_ns: u64,
    /// Mean latency.
    mean_ns: u64,
    latency: Latency,
}

/// A finding of either run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CauseView<'a> {
    /// Id of the cause.
    cause: &'a str,
    #[cfg_attr(test, schemars(with = "crate::model::Class"))]
    class: &'a str,
    /// The role that has to change something.
    role: &'a str,
    /// Its cost before; null where it is no finding.
    before: Option<LostView>,
    /// Its cost after; null where it is no finding.
    after: Option<LostView>,
}

/// The cost of a cause in a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LostView {
    /// Time lost in all exchanges.
    lost_ns: u64,
    /// Time lost in a mean exchange.
    lost_per_exchange_ns: u64,
}

/// A fault that only one of the runs has.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FaultView<'a> {
    /// Id of the cause.
    cause: &'a str,
    #[cfg_attr(test, schemars(extend("const" = "fault")))]
    class: &'a str,
    /// The role that has to change something.
    role: &'a str,
    /// Time lost in all exchanges.
    lost_ns: u64,
}

impl<'a> FaultView<'a> {
    fn of(found: &'a Found) -> Self {
        let Found { cause, class, role, lost_ns, .. } = found;
        Self { cause, class, role, lost_ns: *lost_ns }
    }
}

/// An owner's part of a mean exchange.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OwnerView<'a> {
    /// Id of the owner.
    owner: &'a str,
    /// Its time in a mean exchange before.
    before_per_exchange_ns: u64,
    /// Its time in a mean exchange after.
    after_per_exchange_ns: u64,
}

impl<'a> View<'a> {
    fn of(comparison: &'a Comparison, tool_version: &'a str) -> Self {
        let (before, after) = (&comparison.before, &comparison.after);
        let new = after.findings.iter().filter(|found| before.found(found).is_none());
        let owner = |id| OwnerView {
            owner: id,
            before_per_exchange_ns: before.ledger_per_exchange_ns(id),
            after_per_exchange_ns: after.ledger_per_exchange_ns(id),
        };
        Self {
            schema_version: SCHEMA_VERSION,
            tool_version,
            verdict: comparison.verdict,
            worse: comparison.is_worse(),
            exit_status: comparison.outcome() as u8,
            sentence: sentence(comparison, Language::English),
            min_change: comparison.options.min_change,
            confidence: CONFIDENCE,
            before: RunView::of(before),
            after: RunView::of(after),
            ranks: comparison.ranks,
            tails: &comparison.tails,
            looks: &comparison.looks,
            exchanges_needed: comparison.exchanges_needed,
            only_in: &comparison.only_in,
            causes: (before.findings.iter().chain(new))
                .map(|found| CauseView::of(comparison, found))
                .collect(),
            owners: comparison.owners().into_iter().map(owner).collect(),
            new_faults: comparison.new_faults.iter().map(FaultView::of).collect(),
            gone_faults: comparison.gone_faults.iter().map(FaultView::of).collect(),
            prediction: comparison.outlook(),
        }
    }
}

impl<'a> RunView<'a> {
    fn of(run: &'a Measured) -> Self {
        Self {
            name: &run.name,
            vantage: &run.vantage,
            exchanges: run.exchanges,
            wall_ns: run.wall_ns,
            mean_ns: run.mean_ns(),
            latency: run.latency,
        }
    }
}

impl<'a> CauseView<'a> {
    fn of(comparison: &Comparison, found: &'a Found) -> Self {
        let side = |run: &Measured| {
            let lost_ns = run.found(found).map(|found| found.lost_ns);
            lost_ns.map(|lost_ns| LostView {
                lost_ns,
                lost_per_exchange_ns: lost_ns / run.exchanges.max(1),
            })
        };
        Self {
            cause: &found.cause,
            class: &found.class,
            role: &found.role,
            before: side(&comparison.before),
            after: side(&comparison.after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::View;
    use tcpwhy_testing::schema::Document;

    #[test]
    fn the_schema_of_comparisons_is_that_of_the_types() {
        let document = Document {
            name: "comparison",
            id: "urn:tcpwhy:comparison:1",
            title: "tcpwhy comparison",
            description: "What tcpwhy compare --json prints, schema version 1. Times are integers of \
                nanoseconds; latencies are kept to within 0.8 %, and what is computed from them is no \
                more exact.",
            members_of_others: &[],
        };
        document.publish::<View<'static>>();
    }
}
