//! Hosts that received something, up to a maximum number.

use hashbrown::HashSet;

/// Number of hosts kept. If there are more, any host may have received something.
const HOSTS_MAX: usize = 1 << 12;

/// Addresses of the hosts. The result does not depend on the order in which they are added.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct ReceivingHosts {
    hosts: HashSet<[u8; 16]>,
    are_many: bool,
}

impl ReceivingHosts {
    /// Records that `host` received something.
    pub(super) fn add(&mut self, host: [u8; 16]) {
        if self.are_many {
            return;
        }
        self.hosts.insert(host);
        if self.hosts.len() > HOSTS_MAX {
            (self.hosts, self.are_many) = (HashSet::new(), true);
        }
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: Self) {
        self.are_many |= other.are_many;
        other.hosts.into_iter().for_each(|host| self.add(host));
        if self.are_many {
            self.hosts = HashSet::new();
        }
    }

    /// Returns whether `host` is known to have received something.
    pub(in crate::findings) fn have(&self, host: &[u8; 16]) -> bool {
        self.hosts.contains(host)
    }

    /// Returns whether `host` may have received something.
    pub(in crate::findings) fn may_have_received(&self, host: &[u8; 16]) -> bool {
        self.are_many || self.hosts.contains(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_hosts_none_is_known_to_have_received_nothing() {
        let host = |number: usize| {
            let mut address = [0; 16];
            address[..8].copy_from_slice(&number.to_be_bytes());
            address
        };
        let (mut one, mut other) = (ReceivingHosts::default(), ReceivingHosts::default());
        (0..=HOSTS_MAX / 2).for_each(|number| one.add(host(number)));
        assert!(one.may_have_received(&host(7)) && !one.may_have_received(&host(HOSTS_MAX)));
        (HOSTS_MAX / 2..=HOSTS_MAX).for_each(|number| other.add(host(number)));
        one.merge(other);
        assert!(one.may_have_received(&host(HOSTS_MAX + 9)));
    }
}
