//! Exchanges of one connection that follow each other back to back: each request is sent as soon
//! as the previous response has arrived, so that their round trips add up.

use crate::judge::thresholds::HOST_DELAY_MAX_NS;

/// A sequence of back-to-back exchanges up to the latest one, which it includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Row {
    /// Number of exchanges; 0 if the latest cannot belong to a sequence.
    pub count: u32,
    /// Time that they spent on the path, ns.
    pub path_ns: u64,
    /// Time of the first request, ns.
    pub began_ns: u64,
    /// End of the last response, ns.
    pub ended_ns: u64,
}

/// One exchange, in times at the vantage.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Time of the request, ns.
    pub asked_ns: u64,
    /// Time of the last packet of the response, ns.
    pub ended_ns: u64,
    /// Time that it spent on the path, ns.
    pub path_ns: u64,
    /// Duration of one round trip, with connection set-up if every exchange has one, ns.
    pub round_trip_ns: u64,
    /// Round trip between the vantage and the client, ns.
    pub rtt_client_ns: u64,
}

impl Row {
    /// Returns the sequence with `link` appended. `link` continues it if the client paused no
    /// longer than one response takes on the path, so that it waits longer than it works;
    /// otherwise `link` begins a new one. Exchanges of several round trips are transfers, which
    /// would take as many round trips if they were joined.
    #[inline]
    pub fn with(self, link: Link) -> Self {
        if link.path_ns < HOST_DELAY_MAX_NS || link.path_ns >= 2 * link.round_trip_ns {
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

    /// Time from the first request to the end of the last response, ns.
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
