//! The identity of a server, as its packets show it.

use crate::app::Protocol;
use crate::tcp::Connection;
use crate::wire::Side;

/// The identity of a server, as its packets show it.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Identity {
    /// Greatest TTL of the server's packets, RSTs excluded; 0 if there were none.
    pub ttl: u8,
    /// Name of the software that the server states.
    pub software: Option<Box<str>>,
    /// Protocol of the server.
    pub protocol: Protocol,
}

impl Identity {
    pub(super) fn connection(&mut self, connection: &Connection) {
        let ttl = connection.senders[Side::Server].packets.last.ttl;
        self.add(ttl, connection.framer.protocol(), connection.view().software(Side::Server));
    }

    /// Adds the values of a connection. Of several names the least in order is kept, so that
    /// neither the order of connections nor the shards matter.
    #[inline]
    fn add(&mut self, ttl: u8, protocol: Protocol, software: Option<&str>) {
        self.ttl = self.ttl.max(ttl);
        self.protocol = self.protocol.max(protocol);
        if let Some(software) = software
            && self.software.as_deref().is_none_or(|known| software < known)
        {
            self.software = Some(software.into());
        }
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        self.add(other.ttl, other.protocol, other.software.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_names_the_least_is_kept_in_any_order() {
        let [mut one, mut other] = [Identity::default(), Identity::default()];
        one.add(63, Protocol::Http1, Some("nginx"));
        other.add(64, Protocol::Turns, Some("apache"));
        let mut reverse = other.clone();
        reverse.merge(&one);
        one.merge(&other);
        assert_eq!(one.software, reverse.software);
        assert_eq!((one.software.as_deref(), one.ttl), (Some("apache"), 64));
        assert_eq!(one.protocol, reverse.protocol);
    }
}
