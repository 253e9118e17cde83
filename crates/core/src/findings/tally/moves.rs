//! Moves sums from one cause to another.

use crate::findings::tally::{Key, Tally};
use crate::model::{Cause, Class, Owner, Role};
use crate::wire::{Endpoint, Side};

/// Returns cause and owner of an application's own time.
pub(in crate::findings) fn think(sender: Side) -> (Cause, Owner) {
    match sender {
        Side::Client => (Cause::ClientThink, Owner::Client),
        Side::Server => (Cause::ServerThink, Owner::Server),
    }
}

/// Moves the sums of `key` to the cause `to`.
pub(in crate::findings) fn move_cause(
    tally: &mut Tally,
    key: &Key,
    to: Cause,
    owners: Option<(Owner, Owner)>,
) {
    let Some(mut moved) = tally.causes.remove(key) else { return };
    if let (Some((_, into)), Class::Fault) = (owners, to.class()) {
        moved.covers.add(into, moved.lost_ns);
    }
    if let Some(owners) = owners {
        tally.shift(key, owners, moved.lost_ns, Some(to));
    }
    let client = match key.culprit.role {
        Role::Client => key.culprit.endpoint,
        _ => Endpoint::default(),
    };
    let culprit = to.culprit(key.sender, client, key.server);
    let target = Key { cause: to, culprit, ..key.clone() };
    let target = tally.causes.at(&target);
    target.merge(&moved);
    // An exchange with both causes counts once.
    if let Some(endpoint) = tally.endpoints.get(&key.server) {
        target.exchanges = target.exchanges.min(endpoint.all.exchanges);
        target.connections = target.connections.min(endpoint.connections);
    }
}
