//! What a piece of state says, in words: `state.md` has the sentences.

use crate::model::StateEvidence;
use crate::model::template::fill;

const SENTENCES: &str = include_str!("state.md");

/// What `evidence` says, in one sentence; its id where there are no words for it.
pub fn sentence(evidence: &StateEvidence) -> String {
    let facts = &evidence.facts;
    let fact = |name: &str| facts.iter().find(|(of, _)| *of == name).map(|(_, fact)| fact);
    let template = crate::findings::table(SENTENCES).find(|[id, _]| *id == evidence.id);
    template
        .and_then(|[_, text]| fill(text, &fact))
        .unwrap_or_else(|| evidence.id.replace('_', " "))
}
