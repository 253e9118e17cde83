//! The sentences for evidence of the state; `state.md` has the templates.

use crate::model::StateEvidence;
use crate::model::template::fill;

const SENTENCES: &str = include_str!("state.md");

/// Returns the sentence for `evidence`; its id if there is none.
pub fn sentence(evidence: &StateEvidence) -> String {
    let facts = &evidence.facts;
    let fact = |name: &str| facts.iter().find(|(of, _)| *of == name).map(|(_, fact)| fact);
    let template = crate::findings::table(SENTENCES).find(|[id, _]| *id == evidence.id);
    template
        .and_then(|[_, text]| fill(text, &fact))
        .unwrap_or_else(|| evidence.id.replace('_', " "))
}
