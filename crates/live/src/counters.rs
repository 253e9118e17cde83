//! The kernel's counters of a network namespace, from the text of `/proc/net`. The increase between
//! two reads shows a symptom that is present now; the value since boot proves nothing about the
//! present.
//!
//! Names are `TABLE.COUNTER`, as the kernel spells both: `TcpExt.ListenOverflows`,
//! `Udp.RcvbufErrors`, `nf_conntrack.drop`, `softnet.time_squeeze`, `eth0.rx_dropped`.

use std::collections::BTreeMap;

/// Counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Adds a table of pairs of lines, names then values, as in `/proc/net/snmp` and
    /// `/proc/net/netstat`. Values below zero (`Tcp.MaxConn`) are left out.
    pub fn add_pairs(&mut self, text: &str) {
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let Some((table, names)) = names.split_once(": ") else { continue };
            let values = values.split_once(": ").map_or("", |(_, values)| values);
            for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
                if let Ok(value) = value.parse() {
                    self.set(&format!("{table}.{name}"), value);
                }
            }
        }
    }

    /// Adds a table with a name and a value a line, as in `/proc/net/snmp6`: `Udp6RcvbufErrors 0`
    /// is `Udp6.RcvbufErrors`.
    pub fn add_lines6(&mut self, text: &str) {
        for line in text.lines() {
            if let Some((name, value)) = line.split_once(char::is_whitespace)
                && let Some((table, name)) = name.split_once('6')
                && let Ok(value) = value.trim().parse()
            {
                self.set(&format!("{table}6.{name}"), value);
            }
        }
    }

    /// Adds a table with a line of names and a line of hexadecimal values for each CPU, as in
    /// `/proc/net/stat/nf_conntrack`; CPUs are summed. The column `entries` is the same on all
    /// lines, and no counter.
    pub fn add_columns(&mut self, table: &str, text: &str) {
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
        for line in lines {
            let values = line.split_whitespace().map(|value| u64::from_str_radix(value, 16));
            for (name, value) in names.iter().zip(values).skip(1) {
                self.add(&format!("{table}.{name}"), value.unwrap_or(0));
            }
        }
    }

    /// Adds `/proc/net/softnet_stat`: a line for each CPU, hexadecimal; packets processed, dropped
    /// (backlog full), and times that the budget ran out (`time_squeeze`) come first.
    pub fn add_softnet(&mut self, text: &str) {
        for line in text.lines() {
            let columns = ["processed", "dropped", "time_squeeze"];
            for (name, value) in columns.iter().zip(line.split_whitespace()) {
                let value = u64::from_str_radix(value, 16).unwrap_or(0);
                self.add(&format!("softnet.{name}"), value);
            }
        }
    }

    /// Sets a counter.
    pub fn set(&mut self, name: &str, value: u64) {
        self.0.insert(name.to_owned(), value);
    }

    /// Returns all counters with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, &value)| (name.as_str(), value))
    }

    /// Adds to a counter.
    pub fn add(&mut self, name: &str, value: u64) {
        *self.0.entry(name.to_owned()).or_default() += value;
    }

    /// Returns the value; 0 if the kernel does not have the counter.
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Returns whether the kernel has this counter.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// Counters at the begin and at the end of a sample.
#[derive(Debug, Clone, Default)]
pub struct Growth {
    /// The counters at its begin.
    pub before: Counters,
    /// The counters at its end.
    pub after: Counters,
    /// Length of the interval, ns.
    pub over_ns: u64,
}

impl Growth {
    /// Returns the increase of a counter; 0 if it is new or decreased.
    pub fn of(&self, name: &str) -> u64 {
        if !self.before.has(name) {
            return 0;
        }
        self.after.of(name).saturating_sub(self.before.of(name))
    }

    /// Returns the counters of `names` that grew, each with its increase.
    pub fn grown<'n>(&self, names: &[&'n str]) -> Vec<(&'n str, u64)> {
        names.iter().map(|&name| (name, self.of(name))).filter(|&(_, by)| by > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_kernel_are_read_by_name() {
        let mut counters = Counters::default();
        counters.add_pairs(
            "Tcp: RtoMin MaxConn RetransSegs\nTcp: 200 -1 7\n\
             TcpExt: ListenOverflows\nTcpExt: 3\n",
        );
        assert_eq!(counters.of("Tcp.RetransSegs"), 7);
        assert_eq!(counters.of("TcpExt.ListenOverflows"), 3);
        assert!(!counters.has("Tcp.MaxConn"));
        counters.add_columns(
            "nf_conntrack",
            "entries  clashres drop\n00000005 00000001 0000000a\n00000005 00000001 00000001\n",
        );
        assert_eq!(counters.of("nf_conntrack.drop"), 11, "CPUs are summed");
        assert_eq!(counters.of("nf_conntrack.clashres"), 2);
        assert!(!counters.has("nf_conntrack.entries"));
        counters.add_lines6("Udp6RcvbufErrors                \t3\nIp6InDiscards 4\n");
        assert_eq!((counters.of("Udp6.RcvbufErrors"), counters.of("Ip6.InDiscards")), (3, 4));
        counters.add_softnet("0000000f 00000001 00000002 0\n00000001 00000000 00000001 0\n");
        assert_eq!(counters.of("softnet.processed"), 16);
        assert_eq!((counters.of("softnet.dropped"), counters.of("softnet.time_squeeze")), (1, 3));
    }

    #[test]
    fn only_what_grew_during_the_sample_counts() {
        let at = |value| {
            let mut counters = Counters::default();
            counters.set("TcpExt.ListenDrops", value);
            counters
        };
        let growth = Growth { before: at(1_000), after: at(1_000), over_ns: 1 };
        assert_eq!(growth.of("TcpExt.ListenDrops"), 0, "old drops are no present symptom");
        let growth = Growth { before: at(1_000), after: at(1_004), over_ns: 1 };
        assert_eq!(growth.grown(&["TcpExt.ListenDrops", "x.y"]), [("TcpExt.ListenDrops", 4)]);
        let new = Growth { before: Counters::default(), after: at(9), over_ns: 1 };
        assert_eq!(new.of("TcpExt.ListenDrops"), 0);
    }
}
