//! The culprit of a cause: the role and endpoint that has to change something.

use crate::app::Side;
use crate::model::{Cause, Culprit, Role};
use crate::wire::Endpoint;

/// The culprit of `cause` where `sender` was the silent side of a connection.
pub fn culprit(cause: Cause, sender: Side, client: Endpoint, server: Endpoint) -> Culprit {
    let side = |side: Side| match side {
        Side::Client => Culprit { role: Role::Client, endpoint: Endpoint { port: 0, ..client } },
        Side::Server => Culprit { role: Role::Server, endpoint: server },
    };
    match cause {
        Cause::NagleDelayedAck | Cause::DelayedAck | Cause::SendBuffer | Cause::SlowStart => {
            side(sender)
        }
        Cause::ReceiveWindow | Cause::ZeroWindow => side(sender.peer()),
        Cause::AcceptQueueOverflow
        | Cause::Refused
        | Cause::TlsHandshake
        | Cause::SynFlood
        | Cause::Http100Continue
        | Cause::ServerThink => side(Side::Server),
        Cause::ClientThink | Cause::PortExhaustion => side(Side::Client),
        Cause::Reset | Cause::IdleReset => side(sender),
        Cause::DnsSlow
        | Cause::DnsTimeout
        | Cause::DnsFailure
        | Cause::DnsSearch
        | Cause::ReverseDnsTimeout => Culprit { role: Role::Resolver, endpoint: server },
        _ => Culprit { role: Role::Network, endpoint: server },
    }
}
