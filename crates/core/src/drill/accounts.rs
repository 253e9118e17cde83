//! The time of a connection's exchanges as the report has it.

use crate::model::{Cause, Owner, Reassigned, Slice};
use crate::tcp::{Account, Concerned, Exchange};

/// Returns the time of each of `exchanges`, with what comparing all connections `reassigned`.
pub(super) fn accounts(exchanges: &[Exchange], reassigned: &[Reassigned]) -> Vec<Account> {
    let mut accounts: Vec<_> = exchanges.iter().map(|it| it.ledger.clone()).collect();
    for it in reassigned {
        let of_exchange = |at: &usize| {
            let first = exchanges[*at].first.frame;
            it.exchange.is_none_or(|frame| frame == first)
        };
        let concerned: Vec<_> = (0..exchanges.len()).filter(of_exchange).collect();
        reassign(&mut accounts, &concerned, it);
    }
    accounts
}

/// Moves time in those of `accounts` that are `concerned`: first the time of the cause and sender of
/// which all connections show something else, then other time of the owner.
fn reassign(accounts: &mut [Account], concerned: &[usize], reassigned: &Reassigned) {
    let &Reassigned { sender, from, to, .. } = reassigned;
    let all = Concerned { sender, ..Concerned::of(from, cause_of(from)) };
    let mut left_ns = to.ns;
    for is_preferred in [true, false] {
        for &at in concerned {
            let most_ns = if is_preferred { accounts[at].preferred_ns(all) } else { left_ns };
            let ns = left_ns.min(most_ns);
            left_ns -= accounts[at].transfer(all, Slice { ns, ..to });
        }
    }
}

/// Returns the cause by which `owner` mostly has time.
fn cause_of(owner: Owner) -> Option<Cause> {
    match owner {
        Owner::Server => Some(Cause::ServerThink),
        Owner::Client => Some(Cause::ClientThink),
        Owner::Queueing => Some(Cause::Bufferbloat),
        _ => Cause::from_id(owner.id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::FrameId;
    use crate::tcp::{GapPlace, Part};
    use crate::wire::Side;

    fn held(sender: Side, number: u64) -> Exchange {
        let mut exchange = Exchange::default();
        exchange.ledger.record();
        exchange.first.frame = FrameId::new(0, number);
        let place = GapPlace { sender: Some(sender), start_ns: 0, frame: exchange.first.frame };
        exchange.ledger.add(HELD, place);
        exchange
    }

    const HELD: Slice =
        Slice { owner: Owner::NagleDelayedAck, cause: Some(Cause::NagleDelayedAck), ns: 40 };

    fn to_server(accounts: &[Account]) -> Vec<u64> {
        accounts.iter().map(|it| it.of(Owner::Server)).collect()
    }

    #[test]
    fn the_silences_of_the_sender_are_reassigned_in_all_exchanges() {
        let exchanges = [held(Side::Client, 1), held(Side::Server, 2), held(Side::Server, 3)];
        let to = Slice::of(Owner::Server, Cause::ServerThink, 70);
        let (sender, from) = (Some(Side::Server), Owner::NagleDelayedAck);
        let reassigned = [Reassigned { sender, exchange: None, from, to }];
        let accounts = accounts(&exchanges, &reassigned);
        assert_eq!(to_server(&accounts), [0, 40, 30]);
        let cause = |part: &Part| part.slice.cause;
        assert_eq!(accounts[1].parts().iter().map(cause).next(), Some(to.cause));
    }

    #[test]
    fn what_concerns_one_exchange_changes_no_other() {
        let exchanges = [held(Side::Client, 1), held(Side::Client, 2)];
        let to = Slice::of(Owner::Server, Cause::ServerThink, 70);
        let (exchange, from) = (Some(FrameId::new(0, 2)), Owner::NagleDelayedAck);
        let reassigned = [Reassigned { sender: None, exchange, from, to }];
        assert_eq!(to_server(&accounts(&exchanges, &reassigned)), [0, 40]);
    }
}
