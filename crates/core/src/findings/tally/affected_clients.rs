//! Clients whose connection attempts, or exchanges, one cause at a server affected.

/// Number of clients kept separately; a fault with more clients is not that of a single one.
pub(super) const CALLERS_MAX: usize = 4;

/// Number of attempts, or of losses, of each affected client. The result does not depend on the order in which
/// they are added.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct AffectedClients {
    attempts: Vec<([u8; 16], u64)>,
    are_many: bool,
}

impl AffectedClients {
    /// Adds `count` affected attempts of `client`.
    pub(in crate::findings) fn add(&mut self, client: [u8; 16], count: u64) {
        match self.attempts.iter().position(|(known, _)| *known == client) {
            Some(at) => self.attempts[at].1 += count,
            None if self.are_many => {}
            None if self.attempts.len() < CALLERS_MAX => self.attempts.push((client, count)),
            None => (self.attempts, self.are_many) = (Vec::new(), true),
        }
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.are_many {
            self.clone_from(other);
        }
        other.attempts.iter().for_each(|&(client, count)| self.add(client, count));
    }

    /// Returns the address of the client with more affected attempts than all others together.
    pub(in crate::findings) fn main(&self) -> Option<[u8; 16]> {
        let all: u64 = self.attempts.iter().map(|(_, count)| count).sum();
        let main = self.attempts.iter().find(|(_, count)| 2 * count > all);
        main.map(|(client, _)| *client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(counts: &[(u8, u64)]) -> AffectedClients {
        let mut clients = AffectedClients::default();
        counts.iter().for_each(|&(client, count)| clients.add([client; 16], count));
        clients
    }

    #[test]
    fn the_main_client_has_more_attempts_than_all_others() {
        assert_eq!(clients(&[(1, 3), (2, 1), (3, 1)]).main(), Some([1; 16]));
        assert_eq!(clients(&[(1, 2), (2, 1), (3, 1)]).main(), None);
        assert_eq!(clients(&[]).main(), None);
    }

    #[test]
    fn many_clients_have_no_main_one_in_any_order() {
        let all = [(1, 90), (2, 1), (3, 1), (4, 1), (5, 1)];
        assert_eq!(clients(&all).main(), None);
        for cut in 0..all.len() {
            let mut merged = clients(&all[cut..]);
            merged.merge(&clients(&all[..cut]));
            merged.add([1; 16], 90);
            assert_eq!(merged.main(), None, "cut at {cut}");
        }
    }
}
