//! Findings in JSON: their words, numbers and evidence, and the experiments.

use super::join::PlaceView;
use super::{EndpointView, FactsView, file, unit};
use crate::app::Protocol;
use crate::experiment;
use crate::model::experiment::{Experiment, ExperimentEvidence, Verdict};
use crate::model::{
    Affected, Cause, Class, Culprit, Finding, Judged, Language, Latency, Load, Owner, Prediction,
    Report, Role, StateEvidence,
};
use crate::report::commands;
use crate::report::phrases::{self, Fix, Phrases};
use crate::state::sentence;
use crate::wire::{Endpoint, Side};
use serde::Serialize;

/// A cause, with its cost and its evidence.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FindingView<'a> {
    cause: Cause,
    class: Class,
    /// One sentence without the full stop.
    headline: String,
    culprit: CulpritView,
    affected: Affected,
    /// The owners of the ledger in whose time lost_ns lies; none where the cause makes exchanges come
    /// to nothing, whoever owns their time.
    owners: &'static [Owner],
    /// Ledger time that would disappear without the cause.
    lost_ns: u64,
    /// lost_ns over the wall time of all exchanges.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    share: f64,
    /// Measured latency at the culprit's server endpoint.
    latency: Latency,
    counterfactual: Prediction,
    /// The probability that the finding is right, as far as judged findings and other evidence tell.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    confidence: f64,
    /// Findings of the same cause in captures whose cause is known, in one exchange or in several as
    /// this one: how many there were, and how many were right.
    judged: Judged,
    /// What happened.
    what: String,
    facts: FactsView<'a>,
    /// The connection of the evidence.
    connection: Option<EndsView>,
    /// One clear instance of the causal chain, then what the state of the system says.
    evidence: Vec<EvidenceView<'a>>,
    evidence_kinds: EvidenceKindsView,
    /// Look-alikes considered.
    ruled_out: Vec<RuledOutView>,
    /// The most fitting first.
    fixes: Vec<Fix>,
    /// The command that draws the evidence; null where it is on no connection.
    draw: Option<String>,
    /// The command that tries the fix on the running system, on the host at fault, and takes it back;
    /// null where the fix cannot be taken back.
    treat: Option<String>,
    /// Commands that measure again after the change, and compare.
    verify: String,
    /// What the software says it is.
    software: Option<&'a str>,
    /// What is spoken; turns where it was not recognised.
    protocol: Protocol,
    /// Only where the input shows the same traffic at two places, and both could see it: which of them
    /// do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(length(min = 1, max = 2)))]
    places: Vec<PlaceView>,
    /// Only where many requests at a time show it and a request alone does not: the finding counts
    /// exchanges and time of this load.
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<Load>,
}

/// The party that has to change something.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CulpritView {
    role: Role,
    endpoint: EndpointView,
}

impl CulpritView {
    fn of(culprit: &Culprit) -> Self {
        Self { role: culprit.role, endpoint: EndpointView::of(&culprit.endpoint) }
    }
}

/// The two ends of a connection.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EndsView {
    client: EndpointView,
    server: EndpointView,
}

impl EndsView {
    fn of((client, server): &(Endpoint, Endpoint)) -> Self {
        Self { client: EndpointView::of(client), server: EndpointView::of(server) }
    }
}

/// A look-alike that was considered.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RuledOutView {
    cause: Cause,
    /// Why it is not that.
    why: String,
}

/// Which kinds of evidence speak for the finding, and which against it; its confidence follows from
/// both.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EvidenceKindsView {
    agree: Vec<EvidenceKind>,
    disagree: Vec<EvidenceKind>,
}

/// The source of evidence.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum EvidenceKind {
    Packets,
    State,
    Experiment,
}

impl EvidenceKindsView {
    fn of(finding: &Finding) -> Self {
        let kinds = |packets: bool, agrees: bool| {
            let state = finding.state.iter().any(|it| it.agrees == agrees);
            let made = finding.experiments.iter().any(|it| it.agrees == agrees);
            let packets = packets.then_some(EvidenceKind::Packets).into_iter();
            let state = state.then_some(EvidenceKind::State);
            packets.chain(state).chain(made.then_some(EvidenceKind::Experiment)).collect()
        };
        Self {
            agree: kinds(!finding.evidence.is_empty(), true),
            disagree: kinds(finding.is_unseen, false),
        }
    }
}

/// One piece of evidence, by its source.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
enum EvidenceView<'a> {
    /// A frame of the chain.
    Packets {
        /// 1-based number in its file, as Wireshark counts.
        #[cfg_attr(test, schemars(range(min = 1)))]
        frame: u64,
        /// The input's path.
        file: &'a str,
        /// Its part in the chain, an id of the cause's manual.
        part: &'static str,
        /// The part in words.
        what: String,
        /// The side that sent it.
        from: Side,
        /// TCP or UDP payload of that frame; 0 for an ICMP error.
        payload_bytes: u32,
        /// Time since the previous frame of the chain.
        after_ns: u64,
        /// Display filter that shows the chain's frames of this file.
        wireshark_filter: String,
    },
    /// An experiment that speaks for the finding or against it: fresh connections with and without a
    /// change, in pairs in random order.
    Experiment {
        /// It speaks for the finding; else against it.
        agrees: bool,
        #[serde(flatten)]
        made: ExperimentFields,
    },
    /// A socket option, a queue or a counter of a kernel, from `--sockets` or the running system.
    State {
        /// It speaks for the finding; else against it.
        agrees: bool,
        /// What it says, in words.
        what: String,
        /// The option, queue or counter, by its name in the kernel's documentation.
        setting: &'static str,
        /// Its value, as the kernel states it.
        value: &'a str,
        /// The socket, destination or table that has it.
        place: &'a str,
        /// The process that holds the socket.
        process: Option<&'a str>,
        /// When it was read, nanoseconds since the Unix epoch.
        read_ns: Option<u64>,
    },
}

/// An experiment: the change and its effect.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ExperimentFields {
    /// Its name, as `--experiment` takes it.
    experiment: &'static str,
    /// What came of it, in words.
    what: String,
    /// What is so without the change.
    usual: &'static str,
    /// What is so with it.
    changed: &'static str,
    /// Median without the change.
    usual_ns: u64,
    /// Median with it.
    changed_ns: u64,
    /// Median of the pairs' differences; above 0 the change makes it faster.
    effect_ns: i64,
    /// Where that median lies. Each end is wrong with a probability of at most error_max, whenever the
    /// trials stopped; null where they are too few to bound it.
    interval_ns: (Option<i64>, Option<i64>),
    /// Probability with which an end of the interval, or a verdict, is wrong, at most.
    error_max: f64,
    /// The least effect that counts.
    floor_ns: u64,
    /// Pairs of trials.
    trials: u64,
    /// Requests sent for it.
    requests: u64,
}

impl ExperimentFields {
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

/// What a client changed and what that did, with the verdict: fresh connections with and without the
/// change, in pairs in random order.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ExperimentView {
    #[serde(flatten)]
    made: ExperimentFields,
    verdict: ExperimentVerdict,
    /// The cause that the verdict is about; null where it is undecided.
    cause: Option<Cause>,
}

/// What an experiment says of a cause.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum ExperimentVerdict {
    Supports,
    Refutes,
    Undecided,
}

impl ExperimentView {
    pub(super) fn of(it: &Experiment) -> Self {
        let (verdict, cause) = match it.verdict {
            Verdict::Supports(suspect) => (ExperimentVerdict::Supports, Some(suspect.cause)),
            Verdict::Refutes(suspect) => (ExperimentVerdict::Refutes, Some(suspect.cause)),
            Verdict::Undecided => (ExperimentVerdict::Undecided, None),
        };
        Self { made: ExperimentFields::of(it), verdict, cause }
    }
}

impl<'a> EvidenceView<'a> {
    fn of_experiment(evidence: &ExperimentEvidence) -> Self {
        let made = ExperimentFields::of(&evidence.experiment);
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

impl<'a> FindingView<'a> {
    pub(super) fn of(finding: &'a Finding, report: &'a Report) -> Self {
        let phrases = Phrases::of(finding, Language::English);
        let evidence = finding.evidence.iter().zip(phrases.evidence);
        let ruled_out = phrases.ruled_out.into_iter();
        Self {
            cause: finding.cause,
            class: finding.cause.class(),
            headline: phrases.headline,
            culprit: CulpritView::of(&finding.culprit),
            affected: finding.affected,
            owners: finding.cause.owners(),
            lost_ns: finding.lost_ns,
            share: unit(finding.share),
            latency: finding.latency,
            counterfactual: finding.counterfactual,
            confidence: unit(finding.confidence),
            judged: phrases::judged(finding),
            what: phrases.what,
            facts: FactsView::of(&finding.facts),
            connection: finding.evidence_flow.as_ref().map(EndsView::of),
            evidence: evidence
                .map(|(link, what)| EvidenceView::Packets {
                    frame: link.frame.number(),
                    file: file(link.frame, report),
                    part: link.part,
                    what,
                    from: link.from,
                    payload_bytes: link.payload_bytes,
                    after_ns: link.after_ns,
                    wireshark_filter: phrases::wireshark_filter(finding, link.frame.file()),
                })
                .chain(finding.state.iter().map(EvidenceView::of_state))
                .chain(finding.experiments.iter().map(EvidenceView::of_experiment))
                .collect(),
            evidence_kinds: EvidenceKindsView::of(finding),
            ruled_out: ruled_out.map(|(cause, why)| RuledOutView { cause, why }).collect(),
            fixes: phrases.fixes,
            draw: commands::draw(report, finding),
            treat: commands::treat(finding),
            verify: commands::verify(report, finding),
            software: finding.software.as_deref(),
            protocol: finding.protocol,
            places: finding.sights.iter().map(|it| PlaceView::of(it, report)).collect(),
            load: finding.load,
        }
    }
}
