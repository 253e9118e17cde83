//! The own time of applications, which no mechanism of TCP explains.

use crate::model::{Cause, Owner, Slice};
use crate::wire::Side;

/// Returns the slice of a sender that could have sent and did not, because its application was
/// busy.
pub fn busy(sender: Side, ns: u64) -> Slice {
    match sender {
        Side::Server => Slice::of(Owner::Server, Cause::ServerThink, ns),
        Side::Client => Slice::of(Owner::Client, Cause::ClientThink, ns),
    }
}
