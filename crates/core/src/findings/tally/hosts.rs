//! The hosts that took part in connections which were set up.

use std::collections::HashSet;

/// Number of hosts kept separately; in a capture with more, none counts as a foreign host.
const HOSTS_MAX: usize = 1 << 12;

/// Addresses of clients and servers of connections that were set up, or in progress when the
/// capture began. The result does not depend on the order in which they are added.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Hosts {
    known: HashSet<[u8; 16]>,
    are_many: bool,
}

impl Hosts {
    /// Records both ends of a connection.
    pub(super) fn add(&mut self, ends: [[u8; 16]; 2]) {
        if !self.are_many {
            self.known.extend(ends);
            self.bound();
        }
    }

    fn bound(&mut self) {
        if self.known.len() > HOSTS_MAX {
            (self.known, self.are_many) = (HashSet::new(), true);
        }
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.are_many {
            self.clone_from(other);
        } else if !self.are_many {
            self.known.extend(&other.known);
            self.bound();
        }
    }

    /// Returns whether a host may have taken part in such a connection.
    pub(in crate::findings) fn may_know(&self, address: [u8; 16]) -> bool {
        self.are_many || self.known.contains(&address)
    }

    /// Returns whether a host is known to have taken part in such a connection.
    pub(in crate::findings) fn know(&self, address: [u8; 16]) -> bool {
        self.known.contains(&address)
    }

    /// Returns whether there was no such connection.
    pub(in crate::findings) fn are_none(&self) -> bool {
        self.known.is_empty() && !self.are_many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_hosts_are_all_taken_for_known_in_any_order() {
        let address = |number: u16| {
            let mut address = [0; 16];
            address[..2].copy_from_slice(&number.to_be_bytes());
            address
        };
        let (mut few, mut many) = (Hosts::default(), Hosts::default());
        few.add([address(1), address(2)]);
        assert!(few.may_know(address(2)) && !few.may_know(address(3)));
        (0..=HOSTS_MAX as u16).for_each(|number| many.add([address(number); 2]));
        let mut merged = few.clone();
        merged.merge(&many);
        many.merge(&few);
        assert!(merged.may_know([9; 16]) && many.may_know([9; 16]) && !many.are_none());
    }
}
