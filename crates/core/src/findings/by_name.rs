//! Names that a server leaves without an answer, however often they are asked, while it answers others: the
//! name decides, and not the moment. No path loses packets by the name in them.

use crate::dns::{Lookup, Query};
use crate::findings::thresholds::CHANCE_MAX;
use crate::wire::Endpoint;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A server that answers each query for some names and none for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByName {
    /// Number of names that had no answer, and of those that had one each time.
    pub silent: u64,
    pub others: u64,
    /// Number of queries from which chance would have to choose.
    pub queries: u64,
}

/// The name, as its hash and its place in a search series, and the type.
type Question = (u64, u16, u16);

/// When a question was asked, ns, and whether it was answered.
type Asked = Vec<(u64, bool)>;

/// Returns the servers whose answers the names decide.
pub(super) fn of(lookups: &[Lookup]) -> HashMap<Endpoint, ByName> {
    let mut servers: HashMap<Endpoint, BTreeMap<Question, Asked>> = HashMap::new();
    for lookup in lookups {
        let last = lookup.queries.last().map_or(0, |query| query.step);
        for query in lookup.queries.iter().filter(|it| !it.flags.over_tcp) {
            let Some(answered) = outcome(query) else { continue };
            let question = (lookup.digest, last.saturating_sub(query.step), query.qtype);
            let asked = servers.entry(query.server).or_default().entry(question).or_default();
            asked.push((query.sent_ns, answered));
        }
    }
    let decided = servers.into_iter().filter_map(|(server, asked)| Some((server, judge(asked)?)));
    decided.collect()
}

/// Returns whether a query was answered; `None` if a part of the answer came, or one that was refused.
fn outcome(query: &Query) -> Option<bool> {
    match query.is_answered() {
        true => Some(true),
        false => query.is_silent().then_some(false),
    }
}

fn judge(mut asked: BTreeMap<Question, Asked>) -> Option<ByName> {
    let answered_types: HashSet<u16> =
        asked.iter().filter(|(_, it)| it.iter().any(|it| it.1)).map(|((.., it), _)| *it).collect();
    // A server that drops a type drops it whatever the name is.
    asked.retain(|(.., qtype), _| answered_types.contains(qtype));
    asked.values_mut().for_each(|it| it.sort_unstable());
    let (answered, silent): (Vec<_>, Vec<_>) =
        asked.iter().partition(|(_, it)| it.iter().any(|it| it.1));
    let is_whole = |(_, it): &(&Question, &Asked)| it.iter().all(|it| it.1);
    if !answered.iter().all(is_whole) {
        return None;
    }
    // While a name was asked again and again, the server was there.
    let spans = silent.iter().filter_map(|(_, it)| Some((it.first()?.0, it.last()?.0)));
    let spans: Vec<_> = spans.filter(|(from_ns, to_ns)| from_ns < to_ns).collect();
    let is_between = |&&(at_ns, _): &&(u64, bool)| {
        spans.iter().any(|(from_ns, to_ns)| (from_ns..to_ns).contains(&&at_ns))
    };
    let between = answered.iter().flat_map(|(_, it)| it.iter()).filter(is_between).count();
    let unanswered: usize = silent.iter().map(|(_, it)| it.len()).sum();
    let repeats = unanswered - silent.len();
    let is_shown = between > 0 && repeats > 0;
    let excluded = chance(between, unanswered + between, repeats) <= CHANCE_MAX;
    let names = |of: &[(&Question, &Asked)]| {
        of.iter().map(|((name, step, _), _)| (*name, *step)).collect::<HashSet<_>>().len() as u64
    };
    (is_shown && excluded).then(|| ByName {
        silent: names(&silent),
        others: names(&answered),
        queries: (unanswered + between) as u64,
    })
}

/// Returns the chance that `answers` which fall on any of `queries` fall on none of those that repeat an
/// unanswered one (the hypergeometric distribution; R. A. Fisher's exact test).
fn chance(answers: usize, queries: usize, repeats: usize) -> f64 {
    let falls = |at: usize| (queries - repeats).saturating_sub(at) as f64 / (queries - at) as f64;
    (0..answers).map(falls).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Asks each of `silent` names `times` times, a second apart, and others in between.
    fn asked(silent: u64, times: u64, others: u64, qtype: u16) -> BTreeMap<Question, Asked> {
        let unanswered =
            (0..silent).map(|name| ((name, 0, 1), (0..times).map(|at| (at * SECOND, false))));
        let answered = (0..others).map(|name| ((99 + name, 0, qtype), [(SECOND / 2, true)]));
        let unanswered = unanswered.map(|(name, asked)| (name, asked.collect()));
        unanswered.chain(answered.map(|(name, asked)| (name, asked.to_vec()))).collect()
    }

    #[test]
    fn names_that_never_have_an_answer_are_no_chance() {
        let judged = judge(asked(10, 7, 3, 1));
        assert_eq!(judged, Some(ByName { silent: 10, others: 3, queries: 73 }));
        assert_eq!(judge(asked(2, 2, 2, 1)), None, "four queries may be lost");
        assert_eq!(judge(asked(10, 1, 3, 1)), None, "nothing was asked again");
        assert_eq!(judge(asked(10, 7, 3, 28)), None, "another type");
        assert_eq!(judge(asked(10, 7, 0, 1)), None, "no other name");
    }

    #[test]
    fn one_name_with_both_outcomes_shows_losses() {
        let mut asked = asked(10, 7, 3, 1);
        asked.entry((0, 0, 1)).or_default().push((9 * SECOND, true));
        assert_eq!(judge(asked), None);
    }

    #[test]
    fn answers_behind_an_outage_show_none_either() {
        let mut asked = asked(10, 7, 3, 1);
        for (_, asked) in asked.iter_mut().filter(|((name, ..), _)| *name >= 99) {
            asked[0].0 = 60 * SECOND;
        }
        assert_eq!(judge(asked), None);
    }

    #[test]
    fn the_chance_is_that_of_drawing_without_return() {
        assert!((chance(3, 73, 60) - 13.0 * 12.0 * 11.0 / (73.0 * 72.0 * 71.0)).abs() < 1e-12);
        assert_eq!(chance(3, 8, 6), 0.0);
    }
}
