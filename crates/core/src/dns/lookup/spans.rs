//! Division of the time of attempts into spans, each lost to a cause or to none.

use super::Query;
use crate::dns::at_once::{self, Attempt};
use crate::dns::thresholds::{QUERY_RETRY_MIN_NS, RESOLVER_TIMEOUT_MIN_NS};
use crate::model::Cause;

/// Start and end of a time span, and the cause to which it was lost.
pub(super) type Span = (u64, u64, Option<Cause>);

/// Returns start and end of those of `chains`, attempts with the end of each, that lost no time.
pub(super) fn healthy_times(
    chains: &[(u64, Vec<&Query>)],
    timeout: Cause,
    fair_ns: u64,
) -> Vec<(u64, u64)> {
    let is_healthy = |(end_ns, attempts): &&(u64, Vec<&Query>)| {
        let mut spans = chain_spans(attempts, *end_ns, timeout, fair_ns).into_iter();
        chain_end_ns(attempts).is_some() && spans.all(|(.., cause)| cause.is_none())
    };
    let healthy = chains.iter().filter(is_healthy);
    healthy.filter_map(|(end_ns, attempts)| Some((attempts.first()?.sent_ns, *end_ns))).collect()
}

/// Returns the time until which the client waited anyway for the other query of a pair, one of
/// `healthy`, beside the attempts that took `own`. What these needed themselves counts once.
pub(super) fn needed_until_ns(own: &[Span], healthy: &[(u64, u64)]) -> u64 {
    let Some(&(first_ns, ..)) = own.first() else { return 0 };
    let is_needed = |(.., cause): &&Span| cause.is_none();
    let lengths_ns = own.iter().filter(is_needed).map(|(from, to, _)| to.saturating_sub(*from));
    let needed_ns = lengths_ns.fold(0, u64::saturating_add);
    let paired = healthy.iter().filter(|(at_ns, _)| at_ns.abs_diff(first_ns) < QUERY_RETRY_MIN_NS);
    paired.map(|(_, end_ns)| end_ns.saturating_sub(needed_ns)).max().unwrap_or(0)
}

/// Returns the time at which the attempts for one type ended: at the first conclusive answer,
/// otherwise at the last failure if no attempt follows it. `None` while an answer is awaited.
pub(in crate::dns) fn chain_end_ns(attempts: &[&Query]) -> Option<u64> {
    let decided = attempts.iter().filter(|query| query.is_conclusive());
    let last = attempts.last()?;
    // A late answer of one server applies to all attempts at that server.
    let same = attempts.iter().filter(|query| query.server == last.server);
    let after = same.filter_map(|query| query.answered_ns).filter(|&at_ns| at_ns >= last.sent_ns);
    decided.filter_map(|query| query.answered_ns).min().or(after.min())
}

/// Returns the spans of the attempts for one type.
pub(super) fn chain_spans(
    attempts: &[&Query],
    end_ns: u64,
    timeout: Cause,
    fair_ns: u64,
) -> Vec<Span> {
    let mut spans = Vec::new();
    let attempts = at_once::attempts(attempts);
    for (at, &Attempt { sent_ns: from_ns, query }) in attempts.iter().enumerate() {
        let next_ns = attempts.get(at + 1).map_or(end_ns, |next| next.sent_ns.min(end_ns));
        let ends_here = next_ns == end_ns;
        let answered = query.answered_ns.is_some_and(|answered_ns| answered_ns <= next_ns);
        let cause = match answered {
            true if query.is_failure() => Some(Cause::DnsFailure),
            true if query.flags.asked_again => Some(timeout),
            true => None,
            // The answer came late, or the answer that ends the wait belongs to an earlier attempt.
            // The time until a failure is reported is that of the failure.
            false => {
                let ends_wait = |it: &&Query| it.answered_ns == Some(end_ns);
                let own = Some(query).filter(|it| it.answered_ns.is_some());
                let earlier = || attempts[..at].iter().map(|it| it.query).find(ends_wait);
                match own.or_else(earlier) {
                    Some(late) if late.is_failure() => Some(Cause::DnsFailure),
                    Some(_) => Some(Cause::DnsSlow),
                    None => Some(timeout),
                }
            }
        };
        match query.exceeded_baseline_ns(fair_ns).filter(|_| answered && cause.is_none()) {
            Some(baseline_ns) => {
                let fair_ns = from_ns.saturating_add(baseline_ns).min(next_ns);
                spans.push((from_ns, fair_ns, None));
                spans.push((fair_ns, next_ns, Some(Cause::DnsSlow)));
            }
            None => spans.push((from_ns, next_ns, cause)),
        }
        if ends_here {
            break;
        }
    }
    spans
}

/// Attributes a span before `end_ns`, where the client queries the next name, to an answer that was
/// not captured if it is shorter than any timeout: without an answer, the client would have waited
/// for the timeout.
pub(super) fn attribute_to_missing_answer(
    (from_ns, to_ns, cause): &mut Span,
    end_ns: u64,
    timeout: Cause,
) {
    if *cause == Some(timeout) && *to_ns == end_ns && end_ns - *from_ns < RESOLVER_TIMEOUT_MIN_NS {
        *cause = None;
    }
}

/// Attributes all time of an unsuccessful step to the search, except time lost to silence or
/// failure.
pub(super) fn attribute_to_search(spans: &mut Vec<Span>, start_ns: u64, end_ns: u64) {
    let is_kept = |cause: &Option<Cause>| !matches!(cause, None | Some(Cause::DnsSlow));
    spans.retain(|(_, _, cause)| is_kept(cause));
    let kept_ns: u64 = spans.iter().map(|(from_ns, to_ns, _)| to_ns - from_ns).sum();
    let rest_ns = end_ns.saturating_sub(start_ns).saturating_sub(kept_ns);
    spans.push((end_ns - rest_ns, end_ns, Some(Cause::DnsSearch)));
}
