//! Exchanges of one connection that follow each other back to back: each is asked as soon as the one
//! before it is answered, so that their round trips add up.

/// A sequence whose exchanges have a shorter way than this is not followed, ns: a round trip that costs
/// less than a fault at its least is none to be saved.
const PATH_MIN_NS: u64 = 1_000_000;

/// Exchanges in a row so far, the last one included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// How many; 0 where the last one was none that another may follow.
    pub count: u32,
    /// The path's part of their time, ns.
    pub path_ns: u64,
    /// When the first of them was asked, ns.
    pub began_ns: u64,
    /// When the last of them was answered, ns.
    pub ended_ns: u64,
}

/// An exchange as it passed the vantage.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// When it was asked, ns.
    pub asked_ns: u64,
    /// When the last of its answer passed, ns.
    pub ended_ns: u64,
    /// The path's part of its time, ns.
    pub path_ns: u64,
    /// What a round trip takes, its set-up included where each has one, ns.
    pub round_trip_ns: u64,
    /// Round trip from the vantage to the client, ns.
    pub rtt_client_ns: u64,
}

impl Row {
    /// The row with `link` behind it, which follows back to back where the client pauses for no longer
    /// than the way takes: it spends more time waiting than working. Exchanges that take several round
    /// trips are transfers, which would take as many together.
    #[inline]
    pub fn with(self, link: Link) -> Self {
        if link.path_ns < PATH_MIN_NS || link.path_ns >= 2 * link.round_trip_ns {
            return Self::default();
        }
        let pause_ns = link.asked_ns.checked_sub(self.ended_ns).filter(|_| self.count > 0);
        let follows = pause_ns.is_some_and(|ns| ns <= link.rtt_client_ns + link.path_ns);
        let before =
            if follows { self } else { Self { began_ns: link.asked_ns, ..Self::default() } };
        Self {
            count: before.count.saturating_add(1),
            path_ns: before.path_ns + link.path_ns,
            began_ns: before.began_ns,
            ended_ns: link.ended_ns,
        }
    }

    /// From its first request to its last answer, ns.
    pub fn len_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.began_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn row(links: &[(u64, u64, u64)]) -> Row {
        links.iter().fold(Row::default(), |row, &(asked, ended, path)| {
            row.with(Link {
                asked_ns: asked * MS,
                ended_ns: ended * MS,
                path_ns: path * MS,
                round_trip_ns: 10 * MS,
                rtt_client_ns: 0,
            })
        })
    }

    #[test]
    fn a_row_goes_on_while_its_caller_waits_longer_than_it_pauses() {
        let back_to_back = row(&[(0, 10, 10), (11, 21, 10), (31, 41, 10)]);
        assert_eq!((back_to_back.count, back_to_back.path_ns), (3, 30 * MS));
        assert_eq!(back_to_back.len_ns(), 41 * MS);
        assert_eq!(row(&[(0, 10, 10), (21, 31, 10)]).count, 1);
    }

    #[test]
    fn what_is_asked_before_the_answer_or_next_door_is_in_no_row() {
        assert_eq!(row(&[(0, 10, 10), (5, 15, 10)]).count, 1);
        assert_eq!(row(&[(0, 1, 1), (1, 2, 0), (2, 3, 1)]).count, 1);
    }

    #[test]
    fn transfers_of_several_round_trips_are_in_no_row() {
        assert_eq!(row(&[(0, 30, 30), (31, 61, 30)]).count, 0);
    }
}
