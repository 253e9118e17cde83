//! The sentences for experiments; `experiment.md` has the templates.

use crate::findings::{Table, template};
use crate::model::experiment::Experiment;
use crate::model::template::fill;
use crate::model::{Fact, Language};

/// Returns the usual and the changed condition of the experiment `name`; `None` if it does not
/// exist.
pub fn conditions(name: &str, language: Language) -> Option<[&'static str; 2]> {
    let (usual, changed) = template(language, Table::Experiment, name)?.split_once(" | ")?;
    Some([usual, changed])
}

/// Returns the result in one sentence.
pub fn sentence(of: &Experiment, language: Language) -> String {
    let [usual, changed] = conditions(of.name, language).unwrap_or([of.name; 2]);
    let mut facts = vec![
        ("usual", Fact::Text(usual.into())),
        ("changed", Fact::Text(changed.into())),
        ("usual_ns", Fact::Ns(of.usual_ns)),
        ("changed_ns", Fact::Ns(of.changed_ns)),
        ("effect_ns", Fact::Ns(of.effect_ns.unsigned_abs())),
        ("floor_ns", Fact::Ns(of.floor_ns)),
        ("trials", Fact::Count(of.trials)),
    ];
    if let Some(Ok(least_ns @ 1..)) = of.interval_ns.0.map(u64::try_from) {
        facts.push(("least_ns", Fact::Ns(least_ns)));
    }
    let fact = |name: &str| facts.iter().find(|(of, _)| *of == name).map(|(_, fact)| fact);
    template(language, Table::Experiment, kind(of))
        .and_then(|text| fill(text, &fact))
        .unwrap_or_else(|| of.name.to_owned())
}

fn kind(of: &Experiment) -> &'static str {
    let floor_ns = i64::try_from(of.floor_ns).unwrap_or(i64::MAX);
    match of.interval_ns {
        (Some(least_ns), _) if least_ns >= floor_ns => "less",
        (_, Some(most_ns)) if most_ns <= -floor_ns => "more",
        (_, Some(most_ns)) if most_ns < floor_ns => "same",
        _ => "undecided",
    }
}
