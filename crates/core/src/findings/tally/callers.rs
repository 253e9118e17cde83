//! The clients whose connection attempts met a cause at one server.

/// Number of clients kept separately; a fault with more of them does not concern a single client.
const CALLERS_MAX: usize = 4;

/// Clients, and how often each met it. The same, in whatever order they are added.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    met: Vec<([u8; 16], u64)>,
    are_many: bool,
}

impl Callers {
    /// `client` met it so many times more.
    pub(in crate::findings) fn add(&mut self, client: [u8; 16], count: u64) {
        match self.met.iter().position(|(known, _)| *known == client) {
            Some(at) => self.met[at].1 += count,
            None if self.are_many => {}
            None if self.met.len() < CALLERS_MAX => self.met.push((client, count)),
            None => (self.met, self.are_many) = (Vec::new(), true),
        }
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.are_many {
            self.clone_from(other);
        }
        other.met.iter().for_each(|&(client, count)| self.add(client, count));
    }

    /// The address of the one that met it more often than all the others together.
    pub(in crate::findings) fn main(&self) -> Option<[u8; 16]> {
        let all: u64 = self.met.iter().map(|(_, count)| count).sum();
        let main = self.met.iter().find(|(_, count)| 2 * count > all);
        main.map(|(client, _)| *client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers(counts: &[(u8, u64)]) -> Callers {
        let mut callers = Callers::default();
        counts.iter().for_each(|&(client, count)| callers.add([client; 16], count));
        callers
    }

    #[test]
    fn one_is_the_main_caller_who_calls_more_often_than_all_others() {
        assert_eq!(callers(&[(1, 3), (2, 1), (3, 1)]).main(), Some([1; 16]));
        assert_eq!(callers(&[(1, 2), (2, 1), (3, 1)]).main(), None);
        assert_eq!(callers(&[]).main(), None);
    }

    #[test]
    fn of_many_callers_none_is_the_main_one_however_they_are_added() {
        let all = [(1, 90), (2, 1), (3, 1), (4, 1), (5, 1)];
        assert_eq!(callers(&all).main(), None);
        for cut in 0..all.len() {
            let mut merged = callers(&all[cut..]);
            merged.merge(&callers(&all[..cut]));
            merged.add([1; 16], 90);
            assert_eq!(merged.main(), None, "cut at {cut}");
        }
    }
}
