//! Expectations: the lines of a trace that state its diagnosis.
//!
//! ```text
//! expect [at client|server|middle] WHAT
//! WHAT: CAUSE [by ROLE] [lost MS..MS]    the first finding
//!       also CAUSE [by ROLE] [lost …]    one of the findings
//!       no CAUSE                         not among the findings
//!       no fault                         no finding is a fault
//!       owner OWNER MS..MS               the ledger
//!       wall MS..MS                      the ledger's sum
//!       exchanges N · [no] observation ID
//!       [no] words TEXT                  what the report says
//! ```

use crate::diagnosis::ms;
use crate::language::{MS, Place};
use tcpwhy_core::model::{Cause, Class, Finding, Owner, Report, Role};
use tcpwhy_core::report::{Look, text};

/// One expectation, at one place or all.
#[derive(Clone, Debug)]
pub struct Expectation {
    text: String,
    place: Option<Place>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Finding { first: bool, cause: Cause, role: Option<Role>, lost: Option<Range> },
    NoCause(Cause),
    NoFault,
    Owner(Owner, Range),
    Wall(Range),
    Exchanges(u64),
    Observation(String),
    NoObservation(String),
    Words(String),
    NoWords(String),
}

/// From … to, ns.
type Range = (u64, u64);

impl Expectation {
    /// Reads what follows `expect`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().peekable();
        let mut place = None;
        if words.next_if_eq(&"at").is_some() {
            place = Some(Place::from_word(words.next()?)?);
        }
        let what = match words.next()? {
            "no" => match words.next()? {
                "fault" => What::NoFault,
                "observation" => What::NoObservation(words.next()?.to_owned()),
                "words" => What::NoWords(rest(&mut words)),
                cause => What::NoCause(Cause::from_id(cause)?),
            },
            "owner" => What::Owner(Owner::from_id(words.next()?)?, range(words.next()?)?),
            "wall" => What::Wall(range(words.next()?)?),
            "exchanges" => What::Exchanges(words.next()?.parse().ok()?),
            "observation" => What::Observation(words.next()?.to_owned()),
            "words" => What::Words(rest(&mut words)),
            "also" => finding(false, words.next()?, &mut words)?,
            cause => finding(true, cause, &mut words)?,
        };
        words.next().is_none().then_some(Self { text: text.to_owned(), place, what })
    }

    /// Returns the difference between this expectation and `report`, taken at `place`; `None` if it
    /// is met.
    pub fn unmet(&self, place: Place, report: &Report) -> Option<String> {
        if self.place.is_some_and(|mine| mine != place) {
            return None;
        }
        let met = match &self.what {
            What::Finding { first, cause, role, lost } => {
                let fits = |finding: &Finding| {
                    finding.cause == *cause
                        && role.is_none_or(|role| finding.culprit.role == role)
                        && lost.is_none_or(|lost| within(lost, finding.lost_ns))
                };
                let looked_at = if *first { 1 } else { report.findings.len() };
                report.findings.iter().take(looked_at).any(fits)
            }
            What::NoCause(cause) => report.findings.iter().all(|finding| finding.cause != *cause),
            What::NoFault => {
                report.findings.iter().all(|finding| finding.cause.class() != Class::Fault)
            }
            What::Owner(owner, range) => within(*range, report.ledger.of(*owner)),
            What::Wall(range) => within(*range, report.totals.wall_ns),
            What::Exchanges(count) => report.totals.exchanges == *count,
            What::Observation(id) => report.observations.iter().any(|one| one.id == id),
            What::NoObservation(id) => report.observations.iter().all(|one| one.id != id),
            What::Words(words) => said(report).contains(words),
            What::NoWords(words) => !said(report).contains(words),
        };
        (!met).then(|| format!("at {}: not `{}`; {}", place.word(), self.text, summary(report)))
    }
}

/// The causes whose presence or absence is expected.
pub fn named(expectations: &[Expectation]) -> Vec<Cause> {
    let named = expectations.iter().filter_map(|one| match one.what {
        What::Finding { cause, .. } | What::NoCause(cause) => Some(cause),
        _ => None,
    });
    named.collect()
}

fn finding<'a>(
    first: bool,
    cause: &str,
    words: &mut impl Iterator<Item = &'a str>,
) -> Option<What> {
    let (cause, mut role, mut lost) = (Cause::from_id(cause)?, None, None);
    while let Some(word) = words.next() {
        match word {
            "by" => role = Some(Role::from_id(words.next()?)?),
            "lost" => lost = Some(range(words.next()?)?),
            _ => return None,
        }
    }
    Some(What::Finding { first, cause, role, lost })
}

/// Returns the rest of a line.
fn rest<'a>(words: &mut impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

/// The report for a terminal without the ends of its lines.
fn said(report: &Report) -> String {
    rest(&mut text::render(report, &Look::default()).split_whitespace())
}

fn range(text: &str) -> Option<Range> {
    let (from, to) = text.split_once("..")?;
    let ns = |ms: &str| Some((ms.parse::<f64>().ok()? * MS) as u64);
    Some((ns(from)?, ns(to)?))
}

fn within((from, to): Range, ns: u64) -> bool {
    (from..=to).contains(&ns)
}

/// Lists the findings in one line.
fn summary(report: &Report) -> String {
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(|finding| {
            let (cause, role) = (finding.cause.id(), finding.culprit.role.id());
            format!("{cause} by {role} lost {}", ms(finding.lost_ns))
        })
        .collect();
    let owners: Vec<_> =
        report.ledger.iter().map(|(owner, ns)| format!("{} {}", owner.id(), ms(ns))).collect();
    format!(
        "found [{}], {} exchanges, wall {}, ledger {}",
        findings.join("; "),
        report.totals.exchanges,
        ms(report.totals.wall_ns),
        owners.join(", ")
    )
}
