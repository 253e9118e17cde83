//! What a database server spent its time on, as far as its records show it afterwards: the start of sessions,
//! statements that succeeded, and those that failed.

use crate::app::{CANCEL, ErrorCode, Protocol, STARTUP, Subject};
use crate::findings::facts::Facts;
use crate::findings::tally::{EndpointTally, Group};
use crate::judge::thresholds::ALIKE_PART;
use crate::model::{Fact, OutcomeKind, Owner};

/// Returns on what a PostgreSQL server spent its time. A record of a statement is made when it succeeds
/// (`pg_stat_statements`, `auto_explain`): one that failed or was cancelled is in the server's log only, and
/// the start of a session is none.
pub(super) fn facts(endpoint: &EndpointTally) -> Facts {
    let mut facts = Facts::new();
    if endpoint.identity.protocol != Protocol::Postgres {
        return facts;
    }
    let spent_ns = |group: &Group| group.ledger.of(Owner::Server);
    let is_answered = |group: &Group| group.outcomes.of(OutcomeKind::Answered) > 0;
    let (mut startup_ns, mut recorded_ns, mut failed_ns) = (0, 0, 0);
    let (mut recorded, mut failed) = (0, 0);
    let (mut cancelled, mut requests) = (0, 0);
    for (kind, group) in endpoint.kinds.iter() {
        cancelled +=
            group.outcomes.codes().into_iter().filter(is_cancelled).map(|it| it.1).sum::<u64>();
        match &**kind {
            STARTUP => startup_ns += spent_ns(group),
            CANCEL => requests += group.exchanges,
            _ if is_answered(group) => {
                recorded_ns += spent_ns(group);
                recorded += group.outcomes.of(OutcomeKind::Answered);
            }
            // One that is still open has no record yet.
            _ if group.outcomes.codes().is_empty() => {}
            _ => {
                failed_ns += spent_ns(group);
                failed += group.exchanges;
            }
        }
    }
    let matters = |ns: u64| ns > 0 && ns >= spent_ns(&endpoint.all) / ALIKE_PART;
    if matters(startup_ns) {
        facts.insert("startup_ns", Fact::Ns(startup_ns));
    }
    if matters(failed_ns) {
        facts.insert("failed", Fact::Count(failed));
    }
    if matters(recorded_ns) {
        facts.insert("recorded", Fact::Count(recorded));
    }
    if cancelled > 0 {
        facts.insert("cancelled", Fact::Count(cancelled));
    }
    if cancelled > 0 && requests > 0 {
        facts.insert("cancel_requests", Fact::Count(requests));
    }
    facts
}

fn is_cancelled((code, _): &(ErrorCode, u64)) -> bool {
    code.subject() == Subject::Cancelled
}
