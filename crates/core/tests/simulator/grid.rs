//! The grids of runs, a table of each, and what must hold in each row.

use crate::config::{Config, LARGE_BYTES, Loss, SMALL_BYTES};
use crate::verdict::judge;

/// The values that the runs of a grid share, and those in which they differ.
struct Grid {
    /// Round trips, µs, and the longest packet of each of these links.
    links: &'static [(u64, usize)],
    /// For how long receivers hold back ACKs, ms: not at all, as long as Linux at least, and
    /// longer.
    ack_delays_ms: [u64; 3],
    /// Buffers at one of the ends.
    buffers_bytes: [usize; 3],
    /// Bodies of responses: short and long.
    bodies_bytes: [usize; 2],
    /// The request that a loss hits, and where in its response, hundredths of it.
    hit: (usize, u64),
}

/// On Ethernet.
const USUAL: Grid = Grid {
    links: &[(200, 1_500), (2_000, 1_500), (20_000, 1_500), (100_000, 1_500)],
    ack_delays_ms: [0, 40, 200],
    buffers_bytes: [4 << 10, 16 << 10, 64 << 10],
    bodies_bytes: [SMALL_BYTES, LARGE_BYTES],
    hit: (2, 50),
};

/// With packets of other sizes, and nothing else as in the first either.
const OTHER: Grid = Grid {
    links: &[(700, 9_000), (3_000, 1_280), (17_000, 1_400), (90_000, 576)],
    ack_delays_ms: [0, 60, 150],
    buffers_bytes: [6 << 10, 24 << 10, 100 << 10],
    bodies_bytes: [250, 310_000],
    hit: (1, 20),
};

impl Grid {
    /// The configurations that they all are variations of, with their delays of ACKs.
    fn links(&self) -> impl Iterator<Item = (Config, [u64; 3])> {
        let [body_bytes, _] = self.bodies_bytes;
        let (hit_request, hit_percent) = self.hit;
        self.links.iter().map(move |&(rtt_us, mtu_bytes)| {
            let config = Config {
                rtt_us,
                mtu_bytes,
                hit_request,
                hit_percent,
                body_bytes,
                ..Config::default()
            };
            (config, self.ack_delays_ms)
        })
    }

    /// The part in which no buffer and no loss plays a part.
    fn writes(&self, body_bytes: usize) -> Vec<Config> {
        let mut all = Vec::new();
        for (config, ack_delays_ms) in self.links() {
            for ack_delay_ms in ack_delays_ms {
                for (nagle, two_writes) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    for think_ms in [0, 40] {
                        let config = Config { nagle, ack_delay_ms, ..config };
                        all.push(Config { two_writes, body_bytes, think_ms, ..config });
                    }
                }
            }
        }
        all
    }

    /// Requests in two writes.
    fn requests(&self) -> Vec<Config> {
        let mut all = Vec::new();
        for (config, ack_delays_ms) in self.links() {
            for ack_delay_ms in ack_delays_ms {
                for nagle in [false, true] {
                    all.push(Config { nagle, ack_delay_ms, request_in_two: true, ..config });
                }
            }
        }
        all
    }

    fn losses(&self) -> Vec<Config> {
        let mut all = Vec::new();
        let [short, long] = self.bodies_bytes;
        for (config, ack_delays_ms) in self.links() {
            for (loss, body_bytes) in [
                (Loss::Middle, long),
                (Loss::Tail, long),
                (Loss::Tail, short),
                (Loss::Syn, short),
                (Loss::Syn, long),
            ] {
                for ack_delay_ms in ack_delays_ms {
                    let config = Config { loss, body_bytes, ack_delay_ms, ..config };
                    all.push(config);
                    all.push(Config { think_ms: 40, two_writes: true, ..config });
                }
            }
        }
        all
    }

    /// Buffers of one size at either end; responses of a few rounds, and long ones.
    fn buffers(&self) -> Vec<Config> {
        let mut all = Vec::new();
        let [_, long] = self.bodies_bytes;
        for (config, [prompt_ms, delayed_ms, _]) in self.links() {
            for ack_delay_ms in [prompt_ms, delayed_ms] {
                for bytes in self.buffers_bytes {
                    for body_bytes in [4 * bytes, long] {
                        let config = Config { ack_delay_ms, body_bytes, ..config };
                        all.push(Config { send_bytes: bytes, ..config });
                        all.push(Config { receive_bytes: bytes, ..config });
                    }
                    let config = Config { ack_delay_ms, think_ms: 40, ..config };
                    let config = Config { body_bytes: 4 * bytes, nagle: true, ..config };
                    all.push(Config { send_bytes: bytes, ..config });
                    all.push(Config { receive_bytes: bytes, ..config });
                }
            }
        }
        all
    }

    fn parts(&self) -> [(&'static str, Vec<Config>); 5] {
        let [short, long] = self.bodies_bytes;
        [
            ("small responses", self.writes(short)),
            ("large responses", self.writes(long)),
            ("requests in two writes", self.requests()),
            ("losses", self.losses()),
            ("buffers", self.buffers()),
        ]
    }

    /// Returns the number of wrong rows in each part, with a description. The last count is of runs
    /// in which the stack repeats segments without need. Wrong rows are marked `WRONG` in the
    /// table.
    fn wrong(&self) -> ([usize; 6], String) {
        let mut counts = [0; 6];
        let mut complaints = Vec::new();
        for (part, (_, configs)) in self.parts().into_iter().enumerate() {
            for verdict in configs.into_iter().map(judge) {
                if let Some(complaint) = verdict.complaint() {
                    counts[if verdict.has_spurious_retransmission() { 5 } else { part }] += 1;
                    complaints.push(complaint);
                }
            }
        }
        (counts, complaints.join("\n"))
    }

    fn table(&self) -> String {
        let mut table = String::from(
            "configuration (ms) | truth: wall, faults with cost | at client: wall, faults | at server\n",
        );
        for (name, configs) in self.parts() {
            let rows: Vec<_> = configs.into_iter().map(|config| judge(config).row()).collect();
            table += &format!("\n{name}\n{}\n", rows.join("\n"));
        }
        table
    }
}

/// Fails with what is wrong, where other rows are than are known to be: a change that mends some
/// must lower the count.
fn must_hold(grid: &Grid, known: [usize; 6]) {
    let (counts, complaints) = grid.wrong();
    assert!(counts == known, "{counts:?} rows are wrong, {known:?} are known to be:\n{complaints}");
}

#[test]
fn rows_are_judged_as_injected() {
    must_hold(&USUAL, [0, 0, 0, 0, 4, 2]);
}

#[test]
fn rows_of_other_sizes_are_judged_as_injected() {
    must_hold(&OTHER, [0, 0, 0, 0, 7, 0]);
}

#[test]
fn the_whole_grid() {
    insta::assert_snapshot!("grid", USUAL.table());
}

#[test]
fn the_whole_grid_of_other_sizes() {
    insta::assert_snapshot!("grid_of_other_sizes", OTHER.table());
}
