//! Exchanges of one connection whose client asks again soon after each answer, as a program does that
//! waits for many short answers in a row.

/// A series of exchanges up to the latest one, which it includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Number of exchanges.
    pub count: u32,
    /// Time that they took, without the pauses between them, ns.
    pub busy_ns: u64,
    /// Time of the first request, ns.
    pub began_ns: u64,
    /// End of the last response, ns.
    pub ended_ns: u64,
}

impl Series {
    /// Appends an exchange from `asked_ns` to `ended_ns`, if its client paused no longer before it than
    /// one exchange of the series takes; otherwise it begins a new series. Returns the series that it
    /// ended.
    #[inline]
    pub fn append(&mut self, asked_ns: u64, ended_ns: u64) -> Option<Self> {
        let ended_ns = ended_ns.max(asked_ns);
        let pause_ns = asked_ns.checked_sub(self.ended_ns).filter(|_| self.count > 0);
        let taken_ns = ended_ns - asked_ns;
        let follows = pause_ns
            .is_some_and(|ns| u128::from(ns) * u128::from(self.count) <= u128::from(self.busy_ns));
        if follows {
            self.count = self.count.saturating_add(1);
            self.busy_ns = self.busy_ns.saturating_add(taken_ns);
            self.ended_ns = ended_ns;
            return None;
        }
        let new = Self { count: 1, busy_ns: taken_ns, began_ns: asked_ns, ended_ns };
        Some(std::mem::replace(self, new)).filter(|ended| ended.count > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(times: &[(u64, u64)]) -> Vec<(u32, u64)> {
        let mut series = Series::default();
        let ended = times.iter().filter_map(|&(asked, ended)| series.append(asked, ended));
        ended.map(|it| (it.count, it.busy_ns)).collect()
    }

    #[test]
    fn a_series_ends_where_its_client_pauses_for_longer_than_an_exchange_takes() {
        let two = [(0, 10), (12, 22), (33, 43), (45, 55), (57, 67), (100, 110)];
        assert_eq!(ended(&two), [(2, 20), (3, 30)]);
        assert_eq!(ended(&[(0, 10), (21, 31), (42, 52)]), [], "single ones");
    }

    #[test]
    fn what_is_asked_before_the_answer_is_in_no_series() {
        assert_eq!(ended(&[(0, 10), (5, 15), (16, 26), (40, 50)]), [(2, 20)]);
    }
}
