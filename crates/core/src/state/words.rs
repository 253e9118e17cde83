//! The sentences for evidence of the state; `state.md` has the templates.

use crate::findings::{Table, template};
use crate::model::template::fill;
use crate::model::{Language, StateEvidence};

/// Returns the sentence for `evidence`; its id if there is none.
pub fn sentence(evidence: &StateEvidence, language: Language) -> String {
    let facts = &evidence.facts;
    let fact = |name: &str| facts.iter().find(|(of, _)| *of == name).map(|(_, fact)| fact);
    template(language, Table::State, evidence.id)
        .and_then(|text| fill(text, &fact))
        .unwrap_or_else(|| evidence.id.replace('_', " "))
}
