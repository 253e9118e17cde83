//! Time of exchanges that lies within other exchanges of the same report: while a server waits for
//! another one, both have an exchange in progress.

use crate::findings::endpoints;
use crate::findings::tally::Tally;
use crate::model::{Finding, Owner, Report};
use crate::wire::Endpoint;

/// Time that exchanges waited for others of the report.
pub(super) struct Nested {
    /// Server of the exchanges that waited.
    pub server: Endpoint,
    /// Owner of the time in their ledgers.
    pub owner: Owner,
    /// The part that exchanges of others contain, ns.
    pub ns: u64,
    /// The part that no other exchange contains, ns, and its owner.
    pub shown: Option<(Owner, u64)>,
}

/// Counts `nested` time once, in the exchanges that were waited for: it is removed from the sums over
/// all exchanges, and the shares of `findings` are of what remains. The latencies of the exchanges
/// that waited include it.
pub(super) fn count_once(
    nested: &[Nested],
    findings: &mut [Finding],
    tally: &mut Tally,
    report: &mut Report,
) {
    if nested.is_empty() {
        return;
    }
    let before_ns = report.totals.wall_ns;
    for &Nested { server, owner, ns, shown } in nested {
        let Some(endpoint) = tally.endpoints.get_mut(&server) else { continue };
        endpoint.all.ledger.remove(owner, ns);
        if let Some((into, ns)) = shown {
            endpoint.all.ledger.transfer(owner, into, ns);
        }
    }
    endpoints::add_up(tally, report);
    let factor = before_ns as f64 / report.totals.wall_ns.max(1) as f64;
    for finding in findings {
        finding.share = (finding.share * factor).min(1.0);
    }
}
