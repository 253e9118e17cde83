//! Assigns an answer to one of several identical attempts: a resolver library that repeats a query
//! sends the same message from the same socket.

use crate::dns::lookup::{Query, QueryFlags};
use crate::dns::thresholds::{QUERY_RETRY_MIN_NS, SLOW_FACTOR, SLOW_MIN_NS, UNCACHED_NS};

/// Returns the attempt of `alike`, which are in the order sent, to which an answer at `time_ns`
/// belongs; `None` if the answer was captured before.
///
/// It is the last attempt, if the time since then is plausible for a resolver and that since the
/// first is not, or if the server is known to answer as soon: `fastest_ns` is its fastest answer so
/// far. Otherwise it is the first: nothing shows that a packet was lost. A second answer shows that
/// both attempts had arrived: answers come in the order of the queries.
pub(super) fn answered(
    mut alike: Vec<&mut Query>,
    time_ns: u64,
    fastest_ns: Option<u64>,
) -> Option<&mut Query> {
    let last_answer_ns = alike.iter().filter_map(|query| query.answered_ns).max();
    let is_open: Vec<bool> = alike.iter().map(|query| query.answered_ns.is_none()).collect();
    let is_fresh = |at: &usize| {
        is_open[*at] && last_answer_ns.is_none_or(|answer_ns| alike[*at].sent_ns > answer_ns)
    };
    let mut fresh = (0..alike.len()).filter(is_fresh);
    if let Some(first) = fresh.next() {
        let last = fresh.next_back().unwrap_or(first);
        let [since_first_ns, since_last_ns] =
            [first, last].map(|at| time_ns.saturating_sub(alike[at].sent_ns));
        let is_usual =
            fastest_ns.is_some_and(|ns| since_last_ns < SLOW_MIN_NS.max(SLOW_FACTOR * ns));
        let is_of_last = since_last_ns <= UNCACHED_NS && (since_first_ns > UNCACHED_NS || is_usual);
        return Some(alike.swap_remove(if is_of_last { last } else { first }));
    }
    let again =
        last_answer_ns.is_some_and(|at_ns| time_ns < at_ns.saturating_add(QUERY_RETRY_MIN_NS));
    if again || !is_open.contains(&true) {
        return None;
    }
    let answered = (0..alike.len()).filter(|&at| !is_open[at]);
    let mut next = 0;
    for (to, from) in answered.enumerate() {
        if from > to {
            let answer = Answer::take(alike[from]);
            answer.give(alike[to]);
        }
        next = to + 1;
    }
    Some(alike.swap_remove(next))
}

/// The fields of a query that its answer has set.
#[derive(Clone)]
struct Answer {
    answered_ns: Option<u64>,
    answer_frame: Option<crate::capture::FrameId>,
    rcode: Option<u8>,
    baseline_ns: Option<u64>,
    flags: QueryFlags,
}

impl Answer {
    fn take(query: &mut Query) -> Self {
        Self {
            answered_ns: query.answered_ns.take(),
            answer_frame: query.answer_frame.take(),
            rcode: query.rcode.take(),
            baseline_ns: query.baseline_ns,
            flags: query.flags,
        }
    }

    fn give(self, query: &mut Query) {
        query.answered_ns = self.answered_ns;
        query.answer_frame = self.answer_frame;
        query.rcode = self.rcode;
        query.baseline_ns = self.baseline_ns;
        query.flags = self.flags;
    }
}
