//! Findings in JSON: their words, numbers and evidence, and the experiments.

use super::{facts, file, join, side, unit};
use crate::experiment;
use crate::model::experiment::{Experiment, ExperimentEvidence};
use crate::model::units::endpoint;
use crate::model::{
    Affected, Finding, Judged, Language, Latency, Load, Prediction, Report, StateEvidence,
};
use crate::report::commands;
use crate::report::phrases::{self, Fix, Phrases};
use crate::state::sentence;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(serde::Serialize)]
pub(super) struct FindingView<'a> {
    cause: &'static str,
    class: &'static str,
    headline: String,
    culprit: Value,
    affected: Affected,
    owners: Vec<&'static str>,
    lost_ns: u64,
    share: f64,
    latency: Latency,
    counterfactual: Prediction,
    confidence: f64,
    judged: Judged,
    what: String,
    facts: BTreeMap<&'static str, Value>,
    connection: Option<Value>,
    evidence: Vec<EvidenceView<'a>>,
    evidence_kinds: Value,
    ruled_out: Vec<Value>,
    fixes: Vec<Fix>,
    draw: Option<String>,
    treat: Option<String>,
    verify: String,
    software: Option<&'a str>,
    protocol: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<Load>,
}

/// One piece of evidence, by its source.
#[derive(serde::Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum EvidenceView<'a> {
    /// A frame of the chain.
    Packets {
        frame: u64,
        file: &'a str,
        part: &'static str,
        what: String,
        from: &'static str,
        payload_bytes: u32,
        after_ns: u64,
        wireshark_filter: String,
    },
    /// A change made by a client, and its effect.
    Experiment {
        agrees: bool,
        #[serde(flatten)]
        made: ExperimentView,
    },
    /// A socket option, a queue or a counter.
    State {
        agrees: bool,
        what: String,
        setting: &'static str,
        value: &'a str,
        place: &'a str,
        process: Option<&'a str>,
        read_ns: Option<u64>,
    },
}

/// An experiment: the change and its effect.
#[derive(serde::Serialize)]
struct ExperimentView {
    experiment: &'static str,
    what: String,
    usual: &'static str,
    changed: &'static str,
    usual_ns: u64,
    changed_ns: u64,
    effect_ns: i64,
    interval_ns: (Option<i64>, Option<i64>),
    error_max: f64,
    floor_ns: u64,
    trials: u64,
    requests: u64,
}

impl ExperimentView {
    fn of(it: &Experiment) -> Self {
        let [usual, changed] =
            experiment::conditions(it.name, Language::English).unwrap_or_default();
        Self {
            experiment: it.name,
            what: experiment::sentence(it, Language::English),
            usual,
            changed,
            usual_ns: it.usual_ns,
            changed_ns: it.changed_ns,
            effect_ns: it.effect_ns,
            interval_ns: it.interval_ns,
            error_max: crate::model::experiment::ERROR_MAX,
            floor_ns: it.floor_ns,
            trials: it.trials,
            requests: it.requests,
        }
    }
}

/// An experiment with its conclusion.
#[derive(serde::Serialize)]
pub(super) struct MadeView {
    #[serde(flatten)]
    made: ExperimentView,
    verdict: &'static str,
    cause: Option<&'static str>,
}

impl MadeView {
    pub(super) fn of(it: &Experiment) -> Self {
        let cause = it.verdict.suspect().map(|(suspect, _)| suspect.cause.id());
        Self { made: ExperimentView::of(it), verdict: it.verdict.id(), cause }
    }
}

impl<'a> EvidenceView<'a> {
    fn of_experiment(evidence: &ExperimentEvidence) -> Self {
        let made = ExperimentView::of(&evidence.experiment);
        Self::Experiment { agrees: evidence.agrees, made }
    }

    fn of_state(evidence: &'a StateEvidence) -> Self {
        Self::State {
            agrees: evidence.agrees,
            what: sentence(evidence, Language::English),
            setting: evidence.setting,
            value: &evidence.value,
            place: &evidence.place,
            process: evidence.process.as_deref(),
            read_ns: evidence.read_ns,
        }
    }
}

/// Returns the kinds of evidence that support a finding, and those that contradict it.
fn evidence_kinds(finding: &Finding) -> Value {
    let packets = (!finding.evidence.is_empty()).then_some("packets");
    let unseen = finding.is_unseen.then_some("packets");
    let state = |agrees| finding.state.iter().any(|it| it.agrees == agrees).then_some("state");
    let made = |agrees| {
        let made = finding.experiments.iter().any(|it| it.agrees == agrees);
        made.then_some("experiment")
    };
    let agree: Vec<_> = packets.into_iter().chain(state(true)).chain(made(true)).collect();
    let disagree: Vec<_> = unseen.into_iter().chain(state(false)).chain(made(false)).collect();
    json!({ "agree": agree, "disagree": disagree })
}

impl<'a> FindingView<'a> {
    pub(super) fn of(finding: &'a Finding, report: &'a Report) -> Self {
        let phrases = Phrases::of(finding, Language::English);
        let evidence = finding.evidence.iter().zip(phrases.evidence);
        let connection = |(client, server): &(_, _)| json!({ "client": endpoint(client), "server": endpoint(server) });
        let culprit = &finding.culprit;
        let ruled_out = phrases.ruled_out.into_iter();
        Self {
            cause: finding.cause.id(),
            class: finding.cause.class().id(),
            headline: phrases.headline,
            culprit: json!({ "role": culprit.role.id(), "endpoint": endpoint(&culprit.endpoint) }),
            affected: finding.affected,
            owners: finding.cause.owners().iter().map(|owner| owner.id()).collect(),
            lost_ns: finding.lost_ns,
            share: unit(finding.share),
            latency: finding.latency,
            counterfactual: finding.counterfactual,
            confidence: unit(finding.confidence),
            judged: phrases::judged(finding),
            what: phrases.what,
            facts: facts(&finding.facts),
            connection: finding.evidence_flow.as_ref().map(connection),
            evidence: evidence
                .map(|(link, what)| EvidenceView::Packets {
                    frame: link.frame.number(),
                    file: file(link.frame, report),
                    part: link.part,
                    what,
                    from: side(link.from),
                    payload_bytes: link.payload_bytes,
                    after_ns: link.after_ns,
                    wireshark_filter: phrases::wireshark_filter(finding, link.frame.file()),
                })
                .chain(finding.state.iter().map(EvidenceView::of_state))
                .chain(finding.experiments.iter().map(EvidenceView::of_experiment))
                .collect(),
            evidence_kinds: evidence_kinds(finding),
            ruled_out: ruled_out.map(|(of, why)| json!({ "cause": of.id(), "why": why })).collect(),
            fixes: phrases.fixes,
            draw: commands::draw(report, finding),
            treat: commands::treat(finding),
            verify: commands::verify(report, finding),
            software: finding.software.as_deref(),
            protocol: finding.protocol.id(),
            places: join::places(&finding.sights, report),
            load: finding.load,
        }
    }
}
