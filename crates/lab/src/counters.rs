//! The kernel's TCP counters of a namespace, before and after a run: the truth about
//! retransmissions.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::error::{Doing, LabError};
use crate::netns::Netns;

/// Counters by the kernel's names, without those that are 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads `/proc/net/snmp` and `/proc/net/netstat` inside the namespace.
    ///
    /// # Errors
    /// The namespace or the files cannot be opened.
    pub fn read(netns: &Netns) -> Result<Counters, LabError> {
        let text = netns
            .inside(|| {
                // `/proc/net` shows the namespace of the process, `thread-self` that of the thread.
                let snmp = fs::read_to_string("/proc/thread-self/net/snmp")?;
                Ok(snmp + &fs::read_to_string("/proc/thread-self/net/netstat")?)
            })?
            .doing("read the kernel's counters")?;
        Ok(Counters::parse(&text))
    }

    /// Parses pairs of lines with the same prefix, `Tcp:` or `TcpExt:`: first names, then values.
    fn parse(text: &str) -> Counters {
        let lines: Vec<&str> = text.lines().collect();
        let tcp = lines
            .chunks(2)
            .filter(|pair| pair.iter().all(|l| l.starts_with("Tcp:") || l.starts_with("TcpExt:")));
        let pairs = tcp.flat_map(|pair| match pair {
            [names, values] => {
                names.split_whitespace().zip(values.split_whitespace()).skip(1).collect()
            }
            _ => Vec::new(),
        });
        Counters(pairs.filter_map(|(name, v)| Some((name.to_owned(), v.parse().ok()?))).collect())
    }

    /// Returns the increase since `before`.
    pub fn since(&self, before: &Counters) -> Counters {
        let grown = self.0.iter().map(|(name, v)| (name.clone(), v - before.of(name).min(*v)));
        Counters(grown.filter(|(_, v)| *v > 0).collect())
    }

    /// Returns the counter `name` (`TCPTimeouts`, `RetransSegs`, …); 0 if the kernel does not have
    /// it.
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Counters;

    #[test]
    fn only_what_grew_is_kept() {
        let text = |n: u32| {
            format!(
                "Ip: A B\nIp: 1 2\nTcp: RetransSegs InErrs\nTcp: {n} 0\n\
                 TcpExt: TCPTimeouts DelayedACKs\nTcpExt: {} 7\n",
                n + 1
            )
        };
        let grown = Counters::parse(&text(5)).since(&Counters::parse(&text(2)));
        assert_eq!(grown.of("RetransSegs"), 3);
        assert_eq!(grown.of("TCPTimeouts"), 3);
        assert_eq!(grown.0.len(), 2);
    }
}
