//! Connections whose roles were guessed, and whose supposed client listens: it sent a SYN-ACK on another
//! connection (RFC 9293 §3.10.7.2), so it is the server of this one as well.

use crate::findings::notes::Noticed;
use crate::findings::tally::{GuessedClient, Tally};
use crate::wire::Endpoint;

/// Leaves out what was counted in the wrong direction: its requests are answers, and what followed
/// them was not waited for.
pub(super) fn settle(tally: &mut Tally) {
    let listens =
        |endpoint: &Endpoint| tally.endpoints.get(endpoint).is_some_and(|it| it.roles.listens);
    let turned = tally.endpoints.iter().filter_map(|(&server, it)| match it.roles.guessed {
        GuessedClient::One(client) if !it.roles.shown && listens(&client) => Some(server),
        _ => None,
    });
    for server in turned.collect::<Vec<_>>() {
        let Some(endpoint) = tally.endpoints.remove(&server) else { continue };
        let left_out = endpoint.connections.saturating_sub(endpoint.roles.undirected);
        tally.notes.undirected += left_out;
        for sender in &endpoint.senders {
            // Nothing shows any more what waited for these.
            let noticed = sender.noticed;
            let uncounted = noticed.uncounted + noticed.retransmissions;
            tally.notes.noticed.merge(&Noticed { retransmissions: 0, uncounted, ..noticed });
        }
        tally.causes.take_all(|key, _| key.server == server);
        tally.slowest.leave_out(server);
        tally.worst.leave_out(server);
    }
}
