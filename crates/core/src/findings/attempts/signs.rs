//! The properties of SYNs that are compared.

use super::{SeenSyn, Syns, chance};
use crate::findings::thresholds::TIME_WAIT_NS;
use crate::model::Vantage;
use crate::tcp::SynMarks;
use crate::wire::Endpoint;
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// A property of a SYN.
struct Property {
    /// Name of the fact: the number of SYNs without an answer that have it.
    name: &'static str,
    /// The trait of the SYN itself that it is, if it is one.
    marks: u16,
    /// The server's host drops SYNs with it.
    by_server: bool,
}

const fn of_syn(name: &'static str, marks: u16) -> Property {
    Property { name, marks, by_server: false }
}

/// Places in `PROPERTIES`.
const OLDER_STAMPS: usize = 0;
const WRONG_CHECKSUM: usize = 1;
const OPTIONS: usize = 7;
const REUSED_PORTS: usize = 8;
const ONLY_CLIENT: usize = 9;

/// The properties, those that explain more before those that they may imply: a SYN with Fast Open
/// also carries data.
const PROPERTIES: [Property; 10] = [
    Property { by_server: true, ..of_syn("older_stamps", 0) },
    of_syn("wrong_checksums", 0),
    of_syn("wrong_tunnel_checksums", SynMarks::WRONG_TUNNEL_CHECKSUM),
    of_syn("ecn", SynMarks::ECN),
    of_syn("fast_open", SynMarks::FAST_OPEN),
    of_syn("multipath", SynMarks::MULTIPATH),
    of_syn("with_data", SynMarks::DATA),
    of_syn("with_options", 0),
    of_syn("reused_ports", 0),
    of_syn("of_one_client", 0),
];

/// Options that a sender leaves out of later SYNs, by name.
const DROPPED_OPTIONS: [(u16, &str); 3] = [
    (SynMarks::WINDOW_SCALE, "window scaling"),
    (SynMarks::TIMESTAMPS, "timestamps"),
    (SynMarks::SACK, "SACK"),
];

/// A property by which the SYNs without an answer differ from the others.
pub(super) struct Sign {
    /// Name of the fact with their number.
    pub name: &'static str,
    /// A fact in words, by name.
    pub words: Option<(&'static str, String)>,
    /// The server's host drops them.
    pub by_server: bool,
}

/// The SYNs to one server without an answer, and those that were answered meanwhile.
pub(super) struct Contrast<'a> {
    pub failed: Vec<&'a SeenSyn>,
    pub answered: Vec<&'a SeenSyn>,
    /// All answered SYNs of the capture.
    all: &'a [SeenSyn],
    /// The answered SYNs exclude chance.
    pub is_apart_from_successes: bool,
}

impl<'a> Contrast<'a> {
    /// Returns the SYNs to `server`; `None` if all were answered.
    pub fn of(server: Endpoint, syns: &'a Syns) -> Option<Self> {
        let failed: Vec<_> = syns.failed.iter().filter(|it| it.server == server).collect();
        let from_ns = failed.first()?.syn.time_ns;
        let until_ns = failed.iter().map(|it| it.until_ns).max()?;
        let meanwhile =
            |it: &&SeenSyn| it.server == server && (from_ns..=until_ns).contains(&it.syn.time_ns);
        let answered = syns.answered.iter().filter(meanwhile).collect();
        Some(Self { failed, answered, all: &syns.answered, is_apart_from_successes: false })
    }

    /// Returns what distinguishes the SYNs without an answer, with the SYNs that show it.
    pub fn sign(self) -> Option<(Sign, Self)> {
        if self.is_shown_by_checksums() {
            return Some((self.named(WRONG_CHECKSUM), self));
        }
        let clients: BTreeSet<_> = self.failed.iter().map(|it| it.client.address).collect();
        let of_clients = |it: &&SeenSyn| clients.contains(&it.client.address);
        let (same, others): (Vec<_>, Vec<_>) = self.answered.iter().copied().partition(of_clients);
        if same.is_empty() && clients.len() == 1 {
            // The client may be what its SYNs have in common.
            let all = Self { answered: others, is_apart_from_successes: true, ..self };
            return all.is_apart(1).then(|| (all.named(ONLY_CLIENT), all));
        }
        let same = Self { answered: same, is_apart_from_successes: true, ..self };
        let bits =
            |syns: &[&SeenSyn]| -> Vec<u16> { syns.iter().map(|it| same.properties(it)).collect() };
        let (failed, answered) = (bits(&same.failed), bits(&same.answered));
        let all = || failed.iter().chain(&answered);
        let varies =
            all().fold(0, |bits, it| bits | it) & !all().fold(u16::MAX, |bits, it| bits & it);
        let held = failed.iter().fold(u16::MAX, |bits, it| bits & it);
        let apart = held & !answered.iter().fold(0, |bits, it| bits | it);
        let first = (0..PROPERTIES.len()).find(|at| apart & 1 << at != 0)?;
        let compared = varies.count_ones() as usize;
        same.is_apart(compared).then(|| (same.named(first), same))
    }

    /// Returns whether chance is excluded. Attempts that fail without a success in between count
    /// once: something else may have ended in that time.
    fn is_apart(&self, compared: usize) -> bool {
        let mut begun: HashMap<_, u64> = HashMap::new();
        for it in &self.failed {
            let begins_ns = begun.entry(it.attempt).or_insert(it.syn.time_ns);
            *begins_ns = it.syn.time_ns.min(*begins_ns);
        }
        let failures = begun.into_values().map(|ns| (ns, true));
        let successes = self.answered.iter().map(|it| (it.syn.time_ns, false));
        let mut all: Vec<_> = failures.chain(successes).collect();
        all.sort_unstable();
        let runs = all.chunk_by(|one, other| one.1 == other.1).filter(|run| run[0].1).count();
        chance::is_excluded(runs, self.answered.len(), compared)
    }

    /// Returns whether wrong checksums alone show it: their receiver has to drop such segments (RFC
    /// 9293 §3.1). If a program rewrote the addresses in the capture, the errors are all alike; at
    /// the sender, an offload may still correct them.
    fn is_shown_by_checksums(&self) -> bool {
        let has_wrong = |it: &&SeenSyn| it.syn.marks.has(SynMarks::WRONG_CHECKSUM);
        let known = self.failed.iter().map(|it| it.syn.marks.checksum_error);
        let errors: BTreeSet<_> = known.filter(|&error| error != 0).collect();
        let of_clients = |it: &&SeenSyn| {
            self.failed.iter().any(|failed| failed.client.address == it.client.address)
        };
        let mut answered = self.all.iter().filter(of_clients);
        let refuted = |it: &SeenSyn| {
            it.syn.marks.has(SynMarks::WRONG_CHECKSUM)
                || matches!(it.vantage, Vantage::Client | Vantage::Local)
        };
        errors.len() > 1 && self.failed.iter().all(has_wrong) && !answered.any(refuted)
    }

    /// Returns the properties of a SYN, one bit for each place in `PROPERTIES`.
    fn properties(&self, it: &SeenSyn) -> u16 {
        let marks = &it.syn.marks;
        let has = |at: usize| match at {
            OLDER_STAMPS => self.is_older(it),
            WRONG_CHECKSUM => {
                marks.has(SynMarks::WRONG_CHECKSUM)
                    && !matches!(it.vantage, Vantage::Client | Vantage::Local)
            }
            OPTIONS => DROPPED_OPTIONS.iter().any(|&(option, _)| marks.has(option)),
            REUSED_PORTS => self.is_port_reused(it),
            ONLY_CLIENT => false,
            _ => marks.has(PROPERTIES[at].marks),
        };
        (0..PROPERTIES.len()).filter(|&at| has(at)).fold(0, |bits, at| bits | 1 << at)
    }

    /// Returns whether the timestamp of a SYN is lower than that of the last answered one from its
    /// address to this host: by PAWS (RFC 7323 §5.2), a host that keeps timestamps by address drops
    /// it.
    fn is_older(&self, it: &SeenSyn) -> bool {
        let stamps = |it: &SeenSyn| it.syn.marks.has(SynMarks::TIMESTAMPS);
        let before = self.all.iter().filter(|other| {
            stamps(other)
                && other.client.address == it.client.address
                && other.server.address == it.server.address
                && other.rank() < it.rank()
        });
        let last = before.max_by_key(|other| other.rank());
        let is_lower =
            |last: &SeenSyn| (it.syn.marks.tsval.wrapping_sub(last.syn.marks.tsval) as i32) < 0;
        stamps(it) && last.is_some_and(is_lower)
    }

    /// Returns whether a connection with the same ports had ended shortly before.
    fn is_port_reused(&self, it: &SeenSyn) -> bool {
        self.all.iter().any(|other| {
            (other.client, other.server) == (it.client, it.server)
                && other.attempt != it.attempt
                && (other.until_ns..other.until_ns.saturating_add(TIME_WAIT_NS))
                    .contains(&it.syn.time_ns)
        })
    }

    fn named(&self, at: usize) -> Sign {
        let Property { name, by_server, .. } = PROPERTIES[at];
        let first = self.failed.first();
        let words = match at {
            OPTIONS => {
                let held = |&&(option, _): &&(u16, _)| {
                    let has = |it: &&SeenSyn| it.syn.marks.has(option);
                    self.failed.iter().all(has) && !self.answered.iter().any(has)
                };
                let held: Vec<_> = DROPPED_OPTIONS.iter().filter(held).map(|it| it.1).collect();
                Some(("options", held.join(", ")))
            }
            ONLY_CLIENT => first.map(|it| ("only_client", it.client.ip().to_string())),
            _ => None,
        };
        Sign { name, words, by_server }
    }
}
