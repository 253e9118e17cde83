//! Time of the applications themselves: what no mechanism of TCP explains.

use crate::app::Side;
use crate::model::{Cause, Owner, Slice};

/// The sender could have sent and did not: its application was busy.
pub fn busy(sender: Side, ns: u64) -> Slice {
    match sender {
        Side::Server => Slice::of(Owner::Server, Cause::ServerThink, ns),
        Side::Client => Slice::of(Owner::Client, Cause::ClientThink, ns),
    }
}
